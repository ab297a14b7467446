//! Tests that merged results equal those of a single host that ran all ops.

use fleet::ClockReading;
use fleet::clock::Sample;
use model::{IntervalStats, OpError, OpKind, Workload};
use proptest::prelude::*;

use super::*;

/// One op: its host, kind, duration in nanoseconds, and whether it failed.
type DoneOp = (usize, OpKind, u64, bool);

/// Returns the results that a recorder would produce for the given ops.
fn recorded<'d>(did: impl Iterator<Item = &'d DoneOp>) -> Vec<KindResult> {
    let mut kinds: Vec<KindResult> = Vec::new();
    for &(_, kind, time_ns, failed) in did {
        let index = kinds.iter().position(|known| known.kind == kind);
        let index = index.unwrap_or_else(|| {
            kinds.push(KindResult {
                kind,
                issued: 0,
                done: 0,
                bytes: 0,
                errors: Vec::new(),
                service_time: model::Histogram::sparse(),
                response_time: model::Histogram::sparse(),
            });
            kinds.len() - 1
        });
        let known = &mut kinds[index];
        known.issued += 1;
        if failed {
            let error = OpError(time_ns as u32 % 3);
            match known.errors.iter_mut().find(|(seen, _)| *seen == error) {
                Some((_, count)) => *count += 1,
                None => known.errors.push((error, 1)),
            }
        } else {
            known.done += 1;
            known.bytes += time_ns % 4_096;
            known.service_time.record(time_ns);
            known.response_time.record(time_ns.saturating_add(7));
        }
    }
    in_order(kinds)
}

fn in_order(mut kinds: Vec<KindResult>) -> Vec<KindResult> {
    kinds.sort_by_key(|kind| kind.kind);
    for kind in &mut kinds {
        kind.errors.sort();
    }
    kinds
}

/// Returns the part of one host with an accurate clock.
fn part(index: usize, kinds: Vec<KindResult>) -> AgentPass {
    let at = |ns| ClockReading { mono_ns: ns, wall_ns: ns };
    let sample = Sample::new(at(1_000), at(1_000), at(1_000));
    let span =
        Span { first_start_ns: 10, last_start_ns: 10, first_end_ns: 1_010, last_end_ns: 1_010 };
    let mut result = PassResult { kinds, window_ns: 1_000, ..PassResult::new(Pass::Mix) };
    result.first_done_ops = result.ops();
    result.first_done_bytes = result.bytes();
    result.cross_checks.push(CrossCheck {
        source: "files".into(),
        expected: result.ops(),
        found: result.ops().saturating_add(index as u64),
    });
    AgentPass {
        host: format!("c{index}"),
        workers: 1,
        end: PassEnd { result, facts: Vec::new(), broken: None, span, timeline: Vec::new() },
        clock: Mapping { before: sample, after: sample },
    }
}

fn op() -> impl Strategy<Value = DoneOp> {
    let kind = prop::sample::select(vec![OpKind::Read, OpKind::Write, OpKind::Sync]);
    let time_ns = prop_oneof![0..100_u64, 1_000..1_000_000_u64, any::<u64>()];
    (0..7_usize, kind, time_ns, prop::bool::weighted(0.1))
}

#[test]
fn merges_impossible_numbers_without_overflow() {
    let mut times = model::Histogram::sparse();
    times.record_n(u64::MAX, u64::MAX);
    let most = Work { ops: u64::MAX, bytes: u64::MAX };
    let mut parts = Vec::new();
    for index in 0..3 {
        let kind = KindResult {
            kind: OpKind::Write,
            issued: u64::MAX,
            done: u64::MAX,
            bytes: u64::MAX,
            errors: vec![(OpError(5), u64::MAX), (OpError(6), u64::MAX)],
            service_time: times.clone(),
            response_time: times.clone(),
        };
        let mut part = part(index, vec![kind]);
        let result = &mut part.end.result;
        result.client_cpu_ns = u64::MAX;
        result.storage_read_bytes = Some(u64::MAX);
        result.first_done_ops = u64::MAX;
        result.first_done_bytes = u64::MAX;
        let sample = IntervalSample { at_ns: u64::MAX, ops: u64::MAX, bytes: u64::MAX };
        result.samples = vec![sample];
        let interval = IntervalTimes { at_ns: u64::MAX, times: times.clone() };
        result.interval_times = vec![interval.clone(), interval];
        result.scope.slots = u32::MAX;
        result.scope.warmup =
            vec![WarmedUp { kind: OpKind::Write, done: u64::MAX, bytes: u64::MAX }];
        part.end.timeline = vec![TimelinePoint { at_ns: 500, done: most }];
        let span = &mut part.end.span;
        span.first_end_ns = u64::MAX;
        span.last_end_ns = u64::MAX;
        parts.push(part);
    }
    let merged = merge(&RunSpec::null(Workload::Mixed), parts, u64::MAX, u64::MAX).result;
    assert_eq!((merged.ops(), merged.bytes(), merged.errors()), (u64::MAX, u64::MAX, u64::MAX));
    assert_eq!(merged.storage_read_bytes, Some(u64::MAX));
    assert!(merged.kinds[0].service_time.quantile(0.5) > 0);
}

#[test]
fn merges_times_of_each_interval() {
    let interval = |at_ns: u64, values: &[u64]| {
        let mut times = model::Histogram::sparse();
        for value in values {
            times.record(*value);
        }
        IntervalTimes { at_ns, times: times.coarse().packed() }
    };
    let mut fast = part(0, Vec::new());
    fast.end.result.interval_times =
        vec![interval(100, &[10; 97]), interval(200, &[10; 50]), interval(230, &[10])];
    let mut slow = part(1, Vec::new());
    slow.end.result.interval_times = vec![interval(100, &[9_000; 3]), interval(240, &[7_000])];
    let stats = |ops, p99_ns| IntervalStats { at_ns: 100, ops, p99_ns, ..IntervalStats::default() };
    fast.end.result.intervals = vec![stats(97, 10), stats(50, 10)];
    slow.end.result.intervals = vec![stats(3, 9_000), stats(9, 7_000)];
    let merged = merge(&RunSpec::null(Workload::Mixed), vec![fast, slow], 0, 0).result;
    let p99 = merged.intervals[0].p99_ns;
    assert!(p99.abs_diff(9_000) <= 9_000 / 25 && merged.intervals[0].p50_ns == 10, "{p99}");
    assert_eq!(merged.intervals[1].p99_ns, 7_000, "other ops than those with times");
    let found = &merged.interval_times;
    let ends: Vec<_> = found.iter().map(|one| (one.at_ns, one.times.count())).collect();
    assert_eq!(ends, [(100, 100), (200, 50), (240, 2)]);
    // The mean of both 99th percentiles, or the larger one of many equal hosts, would be wrong.
    assert_eq!((found[0].times.quantile(0.97), found[0].times.max()), (10, 9_000));
    assert!(found[0].times.quantile(0.98).abs_diff(9_000) <= 9_000 / 25);
}

#[test]
fn failed_pass_was_not_made_good() {
    let merged = |failed: bool| {
        let did = [(0, OpKind::Read, 5, false), (1, OpKind::Read, 5, failed)];
        let mut parts: Vec<_> = (0..2)
            .map(|index| part(index, recorded(did.iter().filter(|did| did.0 == index))))
            .collect();
        let recovered = CaveatCode::Recovered.because("1 reconnects");
        parts[0].end.result.caveats.push(recovered);
        let merged = merge(&RunSpec::null(Workload::Mixed), parts, 0, 0).result;
        merged.caveats.iter().any(|caveat| caveat.code == CaveatCode::Recovered)
    };
    assert!(merged(false) && !merged(true));
}

#[test]
fn a_pass_without_agents_is_empty() {
    let merged = merge(&RunSpec::null(Workload::Mixed), Vec::new(), 0, 0).result;
    assert_eq!((merged.ops(), merged.window_ns, merged.hosts.len()), (0, 0, 0));
}

proptest! {
    #[test]
    fn sums_hosts_like_one(
        did in prop::collection::vec(op(), 0..200),
        hosts in 1..7_usize,
    ) {
        let of_host = |host| did.iter().filter(move |(who, ..)| who % hosts == host);
        let parts = (0..hosts).map(|host| part(host, recorded(of_host(host)))).collect();
        let merged = merge(&RunSpec::null(Workload::Mixed), parts, 0, 0).result;
        prop_assert_eq!(in_order(merged.kinds.clone()), recorded(did.iter()));
        // Each op belongs to one host, and each host's work at the end is all of its work.
        let sum = |of: fn(&HostResult) -> u64| merged.hosts.iter().map(of).sum::<u64>();
        prop_assert_eq!((sum(|h| h.ops), sum(|h| h.bytes)), (merged.ops(), merged.bytes()));
        prop_assert_eq!(sum(|h| h.failed), merged.errors());
        prop_assert_eq!((merged.first_done_ops, merged.first_done_bytes),
            (merged.ops(), merged.bytes()));
        let more = (hosts * (hosts - 1) / 2) as u64;
        let cross_check = &merged.cross_checks[0];
        let ops = merged.ops();
        prop_assert_eq!((cross_check.expected, cross_check.found), (ops, ops + more));
    }
}

#[test]
fn counts_rank_times_from_first_start() {
    let merged = |known: bool| {
        let mut parts = vec![part(0, Vec::new()), part(1, Vec::new())];
        for (index, part) in parts.iter_mut().enumerate() {
            part.end.result.pass = Pass::Save;
            // The second host starts and ends 500 ns later.
            part.end.span.first_start_ns += 500 * index as u64;
            part.end.span.last_end_ns += 500 * index as u64;
            if known || index == 0 {
                part.end.result.scope.rank_times_ns = vec![900, 1_000];
            }
        }
        let spec = RunSpec::null(Workload::Checkpoint);
        merge(&spec, parts, 0, 0).result
    };
    let result = merged(true);
    assert_eq!(result.scope.rank_times_ns, [900, 1_000, 1_400, 1_500]);
    assert_eq!(result.window_ns, 1_500);
    assert!(merged(false).scope.rank_times_ns.is_empty());
}
