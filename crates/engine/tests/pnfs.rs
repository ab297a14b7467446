//! Our client with pNFS against our metadata server and its data servers, with exact counts.

mod config;

use std::time::Duration;

use config::target_config;
use engine::backend::{Backend, NO_LIMIT, PnfsCounts};
use engine::target::mount_options;
use engine::worker::Ending;
use engine::{MeasuredPass, Monitor, Stop, TrialTarget, measure};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, CaveatCode, Durability, Fact, NfsSettings, NfsVersion, Op, OpKind, Outcome, Pass,
    Pnfs, RunSpec, Share, Target, Workload,
};
use nfs_client::Mount;
use nfs_server::{DataServerAddress, DataServers, LayoutKind, PnfsConfig, Server, ServerConfig};

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
        let target = TrialTarget::create(&spec, config).unwrap();
        Self { spec, target, server }
    }

    fn run(&self, pass: Pass) -> (MeasuredPass, Vec<Fact>) {
        let stop = Stop::default();
        let mut monitor = Monitor {
            stop: &stop,
            opened: &|| (),
            gate: &mut || Some(0),
            observe: &mut |_| (),
            client_cpu_ns: &|| 0,
        };
        self.target.prepare(&self.spec, pass).unwrap();
        let share = Share::whole(WORKERS);
        let measured = measure(&self.target, &self.spec, pass, share, 1, &mut monitor).unwrap();
        assert_eq!(measured.ending, Ending::Complete);
        assert_eq!(measured.result.errors(), 0, "{pass:?}: {:?}", measured.result.kinds);
        (measured, self.target.end_pass(pass))
    }

    /// Payload written to and read from the metadata server, by clients.
    fn metadata_bytes(&self) -> (u64, u64) {
        let counters = self.server.counters();
        (counters.payload_written_bytes, counters.payload_read_bytes)
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
            let past = value(&facts, "bytes past the metadata server");
            assert_eq!(past, Some("100.0 %, 6 MiB"));
            assert_eq!(value(&facts, "data servers").unwrap().matches("(33.3 %)").count(), 3);
        }
        let third = ALL / 3;
        assert_eq!(rig.data_bytes(), [(third, third); 3], "{layout:?}");
        assert_eq!(rig.metadata_bytes(), (0, 0), "{layout:?}");
        let counters = rig.server.counters();
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
    assert_eq!((measured.tally.pnfs, facts), (None, Vec::new()));
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
    rig.target.prepare(&rig.spec, Pass::Write).unwrap();
    let mut opened = rig.target.open(&rig.spec, Pass::Write, 0).unwrap();
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
    assert_eq!(pnfs.recalled, 1);
    assert_eq!(pnfs.data_bytes + pnfs.metadata_bytes, (done + 32) * u64::from(IO));
    let (written, read) = rig.metadata_bytes();
    assert_eq!(written + read, pnfs.metadata_bytes);
    assert!(written >= 16 * u64::from(IO));
    assert_eq!(rig.server.counters().layouts_recalled, 1);
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
    rig.target.prepare(&rig.spec, Pass::Read).unwrap();
    let mut opened = rig.target.open(&rig.spec, Pass::Read, 0).unwrap();
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
fn reads_other_mirror_if_server_hangs() {
    let rig = Rig::new((LayoutKind::FlexFiles, 0, 3), (NfsVersion::V4_1, Pnfs::On));
    rig.run(Pass::Write);
    rig.target.prepare(&rig.spec, Pass::Read).unwrap();
    let mut opened = rig.target.open(&rig.spec, Pass::Read, 0).unwrap();
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
    drop(opened);
    let facts = rig.target.end_pass(Pass::Read);
    let servers = value(&facts, ": data servers").unwrap();
    let lost: Vec<_> = servers.split("; ").filter(|one| one.ends_with(", lost)")).collect();
    let [lost] = lost[..] else { panic!("{servers}") };
    assert!(lost.starts_with(&hanging.address().to_string()), "{servers}");
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
