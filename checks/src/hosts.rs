//! Hosts on this machine: network and mount namespaces with an sshd each, on a bridge.
//!
//! Main type: [`Lab`]. Each host has its own `/run`, `/tmp`, `/srv` and `/var/lib`, so that
//! leftovers can be seen, and its own home directory: start-up files of this machine's shell may
//! wait for locks left by a killed check. A `dfsbench` installed on this machine is hidden, because
//! hosts would use it instead of the pushed one. Needs root. Ends when the value is dropped, or
//! with the process.
//!
//! **Source:** sshd_config(5), ip-netns(8), unshare(1).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::check::wait_until;
use crate::guard::{self, Ticket};
use crate::ours::Ours;
use crate::proc::{self, Background};
use crate::repo::{self, Profile};

/// Maximum number of hosts in a lab; [`Lab`]'s configuration files for ssh contain this many.
pub const HOSTS_MAX: u32 = 10;

/// The program that controls the hosts, and that is pushed to them.
pub const OURS: Ours = Ours::new(Profile::Debug);

/// Timeout for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum time until an agent whose controller is gone exits: 5 s of silence, plus its cleanup.
pub const LEAVING: Duration = Duration::from_secs(40);

/// Number of labs started by a program of checks, which may have several at once.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Some hosts and a bridge.
pub struct Lab {
    /// Keys, configuration files for ssh, plans and results.
    pub folder: TempDir,
    /// The directory shared by all hosts.
    pub shared: TempDir,
    /// Name of the namespace with the bridge; its other end is the controller's.
    pub bridge: String,
    /// Part of the names of its namespaces that distinguishes it from others.
    id: String,
    hosts: Vec<Host>,
    _tickets: Vec<Ticket>,
}

/// A host in namespaces of its own.
struct Host {
    namespace: String,
    sshd: Background,
    _ticket: Ticket,
}

impl Lab {
    /// Starts this many hosts, and waits until ssh reaches all of them.
    ///
    /// # Errors
    /// If one can't be started, or we aren't root.
    pub fn start(hosts: u32) -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-hosts-")?;
        let id = format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Relaxed));
        let bridge = format!("dfsbench-br-{id}");
        for key in ["id", "other", "hostkey"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key));
            proc::run_command(&mut keygen)?;
        }
        for (name, key, known) in
            [("config", "id", "no"), ("wrong-key", "other", "no"), ("unknown", "id", "yes")]
        {
            let text = client_config(&folder.path().join(key), known);
            fs::write(folder.path().join(name), text)?;
        }
        // The client sends a variable that names another directory for the program.
        let text = client_config(&folder.path().join("id"), "no");
        let variable = " SetEnv XDG_CACHE_HOME=/run/elsewhere\n";
        fs::write(folder.path().join("elsewhere"), text + variable)?;
        ip(&["netns", "add", &bridge])?;
        // Hosts have their own /tmp.
        let shared = TempDir::with_prefix_in("dfsbench-shared-", "/var/tmp")?;
        let tickets = vec![
            guard::remove_folder(folder.path()),
            guard::remove_folder(shared.path()),
            guard::register_script(&format!("ip netns del {bridge} 2>/dev/null")),
        ];
        let mut lab = Self { folder, shared, id, bridge, hosts: Vec::new(), _tickets: tickets };
        let bridge = lab.bridge.clone();
        ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &bridge, "addr", "add", "10.79.0.254/24", "dev", "br0"])?;
        ip(&["-n", &bridge, "link", "set", "br0", "up"])?;
        // Traffic from the controller to its own address goes this way.
        ip(&["-n", &bridge, "link", "set", "lo", "up"])?;
        for number in 1..=hosts {
            let host = lab.start_host(number)?;
            lab.hosts.push(host);
        }
        lab.await_sshd()?;
        Ok(lab)
    }

    fn start_host(&self, number: u32) -> Result<Host> {
        let namespace = format!("dfsbench-h{number}-{}", self.id);
        let bridge = self.bridge.as_str();
        let veth = format!("v{number}");
        ip(&["netns", "add", &namespace])?;
        let mut pair = vec!["-n", bridge, "link", "add", &veth, "type", "veth", "peer", "name"];
        pair.extend(["eth0", "netns", &namespace]);
        ip(&pair)?;
        ip(&["-n", bridge, "link", "set", &veth, "master", "br0", "up"])?;
        let address = format!("10.79.0.{number}/24");
        ip(&["-n", &namespace, "addr", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
        ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, "unshare", "--mount", "--propagation"]);
        command.args(["private", "sh", "-c", INSIDE, "sh"]).arg(self.folder.path());
        command.arg(repo::systems_environment().join("bin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Agents and servers started on the host are in its namespace, too.
        let ticket = guard::register_script(&format!(
            "for id in $(ip netns pids {namespace}); do kill -9 $id; done; ip netns del {namespace}"
        ));
        Ok(Host { sshd: Background::start(&mut command)?, namespace, _ticket: ticket })
    }

    /// Returns the program that is pushed to hosts.
    pub fn program() -> PathBuf {
        OURS.command().get_program().into()
    }

    fn await_sshd(&self) -> Result<()> {
        wait_until(PATIENCE, "sshd", || {
            let answers = |host: &str| self.near("ssh").args(self.ssh(host, "true")).output();
            let works = |host: String| answers(&host).is_ok_and(|output| output.status.success());
            (1..=self.hosts.len()).map(|number| format!("h{number}")).all(works)
        })
    }

    fn ssh(&self, host: &str, words: &str) -> Vec<String> {
        let config = self.folder.path().join("config").display().to_string();
        ["-F", &config, "-o", "BatchMode=yes", host, words].map(str::to_owned).to_vec()
    }

    /// Returns a command on the controller's side of the bridge.
    pub fn near(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.bridge, program]).stdin(Stdio::null());
        // The compressed program is stored there, and removed with the lab.
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        // These hosts must not use what others have recorded.
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command
    }

    /// Returns the command for our program next to the hosts, with the program used for agents.
    pub fn ours(&self) -> Command {
        let mut command = self.near(&OURS.command().get_program().to_string_lossy());
        command.env("NO_COLOR", "1").env("DFSBENCH_AGENT_BINARY", Self::program());
        command
    }

    /// Numbers of the hosts.
    pub fn numbers(&self) -> Vec<usize> {
        (0..self.hosts.len()).collect()
    }

    /// Returns the `[[host]]` tables of a plan, with as many of these names as there are hosts.
    pub fn named_hosts(&self, names: &[&str]) -> String {
        let config = self.folder.path().join("config").display().to_string();
        let mut tables = Vec::new();
        for (name, number) in names.iter().zip(1..=self.hosts.len()) {
            let place = format!("ssh = \"h{number}\"\naddress = \"10.79.0.{number}\"");
            tables
                .push(format!("[[host]]\nname = \"{name}\"\n{place}\nssh_config = \"{config}\"\n"));
        }
        tables.concat()
    }

    /// Runs a program on a host and returns its output.
    ///
    /// # Errors
    /// If it fails.
    pub fn run_on(&self, host: usize, words: &[&str]) -> Result<String> {
        proc::capture_text(self.command_on(host).args(words))
    }

    /// Returns a command that runs a program on a host; its words still have to be added.
    pub fn command_on(&self, host: usize) -> Command {
        let mut command = Command::new("nsenter");
        let id = self.hosts[host].sshd.id().to_string();
        command.args(["--mount", "--net", "-t", &id]);
        command
    }

    /// Kills the programs of a host whose names start with `start`, and returns how many there
    /// were.
    ///
    /// # Errors
    /// If they can't be listed.
    pub fn kill_programs(&self, host: usize, start: &str) -> Result<usize> {
        let namespace = &self.hosts[host].namespace;
        let pids = proc::capture_text(Command::new("ip").args(["netns", "pids", namespace]))?;
        let mut programs = Vec::new();
        for pid in pids.lines() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.starts_with(start) {
                programs.push(pid);
            }
        }
        if !programs.is_empty() {
            proc::capture_output(Command::new("kill").arg("-9").args(&programs))?;
        }
        Ok(programs.len())
    }

    /// Returns the command of a run on the first two hosts; `work` is factors and workloads.
    ///
    /// # Errors
    /// If the plan can't be written.
    pub fn campaign(&self, config: &str, work: &str) -> Result<Command> {
        for host in 0..2 {
            self.clear_host(host)?;
        }
        let plan = self.folder.path().join("plan.toml");
        let config = self.folder.path().join(config).display().to_string();
        fs::write(&plan, PLAN.replace("CONFIG", &config).replace("WORK", work))?;
        let mut command = self.ours();
        command.arg("run").arg(&plan).arg("--quiet").arg("--results");
        command.arg(self.folder.path().join("results.db"));
        Ok(command)
    }

    /// Makes a run as in [`Lab::campaign`], and returns its output.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn finish_campaign(&self, config: &str, work: &str) -> Result<Output> {
        proc::capture_output(&mut self.campaign(config, work)?)
    }

    /// Starts a long campaign, and waits until the first host is working.
    ///
    /// # Errors
    /// If no host works in time.
    pub fn start_long_campaign(&self, work: &str) -> Result<Background> {
        let mut command = self.campaign("config", work)?;
        let out = |name: &str| fs::File::create(self.folder.path().join(name));
        command.stdout(out("stdout")?).stderr(out("stderr")?);
        let campaign = Background::start(&mut command)?;
        wait_until(PATIENCE, "a trial", || self.works(0))?;
        Ok(campaign)
    }

    /// Returns true if a mix is running on a host: its working directory has the file.
    pub fn works(&self, host: usize) -> bool {
        let line = "find /srv/data /run/dfsbench -type f 2>/dev/null || true";
        let found = self.run_on(host, &["sh", "-c", line]);
        found.is_ok_and(|text| !text.is_empty())
    }

    /// Returns what the most recently started campaign has printed on stdout.
    ///
    /// # Errors
    /// If none was started.
    pub fn output_text(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("stdout"))?)
    }

    /// Kills agents of these hosts, all at once, and returns how many there were.
    ///
    /// # Errors
    /// If they can't be listed.
    pub fn kill_agents(&self, hosts: &[usize]) -> Result<usize> {
        let mut pids = Vec::new();
        for host in hosts {
            pids.extend(self.agents(*host)?.into_iter().map(|agent| agent.to_string()));
        }
        if !pids.is_empty() {
            // One may exit because another does, before its turn comes.
            proc::capture_output(Command::new("kill").arg("-9").args(&pids))?;
        }
        Ok(pids.len())
    }

    /// Removes leftovers of a failed check from a host, so that the next one is independent.
    ///
    /// This hides nothing: each check waits at its end until nothing is left, and fails otherwise.
    /// Leftovers would be taken for the work of the next campaign.
    fn clear_host(&self, host: usize) -> Result<()> {
        let left = self.list_left(host)?;
        if left == NOTHING_LEFT {
            return Ok(());
        }
        println!("removed from host {}, left by a check that failed: {left}", host + 1);
        self.kill_agents(&[host])?;
        let line = "for dir in $(grep -o ' /run/dfsbench[^ ]*' /proc/self/mounts | sort -r); do \
                    umount -l \"$dir\"; done; \
                    find /tmp /srv/data /run/dfsbench -mindepth 1 -delete 2>/dev/null; true";
        self.run_on(host, &["sh", "-c", line]).map(|_| ())
    }

    /// Lists our files, mounts and agents on a host.
    fn list_left(&self, host: usize) -> Result<String> {
        let files = self.run_on(host, &["find", "/tmp", "/srv/data", "-mindepth", "1"])?;
        let all_mounts = self.run_on(host, &["cat", "/proc/self/mounts"])?;
        let mounts: String =
            all_mounts.lines().filter(|mount| mount.contains(" /run/dfsbench")).collect();
        Ok(format!("{files}{mounts}{:?}", self.agents(host)?))
    }

    /// Returns the agents running on a host.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn agents(&self, host: usize) -> Result<Vec<i32>> {
        let net = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let ours = net(&self.hosts[host].sshd.id().to_string());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            // Not the shell in which sshd starts it.
            let is_agent = line.starts_with('/') && line.contains("\0agent\0--stdio\0");
            if is_agent && net(&name) == ours {
                found.extend(name.parse::<i32>());
            }
        }
        Ok(found)
    }

    /// Waits until a host has no agent, program, working directory or mount of ours.
    ///
    /// # Errors
    /// If something is left at the limit.
    pub fn await_nothing(&self, host: usize, limit: Duration) -> Result<()> {
        let clean = wait_until(limit, "cleaning up", || {
            self.list_left(host).is_ok_and(|left| left == NOTHING_LEFT)
        });
        clean.with_context(|| format!("left on host {}: {:?}", host + 1, self.list_left(host)))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let pids =
                proc::capture_text(Command::new("ip").args(["netns", "pids", &host.namespace]));
            for pid in pids.unwrap_or_default().lines() {
                // All of them are in a namespace that only this lab uses.
                let _ = proc::capture_output(Command::new("kill").args(["-9", pid]));
            }
            host.sshd.kill();
            let _ = ip(&["netns", "del", &host.namespace]);
        }
        let _ = ip(&["netns", "del", &self.bridge]);
    }
}

/// Listing of a host without files, mounts and agents: no line, and an empty list.
const NOTHING_LEFT: &str = "[]";

/// Runs ip(8) with these words.
///
/// # Errors
/// If it fails.
pub fn ip(words: &[&str]) -> Result<()> {
    proc::capture_stdout(Command::new("ip").args(words)).map(|_| ())
}

fn client_config(key: &Path, known: &str) -> String {
    let host = |number| format!("Host h{number}\n HostName 10.79.0.{number}\n");
    let hosts: String = (1..=HOSTS_MAX).map(host).collect();
    format!(
        "{hosts}Host *\n User root\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile \
         /dev/null\n StrictHostKeyChecking {known}\n LogLevel ERROR\n",
        key.display()
    )
}

/// Script of a host, run inside; its argument is the directory with the keys.
const INSIDE: &str = r#"
set -e
mount -t tmpfs tmpfs /run; mkdir -p /run/sshd /run/keys /run/home
cp "$1/hostkey" "$1/id.pub" "$1/id" /run/keys; chmod 600 /run/keys/hostkey /run/keys/id
sed "s|$1/id|/run/keys/id|" "$1/config" >/run/keys/config
mount --bind /run/keys/config /etc/ssh/ssh_config
for place in /srv /var/lib; do mount -t tmpfs tmpfs $place; done; mkdir /srv/data
mount -t tmpfs -o size=400m tmpfs /tmp
mount -t tmpfs tmpfs /usr/local/bin
for name in juicefs osnfs rclone weed; do
  [ ! -e "$2/$name" ] || ln -s "$2/$name" /usr/local/bin
done
[ ! -e /usr/bin/dfsbench ] || mount --bind /dev/null /usr/bin/dfsbench
exec /usr/sbin/sshd -D -f /dev/null -h /run/keys/hostkey -o AuthorizedKeysFile=/run/keys/id.pub \
  -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes -o PidFile=none -o Port=22 \
  -o AcceptEnv=XDG_CACHE_HOME -o SetEnv=HOME=/run/home -o PermitTunnel=point-to-point
"#;

/// The hosts of a plan with a server and a client; `CONFIG` is the ssh configuration.
pub const SERVER_AND_CLIENT: &str = r#"
[[host]]
name = "server"
ssh = "h1"
address = "10.79.0.1"
ssh_config = "CONFIG"
[[host]]
name = "client"
ssh = "h2"
address = "10.79.0.2"
ssh_config = "CONFIG"
"#;

const PLAN: &str = r#"
name = "hosts"
trials = 1
order = "sequential"
[[host]]
name = "one"
ssh = "h1"
ssh_config = "CONFIG"
[[host]]
name = "two"
ssh = "h2"
ssh_config = "CONFIG"
[[target]]
name = "a"
server = "one"
directory = "/srv/data"
[[target]]
name = "b"
server = "two"
directory = "/srv/data"
[factors]
data_path = "disk"
workers = 1
WORK
"#;

/// A few files on existing storage and on memory that is mounted for it.
pub const SHORT: &str = r#"
file_system = ["existing", "tmpfs"]
file_size = "4MiB"
files = 1
[[workload]]
kind = "stream"
"#;

/// A mix that is ended early.
pub const LONG: &str = r#"
file_size = "4MiB"
files = 1
duration = "10s"
[[workload]]
kind = "mixed"
"#;
