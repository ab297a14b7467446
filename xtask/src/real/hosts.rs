//! Agents on ten hosts over real sshd: pushed, obeyed, lost in every way, and nothing left behind.
//!
//! Principal type: [`Lab`], network and mount namespaces with an sshd each on a bridge. Their
//! `/run`, `/tmp`, `/srv` and `/var/lib` are their own, so that what is left there can be seen.
//! Two of them are set up; what all ten do together is in `crew`.
//! Needs root. Ends with the value that stands for it.
//!
//! **Source:** sshd_config(5), ip-netns(8), unshare(1).

mod crew;
mod ladder;
mod load;
mod network;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Checks;
use super::ours::{Ours, exit};
use crate::proc::{self, Background};
use crate::repo::Profile;
use crew::Crew;

/// Hosts of the lab.
const HOSTS: u32 = 10;

const OURS: Ours = Ours::new(Profile::Debug);

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long an agent whose controller is gone may take to leave: 5 s of silence, and the work.
const LEAVING: Duration = Duration::from_secs(40);

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(lab) = checks.get("two hosts start", Lab::up) else { return };
    checks.run("two hosts are measured and left as they were", || measured(&lab));
    checks.run("a wrong key, an unknown and an absent host are told apart", || refused(&lab));
    checks.run("a full folder is a row, and the other host goes on", || full(&lab));
    checks.run("an agent that is killed is a row", || killed(&lab));
    checks.run("a host whose network is cut is a row, and cleans up by itself", || cut(&lab));
    checks.run("a controller that is killed leaves nothing", || deserted(&lab));
    checks.run("what is killed with its agents is put back by clean", || cleaned(&lab));
    checks.run("packets that the network drops fail the row with both hosts", || {
        network::large_frames_dropped(&lab)
    });
    checks.run("a ladder starts a server of ours on the server's host", || ladder::climbed(&lab));
    checks.run("which clean ends after its agent was killed", || ladder::cleaned(&lab));
    checks.run("a host that is cut off and one that is killed lose nothing in a soak", || {
        load::soaked(&lab)
    });
    checks.run("two hosts draw the curve of a server", || load::curved(&lab));
    checks.run("two hosts find with how many clients a server hangs", || load::ramped(&lab));
    let Some(crew) = checks.get("ten hosts share a folder", || Crew::of(&lab)) else { return };
    checks.run("ten hosts start together, trial after trial", || crew::together(&crew));
    checks.run("agents say little while they measure", || crew::quiet(&crew));
    checks.run("nine of ten go on when one is cut off", || crew::cut(&crew));
    checks.run("a host without room is named, and the others are cleaned", || crew::no_room(&crew));
}

/// Some hosts and a bridge.
struct Lab {
    folder: TempDir,
    /// The folder that all hosts see.
    shared: TempDir,
    bridge: String,
    hosts: Vec<Host>,
}

/// A host in namespaces of its own.
struct Host {
    namespace: String,
    sshd: Background,
}

impl Lab {
    fn up() -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-hosts-")?;
        let bridge = format!("dfsbench-br-{}", std::process::id());
        for key in ["id", "other", "hostkey"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key));
            proc::run(&mut keygen)?;
        }
        for (name, key, known) in
            [("config", "id", "no"), ("wrong-key", "other", "no"), ("unknown", "id", "yes")]
        {
            let text = client_config(&folder.path().join(key), known);
            fs::write(folder.path().join(name), text)?;
        }
        // Debug information is most of what would be pushed to each host.
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(folder.path().join("stripped"));
        proc::run(strip.arg(OURS.command().get_program()))?;
        ip(&["netns", "add", &bridge])?;
        // Hosts have a /tmp of their own.
        let shared = TempDir::with_prefix_in("dfsbench-shared-", "/var/tmp")?;
        let mut lab = Self { folder, shared, bridge, hosts: Vec::new() };
        let bridge = lab.bridge.clone();
        ip(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &bridge, "addr", "add", "10.79.0.254/24", "dev", "br0"])?;
        ip(&["-n", &bridge, "link", "set", "br0", "up"])?;
        for number in 1..=HOSTS {
            let host = lab.host(number)?;
            lab.hosts.push(host);
        }
        lab.await_sshd()?;
        Ok(lab)
    }

    fn host(&self, number: u32) -> Result<Host> {
        let namespace = format!("dfsbench-h{number}-{}", std::process::id());
        let (bridge, veth) = (self.bridge.as_str(), format!("v{number}"));
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
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Host { sshd: Background::start(&mut command)?, namespace })
    }

    /// Returns the program that is put on hosts.
    fn program(&self) -> PathBuf {
        self.folder.path().join("stripped")
    }

    fn await_sshd(&self) -> Result<()> {
        within(PATIENCE, "sshd", || {
            let answers = |host: &str| self.near("ssh").args(self.ssh(host, "true")).output();
            let works = |host: String| answers(&host).is_ok_and(|output| output.status.success());
            (1..=HOSTS).map(|number| format!("h{number}")).all(works)
        })
    }

    fn ssh(&self, host: &str, words: &str) -> Vec<String> {
        let config = self.folder.path().join("config").display().to_string();
        ["-F", &config, "-o", "BatchMode=yes", host, words].map(str::to_owned).to_vec()
    }

    /// A program on the controller's side of the bridge.
    fn near(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.bridge, program]).stdin(Stdio::null());
        command
    }

    /// Runs a program on a host and returns what it prints.
    fn on(&self, host: usize, words: &[&str]) -> Result<String> {
        let id = self.hosts[host].sshd.id().to_string();
        proc::text(Command::new("nsenter").args(["--mount", "--net", "-t", &id]).args(words))
    }

    /// A run of a plan over both hosts.
    fn campaign(&self, config: &str, work: &str) -> Result<Command> {
        let plan = self.folder.path().join("plan.toml");
        let config = self.folder.path().join(config).display().to_string();
        fs::write(&plan, PLAN.replace("CONFIG", &config).replace("WORK", work))?;
        let program = OURS.command();
        let mut command = self.near(&program.get_program().to_string_lossy());
        command.env("DFSBENCH_AGENT_BINARY", self.program());
        command.env("NO_COLOR", "1").arg("run").arg(&plan).arg("--quiet").arg("--results");
        command.arg(self.folder.path().join("results.db"));
        Ok(command)
    }

    fn finished(&self, config: &str, work: &str) -> Result<Output> {
        proc::output(&mut self.campaign(config, work)?)
    }

    /// Starts a campaign that works for long, and waits until the first host does.
    fn busy(&self, work: &str) -> Result<Background> {
        let mut command = self.campaign("config", work)?;
        let out = |name: &str| fs::File::create(self.folder.path().join(name));
        command.stdout(out("stdout")?).stderr(out("stderr")?);
        let campaign = Background::start(&mut command)?;
        within(PATIENCE, "a trial", || self.works(0))?;
        Ok(campaign)
    }

    /// Says whether a mix runs on a host: its working directory has the file.
    fn works(&self, host: usize) -> bool {
        let line = "find /srv/data /run/dfsbench -type f 2>/dev/null || true";
        let found = self.on(host, &["sh", "-c", line]);
        found.is_ok_and(|text| !text.is_empty())
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("stdout"))?)
    }

    /// Agents that run on a host.
    fn agents(&self, host: usize) -> Result<Vec<i32>> {
        let net = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let ours = net(&self.hosts[host].sshd.id().to_string());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            // Not the shell that sshd starts it with.
            let is_agent = line.starts_with('/') && line.contains("\0agent\0--stdio\0--pushed");
            if is_agent && net(&name) == ours {
                found.extend(name.parse::<i32>());
            }
        }
        Ok(found)
    }

    /// Waits until a host has no agent, program, working directory or mount of ours.
    fn await_nothing(&self, host: usize, limit: Duration) -> Result<()> {
        let left = || -> Result<String> {
            let find = ["find", "/tmp", "/srv/data", "-mindepth", "1"];
            let mounts = self.on(host, &["cat", "/proc/self/mounts"])?;
            let mounts = mounts.lines().filter(|line| line.contains(" /run/dfsbench"));
            let mounts: String = mounts.collect();
            Ok(format!("{}{mounts}{:?}", self.on(host, &find)?, self.agents(host)?))
        };
        let clean = within(limit, "cleaning up", || left().is_ok_and(|left| left == "[]"));
        clean.with_context(|| format!("left on host {}: {:?}", host + 1, left()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let pids = proc::text(Command::new("ip").args(["netns", "pids", &host.namespace]));
            for pid in pids.unwrap_or_default().lines() {
                // All of them are in a namespace that only this lab has.
                let _ = proc::output(Command::new("kill").args(["-9", pid]));
            }
            host.sshd.kill();
            let _ = ip(&["netns", "del", &host.namespace]);
        }
        let _ = ip(&["netns", "del", &self.bridge]);
    }
}

fn measured(lab: &Lab) -> Result<()> {
    let output = lab.finished("config", SHORT)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(0), "{output:?}");
    let csv = OURS.report(&lab.folder.path().join("results.db"), "csv")?;
    let rows = String::from_utf8(csv)?.lines().count();
    // Two targets on two kinds of storage, a write and a read pass of each, and the head.
    ensure!(rows == 9, "{rows} rows: {said}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

fn refused(lab: &Lab) -> Result<()> {
    let told = |config: &str, words: &[&str]| -> Result<()> {
        let output = lab.finished(config, SHORT)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(exit::LAB), "{config}: {output:?}");
        ensure!(words.iter().all(|word| said.contains(word)), "{config}: {said}");
        ensure!(said.matches("error: ").count() == 1, "{config}: {said}");
        Ok(())
    };
    told("wrong-key", &["host one: it does not let us in: ", "Permission denied"])?;
    told("unknown", &["host one: ssh does not know it: ", "Host key verification failed"])?;
    let config = lab.folder.path().join("config");
    let text = fs::read_to_string(&config)?.replace("10.79.0.1\n", "10.79.0.99\n");
    fs::write(lab.folder.path().join("absent"), text.replace("10.79.0.2\n", "10.79.0.98\n"))?;
    // No route, or no answer in time, as the kernel sees fit.
    told("absent", &["host one: it can't be reached: ssh: connect to host 10.79.0.99 port 22: "])
}

fn full(lab: &Lab) -> Result<()> {
    lab.on(1, &["mount", "-o", "remount,size=1m", "/tmp"])?;
    let output = lab.finished("config", SHORT);
    lab.on(1, &["mount", "-o", "remount,size=400m", "/tmp"])?;
    let output = output?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = ["host two: /tmp/dfsbench-0 does not take the agent", "No space left on device"];
    ensure!(words.iter().all(|word| flat.contains(word)), "{said}");
    ensure!(said.contains("a       stream write"), "{said}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

fn killed(lab: &Lab) -> Result<()> {
    let mut campaign = lab.busy(LONG)?;
    for agent in lab.agents(0)? {
        proc::run(Command::new("kill").args(["-9", &agent.to_string()]))?;
    }
    ensure!(campaign.await_end(PATIENCE)? == Some(exit::INVALID), "{}", lab.said()?);
    ensure!(lab.said()?.contains("host one: the agent is gone"), "{}", lab.said()?);
    // What was killed can't remove what it measured; its program is removed all the same.
    let work = lab.on(0, &["find", "/srv/data", "-mindepth", "1", "-delete"]);
    work.and_then(|_| lab.await_nothing(0, LEAVING))
}

fn cut(lab: &Lab) -> Result<()> {
    let mut campaign = lab.busy(LONG)?;
    ip(&["-n", &lab.bridge, "link", "set", "v1", "down"])?;
    let begun = Instant::now();
    let cleaned = lab.await_nothing(0, LEAVING);
    let ended = campaign.await_end(PATIENCE);
    ip(&["-n", &lab.bridge, "link", "set", "v1", "up"])?;
    cleaned.with_context(|| format!("{:?} after the cut", begun.elapsed()))?;
    ensure!(ended? == Some(exit::INVALID), "{}", lab.said()?);
    let said = lab.said()?;
    ensure!(said.contains("host one: no sign of life for 3 s"), "{said}");
    Ok(())
}

fn deserted(lab: &Lab) -> Result<()> {
    let mut campaign = lab.busy(LONG)?;
    campaign.kill();
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Neither side is left to put anything back: `clean` is told the plan, or the host.
fn cleaned(lab: &Lab) -> Result<()> {
    let mut campaign = lab.busy(&format!("file_system = [\"tmpfs\", \"existing\"]\n{LONG}"))?;
    let agents = [lab.agents(0)?, lab.agents(1)?].concat();
    // All at once, and before their controller: an agent that is left alone puts its host back.
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    proc::output(Command::new("kill").arg("-9").args(agents))?;
    campaign.kill();
    let mounts = lab.on(0, &["cat", "/proc/self/mounts"])?;
    ensure!(mounts.contains(" /run/dfsbench/storage "), "nothing was left to put back: {mounts}");
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let (plan, config) = (at("plan.toml"), at("config"));
    let clean = |words: &[&str]| -> Result<String> {
        let program = OURS.command().get_program().to_string_lossy().into_owned();
        let mut command = lab.near(&program);
        command.env("NO_COLOR", "1").env("DFSBENCH_AGENT_BINARY", lab.program());
        proc::text(command.arg("clean").args(words))
    };
    let said = clean(&[&plan])?;
    ensure!(said.contains("one: put back: mount -t tmpfs"), "{said}");
    let said = clean(&["--host", "h1", "--ssh-config", &config])?;
    ensure!(said.contains("h1: nothing to put back"), "{said}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

fn ip(words: &[&str]) -> Result<()> {
    proc::capture(Command::new("ip").args(words)).map(|_| ())
}

fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !done() {
        ensure!(Instant::now() < deadline, "{what} takes longer than {} s", limit.as_secs());
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn client_config(key: &Path, known: &str) -> String {
    let host = |number| format!("Host h{number}\n HostName 10.79.0.{number}\n");
    let hosts: String = (1..=HOSTS).map(host).collect();
    format!(
        "{hosts}Host *\n User root\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile \
         /dev/null\n StrictHostKeyChecking {known}\n LogLevel ERROR\n",
        key.display()
    )
}

/// Script of a host, from within; its argument is the folder with the keys.
const INSIDE: &str = r#"
set -e
mount -t tmpfs tmpfs /run; mkdir -p /run/sshd /run/keys
cp "$1/hostkey" "$1/id.pub" "$1/id" /run/keys; chmod 600 /run/keys/hostkey /run/keys/id
sed "s|$1/id|/run/keys/id|" "$1/config" >/run/keys/config
mount --bind /run/keys/config /etc/ssh/ssh_config
for place in /srv /var/lib; do mount -t tmpfs tmpfs $place; done; mkdir /srv/data
mount -t tmpfs -o size=400m tmpfs /tmp
exec /usr/sbin/sshd -D -f /dev/null -h /run/keys/hostkey -o AuthorizedKeysFile=/run/keys/id.pub \
  -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes -o PidFile=none -o Port=22
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

/// A few files on what is there and on memory that is mounted for it.
const SHORT: &str = r#"
file_system = ["existing", "tmpfs"]
file_size = "4MiB"
files = 1
[[workload]]
kind = "stream"
"#;

/// A mix that nobody waits for.
const LONG: &str = r#"
file_size = "4MiB"
files = 1
duration = "10s"
[[workload]]
kind = "mixed"
"#;
