//! Byte-range locks: LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER and FREE_STATEID.
//!
//! Locks advise: READ and WRITE don't look at them. A lock that would have to wait is refused, and
//! the client asks again.
//!
//! **Source:** RFC 7530 sections 9.2 and 16.10 to 16.12, RFC 8881 sections 9.2 and 18.38.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::Tables;
use super::client::{Client, Holdings, OwnerKind};
use super::files::FileEntry;
use super::held::{READ, State, WRITE};
use super::opens::{forget_locker, living};
use super::owner::{Owner, OwnerTurn};
use super::ranges::{Range, Span};
use crate::fs::InodeId;
use crate::limits::{NFS4_FILE_RANGES_MAX, NFS4_RANGES_MAX};

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::service) struct LockAsk<'a> {
    /// Name of the owner of locks.
    pub(in crate::service) owner: &'a [u8],
    /// The bytes that are locked.
    pub(in crate::service) span: Span,
    /// Whether nobody else may lock them.
    pub(in crate::service) exclusive: bool,
}

/// The lock that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::service) struct Denied {
    /// The bytes that are locked.
    pub(in crate::service) span: Span,
    /// Whether it is exclusive.
    pub(in crate::service) exclusive: bool,
    /// Whose it is.
    pub(in crate::service) client: u64,
    /// Name of the owner.
    pub(in crate::service) owner: Arc<[u8]>,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::service) enum Refused {
    /// Another lock is in the way.
    Denied(Denied),
    /// Any other status.
    Status(Status),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Tables {
    /// Places the first numbered call of an owner of locks, making the owner where it is new.
    ///
    /// # Errors
    /// `BadSeqid`, `Jukebox`, `Expired`, `Resource`.
    pub(in crate::service) fn begin_lock(
        &self,
        client: &Client,
        name: &[u8],
        sequence: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        let mut holdings = client.lock();
        let holdings = living(&mut holdings)?;
        if !holdings.lock_owners.contains_key(name) {
            self.make_room(holdings, OwnerKind::Lock, now_ns)?;
            holdings.lock_owners.insert(Arc::from(name), Owner::starting_at(sequence));
        }
        let owner = holdings.lock_owners.get_mut(name).ok_or(Status::BadSeqid)?;
        match owner.begin(sequence, now_ns)? {
            OwnerTurn::New => Ok(()),
            // The owner of the open has a new call, so this can't be an old one.
            OwnerTurn::Replay(_) => Err(Status::BadSeqid),
        }
    }

    /// Locks bytes of an open file. `state` is the open, or a state of locks under it.
    ///
    /// # Errors
    /// [`Refused`]; its status is `OpenMode` where the file is not open for it.
    pub(in crate::service) fn lock(
        &self,
        state: &Arc<State>,
        ask: LockAsk<'_>,
        now_ns: u64,
    ) -> Result<Stateid, Refused> {
        let open = state.open.as_ref().unwrap_or(state);
        let need = if ask.exclusive { WRITE } else { READ };
        if open.share().access & need == 0 {
            return Err(Status::OpenMode.into());
        }
        loop {
            let mut holdings = open.client.lock();
            let mut shard = self.files.lock(open.file);
            let entry = shard.get_mut(&open.file).filter(|_| open.is_live());
            let entry = entry.ok_or(Status::BadStateid)?;
            let Some((range, holder)) = conflict(entry, open.client.id, ask) else {
                let locker = self.locker(living(&mut holdings)?, entry, open, ask.owner)?;
                return Ok(self.set_range(entry, &locker, ask)?);
            };
            drop(shard);
            drop(holdings);
            self.make_way(&holder, Status::Denied, now_ns).map_err(|_| denied(range, &holder))?;
        }
    }

    /// The state of an owner's locks in a file; a new one where there is none.
    fn locker(
        &self,
        holdings: &mut Holdings,
        entry: &mut FileEntry,
        open: &Arc<State>,
        name: &[u8],
    ) -> Result<Arc<State>, Status> {
        let known = holdings.state_of(OwnerKind::Lock, name, open.file);
        if let Some(locker) = known.and_then(|key| self.states.get(key)) {
            return Ok(locker);
        }
        let owners = &mut holdings.lock_owners;
        let shared = owners.get_key_value(name).map(|(name, _)| Arc::clone(name));
        let shared = shared.unwrap_or_else(|| Arc::from(name));
        let made = self.states.insert(|key| State::locks(key, &shared, open));
        let locker = made.ok_or(Status::Resource)?;
        owners.entry(shared).or_default().states.insert(open.file, locker.key);
        entry.lockers.insert(locker.key, Arc::clone(&locker));
        Ok(locker)
    }

    fn set_range(
        &self,
        entry: &mut FileEntry,
        locker: &State,
        ask: LockAsk<'_>,
    ) -> Result<Stateid, Status> {
        let all = self.ranges.load(Ordering::Relaxed);
        if entry.ranges.len() >= NFS4_FILE_RANGES_MAX || all >= NFS4_RANGES_MAX {
            return Err(Status::Resource);
        }
        self.counting(entry, |entry| entry.ranges.set(locker.key, ask.span, ask.exclusive));
        Ok(locker.bump())
    }

    /// Unlocks a range of bytes.
    ///
    /// # Errors
    /// `BadStateid` for an open; `Resource` where the file would have too many ranges.
    pub(in crate::service) fn unlock(&self, state: &State, span: Span) -> Result<Stateid, Status> {
        let mut shard = self.files.lock(state.file);
        let entry = shard.get_mut(&state.file).ok_or(Status::BadStateid)?;
        if state.open.is_none() || !state.is_live() {
            return Err(Status::BadStateid);
        }
        self.counting(entry, |entry| entry.ranges.clear(state.key, span));
        Ok(state.bump())
    }

    /// Whether a lock could be set.
    ///
    /// # Errors
    /// The lock that is in the way.
    pub(in crate::service) fn test_lock(
        &self,
        client: u64,
        file: InodeId,
        ask: LockAsk<'_>,
        now_ns: u64,
    ) -> Result<(), Denied> {
        loop {
            let found = {
                let shard = self.files.lock(file);
                shard.get(&file).and_then(|entry| conflict(entry, client, ask))
            };
            let Some((range, holder)) = found else { return Ok(()) };
            self.make_way(&holder, Status::Denied, now_ns)
                .map_err(|_| denied_by(range, &holder))?;
        }
    }

    /// Forgets an owner of locks that has none.
    ///
    /// # Errors
    /// `LocksHeld`.
    pub(in crate::service) fn release_lock_owner(
        &self,
        client: &Client,
        name: &[u8],
    ) -> Result<(), Status> {
        let mut holdings = client.lock();
        let holdings = living(&mut holdings)?;
        let Some(owner) = holdings.lock_owners.get(name) else { return Ok(()) };
        let lockers: Vec<_> =
            owner.states.values().filter_map(|key| self.states.get(*key)).collect();
        if lockers.iter().any(|locker| self.holds(locker)) {
            return Err(Status::LocksHeld);
        }
        holdings.lock_owners.remove(name);
        for locker in &lockers {
            self.end_state(locker.key);
        }
        Ok(())
    }

    /// Forgets a state of locks that has none.
    ///
    /// # Errors
    /// `LocksHeld` for opens and for locks that are held.
    pub(in crate::service) fn free(&self, state: &State) -> Result<(), Status> {
        let mut holdings = state.client.lock();
        let holdings = living(&mut holdings)?;
        if state.open.is_none() || self.holds(state) {
            return Err(Status::LocksHeld);
        }
        forget_locker(holdings, state);
        self.end_state(state.key);
        Ok(())
    }

    fn holds(&self, locker: &State) -> bool {
        let shard = self.files.lock(locker.file);
        shard.get(&locker.file).is_some_and(|entry| entry.ranges.holds(locker.key))
    }

    /// Takes a state of locks off its file.
    pub(super) fn end_locks(&self, locker: &State) {
        let mut shard = self.files.lock(locker.file);
        if let Some(entry) = shard.get_mut(&locker.file) {
            entry.lockers.remove(&locker.key);
            self.counting(entry, |entry| entry.ranges.clear_all(locker.key));
        }
    }

    /// Takes an open off its file with the locks under it; returns the states of those locks.
    pub(super) fn remove_open(&self, open: &State) -> Vec<Arc<State>> {
        let mut shard = self.files.lock(open.file);
        let Some(entry) = shard.get_mut(&open.file) else { return Vec::new() };
        let mut lockers = Vec::new();
        self.counting(entry, |entry| lockers = self.files.remove(entry, open));
        FileEntry::drop_if_unused(&mut shard, open.file);
        lockers
    }

    /// Lets ranges of a file change and counts them.
    fn counting(&self, entry: &mut FileEntry, change: impl FnOnce(&mut FileEntry)) {
        let before = entry.ranges.len();
        change(entry);
        let after = entry.ranges.len();
        self.ranges.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        self.ranges.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
    }
}

/// The lock of another owner that forbids the one asked for, and its state.
fn conflict(entry: &FileEntry, client: u64, ask: LockAsk<'_>) -> Option<(Range, Arc<State>)> {
    let own = |key| {
        let locker = entry.lockers.get(&key);
        locker.is_some_and(|it| it.client.id == client && *it.owner == *ask.owner)
    };
    let range = entry.ranges.conflict(ask.span, ask.exclusive, own)?;
    entry.lockers.get(&range.state).map(|locker| (range, Arc::clone(locker)))
}

fn denied_by(range: Range, holder: &State) -> Denied {
    Denied {
        span: range.span,
        exclusive: range.exclusive,
        client: holder.client.id,
        owner: Arc::clone(&holder.owner),
    }
}

fn denied(range: Range, holder: &State) -> Refused {
    Refused::Denied(denied_by(range, holder))
}
