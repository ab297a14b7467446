//! Plans of handwritten traces: the trees they assume, their steps, and an error for those that
//! can't be planned.

use nfs_client::proto::client::{OpenAccess, ProtocolVersion};
use replay::{Action, InitialObject, PlanError, PlanSettings, ReplayPlan, TargetKind, Window};
use trace::{Call, Entry, Op, TraceError, Version, op_flag};

use crate::common::traces::{call, op, trace_of};

// Procedures of NFS v3. **Source:** RFC 1813 section 3.3.
const GETATTR: u8 = 1;
const SETATTR: u8 = 2;
const LOOKUP: u8 = 3;
const READ: u8 = 6;
const WRITE: u8 = 7;
const CREATE: u8 = 8;
const REMOVE: u8 = 12;
const RENAME: u8 = 14;
const LINK: u8 = 15;
const READDIRPLUS: u8 = 17;

const DIRECTORY: u8 = 2;
const REGULAR: u8 = 1;
const NOENT: u32 = 2;
const EXIST: u32 = 17;

const SETTINGS: PlanSettings = PlanSettings {
    window: Window::ALL,
    clients_max: None,
    target: TargetKind::Nfs(ProtocolVersion::V3),
    rsize: 1 << 20,
    wsize: 1 << 20,
};

fn lookup(dir: u32, name: u64, result: u32, file_type: u8, size: u64) -> Op {
    Op { name, result, file_type, size: Some(size), ..op(LOOKUP, dir) }
}

/// Creates a trace of operations of one client, a second apart, taking 1 ms each.
fn trace(ops: &[Op]) -> Vec<u8> {
    let calls: Vec<_> = ops
        .iter()
        .enumerate()
        .map(|(number, op)| call(number as u64, 0, number as u64 * 1_000_000_000, *op))
        .collect();
    trace_of(&calls, &[])
}

fn plan(trace: &[u8]) -> ReplayPlan {
    ReplayPlan::read(trace, &SETTINGS).unwrap()
}

/// The tree as lines, such as `1/name size`; names at the top are `-`.
fn tree(plan: &ReplayPlan) -> Vec<String> {
    let mut lines = Vec::new();
    for InitialObject { object, place, file_type, size } in &plan.initial {
        let place = match place {
            Some(place) => {
                let name = plan.names[place.name as usize].trim_start_matches('0');
                format!("{}/{name}", place.dir)
            }
            None => "-".to_owned(),
        };
        let size = if *file_type == DIRECTORY { "dir".to_owned() } else { size.to_string() };
        lines.push(format!("{object} {place} {size}"));
    }
    lines
}

#[test]
fn uses_names_before_first_change() {
    let plan = plan(&trace(&[
        lookup(10, 0xa, 11, DIRECTORY, 4096),
        lookup(11, 0xb, 12, REGULAR, 5000),
        // Neither its own writes count, nor replies that show its size.
        Op { offset: 5000, length: 100, count: 100, size: Some(5100), ..op(WRITE, 12) },
        Op { size: Some(5100), file_type: REGULAR, ..op(GETATTR, 12) },
        // Used only by its handle, so it is at the top, and as large as the range that was read.
        Op { offset: 8192, length: 4096, count: 1000, ..op(READ, 13) },
        // Created by the trace, so it is not part of the tree.
        Op { name: 0xc, result: 14, flags: op_flag::CREATES, ..op(CREATE, 11) },
        lookup(11, 0xc, 14, REGULAR, 0),
    ]));
    assert_eq!(tree(&plan), ["0 - dir", "1 0/a dir", "2 1/b 5000", "3 - 9192"]);
    assert_eq!(plan.batch.steps.len(), 7);
}

#[test]
fn creates_what_trace_expects() {
    let plan = plan(&trace(&[
        Op { name: 0xa, ..op(REMOVE, 10) },
        Op { name: 0xb, other: 10, other_name: 0xc, ..op(RENAME, 10) },
        Op { name: 0xd, status: Some(EXIST), how: 2, ..op(CREATE, 10) },
        Op { name: 0xe, status: Some(NOENT), ..op(LOOKUP, 10) },
        Op { name: 0xe, result: 20, ..op(CREATE, 10) },
        // The renamed file gets its number only here, and keeps its first name.
        lookup(10, 0xc, 21, REGULAR, 77),
        // A second name of the same file.
        lookup(10, 0xf, 21, REGULAR, 77),
    ]));
    let found = tree(&plan);
    assert_eq!(found[0], "0 - dir");
    for line in ["0/a 0", "0/b 77", "0/d 0"] {
        assert!(found.iter().any(|found| found.ends_with(line)), "{line}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(plan.links.len(), 1);
}

#[test]
fn resolves_dot_names() {
    let plan = plan(&trace(&[
        lookup(10, 0xa, 11, DIRECTORY, 4096),
        lookup(11, 0xb, 11, DIRECTORY, 4096),
        lookup(11, 0xc, 10, DIRECTORY, 4096),
    ]));
    assert_eq!(tree(&plan), ["0 - dir", "1 0/a dir"]);
    let names: Vec<&str> = plan.names.iter().map(|name| name.trim_start_matches('0')).collect();
    assert_eq!(names, ["a", ".", ".."]);
}

#[test]
fn a_listing_needs_its_entries() {
    let listing = Op { length: 4096, count: 2, ..op(READDIRPLUS, 10) };
    let entry = |name: u64, file: u32, size: u64| Entry {
        call: 0,
        dir: 10,
        name,
        file,
        file_type: REGULAR,
        size: Some(size),
    };
    let trace = trace_of(&[call(0, 0, 0, listing)], &[entry(0xa, 11, 5), entry(0xb, 12, 6)]);
    assert_eq!(tree(&plan(&trace)), ["0 - dir", "1 0/a 5", "2 0/b 6"]);
}

#[test]
fn starts_window_with_earlier_files() {
    let trace = trace(&[
        Op { name: 0xa, result: 11, file_type: REGULAR, ..op(CREATE, 10) },
        Op { length: 300, count: 300, ..op(WRITE, 11) },
        Op { name: 0xb, result: 12, ..op(CREATE, 10) },
        Op { name: 0xb, ..op(REMOVE, 10) },
        Op { length: 100, count: 100, ..op(READ, 11) },
        Op { length: 0, flags: op_flag::SETS_SIZE, ..op(SETATTR, 11) },
    ]);
    let second = 1_000_000_000;
    let window = Window::between(4 * second, 5 * second);
    let plan = ReplayPlan::read(&trace[..], &PlanSettings { window, ..SETTINGS }).unwrap();
    assert_eq!(tree(&plan), ["0 - dir", "1 0/a 300"]);
    assert_eq!(plan.batch.steps.len(), 1);
    assert_eq!(plan.batch.steps[0].scheduled_ns, 0);
    let window = Window::between(60 * second, u64::MAX);
    let error = ReplayPlan::read(&trace[..], &PlanSettings { window, ..SETTINGS }).unwrap_err();
    assert!(matches!(error, PlanError::Outside { .. }), "{error}");
    assert!(
        error.to_string().contains("between 60 s") && error.to_string().contains("5.001 s long")
    );
}

#[test]
fn assigns_clients_of_trace() {
    let calls: Vec<_> = (0..8)
        .map(|number| call(number, number as u32 % 4, number * 1000, op(GETATTR, 10)))
        .collect();
    let trace = trace_of(&calls, &[]);
    let lists = |clients_max| {
        let plan = ReplayPlan::read(&trace[..], &PlanSettings { clients_max, ..SETTINGS }).unwrap();
        plan.batch.clients
    };
    assert_eq!(lists(None), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(lists(Some(2)), [[0, 2, 4, 6], [1, 3, 5, 7]]);
}

#[test]
fn cuts_transfers_and_names_omissions() {
    let trace = trace(&[
        Op { offset: 100, length: 10_000, count: 10_000, ..op(READ, 10) },
        Op { length: 1, ..op(4, 10) },
    ]);
    let settings =
        PlanSettings { target: TargetKind::Nfs(ProtocolVersion::V2), rsize: 8192, ..SETTINGS };
    let plan = ReplayPlan::read(&trace[..], &settings).unwrap();
    let actions: Vec<Action> = plan.batch.steps.iter().map(|step| step.action).collect();
    let want =
        [Action::Read { offset: 100, count: 8192 }, Action::Read { offset: 8292, count: 1808 }];
    assert_eq!(actions, want);
    assert_eq!(plan.split, 1);
    assert_eq!(plan.without_counterpart.get("ACCESS (not in NFS v2)"), Some(&1));
}

#[test]
fn omits_delayed_and_unseen_calls() {
    let jukebox = 10_008;
    let trace = trace(&[
        Op { name: 0xa, status: Some(jukebox), ..op(REMOVE, 10) },
        Op { name: 0xa, ..op(REMOVE, 10) },
        // Its arguments were cut off.
        op(READ, 0),
    ]);
    let plan = plan(&trace);
    assert_eq!((plan.put_off, plan.incomplete, plan.batch.steps.len()), (1, 1, 1));
}

#[test]
fn closes_open_like_trace() {
    let open = 18;
    let close = 4;
    let mut calls = Vec::new();
    for (number, kind) in [open, close, close].into_iter().enumerate() {
        let op = Op { name: 0xa, result: 11, offset: 1, ..op(kind, 10) };
        let op = if kind == close { Op { file: 11, result: 0, name: 0, ..op } } else { op };
        let call = call(number as u64, 0, number as u64 * 1_000_000_000, op);
        calls.push(Call { version: Version::V4_1, ..call });
    }
    let settings = PlanSettings { target: TargetKind::Nfs(ProtocolVersion::V4_1), ..SETTINGS };
    let plan = ReplayPlan::read(&trace_of(&calls, &[])[..], &settings).unwrap();
    assert_eq!(plan.batch.steps.len(), 2);
    assert_eq!(plan.batch.steps[0].slot, plan.batch.steps[1].slot);
    assert_eq!(plan.without_counterpart.get("CLOSE (not opened here)"), Some(&1));
}

#[test]
fn closes_only_answered_opens() {
    let open = 18;
    let close = 4;
    let mut calls = Vec::new();
    // The second OPEN is in flight while the first file is closed, and that CLOSE while a third
    // OPEN begins.
    for (number, (kind, start_ns, response_ns)) in
        [(open, 0, 10), (open, 20, 40), (close, 30, 20), (open, 40, 10), (close, 90, 10)]
            .into_iter()
            .enumerate()
    {
        let op = Op { offset: u64::from(kind == open), ..op(kind, 10) };
        let made = call(number as u64, 0, start_ns, op);
        calls.push(Call { version: Version::V4_1, response_ns: Some(response_ns), ..made });
    }
    let settings = PlanSettings { target: TargetKind::Nfs(ProtocolVersion::V4_1), ..SETTINGS };
    let plan = ReplayPlan::read(&trace_of(&calls, &[])[..], &settings).unwrap();
    let slots: Vec<u32> = plan.batch.steps.iter().map(|step| step.slot).collect();
    assert_eq!(slots, [0, 1, 0, 2, 2]);
}

#[test]
fn distinguishes_open_by_handle() {
    let open = 18;
    let close = 4;
    let mut calls = Vec::new();
    // The first one requests no access, which no OPEN does.
    for (number, (kind, access)) in [(open, 0), (open, 3), (close, 0)].into_iter().enumerate() {
        let op = Op { offset: access, ..op(kind, 10) };
        let call = call(number as u64, 0, number as u64 * 1_000_000_000, op);
        calls.push(Call { version: Version::V4_1, ..call });
    }
    let settings = PlanSettings { target: TargetKind::Nfs(ProtocolVersion::V4_1), ..SETTINGS };
    let plan = ReplayPlan::read(&trace_of(&calls, &[])[..], &settings).unwrap();
    let actions: Vec<Action> = plan.batch.steps.iter().map(|step| step.action).collect();
    assert_eq!(actions, [Action::OpenHandle(OpenAccess::Both), Action::Close]);
    assert_eq!(plan.batch.steps[0].slot, plan.batch.steps[1].slot);
    assert_eq!(plan.without_counterpart.get("v4.1 OPEN"), Some(&1));
    assert_eq!(tree(&plan), ["0 - 0"]);
}

#[test]
fn resolves_hard_link_across_directories() {
    let plan = plan(&trace(&[
        lookup(10, 0xa, 11, REGULAR, 5),
        Op { name: 0xb, other: 12, ..op(LINK, 11) },
        Op { name: 0xb, ..op(REMOVE, 12) },
    ]));
    assert_eq!(tree(&plan), ["0 - dir", "1 0/a 5", "2 - dir"]);
}

#[test]
fn rejects_empty_or_invalid_trace() {
    let whole = trace(&[op(GETATTR, 10)]);
    let error = |bytes: &[u8]| ReplayPlan::read(bytes, &SETTINGS).unwrap_err();
    assert!(matches!(error(b""), PlanError::Trace(TraceError::Empty)));
    assert!(matches!(error(b"hello, world!"), PlanError::Trace(TraceError::Foreign)));
    let cut = error(&whole[..whole.len() - 1]);
    assert!(matches!(cut, PlanError::Trace(TraceError::Cut { .. })), "{cut}");
    let mount = Call { version: Version::Mount3, ..call(0, 0, 0, op(1, 0)) };
    let nothing = error(&trace_of(&[mount], &[])).to_string();
    assert!(nothing.contains("only mount3 MNT"), "{nothing}");
    let none = error(&trace_of(&[], &[]));
    assert!(matches!(none, PlanError::Outside { .. }), "{none}");
}

#[test]
fn masks_unknown_access_bits() {
    let access =
        Call { version: Version::V4_2, ..call(0, 0, 0, Op { length: 0x1ff, ..op(3, 10) }) };
    let trace = trace_of(&[access], &[]);
    for (version, bits) in [(ProtocolVersion::V4_1, 0x3f), (ProtocolVersion::V4_2, 0x1ff)] {
        let settings = PlanSettings { target: TargetKind::Nfs(version), ..SETTINGS };
        let plan = ReplayPlan::read(&trace[..], &settings).unwrap();
        assert_eq!(plan.batch.steps[0].action, Action::Access(bits));
    }
}
