//! Comparisons of complete passes with well-known tools: fio, iozone, bonnie++.
//!
//! Both sides are runs of dfsbench with the same settings on one tmpfs; the peer's uses its
//! adapter, so its results are its own. We claim similar results with no more CPU time: a ratio far
//! above 1 discredits a comparison as much as one far below.
//!
//! Both sides use pages with the same history. iozone writes a file twice before it reads it,
//! requested or not (`-i 0`), so we do the same next to it: the kernel moves a page to its active
//! list on the second use, which would otherwise be in our reads and in iozone's rewrite.
//!
//! **Source:** `folio_mark_accessed` in the kernel's `mm/swap.c`; what strace saw of iozone 3.489.

use anyhow::Result;
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::ours;

/// Minimum ratio of results that agree: rounds on a shared machine differ by that much.
pub(super) const AGREES: f64 = 0.9;

/// One pass, and the tool that runs it next to us.
struct ComparedPass {
    /// Our workload.
    ours: &'static str,
    /// The workload of the peer's adapter.
    peer: &'static str,
    /// The pass to compare.
    pass: &'static str,
    /// All passes of a trial.
    passes: &'static str,
    /// bonnie++ reports nothing that takes less than half a second, nor a CPU that was used less.
    file_size: &'static str,
}

const fn compared(
    peer: &'static str,
    pass: &'static str,
    passes: &'static str,
    file_size: &'static str,
) -> ComparedPass {
    let ours = if matches!(peer.as_bytes(), b"bonnie++") { "bonnie" } else { "stream" };
    ComparedPass { ours, peer, pass, passes, file_size }
}

const COMPARED: [ComparedPass; 9] = [
    compared("fio", "write", "write+read", "1GiB"),
    compared("fio", "read", "write+read", "1GiB"),
    compared("fio", "random_read", "write+random_read", "1GiB"),
    compared("iozone", "write", "write+rewrite", "1GiB"),
    compared("iozone", "read", "write+rewrite+read", "1GiB"),
    compared("iozone", "random_read", "write+rewrite+random_read", "1GiB"),
    compared("bonnie++", "write", "write+update+read", "5GiB"),
    compared("bonnie++", "update", "write+update+read", "5GiB"),
    compared("bonnie++", "read", "write+update+read", "5GiB"),
];

/// Creates the comparisons with one of the tools.
pub fn compare_with(peer: &str, setting: &Setting) -> Vec<Row> {
    COMPARED
        .iter()
        .filter(|compared| compared.peer == peer)
        .flat_map(|compared| compare_pass(compared, setting))
        .collect()
}

fn compare_pass(compared: &ComparedPass, setting: &Setting) -> Vec<Row> {
    let ComparedPass { ours, peer, pass, .. } = *compared;
    let case = Case {
        name: format!("{pass} of {}, 64 KiB, tmpfs", compared.file_size),
        unit: Unit::Bytes,
        ours: Box::new(|| measure_side(compared, ours, setting)),
        rivals: vec![Rival {
            name: peer.to_owned(),
            rate_target: AGREES,
            cpu_target: Some(1.0),
            measure: Box::new(|| measure_side(compared, peer, setting)),
        }],
    };
    case::run(case, setting.rounds)
}

/// Measures one side. iozone and bonnie++ write one buffer over and over, which stays in the cache;
/// next to them we write zeros, which do, too. Random data, which can't be compressed on the way,
/// costs more: see the row of fio.
fn measure_side(compared: &ComparedPass, workload: &str, setting: &Setting) -> Result<SideResult> {
    let folder = TempDir::new_in("/dev/shm")?;
    let target = folder.path().to_string_lossy();
    let ComparedPass { pass, passes, file_size, peer, .. } = *compared;
    #[rustfmt::skip]
    let mut flags = vec![
        "--workload", workload, "--passes", passes, "--file-size", file_size,
        "--io-size", "64KiB", "--trials", "1", "--durability", "none",
    ];
    if workload != peer && peer != "fio" {
        flags.extend(["--data", "zeros"]);
    }
    ours::bytes_of_pass(&target, &flags, pass, setting)
}
