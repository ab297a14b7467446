//! Small files next to mdtest, IOR streams, and checkpoints next to fio, on a tmpfs.
//!
//! mdtest and IOR are not packaged: their folder has to be in `PATH`, else their rows report that.
//! They run as a single process, without mpirun, and print rates per second and MiB/s. Their CPU
//! time is not compared, since starting MPI takes most of it.
//!
//! **Source:** IOR 4.1, doc/sphinx/userDoc; mdtest.c, `summarize_results`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::ours;
use crate::proc;

const FILES: &str = "50000";

/// Passes of `metadata`, each with the name of mdtest's row and the ratio to reach.
///
/// A bare loop of the same system calls creates 1.19 and removes 1.16 times as fast as mdtest.
const SMALL_PASSES: [(&str, &str, f64); 3] = [
    ("create", "File creation", 1.05),
    ("stat", "File stat", 1.2),
    ("remove", "File removal", 1.05),
];

/// Phases of io500 over large files, with IOR's name of the row and its options.
const LARGE_PHASES: [(&str, &str, &[&str]); 4] = [
    ("ior_easy_write", "write", &["-F", "-t", "2m", "-b", "256m"]),
    ("ior_easy_read", "read", &["-F", "-t", "2m", "-b", "256m"]),
    ("ior_hard_write", "write", &["-t", "47008", "-b", "47008", "-s", "5710"]),
    ("ior_hard_read", "read", &["-t", "47008", "-b", "47008", "-s", "5710"]),
];

/// Compares rates of names.
pub fn compare_small_files(setting: &Setting) -> Vec<Row> {
    SMALL_PASSES
        .iter()
        .flat_map(|(pass, row, target)| compare_names(pass, row, *target, setting))
        .collect()
}

fn compare_names(pass: &str, row: &str, rate_target: f64, setting: &Setting) -> Vec<Row> {
    let case = Case {
        name: format!("{pass} of {FILES} empty files, tmpfs"),
        unit: Unit::Ops,
        ours: Box::new(|| {
            let folder = TempDir::new_in("/dev/shm")?;
            #[rustfmt::skip]
            let flags = [
                "--workload", "metadata", "--small-files", FILES, "--small-file-size", "0",
                "--tree-sharing", "own", "--trials", "1",
            ];
            ours::ops_of_pass(&folder.path().to_string_lossy(), &flags, pass, setting)
        }),
        rivals: vec![Rival {
            name: "mdtest -F -L -u".to_owned(),
            rate_target,
            cpu_target: None,
            measure: Box::new(|| measure_mdtest(row)),
        }],
    };
    case::run(case, setting.rounds)
}

fn measure_mdtest(row: &str) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    let mut mdtest = Command::new("mdtest");
    mdtest.args(["-n", FILES, "-F", "-L", "-u", "-C", "-T", "-r", "-d"]).arg(folder.path());
    let rate = read_rate(&proc::capture_text(&mut mdtest)?, row)?;
    Ok(SideResult { rate, cpu_ns_each: None })
}

/// Compares the large phases of io500 with IOR, whose results must be close to ours.
pub fn compare_phases(setting: &Setting) -> Vec<Row> {
    LARGE_PHASES.iter().flat_map(|phase| compare_phase(*phase, setting)).collect()
}

fn compare_phase(phase: (&str, &str, &'static [&str]), setting: &Setting) -> Vec<Row> {
    let (pass, row, options) = phase;
    let case = Case {
        name: format!("io500 {pass} of 256 MiB, tmpfs"),
        unit: Unit::Bytes,
        ours: Box::new(|| {
            let folder = TempDir::new_in("/dev/shm")?;
            #[rustfmt::skip]
            let flags = [
                "--workload", "io500", "--time-max", "0", "--file-size", "256MiB",
                "--small-files", "100", "--trials", "1",
            ];
            ours::bytes_of_pass(&folder.path().to_string_lossy(), &flags, pass, setting)
        }),
        rivals: vec![Rival {
            name: format!("ior -g -e {}", options.join(" ")),
            rate_target: 0.9,
            cpu_target: None,
            measure: Box::new(|| measure_ior(row, options)),
        }],
    };
    case::run(case, setting.rounds)
}

fn measure_ior(row: &str, options: &[&str]) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    let mut ior = Command::new("ior");
    ior.args(["-w", "-r", "-g", "-e", "-o"]).arg(folder.path().join("data")).args(options);
    let mib = read_rate(&proc::capture_text(&mut ior)?, row)?;
    Ok(SideResult { rate: mib * f64::from(1_u32 << 20), cpu_ns_each: None })
}

/// Reads the first number of the row that starts with a name, and has one.
fn read_rate(output: &str, row: &str) -> Result<f64> {
    let found = output.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(row)?;
        rest.split_whitespace().next()?.parse().ok()
    });
    found.with_context(|| format!("no rate of `{row}` in its output"))
}

/// Bytes that each of 8 ranks writes, and all of them.
const RANK_BYTES: &str = "64MiB";
const RANKS: f64 = 8.0;
const RANK_MIB: f64 = 64.0;

/// Compares streams of a checkpoint.
pub fn compare_checkpoints(setting: &Setting) -> Vec<Row> {
    [("save", "write"), ("restore", "read")]
        .iter()
        .flat_map(|(pass, rw)| compare_checkpoint(pass, rw, setting))
        .collect()
}

fn compare_checkpoint(pass: &str, rw: &str, setting: &Setting) -> Vec<Row> {
    let case = Case {
        name: format!("{pass} of 8 ranks x 64 MiB, tmpfs"),
        unit: Unit::Bytes,
        ours: Box::new(|| {
            let folder = TempDir::new_in("/dev/shm")?;
            #[rustfmt::skip]
            let flags = [
                "--workload", "checkpoint", "--workers", "8", "--file-size", RANK_BYTES,
                "--backend", "posix", "--trials", "1",
            ];
            ours::bytes_of_pass(&folder.path().to_string_lossy(), &flags, pass, setting)
        }),
        rivals: vec![Rival {
            name: format!("fio --rw={rw} --bs=16m --numjobs=8 --end_fsync=1"),
            rate_target: 1.0,
            cpu_target: None,
            measure: Box::new(|| measure_fio(rw)),
        }],
    };
    case::run(case, setting.rounds)
}

/// Measures fio by the time of its slowest job, as a checkpoint's.
fn measure_fio(rw: &str) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    if rw == "read" {
        run_fio(folder.path(), "write")?;
    }
    let runtime_ms = run_fio(folder.path(), rw)?;
    let bytes = RANKS * RANK_MIB * f64::from(1_u32 << 20);
    Ok(SideResult { rate: bytes * 1e3 / runtime_ms, cpu_ns_each: None })
}

/// Runs fio and returns the milliseconds of its slowest job.
fn run_fio(folder: &Path, rw: &str) -> Result<f64> {
    let mut fio = Command::new("fio");
    fio.current_dir(folder).args(["--name=rank", "--thread", "--numjobs=8", "--bs=16m"]);
    fio.args(["--size=64m", "--ioengine=psync", "--end_fsync=1", "--invalidate=1"]);
    fio.args(["--fallocate=none", "--group_reporting", "--output-format=terse"]);
    fio.arg(format!("--rw={rw}"));
    let begun = Instant::now();
    let output = proc::capture_text(&mut fio)?;
    // Fields 9 and 50 of version 3: runtime of reads and of writes, in milliseconds.
    let field = if rw == "read" { 8 } else { 49 };
    let line = output.lines().find(|line| line.starts_with("3;")).context("fio printed no line")?;
    let ms: f64 = line.split(';').nth(field).context("fio printed fewer fields")?.parse()?;
    // A job of less than a millisecond would have no rate.
    Ok(if ms > 0.0 { ms } else { begun.elapsed().as_secs_f64() * 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rates_of_rows() {
        let text =
            "write was slow\n   File stat          95908.608   1.0\nwrite     204.95  102.49\n";
        assert!((read_rate(text, "File stat").unwrap() - 95_908.608).abs() < 1e-9);
        assert!((read_rate(text, "write").unwrap() - 204.95).abs() < 1e-9);
        assert!(read_rate(text, "read").is_err());
    }
}
