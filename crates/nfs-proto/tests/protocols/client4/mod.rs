//! The client's session in NFS v4: the calls for each operation, the progress of sequence numbers,
//! resent calls, and answers to callbacks. The tests simulate the server, and time is virtual.

mod callbacks;
mod copies;
mod operations;
mod paths;
mod resume;
mod sequences;

use nfs_proto::client::{
    Binding, Chunk, Config, Cursor, Data, Event, File, Kind, OpenAccess, Operation, OperationKind,
    Outcome, PayloadMode, PayloadRange, SeekWhat, Session, StartError,
};
use nfs_proto::nfs3::{CreateHow, Sattr, StableHow, Verifier};
use nfs_proto::nfs4::{
    self, Attributes, CallbackOp, ChangeInfo, ClientId, Compound, Delegation, FileHandle, FileType,
    List, Op, OpCode, OpOk, OpResult, ReplyBuilder, SessionId, Stateid, attribute, encode_callback,
    open_result,
};
use nfs_proto::program::{Call, OfferedPrograms};
use nfs_proto::rpc::{CallHeader, Credential};
use nfs_proto::status::Status;
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{CallError, ProtocolVersion, server};

use crate::common::hex;

const SESSION: SessionId = SessionId(*b"0123456789abcdef");
const OPENED: Stateid = Stateid { seqid: 1, other: *b"opened state" };

fn handle(name: &[u8]) -> FileHandle {
    FileHandle::from_slice(name).unwrap()
}

fn file() -> File {
    File { stateid: OPENED, ..File::from(handle(b"file")) }
}

fn dir() -> File {
    File::from(handle(b"directory"))
}

fn client(version: ProtocolVersion, slots: u32) -> Session {
    let payload = PayloadMode::Keep { bytes_max: 4096 };
    let mut session =
        Session::new(&Config { version, slots: 4, payload, xid_seed: 9, ..Config::default() });
    session.bind(&Binding { client: ClientId(5), session: SESSION, slots, owner_base: 6 });
    session
}

/// Takes all bytes to be sent; pool bytes are 7.
fn send(session: &mut Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in session.outgoing() {
        match chunk {
            Chunk::Bytes(chunk) => bytes.extend_from_slice(chunk),
            Chunk::Pool(range) => bytes.extend(vec![7; range.len as usize]),
        }
    }
    session.sent(1, bytes.len());
    bytes
}

/// One call as the server sees it.
#[derive(Debug)]
struct ReceivedCall {
    xid: u32,
    message: Vec<u8>,
}

impl ReceivedCall {
    fn from_bytes(bytes: &[u8]) -> Self {
        let message = bytes[4..].to_vec();
        let len = u32::from_be_bytes(bytes[..4].try_into().unwrap()) & 0x7fff_ffff;
        assert_eq!(len as usize, message.len(), "one record of one fragment");
        Self { xid: Reader::new(&message).u32().unwrap(), message }
    }

    fn compound(&self) -> Compound<'_> {
        let request = server::decode_request(&self.message, OfferedPrograms::ALL).unwrap();
        let Ok(Call::Nfs4(nfs4::Call::Compound(compound))) = request.body else {
            panic!("{request:?}");
        };
        assert!(!compound.ops().has_trailing());
        compound
    }

    fn ops(&self) -> Vec<Op<'_>> {
        self.compound().ops().map(|op| op.expect("all operations are understood")).collect()
    }

    fn codes(&self) -> Vec<OpCode> {
        self.ops().iter().map(Op::code).collect()
    }

    /// Slot and sequence number.
    fn sequence(&self) -> (u32, u32) {
        let Op::Sequence { session, sequence, slot, .. } = self.ops()[0] else {
            panic!("SEQUENCE comes first");
        };
        assert_eq!(session, SESSION);
        (slot, sequence)
    }
}

fn start(session: &mut Session, operation: &Operation<'_>) -> ReceivedCall {
    session.start(0, 1, operation).unwrap();
    ReceivedCall::from_bytes(&send(session))
}

fn sequence_ok() -> OpResult<'static> {
    OpResult::Ok(OpOk::Sequence {
        session: SESSION,
        sequence: 0,
        slot: 0,
        highest_slot: 3,
        target_highest_slot: 3,
        flags: 0x100,
    })
}

fn reply(xid: u32, results: &[OpResult<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mark = server::begin_reply(&mut out, xid);
    let mut builder = ReplyBuilder::new(&mut out, b"");
    for result in results {
        builder.push(result);
    }
    builder.finish();
    server::end_reply(&mut out, mark, 0);
    out
}

/// Answers a call with these results, preceded by a SEQUENCE in v4.1 and later.
fn answer(session: &mut Session, seen: &ReceivedCall, results: &[OpResult<'_>]) {
    let mut all = Vec::new();
    if session.version().has_sessions() {
        all.push(sequence_ok());
    }
    all.extend(results);
    let bytes = reply(seen.xid, &all);
    assert_eq!(session.handle_input(2, &bytes), Ok(bytes.len()));
}

fn result(session: &mut Session) -> Result<Outcome, CallError> {
    session.poll_event().expect("the call has ended").result
}

const PUTFH: OpResult<'static> = OpResult::Ok(OpOk::Putfh);

fn attributes() -> Attributes<'static> {
    Attributes {
        file_type: Some(FileType::Regular),
        size: Some(7),
        mode: Some(0o640),
        owner: Some(b"1000@example.org"),
        owner_group: Some(b"staff"),
        fileid: Some(11),
        ..Attributes::default()
    }
}

fn getattr(scratch: &mut Vec<u8>) -> OpResult<'_> {
    let attributes = attributes().to_fattr(Attributes::UNDERSTOOD, scratch);
    OpResult::Ok(OpOk::Getattr { attributes })
}

fn opened(flags: u32) -> OpResult<'static> {
    OpResult::Ok(OpOk::Open {
        stateid: OPENED,
        change: ChangeInfo::default(),
        flags,
        set: nfs4::Bitmap::EMPTY,
        delegation: Delegation::None,
    })
}
