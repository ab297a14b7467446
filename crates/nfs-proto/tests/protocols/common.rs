//! Samples that several tests share: one call and one reply of every procedure and shape, with a
//! different value in each field.

#![allow(dead_code, reason = "each test uses its part")]

use nfs_proto::nfs3::{
    Call, CreateHow, Created, Device, Entry, EntryPlus, Fattr, FileHandle, FileType, Fsinfo,
    Fsstat, Listing, ListingPlus, MknodWhat, Object, Pathconf, ReadOk, Reply, Sattr, SetTime,
    StableHow, Status, Time, Verifier, WccAttr, WccData, WriteOk,
};

/// Decodes hexadecimal words, ignoring blanks and line ends.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const DIR: [u8; 4] = [0xd1, 0xd2, 0xd3, 0xd4];
const FILE: [u8; 5] = [0xf1, 0xf2, 0xf3, 0xf4, 0xf5];

/// A handle of four bytes.
pub fn dir() -> FileHandle {
    FileHandle::from_slice(&DIR).unwrap()
}

/// A handle of five bytes, which needs padding.
pub fn file() -> FileHandle {
    FileHandle::from_slice(&FILE).unwrap()
}

/// Attributes with a different value in each field.
pub fn fattr() -> Fattr {
    Fattr {
        file_type: FileType::Regular,
        mode: 0o644,
        nlink: 3,
        uid: 4,
        gid: 5,
        size: 0x6_0000_0007,
        used: 0x8_0000_0009,
        device: Device { major: 10, minor: 11 },
        fsid: 0xc_0000_000d,
        fileid: 0xe_0000_000f,
        atime: Time { seconds: 16, nanos: 17 },
        mtime: Time { seconds: 18, nanos: 19 },
        ctime: Time { seconds: 20, nanos: 21 },
    }
}

/// [`fattr`] on the wire.
pub const FATTR: &str = "00000001 000001a4 00000003 00000004 00000005
    00000006 00000007 00000008 00000009 0000000a 0000000b
    0000000c 0000000d 0000000e 0000000f 00000010 00000011 00000012 00000013 00000014 00000015";

/// A change with both halves.
pub fn wcc() -> WccData {
    let before = WccAttr {
        size: 0x1_0000_0002,
        mtime: Time { seconds: 3, nanos: 4 },
        ctime: Time { seconds: 5, nanos: 6 },
    };
    WccData { before: Some(before), after: Some(fattr()) }
}

/// All attributes that can be set.
pub fn sattr() -> Sattr {
    Sattr {
        mode: Some(0o755),
        uid: Some(1),
        gid: Some(2),
        size: Some(0x3_0000_0004),
        atime: SetTime::Server,
        mtime: SetTime::Client(Time { seconds: 5, nanos: 6 }),
    }
}

/// One call of every procedure and shape.
pub fn calls() -> Vec<Call<'static>> {
    let dir = &DIR[..];
    let file = &FILE[..];
    let name = &b"name5"[..];
    let attributes = sattr();
    let verifier = Verifier(*b"verifier");
    let device = Device { major: 8, minor: 9 };
    let mknod = |what| Call::Mknod { dir, name, what };
    let create = |how| Call::Create { dir, name, how };
    let guard = Time { seconds: 7, nanos: 8 };
    vec![
        Call::Null,
        Call::Getattr { file },
        Call::Setattr { file, attributes, guard: Some(guard) },
        Call::Setattr { file, attributes: Sattr::default(), guard: None },
        Call::Lookup { dir, name },
        Call::Access { file, access: 0x3f },
        Call::Readlink { file },
        Call::Read { file, offset: 0x1_0000_0002, count: 3 },
        Call::Write { file, offset: 0x1_0000_0002, stable: StableHow::DataSync, data: b"payload" },
        create(CreateHow::Unchecked(attributes)),
        create(CreateHow::Guarded(attributes)),
        create(CreateHow::Exclusive(verifier)),
        Call::Mkdir { dir, name, attributes },
        Call::Symlink { dir, name, attributes, target: b"../target" },
        mknod(MknodWhat::Character(attributes, device)),
        mknod(MknodWhat::Block(attributes, device)),
        mknod(MknodWhat::Socket(attributes)),
        mknod(MknodWhat::Fifo(attributes)),
        mknod(MknodWhat::Other(FileType::Regular)),
        Call::Remove { dir, name },
        Call::Rmdir { dir, name },
        Call::Rename { from_dir: dir, from: name, to_dir: file, to: b"other" },
        Call::Link { file, dir, name },
        Call::Readdir { dir, cookie: 0x1_0000_0002, verifier, count: 3 },
        Call::Readdirplus { dir, cookie: 0x1_0000_0002, verifier, dircount: 3, maxcount: 4 },
        Call::Fsstat { root: file },
        Call::Fsinfo { root: file },
        Call::Pathconf { file },
        Call::Commit { file, offset: 0x1_0000_0002, count: 3 },
    ]
}

/// One successful reply of every procedure; listings are built in the two vectors.
pub fn replies<'a>(names: &'a mut Vec<u8>, plus: &'a mut Vec<u8>) -> Vec<Reply<'a>> {
    let dir = Some(fattr());
    let attributes = Some(fattr());
    let wcc = wcc();
    let verifier = Verifier(*b"verifier");
    let created = Created { file: Some(file()), attributes };
    let write = WriteOk { count: 7, committed: StableHow::FileSync, verifier };
    vec![
        Reply::Null,
        Reply::Getattr { result: Ok(fattr()) },
        Reply::Setattr { wcc, result: Ok(()) },
        Reply::Lookup { dir, result: Ok(Object { file: file(), attributes: None }) },
        Reply::Access { attributes, result: Ok(0x1f) },
        Reply::Readlink { attributes, result: Ok(b"../target") },
        Reply::Read { attributes, result: Ok(ReadOk { eof: true, data: b"payload" }) },
        Reply::Write { wcc, result: Ok(write) },
        Reply::Create { dir: wcc, result: Ok(created) },
        Reply::Mkdir { dir: wcc, result: Ok(created) },
        Reply::Symlink { dir: wcc, result: Ok(created) },
        Reply::Mknod { dir: wcc, result: Ok(Created::default()) },
        Reply::Remove { dir: wcc, result: Ok(()) },
        Reply::Rmdir { dir: WccData::default(), result: Ok(()) },
        Reply::Rename { from_dir: wcc, to_dir: WccData::default(), result: Ok(()) },
        Reply::Link { attributes, dir: wcc, result: Ok(()) },
        Reply::Readdir { dir, result: Ok(listing(names)) },
        Reply::Readdirplus { dir, result: Ok(listing_plus(plus)) },
        Reply::Fsstat { attributes, result: Ok(fsstat()) },
        Reply::Fsinfo { attributes, result: Ok(fsinfo()) },
        Reply::Pathconf { attributes: None, result: Ok(pathconf()) },
        Reply::Commit { wcc, result: Ok(verifier) },
    ]
}

/// One failed reply of every procedure that can fail.
pub fn failures() -> Vec<Reply<'static>> {
    let procedures = nfs_proto::nfs3::Procedure::ALL.into_iter().skip(1);
    procedures.map(|procedure| Reply::failure(procedure, Status::Stale)).collect()
}

fn listing(scratch: &mut Vec<u8>) -> Listing<'_> {
    let mut builder = nfs_proto::nfs3::page_of(scratch, 4096);
    assert!(builder.push(&Entry { fileid: 0x1_0000_0002, name: b"a", cookie: 3 }));
    assert!(builder.push(&Entry { fileid: 4, name: b"bcde", cookie: 0x5_0000_0006 }));
    Listing { verifier: Verifier(*b"cookvrf1"), entries: builder.finish(), eof: true }
}

fn listing_plus(scratch: &mut Vec<u8>) -> ListingPlus<'_> {
    let entry = Entry { fileid: 1, name: b"a", cookie: 2 };
    let mut builder = nfs_proto::nfs3::page_plus_of(scratch, 4096, 4096);
    let full = EntryPlus { entry, attributes: Some(fattr()), file: Some(file()) };
    assert!(builder.push(&full));
    assert!(builder.push(&EntryPlus { entry, attributes: None, file: None }));
    ListingPlus { verifier: Verifier(*b"cookvrf2"), entries: builder.finish(), eof: false }
}

fn fsstat() -> Fsstat {
    Fsstat {
        total_bytes: 0x1_0000_0001,
        free_bytes: 2,
        available_bytes: 3,
        total_files: 4,
        free_files: 5,
        available_files: 6,
        invariant_seconds: 7,
    }
}

fn fsinfo() -> Fsinfo {
    Fsinfo {
        read_bytes_max: 1,
        read_bytes_preferred: 2,
        read_bytes_multiple: 3,
        write_bytes_max: 4,
        write_bytes_preferred: 5,
        write_bytes_multiple: 6,
        directory_bytes_preferred: 7,
        file_bytes_max: 0x8_0000_0009,
        time_delta: Time { seconds: 10, nanos: 11 },
        properties: Fsinfo::LINK | Fsinfo::CAN_SET_TIME,
    }
}

fn pathconf() -> Pathconf {
    Pathconf {
        links_max: 1,
        name_bytes_max: 255,
        no_truncation: true,
        chown_restricted: false,
        case_insensitive: false,
        case_preserving: true,
    }
}
