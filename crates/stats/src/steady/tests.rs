//! Tests of both sides of each limit with made-up rates.

use model::testing::RunBuilder;
use model::{Histogram, KindResult, NfsTarget, OpKind, Pass, Sampling, Target, Workload};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn spec(interval_ms: u64) -> RunSpec {
    let sampling = Sampling { interval_ms, ..Sampling::default() };
    RunBuilder::new(Workload::Mixed).sampling(sampling).build()
}

/// Returns a mix whose one-second intervals have these numbers of ops.
fn mix(ops: &[u64]) -> PassResult {
    let sample = |(number, ops): (usize, &u64)| IntervalSample {
        at_ns: (number as u64 + 1) * SECOND,
        ops: *ops,
        bytes: ops * 4096,
    };
    let window_ns = ops.len() as u64 * SECOND;
    let done = ops.iter().sum::<u64>() * 1_000_000;
    PassResult {
        window_ns,
        common_window_ns: window_ns,
        first_done_ns: window_ns,
        samples: ops.iter().enumerate().map(sample).collect(),
        ..crate::judge::tests::result(Pass::Mix, OpKind::Read, done)
    }
}

fn is_steady(ops: &[u64]) -> Option<bool> {
    let rounds = cut_rounds(&spec(1_000), &mix(ops))?;
    Steadiness::from_rates(&rounds.rates).map(Steadiness::is_steady)
}

#[test]
fn matches_numbers_computed_by_hand() {
    let found = Steadiness::from_rates(&[100.0, 110.0, 90.0, 105.0, 95.0]).unwrap();
    assert!((found.range - 0.2).abs() < 1e-12);
    // Sum of x·y: -200 - 110 + 0 + 105 + 190 = -15; of x²: 10; over four steps, of 100.
    assert!((found.slope + 0.06).abs() < 1e-12, "{found:?}");
    assert_eq!(Steadiness::from_rates(&[1.0]), None);
    assert_eq!(Steadiness::from_rates(&[0.0; 5]), None);
    assert_eq!(Steadiness::from_rates(&[]), None);
}

#[test]
fn allows_limited_range_and_slope() {
    assert_eq!(is_steady(&[1000, 1100, 900, 1100, 900]), Some(true));
    assert_eq!(is_steady(&[1000, 1101, 900, 1101, 899]), Some(false));
    assert_eq!(is_steady(&[950, 975, 1000, 1025, 1050]), Some(true));
    assert_eq!(is_steady(&[949, 974, 1000, 1026, 1052]), Some(false));
}

#[test]
fn rejects_stall_and_slow_start() {
    assert_eq!(is_steady(&[1000, 1000, 1000, 0, 1000]), Some(false));
    assert_eq!(is_steady(&[400, 1000, 1000, 1000, 1000, 1000, 1000]), Some(false));
}

#[test]
fn rounds_of_longer_passes_are_longer() {
    let even: Vec<u64> = (0..13).map(|second| 1000 + second % 2 * 300).collect();
    let found = cut_rounds(&spec(1_000), &mix(&even)).unwrap();
    assert_eq!(found.shortest_ns, 2 * SECOND);
    assert_eq!(found.rates[0].to_bits(), 1150_f64.to_bits());
    assert_eq!(is_steady(&even), Some(true));
}

#[test]
fn ignores_short_passes() {
    assert_eq!(is_steady(&[1000; 4]), None);
    assert_eq!(is_steady(&[99; 5]), None);
    assert_eq!(is_steady(&[100; 5]), Some(true));
    let mut open = spec(1_000);
    open.load.rate_per_s = 499;
    assert_eq!(cut_rounds(&open, &mix(&[499; 5])), None);
    assert!(cut_rounds(&open, &mix(&[500; 5])).is_some());
    // A round of less than a second shows the scheduler.
    let mut short = mix(&[1000; 8]);
    for sample in &mut short.samples {
        sample.at_ns /= 10;
    }
    short.first_done_ns /= 10;
    assert_eq!(cut_rounds(&spec(100), &short), None);
}

#[test]
fn excludes_start_and_end() {
    let mut tail = mix(&[1000, 1000, 1000, 1000, 1000, 100]);
    let rates = cut_rounds(&spec(1_000), &tail).unwrap().rates;
    assert!(!Steadiness::from_rates(&rates).unwrap().is_steady(), "{rates:?}");
    tail.first_done_ns = 5 * SECOND;
    let rates = cut_rounds(&spec(1_000), &tail).unwrap().rates;
    assert!(Steadiness::from_rates(&rates).unwrap().is_steady());
    tail.start_skew_ns = SECOND / 2;
    assert_eq!(cut_rounds(&spec(1_000), &tail), None, "four are left");
}

/// Returns a stream on a directory, or on a server accessed by our own client.
fn stream(target: Target, direct: bool) -> RunSpec {
    let sampling = Sampling { interval_ms: 1_000, ..Sampling::default() };
    let run = RunBuilder::new(Workload::Stream).target(target).direct(direct);
    run.sampling(sampling).workers(2).build()
}

fn directory() -> Target {
    Target::Directory { path: "/srv".into() }
}

fn server() -> Target {
    Target::Nfs(NfsTarget::new("192.0.2.1", "/export"))
}

/// Returns a pass over files with this many syncs of the given time.
fn synced(pass: Pass, ops: &[u64], syncs: u64, sync_ns: u64) -> PassResult {
    let mut result = PassResult { pass, ..mix(ops) };
    let mut times = Histogram::new();
    times.record_n(sync_ns, syncs);
    let sync = KindResult {
        kind: OpKind::Sync,
        done: syncs,
        service_time: times.clone(),
        response_time: times,
        ..result.kinds[0].clone()
    };
    result.kinds.push(sync);
    result
}

#[test]
fn judges_passes_that_move_data() {
    let is_judged = |pass, syncs| {
        let result = synced(pass, &[1000; 5], syncs, 1_000);
        cut_rounds(&stream(directory(), false), &result).is_some()
    };
    assert!(is_judged(Pass::Read, 0) && is_judged(Pass::Write, 0) && is_judged(Pass::OpMix, 3));
    assert!(!is_judged(Pass::Create, 0) && !is_judged(Pass::Stat, 0));
}

#[test]
fn suspects_sync_only_after_buffered_writes() {
    // Burst credits that last for two of five seconds.
    let result = synced(Pass::Write, &[5000, 5000, 1000, 1000, 1000], 2, 1_000);
    let is_steady = |spec: &RunSpec| {
        let rounds = cut_rounds(spec, &result)?;
        Steadiness::from_rates(&rounds.rates).map(Steadiness::is_steady)
    };
    assert_eq!(is_steady(&stream(directory(), false)), None);
    assert_eq!(is_steady(&stream(directory(), true)), Some(false));
    assert_eq!(is_steady(&stream(server(), false)), Some(false));
}

#[test]
fn excludes_last_sync_from_rounds() {
    // Two seconds of COMMIT at the end, in which no data is transferred.
    let ops = [1000, 1000, 1000, 1000, 1000, 300, 0];
    let rounds = |sync_ns| {
        let result = synced(Pass::Write, &ops, 2, sync_ns);
        cut_rounds(&stream(server(), false), &result)
    };
    let settled = rounds(2 * SECOND).unwrap();
    assert!(Steadiness::from_rates(&settled.rates).unwrap().is_steady(), "{settled:?}");
    let stalled = rounds(1_000).unwrap();
    assert!(!Steadiness::from_rates(&stalled.rates).unwrap().is_steady(), "{stalled:?}");
}

#[test]
fn ignores_long_syncs_between_files() {
    let is_judged = |syncs, sync_ns| {
        let result = synced(Pass::Write, &[1000; 6], syncs, sync_ns);
        cut_rounds(&stream(server(), false), &result).is_some()
    };
    // One file for each of two workers, then many files.
    assert!(is_judged(2, SECOND / 2) && is_judged(20, SECOND / 10));
    assert!(!is_judged(20, SECOND / 2));
}
