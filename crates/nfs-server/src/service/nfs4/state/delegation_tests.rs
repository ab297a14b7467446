//! Delegations in virtual time: granted, refused, recalled, returned, revoked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::nfs4::sequence_status::{
    CB_PATH_DOWN, CB_PATH_DOWN_SESSION, RECALLABLE_STATE_REVOKED,
};
use nfs_proto::nfs4::{FileHandle, List, NoDelegation};

use super::tests::{LEASE_NS, World, share};
use super::*;
use crate::callback_line::CallbackLine;
use crate::fs::InodeId;
use crate::mailbox::{LoopOrder, Mailbox};
use nfs_proto::nfs4::Stateid;

const READS: Share = Share { access: READ, deny: 0 };
const WRITES: Share = Share { access: WRITE, deny: 0 };
const SECOND_NS: u64 = 1_000_000_000;

/// A client with a session, and a connection for callbacks.
struct Callee {
    client: Arc<Client>,
    session: Arc<Session>,
    mailbox: Arc<Mailbox>,
    line: Option<Arc<CallbackLine>>,
}

impl Callee {
    fn new(world: &World, owner: &[u8]) -> Self {
        let (client, id) = world.modern(owner, 1);
        let session = world.tables.find_session(id, world.now_ns).unwrap();
        session.backchannel.set_caller(CallbackCaller::new(7, 1, &List::default()));
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let mut callee = Self { client, session, mailbox, line: None };
        callee.reconnect();
        callee
    }

    /// Binds a new connection, replacing the old one.
    fn reconnect(&mut self) {
        let line = Arc::new(CallbackLine::new(Arc::clone(&self.mailbox), 1));
        self.session.bind_backchannel(Some(&line));
        self.line = Some(line);
    }

    fn delegate(&self, world: &World, file: InodeId) -> Result<Stateid, NoDelegation> {
        world.open(&self.client, b"reader", file, READS).unwrap();
        self.delegate_only(world, file)
    }

    fn delegate_only(&self, world: &World, file: InodeId) -> Result<Stateid, NoDelegation> {
        let handle = FileHandle::from_slice(&world.fs.handle(file)).unwrap();
        let pin = world.fs.pin(file).unwrap();
        world.tables.grant_delegation(&self.session, pin, handle, world.now_ns)
    }

    /// Number of calls sent since the last time.
    fn calls(&self) -> usize {
        let orders = self.mailbox.take();
        assert!(orders.iter().all(|order| matches!(order, LoopOrder::CallBack(1, _))));
        orders.len()
    }

    fn reply(&self, reply: RecallReply) {
        self.session.backchannel.note_reply(reply);
    }

    fn give_back(&self, world: &World, file: InodeId, stateid: &Stateid) -> Result<(), Status> {
        let requester = Requester::Session(&self.client);
        let state = world.tables.find_delegation(stateid, requester, file, world.now_ns)?;
        world.tables.return_delegation(&state)
    }

    fn read(&self, world: &World, file: InodeId, stateid: &Stateid) -> Result<(), Status> {
        let requester = Requester::Session(&self.client);
        world.tables.check_io(stateid, requester, file, READ, world.now_ns)
    }
}

/// Numbers of delegations granted, recalled, returned and revoked.
fn counts(world: &World) -> [u64; 4] {
    let counts = &world.tables.delegation_counts;
    let all = [&counts.granted, &counts.recalled, &counts.returned, &counts.revoked];
    all.map(|count| count.load(Ordering::Relaxed))
}

#[test]
fn delegates_to_single_reader() {
    let world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    assert!(!world.tables.has_delegations());
    let stateid = reader.delegate(&world, file).unwrap();
    assert!(world.tables.has_delegations());
    assert_eq!(reader.read(&world, file, &stateid), Ok(()));
    let requester = Requester::Session(&reader.client);
    let writes = world.tables.check_io(&stateid, requester, file, WRITE, world.now_ns);
    assert_eq!(writes, Err(Status::OpenMode));
    let again = reader.delegate(&world, file);
    assert_eq!(again, Err(NoDelegation::Contention), "one delegation per file");
    // Another reader gets its own delegation, and reading recalls nothing.
    let second = Callee::new(&world, b"second");
    assert!(second.delegate(&world, file).is_ok());
    assert_eq!((reader.calls(), second.calls()), (0, 0));
    assert_eq!(reader.give_back(&world, file, &stateid), Ok(()));
    assert_eq!(reader.give_back(&world, file, &stateid), Err(Status::BadStateid));
    assert_eq!(reader.read(&world, file, &stateid), Err(Status::BadStateid));
    assert_eq!(counts(&world), [2, 0, 1, 0]);
}

#[test]
fn requires_backchannel_and_no_writer() {
    let world = World::new();
    let file = world.file("f");
    let mut reader = Callee::new(&world, b"reader");
    let (writer, _) = world.modern(b"writer", 1);
    let open = world.open(&writer, b"o", file, WRITES).unwrap();
    assert_eq!(reader.delegate(&world, file), Err(NoDelegation::Contention));
    let state = world.tables.find_state(&open, Requester::Session(&writer), world.now_ns).unwrap();
    world.tables.close_open(&state).unwrap();
    reader.line = None;
    assert_eq!(reader.delegate_only(&world, file), Err(NoDelegation::Resource), "no connection");
    let down = CB_PATH_DOWN | CB_PATH_DOWN_SESSION;
    assert_eq!(reader.client.status_flags(), down, "the client is told to bind a connection");
    reader.reconnect();
    assert_eq!(reader.client.status_flags(), 0);
    // A client's own opens for writing do not recall it.
    world.open(&reader.client, b"own", file, WRITES).unwrap();
    assert!(reader.delegate_only(&world, file).is_ok());
}

#[test]
fn does_not_request_unusable_backchannel() {
    let world = World::new();
    let file = world.file("f");
    let (client, id) = world.modern(b"never called", 1);
    let session = world.tables.find_session(id, world.now_ns).unwrap();
    world.open(&client, b"o", file, READS).unwrap();
    let handle = FileHandle::from_slice(&world.fs.handle(file)).unwrap();
    let pin = world.fs.pin(file).unwrap();
    let refused = world.tables.grant_delegation(&session, pin, handle, world.now_ns);
    assert_eq!(refused, Err(NoDelegation::Resource));
    assert_eq!(client.status_flags(), 0);
    assert_eq!(counts(&world), [0; 4]);
}

#[test]
fn delays_writer_until_return() {
    let mut world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    let stateid = reader.delegate(&world, file).unwrap();
    let (writer, _) = world.modern(b"writer", 1);
    let refused = world.open(&writer, b"o", file, WRITES);
    assert_eq!((refused, reader.calls()), (Err(Status::Jukebox), 1));
    reader.reply(RecallReply::Confirmed);
    // The recall is sent only once, however often the writer tries.
    world.now_ns += SECOND_NS;
    let refused = world.open(&writer, b"o", file, WRITES);
    assert_eq!((refused, reader.calls()), (Err(Status::Jukebox), 0));
    assert_eq!(
        reader.read(&world, file, &stateid),
        Ok(()),
        "the delegation is valid until it is returned"
    );
    assert_eq!(world.open(&writer, b"r", file, share(READ, WRITE)).err(), None, "no conflict");
    assert_eq!(reader.give_back(&world, file, &stateid), Ok(()));
    assert_eq!(counts(&world), [1, 1, 1, 0], "a single recall");
    // The first writer, which has an open that denies writing, may not; another may.
    let other = world.file("other");
    assert!(world.open(&writer, b"o", other, WRITES).is_ok());
    assert!(!world.tables.has_delegations());
    // For a while the file is not delegated again.
    world.now_ns += 29 * SECOND_NS;
    assert_eq!(reader.delegate_only(&world, file), Err(NoDelegation::Contention));
    world.now_ns += 61 * SECOND_NS;
    let reader = Callee::new(&world, b"new reader");
    assert!(reader.delegate(&world, file).is_ok());
}

#[test]
fn recalls_only_from_other_clients() {
    let world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    reader.delegate(&world, file).unwrap();
    let tables = &world.tables;
    let now_ns = world.now_ns;
    assert_eq!(tables.recall_from_others(file, Some(&reader.client), now_ns), Ok(()));
    let other = world.file("other");
    assert_eq!(tables.recall_from_others(other, None, now_ns), Ok(()));
    assert!(world.open(&reader.client, b"own", file, WRITES).is_ok());
    assert_eq!(reader.calls(), 0);
    assert_eq!(tables.recall_from_others(file, None, now_ns), Err(Status::Jukebox));
    assert_eq!(reader.calls(), 1);
}

#[test]
fn revokes_delegation_after_lease() {
    let mut world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    let stateid = reader.delegate(&world, file).unwrap();
    let (writer, _) = world.modern(b"writer", 1);
    assert_eq!(world.open(&writer, b"o", file, WRITES), Err(Status::Jukebox));
    // Both clients are alive: what counts is the lease period since the recall, not the client's
    // lease.
    world.now_ns += LEASE_NS / 2;
    for client in [&reader.client, &writer] {
        client.renew(world.now_ns);
    }
    assert_eq!(world.open(&writer, b"o", file, WRITES), Err(Status::Jukebox));
    world.now_ns += LEASE_NS / 2 + 1;
    assert!(world.open(&writer, b"o", file, WRITES).is_ok());
    assert_eq!(reader.client.status_flags(), RECALLABLE_STATE_REVOKED);
    assert_eq!(counts(&world), [1, 1, 0, 1]);
    assert_eq!(reader.read(&world, file, &stateid), Err(Status::DelegRevoked));
    let tested = world.tables.test_stateid(&stateid, &reader.client, world.now_ns);
    assert_eq!(tested, Err(Status::DelegRevoked));
    let requester = Requester::Session(&reader.client);
    let state = world.tables.find_state(&stateid, requester, world.now_ns).unwrap();
    assert_eq!(world.tables.free_state(&state), Ok(()));
    assert_eq!(reader.client.status_flags(), 0);
    let tested = world.tables.test_stateid(&stateid, &reader.client, world.now_ns);
    assert_eq!(tested, Err(Status::BadStateid));
}

#[test]
fn protects_delegation_in_use() {
    let world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    let stateid = reader.delegate(&world, file).unwrap();
    let requester = Requester::Session(&reader.client);
    let state = world.tables.find_state(&stateid, requester, world.now_ns).unwrap();
    assert_eq!(world.tables.free_state(&state), Err(Status::LocksHeld));
    assert_eq!(world.tables.close_open(&state), Err(Status::BadStateid));
    assert_eq!(world.tables.downgrade_open(&state, READS), Err(Status::BadStateid));
    let span = Span::new(0, 1).unwrap();
    let request = LockRequest { owner: b"l", span, mode: LockMode::Shared };
    assert!(world.tables.lock_range(&state, request, world.now_ns).is_err());
    assert_eq!(reader.read(&world, file, &stateid), Ok(()));
}

#[test]
fn ignores_client_that_is_gone() {
    let mut world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    reader.delegate(&world, file).unwrap();
    let busy = world.tables.destroy_client(reader.client.id, world.now_ns);
    assert_eq!(busy, Err(Status::ClientIdBusy));
    world.now_ns += LEASE_NS + 1;
    let (writer, _) = world.modern(b"writer", 1);
    assert!(world.open(&writer, b"o", file, WRITES).is_ok());
    assert_eq!(reader.calls(), 0, "no recall is sent");
    world.now_ns += LEASE_NS + 1;
    assert!(world.tables.client(writer.id, world.now_ns).is_err());
    assert!(!world.tables.has_delegations());
    world.assert_empty();
}

#[test]
fn repeats_recall_after_lost_connection() {
    let world = World::new();
    let file = world.file("f");
    let mut reader = Callee::new(&world, b"reader");
    let stateid = reader.delegate(&world, file).unwrap();
    reader.line = None;
    let (writer, _) = world.modern(b"writer", 1);
    assert_eq!(world.open(&writer, b"o", file, WRITES), Err(Status::Jukebox));
    assert_eq!(reader.calls(), 0);
    assert_ne!(
        reader.client.status_flags() & CB_PATH_DOWN,
        0,
        "the client has to bind a connection"
    );
    reader.reconnect();
    assert_eq!(reader.client.status_flags(), 0);
    assert_eq!(world.open(&writer, b"o", file, WRITES), Err(Status::Jukebox));
    assert_eq!(reader.calls(), 1);
    // The call is lost with its connection: binding another one sends it again.
    reader.line = None;
    reader.reconnect();
    assert_eq!(reader.calls(), 1);
    // A client that does not know the delegation yet is called again.
    reader.reply(RecallReply::Failed);
    assert_eq!(world.open(&writer, b"o", file, WRITES), Err(Status::Jukebox));
    assert_eq!(reader.calls(), 1);
    reader.reply(RecallReply::Confirmed);
    assert_eq!(reader.give_back(&world, file, &stateid), Ok(()));
    assert!(world.open(&writer, b"o", file, WRITES).is_ok());
}

#[test]
fn sends_recalls_in_turn() {
    let world = World::new();
    let reader = Callee::new(&world, b"reader");
    let files = ["a", "b", "c"].map(|name| world.file(name));
    let stateids = files.map(|file| reader.delegate(&world, file).unwrap());
    for file in files {
        let refused = world.tables.recall_from_others(file, None, world.now_ns);
        assert_eq!(refused, Err(Status::Jukebox));
    }
    assert_eq!(reader.calls(), 1, "the backchannel has one slot");
    // A delegation returned before its turn is not recalled.
    assert_eq!(reader.give_back(&world, files[1], &stateids[1]), Ok(()));
    reader.reply(RecallReply::Confirmed);
    assert_eq!(reader.calls(), 1);
    reader.reply(RecallReply::Confirmed);
    assert_eq!(reader.calls(), 0);
}

#[test]
fn reclaims_files_delegated_before_restart() {
    let world = World::new();
    let file = world.file("f");
    let reader = Callee::new(&world, b"reader");
    reader.delegate(&world, file).unwrap();
    world.tables.restart(8, world.now_ns, Some(LEASE_NS));
    assert!(!world.tables.has_delegations());
    let reader = Callee::new(&world, b"reader");
    assert_eq!(world.tables.may_reclaim(&reader.client, world.now_ns), Ok(()));
    assert!(reader.delegate(&world, file).is_ok());
}
