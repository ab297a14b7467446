//! Read delegations: granted, recalled, returned, revoked.
//!
//! A delegation is a [`State`] of its own next to the opens of a file. It is granted under the lock
//! of the file's entry, if no other client has the file open for writing, and anything another
//! client does that changes the file recalls it first. That client gets DELAY until the delegation
//! is returned, or revoked one lease period after its recall.
//!
//! **Source:** RFC 8881 sections 10.2 to 10.4; the operations that recall are those that break
//! leases in Linux (fs/namei.c, fs/attr.c, fs/nfsd/nfs4state.c).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_proto::Status;
use nfs_proto::nfs4::sequence_status::{
    CB_PATH_DOWN, CB_PATH_DOWN_SESSION, RECALLABLE_STATE_REVOKED,
};
use nfs_proto::nfs4::{FileHandle, NoDelegation, Stateid};

use super::Tables;
use super::backchannel::{Callback, RecallReply};
use super::client::{Client, ClientState, Requester};
use super::files::FileEntry;
use super::held_state::State;
use super::layouts::ReturnedRange;
use super::opens::live_state;
use super::session::Session;
use crate::fs::{InodeId, Pin};
use crate::limits::NFS4_DELEGATIONS_MAX;
use crate::sync;

/// Minimum time after a recall before a file is delegated again, so that one that is alternately
/// written and read is not recalled over and over.
///
/// **Source:** Linux, fs/nfsd/nfs4state.c, `delegation_blocked`: 30 to 60 seconds.
const HOLD_OFF_NS: u64 = 30_000_000_000;

/// Files whose delegations were recalled lately, in two sets: the older one is dropped when the
/// younger one reaches the hold-off age, so that files need no timestamps of their own.
#[derive(Debug, Default)]
pub(super) struct RecalledLately {
    younger: HashSet<InodeId>,
    older: HashSet<InodeId>,
    since_ns: u64,
}

impl RecalledLately {
    /// Adds a file; each set has at most `files_max`.
    fn add(&mut self, file: InodeId, files_max: usize, now_ns: u64) {
        self.drop_old(now_ns);
        if self.younger.len() >= files_max {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(file);
    }

    fn contains(&mut self, file: InodeId, now_ns: u64) -> bool {
        self.drop_old(now_ns);
        self.younger.contains(&file) || self.older.contains(&file)
    }

    fn drop_old(&mut self, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.since_ns);
        if age_ns < HOLD_OFF_NS {
            return;
        }
        self.older = std::mem::take(&mut self.younger);
        if age_ns >= 2 * HOLD_OFF_NS {
            self.older.clear();
        }
        self.since_ns = now_ns;
    }
}

/// Counters of delegations since the start; these events are rare enough for counters shared by all
/// threads.
#[derive(Debug, Default)]
pub(crate) struct DelegationCounts {
    pub(crate) granted: AtomicU64,
    /// Recalled delegations, each counted once, however often the recall was sent.
    pub(crate) recalled: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) revoked: AtomicU64,
}

impl Tables {
    /// Whether any client has a delegation; usually none has, which saves the lookup.
    pub(crate) fn has_delegations(&self) -> bool {
        self.files.delegations() > 0
    }

    /// Grants a read delegation of a file that the session's client has open.
    ///
    /// # Errors
    /// The reason why it can't be delegated now.
    pub(crate) fn grant_delegation(
        &self,
        session: &Session,
        pin: Pin,
        handle: FileHandle,
        now_ns: u64,
    ) -> Result<Stateid, NoDelegation> {
        let client = &session.client;
        let file = pin.id();
        // A delegation that can't be recalled must not be granted. A client that has lost its
        // connection and only reconnected gets none until it binds the new one, and flags tell it
        // to (RFC 8881 section 18.46.3); a client that wanted no backchannel is left alone.
        if !session.backchannel.is_alive() {
            if session.backchannel.is_wanted() {
                client.raise_flags(CB_PATH_DOWN | CB_PATH_DOWN_SESSION);
            }
            return Err(NoDelegation::Resource);
        }
        let mut holdings = client.lock();
        let mut shard = self.files.lock(file);
        let (false, Some(entry)) = (holdings.dead, shard.get_mut(&file)) else {
            return Err(NoDelegation::Resource);
        };
        if holdings.delegations.contains_key(&file)
            || entry.forbids_delegation(client)
            || sync::lock(&self.recalled_lately).contains(file, now_ns)
        {
            return Err(NoDelegation::Contention);
        }
        if self.files.delegations() >= NFS4_DELEGATIONS_MAX {
            return Err(NoDelegation::Resource);
        }
        let Some(charge) = self.charge_state() else { return Err(NoDelegation::Resource) };
        let make = |key| State::delegation(key, client, pin, handle, charge);
        let Some(state) = self.states.insert(make) else { return Err(NoDelegation::Resource) };
        self.files.add_delegation(entry, &state);
        holdings.delegations.insert(file, state.key);
        self.delegation_counts.granted.fetch_add(1, Ordering::Relaxed);
        Ok(state.stateid())
    }

    /// Finds the delegation that a client claims to have of a file.
    ///
    /// # Errors
    /// Those of `find_on`; `BadStateid` for another kind of state.
    pub(crate) fn find_delegation(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        file: InodeId,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        let state = self.find_on(stateid, requester, file, now_ns)?;
        if state.delegation.is_some() { Ok(state) } else { Err(Status::BadStateid) }
    }

    /// Returns a delegation.
    ///
    /// # Errors
    /// `Expired` for a client that has been forgotten.
    pub(crate) fn return_delegation(&self, state: &State) -> Result<(), Status> {
        let mut holdings = state.client.lock();
        live_state(&mut holdings)?.delegations.remove(&state.file);
        self.end_state(state.key);
        self.delegation_counts.returned.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Recalls the delegations that clients other than `client` have of a file, before it is
    /// changed.
    ///
    /// # Errors
    /// `Jukebox` until they are returned.
    pub(crate) fn recall_from_others(
        &self,
        file: InodeId,
        client: Option<&Arc<Client>>,
        now_ns: u64,
    ) -> Result<(), Status> {
        if !self.has_delegations() {
            return Ok(());
        }
        let holders = match self.files.lock(file).get(&file) {
            Some(entry) => entry.delegations_of_others(client),
            None => return Ok(()),
        };
        self.recall_all(&holders, now_ns)
    }

    /// Recalls delegations; must be called without locks.
    ///
    /// # Errors
    /// `Jukebox` while one of them is still held.
    pub(super) fn recall_all(&self, holders: &[Arc<State>], now_ns: u64) -> Result<(), Status> {
        let mut outcome = Ok(());
        for holder in holders {
            if !self.recall_or_revoke(holder, now_ns) {
                outcome = Err(Status::Jukebox);
            }
        }
        outcome
    }

    /// Recalls a delegation; returns true if it is gone.
    fn recall_or_revoke(&self, state: &Arc<State>, now_ns: u64) -> bool {
        let Some(recall) = state.recall() else { return true };
        if state.client.is_expired(now_ns, self.lease_ns) {
            self.forget(&state.client);
            return true;
        }
        let (began_ns, is_first) = recall.begin_recall(now_ns);
        if state.layout.is_some() {
            if is_first {
                self.layout_counts.recalled.fetch_add(1, Ordering::Relaxed);
                state.advance_generation();
            }
        } else {
            if is_first {
                self.delegation_counts.recalled.fetch_add(1, Ordering::Relaxed);
            }
            // They are not charged individually: both sets together take a sixteenth of the memory.
            let affordable = self.memory.clients.limit_bytes() / 1024;
            let files_max = NFS4_DELEGATIONS_MAX.min(affordable as usize);
            sync::lock(&self.recalled_lately).add(state.file, files_max, now_ns);
        }
        // A live client that keeps a recalled delegation loses it after one lease period, so that
        // others don't wait forever (RFC 8881 section 10.4.6).
        if now_ns.saturating_sub(began_ns) > self.lease_ns {
            self.revoke(state);
            return true;
        }
        self.send_recall(state);
        !state.is_live()
    }

    /// Sends a recall over one of the client's sessions, unless it is already on its way.
    fn send_recall(&self, state: &Arc<State>) {
        let Some(recall) = state.recall() else { return };
        let is_new = recall.begin_sending();
        let sessions = state.client.lock().sessions.clone();
        for key in sessions {
            let Some(session) = self.sessions.get(key) else { continue };
            if !is_new {
                session.backchannel.check_in_flight();
            } else if session.backchannel.recall(state) {
                return;
            }
        }
        if is_new {
            // The flag makes the client bind a connection again, and the waiting client's next
            // attempt then sends the recall (RFC 8881 section 18.46.3).
            recall.repeat_recall();
            state.client.raise_flags(CB_PATH_DOWN | CB_PATH_DOWN_SESSION);
        }
    }

    /// Handles a client's reply to a callback in a session.
    pub(crate) fn note_callback_reply(&self, session: [u8; 16], reply: RecallReply) {
        let session = self.sessions.get(super::sessions::session_key(session));
        let Some(session) = session else { return };
        match session.backchannel.note_reply(reply) {
            Some(Callback::Recall(state)) if reply == RecallReply::Nothing => {
                // It fails only if the client is being forgotten, and its layouts with it.
                let _ = self.return_layouts(&state, ReturnedRange::ALL);
            }
            Some(Callback::Report(copy)) => self.forget_copy(&copy),
            _ => {}
        }
    }

    /// Revokes a delegation that its client did not return; each SEQUENCE reports it to the client
    /// until the stateid is freed.
    fn revoke(&self, state: &State) {
        if state.layout.is_some() {
            return self.revoke_layouts(state);
        }
        let mut holdings = state.client.lock();
        if holdings.dead || holdings.delegations.get(&state.file) != Some(&state.key) {
            return;
        }
        holdings.delegations.remove(&state.file);
        holdings.revoked.push(state.key);
        if let Some(delegation) = &state.delegation {
            delegation.set_revoked();
        }
        self.remove_delegation(state);
        state.end();
        self.delegation_counts.revoked.fetch_add(1, Ordering::Relaxed);
        state.client.raise_flags(RECALLABLE_STATE_REVOKED);
    }

    /// Forgets a revoked delegation.
    ///
    /// # Errors
    /// `LocksHeld` for one that is still held.
    pub(super) fn free_delegation(
        &self,
        holdings: &mut ClientState,
        state: &State,
    ) -> Result<(), Status> {
        let Some(index) = holdings.revoked.iter().position(|key| *key == state.key) else {
            return Err(Status::LocksHeld);
        };
        holdings.revoked.swap_remove(index);
        self.states.remove(state.key);
        if holdings.revoked.is_empty() {
            state.client.clear_flags(RECALLABLE_STATE_REVOKED);
        }
        Ok(())
    }

    /// Removes a delegation from its file.
    pub(super) fn remove_delegation(&self, state: &State) {
        let mut shard = self.files.lock(state.file);
        if let Some(entry) = shard.get_mut(&state.file) {
            self.files.remove_delegation(entry, state);
            FileEntry::drop_if_unused(&mut shard, state.file);
        }
    }
}
