//! Issued = accounted = at the target, or the trial is invalid.
//!
//! Each cross-check is one comparison of what the recorder counted with an independent count:
//! the backend, the kernel, the server, or the files themselves. fio's nfs engine loses writes at
//! depth 32 and exits with 0; this is the page that must not let it pass.

mod inventory;
mod served;

use engine::backend::Tally;
use engine::target::Inventory;
use fleet::Done;
use model::{Caveat, CaveatCode, CrossCheck, OpKind, PassResult, RunSpec, Share};

use crate::ServerCounts;

/// Independent counts of a pass.
#[derive(Clone, Debug)]
pub struct CrossCheckSources {
    /// The backends of all workers, or the kernel for their threads.
    pub tally: Tally,
    /// Files, bytes, directories and links in the working directory after the pass.
    pub inventory: Option<Inventory>,
    /// The counters of our server before and after the pass.
    pub server: Option<(ServerCounts, ServerCounts)>,
    /// Workers whose files the inventory counted, where each agent counts its own.
    pub share: Share,
    /// Ops of other agents, where the inventory counted their files, too.
    pub others: Vec<Done>,
}

impl Default for CrossCheckSources {
    /// No independent counts, and no other agents.
    fn default() -> Self {
        let (tally, inventory, server) = (Tally::default(), None, None);
        Self { tally, inventory, server, share: Share::ALL, others: Vec::new() }
    }
}

/// Returns how many ops of each kind were done, the warm-up included.
pub fn done(result: &PassResult) -> Vec<Done> {
    let failed = |kind| {
        let of_kind = result.kinds.iter().filter(|recorded| recorded.kind == kind);
        of_kind.flat_map(|recorded| &recorded.errors).map(|(_, count)| count).sum()
    };
    let of_kind = |kind: &OpKind| {
        let (ops, bytes) = of(result, *kind);
        Done { kind: *kind, ops, bytes, failed: failed(*kind) }
    };
    OpKind::ALL.iter().map(of_kind).filter(|done| done.ops + done.failed > 0).collect()
}

/// Compares the recorder with every cross-check source there is.
pub fn cross_checks(
    spec: &RunSpec,
    result: &PassResult,
    sources: &CrossCheckSources,
) -> Vec<CrossCheck> {
    let mut cross_checks = vec![issued(result)];
    cross_checks.extend(tallied(result, &sources.tally));
    cross_checks.extend(
        sources
            .inventory
            .map(|inventory| inventory::cross_checks(spec, result, sources, inventory))
            .into_iter()
            .flatten(),
    );
    let repeats = sources.tally.recovered.repeats();
    let served = sources
        .server
        .as_ref()
        .map(|(before, after)| served::cross_checks(spec, result, &sources.tally, before, after));
    cross_checks
        .extend(served.into_iter().flatten().map(|cross_check| at_least(cross_check, repeats)));
    cross_checks
}

/// Allows more than was recorded where calls were sent again: a server may have carried some out
/// twice, so it must have seen what was recorded, and may have seen more.
fn at_least(cross_check: CrossCheck, repeats: bool) -> CrossCheck {
    if !repeats {
        return cross_check;
    }
    let CrossCheck { expected, found, source } = cross_check;
    CrossCheck { expected, found: found.min(expected), source: format!("{source}, at least") }
}

/// Raises a caveat for each cross-check that does not hold.
pub fn caveats(cross_checks: &[CrossCheck]) -> Vec<Caveat> {
    let untrue =
        cross_checks.iter().filter(|cross_check| cross_check.expected != cross_check.found);
    untrue
        .map(|cross_check| {
            let CrossCheck { expected, found, source } = cross_check;
            CaveatCode::Accounting.because(format!("recorded {expected}, found {found} ({source})"))
        })
        .collect()
}

fn cross_check(expected: u64, found: u64, source: &str) -> CrossCheck {
    CrossCheck { expected, found, source: source.to_owned() }
}

/// Ops and bytes of a kind, those of the warm-up among them: sources saw them too.
fn of(result: &PassResult, kind: OpKind) -> (u64, u64) {
    let found = result.kinds.iter().find(|recorded| recorded.kind == kind);
    let (ops, bytes) = found.map_or((0, 0), |recorded| (recorded.done, recorded.bytes));
    let (warm_ops, warm_bytes) = result.scope.warmed_up(kind);
    (ops + warm_ops, bytes + warm_bytes)
}

/// Ops that ended, however and whenever.
fn ended(result: &PassResult) -> u64 {
    let warm = result.scope.warmup.iter().map(|warm| warm.done).sum::<u64>();
    warm + result.kinds.iter().map(|kind| kind.done).sum::<u64>() + result.errors()
}

/// Bytes that ops of some kinds moved.
fn bytes_of(result: &PassResult, is_one: impl Fn(OpKind) -> bool) -> u64 {
    let kinds = OpKind::ALL.iter().filter(|kind| is_one(**kind));
    kinds.map(|kind| of(result, *kind).1).sum()
}

fn issued(result: &PassResult) -> CrossCheck {
    let issued = result.kinds.iter().map(|kind| kind.issued).sum();
    let warm = result.scope.warmup.iter().map(|warm| warm.done).sum::<u64>();
    cross_check(ended(result) - warm, issued, "ops issued to the backend")
}

fn tallied(result: &PassResult, tally: &Tally) -> Vec<CrossCheck> {
    let ended = ended(result);
    let mut cross_checks: Vec<CrossCheck> = tally
        .ops
        .map(|ops| cross_check(ended, ops, "ops counted by the backend"))
        .into_iter()
        .collect();
    // A failed op may have moved part of its bytes; only clean passes can be exact.
    if result.errors() > 0 {
        return cross_checks;
    }
    let (read, written) =
        (bytes_of(result, OpKind::reads_data), bytes_of(result, OpKind::writes_data));
    let source = "bytes counted below the recorder: kernel or RPC layer";
    cross_checks.extend(tally.read_bytes.map(|bytes| cross_check(read, bytes, source)));
    cross_checks.extend(tally.write_bytes.map(|bytes| cross_check(written, bytes, source)));
    cross_checks
}
