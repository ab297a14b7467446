//! Objects of a cache: each read, write and eviction is counted, and slow ones are seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{
    CaveatCode, Durability, KvCache, Load, NfsVersion, OpKind, Pass, PassResult, RunSpec,
    SizeDistribution, Target, Workload,
};
use nfs_proto::nfs3::Procedure;
use nfs_server::{CallServiceTime, FaultPlan, FaultedCalls, Server, ServerConfig, ServiceTime};

use crate::driven_agent::{DrivenAgent, codes, evidence, nfs, stream};

const OPS: u64 = 600;

/// Two users of a cache that has room for less than half of their objects.
fn cache(on: &RunSpec) -> RunSpec {
    let object_sizes = SizeDistribution::Uniform { min_bytes: 4_096, max_bytes: 65_536 };
    let capacity_bytes = 600_000;
    let mut spec = RunSpec {
        workload: Workload::KvCache,
        passes: Vec::new(),
        files: 40,
        file_size_bytes: capacity_bytes / 40,
        io_size_bytes: 16 << 10,
        queue_depth: 1,
        workers: 2,
        verify: true,
        duration_ms: 600_000,
        durability: Durability::Sync,
        load: Load { ops_max: OPS, ..Load::default() },
        kv_cache: KvCache { object_sizes, capacity_bytes },
        ..on.clone()
    };
    spec.layout.skew_percent = 100;
    spec
}

fn done(result: &PassResult, kind: OpKind) -> u64 {
    result.kinds.iter().filter(|known| known.kind == kind).map(|known| known.done).sum()
}

/// Asserts that nobody counted anything else, and that the limit of ops ended the pass.
fn assert_whole(result: &PassResult) {
    assert_eq!((result.ops(), result.errors()), (OPS, 0), "{:?}", result.kinds);
    assert!(result.cross_checks.len() > 1, "{:?}", result.cross_checks);
    for check in &result.cross_checks {
        assert_eq!(check.expected, check.found, "{check:?}");
    }
    assert_eq!(evidence(&result.caveats, CaveatCode::Accounting), None);
    let kinds = [OpKind::ReadFile, OpKind::Create, OpKind::Remove];
    for kind in kinds {
        assert!(done(result, kind) > 50, "{kind}: {:?}", result.kinds);
    }
    let with_times: BTreeSet<&str> =
        result.scope.worst_p95.iter().map(|worst| worst.kind.name()).collect();
    assert_eq!(with_times, kinds.iter().map(|kind| kind.name()).collect());
}

#[test]
fn counts_objects_of_directories() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = cache(&stream(directory.path()));
    for durability in [Durability::Sync, Durability::None] {
        spec.durability = durability;
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        let end = agent.run(Pass::Serve);
        assert_whole(&end.result);
        let not_durable = codes(&end).contains(&CaveatCode::NotDurable);
        assert_eq!(not_durable, durability == Durability::None);
        agent.end();
    }
}

#[test]
fn counts_objects_of_all_versions() {
    let mut seen = BTreeSet::new();
    for version in NfsVersion::ALL {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut spec = cache(&nfs(&server));
        let Target::Nfs(target) = &mut spec.target else { unreachable!() };
        target.settings.version = *version;
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        let result = agent.run(Pass::Serve).result;
        assert_whole(&result);
        seen.insert((done(&result, OpKind::ReadFile), result.bytes()));
        agent.end();
    }
    assert_eq!(seen.len(), 1, "the same requests everywhere: {seen:?}");
}

#[test]
fn sees_slow_reads_in_percentile() {
    let p95s = |time_ns: u64| {
        let calls = FaultedCalls::V3(Procedure::Read.number());
        let slow = CallServiceTime { calls, time: ServiceTime::Fixed { time_ns } };
        let faults = FaultPlan { service_times: vec![slow], ..FaultPlan::default() };
        let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
        let server = Arc::new(server);
        let mut spec = cache(&nfs(&server));
        spec.load.ops_max = 60;
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        let result = agent.run(Pass::Serve).result;
        agent.end();
        let worst = &result.scope.worst_p95;
        let of = |kind| worst.iter().find(|known| known.kind == kind).unwrap().time_ns;
        [of(OpKind::ReadFile), of(OpKind::Create)]
    };
    // A read takes at least one READ of 20 ms; a write has none.
    let [read_ns, _] = p95s(20_000_000);
    assert!(read_ns >= 20_000_000, "{read_ns}");
    // On a busy machine, even a fast server may not be fast each time.
    assert!((0..20).any(|_| p95s(0)[0] < 20_000_000));
}
