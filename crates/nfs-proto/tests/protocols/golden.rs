//! Golden vectors: every procedure of NFS v3 against bytes written by hand from RFC 1813, field by
//! field, in both directions.

use nfs_proto::nfs3::{Call, Procedure, Reply};
use nfs_proto::xdr::{Reader, Writer};

use crate::common::{FATTR, calls, failures, hex, replies};

const DIR: &str = "00000004 d1d2d3d4";
const FILE: &str = "00000005 f1f2f3f4 f5000000";
const NAME: &str = "00000005 6e616d65 35000000";
const VERIFIER: &str = "76657269 66696572";
/// Mode, uid, gid, size, atime by the server's clock, mtime by the client's.
const SATTR: &str = "00000001 000001ed 00000001 00000001 00000001 00000002
    00000001 00000003 00000004 00000001 00000002 00000005 00000006";
/// Before: size, mtime, ctime.
const PRE: &str = "00000001 00000001 00000002 00000003 00000004 00000005 00000006";
/// The offset 0x100000002 and the count 3.
const RANGE: &str = "00000001 00000002 00000003";
const PAYLOAD: &str = "00000007 7061796c 6f616400";
const TARGET: &str = "00000009 2e2e2f74 61726765 74000000";

fn golden_calls() -> Vec<String> {
    let named = |rest: &str| format!("{DIR} {NAME} {rest}");
    let device = "00000008 00000009";
    vec![
        String::new(),
        FILE.into(),
        format!("{FILE} {SATTR} 00000001 00000007 00000008"),
        format!("{FILE} 00000000 00000000 00000000 00000000 00000000 00000000 00000000"),
        named(""),
        format!("{FILE} 0000003f"),
        FILE.into(),
        format!("{FILE} {RANGE}"),
        format!("{FILE} 00000001 00000002 00000007 00000001 {PAYLOAD}"),
        named(&format!("00000000 {SATTR}")),
        named(&format!("00000001 {SATTR}")),
        named(&format!("00000002 {VERIFIER}")),
        named(SATTR),
        named(&format!("{SATTR} {TARGET}")),
        named(&format!("00000004 {SATTR} {device}")),
        named(&format!("00000003 {SATTR} {device}")),
        named(&format!("00000006 {SATTR}")),
        named(&format!("00000007 {SATTR}")),
        named("00000001"),
        named(""),
        named(""),
        named(&format!("{FILE} 00000005 6f746865 72000000")),
        format!("{FILE} {DIR} {NAME}"),
        format!("{DIR} 00000001 00000002 {VERIFIER} 00000003"),
        format!("{DIR} 00000001 00000002 {VERIFIER} 00000003 00000004"),
        FILE.into(),
        FILE.into(),
        FILE.into(),
        format!("{FILE} {RANGE}"),
    ]
}

fn golden_replies() -> Vec<String> {
    let post = format!("00000001 {FATTR}");
    let wcc = format!("{PRE} {post}");
    let none = "00000000";
    let created = format!("00000001 {FILE} {post} {wcc}");
    let entries = "00000001 00000001 00000002 00000001 61000000 00000000 00000003
        00000001 00000000 00000004 00000004 62636465 00000005 00000006";
    let entry = "00000001 00000000 00000001 00000001 61000000 00000000 00000002";
    let successes = [
        format!("{none} {FATTR}"),
        format!("{none} {wcc}"),
        format!("{none} {FILE} {none} {post}"),
        format!("{none} {post} 0000001f"),
        format!("{none} {post} {TARGET}"),
        format!("{none} {post} 00000007 00000001 {PAYLOAD}"),
        format!("{none} {wcc} 00000007 00000002 {VERIFIER}"),
        format!("{none} {created}"),
        format!("{none} {created}"),
        format!("{none} {created}"),
        format!("{none} {none} {none} {wcc}"),
        format!("{none} {wcc}"),
        format!("{none} {none} {none}"),
        format!("{none} {wcc} {none} {none}"),
        format!("{none} {post} {wcc}"),
        format!("{none} {post} 636f6f6b 76726631 {entries} 00000000 00000001"),
        format!(
            "{none} {post} 636f6f6b 76726632 {entry} {post} 00000001 {FILE}
             {entry} {none} {none} 00000000 00000000"
        ),
        format!(
            "{none} {post} 00000001 00000001 00000000 00000002 00000000 00000003
             00000000 00000004 00000000 00000005 00000000 00000006 00000007"
        ),
        format!(
            "{none} {post} 00000001 00000002 00000003 00000004 00000005 00000006 00000007
             00000008 00000009 0000000a 0000000b 00000011"
        ),
        format!("{none} {none} 00000001 000000ff 00000001 00000000 00000000 00000001"),
        format!("{none} {wcc} {VERIFIER}"),
    ];
    std::iter::once(String::new()).chain(successes).collect()
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
    let mut plus = Vec::new();
    let replies = replies(&mut names, &mut plus);
    let golden = golden_replies();
    assert_eq!(replies.len(), golden.len());
    for (reply, golden) in replies.iter().zip(golden) {
        let golden = hex(&golden);
        let mut out = Vec::new();
        reply.encode(&mut Writer::new(&mut out));
        assert_eq!(out, golden, "encoding {reply:?}");
        assert_eq!(Reply::decode(reply.procedure(), Reader::new(&golden)), Ok(*reply));
    }
}

#[test]
fn every_failure_carries_its_absent_attributes() {
    for failure in failures() {
        // Status, then one absent flag per attribute: none, one, two, three or four.
        let flags = match failure.procedure() {
            Procedure::Getattr => 0,
            Procedure::Lookup
            | Procedure::Access
            | Procedure::Readlink
            | Procedure::Read
            | Procedure::Readdir
            | Procedure::Readdirplus
            | Procedure::Fsstat
            | Procedure::Fsinfo
            | Procedure::Pathconf => 1,
            Procedure::Link => 3,
            Procedure::Rename => 4,
            _ => 2,
        };
        let mut golden = hex("00000046");
        golden.extend(vec![0; 4 * flags]);
        let mut out = Vec::new();
        failure.encode(&mut Writer::new(&mut out));
        assert_eq!(out, golden, "encoding {failure:?}");
        assert_eq!(Reply::decode(failure.procedure(), Reader::new(&golden)), Ok(failure));
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
    let mut names = Vec::new();
    let mut plus = Vec::new();
    for (reply, golden) in replies(&mut names, &mut plus).iter().zip(golden_replies()) {
        let golden = hex(&golden);
        for len in 0..golden.len() {
            let cut = Reply::decode(reply.procedure(), Reader::new(&golden[..len]));
            assert!(cut.is_err(), "{reply:?} cut to {len} bytes gives {cut:?}");
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
}
