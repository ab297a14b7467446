//! Cross-checks of a pass: ops issued = ops accounted for = effects at the target. If they differ,
//! the trial is invalid.
//!
//! Each cross-check compares a number from the recorder with an independent count by the backend,
//! the kernel, the server, or the files themselves. The motivating case: fio's nfs engine loses
//! writes at depth 32 and exits with 0.

mod inventory;
mod served;

use engine::backend::BackendCounts;
use engine::target::Inventory;
use fleet::KindTotals;
use model::{Caveat, CaveatCode, CrossCheck, Evidence, OpKind, Pass, PassResult, RunSpec, Share};
use workload::FileSet;

use crate::ServerCounts;

/// Source of the number of entries that a pass must list.
const ENTRIES_PLANNED: &str = "entries created in the directories";

/// Independent counts for a pass.
#[derive(Clone, Debug)]
pub struct CrossCheckSources {
    /// Counts by the backends of all workers, or by the kernel for their threads.
    pub tally: BackendCounts,
    /// Files, bytes, directories and links in the working directory after the pass.
    pub inventory: Option<Inventory>,
    /// Bytes whose content is right, in the files that the pass has changed.
    pub right_bytes: Option<u64>,
    /// Counters of our own server during the pass.
    pub server: Option<ServerCounts>,
    /// Workers whose files are in the inventory, if each agent counts its own.
    pub share: Share,
    /// Ops of other agents, if their files are in the inventory, too.
    pub others: Vec<KindTotals>,
}

impl Default for CrossCheckSources {
    /// Returns sources without any counts.
    fn default() -> Self {
        Self {
            tally: BackendCounts::default(),
            inventory: None,
            right_bytes: None,
            server: None,
            share: Share::ALL,
            others: Vec::new(),
        }
    }
}

/// Returns the number of ops of each kind, including the warm-up.
pub fn sum_kinds(result: &PassResult) -> Vec<KindTotals> {
    let mut all = Vec::new();
    for &kind in OpKind::ALL {
        let (ops, bytes) = count_kind(result, kind);
        let mut failed = 0_u64;
        for recorded in &result.kinds {
            if recorded.kind == kind {
                for (_, count) in &recorded.errors {
                    failed = failed.saturating_add(*count);
                }
            }
        }
        if ops > 0 || failed > 0 {
            all.push(KindTotals { kind, ops, bytes, failed });
        }
    }
    all
}

/// Compares the recorder with each independent count.
pub fn cross_checks(
    spec: &RunSpec,
    result: &PassResult,
    sources: &CrossCheckSources,
) -> Vec<CrossCheck> {
    let tally = &sources.tally;
    let mut cross_checks = vec![compare_issued(result)];
    if result.pass.lists() {
        cross_checks.extend(compare_listed(result, tally));
    } else {
        cross_checks.extend(compare_tallies(result, tally));
    }
    if let Some(inventory) = sources.inventory {
        cross_checks.extend(inventory::cross_checks(spec, result, sources, inventory));
    }
    if let Some(right) = sources.right_bytes
        && result.errors() == 0
        && !spec.is_cut()
    {
        let bytes = FileSet::new(spec).bytes_of(sources.share, spec.workers);
        let source = "bytes with the right content after the pass";
        cross_checks.push(cross_check(bytes, right, source));
    }
    if let Some(served) = &sources.server {
        let is_repeated = tally.recovered.repeats();
        for cross_check in served::cross_checks(spec, result, tally, served) {
            cross_checks.push(if is_repeated { at_least(cross_check) } else { cross_check });
        }
    }
    cross_checks
}

/// Turns an exact check into a lower bound, for passes in which calls were retransmitted: the
/// server may have executed some of them twice.
fn at_least(cross_check: CrossCheck) -> CrossCheck {
    let CrossCheck { expected, found, source } = cross_check;
    CrossCheck { expected, found: found.min(expected), source: format!("{source}, at least") }
}

/// Raises a caveat for each cross-check that fails.
pub fn caveats(cross_checks: &[CrossCheck]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    for CrossCheck { expected, found, source } in cross_checks {
        if expected != found {
            let evidence = format!("recorded {expected}, found {found} ({source})");
            let data = Evidence::counts(*found, *expected, "counted", source.as_str());
            caveats.push(CaveatCode::Accounting.because(evidence).with_data(data));
        }
    }
    caveats
}

fn cross_check(expected: u64, found: u64, source: &str) -> CrossCheck {
    CrossCheck { expected, found, source: source.to_owned() }
}

/// Returns ops and bytes of a kind, including the warm-up, because the sources counted it, too.
fn count_kind(result: &PassResult, kind: OpKind) -> (u64, u64) {
    let (mut ops, mut bytes) = result.scope.warmed_up(kind);
    for recorded in &result.kinds {
        if recorded.kind == kind {
            ops += recorded.done;
            bytes += recorded.bytes;
        }
    }
    (ops, bytes)
}

/// Returns how many ops finished at any time, with any outcome.
fn ended(result: &PassResult) -> u64 {
    let mut ended = result.errors();
    ended += result.scope.warmup.iter().map(|warm| warm.done).sum::<u64>();
    ended += result.kinds.iter().map(|kind| kind.done).sum::<u64>();
    ended
}

/// Returns the bytes transferred by ops of the selected kinds.
fn bytes_of(result: &PassResult, is_one: fn(OpKind) -> bool) -> u64 {
    OpKind::ALL.iter().filter(|&&kind| is_one(kind)).map(|&kind| count_kind(result, kind).1).sum()
}

/// Compares finished ops with issued ones. An op that never finished was only issued.
fn compare_issued(result: &PassResult) -> CrossCheck {
    // Issued ops are only counted within the window, so leave out the warm-up on both sides.
    let mut window = result.errors();
    let mut issued = 0;
    for kind in &result.kinds {
        window += kind.done;
        issued += kind.issued;
    }
    let source = if result.pass.lists() { ENTRIES_PLANNED } else { "ops issued to the backend" };
    cross_check(window, issued, source)
}

/// Compares the recorder with what the backend has listed, and what a find has found with what it
/// had to find. A directory that could not be listed may still have been listed in part.
fn compare_listed(result: &PassResult, tally: &BackendCounts) -> Vec<CrossCheck> {
    if result.errors() > 0 {
        return Vec::new();
    }
    let directories = result.kinds.iter().map(|kind| kind.service_time.count()).sum();
    let source = "directories counted by the backend";
    let Some(listed) = tally.listed else {
        return tally.ops.map(|ops| cross_check(directories, ops, source)).into_iter().collect();
    };
    let mut cross_checks = vec![
        cross_check(directories, listed.directories, source),
        cross_check(ended(result), listed.entries, "entries listed by the backend"),
    ];
    if result.pass == Pass::Find {
        let source = "files to be found, found by find";
        cross_checks.push(cross_check(listed.matches_expected, listed.matches, source));
    }
    cross_checks
}

/// Compares the recorder with the counts of backends or kernel.
fn compare_tallies(result: &PassResult, tally: &BackendCounts) -> Vec<CrossCheck> {
    let mut cross_checks = Vec::new();
    if let Some(ops) = tally.ops {
        cross_checks.push(cross_check(ended(result), ops, "ops counted by the backend"));
    }
    // A failed op may have transferred part of its bytes, so byte counts are only exact without
    // errors.
    if result.errors() > 0 {
        return cross_checks;
    }
    let (_, copied) = count_kind(result, OpKind::Copy);
    if tally.ops.is_some() || tally.calls.is_some() {
        let source = "bytes that copies returned";
        cross_checks
            .extend((copied > 0).then(|| cross_check(copied, tally.ranges.copied_bytes, source)));
    }
    let source = "bytes counted by the kernel or the RPC layer";
    if let Some(bytes) = tally.read_bytes {
        cross_checks.push(cross_check(bytes_of(result, OpKind::reads_data), bytes, source));
    }
    if let Some(bytes) = tally.write_bytes {
        cross_checks.push(cross_check(bytes_of(result, OpKind::writes_data), bytes, source));
    }
    cross_checks
}
