//! Compounds, their replies, callbacks, and payloads that are sent separately.

use nfs_proto::nfs4::{
    Attributes, Bitmap, Call, CallbackCode, CallbackCompound, CallbackOk, CallbackOp,
    CallbackResult, Compound, CompoundBuilder, CompoundReply, CopiedData, FileHandle, List,
    OffloadResult, Op, OpCode, OpOk, OpResult, ReadPrefix, ReplyBuilder, StableHow, Stateid,
    Verifier, attribute, decode_callback_reply, encode_callback, encode_callback_reply,
    encode_write_header, read_prefix,
};
use nfs_proto::program::{self, OfferedPrograms};
use nfs_proto::rpc::RpcError;
use nfs_proto::server;
use nfs_proto::status::Status;
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{DecodeError, rpc};

use super::ops::{SESSION, SESSION_ID, STATE, STATEID};
use crate::common::hex;

fn handle() -> FileHandle {
    FileHandle::from_slice(b"handle").unwrap()
}

fn compound(minor: u32, ops: &[Op<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = CompoundBuilder::new(&mut out, b"tag", minor);
    for op in ops {
        builder.push(op);
    }
    builder.finish();
    out
}

#[test]
fn encodes_and_decodes_compound() {
    let ops = [Op::Putfh { file: handle() }, Op::Getattr { request: Bitmap::from_numbers(&[1]) }];
    let bytes = compound(1, &ops);
    let golden = "00000003 74616700 00000001 00000002
        00000016 00000006 68616e64 6c650000  00000009 00000001 00000002";
    assert_eq!(bytes, hex(golden));
    let compound = Compound::decode(Reader::new(&bytes)).unwrap();
    assert_eq!((compound.tag, compound.minor, compound.count()), (&b"tag"[..], 1, 2));
    assert!(compound.ops().eq(ops.map(Ok)));
    let mut again = Vec::new();
    compound.encode(&mut Writer::new(&mut again));
    assert_eq!(again, bytes);
}

#[test]
fn ends_compound_at_bad_operation() {
    let sequence = 53_u32.to_be_bytes();
    let cases: [(u32, &[u8], OpCode, Status); 6] = [
        (0, &sequence, OpCode::Illegal, Status::OpIllegal),
        (1, &[0, 0, 0x27, 0x3c], OpCode::Illegal, Status::OpIllegal),
        (1, &[0, 0, 0, 2], OpCode::Illegal, Status::OpIllegal),
        (1, &[0, 0, 0, 46], OpCode::GetDirDelegation, Status::NotSupp),
        (1, &[0, 0, 0, 35], OpCode::Setclientid, Status::NotSupp),
        (1, &sequence, OpCode::Sequence, Status::BadXdr),
    ];
    for (minor, number, code, status) in cases {
        let mut out = Vec::new();
        let mut builder = CompoundBuilder::new(&mut out, b"", minor);
        builder.push(&Op::Putrootfh);
        builder.push_with(|writer| writer.raw(number));
        builder.push_with(|_| {});
        builder.finish();
        // Three operations need twelve bytes; the third is never looked at.
        out.extend([0; 4]);
        let mut ops = Compound::decode(Reader::new(&out)).unwrap().ops();
        assert_eq!(ops.next(), Some(Ok(Op::Putrootfh)));
        let bad = ops.next().unwrap().unwrap_err();
        assert_eq!((bad.code, bad.status), (code, status));
        assert_eq!((ops.next(), ops.left()), (None, 0));
    }
}

#[test]
fn rejects_impossible_count() {
    let bytes = hex("00000000 00000001 ffffffff 00000018");
    let error = Compound::decode(Reader::new(&bytes)).unwrap_err();
    assert!(matches!(error, DecodeError::Truncated { left: 4, .. }), "{error}");
    let id = rpc::ProcedureId::new(100_003, 4, 1);
    let call = program::Call::decode(OfferedPrograms::ALL, id, Reader::new(&bytes));
    assert_eq!(call, Err(RpcError::GarbageArguments));
}

#[test]
fn a_request_hands_out_a_compound() {
    let bytes = compound(2, &[Op::Putrootfh]);
    let mut message = Vec::new();
    let header = rpc::CallHeader {
        xid: 9,
        rpc_version: 2,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: Ok(rpc::Credential::None),
    };
    header.encode(&mut Writer::new(&mut message));
    message.extend(&bytes);
    let request = server::decode_request(&message, OfferedPrograms::ALL).unwrap();
    let Ok(program::Call::Nfs4(Call::Compound(compound))) = request.body else {
        panic!("{request:?}");
    };
    assert_eq!((compound.minor, compound.count()), (2, 1));
    let refused =
        server::decode_request(&message, OfferedPrograms { nfs3: true, ..OfferedPrograms::NONE });
    let mismatch = RpcError::ProgramMismatch { low: 3, high: 3 };
    assert_eq!(refused.unwrap().body, Err(mismatch));
}

#[test]
fn takes_status_of_last_result() {
    let mut out = vec![1, 2, 3, 4];
    let mut reply = ReplyBuilder::new(&mut out, b"tag");
    reply.ok(&OpOk::Putfh);
    let mark = reply.mark();
    reply.ok(&OpOk::Getfh { file: handle() });
    reply.fail(OpCode::Read, Status::Io);
    reply.rewind(mark);
    reply.fail(OpCode::Getfh, Status::Stale);
    assert_eq!(reply.count(), 2);
    assert_eq!(reply.finish(), Status::Stale);
    let golden = "01020304 00000046 00000003 74616700 00000002 00000016 00000000 0000000a 00000046";
    assert_eq!(out, hex(golden));
    let decoded = CompoundReply::decode(Reader::new(&out[4..])).unwrap();
    assert_eq!((decoded.status, decoded.tag, decoded.count()), (Status::Stale, &b"tag"[..], 2));
    let mut results = decoded.results();
    assert_eq!(results.next_result(), Ok(Some(OpResult::Ok(OpOk::Putfh))));
    let failed = OpResult::Failed(OpCode::Getfh, Status::Stale);
    assert_eq!(results.next_result(), Ok(Some(failed)));
    assert_eq!(results.next_result(), Ok(None));
    assert_eq!(results.finish(), Ok(()));
    let mut again = Vec::new();
    decoded.encode(&mut Writer::new(&mut again));
    assert_eq!(again, out[4..]);
}

#[test]
fn a_reply_can_be_without_results() {
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::new(&mut out, b"");
    reply.set_status(Status::MinorVersMismatch);
    reply.finish();
    assert_eq!(out, hex("00002725 00000000 00000000"));
}

#[test]
fn returns_requested_available_attributes() {
    let attributes = Attributes { size: Some(5), mode: Some(0o644), ..Attributes::default() };
    let requested = Bitmap::from_numbers(&[attribute::SIZE, attribute::FILEID]);
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::new(&mut out, b"");
    reply.getattr_ok(&attributes, requested);
    reply.finish();
    let golden = "00000000 00000000 00000001 00000009 00000000
        00000001 00000010 00000008 00000000 00000005";
    assert_eq!(out, hex(golden));
}

#[test]
fn encodes_write_head_separately() {
    let data = b"payload";
    let op = Op::Write { stateid: STATE, offset: 5, stable: StableHow::Unstable, data };
    let whole = compound(1, &[Op::Putfh { file: handle() }, op]);
    let mut out = Vec::new();
    let mut builder = CompoundBuilder::new(&mut out, b"tag", 1);
    builder.push(&Op::Putfh { file: handle() });
    builder.push_with(|writer| {
        encode_write_header(writer, &STATE, 5, StableHow::Unstable, data.len() as u32);
    });
    builder.finish();
    out.extend(data);
    out.push(0);
    assert_eq!(out, whole);
}

/// The reply to SEQUENCE, PUTFH, READ up to the payload.
fn read_reply(len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::new(&mut out, b"tag");
    reply.ok(&OpOk::Sequence {
        session: SESSION_ID,
        sequence: 1,
        slot: 2,
        highest_slot: 3,
        target_highest_slot: 3,
        flags: 0,
    });
    reply.ok(&OpOk::Putfh);
    reply.read_header(true, len);
    reply.finish();
    out
}

#[test]
fn finds_payload_after_its_length() {
    let head = read_reply(1 << 20);
    let golden = format!(
        "00000000 00000003 74616700 00000003
         00000035 00000000 {SESSION} 00000001 00000002 00000003 00000003 00000000
         00000016 00000000  00000019 00000000 00000001 00100000"
    );
    assert_eq!(head, hex(&golden));
    let mut len = 0;
    let prefix = loop {
        match read_prefix(&mut Reader::new(&head[..len])) {
            // Each attempt requests more, and never more than the bytes before the payload.
            Err(DecodeError::Truncated { needed, left }) => len += needed - left,
            other => break other,
        }
        assert!(len <= head.len());
    };
    assert_eq!(prefix, Ok(Some(ReadPrefix { len: 1 << 20, eof: true })));
    assert_eq!(len, head.len());
}

#[test]
fn recognizes_reply_without_payload() {
    let mut failed = read_reply(0);
    failed[3] = 70;
    assert_eq!(read_prefix(&mut Reader::new(&failed)), Ok(None));
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::new(&mut out, b"");
    reply.ok(&OpOk::Putfh);
    reply.ok(&OpOk::Seek { eof: false, offset: 1 });
    reply.finish();
    assert_eq!(read_prefix(&mut Reader::new(&out)), Ok(None));
}

#[test]
fn answers_callback_by_operation() {
    let ops = [
        CallbackOp::Sequence {
            session: SESSION_ID,
            sequence: 1,
            slot: 0,
            highest_slot: 0,
            cache_this: false,
            referring: List::default(),
        },
        CallbackOp::Recall { stateid: STATE, truncate: true, file: handle() },
        CallbackOp::Offload {
            file: handle(),
            stateid: STATE,
            result: OffloadResult::Done(CopiedData {
                callback_id: None,
                count: 5,
                committed: StableHow::FileSync,
                verifier: Verifier([7; 8]),
            }),
        },
        CallbackOp::Offload {
            file: handle(),
            stateid: STATE,
            result: OffloadResult::Failed(Status::NoSpc, 9),
        },
    ];
    let mut out = Vec::new();
    encode_callback(&mut Writer::new(&mut out), 2, 6, &ops);
    let golden = format!(
        "00000000 00000002 00000006 00000004
         0000000b {SESSION} 00000001 00000000 00000000 00000000 00000000
         00000004 {STATEID} 00000001 00000006 68616e64 6c650000
         0000000f 00000006 68616e64 6c650000 {STATEID}
         00000000 00000000 00000000 00000005 00000002 07070707 07070707
         0000000f 00000006 68616e64 6c650000 {STATEID} 0000001c 00000000 00000009"
    );
    assert_eq!(out, hex(&golden));
    let call = CallbackCompound::decode(Reader::new(&out)).unwrap();
    assert_eq!((call.minor, call.ident), (2, 6));
    assert!(call.ops().eq(ops.map(Ok)));

    let results = [
        CallbackResult::Ok(CallbackOk::Sequence {
            session: SESSION_ID,
            sequence: 1,
            slot: 0,
            highest_slot: 0,
            target_highest_slot: 0,
        }),
        CallbackResult::Failed(CallbackCode::Recall, Status::BadHandle),
    ];
    let mut out = Vec::new();
    encode_callback_reply(&mut Writer::new(&mut out), b"tag", results.into_iter());
    let golden = format!(
        "00002711 00000003 74616700 00000002
         0000000b 00000000 {SESSION} 00000001 00000000 00000000 00000000  00000004 00002711"
    );
    assert_eq!(out, hex(&golden));
    let mut reader = Reader::new(&out);
    assert_eq!(decode_callback_reply(&mut reader), Ok((Status::BadHandle, 2)));
    assert_eq!(CallbackResult::decode(&mut reader), Ok(results[0]));
    assert_eq!(CallbackResult::decode(&mut reader), Ok(results[1]));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn ends_callback_at_bad_operation() {
    let answers = |minor, number: u32| {
        let mut out = Vec::new();
        encode_callback(&mut Writer::new(&mut out), minor, 0, &[]);
        let at = out.len() - 4;
        out[at..].copy_from_slice(&2_u32.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend([0; 4]);
        CallbackCompound::decode(Reader::new(&out)).unwrap().ops().next().unwrap().unwrap_err()
    };
    assert_eq!(answers(0, 11), (CallbackCode::Illegal, Status::OpIllegal));
    assert_eq!(answers(1, 99), (CallbackCode::Illegal, Status::OpIllegal));
    assert_eq!(answers(1, 6), (CallbackCode::Notify, Status::NotSupp));
    assert_eq!(answers(1, 5), (CallbackCode::LayoutRecall, Status::BadXdr));
    assert_eq!(answers(1, 11), (CallbackCode::Sequence, Status::BadXdr));
}

#[test]
fn encodes_special_stateids_like_rfc() {
    let bytes = |stateid| compound(1, &[Op::Delegreturn { stateid }])[20..].to_vec();
    assert_eq!(bytes(Stateid::ANONYMOUS), [0; 16]);
    assert_eq!(bytes(Stateid::READ_BYPASS), [0xff; 16]);
    assert_eq!(bytes(Stateid::CURRENT), hex("00000001 00000000 00000000 00000000"));
    assert_eq!(bytes(Stateid::INVALID), hex("ffffffff 00000000 00000000 00000000"));
}
