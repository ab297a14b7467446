//! Properties: decoding returns what was encoded, and no input makes a decoder panic.

use nfs_proto::client::{Config, File, Operation, PayloadMode, ProtocolVersion, Session};
use nfs_proto::nfs3::{
    Call, CreateHow, Fattr, FileHandle, FileType, Object, Procedure, ReadOk, Reply, Sattr, SetTime,
    StableHow, Status, Time, Verifier, WccAttr, WccData, WriteOk,
};
use nfs_proto::program::OfferedPrograms;
use nfs_proto::rpc::Credential;
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{mount3, portmap, server};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::common;

fn handle() -> impl Strategy<Value = FileHandle> {
    vec(any::<u8>(), 0..=64).prop_map(|bytes| FileHandle::from_slice(&bytes).unwrap())
}

fn time() -> impl Strategy<Value = Time> {
    any::<(u32, u32)>().prop_map(|(seconds, nanos)| Time { seconds, nanos })
}

fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![Just(SetTime::Keep), Just(SetTime::Server), time().prop_map(SetTime::Client)]
}

fn sattr() -> impl Strategy<Value = Sattr> {
    let words = any::<(Option<u32>, Option<u32>, Option<u32>, Option<u64>)>();
    (words, set_time(), set_time()).prop_map(|((mode, uid, gid, size), atime, mtime)| Sattr {
        mode,
        uid,
        gid,
        size,
        atime,
        mtime,
    })
}

fn fattr() -> impl Strategy<Value = Fattr> {
    let words = any::<(u32, u32, u32, u32, u64, u64, u64, u64)>();
    (1..=7_u32, words, time(), time(), time()).prop_map(|(kind, words, atime, mtime, ctime)| {
        let (mode, nlink, uid, gid, size, used, fsid, fileid) = words;
        let file_type = FileType::from_number(kind).unwrap();
        let device = common::fattr().device;
        Fattr {
            file_type,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            device,
            fsid,
            fileid,
            atime,
            mtime,
            ctime,
        }
    })
}

fn wcc() -> impl Strategy<Value = WccData> {
    let before = (any::<u64>(), time(), time());
    let before = before.prop_map(|(size, mtime, ctime)| WccAttr { size, mtime, ctime });
    (option::of(before), option::of(fattr())).prop_map(|(before, after)| WccData { before, after })
}

fn stable() -> impl Strategy<Value = StableHow> {
    prop_oneof![Just(StableHow::Unstable), Just(StableHow::DataSync), Just(StableHow::FileSync)]
}

fn status() -> impl Strategy<Value = Status> {
    (1..20_000_u32).prop_map(Status::from_number)
}

#[allow(clippy::large_types_passed_by_value, reason = "the samples are made in place")]
fn comes_back(call: Call<'_>) {
    let mut out = Vec::new();
    call.encode(&mut Writer::new(&mut out));
    assert_eq!(out.len() % 4, 0);
    assert_eq!(Call::decode(call.procedure(), Reader::new(&out)), Ok(call));
}

fn reply_comes_back(reply: &Reply<'_>) {
    let mut out = Vec::new();
    reply.encode(&mut Writer::new(&mut out));
    assert_eq!(out.len() % 4, 0);
    assert_eq!(Reply::decode(reply.procedure(), Reader::new(&out)), Ok(*reply));
}

/// Feeds bytes to every decoder.
fn decode_all(bytes: &[u8]) {
    for procedure in Procedure::ALL {
        let _ = Call::decode(procedure, Reader::new(bytes));
        match Reply::decode(procedure, Reader::new(bytes)) {
            Ok(Reply::Readdir { result: Ok(page), .. }) => drop(page.entries.iter().count()),
            Ok(Reply::Readdirplus { result: Ok(page), .. }) => drop(page.entries.iter().count()),
            _ => {}
        }
    }
    for procedure in 0..7 {
        let _ = mount3::Call::decode(procedure, Reader::new(bytes));
        let _ = portmap::Call::decode(procedure, Reader::new(bytes));
    }
    let _ = mount3::Reply::decode_mnt(Reader::new(bytes));
    let _ = mount3::Reply::decode_export(Reader::new(bytes), |_, groups| {
        groups.for_each(drop);
    });
    let _ = mount3::Reply::decode_dump(Reader::new(bytes), |_| {});
    let _ = portmap::Reply::decode_dump(Reader::new(bytes), |_| {});
    let _ = server::decode_request(bytes, OfferedPrograms::ALL);
}

/// Feeds a stream to a client with a READ and a GETATTR in flight, in pieces.
fn feed_client(stream: &[u8], piece: usize) {
    let payload = PayloadMode::Keep { bytes_max: 100 };
    let mut session = Session::new(&Config {
        version: ProtocolVersion::V3,
        slots: 2,
        credential: Credential::None,
        payload,
        ..Config::default()
    });
    let file = &File::from(common::file());
    session.start(0, 1, &Operation::Read { file, offset: 0, count: 100 }).unwrap();
    session.start(0, 2, &Operation::Getattr { file }).unwrap();
    let len = 2 * 1024 * 1024;
    let offered: usize = session
        .outgoing()
        .map(|chunk| match chunk {
            nfs_proto::client::Chunk::Bytes(bytes) => bytes.len(),
            nfs_proto::client::Chunk::Pool(_) => len,
        })
        .sum();
    session.sent(0, offered);
    for mut bytes in stream.chunks(piece) {
        while !bytes.is_empty() {
            let Ok(taken) = session.handle_input(1, bytes) else { return };
            bytes = &bytes[taken..];
            session.poll_event();
        }
    }
}

proptest! {
    #[test]
    fn named_calls_come_back(
        dir in handle(),
        to_dir in handle(),
        name in vec(any::<u8>(), 0..300),
        target in vec(any::<u8>(), 0..1100),
        attributes in sattr(),
    ) {
        let name = &name[..];
        let target = &target[..];
        comes_back(Call::Lookup { dir: &dir, name });
        comes_back(Call::Create { dir: &dir, name, how: CreateHow::Guarded(attributes) });
        comes_back(Call::Mkdir { dir: &dir, name, attributes });
        comes_back(Call::Symlink { dir: &dir, name, attributes, target });
        comes_back(Call::Rename { from_dir: &dir, from: name, to_dir: &to_dir, to: target });
        comes_back(Call::Link { file: &dir, dir: &to_dir, name });
    }

    #[test]
    fn data_calls_come_back(
        file in handle(),
        offset: u64,
        count: u32,
        stable in stable(),
        data in vec(any::<u8>(), 0..3000),
        attributes in sattr(),
        guard in option::of(time()),
    ) {
        comes_back(Call::Read { file: &file, offset, count });
        comes_back(Call::Commit { file: &file, offset, count });
        comes_back(Call::Write { file: &file, offset, stable, data: &data });
        comes_back(Call::Setattr { file: &file, attributes, guard });
    }

    #[test]
    fn replies_come_back(
        file in handle(),
        attributes in option::of(fattr()),
        wcc in wcc(),
        data in vec(any::<u8>(), 0..3000),
        (eof, count, verifier) in any::<(bool, u32, [u8; 8])>(),
        committed in stable(),
        status in status(),
    ) {
        let verifier = Verifier(verifier);
        let write = WriteOk { count, committed, verifier };
        let object = Object { file, attributes };
        reply_comes_back(&Reply::Lookup { dir: attributes, result: Ok(object) });
        reply_comes_back(&Reply::Read { attributes, result: Ok(ReadOk { eof, data: &data }) });
        reply_comes_back(&Reply::Read { attributes, result: Err(status) });
        reply_comes_back(&Reply::Write { wcc, result: Ok(write) });
        reply_comes_back(&Reply::Commit { wcc, result: Ok(verifier) });
        reply_comes_back(&Reply::Rename { from_dir: wcc, to_dir: wcc, result: Err(status) });
        reply_comes_back(&Reply::Link { attributes, dir: wcc, result: Err(status) });
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..400)) {
        decode_all(&bytes);
    }

    #[test]
    fn survives_damaged_messages(
        at in any::<proptest::sample::Index>(),
        value: u32,
    ) {
        let mut names = Vec::new();
        let mut plus = Vec::new();
        let mut messages = Vec::new();
        for call in common::calls() {
            let mut out = Vec::new();
            call.encode(&mut Writer::new(&mut out));
            messages.push(out);
        }
        for reply in common::replies(&mut names, &mut plus) {
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

    #[test]
    fn survives_damaged_streams(
        data in vec(any::<u8>(), 0..100),
        hits in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        piece in 1..200_usize,
        slot in 0..2_u32,
    ) {
        let mut stream = Vec::new();
        let xid = 1 << 1 | slot;
        let pad = server::encode_read_reply_header(&mut stream, xid, None, true, data.len() as u32);
        stream.extend(data);
        stream.extend(vec![0; pad]);
        let whole = stream.repeat(3);
        let mut damaged = whole;
        for (at, value) in hits {
            let at = at.index(damaged.len());
            damaged[at] = value;
        }
        feed_client(&damaged, piece);
        let mut server = server::Session::new(OfferedPrograms::ALL);
        server.handle_input(&damaged);
        while let Ok(Some(_)) = server.next_request(&mut Vec::new()) {}
    }
}
