//! Replays in a directory: system calls do what the trace does, nothing outside is touched, and
//! operations without a counterpart are reported.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use engine::SystemClock;
use replay::{
    DirectoryReplayer, Fill, Outcome, Pace, Record, ReplayError, ReplayPlan, ReplaySettings,
    TRANSFER_BYTES, TargetKind,
};
use tempfile::TempDir;
use trace::{Call, Header, NameText, Op, TraceWriter, Version, op_flag};

use crate::common::traces::{call, op, trace_of};
use crate::common::whole_trace;

// Procedures of NFS v3. **Source:** RFC 1813 section 3.3.
const NULL: u8 = 0;
const GETATTR: u8 = 1;
const SETATTR: u8 = 2;
const LOOKUP: u8 = 3;
const ACCESS: u8 = 4;
const READ: u8 = 6;
const WRITE: u8 = 7;
const CREATE: u8 = 8;
const MKDIR: u8 = 9;
const SYMLINK: u8 = 10;
const MKNOD: u8 = 11;
const REMOVE: u8 = 12;
const RMDIR: u8 = 13;
const RENAME: u8 = 14;
const LINK: u8 = 15;
const READDIR: u8 = 16;
const READDIRPLUS: u8 = 17;
const FSSTAT: u8 = 18;
const COMMIT: u8 = 21;

const DIRECTORY: u8 = 2;
const REGULAR: u8 = 1;
const NOENT: u32 = 2;
const EXIST: u32 = 17;
const NOTEMPTY: u32 = 66;
const STALE: u32 = 70;

/// Creates calls for operations of one client, a millisecond apart.
fn calls(ops: &[Op]) -> Vec<Call> {
    let mut calls = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let mut made = call(number as u64, 0, number as u64 * 1_000_000, *op);
        made.response_ns = Some(500_000);
        calls.push(made);
    }
    calls
}

struct DirectoryReplay {
    outcome: Outcome,
    plan: ReplayPlan,
    folder: TempDir,
}

impl DirectoryReplay {
    /// Returns the path of the object that the trace has under names with these hashes.
    fn path(&self, hashes: &[u64]) -> std::path::PathBuf {
        let mut path = self.folder.path().join("tree").join("d0");
        path.extend(hashes.iter().map(|hash| format!("{hash:014x}")));
        path
    }
}

fn replay(trace: &[u8], pace: Pace, fill: Fill) -> DirectoryReplay {
    let folder = TempDir::new().unwrap();
    let (outcome, plan) = replay_in(folder.path(), trace, pace, fill);
    DirectoryReplay { outcome, plan, folder }
}

fn replay_in(folder: &Path, trace: &[u8], pace: Pace, fill: Fill) -> (Outcome, ReplayPlan) {
    let settings = whole_trace(TargetKind::Directory, [TRANSFER_BYTES; 2]);
    let plan = ReplayPlan::read(trace, &settings).unwrap();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let replayer = DirectoryReplayer::open(folder, &clock, &stop).unwrap();
    let settings = ReplaySettings { directory: "tree".to_owned(), fill };
    let mut tree = replayer.prepare(&plan, &settings).unwrap();
    let outcome = replayer.replay(&plan, &mut tree, pace).unwrap().outcome();
    (outcome, plan)
}

/// Every kind of operation, with the results of a file system.
fn all_kinds() -> Vec<Op> {
    let data = |kind, file, offset, count| Op { offset, length: count, count, ..op(kind, file) };
    vec![
        op(NULL, 0),
        op(GETATTR, 10),
        Op { name: 0xa, result: 11, file_type: REGULAR, size: Some(9000), ..op(LOOKUP, 10) },
        Op { length: 1, ..op(ACCESS, 11) },
        data(READ, 11, 4096, 4904),
        Op { name: 0xb, result: 12, file_type: DIRECTORY, ..op(MKDIR, 10) },
        Op { name: 0xc, result: 13, how: 2, ..op(CREATE, 12) },
        data(WRITE, 13, 100, 3000),
        Op { how: 3, ..data(WRITE, 13, 3100, 500) },
        op(COMMIT, 13),
        Op { length: 5000, flags: op_flag::SETS_SIZE, ..op(SETATTR, 13) },
        op(SETATTR, 13),
        Op { name: 0xc, status: Some(EXIST), how: 2, ..op(CREATE, 12) },
        Op { name: 0xd, status: Some(NOENT), ..op(LOOKUP, 12) },
        Op { name: 0xb, status: Some(NOTEMPTY), ..op(RMDIR, 10) },
        Op { name: 0xe, other: 12, ..op(LINK, 13) },
        Op { name: 0xf, result: 14, length: 20, ..op(SYMLINK, 12) },
        Op { name: 0x10, result: 15, ..op(MKNOD, 12) },
        Op { length: 4096, ..op(READDIR, 12) },
        Op { length: 4096, ..op(READDIRPLUS, 12) },
        Op { name: 0xb, other: 10, other_name: 0x11, ..op(RENAME, 10) },
        // The file has moved with its directory.
        op(GETATTR, 13),
        Op { name: 0xe, ..op(REMOVE, 12) },
        data(READ, 13, 0, 5000),
        Op { name: 0x10, ..op(REMOVE, 12) },
        op(FSSTAT, 10),
    ]
}

#[test]
fn replays_trace_by_system_calls() {
    for (pace, fill) in [(Pace::Closed, Fill::Data), (Pace::Open { speed: 1.0 }, Fill::Sparse)] {
        let replayed = replay(&trace_of(&calls(&all_kinds()), &[]), pace, fill);
        let Outcome { ops, issued, accounted, skipped, .. } = replayed.outcome;
        assert!(replayed.outcome.is_faithful(), "{:#?}", replayed.outcome);
        assert_eq!((ops, issued, accounted, skipped), (25, 25, 25, 0));
        let without = &replayed.plan.without_counterpart;
        assert_eq!(without.get("NULL (not in a directory)"), Some(&1), "{without:?}");
        // The tree is as the trace left it.
        let file = fs::metadata(replayed.path(&[0x11, 0xc])).unwrap();
        assert_eq!((file.len(), file.nlink()), (5000, 1));
        assert_eq!(fs::metadata(replayed.path(&[0xa])).unwrap().len(), 9000);
        assert!(fs::symlink_metadata(replayed.path(&[0x11, 0xf])).unwrap().is_symlink());
        assert!(!replayed.path(&[0xb]).exists() && !replayed.path(&[0x11, 0x10]).exists());
        let expected: u64 = replayed.outcome.kinds.iter().map(|kind| kind.expected_errors).sum();
        assert_eq!(expected, 3);
        let read = replayed.outcome.kinds.iter().find(|kind| kind.kind == "READ").unwrap();
        assert_eq!((read.ended, read.bytes), (2, 4904 + 5000));
    }
}

#[test]
fn names_errors_missing_in_trace() {
    let folder = TempDir::new().unwrap();
    // A file that is not from a trace already exists where the trace creates one.
    fs::create_dir_all(folder.path().join("tree/d0/0000000000000a/in-the-way")).unwrap();
    let ops = [
        Op { name: 0xa, result: 11, how: 2, ..op(CREATE, 10) },
        op(GETATTR, 10),
        Op { length: 100, count: 100, ..op(WRITE, 11) },
    ];
    let (outcome, _) =
        replay_in(folder.path(), &trace_of(&calls(&ops), &[]), Pace::Closed, Fill::Sparse);
    assert!(!outcome.is_faithful());
    let problem = &outcome.problems[0];
    assert_eq!(
        (problem.kind.as_str(), problem.origin.as_str(), problem.ended.as_str(), problem.count),
        ("CREATE", "success", "NFS3ERR_EXIST", 1)
    );
    // Its file was never found.
    assert_eq!((outcome.issued, outcome.accounted, outcome.skipped), (2, 2, 1));
}

#[test]
fn reports_stale_handle_after_removal() {
    let ops = [
        Op { name: 0xa, result: 11, file_type: REGULAR, size: Some(10), ..op(LOOKUP, 10) },
        Op { name: 0xa, ..op(REMOVE, 10) },
        Op { status: Some(STALE), ..op(GETATTR, 11) },
    ];
    let DirectoryReplay { outcome, .. } =
        replay(&trace_of(&calls(&ops), &[]), Pace::Closed, Fill::Sparse);
    assert!(outcome.is_faithful(), "{outcome:#?}");
    let getattr = outcome.kinds.iter().find(|kind| kind.kind == "GETATTR").unwrap();
    assert_eq!((getattr.expected_errors, getattr.ended), (1, 1));
}

#[test]
fn does_not_follow_escaping_names() {
    let folder = TempDir::new().unwrap();
    let base = folder.path().join("base");
    fs::create_dir(&base).unwrap();
    fs::write(folder.path().join("victim"), "here").unwrap();
    let ops = [
        Op { name: 0xa, result: 11, file_type: DIRECTORY, ..op(LOOKUP, 10) },
        Op { name: 0xb, result: 12, file_type: DIRECTORY, ..op(LOOKUP, 11) },
        Op { name: 0xc, ..op(REMOVE, 12) },
        Op { name: 0xd, ..op(REMOVE, 10) },
        Op { name: 0xe, result: 13, ..op(CREATE, 10) },
    ];
    let mut trace = Vec::new();
    let mut writer = TraceWriter::new(&mut trace, &Header::default()).unwrap();
    let names: Vec<_> = [
        (0xa, ".."),
        (0xb, ".."),
        (0xc, "victim"),
        (0xd, "../../../victim"),
        (0xe, "../../escaped"),
    ]
    .into_iter()
    .map(|(hash, text)| NameText { hash, text: text.to_owned() })
    .collect();
    writer.names(&names).unwrap();
    writer.block(calls(&ops).iter(), &[]).unwrap();
    writer.finish(&trace::End { duration_ns: 1_000_000, ..trace::End::default() }).unwrap();
    replay_in(&base, &trace, Pace::Closed, Fill::Sparse);
    assert_eq!(fs::read_to_string(folder.path().join("victim")).unwrap(), "here");
    for place in [folder.path(), &base] {
        assert!(!place.join("escaped").exists());
    }
    let inside: Vec<_> =
        fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(inside, ["tree"]);
}

#[test]
fn opens_directory_for_v4_opens() {
    let close = 4;
    let open = 18;
    let read = 25;
    let ops = [
        Op { name: 0xa, result: 11, offset: 1, size: Some(50), ..op(open, 10) },
        Op { length: 50, count: 50, ..op(read, 11) },
        op(close, 11),
    ];
    let mut made = calls(&ops);
    for call in &mut made {
        call.version = Version::V4_1;
    }
    let DirectoryReplay { outcome, .. } = replay(&trace_of(&made, &[]), Pace::Closed, Fill::Data);
    assert!(outcome.is_faithful(), "{outcome:#?}");
    // One open, one read, one close, and no other call.
    assert_eq!((outcome.calls_sent, outcome.own_calls), (3, 0));
    // The same if the client opens a file by its handle.
    made[0].ops[0].name = 0;
    made[0].ops[0].file = 11;
    made[0].ops[0].result = 0;
    let DirectoryReplay { outcome, .. } = replay(&trace_of(&made, &[]), Pace::Closed, Fill::Data);
    assert!(outcome.is_faithful(), "{outcome:#?}");
    assert_eq!((outcome.calls_sent, outcome.own_calls), (3, 0));
}

#[test]
fn gives_all_clients_their_turn() {
    let mut made = Vec::new();
    for number in 0..4000_u64 {
        let read = Op { offset: number * 10, length: 10, count: 10, ..op(READ, 10) };
        made.push(call(number, number as u32 % 4, number, read));
    }
    let DirectoryReplay { outcome, .. } =
        replay(&trace_of(&made, &[]), Pace::Open { speed: 1.0 }, Fill::Data);
    assert!(outcome.is_faithful(), "{outcome:#?}");
    assert_eq!((outcome.accounted, outcome.clients), (4000, 4));
}

#[test]
fn keeps_or_removes_tree() {
    let folder = TempDir::new().unwrap();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let ops = [op(GETATTR, 10)];
    let trace = trace_of(&calls(&ops), &[]);
    for _ in 0..2 {
        replay_in(folder.path(), &trace, Pace::Closed, Fill::Sparse);
    }
    let replayer = DirectoryReplayer::open(folder.path(), &clock, &stop).unwrap();
    replayer.remove("tree").unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = replayer.remove("tree").unwrap_err().to_string();
    assert!(error.contains("cannot remove") && error.contains("tree"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let Err(error) = DirectoryReplayer::open(&file, &clock, &stop) else { panic!("it is a file") };
    assert!(matches!(error, ReplayError::File { what: "open", .. }), "{error}");
}

#[test]
fn adds_rounds_one_after_another() {
    let trace = trace_of(&calls(&all_kinds()), &[]);
    let settings = whole_trace(TargetKind::Directory, [TRANSFER_BYTES; 2]);
    let plan = ReplayPlan::read(&trace[..], &settings).unwrap();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let folder = TempDir::new().unwrap();
    let replayer = DirectoryReplayer::open(folder.path(), &clock, &stop).unwrap();
    let settings = ReplaySettings { directory: "tree".to_owned(), fill: Fill::Sparse };
    let mut all: Option<Record> = None;
    for _ in 0..3 {
        let mut tree = replayer.prepare(&plan, &settings).unwrap();
        let record = replayer.replay(&plan, &mut tree, Pace::Open { speed: 1.0 }).unwrap();
        replayer.remove("tree").unwrap();
        match &mut all {
            Some(all) => all.append(record),
            None => all = Some(record),
        }
    }
    let outcome = all.unwrap().outcome();
    assert!(outcome.is_faithful(), "{outcome:#?}");
    assert_eq!((outcome.rounds, outcome.ops, outcome.accounted), (3, 75, 75));
    let read = outcome.kinds.iter().find(|kind| kind.kind == "READ").unwrap();
    assert_eq!((read.ended, read.response.count, read.parts.len()), (6, 6, 60));
    let mut started = 0;
    let mut done = 0;
    for slice in &outcome.timeline {
        started += slice.started;
        done += slice.done;
    }
    assert_eq!((started, done), (75, 75));
    assert_eq!(outcome.planned_ns, 3 * plan.duration_ns);
}

#[test]
fn finds_file_during_renames() {
    // 200 renames of the upper directory, each while a use of the file is in flight.
    let mut ops = vec![
        Op { name: 0xa, result: 11, file_type: DIRECTORY, ..op(LOOKUP, 10) },
        Op { name: 0xb, result: 12, file_type: DIRECTORY, ..op(LOOKUP, 11) },
        Op { name: 0xc, result: 13, file_type: REGULAR, size: Some(5), ..op(LOOKUP, 12) },
    ];
    for round in 0..200 {
        let (name, other_name) = if round % 2 == 0 { (0xa, 0xd) } else { (0xd, 0xa) };
        ops.push(Op { name, other: 10, other_name, ..op(RENAME, 10) });
        ops.push(op(GETATTR, 13));
        ops.push(op(SETATTR, 13));
    }
    let mut made = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        // Operations of the three clients were in flight together.
        let client = number as u32 % 3;
        let mut call = call(number as u64, client, number as u64 / 3 * 1000, *op);
        call.response_ns = Some(if number < 3 { 100 } else { 900 });
        made.push(call);
    }
    let DirectoryReplay { outcome, .. } = replay(&trace_of(&made, &[]), Pace::Closed, Fill::Sparse);
    assert!(outcome.is_faithful(), "{:#?}", outcome.problems);
    assert_eq!((outcome.ops, outcome.accounted), (603, 603));
}
