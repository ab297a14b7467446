//! Our client with pNFS against our metadata server and its data servers, with exact counts.

use std::sync::Arc;
use std::time::Duration;

use engine::backend::{Backend, NO_LIMIT, PnfsCounts};
use engine::target::mount_options;
use engine::testing::{JumpingClock, measure_pass, target_config};
use engine::worker::Ending;
use engine::{MeasuredPass, OpenedBackend, TargetConfig, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, CaveatCode, Durability, Fact, NfsSettings, NfsVersion, Op, OpKind, Outcome, Pass,
    Pnfs, RunSpec, Target, Workload,
};
use nfs_client::Mount;
use nfs_client::proto::Status;
use nfs_client::proto::nfs4::OpCode;
use nfs_server::{
    DataServerAddress, DataServers, ErrorFault, FaultPlan, FaultedCalls, LayoutEvent, LayoutKind,
    PartsPerMillion, PnfsConfig, Server, ServerConfig,
};

const FILE_BYTES: u64 = 3 << 20;
const FILES: u64 = 2;
const ALL: u64 = FILES * FILE_BYTES;
const WORKERS: u32 = 2;
const IO: u32 = 192 << 10;

/// A target on a metadata server of ours.
struct Rig {
    spec: RunSpec,
    target: TrialTarget,
    server: Server,
    clock: Arc<JumpingClock>,
}

impl Rig {
    fn new(
        (layout, stripe_unit, mirrors): (LayoutKind, u32, usize),
        (version, pnfs): (NfsVersion, Pnfs),
    ) -> Self {
        Self::with(DataServers::Own(3), (layout, stripe_unit, mirrors), (version, pnfs))
    }

    fn with(
        servers: DataServers,
        (layout, stripe_unit, mirrors): (LayoutKind, u32, usize),
        (version, pnfs): (NfsVersion, Pnfs),
    ) -> Self {
        let config = PnfsConfig { servers, layout, stripe_unit, mirrors };
        let config = ServerConfig { pnfs: Some(config), ..ServerConfig::default() };
        Self::on(config, (version, pnfs))
    }

    fn on(config: ServerConfig, (version, pnfs): (NfsVersion, Pnfs)) -> Self {
        let server = Server::start(config).unwrap();
        let settings = NfsSettings { version, pnfs, ..NfsSettings::default() };
        let spec = RunBuilder::new(Workload::Stream)
            .target_name("cluster".into())
            .target(Target::Nfs(nfs_target(server.address().port(), settings)))
            .backend(BackendKind::Nfs)
            .file_size_bytes(FILE_BYTES)
            .files(FILES as u32)
            .workers(WORKERS)
            .io_size_bytes(IO)
            .queue_depth(4)
            .durability(Durability::Sync)
            .verify(true)
            .timeout_ms(1_000)
            .build();
        let config = target_config(".dfsbench-pnfs");
        let clock = Arc::new(JumpingClock::default());
        let config = TargetConfig { clock: Arc::clone(&clock) as _, ..config };
        let target = TrialTarget::create(&spec, config).unwrap();
        Self { spec, target, server, clock }
    }

    /// Prepares a pass, and opens it for the first worker.
    fn open(&self, pass: Pass) -> OpenedBackend {
        self.target.prepare(&self.spec, pass).unwrap();
        self.target.open(&self.spec, pass, 0).unwrap()
    }

    fn run(&self, pass: Pass) -> (MeasuredPass, Vec<Fact>) {
        let measured = measure_pass(&self.target, &self.spec, pass);
        assert_eq!(measured.ending, Ending::Complete);
        assert_eq!(measured.result.errors(), 0, "{pass:?}: {:?}", measured.result.kinds);
        (measured, self.target.end_pass(pass))
    }

    /// Payload written to and read from the metadata server, by clients.
    fn metadata_bytes(&self) -> (u64, u64) {
        let counters = self.server.counters();
        (counters.payload_written_bytes, counters.payload_read_bytes)
    }

    /// Number of v4 operations of a kind at the metadata server.
    fn operations(&self, code: OpCode) -> u64 {
        self.server.counters().nfs4_operations[code.number() as usize]
    }

    /// Payload written to and read from each data server.
    fn data_bytes(&self) -> Vec<(u64, u64)> {
        let moved = self.server.data_servers().iter().map(|server| {
            let counters = server.counters();
            (counters.payload_written_bytes, counters.payload_read_bytes)
        });
        moved.collect()
    }
}

/// Executes ops one after the other; returns how many failed.
fn execute(backend: &mut dyn Backend, kind: OpKind, offsets: impl Iterator<Item = u64>) -> usize {
    let mut ended = Vec::with_capacity(1);
    let mut failed = 0;
    for offset_bytes in offsets {
        let op = Op { scheduled_ns: 0, offset_bytes, len_bytes: IO, file: 0, kind };
        assert_eq!(backend.submit(&[op]), 1);
        while ended.is_empty() {
            backend.reap(1, NO_LIMIT, &mut ended).unwrap();
        }
        failed += usize::from(matches!(ended.remove(0).outcome, Outcome::Failed(_)));
    }
    failed
}

fn value<'a>(facts: &'a [Fact], name: &str) -> Option<&'a str> {
    facts.iter().find(|fact| fact.name.ends_with(name)).map(|fact| fact.value.as_str())
}

#[test]
fn bypasses_metadata_server() {
    let unit = 64 << 10;
    for (layout, pnfs, version) in [
        (LayoutKind::FlexFiles, Pnfs::On, NfsVersion::V4_2),
        (LayoutKind::FlexFiles, Pnfs::FlexFiles, NfsVersion::V4_1),
        (LayoutKind::FlexFilesV4, Pnfs::FlexFiles, NfsVersion::V4_2),
        (LayoutKind::FlexFilesTight, Pnfs::On, NfsVersion::V4_1),
        (LayoutKind::Files, Pnfs::Files, NfsVersion::V4_1),
    ] {
        let rig = Rig::new((layout, unit, 1), (version, pnfs));
        for pass in [Pass::Write, Pass::Read] {
            let (measured, facts) = rig.run(pass);
            assert!(measured.result.caveats.is_empty(), "{:?}", measured.result.caveats);
            let expected = PnfsCounts { data_bytes: ALL, files: FILES, ..PnfsCounts::default() };
            assert_eq!(measured.tally.pnfs, Some(expected), "{layout:?} {pass}");
            let moved = (measured.tally.write_bytes, measured.tally.read_bytes);
            let all = if pass == Pass::Write { (Some(ALL), Some(0)) } else { (Some(0), Some(ALL)) };
            assert_eq!(moved, all);
            let work = measured.result.scope.pnfs.unwrap();
            let bytes: Vec<_> = work.data_servers.iter().map(|server| server.bytes).collect();
            assert_eq!((bytes, work.metadata_bytes), (vec![ALL / 3; 3], 0));
            assert!(work.data_servers.iter().all(|server| server.connections == WORKERS));
            let is_flexible = layout.is_flexible();
            let reports = value(&facts, "reports to the metadata server");
            assert_eq!(reports, is_flexible.then_some("use with LAYOUTRETURN: 6"));
        }
        let third = ALL / 3;
        assert_eq!(rig.data_bytes(), [(third, third); 3], "{layout:?}");
        assert_eq!(rig.metadata_bytes(), (0, 0), "{layout:?}");
        let counters = rig.server.counters();
        let (reports, bytes) = if layout.is_flexible() { (12, ALL) } else { (0, 0) };
        assert_eq!(counters.usage_reports, reports, "two files on three servers, twice");
        let reported = (counters.reported_read_bytes, counters.reported_written_bytes);
        assert_eq!(reported, (bytes, bytes));
        assert_eq!(counters.layouts_granted, 2 * FILES);
        assert_eq!(counters.layouts_returned, 2 * FILES);
        rig.target.remove().unwrap();
    }
}

#[test]
fn writes_mirrors_and_reads_one() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 3), (NfsVersion::V4_1, Pnfs::On));
    rig.run(Pass::Write);
    rig.run(Pass::Read);
    let data = rig.data_bytes();
    assert!(data.iter().all(|(written, _)| *written == ALL), "{data:?}");
    assert_eq!(data.iter().map(|(_, read)| read).sum::<u64>(), ALL);
    assert_eq!(rig.metadata_bytes(), (0, 0));
}

#[test]
fn reads_back_requested_layout() {
    let unit = 64 << 10;
    let mut rig = Rig::new((LayoutKind::FlexFiles, unit, 1), (NfsVersion::V4_1, Pnfs::On));
    for (mirrors, caveats) in [(1, 0), (2, 1)] {
        let Target::Nfs(nfs) = &mut rig.spec.target else { unreachable!() };
        nfs.settings.data_servers = Some(3);
        nfs.settings.stripe_unit = Some(unit);
        nfs.settings.mirrors = Some(mirrors);
        let (measured, facts) = rig.run(Pass::Write);
        let shown = value(&facts, ": layouts").unwrap();
        assert_eq!(shown, "1 mirror of 3 stripes of 64 KiB on 3 data servers");
        let is_code = |caveat: &&model::Caveat| caveat.code == CaveatCode::OptionNotEffective;
        let found = measured.result.caveats.iter().filter(is_code).count();
        assert_eq!(found.min(1), caveats, "{mirrors} {:?}", measured.result.caveats);
    }
}

#[test]
fn uses_metadata_server_without_pnfs() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 1), (NfsVersion::V4_1, Pnfs::Off));
    let (measured, facts) = rig.run(Pass::Write);
    assert_eq!((measured.tally.pnfs, measured.result.scope.pnfs), (None, None));
    assert_eq!(facts, []);
    assert_eq!(rig.metadata_bytes(), (ALL, 0));
    assert_eq!(rig.server.counters().layouts_granted, 0);
}

#[test]
fn names_layouts_of_other_type() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 1), (NfsVersion::V4_1, Pnfs::Files));
    let (measured, _) = rig.run(Pass::Write);
    let fallback = measured.result.caveats.iter().find(|c| c.code == CaveatCode::PnfsFallback);
    let evidence = &fallback.expect("pnfs-fallback").evidence;
    assert!(evidence.ends_with("the server offers only flexible files"), "{evidence}");
    assert_eq!(rig.metadata_bytes(), (ALL, 0));
}

#[test]
fn returns_recalled_layout() {
    let rig = Rig::new((LayoutKind::FlexFiles, 64 << 10, 1), (NfsVersion::V4_1, Pnfs::On));
    let mut opened = rig.open(Pass::Write);
    let backend = opened.backend.as_mut();
    let offset = |index: u64| index * u64::from(IO);
    assert_eq!(execute(backend, OpKind::Write, (0..4).map(offset)), 0);
    // Another client changes the size, for which the server recalls the layout first.
    let plain = NfsSettings { version: NfsVersion::V3, ..NfsSettings::default() };
    let other = nfs_target(rig.server.address().port(), plain);
    let changed = std::thread::spawn(move || {
        let mut mount = Mount::connect(&mount_options(&other)).unwrap();
        let root = mount.root();
        let work = mount.lookup(root, ".dfsbench-pnfs").unwrap();
        let listed = mount.readdir(work).unwrap();
        let is_file = |name: &str| name.starts_with('f');
        let mut names = listed.iter().map(|entry| String::from_utf8_lossy(&entry.name));
        let name = names.find(|name| is_file(name)).expect("the file of the worker").into_owned();
        let file = mount.lookup(work, &name).unwrap();
        while mount.set_size(file, 4 * u64::from(IO)).is_err() {}
    });
    let mut done = 4;
    while !changed.is_finished() {
        assert_eq!(execute(backend, OpKind::Write, std::iter::once(offset(done % 16))), 0);
        done += 1;
    }
    changed.join().unwrap();
    assert_eq!(execute(backend, OpKind::Write, (0..16).map(offset)), 0);
    assert_eq!(execute(backend, OpKind::Read, (0..16).map(offset)), 0, "verified");
    let pnfs = backend.tally().pnfs.unwrap();
    assert!(pnfs.recalled >= 1);
    assert_eq!(pnfs.data_bytes + pnfs.metadata_bytes, (done + 32) * u64::from(IO));
    let (written, read) = rig.metadata_bytes();
    assert_eq!(written + read, pnfs.metadata_bytes);
    assert!(rig.server.counters().layouts_recalled >= 1);
}

/// Writes and reads the file of a worker until it all goes to data servers again; returns the
/// counts and the number of ops.
fn return_to_data_servers(rig: &Rig, backend: &mut dyn Backend) -> (PnfsCounts, u64) {
    let offsets = || (0..4).map(|index: u64| index * u64::from(IO));
    let mut ops = 0;
    loop {
        let before = backend.tally().pnfs.unwrap();
        assert_eq!(execute(backend, OpKind::Write, offsets()), 0);
        assert_eq!(execute(backend, OpKind::Read, offsets()), 0, "verified");
        ops += 8;
        let now = backend.tally().pnfs.unwrap();
        if now.regained > 0 && now.metadata_bytes == before.metadata_bytes {
            return (now, ops);
        }
        rig.clock.jump(Duration::from_millis(250));
    }
}

#[test]
fn gets_layout_again() {
    for (layout, event) in [
        (LayoutKind::FlexFiles, LayoutEvent::Recall),
        (LayoutKind::Files, LayoutEvent::Recall),
        (LayoutKind::FlexFiles, LayoutEvent::Fence),
        (LayoutKind::FlexFilesV4, LayoutEvent::Fence),
        (LayoutKind::FlexFilesTight, LayoutEvent::Fence),
        (LayoutKind::FlexFiles, LayoutEvent::Revoke),
    ] {
        let rig = Rig::new((layout, 64 << 10, 1), (NfsVersion::V4_1, Pnfs::On));
        let mut opened = rig.open(Pass::Write);
        let backend = opened.backend.as_mut();
        // The sync publishes the size, up to which the metadata server can read.
        let offsets = (0..4).map(|index: u64| index * u64::from(IO));
        assert_eq!(execute(backend, OpKind::Write, offsets), 0);
        assert_eq!(execute(backend, OpKind::Sync, std::iter::once(0)), 0);
        rig.server.take_back_layouts_now(event);
        let (pnfs, ops) = return_to_data_servers(&rig, backend);
        let all = (ops + 4) * u64::from(IO);
        assert_eq!(pnfs.data_bytes + pnfs.metadata_bytes, all, "{event:?}");
        assert!(pnfs.data_bytes >= 8 * u64::from(IO), "{event:?}: {pnfs:?}");
        assert_eq!(rig.metadata_bytes().0 + rig.metadata_bytes().1, pnfs.metadata_bytes);
        assert_eq!(pnfs.recalled, u64::from(event == LayoutEvent::Recall));
        assert_eq!(pnfs.refused > 0, event != LayoutEvent::Recall, "{event:?}: {pnfs:?}");
        backend.end();
        drop(opened);
        let facts = rig.target.end_pass(Pass::Write);
        let expected = format!("{} recalled, {} got again", pnfs.recalled, pnfs.regained);
        assert_eq!(value(&facts, "recalled layouts"), Some(expected.as_str()));
        let counters = rig.server.counters();
        assert_eq!(counters.layouts_granted, 1 + pnfs.regained, "{event:?}");
        assert_eq!(counters.layouts_granted, counters.layouts_returned + counters.layouts_revoked);
    }
}

#[test]
fn workers_share_layout_of_file() {
    let mut rig = Rig::new((LayoutKind::FlexFiles, 64 << 10, 1), (NfsVersion::V4_2, Pnfs::On));
    rig.spec.workload = Workload::Mixed;
    rig.target.prepare(&rig.spec, Pass::Mix).unwrap();
    let mut opened = [0, 1].map(|worker| rig.target.open(&rig.spec, Pass::Mix, worker).unwrap());
    let before = (rig.server.proxied_bytes(), rig.data_bytes());
    let use_both = |opened: &mut [OpenedBackend; 2]| {
        for (half, one) in (0..2).zip(opened) {
            let offsets = || [0, 1].map(|index| (2 * half + index) * u64::from(IO)).into_iter();
            let backend = one.backend.as_mut();
            assert_eq!(execute(backend, OpKind::Write, offsets()), 0);
            assert_eq!(execute(backend, OpKind::Sync, std::iter::once(0)), 0);
            assert_eq!(execute(backend, OpKind::Read, offsets()), 0, "verified");
        }
    };
    let regained = |opened: &[OpenedBackend; 2]| {
        opened.each_ref().map(|one| one.backend.tally().pnfs.unwrap().regained)
    };
    use_both(&mut opened);
    for round in 1..=2 {
        rig.server.take_back_layouts_now(LayoutEvent::Recall);
        while regained(&opened).iter().any(|count| *count < round * FILES) {
            use_both(&mut opened);
            rig.clock.jump(Duration::from_millis(250));
        }
    }
    use_both(&mut opened);
    for one in &mut opened {
        one.backend.end();
    }
    drop(opened);
    let counters = rig.server.counters();
    for status in [Status::BadLayout, Status::BadStateid] {
        assert_eq!(counters.errors.get(&status), None, "someone returned what others used");
    }
    assert_eq!(counters.layouts_revoked, 0);
    let sums = |(proxied, data): ((u64, u64), Vec<(u64, u64)>)| {
        let (written, read) = data.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (read - proxied.0, written - proxied.1)
    };
    let (before, after) = (sums(before), sums((rig.server.proxied_bytes(), rig.data_bytes())));
    let reported = (counters.reported_read_bytes, counters.reported_written_bytes);
    assert_eq!(reported, (after.0 - before.0, after.1 - before.1));
}

#[test]
fn asks_again_if_refused_for_now() {
    let config = PnfsConfig {
        servers: DataServers::Own(2),
        layout: LayoutKind::FlexFiles,
        stripe_unit: 64 << 10,
        mirrors: 1,
    };
    let refusal = ErrorFault {
        calls: FaultedCalls::V4(OpCode::Layoutget.number()),
        status: Status::RecallConflict,
        share: PartsPerMillion(500_000),
    };
    // The first LAYOUTGET has to succeed.
    let (rig, mut opened) = (0..)
        .find_map(|seed| {
            let faults = FaultPlan { errors: vec![refusal], seed, ..FaultPlan::default() };
            let config =
                ServerConfig { pnfs: Some(config.clone()), faults, ..ServerConfig::default() };
            let rig = Rig::on(config, (NfsVersion::V4_2, Pnfs::On));
            rig.target.prepare(&rig.spec, Pass::Write).unwrap();
            let opened = rig.target.open(&rig.spec, Pass::Write, 0).unwrap();
            opened.backend.tally().pnfs.is_some().then_some((rig, opened))
        })
        .unwrap();
    let backend = opened.backend.as_mut();
    let refused = || {
        let errors = rig.server.counters().errors;
        errors.get(&Status::RecallConflict).copied().unwrap_or(0)
    };
    let offsets = (0..4).map(|index: u64| index * u64::from(IO));
    assert_eq!(execute(backend, OpKind::Write, offsets), 0);
    assert_eq!(execute(backend, OpKind::Sync, std::iter::once(0)), 0);
    let before = refused();
    let mut recalls = 0;
    while refused() == before {
        rig.server.take_back_layouts_now(LayoutEvent::Recall);
        recalls += 1;
        while backend.tally().pnfs.unwrap().recalled < recalls {
            assert_eq!(execute(backend, OpKind::Write, std::iter::once(0)), 0);
        }
        while backend.tally().pnfs.unwrap().regained < recalls {
            assert_eq!(execute(backend, OpKind::Write, std::iter::once(0)), 0);
            rig.clock.jump(Duration::from_millis(250));
        }
    }
    let (pnfs, _) = return_to_data_servers(&rig, backend);
    assert_eq!((pnfs.recalled, pnfs.regained), (recalls, recalls));
}

#[test]
fn reads_other_mirror_if_server_dies() {
    let start = || Server::start(ServerConfig::default()).unwrap();
    let (first, second) = (start(), start());
    let at =
        |server: &Server| DataServerAddress { address: server.address(), export: "/export".into() };
    let servers = DataServers::At(vec![at(&first), at(&second)]);
    let rig = Rig::with(servers, (LayoutKind::FlexFiles, 0, 2), (NfsVersion::V4_1, Pnfs::On));
    rig.run(Pass::Write);
    let mut opened = rig.open(Pass::Read);
    let backend = opened.backend.as_mut();
    let offsets = || (0..16_u64).map(|index| index * u64::from(IO));
    assert_eq!(execute(backend, OpKind::Read, offsets()), 0);
    let is_first = first.counters().payload_read_bytes > 0;
    let (dying, left) = if is_first { (first, second) } else { (second, first) };
    assert_eq!(
        (dying.counters().payload_read_bytes, left.counters().payload_read_bytes),
        (FILE_BYTES, 0)
    );
    dying.shutdown();
    assert_eq!(execute(backend, OpKind::Read, offsets()), 0);
    assert_eq!(left.counters().payload_read_bytes, FILE_BYTES);
    let expected = PnfsCounts {
        data_bytes: 2 * FILE_BYTES,
        files: 1,
        lost_servers: 1,
        ..PnfsCounts::default()
    };
    assert_eq!(backend.tally().pnfs, Some(expected));
    assert_eq!(rig.metadata_bytes(), (0, 0));
}

#[test]
fn reports_use_at_intervals() {
    for version in [NfsVersion::V4_2, NfsVersion::V4_1] {
        let rig = Rig::new((LayoutKind::FlexFiles, 64 << 10, 1), (version, Pnfs::On));
        let mut opened = rig.open(Pass::Write);
        let backend = opened.backend.as_mut();
        let offsets = || (0..4).map(|index: u64| index * u64::from(IO));
        assert_eq!(execute(backend, OpKind::Write, offsets()), 0);
        assert_eq!(rig.operations(OpCode::Layoutstats), 0, "it is not yet time");
        rig.clock.jump(Duration::from_secs(61));
        if version == NfsVersion::V4_2 {
            while rig.operations(OpCode::Layoutstats) < 3 {
                assert_eq!(execute(backend, OpKind::Read, offsets()), 0);
            }
        }
        backend.end();
        drop(opened);
        let facts = rig.target.end_pass(Pass::Write);
        let reports = value(&facts, "reports to the metadata server").unwrap();
        let with_stats = "use with LAYOUTSTATS: 3; use with LAYOUTRETURN: 3";
        let is_new = version == NfsVersion::V4_2;
        assert_eq!(reports, if is_new { with_stats } else { "use with LAYOUTRETURN: 3" });
        let counters = rig.server.counters();
        assert_eq!(counters.usage_reports, if is_new { 6 } else { 3 });
        assert_eq!(counters.reported_written_bytes, 4 * u64::from(IO));
    }
}

#[test]
fn reports_servers_that_refuse() {
    for version in [NfsVersion::V4_2, NfsVersion::V4_1] {
        let rig = Rig::new((LayoutKind::FlexFiles, 64 << 10, 1), (version, Pnfs::On));
        let mut opened = rig.open(Pass::Write);
        let backend = opened.backend.as_mut();
        rig.server.take_back_layouts_now(LayoutEvent::Fence);
        let refused = |backend: &mut dyn Backend| backend.tally().pnfs.unwrap().refused;
        while refused(backend) == 0 {
            assert_eq!(execute(backend, OpKind::Write, std::iter::once(0)), 0);
        }
        let reported = || rig.server.data_server_errors().iter().sum::<u64>();
        while reported() == 0 {
            assert_eq!(execute(backend, OpKind::Write, std::iter::once(0)), 0);
        }
        let has_layouterror = rig.operations(OpCode::Layouterror) > 0;
        assert_eq!(has_layouterror, version == NfsVersion::V4_2);
        backend.end();
        drop(opened);
        let count = reported();
        let op = if has_layouterror { "LAYOUTERROR" } else { "LAYOUTRETURN" };
        let facts = rig.target.end_pass(Pass::Write);
        let reports = value(&facts, "reports to the metadata server").unwrap();
        assert!(reports.starts_with(&format!("errors with {op}: {count}; use with ")), "{reports}");
    }
}

#[test]
fn reads_other_mirror_if_server_hangs() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 3), (NfsVersion::V4_1, Pnfs::On));
    rig.run(Pass::Write);
    let mut opened = rig.open(Pass::Read);
    let backend = opened.backend.as_mut();
    let offsets = || (0..16_u64).map(|index| index * u64::from(IO));
    assert_eq!(execute(backend, OpKind::Read, offsets()), 0);
    let reader = rig.data_bytes().iter().position(|(_, read)| *read > 0).unwrap();
    let hanging = &rig.server.data_servers()[reader];
    hanging.stall_now(Duration::MAX);
    // The first read waits for the timeout.
    assert_eq!(execute(backend, OpKind::Read, offsets()), 0, "verified");
    let pnfs = backend.tally().pnfs.unwrap();
    assert_eq!((pnfs.lost_servers, pnfs.metadata_bytes), (1, 0));
    backend.end();
    let work = backend.pnfs_work().unwrap();
    let lost = work.data_servers.iter().filter(|server| server.lost_connections > 0);
    let lost: Vec<_> = lost.map(|server| &server.address).collect();
    assert_eq!(lost, [&hanging.address().to_string()]);
    drop(opened);
    rig.target.end_pass(Pass::Read);
    // It answers again, and its data is as it was.
    hanging.stall_now(Duration::ZERO);
    rig.run(Pass::Read);
}

#[test]
fn writes_wait_for_short_hang() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 1), (NfsVersion::V4_1, Pnfs::On));
    for server in rig.server.data_servers() {
        server.stall_now(Duration::from_millis(300));
    }
    rig.run(Pass::Write);
    rig.run(Pass::Read);
    assert_eq!(rig.data_bytes().iter().map(|(written, _)| written).sum::<u64>(), ALL);
}
