//! Properties: decoding returns what was encoded, and no input makes a decoder panic.

use nfs_proto::Status;
use nfs_proto::nfs2::{
    Call, Fattr, FileHandle, Object, Procedure, ReadOk, Reply, Sattr, SetTime, Time,
    decode_read_head,
};
use nfs_proto::xdr::{Reader, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{calls, replies};

fn handle() -> impl Strategy<Value = FileHandle> {
    any::<[u8; 32]>().prop_map(FileHandle)
}

fn time() -> impl Strategy<Value = Time> {
    (0..u32::MAX, 0..1_000_000_u32).prop_map(|(seconds, micros)| Time { seconds, micros })
}

fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![Just(SetTime::Keep), Just(SetTime::Server), time().prop_map(SetTime::Client)]
}

/// An attribute to set: any number except the one that means "leave it".
fn word() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(0..u32::MAX)
}

fn sattr() -> impl Strategy<Value = Sattr> {
    let mode = proptest::option::of(0..0o10_000_u32);
    (mode, word(), word(), word(), set_time(), set_time()).prop_map(
        |(mode, uid, gid, size, atime, mtime)| Sattr { mode, uid, gid, size, atime, mtime },
    )
}

fn fattr() -> impl Strategy<Value = Fattr> {
    let words = (any::<[u32; 5]>(), any::<[u32; 5]>());
    (0..=8_u32, words, any::<[[u32; 2]; 3]>()).prop_map(|(type_number, (first, second), times)| {
        let [mode, nlink, uid, gid, size] = first;
        let [block_bytes, device, blocks, fsid, fileid] = second;
        let [atime, mtime, ctime] = times.map(|[seconds, micros]| Time { seconds, micros });
        Fattr {
            type_number,
            mode,
            nlink,
            uid,
            gid,
            size,
            block_bytes,
            device,
            blocks,
            fsid,
            fileid,
            atime,
            mtime,
            ctime,
        }
    })
}

fn comes_back(call: Call<'_>) {
    let mut out = Vec::new();
    call.encode(&mut Writer::new(&mut out));
    assert_eq!(out.len() % 4, 0);
    assert_eq!(Call::decode(call.procedure(), Reader::new(&out)), Ok(call));
}

fn reply_comes_back(reply: Reply<'_>) {
    let mut out = Vec::new();
    reply.encode(&mut Writer::new(&mut out));
    assert_eq!(out.len() % 4, 0);
    assert_eq!(Reply::decode(reply.procedure(), Reader::new(&out)), Ok(reply));
}

/// Feeds bytes to every decoder; a listing that can be decoded can be read to its end.
fn decode_all(bytes: &[u8]) {
    for procedure in Procedure::ALL {
        let _ = Call::decode(procedure, Reader::new(bytes));
        if let Ok(Reply::Readdir(Ok(page))) = Reply::decode(procedure, Reader::new(bytes)) {
            assert!(page.entries.iter().count() <= bytes.len() / 16);
        }
    }
    let _ = decode_read_head(&mut Reader::new(bytes));
}

proptest! {
    #[test]
    fn calls_come_back(
        (dir, to_dir) in (handle(), handle()),
        name in vec(any::<u8>(), 0..300),
        target in vec(any::<u8>(), 0..1100),
        attributes in sattr(),
        (offset, count) in any::<(u32, u32)>(),
    ) {
        let file = to_dir;
        let name = &name[..];
        let target = &target[..];
        comes_back(Call::Setattr { file, attributes });
        comes_back(Call::Lookup { dir, name });
        comes_back(Call::Create { dir, name, attributes });
        comes_back(Call::Symlink { dir, name, target, attributes });
        comes_back(Call::Rename { from_dir: dir, from: name, to_dir, to: target });
        comes_back(Call::Link { file, dir, name });
        comes_back(Call::Read { file, offset, count });
        comes_back(Call::Write { file, offset, data: target });
        comes_back(Call::Readdir { dir, cookie: offset, count });
    }

    #[test]
    fn replies_come_back(
        file in handle(),
        attributes in fattr(),
        data in vec(any::<u8>(), 0..3000),
        status in (1..20_000_u32).prop_map(Status::from_number),
    ) {
        reply_comes_back(Reply::Getattr(Ok(attributes)));
        reply_comes_back(Reply::Lookup(Ok(Object { file, attributes })));
        reply_comes_back(Reply::Read(Ok(ReadOk { attributes, data: &data })));
        reply_comes_back(Reply::Readlink(Ok(&data)));
        for procedure in Procedure::ALL {
            reply_comes_back(Reply::failure(procedure, status));
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..400)) {
        decode_all(&bytes);
    }

    #[test]
    fn survives_damaged_messages(
        at in any::<proptest::sample::Index>(),
        value in prop_oneof![any::<u32>(), Just(u32::MAX), Just(8193), Just(0)],
    ) {
        let mut names = Vec::new();
        let mut messages = Vec::new();
        for call in calls() {
            let mut out = Vec::new();
            call.encode(&mut Writer::new(&mut out));
            messages.push(out);
        }
        for reply in replies(&mut names) {
            let mut out = Vec::new();
            reply.encode(&mut Writer::new(&mut out));
            messages.push(out);
        }
        for mut message in messages.into_iter().filter(|message| !message.is_empty()) {
            let word = 4 * at.index(message.len() / 4);
            message[word..word + 4].copy_from_slice(&value.to_be_bytes());
            decode_all(&message);
        }
    }
}
