//! Our client with pNFS against our metadata server and its data servers, with exact counts.

use std::sync::Arc;

use engine::backend::PnfsCounts;
use engine::worker::Ending;
use engine::{MeasuredPass, Monitor, Stop, SystemClock, TargetConfig, TrialTarget, measure};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, CaveatCode, Durability, Fact, NfsSettings, NfsVersion, Pass, Pnfs, RunSpec, Share,
    Target, Workload,
};
use nfs_server::{DataServers, LayoutKind, PnfsConfig, Server, ServerConfig};
use workload::Pattern;

const FILE_BYTES: u64 = 3 << 20;
const FILES: u64 = 2;
const ALL: u64 = FILES * FILE_BYTES;
const WORKERS: u32 = 2;

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
        let servers = DataServers::Own(3);
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
            .io_size_bytes(192 << 10)
            .queue_depth(4)
            .durability(Durability::Sync)
            .verify(true)
            .build();
        let config = TargetConfig {
            seed: 1,
            work_name: ".dfsbench-pnfs".into(),
            pattern: Pattern::new(1, 1 << 20),
            clock: Arc::new(SystemClock::new()),
            keep: false,
            stop: Stop::default(),
            share: Share::ALL,
            joins: false,
        };
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
