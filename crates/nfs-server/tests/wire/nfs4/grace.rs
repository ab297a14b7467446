//! The grace period after a planned restart: who may reclaim what, and who has to wait.

use std::time::Duration;

use nfs_proto::Status;
use nfs_proto::nfs3::FileHandle;
use nfs_proto::nfs4::{Claim, Op, OpOk, OpenHow, StateOwner, share};
use nfs_proto::rpc::AuthSys;
use nfs_server::{FaultPlan, Server, ServerConfig};

use super::fixtures::{CHANNEL, Peer, Plain, Reply4, compound, create_session, exchange_id, mode};
use crate::client::{Client, USER, start};

fn server(grace: Duration) -> Server {
    let grace_ns = Some(grace.as_nanos() as u64);
    let faults = FaultPlan { grace_ns, ..FaultPlan::default() };
    start(ServerConfig { faults, ..ServerConfig::default() })
}

/// Longer than any test, shorter than a lease.
const LONG: Duration = Duration::from_secs(60);

/// Registers a client of v4.1 again, which has not sent RECLAIM_COMPLETE yet.
fn again(server: &Server, owner: &[u8], start: u8) -> Peer {
    let mut client = Client::connect(server);
    let (id, sequence) = exchange_id(&mut client, owner, start);
    let reply = compound(&mut client, 1, &[create_session(id, sequence, CHANNEL)]);
    let OpOk::CreateSession { session, .. } = reply.ok() else { unreachable!() };
    Peer { client, minor: 1, id, session, sequence: 0 }
}

fn claim<'a>(owner: StateOwner<'a>, seqid: u32, claim: Claim<'a>) -> Op<'a> {
    Op::Open {
        seqid,
        share_access: share::BOTH,
        share_deny: share::NONE,
        owner,
        how: OpenHow::NoCreate,
        claim,
    }
}

fn reclaim(peer: &mut Peer, file: FileHandle) -> Reply4 {
    let owner = StateOwner { client: peer.id, owner: b"owner" };
    peer.call(&[Op::Putfh { file }, claim(owner, 0, Claim::Previous(0))])
}

fn open_by_handle(peer: &mut Peer, file: FileHandle) -> Status {
    let owner = StateOwner { client: peer.id, owner: b"owner" };
    peer.call(&[Op::Putfh { file }, claim(owner, 0, Claim::Current)]).status()
}

#[test]
fn reclaims_before_new_opens() {
    let server = server(LONG);
    let (file, _) = Peer::new(&server, 1, b"known").open("mine");
    server.restart_now();
    // A new client has to wait, and has nothing to reclaim.
    let mut stranger = Peer::new(&server, 1, b"stranger");
    assert_eq!(open_by_handle(&mut stranger, file), Status::Grace);
    let mut stranger = again(&server, b"other", 1);
    assert_eq!(reclaim(&mut stranger, file).status(), Status::ReclaimBad);
    let mut peer = again(&server, b"known", 1);
    assert_eq!(open_by_handle(&mut peer, file), Status::Grace);
    let reply = reclaim(&mut peer, file);
    let OpOk::Open { stateid, .. } = reply.ok() else { panic!("{:?}", reply.status()) };
    let read = Op::Read { stateid, offset: 0, count: 1 };
    assert_eq!(peer.call(&[Op::Putfh { file }, read]).status(), Status::Ok);
    // It was the only known client, so the others need not wait any longer.
    let complete = Op::ReclaimComplete { one_fs: false };
    assert_eq!(peer.call(&[complete]).status(), Status::Ok);
    assert_eq!(reclaim(&mut peer, file).status(), Status::NoGrace);
    assert_eq!(open_by_handle(&mut peer, file), Status::Ok);
}

/// pynfs REBT3a: half of the clients reclaim, close and finish before a second restart.
#[test]
fn reclaims_state_closed_between_restarts() {
    let server = server(LONG);
    let names: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];
    let files = names.map(|name| {
        let file = std::str::from_utf8(name).unwrap();
        Peer::new(&server, 1, name).open(file).0
    });
    let recover = |index: usize| {
        let mut peer = again(&server, names[index], 1);
        let reply = reclaim(&mut peer, files[index]);
        let OpOk::Open { stateid, .. } = reply.ok() else { unreachable!() };
        assert_eq!(peer.call(&[Op::ReclaimComplete { one_fs: false }]).status(), Status::Ok);
        let close = Op::Close { seqid: 0, stateid };
        assert_eq!(peer.call(&[Op::Putfh { file: files[index] }, close]).status(), Status::Ok);
        peer
    };
    server.restart_now();
    for (index, file) in files.iter().enumerate().take(2) {
        assert_eq!(open_by_handle(&mut recover(index), *file), Status::Grace);
    }
    server.restart_now();
    let mut peers: Vec<Peer> = (0..4).map(recover).collect();
    assert_eq!(open_by_handle(&mut peers[0], files[0]), Status::Ok, "all clients have finished");
}

#[test]
fn checks_rights_of_reclaims() {
    let server = server(LONG);
    let mut owner = Peer::new(&server, 1, b"owner");
    let (file, stateid) = owner.open("mine");
    let mut scratch = Vec::new();
    let shut = Op::Setattr { stateid, attributes: mode(0, &mut scratch) };
    assert_eq!(owner.call(&[Op::Putfh { file }, shut]).status(), Status::Ok);
    Peer::new(&server, 1, b"other");
    server.restart_now();
    let mut other = again(&server, b"other", 1);
    other.client.user = AuthSys { uid: 1001, gid: 101, ..USER };
    assert_eq!(reclaim(&mut other, file).status(), Status::Access);
    let mut owner = again(&server, b"owner", 1);
    assert_eq!(
        reclaim(&mut owner, file).status(),
        Status::Ok,
        "the file was opened before the chmod"
    );
}

#[test]
fn reclaims_in_v4_0_without_confirmation() {
    let server = server(LONG);
    let (file, _) = Plain::new(&server, b"known", 1).open("mine", b"owner");
    server.restart_now();
    let mut peer = Plain::new(&server, b"known", 1);
    assert_eq!(peer.open_reply("mine", b"other", 1).status(), Status::Grace);
    let owner = StateOwner { client: peer.id, owner: b"owner" };
    let reply = peer.call(&[Op::Putfh { file }, claim(owner, 1, Claim::Previous(0))]);
    let OpOk::Open { stateid, flags, .. } = reply.ok() else { panic!("{:?}", reply.status()) };
    assert_eq!(flags & nfs_proto::nfs4::open_result::CONFIRM, 0);
    let close = Op::Close { seqid: 2, stateid };
    assert_eq!(peer.call(&[Op::Putfh { file }, close]).status(), Status::Ok);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test waits for a timeout")]
fn the_grace_period_ends_by_itself() {
    let server = server(Duration::from_millis(300));
    let (file, _) = Peer::new(&server, 1, b"known").open("mine");
    server.restart_now();
    let mut late = Peer::new(&server, 1, b"late");
    let mut waited = 0;
    while open_by_handle(&mut late, file) == Status::Grace {
        std::thread::sleep(Duration::from_millis(20));
        waited += 1;
        assert!(waited < 500, "the grace period never ends");
    }
    assert!(waited > 0, "the grace period had not begun");
    let mut peer = again(&server, b"known", 1);
    assert_eq!(reclaim(&mut peer, file).status(), Status::NoGrace);
}

#[test]
fn keeps_clients_across_second_restart() {
    let server = server(LONG);
    let (file, _) = Peer::new(&server, 1, b"slow").open("mine");
    let (other, _) = Peer::new(&server, 1, b"quick").open("other");
    let (old, _) = Plain::new(&server, b"plain", 1).open("old", b"owner");
    server.restart_now();
    // One client reclaims its state and sends RECLAIM_COMPLETE; the others have not returned yet.
    let mut quick = again(&server, b"quick", 1);
    assert_eq!(reclaim(&mut quick, other).status(), Status::Ok);
    let complete = Op::ReclaimComplete { one_fs: false };
    assert_eq!(quick.call(&[complete]).status(), Status::Ok);
    server.restart_now();
    // No other client opens anything meanwhile.
    let mut stranger = Peer::new(&server, 1, b"stranger");
    for held in [file, other, old] {
        assert_eq!(open_by_handle(&mut stranger, held), Status::Grace);
    }
    let mut slow = again(&server, b"slow", 1);
    assert_eq!(reclaim(&mut slow, file).status(), Status::Ok);
    // State reclaimed in the first grace period is still valid in the second.
    let mut quick = again(&server, b"quick", 1);
    assert_eq!(reclaim(&mut quick, other).status(), Status::Ok);
    let mut plain = Plain::new(&server, b"plain", 1);
    let owner = StateOwner { client: plain.id, owner: b"owner" };
    let reply = plain.call(&[Op::Putfh { file: old }, claim(owner, 1, Claim::Previous(0))]);
    assert_eq!(reply.status(), Status::Ok);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test waits for a timeout")]
fn drops_unreclaimed_state_after_grace() {
    let server = server(Duration::from_millis(100));
    let (file, _) = Peer::new(&server, 1, b"late").open("mine");
    server.restart_now();
    let mut taker = Peer::new(&server, 1, b"taker");
    for waited in 0.. {
        assert!(waited < 2_000, "the grace period never ends");
        match open_by_handle(&mut taker, file) {
            Status::Grace => std::thread::sleep(Duration::from_millis(5)),
            status => {
                assert_eq!(status, Status::Ok);
                break;
            }
        }
    }
    server.restart_now();
    let mut late = again(&server, b"late", 1);
    assert_ne!(reclaim(&mut late, file).status(), Status::Ok);
}
