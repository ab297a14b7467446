//! fio as a peer: random reads of one job, and its JSON output.
//!
//! Main type: [`Job`]. Options that make fio faster without changing the work are enabled: threads
//! instead of processes, no random map, no repeatable seed. Its own CPU time leaves out the
//! kernel's io_uring workers, so the whole process is counted instead, minus that of a run with one
//! op.
//!
//! **Source:** fio 3.33, HOWTO, "I/O engine" and "JSON output"; `fio_getrusage` in its `libfio.c`
//! asks for `RUSAGE_THREAD`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::case::SideResult;
use crate::proc;

/// One fio job of 4 KiB random reads.
pub struct Job<'a> {
    /// Value of `--ioengine`.
    pub engine: &'a str,
    /// Ops in flight.
    pub depth: u32,
    /// The file to read; not needed for `null`.
    pub file: Option<&'a Path>,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Whether to bypass the page cache.
    pub direct: bool,
    /// How long it runs, in seconds.
    pub seconds: u32,
    /// Further arguments that make it fast.
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
    /// If fio fails or read nothing.
    pub fn run(&self, folder: &Path) -> Result<SideResult> {
        let before = proc::children_cpu_ns()?;
        let read = self.measure_reads(folder, &["--time_based"])?;
        let after = proc::children_cpu_ns()?;
        self.measure_reads(folder, &["--number_ios=1"])?;
        let start_ns = proc::children_cpu_ns()? - after;
        let cpu_ns = (after - before).saturating_sub(start_ns);
        let cpu_ns_each = Some(cpu_ns as f64 / read.total_ios as f64);
        Ok(SideResult { rate: read.iops, cpu_ns_each })
    }

    fn measure_reads(&self, folder: &Path, until: &[&str]) -> Result<Direction> {
        let mut command = Command::new("fio");
        command.current_dir(folder).args(["--name=peer", "--output-format=json", "--thread"]);
        command.args(["--rw=randread", "--bs=4k", "--norandommap", "--randrepeat=0"]);
        command.arg("--invalidate=0").args(until);
        command.arg(format!("--runtime={}", self.seconds));
        // An engine's own options must come after the engine.
        command.arg(format!("--ioengine={}", self.engine)).args(self.extra);
        command.arg(format!("--iodepth={}", self.depth));
        command.arg(format!("--size={}", self.size_bytes));
        command.arg(format!("--direct={}", u8::from(self.direct)));
        if let Some(file) = self.file {
            command.arg(format!("--filename={}", file.display()));
        }
        parse_reads(&proc::capture_stdout(&mut command)?)
    }
}

fn parse_reads(json: &[u8]) -> Result<Direction> {
    // fio prints its warnings before the document.
    let start = json.iter().position(|byte| *byte == b'{').context("fio printed no JSON")?;
    let output: Output = serde_json::from_slice(&json[start..]).context("fio's JSON")?;
    let job = output.jobs.into_iter().next().context("fio ran no job")?;
    ensure!(job.error == 0, "fio's job ended with error {}", job.error);
    ensure!(job.read.total_ios > 0, "fio read nothing");
    Ok(job.read)
}

#[cfg(test)]
mod tests {
    use super::parse_reads;

    #[test]
    fn figures_come_out_of_the_document() {
        let json = br#"fio: warning
            {"jobs": [{"error": 0, "read": {"iops": 500000.5, "total_ios": 1000000}}]}"#;
        let read = parse_reads(json).unwrap();
        assert_eq!(read.total_ios, 1_000_000);
        assert!((read.iops - 500_000.5).abs() < 1e-6);
    }

    #[test]
    fn rejects_job_without_reads() {
        assert!(
            parse_reads(br#"{"jobs": [{"error": 0, "read": {"iops": 0, "total_ios": 0}}]}"#)
                .is_err()
        );
        assert!(parse_reads(b"fio: no").is_err());
    }
}
