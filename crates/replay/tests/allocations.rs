//! While steps are issued nothing is allocated: ten times as many take no more allocations.
#![allow(unsafe_code, reason = "a counting allocator is an allocator")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

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

struct CountingAllocator;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no thread-local any more, and is not counted.
    let _ = WATCHED.try_with(|watched| {
        if watched.get() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Makes a trace of rounds of six operations.
fn trace_of_rounds(rounds: u64) -> Vec<u8> {
    let (getattr, lookup, read, write, create, remove) = (1, 3, 6, 7, 8, 12);
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

/// Replays rounds on a server, and returns how often memory was allocated.
fn allocations(rounds: u64, version: ProtocolVersion) -> u64 {
    let server = Server::start(ServerConfig { udp: false, ..ServerConfig::default() }).unwrap();
    let mut options = MountOptions::new("127.0.0.1", "/export");
    let port = Some(server.address().port());
    (options.port, options.mount_port, options.version) = (port, port, version);
    let (clock, stop) = (SystemClock::new(), AtomicBool::new(false));
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

/// Replays rounds in a directory, and returns how often the thread that starts them allocated.
fn allocations_in_directory(rounds: u64) -> u64 {
    let folder = tempfile::TempDir::new().unwrap();
    let (clock, stop) = (SystemClock::new(), AtomicBool::new(false));
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
    ALLOCATIONS.set(0);
    WATCHED.set(true);
    let made = work();
    WATCHED.set(false);
    (ALLOCATIONS.get(), made)
}

#[test]
fn allocates_only_for_kept_opens() {
    let (few, many) = (allocations_in_directory(50), allocations_in_directory(500));
    // Places for opens are made before the start: two objects a round at most.
    assert!(many < few + 600, "{few} and {many} allocations");
}

#[test]
fn more_operations_take_no_more_allocations() {
    for version in [ProtocolVersion::V3, ProtocolVersion::V4_1] {
        let (few, many) = (allocations(50, version), allocations(500, version));
        // Some buffer may grow further, and a longer replay has more slices of time in its
        // outcome; an allocation for each operation would be 2700 more.
        assert!(many < few + 100, "{version}: {few} and {many} allocations");
    }
}
