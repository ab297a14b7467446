//! The fixed point of a replay: a trace captured from a replay equals the trace that was replayed.
//!
//! A load is captured on one of our servers, replayed on another, and captured there: the
//! operations of each client are the same, in the same order, with the same sizes, offsets and
//! results. The speed of the machine does not matter.

use std::sync::atomic::AtomicBool;

use engine::SystemClock;
use nfs_client::Mount;
use nfs_client::proto::client::{OpenAccess, ProtocolVersion};
use nfs_client::proto::nfs3::{Procedure, StableHow};
use replay::{Fill, Outcome, Pace, ReplayPlan, ReplaySettings, Replayer, TargetKind};
use trace::{Call, Op, Version};

use crate::common::traces::{call, op, trace_of};
use crate::common::{Recorded, Row, rows, whole_trace};

/// Works on a tree of two directories, as one client; the content of `old` existed before.
fn work(mount: &mut Mount, number: u64) {
    let root = mount.root();
    let stable = StableHow::Unstable;
    let dir = mount.mkdir(root, &format!("dir{number}")).unwrap();
    let file = mount.create(dir, "file").unwrap();
    let data = vec![7; 10_000];
    for block in 0..20 {
        mount.write(file, block * 10_000, &data, stable).unwrap();
    }
    mount.commit(file).unwrap();
    mount.close(file).unwrap();
    assert!(mount.lookup(dir, "missing").is_err());
    assert!(mount.mkdir(root, &format!("dir{number}")).is_err());
    let file = mount.open(dir, "file", OpenAccess::Read).unwrap();
    for block in 0..20 {
        mount.read(file, block * 7_000, 7_000).unwrap();
    }
    mount.getattr(file).unwrap();
    mount.close(file).unwrap();
    for name in ["a", "b", "c"] {
        let made = mount.create(dir, name).unwrap();
        mount.close(made).unwrap();
    }
    mount.symlink(dir, "link", "file").unwrap();
    mount.readdir(dir).unwrap();
    mount.remove(dir, "a").unwrap();
    mount.readdir(dir).unwrap();
    let old = mount.lookup(root, "old").unwrap();
    let found = mount.lookup(old, "data").unwrap();
    mount.getattr(found).unwrap();
    let opened = mount.open(old, "data", OpenAccess::Read).unwrap();
    mount.read(opened, 90_000, 20_000).unwrap();
    mount.close(opened).unwrap();
    mount.remove(old, &format!("gone{number}")).unwrap();
    for name in ["file", "b", "c", "link"] {
        mount.remove(dir, name).unwrap();
    }
    mount.rmdir(root, &format!("dir{number}")).unwrap();
}

/// Captures two clients working on an existing tree, and returns their operations and the trace.
fn captured(version: ProtocolVersion) -> (Vec<Vec<Row>>, Vec<u8>) {
    let origin = Recorded::start();
    let mut before = nfs_client::MountOptions::new("127.0.0.1", "/export");
    before.port = Some(origin.server.address().port());
    let mut setup = Mount::connect(&before).unwrap();
    let old = setup.mkdir(setup.root(), "old").unwrap();
    let data = setup.create(old, "data").unwrap();
    setup.write(data, 0, &vec![1; 100_000], StableHow::FileSync).unwrap();
    for number in 0..2 {
        setup.create(old, &format!("gone{number}")).unwrap();
    }
    std::thread::scope(|scope| {
        for number in 0..2 {
            let options = origin.options(version);
            scope.spawn(move || {
                let mut mount = Mount::connect(&options).unwrap();
                work(&mut mount, number);
                mount.unmount().unwrap();
            });
        }
    });
    let trace = origin.trace();
    (rows(&trace), trace)
}

struct ReplayedTrace {
    target: Recorded,
    outcome: Outcome,
    plan: ReplayPlan,
    /// Calls of READ, WRITE and REMOVE of v3 that the server counted meanwhile.
    counted: [u64; 3],
}

fn replay(trace: &[u8], version: ProtocolVersion, pace: Pace, fill: Fill) -> ReplayedTrace {
    let target = Recorded::start();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let mut replayer = Replayer::connect(&target.options(version), &clock, &stop).unwrap();
    let settings = whole_trace(TargetKind::Nfs(version), replayer.transfer_bytes());
    let mut plan = ReplayPlan::read(trace, &settings).unwrap();
    let settings = ReplaySettings { directory: "replayed".to_owned(), fill };
    let mut files = replayer.prepare(&mut plan, &settings).unwrap();
    let counts = || {
        let counters = target.server.counters();
        [Procedure::Read, Procedure::Write, Procedure::Remove].map(|kind| counters.calls_of(kind))
    };
    let before = counts();
    let outcome = replayer.replay(&plan, &mut files, pace).unwrap().outcome();
    let after = counts();
    let counted = [0, 1, 2].map(|at| after[at] - before[at]);
    replayer.remove("replayed").unwrap();
    replayer.disconnect().unwrap();
    assert_eq!(target.server.list_directory("/export"), Some(Vec::new()));
    ReplayedTrace { target, outcome, plan, counted }
}

fn check_faithful(outcome: &Outcome) {
    assert!(outcome.is_faithful(), "{outcome:#?}");
    assert_eq!((outcome.issued, outcome.accounted, outcome.skipped), (outcome.ops, outcome.ops, 0));
}

fn check_fixed_point(version: ProtocolVersion) {
    let (origin, trace) = captured(version);
    assert_eq!(origin.len(), 2, "{origin:#?}");
    let ReplayedTrace { target, outcome, .. } =
        replay(&trace, version, Pace::Open { speed: 1.0 }, Fill::Sparse);
    check_faithful(&outcome);
    let replayed = rows(&target.trace());
    // Those of the mount and of the preparation come first.
    let clients = &replayed[replayed.len() - 2..];
    for (number, (origin, replayed)) in origin.iter().zip(clients).enumerate() {
        // The client of v4 asks for the lease before its first call.
        let (own, replayed) = replayed.split_at(replayed.len() - origin.len());
        assert!(own.iter().all(|row| row.kind == "GETATTR" || row.kind == "NULL"), "{own:?}");
        assert!(own.len() < 2, "{own:?}");
        for (at, (origin, replayed)) in origin.iter().zip(replayed).enumerate() {
            assert_eq!(origin, replayed, "operation {at} of client {number}");
        }
    }
    let ops: usize = origin.iter().map(Vec::len).sum();
    assert_eq!(ops as u64, outcome.ops);
}

#[test]
fn captures_v3_replay_unchanged() {
    check_fixed_point(ProtocolVersion::V3);
}

#[test]
fn captures_v4_0_replay_unchanged() {
    check_fixed_point(ProtocolVersion::V4_0);
}

#[test]
fn captures_v4_1_replay_unchanged() {
    check_fixed_point(ProtocolVersion::V4_1);
}

#[test]
fn captures_v4_2_replay_unchanged() {
    check_fixed_point(ProtocolVersion::V4_2);
}

#[test]
fn the_server_counts_what_was_replayed() {
    let (origin, trace) = captured(ProtocolVersion::V3);
    let ReplayedTrace { outcome, counted, .. } =
        replay(&trace, ProtocolVersion::V3, Pace::Closed, Fill::Data);
    check_faithful(&outcome);
    let of_kind = |kind: &str| {
        let rows = origin.iter().flatten().filter(|row| row.kind == kind);
        rows.count() as u64
    };
    assert_eq!(counted, ["READ", "WRITE", "REMOVE"].map(of_kind));
    assert_eq!((outcome.speed, outcome.calls_sent), (None, outcome.ops));
}

#[test]
fn replays_v3_trace_on_v4() {
    let (_, trace) = captured(ProtocolVersion::V3);
    for version in [ProtocolVersion::V4_0, ProtocolVersion::V4_2, ProtocolVersion::V2] {
        let fast = Pace::Open { speed: 4.0 };
        let ReplayedTrace { outcome, plan, .. } = replay(&trace, version, fast, Fill::Sparse);
        check_faithful(&outcome);
        assert_eq!(plan.without_counterpart.is_empty(), version != ProtocolVersion::V2);
    }
    let (_, trace) = captured(ProtocolVersion::V4_1);
    let ReplayedTrace { outcome, plan, .. } =
        replay(&trace, ProtocolVersion::V3, Pace::Closed, Fill::Sparse);
    check_faithful(&outcome);
    assert_eq!(plan.without_counterpart.get("CLOSE (not in NFS v3)"), Some(&12));
}

/// Creates a trace of the kernel's calls for a file that it knows: it opens the handle, reads by
/// READ_PLUS and closes.
fn trace_of_known_file() -> Vec<u8> {
    let close = 4;
    let open = 18;
    let read_plus = 68;
    let ops = [
        Op { offset: 1, size: Some(70_000), ..op(open, 10) },
        Op { length: 65_536, count: 65_536, ..op(read_plus, 10) },
        Op { offset: 65_536, length: 65_536, count: 4464, ..op(read_plus, 10) },
        op(close, 10),
    ];
    let mut calls = Vec::new();
    for (number, op) in ops.into_iter().enumerate() {
        let call = call(number as u64, 0, number as u64 * 2_000_000, op);
        calls.push(Call { version: Version::V4_2, ..call });
    }
    trace_of(&calls, &[])
}

#[test]
fn opens_known_file_by_handle() {
    let trace = trace_of_known_file();
    let lacks = |version: &str| {
        [format!("CLOSE (not in NFS {version})"), format!("OPEN by handle (not in NFS {version})")]
    };
    let not_opened = ["CLOSE (not opened here)", "OPEN by handle (not in NFS v4.0)"];
    for (version, kinds, without) in [
        (ProtocolVersion::V4_2, &["OPEN", "READ_PLUS", "READ_PLUS", "CLOSE"][..], Vec::new()),
        (ProtocolVersion::V4_1, &["OPEN", "READ", "READ", "CLOSE"], Vec::new()),
        (ProtocolVersion::V4_0, &["READ", "READ"], not_opened.map(str::to_owned).to_vec()),
        (ProtocolVersion::V3, &["READ", "READ"], lacks("v3").to_vec()),
    ] {
        let ReplayedTrace { target, outcome, plan, .. } =
            replay(&trace, version, Pace::Closed, Fill::Data);
        check_faithful(&outcome);
        let connections = rows(&target.trace());
        let found: Vec<_> = connections
            .last()
            .unwrap()
            .iter()
            .filter(|row| ["OPEN", "READ", "READ_PLUS", "CLOSE"].contains(&row.kind))
            .map(|row| row.kind)
            .collect();
        assert_eq!(found, kinds, "{version:?}");
        let names: Vec<String> = plan.without_counterpart.into_keys().collect();
        assert_eq!(names, without, "{version:?}");
        let mut bytes = 0;
        for kind in &outcome.kinds {
            bytes += kind.bytes;
        }
        assert_eq!(bytes, 70_000, "{version:?}");
    }
}
