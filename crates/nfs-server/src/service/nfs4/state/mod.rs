//! State that the server keeps for clients of NFS v4: identities, sessions, opens and locks.
//!
//! [`Tables`] is the principal type. It knows no wire, no socket and no clock: the monotonic time
//! is an argument. Order of locks: a session's slot, the book of clients, one client's holdings,
//! one shard of files, one shard of a registry; never two of one kind. READ and WRITE find their
//! state under one shard's read lock and nothing else.
//!
//! A client whose lease has run out is forgotten at the first touch: by itself, by another that
//! its state stands in the way of, or by a sweep when new clients come. A restart forgets all but
//! what may be reclaimed.
//!
//! **Source:** RFC 7530 sections 9 and 16, RFC 8881 sections 2.4, 2.10, 8 and 9.

mod book;
mod client;
mod exchange;
mod files;
mod grace;
mod held;
mod io;
mod locks;
mod opens;
mod owner;
mod ranges;
mod registry;
mod session;
mod sessions;
mod setclientid;
#[cfg(test)]
mod stress_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nfs_proto::Status;

pub(in crate::service) use self::client::{Client, Identity, OwnerKind, Principal};
pub(in crate::service) use self::held::{READ, Share, State, WRITE};
pub(in crate::service) use self::io::Speaker;
pub(in crate::service) use self::locks::{Denied, LockAsk, Refused};
pub(in crate::service) use self::owner::{LastReply, OwnerTurn};
pub(in crate::service) use self::ranges::Span;
pub(in crate::service) use self::session::{
    Asked, Channel, CreatedSession, Session, Slot, SlotTurn,
};
pub(in crate::service) use self::sessions::SessionAsk;

use self::book::Book;
use self::files::Files;
use self::grace::Grace;
use self::registry::Registry;
use crate::clock::mix;
use crate::limits::{NFS4_SESSIONS_MAX, NFS4_SLOTS_MAX, NFS4_STATES_MAX};

/// See the module.
#[derive(Debug)]
pub(crate) struct Tables {
    lease_ns: u64,
    /// Number of this start in the upper half, of the first client after it in the lower.
    start: AtomicU64,
    /// Number of the next client.
    next_client: AtomicU64,
    /// Clients by name: of v4.0 and of later versions.
    books: [Mutex<Book>; 2],
    /// Confirmed clients by id.
    confirmed: RwLock<HashMap<u64, Arc<Client>>>,
    sessions: Registry<Session>,
    states: Registry<State>,
    files: Files,
    /// Slots that new sessions can still have.
    slots_left: AtomicUsize,
    /// Bytes of kept replies.
    kept_bytes: Arc<AtomicUsize>,
    /// Number of locked ranges in all files.
    ranges: AtomicUsize,
    swept_ns: AtomicU64,
    grace: Grace,
}

impl Tables {
    /// Makes empty tables. `boot_id` tells this start from every other.
    pub(crate) fn new(boot_id: u64, lease_ns: u64) -> Self {
        let tables = Self {
            lease_ns,
            start: AtomicU64::new(0),
            next_client: AtomicU64::new(mix(boot_id) & 0x3fff_ffff),
            books: [Mutex::default(), Mutex::default()],
            confirmed: RwLock::default(),
            sessions: Registry::new(NFS4_SESSIONS_MAX),
            states: Registry::new(NFS4_STATES_MAX),
            files: Files::new(),
            slots_left: AtomicUsize::new(NFS4_SLOTS_MAX),
            kept_bytes: Arc::default(),
            ranges: AtomicUsize::new(0),
            swept_ns: AtomicU64::new(0),
            grace: Grace::default(),
        };
        tables.start_anew(boot_id);
        tables
    }

    /// Forgets everything, as a server that starts again at `now_ns` does, but for what clients
    /// may reclaim within a grace period of `grace_ns`, where that is given.
    pub(crate) fn restart(&self, boot_id: u64, now_ns: u64, grace_ns: Option<u64>) {
        self.start_anew(boot_id);
        match grace_ns {
            Some(lasts_ns) => {
                let until_ns = now_ns.saturating_add(lasts_ns);
                self.grace.begin(now_ns, until_ns, &self.confirmed_clients());
            }
            None => self.grace.skip(),
        }
        for book in &self.books {
            *book.lock().unwrap_or_else(PoisonError::into_inner) = Book::default();
        }
        for client in self.confirmed_clients() {
            self.forget(&client);
        }
    }

    fn start_anew(&self, boot_id: u64) {
        let first = self.next_client.load(Ordering::Relaxed) & 0xffff_ffff;
        let start = (mix(boot_id ^ first) | 1) << 32 | first;
        self.start.store(start, Ordering::Relaxed);
    }

    /// An id that no client had before.
    fn new_client_id(&self) -> u64 {
        self.new_start_id(self.next_client.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// A confirmed client by its id.
    ///
    /// # Errors
    /// `StaleClientId` for an id of an earlier start or of nobody; `Expired` for one that this
    /// start has given and forgotten.
    pub(in crate::service) fn client(&self, id: u64, now_ns: u64) -> Result<Arc<Client>, Status> {
        let confirmed = self.confirmed.read().unwrap_or_else(PoisonError::into_inner);
        let found = confirmed.get(&id).cloned();
        drop(confirmed);
        match found {
            Some(client) if client.is_expired(now_ns, self.lease_ns) => {
                self.forget(&client);
                Err(Status::Expired)
            }
            Some(client) => Ok(client),
            None if self.is_pending(id) => Err(Status::StaleClientId),
            None if self.was_given(id as u32) && self.is_of_this_start(id) => Err(Status::Expired),
            None => Err(Status::StaleClientId),
        }
    }

    /// Starts a client's lease anew.
    pub(in crate::service) fn renew(client: &Client, now_ns: u64) {
        client.renew(now_ns);
    }

    /// The id that a client of this start with that number has.
    fn new_start_id(&self, number: u32) -> u64 {
        self.start.load(Ordering::Relaxed) & !0xffff_ffff | u64::from(number)
    }

    fn is_of_this_start(&self, id: u64) -> bool {
        id >> 32 == self.start.load(Ordering::Relaxed) >> 32
    }

    /// Whether this start gave the number to a client.
    fn was_given(&self, number: u32) -> bool {
        let first = self.start.load(Ordering::Relaxed) as u32;
        let next = self.next_client.load(Ordering::Relaxed) as u32;
        number.wrapping_sub(first) < next.wrapping_sub(first)
    }

    fn confirmed_clients(&self) -> Vec<Arc<Client>> {
        let confirmed = self.confirmed.read().unwrap_or_else(PoisonError::into_inner);
        confirmed.values().cloned().collect()
    }

    /// Takes everything from a client and forgets it.
    fn forget(&self, client: &Arc<Client>) {
        let mut confirmed = self.confirmed.write().unwrap_or_else(PoisonError::into_inner);
        confirmed.remove(&client.id);
        drop(confirmed);
        let (sessions, states) = {
            let mut holdings = client.lock();
            holdings.dead = true;
            let opens = std::mem::take(&mut holdings.open_owners);
            let locks = std::mem::take(&mut holdings.lock_owners);
            let states: Vec<u64> = opens
                .values()
                .chain(locks.values())
                .flat_map(|owner| owner.states.values().copied().chain(owner.closed))
                .collect();
            (std::mem::take(&mut holdings.sessions), states)
        };
        for session in sessions {
            self.end_session(session);
        }
        for state in states {
            self.end_state(state);
        }
    }

    /// Takes a state out of all tables but its owner's.
    fn end_state(&self, key: u64) {
        let Some(state) = self.states.remove(key) else { return };
        if state.open.is_some() {
            self.end_locks(&state);
        } else {
            for locker in self.remove_open(&state) {
                self.states.remove(locker.key);
            }
        }
        state.end();
    }

    /// Forgets clients whose lease has run out, at most once in a quarter of a lease.
    fn sweep(&self, now_ns: u64) {
        let last = self.swept_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(last) < self.lease_ns / 4 {
            return;
        }
        let order = Ordering::Relaxed;
        if self.swept_ns.compare_exchange(last, now_ns, order, order).is_err() {
            return;
        }
        for client in self.confirmed_clients() {
            if client.is_expired(now_ns, self.lease_ns) {
                self.forget(&client);
            }
        }
        for book in &self.books {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            book.tidy(|client| client.is_expired(now_ns, self.lease_ns));
        }
    }
}
