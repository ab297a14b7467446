//! Asynchronous copies over the wire: the reply, the copying in the background, the report, queries
//! and cancellation.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    CallbackOk, CallbackOp, CallbackResult, CopiedData, FileHandle, List, OffloadResult, Op, OpOk,
    OpResult, StableHow, Stateid, Verifier, direction,
};
use nfs_server::{Server, ServerConfig, StoreMode};

use super::delegations::{answer_callback, callee_in};
use super::fixtures::{Peer, compound, lookup, server, size};
use crate::client::{Client, start};

const MIB: usize = 1 << 20;

/// A client with a file to copy, and one to copy to.
struct Rig {
    peer: Peer,
    /// The connection for callbacks, so that these don't mix with replies.
    callbacks: Client,
    from: (FileHandle, Stateid),
    to: (FileHandle, Stateid),
    data: Vec<u8>,
}

impl Rig {
    fn new(server: &Server, mut peer: Peer, len: usize) -> Self {
        let callbacks = std::mem::replace(&mut peer.client, Client::connect(server));
        let from = peer.open("from");
        let to = peer.open("to");
        let data: Vec<u8> = (0..len as u32).map(|n| (n / 5) as u8).collect();
        for (index, part) in data.chunks(MIB / 2).enumerate() {
            let offset = (index * MIB / 2) as u64;
            let stable = StableHow::Unstable;
            let write = Op::Write { stateid: from.1, offset, stable, data: part };
            assert_eq!(peer.call(&[Op::Putfh { file: from.0 }, write]).status(), Status::Ok);
        }
        Self { peer, callbacks, from, to, data }
    }

    /// A client whose copy takes very long.
    fn endless(server: &Server) -> Self {
        let mut rig = Self::new(server, callee_in(server, b"copier", 2), 0);
        let mut scratch = Vec::new();
        let attributes = size(1 << 50, &mut scratch);
        let grow = Op::Setattr { stateid: rig.from.1, attributes };
        assert_eq!(rig.peer.call(&[Op::Putfh { file: rig.from.0 }, grow]).status(), Status::Ok);
        rig
    }

    /// Requests a copy that need not be complete with its reply.
    fn copy(&mut self, count: u64) -> (Option<Stateid>, u64, Verifier) {
        let copy = Op::Copy {
            source: self.from.1,
            destination: self.to.1,
            source_offset: 0,
            destination_offset: 0,
            count,
            consecutive: true,
            synchronous: false,
            servers: List::default(),
        };
        let ways = [Op::Putfh { file: self.from.0 }, Op::Savefh, Op::Putfh { file: self.to.0 }];
        let reply = self.peer.call(&[ways[0], ways[1], ways[2], copy]);
        let OpOk::Copy { callback_id, count, verifier, synchronous, .. } = reply.ok() else {
            unreachable!()
        };
        assert_eq!(synchronous, callback_id.is_none());
        (callback_id, count, verifier)
    }

    /// Receives the report of a copy and confirms it.
    fn take_report(&mut self) -> (Stateid, OffloadResult) {
        let session = self.peer.session;
        answer_callback(&mut self.callbacks, session, |op| match op {
            CallbackOp::Offload { file, stateid, result } if file == self.to.0 => {
                ((stateid, result), CallbackResult::Ok(CallbackOk::Offload))
            }
            _ => panic!("{op:?}"),
        })
    }

    fn on_copy(&mut self, op: Op<'_>) -> Result<OpOk<'static>, Status> {
        let reply = self.peer.call(&[Op::Putfh { file: self.to.0 }, op]);
        match reply.results().pop().unwrap().ok()? {
            OpOk::OffloadStatus { count, complete } => Ok(OpOk::OffloadStatus { count, complete }),
            OpOk::OffloadCancel => Ok(OpOk::OffloadCancel),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the server has forgotten a copy.
    fn wait_forgotten(&mut self, stateid: Stateid) {
        while self.on_copy(Op::OffloadStatus { stateid }).is_ok() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn reports_end_of_background_copy() {
    let server = server();
    let peer = callee_in(&server, b"copier", 2);
    let mut rig = Rig::new(&server, peer, 5 * MIB + 3);
    let (callback_id, count, verifier) = rig.copy(0);
    let stateid = callback_id.expect("an asynchronous copy");
    assert_eq!((count, stateid.seqid), (0, 1));
    assert_eq!(verifier.0, server.write_verifier());
    let expected = CopiedData {
        callback_id: None,
        count: rig.data.len() as u64,
        committed: StableHow::FileSync,
        verifier,
    };
    assert_eq!(rig.take_report(), (stateid, OffloadResult::Done(expected)));
    assert!(server.read_file("/export/to").unwrap() == rig.data);
    rig.wait_forgotten(stateid);
    let counters = server.counters();
    let copied = (counters.background_copies, counters.copied_bytes);
    assert_eq!(copied, (1, rig.data.len() as u64));
}

#[test]
fn copies_at_once_without_backchannel() {
    let server = server();
    let peer = Peer::new(&server, 2, b"copier");
    let mut rig = Rig::new(&server, peer, MIB);
    assert!(matches!(rig.copy(0), (None, count, _) if count == MIB as u64));
    assert_eq!(server.counters().background_copies, 0);
    let server = self::server();
    let peer = callee_in(&server, b"other", 2);
    let mut rig = Rig::new(&server, peer, 0);
    assert!(matches!(rig.copy(0), (None, 0, _)), "nothing to copy");
}

#[test]
fn answers_queries_until_report_is_confirmed() {
    let server = server();
    let peer = callee_in(&server, b"copier", 2);
    let mut rig = Rig::new(&server, peer, 3 * MIB);
    let stateid = rig.copy(0).0.unwrap();
    let status = Op::OffloadStatus { stateid };
    let complete = OpOk::OffloadStatus { count: 3 * MIB as u64, complete: Some(Status::Ok) };
    // The report is sent, but not confirmed.
    rig.callbacks.receive_record().unwrap();
    assert_eq!(rig.on_copy(status), Ok(complete));
    for wrong in [Stateid { seqid: 0, ..stateid }, Stateid { seqid: 2, ..stateid }, rig.to.1] {
        let found = rig.on_copy(Op::OffloadStatus { stateid: wrong });
        assert_eq!(found, Err(Status::BadStateid));
    }
    let read = Op::Read { stateid, offset: 0, count: 1 };
    let reply = rig.peer.call(&[Op::Putfh { file: rig.to.0 }, read]);
    assert_eq!(reply.status(), Status::BadStateid, "it opens nothing");
    let mut stranger = Peer::new(&server, 2, b"stranger");
    let reply = stranger.call(&[Op::Putfh { file: rig.to.0 }, status]);
    assert_eq!(reply.status(), Status::BadStateid);
    // The report comes again over the next connection.
    rig.callbacks = Client::connect(&server);
    let session = rig.peer.session;
    let bind = Op::BindConnToSession { session, direction: direction::FORE_OR_BOTH, rdma: false };
    assert_eq!(compound(&mut rig.callbacks, 2, &[bind]).status(), Status::Ok);
    assert!(matches!(rig.take_report(), (reported, OffloadResult::Done(_)) if reported == stateid));
    rig.wait_forgotten(stateid);
}

#[test]
fn cancelled_copy_ends_without_report() {
    let server = start(ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() });
    let mut rig = Rig::endless(&server);
    let used = server.client_memory_bytes();
    let stateid = rig.copy(0).0.unwrap();
    let progress = rig.on_copy(Op::OffloadStatus { stateid });
    assert!(matches!(progress, Ok(OpOk::OffloadStatus { complete: None, .. })), "{progress:?}");
    for session in [rig.from, rig.to] {
        let close = Op::Close { seqid: 0, stateid: session.1 };
        assert_eq!(rig.peer.call(&[Op::Putfh { file: session.0 }, close]).status(), Status::Ok);
    }
    let mut other = Client::connect(&server);
    let destroyed = Op::DestroyClientid { client: rig.peer.id };
    assert_eq!(compound(&mut other, 2, &[destroyed]).status(), Status::ClientIdBusy);
    assert_eq!(rig.on_copy(Op::OffloadCancel { stateid }), Ok(OpOk::OffloadCancel));
    assert_eq!(rig.on_copy(Op::OffloadCancel { stateid }), Err(Status::BadStateid));
    assert!(rig.callbacks.is_silent());
    let copied = server.counters().copied_bytes;
    other.mount("/export");
    assert_eq!(server.counters().copied_bytes, copied);
    assert!(server.client_memory_bytes() <= used, "the copy returned its memory");
}

#[test]
fn background_copy_survives_close_and_removal() {
    let server = server();
    let peer = callee_in(&server, b"copier", 2);
    let mut rig = Rig::new(&server, peer, 8 * MIB);
    let used = server.client_memory_bytes();
    let stateid = rig.copy(0).0.unwrap();
    let [from, to] = [rig.from, rig.to];
    for (file, stateid) in [from, to] {
        let close = Op::Close { seqid: 0, stateid };
        assert_eq!(rig.peer.call(&[Op::Putfh { file }, close]).status(), Status::Ok);
    }
    let remove = [Op::Putrootfh, lookup("export"), Op::Remove { name: b"from" }];
    assert_eq!(rig.peer.call(&remove).status(), Status::Ok);
    let (reported, result) = rig.take_report();
    let OffloadResult::Done(CopiedData { count, .. }) = result else { panic!("{result:?}") };
    assert_eq!((reported, count), (stateid, 8 * MIB as u64));
    rig.wait_forgotten(stateid);
    assert!(server.read_file("/export/to").unwrap() == rig.data);
    assert!(server.client_memory_bytes() <= used, "the copy returned its memory");
}

#[test]
fn reports_lack_of_space() {
    let memory_limit_bytes = 64 * MIB as u64;
    let server = start(ServerConfig { memory_limit_bytes, ..ServerConfig::default() });
    let peer = callee_in(&server, b"copier", 2);
    let mut rig = Rig::new(&server, peer, 40 * MIB);
    let stateid = rig.copy(0).0.unwrap();
    let (reported, result) = rig.take_report();
    let OffloadResult::Done(CopiedData { count, .. }) = result else { panic!("{result:?}") };
    assert!(reported == stateid && count > 0 && count < 40 * MIB as u64, "{count}");
    // The client continues after what was copied, and now nothing is.
    let copy = Op::Copy {
        source: rig.from.1,
        destination: rig.to.1,
        source_offset: count,
        destination_offset: count,
        count: 0,
        consecutive: true,
        synchronous: false,
        servers: List::default(),
    };
    let ways = [Op::Putfh { file: rig.from.0 }, Op::Savefh, Op::Putfh { file: rig.to.0 }];
    let reply = rig.peer.call(&[ways[0], ways[1], ways[2], copy]);
    let Some(OpResult::Ok(OpOk::Copy { callback_id: Some(stateid), .. })) = reply.results().pop()
    else {
        panic!("not asynchronous")
    };
    assert_eq!(rig.take_report(), (stateid, OffloadResult::Failed(Status::NoSpc, 0)));
}

#[test]
fn restart_ends_background_copies() {
    let server = start(ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() });
    let mut rig = Rig::endless(&server);
    let stateid = rig.copy(0).0.unwrap();
    assert!(rig.on_copy(Op::OffloadStatus { stateid }).is_ok());
    server.restart_now();
    let copied = server.counters().copied_bytes;
    let mut client = Client::connect(&server);
    client.mount("/export");
    assert_eq!(server.counters().copied_bytes, copied);
}

#[test]
fn serves_others_during_background_copies() {
    let threads = 1;
    let store = StoreMode::Discard;
    let server = start(ServerConfig { store, threads, ..ServerConfig::default() });
    let mut rig = Rig::endless(&server);
    let copies = [rig.copy(0).0.unwrap(), rig.copy(0).0.unwrap()];
    let mut client = Client::connect(&server);
    for _ in 0..20 {
        client.mount("/export");
    }
    for stateid in copies {
        let count = match rig.on_copy(Op::OffloadStatus { stateid }) {
            Ok(OpOk::OffloadStatus { count, complete: None }) => count,
            other => panic!("{other:?}"),
        };
        assert!(count > 0, "the copies take turns");
        assert_eq!(rig.on_copy(Op::OffloadCancel { stateid }), Ok(OpOk::OffloadCancel));
    }
}
