//! fio as a peer: random reads of one job, and what its JSON says about them.
//!
//! Principal type: [`Job`]. Options that make fio faster without changing the work are on for it:
//! threads instead of processes, no map of what was read, no repeatable seed.
//!
//! **Source:** fio 3.33, HOWTO, "I/O engine" and "JSON output".

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::case::Figure;
use crate::proc;

/// One fio job of 4 KiB random reads.
pub struct Job<'a> {
    /// `--ioengine`.
    pub engine: &'a str,
    /// Ops in flight.
    pub depth: u32,
    /// The file to read; `null` needs none.
    pub file: Option<&'a Path>,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// How long it runs, in seconds.
    pub seconds: u32,
    /// What else makes it fast.
    pub extra: &'a [&'a str],
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<JobOutput>,
}

#[derive(Deserialize)]
struct JobOutput {
    error: i32,
    read: Direction,
    /// Milliseconds.
    job_runtime: f64,
    /// Per cent of one processor.
    usr_cpu: f64,
    /// Per cent of one processor.
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Direction {
    iops: f64,
    total_ios: u64,
}

impl Job<'_> {
    /// Runs it once.
    ///
    /// # Errors
    /// Where fio fails or read nothing.
    pub fn run(&self, folder: &Path) -> Result<Figure> {
        let mut command = Command::new("fio");
        command.current_dir(folder).args(["--name=peer", "--output-format=json", "--thread"]);
        command.args(["--rw=randread", "--bs=4k", "--norandommap", "--randrepeat=0"]);
        command.args(["--time_based", "--invalidate=0"]);
        command.arg(format!("--runtime={}", self.seconds));
        // An engine's own options are known only after the engine.
        command.arg(format!("--ioengine={}", self.engine)).args(self.extra);
        command.arg(format!("--iodepth={}", self.depth));
        command.arg(format!("--size={}", self.size_bytes));
        command.arg(format!("--direct={}", u8::from(self.direct)));
        if let Some(file) = self.file {
            command.arg(format!("--filename={}", file.display()));
        }
        figure(&proc::capture(&mut command)?)
    }
}

fn figure(json: &[u8]) -> Result<Figure> {
    // fio puts its warnings before the document.
    let start = json.iter().position(|byte| *byte == b'{').context("fio printed no JSON")?;
    let output: Output = serde_json::from_slice(&json[start..]).context("fio's JSON")?;
    let job = output.jobs.first().context("fio ran no job")?;
    ensure!(job.error == 0, "fio's job ended with error {}", job.error);
    ensure!(job.read.total_ios > 0, "fio read nothing");
    let cpu_ns = (job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime * 1e6;
    Ok(Figure { rate: job.read.iops, cpu_ns_per_op: Some(cpu_ns / job.read.total_ios as f64) })
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn rate_and_processor_time_come_out_of_the_document() {
        let json = br#"fio: warning
            {"jobs": [{"error": 0, "read": {"iops": 500000.5, "total_ios": 1000000},
            "job_runtime": 2000, "usr_cpu": 30.0, "sys_cpu": 20.0}]}"#;
        let figure = figure(json).unwrap();
        assert!((figure.rate - 500_000.5).abs() < 1e-6);
        // Half a processor for 2 s over a million ops.
        assert!((figure.cpu_ns_per_op.unwrap() - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn a_job_that_read_nothing_is_an_error() {
        let json = br#"{"jobs": [{"error": 0, "read": {"iops": 0, "total_ios": 0},
            "job_runtime": 1, "usr_cpu": 0, "sys_cpu": 0}]}"#;
        assert!(figure(json).is_err());
        assert!(figure(b"fio: no").is_err());
    }
}
