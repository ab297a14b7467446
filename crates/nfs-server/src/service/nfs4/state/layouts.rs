//! Layouts of a metadata server: granted, recalled, returned, revoked.
//!
//! A client's layouts of one file are a [`State`] of its own, next to the opens of the file. All
//! are of the whole file, and those of different clients don't conflict: each data file is written
//! by whoever has a layout, like a file of one server. They are recalled before another client
//! changes the size, and by planned faults. Layouts that end without being returned are
//! [`LostLayout`]s: the service finds out how large the file has become, and fences it if its
//! client may still write.
//!
//! **Source:** RFC 8881 sections 12.5 and 18.42 to 18.44; RFC 8435 section 2.2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nfs_proto::Status;
use nfs_proto::nfs4::{FileHandle, LayoutIoMode, Stateid};

use super::Tables;
use super::client::{Client, Requester};
use super::files::FileEntry;
use super::held_state::{READ, State, WRITE, client_and_key};
use super::opens::live_state;
use super::recall::Recall;
use crate::fs::{InodeId, Pin};
use crate::limits::{NFS4_LAYOUT_BYTES, NFS4_LAYOUTS_MAX, NFS4_STATE_BYTES};
use crate::sync;

/// Counters of layouts since the start.
#[derive(Debug, Default)]
pub(crate) struct LayoutCounts {
    /// LAYOUTGETs that were granted.
    pub(crate) granted: AtomicU64,
    /// Files whose layouts were recalled from a client, each counted once.
    pub(crate) recalled: AtomicU64,
    /// Files whose layouts a client returned, or gave up with the last CLOSE.
    pub(crate) returned: AtomicU64,
    /// Files whose layouts ended without that.
    pub(crate) revoked: AtomicU64,
}

/// Layouts that ended although their client may have written under them.
#[derive(Debug)]
pub(crate) struct LostLayout {
    /// Keeps the file.
    pub(crate) file: Pin,
    /// Whether the client has to be kept from its data files.
    pub(crate) is_fenced: bool,
}

/// A layout that a client requests.
#[derive(Debug)]
pub(crate) struct LayoutRequest {
    pub(crate) pin: Pin,
    pub(crate) handle: FileHandle,
    pub(crate) layout_type: u32,
    pub(crate) iomode: LayoutIoMode,
}

/// Which layouts of a file are returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReturnedRange {
    pub(crate) iomode: LayoutIoMode,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl ReturnedRange {
    /// Everything.
    pub(super) const ALL: Self = Self { iomode: LayoutIoMode::Any, offset: 0, length: u64::MAX };
}

/// Lost layouts that nobody has looked after yet.
#[derive(Debug, Default)]
pub(super) struct LostLayouts {
    queue: std::sync::Mutex<Vec<LostLayout>>,
    count: AtomicUsize,
}

impl Tables {
    /// Grants a layout of a whole file to a client that has it open. The stateid is that of an open
    /// at first, and that of its layouts later.
    ///
    /// # Errors
    /// Those of `find_state`; `OpenMode`, `RecallConflict` while its layouts are recalled, or
    /// `Jukebox` if there is no memory.
    pub(crate) fn grant_layout(
        &self,
        client: &Arc<Client>,
        stateid: &Stateid,
        request: LayoutRequest,
        now_ns: u64,
    ) -> Result<Stateid, Status> {
        let LayoutRequest { pin, handle, layout_type, iomode } = request;
        let file = pin.id();
        let named = self.find_state(stateid, Requester::Session(client), now_ns)?;
        if !named.is_live() {
            return Err(named.ended_status());
        }
        if named.file != file {
            return Err(Status::BadStateid);
        }
        check_layout_generation(&named, stateid)?;
        let mut holdings = client.lock();
        let holdings = live_state(&mut holdings)?;
        let known = holdings.layouts.get(&file).and_then(|key| self.states.get(*key));
        let mut shard = self.files.lock(file);
        let entry = shard.get_mut(&file).ok_or(Status::BadStateid)?;
        let need = if iomode == LayoutIoMode::ReadWrite { WRITE } else { READ };
        if !entry.lets_client(client, need) {
            return Err(Status::OpenMode);
        }
        let state = if let Some(state) = known {
            if state.recall().is_some_and(Recall::has_begun) {
                return Err(Status::RecallConflict);
            }
            state
        } else {
            if self.files.layouts() >= NFS4_LAYOUTS_MAX {
                return Err(Status::Jukebox);
            }
            let bytes = NFS4_STATE_BYTES + NFS4_LAYOUT_BYTES;
            let charge = self.memory.take_for_client(bytes).ok_or(Status::Jukebox)?;
            let make = |key| State::layouts(key, client, pin, handle, layout_type, charge);
            let state = self.states.insert(make).ok_or(Status::Jukebox)?;
            self.files.add_layouts(entry, &state);
            holdings.layouts.insert(file, state.key);
            state
        };
        if let Some(layout) = &state.layout {
            sync::lock(&layout.ranges).add_all(iomode);
        }
        self.layout_counts.granted.fetch_add(1, Ordering::Relaxed);
        Ok(state.advance_generation())
    }

    /// Finds the layouts that a client claims to have of a file.
    ///
    /// # Errors
    /// Those of `find_state`; `BadStateid` or `OldStateid`.
    pub(crate) fn find_layouts(
        &self,
        stateid: &Stateid,
        client: &Arc<Client>,
        file: InodeId,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        let state = self.find_state(stateid, Requester::Session(client), now_ns)?;
        if !state.is_live() || state.file != file || state.layout.is_none() {
            return Err(Status::BadStateid);
        }
        check_layout_generation(&state, stateid)?;
        Ok(state)
    }

    /// Whether a client may publish what it has written under these layouts.
    pub(crate) fn is_writable(state: &State) -> bool {
        state.layout.as_ref().is_some_and(|layout| sync::lock(&layout.ranges).has_writable())
    }

    /// Returns a range of layouts; the stateid of those that are left, if any.
    ///
    /// # Errors
    /// `Expired` for a client that has been forgotten.
    pub(crate) fn return_layouts(
        &self,
        state: &State,
        returned: ReturnedRange,
    ) -> Result<Option<Stateid>, Status> {
        let Some(layout) = &state.layout else { return Err(Status::BadStateid) };
        let is_empty = {
            let mut ranges = sync::lock(&layout.ranges);
            let end = returned.offset.saturating_add(returned.length);
            ranges.remove(returned.iomode, returned.offset, end);
            ranges.is_empty()
        };
        if !is_empty {
            return Ok(Some(state.advance_generation()));
        }
        let mut holdings = state.client.lock();
        let holdings = live_state(&mut holdings)?;
        if holdings.layouts.get(&state.file) == Some(&state.key) {
            holdings.layouts.remove(&state.file);
            self.end_layouts_cleanly(state);
        }
        Ok(None)
    }

    /// Returns all layouts of a client for these modes.
    pub(crate) fn return_all_layouts(&self, client: &Client, iomode: LayoutIoMode) {
        let keys: Vec<u64> = client.lock().layouts.values().copied().collect();
        for state in keys.into_iter().filter_map(|key| self.states.get(key)) {
            // It fails only if the client is being forgotten, and its layouts with it.
            let _ = self.return_layouts(&state, ReturnedRange { iomode, ..ReturnedRange::ALL });
        }
    }

    /// Ends a client's layouts of a file that it has no longer open, as it was told at LAYOUTGET.
    pub(super) fn return_layouts_on_close(&self, client: &Client, file: InodeId) {
        let mut holdings = client.lock();
        let Some(state) = holdings.layouts.get(&file).and_then(|key| self.states.get(*key)) else {
            return;
        };
        let is_open = {
            let shard = self.files.lock(file);
            shard.get(&file).is_some_and(|entry| entry.is_open_by(client))
        };
        if !is_open {
            holdings.layouts.remove(&file);
            self.end_layouts_cleanly(&state);
        }
    }

    /// Recalls all layouts.
    pub(crate) fn recall_all_layouts(&self, now_ns: u64) {
        // It fails while one of them is still held.
        let _ = self.recall_all(&self.files.all_layouts(), now_ns);
    }

    /// Ends all layouts without a recall.
    pub(crate) fn revoke_all_layouts(&self) {
        for state in self.files.all_layouts() {
            self.revoke_layouts(&state);
        }
    }

    /// The files that clients have layouts of.
    pub(crate) fn files_with_layouts(&self) -> Vec<InodeId> {
        self.files.all_layouts().iter().map(|state| state.file).collect()
    }

    /// Makes clients other than `client` return their layouts of a file.
    ///
    /// # Errors
    /// `Jukebox` until they have.
    pub(crate) fn recall_layouts_of_others(
        &self,
        file: InodeId,
        client: Option<&Arc<Client>>,
        now_ns: u64,
    ) -> Result<(), Status> {
        if self.files.layouts() == 0 {
            return Ok(());
        }
        let holders = match self.files.lock(file).get(&file) {
            Some(entry) => entry.layouts_of_others(client),
            None => return Ok(()),
        };
        self.recall_all(&holders, now_ns)
    }

    /// Forgets clients whose lease has expired and that have layouts of a file, so that its size
    /// becomes known.
    pub(crate) fn expire_layouts(&self, file: InodeId, now_ns: u64) {
        if self.files.layouts() == 0 {
            return;
        }
        let holders = match self.files.lock(file).get(&file) {
            Some(entry) => entry.layouts_of_others(None),
            None => return,
        };
        for holder in holders {
            if holder.client.is_expired(now_ns, self.lease_ns) {
                self.forget(&holder.client);
            }
        }
    }

    /// Takes back layouts that a client did not return.
    pub(super) fn revoke_layouts(&self, state: &State) {
        let mut holdings = state.client.lock();
        if holdings.dead || holdings.layouts.get(&state.file) != Some(&state.key) {
            return;
        }
        holdings.layouts.remove(&state.file);
        self.lose_layouts(state, true);
        self.states.remove(state.key);
    }

    /// Ends layouts that were not returned.
    pub(super) fn lose_layouts(&self, state: &State, is_fenced: bool) {
        self.remove_layouts(state);
        self.layout_counts.revoked.fetch_add(1, Ordering::Relaxed);
        let is_writable = Self::is_writable(state);
        if let Some(file) = state.end_keeping_file()
            && (is_writable || is_fenced)
        {
            self.note_lost_layout(file, is_fenced);
        }
    }

    /// Makes someone look after a file that may have been written without LAYOUTCOMMIT.
    pub(crate) fn note_lost_layout(&self, file: Pin, is_fenced: bool) {
        sync::lock(&self.lost_layouts.queue).push(LostLayout { file, is_fenced });
        self.lost_layouts.count.fetch_add(1, Ordering::Release);
    }

    /// Whether a stateid was made for this client, even if its state is gone.
    pub(crate) fn is_of_client(stateid: &Stateid, client: &Client) -> bool {
        !stateid.is_special() && client_and_key(stateid).0 == client.number()
    }

    /// Whether there are lost layouts to look after; usually there are none.
    pub(crate) fn has_lost_layouts(&self) -> bool {
        self.lost_layouts.count.load(Ordering::Acquire) > 0
    }

    /// Takes all lost layouts.
    pub(crate) fn take_lost_layouts(&self) -> Vec<LostLayout> {
        let taken = std::mem::take(&mut *sync::lock(&self.lost_layouts.queue));
        self.lost_layouts.count.fetch_sub(taken.len(), Ordering::Release);
        taken
    }

    /// Puts back lost layouts that need more time.
    pub(crate) fn put_back_lost_layouts(&self, lost: Vec<LostLayout>) {
        self.lost_layouts.count.fetch_add(lost.len(), Ordering::Release);
        sync::lock(&self.lost_layouts.queue).extend(lost);
    }

    fn end_layouts_cleanly(&self, state: &State) {
        self.remove_layouts(state);
        self.states.remove(state.key);
        state.end();
        self.layout_counts.returned.fetch_add(1, Ordering::Relaxed);
    }

    fn remove_layouts(&self, state: &State) {
        let mut shard = self.files.lock(state.file);
        if let Some(entry) = shard.get_mut(&state.file) {
            self.files.remove_layouts(entry, state);
            FileEntry::drop_if_unused(&mut shard, state.file);
        }
    }
}

/// Checks the generation of a layout stateid: several calls may be in flight, so earlier ones are
/// valid, but 0 is not (RFC 8881 section 12.5.3). Other stateids only have their usual rules.
fn check_layout_generation(state: &State, stateid: &Stateid) -> Result<(), Status> {
    let requester = Requester::Session(&state.client);
    if state.layout.is_none() {
        return state.check_generation(stateid.seqid, requester);
    }
    match state.check_generation(stateid.seqid, requester) {
        _ if stateid.seqid == 0 => Err(Status::BadStateid),
        Err(Status::OldStateid) => Ok(()),
        checked => checked,
    }
}
