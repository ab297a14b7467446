//! While steps are issued nothing is allocated: ten times as many take no more allocations.
#![allow(unsafe_code, reason = "a counting allocator is an allocator")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use common::traces::{call, op, trace_of};
use engine::SystemClock;
use nfs_client::MountOptions;
use nfs_client::proto::client::ProtocolVersion;
use nfs_server::{Server, ServerConfig};
use replay::{Fill, Pace, PlanSettings, ReplayPlan, ReplaySettings, Replayer, Window};
use trace::Op;

struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no thread-local any more, and is not watched.
    let _ = WATCHED.try_with(|watched| {
        if watched.get() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
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
static ALLOCATOR: Counting = Counting;

/// Replays rounds of six operations, and returns how often memory was allocated.
fn allocations(rounds: u64, version: ProtocolVersion) -> u64 {
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
    let server = Server::start(ServerConfig { udp: false, ..ServerConfig::default() }).unwrap();
    let mut options = MountOptions::new("127.0.0.1", "/export");
    let port = Some(server.address().port());
    (options.port, options.mount_port, options.version) = (port, port, version);
    let (clock, stop) = (SystemClock::new(), AtomicBool::new(false));
    let mut replayer = Replayer::connect(&options, &clock, &stop).unwrap();
    let [rsize, wsize] = replayer.transfer_bytes();
    let settings = PlanSettings { window: Window::ALL, clients_max: None, version, rsize, wsize };
    let mut plan = ReplayPlan::read(&trace_of(&calls, &[])[..], &settings).unwrap();
    let directory = "replayed".to_owned();
    let settings = ReplaySettings { directory, fill: Fill::Data };
    let mut files = replayer.prepare(&mut plan, &settings).unwrap();
    ALLOCATIONS.set(0);
    WATCHED.set(true);
    let outcome = replayer.replay(&plan, &mut files, Pace::Closed).unwrap();
    WATCHED.set(false);
    assert!(outcome.is_faithful(), "{outcome:#?}");
    ALLOCATIONS.get()
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
