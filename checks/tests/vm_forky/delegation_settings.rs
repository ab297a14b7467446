//! Delegations in plans: the settings that turn them off, their read-back, the calls that they
//! avoid, and the hosts afterwards.
//!
//! Our program runs next to the machines and logs in to both. Their kernel grants delegations of
//! files and directories unless it is told not to.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::checks;
use checks::hosts::PATIENCE;
use checks::ours::find_evidence;
use checks::proc::{self, Background};
use checks::repo::{self, Profile};
use checks::vm::lab::Lab;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::MACHINES;

const LEASES: &str = "/proc/sys/fs/leases-enable";
const TIMESTAMPS: &str = "/sys/kernel/debug/nfsd/delegated_timestamps";
const DIRECTORIES: &str = "/sys/module/nfsv4/parameters/directory_delegations";
/// Files that each pass works on.
const FILES: u64 = 40;
/// A plan for both machines; the work and its settings follow.
const PLAN: &str = r#"
name = "delegations"
trials = 1
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
]
[[target]]
name = "nfs"
server = "server"
client = "client"
tmpfs_size = "200MiB"
[factors]
nfsvers = 4.2
invalidation = "none"
"#;
/// Files that are created, found, and opened again while their data is in the page cache.
const WORK: &str = "[[workload]]\nkind = \"metadata\"\nsmall_files = 40\n\
                    passes = \"create+stat+read_files+remove\"\n";
/// The switches of a machine, our mounts and exports, and open entries of the undo log.
pub(super) const STATE: &str = "cat /proc/sys/fs/leases-enable; \
                     cat /sys/kernel/debug/nfsd/delegated_timestamps 2>/dev/null; \
                     cat /sys/module/nfsv4/parameters/directory_delegations 2>/dev/null; \
                     grep dfsbench /proc/mounts; exportfs -s 2>/dev/null; \
                     cat /proc/fs/nfsd/threads 2>/dev/null; ls -A /run/dfsbench 2>/dev/null; \
                     cat /var/lib/dfsbench/undo.jsonl 2>/dev/null; true";

checks! {
    plan_varies_delegations_of_server: 400 s, vary_server();
    names_opens_kept_by_delegations: 300 s, name_kept_opens(true);
    silent_about_server_without_delegations: 300 s, name_kept_opens(false);
    plan_varies_delegations_of_directories: 400 s, vary_directories();
    plan_varies_delegated_timestamps: 400 s, vary_timestamps();
    clean_restores_delegations_after_kill: 400 s, kill_and_clean();
}

/// A plan in a directory of its own.
pub(super) struct Campaign {
    folder: TempDir,
}

impl Campaign {
    /// Writes a plan, after adding the machines' configuration of ssh.
    pub(super) fn new(lab: &Lab, plan: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let config = lab.ssh_config().display().to_string();
        fs::write(folder.path().join("plan.toml"), plan.replace("CONFIG", &config))?;
        // The same program as on the machines, so that it isn't copied there again.
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(folder.path().join("dfsbench"));
        proc::run_command(strip.arg(repo::dfsbench_path(Profile::Debug)))?;
        Ok(Self { folder })
    }

    /// Returns a command of our program that uses the campaign's results.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("dfsbench"));
        command.env("NO_COLOR", "1").current_dir(self.folder.path()).args(words);
        command.args(["--results", "results.db"]);
        command
    }

    /// Runs the plan and returns its report. Rows may have caveats.
    pub(super) fn run(&self, flags: &[&str]) -> Result<Value> {
        let mut run = self.command(&["run", "plan.toml", "--quiet", "--format", "json"]);
        let output = proc::capture_output(run.args(flags))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON, but: {stderr}"))
    }

    /// Prints the table and returns it.
    pub(super) fn table(&self) -> Result<String> {
        let output = proc::capture_output(&mut self.command(&["report"]))?;
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{table}");
        Ok(table)
    }
}

/// Returns how many calls of a procedure our mount made during a pass.
pub(super) fn calls(pass: &Value, procedure: &str) -> u64 {
    let name = format!("nfs./run/dfsbench/mount.{procedure}.ops");
    let hosts = pass["telemetry"].as_array().into_iter().flatten();
    let metrics = hosts.flat_map(|host| host["metrics"].as_array().into_iter().flatten());
    let values = metrics.filter(|metric| metric["name"] == *name).map(|metric| {
        let values = metric["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let at = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        at(values.last()).saturating_sub(at(values.first()))
    });
    values.sum()
}

/// Returns the delegations that clients held at the end of a pass.
fn held(pass: &Value) -> u64 {
    let hosts = pass["telemetry"].as_array().into_iter().flatten();
    let mut metrics = hosts.flat_map(|host| host["metrics"].as_array().into_iter().flatten());
    let held = metrics.find(|metric| metric["name"] == "nfsd.delegations");
    held.and_then(|metric| metric["values"][0].as_u64()).unwrap_or(u64::MAX)
}

/// Returns the only trial of each run, which must be done.
fn trials(report: &Value) -> Result<Vec<&Value>> {
    let runs = report["runs"].as_array().context("no runs")?;
    for run in runs {
        let trial = &run["trials"][0];
        let is_done = trial["state"].to_string().contains("done");
        ensure!(is_done, "{} {}", trial["state"], trial["reason"]);
    }
    Ok(runs.iter().map(|run| &run["trials"][0]).collect())
}

fn pass<'a>(trial: &'a Value, name: &str) -> Result<&'a Value> {
    let mut passes = trial["passes"].as_array().into_iter().flatten();
    passes.find(|pass| pass["pass"] == name).with_context(|| format!("no pass {name}"))
}

fn require_fact(trial: &Value, name: &str, value: &str) -> Result<()> {
    let facts = trial["facts"].as_array().context("no facts")?;
    let mut found = facts.iter().filter(|fact| fact["name"] == name).peekable();
    ensure!(found.peek().is_some(), "no fact {name}: {facts:?}");
    for fact in found {
        ensure!(fact["value"] == value, "{name}: {} instead of {value}", fact["value"]);
    }
    Ok(())
}

fn states(lab: &Lab) -> Result<[String; 2]> {
    Ok([lab.ssh("server", STATE)?, lab.ssh("client1", STATE)?])
}

/// Gives both machines their usual switches and a server that runs.
fn reset(lab: &Lab) -> Result<()> {
    let server = format!("echo 1 >{LEASES}; echo 1 >{TIMESTAMPS}; lab-export tmpfs");
    lab.ssh("server", &server)?;
    lab.ssh("client1", &format!("modprobe nfsv4; echo 1 >{DIRECTORIES}")).map(drop)
}

/// Runs a plan, and requires that the machines are as before.
fn run_restored(lab: &Lab, campaign: &Campaign, flags: &[&str]) -> Result<Value> {
    let before = states(lab)?;
    let report = campaign.run(flags)?;
    let after = states(lab)?;
    println!("afterwards: {after:?}");
    ensure!(after == before, "before:\n{before:?}\nafter:\n{after:?}");
    Ok(report)
}

/// Both levels of the server: opens take calls only without delegations.
fn vary_server() -> Result<()> {
    let lab = MACHINES.get()?;
    reset(lab)?;
    let plan = format!("{PLAN}server_delegations = [true, false]\n{WORK}");
    let campaign = Campaign::new(lab, &plan)?;
    let report = run_restored(lab, &campaign, &[])?;
    let runs = trials(&report)?;
    ensure!(runs.len() == 2, "{} runs", runs.len());
    for (trial, is_on) in runs.iter().zip([true, false]) {
        require_fact(trial, "server_delegations", &is_on.to_string())?;
        require_fact(trial, "delegations of nfsd", if is_on { "yes" } else { "no" })?;
        let [create, read, remove] =
            [pass(trial, "create")?, pass(trial, "read_files")?, pass(trial, "remove")?];
        let opens = calls(read, "OPEN") + calls(read, "OPEN_NOATTR");
        let counts = [
            ("OPENs of create", calls(create, "OPEN"), FILES),
            ("CLOSEs of create", calls(create, "CLOSE"), if is_on { 0 } else { FILES }),
            ("OPENs of read_files", opens, if is_on { 0 } else { FILES }),
            ("DELEGRETURNs of remove", calls(remove, "DELEGRETURN"), if is_on { FILES } else { 0 }),
        ];
        println!("server_delegations {is_on}: {counts:?}, {} held", held(create));
        for (what, found, expected) in counts {
            ensure!(found == expected, "{is_on}: {what}: {found}, not {expected}");
        }
        ensure!((held(create) >= FILES) == is_on, "{is_on}: {} held", held(create));
        let caveats = trial["passes"].to_string();
        for code in ["\"delegated\"", "\"option-not-effective\""] {
            ensure!(!caveats.contains(code), "{is_on}: {code} in {caveats}");
        }
    }
    ensure!(campaign.table()?.contains("server_delegations"), "no column");
    Ok(())
}

/// Nothing is requested: the caveat tells the server that grants delegations from one that doesn't.
fn name_kept_opens(is_granted: bool) -> Result<()> {
    let lab = MACHINES.get()?;
    reset(lab)?;
    lab.ssh("server", &format!("echo {} >{LEASES}", u8::from(is_granted)))?;
    let campaign = Campaign::new(lab, &format!("{PLAN}{WORK}"))?;
    let report = run_restored(lab, &campaign, &[])?;
    let found = find_evidence(&report, "delegated")?;
    println!("leases {is_granted}: {found:?}");
    ensure!(found.is_some() == is_granted, "leases {is_granted}: {found:?}");
    let runs = trials(&report)?;
    require_fact(runs[0], "delegations of nfsd", if is_granted { "yes" } else { "no" })?;
    if is_granted {
        let evidence = pass(runs[0], "read_files")?["caveats"].to_string();
        let expected = format!("{FILES} files were opened, but the client made 0 OPEN calls");
        ensure!(evidence.contains(&expected), "{evidence}");
        let evidence = pass(runs[0], "stat")?["caveats"].to_string();
        let expected = format!("{FILES} names and attributes were looked up, but");
        ensure!(evidence.contains(&expected), "{evidence}");
    }
    reset(lab)
}

/// Both levels of the client's parameter: with false, it asks for no delegation of a directory.
fn vary_directories() -> Result<()> {
    let lab = MACHINES.get()?;
    reset(lab)?;
    let work = "[[workload]]\nkind = \"op_mix\"\nrate = 20\nset_per_rate = \"64KiB\"\nduration = \"5s\"\n\
                shares = { lookup = 60, lookup_missing = 40 }\n";
    let plan = format!("{PLAN}directory_delegations = [true, false]\n{work}");
    let campaign = Campaign::new(lab, &plan)?;
    let report = run_restored(lab, &campaign, &[])?;
    for (trial, is_on) in trials(&report)?.iter().zip([true, false]) {
        require_fact(trial, "directory_delegations", &is_on.to_string())?;
        require_fact(trial, "directory delegations", if is_on { "yes" } else { "no" })?;
        let mix = pass(trial, "op_mix")?;
        println!("directory_delegations {is_on}: {} held", held(mix));
    }
    ensure!(campaign.table()?.contains("directory_delegations"), "no column");
    Ok(())
}

/// The server's timestamps, and a file system without which they can't be set.
fn vary_timestamps() -> Result<()> {
    let lab = MACHINES.get()?;
    reset(lab)?;
    let plan = format!("{PLAN}delegated_timestamps = [true, false]\n{WORK}");
    let campaign = Campaign::new(lab, &plan)?;
    let report = run_restored(lab, &campaign, &[])?;
    for (trial, is_on) in trials(&report)?.iter().zip([true, false]) {
        require_fact(trial, "delegated_timestamps", &is_on.to_string())?;
        let yes_or_no = if is_on { "yes" } else { "no" };
        require_fact(trial, "delegated timestamps of nfsd", yes_or_no)?;
    }
    lab.ssh("server", "umount /sys/kernel/debug")?;
    let report = campaign.run(&["--delegated-timestamps", "false"]);
    lab.ssh("server", "mount -t debugfs debugfs /sys/kernel/debug")?;
    let reason = report?["runs"][0]["trials"][0]["reason"].to_string();
    println!("{reason}");
    ensure!(reason.contains("debugfs, which is not mounted on /sys/kernel/debug"), "{reason}");
    Ok(())
}

/// Kills a campaign that has turned delegations off on both machines, and restores them with
/// `clean`.
fn kill_and_clean() -> Result<()> {
    let lab = MACHINES.get()?;
    reset(lab)?;
    let before = states(lab)?;
    let work = "[[workload]]\nkind = \"mixed\"\nfile_size = \"1MiB\"\nduration = \"5m\"\n";
    let off = "server_delegations = false\ndelegated_timestamps = false\n\
               directory_delegations = false\n";
    let campaign = Campaign::new(lab, &format!("{PLAN}{off}{work}"))?;
    let mut run = campaign.command(&["run", "plan.toml", "--quiet"]);
    let mut running = Background::start(&mut run)?;
    let is_off = || {
        let server = format!("grep -q 0 {LEASES} && grep -q N {TIMESTAMPS}");
        let client = format!("grep -q N {DIRECTORIES} && grep -q /run/dfsbench/mount /proc/mounts");
        lab.ssh("server", &server).is_ok() && lab.ssh("client1", &client).is_ok()
    };
    wait_until(PATIENCE, "a mount without delegations", is_off)?;
    // A controller that notices the end of an agent makes the other one restore its host.
    let controller = i32::try_from(running.id()).ok().and_then(Pid::from_raw);
    kill_process(controller.context("no process")?, Signal::STOP)?;
    for host in ["client1", "server"] {
        lab.kill_agents(host)?;
    }
    running.kill();
    // The first connection after the controller's end may fail, since it was shared with it.
    wait_until(PATIENCE, "what the killed campaign has left", is_off)?;
    let cleaned = [lab.ssh("client1", "dfsbench clean")?, lab.ssh("server", "dfsbench clean")?];
    println!("{cleaned:?}");
    let after = states(lab)?;
    ensure!(after == before, "before:\n{before:?}\nafter:\n{after:?}\n{cleaned:?}");
    Ok(())
}
