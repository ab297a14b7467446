//! Whether a COMMIT is needed depends on the stability that a server reports in its WRITE replies,
//! not on the one that was requested: a server may report more and need no COMMIT, and may never
//! report less.

use engine::backend::{Backend, NO_LIMIT, OperationKind};
use engine::testing::target_config;
use engine::{TargetError, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Completion, Durability, NfsSettings, NfsVersion, Op, OpError, OpKind, Outcome,
    Pass, RunSpec, Target, Workload,
};
use nfs_client::proto::nfs3::StableHow;
use nfs_server::{
    Damage, ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, Server, ServerConfig,
};

const VERSIONS: [NfsVersion; 4] =
    [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];
const IO_BYTES: u32 = 4096;
const FILE_BYTES: u64 = 4 * IO_BYTES as u64;

/// Numbers of COMMIT in v3 and v4.
const COMMIT: [FaultedCalls; 2] = [FaultedCalls::V3(21), FaultedCalls::V4(5)];

/// A server that answers every COMMIT with "not supported", and claims this in WRITE replies.
fn without_commit(write_stability: Option<StableHow>) -> Server {
    let status = nfs_client::proto::status::Status::NotSupp;
    let share = PartsPerMillion(1_000_000);
    let errors = COMMIT.map(|calls| ErrorFault { calls, status, share }).to_vec();
    let faults = FaultPlan { errors, write_stability, ..FaultPlan::default() };
    Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap()
}

fn run_on(server: &Server, version: NfsVersion, durability: Durability) -> (TrialTarget, RunSpec) {
    try_run_on(server, version, durability).unwrap()
}

fn try_run_on(
    server: &Server,
    version: NfsVersion,
    durability: Durability,
) -> Result<(TrialTarget, RunSpec), TargetError> {
    let port = server.address().port();
    let settings = NfsSettings { version, ..NfsSettings::default() };
    let target = nfs_target(port, settings);
    let spec = RunBuilder::new(Workload::Stream)
        .target(Target::Nfs(target))
        .backend(BackendKind::Nfs)
        .io_size_bytes(IO_BYTES)
        .file_size_bytes(FILE_BYTES)
        .files(1)
        .durability(durability)
        .build();
    let config = target_config(".dfsbench-stability");
    TrialTarget::create(&spec, config).map(|target| (target, spec))
}

fn outcome(backend: &mut dyn Backend, kind: OpKind, len_bytes: u32) -> Outcome {
    let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes, file: 0, kind };
    assert_eq!(backend.submit(&[op]), 1);
    let mut ended: Vec<Completion> = Vec::new();
    while ended.is_empty() {
        backend.reap(1, NO_LIMIT, &mut ended).unwrap();
    }
    ended[0].outcome
}

/// Writes a block and syncs; returns the outcomes and the number of COMMITs sent.
fn write_and_sync(
    claimed: Option<StableHow>,
    version: NfsVersion,
    durability: Durability,
) -> (Outcome, Outcome, u64) {
    let server = without_commit(claimed);
    let (target, spec) = run_on(&server, version, durability);
    target.prepare(&spec, Pass::Write).unwrap();
    let mut backend = target.open(&spec, Pass::Write, 0).unwrap().backend;
    let written = outcome(backend.as_mut(), OpKind::Write, IO_BYTES);
    let synced = outcome(backend.as_mut(), OpKind::Sync, 0);
    let commits = backend.tally().calls.unwrap().get(OperationKind::Commit);
    (written, synced, commits)
}

#[test]
fn trusts_file_sync_reply() {
    for version in VERSIONS {
        let claimed = Some(StableHow::FileSync);
        let (written, synced, commits) = write_and_sync(claimed, version, Durability::Sync);
        assert_eq!((written, synced), (Outcome::Done(IO_BYTES), Outcome::Done(0)), "{version}");
        assert_eq!(commits, 0, "{version}");
    }
}

#[test]
fn commits_unstable_data() {
    for version in VERSIONS {
        let (written, synced, commits) = write_and_sync(None, version, Durability::Sync);
        assert_eq!(written, Outcome::Done(IO_BYTES), "{version}");
        assert!(matches!(synced, Outcome::Failed(_)), "{version}: {synced:?}");
        assert_eq!(commits, 1, "{version}");
    }
}

#[test]
fn does_not_commit_clean_file() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let (target, spec) = run_on(&server, NfsVersion::V3, Durability::Sync);
    target.prepare(&spec, Pass::Write).unwrap();
    let mut backend = target.open(&spec, Pass::Write, 0).unwrap().backend;
    for (kind, len_bytes) in
        [(OpKind::Sync, 0), (OpKind::Write, IO_BYTES), (OpKind::Sync, 0), (OpKind::Sync, 0)]
    {
        assert_eq!(outcome(backend.as_mut(), kind, len_bytes), Outcome::Done(len_bytes));
    }
    assert_eq!(backend.tally().calls.unwrap().get(OperationKind::Commit), 1);
}

#[test]
fn fails_short_write() {
    for version in VERSIONS {
        let claimed = Some(StableHow::Unstable);
        let (written, _, _) = write_and_sync(claimed, version, Durability::Osync);
        assert_eq!(written, Outcome::Failed(OpError::LESS_STABLE), "{version}");
        let (written, _, _) = write_and_sync(None, version, Durability::Osync);
        assert_eq!(written, Outcome::Done(IO_BYTES), "{version}");
    }
}

#[test]
fn prepares_files_without_commit() {
    let server = without_commit(Some(StableHow::FileSync));
    let (target, spec) = run_on(&server, NfsVersion::V3, Durability::None);
    target.prepare(&spec, Pass::Read).unwrap();
    let strict = without_commit(None);
    let (target, spec) = run_on(&strict, NfsVersion::V3, Durability::None);
    let error = target.prepare(&spec, Pass::Read).unwrap_err().to_string();
    assert!(error.contains("COMMIT"), "{error}");
}

#[test]
fn keeps_first_malformed_reply() {
    let cut = PartsPerMillion(50_000);
    // With some seeds a reply of the setup is cut, which is a different error.
    let reason = (1..100).find_map(|seed| {
        let damage = Damage { cut, ..Damage::default() };
        let faults = FaultPlan { seed, damage, ..FaultPlan::default() };
        let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
        let (target, spec) = try_run_on(&server, NfsVersion::V3, Durability::None).ok()?;
        target.prepare(&spec, Pass::Read).ok()?;
        let mut backend = target.open(&spec, Pass::Read, 0).ok()?.backend;
        let mut outcomes = (0..200).map(|_| outcome(backend.as_mut(), OpKind::Read, IO_BYTES));
        assert!(outcomes.any(|outcome| outcome == Outcome::Failed(OpError::MALFORMED)));
        Some(backend.tally().bad_reply.unwrap().to_string())
    });
    let reason = reason.expect("a seed that does not truncate replies during setup");
    assert!(reason.starts_with("READ: the reply is malformed: "), "{reason}");
    let server = Server::start(ServerConfig::default()).unwrap();
    let (target, spec) = run_on(&server, NfsVersion::V3, Durability::None);
    target.prepare(&spec, Pass::Read).unwrap();
    let mut backend = target.open(&spec, Pass::Read, 0).unwrap().backend;
    assert_eq!(outcome(backend.as_mut(), OpKind::Read, IO_BYTES), Outcome::Done(IO_BYTES));
    assert_eq!(backend.tally().bad_reply, None);
}

#[test]
fn names_errors_like_rfc() {
    use nfs_client::proto::status::Status;
    for number in 10_001..=10_096 {
        let status = Status::from_number(number);
        if matches!(status, Status::Other(_)) {
            continue;
        }
        let name = OpError(number).name();
        let (_, of_rfc) = status.name().split_once('_').unwrap();
        assert_eq!(name.split_once('_').map(|(_, name)| name), Some(of_rfc), "{number}");
    }
}

#[test]
fn appends_to_log_durably() {
    for version in VERSIONS {
        let appended = |claimed, durability| {
            let server = without_commit(claimed);
            let (target, spec) = run_on(&server, version, durability);
            target.prepare(&spec, Pass::Write).unwrap();
            let mut backend = target.open(&spec, Pass::Write, 0).unwrap().backend;
            let appended = outcome(backend.as_mut(), OpKind::LogAppend, IO_BYTES);
            assert_eq!(backend.tally().calls.unwrap().get(OperationKind::Commit), 0);
            appended
        };
        let is_done = Outcome::Done(IO_BYTES);
        assert_eq!(appended(None, Durability::Sync), is_done, "{version}");
        // A server that promises less than was requested, and a commit that requests nothing.
        let claimed = Some(StableHow::Unstable);
        let failed = Outcome::Failed(OpError::LESS_STABLE);
        assert_eq!(appended(claimed, Durability::Sync), failed, "{version}");
        assert_eq!(appended(claimed, Durability::None), is_done, "{version}");
    }
}
