//! LOCALIO on a kernel that has it: the caveat, and the setting in a plan.
//!
//! A machine mounts its own export. Debian's kernels lack LOCALIO, so the image `trixie-localio`
//! has NFS modules that are built with it. That takes minutes: only `cargo xtask real localio` runs
//! this.
#![allow(clippy::print_stdout, reason = "tests print their tables")]

use anyhow::{Context, Result, ensure};
use checks::check::{Fixture, wait_until};
use checks::checks;
use checks::hosts::PATIENCE;
use checks::ours::find_evidence;
use checks::vm::guest::Mount;
use checks::vm::lab::{Lab, NewLab, TemporaryLab};
use checks::vm::machine::Suite;
use checks::vm::{self, peer};
use serde_json::Value;
use tempfile::TempDir;

/// The only machine.
const HOST: &str = "server";
const FILE_BYTES: u64 = 4 << 20;
const PARAMETER: &str = "/sys/module/nfs/parameters/localio_enabled";
/// Maximum number of calls of a pass that uses LOCALIO: the kernel falls back to a call or two of
/// v4.2 when it reads a file after its caches were dropped. Without LOCALIO there are at least 16,
/// of 1 MiB each.
const STRAY_CALLS_MAX: u64 = 4;
/// A plan for the machine itself, with both levels.
const PLAN: &str = r#"
name = "localio"
host = [{ name = "server" }]
target = [{ name = "nfs", server = "server", tmpfs_size = "32MiB" }]
factors = { nfsvers = [3, 4.2], localio = [true, false], direct = true }
workload = [{ WORK }]
"#;
const SHORT: &str = r#"kind = "stream", file_size = "16MiB""#;
/// The workload of a campaign that is killed.
const LONG: &str = r#"kind = "mixed", file_size = "1MiB", duration = "60s""#;
/// The parameter, and our mounts, exports, files and open entries of the undo log.
const STATE: &str = "cat /sys/module/nfs/parameters/localio_enabled; \
                     grep dfsbench /proc/mounts; exportfs -s; cat /proc/fs/nfsd/threads; \
                     ls -A /run/dfsbench 2>/dev/null; cat /var/lib/dfsbench/undo.jsonl \
                     2>/dev/null; true";

static MACHINE: Fixture<TemporaryLab> = Fixture::new(|| {
    vm::prepare()?;
    let server = Suite::TrixieLocalio;
    let wanted = NewLab { server, clients: Vec::new(), mtu: 1500, shared_mib: None };
    let lab = TemporaryLab::new(Lab::boot(&vm::lab_folder("test-localio"), &wanted)?);
    lab.ssh(HOST, "modprobe nfs && lab-export tmpfs")?;
    peer::install_ours(&lab, TempDir::new()?.path())?;
    Ok(lab)
});

checks! {
    raised_if_v3_bypasses_rpc: 300 s, measure("3", true);
    raised_if_v4_2_bypasses_rpc: 300 s, measure("4.2", true);
    silent_about_v3_with_localio_off: 300 s, measure("3", false);
    silent_about_v4_2_with_localio_off: 300 s, measure("4.2", false);
    plan_varies_localio: 500 s, vary(true);
    plan_restores_localio_that_was_off: 500 s, vary(false);
    clean_restores_localio_after_kill: 400 s, kill_and_clean();
}

/// Turns LOCALIO on or off.
fn switch(lab: &Lab, localio: bool) -> Result<()> {
    let letter = if localio { 'Y' } else { 'N' };
    lab.ssh(HOST, &format!("echo {letter} >{PARAMETER}")).map(drop)
}

/// Writes a plan on the machine, and returns the command that runs it.
fn campaign(lab: &Lab, work: &str) -> Result<String> {
    let plan = PLAN.replace("WORK", work);
    lab.ssh(HOST, &format!("rm -f /tmp/plan.db*; cat >/tmp/plan.toml <<'END'{plan}END\n"))?;
    Ok("dfsbench run /tmp/plan.toml --trials 1 --quiet --results /tmp/plan.db".to_owned())
}

/// Runs a plan with both levels on a host with LOCALIO on or off, and compares each level with the
/// calls that the kernel counted. The host is as before afterwards.
fn vary(was_on: bool) -> Result<()> {
    let lab = MACHINE.get()?;
    switch(lab, was_on)?;
    let before = lab.ssh(HOST, STATE)?;
    let run = campaign(lab, SHORT)?;
    let text = lab.ssh_within(HOST, &format!("{run} --format json || [ $? = 4 ]"), 400)?;
    let after = lab.ssh(HOST, STATE)?;
    ensure!(after == before, "before:\n{before}after:\n{after}");
    let report: Value = serde_json::from_str(&text).context("no JSON")?;
    let runs = report["runs"].as_array().context("no runs")?;
    ensure!(runs.len() == 4, "{} runs, not 4", runs.len());
    for run in runs {
        let mounting = &run["settings"]["lab"]["mounting"];
        let localio = mounting["localio"].as_bool().context("no level")?;
        let shown = format!("v{}, localio {localio}", mounting["nfs"]["version"]);
        let trial = &run["trials"][0];
        let is_done = trial["state"].to_string().contains("done");
        ensure!(is_done, "{shown}: {} {}", trial["state"], trial["reason"]);
        let facts = trial["facts"].as_array().context("no facts")?;
        let value = |name| facts.iter().find(|fact| fact["name"] == name).map(|f| &f["value"]);
        let expected = if localio { "yes" } else { "no" };
        let enabled = value("LOCALIO enabled").with_context(|| format!("{shown}: {facts:?}"))?;
        ensure!(enabled == expected, "{shown}: {enabled}");
        for pass in trial["passes"].as_array().context("no passes")? {
            let procedures: &[&str] =
                if pass["pass"] == "read" { &["READ", "READ_PLUS"] } else { &["WRITE"] };
            let calls: u64 = procedures.iter().map(|procedure| calls(pass, procedure)).sum();
            let shown = format!("{shown}, {}: {calls} calls", pass["pass"]);
            println!("{shown}");
            ensure!((calls > STRAY_CALLS_MAX) != localio, "{shown}");
            let caveats = pass["caveats"].to_string();
            let is_raised = ["\"localio\"", "\"option-not-effective\""]
                .iter()
                .any(|code| caveats.contains(code));
            ensure!(!is_raised && caveats.contains("\"shared-host\""), "{shown}: {caveats}");
        }
    }
    let table = lab.ssh(HOST, "dfsbench report --results /tmp/plan.db || [ $? = 4 ]")?;
    ensure!(table.contains("localio"), "no column: {table}");
    let factors = lab.ssh(HOST, "dfsbench factors --results /tmp/plan.db || [ $? = 4 ]")?;
    ensure!(factors.contains("localio"), "no factor: {factors}");
    println!("{table}{factors}");
    Ok(())
}

/// Returns how many calls of a procedure our mount made during a pass.
fn calls(pass: &Value, procedure: &str) -> u64 {
    let name = format!("nfs./run/dfsbench/mount.{procedure}.ops");
    let hosts = pass["telemetry"].as_array().map(Vec::as_slice).unwrap_or_default();
    let metrics = hosts.iter().flat_map(|host| host["metrics"].as_array().into_iter().flatten());
    let values = metrics.filter(|metric| metric["name"] == *name).map(|metric| {
        let values = metric["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let at = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        at(values.last()).saturating_sub(at(values.first()))
    });
    values.sum()
}

/// Kills a campaign that has turned LOCALIO off, and restores the host with `clean`.
fn kill_and_clean() -> Result<()> {
    let lab = MACHINE.get()?;
    switch(lab, true)?;
    let before = lab.ssh(HOST, STATE)?;
    let run = campaign(lab, LONG)?;
    lab.ssh(HOST, &format!("{run} --localio false >/tmp/plan.out 2>&1 </dev/null &"))?;
    let is_used = || {
        let line = format!("grep -q N {PARAMETER} && grep -q /run/dfsbench/mount /proc/mounts");
        lab.ssh(HOST, &line).is_ok()
    };
    let output = || lab.ssh(HOST, "cat /tmp/plan.out").unwrap_or_default();
    wait_until(PATIENCE, "a mount without LOCALIO", is_used).with_context(output)?;
    lab.kill_agents(HOST)?;
    ensure!(is_used(), "nothing was left to restore");
    let text = lab.ssh(HOST, "dfsbench clean")?;
    let after = lab.ssh(HOST, STATE)?;
    ensure!(after == before, "before:\n{before}after:\n{after}{text}");
    Ok(())
}

/// Measures a mount with LOCALIO on or off, and compares the caveats with the kernel's counts.
fn measure(version: &str, localio: bool) -> Result<()> {
    let lab = MACHINE.get()?;
    switch(lab, localio)?;
    let options = format!("vers={version}");
    let mount = Mount { lab, client: HOST, source: "server:/export", options: &options };
    let output = mount.run(&format!(
        "rm -f /tmp/results.db; dfsbench run /mnt/nfs --workload stream --direct true --trials 1 \
         --file-size {FILE_BYTES} --quiet --format json --results /tmp/results.db || [ $? = 4 ]; \
         snapshot measured"
    ))?;
    let counts = output.at("measured")?;
    let calls = |name: &str| counts.calls.get(name).copied().unwrap_or(0);
    // A client of v4.2 reads with READ_PLUS.
    let reads = calls("READ") + calls("READ_PLUS");
    let writes = calls("WRITE");
    ensure!(counts.read_bytes >= FILE_BYTES && counts.written_bytes >= FILE_BYTES, "{counts:?}");
    let bypassed = reads == 0 && writes == 0;
    ensure!(bypassed == localio, "LOCALIO {localio}: {reads} READs, {writes} WRITEs");
    let report: Value = serde_json::from_str(&output.lines.join("\n")).context("no JSON")?;
    let shared = find_evidence(&report, "shared-host")?;
    ensure!(shared.is_some(), "shared-host is missing: {report}");
    let found = find_evidence(&report, "localio")?;
    ensure!(found.is_some() == localio, "LOCALIO {localio}: {found:?}");
    Ok(())
}
