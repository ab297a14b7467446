//! Every workload is accounted for exactly, by every cross-check source.

use std::path::Path;
use std::sync::Arc;

use agent::ServerCounts;
use agent::accounting::{self, CrossCheckSources};
use engine::TrialTarget;
use engine::testing::{measure_pass, target_config};
use model::{
    BackendKind, CaveatCode, CrossCheck, Durability, NfsVersion, OpKind, Pass, PassResult, RunSpec,
    Sharing, SizeDistribution, Target, Workload,
};
use nfs_server::{Server, ServerConfig};

use crate::driven_agent::{DrivenAgent, nfs, stream};

/// Runs with little of everything, one for each workload.
fn runs(on: &RunSpec) -> Vec<RunSpec> {
    let small = RunSpec {
        file_size_bytes: 100_000,
        io_size_bytes: 9_000,
        files: 3,
        workers: 2,
        verify: true,
        duration_ms: 100,
        read_percent: 60,
        invalidate: false,
        ..on.clone()
    };
    let sweeps = [
        Pass::Write,
        Pass::Rewrite,
        Pass::Reread,
        Pass::RandomRead,
        Pass::RandomWrite,
        Pass::BackwardRead,
        Pass::StrideRead,
        Pass::Read,
    ];
    let names = [
        Pass::Create,
        Pass::Stat,
        Pass::ReadFiles,
        Pass::Rename,
        Pass::Remove,
        Pass::Mkdir,
        Pass::StatDirs,
        Pass::RenameDirs,
        Pass::Rmdir,
    ];
    let mut tree = RunSpec { workload: Workload::Metadata, files: 20, ..small.clone() };
    tree.file_size_bytes = 300;
    tree.passes = names.to_vec();
    tree.tree.sharing = Sharing::Own;
    tree.tree.depth = 2;
    tree.tree.branching = 2;
    let mut pool = RunSpec { workload: Workload::Transactions, files: 20, ..small.clone() };
    pool.transactions.count = 200;
    pool.transactions.directories = 3;
    let pool = pool.with_sizes(SizeDistribution::of_pool());
    let mut mix = RunSpec { workload: Workload::OpMix, files: 20, ..small.clone() };
    "sfs3-like-v3".clone_into(&mut mix.op_mix.name);
    let ranges = RunSpec {
        workload: Workload::DataOps,
        // Few file systems share blocks.
        passes: vec![Pass::Copy, Pass::Allocate, Pass::Punch, Pass::Seek, Pass::ReadPlus],
        io_size_bytes: 8192,
        verify: true,
        ..small.clone()
    };
    let mut listing = RunSpec { workload: Workload::Listing, files: 700, ..small.clone() };
    listing.file_size_bytes = 7;
    listing.passes = Workload::Listing.passes().to_vec();
    listing.tree.depth = 1;
    listing.tree.branching = 5;
    // Appends that are smaller and larger than a page.
    let mut database = RunSpec { workload: Workload::Database, files: 4, ..small.clone() };
    database.database = model::Database { transaction_ops: 4, commit_bytes: 700, group_commit: 2 };
    let mut log = database.clone();
    log.database = model::Database { transaction_ops: 0, commit_bytes: 20_000, group_commit: 1 };
    let mut boot = RunSpec { workload: Workload::VmBoot, ..small.clone() };
    boot.vm_boot.bytes = 500_000;
    let mut base = boot.clone();
    base.vm_boot.base_image = true;
    // Files of different sizes: empty ones, and some that take several pieces or ops.
    let sized = |run: &RunSpec, sizes: &str| run.clone().with_sizes(sizes.parse().unwrap());
    let various = RunSpec { files: 10, passes: sweeps.to_vec(), ..small.clone() };
    let few = RunSpec { workload: Workload::Mixed, files: 5, ..small.clone() };
    let mut many = sized(&tree, "list 0B:20 1B-300B:70 1500KiB:10");
    many.io_size_bytes = many.small_file_piece();
    vec![
        sized(&various, "list 0B:20 1B:20 9000B-90kB:60"),
        sized(&few, "uniform 1B 60kB"),
        sized(&listing, "lognormal 7B 1.0"),
        many,
        ranges,
        database,
        log,
        boot,
        base,
        RunSpec { passes: sweeps.to_vec(), ..small.clone() },
        RunSpec { workload: Workload::Mixed, files: 2, ..small.clone() },
        RunSpec { workload: Workload::Bonnie, ..small },
        tree,
        pool,
        mix,
        listing,
    ]
}

fn assert_exact(spec: &RunSpec, result: &PassResult) {
    let what = format!("{} {} {}", spec.backend.name(), spec.workload, result.pass);
    let untrue =
        result.cross_checks.iter().filter(|cross_check| cross_check.expected != cross_check.found);
    let untrue: Vec<&CrossCheck> = untrue.collect();
    assert!(untrue.is_empty(), "{what}: {untrue:?}");
    assert_eq!(result.errors(), 0, "{what}: {:?}", result.kinds);
    assert!(result.cross_checks.len() >= 2, "{what}: {:?}", result.cross_checks);
    assert!(result.kinds.iter().any(|kind| kind.done > 0), "{what} did nothing");
}

fn assert_all_exact(agent: &mut DrivenAgent, spec: &RunSpec) {
    agent.begin(spec);
    for pass in spec.passes() {
        let end = agent.run(*pass);
        assert_eq!(end.broken, None, "{} {pass}", spec.workload);
        assert_exact(spec, &end.result);
    }
}

#[test]
fn accounts_for_directory_workloads() {
    let directory = tempfile::tempdir().unwrap();
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        for spec in runs(&RunSpec { backend, ..stream(directory.path()) }) {
            assert_all_exact(&mut DrivenAgent::new(), &spec);
        }
    }
}

#[test]
fn accounts_for_nfs_calls() {
    for version in NfsVersion::ALL {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut on = nfs(&server);
        if let Target::Nfs(target) = &mut on.target {
            target.settings.version = *version;
            target.embedded = true;
        }
        for mut spec in runs(&on) {
            match spec.workload {
                Workload::Metadata if *version == NfsVersion::V4_2 => {
                    spec.passes.splice(1..1, [Pass::SetXattr, Pass::GetXattr]);
                }
                Workload::DataOps if *version == NfsVersion::V4_2 => {
                    spec.passes.splice(1..1, [Pass::Clone]);
                }
                Workload::DataOps => continue,
                _ => {}
            }
            assert_all_exact(&mut DrivenAgent::beside(&server), &spec);
        }
    }
}

#[test]
fn accounts_for_delegations() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut on = nfs(&server);
        if let Target::Nfs(target) = &mut on.target {
            target.settings.version = version;
            target.settings.delegations = true;
            target.embedded = true;
        }
        for spec in runs(&on) {
            if spec.workload == Workload::DataOps && version == NfsVersion::V4_1 {
                continue;
            }
            let mut agent = DrivenAgent::beside(&server);
            agent.begin(&spec);
            for pass in spec.passes() {
                let before = server.counters();
                let end = agent.run(*pass);
                assert_eq!(end.broken, None, "{} {pass}", spec.workload);
                assert_exact(&spec, &end.result);
                let after = server.counters();
                let granted = after.delegations_granted - before.delegations_granted;
                let returned = after.delegations_returned - before.delegations_returned;
                assert_eq!(returned, granted, "{} {pass}", spec.workload);
                let mut found = None;
                for fact in &end.facts {
                    if fact.name == format!("{pass}: delegations") {
                        found = Some(fact.value.clone());
                    }
                }
                // What was changed by ranges is read again after the pass.
                let is_checked = spec.verify && pass.needs_data_ops() && pass.writes();
                let granted = granted - if is_checked { u64::from(spec.files) } else { 0 };
                let value = format!("{granted} granted, 0 recalled, {granted} returned");
                assert_eq!(found, (granted > 0).then_some(value), "{} {pass}", spec.workload);
                let is_read_alone = matches!(pass, Pass::Read | Pass::ReadFiles);
                assert!(granted > 0 || !is_read_alone, "{} {pass}", spec.workload);
            }
        }
        let counters = server.counters();
        assert_eq!((counters.delegations_recalled, counters.delegations_revoked), (0, 0));
    }
}

#[test]
fn accounts_for_timed_close() {
    let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
    for version in [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1] {
        for durability in [Durability::Close, Durability::Dsync, Durability::Osync] {
            let mut spec = RunSpec { durability, files: 3, workers: 2, ..nfs(&server) };
            spec.file_size_bytes = 1 << 20;
            if let Target::Nfs(target) = &mut spec.target {
                target.settings.version = version;
                target.embedded = true;
            }
            let before = server.counters();
            let commits = nfs_commits(&server);
            assert_all_exact(&mut DrivenAgent::beside(&server), &spec);
            let made = nfs_commits(&server) - commits;
            assert_eq!(made, if durability == Durability::Close { 3 } else { 0 }, "{version}");
            assert!(server.counters().payload_written_bytes > before.payload_written_bytes);
        }
    }
}

#[test]
fn counts_timed_close_of_each_file() {
    let versions = [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];
    for version in versions {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut spec = RunSpec { files: 3, workers: 2, ..nfs(&server) };
        spec.layout.timed_close = true;
        spec.passes = vec![Pass::Write, Pass::Read];
        if let Target::Nfs(target) = &mut spec.target {
            target.settings.version = version;
            target.embedded = true;
        }
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        for pass in spec.passes() {
            let result = agent.run(*pass).result;
            assert_exact(&spec, &result);
            let closes = result.cross_checks.iter().find(|cross_check| {
                cross_check.source.starts_with("CLOSE")
                    && cross_check.source.contains("counted by the server")
            });
            let wanted = if version.major() == 4 { 3 } else { 0 };
            assert_eq!(
                closes.map_or(0, |cross_check| cross_check.found),
                wanted,
                "{version} {pass}"
            );
        }
    }
}

#[test]
fn leaves_shared_files_open() {
    for version in [NfsVersion::V4_0, NfsVersion::V4_1] {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut spec = RunSpec { workload: Workload::OpMix, files: 20, ..nfs(&server) };
        spec.workers = 2;
        spec.durability = Durability::Close;
        spec.duration_ms = 100;
        "sfs3-like-v3".clone_into(&mut spec.op_mix.name);
        if let Target::Nfs(target) = &mut spec.target {
            target.settings.version = version;
            target.embedded = true;
        }
        assert_all_exact(&mut DrivenAgent::beside(&server), &spec);
    }
}

fn nfs_commits(server: &Server) -> u64 {
    let counters = server.counters();
    counters.commits() + counters.nfs4_operations[5]
}

#[test]
fn several_directories_share_the_files() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let paths = places.iter().map(|place| place.path().to_owned()).collect();
    let on = RunSpec { target: Target::Directories { paths }, ..stream(Path::new("/")) };
    for spec in runs(&on) {
        assert_all_exact(&mut DrivenAgent::new(), &spec);
    }
    let mut agent = DrivenAgent::new();
    let spec = RunSpec { files: 3, file_size_bytes: 10_000, ..on };
    let work = agent.begin(&spec);
    agent.run(Pass::Write);
    let names = |place: &tempfile::TempDir| {
        let entries = std::fs::read_dir(place.path().join(&work)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        // Next to the mark that identifies the working directory.
        names.retain(|name| !name.ends_with(".campaign"));
        names.sort();
        names
    };
    assert_eq!(names(&places[0]), ["f00000000", "f00000002"]);
    assert_eq!(names(&places[1]), ["f00000001"]);
}

/// Reports of backend and recorder about a pass on a target that loses every third op.
fn lossy(spec: &RunSpec, pass: Pass) -> (PassResult, CrossCheckSources) {
    let target = TrialTarget::with_losses(3, target_config(""));
    let measured = measure_pass(&target, spec, pass);
    (measured.result, CrossCheckSources { tally: measured.tally, ..CrossCheckSources::default() })
}

#[test]
fn detects_op_that_only_seems_done() {
    let on = RunSpec { target: Target::Null, queue_depth: 8, ..stream(Path::new("/")) };
    for spec in runs(&on) {
        for pass in spec.passes() {
            let (result, sources) = lossy(&spec, *pass);
            let cross_checks = accounting::cross_checks(&spec, &result, &sources);
            let caveats = accounting::caveats(&cross_checks);
            assert_eq!(caveats[0].code, CaveatCode::Accounting, "{} {pass}", spec.workload);
        }
    }
}

#[test]
fn detects_op_missing_at_server() {
    let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
    let mut spec = nfs(&server);
    let (template, _) = lossy(&RunSpec { target: Target::Null, ..spec.clone() }, Pass::Read);
    for version in NfsVersion::ALL {
        let Target::Nfs(target) = &mut spec.target else { unreachable!() };
        target.settings.version = *version;
        for kind in OpKind::ALL {
            let mut result = template.clone();
            let recorded = &mut result.kinds[0];
            recorded.kind = *kind;
            recorded.issued = 5;
            recorded.done = 5;
            recorded.bytes = if kind.moves_data() { 500 } else { 0 };
            let server = Some(ServerCounts::default());
            let sources = CrossCheckSources { server, ..CrossCheckSources::default() };
            let cross_checks = accounting::cross_checks(&spec, &result, &sources);
            let raises_a_caveat = !accounting::caveats(&cross_checks).is_empty();
            // Many operations of version 4 also return attributes, so only the count of its backend
            // matters.
            let rides = matches!(
                kind,
                OpKind::Null | OpKind::Getattr | OpKind::Fsstat | OpKind::Fsinfo | OpKind::Pathconf
            );
            // Ops that no backend executes never reach a server.
            let is_kept = *kind == OpKind::Execute || (rides && version.major() == 4);
            assert_eq!(raises_a_caveat, !is_kept, "{kind} of version {version}: {cross_checks:?}");
        }
    }
}
