//! NFS v4.1: sessions, exactly once, limits, current stateids.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, ChangeInfo, ChannelAttributes, Op, OpOk, OpResult, StableHow, Stateid, attribute,
};

use super::fixtures::{
    CHANNEL, Peer, compound, create_session, exchange_id, lookup, open_op, server,
};
use crate::client::Client;

const EXPORT: [Op<'static>; 2] = [Op::Putrootfh, Op::Lookup { name: b"export" }];

#[test]
fn replays_cached_reply() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    peer.open("f");
    let ops = [EXPORT[0], EXPORT[1], Op::Remove { name: b"f" }];
    let first = peer.call(&ops);
    assert_eq!(first.status(), Status::Ok);
    let removed = server.counters().nfs4_operations[28];
    let again = peer.again(&ops, true);
    assert_eq!(again.bytes(), first.bytes());
    // Also on another connection.
    let mut other = Client::connect(&server);
    let mut all = vec![peer.sequence_op(true)];
    all.extend(ops);
    assert_eq!(compound(&mut other, 1, &all).bytes(), first.bytes());
    assert_eq!(server.counters().nfs4_operations[28], removed, "REMOVE ran once");
    assert_eq!(peer.call(&ops).status(), Status::NoEnt);
}

#[test]
fn reports_uncached_reply() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    peer.sequence += 1;
    assert_eq!(peer.again(&EXPORT, false).status(), Status::Ok);
    let again = peer.again(&EXPORT, false);
    let [sequence, second] = again.results()[..] else { panic!("two results") };
    assert_eq!(sequence.status(), Status::Ok);
    assert_eq!(second.status(), Status::RetryUncachedRep);
    assert_eq!(peer.again(&[], false).status(), Status::Ok, "a lone SEQUENCE is always cached");
    peer.sequence += 2;
    assert_eq!(peer.again(&EXPORT, true).status(), Status::SeqMisordered);
    peer.sequence -= 1;
    assert_eq!(peer.again(&EXPORT, true).status(), Status::Ok);
}

#[test]
fn detects_false_retry() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    peer.open("f");
    assert_eq!(peer.call(&EXPORT).status(), Status::Ok);
    let other = [EXPORT[0], EXPORT[1], Op::Remove { name: b"f" }];
    assert_eq!(peer.again(&other, true).status(), Status::SeqFalseRetry);
    assert_eq!(peer.again(&EXPORT, true).status(), Status::Ok, "the call itself is still cached");
    peer.sequence += 1;
    assert_eq!(peer.again(&EXPORT, false).status(), Status::Ok);
    assert_eq!(peer.again(&other, false).status(), Status::SeqFalseRetry);
    peer.open("f");
}

#[test]
fn limits_calls_outside_sessions() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let mut alone = |ops: &[Op<'_>]| compound(&mut peer.client, 1, ops).status();
    assert_eq!(alone(&[]), Status::Ok);
    assert_eq!(alone(&EXPORT), Status::OpNotInSession);
    let destroy = Op::DestroySession { session: peer.session };
    assert_eq!(alone(&[destroy, Op::Putrootfh]), Status::NotOnlyOp);
    let bad_slot = Op::Sequence {
        session: peer.session,
        sequence: 1,
        slot: 4,
        highest_slot: 4,
        cache_this: false,
    };
    assert_eq!(alone(&[bad_slot]), Status::BadSlot);
    assert_eq!(alone(&[destroy]), Status::Ok);
    assert_eq!(peer.call(&EXPORT).status(), Status::BadSession);
}

#[test]
fn creates_session_once_per_number() {
    let server = server();
    let mut client = Client::connect(&server);
    let (id, sequence) = exchange_id(&mut client, b"me", 1);
    let mut create = |sequence| compound(&mut client, 1, &[create_session(id, sequence, CHANNEL)]);
    assert_eq!(create(sequence.wrapping_sub(1)).status(), Status::SeqMisordered);
    let first = create(sequence);
    assert_eq!(create(sequence).bytes(), first.bytes());
    assert_eq!(create(sequence + 2).status(), Status::SeqMisordered);
    let tiny = ChannelAttributes { response_bytes_max: 20, ..CHANNEL };
    let op = create_session(id, sequence + 1, tiny);
    assert_eq!(compound(&mut client, 1, &[op]).status(), Status::TooSmall);
    let huge = ChannelAttributes { requests_max: 1 << 30, ..CHANNEL };
    let reply = compound(&mut client, 1, &[create_session(id, sequence + 1, huge)]);
    let OpOk::CreateSession { fore, .. } = reply.ok() else { unreachable!() };
    assert_eq!(fore.requests_max, nfs_server::limits::NFS4_SESSION_SLOTS_MAX);
}

#[test]
fn enforces_session_limits() {
    let server = server();
    let channel = ChannelAttributes {
        request_bytes_max: 600,
        response_bytes_max: 500,
        cached_bytes_max: 300,
        operations_max: 6,
        ..CHANNEL
    };
    let mut peer = Peer::with_channel(&server, 1, b"me", channel);
    let many = [Op::Putrootfh; 6];
    assert_eq!(peer.call(&many).status(), Status::TooManyOps);
    peer.sequence -= 1;
    let name = [b'n'; 600];
    let long = peer.call(&[Op::Putrootfh, Op::Lookup { name: &name }]);
    assert_eq!(long.status(), Status::ReqTooBig);
    peer.sequence -= 1;
    let request = Bitmap::from_numbers(&[
        attribute::FILEHANDLE,
        attribute::OWNER,
        attribute::TIME_ACCESS,
        attribute::TIME_METADATA,
        attribute::TIME_MODIFY,
        attribute::FSID,
    ]);
    let get = Op::Getattr { request };
    let ops = [Op::Putrootfh, get, get, get];
    assert_eq!(peer.call(&ops).status(), Status::RepTooBigToCache);
    peer.sequence += 1;
    assert_eq!(peer.again(&ops, false).status(), Status::Ok);
    peer.sequence += 1;
    let reply = peer.again(&[Op::Putrootfh, get, get, get, get], false);
    assert_eq!(reply.status(), Status::RepTooBig);
    assert!(reply.bytes().len() <= 500);
}

#[test]
fn uses_new_open_within_compound() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let mut scratch = Vec::new();
    let open = open_op(peer.id, "f", b"o", &mut scratch);
    let current = Stateid::CURRENT;
    let write = Op::Write { stateid: current, offset: 0, stable: StableHow::FileSync, data: b"hi" };
    let read = Op::Read { stateid: current, offset: 0, count: 10 };
    let reply = peer.call(&[EXPORT[0], EXPORT[1], open, write, read]);
    assert_eq!(reply.ok(), OpOk::Read { eof: true, data: b"hi" });
    let close = Op::Close { seqid: 0, stateid: current };
    let reply = peer.call(&[EXPORT[0], EXPORT[1], open, Op::Savefh, Op::Putrootfh, close]);
    assert_eq!(reply.status(), Status::BadStateid, "another handle, no current stateid");
    let reply =
        peer.call(&[EXPORT[0], EXPORT[1], open, Op::Savefh, Op::Putrootfh, Op::Restorefh, close]);
    assert_eq!(reply.status(), Status::Ok, "the stateid is saved with the handle");
}

#[test]
fn tests_and_frees_stateids() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let (_, stateid) = peer.open("f");
    let mut scratch = Vec::new();
    let old = Stateid { seqid: 9, ..stateid };
    let wanted = [stateid, old, Stateid::ANONYMOUS];
    let stateids = nfs_proto::nfs4::List::build(&mut scratch, wanted);
    let reply = peer.call(&[Op::TestStateid { stateids }]);
    let OpOk::TestStateid { statuses } = reply.ok() else { unreachable!() };
    let statuses: Vec<_> = statuses.iter().collect();
    assert_eq!(statuses, [Status::Ok, Status::BadStateid, Status::BadStateid]);
    let reply = peer.call(&[Op::FreeStateid { stateid }]);
    assert_eq!(reply.status(), Status::LocksHeld);
}

#[test]
fn reports_bad_session_after_restart() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    server.restart_now();
    let client = Client::connect(&server);
    peer.client = client;
    assert_eq!(peer.call(&EXPORT).status(), Status::BadSession);
    let op = create_session(peer.id, 9, CHANNEL);
    assert_eq!(compound(&mut peer.client, 1, &[op]).status(), Status::StaleClientId);
    let mut next = Peer::new(&server, 1, b"me");
    let read = Op::Read { stateid, offset: 0, count: 1 };
    assert_eq!(next.call(&[Op::Putfh { file }, read]).status(), Status::BadStateid);
    let done = Op::ReclaimComplete { one_fs: false };
    assert_eq!(next.call(&[done]).status(), Status::CompleteAlready);
}

#[test]
fn replaces_restarted_client() {
    let server = server();
    let mut old = Peer::new(&server, 1, b"me");
    let (file, _) = old.open("f");
    let mut client = Client::connect(&server);
    let (id, sequence) = exchange_id(&mut client, b"me", 2);
    assert_ne!(id, old.id);
    assert_eq!(old.call(&EXPORT).status(), Status::Ok);
    let reply = compound(&mut client, 1, &[create_session(id, sequence, CHANNEL)]);
    assert_eq!(reply.status(), Status::Ok);
    assert_eq!(old.call(&EXPORT).status(), Status::BadSession);
    let _ = file;
}

#[test]
fn delays_open_until_reclaim_ends() {
    let server = server();
    let mut client = Client::connect(&server);
    let (id, sequence) = exchange_id(&mut client, b"me", 1);
    let reply = compound(&mut client, 1, &[create_session(id, sequence, CHANNEL)]);
    let OpOk::CreateSession { session, .. } = reply.ok() else { unreachable!() };
    let mut peer = Peer { client, minor: 1, id, session, sequence: 0 };
    let mut scratch = Vec::new();
    let open = open_op(id, "f", b"o", &mut scratch);
    assert_eq!(peer.call(&[EXPORT[0], EXPORT[1], open]).status(), Status::Grace);
    assert!(server.list_directory("/export").unwrap().is_empty());
    assert_eq!(peer.call(&[Op::ReclaimComplete { one_fs: false }]).status(), Status::Ok);
    assert_eq!(peer.call(&[EXPORT[0], EXPORT[1], open]).status(), Status::Ok);
}

#[test]
fn reports_both_directories_of_rename() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    peer.open("a");
    let rename = Op::Rename { from: b"a", to: b"b" };
    let reply = peer.call(&[EXPORT[0], EXPORT[1], Op::Savefh, rename]);
    let OpOk::Rename { from, to } = reply.ok() else { unreachable!() };
    let ChangeInfo { atomic, before, after } = from;
    assert!(atomic && before < after);
    assert_eq!(from, to);
    assert_eq!(peer.call(&[EXPORT[0], EXPORT[1], lookup("a")]).status(), Status::NoEnt);
    let found = peer.call(&[EXPORT[0], EXPORT[1], lookup("b")]);
    assert!(matches!(found.results().last(), Some(OpResult::Ok(OpOk::Lookup))));
}
