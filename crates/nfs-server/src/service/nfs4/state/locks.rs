//! Byte-range locks: LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER and FREE_STATEID.
//!
//! Locks are advisory: READ and WRITE ignore them. A lock that would have to wait is refused, and
//! the client asks again.
//!
//! **Source:** RFC 7530 sections 9.2 and 16.10 to 16.12, RFC 8881 sections 9.2 and 18.38.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::Tables;
use super::client::{Client, ClientState, OwnerKind};
use super::files::FileEntry;
use super::held_state::{READ, State, WRITE};
use super::opens::{forget_locker, live_state, shared_name};
use super::owner::OwnerTurn;
use super::ranges::{LockMode, Range, Span};
use crate::fs::InodeId;
use crate::limits::{NFS4_FILE_RANGES_MAX, NFS4_RANGE_BYTES, NFS4_RANGES_MAX};

/// The lock that a client requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest<'a> {
    /// Name of the lock owner.
    pub(crate) owner: &'a [u8],
    /// The bytes to lock.
    pub(crate) span: Span,
    /// Whether other owners may lock them as well.
    pub(crate) mode: LockMode,
}

/// The conflicting lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConflictingLock {
    /// The bytes that are locked.
    pub(crate) span: Span,
    /// Whether it is shared.
    pub(crate) mode: LockMode,
    /// Its client.
    pub(crate) client: u64,
    /// Name of the owner.
    pub(crate) owner: Arc<[u8]>,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockRefusal {
    /// Another lock conflicts.
    Denied(ConflictingLock),
    /// Any other status.
    Status(Status),
}

impl From<Status> for LockRefusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Tables {
    /// Orders the first numbered call of a lock owner, creating the owner if it is new.
    ///
    /// # Errors
    /// `BadSeqid`, `Jukebox`, `Expired`, `Resource`.
    pub(crate) fn begin_lock(
        &self,
        client: &Client,
        name: &[u8],
        sequence: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        let mut holdings = client.lock();
        let holdings = live_state(&mut holdings)?;
        if !holdings.lock_owners.contains_key(name) {
            self.forget_idle_owners(holdings, OwnerKind::Lock, now_ns)?;
            self.add_owner(&mut holdings.lock_owners, name, sequence)?;
        }
        let owner = holdings.lock_owners.get_mut(name).ok_or(Status::BadSeqid)?;
        match owner.begin(sequence, now_ns)? {
            OwnerTurn::New => Ok(()),
            // The open owner has made a new call, so this can't be an old one.
            OwnerTurn::Replay(_) => Err(Status::BadSeqid),
        }
    }

    /// Locks bytes of an open file. `state` is the open, or a lock state under it.
    ///
    /// # Errors
    /// [`LockRefusal`]; its status is `OpenMode` if the file is not open for it.
    pub(crate) fn lock_range(
        &self,
        state: &Arc<State>,
        request: LockRequest<'_>,
        now_ns: u64,
    ) -> Result<Stateid, LockRefusal> {
        let open = state.open.as_ref().unwrap_or(state);
        if !open.is_open() {
            return Err(Status::BadStateid.into());
        }
        // A lock needs an open for the same kind of access (RFC 7530 section 16.10.5).
        let need = match request.mode {
            LockMode::Exclusive => WRITE,
            LockMode::Shared => READ,
        };
        if open.share().access & need == 0 {
            return Err(Status::OpenMode.into());
        }
        loop {
            let mut holdings = open.client.lock();
            let mut shard = self.files.lock(open.file);
            let Some(entry) = shard.get_mut(&open.file).filter(|_| open.is_live()) else {
                return Err(Status::BadStateid.into());
            };
            let Some((range, holder)) = find_conflict(entry, open.client.id, request) else {
                let locker =
                    self.lock_state(live_state(&mut holdings)?, entry, open, request.owner)?;
                return Ok(self.set_range(entry, &locker, request)?);
            };
            // Forgetting the holder takes its own locks, so release ours first: no thread ever
            // waits for one client's holdings while it has another's.
            drop(shard);
            drop(holdings);
            if self.expire_holder(&holder, Status::Denied, now_ns).is_err() {
                return Err(LockRefusal::Denied(denied_by(range, &holder)));
            }
        }
    }

    /// The lock state of an owner in a file, created if necessary.
    fn lock_state(
        &self,
        holdings: &mut ClientState,
        entry: &mut FileEntry,
        open: &Arc<State>,
        name: &[u8],
    ) -> Result<Arc<State>, Status> {
        let known = holdings.state_of(OwnerKind::Lock, name, open.file);
        if let Some(locker) = known.and_then(|key| self.states.get(key)) {
            return Ok(locker);
        }
        let owners = &mut holdings.lock_owners;
        if !owners.contains_key(name) {
            self.add_owner(owners, name, 0)?;
        }
        let shared = shared_name(owners, name);
        let charge = self.charge_state().ok_or(Status::Resource)?;
        let make = |key| State::locks(key, &shared, open, charge);
        let locker = self.states.insert(make).ok_or(Status::Resource)?;
        if let Some(owner) = owners.get_mut(name) {
            owner.states.insert(open.file, locker.key);
        }
        entry.lockers.insert(locker.key, Arc::clone(&locker));
        Ok(locker)
    }

    fn set_range(
        &self,
        entry: &mut FileEntry,
        locker: &State,
        request: LockRequest<'_>,
    ) -> Result<Stateid, Status> {
        let all = self.ranges.load(Ordering::Relaxed);
        if entry.ranges.len() >= NFS4_FILE_RANGES_MAX || all >= NFS4_RANGES_MAX {
            return Err(Status::Resource);
        }
        // A lock in the middle of another one leaves three ranges.
        if !self.memory.clients.has_room(2 * NFS4_RANGE_BYTES) {
            self.memory.note_client_refused();
            return Err(Status::Resource);
        }
        self.count_ranges(entry, |entry| entry.ranges.set(locker.key, request.span, request.mode));
        Ok(locker.advance_generation())
    }

    /// Unlocks a range of bytes.
    ///
    /// # Errors
    /// `BadStateid` for an open; `Resource` if the file would have too many ranges.
    pub(crate) fn unlock_range(&self, state: &State, span: Span) -> Result<Stateid, Status> {
        let mut shard = self.files.lock(state.file);
        let entry = shard.get_mut(&state.file).ok_or(Status::BadStateid)?;
        if state.open.is_none() || !state.is_live() {
            return Err(Status::BadStateid);
        }
        self.count_ranges(entry, |entry| entry.ranges.clear(state.key, span));
        Ok(state.advance_generation())
    }

    /// Checks whether a lock could be set.
    ///
    /// # Errors
    /// The conflicting lock.
    pub(crate) fn test_lock(
        &self,
        client: u64,
        file: InodeId,
        request: LockRequest<'_>,
        now_ns: u64,
    ) -> Result<(), ConflictingLock> {
        loop {
            let found = {
                let shard = self.files.lock(file);
                shard.get(&file).and_then(|entry| find_conflict(entry, client, request))
            };
            let Some((range, holder)) = found else { return Ok(()) };
            if self.expire_holder(&holder, Status::Denied, now_ns).is_err() {
                return Err(denied_by(range, &holder));
            }
        }
    }

    /// Forgets a lock owner that has no locks.
    ///
    /// # Errors
    /// `LocksHeld`.
    pub(crate) fn release_lock_owner(&self, client: &Client, name: &[u8]) -> Result<(), Status> {
        let mut holdings = client.lock();
        let holdings = live_state(&mut holdings)?;
        let Some(owner) = holdings.lock_owners.get(name) else { return Ok(()) };
        let mut lockers = Vec::new();
        for key in owner.states.values() {
            let Some(locker) = self.states.get(*key) else { continue };
            if self.holds_range(&locker) {
                return Err(Status::LocksHeld);
            }
            lockers.push(locker);
        }
        holdings.lock_owners.remove(name);
        for locker in &lockers {
            self.end_state(locker.key);
        }
        Ok(())
    }

    /// Forgets a lock state that has no locks.
    ///
    /// # Errors
    /// `LocksHeld` for opens and if locks are held.
    pub(crate) fn free_state(&self, state: &State) -> Result<(), Status> {
        let mut holdings = state.client.lock();
        let holdings = live_state(&mut holdings)?;
        if state.delegation.is_some() {
            return self.free_delegation(holdings, state);
        }
        if state.open.is_none() || self.holds_range(state) {
            return Err(Status::LocksHeld);
        }
        forget_locker(holdings, state);
        self.end_state(state.key);
        Ok(())
    }

    fn holds_range(&self, locker: &State) -> bool {
        let shard = self.files.lock(locker.file);
        shard.get(&locker.file).is_some_and(|entry| entry.ranges.has_locks(locker.key))
    }

    /// Removes a lock state from its file.
    pub(super) fn end_locks(&self, locker: &State) {
        let mut shard = self.files.lock(locker.file);
        if let Some(entry) = shard.get_mut(&locker.file) {
            entry.lockers.remove(&locker.key);
            self.count_ranges(entry, |entry| entry.ranges.clear_all(locker.key));
        }
    }

    /// Removes an open from its file, with its locks; returns their lock states.
    pub(super) fn remove_open(&self, open: &State) -> Vec<Arc<State>> {
        let mut shard = self.files.lock(open.file);
        let Some(entry) = shard.get_mut(&open.file) else { return Vec::new() };
        let mut lockers = Vec::new();
        self.count_ranges(entry, |entry| lockers = self.files.remove(entry, open));
        FileEntry::drop_if_unused(&mut shard, open.file);
        lockers
    }

    /// Changes the ranges of a file and updates their count.
    fn count_ranges(&self, entry: &mut FileEntry, change: impl FnOnce(&mut FileEntry)) {
        let before = entry.ranges.len();
        change(entry);
        let after = entry.ranges.len();
        self.ranges.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        self.ranges.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
        let budget = &self.memory.clients;
        budget.add(after.saturating_sub(before) as u64 * NFS4_RANGE_BYTES);
        budget.subtract(before.saturating_sub(after) as u64 * NFS4_RANGE_BYTES);
    }
}

/// Returns another owner's lock that conflicts with the request, and its state.
fn find_conflict(
    entry: &FileEntry,
    client: u64,
    request: LockRequest<'_>,
) -> Option<(Range, Arc<State>)> {
    // An owner's name is local to its client: the same name at another client is another owner.
    let is_own = |key| {
        entry
            .lockers
            .get(&key)
            .is_some_and(|locker| locker.client.id == client && *locker.owner == *request.owner)
    };
    let range = entry.ranges.find_conflict(request.span, request.mode, is_own)?;
    let locker = entry.lockers.get(&range.state)?;
    Some((range, Arc::clone(locker)))
}

fn denied_by(range: Range, holder: &State) -> ConflictingLock {
    ConflictingLock {
        span: range.span,
        mode: range.mode,
        client: holder.client.id,
        owner: Arc::clone(&holder.owner),
    }
}
