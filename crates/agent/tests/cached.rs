//! The caveat `cached`, in its own process and one case after the other: the kernel counts storage
//! reads of the whole process.

mod agent_thread;
#[path = "caveats/driven_agent.rs"]
#[allow(dead_code, reason = "not every test uses all of it")]
mod driven_agent;

use driven_agent::{DrivenAgent, codes, metadata, nfs, server, stream};
use model::{BackendKind, CaveatCode, NfsVersion, Pass, RunSpec, Target, Workload};
use nfs_server::ServerConfig;

#[test]
fn raises_cached_only_for_memory_reads() {
    memory_is_reported_from_storage();
    new_names_are_cached_only_locally();
    nfs_reads_never_use_local_cache();
    written_file_is_cached_until_dropped();
    judges_programs_by_storage_reads();
    judges_combined_passes_as_whole();
}

fn judges_programs_by_storage_reads() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let storage = on_storage();
    for workload in [Workload::Dd, Workload::Fio] {
        for (path, invalidate, direct, cached) in [
            (memory.path(), true, false, true),
            (storage.path(), false, false, true),
            (storage.path(), true, false, false),
            (storage.path(), false, true, false),
        ] {
            let spec = stream(path);
            let spec = RunSpec { workload, invalidate, direct, timeout_ms: 600_000, ..spec };
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            assert!(!is_cached(&mut agent, Pass::Write), "writes are not reads");
            let end = agent.run(Pass::Read);
            let found = codes(&end).contains(&CaveatCode::Cached);
            let case = format!("{workload} {} {invalidate} {direct}", path.display());
            assert_eq!(found, cached, "{case}: {:?}", end.result.caveats);
        }
    }
}

fn judges_combined_passes_as_whole() {
    let storage = on_storage();
    // bonnie++ exceeds the page cache with its first write already, even with its -D.
    for (workload, direct_is_cached) in [(Workload::Iozone, false), (Workload::Bonniexx, true)] {
        for (direct, cached) in [(false, true), (true, direct_is_cached)] {
            let passes = vec![Pass::Write, Pass::Read];
            let spec = RunSpec { workload, passes, direct, ..stream(storage.path()) };
            let spec = RunSpec { timeout_ms: 600_000, file_size_bytes: 16 << 20, ..spec };
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            assert!(!is_cached(&mut agent, Pass::Write), "writes are not reads");
            let end = agent.run(Pass::Read);
            let refused = codes(&end).contains(&CaveatCode::OptionNotEffective);
            assert_eq!(refused, direct && cached, "{workload} {direct}");
            let caveats = end.result.caveats.iter();
            let evidence = caveats.filter(|caveat| caveat.code == CaveatCode::Cached);
            let evidence: Vec<&str> = evidence.map(|caveat| caveat.evidence.as_str()).collect();
            assert_eq!(evidence.len(), usize::from(cached), "{workload} {direct}: {evidence:?}");
            let whole = format!("in the whole run of {workload}");
            assert!(evidence.iter().all(|evidence| evidence.contains(&whole)), "{evidence:?}");
        }
    }
}

/// A directory on a file system with storage under it.
fn on_storage() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn memory_is_reported_from_storage() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let storage = on_storage();
    for (path, invalidate, direct, cached) in [
        (memory.path(), true, false, true),
        (storage.path(), false, false, true),
        (storage.path(), true, false, false),
        (storage.path(), false, true, false),
    ] {
        for backend in [BackendKind::Posix, BackendKind::Uring] {
            let spec = RunSpec { invalidate, direct, backend, ..stream(path) };
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            agent.run(Pass::Write);
            let end = agent.run(Pass::Read);
            let found = codes(&end).contains(&CaveatCode::Cached);
            assert_eq!(
                found,
                cached,
                "{} {invalidate} {direct} {:?}",
                path.display(),
                end.result.caveats
            );
        }
    }
}

fn is_cached(agent: &mut DrivenAgent, pass: Pass) -> bool {
    codes(&agent.run(pass)).contains(&CaveatCode::Cached)
}

fn written_file_is_cached_until_dropped() {
    let directory = on_storage();
    let passes = vec![Pass::Write, Pass::Read, Pass::Reread];
    let small = RunSpec { file_size_bytes: 8 << 20, passes, ..stream(directory.path()) };
    let memory = lab::facts::memory::host_bytes().unwrap();
    assert!(small.set_bytes() < memory, "a file smaller than memory");
    for (invalidate, cached) in [(false, true), (true, false)] {
        let mut agent = DrivenAgent::new();
        agent.begin(&RunSpec { invalidate, ..small.clone() });
        assert!(!is_cached(&mut agent, Pass::Write), "writes are not reads");
        assert_eq!(is_cached(&mut agent, Pass::Read), cached, "just written, {invalidate}");
        assert_eq!(is_cached(&mut agent, Pass::Reread), cached, "just read, {invalidate}");
    }
}

fn nfs_reads_never_use_local_cache() {
    let server = server(ServerConfig::default());
    for version in NfsVersion::ALL {
        let passes = vec![Pass::Write, Pass::Read, Pass::Reread, Pass::RandomRead];
        let mut spec = RunSpec { file_size_bytes: 1 << 20, passes, ..nfs(&server) };
        if let Target::Nfs(target) = &mut spec.target {
            target.settings.version = *version;
        }
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        for pass in spec.passes() {
            assert!(!is_cached(&mut agent, *pass), "{version} {pass}");
        }
    }
}

fn new_names_are_cached_only_locally() {
    let directory = on_storage();
    let mut agent = DrivenAgent::new();
    agent.begin(&metadata(directory.path(), 2000));
    agent.run(Pass::Create);
    assert!(codes(&agent.run(Pass::Stat)).contains(&CaveatCode::Cached));
    let server = server(ServerConfig::default());
    let spec = RunSpec { workload: Workload::Metadata, files: 100, ..nfs(&server) };
    let spec = RunSpec { file_size_bytes: 100, io_size_bytes: 100, ..spec };
    agent.begin(&spec);
    agent.run(Pass::Create);
    assert!(!codes(&agent.run(Pass::Stat)).contains(&CaveatCode::Cached));
}
