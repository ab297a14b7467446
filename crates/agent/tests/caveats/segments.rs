//! A few lost segments that cost time, raised by counters on both sides of the limits.
//!
//! Counters and times are those of four seconds of 4 KiB reads and writes at depth 1, over a
//! network that drops 1 of 128 packets: 620 ops per second instead of 35,000.

use agent::caveats::{LOST_MIN, about_segments};
use engine::backend::TcpCounters;
use model::testing::RunBuilder;
use model::{
    BackendKind, Caveat, CaveatCode, HeldOps, Histogram, Metric, MetricKind, NfsTarget, OpKind,
    PassResult, RunSpec, Target, Telemetry, Workload,
};

use crate::mount::done;

const TIMEOUTS_MIN: u64 = HeldOps::TIMEOUTS_MIN;
const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

fn served() -> RunSpec {
    let target = Target::Nfs(NfsTarget::new("server", "/export"));
    RunBuilder::new(Workload::Mixed).target(target).backend(BackendKind::Nfs).build()
}

/// Returns a pass at depth 1 with ops of 30 µs, and some that took longer.
fn pass(usual: u64, longer: &[(u64, u64)]) -> PassResult {
    let mut service_time = Histogram::new();
    service_time.record_n(30 * US, usual);
    for (time_ns, ops) in longer {
        service_time.record_n(*time_ns, *ops);
    }
    let window_ns = service_time.mean() * service_time.count();
    let kind = model::KindResult { service_time, ..done(OpKind::Read, 4_096) };
    PassResult { window_ns, kinds: vec![kind], ..crate::figures::result() }
}

fn own(lost: u64, twice: u64, out_of_order: u64) -> TcpCounters {
    TcpCounters {
        connections: 1,
        segments_sent: 6_000,
        segments_retransmitted: lost + twice,
        segments_arrived_twice: twice,
        segments_out_of_order: out_of_order,
        ..TcpCounters::default()
    }
}

fn check(result: &PassResult, tcp: TcpCounters) -> Option<Caveat> {
    let caveat = about_segments(&served(), result, None, &tcp)?;
    assert_eq!(caveat.code, CaveatCode::TcpRetransmits);
    let data = caveat.data.as_ref().unwrap();
    assert!(data.found > data.limit, "{data:?}");
    Some(caveat)
}

/// A pass that lost most of its time to timeouts of 200 ms.
fn timed_out() -> PassResult {
    pass(2_500, &[(8 * MS, 20), (205 * MS, 18)])
}

#[test]
fn names_costly_rare_losses() {
    let caveat = check(&timed_out(), own(38, 0, 0)).unwrap();
    insta::assert_snapshot!(caveat.evidence);
    // Only timers of a few milliseconds: a third of the time.
    let probed = pass(8_000, &[(8 * MS, LOST_MIN + 7)]);
    assert!(check(&probed, own(LOST_MIN, 0, 0)).is_some());
    assert!(check(&probed, own(LOST_MIN - 1, 0, 0)).is_none());
}

#[test]
fn losses_of_the_server_are_named() {
    // The retransmitted end of an answer arrives before the rest of it.
    assert!(check(&timed_out(), own(0, 0, 18)).is_some());
    assert!(check(&timed_out(), own(0, 0, TIMEOUTS_MIN)).is_some());
    assert!(check(&timed_out(), own(0, 0, TIMEOUTS_MIN - 1)).is_none());
    // An answer of one segment: the call is sent again as well, because its acknowledgement is
    // missing.
    assert!(check(&timed_out(), own(0, 18, 0)).is_some());
    assert!(check(&timed_out(), own(0, TIMEOUTS_MIN, 0)).is_some());
    assert!(check(&timed_out(), own(0, TIMEOUTS_MIN - 1, 0)).is_none());
}

#[test]
fn ignores_reordered_loopback_segments() {
    // A stream of 64 MiB to a server on this host, as measured.
    let stream = pass(40, &[(5 * MS, 25)]);
    let swapped = TcpCounters { segments_sent: 366, ..own(0, 0, 19) };
    assert!(check(&stream, swapped).is_none());
    assert!(check(&stream, TcpCounters { segments_retransmitted: 19, ..swapped }).is_some());
}

#[test]
fn ignores_cheap_losses() {
    // TCP recovered immediately.
    assert!(check(&pass(100_000, &[(900 * US, 60)]), own(60, 0, 60)).is_none());
    // Timeouts take less than a twentieth of the time.
    let long = pass(1_000_000, &[(205 * MS, 6)]);
    assert!(check(&long, own(6, 0, 0)).is_none());
    assert!(check(&long, own(0, 6, 6)).is_none());
}

#[test]
fn ignores_slow_ops_without_losses() {
    assert!(check(&timed_out(), own(0, 0, 0)).is_none());
    // Probes on loopback while the server does nothing or waits for a CPU.
    let stalled = pass(100_000, &[(30 * MS, 60), (1_800 * MS, 8)]);
    assert!(check(&stalled, own(0, 66, 0)).is_none());
    assert!(check(&stalled, own(0, 66, TIMEOUTS_MIN - 1)).is_none());
    // A slow disk behind loopback; some ops take as long as a timeout.
    let disk = pass(10_000, &[(80 * MS, 40), (120 * MS, 60), (205 * MS, 40), (400 * MS, 20)]);
    assert!(check(&disk, own(0, 227, 5)).is_none());
    assert!(check(&disk, own(20, 0, 0)).is_some());
    // A server that takes that long for every op.
    let slow = pass(0, &[(205 * MS, 20)]);
    assert!(check(&slow, own(20, 0, 0)).is_none());
}

#[test]
fn blames_foreign_losses_only_for_timeouts() {
    let counter = |name: &str, risen: u64| Metric {
        name: format!("tcp.{name}"),
        kind: MetricKind::Counter,
        values: vec![5, 5 + risen],
    };
    let of_host = |result: PassResult, lost: u64, out_of_order: u64| {
        let metrics = vec![
            counter("segments_sent", 1_000_000),
            counter("segments_retransmitted", lost),
            counter("segments_out_of_order", out_of_order),
        ];
        let telemetry = vec![Telemetry { host: "c".into(), times_ns: vec![0, 1], metrics }];
        check(&PassResult { telemetry, ..result }, TcpCounters::default()).is_some()
    };
    let busy = pass(8_000, &[(30 * MS, 50)]);
    assert!(!of_host(busy.clone(), 900, 900));
    assert!(of_host(timed_out(), 18, 0) && of_host(timed_out(), 0, 18));
    assert!(!of_host(timed_out(), 0, 0));
}

#[test]
fn blames_loss_for_ops_in_flight() {
    // Eight ops in flight, all delayed by each loss: four losses explain 32 ops.
    let mut result = pass(100_000, &[(205 * MS, 32)]);
    result.window_ns /= 8;
    let caveat = check(&result, own(4, 0, 0)).unwrap();
    assert!(caveat.evidence.contains("; 32 ops waited 6."), "{}", caveat.evidence);
    // With eight connections, each loss only delays one op.
    let tcp = TcpCounters { connections: 8, ..own(4, 0, 0) };
    let caveat = check(&result, tcp).unwrap();
    assert!(caveat.evidence.contains("; 4 ops waited 8"), "{}", caveat.evidence);
}
