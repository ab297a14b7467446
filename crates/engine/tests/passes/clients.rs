//! Many emulated clients, each recorded separately, and each under its own uid if the plan requests
//! it.

use std::collections::BTreeSet;

use engine::target::mount_options;
use engine::testing::{measure_pass, target_config};
use engine::worker::Ending;
use engine::{MeasuredPass, TargetConfig, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Durability, Identity, NfsSettings, NfsTarget, NfsVersion, Pass, RunSpec, Target,
    Workload,
};
use nfs_client::Mount;
use nfs_server::{Server, ServerConfig};

const CLIENTS: u32 = 7;
const WORKERS: u32 = 2;
const UIDS: u32 = 3;
const UID: u32 = 1_000;
const WORK: &str = ".dfsbench-clients";

struct Rig {
    export: NfsTarget,
    spec: RunSpec,
    target: TrialTarget,
    _server: Server,
}

impl Rig {
    fn new(workload: Workload, settings: NfsSettings) -> Self {
        let server = Server::start(ServerConfig::default()).unwrap();
        let identity = Identity::new(UID, UID);
        let export = NfsTarget { identity, ..nfs_target(server.address().port(), settings) };
        let spec = RunBuilder::new(workload)
            .target_name("test".into())
            .target(Target::Nfs(export.clone()))
            .backend(BackendKind::Nfs)
            .io_size_bytes(4_096)
            .file_size_bytes(if workload == Workload::Metadata { 100 } else { 64 << 10 })
            .files(56)
            .workers(WORKERS)
            .clients(CLIENTS)
            .queue_depth(2)
            .durability(Durability::Sync)
            .verify(true)
            .timeout_ms(10_000)
            .build();
        let config = TargetConfig { keep: true, ..target_config(WORK) };
        let target = TrialTarget::create(&spec, config).unwrap();
        Self { export, spec, target, _server: server }
    }

    fn run(&self, pass: Pass) -> MeasuredPass {
        let measured = measure_pass(&self.target, &self.spec, pass);
        assert_eq!(measured.ending, Ending::Complete);
        assert_eq!(measured.result.errors(), 0, "{pass:?}: {:?}", measured.result.kinds);
        measured
    }

    /// Returns the owners of the files in the working directory.
    fn owners(&self) -> BTreeSet<u32> {
        let mut mount = Mount::connect(&mount_options(&self.export)).unwrap();
        let work = mount.lookup(mount.root(), WORK).unwrap();
        let names: Vec<_> = mount.readdir(work).unwrap().into_iter().map(|e| e.name).collect();
        let owner = |name: Vec<u8>| {
            let file = mount.lookup(work, std::str::from_utf8(&name).unwrap()).unwrap();
            mount.getattr(file).unwrap().uid
        };
        names.into_iter().map(owner).collect()
    }
}

fn settings(version: NfsVersion, nconnect: u32) -> NfsSettings {
    NfsSettings { version, nconnect, client_uids: UIDS, per_client: true, ..NfsSettings::default() }
}

const VERSIONS: [NfsVersion; 3] = [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1];

#[test]
fn adds_clients_up_to_pass() {
    for version in VERSIONS {
        for (workload, nconnect) in [(Workload::Stream, 2), (Workload::Metadata, 1)] {
            let rig = Rig::new(workload, settings(version, nconnect));
            for &pass in rig.spec.passes() {
                let result = rig.run(pass).result;
                let numbers: Vec<u32> = result.clients.iter().map(|c| c.client).collect();
                assert_eq!(numbers, (0..CLIENTS).collect::<Vec<_>>(), "v{version} {pass:?}");
                let sum = |of: fn(&model::ClientResult) -> u64| -> u64 {
                    result.clients.iter().map(of).sum()
                };
                assert_eq!(sum(|c| c.ops), result.ops(), "v{version} {pass:?}");
                assert_eq!(sum(|c| c.bytes), result.bytes(), "v{version} {pass:?}");
                assert!(result.clients.iter().all(|client| client.ops > 0), "v{version} {pass:?}");
                let slowest = result.clients.iter().map(|c| c.times.max()).max().unwrap();
                let rated = result.kinds.iter().filter(|k| k.kind != model::OpKind::Sync);
                assert_eq!(Some(slowest), rated.map(|kind| kind.service_time.max()).max());
            }
        }
    }
}

#[test]
fn creates_files_under_client_uids() {
    for version in VERSIONS {
        let rig = Rig::new(Workload::Metadata, settings(version, 1));
        rig.run(Pass::Create);
        assert_eq!(rig.owners(), (UID..UID + UIDS).collect(), "v{version}");
        let one = NfsSettings { client_uids: 1, ..settings(version, 1) };
        let rig = Rig::new(Workload::Metadata, one);
        rig.run(Pass::Create);
        assert_eq!(rig.owners(), BTreeSet::from([UID]), "v{version}");
    }
}

#[test]
fn records_clients_only_if_planned() {
    let rig = Rig::new(Workload::Metadata, NfsSettings::default());
    assert!(rig.run(Pass::Create).result.clients.is_empty());
}
