//! Delegations over the wire: the recall arrives on the client's own connection.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    CALLBACK_PROGRAM, CALLBACK_VERSION, CallbackCompound, CallbackOk, CallbackOp, CallbackResult,
    CallbackSecurity, Claim, Delegation, FileHandle, List, NoDelegation, Op, OpOk, OpResult,
    OpenHow, SessionId, StableHow, StateOwner, Stateid, create_session, encode_callback_reply,
    share,
};
use nfs_proto::record;
use nfs_proto::rpc::{AuthSys, CallHeader, Credential, ReplyHeader};
use nfs_proto::xdr::{Reader, Writer};
use nfs_server::{Delegations, Server, ServerConfig};

use super::fixtures::{CHANNEL, Peer, compound, exchange_id, lookup, mode, open_op, server, size};
use crate::client::{Client, USER, start};

/// A client that the server can call back over its only connection.
pub fn callee(server: &Server, owner: &[u8]) -> Peer {
    callee_in(server, owner, 1)
}

/// The same in a minor version.
pub fn callee_in(server: &Server, owner: &[u8], minor: u32) -> Peer {
    let mut client = Client::connect(server);
    let (id, sequence) = exchange_id(&mut client, owner, 1);
    let mut scratch = Vec::new();
    let op = Op::CreateSession {
        client: id,
        sequence,
        flags: create_session::CONNECTION_BACKCHANNEL,
        fore: CHANNEL,
        back: CHANNEL,
        callback_program: CALLBACK_PROGRAM,
        security: List::build(&mut scratch, [CallbackSecurity::None, CallbackSecurity::Sys(USER)]),
    };
    let reply = compound(&mut client, minor, &[op]);
    let OpOk::CreateSession { session, .. } = reply.ok() else { unreachable!() };
    let mut peer = Peer { client, minor, id, session, sequence: 0 };
    assert_eq!(peer.call(&[Op::ReclaimComplete { one_fs: false }]).status(), Status::Ok);
    peer
}

/// Opens a file of `/export` for reading; returns the delegation, or the reason why there is none.
fn open_to_read(peer: &mut Peer, want: u32, claim: Claim<'_>) -> Result<Stateid, NoDelegation> {
    let op = Op::Open {
        seqid: 0,
        share_access: share::READ | want,
        share_deny: 0,
        owner: StateOwner { client: peer.id, owner: b"reader" },
        how: OpenHow::NoCreate,
        claim,
    };
    let reply = peer.call(&[Op::Putrootfh, lookup("export"), op]);
    match reply.ok() {
        OpOk::Open { delegation: Delegation::Read { stateid, recall: false, .. }, .. } => {
            Ok(stateid)
        }
        OpOk::Open { delegation: Delegation::NoneExt(why, false), .. } => Err(why),
        OpOk::Open { delegation: Delegation::None, .. } => Err(NoDelegation::NotSupportedType),
        other => panic!("{other:?}"),
    }
}

/// Receives a recall, confirms it, and returns the stateid and the file in it.
fn take_recall(peer: &mut Peer) -> (Stateid, FileHandle) {
    answer_callback(&mut peer.client, peer.session, |op| {
        let CallbackOp::Recall { stateid, truncate: false, file } = op else { panic!("{op:?}") };
        ((stateid, file), CallbackResult::Ok(CallbackOk::Recall))
    })
}

/// Receives a callback, and answers it as `answer` says, which also returns what the test needs.
pub fn answer_callback<T>(
    client: &mut Client,
    expected: SessionId,
    answer: impl FnOnce(CallbackOp<'_>) -> (T, CallbackResult<'static>),
) -> T {
    let call = client.receive_record().unwrap();
    let mut reader = Reader::new(&call);
    let header = CallHeader::decode(&mut reader).unwrap();
    let called = (header.program, header.version, header.procedure);
    assert_eq!(called, (CALLBACK_PROGRAM, CALLBACK_VERSION, 1));
    assert_eq!(header.credential, Ok(Credential::Sys(USER)), "required by Linux");
    let compound = CallbackCompound::decode(reader).unwrap();
    let ops: Vec<_> = compound.ops().map(Result::unwrap).collect();
    let [CallbackOp::Sequence { session, sequence, slot, highest_slot, .. }, op] = ops[..] else {
        panic!("{ops:?}")
    };
    assert_eq!((session, slot), (expected, 0));
    let target_highest_slot = highest_slot;
    let sequenced =
        CallbackOk::Sequence { session, sequence, slot, highest_slot, target_highest_slot };
    let (taken, result) = answer(op);
    let results = [CallbackResult::Ok(sequenced), result];
    let mut reply = Vec::new();
    let mark = record::begin(&mut reply);
    let mut writer = Writer::new(&mut reply);
    ReplyHeader { xid: header.xid, result: Ok(()) }.encode(&mut writer);
    encode_callback_reply(&mut writer, compound.tag, results.into_iter());
    record::end(&mut reply, mark, 0);
    client.send(&reply);
    taken
}

/// Creates `/export/f` and the client to which it will be delegated.
fn fixture(server: &Server) -> (Peer, Client, FileHandle) {
    let mut writer = Client::connect(server);
    let root = writer.mount("/export");
    let file = writer.create(root, "f");
    assert_eq!(writer.write(file, 0, b"old"), Ok(3));
    (callee(server, b"reader"), writer, file)
}

#[test]
fn recalls_for_v3_write() {
    let server = server();
    let (mut reader, mut writer, file) = fixture(&server);
    let stateid = open_to_read(&mut reader, 0, Claim::Name(b"f")).unwrap();
    let read = reader.call(&[Op::Putfh { file }, Op::Read { stateid, offset: 0, count: 9 }]);
    let OpOk::Read { data, .. } = read.ok() else { unreachable!() };
    assert_eq!(data, b"old");
    assert_eq!(writer.write(file, 0, b"new"), Err(Status::Jukebox));
    assert_eq!(take_recall(&mut reader), (stateid, file));
    // The client sends its local opens to the server, then returns the delegation.
    let none = open_to_read(&mut reader, 0, Claim::DelegateCurrent(stateid, b"f"));
    assert_eq!(none, Err(NoDelegation::NotSupportedType));
    let unknown = Stateid { seqid: 1, other: [9; 12] };
    for (stateid, expected) in [(unknown, Status::BadStateid), (stateid, Status::Ok)] {
        let reply = reader.call(&[Op::Putfh { file }, Op::Delegreturn { stateid }]);
        assert_eq!(reply.status(), expected);
    }
    assert_eq!(writer.write(file, 0, b"new"), Ok(3));
    assert_eq!(writer.read(file, 0, 9), Ok((b"new".to_vec(), true)));
}

#[test]
fn recalls_for_changes_by_others() {
    let server = server();
    let (mut reader, _, file) = fixture(&server);
    let mut other = Peer::new(&server, 1, b"other");
    let mut scratch = [Vec::new(), Vec::new(), Vec::new()];
    let [first, second, third] = &mut scratch;
    let stateid = open_to_read(&mut reader, 0, Claim::Name(b"f")).unwrap();
    let export = [Op::Putrootfh, lookup("export")];
    let to_root = [export[0], export[1], Op::Savefh];
    let changes: [Vec<Op<'_>>; 7] = [
        vec![export[0], export[1], open_op(other.id, "f", b"o", first)],
        vec![export[0], export[1], Op::Remove { name: b"f" }],
        [&to_root[..], &[Op::Rename { from: b"f", to: b"g" }]].concat(),
        [&to_root[..], &[Op::Rename { from: b"x", to: b"f" }]].concat(),
        vec![Op::Putfh { file }, Op::Savefh, export[0], export[1], Op::Link { name: b"g" }],
        vec![
            Op::Putfh { file },
            Op::Setattr { stateid: Stateid::ANONYMOUS, attributes: size(0, second) },
        ],
        vec![
            Op::Putfh { file },
            Op::Setattr { stateid: Stateid::ANONYMOUS, attributes: mode(0o600, third) },
        ],
    ];
    for change in &changes {
        assert_eq!(other.call(change).status(), Status::Jukebox, "{change:?}");
    }
    let offset = 0;
    let write =
        Op::Write { stateid: Stateid::ANONYMOUS, offset, stable: StableHow::Unstable, data: b"x" };
    assert_eq!(other.call(&[Op::Putfh { file }, write]).status(), Status::Jukebox);
    assert_eq!(take_recall(&mut reader), (stateid, file));
    assert!(reader.client.is_silent(), "a single recall");
    // Reads don't wait, and neither do the client's own changes.
    let read = Op::Read { stateid: Stateid::ANONYMOUS, offset, count: 1 };
    assert_eq!(other.call(&[Op::Putfh { file }, read]).status(), Status::Ok);
    assert_eq!(reader.call(&changes[6]).status(), Status::Ok);
    let reply = reader.call(&[Op::Putfh { file }, Op::Delegreturn { stateid }]);
    assert_eq!(reply.status(), Status::Ok);
    assert_eq!(other.call(&changes[4]).status(), Status::Ok);
}

#[test]
fn grants_none_to_unwilling_clients() {
    let server = server();
    let (mut reader, _, _) = fixture(&server);
    let name = Claim::Name(b"f");
    let not_wanted = open_to_read(&mut reader, share::WANT_NO_DELEGATION, name);
    assert_eq!(not_wanted, Err(NoDelegation::NotWanted));
    let mut silent = Peer::new(&server, 1, b"no backchannel");
    let none = open_to_read(&mut silent, share::WANT_READ_DELEGATION, name);
    assert_eq!(none, Err(NoDelegation::Resource));
    assert!(open_to_read(&mut reader, share::WANT_ANY_DELEGATION, name).is_ok());
    let off = start(ServerConfig { delegations: Delegations::Off, ..ServerConfig::default() });
    let (mut reader, _, _) = fixture(&off);
    assert_eq!(open_to_read(&mut reader, 0, name), Err(NoDelegation::NotSupportedType));
}

#[test]
fn closes_connection_on_stray_reply() {
    let server = server();
    let mut peer = callee(&server, b"reader");
    let mut reply = Vec::new();
    let mark = record::begin(&mut reply);
    ReplyHeader { xid: 1, result: Ok(()) }.encode(&mut Writer::new(&mut reply));
    record::end(&mut reply, mark, 0);
    peer.client.send(&reply);
    assert!(peer.client.receive_record().is_err());
    assert_eq!(server.counters().broken_streams, 1);
}

#[test]
fn allows_other_readers_beside_delegation() {
    let server = server();
    let (mut reader, _, _) = fixture(&server);
    assert!(open_to_read(&mut reader, 0, Claim::Name(b"f")).is_ok());
    let mut second = callee(&server, b"second");
    assert!(open_to_read(&mut second, 0, Claim::Name(b"f")).is_ok());
    let results = reader.call(&[]);
    let results = results.results();
    let [OpResult::Ok(OpOk::Sequence { flags: 0, .. })] = results[..] else {
        panic!("{results:?}")
    };
}

#[test]
fn checks_permission_of_delegated_reads() {
    let server = server();
    let mut writer = Peer::new(&server, 1, b"writer");
    let (file, open) = writer.open("f");
    let mut scratch = Vec::new();
    let private = Op::Setattr { stateid: open, attributes: mode(0o600, &mut scratch) };
    let close = Op::Close { seqid: 0, stateid: open };
    assert_eq!(writer.call(&[Op::Putfh { file }, private, close]).status(), Status::Ok);
    let mut reader = callee(&server, b"reader");
    let stateid = open_to_read(&mut reader, 0, Claim::Name(b"f")).unwrap();
    let read = Op::Read { stateid, offset: 0, count: 9 };
    for (uid, expected) in [(1001, Status::Access), (0, Status::Ok), (USER.uid, Status::Ok)] {
        reader.client.user = AuthSys { uid, gid: uid, ..USER };
        assert_eq!(reader.call(&[Op::Putfh { file }, read]).status(), expected, "user {uid}");
    }
}
