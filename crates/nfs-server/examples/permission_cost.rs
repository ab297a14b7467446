//! Cost of permissions: the file system's part of the four most frequent operations, with and
//! without checks, alternating on one thread.
//!
//! Prints the median of the time per operation and the range of the middle half of all rounds.
//! Usage: `cargo run --release -p dfsbench-nfs-server --example permission_cost [rounds]`.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use nfs_proto::rpc::Groups;
use nfs_server::StoreMode;
use nfs_server::fs::{
    Caller, Context, CreateMode, FileSystem, FileTime, InodeId, Permissions, SetAttributes,
};

/// An operation to measure: its name and its code.
type Operation = (&'static str, fn(&FileSystem, InodeId, &Context));

const OPERATIONS: u32 = 20_000;
const DATA: [u8; 4096] = [7; 4096];

/// The caller is in the file's group by its last supplementary group: the longest search.
fn context(permissions: Permissions) -> Context {
    let groups = Groups::from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 100]);
    Context { caller: Caller::new(2, 20, groups, permissions), ..Context::default() }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(101, |text| text.parse().expect("a number"));
    let fs = FileSystem::new(StoreMode::Keep, 64 << 20, 1, FileTime(1));
    let set = SetAttributes { mode: Some(0o664), gid: Some(100), ..SetAttributes::default() };
    let made = fs.create(fs.root(), b"file", CreateMode::Guarded, &set, &Context::default());
    let file = made.expect("the file can be created").id;
    fs.write(file, 0, &DATA, &Context::default()).expect("the file can be written");
    let operations: [Operation; 4] = [
        ("GETATTR", |fs, file, _| {
            black_box(fs.attributes(file)).expect("the file exists");
        }),
        ("LOOKUP", |fs, _, context| {
            black_box(fs.lookup(fs.root(), b"file", &context.caller)).expect("the file exists");
        }),
        ("READ 4 KiB", |fs, file, context| {
            let mut pieces = Vec::with_capacity(1);
            black_box(fs.read(file, 0, 4096, context, &mut pieces)).expect("reading is allowed");
        }),
        ("WRITE 4 KiB", |fs, file, context| {
            black_box(fs.write(file, 0, &DATA, context)).expect("writing is allowed");
        }),
    ];
    let callers = [context(Permissions::Off), context(Permissions::Enforced)];
    for (name, operation) in operations {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (context, times) in callers.iter().zip(&mut times) {
                let start = Instant::now();
                for _ in 0..OPERATIONS {
                    operation(&fs, file, black_box(context));
                }
                times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS));
            }
        }
        let [off, on] = times.map(quartiles);
        println!("{name}: off {off} ns, on {on} ns");
    }
}

/// The median, and the quartiles around it.
fn quartiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times[times.len() * quarter / 4];
    format!("{:.1} ({:.1} to {:.1})", at(2), at(1), at(3))
}
