//! Passes over two addresses of one server: both carry ops, and when one of them is cut in the
//! middle of a pass, its calls move to the other and every op is executed once.

#[path = "../../../nfs-client/tests/client/relay.rs"]
mod relay;

use std::time::Duration;

use engine::TrialTarget;
use engine::testing::{DisturbedBackend, run_worker, target_config};
use engine::worker::Ending;
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, ConnectionPolicy, NfsSettings, NfsTarget, NfsVersion, Pass, PathWork, RunSpec,
    Target, Workload,
};
use nfs_server::{Server, ServerConfig};
use relay::Relay;

const FILES: u32 = 60;

/// A server with two addresses, and files on it.
struct Rig {
    server: Server,
    relay: Relay,
    spec: RunSpec,
    target: TrialTarget,
}

impl Rig {
    fn new(version: NfsVersion, workload: Workload) -> Self {
        let server = Server::start(ServerConfig::default()).unwrap();
        let relay = Relay::start(server.address());
        // Shares that don't depend on how fast the relay is scheduled.
        let settings = NfsSettings {
            version,
            connection_policy: ConnectionPolicy::RoundRobin,
            ..NfsSettings::default()
        };
        let target = NfsTarget {
            more_addresses: vec![relay.address().to_string()],
            ..nfs_target(server.address().port(), settings)
        };
        let spec = RunBuilder::new(workload)
            .target_name("test".into())
            .target(Target::Nfs(target))
            .backend(BackendKind::Nfs)
            .io_size_bytes(16 << 10)
            .file_size_bytes(if workload == Workload::Stream { 1 << 20 } else { 1 << 10 })
            .files(if workload == Workload::Stream { 2 } else { FILES })
            .queue_depth(8)
            .timeout_ms(10_000)
            .build();
        let config = target_config(".dfsbench-paths");
        let target = TrialTarget::create(&spec, config).unwrap();
        Self { server, relay, spec, target }
    }

    /// Runs a pass, and returns what each address did.
    fn run(&self, pass: Pass, after_ops: usize, disturb: &(dyn Fn() + Sync)) -> Vec<PathWork> {
        let Self { spec, target, .. } = self;
        target.prepare(spec, pass).unwrap();
        let backend = target.open(spec, pass, 0).unwrap().backend;
        let disturb = Some(Box::new(disturb) as Box<_>);
        let mut disturbed = DisturbedBackend { backend, left: after_ops, disturb };
        let end = run_worker(target, spec, pass, &mut disturbed);
        assert_eq!((end.ending, end.recorder.errors()), (Ending::Complete, 0), "{pass:?}");
        disturbed.backend.paths()
    }
}

fn addresses(rig: &Rig) -> [String; 2] {
    [rig.server.address(), rig.relay.address()].map(|address| address.to_string())
}

#[test]
fn both_addresses_carry_ops() {
    for version in [NfsVersion::V3, NfsVersion::V4_1, NfsVersion::V4_2] {
        let rig = Rig::new(version, Workload::Stream);
        for pass in [Pass::Write, Pass::Read] {
            let paths = rig.run(pass, 1, &|| {});
            assert_eq!(
                paths.iter().map(|path| &path.address).collect::<Vec<_>>(),
                addresses(&rig).iter().collect::<Vec<_>>()
            );
            for path in &paths {
                assert_eq!((path.connections, path.lost_connections, path.moved_calls), (1, 0, 0));
                assert!(path.ops > 10 && path.calls >= path.ops, "v{version}: {path:?}");
                assert_eq!((path.times.count(), path.bytes), (path.ops, path.ops * (16 << 10)));
                let wire = if pass == Pass::Write { path.sent_bytes } else { path.received_bytes };
                assert!(wire > path.bytes, "v{version}: {path:?}");
            }
            let ops: u64 = paths.iter().map(|path| path.ops).sum();
            assert_eq!(ops, 128, "v{version}");
        }
    }
}

#[test]
fn policy_chooses_the_connection() {
    let ops = |policy, queue_depth, delay_ms| {
        let mut rig = Rig::new(NfsVersion::V4_1, Workload::Stream);
        rig.spec.queue_depth = queue_depth;
        rig.spec.target.nfs_mut().unwrap().settings.connection_policy = policy;
        rig.relay.delay_replies(Duration::from_millis(delay_ms));
        let paths = rig.run(Pass::Write, 1, &|| {});
        [0, 1].map(|path: usize| paths[path].ops)
    };
    assert_eq!(ops(ConnectionPolicy::PerFile, 8, 0), [64, 64], "one file each");
    for queue_depth in [1, 8] {
        let [first, second] = ops(ConnectionPolicy::RoundRobin, queue_depth, 1);
        // The syncs of both files have their turns, too.
        assert!(first + second == 128 && first.abs_diff(second) <= 2, "{first} {second}");
    }
    // The slow address has as many in flight and completes fewer.
    for policy in [ConnectionPolicy::LeastInFlight, ConnectionPolicy::Share] {
        let [first, second] = ops(policy, 8, 10);
        assert!(second > 0 && first > second, "{policy}: {first} {second}");
    }
    // One op at a time: all are equal.
    let [first, second] = ops(ConnectionPolicy::LeastInFlight, 1, 0);
    assert!(first.abs_diff(second) <= 2, "{first} {second}");
}

#[test]
fn ops_of_cut_address_are_done_once() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        let rig = Rig::new(version, Workload::Metadata);
        // Calls are executed without a reply, then repeated at the other address. Creating a file
        // twice fails, as does removing it twice.
        let relay = &rig.relay;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while relay.dropped_bytes() == 0 {
                    std::thread::yield_now();
                }
                relay.cut();
            });
            let paths = rig.run(Pass::Create, 20, &|| relay.drop_replies());
            assert_eq!(paths[1].lost_connections, 1, "v{version}: {paths:?}");
            assert!(paths[1].moved_calls > 0, "v{version}: {paths:?}");
            assert_eq!(paths[0].ops + paths[1].ops, u64::from(FILES), "v{version}");
        });
        // The next pass finds the address missing, and works without it.
        let paths = rig.run(Pass::Remove, 1, &|| {});
        assert_eq!((paths[1].lost_connections, paths[1].ops), (1, 0), "v{version}: {paths:?}");
        assert_eq!(paths[0].ops, u64::from(FILES), "v{version}");
    }
}
