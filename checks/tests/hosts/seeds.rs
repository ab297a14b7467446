//! The preset `seed-003` over a limited link: killed in the middle, resumed, with nothing left
//! behind.
//!
//! Server and client are dfsbench's own, so that no kernel needs NFS. The controller is killed when
//! it has reported a number of trials, never after a time.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, OURS, PATIENCE};
use checks::ours::exit;
use checks::proc::{self, Background};
use checks::repo;
use serde_json::Value;

/// Part of the preset, without kernels and with files of 416 KiB: read-ahead and transports.
const PART: &str = "--scale 0.02 --trials 3 --workload stream --backend nfs --mtu 1500 \
                    --server-kind dfsbench --nfsvers 3 --read-ahead 0,5 --transfer-size 32KiB \
                    --io-size 32KiB";
/// Read-ahead of 0 and 5 over two transports.
const RUNS: usize = 2 * 2;
const TRIALS: usize = 3;
/// Number of trials made before the controller is killed.
const KILLED_AFTER: usize = 5;
/// Our link rules, programs and notes on a host; prints the ones it finds.
const TRACES: &str = "tc qdisc show dev eth0 | grep tbf; ls -A /run/dfsbench 2>/dev/null; \
                      cat /var/lib/dfsbench/undo.jsonl 2>/dev/null; true";

/// Kills the campaign after some trials, resumes it, and checks both hosts each time.
pub fn resumed(lab: &Lab) -> Result<()> {
    let at = |name: &str| lab.folder.path().join(name);
    fs::write(at("seed-003.toml"), plan(lab)?)?;
    let results = at("seed-003.db");
    let mut run = lab.ours();
    run.arg("run")
        .arg(at("seed-003.toml"))
        .args(PART.split_whitespace())
        // A busy machine would repeat trials, and this test counts them.
        .args(["--interference", "keep", "--results"])
        .arg(&results);
    let progress = at("seed-003.progress");
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&progress)?);
    let mut controller = Background::start(&mut run)?;
    let reported = || fs::read_to_string(&progress).unwrap_or_default();
    let begin = format!("{KILLED_AFTER}/");
    let waited = wait_until(PATIENCE, "some trials", || {
        controller.has_ended() || reported().lines().any(|line| line.starts_with(&begin))
    });
    let has_ended = controller.has_ended();
    let traces = lab.run_on(0, &["sh", "-c", TRACES])?;
    controller.kill();
    waited.with_context(reported)?;
    ensure!(!has_ended, "the campaign ended before it was killed: {}", reported());
    ensure!(traces.contains("tbf"), "the link was not limited: {traces}");
    check_restored(lab)?;
    let made = count_trials(&report(lab)?);
    ensure!((KILLED_AFTER..RUNS * TRIALS).contains(&made), "{made} trials: {}", reported());
    let mut resume = lab.ours();
    resume
        .args(["resume", "--allow-program", "--quiet", "--format", "csv", "--results"])
        .arg(&results);
    let output = proc::capture_output(&mut resume)?;
    let code = output.status.code();
    ensure!([0, exit::INVALID].map(Some).contains(&code), "{output:?}");
    check_restored(lab)?;
    let json = report(lab)?;
    let runs = json["runs"].as_array().context("no runs")?;
    ensure!(runs.len() == RUNS && count_trials(&json) == RUNS * TRIALS, "{json}");
    // The first sentence answers the preset author's question.
    let text = String::from_utf8(OURS.report(&results, "markdown")?)?;
    let ranking = text.find("How much each factor matters").context(text.clone())?;
    ensure!(text.find("Fastest: ").is_some_and(|reached| ranking < reached), "{text}");
    Ok(())
}

/// Returns the preset with the lab's hosts instead of its own.
fn plan(lab: &Lab) -> Result<String> {
    let mut plan = fs::read_to_string(repo::root().join("presets/seed-003.toml"))?;
    let config = lab.folder.path().join("config").display().to_string();
    for (role, host, number) in [("server", "h1", 1), ("client", "h2", 2)] {
        let reached = format!("ssh = \"root@{role}\"");
        ensure!(plan.contains(&reached), "the preset has no {reached}");
        let ours = format!(
            "ssh = \"{host}\"\nssh_config = \"{config}\"\naddress = \"10.79.0.{number}\"\n"
        );
        plan = plan.replace(&reached, &ours);
    }
    Ok(plan)
}

fn report(lab: &Lab) -> Result<Value> {
    let json = OURS.report(&lab.folder.path().join("seed-003.db"), "json")?;
    Ok(serde_json::from_slice(&json)?)
}

/// Counts the trials that are done.
fn count_trials(json: &Value) -> usize {
    let runs = json["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let trials = runs.iter().flat_map(|run| run["trials"].as_array().into_iter().flatten());
    trials.filter(|trial| trial["state"].to_string().contains("done")).count()
}

fn check_restored(lab: &Lab) -> Result<()> {
    for host in 0..2 {
        lab.await_nothing(host, LEAVING)?;
        let traces = lab.run_on(host, &["sh", "-c", TRACES])?;
        ensure!(traces.is_empty(), "left on host {}: {traces}", host + 1);
    }
    Ok(())
}
