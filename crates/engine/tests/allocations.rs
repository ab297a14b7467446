//! The measured loop allocates nothing, on any backend.

mod allocation_counts;

use std::sync::Arc;

use allocation_counts::counts;
use engine::admission::{Admission, Timing};
use engine::backend::{Backend, LostTarget};
use engine::recorder::Recorder;
use engine::stonewall::PassState;
use engine::target::{follow_rewrites, pattern_of};
use engine::testing::target_config;
use engine::worker::{Ending, Progress, Worker};
use engine::working_set::WorkingSetTracker;
use engine::{OpenedBackend, TargetConfig, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    Arrivals, BackendKind, Completion, Durability, Load, NfsSettings, NfsVersion, Op, OpKind,
    OpMix, Pass, Pnfs, Proto, RunSpec, Share, Target, TcpTarget, Training, Workload,
};
use nfs_server::{DataServers, LayoutKind, PnfsConfig, Server, ServerConfig};
use workload::{OpStream, listed_directories, pass_size};

/// Counts from the first submit until the last op has completed.
struct Watch {
    backend: Box<dyn Backend>,
    left: u64,
    /// The count at the first submit.
    begun: Option<u64>,
    counted: u64,
}

impl Backend for Watch {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.begun.get_or_insert_with(changes);
        self.backend.submit(batch)
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let before = out.len();
        let result = self.backend.reap(min, until_ns, out);
        self.left -= (out.len() - before) as u64;
        if self.left == 0
            && let Some(begun) = self.begun.take()
        {
            self.counted += changes() - begun;
        }
        result
    }
}

/// Number of allocations of this thread so far, and of what it has freed.
fn changes() -> u64 {
    let (allocated, freed) = counts();
    allocated + freed
}

fn spec(target: Target, backend: BackendKind, workload: Workload) -> RunSpec {
    RunBuilder::new(workload)
        .target_name("test".into())
        .target(target)
        .backend(backend)
        .file_size_bytes(if workload == Workload::Metadata { 1000 } else { 1 << 20 })
        .files(if workload == Workload::Metadata { 200 } else { 2 })
        .queue_depth(8)
        .read_percent(70)
        .duration_ms(100)
        .durability(Durability::Sync)
        .verify(true)
        .build()
}

fn allocations_of(spec: &RunSpec) -> u64 {
    let mut pattern = pattern_of(spec, 1, "allocations");
    pattern.generate_all();
    let work_name = format!(".dfsbench-{}-{}", spec.backend.name(), spec.workload.name());
    let pattern = follow_rewrites(pattern, spec, Share::ALL);
    let config = TargetConfig { pattern, ..target_config(work_name) };
    let target = TrialTarget::create(spec, config).unwrap();
    let mut total = 0;
    for &pass in spec.passes() {
        target.prepare(spec, pass).unwrap();
        let ops = if pass.lists() { listed_directories(spec) } else { ops_of(spec, pass) };
        let OpenedBackend { backend, queue_depth, .. } = target.open(spec, pass, 0).unwrap();
        let mut watch = Watch { backend, left: ops, begun: None, counted: 0 };
        let shared = PassState::default();
        let progress = Progress::default();
        let stream = OpStream::new(spec, pass, 0, 1);
        let mut admission = Admission::new(spec, &stream, queue_depth);
        if let Some(rewrites) = target.rewrites() {
            admission = Some(Admission::with_rewrites(admission, Arc::clone(rewrites)));
        }
        let worker = Worker {
            admission,
            vain_max_ns: u64::MAX,
            wears_out: false,
            stream,
            backend: &mut watch,
            recorder: Recorder::new(OpKind::ALL),
            shared: &shared,
            progress: &progress,
            timing: Timing::new(spec, pass, target.clock().now_ns()),
            clock: target.clock().as_ref(),
            working_set: WorkingSetTracker::new(spec, pass),
            queue_depth,
        };
        let end = worker.run();
        assert_eq!((end.ending, watch.left), (Ending::Complete, 0), "{pass:?}");
        assert_eq!(end.recorder.errors(), 0, "{pass:?}");
        total += watch.counted;
    }
    total
}

/// Number of ops of a pass that only ends with its files and counts, including syncs.
fn ops_of(spec: &RunSpec, pass: Pass) -> u64 {
    let mut stream = OpStream::new(spec, pass, 0, 1);
    let ops = std::iter::from_fn(|| stream.next_op()).count() as u64;
    let syncs = if pass == Pass::Write { u64::from(spec.files) } else { 0 };
    assert!(pass_size(spec, pass).ops.is_none_or(|known| ops >= known + syncs), "{pass}");
    ops
}

/// Every pass of every workload, under loads of every kind, on targets that store nothing.
fn assert_passes_do_not_allocate(target: &Target, backend: BackendKind) {
    let fast = Load { rate_per_s: 1_000_000, ..Load::default() };
    let loads = [
        Load::default(),
        fast,
        Load { arrivals: Arrivals::Constant, ramp_ms: 1, warmup_ms: 1, ..fast },
        Load { think_time_ns: 1_000, ..Load::default() },
        Load { bytes_per_s: 10 << 30, ..Load::default() },
    ];
    // The phases of io500 are passes of other workloads.
    let is_measured = |workload: &Workload| !workload.is_external() && *workload != Workload::Io500;
    for workload in Workload::ALL.iter().copied().filter(is_measured) {
        for load in loads {
            let load = Load { ops_max: 300, ..load };
            let plain = spec(target.clone(), backend, workload);
            let passes = [workload.passes(), workload.passes_allowed()].concat();
            let op_mix =
                OpMix { name: "sfs3-like-v3".into(), set_bytes_per_rate: 0, ..OpMix::default() };
            let layout = model::Layout { skew_percent: 80, ..model::Layout::default() };
            let spec = RunBuilder::from(plain)
                .load(load)
                .passes(passes)
                .op_mix(op_mix)
                .layout(layout)
                .duration_ms(0)
                .build();
            assert_eq!(allocations_of(&spec), 0, "{} {workload} {load:?}", backend.name());
        }
    }
}

#[test]
fn allocates_nothing_for_any_load() {
    for target in Target::PLAIN {
        for backend in target.row().backends {
            assert_passes_do_not_allocate(target, *backend);
        }
    }
}

#[test]
fn a_plain_connection_allocates_nothing() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let port = Some(server.address().port());
    let target = TcpTarget { host: "127.0.0.1".to_owned(), port, embedded: false };
    assert_passes_do_not_allocate(&Target::Tcp(target), BackendKind::Tcp);
}

#[test]
fn the_allocator_counts() {
    let before = changes();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!(changes() - before, 2);
}

#[test]
fn the_loop_allocates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = || Target::Directory { path: directory.path().to_owned() };
    for workload in [Workload::Stream, Workload::Metadata] {
        for (target, backend) in [
            (Target::Null, BackendKind::Null),
            (path(), BackendKind::Posix),
            (path(), BackendKind::Uring),
        ] {
            let spec = spec(target, backend, workload);
            assert_eq!(allocations_of(&spec), 0, "{} {}", backend.name(), workload.name());
        }
    }
}

#[test]
fn allocates_nothing_for_any_version() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let port = server.address().port();
    for (version, proto) in [
        (NfsVersion::V2, Proto::Tcp),
        (NfsVersion::V2, Proto::Udp),
        (NfsVersion::V3, Proto::Tcp),
        (NfsVersion::V3, Proto::Udp),
        (NfsVersion::V4_0, Proto::Tcp),
        (NfsVersion::V4_1, Proto::Tcp),
        (NfsVersion::V4_2, Proto::Tcp),
    ] {
        for workload in [Workload::Stream, Workload::Metadata] {
            let settings = NfsSettings { version, proto, ..NfsSettings::default() };
            let target = nfs_target(port, settings);
            let spec = spec(Target::Nfs(target), BackendKind::Nfs, workload);
            let name = workload.name();
            assert_eq!(allocations_of(&spec), 0, "version {version} over {proto}: {name}");
        }
    }
}

/// Small runs of the workloads with the most kinds of ops.
fn others(target: &Target, backend: BackendKind) -> Vec<RunSpec> {
    let small = |workload| {
        RunBuilder::from(spec(target.clone(), backend, workload))
            .file_size_bytes(40_000)
            .files(4)
            .build()
    };
    let mut names = small(Workload::Metadata);
    names.file_size_bytes = 3_000;
    names.passes = vec![
        Pass::Create,
        Pass::ReadFiles,
        Pass::Rename,
        Pass::Mkdir,
        Pass::RenameDirs,
        Pass::StatDirs,
        Pass::Rmdir,
        Pass::Remove,
    ];
    // In a directory they need a file system that supports them.
    if names.speaks_nfs() && names.nfs().version == NfsVersion::V4_2 {
        names.passes.splice(1..1, [Pass::SetXattr, Pass::GetXattr]);
    }
    let mut sweeps = small(Workload::Stream);
    sweeps.passes = vec![Pass::CharWrite, Pass::CharRead, Pass::Update, Pass::BackwardRead];
    let mut mix = small(Workload::OpMix);
    "sfs3-like-v3".clone_into(&mut mix.op_mix.name);
    mix.load.ops_max = 2_000;
    mix.duration_ms = 60_000;
    let mut pool = small(Workload::Transactions);
    pool.queue_depth = 1;
    // Its reads are verified, so its writes are tracked.
    let mut rewrites = small(Workload::Mixed);
    rewrites.io_size_bytes = 4096;
    rewrites.file_size_bytes = 40 << 10;
    rewrites.load.ops_max = 2_000;
    rewrites.duration_ms = 0;
    let mut database = RunSpec { workload: Workload::Database, ..rewrites.clone() };
    database.database.commit_bytes = 12_288;
    let mut boot = RunSpec { workload: Workload::VmBoot, ..rewrites.clone() };
    boot.vm_boot = model::VmBoot { bytes: 1 << 20, base_image: true };
    let mut ranges = small(Workload::DataOps);
    ranges.io_size_bytes = 8192;
    // Few file systems share blocks.
    ranges.passes = vec![Pass::Copy, Pass::Allocate, Pass::Punch, Pass::Seek, Pass::ReadPlus];
    if backend == BackendKind::Nfs {
        ranges.passes.push(Pass::Clone);
    }
    let mut listing = small(Workload::Listing);
    listing.file_size_bytes = 1;
    listing.files = 1_000;
    listing.passes = Workload::Listing.passes().to_vec();
    let mut developer = small(Workload::Developer);
    developer.queue_depth = 1;
    developer.io_size_bytes = 8192;
    developer.passes = Workload::Developer.passes().to_vec();
    // Each worker reads for the same accelerator: whole files, and parts of open ones.
    let training = |samples_per_file| {
        let mut run = small(Workload::Training);
        run.training = Training {
            readers: run.workers,
            batch: 1,
            compute_ns: 100_000,
            epochs: 20,
            samples_per_file,
            ..Training::default()
        };
        run
    };
    let mut all = vec![names, sweeps, pool, mix, rewrites, database, boot, listing, developer];
    all.extend([training(1), training(4)]);
    if !ranges.speaks_nfs() || ranges.nfs().version == NfsVersion::V4_2 {
        all.push(ranges);
    }
    all
}

#[test]
fn allocates_nothing_on_any_backend() {
    let directory = tempfile::tempdir().unwrap();
    let path = Target::Directory { path: directory.path().to_owned() };
    let server = Server::start(ServerConfig::default()).unwrap();
    let port = server.address().port();
    let mut targets = vec![(path.clone(), BackendKind::Posix), (path, BackendKind::Uring)];
    for version in NfsVersion::ALL.iter().copied() {
        let settings = NfsSettings { version, ..NfsSettings::default() };
        let target = nfs_target(port, settings);
        targets.push((Target::Nfs(target), BackendKind::Nfs));
    }
    for (target, backend) in targets {
        for spec in others(&target, backend) {
            let version = spec.nfs().version;
            let what = format!("{} {version} {}", backend.name(), spec.workload.name());
            assert_eq!(allocations_of(&spec), 0, "{what}");
        }
    }
}

#[test]
fn allocates_nothing_for_many_clients() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let port = server.address().port();
    for version in [NfsVersion::V3, NfsVersion::V4_1] {
        for (clients, nconnect) in [(30, 1), (1, 4), (5, 2)] {
            for workload in [Workload::Stream, Workload::Metadata] {
                let settings = NfsSettings {
                    version,
                    nconnect,
                    client_uids: 3,
                    per_client: true,
                    ..NfsSettings::default()
                };
                let target = nfs_target(port, settings);
                let spec = spec(Target::Nfs(target), BackendKind::Nfs, workload);
                let spec = RunBuilder::from(spec).clients(clients).build();
                let what = format!("version {version}, {clients} clients, nconnect {nconnect}");
                assert_eq!(allocations_of(&spec), 0, "{what}: {}", workload.name());
            }
        }
    }
}

#[test]
fn allocates_nothing_with_pnfs() {
    for layout in [LayoutKind::FlexFiles, LayoutKind::Files] {
        let servers = DataServers::Own(3);
        let pnfs = PnfsConfig { servers, layout, stripe_unit: 64 << 10, mirrors: 1 };
        let config = ServerConfig { pnfs: Some(pnfs), ..ServerConfig::default() };
        let server = Server::start(config).unwrap();
        let settings =
            NfsSettings { version: NfsVersion::V4_1, pnfs: Pnfs::On, ..NfsSettings::default() };
        let target = Target::Nfs(nfs_target(server.address().port(), settings));
        assert_eq!(allocations_of(&spec(target, BackendKind::Nfs, Workload::Stream)), 0);
        assert_eq!(server.counters().payload_read_bytes, 0);
    }
}
