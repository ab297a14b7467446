//! Settings of the kernel's server: how it reads and writes, how many threads it has, and the
//! largest payload. A plan varies them, and the server is as before afterwards.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::PATIENCE;
use checks::ours::find_evidence;
use checks::proc::{self, Background};
use checks::repo::{self, Profile};
use checks::vm::lab::Lab;
use serde_json::Value;
use tempfile::TempDir;

use super::MACHINES;

/// A plan with a file system on a disk: a tmpfs knows no other mode than buffered.
const PLAN: &str = r#"
name = "server"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
]
target = [
    { name = "nfs", server = "server", client = "client1", devices = ["/srv/dfsbench.img"],
      loop_size = "64MiB" },
]
factors = { nfsvers = 4.2, file_system = "ext4", FACTORS }
workload = [{ WORK }]
"#;
const SHORT: &str = r#"kind = "stream", file_size = "2MiB""#;
/// The workload of a campaign that is killed, or whose server somebody changes.
const LONG: &str = r#"kind = "mixed", file_size = "2MiB", duration = "LENGTH""#;
/// Modes, threads and payload of the server, and our mounts, exports, files and open entries of the
/// undo log.
const STATE: &str = "cd /sys/kernel/debug/nfsd && grep . io_cache_* disable-splice-read; \
                     cd /proc/fs/nfsd && grep . threads max_block_size; nfsdctl threads; \
                     exportfs -s; grep dfsbench /proc/mounts; \
                     ls -A /run/dfsbench /srv/dfsbench.img 2>/dev/null; \
                     cat /var/lib/dfsbench/undo.jsonl 2>/dev/null; true";

/// A campaign from this machine.
struct Campaign {
    folder: TempDir,
    program: PathBuf,
}

impl Campaign {
    fn new(lab: &Lab, factors: &str, work: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let config = lab.ssh_config().display().to_string();
        let plan = PLAN.replace("CONFIG", &config).replace("FACTORS", factors);
        fs::write(folder.path().join("plan.toml"), plan.replace("WORK", work))?;
        Ok(Self { folder, program: repo::dfsbench_path(Profile::Debug) })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).args(words);
        command.arg("--results").arg(self.folder.path().join("results.db"));
        command
    }

    fn run_command(&self) -> Command {
        let plan = self.folder.path().join("plan.toml").display().to_string();
        self.command(&["run", &plan, "--trials", "1", "--quiet", "--format", "json"])
    }

    /// Runs it and returns its report.
    fn run(&self) -> Result<Value> {
        let output = proc::capture_output(&mut self.run_command())?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            format!("no JSON, but on stderr: {}", String::from_utf8_lossy(&output.stderr))
        })
    }

    fn print_table(&self) -> Result<()> {
        let output = proc::capture_output(&mut self.command(&["report"]))?;
        println!("{}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }
}

/// Returns the value of a fact of the first trial of a run.
fn fact<'a>(run: &'a Value, name: &str) -> Option<&'a str> {
    let facts = run["trials"][0]["facts"].as_array()?;
    facts.iter().find(|fact| fact["name"] == name && fact["scope"] == "server")?["value"].as_str()
}

/// Returns a level of a run's server.
fn level<'a>(run: &'a Value, field: &str) -> &'a Value {
    &run["settings"]["lab"]["serving"][field]
}

fn runs(report: &Value) -> Result<&Vec<Value>> {
    report["runs"].as_array().context("no runs")
}

/// Runs a plan on a host and compares the host before and after it.
fn run_and_compare(factors: &str) -> Result<Value> {
    let lab = MACHINES.get()?;
    let campaign = Campaign::new(lab, factors, SHORT)?;
    let before = lab.ssh("server", STATE)?;
    let report = campaign.run()?;
    let after = lab.ssh("server", STATE)?;
    ensure!(after == before, "before:\n{before}after:\n{after}");
    campaign.print_table()?;
    for run in runs(&report)? {
        let trial = &run["trials"][0];
        let is_done = trial["state"].to_string().contains("done");
        ensure!(is_done, "{}: {} {}", run["settings"]["lab"]["serving"], trial["state"], trial);
    }
    Ok(report)
}

/// Each mode is in effect, whatever the host had.
pub fn vary_modes() -> Result<()> {
    let lab = MACHINES.get()?;
    let set = |text: &str| {
        let folder = "/sys/kernel/debug/nfsd";
        lab.ssh(
            "server",
            &format!(
                "cd {folder} && for file in io_cache_read io_cache_write \
                                    disable-splice-read; do echo {text} >$file; done"
            ),
        )
    };
    for old in ["0", "1"] {
        set(old)?;
        let modes = "nfsd_io_read = [\"buffered\", \"dontcache\", \"direct\", \"unchanged\"], \
                     nfsd_io_write = [\"direct\", \"unchanged\"]";
        let report = run_and_compare(modes)?;
        ensure!(runs(&report)?.len() == 8, "{} runs", runs(&report)?.len());
        let unchanged = if old == "0" { "buffered" } else { "dontcache" };
        for run in runs(&report)? {
            let wanted = ["io_read", "io_write"]
                .map(|field| level(run, field).as_str().unwrap_or(unchanged).to_owned());
            let found = ["read mode of nfsd", "write mode of nfsd", "splice reads of nfsd"]
                .map(|name| fact(run, name).unwrap_or("unknown").to_owned());
            println!("host has {unchanged}: {wanted:?}: {found:?}");
            ensure!(found[..2] == wanted, "{wanted:?}: {found:?}");
            let splices = if wanted[0] == "buffered" { "on" } else { "off" };
            ensure!(found[2] == splices, "{wanted:?}: {found:?}");
        }
        let ineffective = find_evidence(&report, "option-not-effective")?;
        ensure!(ineffective.is_none(), "{ineffective:?}");
    }
    set("0")?;
    Ok(())
}

/// A mode that the file system doesn't have is named.
pub fn name_modes_without_effect() -> Result<()> {
    let factors = "file_system = \"tmpfs\", nfsd_io_read = [\"buffered\", \"direct\"]";
    let lab = MACHINES.get()?;
    let campaign = Campaign::new(lab, "", SHORT)?;
    let path = campaign.folder.path().join("plan.toml");
    let plan = fs::read_to_string(&path)?;
    fs::write(
        &path,
        plan.replace("file_system = \"ext4\", ", &format!("{factors}, ")).replace(
            "devices = [\"/srv/dfsbench.img\"],\n      loop_size = \"64MiB\"",
            "tmpfs_size = \"32MiB\"",
        ),
    )?;
    let report = campaign.run()?;
    for run in runs(&report)? {
        let is_direct = level(run, "io_read") == "direct";
        let caveats = run["trials"][0]["passes"].to_string();
        let is_named = caveats.contains("tmpfs has no other mode");
        ensure!(is_named == is_direct, "direct {is_direct}: {caveats}");
    }
    Ok(())
}

/// Without debugfs, a run is a row with the reason, and the others are measured.
pub fn explain_missing_debugfs() -> Result<()> {
    let lab = MACHINES.get()?;
    let campaign = Campaign::new(lab, "nfsd_io_write = [\"unchanged\", \"direct\"]", SHORT)?;
    lab.ssh("server", "umount /sys/kernel/debug")?;
    let report = campaign.run();
    lab.ssh("server", "mount -t debugfs debugfs /sys/kernel/debug")?;
    let report = report?;
    for run in runs(&report)? {
        let trial = &run["trials"][0];
        let wants_debugfs = level(run, "io_write") == "direct";
        let shown = format!("{}{}", trial["state"], trial["reason"]);
        println!("{}: {shown}", level(run, "io_write"));
        ensure!(shown.contains("done") != wants_debugfs, "{shown}");
        ensure!(shown.contains("mount -t debugfs none") == wants_debugfs, "{shown}");
    }
    Ok(())
}

/// Dynamic threads are in effect, and the caveat names a number that changed.
pub fn vary_threads() -> Result<()> {
    let lab = MACHINES.get()?;
    // The host's own number may be dynamic, too.
    for old in ["nfsdctl threads --min-threads=0 5", "nfsdctl threads --min-threads=2 6"] {
        lab.ssh("server", old)?;
        let report = run_and_compare("nfsd_threads = [3, \"2..16\", \"2..8\"]")?;
        for run in runs(&report)? {
            let limits = ["threads_min", "threads"].map(|field| level(run, field).as_u64());
            let wanted = match limits {
                [Some(0), Some(fixed)] => fixed.to_string(),
                [Some(min), Some(max)] => format!("{min}..{max}"),
                _ => String::new(),
            };
            let found = fact(run, "threads of nfsd").unwrap_or("unknown");
            println!("{old}: {wanted}: {found}");
            ensure!(found == wanted, "{wanted}: {found}");
            let caveats = run["trials"][0]["passes"].to_string();
            let is_changed = caveats.contains("server-threads-changed");
            ensure!(!is_changed || wanted.contains(".."), "{wanted}: {caveats}");
        }
    }
    lab.ssh("server", "nfsdctl threads --min-threads=0 8").map(drop)
}

/// Somebody changes a fixed number during a pass, which is named; an unchanged one isn't.
pub fn name_changed_threads() -> Result<()> {
    let lab = MACHINES.get()?;
    let work = LONG.replace("LENGTH", "8s");
    for changes in [true, false] {
        let campaign = Campaign::new(lab, "nfsd_threads = 4", &work)?;
        let mut run = campaign.run_command();
        let output = campaign.folder.path().join("report.json");
        run.stdout(fs::File::create(&output)?);
        let mut run = Background::start(&mut run)?;
        let works = || {
            let files = "find /run/dfsbench/mount -name '*measure*' -o -size +1M 2>/dev/null";
            let line = format!("[ -n \"$({files})\" ]");
            lab.ssh("client1", &line).is_ok()
        };
        wait_until(PATIENCE, "files of the workload", works)?;
        if changes {
            lab.ssh("server", "sleep 4; echo 7 >/proc/fs/nfsd/threads")?;
        }
        ensure!(run.await_end(PATIENCE)?.is_some(), "the campaign goes on");
        let report: Value = serde_json::from_str(&fs::read_to_string(&output)?)?;
        let found = find_evidence(&report, "server-threads-changed")?;
        println!("changed {changes}: {found:?}");
        ensure!(found.is_some() == changes, "changed {changes}: {found:?}");
    }
    Ok(())
}

/// The largest payload is in effect on the server and, up to the client's own limit, on the mount.
pub fn vary_block_size() -> Result<()> {
    let report =
        run_and_compare("max_block_size = [\"64KiB\", \"1MiB\", \"4MiB\", \"unchanged\"]")?;
    for run in runs(&report)? {
        let wanted = level(run, "max_block_bytes").as_u64();
        let found = fact(run, "largest transfer of nfsd").and_then(|text| text.parse().ok());
        let facts = run["trials"][0]["facts"].as_array().context("no facts")?;
        let options = facts.iter().filter(|fact| fact["name"] == "mount options");
        let mut options = options.filter_map(|fact| fact["value"].as_str());
        let options = options.next_back().unwrap_or_default();
        let sizes: Vec<&str> = options.split(',').filter(|part| part.contains("size=")).collect();
        let caveats = run["trials"][0]["passes"].to_string();
        println!("max_block_size {wanted:?}: nfsd {found:?}, {sizes:?}");
        let Some(wanted) = wanted else { continue };
        ensure!(found == Some(wanted), "{wanted}: {found:?}");
        let used = wanted.min(CLIENT_MAX);
        ensure!(sizes == [format!("rsize={used}"), format!("wsize={used}")], "{sizes:?}");
        let is_named = caveats.contains("option-not-effective");
        ensure!(is_named == (wanted > CLIENT_MAX), "{wanted}: {caveats}");
    }
    Ok(())
}

/// Largest rsize and wsize of the kernel's client. **Source:** Linux 7.2, include/linux/nfs_xdr.h.
const CLIENT_MAX: u64 = 1 << 20;

/// Kills a campaign that has changed everything, and restores the server with `clean`.
pub fn kill_and_clean() -> Result<()> {
    let lab = MACHINES.get()?;
    let factors = "nfsd_io_read = \"direct\", nfsd_io_write = \"dontcache\", \
                   nfsd_threads = \"2..12\", max_block_size = \"256KiB\"";
    let campaign = Campaign::new(lab, factors, &LONG.replace("LENGTH", "60s"))?;
    let before = lab.ssh("server", STATE)?;
    let mut run = campaign.run_command();
    let mut run = Background::start(run.stdout(Stdio::null()))?;
    let is_changed = || {
        let line = "cd /sys/kernel/debug/nfsd && grep -q 2 io_cache_read && \
                    grep -q 1 io_cache_write && grep -q 262144 /proc/fs/nfsd/max_block_size && \
                    nfsdctl threads | grep -q 'min-threads: 2'";
        lab.ssh("server", line).is_ok()
    };
    wait_until(PATIENCE, "a changed server", is_changed)?;
    run.kill();
    for host in lab.names() {
        lab.kill_agents(host)?;
    }
    ensure!(is_changed(), "nothing was left to restore");
    let mut text = String::new();
    for host in ["client1", "server"] {
        text.push_str(&lab.ssh(host, "dfsbench clean")?);
    }
    let after = lab.ssh("server", STATE)?;
    println!("{text}");
    ensure!(after == before, "before:\n{before}after:\n{after}{text}");
    Ok(())
}
