//! Issued = accounted = at the target, or the trial is invalid.
//!
//! Each truth is one comparison of what the recorder says with what somebody else counted: the
//! backend, the kernel, the server, or the files themselves. fio's nfs engine loses writes at
//! depth 32 and exits with 0; this is the page that must not let it pass.

use engine::backend::Tally;
use engine::site::Census;
use model::{Caveat, CaveatCode, NfsVersion, OpKind, Pass, PassResult, RunSpec, Stable, Truth};

use crate::ServerCounts;

/// Who else counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witnesses {
    /// The backends of all workers, or the kernel for their threads.
    pub tally: Tally,
    /// What is in the working directory after the pass.
    pub census: Option<Census>,
    /// The counters of our server before and after the pass.
    pub server: Option<(ServerCounts, ServerCounts)>,
}

/// Compares the recorder with every witness there is.
pub fn truths(spec: &RunSpec, result: &PassResult, witnesses: &Witnesses) -> Vec<Truth> {
    let mut truths = vec![issued(result)];
    truths.extend(tallied(result, &witnesses.tally));
    truths.extend(
        witnesses.census.map(|census| counted_files(spec, result, census)).into_iter().flatten(),
    );
    let repeats = witnesses.tally.recovered.repeats();
    let served = witnesses.server.map(|server| served(spec, result, server));
    truths.extend(served.into_iter().flatten().map(|truth| at_least(truth, repeats)));
    truths
}

/// Where calls were sent again a server may have carried some out twice: it must have seen what was
/// recorded, and may have seen more.
fn at_least(truth: Truth, repeats: bool) -> Truth {
    if !repeats {
        return truth;
    }
    let Truth { expected, found, source } = truth;
    Truth { expected, found: found.min(expected), source: format!("{source}, at least") }
}

/// Raises a caveat for each truth that does not hold.
pub fn doubts(truths: &[Truth]) -> Vec<Caveat> {
    let untrue = truths.iter().filter(|truth| truth.expected != truth.found);
    untrue
        .map(|truth| {
            let Truth { expected, found, source } = truth;
            CaveatCode::Accounting.because(format!("recorded {expected}, found {found} ({source})"))
        })
        .collect()
}

fn truth(expected: u64, found: u64, source: &str) -> Truth {
    Truth { expected, found, source: source.to_owned() }
}

/// Ops and bytes of a kind, those of the warm-up among them: witnesses saw them too.
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

fn issued(result: &PassResult) -> Truth {
    let issued = result.kinds.iter().map(|kind| kind.issued).sum();
    let warm = result.scope.warmup.iter().map(|warm| warm.done).sum::<u64>();
    truth(ended(result) - warm, issued, "ops issued to the backend")
}

fn tallied(result: &PassResult, tally: &Tally) -> Vec<Truth> {
    let ended = ended(result);
    let mut truths: Vec<Truth> =
        tally.ops.map(|ops| truth(ended, ops, "ops counted by the backend")).into_iter().collect();
    // A failed op may have moved part of its bytes; only clean passes can be exact.
    if result.errors() > 0 {
        return truths;
    }
    let (_, read) = of(result, OpKind::Read);
    let written = of(result, OpKind::Write).1 + of(result, OpKind::Create).1;
    let source = "bytes counted below the recorder: kernel or RPC layer";
    truths.extend(tally.read_bytes.map(|bytes| truth(read, bytes, source)));
    truths.extend(tally.write_bytes.map(|bytes| truth(written, bytes, source)));
    truths
}

fn counted_files(spec: &RunSpec, result: &PassResult, census: Census) -> Vec<Truth> {
    if result.errors() > 0 {
        return Vec::new();
    }
    let (names, sizes) = ("files in the working directory", "sizes of the files, added up");
    match result.pass {
        Pass::Write => vec![
            truth(u64::from(spec.files), census.files, names),
            truth(of(result, OpKind::Write).1, census.bytes, sizes),
        ],
        Pass::Mix => vec![truth(spec.set_bytes(), census.bytes, sizes)],
        Pass::Create => {
            let (created, bytes) = of(result, OpKind::Create);
            vec![truth(created, census.files, names), truth(bytes, census.bytes, sizes)]
        }
        Pass::Remove => {
            let left = u64::from(spec.files).saturating_sub(of(result, OpKind::Remove).0);
            vec![truth(left, census.files, names)]
        }
        _ => Vec::new(),
    }
}

/// Says whether a sync is a COMMIT: v2 has none, and what is written safely needs none.
fn commits(spec: &RunSpec) -> bool {
    let nfs = spec.nfs();
    nfs.version != NfsVersion::V2 && nfs.stable == Stable::Unstable
}

fn served(
    spec: &RunSpec,
    result: &PassResult,
    (before, after): (ServerCounts, ServerCounts),
) -> Vec<Truth> {
    if result.errors() > 0 {
        return Vec::new();
    }
    let created = of(result, OpKind::Create);
    let written = of(result, OpKind::Write).1 + created.1;
    let mut truths = vec![
        truth(
            of(result, OpKind::Read).1,
            after.read_bytes - before.read_bytes,
            "READ bytes counted by the server",
        ),
        truth(written, after.write_bytes - before.write_bytes, "WRITE bytes counted by the server"),
        truth(
            of(result, OpKind::Remove).0,
            after.removes - before.removes,
            "REMOVE calls counted by the server",
        ),
        truth(
            if commits(spec) { of(result, OpKind::Sync).0 } else { 0 },
            after.commits - before.commits,
            "COMMIT calls counted by the server",
        ),
    ];
    // A write pass creates and looks up its files while it is opened, outside the window.
    if spec.passes().contains(&Pass::Create) {
        truths.push(truth(
            created.0,
            after.creates - before.creates,
            "files that the server created",
        ));
        truths.push(truth(
            of(result, OpKind::Stat).0,
            after.lookups - before.lookups,
            "LOOKUP calls counted by the server",
        ));
    }
    truths
}
