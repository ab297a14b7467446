//! The caveat `cached`, in a process of its own and one case after the other: the kernel's count of
//! storage reads is that of the whole process.

#[path = "caveats/rig.rs"]
#[allow(dead_code, reason = "shared with the other caveats")]
mod rig;

use model::{BackendKind, CaveatCode, Pass, RunSpec, Workload};
use nfs_server::ServerConfig;
use rig::{Rig, codes, metadata, nfs, server, stream};

#[test]
fn cached_is_raised_where_memory_answers_and_only_there() {
    memory_is_told_from_storage();
    names_that_were_just_made_are_in_memory_and_nfs_has_no_cache();
}

/// A directory on a file system with storage under it.
fn on_storage() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn memory_is_told_from_storage() {
    let (memory, storage) = (tempfile::tempdir_in("/dev/shm").unwrap(), on_storage());
    for (path, invalidate, direct, cached) in [
        (memory.path(), true, false, true),
        (storage.path(), false, false, true),
        (storage.path(), true, false, false),
        (storage.path(), false, true, false),
    ] {
        for backend in [BackendKind::Posix, BackendKind::Uring] {
            let spec = RunSpec { invalidate, direct, backend, ..stream(path) };
            let mut rig = Rig::new();
            rig.begin(&spec);
            rig.run(Pass::Write);
            let end = rig.run(Pass::Read);
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

fn names_that_were_just_made_are_in_memory_and_nfs_has_no_cache() {
    let directory = on_storage();
    let mut rig = Rig::new();
    rig.begin(&metadata(directory.path(), 2000));
    rig.run(Pass::Create);
    assert!(codes(&rig.run(Pass::Stat)).contains(&CaveatCode::Cached));
    let server = server(ServerConfig::default());
    let spec = RunSpec { workload: Workload::Metadata, files: 100, ..nfs(&server) };
    let spec = RunSpec { file_size_bytes: 100, io_size_bytes: 100, ..spec };
    rig.begin(&spec);
    rig.run(Pass::Create);
    assert!(!codes(&rig.run(Pass::Stat)).contains(&CaveatCode::Cached));
}
