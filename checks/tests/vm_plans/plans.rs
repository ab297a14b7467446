//! Plans with hosts: dfsbench itself sets the machines up, measures on them and restores them.
//!
//! The presets `seed-001` and `seed-000` (only its scaling of clients) are run with the machines
//! instead of their hosts, scaled down. The program is installed on them once, because copying it
//! for each campaign would take emulated machines most of the time; only one plan lets dfsbench
//! copy itself. Their C library is newer than ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::{FRESH_EXPORT, NEW, OLD};
use checks::guard::{self, Ticket};
use checks::ours::exit;
use checks::proc::{self, Background};
use checks::repo;
use checks::vm::lab::Lab;
use checks::vm::peer::{self, INSTALLED};

/// The presets with machines as hosts.
const DATA_PATHS: &str = "seed-001.toml";
const SCALING: &str = "seed-000.toml";
/// A plan created here.
const KERNELS: &str = "kernels.toml";
const PLAN_OF_KERNELS: &str = r#"
name = "kernels"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
    { name = "client2", ssh = "client2", ssh_config = "CONFIG", address = "10.77.0.12" },
]
target = [
    { name = "6.12", server = "server", client = "client1", directory = "/srv/dfsbench" },
    { name = "6.1", server = "server", client = "client2", directory = "/srv/dfsbench" },
]
workload = [{ kind = "stream" }]
factors = { nfsvers = 4.2, verify = true }
"#;
/// Flags for a part of `seed-001`: files of 4 GiB become 1 MiB. The machines' ssh server forwards
/// ports, but not packets.
const SCALED_PATHS: [&str; 8] = [
    "--nfsvers",
    "2,4.2",
    "--tunnel-forwards",
    "ports",
    "--tunnel-compression",
    "true",
    "--scale",
    "0.000244",
];
/// Directory for the presets' files on the server.
const DIRECTORY: &str = "/srv/dfsbench";
/// Time limit for setting up a plan's machines, and for restoring them after its controller was
/// killed; copying a program to them takes most of it, as busy as this machine is.
const RESTORE_MAX: Duration = Duration::from_secs(180);
/// Tick length of a guest's clocks in microseconds: the usual one, and one that makes them run 5 %
/// fast, five times the limit for a caveat.
const USUAL_TICK_US: u32 = 10_000;
const FAST_TICK_US: u32 = 10_500;
/// Our mounts, exports, programs and non-empty undo logs; prints what it finds.
const TRACES: &str = "grep dfsbench /proc/mounts; exportfs -s | grep dfsbench; \
                      ls -A /srv/dfsbench 2>/dev/null; pidof dfsbench; ls -d /tmp/dfsbench-* \
                      2>/dev/null; cat /var/lib/dfsbench/undo.jsonl 2>/dev/null; true";

/// Machines and files needed by the plans.
pub struct Plans<'a> {
    lab: &'a Lab,
    folder: TempDir,
    program: PathBuf,
    _ticket: Ticket,
}

impl<'a> Plans<'a> {
    /// Creates the plan and its directory, and gives the client access to the server.
    pub fn new(lab: &'a Lab) -> Result<Self> {
        let folder = TempDir::new()?;
        let config = lab.ssh_config();
        let server = ("server", "server", "10.77.0.1");
        let preset = |name, hosts: &[_]| with_machines(name, hosts, &config);
        let plan = preset("seed-001", &[server, ("client", NEW, "10.77.0.11")])?;
        fs::write(folder.path().join(DATA_PATHS), plan)?;
        let clients = [("client1", NEW, "10.77.0.11"), ("client2", OLD, "10.77.0.12")];
        let plan = preset("seed-000", &[server, clients[0], clients[1]])?;
        fs::write(folder.path().join(SCALING), only_scaling(&plan)?)?;
        // For the tunnel: the client logs in to the server like the tests do.
        let mut copy = Command::new("scp");
        copy.arg("-F").arg(&config).arg(config.with_file_name("id"));
        proc::run_command(copy.arg(format!("{NEW}:/root/.ssh/id_ed25519")))?;
        lab.ssh(NEW, "ssh -o StrictHostKeyChecking=accept-new server true")?;
        lab.ssh("server", &format!("{FRESH_EXPORT} && mkdir -p {DIRECTORY}"))?;
        let program = peer::install_ours(lab, folder.path())?;
        let ticket = guard::remove_folder(folder.path());
        Ok(Self { lab, folder, program, _ticket: ticket })
    }

    /// Returns the laboratory's machines.
    pub fn lab(&self) -> &Lab {
        self.lab
    }

    /// A file of the checks.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a plan, and returns its path.
    pub fn write_plan(&self, name: &str, plan: &str) -> Result<PathBuf> {
        let path = self.at(name);
        fs::write(&path, plan)?;
        Ok(path)
    }

    /// Returns our program's command.
    pub fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("NO_COLOR", "1").env_remove("DFSBENCH_AGENT_BINARY").stdin(Stdio::null());
        command
    }

    /// Returns the command of a small run, with flags that override the preset.
    fn command(&self, plan: &str, flags: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("run").arg(self.at(plan));
        command.args(["--proto", "tcp", "--quiet"]);
        if !flags.contains(&"--scale") {
            command.args(["--file-size", "1MiB"]);
        }
        if !flags.contains(&"--trials") {
            command.args(["--trials", "1"]);
        }
        command.args(["--io-size", "64KiB", "--format", "json", "--results"]);
        command.arg(self.at("results.db")).args(flags);
        command
    }

    fn result(&self, plan: &str, flags: &[&str]) -> Result<(Output, Value)> {
        let output = proc::capture_output(&mut self.command(plan, flags))?;
        let json = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("no JSON, but on stderr: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok((output, json))
    }

    /// Every data path has results, and a path that a kernel does not support is a row.
    pub fn data_paths(&self) -> Result<()> {
        let (output, json) = self.result(DATA_PATHS, &SCALED_PATHS)?;
        ensure!(output.status.code() == Some(exit::INVALID), "it exited with {}", output.status);
        let runs = json["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 7, "{} runs, not 7", runs.len());
        for run in runs {
            let lab = &run["settings"]["lab"];
            let path = lab["path"].as_str().unwrap_or_default();
            let trial = &run["trials"][0];
            let version = lab["mounting"]["nfs"]["version"].as_str().unwrap_or_default();
            let state = trial["state"].to_string();
            if path != "disk" && version == "2" {
                ensure!(state.contains("failed"), "{path}, v2: {state}");
                continue;
            }
            ensure!(state.contains("done"), "{path}, v{version}: {state}");
            for pass in trial["passes"].as_array().context("no passes")? {
                // 4 GiB, scaled.
                ensure!(pass["bytes"] == 1_048_576, "{path}: {}", pass["bytes"]);
                let codes = codes(pass);
                let wrong_codes =
                    ["accounting", "cached", "retransmits", "fits-memory", "server-cached"];
                let wrong =
                    wrong_codes.iter().find(|code| path != "disk" && codes.contains(**code));
                ensure!(wrong.is_none(), "{path}, {}: {codes}", pass["pass"]);
                ensure!(codes.contains("\"emulated\""), "{path}, {}: {codes}", pass["pass"]);
            }
        }
        self.await_restored()
    }

    /// Two clients with different kernels work at the same time, and one by itself before or after
    /// them.
    pub fn scaling(&self) -> Result<()> {
        let flags = ["--client-hosts", "1,2", "--nfsvers", "3", "--nfsd-threads", "8"];
        let flags = [&flags[..], &["--mtu", "1500"]].concat();
        let (_, json) = self.result(SCALING, &flags)?;
        let runs = json["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 2, "{} runs, not 2", runs.len());
        for (clients, run) in (1_u64..).zip(runs) {
            let trial = &run["trials"][0];
            let done = trial["state"].to_string().contains("done");
            ensure!(done, "{clients}: {} {}", trial["state"], trial["reason"]);
            for pass in trial["passes"].as_array().context("no passes")? {
                let name = &pass["pass"];
                ensure!(pass["bytes"] == clients << 20, "{clients}: {name}: {}", pass["bytes"]);
                let codes = codes(pass);
                let wrong = ["accounting", "cached"].iter().find(|code| codes.contains(**code));
                ensure!(wrong.is_none(), "{clients} clients, {name}: {codes}");
            }
            let facts = trial["facts"].to_string();
            ensure!(facts.contains("10.77.0.12") == (clients == 2), "{clients}: {facts}");
        }
        self.await_restored()
    }

    /// The same server, mounted by two kernels: `target` is a factor like any other, and the facts
    /// of each client include its kernel. The clocks of one client run fast, which its passes
    /// report.
    pub fn kernels(&self) -> Result<()> {
        set_tick(self.lab, OLD, FAST_TICK_US)?;
        let config = self.lab.ssh_config().display().to_string();
        let plan = PLAN_OF_KERNELS.replace("CONFIG", &config);
        self.write_plan(KERNELS, &plan)?;
        let measured = self.result(KERNELS, &["--trials", "2"]);
        set_tick(self.lab, OLD, USUAL_TICK_US)?;
        let (_, json) = measured?;
        let runs = json["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 2, "{} runs", runs.len());
        let facts: Vec<&Value> = runs
            .iter()
            .flat_map(|run| run["trials"].as_array().into_iter().flatten())
            .flat_map(|trial| trial["facts"].as_array().into_iter().flatten())
            .filter(|fact| fact["name"] == "kernel")
            .collect();
        for (run, (kernel, client)) in runs.iter().zip([("6.12", NEW), ("6.1", OLD)]) {
            ensure!(run["settings"]["target_name"] == kernel, "{}", run["settings"]);
            for trial in run["trials"].as_array().context("no trials")? {
                let done = trial["state"].to_string().contains("done");
                ensure!(done, "{kernel}: {} {}", trial["state"], trial["reason"]);
                for pass in trial["passes"].as_array().context("no passes")? {
                    let codes = codes(pass);
                    let is_fast = codes.contains("\"clock-rate\"");
                    ensure!(is_fast == (client == OLD), "{kernel}, {}: {codes}", pass["pass"]);
                    ensure!(!codes.contains("\"clock\""), "{kernel}, {}: {codes}", pass["pass"]);
                }
            }
            let fact = facts.iter().find(|fact| fact["scope"] == client);
            let fact = fact.with_context(|| format!("{client} reports no kernel: {facts:?}"))?;
            let expected = format!("Linux {kernel}.");
            let is_reported =
                fact["value"].as_str().is_some_and(|value| value.starts_with(&expected));
            ensure!(is_reported, "{client}: {fact}");
        }
        let mut factors = Command::new(&self.program);
        factors.args(["factors", "--format", "json", "--results"]);
        let text = proc::capture_text(factors.arg(self.at("results.db")))?;
        ensure!(text.contains("\"target\""), "target is no factor: {text}");
        self.await_restored()
    }

    /// A client that mounts once reads from its own memory, one that drops its caches from the
    /// server's, and after both have remounted the server reads its disk.
    pub fn cached(&self) -> Result<()> {
        let flags = ["--data-path", "network", "--nfsvers", "4.2"];
        let how = ["--invalidation", "none,files,server-remount"];
        let (_, json) = self.result(DATA_PATHS, &[&flags[..], &how].concat())?;
        for (run, expected) in [(0, [true, false]), (1, [false, true]), (2, [false, false])] {
            let run = &json["runs"][run];
            let how = &run["settings"]["lab"]["invalidation"];
            let read = &run["trials"][0]["passes"][1];
            ensure!(read["pass"] == "read", "{how}: {}", run["trials"][0]["state"]);
            let codes = codes(read);
            let found = ["\"cached\"", "\"server-cached\""].map(|code| codes.contains(code));
            ensure!(found == expected, "{how}: {codes}");
        }
        self.await_restored()
    }

    /// Two threads and 4 KiB are granted and reported; a value that this kernel rounds ends a
    /// strict run.
    pub fn effective(&self) -> Result<()> {
        let flags = ["--data-path", "network", "--nfsvers", "3", "--nfsd-threads", "2"];
        let sizes = ["--transfer-size", "4KiB,5000", "--strict", "true"];
        let (_, json) = self.result(DATA_PATHS, &[&flags[..], &sizes].concat())?;
        let [granted, rounded] = [0, 1].map(|run| &json["runs"][run]["trials"][0]);
        let facts = granted["facts"].to_string();
        ensure!(facts.contains("rsize=4096"), "{}: {facts}", granted["state"]);
        let reason = rounded.to_string();
        ensure!(rounded["state"].to_string().contains("failed"), "{reason}");
        ensure!(reason.contains("not effective") && reason.contains("4096"), "{reason}");
        self.await_restored()
    }

    /// Debian's kernels have no LOCALIO.
    pub fn without_localio(&self) -> Result<()> {
        let flags = ["--data-path", "loopback", "--nfsvers", "4.2", "--localio", "true,false"];
        self.without_support(&flags, "LOCALIO is not supported by kernel 6.12.")
    }

    /// Clients ask for delegations of directories since 6.19.
    pub fn without_directory_delegations(&self) -> Result<()> {
        let flags = ["--data-path", "network", "--nfsvers", "4.2", "--localio", "unchanged"];
        let flags = [&flags[..], &["--directory-delegations", "true,false"]].concat();
        self.without_support(&flags, "directory_delegations is not supported by kernel 6.12.")
    }

    /// What a kernel lacks is a row with the reason if it is turned on, and nothing to turn off.
    fn without_support(&self, flags: &[&str], expected: &str) -> Result<()> {
        let (_, json) = self.result(DATA_PATHS, flags)?;
        let [on, off] = [0, 1].map(|run| &json["runs"][run]["trials"][0]);
        let reason = on.to_string();
        ensure!(on["state"].to_string().contains("failed"), "{reason}");
        ensure!(reason.contains(expected), "{reason}");
        ensure!(off["state"].to_string().contains("done"), "{}", off["state"]);
        ensure!(off["facts"].to_string().contains("not in this kernel"), "{}", off["facts"]);
        self.await_restored()
    }

    /// Starts a long campaign over the kernel's NFS, and waits until it has mounted.
    pub fn start_long_campaign(&self) -> Result<Background> {
        let flags = ["--data-path", "network", "--nfsvers", "4.2", "--file-size", "256MiB"];
        let mut command = self.command(DATA_PATHS, &flags);
        let stderr = self.at("stderr");
        command.stdout(Stdio::null()).stderr(fs::File::create(&stderr)?);
        let mut campaign = Background::start(&mut command)?;
        let mounted = self.await_traces(|traces| {
            ensure!(!campaign.has_ended(), "the campaign has ended");
            Ok(traces.contains(" nfs4 "))
        });
        mounted.with_context(|| {
            let text = fs::read_to_string(&stderr).unwrap_or_default();
            format!("no mount of a campaign that prints:\n{text}")
        })?;
        Ok(campaign)
    }

    /// Waits until the server is reachable again.
    pub fn await_server(&self) -> Result<()> {
        let end = Instant::now() + RESTORE_MAX;
        while let Err(error) = self.lab.ssh_within("server", "true", 5) {
            ensure!(Instant::now() < end, "the server is not back: {error}");
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    /// The controller is killed while a client is writing, on machines without an installed
    /// program: the copied program is removed, too.
    pub fn killed(&self) -> Result<()> {
        self.on_each_machine(&format!("mv {INSTALLED} {INSTALLED}.away"))?;
        let mut campaign = self.start_long_campaign()?;
        ensure!(self.traces()?.contains("/tmp/dfsbench-0"), "the program was not copied");
        campaign.kill();
        self.await_restored()?;
        self.on_each_machine(&format!("mv {INSTALLED}.away {INSTALLED}"))
    }

    fn on_each_machine(&self, line: &str) -> Result<()> {
        self.lab.names().into_iter().try_for_each(|host| self.lab.ssh(host, line).map(drop))
    }

    /// Waits until nothing of ours is left on any machine.
    pub fn await_restored(&self) -> Result<()> {
        let restored = self.await_traces(|traces| Ok(traces.is_empty()));
        restored.context("the machines are not as before")
    }

    /// Waits until our traces on the machines are as wanted.
    fn await_traces(&self, mut wanted: impl FnMut(&str) -> Result<bool>) -> Result<()> {
        let end = Instant::now() + RESTORE_MAX;
        loop {
            let traces = self.traces()?;
            if wanted(&traces)? {
                return Ok(());
            }
            ensure!(Instant::now() < end, "after {} s there is:\n{traces}", RESTORE_MAX.as_secs());
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn traces(&self) -> Result<String> {
        let of = |host| self.lab.ssh(host, TRACES);
        Ok(of("server")? + &of(NEW)? + &of(OLD)?)
    }
}

/// Sets the tick length of a guest's clocks, and so the rate at which they run.
///
/// **Source:** adjtimex(2), `ADJ_TICK`, which is call 159 on x86-64; `tick` is at byte 88 of
/// `struct timex`, which has 208.
fn set_tick(lab: &Lab, host: &str, tick_us: u32) -> Result<()> {
    let script = format!(
        "$timex = pack('L x4 x80 q x112', 0x4000, {tick_us}); \
         syscall(159, $timex) >= 0 or die $!"
    );
    lab.ssh(host, &format!("perl -e \"{}\"", script.replace('$', "\\$"))).map(drop)
}

/// Returns a preset with machines, their names and addresses, instead of some of its hosts.
fn with_machines(name: &str, hosts: &[(&str, &str, &str)], config: &Path) -> Result<String> {
    let mut plan = fs::read_to_string(repo::root().join(format!("presets/{name}.toml")))?;
    for (role, host, address) in hosts {
        let reached = format!("ssh = \"root@{role}\"");
        ensure!(plan.contains(&reached), "the preset {name} has no {reached}");
        let here = config.display();
        let ours = format!("ssh = \"{host}\"\nssh_config = \"{here}\"\naddress = \"{address}\"");
        plan = plan.replace(&reached, &ours);
    }
    Ok(plan)
}

/// Returns only the scaling of clients of `seed-000`, with the machines' kernel and in a directory
/// of theirs.
fn only_scaling(plan: &str) -> Result<String> {
    let marker = "client_hosts = [1, 2, 5, 10]";
    let mut parts = plan.split("[[workload]]");
    let head = parts.next().unwrap_or_default();
    let scaling = parts.find(|part| part.contains(marker)).context("no scaling of clients")?;
    let devices = "devices = [\"/dev/vdb\"] ";
    ensure!(head.contains(devices), "the targets have no {devices}");
    let directory = format!("directory = \"{DIRECTORY}\"\n#");
    let head = head.replace(devices, &directory).replace("file_system = \"ext2\"\n", "");
    Ok(format!("{head}[[workload]]\ntargets = [\"nfs\"]\n{scaling}"))
}

/// Returns the codes of a pass's caveats, as JSON.
fn codes(pass: &Value) -> String {
    let caveats = pass["caveats"].as_array().map(Vec::as_slice).unwrap_or_default();
    let codes: Vec<&Value> = caveats.iter().map(|caveat| &caveat["code"]).collect();
    format!("{codes:?}").replace("String(", "").replace(')', "")
}
