//! The state tables in virtual time: leases, clients that restart, opens, locks, sequence numbers.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{ChannelAttributes, Stateid};

use super::exchange::{ExchangeKind, ExchangedClient};
use super::*;
use crate::fs::{Context, CreateMode, FileSystem, FileTime, InodeId, SetAttributes, StoreMode};

pub(super) const LEASE_NS: u64 = 90_000_000_000;
const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_bytes: 0,
    request_bytes_max: 4096,
    response_bytes_max: 4096,
    cached_bytes_max: 1024,
    operations_max: 16,
    requests_max: 8,
    rdma_ird: None,
};

pub(super) struct World {
    pub(super) fs: FileSystem,
    pub(super) tables: Tables,
    pub(super) now_ns: u64,
}

fn identity(owner: &[u8], start: u8) -> Identity<'_> {
    Identity { owner, verifier: [start; 8], principal: 1000 }
}

pub(super) fn share(access: u32, deny: u32) -> Share {
    Share { access, deny }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_memory(1 << 30)
    }

    fn with_memory(bytes: u64) -> Self {
        let fs = FileSystem::new(StoreMode::Keep, 1 << 20, 7, FileTime(1));
        let memory = Arc::new(Memory::new(bytes, 1));
        Self { fs, tables: Tables::new(7, LEASE_NS, memory), now_ns: 1_000_000_000_000 }
    }

    pub(super) fn file(&self, name: &str) -> InodeId {
        let set = SetAttributes::default();
        let mode = CreateMode::Unchecked;
        let root = self.fs.root();
        self.fs.create(root, name.as_bytes(), mode, &set, &Context::default()).unwrap().id
    }

    /// A confirmed v4.0 client.
    fn plain(&self, owner: &[u8], start: u8) -> Arc<Client> {
        let (id, confirm) = self.tables.set_client_id(identity(owner, start), self.now_ns).unwrap();
        self.tables.confirm_client_id(id, confirm, 1000, self.now_ns).unwrap();
        self.tables.client(id, self.now_ns).unwrap()
    }

    fn create_session(&self, client: u64, sequence: u32) -> Result<CreatedSession, Status> {
        let request = SessionRequest {
            client,
            sequence,
            principal: 1000,
            flags: 0,
            fore: CHANNEL,
            back: CHANNEL,
        };
        self.tables.create_session(&request, || Ok(()), self.now_ns)
    }

    /// A v4.1 client with one session.
    pub(super) fn modern(&self, owner: &[u8], start: u8) -> (Arc<Client>, [u8; 16]) {
        let made = self
            .tables
            .exchange_id(identity(owner, start), ExchangeKind::Introduce, self.now_ns)
            .unwrap();
        let session = self.create_session(made.id, made.sequence).unwrap();
        (self.tables.client(made.id, self.now_ns).unwrap(), session.id)
    }

    pub(super) fn open(
        &self,
        client: &Arc<Client>,
        owner: &[u8],
        file: InodeId,
        share: Share,
    ) -> Result<Stateid, Status> {
        let pin = self.fs.pin(file).unwrap();
        self.tables.open_file(client, owner, pin, share, self.now_ns).map(|opened| opened.stateid)
    }

    fn state(&self, stateid: &Stateid) -> Arc<State> {
        self.tables.states.get(held_state::client_and_key(stateid).1).unwrap()
    }

    fn lock(
        &self,
        stateid: &Stateid,
        owner: &[u8],
        (offset, length): (u64, u64),
        mode: LockMode,
    ) -> Result<Stateid, LockRefusal> {
        let span = Span::new(offset, length)?;
        let request = LockRequest { owner, span, mode };
        self.tables.lock_range(&self.state(stateid), request, self.now_ns)
    }

    fn check(&self, stateid: &Stateid, client: &Arc<Client>, file: InodeId) -> Result<(), Status> {
        let requester = if client.has_sessions() {
            Requester::Session(client)
        } else {
            Requester::WithoutSession
        };
        self.tables.check_io(stateid, requester, file, WRITE, self.now_ns)
    }

    /// Asserts that no client has left anything behind.
    pub(super) fn assert_empty(&self) {
        assert_eq!((self.tables.states.len(), self.tables.sessions.len()), (0, 0));
        assert_eq!(self.tables.ranges.load(Ordering::Relaxed), 0);
        assert_eq!(self.tables.slots_left.load(Ordering::Relaxed), NFS4_SLOTS_MAX);
        assert!(!self.tables.files.has_deniers());
        assert!(self.tables.confirmed_clients().is_empty());
    }
}

#[test]
fn confirms_v4_0_client_twice() {
    let world = World::new();
    let now = world.now_ns;
    let (id, confirm) = world.tables.set_client_id(identity(b"a", 1), now).unwrap();
    assert_eq!(world.tables.client(id, now).unwrap_err(), Status::StaleClientId);
    let wrong = world.tables.confirm_client_id(id, [0; 8], 1000, now);
    assert_eq!(wrong, Err(Status::StaleClientId));
    let other = world.tables.confirm_client_id(id, confirm, 7, now);
    assert_eq!(other, Err(Status::ClidInUse));
    for _ in 0..2 {
        assert_eq!(world.tables.confirm_client_id(id, confirm, 1000, now), Ok(()));
    }
    assert_eq!(world.tables.client(id, now).unwrap().id, id);
    // The same start again: a new callback address for the same client.
    let (again, second) = world.tables.set_client_id(identity(b"a", 1), now).unwrap();
    assert_eq!(again, id);
    assert_ne!(second, confirm);
    assert_eq!(world.tables.confirm_client_id(id, second, 1000, now), Ok(()));
    assert_eq!(world.tables.confirm_client_id(id, confirm, 1000, now), Err(Status::StaleClientId));
}

#[test]
fn drops_old_state_at_confirmation() {
    let world = World::new();
    let file = world.file("f");
    let old = world.plain(b"a", 1);
    let stateid = world.open(&old, b"o", file, share(3, 3)).unwrap();
    let (id, confirm) = world.tables.set_client_id(identity(b"a", 2), world.now_ns).unwrap();
    assert_ne!(id, old.id);
    assert_eq!(world.check(&stateid, &old, file), Ok(()), "not before it is confirmed");
    world.tables.confirm_client_id(id, confirm, 1000, world.now_ns).unwrap();
    assert_eq!(world.check(&stateid, &old, file), Err(Status::Expired));
    assert_eq!(world.open(&old, b"o", file, share(3, 0)), Err(Status::Expired));
    let new = world.tables.client(id, world.now_ns).unwrap();
    assert!(world.open(&new, b"o", file, share(3, 3)).is_ok(), "nothing conflicts");
}

#[test]
fn protects_client_name_with_state() {
    let world = World::new();
    let thief = Identity { principal: 66, ..identity(b"a", 1) };
    let now = world.now_ns;
    let old = world.plain(b"a", 1);
    assert!(world.tables.set_client_id(thief, now).is_ok(), "it has no state");
    world.open(&old, b"o", world.file("f"), share(1, 0)).unwrap();
    assert_eq!(world.tables.set_client_id(thief, now), Err(Status::ClidInUse));
    let (modern, _) = world.modern(b"a", 1);
    assert_eq!(world.tables.exchange_id(thief, ExchangeKind::Update, now), Err(Status::Perm));
    world.open(&modern, b"o", world.file("g"), share(1, 0)).unwrap();
    assert_eq!(
        world.tables.exchange_id(thief, ExchangeKind::Introduce, now),
        Err(Status::ClidInUse)
    );
}

#[test]
fn exchange_id_follows_the_table() {
    let world = World::new();
    let tables = &world.tables;
    let now = world.now_ns;
    let unknown = tables.exchange_id(identity(b"a", 1), ExchangeKind::Update, now);
    assert_eq!(unknown, Err(Status::NoEnt), "case 7");
    let first = tables.exchange_id(identity(b"a", 1), ExchangeKind::Introduce, now).unwrap();
    assert!(!first.confirmed, "case 1");
    let second = tables.exchange_id(identity(b"a", 1), ExchangeKind::Introduce, now).unwrap();
    assert_ne!(second.id, first.id, "case 4: the unconfirmed client is replaced");
    assert_eq!(world.create_session(first.id, 1), Err(Status::StaleClientId));
    let session = world.create_session(second.id, 1).unwrap();
    let known = tables.exchange_id(identity(b"a", 1), ExchangeKind::Introduce, now).unwrap();
    let expected = ExchangedClient { id: second.id, sequence: 2, confirmed: true };
    assert_eq!(known, expected, "case 2");
    assert_eq!(
        tables.exchange_id(identity(b"a", 1), ExchangeKind::Update, now),
        Ok(expected),
        "case 6"
    );
    assert_eq!(
        tables.exchange_id(identity(b"a", 2), ExchangeKind::Update, now),
        Err(Status::NotSame),
        "case 8"
    );
    let restarted = tables.exchange_id(identity(b"a", 2), ExchangeKind::Introduce, now).unwrap();
    assert!(!restarted.confirmed && restarted.id != second.id, "case 5");
    assert!(tables.find_session(session.id, now).is_ok(), "the old client stays until then");
    world.create_session(restarted.id, 1).unwrap();
    assert_eq!(tables.find_session(session.id, now).unwrap_err(), Status::BadSession);
}

#[test]
fn creates_session_once_per_sequence() {
    let world = World::new();
    let made =
        world.tables.exchange_id(identity(b"a", 1), ExchangeKind::Introduce, world.now_ns).unwrap();
    assert_eq!(world.create_session(made.id, 0), Err(Status::SeqMisordered));
    let first = world.create_session(made.id, 1).unwrap();
    assert_eq!(world.create_session(made.id, 1), Ok(first));
    assert_eq!(world.tables.sessions.len(), 1);
    assert_eq!(world.create_session(made.id, 3), Err(Status::SeqMisordered));
    let second = world.create_session(made.id, 2).unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!(world.create_session(99, 1), Err(Status::StaleClientId));
}

#[test]
fn destroys_only_idle_client() {
    let world = World::new();
    let (client, session) = world.modern(b"a", 1);
    let now = world.now_ns;
    assert_eq!(world.tables.destroy_client(client.id, now), Err(Status::ClientIdBusy));
    assert_eq!(world.tables.destroy_session(session, now), Ok(()));
    assert_eq!(world.tables.destroy_session(session, now), Err(Status::BadSession));
    let stateid = world.open(&client, b"o", world.file("f"), share(1, 0)).unwrap();
    assert_eq!(world.tables.destroy_client(client.id, now), Err(Status::ClientIdBusy));
    world.tables.close_open(&world.state(&stateid)).unwrap();
    assert_eq!(world.tables.destroy_client(client.id, now), Ok(()));
    assert_eq!(world.tables.destroy_client(client.id, now), Err(Status::StaleClientId));
    world.assert_empty();
}

#[test]
fn expires_lease_unless_renewed() {
    let mut world = World::new();
    let file = world.file("f");
    let client = world.plain(b"a", 1);
    let (modern, session) = world.modern(b"b", 1);
    let stateid = world.open(&client, b"o", file, share(3, 0)).unwrap();
    for _ in 0..3 {
        world.now_ns += LEASE_NS;
        assert_eq!(
            world.check(&stateid, &client, file),
            Ok(()),
            "using a stateid renews the lease"
        );
        assert!(world.tables.find_session(session, world.now_ns).is_ok());
    }
    world.now_ns += LEASE_NS + 1;
    assert_eq!(world.check(&stateid, &client, file), Err(Status::Expired));
    assert_eq!(world.check(&stateid, &client, file), Err(Status::Expired), "and stays expired");
    assert_eq!(world.tables.client(client.id, world.now_ns).unwrap_err(), Status::Expired);
    let push_vanished = world.tables.find_session(session, world.now_ns).unwrap_err();
    assert_eq!(push_vanished, Status::BadSession);
    assert!(modern.lock().dead);
    world.assert_empty();
}

#[test]
fn ignores_expired_client() {
    let mut world = World::new();
    let file = world.file("f");
    let sleeper = world.plain(b"sleeper", 1);
    let stateid = world.open(&sleeper, b"o", file, share(3, 2)).unwrap();
    world.lock(&stateid, b"l", (0, 10), LockMode::Exclusive).unwrap();
    world.now_ns += LEASE_NS;
    let (client, _) = world.modern(b"b", 1);
    assert_eq!(world.open(&client, b"o", file, share(2, 0)), Err(Status::ShareDenied));
    assert_eq!(world.tables.check_anonymous(file, WRITE, world.now_ns), Err(Status::Locked));
    world.now_ns += 1;
    assert!(world.open(&client, b"o", file, share(3, 0)).is_ok());
    assert!(sleeper.lock().dead);
    let request =
        LockRequest { owner: b"m", span: Span::new(0, 5).unwrap(), mode: LockMode::Exclusive };
    assert_eq!(world.tables.test_lock(client.id, file, request, world.now_ns), Ok(()));
}

#[test]
fn new_clients_sweep_the_expired_away() {
    let mut world = World::new();
    for number in 0..100_u8 {
        let client = world.plain(&[number], 1);
        world.open(&client, b"o", world.file("f"), share(1, 0)).unwrap();
        world.tables.set_client_id(identity(&[number, 0], 1), world.now_ns).unwrap();
    }
    world.now_ns += LEASE_NS + 1;
    world.tables.set_client_id(identity(b"new", 1), world.now_ns).unwrap();
    world.assert_empty();
}

#[test]
fn makes_clients_wait_for_memory() {
    let mut world = World::with_memory(1 << 20);
    let budget = Arc::clone(&world.tables.memory.clients);
    let introduce = |world: &World, number: u32| {
        let name = number.to_be_bytes();
        world.tables.exchange_id(identity(&name, 1), ExchangeKind::Introduce, world.now_ns)
    };
    let count = (0..10_000).take_while(|number| introduce(&world, *number).is_ok()).count() as u32;
    assert!((20..200).contains(&count), "{count}");
    assert_eq!(introduce(&world, count), Err(Status::Jukebox));
    assert_eq!(world.tables.set_client_id(identity(b"plain", 1), 0), Err(Status::Jukebox));
    assert_eq!(world.tables.memory.clients_refused(), 3);
    assert!(budget.used_bytes() <= budget.limit_bytes());
    world.now_ns += 2 * LEASE_NS;
    assert!(introduce(&world, count).is_ok());
    assert!(budget.used_bytes() < 2 * 1100, "{}", budget.used_bytes());
}

#[test]
fn state_of_a_client_is_charged() {
    let world = World::with_memory(1 << 20);
    let budget = &world.tables.memory.clients;
    let client = world.plain(b"a", 1);
    let file = world.file("f");
    let stateid = world.open(&client, b"o", file, share(3, 0)).unwrap();
    // Non-adjacent locks, as many as there is memory for.
    let lock = |number: u64| world.lock(&stateid, b"l", (number * 10, 5), LockMode::Shared);
    let count = (0..10_000).take_while(|number| lock(*number).is_ok()).count() as u64;
    assert!((100..3000).contains(&count), "{count}");
    assert_eq!(lock(count), Err(LockRefusal::Status(Status::Resource)));
    // Nothing else fits now, either.
    let open = world.open(&client, b"another", world.file("g"), share(1, 0));
    assert_eq!(open, Err(Status::Resource));
    assert!(budget.used_bytes() <= budget.limit_bytes());
    world.tables.forget(&client);
    assert!(budget.used_bytes() <= 2 * 1100, "{}", budget.used_bytes());
}

#[test]
fn grants_slots_within_memory() {
    let world = World::with_memory(1 << 20);
    let made = world.tables.exchange_id(identity(b"a", 1), ExchangeKind::Introduce, 0).unwrap();
    let fore = ChannelAttributes { requests_max: 16_384, ..CHANNEL };
    let request = SessionRequest {
        client: made.id,
        sequence: 1,
        principal: 1000,
        flags: 0,
        fore,
        back: CHANNEL,
    };
    let session = world.tables.create_session(&request, || Ok(()), 0).unwrap();
    assert!((1..1000).contains(&session.fore.requests_max), "{session:?}");
    let budget = &world.tables.memory.clients;
    assert!(budget.used_bytes() < budget.limit_bytes() / 2);
    // An endless number of sessions is refused, and destroying them frees the memory.
    let refused = (2..10_000).find_map(|sequence| {
        let request = SessionRequest { sequence, ..request };
        world.tables.create_session(&request, || Ok(()), 0).err()
    });
    assert_eq!(refused, Some(Status::NoSpc));
    let used_bytes = budget.used_bytes();
    world.tables.destroy_session(session.id, 0).unwrap();
    assert!(budget.used_bytes() < used_bytes);
}

#[test]
fn reclaims_prolong_the_grace_period() {
    const SECOND_NS: u64 = 1_000_000_000;
    let world = World::new();
    let start_ns = world.now_ns;
    let length_ns = 10 * SECOND_NS;
    world.modern(b"known", 1);
    world.tables.restart(8, start_ns, Some(length_ns));
    let (known, _) = world.modern(b"known", 1);
    let (stranger, _) = world.modern(b"stranger", 1);
    let reclaim = |client: &Arc<Client>, at_ns| world.tables.may_reclaim(client, start_ns + at_ns);
    let in_grace = |at_ns| world.tables.is_in_grace(start_ns + at_ns);
    // A reclaim long before the end does not extend it, and a refused one never does.
    assert_eq!(reclaim(&known, SECOND_NS), Ok(()));
    assert_eq!(reclaim(&stranger, length_ns - 1), Err(Status::ReclaimBad));
    assert!(in_grace(length_ns - 1) && !in_grace(length_ns));
    // Each reclaim near the end leaves a second for the next, up to twice the length.
    let mut at_ns = length_ns - 1;
    let mut count = 0;
    while reclaim(&known, at_ns) == Ok(()) {
        assert!(in_grace(at_ns + SECOND_NS - 1) || at_ns + SECOND_NS >= 2 * length_ns);
        at_ns += SECOND_NS / 2;
        count += 1;
    }
    assert_eq!(count, 21);
    assert!(at_ns >= 2 * length_ns && !in_grace(2 * length_ns));
    world.tables.note_reclaim(start_ns + at_ns);
    assert!(!in_grace(at_ns), "a lock does not restart it");
}

#[test]
fn reclaimed_locks_prolong_the_grace_period() {
    let world = World::new();
    let start_ns = world.now_ns;
    let length_ns = 10_000_000_000;
    world.modern(b"known", 1);
    world.tables.restart(8, start_ns, Some(length_ns));
    world.tables.note_reclaim(start_ns + length_ns - 1);
    assert!(world.tables.is_in_grace(start_ns + length_ns));
}

#[test]
fn forgets_clients_at_restart() {
    let world = World::new();
    let file = world.file("f");
    let plain = world.plain(b"a", 1);
    let (modern, session) = world.modern(b"b", 1);
    let old = world.open(&plain, b"o", file, share(3, 0)).unwrap();
    let locked = world.lock(&old, b"l", (0, 1), LockMode::Exclusive).unwrap();
    let modern_old = world.open(&modern, b"o", file, share(3, 0)).unwrap();
    world.tables.restart(8, 0, None);
    world.assert_empty();
    let now = world.now_ns;
    assert_eq!(world.tables.client(plain.id, now).unwrap_err(), Status::StaleClientId);
    assert_eq!(world.tables.find_session(session, now).unwrap_err(), Status::BadSession);
    assert_eq!(world.check(&old, &plain, file), Err(Status::StaleStateid));
    assert_eq!(world.check(&locked, &plain, file), Err(Status::StaleStateid));
    assert_eq!(world.check(&modern_old, &modern, file), Err(Status::BadStateid));
    assert_eq!(world.open(&modern, b"o", file, share(1, 0)), Err(Status::Expired));
    let next = world.plain(b"a", 1);
    assert_ne!(next.id, plain.id);
    assert!(world.open(&next, b"o", file, share(3, 3)).is_ok());
}

#[test]
fn enforces_share_denials() {
    for access in 1..4 {
        for deny in 0..4 {
            for (other_access, other_deny) in [(1, 0), (2, 0), (3, 0), (1, 1), (2, 2), (3, 3)] {
                let denied = access & other_deny != 0 || deny & other_access != 0;
                let denied = denied.then_some(Status::ShareDenied);
                // An owner's own opens count like those of other owners.
                for owner in [b"two", b"one"] {
                    let world = World::new();
                    let file = world.file("f");
                    let (client, _) = world.modern(b"a", 1);
                    world.open(&client, b"one", file, share(access, deny)).unwrap();
                    let second = share(other_access, other_deny);
                    let second = world.open(&client, owner, file, second);
                    assert_eq!(second.err(), denied);
                }
            }
        }
    }
}

#[test]
fn upgrades_and_downgrades_open() {
    let world = World::new();
    let file = world.file("f");
    let (client, _) = world.modern(b"a", 1);
    let first = world.open(&client, b"o", file, share(1, 0)).unwrap();
    assert_eq!(world.check(&first, &client, file), Err(Status::OpenMode));
    let second = world.open(&client, b"o", file, share(2, 2)).unwrap();
    assert_eq!((second.other, second.seqid), (first.other, 2));
    assert_eq!(world.check(&second, &client, file), Ok(()));
    assert_eq!(world.check(&first, &client, file), Err(Status::OldStateid));
    let future = Stateid { seqid: 3, ..first };
    assert_eq!(world.check(&future, &client, file), Err(Status::BadStateid));
    let current = Stateid { seqid: 0, ..first };
    assert_eq!(world.check(&current, &client, file), Ok(()), "zero means the current one");
    let state = world.state(&first);
    assert_eq!(world.tables.downgrade_open(&state, share(3, 0)), Err(Status::Inval));
    let third = world.tables.downgrade_open(&state, share(1, 0)).unwrap();
    assert_eq!(third.seqid, 3);
    assert_eq!(world.check(&third, &client, file), Err(Status::OpenMode));
    assert_eq!(world.tables.downgrade_open(&state, share(2, 0)), Err(Status::Inval), "given up");
    world.open(&client, b"other", file, share(2, 0)).unwrap();
    world.tables.close_open(&state).unwrap();
    assert_eq!(world.check(&third, &client, file), Err(Status::BadStateid));
}

#[test]
fn excludes_locks_of_other_owners() {
    let world = World::new();
    let file = world.file("f");
    let (one, _) = world.modern(b"a", 1);
    let (two, _) = world.modern(b"b", 1);
    let open_one = world.open(&one, b"o", file, share(3, 0)).unwrap();
    let open_two = world.open(&two, b"o", file, share(3, 0)).unwrap();
    let locked = world.lock(&open_one, b"l", (0, 100), LockMode::Exclusive).unwrap();
    assert_eq!(locked.seqid, 1);
    let Err(LockRefusal::Denied(denied)) = world.lock(&open_two, b"l", (50, 1), LockMode::Shared)
    else {
        panic!("granted")
    };
    assert_eq!(
        (denied.client, denied.mode, denied.span.length()),
        (one.id, LockMode::Exclusive, 100)
    );
    assert_eq!(world.lock(&locked, b"l", (50, 100), LockMode::Exclusive).unwrap().seqid, 2);
    let request =
        LockRequest { owner: b"l", span: Span::new(0, 1).unwrap(), mode: LockMode::Shared };
    let test = |client: &Client| world.tables.test_lock(client.id, file, request, world.now_ns);
    assert_eq!((test(&one).is_ok(), test(&two).is_ok()), (true, false));
    assert_eq!(world.tables.free_state(&world.state(&locked)), Err(Status::LocksHeld));
    assert_eq!(world.tables.free_state(&world.state(&open_one)), Err(Status::LocksHeld));
    world.tables.unlock_range(&world.state(&locked), Span::new(0, u64::MAX).unwrap()).unwrap();
    assert!(test(&two).is_ok());
    assert_eq!(world.tables.free_state(&world.state(&locked)), Ok(()));
    world.lock(&open_one, b"l", (0, 1), LockMode::Exclusive).unwrap();
    world.tables.close_open(&world.state(&open_one)).unwrap();
    assert!(test(&two).is_ok(), "CLOSE releases locks");
    world.tables.close_open(&world.state(&open_two)).unwrap();
    assert_eq!(world.tables.states.len(), 0);
    assert_eq!(world.tables.ranges.load(Ordering::Relaxed), 0);
}

#[test]
fn requires_matching_open_for_lock() {
    let world = World::new();
    let file = world.file("f");
    let client = world.plain(b"a", 1);
    let reader = world.open(&client, b"r", file, share(1, 0)).unwrap();
    let refused = world.lock(&reader, b"l", (0, 1), LockMode::Exclusive);
    assert_eq!(refused, Err(LockRefusal::Status(Status::OpenMode)));
    let locked = world.lock(&reader, b"l", (0, 1), LockMode::Shared).unwrap();
    assert_eq!(world.tables.release_lock_owner(&client, b"l"), Err(Status::LocksHeld));
    world.tables.unlock_range(&world.state(&locked), Span::new(0, 1).unwrap()).unwrap();
    assert_eq!(world.tables.release_lock_owner(&client, b"l"), Ok(()));
    assert_eq!(world.tables.release_lock_owner(&client, b"never"), Ok(()));
    assert_eq!(world.check(&locked, &client, file), Err(Status::BadStateid));
}

fn reply(text: &[u8]) -> LastReply {
    LastReply { bytes: Arc::from(text), file: None }
}

#[test]
fn answers_repeated_close() {
    let world = World::new();
    let file = world.file("f");
    let client = world.plain(b"a", 1);
    let owner = (OwnerKind::Open, &b"o"[..]);
    let now = world.now_ns;
    assert_eq!(world.tables.begin_open(&client, b"o", 5, now), Ok(OwnerTurn::New));
    let stateid = world.open(&client, b"o", file, share(3, 0)).unwrap();
    Tables::finish_call(&client, owner.0, owner.1, 5, Some(reply(b"open")));
    let state = world.state(&stateid);
    assert_eq!(world.tables.begin_on(&state, 6, now), Ok(OwnerTurn::New));
    Tables::confirm_open(&state).unwrap();
    assert_eq!(Tables::confirm_open(&state), Err(Status::BadStateid), "once");
    Tables::finish_call(&client, owner.0, owner.1, 6, Some(reply(b"confirm")));
    assert_eq!(world.tables.begin_on(&state, 7, now), Ok(OwnerTurn::New));
    world.tables.close_open(&state).unwrap();
    Tables::finish_call(&client, owner.0, owner.1, 7, Some(reply(b"close")));
    let found = world.tables.find_state(&stateid, Requester::WithoutSession, now).unwrap();
    let again = world.tables.begin_on(&found, 7, now).unwrap();
    assert_eq!(again, OwnerTurn::Replay(reply(b"close")));
    assert_eq!(world.tables.begin_open(&client, b"o", 8, now), Ok(OwnerTurn::New));
    let push_vanished =
        world.tables.find_state(&stateid, Requester::WithoutSession, now).unwrap_err();
    assert_eq!(push_vanished, Status::BadStateid, "the owner's next call drops it");
}

#[test]
fn restarts_unconfirmed_owner() {
    let world = World::new();
    let file = world.file("f");
    let client = world.plain(b"a", 1);
    let now = world.now_ns;
    world.tables.begin_open(&client, b"o", 5, now).unwrap();
    let stateid = world.open(&client, b"o", file, share(3, 3)).unwrap();
    Tables::finish_call(&client, OwnerKind::Open, b"o", 5, Some(reply(b"open")));
    let again = world.tables.begin_open(&client, b"o", 5, now).unwrap();
    assert_eq!(again, OwnerTurn::Replay(reply(b"open")));
    assert_eq!(world.tables.begin_open(&client, b"o", 77, now), Ok(OwnerTurn::New));
    assert_eq!(world.check(&stateid, &client, file), Err(Status::BadStateid));
    assert_eq!(world.tables.check_anonymous(file, READ, now), Ok(()));
}

#[test]
fn ties_stateids_to_client_and_file() {
    let world = World::new();
    let file = world.file("f");
    let other = world.file("g");
    let (one, _) = world.modern(b"a", 1);
    let (two, _) = world.modern(b"b", 1);
    let plain = world.plain(b"a", 1);
    let stateid = world.open(&one, b"o", file, share(3, 0)).unwrap();
    assert_eq!(world.check(&stateid, &one, file), Ok(()));
    assert_eq!(world.check(&stateid, &one, other), Err(Status::BadStateid));
    assert_eq!(world.check(&stateid, &two, file), Err(Status::BadStateid));
    assert_eq!(world.check(&stateid, &plain, file), Err(Status::BadStateid));
    let mut forged = stateid;
    forged.other[11] ^= 1;
    assert_eq!(world.check(&forged, &one, file), Err(Status::BadStateid));
    let at = world.open(&plain, b"o", file, share(3, 0)).unwrap();
    let zero = Stateid { seqid: 0, ..at };
    assert_eq!(world.check(&zero, &plain, file), Err(Status::OldStateid), "not in v4.0");
}

#[test]
fn keeps_open_file_until_close() {
    let world = World::new();
    let file = world.file("f");
    let (client, _) = world.modern(b"a", 1);
    let stateid = world.open(&client, b"o", file, share(3, 0)).unwrap();
    world.fs.remove(world.fs.root(), b"f", &Context::default()).unwrap();
    assert!(world.fs.attributes(file).is_ok());
    world.tables.close_open(&world.state(&stateid)).unwrap();
    assert!(world.fs.attributes(file).is_err());
}

#[test]
fn finds_state_with_few_locks() {
    // The table in docs/design/scaling.md.
    let world = World::new();
    let (client, session) = world.modern(b"me", 1);
    let file = world.file("f");
    let stateid = world.open(&client, b"owner", file, share(3, 0)).unwrap();
    let sequence = || {
        let session = world.tables.find_session(session, world.now_ns).unwrap();
        assert!(session.lock_slot(0).is_ok());
    };
    assert_eq!(sync::locks_of(sequence), 2);
    let requester = Requester::Session(&client);
    let check = || world.tables.check_io(&stateid, requester, file, WRITE, world.now_ns);
    assert_eq!(check(), Ok(()));
    assert_eq!(sync::locks_of(check), 1);
}
