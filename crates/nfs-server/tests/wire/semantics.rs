//! Procedures of NFS v3 over the wire, each with its exact result.
//!
//! The semantics themselves are tested in `fs`; these tests cover encoding and decoding.

use nfs_proto::nfs3::{
    Call, CreateHow, Device, FileType, Fsinfo, MknodWhat, Procedure, Reply, Sattr, StableHow,
    Status, Time, Verifier, access,
};
use nfs_server::fs::FileTime;
use nfs_server::{Server, ServerConfig, StoreMode};

use crate::client::{Client, ROOT, start};

fn pair() -> (Server, Client, nfs_proto::nfs3::FileHandle) {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    (server, client, root)
}

#[test]
fn serves_same_data_directly() {
    let (server, mut client, root) = pair();
    let file = client.create(root, "f");
    let data: Vec<u8> = (0..3_000_001_u32).map(|n| (n * 7 / 5) as u8).collect();
    for (index, part) in data.chunks(1 << 20).enumerate() {
        let offset = (index << 20) as u64;
        assert_eq!(client.write(file, offset, part), Ok(part.len() as u32));
    }
    assert_eq!(server.file_size("/export/f"), Some(3_000_001));
    assert!(server.read_file("/export/f").unwrap() == data);
    for (offset, count) in [(0, 1 << 20), (1, 77), (262_143, 2), (2_999_999, 1 << 20), (5 << 20, 9)]
    {
        let (bytes, eof) = client.read(file, offset, count).unwrap();
        let start = (offset as usize).min(data.len());
        let end = (start + count as usize).min(data.len());
        assert!(bytes == data[start..end], "{offset} {count}");
        assert_eq!(eof, end == data.len(), "{offset} {count}");
    }
    assert_eq!(server.list_directory("/export").unwrap(), ["f"]);
    assert_eq!(server.read_file("/export/none"), None);
}

#[test]
fn reports_stability_and_verifier() {
    let (server, mut client, root) = pair();
    let file = client.create(root, "f");
    for stable in [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync] {
        let answer = client.nfs(Call::Write { file: &file, offset: 0, stable, data: b"12345" });
        let Reply::Write { wcc, result } = answer.nfs3() else { unreachable!() };
        let ok = result.unwrap();
        assert_eq!((ok.count, ok.committed), (5, stable));
        assert_eq!(ok.verifier, Verifier(server.write_verifier()));
        assert_eq!(wcc.after.unwrap().size, 5);
        assert!(wcc.before.unwrap().ctime < wcc.after.unwrap().ctime);
    }
    let answer = client.nfs(Call::Commit { file: &file, offset: 0, count: 0 });
    let Reply::Commit { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(Verifier(server.write_verifier())));
    assert_eq!(server.counters().commits(), 1);
    assert_ne!(start(ServerConfig::default()).write_verifier(), server.write_verifier());
}

#[test]
fn reports_stale_handles() {
    let (server, mut client, root) = pair();
    let file = client.create(root, "f");
    let answer = client.nfs(Call::Remove { dir: &root, name: b"f" });
    let Reply::Remove { dir, result } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(()));
    assert!(dir.before.unwrap().mtime < dir.after.unwrap().mtime);
    assert_eq!(client.size(file), Err(Status::Stale));
    assert_eq!(client.read(file, 0, 1), Err(Status::Stale));
    assert_eq!(client.write(file, 0, b"x"), Err(Status::Stale));
    drop(server);
    let next = start(ServerConfig::default());
    let mut client = Client::connect(&next);
    assert_eq!(client.size(root), Err(Status::Stale));
    let garbage = nfs_proto::nfs3::FileHandle::from_slice(&[9; 24]).unwrap();
    assert_eq!(client.size(garbage), Err(Status::BadHandle));
    assert_eq!(next.counters().errors[&Status::Stale], 1);
    assert_eq!(next.counters().errors[&Status::BadHandle], 1);
}

#[test]
fn keeps_acknowledged_data_when_full() {
    let memory_limit_bytes = 3 << 20;
    let server = start(ServerConfig { memory_limit_bytes, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let part = vec![0xa5; 1 << 20];
    let mut written = 0;
    let error = loop {
        match client.write(file, written, &part) {
            Ok(count) => written += u64::from(count),
            Err(status) => break status,
        }
    };
    assert_eq!(error, Status::NoSpc);
    assert!(((2 << 20)..(3 << 20)).contains(&written), "{written}");
    assert_eq!(client.size(file), Ok(written));
    assert!(server.read_file("/export/f").unwrap() == vec![0xa5; written as usize]);
    assert!(server.memory_bytes() <= memory_limit_bytes);
    // Removing the file frees its space.
    client.nfs(Call::Remove { dir: &root, name: b"f" });
    assert!(server.memory_bytes() < 10_000);
    let file = client.create(root, "g");
    assert_eq!(client.write(file, 0, &part), Ok(1 << 20));
}

#[test]
fn discards_data_and_reads_pattern() {
    let server = start(ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let before = server.memory_bytes();
    for offset in 0..8 {
        assert_eq!(client.write(file, offset << 20, &vec![0; 1 << 20]), Ok(1 << 20));
    }
    assert_eq!(client.size(file), Ok(8 << 20));
    assert_eq!(server.memory_bytes(), before);
    let (first, eof) = client.read(file, 0, 1 << 20).unwrap();
    assert_eq!((first.len(), eof), (1 << 20, false));
    assert!(client.read(file, 0, 1 << 20).unwrap().0 == first);
    assert!(first != vec![0; 1 << 20]);
}

#[test]
fn objects_are_made_for_the_caller() {
    let (_server, mut client, root) = pair();
    let attributes = Sattr::with_mode(0o750);
    let answer = client.nfs(Call::Mkdir { dir: &root, name: b"d", attributes });
    let Reply::Mkdir { result, .. } = answer.nfs3() else { unreachable!() };
    let made = result.unwrap().attributes.unwrap();
    assert_eq!((made.file_type, made.mode, made.nlink), (FileType::Directory, 0o750, 2));
    assert_eq!((made.uid, made.gid), (1000, 100));

    let target = b"somewhere/else";
    let call = Call::Symlink { dir: &root, name: b"l", attributes: Sattr::default(), target };
    let answer = client.nfs(call);
    let Reply::Symlink { result, .. } = answer.nfs3() else { unreachable!() };
    let answer = client.nfs(Call::Readlink { file: &result.unwrap().file.unwrap() });
    let Reply::Readlink { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(&target[..]));

    client.user = ROOT;
    let what = MknodWhat::Block(Sattr::default(), Device { major: 8, minor: 3 });
    let answer = client.nfs(Call::Mknod { dir: &root, name: b"n", what });
    let Reply::Mknod { result, .. } = answer.nfs3() else { unreachable!() };
    let made = result.unwrap().attributes.unwrap();
    assert_eq!((made.file_type, made.device), (FileType::Block, Device { major: 8, minor: 3 }));
    let what = MknodWhat::Other(FileType::Regular);
    let answer = client.nfs(Call::Mknod { dir: &root, name: b"m", what });
    let Reply::Mknod { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap_err(), Status::BadType);
}

#[test]
fn exclusive_create_can_be_repeated() {
    let (_server, mut client, root) = pair();
    let mut create = |verifier| {
        let how = CreateHow::Exclusive(Verifier(verifier));
        let answer = client.nfs(Call::Create { dir: &root, name: b"x", how });
        let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
        result.map(|created| created.file.unwrap())
    };
    let first = create([1; 8]).unwrap();
    assert_eq!(create([1; 8]), Ok(first));
    assert_eq!(create([2; 8]), Err(Status::Exist));
}

#[test]
fn renames_and_links_over_wire() {
    let (server, mut client, root) = pair();
    let file = client.create(root, "a");
    let answer = client.nfs(Call::Link { file: &file, dir: &root, name: b"b" });
    let Reply::Link { attributes, result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!((result, attributes.unwrap().nlink), (Ok(()), 2));
    let call = Call::Rename { from_dir: &root, from: b"b", to_dir: &root, to: b"c" };
    let answer = client.nfs(call);
    let Reply::Rename { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(()));
    assert_eq!(server.list_directory("/export").unwrap(), ["a", "c"]);
    assert_eq!(client.lookup(root, "b"), Err(Status::NoEnt));
    assert_eq!(client.lookup(root, "c"), Ok(file));

    let guard = Some(Time { seconds: 1, nanos: 1 });
    let attributes = Sattr { size: Some(9), ..Sattr::default() };
    let answer = client.nfs(Call::Setattr { file: &file, attributes, guard });
    let Reply::Setattr { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Err(Status::NotSync));
    let answer = client.nfs(Call::Setattr { file: &file, attributes, guard: None });
    let Reply::Setattr { wcc, result } = answer.nfs3() else { unreachable!() };
    assert_eq!((result, wcc.after.unwrap().size), (Ok(()), 9));
    assert_eq!(client.lookup(root, &"n".repeat(256)), Err(Status::NameTooLong));
}

#[test]
fn the_file_system_tells_its_limits() {
    let config = ServerConfig { read_bytes_max: 65_536, ..ServerConfig::default() };
    let server = start(config);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let answer = client.nfs(Call::Fsinfo { root: &root });
    let Reply::Fsinfo { result, .. } = answer.nfs3() else { unreachable!() };
    let info = result.unwrap();
    assert_eq!((info.read_bytes_max, info.write_bytes_max), (65_536, 1 << 20));
    assert_eq!(info.directory_bytes_preferred, 1 << 20);
    assert_eq!(info.properties & Fsinfo::LINK, Fsinfo::LINK);
    let answer = client.nfs(Call::Fsstat { root: &root });
    let Reply::Fsstat { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap().total_bytes, (1 << 30) / 4 * 3, "space available for files");
    let answer = client.nfs(Call::Pathconf { file: &root });
    let Reply::Pathconf { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap().name_bytes_max, 255);
    let answer = client.nfs(Call::Access { file: &root, access: 0x3f });
    let Reply::Access { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(0x3f & !access::EXECUTE));
    // A request for more than was granted is shortened, never refused.
    let file = client.create(root, "f");
    client.write(file, 0, &vec![1; 70_000]).unwrap();
    assert_eq!(client.read(file, 0, 1 << 20).unwrap().0.len(), 65_536);
}

#[test]
fn counters_report_calls_and_errors() {
    let (server, mut client, root) = pair();
    let file = client.create(root, "f");
    client.write(file, 0, &[1; 1000]).unwrap();
    client.read(file, 0, 4096).unwrap();
    client.read(file, 500, 4096).unwrap();
    client.lookup(root, "none").unwrap_err();
    let counters = server.counters();
    assert_eq!(counters.calls_of(Procedure::Read), 2);
    assert_eq!(counters.calls_of(Procedure::Write), 1);
    assert_eq!((counters.calls_total(), counters.mount_calls), (5, 1));
    assert_eq!((counters.payload_read_bytes, counters.payload_written_bytes), (1500, 1000));
    assert_eq!(counters.errors.iter().collect::<Vec<_>>(), [(&Status::NoEnt, &1)]);
    assert_eq!((counters.connections_accepted, counters.connections_open), (1, 1));
    assert!(counters.wire_in_bytes > 1000 && counters.wire_out_bytes > 1500);
    assert_eq!(server.thread_ids().len(), 1);
}

#[test]
fn takes_file_times_from_clock() {
    let server =
        start(ServerConfig { clock: || FileTime(7_000_000_009), ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let answer = client.nfs(Call::Getattr { file: &file });
    let Reply::Getattr { result } = answer.nfs3() else { unreachable!() };
    let attributes = result.unwrap();
    assert_eq!(attributes.mtime, Time { seconds: 7, nanos: 9 });
    assert_eq!((attributes.atime, attributes.ctime), (attributes.mtime, attributes.mtime));
}
