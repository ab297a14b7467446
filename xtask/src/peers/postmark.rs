//! Transactions next to PostMark: one pool, from its first file to its last.
//!
//! PostMark prints whole seconds, so its run is timed from outside; its CPU time is that of its
//! process. Both sides read and write each file with one call (`strace -c` shows the same number of
//! calls of each kind per transaction), and the composition of both sides' transactions has to be
//! within the spread of a fair coin. PostMark skips appends to full files; we read instead.
//!
//! **Source:** PostMark 1.51, `help` and its report; what strace saw of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::ours::{self, TransactionCounts};
use super::workloads::AGREES;
use crate::proc;

/// Initial number of files in the pool.
const FILES: &str = "1000";
/// Number of transactions; their CPU time is far above a clock tick.
const TRANSACTIONS: u32 = 100_000;

impl TransactionCounts {
    /// Checks that each half of the transactions is within the spread of a fair coin.
    ///
    /// # Errors
    /// If a count differs from half by more than five standard deviations, or one percent of the
    /// transactions: that many appends find a full file.
    pub fn check(&self) -> Result<()> {
        let half = f64::from(TRANSACTIONS) / 2.0;
        let most = 5.0 * f64::from(TRANSACTIONS).sqrt() / 2.0 + f64::from(TRANSACTIONS) / 100.0;
        for count in [self.created, self.removed, self.read, self.appended] {
            let off = (count as f64 - half).abs();
            ensure!(off <= most, "{count} of one kind in {TRANSACTIONS} transactions: {self:?}");
        }
        Ok(())
    }
}

/// Compares rates of transactions.
pub fn compare_transactions(setting: &Setting) -> Vec<Row> {
    let case = Case {
        name: format!("{TRANSACTIONS} transactions on {FILES} files and more, tmpfs"),
        unit: Unit::Ops,
        ours: Box::new(|| measure_ours(setting)),
        rivals: vec![Rival {
            name: "PostMark".to_owned(),
            rate_target: AGREES,
            cpu_target: Some(1.0),
            measure: Box::new(measure_postmark),
        }],
    };
    case::run(case, setting.rounds)
}

fn measure_ours(setting: &Setting) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    let transactions = TRANSACTIONS.to_string();
    #[rustfmt::skip]
    let flags = [
        "--workload", "transactions", "--small-files", FILES, "--transactions", &transactions,
        "--io-size", "16KiB", "--trials", "1", "--data", "zeros",
    ];
    let (figure, made) = ours::transactions(&folder.path().to_string_lossy(), &flags, setting)?;
    made.check()?;
    Ok(figure)
}

fn measure_postmark() -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    let settings = folder.path().join("settings");
    fs::write(&settings, write_commands(&folder.path().join("pool")))?;
    fs::create_dir(folder.path().join("pool"))?;
    let before_ns = proc::children_cpu_ns()?;
    let begun = Instant::now();
    let printed =
        proc::capture_text(&mut proc::in_own_session(Command::new("postmark").arg(&settings)))?;
    let taken = begun.elapsed();
    let cpu_ns = proc::children_cpu_ns()? - before_ns;
    parse_report(&printed)?.check()?;
    let count = f64::from(TRANSACTIONS);
    Ok(SideResult { rate: count / taken.as_secs_f64(), cpu_ns_each: Some(cpu_ns as f64 / count) })
}

/// Returns PostMark's commands: sizes and biases are its defaults.
fn write_commands(pool: &Path) -> String {
    let pool = pool.display();
    format!(
        "set location {pool}\nset number {FILES}\nset transactions {TRANSACTIONS}\n\
         set read 16384\nset write 16384\nset buffering false\nrun\nquit\n"
    )
}

/// Parses the composition of the transactions.
fn parse_report(printed: &str) -> Result<TransactionCounts> {
    let mixed = find_numbers(printed, "Mixed with transactions:", " files");
    let read = find_numbers(printed, "", " read (");
    let appended = find_numbers(printed, "", " appended (");
    let (&[created, removed], &[read], &[appended]) =
        (mixed.as_slice(), read.as_slice(), appended.as_slice())
    else {
        bail!("PostMark's report has changed:\n{printed}");
    };
    Ok(TransactionCounts { created, removed, read, appended })
}

/// Returns the numbers between two texts, from all lines that have one.
fn find_numbers(printed: &str, before: &str, after: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    for line in printed.lines() {
        let Some(rest) = line.trim().strip_prefix(before) else { continue };
        let Some((number, _)) = rest.split_once(after) else { continue };
        numbers.extend(number.trim().parse::<u64>());
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{TransactionCounts, parse_report};

    const PRINTED: &str = "Files:
        50946 created (6368 per second)
                Creation alone: 1000 files (1000 per second)
                Mixed with transactions: 49946 files (6243 per second)
        50067 read (6258 per second)
        49430 appended (6178 per second)
        50946 deleted (6368 per second)
                Deletion alone: 892 files (892 per second)
                Mixed with transactions: 50054 files (6256 per second)
Data:
        323.80 megabytes read (40.48 megabytes per second)";

    #[test]
    fn parses_postmark_counts() {
        let found = parse_report(PRINTED).unwrap();
        let wanted =
            TransactionCounts { created: 49_946, removed: 50_054, read: 50_067, appended: 49_430 };
        assert_eq!(found, wanted);
        found.check().unwrap();
        assert!(parse_report("no report").is_err());
    }

    #[test]
    fn detects_unfair_coin() {
        let made =
            TransactionCounts { created: 48_000, removed: 52_000, read: 50_000, appended: 50_000 };
        assert!(made.check().unwrap_err().to_string().contains("48000"));
    }
}
