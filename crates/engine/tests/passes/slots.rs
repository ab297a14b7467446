//! Slots that a renewal of the lease uses, or that a server no longer grants: ops wait for them,
//! and every accepted op still completes exactly once.

use std::sync::Arc;
use std::time::Duration;

use engine::backend::{Backend, NO_LIMIT};
use engine::testing::{JumpingClock, target_config};
use engine::{Clock as _, TargetConfig, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Completion, NfsSettings, NfsVersion, Op, OpKind, Outcome, Pass, RunSpec, Share,
    Target, Workload,
};
use nfs_server::{FaultPlan, Server, ServerConfig, ServiceTime};

const IO_BYTES: u32 = 4 << 10;
/// Numbers of operations of version 4. **Source:** RFC 7530 section 16, RFC 8881 section 18.
const RENEW: usize = 30;
const SEQUENCE: usize = 53;
/// More than a third of any lease in these tests.
const LEASE: Duration = Duration::from_secs(100);

/// A worker's backend on one of our servers, driven op by op.
struct Rig {
    spec: RunSpec,
    target: TrialTarget,
    clock: Arc<JumpingClock>,
    server: Server,
}

impl Rig {
    fn new(version: NfsVersion, queue_depth: u32, config: ServerConfig) -> Self {
        let server = Server::start(config).unwrap();
        let port = server.address().port();
        let settings = NfsSettings { version, ..NfsSettings::default() };
        let target = nfs_target(port, settings);
        let spec = RunBuilder::new(Workload::Stream)
            .target(Target::Nfs(target))
            .backend(BackendKind::Nfs)
            .io_size_bytes(IO_BYTES)
            .file_size_bytes(1 << 20)
            .queue_depth(queue_depth)
            .timeout_ms(86_400_000)
            .build();
        let clock = Arc::new(JumpingClock::default());
        clock.jump(LEASE);
        let config = target_config(".dfsbench-slots");
        let config =
            TargetConfig { clock: Arc::clone(&clock) as _, share: Share::whole(1), ..config };
        let target = TrialTarget::create(&spec, config).unwrap();
        target.prepare(&spec, Pass::Write).unwrap();
        Self { spec, target, clock, server }
    }

    fn open(&self) -> Box<dyn Backend> {
        let opened = self.target.open(&self.spec, Pass::Write, 0).unwrap();
        opened.backend
    }

    /// Lets a third of the lease pass.
    fn pass_time(&self) {
        self.clock.jump(LEASE);
    }

    fn operations(&self, number: usize) -> u64 {
        self.server.counters().nfs4_operations[number]
    }
}

/// Writes of one block each, from block `first` on.
fn writes(first: u64, count: u64) -> Vec<Op> {
    let write = |block| Op {
        scheduled_ns: 0,
        offset_bytes: block * u64::from(IO_BYTES),
        len_bytes: IO_BYTES,
        file: 0,
        kind: OpKind::Write,
    };
    (first..first + count).map(write).collect()
}

/// Reaps until the given number of ops have ended in total.
fn reap_until(backend: &mut dyn Backend, count: usize, ended: &mut Vec<Completion>) {
    for _ in 0..10_000 {
        if ended.len() >= count {
            return;
        }
        backend.reap(1, NO_LIMIT, ended).unwrap();
    }
    panic!("only {} of {count} ops completed", ended.len());
}

fn slow(time_ns: u64) -> FaultPlan {
    FaultPlan { service_time: Some(ServiceTime::Fixed { time_ns }), ..FaultPlan::default() }
}

#[test]
fn leaves_slots_to_ops() {
    // One slot belongs to the mount, and four are for the ops.
    let few = FaultPlan { session_slots_max: Some(5), ..slow(20_000_000) };
    for (version, faults, renewal) in [
        (NfsVersion::V4_0, slow(20_000_000), RENEW),
        // In the first case the server grants one slot more than there are ops, in the second it
        // doesn't.
        (NfsVersion::V4_1, slow(20_000_000), SEQUENCE),
        (NfsVersion::V4_1, few, SEQUENCE),
    ] {
        let rig = Rig::new(version, 4, ServerConfig { faults, ..ServerConfig::default() });
        let mut backend = rig.open();
        let mut ended = Vec::new();
        for round in 0..4_u64 {
            let before = rig.operations(renewal);
            let in_all = 4 * (round as usize + 1);
            // One op leaves slots free, so that the renewal starts; then all slots are needed.
            rig.pass_time();
            assert_eq!(backend.submit(&writes(4 * round, 1)), 1);
            for _ in 0..10_000 {
                if rig.operations(renewal) > before {
                    break;
                }
                backend.reap(1, rig.clock.now_ns() + 100_000, &mut ended).unwrap();
            }
            assert!(rig.operations(renewal) > before, "{version:?}: no renewal");
            assert_eq!(backend.submit(&writes(4 * round + 1, 3)), 3);
            reap_until(backend.as_mut(), in_all, &mut ended);
        }
        let is_done = |one: &Completion| one.outcome == Outcome::Done(IO_BYTES);
        assert!(ended.iter().all(is_done), "{version:?}: {ended:?}");
        assert_eq!(ended.len(), 16, "{version:?}");
        drop(backend);
    }
}

#[test]
fn accepts_fewer_slots_after_restart() {
    let faults = slow(20_000_000);
    let mut rig = Rig::new(NfsVersion::V4_1, 8, ServerConfig { faults, ..ServerConfig::default() });
    let mut backend = rig.open();
    let mut ended = Vec::new();
    assert_eq!(backend.submit(&writes(0, 8)), 8);
    let port = rig.server.address().port();
    // The new server has neither the session nor the file: ops may fail, but all of them end.
    let few = FaultPlan { session_slots_max: Some(2), ..FaultPlan::default() };
    let config = ServerConfig { port, faults: few, ..ServerConfig::default() };
    drop(rig.server);
    rig.server = Server::start(config).unwrap();
    reap_until(backend.as_mut(), 8, &mut ended);
    assert_eq!(backend.submit(&writes(8, 8)), 8);
    reap_until(backend.as_mut(), 16, &mut ended);
    assert_eq!(ended.len(), 16, "{ended:?}");
}
