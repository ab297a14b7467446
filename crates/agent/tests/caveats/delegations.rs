//! Opens and writes that never reached the server of a mount, from counters as a kernel counted
//! them.

use agent::caveats::about_delegations;
use lab::mounts::Mount;
use model::testing::RunBuilder;
use model::{
    Caveat, CaveatCode, Durability, Evidence, Host, KindResult, LabSpec, OpKind, Pass, PassResult,
    RunSpec, Workload,
};
use std::path::Path;

use crate::mount::{done, nfs_mount, telemetry};

fn run(workload: Workload) -> RunSpec {
    RunBuilder::new(workload).on_directory(Path::new("/mnt")).build()
}

/// Returns a run that sets whether the server grants delegations.
fn requesting(workload: Workload, delegations: bool) -> RunSpec {
    let mut lab = LabSpec::new(Host::local("server"), Host::local("client"));
    lab.serving.delegations = Some(delegations);
    RunSpec { lab: Some(Box::new(lab)), ..run(workload) }
}

fn many(kind: OpKind, count: u64, bytes: u64) -> KindResult {
    KindResult { issued: count, done: count, ..done(kind, bytes) }
}

fn caveat(
    spec: &RunSpec,
    pass: Pass,
    kinds: Vec<KindResult>,
    counters: &[(&str, u64)],
) -> Option<Caveat> {
    let telemetry = vec![telemetry(counters)];
    let result = PassResult { pass, kinds, telemetry, ..crate::figures::result() };
    let v3 = Mount { file_system: "nfs".to_owned(), ..nfs_mount() };
    assert_eq!(about_delegations(spec, &result, Some(&v3)), None);
    assert_eq!(about_delegations(spec, &result, None), None);
    about_delegations(spec, &result, Some(&nfs_mount()))
}

/// Returns the caveat about a pass that read 100 files, whose data was in the page cache.
fn about_read_files(spec: &RunSpec, counters: &[(&str, u64)]) -> Option<Caveat> {
    caveat(spec, Pass::ReadFiles, vec![many(OpKind::ReadFile, 100, 409_600)], counters)
}

/// Returns the caveat about 200 transactions.
fn about_transactions(spec: &RunSpec, counters: &[(&str, u64)]) -> Option<Caveat> {
    let kinds = vec![
        many(OpKind::Create, 100, 504_353),
        many(OpKind::Remove, 100, 0),
        many(OpKind::ReadFile, 99, 593_243),
        many(OpKind::Append, 101, 211_191),
    ];
    caveat(spec, Pass::Transactions, kinds, counters)
}

/// What Linux 7.2 counted during these transactions with delegations.
const DELEGATED: [(&str, u64); 4] = [
    ("OPEN.ops", 100),
    ("DELEGRETURN.ops", 100),
    ("WRITE.ops", 201),
    ("server_write_bytes", 897_797),
];

#[test]
fn names_opens_without_calls() {
    let found = about_read_files(&run(Workload::Metadata), &[]).unwrap();
    assert_eq!(found.code, CaveatCode::Delegated);
    assert_eq!(found.data, Some(Evidence::shares(0.0, 0.9, "/proc/self/mountstats")));
    let transactions = about_transactions(&run(Workload::Transactions), &DELEGATED).unwrap();
    insta::assert_snapshot!([found.evidence, transactions.evidence].join("\n"));
}

#[test]
fn is_silent_if_each_open_is_a_call() {
    let [files, transactions] = [Workload::Metadata, Workload::Transactions].map(run);
    // As counted by Linux 7.2 with leases turned off on the server.
    assert_eq!(about_read_files(&files, &[("OPEN_NOATTR.ops", 100), ("CLOSE.ops", 100)]), None);
    let undelegated = [
        ("OPEN.ops", 100),
        ("OPEN_NOATTR.ops", 200),
        ("CLOSE.ops", 300),
        ("WRITE.ops", 201),
        ("server_write_bytes", 897_797),
    ];
    assert_eq!(about_transactions(&transactions, &undelegated), None);
    // New files take an OPEN even with delegations; only their CLOSE isn't needed.
    let created = [("OPEN.ops", 100), ("server_write_bytes", 409_600)];
    let create = vec![many(OpKind::Create, 100, 409_600)];
    assert_eq!(caveat(&files, Pass::Create, create, &created), None);
    // Stats open nothing.
    assert_eq!(caveat(&files, Pass::Stat, vec![many(OpKind::Stat, 100, 0)], &[]), None);
}

#[test]
fn names_writes_left_on_client() {
    let stream = RunSpec { durability: Durability::Close, ..run(Workload::Stream) };
    let write = |spec: &RunSpec, sent| {
        let kinds = vec![many(OpKind::Write, 64, 16 << 20)];
        caveat(spec, Pass::Write, kinds, &[("WRITE.ops", 2), ("server_write_bytes", sent)])
    };
    let found = write(&stream, 2 << 20).unwrap();
    assert_eq!(found.code, CaveatCode::Delegated);
    insta::assert_snapshot!(found.evidence);
    assert_eq!(write(&stream, 16 << 20), None);
    // Delegations that were requested say nothing about the data.
    let requested = requesting(Workload::Stream, true);
    let requested = RunSpec { durability: Durability::Close, ..requested };
    assert!(write(&requested, 2 << 20).is_some());
    // Files that stay open may keep their data.
    assert_eq!(write(&RunSpec { durability: Durability::None, ..stream.clone() }, 0), None);
    let mut mapped = stream;
    mapped.layout.mmap = true;
    assert_eq!(write(&mapped, 0), None);
}

#[test]
fn compares_calls_with_requested_delegations() {
    let workload = Workload::Metadata;
    assert_eq!(about_read_files(&requesting(workload, true), &[]), None);
    let found = about_read_files(&requesting(workload, false), &[]).unwrap();
    assert_eq!(found.code, CaveatCode::OptionNotEffective);
    let begin = "server_delegations false, but 100 files were opened";
    assert!(found.evidence.starts_with(begin), "{found:?}");
    assert_eq!(about_read_files(&requesting(workload, false), &[("OPEN.ops", 100)]), None);
}
