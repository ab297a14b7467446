//! Our side of the comparisons: one `dfsbench run`, and its JSON report.
//!
//! The command lines are those of [`checks::ours`]; only this module depends on the structure of
//! the report.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::Setting;
use super::case::SideResult;
use crate::proc;
use crate::repo::Profile;
use checks::ours::{Ours, Run};

/// The measured build.
pub const OURS: Ours = Ours::new(Profile::Release);

/// Random reads of 4 KiB with one worker.
pub struct Reads<'a> {
    /// A directory, or `null`.
    pub target: &'a str,
    /// Name of the backend.
    pub backend: &'a str,
    /// Ops in flight.
    pub depth: u32,
    /// Whether to bypass the page cache.
    pub direct: bool,
    /// Duration in seconds.
    pub seconds: u32,
}

/// Measures random reads once: ops per second.
///
/// # Errors
/// If the run fails, or its report has no such results.
pub fn random_reads(reads: &Reads<'_>, setting: &Setting) -> Result<SideResult> {
    let depth = reads.depth.to_string();
    let duration = format!("{}s", reads.seconds);
    #[rustfmt::skip]
    let mut flags = vec![
        "--backend", reads.backend, "--workload", "mixed", "--io-size", "4KiB",
        "--file-size", "256MiB", "--workers", "1", "--read-percent", "100",
        "--duration", &duration, "--trials", "1",
    ];
    // dfsbench refuses a setting without effect.
    if reads.backend != "posix" {
        flags.extend(["--queue-depth", &depth]);
    }
    if reads.backend != "null" {
        flags.extend(["--direct", if reads.direct { "true" } else { "false" }]);
    }
    ops_of_pass(reads.target, &flags, "mix", setting)
}

/// Measures one sequential read of a file of 1 GiB over NFS: bytes per second.
pub fn stream_read(target: &str, setting: &Setting) -> Result<SideResult> {
    #[rustfmt::skip]
    let flags = [
        "--workload", "stream", "--io-size", "1MiB", "--file-size", "1GiB",
        "--queue-depth", "8", "--workers", "1", "--trials", "1",
    ];
    bytes_of_pass(target, &flags, "read", setting)
}

/// Measures one pass of a run with these flags: bytes per second.
pub fn bytes_of_pass(
    target: &str,
    flags: &[&str],
    name: &str,
    setting: &Setting,
) -> Result<SideResult> {
    let pass = measure_pass(target, flags, name, setting)?;
    Ok(pass.figure(pass.bytes))
}

/// Measures one pass of a run with these flags: ops per second.
pub fn ops_of_pass(
    target: &str,
    flags: &[&str],
    name: &str,
    setting: &Setting,
) -> Result<SideResult> {
    let pass = measure_pass(target, flags, name, setting)?;
    Ok(pass.figure(pass.ops))
}

/// Runs transactions, and creates and removes the pool: transactions per second over all three
/// passes, and their composition.
pub fn transactions(
    target: &str,
    flags: &[&str],
    setting: &Setting,
) -> Result<(SideResult, TransactionCounts)> {
    let passes = run_trial(target, flags, setting)?;
    let made = passes.iter().find(|pass| pass.name == "transactions");
    let made = made.context("the report has no transactions")?;
    // A transaction is two ops.
    let count = made.ops / 2.0;
    let mut window_ns = 0.0;
    let mut cpu_ns = 0.0;
    for pass in &passes {
        window_ns += pass.window_ns;
        cpu_ns += pass.client_cpu_ns;
    }
    ensure!(count > 0.0 && window_ns > 0.0, "no transaction was run");
    let figure = SideResult { rate: count * 1e9 / window_ns, cpu_ns_each: Some(cpu_ns / count) };
    let made = TransactionCounts {
        created: made.count_done("create"),
        removed: made.count_done("remove"),
        read: made.count_done("read_file"),
        appended: made.count_done("append"),
    };
    Ok((figure, made))
}

/// Composition of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionCounts {
    /// Number of files created.
    pub created: u64,
    /// Number of files removed.
    pub removed: u64,
    /// Number of files read.
    pub read: u64,
    pub appended: u64,
}

/// One pass of one trial in the report.
#[derive(Deserialize)]
struct Pass {
    #[serde(rename = "pass")]
    name: String,
    window_ns: f64,
    client_cpu_ns: f64,
    ops: f64,
    bytes: f64,
    #[serde(default)]
    kinds: Vec<Kind>,
}

impl Pass {
    /// Counts the ops of a kind.
    fn count_done(&self, name: &str) -> u64 {
        let mut done = 0;
        for kind in &self.kinds {
            if kind.kind == name {
                done += kind.done;
            }
        }
        done
    }
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
    done: u64,
}

#[derive(Deserialize)]
struct Trial {
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
struct ReportedRun {
    trials: Vec<Trial>,
}

#[derive(Deserialize)]
struct Report {
    runs: Vec<ReportedRun>,
}

impl Pass {
    fn figure(&self, counted: f64) -> SideResult {
        // A program that reports no CPU time has still used some.
        let cpu_ns_each = (self.client_cpu_ns > 0.0).then(|| self.client_cpu_ns / counted);
        SideResult { rate: counted * 1e9 / self.window_ns, cpu_ns_each }
    }
}

fn measure_pass(target: &str, flags: &[&str], name: &str, setting: &Setting) -> Result<Pass> {
    find_pass(run_trial(target, flags, setting)?, name)
}

/// Makes a run and returns the passes of its first trial.
fn run_trial(target: &str, flags: &[&str], setting: &Setting) -> Result<Vec<Pass>> {
    let folder = TempDir::new_in(setting.folder.path())?;
    let results = folder.path().join("results.db");
    let run = OURS.run_command(&Run { target, results: &results, flags });
    proc::capture_stdout(&mut proc::in_own_session(&run))?;
    read_first_trial(&OURS.report(&results, "json")?)
}

/// Returns the passes of the first trial of the first run.
fn read_first_trial(json: &[u8]) -> Result<Vec<Pass>> {
    let report: Report = serde_json::from_slice(json).context("the JSON report has changed")?;
    let run = report.runs.into_iter().next().context("the report has no run")?;
    Ok(run.trials.into_iter().next().context("the report has no trial")?.passes)
}

fn find_pass(passes: Vec<Pass>, name: &str) -> Result<Pass> {
    let pass = passes.into_iter().find(|pass| pass.name == name);
    let pass = pass.with_context(|| format!("the report has no pass `{name}`"))?;
    ensure!(pass.ops > 0.0 && pass.window_ns > 0.0, "pass `{name}` did nothing");
    Ok(pass)
}

#[cfg(test)]
mod tests {
    use super::{find_pass, read_first_trial};

    #[test]
    fn figures_come_out_of_the_report() {
        let json = br#"{"schema": 1, "runs": [{"trials": [{"passes": [
            {"pass": "write", "window_ns": 1, "client_cpu_ns": 1, "ops": 1, "bytes": 1},
            {"pass": "read", "window_ns": 2000000000, "client_cpu_ns": 1000000000,
             "ops": 1000, "bytes": 4096000}]}]}]}"#;
        let pass = find_pass(read_first_trial(json).unwrap(), "read").unwrap();
        let figure = pass.figure(pass.bytes);
        assert!((figure.rate - 2_048_000.0).abs() < 1e-6);
        assert!((figure.cpu_ns_each.unwrap() - 1e9 / 4_096_000.0).abs() < 1e-6);
        assert!(find_pass(read_first_trial(json).unwrap(), "seek").is_err());
    }
}
