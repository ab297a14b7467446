//! Malformed or pointless calls: each gets its error, and the connection stays open.

use nfs_proto::nfs4::{Op, OpCode, OpResult, PROGRAM, VERSION};
use nfs_proto::rpc::{CallHeader, Credential, RPC_VERSION};
use nfs_proto::xdr::Writer;
use nfs_proto::{RpcError, Status, record};
use nfs_server::{ServerConfig, Versions};

use super::fixtures::{Peer, compound, server};
use crate::client::{Client, start};

/// A compound of arbitrary words.
fn raw(client: &mut Client, words: &[u32]) -> Result<Vec<u8>, RpcError> {
    client.xid += 1;
    let header = CallHeader {
        xid: client.xid,
        rpc_version: RPC_VERSION,
        program: PROGRAM,
        version: VERSION,
        procedure: 1,
        credential: Ok(Credential::None),
    };
    let mut out = Vec::new();
    let mark = record::begin(&mut out);
    let mut writer = Writer::new(&mut out);
    header.encode(&mut writer);
    for word in words {
        writer.u32(*word);
    }
    record::end(&mut out, mark, 0);
    client.send(&out);
    let answer = client.receive(1);
    answer.rpc.map(|()| answer.results)
}

#[test]
fn refuses_disabled_minor_versions() {
    let server = server();
    let mut client = Client::connect(&server);
    for minor in [3, u32::MAX] {
        let reply = compound(&mut client, minor, &[]);
        assert_eq!((reply.status(), reply.compound().count()), (Status::MinorVersMismatch, 0));
    }
    let versions = Versions { v4_1: true, ..Versions::NONE };
    let server = start(ServerConfig { versions, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    for (minor, status) in
        [(0, Status::MinorVersMismatch), (1, Status::Ok), (2, Status::MinorVersMismatch)]
    {
        assert_eq!(compound(&mut client, minor, &[]).status(), status);
    }
}

#[test]
fn refuses_unknown_operations_by_number() {
    let server = server();
    let mut client = Client::connect(&server);
    for (words, code, status) in [
        (&[0, 0, 1, 2][..], 10_044, Status::OpIllegal),
        (&[0, 0, 1, 53], 10_044, Status::OpIllegal),
        (&[0, 0, 1, 10_044], 10_044, Status::OpIllegal),
        (&[0, 0, 2, 24, 19, 1], 19, Status::NotSupp),
        (&[0, 0, 2, 24, 15, 5], 15, Status::BadXdr),
        (&[0, 0, 2, 24, 15, u32::MAX, 1], 15, Status::BadXdr),
    ] {
        let reply = raw(&mut client, words).unwrap();
        let tail = &reply[reply.len() - 8..];
        let word = |at: usize| u32::from_be_bytes(tail[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), Status::from_number(word(4))), (code, status), "{words:?}");
    }
    let too_many = raw(&mut client, &[0, 0, u32::MAX, 24]);
    assert_eq!(too_many, Err(RpcError::GarbageArguments));
    assert_eq!(raw(&mut client, &[u32::MAX, 0]), Err(RpcError::GarbageArguments));
    assert_eq!(
        compound(&mut client, 0, &[Op::Putrootfh]).status(),
        Status::Ok,
        "the client can continue"
    );
}

#[test]
fn refuses_oversized_compound() {
    let server = server();
    let mut client = Client::connect(&server);
    let ops = vec![Op::Putrootfh; 129];
    let reply = compound(&mut client, 0, &ops);
    assert_eq!((reply.status(), reply.compound().count()), (Status::Resource, 0));
    assert_eq!(compound(&mut client, 0, &ops[..128]).status(), Status::Ok);
}

#[test]
fn refuses_operations_of_other_minors() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let renew = Op::Renew { client: peer.id };
    assert_eq!(peer.call(&[renew]).status(), Status::NotSupp);
    let seek = Op::Seek { stateid: nfs_proto::nfs4::Stateid::ANONYMOUS, offset: 0, what: 0 };
    let reply = peer.call(&[Op::Putrootfh, seek]);
    let illegal = OpResult::Failed(OpCode::Illegal, Status::OpIllegal);
    assert_eq!(reply.results().pop(), Some(illegal));
    let sequence = peer.sequence_op(true);
    assert_eq!(peer.call(&[sequence]).status(), Status::SequencePos);
}

#[test]
fn distinguishes_invalid_from_stale_handles() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let garbage = nfs_proto::nfs4::FileHandle::from_slice(&[9; 24]).unwrap();
    assert_eq!(peer.call(&[Op::Putfh { file: garbage }]).status(), Status::BadHandle);
    let other = start(ServerConfig::default());
    let mut stranger = Peer::new(&other, 1, b"me");
    let file = stranger.call(&[Op::Putrootfh, Op::Getfh]).file();
    assert_eq!(peer.call(&[Op::Putfh { file }]).status(), Status::Stale);
}
