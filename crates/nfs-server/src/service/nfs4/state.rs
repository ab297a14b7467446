//! State that the server keeps for NFS v4 clients: identities, sessions, opens and locks.
//!
//! [`Tables`] is the main type. It is independent of the wire format, sockets and clocks: the
//! monotonic time is an argument. Lock order: a session's slot, the index of clients, one client's
//! holdings, one shard of files, one shard of a registry; never two of the same kind. READ and
//! WRITE find their state under only one shard's read lock. Everything is charged to the memory for
//! clients; when that is exhausted, clients and opens are deferred and sessions refused. A client
//! whose lease has expired is forgotten when it, or something it blocks, is touched, or by a sweep
//! when new clients arrive. A restart forgets everything except what may be reclaimed.
//!
//! **Source:** RFC 7530 sections 9 and 16, RFC 8881 sections 2.4, 2.10, 8 and 9.

mod backchannel;
mod background_copy;
mod client;
mod client_index;
mod copies;
#[cfg(test)]
mod delegation_tests;
mod delegations;
mod exchange;
mod files;
mod grace;
mod held_state;
mod io;
mod layout_ranges;
mod layouts;
mod locks;
mod opens;
mod owner;
mod ranges;
mod recall;
mod session;
mod sessions;
mod setclientid;
#[cfg(test)]
mod stress_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use nfs_proto::Status;

pub(crate) use self::backchannel::{CallbackCaller, RecallReply};
pub(crate) use self::background_copy::{BackgroundCopy, CopyRange, CopyStart};
pub(crate) use self::client::{Client, CreatedSession, Identity, OwnerKind, Principal, Requester};
pub(crate) use self::exchange::ExchangeKind;
pub(crate) use self::held_state::{READ, Share, State, WRITE};
pub(crate) use self::layouts::{LayoutRequest, ReturnedRange};
pub(crate) use self::locks::{ConflictingLock, LockRefusal, LockRequest};
pub(crate) use self::owner::{LastReply, OwnerTurn};
pub(crate) use self::ranges::{LockMode, Span};
pub(crate) use self::session::{CallFingerprint, Session, Slot, SlotTurn};
pub(crate) use self::sessions::SessionRequest;

use self::client_index::ClientIndex;
use self::delegations::{DelegationCounts, RecalledLately};
use self::files::Files;
use self::grace::Grace;
use self::layouts::{LayoutCounts, LostLayouts};
use crate::clock::mix;
use crate::limits::{
    NFS4_CLIENT_BYTES, NFS4_COPIES_MAX, NFS4_LAYOUT_BYTES, NFS4_OWNER_BYTES, NFS4_RANGE_BYTES,
    NFS4_SESSION_BYTES, NFS4_SESSIONS_MAX, NFS4_SLOT_BYTES, NFS4_SLOTS_MAX, NFS4_STATE_BYTES,
    NFS4_STATES_MAX,
};
use crate::memory::Memory;
use crate::registry::Registry;
use crate::sync;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tables {
    lease_ns: u64,
    /// Start number in the upper half, number of the first client after it in the lower.
    start: AtomicU64,
    /// Number of the next client.
    next_client: AtomicU64,
    /// Clients by name: one index for v4.0, one for later versions.
    client_indexes: [Mutex<ClientIndex>; 2],
    /// Confirmed clients by id.
    confirmed: RwLock<HashMap<u64, Arc<Client>>>,
    sessions: Registry<Session>,
    states: Registry<State>,
    copies: Registry<BackgroundCopy>,
    files: Files,
    /// Number of slots left for new sessions.
    slots_left: AtomicUsize,
    /// The budget that all this is charged to.
    memory: Arc<Memory>,
    /// Number of locked ranges in all files.
    ranges: AtomicUsize,
    swept_ns: AtomicU64,
    /// Files whose delegations were recalled lately.
    recalled_lately: Mutex<RecalledLately>,
    pub(crate) delegation_counts: DelegationCounts,
    lost_layouts: LostLayouts,
    pub(crate) layout_counts: LayoutCounts,
    grace: Grace,
}

impl Tables {
    /// Creates empty tables. `boot_id` distinguishes this start from every other.
    pub(crate) fn new(boot_id: u64, lease_ns: u64, memory: Arc<Memory>) -> Self {
        let tables = Self {
            lease_ns,
            start: AtomicU64::new(0),
            next_client: AtomicU64::new(mix(boot_id) & 0x3fff_ffff),
            client_indexes: [Mutex::default(), Mutex::default()],
            confirmed: RwLock::default(),
            sessions: Registry::new(NFS4_SESSIONS_MAX),
            states: Registry::new(NFS4_STATES_MAX),
            copies: Registry::new(NFS4_COPIES_MAX),
            files: Files::new(),
            slots_left: AtomicUsize::new(NFS4_SLOTS_MAX),
            memory,
            ranges: AtomicUsize::new(0),
            swept_ns: AtomicU64::new(0),
            recalled_lately: Mutex::default(),
            delegation_counts: DelegationCounts::default(),
            lost_layouts: LostLayouts::default(),
            layout_counts: LayoutCounts::default(),
            grace: Grace::default(),
        };
        tables.begin_epoch(boot_id);
        tables
    }

    /// Forgets everything, like a server that starts again at `now_ns`, except what clients may
    /// reclaim within a grace period of `grace_ns`, if given.
    pub(crate) fn restart(&self, boot_id: u64, now_ns: u64, grace_ns: Option<u64>) {
        self.begin_epoch(boot_id);
        match grace_ns {
            Some(duration_ns) => {
                let clients = self.confirmed_clients();
                self.grace.begin_period(now_ns, duration_ns, &clients, &self.memory.clients);
            }
            None => self.grace.clear_period(),
        }
        for index in &self.client_indexes {
            *sync::lock(index) = ClientIndex::default();
        }
        for client in self.confirmed_clients() {
            self.forget(&client);
        }
    }

    fn begin_epoch(&self, boot_id: u64) {
        // A client id is the start number in the upper half and the client number in the lower. The
        // upper half is derived from the boot id, so ids from another start are recognized as stale
        // (RFC 7530 section 9.1.1), and it is odd, so no id is 0. The lower half keeps counting.
        let first = self.next_client.load(Ordering::Relaxed) & 0xffff_ffff;
        let start = (mix(boot_id ^ first) | 1) << 32 | first;
        self.start.store(start, Ordering::Relaxed);
    }

    /// Returns an id that no client had before.
    fn new_client_id(&self) -> u64 {
        self.new_start_id(self.next_client.fetch_add(1, Ordering::Relaxed) as u32)
    }

    /// Returns a confirmed client by its id.
    ///
    /// # Errors
    /// `StaleClientId` for an id from an earlier start or one that was never assigned; `Expired`
    /// for one that this start assigned and has forgotten.
    pub(crate) fn client(&self, id: u64, now_ns: u64) -> Result<Arc<Client>, Status> {
        let confirmed = sync::read(&self.confirmed);
        let found = confirmed.get(&id).cloned();
        drop(confirmed);
        match found {
            Some(client) if client.is_expired(now_ns, self.lease_ns) => {
                self.forget(&client);
                Err(Status::Expired)
            }
            Some(client) => Ok(client),
            None if self.is_pending(id) => Err(Status::StaleClientId),
            // Only an id of this start that was once confirmed can have expired.
            None if self.was_assigned(id as u32) && self.is_of_this_start(id) => {
                Err(Status::Expired)
            }
            None => Err(Status::StaleClientId),
        }
    }

    /// The id of the client of this start with that number.
    fn new_start_id(&self, number: u32) -> u64 {
        self.start.load(Ordering::Relaxed) & !0xffff_ffff | u64::from(number)
    }

    fn is_of_this_start(&self, id: u64) -> bool {
        id >> 32 == self.start.load(Ordering::Relaxed) >> 32
    }

    /// Returns true if this start assigned the number to a client.
    fn was_assigned(&self, number: u32) -> bool {
        let first = self.start.load(Ordering::Relaxed) as u32;
        let next = self.next_client.load(Ordering::Relaxed) as u32;
        number.wrapping_sub(first) < next.wrapping_sub(first)
    }

    fn confirmed_clients(&self) -> Vec<Arc<Client>> {
        let confirmed = sync::read(&self.confirmed);
        confirmed.values().cloned().collect()
    }

    // `dead` is set under the lock of the holdings, which every call that adds an open or a lock
    // takes first: a call that found the client earlier can no longer add anything to it. The
    // states are ended after that lock is released, because ending one locks a shard of files.
    /// Forgets a client and everything it holds.
    fn forget(&self, client: &Arc<Client>) {
        let mut confirmed = sync::write(&self.confirmed);
        confirmed.remove(&client.id);
        drop(confirmed);
        let (sessions, states, copies) = {
            let mut holdings = client.lock();
            holdings.dead = true;
            let opens = std::mem::take(&mut holdings.open_owners);
            let locks = std::mem::take(&mut holdings.lock_owners);
            let mut states = Vec::new();
            for owner in opens.values().chain(locks.values()) {
                states.extend(owner.states.values().copied());
                states.extend(owner.closed);
            }
            states.extend(std::mem::take(&mut holdings.delegations).into_values());
            states.extend(std::mem::take(&mut holdings.layouts).into_values());
            states.append(&mut holdings.revoked);
            holdings.running_copies = 0;
            let copies = std::mem::take(&mut holdings.copies);
            (std::mem::take(&mut holdings.sessions), states, copies)
        };
        for session in sessions {
            self.end_session(session);
        }
        for state in states {
            self.end_state(state);
        }
        for copy in copies {
            self.drop_copy(copy);
        }
    }

    /// Removes a state from all tables except its owner's.
    fn end_state(&self, key: u64) {
        let Some(state) = self.states.remove(key) else { return };
        if state.layout.is_some() {
            return self.lose_layouts(&state, true);
        }
        if state.delegation.is_some() {
            self.remove_delegation(&state);
        } else if state.open.is_some() {
            self.end_locks(&state);
        } else {
            for locker in self.remove_open(&state) {
                self.states.remove(locker.key);
            }
        }
        state.end();
    }

    /// Forgets clients whose lease has expired, at most once per quarter of a lease.
    fn sweep(&self, now_ns: u64) {
        // Expired clients that never call again hold memory until this finds them. It runs when new
        // clients arrive, since only they make the tables grow; the exchange below picks one
        // thread.
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
        for index in &self.client_indexes {
            let mut index = sync::lock(index);
            index.remove_expired(|client| client.is_expired(now_ns, self.lease_ns));
        }
    }
}

// The charged amounts cover the structures and their entries in tables: an `Arc` has two counters,
// and a hash table has some spare room.
const _: () = {
    const ENTRY_BYTES: usize = 48;
    let client = size_of::<Client>() + size_of::<client_index::Record>() + 3 * ENTRY_BYTES;
    assert!(client <= NFS4_CLIENT_BYTES as usize);
    assert!(size_of::<Session>() + ENTRY_BYTES <= NFS4_SESSION_BYTES as usize);
    assert!(size_of::<Mutex<Slot>>() <= NFS4_SLOT_BYTES as usize);
    assert!(size_of::<owner::Owner>() + ENTRY_BYTES <= NFS4_OWNER_BYTES as usize);
    let state = size_of::<State>() + size_of::<files::FileEntry>() + 4 * ENTRY_BYTES;
    assert!(state <= NFS4_STATE_BYTES as usize);
    let range = size_of::<layout_ranges::LayoutRange>();
    let layout = size_of::<held_state::HeldLayout>() + layout_ranges::RANGES_MAX * range;
    assert!(layout <= NFS4_LAYOUT_BYTES as usize);
    assert!(size_of::<ranges::Range>() <= NFS4_RANGE_BYTES as usize);
};
