//! Nothing is allocated while steps are issued: ten times as many steps need no more allocations.

#[path = "../../engine/tests/allocation_counts/mod.rs"]
mod allocation_counts;
#[path = "replays/common/mod.rs"]
mod common;

use std::sync::atomic::AtomicBool;

use allocation_counts::counts;
use common::traces::{call, op, trace_of};
use common::whole_trace;
use engine::SystemClock;
use nfs_client::MountOptions;
use nfs_client::proto::client::ProtocolVersion;
use nfs_server::{Server, ServerConfig};
use replay::{
    DirectoryReplayer, Fill, Pace, ReplayPlan, ReplaySettings, Replayer, TRANSFER_BYTES, TargetKind,
};
use trace::Op;

/// Creates a trace of rounds of six operations.
fn trace_of_rounds(rounds: u64) -> Vec<u8> {
    let getattr = 1;
    let lookup = 3;
    let read = 6;
    let write = 7;
    let create = 8;
    let remove = 12;
    let mut calls = Vec::new();
    for round in 0..rounds {
        let data = Op { offset: round * 100, length: 100, count: 100, ..Op::default() };
        for made in [
            op(getattr, 10),
            Op { name: 0xa, result: 11, ..op(lookup, 10) },
            Op { kind: read, file: 11, status: Some(0), ..data },
            Op { kind: write, file: 11, status: Some(0), ..data },
            Op { name: 0xb, result: 20 + round as u32, ..op(create, 10) },
            Op { name: 0xb, ..op(remove, 10) },
        ] {
            let number = calls.len() as u64;
            calls.push(call(number, 0, number * 2_000_000, made));
        }
    }
    trace_of(&calls, &[])
}

/// Replays rounds on a server, and returns the number of allocations.
fn allocations(rounds: u64, version: ProtocolVersion) -> u64 {
    let server = Server::start(ServerConfig { udp: false, ..ServerConfig::default() }).unwrap();
    let mut options = MountOptions::new("127.0.0.1", "/export");
    let port = Some(server.address().port());
    options.port = port;
    options.mount_port = port;
    options.version = version;
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let mut replayer = Replayer::connect(&options, &clock, &stop).unwrap();
    let settings = whole_trace(TargetKind::Nfs(version), replayer.transfer_bytes());
    let mut plan = ReplayPlan::read(&trace_of_rounds(rounds)[..], &settings).unwrap();
    let directory = "replayed".to_owned();
    let settings = ReplaySettings { directory, fill: Fill::Data };
    let mut files = replayer.prepare(&mut plan, &settings).unwrap();
    let (count, record) =
        allocated_by(|| replayer.replay(&plan, &mut files, Pace::Closed).unwrap());
    let outcome = record.outcome();
    assert!(outcome.is_faithful(), "{outcome:#?}");
    count
}

/// Replays rounds in a directory, and returns the number of allocations of the thread that starts
/// them.
fn allocations_in_directory(rounds: u64) -> u64 {
    let folder = tempfile::TempDir::new().unwrap();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let settings = whole_trace(TargetKind::Directory, [TRANSFER_BYTES; 2]);
    let plan = ReplayPlan::read(&trace_of_rounds(rounds)[..], &settings).unwrap();
    let replayer = DirectoryReplayer::open(folder.path(), &clock, &stop).unwrap();
    let directory = "replayed".to_owned();
    let settings = ReplaySettings { directory, fill: Fill::Data };
    let mut tree = replayer.prepare(&plan, &settings).unwrap();
    let (count, record) = allocated_by(|| replayer.replay(&plan, &mut tree, Pace::Closed).unwrap());
    let outcome = record.outcome();
    assert!(outcome.is_faithful(), "{outcome:#?}");
    count
}

fn allocated_by<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let (before, _) = counts();
    let made = work();
    (counts().0 - before, made)
}

#[test]
fn allocates_only_for_kept_opens() {
    let few = allocations_in_directory(50);
    let many = allocations_in_directory(500);
    // Places for opens are created before the start: at most two objects per round.
    assert!(many < few + 600, "{few} and {many} allocations");
}

#[test]
fn more_operations_take_no_more_allocations() {
    for version in [ProtocolVersion::V3, ProtocolVersion::V4_1] {
        let few = allocations(50, version);
        let many = allocations(500, version);
        // Some buffer may grow, and a longer replay has more time slices in its outcome; an
        // allocation for each operation would be 2700 more.
        assert!(many < few + 100, "{version}: {few} and {many} allocations");
    }
}
