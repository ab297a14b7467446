//! Planted faults of a server, and how a replay shows them.

use std::sync::atomic::AtomicBool;

use engine::SystemClock;
use nfs_client::MountOptions;
use nfs_client::proto::client::ProtocolVersion;
use nfs_proto::{Status, nfs3};
use nfs_server::{
    BandwidthCap, CallServiceTime, CappedBytes, ErrorFault, FaultPlan, FaultedCalls,
    PartsPerMillion, Server, ServerConfig, ServiceTime,
};
use replay::{
    Fill, Outcome, Pace, Problem, ReplayPlan, ReplaySettings, Replayer, SearchedSpeeds, TargetKind,
    Verdict, find_limit,
};
use trace::{Call, Op};

use crate::common::traces::{call, op, trace_of};
use crate::common::whole_trace;

const READ: u8 = 6;

/// Reads of a client, a millisecond apart, each of which took 1 ms on the original server.
fn reads(count: u64) -> Vec<Call> {
    let mut calls = Vec::new();
    for number in 0..count {
        let read = Op { offset: number * 100, length: 100, count: 100, ..op(READ, 10) };
        calls.push(call(number, 0, number * 1_000_000, read));
    }
    calls
}

fn replay(calls: &[Call], faults: FaultPlan) -> Outcome {
    replay_at(calls, faults, Pace::Open { speed: 1.0 })
}

fn replay_at(calls: &[Call], faults: FaultPlan, pace: Pace) -> Outcome {
    let server = Server::start(ServerConfig { faults, udp: false, ..ServerConfig::default() });
    replay_on(&server.unwrap(), ProtocolVersion::V3, calls, pace)
}

/// Replays calls on a server, and removes the tree.
fn replay_on(server: &Server, version: ProtocolVersion, calls: &[Call], pace: Pace) -> Outcome {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    let port = Some(server.address().port());
    options.port = port;
    options.mount_port = port;
    options.version = version;
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let mut replayer = Replayer::connect(&options, &clock, &stop).unwrap();
    let settings = whole_trace(TargetKind::Nfs(version), [1 << 20; 2]);
    let mut plan = ReplayPlan::read(&trace_of(calls, &[])[..], &settings).unwrap();
    let directory = "replayed".to_owned();
    let settings = ReplaySettings { directory, fill: Fill::Data };
    let mut files = replayer.prepare(&mut plan, &settings).unwrap();
    let outcome = replayer.replay(&plan, &mut files, pace).unwrap().outcome();
    replayer.remove("replayed").unwrap();
    outcome
}

fn calls_of(kind: nfs3::Procedure) -> FaultedCalls {
    FaultedCalls::V3(kind.number())
}

#[test]
fn names_errors_missing_in_trace() {
    let always = PartsPerMillion(1_000_000);
    let calls = calls_of(nfs3::Procedure::Read);
    let fault = ErrorFault { calls, status: Status::Io, share: always };
    let faults = FaultPlan { errors: vec![fault], ..FaultPlan::default() };
    let outcome = replay(&reads(20), faults.clone());
    assert_eq!((outcome.unexpected_errors(), outcome.verdict()), (20, Verdict::Failed));
    let Problem { kind, origin, ended, count } = &outcome.problems[0];
    assert_eq!((kind.as_str(), origin.as_str(), *count), ("READ", "success", 20));
    assert_eq!(ended, Status::Io.name_in(ProtocolVersion::V3));
    // The same if it is in the trace.
    let mut failed = reads(20);
    for call in &mut failed {
        call.ops[0].status = Some(Status::Io.number());
    }
    let outcome = replay(&failed, faults);
    assert_eq!((outcome.kinds[0].expected_errors, outcome.is_faithful()), (20, true));
    assert_eq!(outcome.problems, []);
}

#[test]
fn falls_behind_on_slow_server() {
    let calls = calls_of(nfs3::Procedure::Read);
    let time = ServiceTime::Fixed { time_ns: 300_000_000 };
    let service_times = vec![CallServiceTime { calls, time }];
    let outcome = replay(&reads(20), FaultPlan { service_times, ..FaultPlan::default() });
    assert_eq!(outcome.behind.map(|behind| behind.from_ns), Some(0), "{outcome:#?}");
    assert_eq!(outcome.verdict(), Verdict::FellBehind);
    let read = &outcome.kinds[0];
    assert!(read.response.p50 >= 290_000_000 && read.origin.p50 < 1_100_000, "{read:?}");
    // Reads don't wait for one another: all of them were started before the first had ended.
    assert_eq!(outcome.start_wait.max, 0);
    assert!(outcome.took_ns >= 300_000_000);
}

#[test]
fn a_slow_server_never_keeps_up() {
    let calls = calls_of(nfs3::Procedure::Read);
    let service_times =
        vec![CallServiceTime { calls, time: ServiceTime::Fixed { time_ns: 20_000_000 } }];
    let outcome = replay(&reads(20), FaultPlan { service_times, ..FaultPlan::default() });
    assert_ne!(outcome.verdict(), Verdict::KeptUp, "{outcome:#?}");
    // A client that is late itself may hide it; then nothing is claimed.
    if outcome.verdict() != Verdict::ClientLate {
        let slowest = outcome.slowest_kind().unwrap();
        assert!(slowest.name == "READ" && slowest.ratio > 10.0, "{slowest:?}");
    }
}

#[test]
fn finds_unsustainable_multiple() {
    // 10 MB/s in the trace, and a server with 40 MB/s: at 16 times the speed it takes four times
    // too long.
    let mut calls = Vec::new();
    for number in 0..100 {
        let read = Op { length: 100_000, count: 100_000, ..op(READ, 10) };
        calls.push(call(number, 0, number * 10_000_000, read));
    }
    let cap =
        BandwidthCap { bytes_per_s: 40_000_000, counts: CappedBytes::Payload, burst_bytes: 0 };
    for _ in 0..5 {
        let found =
            find_limit(SearchedSpeeds { max: 16.0, trace_ns: u64::MAX, points: None }, |speed| {
                let faults = FaultPlan { bandwidth: Some(cap), ..FaultPlan::default() };
                Ok::<_, ()>(Some(replay_at(&calls, faults, Pace::Open { speed })))
            });
        let found = found.unwrap();
        // If the machine is too busy for the client, the result doesn't describe the server.
        if found.client_limit.is_none() {
            assert!(found.broke.is_some_and(|broke| broke <= 16.0), "{found:?}");
            return;
        }
    }
    panic!("this host was too slow in all five attempts");
}

#[test]
fn removes_tree_after_long_v4_replay() {
    let config = ServerConfig { lease_s: 1, udp: false, ..ServerConfig::default() };
    let server = Server::start(config).unwrap();
    let mut calls = reads(2);
    calls[1].start_ns = 2_200_000_000;
    let outcome = replay_on(&server, ProtocolVersion::V4_2, &calls, Pace::Open { speed: 1.0 });
    assert!(outcome.is_faithful(), "{outcome:#?}");
    assert_eq!(server.list_directory("/export"), Some(Vec::new()));
}
