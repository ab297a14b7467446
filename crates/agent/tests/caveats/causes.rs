//! Causes planted in the target, the setup or the data.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use agent::accounting::{self, CrossCheckSources};
use engine::TrialTarget;
use engine::testing::{measure_pass, target_config};
use fleet::TrialAbort;
use model::{
    BackendKind, CaveatCode, Durability, Evidence, NfsSettings, NfsVersion, Pass, RunSpec,
    Sampling, Target, Workload,
};
use nfs_proto::nfs3::{Procedure, Status};
use nfs_server::{ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, ServerConfig, StoreMode};

use crate::driven_agent::{DrivenAgent, codes, metadata, nfs, server, stream};

/// A directory on a file system with storage under it.
fn on_storage() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn null_accounting(target: &TrialTarget) -> Vec<CaveatCode> {
    let spec =
        RunSpec { target: Target::Null, backend: BackendKind::Null, ..stream(Path::new("/")) };
    let measured = measure_pass(target, &spec, Pass::Write);
    let sources = CrossCheckSources { tally: measured.tally, ..CrossCheckSources::default() };
    let cross_checks = accounting::cross_checks(&spec, &measured.result, &sources);
    assert!(cross_checks.len() >= 2, "no cross-checks: {cross_checks:?}");
    accounting::caveats(&cross_checks).iter().map(|caveat| caveat.code).collect()
}

#[test]
fn ops_that_were_lost_are_missed() {
    let config = || target_config(".dfsbench-test");
    assert_eq!(null_accounting(&TrialTarget::with_losses(1, config())), [CaveatCode::Accounting]);
    assert_eq!(null_accounting(&TrialTarget::with_losses(u64::MAX, config())), []);
}

#[test]
fn a_foreign_file_is_noticed() {
    let directory = on_storage();
    let mut agent = DrivenAgent::new();
    let spec = metadata(directory.path(), 100);
    let work = directory.path().join(agent.begin(&spec));
    fs::write(work.join("stranger"), "").unwrap();
    assert!(codes(&agent.run(Pass::Create)).contains(&CaveatCode::Accounting));
}

#[test]
fn removed_open_files_are_no_strangers() {
    let directory = on_storage();
    // FUSE and NFS clients keep a file under such a name that was removed while it was open.
    let nfs_name = format!(".nfs{:024x}", 17);
    for (name, is_removed) in [
        (".fuse_hidden0000000200000001", true),
        (nfs_name.as_str(), true),
        (".fuse_hidden", false),
        (".nfsmount", false),
    ] {
        let mut agent = DrivenAgent::new();
        let spec = metadata(directory.path(), 100);
        let work = directory.path().join(agent.begin(&spec));
        fs::write(work.join(name), "data").unwrap();
        for pass in [Pass::Create, Pass::Remove] {
            let end = agent.run(pass);
            let is_exact = !codes(&end).contains(&CaveatCode::Accounting);
            assert_eq!(is_exact, is_removed, "{name} after {pass}");
            let reported = format!("{pass}: removed files still open");
            let fact = end.facts.iter().find(|fact| fact.name == reported);
            assert_eq!(fact.map(|fact| fact.value.as_str()), is_removed.then_some("1"), "{name}");
        }
        agent.end();
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let directory = on_storage();
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let spec = RunSpec { backend, verify: true, ..stream(directory.path()) };
        let mut agent = DrivenAgent::new();
        let work = directory.path().join(agent.begin(&spec));
        agent.run(Pass::Write);
        assert!(!codes(&agent.run(Pass::Read)).contains(&CaveatCode::DataMismatch));
        let file = OpenOptions::new().read(true).write(true).open(work.join("f00000000")).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 12_345_678).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 12_345_678).unwrap();
        let found = codes(&agent.run(Pass::Read));
        assert!(found.contains(&CaveatCode::DataMismatch), "{backend:?}: {found:?}");
    }
}

#[test]
fn detects_server_that_loses_data() {
    let losing = server(ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() });
    let sound = server(ServerConfig::default());
    for (server, mismatch) in [(&losing, true), (&sound, false)] {
        let spec = RunSpec { verify: true, file_size_bytes: 4 << 20, ..nfs(server) };
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        agent.run(Pass::Write);
        let found = codes(&agent.run(Pass::Read));
        assert_eq!(found.contains(&CaveatCode::DataMismatch), mismatch, "{found:?}");
    }
}

#[test]
fn ends_pass_after_many_failures() {
    let directory = on_storage();
    let mut agent = DrivenAgent::new();
    let spec = metadata(directory.path(), 300);
    let work = directory.path().join(agent.begin(&spec));
    assert!(!codes(&agent.run(Pass::Create)).contains(&CaveatCode::Errors));
    fs::remove_file(work.join("f00000007")).unwrap();
    let few = agent.run(Pass::Stat);
    assert!(codes(&few).contains(&CaveatCode::Errors));
    assert_eq!((few.broken.clone(), few.result.errors()), (None, 1));
    for file in 100..300 {
        fs::remove_file(work.join(format!("f{file:08}"))).unwrap();
    }
    let many = agent.run(Pass::Stat);
    let Some(TrialAbort::Failed(reason)) = many.broken else { panic!("{:?}", many.broken) };
    insta::assert_snapshot!(
        reason,
        @"stat aborted after 100 failed ops (100 x ENOENT on stat)"
    );
}

#[test]
fn reports_server_error_in_pass() {
    let faults = FaultPlan {
        seed: 1,
        errors: vec![ErrorFault {
            calls: FaultedCalls::V3(Procedure::Write.number()),
            status: Status::Io,
            share: PartsPerMillion(10_000),
        }],
        ..FaultPlan::default()
    };
    let faulty = server(ServerConfig { faults, ..ServerConfig::default() });
    let mut agent = DrivenAgent::new();
    agent.begin(&nfs(&faulty));
    let end = agent.run(Pass::Write);
    assert!(codes(&end).contains(&CaveatCode::Errors));
    assert!(end.result.errors() > 0);
}

#[test]
fn a_stopped_pass_is_interrupted() {
    let directory = on_storage();
    let mut agent = DrivenAgent::new();
    let spec = RunSpec {
        workload: Workload::Mixed,
        duration_ms: 60_000,
        io_size_bytes: 4096,
        read_percent: 70,
        file_size_bytes: 1 << 20,
        sampling: Sampling { interval_ms: 100, ..Sampling::default() },
        ..stream(directory.path())
    };
    agent.begin(&spec);
    agent.stops_at_progress = true;
    let end = agent.run(Pass::Mix);
    assert_eq!(end.broken, Some(TrialAbort::Stopped));
    assert!(codes(&end).contains(&CaveatCode::Interrupted));
}

#[test]
fn tolerates_stop_while_counting() {
    let server = server(ServerConfig::default());
    for (stops_after_work, counted) in [(false, true), (true, false)] {
        let mut agent = DrivenAgent::new();
        let spec = nfs(&server);
        agent.begin(&spec);
        agent.stops_after_work = stops_after_work;
        let end = agent.run(Pass::Write);
        assert!(!codes(&end).contains(&CaveatCode::Accounting));
        let mut at_target = false;
        for cross_check in &end.result.cross_checks {
            at_target |= cross_check.source == "files in the working directory";
        }
        assert_eq!(at_target, counted, "{:?}", end.result.cross_checks);
    }
}

#[test]
fn reports_refused_transfer_size() {
    let small = server(ServerConfig {
        faults: FaultPlan {
            read_bytes_max: Some(32 << 10),
            write_bytes_max: Some(32 << 10),
            ..FaultPlan::default()
        },
        ..ServerConfig::default()
    });
    for (requested, refused) in [(Some(64 << 10), true), (Some(32 << 10), false), (None, false)] {
        let spec = RunSpec { transfer_size_bytes: requested, ..nfs(&small) };
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::OptionNotEffective), refused, "{requested:?}");
    }
}

#[test]
fn posix_has_no_depth() {
    let directory = on_storage();
    for (queue_depth, caveated) in [(4, true), (1, false)] {
        let spec = RunSpec { queue_depth, ..stream(directory.path()) };
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::OptionNotEffective), caveated);
    }
}

#[test]
fn transactions_have_no_depth() {
    let server = server(ServerConfig::default());
    for (queue_depth, is_reported) in [(8, true), (1, false)] {
        let mut spec = RunSpec { queue_depth, ..nfs(&server) };
        spec.workload = Workload::Transactions;
        spec.files = 20;
        spec.transactions.count = 50;
        spec.file_size_bytes = 512;
        spec.io_size_bytes = 512;
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        agent.run(Pass::Create);
        let found = codes(&agent.run(Pass::Transactions));
        assert_eq!(found.contains(&CaveatCode::OptionNotEffective), is_reported, "{found:?}");
    }
}

#[test]
fn falls_back_to_posix_without_ring() {
    // More entries than the kernel grants (IORING_MAX_ENTRIES is 32768) is a sure refusal.
    let directory = on_storage();
    for (queue_depth, refused) in [(40_000, true), (8, false)] {
        let spec = RunSpec {
            backend: BackendKind::Uring,
            queue_depth,
            io_size_bytes: 4096,
            ..stream(directory.path())
        };
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::BackendFallback), refused, "{found:?}");
    }
}

#[test]
fn the_data_was_not_waited_for() {
    let directory = on_storage();
    for (durability, caveated) in [(Durability::None, true), (Durability::Sync, false)] {
        let spec = RunSpec { durability, ..stream(directory.path()) };
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::NotDurable), caveated);
    }
}

#[test]
fn commits_in_memory_are_not_durable() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let storage = on_storage();
    for (directory, durability, caveated) in [
        (&memory, Durability::Sync, true),
        (&storage, Durability::Sync, false),
        (&storage, Durability::None, true),
    ] {
        let mut spec = RunSpec {
            workload: Workload::Database,
            durability,
            files: 2,
            duration_ms: 30,
            ..stream(directory.path())
        };
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::NotDurable), caveated, "{durability}");
        // Without a commit, nothing claims to be safe.
        spec.workload = Workload::Mixed;
        let found = DrivenAgent::new().first_pass(&spec);
        assert_eq!(found.contains(&CaveatCode::NotDurable), durability == Durability::None);
    }
}

#[test]
fn limits_depth_to_granted_slots() {
    // One slot is that of the mount, and four are for the ops.
    let planned = FaultPlan { session_slots_max: Some(5), ..FaultPlan::default() };
    let few = server(ServerConfig { faults: planned, ..ServerConfig::default() });
    for (version, queue_depth, is_limited) in
        [(NfsVersion::V4_1, 8, true), (NfsVersion::V4_1, 4, false), (NfsVersion::V4_0, 8, false)]
    {
        let mut spec = RunSpec { queue_depth, ..nfs(&few) };
        if let Target::Nfs(target) = &mut spec.target {
            target.settings = NfsSettings { version, ..NfsSettings::default() };
        }
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        let end = agent.run(spec.passes()[0]);
        assert_eq!(end.broken, None);
        let limited: Vec<&str> = end
            .result
            .caveats
            .iter()
            .filter(|caveat| caveat.code == CaveatCode::SlotsLimited)
            .inspect(|caveat| {
                let data = Evidence::counts(4, 8, "slots", "CREATE_SESSION");
                assert_eq!(caveat.data, Some(data));
            })
            .map(|caveat| caveat.evidence.as_str())
            .collect();
        assert_eq!(limited.len(), usize::from(is_limited), "{version:?} {queue_depth}");
        for evidence in limited {
            assert!(evidence.contains("depth 8") && evidence.contains("4 slots"), "{evidence}");
        }
        let slots = if is_limited { 4 } else { queue_depth };
        assert_eq!(end.result.scope.slots, slots, "{version:?} {queue_depth}");
    }
}
