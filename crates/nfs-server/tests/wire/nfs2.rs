//! NFS v2 over the wire: differences from v3, and the effect of its limits.

use std::collections::BTreeSet;

use nfs_proto::nfs2::{
    Call, FILE_BYTES_MAX, Fattr, FileHandle, Object, Procedure, Reply, Sattr, SetTime, Statfs, Time,
};
use nfs_proto::nfs3::FileType;
use nfs_proto::program;
use nfs_proto::{Status, mount1};
use nfs_server::fs::{Context, CreateMode, FileTime, SetAttributes};
use nfs_server::{
    ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, Server, ServerConfig, StoreMode,
};

use crate::client::{Client, ROOT, start};

fn pair_with(config: ServerConfig) -> (Server, Client, FileHandle) {
    let server = start(config);
    let mut client = Client::connect(&server);
    let answer = client.call(&program::Call::Mount1(mount1::Call::Mnt(b"/export")));
    let root =
        mount1::Reply::decode_mnt(answer.reader()).unwrap().expect("the path should be exported");
    (server, client, root)
}

fn pair() -> (Server, Client, FileHandle) {
    pair_with(ServerConfig::default())
}

fn create(client: &mut Client, dir: FileHandle, name: &str, sattr: Sattr) -> Object {
    let answer = client.nfs2(Call::Create { dir, name: name.as_bytes(), attributes: sattr });
    let Reply::Create(result) = answer.nfs2() else { unreachable!() };
    result.unwrap()
}

fn getattr(client: &mut Client, file: FileHandle) -> Result<Fattr, Status> {
    let answer = client.nfs2(Call::Getattr { file });
    let Reply::Getattr(result) = answer.nfs2() else { unreachable!() };
    result
}

fn setattr(client: &mut Client, file: FileHandle, attributes: Sattr) -> Result<Fattr, Status> {
    let answer = client.nfs2(Call::Setattr { file, attributes });
    let Reply::Setattr(result) = answer.nfs2() else { unreachable!() };
    result
}

fn write(client: &mut Client, file: FileHandle, offset: u32, data: &[u8]) -> Result<Fattr, Status> {
    let answer = client.nfs2(Call::Write { file, offset, data });
    let Reply::Write(result) = answer.nfs2() else { unreachable!() };
    result
}

fn read(
    client: &mut Client,
    file: FileHandle,
    offset: u32,
    count: u32,
) -> Result<(Vec<u8>, u32), Status> {
    let answer = client.nfs2(Call::Read { file, offset, count });
    let Reply::Read(result) = answer.nfs2() else { unreachable!() };
    result.map(|ok| (ok.data.to_vec(), ok.attributes.size))
}

fn status(client: &mut Client, call: Call<'_>) -> Result<(), Status> {
    client.nfs2(call).nfs2().status()
}

/// Creates a file of any size directly in the store.
fn sparse(server: &Server, name: &[u8], bytes: u64) {
    let fs = server.file_system();
    let (export, _) = fs.find_path("/export").unwrap();
    let set = SetAttributes { size: Some(bytes), ..SetAttributes::default() };
    fs.create(export, name, CreateMode::Guarded, &set, &Context::default()).unwrap();
}

#[test]
fn returns_data_in_8192_byte_pieces() {
    let (server, mut client, root) = pair();
    let file = create(&mut client, root, "f", Sattr::with_mode(0o640)).file;
    let data: Vec<u8> = (0..20_001_u32).map(|n| (n * 7 / 5) as u8).collect();
    for (index, part) in data.chunks(8192).enumerate() {
        let offset = (index * 8192) as u32;
        let attributes = write(&mut client, file, offset, part).unwrap();
        assert_eq!(attributes.size as usize, offset as usize + part.len());
        assert_eq!((attributes.uid, attributes.gid, attributes.mode), (1000, 100, 0o100_640));
    }
    assert!(server.read_file("/export/f").unwrap() == data);
    for (offset, count) in [(0, 8192), (1, 77), (19_999, 8192), (30_000, 9), (0, 1 << 20)] {
        let (bytes, size) = read(&mut client, file, offset, count).unwrap();
        let start = (offset as usize).min(data.len());
        let end = (start + count.min(8192) as usize).min(data.len());
        assert!(bytes == data[start..end], "{offset} {count}");
        assert_eq!(size as usize, data.len());
    }
    let counters = server.counters();
    assert_eq!(counters.nfs2_calls_of(Procedure::Write), 3);
    assert_eq!(counters.nfs2_calls_of(Procedure::Read), 5);
    assert_eq!(counters.payload_written_bytes, data.len() as u64);
}

#[test]
fn pads_handle_of_v3_with_zeros() {
    let (_server, mut client, root) = pair();
    let v3 = client.mount("/export");
    assert_eq!(&root.as_slice()[..v3.as_slice().len()], v3.as_slice());
    assert_eq!(root.as_slice()[v3.as_slice().len()..], [0; 8]);
    let mut other = root;
    other.0[31] = 1;
    assert_eq!(getattr(&mut client, other).map(drop), Err(Status::Stale));
    assert_eq!(getattr(&mut client, FileHandle([7; 32])).map(drop), Err(Status::Stale));
    client.create(v3, "made-by-v3");
    let found = client.nfs2(Call::Lookup { dir: root, name: b"made-by-v3" });
    assert!(matches!(found.nfs2(), Reply::Lookup(Ok(_))));
}

#[test]
fn nothing_reaches_2_gib() {
    let (server, mut client, root) = pair();
    let file = create(&mut client, root, "f", Sattr::default()).file;
    let last = FILE_BYTES_MAX - 1;
    assert_eq!(write(&mut client, file, last, b"x").unwrap().size, FILE_BYTES_MAX);
    assert_eq!(read(&mut client, file, last, 9), Ok((b"x".to_vec(), FILE_BYTES_MAX)));
    assert_eq!(write(&mut client, file, last, b"xy").map(drop), Err(Status::FBig));
    assert_eq!(write(&mut client, file, u32::MAX, b"x").map(drop), Err(Status::FBig));
    let too_large = Sattr { size: Some(FILE_BYTES_MAX + 1), ..Sattr::default() };
    assert_eq!(setattr(&mut client, file, too_large).map(drop), Err(Status::FBig));
    let create = Call::Create { dir: root, name: b"g", attributes: too_large };
    assert_eq!(status(&mut client, create), Err(Status::FBig));
    assert_eq!(server.file_size("/export/f"), Some(u64::from(FILE_BYTES_MAX)));
    assert_eq!(server.list_directory("/export").unwrap(), ["f"]);
    assert_eq!(server.counters().errors[&Status::FBig], 4);
}

#[test]
fn refuses_large_file_but_truncates_it() {
    let (server, mut client, root) = pair();
    sparse(&server, b"big", 5 << 30);
    client.user = ROOT;
    let name = &b"big"[..];
    assert_eq!(status(&mut client, Call::Lookup { dir: root, name }), Err(Status::FBig));
    let v3 = client.mount("/export");
    let big = client.lookup(v3, "big").unwrap();
    let file = FileHandle::from_slice(big.as_slice()).unwrap();
    assert_eq!(status(&mut client, Call::Getattr { file }), Err(Status::FBig));
    assert_eq!(read(&mut client, file, 0, 1).map(drop), Err(Status::FBig));
    assert_eq!(write(&mut client, file, 0, b"x").map(drop), Err(Status::FBig));
    let chmod = Sattr::with_mode(0o600);
    assert_eq!(setattr(&mut client, file, chmod).map(drop), Err(Status::FBig));
    assert_eq!(server.file_size("/export/big"), Some(5 << 30));
    let cut = Sattr { size: Some(3), ..Sattr::default() };
    assert_eq!(setattr(&mut client, file, cut).unwrap().size, 3);
    assert_eq!(status(&mut client, Call::Remove { dir: root, name }), Ok(()));
}

#[test]
fn converts_times_to_microseconds() {
    let clock = || FileTime::from_parts(1_000, 123_456_789);
    let (_server, mut client, root) = pair_with(ServerConfig { clock, ..ServerConfig::default() });
    let made = create(&mut client, root, "f", Sattr::default());
    let now = Time { seconds: 1_000, micros: 123_456 };
    assert_eq!((made.attributes.atime, made.attributes.mtime), (now, now));
    let then = Time { seconds: 5, micros: 999_999 };
    let mut set = |atime, mtime| {
        let sattr = Sattr { atime, mtime, ..Sattr::default() };
        let found = setattr(&mut client, made.file, sattr).unwrap();
        (found.atime, found.mtime)
    };
    assert_eq!(set(SetTime::Client(then), SetTime::Client(then)), (then, then));
    assert_eq!(set(SetTime::Keep, SetTime::Keep), (then, then));
    assert_eq!(set(SetTime::Keep, SetTime::Server), (then, now));
    assert_eq!(set(SetTime::Client(then), SetTime::Keep), (then, now));
    // A value of one million microseconds for the modification time sets both times to the server's
    // clock.
    assert_eq!(set(SetTime::Client(then), SetTime::Server), (now, now));
}

#[test]
fn names_are_made_moved_and_removed() {
    let (server, mut client, dir) = pair();
    let attributes = Sattr::with_mode(0o711);
    let answer = client.nfs2(Call::Mkdir { dir, name: b"sub", attributes });
    let Reply::Mkdir(Ok(sub)) = answer.nfs2() else { panic!("no directory") };
    assert_eq!(sub.attributes.file_type(), FileType::Directory);
    assert_eq!(sub.attributes.mode, 0o040_711);
    let file = create(&mut client, sub.file, "f", Sattr::default()).file;
    let mut done = |call| status(&mut client, call);
    assert_eq!(done(Call::Link { file, dir, name: b"hard" }), Ok(()));
    assert_eq!(
        done(Call::Symlink {
            dir,
            name: &b"soft"[..],
            target: &b"sub/f"[..],
            attributes: Sattr::default()
        }),
        Ok(())
    );
    let to = &b"moved"[..];
    assert_eq!(done(Call::Rename { from_dir: sub.file, from: b"f", to_dir: dir, to }), Ok(()));
    assert_eq!(done(Call::Rmdir { dir, name: b"sub" }), Ok(()));
    assert_eq!(done(Call::Remove { dir, name: b"moved" }), Ok(()));
    assert_eq!(done(Call::Remove { dir, name: b"moved" }), Err(Status::NoEnt));
    assert_eq!(done(Call::Rmdir { dir, name: b"hard" }), Err(Status::NotDir));
    assert_eq!(done(Call::Lookup { dir: file, name: b"x" }), Err(Status::NotDir));
    assert_eq!(done(Call::Null), Ok(()));
    assert_eq!(done(Call::Root), Ok(()));
    assert_eq!(done(Call::Writecache), Ok(()));
    assert_eq!(server.list_directory("/export").unwrap(), ["hard", "soft"]);
    let answer = client.nfs2(Call::Lookup { dir, name: b"soft" });
    let Reply::Lookup(Ok(soft)) = answer.nfs2() else { panic!("no link") };
    let answer = client.nfs2(Call::Readlink { file: soft.file });
    assert_eq!(answer.nfs2(), Reply::Readlink(Ok(b"sub/f")));
    assert_eq!(status(&mut client, Call::Readlink { file }), Err(Status::Io));
}

#[test]
fn creates_existing_and_special_files() {
    let (_server, mut client, dir) = pair();
    client.user = ROOT;
    let file = create(&mut client, dir, "f", Sattr::default()).file;
    write(&mut client, file, 0, b"12345").unwrap();
    assert_eq!(create(&mut client, dir, "f", Sattr::default()).attributes.size, 5);
    let empty = Sattr { size: Some(0), ..Sattr::default() };
    let again = create(&mut client, dir, "f", empty);
    assert_eq!((again.file, again.attributes.size), (file, 0));
    let node = |bits: u32, size| Sattr { size, ..Sattr::with_mode(bits | 0o600) };
    let cases = [
        ("fifo", node(0o010_000, None), FileType::Fifo),
        ("old-fifo", node(0o020_000, None), FileType::Fifo),
        ("char", node(0o020_000, Some(0x0103)), FileType::Character),
        ("block", node(0o060_000, Some(0x0801)), FileType::Block),
        ("socket", node(0o140_000, None), FileType::Socket),
        ("file", node(0o100_000, None), FileType::Regular),
    ];
    for (name, sattr, kind) in cases {
        let made = create(&mut client, dir, name, sattr).attributes;
        assert_eq!((made.file_type(), made.mode & 0o777), (kind, 0o600), "{name}");
        if kind == FileType::Block {
            assert_eq!(made.device, 0x0801);
        }
    }
}

#[test]
fn lists_every_name_once() {
    let (server, mut client, dir) = pair();
    for n in 0..2_000 {
        sparse(&server, format!("entry-{n}").as_bytes(), 0);
    }
    for count in [512, 8192, u32::MAX] {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let answer = client.nfs2(Call::Readdir { dir, cookie, count });
            let Reply::Readdir(Ok(page)) = answer.nfs2() else { panic!("no page") };
            for entry in &page.entries {
                cookie = entry.cookie;
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            if page.eof {
                break;
            }
        }
        assert_eq!(names.len(), 2_002, "count {count}");
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2_002);
    }
    assert_eq!(status(&mut client, Call::Readdir { dir, cookie: 0, count: 16 }), Err(Status::Io));
}

#[test]
fn grants_at_most_8192_bytes() {
    let (_server, mut client, root) = pair();
    let statfs = |client: &mut Client, file| {
        let answer = client.nfs2(Call::Statfs { file });
        let Reply::Statfs(result) = answer.nfs2() else { unreachable!() };
        result
    };
    let found = statfs(&mut client, root).unwrap();
    let blocks = (1 << 30) / 4 * 3 / 4096;
    assert_eq!((found.transfer_bytes, found.block_bytes, found.blocks), (8192, 4096, blocks));
    assert!(found.free_blocks < blocks && found.available_blocks == found.free_blocks);
    assert_eq!(statfs(&mut client, FileHandle([0; 32])), Err(Status::Stale));
    let huge = ServerConfig {
        memory_limit_bytes: 1 << 50,
        write_bytes_max: 4096,
        ..ServerConfig::default()
    };
    let (_server, mut client, root) = pair_with(huge);
    let Statfs { transfer_bytes, blocks, .. } = statfs(&mut client, root).unwrap();
    assert_eq!((transfer_bytes, blocks), (4096, u32::MAX));
    // A WRITE can't be short, so more than was granted is accepted.
    let file = create(&mut client, root, "f", Sattr::default()).file;
    assert_eq!(write(&mut client, file, 0, &[7; 8192]).unwrap().size, 8192);
}

#[test]
fn reports_no_space_on_write() {
    let small = ServerConfig { memory_limit_bytes: 1 << 20, ..ServerConfig::default() };
    let (server, mut client, root) = pair_with(small);
    let file = create(&mut client, root, "f", Sattr::default()).file;
    let full = (0..1000_u32)
        .map(|n| write(&mut client, file, n * 8192, &[1; 8192]).map(drop))
        .find(Result::is_err);
    assert_eq!(full, Some(Err(Status::NoSpc)));
    assert!(server.memory_bytes() <= 1 << 20);
}

#[test]
fn discarded_data_reads_as_the_pattern() {
    let config = ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() };
    let (_server, mut client, root) = pair_with(config);
    let file = create(&mut client, root, "f", Sattr::default()).file;
    assert_eq!(write(&mut client, file, 0, &[1; 8192]).unwrap().size, 8192);
    let (bytes, size) = read(&mut client, file, 0, 8192).unwrap();
    assert_eq!((bytes.len(), size), (8192, 8192));
}

#[test]
fn applies_planned_errors_to_v2() {
    let errors = vec![ErrorFault {
        calls: FaultedCalls::V2(Procedure::Statfs.number()),
        status: Status::WFlush,
        share: PartsPerMillion(1_000_000),
    }];
    let faults = FaultPlan { errors, ..FaultPlan::default() };
    let (server, mut client, root) = pair_with(ServerConfig { faults, ..ServerConfig::default() });
    assert_eq!(status(&mut client, Call::Statfs { file: root }), Err(Status::WFlush));
    assert_eq!(status(&mut client, Call::Getattr { file: root }), Ok(()));
    let v3 = client.mount("/export");
    let answer = client.nfs(nfs_proto::nfs3::Call::Fsstat { root: &v3 });
    assert!(matches!(answer.nfs3(), nfs_proto::nfs3::Reply::Fsstat { result: Ok(_), .. }));
    assert_eq!(server.counters().errors[&Status::WFlush], 1);
}

#[test]
fn never_shortens_writes_in_v2() {
    let faults = FaultPlan { short_write: PartsPerMillion(1_000_000), ..FaultPlan::default() };
    let (_server, mut client, root) = pair_with(ServerConfig { faults, ..ServerConfig::default() });
    let file = create(&mut client, root, "f", Sattr::default()).file;
    assert_eq!(write(&mut client, file, 0, &[7; 100]).unwrap().size, 100);
}
