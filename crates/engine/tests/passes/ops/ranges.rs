//! Passes over ranges of files: what they leave in the files, what they move over the wire, and
//! what they find if something is wrong.

use std::fs::File as LocalFile;
use std::os::unix::fs::FileExt as _;

use engine::backend::CopyCounts;
use engine::target::mount_options;
use engine::testing::measure_pass;
use engine::{InventoryScope, MeasuredPass, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Durability, NfsSettings, NfsVersion, OpError, Pass, RunSpec, Target, Workload,
};
use nfs_client::Mount;
use nfs_client::proto::client::OpenAccess;
use nfs_client::proto::nfs3::StableHow;
use nfs_server::{ChangingVerifier, CopyFault, FaultPlan, Server, ServerConfig};
use tempfile::TempDir;

use super::backend_fixture::config;

const BLOCK: u64 = 256 << 10;
/// The last block is a hole, and shorter.
const FILE: u64 = 6 * BLOCK - 1000;
const FILES: u32 = 3;

fn spec(target: Target, backend: BackendKind) -> RunSpec {
    RunBuilder::new(Workload::DataOps)
        .target_name("test".into())
        .target(target)
        .backend(backend)
        .file_size_bytes(FILE)
        .io_size_bytes(BLOCK as u32)
        .files(FILES)
        .queue_depth(4)
        .durability(Durability::Sync)
        .verify(true)
        .build()
}

fn on_directory(backend: BackendKind) -> (RunSpec, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::Directory { path: directory.path().to_owned() };
    (spec(target, backend), directory)
}

fn on_nfs() -> (RunSpec, Server) {
    on_faulty(FaultPlan::default(), false)
}

fn on_faulty(faults: FaultPlan, async_copy: bool) -> (RunSpec, Server) {
    let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
    let version = NfsVersion::V4_2;
    let settings = NfsSettings { version, async_copy, ..NfsSettings::default() };
    let target = nfs_target(server.address().port(), settings);
    (spec(Target::Nfs(target), BackendKind::Nfs), server)
}

/// Runs a pass whose ops must all succeed, and checks the content that it leaves.
fn assert_right(target: &TrialTarget, spec: &RunSpec, pass: Pass) -> MeasuredPass {
    let measured = measure_pass(target, spec, pass);
    assert_eq!(measured.result.errors(), 0, "{pass}: {:?}", measured.result.kinds);
    let expected = pass.writes().then_some(FILE * u64::from(FILES));
    assert_eq!(target.count_right_bytes(spec, pass).unwrap(), expected, "{pass}");
    let bytes = if pass == Pass::Seek { 0 } else { measured.result.bytes() };
    assert_eq!(measured.result.bytes(), bytes);
    measured
}

#[test]
fn changes_ranges_of_local_files() {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let (spec, _directory) = on_directory(backend);
        let target = TrialTarget::create(&spec, config()).unwrap();
        let whole = FILE * u64::from(FILES);
        let copied = assert_right(&target, &spec, Pass::Copy);
        assert_eq!((copied.result.bytes(), copied.tally.ranges.copied_bytes), (whole, whole));
        // Few file systems can share blocks; the others return EOPNOTSUPP.
        let cloned = measure_pass(&target, &spec, Pass::Clone);
        let errors: Vec<_> = cloned.result.kinds.iter().flat_map(|kind| &kind.errors).collect();
        assert!(errors.iter().all(|(error, _)| *error == OpError(95)), "{errors:?}");
        assert_right(&target, &spec, Pass::Allocate);
        let punched = assert_right(&target, &spec, Pass::Punch);
        assert_eq!(punched.result.bytes(), u64::from(FILES) * (3 * BLOCK - 1000));
        let inventory = target.inventory(InventoryScope::All).unwrap().unwrap();
        assert_eq!((inventory.files, inventory.bytes), (2 * u64::from(FILES), 2 * whole));
        let found = assert_right(&target, &spec, Pass::Seek);
        assert_eq!((found.result.ops(), found.result.bytes()), (u64::from(FILES) * 6, 0));
        let read = assert_right(&target, &spec, Pass::ReadPlus);
        assert_eq!(read.result.bytes(), whole);
    }
}

#[test]
fn moves_ranges_without_the_wire() {
    let (spec, server) = on_nfs();
    let target = TrialTarget::create(&spec, config()).unwrap();
    let whole = FILE * u64::from(FILES);
    let passes = [Pass::Copy, Pass::Clone, Pass::Allocate, Pass::Punch, Pass::Seek];
    for pass in passes {
        let before = server.counters();
        let measured = assert_right(&target, &spec, pass);
        let wire = measured.tally.wire.unwrap();
        assert!((1_000..20_000).contains(&wire.total()), "{pass}: {wire:?}");
        let moved = [measured.tally.read_bytes, measured.tally.write_bytes];
        assert_eq!(moved, [Some(0), Some(0)], "{pass}");
        let copied = server.counters().copied_bytes - before.copied_bytes;
        let is_copy = matches!(pass, Pass::Copy | Pass::Clone);
        assert_eq!(copied, if is_copy { whole } else { 0 }, "{pass}");
        let found = u64::from(FILES) * 6;
        assert_eq!(measured.tally.ranges.found_ends, if pass == Pass::Seek { found } else { 0 });
    }
    // Half of the file is described instead of sent.
    let read = assert_right(&target, &spec, Pass::ReadPlus);
    let ranges = read.tally.ranges;
    let data = u64::from(FILES) * 3 * BLOCK;
    assert_eq!((ranges.data_bytes, ranges.hole_bytes), (data, whole - data));
    let wire = read.tally.wire.unwrap();
    assert!((data..data + 20_000).contains(&wire.received_bytes), "{wire:?}");
    assert_eq!(read.tally.read_bytes, Some(whole));
}

#[test]
fn follows_asynchronous_copies() {
    let whole = FILE * u64::from(FILES);
    let ops = u64::from(FILES) * 6;
    let planned = [None, Some(CopyFault::Synchronous), Some(CopyFault::Unreported)];
    for (copies, connections) in planned.into_iter().zip([3, 1, 1]) {
        let (spec, server) = on_faulty(FaultPlan { copies, ..FaultPlan::default() }, true);
        let spec = RunSpec { workers: connections, ..spec };
        let target = TrialTarget::create(&spec, config()).unwrap();
        let measured = assert_right(&target, &spec, Pass::Copy);
        let ranges = measured.tally.ranges;
        assert_eq!((ranges.copied_bytes, server.counters().copied_bytes), (whole, whole));
        let CopyCounts { synchronous, reported, queried, .. } = ranges.copies;
        let expected = match copies {
            None => [0, ops, 0],
            Some(CopyFault::Synchronous) => [ops, 0, 0],
            Some(CopyFault::Unreported) => [0, 0, ops],
        };
        assert_eq!([synchronous, reported, queried], expected, "{copies:?}");
        let wire = measured.tally.wire.unwrap();
        assert!((1_000..40_000).contains(&wire.total()), "{wire:?}");
    }
}

#[test]
fn fails_copy_that_changed_verifier_lost() {
    for (changing_verifier, error) in
        [(None, None), (Some(ChangingVerifier::EveryCommit), Some(OpError::VERIFIER))]
    {
        let write_stability = Some(StableHow::Unstable);
        let faults = FaultPlan { changing_verifier, write_stability, ..FaultPlan::default() };
        let (spec, server) = on_faulty(faults, true);
        let target = TrialTarget::create(&spec, config()).unwrap();
        let copied = measure_pass(&target, &spec, Pass::Copy);
        let errors = copied.result.kinds.iter().flat_map(|kind| &kind.errors);
        let errors: Vec<_> = errors.map(|(error, _)| *error).collect();
        assert_eq!(errors, Vec::from_iter(error));
        assert_eq!(copied.tally.ranges.copies.reported, u64::from(FILES) * 6);
        assert!(server.counters().nfs4_operations[5] >= u64::from(FILES), "COMMIT");
    }
}

#[test]
fn finds_damage_after_the_pass() {
    let (spec, directory) = on_directory(BackendKind::Posix);
    let target = TrialTarget::create(&spec, config()).unwrap();
    let work = target.local_paths().remove(0);
    let whole = FILE * u64::from(FILES);
    for (pass, name, offset) in [
        (Pass::Copy, "i00000001", 5),
        (Pass::Allocate, "i00000000", BLOCK),
        (Pass::Punch, "f00000002", BLOCK + 1),
    ] {
        assert_right(&target, &spec, pass);
        let file = LocalFile::options().write(true).open(work.join(name)).unwrap();
        file.write_all_at(b"x", offset).unwrap();
        let right = target.count_right_bytes(&spec, pass).unwrap().unwrap();
        assert!(right < whole, "{pass}: {right}");
    }
    // Reads notice data where a hole should be.
    target.prepare(&spec, Pass::ReadPlus).unwrap();
    let read = measure_pass(&target, &spec, Pass::ReadPlus);
    let errors: Vec<_> = read.result.kinds.iter().flat_map(|kind| &kind.errors).collect();
    assert_eq!(errors, [&(OpError::MISMATCH, 1)]);
    drop(directory);
}

#[test]
fn finds_damage_on_a_server() {
    let (spec, server) = on_nfs();
    let target = TrialTarget::create(&spec, config()).unwrap();
    let Target::Nfs(address) = &spec.target else { unreachable!() };
    let mut mount = Mount::connect(&mount_options(address)).unwrap();
    let work = server.list_directory("/export").unwrap().remove(0);
    let work = mount.lookup(mount.root(), &work).unwrap();
    let mut spoil = |name: &str, offset| {
        let file = mount.open(work, name, OpenAccess::Both).unwrap();
        mount.write(file, offset, b"x", StableHow::FileSync).unwrap();
        mount.close(file).unwrap();
    };
    assert_right(&target, &spec, Pass::Clone);
    spoil("i00000000", 7);
    assert!(target.count_right_bytes(&spec, Pass::Clone).unwrap() < Some(FILE * 3));
    assert_right(&target, &spec, Pass::Punch);
    spoil("f00000001", 3 * BLOCK);
    let read = measure_pass(&target, &spec, Pass::ReadPlus);
    let errors: Vec<_> = read.result.kinds.iter().flat_map(|kind| &kind.errors).collect();
    assert_eq!(errors, [&(OpError::MISMATCH, 1)]);
}
