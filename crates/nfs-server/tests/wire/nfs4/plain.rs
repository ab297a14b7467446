//! NFS v4.0: clients, numbered calls, leases, locks.

use std::time::Duration;

use nfs_proto::Status;
use nfs_proto::nfs4::{LockType, Locker, Op, OpOk, OpResult, StableHow, StateOwner, Stateid};
use nfs_server::ServerConfig;

use super::fixtures::{Plain, opened, server};
use crate::client::start;

fn write(stateid: Stateid, data: &[u8]) -> Op<'_> {
    Op::Write { stateid, offset: 0, stable: StableHow::Unstable, data }
}

fn lock(open: Stateid, seqids: (u32, u32), owner: StateOwner<'_>) -> Op<'_> {
    let (open_seqid, lock_seqid) = seqids;
    let locker = Locker::New { open_seqid, open, lock_seqid, owner };
    let lock_type = LockType::Write;
    Op::Lock { lock_type, reclaim: false, offset: 5, length: 10, locker }
}

#[test]
fn opens_writes_reads_and_closes_file() {
    let server = server();
    let mut plain = Plain::new(&server, b"me", 1);
    let (file, stateid) = plain.open("f", b"owner");
    assert_eq!(stateid.seqid, 2);
    let reply = plain.call(&[Op::Putfh { file }, write(stateid, b"hello")]);
    let OpOk::Write { count, verifier, .. } = reply.ok() else { unreachable!() };
    assert_eq!((count, verifier.0), (5, server.write_verifier()));
    let read = Op::Read { stateid, offset: 1, count: 100 };
    let reply = plain.call(&[Op::Putfh { file }, read]);
    assert_eq!(reply.ok(), OpOk::Read { eof: true, data: b"ello" });
    let close = Op::Close { seqid: 3, stateid };
    let first = plain.call(&[Op::Putfh { file }, close]);
    assert!(matches!(first.ok(), OpOk::Close { .. }));
    let again = plain.call(&[Op::Putfh { file }, close]);
    assert_eq!(again.bytes(), first.bytes(), "the same call again gets the same answer");
    let reply = plain.call(&[Op::Putfh { file }, write(stateid, b"late")]);
    assert_eq!(reply.status(), Status::BadStateid);
    assert_eq!(server.read_file("/export/f").unwrap(), b"hello");
    assert_eq!(server.counters().nfs4_operations[38], 2);
}

#[test]
fn creates_once_for_repeated_open() {
    let server = server();
    let mut plain = Plain::new(&server, b"me", 1);
    let first = plain.open_reply("f", b"owner", 1);
    let again = plain.open_reply("f", b"owner", 1);
    assert_eq!(opened(&again), opened(&first));
    let (file, stateid) = opened(&first);
    let confirm = Op::OpenConfirm { stateid, seqid: 2 };
    assert_eq!(plain.call(&[Op::Putfh { file }, confirm]).status(), Status::Ok);
    assert_eq!(plain.open_reply("g", b"owner", 9).status(), Status::BadSeqid);
    assert_eq!(plain.open_reply("g", b"owner", 3).status(), Status::Ok);
    assert_eq!(server.list_directory("/export").unwrap(), ["f", "g"]);
}

#[test]
fn never_reuses_reply_for_other_operation() {
    let server = server();
    let mut plain = Plain::new(&server, b"me", 1);
    let (file, stateid) = plain.open("f", b"owner");
    // OPEN_CONFIRM was number 2.
    let close = plain.call(&[Op::Putfh { file }, Op::Close { seqid: 2, stateid }]);
    assert_eq!(close.status(), Status::BadSeqid);
    assert_eq!(plain.open_reply("f", b"owner", 2).status(), Status::BadSeqid);
    let close = plain.call(&[Op::Putfh { file }, Op::Close { seqid: 3, stateid }]);
    assert_eq!(close.status(), Status::Ok, "neither call is counted");
}

#[test]
fn names_holder_of_denied_lock() {
    let server = server();
    let mut one = Plain::new(&server, b"1", 1);
    let mut two = Plain::new(&server, b"2", 1);
    let (file, open) = one.open("f", b"o");
    let owner = StateOwner { client: one.id, owner: b"lock" };
    let first = one.call(&[Op::Putfh { file }, lock(open, (3, 1), owner)]);
    let OpOk::Lock { stateid } = first.ok() else { unreachable!() };
    let again = one.call(&[Op::Putfh { file }, lock(open, (3, 1), owner)]);
    assert_eq!(again.bytes(), first.bytes());
    let (_, other) = two.open("f", b"o");
    let stranger = StateOwner { client: two.id, owner: b"lock" };
    let reply = two.call(&[Op::Putfh { file }, lock(other, (3, 1), stranger)]);
    let Some(OpResult::Denied(_, denied)) = reply.results().pop() else { panic!("not denied") };
    assert_eq!((denied.offset, denied.length, denied.owner), (5, 10, owner));
    let unlock =
        Op::Locku { lock_type: LockType::Write, seqid: 2, stateid, offset: 0, length: u64::MAX };
    assert_eq!(one.call(&[Op::Putfh { file }, unlock]).status(), Status::Ok);
    let reply = two.call(&[Op::Putfh { file }, lock(other, (4, 1), stranger)]);
    assert_eq!(reply.status(), Status::BadSeqid, "DENIED counts for the lock owner");
    let reply = two.call(&[Op::Putfh { file }, lock(other, (4, 2), stranger)]);
    assert_eq!(reply.status(), Status::Ok);
}

#[test]
fn reports_expired_lease() {
    let server = start(ServerConfig { lease_s: 1, ..ServerConfig::default() });
    let mut plain = Plain::new(&server, b"me", 1);
    let (file, stateid) = plain.open("f", b"owner");
    // No call is sent, so that nothing renews the lease.
    assert!(plain.client.is_silent_for(Duration::from_millis(1100)));
    let reply = plain.call(&[Op::Putfh { file }, write(stateid, b"late")]);
    assert_eq!(reply.status(), Status::Expired);
    let reply = plain.call(&[Op::Renew { client: plain.id }]);
    assert_eq!(reply.status(), Status::Expired);
    let mut again = Plain::new(&server, b"me", 1);
    let (file, stateid) = again.open("f", b"owner");
    assert_eq!(again.call(&[Op::Putfh { file }, write(stateid, b"now")]).status(), Status::Ok);
}

#[test]
fn forgets_clients_at_planned_restart() {
    let server = server();
    let mut plain = Plain::new(&server, b"me", 1);
    let (file, stateid) = plain.open("f", b"owner");
    server.restart_now();
    let mut after = Plain::new(&server, b"other", 1);
    let reply = after.call(&[Op::Putfh { file }, write(stateid, b"x")]);
    assert_eq!(reply.status(), Status::StaleStateid);
    let reply = after.call(&[Op::Renew { client: plain.id }]);
    assert_eq!(reply.status(), Status::StaleClientId);
    let (same, _) = after.open("f", b"owner");
    assert_eq!(same, file, "handles survive a restart");
}

#[test]
fn special_stateids_obey_what_others_deny() {
    let server = server();
    let mut plain = Plain::new(&server, b"me", 1);
    let (file, _) = plain.open("f", b"owner");
    let reply = plain.call(&[Op::Putfh { file }, write(Stateid::ANONYMOUS, b"hi")]);
    assert_eq!(reply.status(), Status::Ok);
    let read = Op::Read { stateid: Stateid::READ_BYPASS, offset: 0, count: 9 };
    let reply = plain.call(&[Op::Putfh { file }, read]);
    assert_eq!(reply.ok(), OpOk::Read { eof: true, data: b"hi" });
    let mut forged = Stateid::ANONYMOUS;
    forged.other[0] = 1;
    let reply = plain.call(&[Op::Putfh { file }, write(forged, b"no")]);
    assert_ne!(reply.status(), Status::Ok);
    let invalid = plain.call(&[Op::Putfh { file }, write(Stateid::INVALID, b"no")]);
    assert_eq!(invalid.status(), Status::BadStateid);
}
