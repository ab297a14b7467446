//! Causes planted in load and data: a server slower than the load, one that refuses a kind of op,
//! and data that shrinks.

use model::{Arrivals, Caveat, CaveatCode, Fill, Load, OpKind, Pass, RunSpec, Workload};
use nfs_proto::nfs3::{Procedure, Status};
use nfs_server::{
    ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, Server, ServerConfig, ServiceTime,
};

use crate::driven_agent::{DrivenAgent, nfs, server, stream};

fn faulty(faults: FaultPlan) -> Server {
    server(ServerConfig { faults, ..ServerConfig::default() })
}

/// A server that delays each answer by the given time, like one that is far away or slow.
fn slow(time_ns: u64) -> Server {
    let service_time = Some(ServiceTime::Fixed { time_ns });
    faulty(FaultPlan { service_time, ..FaultPlan::default() })
}

/// Returns the evidence of a pass for this code.
fn stated(spec: &RunSpec, pass: Pass, code: CaveatCode) -> Option<String> {
    let mut agent = DrivenAgent::new();
    agent.begin(spec);
    let end = agent.run(pass);
    assert_eq!(end.broken, None);
    let reported = |caveat: Caveat| (caveat.code == code).then_some(caveat.evidence);
    end.result.caveats.into_iter().find_map(reported)
}

fn mix(on: RunSpec, read_percent: u32, load: Load) -> RunSpec {
    RunSpec {
        workload: Workload::Mixed,
        read_percent,
        io_size_bytes: 4096,
        file_size_bytes: 1 << 20,
        queue_depth: 1,
        load,
        ..on
    }
}

#[test]
fn reports_server_slower_than_offered() {
    let load = Load { rate_per_s: 1_000, arrivals: Arrivals::Constant, ..Load::default() };
    let offered = |server: &Server| {
        let spec = RunSpec { duration_ms: 300, ..mix(nfs(server), 100, load) };
        stated(&spec, Pass::Mix, CaveatCode::BelowOffered)
    };
    // One call at a time, 10 ms each: at most a hundred per second.
    let below = offered(&slow(10_000_000)).expect("below-offered");
    assert!(below.contains(" op/s offered were answered "), "{below}");
    let percent = below.split_once('(').unwrap().1.split_once(" %)").unwrap().0;
    assert!(percent.parse::<u32>().unwrap() <= 11, "{below}");
    assert!(below.contains(" were never started"), "{below}");
    // On a busy machine, even a fast server may not be fast each time.
    let fast = server(ServerConfig::default());
    assert!((0..20).any(|_| offered(&fast).is_none()), "{:?}", offered(&fast));
}

#[test]
fn carries_queue_over_from_warmup() {
    let load = Load { rate_per_s: 1_000, arrivals: Arrivals::Constant, ..Load::default() };
    let pass = |server: &Server, warmup_ms: u64| {
        let load = Load { warmup_ms, ..load };
        let spec = RunSpec { duration_ms: 300, ..mix(nfs(server), 100, load) };
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        agent.run(Pass::Mix).result
    };
    // A call takes 10 ms: after 400 ms of warm-up some 360 ops wait, 3.6 s of work.
    let slow = slow(10_000_000);
    let result = pass(&slow, 400);
    assert_eq!(result.ops(), 0, "no op scheduled in the window was done");
    let offered = result.scope.offered.unwrap();
    let carried = result.carried_ops().unwrap();
    assert_eq!(carried, offered.carried_over_ops);
    assert!((1..=31).contains(&carried), "{carried} ops in 300 ms, 10 ms each");
    // Without a warm-up nothing is carried over.
    let result = pass(&slow, 0);
    assert_eq!(result.scope.offered.unwrap().carried_over_ops, 0);
    assert!(result.carried_ops().unwrap() > 0, "{:?}", result.scope.offered);
}

#[test]
fn counts_failed_ops_as_answered() {
    let errors = vec![ErrorFault {
        calls: FaultedCalls::V3(Procedure::Read.number()),
        status: Status::Io,
        share: PartsPerMillion(1_000_000),
    }];
    // Fewer than the hundred errors that end a pass.
    let load = Load { rate_per_s: 100, arrivals: Arrivals::Constant, ..Load::default() };
    let server = faulty(FaultPlan { errors, ..FaultPlan::default() });
    let spec = RunSpec { duration_ms: 500, ..mix(nfs(&server), 100, load) };
    let codes = || {
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        let caveats = agent.run(Pass::Mix).result.caveats;
        caveats.into_iter().map(|caveat| caveat.code).collect::<Vec<_>>()
    };
    // On a busy machine, not all of them may be sent in time.
    let kept = (0..20).map(|_| codes()).find(|all| !all.contains(&CaveatCode::BelowOffered));
    assert!(kept.expect("answered in time").contains(&CaveatCode::Errors));
}

#[test]
fn reports_mix_with_refused_op() {
    let errors = vec![ErrorFault {
        calls: FaultedCalls::V3(Procedure::Read.number()),
        status: Status::Io,
        share: PartsPerMillion(1_000_000),
    }];
    let load = Load { ops_max: 500, ..Load::default() };
    let shares =
        |server: &Server| stated(&mix(nfs(server), 10, load), Pass::Mix, CaveatCode::MixShares);
    // Fewer than the hundred errors that end a pass.
    let off = shares(&faulty(FaultPlan { errors, ..FaultPlan::default() })).expect("mix-shares");
    assert!(off.starts_with("0.0 % of ") && off.ends_with("10.0 % were requested"), "{off}");
    assert_eq!(shares(&server(ServerConfig::default())), None);
}

#[test]
fn warns_of_compressible_zeros() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = server(ServerConfig::default());
    let local = RunSpec { file_size_bytes: 1 << 20, ..stream(directory.path()) };
    let remote = RunSpec { file_size_bytes: 1 << 20, ..nfs(&server) };
    let null = RunSpec::null(Workload::Stream);
    for (spec, fill, raises_caveat) in [
        (&remote, Fill::Zeros, true),
        (&remote, Fill::Random, false),
        (&local, Fill::Random, false),
        (&null, Fill::Zeros, false),
    ] {
        let mut spec = spec.clone();
        spec.data.fill = fill;
        let found = stated(&spec, Pass::Write, CaveatCode::Compressible);
        assert_eq!(found.is_some(), raises_caveat, "{} {fill}: {found:?}", spec.target_name);
    }
}

#[test]
fn reports_missing_readdirplus_in_mix() {
    let mix = |server: &Server| {
        let mut spec = RunSpec { workload: Workload::OpMix, files: 40, ..nfs(server) };
        spec.op_mix.shares = vec![(OpKind::ReaddirPlus, 5_000), (OpKind::Getattr, 5_000)];
        spec.load = Load { ops_max: 200, ..Load::default() };
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        let result = agent.run(Pass::OpMix).result;
        let instead = result.caveats.iter().find(|it| it.evidence.contains("READDIRPLUS"));
        assert_eq!(result.errors(), 0, "{:?}", result.kinds);
        assert!(
            result.cross_checks.iter().all(|it| it.expected == it.found),
            "{:?}",
            result.cross_checks
        );
        instead.map(|caveat| caveat.code)
    };
    let errors = vec![ErrorFault {
        calls: FaultedCalls::V3(Procedure::Readdirplus.number()),
        status: Status::NotSupp,
        share: PartsPerMillion(1_000_000),
    }];
    let lacking = faulty(FaultPlan { errors, ..FaultPlan::default() });
    assert_eq!(mix(&lacking), Some(CaveatCode::OptionNotEffective));
    assert_eq!(mix(&server(ServerConfig::default())), None);
}
