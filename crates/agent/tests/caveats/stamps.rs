//! Data that changed without the backend's knowledge is reported with file and offset, and is
//! invalid.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use model::{
    BackendKind, CaveatCode, DataSettings, Load, NfsVersion, Pass, RunSpec, Share, Target, Verdict,
    Workload,
};
use nfs_client::{Mount, MountOptions};
use nfs_proto::nfs3::StableHow;
use nfs_server::{FaultKind, FaultPlan, PartsPerMillion, Server, ServerConfig};

use crate::driven_agent::{DrivenAgent, nfs, server, stream};

const FILE_BYTES: u64 = 1 << 20;

fn verified(spec: RunSpec) -> RunSpec {
    let data = DataSettings { stamp: true, ..DataSettings::default() };
    RunSpec {
        data,
        verify: true,
        files: 2,
        io_size_bytes: 32 << 10,
        file_size_bytes: FILE_BYTES,
        passes: vec![Pass::Write, Pass::Read],
        ..spec
    }
}

fn on_directory(backend: BackendKind, path: &Path) -> RunSpec {
    RunSpec { backend, queue_depth: 4, ..verified(stream(path)) }
}

/// Writes, alters the data, reads, and returns the evidence of the caveat; `None` if there is none.
fn found(spec: &RunSpec, alter: impl FnOnce(&str)) -> Option<String> {
    let mut agent = DrivenAgent::new();
    let work_name = agent.begin(spec);
    let written = agent.run(spec.passes()[0]);
    assert_eq!((written.broken, written.result.errors()), (None, 0));
    alter(&work_name);
    let caveats = agent.run(spec.passes()[1]).result.caveats;
    let caveat = caveats.iter().find(|caveat| caveat.code == CaveatCode::DataMismatch)?;
    assert_eq!(Verdict::from_caveats(&caveats), Verdict::Invalid);
    Some(caveat.evidence.clone())
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn detects_flipped_bit_on_files() {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let folder = tempfile::tempdir().unwrap();
        let spec = on_directory(backend, folder.path());
        assert_eq!(found(&spec, |_| ()), None, "{backend:?}");
        let file = |work: &str| folder.path().join(work).join("f00000001");
        let stated = found(&spec, |work| flip(&file(work), 70_001)).unwrap();
        assert!(stated.starts_with("1 of 64 ops "), "{stated}");
        assert!(stated.contains("f00000001 at 70001: read 0x"), "{stated}");
        // In the stamp itself.
        let stated = found(&spec, |work| flip(&file(work), 65_536 + 20)).unwrap();
        assert!(stated.contains("f00000001 at 65536: checksum 0x"), "{stated}");
    }
}

#[test]
fn detects_misplaced_block() {
    let folder = tempfile::tempdir().unwrap();
    let spec = on_directory(BackendKind::Posix, folder.path());
    let stated = found(&spec, |work| {
        let work = folder.path().join(work);
        let mut block = [0; 4096];
        let open = |name| OpenOptions::new().read(true).write(true).open(work.join(name)).unwrap();
        let file = open("f00000000");
        file.read_exact_at(&mut block, 8192).unwrap();
        file.write_all_at(&block, 4096).unwrap();
        open("f00000001").write_all_at(&block, 8192).unwrap();
    })
    .unwrap();
    insta::assert_snapshot!(stated);
}

#[test]
fn detects_lost_rewrite() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = on_directory(BackendKind::Posix, folder.path());
    spec.passes = vec![Pass::Write, Pass::Rewrite, Pass::Reread];
    let mut agent = DrivenAgent::new();
    let path = folder.path().join(agent.begin(&spec)).join("f00000001");
    let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut old = [0; 4096];
    agent.run(Pass::Write);
    open().read_exact_at(&mut old, 12_288).unwrap();
    agent.run(Pass::Rewrite);
    open().write_all_at(&old, 12_288).unwrap();
    let caveats = agent.run(Pass::Reread).result.caveats;
    let caveat = caveats.iter().find(|caveat| caveat.code == CaveatCode::DataMismatch).unwrap();
    insta::assert_snapshot!(caveat.evidence);
}

#[test]
fn other_workloads_find_what_they_wrote() {
    let folder = tempfile::tempdir().unwrap();
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let bonnie = RunSpec {
            workload: Workload::Bonnie,
            files: 1,
            passes: vec![
                Pass::CharWrite,
                Pass::Update,
                Pass::CharRead,
                Pass::RandomWrite,
                Pass::BackwardRead,
                Pass::Seeks,
            ],
            ..on_directory(backend, folder.path())
        };
        let odd = RunSpec { io_size_bytes: 5000, ..on_directory(backend, folder.path()) };
        let direct = RunSpec { direct: true, ..on_directory(backend, folder.path()) };
        let mixed = RunSpec {
            workload: Workload::Mixed,
            passes: vec![Pass::Mix],
            read_percent: 50,
            duration_ms: 200,
            workers: 2,
            ..on_directory(backend, folder.path())
        };
        let repeating = RunSpec {
            data: DataSettings {
                dedup_percent: 30,
                compress_percent: 50,
                ..DataSettings::default()
            },
            ..on_directory(backend, folder.path())
        };
        for spec in [bonnie, odd, direct, mixed, repeating] {
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            for pass in spec.passes() {
                let end = agent.run(*pass);
                assert_eq!(end.broken, None, "{} {pass}", spec.workload);
                let caveats = &end.result.caveats;
                assert_eq!(end.result.errors(), 0, "{} {pass}: {caveats:?}", spec.workload);
            }
        }
    }
}

/// A mix of reads and writes on a few blocks, shared by many ops in flight.
fn contended(spec: RunSpec) -> RunSpec {
    let load = Load { ops_max: 6_000, ..Load::default() };
    RunSpec {
        workload: Workload::Mixed,
        passes: vec![Pass::Mix],
        read_percent: 50,
        duration_ms: 0,
        workers: 3,
        files: 2,
        file_size_bytes: 64 << 10,
        io_size_bytes: 8 << 10,
        queue_depth: 8,
        verify: true,
        data: DataSettings::default(),
        load,
        ..spec
    }
}

#[test]
fn detects_lost_write_in_mix() {
    for (lost, expected) in [(0, false), (20_000, true)] {
        let faults = FaultPlan { lose_write: PartsPerMillion(lost), ..FaultPlan::default() };
        let server = server(ServerConfig { faults, ..ServerConfig::default() });
        let spec = contended(nfs(&server));
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        let end = agent.run(Pass::Mix);
        assert_eq!(end.broken, None);
        let caveats = &end.result.caveats;
        let found = caveats.iter().find(|caveat| caveat.code == CaveatCode::DataMismatch);
        assert_eq!(found.is_some(), expected, "{caveats:?}");
        assert_eq!(server.counters().faults_of(FaultKind::LostWrite) > 20, expected);
        if let Some(found) = found {
            assert!(found.evidence.contains(": generation "), "{}", found.evidence);
        }
    }
}

#[test]
fn writes_that_overlap_are_no_mismatch() {
    let folder = tempfile::tempdir().unwrap();
    for (backend, direct) in
        [(BackendKind::Posix, false), (BackendKind::Uring, false), (BackendKind::Uring, true)]
    {
        let spec = contended(RunSpec { direct, ..on_directory(backend, folder.path()) });
        // One block that all workers read and write at the same time.
        let hot = RunSpec { files: 1, file_size_bytes: 8 << 10, ..spec.clone() };
        for spec in [spec, hot] {
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            let end = agent.run(Pass::Mix);
            assert_eq!((end.broken, end.result.errors()), (None, 0), "{backend:?} {direct}");
            assert!(end.result.ops() >= 6_000, "{backend:?}");
        }
    }
}

#[test]
fn accepts_writes_of_other_agent() {
    let server = server(ServerConfig::default());
    let spec = RunSpec { workers: 4, ..contended(nfs(&server)) };
    let mut rigs = [DrivenAgent::new(), DrivenAgent::new()];
    let work_name = format!(".dfsbench-two-agents-{}", std::process::id());
    for (agent, index) in rigs.iter_mut().zip(0..) {
        agent.join(&spec, &work_name, Share::for_agent(index, 2, spec.workers));
    }
    let ends = std::thread::scope(|scope| {
        let runs = rigs.each_mut().map(|agent| scope.spawn(move || agent.run_prepared(Pass::Mix)));
        runs.map(|run| run.join().unwrap())
    });
    for end in ends {
        assert_eq!((end.broken, end.result.errors()), (None, 0), "{:?}", end.result.caveats);
        assert!(end.result.ops() > 0);
    }
}

/// Flips a bit in the memory of our server, acting as another client.
fn flip_over_nfs(server: &Server, work: &str, at: u64) {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    let port = Some(server.address().port());
    options.port = port;
    options.mount_port = port;
    let mut mount = Mount::connect(&options).unwrap();
    let root = mount.root();
    let work = mount.lookup(root, work).unwrap();
    let file = mount.lookup(work, "f00000001").unwrap();
    let byte = mount.read(file, at, 1).unwrap();
    mount.write(file, at, &[byte[0] ^ 4], StableHow::FileSync).unwrap();
}

#[test]
fn detects_flipped_bit_over_nfs() {
    for version in [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_1] {
        let server = server(ServerConfig::default());
        let mut spec = verified(nfs(&server));
        if let Target::Nfs(target) = &mut spec.target {
            target.settings.version = version;
        }
        assert_eq!(found(&spec, |_| ()), None, "{version}");
        let stated = found(&spec, |work| flip_over_nfs(&server, work, 70_001)).unwrap();
        assert!(stated.contains("f00000001 at 70001: read 0x"), "{version}: {stated}");
    }
}
