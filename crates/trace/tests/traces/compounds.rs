//! Compounds of v4: which file each operation refers to, and what follows a payload.

use nfs_proto::nfs3::{FileHandle, FileType, StableHow, Verifier};
use nfs_proto::nfs4::{
    Attributes, Bitmap, ChangeInfo, Claim, ClientId, CompoundBuilder, Delegation, Fattr,
    Op as Request, OpCode, OpOk, OpenHow, ReplyBuilder, StateOwner, Stateid, attribute,
};
use nfs_proto::{Status, nfs4};
use trace::{Op, Version, op_flag};

use crate::common::{
    Frame, From, Read, Tcp, call_head, capture, ethernet, ipv4, pcap, pcap_cut, record, reply_head,
    udp,
};

fn handle(bytes: &[u8]) -> FileHandle {
    FileHandle::from_slice(bytes).unwrap()
}

fn compound(xid: u32, ops: &[Request<'_>]) -> Vec<u8> {
    let mut bytes = call_head(xid, nfs4::PROGRAM, 4, 1);
    let mut builder = CompoundBuilder::new(&mut bytes, b"tag", 1);
    for op in ops {
        builder.push(op);
    }
    builder.finish();
    bytes
}

fn results(xid: u32, oks: &[OpOk<'_>], failed: Option<(OpCode, Status)>) -> Vec<u8> {
    let mut bytes = reply_head(xid);
    let mut builder = ReplyBuilder::new(&mut bytes, b"tag");
    for ok in oks {
        builder.ok(ok);
    }
    if let Some((code, status)) = failed {
        builder.fail(code, status);
    }
    builder.finish();
    bytes
}

fn sizes(scratch: &mut Vec<u8>, size: u64) -> Fattr<'_> {
    let attributes = Attributes { size: Some(size), ..Attributes::default() };
    attributes.to_fattr(Bitmap::from_numbers(&[attribute::SIZE]), scratch)
}

/// Captures compounds with their replies, each in segments of the given number of bytes.
fn exchange(messages: &[(Vec<u8>, Vec<u8>)], segment_bytes: usize) -> Vec<Frame> {
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    for (number, (call, reply)) in messages.iter().enumerate() {
        let time_ns = 1_000_000 * (number as u64 + 1);
        frames.extend(tcp.send_cut(From::Client, &record(call), segment_bytes, time_ns));
        frames.extend(tcp.send_cut(From::Server, &record(reply), segment_bytes, time_ns + 500_000));
    }
    frames
}

/// Opens a file by name, as clients do, and writes to it.
fn open_and_write(scratch: &mut Vec<u8>) -> [(Vec<u8>, Vec<u8>); 2] {
    let owner = StateOwner { client: ClientId(1), owner: b"owner" };
    let open = Request::Open {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner,
        how: OpenHow::NoCreate,
        claim: Claim::Name(b"name"),
    };
    let change = ChangeInfo::default();
    let stateid = Stateid::ANONYMOUS;
    let attributes = sizes(scratch, 70_000);
    let opened =
        OpOk::Open { stateid, change, flags: 0, set: Bitmap::EMPTY, delegation: Delegation::None };
    let request = Bitmap::from_numbers(&[attribute::SIZE]);
    let data = vec![5; 3001];
    let write = Request::Write { stateid, offset: 8192, stable: StableHow::Unstable, data: &data };
    let written =
        OpOk::Write { count: 3001, committed: StableHow::Unstable, verifier: Verifier::default() };
    [
        (
            compound(1, &[Request::Putfh { file: handle(b"dir") }, open, Request::Getfh]),
            results(1, &[OpOk::Putfh, opened, OpOk::Getfh { file: handle(b"file") }], None),
        ),
        (
            compound(
                2,
                &[Request::Putfh { file: handle(b"file") }, write, Request::Getattr { request }],
            ),
            results(2, &[OpOk::Putfh, written, OpOk::Getattr { attributes }], None),
        ),
    ]
}

fn kinds(ops: &[Op]) -> Vec<&'static str> {
    ops.iter().map(|op| Version::V4_1.kind_name(op.kind)).collect()
}

fn check_open_and_write(read: &Read) {
    let [open, write] = &read.calls[..] else { panic!("{:?}", read.calls) };
    assert_eq!(open.version, Version::V4_1);
    assert_eq!(kinds(&open.ops), ["PUTFH", "OPEN", "GETFH"]);
    let [_, opened, getfh] = open.ops[..] else { unreachable!() };
    assert_eq!((opened.file, opened.offset), (1, 3));
    assert!(opened.name > 0 && opened.result == getfh.result && getfh.file == getfh.result);
    assert_eq!(kinds(&write.ops), ["PUTFH", "WRITE", "GETATTR"]);
    let [_, written, described] = write.ops[..] else { unreachable!() };
    assert_eq!((written.file, written.offset, written.length), (opened.result, 8192, 3001));
    assert_eq!(described.file, opened.result);
}

#[test]
fn follows_files_behind_payloads() {
    let mut scratch = Vec::new();
    let messages = open_and_write(&mut scratch);
    for segment_bytes in [100_000, 1000, 7] {
        let read = capture(&pcap(&exchange(&messages, segment_bytes)));
        check_open_and_write(&read);
        let described = read.calls[1].ops[2];
        assert_eq!((described.size, described.status), (Some(70_000), Some(0)));
        assert_eq!((read.counters.calls, read.counters.ops, read.counters.replies), (2, 6, 2));
    }
    // If the payload is cut off in the middle of three segments, its end is still there.
    let read = capture(&pcap_cut(&exchange(&messages, 1000), 320));
    check_open_and_write(&read);
    assert_eq!(read.counters.messages_cut, 0, "{:?}", read.counters);
}

#[test]
fn ends_compound_at_failure() {
    let lookups = [
        Request::Putrootfh,
        Request::Lookup { name: b"a" },
        Request::Lookup { name: b"b" },
        Request::Getattr { request: Bitmap::EMPTY },
    ];
    let found = [OpOk::Putrootfh, OpOk::Lookup];
    let messages = [
        (compound(1, &lookups), results(1, &found, Some((OpCode::Lookup, Status::NoEnt)))),
        (compound(2, &lookups[..2]), results(2, &found, None)),
    ];
    let read = capture(&pcap(&exchange(&messages, 5000)));
    let [first, second] = &read.calls[..] else { panic!("{:?}", read.calls) };
    let statuses: Vec<Option<u32>> = first.ops.iter().map(|op| op.status).collect();
    assert_eq!(statuses, [Some(0), Some(0), Some(2), None]);
    // The same name in the same directory is the same file, in either compound.
    assert!(first.ops[1].result > 0 && first.ops[1].file == first.ops[0].result);
    assert_eq!(second.ops[1].result, first.ops[1].result);
    assert_eq!((first.ops[2].file, first.ops[2].result), (first.ops[1].result, 0));
}

#[test]
fn resolves_same_directories_for_all_clients() {
    let mut scratch = Vec::new();
    let attributes = Attributes { file_type: Some(FileType::Directory), ..Attributes::default() };
    let attributes = attributes.to_fattr(Bitmap::from_numbers(&[attribute::TYPE]), &mut scratch);
    let request = Bitmap::from_numbers(&[attribute::TYPE]);
    let getattr = Request::Getattr { request };
    let is_directory = OpOk::Getattr { attributes };
    let getfh = |bytes: &[u8]| OpOk::Getfh { file: handle(bytes) };
    let [lookup_a, lookup_b] = [b"a", b"b"].map(|name| Request::Lookup { name });
    let messages = [
        // The root: without its handle, with it, and by it.
        (
            compound(1, &[Request::Putrootfh, getattr]),
            results(1, &[OpOk::Putrootfh, is_directory], None),
        ),
        (
            compound(2, &[Request::Putrootfh, Request::Getfh]),
            results(2, &[OpOk::Putrootfh, getfh(b"root")], None),
        ),
        // One client requests the handle of each directory.
        (
            compound(
                3,
                &[Request::Putfh { file: handle(b"root") }, lookup_a, Request::Getfh, getattr],
            ),
            results(3, &[OpOk::Putfh, OpOk::Lookup, getfh(b"a"), is_directory], None),
        ),
        // Another one walks down the path.
        (
            compound(4, &[Request::Putrootfh, lookup_a, lookup_b, Request::Getfh]),
            results(4, &[OpOk::Putrootfh, OpOk::Lookup, OpOk::Lookup, getfh(b"b")], None),
        ),
        // Afterwards another directory has the name.
        (
            compound(5, &[Request::Putrootfh, Request::Remove { name: b"a" }]),
            results(5, &[OpOk::Putrootfh, OpOk::Remove { change: ChangeInfo::default() }], None),
        ),
        (
            compound(6, &[Request::Putrootfh, lookup_a, lookup_b]),
            results(6, &[OpOk::Putrootfh, OpOk::Lookup, OpOk::Lookup], None),
        ),
    ];
    let read = capture(&pcap(&exchange(&messages, 5000)));
    let [first, second, third, fourth, _, last] = &read.calls[..] else {
        panic!("{:?}", read.calls)
    };
    let root = first.ops[0].result;
    assert_eq!([second.ops[1].result, third.ops[0].file, fourth.ops[0].result], [root; 3]);
    let directory = third.ops[1].result;
    assert_eq!((fourth.ops[1].result, fourth.ops[2].file), (directory, directory));
    assert!(![0, root, directory].contains(&last.ops[1].result));
}

#[test]
fn names_operations_after_unknown_one() {
    // LAYOUTRETURN with arguments that are not decoded, before a GETFH.
    let mut call = call_head(1, nfs4::PROGRAM, 4, 1);
    for word in [0_u32, 1, 2, OpCode::Layoutreturn.number(), 7] {
        call.extend(word.to_be_bytes());
    }
    let reply = results(1, &[], Some((OpCode::Layoutreturn, Status::NotSupp)));
    let read = capture(&pcap(&exchange(&[(call, reply)], 5000)));
    assert_eq!(kinds(&read.calls[0].ops), ["LAYOUTRETURN"]);
    assert_eq!(read.calls[0].ops[0].status, Some(Status::NotSupp.number()));
    assert_eq!(read.counters.messages_malformed, 1);
}

#[test]
fn keeps_eof_without_payload() {
    let stateid = Stateid::ANONYMOUS;
    let data = vec![1; 200_000];
    let read_op = Request::Read { stateid, offset: 1 << 40, count: 262_144 };
    let messages = [(
        compound(1, &[Request::Putfh { file: handle(b"file") }, read_op, Request::Getfh]),
        results(
            1,
            &[
                OpOk::Putfh,
                OpOk::Read { eof: true, data: &data },
                OpOk::Getfh { file: handle(b"file") },
            ],
            None,
        ),
    )];
    let read = capture(&pcap(&exchange(&messages, 1448)));
    let [_, op, last] = read.calls[0].ops[..] else { panic!("{:?}", read.calls) };
    assert_eq!((op.offset, op.length, op.count), (1 << 40, 262_144, 200_000));
    assert_eq!((op.flags & op_flag::EOF, last.result), (op_flag::EOF, 1));
    // Longer than the kept part of a record: the payload is not kept, which doesn't count as
    // damage.
    assert_eq!((read.counters.messages_cut, read.counters.messages_malformed), (0, 0));
}

#[test]
fn inherits_minor_version_of_connection() {
    let mut scratch = Vec::new();
    let [(open, opened), (write, written)] = open_and_write(&mut scratch);
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    // Network cards join packets: both calls are in one, which is cut off after the head of the
    // second.
    let joined = [record(&open), record(&write)].concat();
    let headers_bytes = 14 + 20 + 20;
    let head_bytes = call_head(2, nfs4::PROGRAM, 4, 1).len();
    let kept_bytes = headers_bytes + record(&open).len() + 4 + head_bytes;
    frames.push(tcp.send(From::Client, &joined, 1_000_000));
    for reply in [opened, written] {
        frames.push(tcp.send(From::Server, &record(&reply), 2_000_000));
    }
    let read = capture(&pcap_cut(&frames, kept_bytes));
    let [_, call] = &read.calls[..] else { panic!("{:?}", read.calls) };
    assert_eq!(
        (call.version, kinds(&call.ops)),
        (Version::V4_1, vec!["PUTFH", "WRITE", "GETATTR"])
    );
    assert_eq!((read.counters.calls, read.counters.messages_cut), (2, 1));
}

#[test]
fn null_is_no_compound() {
    let call = call_head(1, nfs4::PROGRAM, 4, 0);
    let frame = |from, message: &[u8]| Frame {
        time_ns: 0,
        bytes: ethernet(&ipv4(from, 17, &udp(from, message))),
    };
    let read = capture(&pcap(&[frame(From::Client, &call), frame(From::Server, &reply_head(1))]));
    assert_eq!((read.calls[0].ops.len(), read.calls[0].ops[0].kind), (1, Op::NULL));
    assert_eq!(Version::V4_0.kind_name(Op::NULL), "NULL");
}
