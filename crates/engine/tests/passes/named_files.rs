//! Files that the caller names and writes one by one: the calls for each kind of durability, and
//! the content after a restart that loses everything uncommitted.

use std::io::Read as _;
use std::time::Duration;

use engine::target::NfsFile;
use engine::target::named_files::{NamedFile, NamedFiles, NamedWrite};
use model::{Durability, NfsSettings, NfsTarget, NfsVersion, Proto, Target};
use nfs_client::proto::client::OperationKind;
use nfs_server::{FaultPlan, Server, ServerConfig};
use workload::Pattern;

const BLOCK_BYTES: u32 = 4096;
const NUMBER: u32 = 99_999_999;

fn start_server() -> Server {
    let faults = FaultPlan { lose_unstable: true, ..FaultPlan::default() };
    Server::start(ServerConfig { udp: true, faults, ..ServerConfig::default() }).unwrap()
}

fn pattern() -> Pattern {
    Pattern::new(1, 16 * BLOCK_BYTES as usize).stamped(5, BLOCK_BYTES)
}

fn open(target: &Target) -> NamedFiles {
    NamedFiles::open(target, Duration::from_secs(5), pattern(), 16 * BLOCK_BYTES).unwrap()
}

fn target_on(server: &Server, settings: NfsSettings) -> Target {
    let port = Some(server.address().port());
    let target = NfsTarget::new("127.0.0.1", "/export");
    Target::Nfs(NfsTarget { port, mount_port: port, settings, ..target })
}

/// Writes some blocks of a generation.
fn write(files: &mut NamedFiles, file: &mut NamedFile, first_block: u32, generation: u32) {
    let offset_bytes = u64::from(first_block * BLOCK_BYTES);
    let len_bytes = 2 * BLOCK_BYTES;
    files.write(file, NamedWrite { offset_bytes, len_bytes, generation }).unwrap();
}

/// Reads a file with a fresh client, and returns the generation of each of its blocks.
fn generations(target: &Target, name: &str) -> Vec<Option<u32>> {
    let mut files = open(target);
    assert!(files.enter("work").unwrap());
    let data = files.read(name).unwrap().unwrap();
    data.chunks(BLOCK_BYTES as usize)
        .zip((0..).step_by(4096))
        .map(|(block, offset)| pattern().find_generation(block, NUMBER, offset))
        .collect()
}

#[test]
fn keeps_only_committed_writes_after_restart() {
    for version in [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1] {
        for durability in Durability::ALL.iter().copied() {
            let server = start_server();
            let target = target_on(&server, NfsSettings { version, ..NfsSettings::default() });
            let mut files = open(&target);
            files.make("work").unwrap();
            let mut file = files.create("a", NUMBER, durability).unwrap();
            write(&mut files, &mut file, 0, 1);
            write(&mut files, &mut file, 2, 2);
            if durability == Durability::Sync {
                files.make_safe(&mut file).unwrap();
            }
            files.close(file).unwrap();
            let commits = server.counters().calls_of_kind(OperationKind::Commit);
            assert_eq!(commits, u64::from(durability == Durability::Sync), "{durability}");
            server.restart_now();
            let kept = [Some(1), Some(1), Some(2), Some(2)];
            let is_safe = durability >= Durability::Sync;
            let expected = if is_safe { &kept[..] } else { &[] };
            assert_eq!(generations(&target, "a"), expected, "{version:?} {durability}");
        }
    }
}

#[test]
fn fails_commit_of_lost_data() {
    for writes_after in [false, true] {
        let server = start_server();
        // A restart doesn't end a connection over UDP.
        let settings = NfsSettings { proto: Proto::Udp, ..NfsSettings::default() };
        let target = target_on(&server, settings);
        let mut files = open(&target);
        files.make("work").unwrap();
        let mut file = files.create("a", NUMBER, Durability::Sync).unwrap();
        write(&mut files, &mut file, 0, 1);
        server.restart_now();
        if writes_after {
            write(&mut files, &mut file, 2, 1);
        }
        let failed = files.make_safe(&mut file).unwrap_err();
        assert!(failed.starts_with("COMMIT: "), "{failed}");
        let expected = if writes_after { 4 } else { 0 };
        let found = generations(&target, "a");
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().take(2).all(Option::is_none), "{found:?}");
    }
}

#[test]
fn directory_has_what_was_written_last() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::Directory { path: folder.path().to_owned() };
    for durability in Durability::ALL.iter().copied() {
        let mut files = open(&target);
        files.make("work").unwrap();
        let mut file = files.create("new", NUMBER, durability).unwrap();
        write(&mut files, &mut file, 0, 1);
        files.make_safe(&mut file).unwrap();
        files.close(file).unwrap();
        files.rename("new", "a").unwrap();
        files.make_names_safe().unwrap();
        let mut file = files.open_file("a", NUMBER, durability).unwrap();
        write(&mut files, &mut file, 1, 7);
        files.close(file).unwrap();
        assert_eq!(generations(&target, "a"), [Some(1), Some(7), Some(7)], "{durability}");
        assert_eq!(files.read("new").unwrap(), None);
        std::fs::remove_dir_all(folder.path().join("work")).unwrap();
    }
}

#[test]
fn reads_file_at_path() {
    let server = start_server();
    let target = target_on(&server, NfsSettings::default());
    let mut files = open(&target);
    files.make("work").unwrap();
    let mut file = files.create("a", NUMBER, Durability::Sync).unwrap();
    write(&mut files, &mut file, 0, 1);
    files.make_safe(&mut file).unwrap();
    files.close(file).unwrap();
    let at = |path: &str| NfsTarget { path: path.to_owned(), ..target.nfs().unwrap().clone() };
    let mut read = NfsFile::open(&at("/export/work/a")).unwrap();
    let mut start = [0; 100];
    read.read_exact(&mut start).unwrap();
    let mut rest = Vec::new();
    read.read_to_end(&mut rest).unwrap();
    assert_eq!([&start[..], &rest].concat(), files.read("a").unwrap().unwrap());
    assert!(NfsFile::open(&at("/export/work/b")).is_err());
}
