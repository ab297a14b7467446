//! Directories next to `find` of findutils: the same names in a flat directory of a tmpfs.
//!
//! find prints nothing, so both sides only list and examine. Its time is that of its process;
//! CPU time includes the start, a few milliseconds of a tenth of a second.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::ours;
use crate::proc;

const ENTRIES: u32 = 300_000;
const ENTRIES_TEXT: &str = "300000";

/// Passes, each with the conditions that make find do the same.
const PASSES: [(&str, &[&str]); 3] = [
    ("list", &["-false"]),
    ("list_stat", &["-size", "+1G"]),
    // find evaluates a cheap -false before everything else, but an action only at the end.
    ("find", &["-type", "f", "-name", "*01*", "-size", "1c", "-mtime", "-1", "-printf", ""]),
];

/// Compares rates of entries.
pub fn compare_listings(setting: &Setting) -> Vec<Row> {
    PASSES.iter().flat_map(|(pass, conditions)| compare_pass(pass, conditions, setting)).collect()
}

fn compare_pass(pass: &str, conditions: &[&str], setting: &Setting) -> Vec<Row> {
    let case = Case {
        name: format!("{pass} of {ENTRIES} entries, tmpfs"),
        unit: Unit::Ops,
        ours: Box::new(|| {
            let folder = TempDir::new_in("/dev/shm")?;
            #[rustfmt::skip]
            let flags = [
                "--workload", "listing", "--passes", pass, "--entries", ENTRIES_TEXT,
                "--trials", "1",
            ];
            ours::ops_of_pass(&folder.path().to_string_lossy(), &flags, pass, setting)
        }),
        rivals: vec![Rival {
            name: format!("find {}", conditions.join(" ")),
            rate_target: 1.2,
            cpu_target: Some(1.2),
            measure: Box::new(|| measure_find(conditions)),
        }],
    };
    case::run(case, setting.rounds)
}

fn measure_find(conditions: &[&str]) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    create_files(folder.path())?;
    let before_ns = proc::children_cpu_ns()?;
    let begun = Instant::now();
    let mut find = Command::new("find");
    proc::capture_text(find.arg(folder.path()).args(conditions))?;
    let taken = begun.elapsed();
    let cpu_ns = proc::children_cpu_ns()? - before_ns;
    let count = f64::from(ENTRIES);
    Ok(SideResult { rate: count / taken.as_secs_f64(), cpu_ns_each: Some(cpu_ns as f64 / count) })
}

/// Creates the files of a `listing` run.
fn create_files(folder: &Path) -> Result<()> {
    for file in 0..ENTRIES {
        fs::write(folder.join(format!("f{file:08}")), if file % 2 == 0 { "x" } else { "" })?;
    }
    Ok(())
}
