//! A server that restarts, delays, loses and repeats calls in the middle of a pass: every op still
//! succeeds, the data on the server is complete, and the recovery is counted.

use std::time::Duration;

use engine::TrialTarget;
use engine::backend::BackendCounts;
use engine::testing::{DisturbedBackend, run_worker, target_config};
use engine::worker::Ending;
use model::soak::Recovery;
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Durability, NfsSettings, NfsVersion, OpKind, OpMix, Pass, Proto, RunSpec, Target,
    Workload,
};
use nfs_client::proto::nfs3::Status;
use nfs_server::{ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, Server, ServerConfig};
use workload::{Name, Pattern, Places, pass_size};

const FILE_BYTES: u64 = 1 << 20;
const IO_BYTES: u32 = 16 << 10;

struct Rig {
    server: Server,
    spec: RunSpec,
    target: TrialTarget,
}

impl Rig {
    fn new(settings: NfsSettings, faults: FaultPlan) -> Self {
        Self::on(ServerConfig { faults, ..ServerConfig::default() }, settings)
    }

    fn on(config: ServerConfig, settings: NfsSettings) -> Self {
        let server = Server::start(config).unwrap();
        let port = server.address().port();
        let target = nfs_target(port, settings);
        let spec = RunBuilder::new(Workload::Stream)
            .target_name("test".into())
            .target(Target::Nfs(target))
            .backend(BackendKind::Nfs)
            .io_size_bytes(IO_BYTES)
            .file_size_bytes(FILE_BYTES)
            .files(3)
            .queue_depth(4)
            .durability(Durability::Sync)
            .verify(true)
            .timeout_ms(10_000)
            .build();
        let config = target_config(".dfsbench-recovery");
        let target = TrialTarget::create(&spec, config).unwrap();
        Self { server, spec, target }
    }

    /// Runs a pass with a disturbance after the given number of ops, and returns its result.
    fn run(&self, pass: Pass, after_ops: usize, disturb: impl FnOnce(&Server) + Send) -> Recovery {
        let tally = self.drive(pass, after_ops, disturb);
        let spec = &self.spec;
        let syncs = if pass == Pass::Write { u64::from(spec.files) } else { 0 };
        assert!((after_ops as u64) < pass_size(spec, pass).ops.unwrap() + syncs);
        // Includes sockets that were lost on the way, not only the last one.
        if spec.nfs().proto == Proto::Tcp {
            assert!(u64::from(tally.tcp.connections) > tally.recovered.reconnects, "{tally:?}");
            assert!(tally.tcp.segments_sent > 0 && tally.tcp.uncounted == 0, "{tally:?}");
        }
        let bytes = u64::from(spec.files) * FILE_BYTES;
        let moved = if pass == Pass::Write { tally.write_bytes } else { tally.read_bytes };
        // Calls that were refused and repeated went over the wire twice, but never less than once.
        assert!(moved >= Some(bytes), "{moved:?} of {bytes}");
        if !tally.recovered.repeats() {
            assert_eq!(moved, Some(bytes), "each byte counted once");
        }
        tally.recovered
    }

    /// Runs a pass with a disturbance until it ends without an error.
    fn drive(
        &self,
        pass: Pass,
        after_ops: usize,
        disturb: impl FnOnce(&Server) + Send,
    ) -> BackendCounts {
        let target = &self.target;
        let spec = &self.spec;
        target.prepare(spec, pass).unwrap();
        let backend = target.open(spec, pass, 0).unwrap().backend;
        let server = &self.server;
        let disturb = Some(Box::new(move || disturb(server)) as Box<_>);
        let mut disturbed = DisturbedBackend { backend, left: after_ops, disturb };
        let end = run_worker(target, spec, pass, &mut disturbed);
        assert_eq!(end.ending, Ending::Complete);
        assert_eq!(end.recorder.errors(), 0, "{:?}: {pass:?}", spec.target);
        assert!(disturbed.disturb.is_none(), "the pass was disturbed");
        disturbed.backend.tally()
    }

    /// Compares the content on the server with what should have been written.
    fn check_files(&self) {
        let mut names = self.server.list_directory("/export/.dfsbench-recovery").unwrap();
        // Next to the mark that identifies the working directory.
        names.retain(|name| !name.ends_with(".campaign"));
        assert_eq!(names.len(), self.spec.files as usize);
        for (number, name) in (0..self.spec.files).zip(names) {
            let path = format!("/export/.dfsbench-recovery/{name}");
            let content = self.server.read_file(&path).unwrap();
            assert_eq!(content.len() as u64, FILE_BYTES, "{name}");
            let pattern = Pattern::new(1, 1 << 20);
            for (at, chunk) in content.chunks(IO_BYTES as usize).enumerate() {
                let offset = at as u64 * u64::from(IO_BYTES);
                assert!(chunk == pattern.slice(number, offset, IO_BYTES), "{name} at {offset}");
            }
        }
    }
}

fn over(version: NfsVersion, proto: Proto) -> NfsSettings {
    NfsSettings { version, proto, timeo_ms: 50, ..NfsSettings::default() }
}

#[test]
fn rewrites_lost_data_before_sync() {
    for settings in [
        over(NfsVersion::V3, Proto::Tcp),
        over(NfsVersion::V3, Proto::Udp),
        over(NfsVersion::V4_0, Proto::Tcp),
        over(NfsVersion::V4_1, Proto::Tcp),
        over(NfsVersion::V4_2, Proto::Tcp),
    ] {
        let faults = FaultPlan { lose_unstable: true, ..FaultPlan::default() };
        let rig = Rig::new(settings, faults);
        let recovery = rig.run(Pass::Write, 40, Server::restart_now);
        assert!(recovery.resent_bytes > 0, "{recovery:?}");
        if settings.proto == Proto::Tcp {
            assert!(recovery.reconnects > 0, "{recovery:?}");
        }
        rig.check_files();
    }
}

#[test]
fn rewrites_lost_mix_before_commit() {
    for version in [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_2] {
        let faults = FaultPlan { lose_unstable: true, ..FaultPlan::default() };
        let mut rig = Rig::new(over(version, Proto::Tcp), faults);
        let shares = vec![(OpKind::Write, 7_000), (OpKind::Commit, 1_000), (OpKind::Read, 2_000)];
        rig.spec = RunBuilder::from(rig.spec)
            .workload(Workload::OpMix)
            .op_mix(OpMix {
                shares,
                set_bytes_per_rate: 0,
                append_percent: 100,
                accessed_percent: 100,
                ..OpMix::default()
            })
            .files(40)
            .io_size_bytes(8 << 10)
            .duration_ms(800)
            .build();
        let recovered = rig.drive(Pass::OpMix, 200, Server::restart_now).recovered;
        assert!(recovered.resent_bytes > 0 && recovered.reconnects > 0, "{recovered:?}");
        // Appends of several calls leave no hole if the first call is lost.
        let pattern = Pattern::new(1, 1 << 20);
        let places = Places::new(&rig.spec);
        for number in 0..rig.spec.files {
            let place = places.path_of(places.of_number(number));
            let place = place.as_c_str().to_str().unwrap().trim_matches('.').to_owned();
            let name = Name::file(number);
            let path = format!("/export/.dfsbench-recovery/{place}/{}", name.as_str());
            let content = rig.server.read_file(&path).unwrap();
            for (at, chunk) in content.chunks(1 << 10).enumerate() {
                let wanted = pattern.slice(number, (at as u64) << 10, chunk.len() as u32);
                assert!(chunk == wanted, "v{version}: {path} at {at} KiB of {}", content.len());
            }
        }
    }
}

#[test]
fn continues_reading_on_new_connection() {
    for &version in NfsVersion::ALL {
        let rig = Rig::new(over(version, Proto::Tcp), FaultPlan::default());
        rig.run(Pass::Write, 1, |_| {});
        let recovery = rig.run(Pass::Read, 40, Server::restart_now);
        assert!(recovery.reconnects > 0, "{recovery:?}");
        assert_eq!(recovery.resent_bytes, 0);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a lease runs out by time")]
fn survives_expired_lease() {
    for version in [NfsVersion::V4_0, NfsVersion::V4_1] {
        let config = ServerConfig { lease_s: 1, ..ServerConfig::default() };
        let rig = Rig::on(config, over(version, Proto::Tcp));
        let still = |_: &Server| std::thread::sleep(Duration::from_millis(2_500));
        rig.run(Pass::Write, 40, still);
        rig.check_files();
        assert!(!rig.server.counters().errors.is_empty(), "v{version}: nothing had expired");
    }
}

#[test]
fn waits_out_grace_period() {
    for version in [NfsVersion::V4_0, NfsVersion::V4_1] {
        let faults = FaultPlan { grace_ns: Some(500_000_000), ..FaultPlan::default() };
        let rig = Rig::new(over(version, Proto::Tcp), faults);
        let recovery = rig.run(Pass::Write, 40, Server::restart_now);
        assert!(recovery.reconnects > 0, "{recovery:?}");
        rig.check_files();
    }
}

#[test]
fn survives_lost_and_duplicate_datagrams() {
    for version in [NfsVersion::V2, NfsVersion::V3] {
        let faults = FaultPlan {
            seed: 7,
            drop_reply: PartsPerMillion(50_000),
            duplicate_reply: PartsPerMillion(50_000),
            ..FaultPlan::default()
        };
        let rig = Rig::new(over(version, Proto::Udp), faults);
        let recovery = rig.run(Pass::Write, 1, |_| {});
        assert!(recovery.retransmissions > 0, "{recovery:?}");
        rig.check_files();
        rig.run(Pass::Read, 1, |_| {});
    }
}

#[test]
fn repeats_delayed_calls() {
    let later = ErrorFault {
        calls: FaultedCalls::V3(7),
        status: Status::Jukebox,
        share: PartsPerMillion(30_000),
    };
    let faults = FaultPlan { seed: 3, errors: vec![later], ..FaultPlan::default() };
    let rig = Rig::new(over(NfsVersion::V3, Proto::Tcp), faults);
    let recovery = rig.run(Pass::Write, 1, |_| {});
    assert!(recovery.delays > 0, "{recovery:?}");
    rig.check_files();
}
