//! Golden vectors: every procedure against bytes written by hand, in both directions.

use nfs_proto::Status;
use nfs_proto::nfs2::{Call, Fattr, Procedure, Reply, WriteHead};
use nfs_proto::nfs2::{decode_read_head, encode_read_header, encode_write_header};
use nfs_proto::server::encode_nfs2_read_reply_header;
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{DecodeError, server};

use super::samples::{calls, fattr, file, replies};
use crate::common::hex;

const DIR: &str = "d1d1d1d1 d1d1d1d1 d1d1d1d1 d1d1d1d1 d1d1d1d1 d1d1d1d1 d1d1d1d1 d1d1d1d1";
const FILE: &str = "f1f1f1f1 f1f1f1f1 f1f1f1f1 f1f1f1f1 f1f1f1f1 f1f1f1f1 f1f1f1f1 f1f1f1f1";
const NAME: &str = "00000005 6e616d65 35000000";
/// Mode, uid, gid, size, atime by the server's clock, mtime by the client's.
const SATTR: &str = "000001ed 00000001 00000002 00000003 00000000 000f4240 00000005 00000006";
const KEEP: &str = "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff";
const PAYLOAD: &str = "00000007 7061796c 6f616400";
const TARGET: &str = "00000009 2e2e2f74 61726765 74000000";
/// Type, mode, links, uid, gid, size, block size, device, blocks, fsid, fileid, three times.
const FATTR: &str = "00000001 000081a4 00000003 00000004 00000005 00000006 00000007 00000008
    00000009 0000000a 0000000b 0000000c 0000000d 0000000e 0000000f 00000010 00000011";

fn golden_calls() -> Vec<String> {
    let named = |rest: &str| format!("{DIR} {NAME} {rest}");
    vec![
        String::new(),
        FILE.into(),
        format!("{FILE} {SATTR}"),
        format!("{FILE} {KEEP}"),
        String::new(),
        named(""),
        FILE.into(),
        // The total of a READ is unused.
        format!("{FILE} 01020304 00000005 00000005"),
        String::new(),
        // The first offset and the total of a WRITE are unused.
        format!("{FILE} 01020304 01020304 00000007 {PAYLOAD}"),
        named(SATTR),
        named(""),
        named(&format!("{FILE} 00000005 6f746865 72000000")),
        format!("{FILE} {DIR} {NAME}"),
        named(&format!("{TARGET} {SATTR}")),
        named(SATTR),
        named(""),
        format!("{DIR} 01020304 00000005"),
        FILE.into(),
    ]
}

fn golden_replies() -> Vec<String> {
    let ok = "00000000";
    let attributes = format!("{ok} {FATTR}");
    let object = format!("{ok} {FILE} {FATTR}");
    let entries = "00000001 00000002 00000001 61000000 00000003
        00000001 00000004 00000004 62636465 00000005";
    vec![
        String::new(),
        attributes.clone(),
        attributes.clone(),
        String::new(),
        object.clone(),
        format!("{ok} {TARGET}"),
        format!("{ok} {FATTR} {PAYLOAD}"),
        String::new(),
        attributes,
        object.clone(),
        ok.into(),
        ok.into(),
        ok.into(),
        ok.into(),
        object,
        ok.into(),
        format!("{ok} {entries} 00000000 00000001"),
        format!("{ok} 00000001 00000002 00000003 00000004 00000005"),
    ]
}

#[test]
fn encodes_calls_like_rfc() {
    let calls = calls();
    let golden = golden_calls();
    assert_eq!(calls.len(), golden.len());
    for (call, golden) in calls.iter().zip(golden) {
        let golden = hex(&golden);
        let mut out = Vec::new();
        call.encode(&mut Writer::new(&mut out));
        assert_eq!(out, golden, "encoding {call:?}");
        assert_eq!(Call::decode(call.procedure(), Reader::new(&golden)), Ok(*call));
    }
}

#[test]
fn encodes_replies_like_rfc() {
    let mut names = Vec::new();
    let replies = replies(&mut names);
    let golden = golden_replies();
    assert_eq!(replies.len(), golden.len());
    for (procedure, (reply, golden)) in Procedure::ALL.into_iter().zip(replies.iter().zip(golden)) {
        let golden = hex(&golden);
        let mut out = Vec::new();
        reply.encode(&mut Writer::new(&mut out));
        assert_eq!(out, golden, "encoding {reply:?}");
        assert_eq!(Reply::decode(procedure, Reader::new(&golden)), Ok(*reply));
        assert_eq!(reply.procedure(), procedure);
        assert_eq!(reply.status(), Ok(()));
    }
}

#[test]
fn a_failure_is_its_status_alone() {
    for procedure in Procedure::ALL {
        let failure = Reply::failure(procedure, Status::Stale);
        let mut out = Vec::new();
        failure.encode(&mut Writer::new(&mut out));
        assert_eq!(Reply::decode(procedure, Reader::new(&out)), Ok(failure));
        match procedure {
            Procedure::Null | Procedure::Root | Procedure::Writecache => assert!(out.is_empty()),
            _ => {
                assert_eq!(out, [0, 0, 0, 70]);
                assert_eq!(failure.status(), Err(Status::Stale));
            }
        }
    }
}

#[test]
fn rejects_truncated_messages() {
    for (call, golden) in calls().iter().zip(golden_calls()) {
        let golden = hex(&golden);
        for len in 0..golden.len() {
            let cut = Call::decode(call.procedure(), Reader::new(&golden[..len]));
            assert!(cut.is_err(), "{call:?} cut to {len} bytes gives {cut:?}");
        }
    }
    for (procedure, golden) in Procedure::ALL.into_iter().zip(golden_replies()) {
        let golden = hex(&golden);
        for len in 0..golden.len() {
            let cut = Reply::decode(procedure, Reader::new(&golden[..len]));
            assert!(cut.is_err(), "{procedure} cut to {len} bytes gives {cut:?}");
        }
    }
}

#[test]
fn rejects_trailing_bytes() {
    for (call, golden) in calls().iter().zip(golden_calls()) {
        let mut golden = hex(&golden);
        golden.extend([0; 4]);
        assert!(Call::decode(call.procedure(), Reader::new(&golden)).is_err(), "{call:?}");
    }
    for (procedure, golden) in Procedure::ALL.into_iter().zip(golden_replies()) {
        let mut golden = hex(&golden);
        golden.extend([0; 4]);
        assert!(Reply::decode(procedure, Reader::new(&golden)).is_err(), "{procedure}");
    }
}

#[test]
fn rejects_transfer_beyond_8192_bytes() {
    let too_long = Err(DecodeError::TooLong { len: 8193, max: 8192 });
    let data = vec![7; 8193];
    let mut out = Vec::new();
    Call::Write { file: file(), offset: 0, data: &data }.encode(&mut Writer::new(&mut out));
    assert_eq!(Call::decode(Procedure::Write, Reader::new(&out)).map(drop), too_long);
    out.clear();
    let read = nfs_proto::nfs2::ReadOk { attributes: fattr(), data: &data };
    Reply::Read(Ok(read)).encode(&mut Writer::new(&mut out));
    assert_eq!(Reply::decode(Procedure::Read, Reader::new(&out)).map(drop), too_long);
}

#[test]
fn encodes_write_without_payload() {
    let mut whole = Vec::new();
    let call = Call::Write { file: file(), offset: 9, data: b"payload" };
    call.encode(&mut Writer::new(&mut whole));
    let mut parts = Vec::new();
    let head = WriteHead { file: file(), offset: 9, len: 7 };
    encode_write_header(&mut Writer::new(&mut parts), &head);
    parts.extend(b"payload\0");
    assert_eq!(parts, whole);
}

#[test]
fn encodes_read_without_payload() {
    let read = nfs_proto::nfs2::ReadOk { attributes: fattr(), data: b"payload" };
    let reply = Reply::Read(Ok(read));
    let mut whole = Vec::new();
    let mut parts = Vec::new();
    reply.encode(&mut Writer::new(&mut whole));
    encode_read_header(&mut Writer::new(&mut parts), &fattr(), 7);
    parts.extend(b"payload\0");
    assert_eq!(parts, whole);

    let mut framed = Vec::new();
    let mut framed_parts = Vec::new();
    server::encode_reply(&mut framed, 3, &nfs_proto::program::Reply::Nfs2(reply));
    let pad = encode_nfs2_read_reply_header(&mut framed_parts, 3, &fattr(), 7);
    framed_parts.extend(b"payload");
    framed_parts.extend(vec![0; pad]);
    assert_eq!(framed_parts, framed);
}

#[test]
fn finds_payload_once_length_is_known() {
    let golden = hex(&format!("00000000 {FATTR} {PAYLOAD}"));
    let head_bytes = 4 + Fattr::WIRE_BYTES + 4;
    for len in 0..head_bytes {
        match decode_read_head(&mut Reader::new(&golden[..len])) {
            Err(DecodeError::Truncated { needed, left }) => {
                // Waiting for the number of bytes that the error names always makes progress, and
                // never exceeds the message.
                assert!(needed > left && len + needed - left <= head_bytes, "at {len}");
            }
            other => panic!("{len} bytes give {other:?}"),
        }
    }
    let mut reader = Reader::new(&golden);
    let head = decode_read_head(&mut reader).unwrap().expect("the READ succeeded");
    assert_eq!((head.attributes, head.len), (fattr(), 7));
    assert_eq!(reader.rest(), b"payload\0");
    assert_eq!(decode_read_head(&mut Reader::new(&hex("00000046"))), Ok(None));
}
