//! One call and one reply of every procedure, with a different value in each field.

use nfs_proto::nfs2::{
    Call, Entry, Fattr, FileHandle, Listing, Object, ReadOk, Reply, Sattr, SetTime, Statfs, Time,
};

/// A handle that differs from [`file`] in every byte.
pub fn dir() -> FileHandle {
    FileHandle([0xd1; 32])
}

/// A handle of a file.
pub fn file() -> FileHandle {
    FileHandle([0xf1; 32])
}

/// Attributes with a different value in each field.
pub fn fattr() -> Fattr {
    Fattr {
        type_number: 1,
        mode: 0o100_644,
        nlink: 3,
        uid: 4,
        gid: 5,
        size: 6,
        block_bytes: 7,
        device: 8,
        blocks: 9,
        fsid: 10,
        fileid: 11,
        atime: Time { seconds: 12, micros: 13 },
        mtime: Time { seconds: 14, micros: 15 },
        ctime: Time { seconds: 16, micros: 17 },
    }
}

/// All attributes that can be set.
pub fn sattr() -> Sattr {
    Sattr {
        mode: Some(0o755),
        uid: Some(1),
        gid: Some(2),
        size: Some(3),
        atime: SetTime::Server,
        mtime: SetTime::Client(Time { seconds: 5, micros: 6 }),
    }
}

/// One call of every procedure and shape.
pub fn calls() -> Vec<Call<'static>> {
    let dir = dir();
    let file = file();
    let name = &b"name5"[..];
    let attributes = sattr();
    vec![
        Call::Null,
        Call::Getattr { file },
        Call::Setattr { file, attributes },
        Call::Setattr { file, attributes: Sattr::default() },
        Call::Root,
        Call::Lookup { dir, name },
        Call::Readlink { file },
        Call::Read { file, offset: 0x0102_0304, count: 5 },
        Call::Writecache,
        Call::Write { file, offset: 0x0102_0304, data: b"payload" },
        Call::Create { dir, name, attributes },
        Call::Remove { dir, name },
        Call::Rename { from_dir: dir, from: name, to_dir: file, to: b"other" },
        Call::Link { file, dir, name },
        Call::Symlink { dir, name, target: b"../target", attributes },
        Call::Mkdir { dir, name, attributes },
        Call::Rmdir { dir, name },
        Call::Readdir { dir, cookie: 0x0102_0304, count: 5 },
        Call::Statfs { file },
    ]
}

/// One successful reply of every procedure; the listing is built in `names`.
pub fn replies(names: &mut Vec<u8>) -> Vec<Reply<'_>> {
    let object = Object { file: file(), attributes: fattr() };
    let statfs = Statfs {
        transfer_bytes: 1,
        block_bytes: 2,
        blocks: 3,
        free_blocks: 4,
        available_blocks: 5,
    };
    vec![
        Reply::Null,
        Reply::Getattr(Ok(fattr())),
        Reply::Setattr(Ok(fattr())),
        Reply::Root,
        Reply::Lookup(Ok(object)),
        Reply::Readlink(Ok(b"../target")),
        Reply::Read(Ok(ReadOk { attributes: fattr(), data: b"payload" })),
        Reply::Writecache,
        Reply::Write(Ok(fattr())),
        Reply::Create(Ok(object)),
        Reply::Remove(Ok(())),
        Reply::Rename(Ok(())),
        Reply::Link(Ok(())),
        Reply::Symlink(Ok(())),
        Reply::Mkdir(Ok(object)),
        Reply::Rmdir(Ok(())),
        Reply::Readdir(Ok(listing(names))),
        Reply::Statfs(Ok(statfs)),
    ]
}

fn listing(scratch: &mut Vec<u8>) -> Listing<'_> {
    let mut builder = nfs_proto::nfs2::page_of(scratch, 4096);
    assert!(builder.push(&Entry { fileid: 2, name: b"a", cookie: 3 }));
    assert!(builder.push(&Entry { fileid: 4, name: b"bcde", cookie: 5 }));
    Listing { entries: builder.finish(), eof: true }
}
