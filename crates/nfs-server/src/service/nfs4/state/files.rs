//! Who has which file open, and who has locked what in it.
//!
//! Entries are spread over shards by file, each with one mutex, and exist only while a file is open
//! or delegated. Counts of readers, writers and deniers answer most questions, so opening a file
//! that ten thousand others have open costs the same as opening a private one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::client::Client;
use super::held_state::{READ, Share, State, WRITE};
use super::ranges::Ranges;
use crate::fs::InodeId;
use crate::sync;

const SHARDS: u64 = 64;

/// The opens and locks of one file.
#[derive(Debug, Default)]
pub(super) struct FileEntry {
    opens: HashMap<u64, Arc<State>>,
    /// Lock states, including those that currently have no locks.
    pub(super) lockers: HashMap<u64, Arc<State>>,
    pub(super) ranges: Ranges,
    /// Read delegations.
    delegations: Vec<Arc<State>>,
    /// Layouts: one state for each client that has any.
    layouts: Vec<Arc<State>>,
    /// Number of opens with each bit: access READ, WRITE, deny READ, WRITE.
    counts: [usize; 4],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    shards: Vec<Mutex<HashMap<InodeId, FileEntry>>>,
    /// Number of opens that deny something, in all files.
    deniers: AtomicUsize,
    /// Number of delegations of all files.
    delegations: AtomicUsize,
    /// Number of layout states of all files.
    layouts: AtomicUsize,
}

impl Files {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            deniers: AtomicUsize::new(0),
            delegations: AtomicUsize::new(0),
            layouts: AtomicUsize::new(0),
        }
    }

    /// Locks the shard of a file.
    pub(super) fn lock(&self, file: InodeId) -> MutexGuard<'_, HashMap<InodeId, FileEntry>> {
        let shard = &self.shards[(file.fileid() % SHARDS) as usize];
        sync::lock(shard)
    }

    /// Whether any open in any file denies something; usually none does, and then no shard has to
    /// be locked.
    pub(super) fn has_deniers(&self) -> bool {
        self.deniers.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of delegations; usually there are none, and nothing has to be recalled.
    pub(super) fn delegations(&self) -> usize {
        self.delegations.load(Ordering::Relaxed)
    }

    /// Adds a delegation.
    pub(super) fn add_delegation(&self, entry: &mut FileEntry, state: &Arc<State>) {
        entry.delegations.push(Arc::clone(state));
        self.delegations.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a delegation if it exists.
    pub(super) fn remove_delegation(&self, entry: &mut FileEntry, state: &State) {
        let before = entry.delegations.len();
        entry.delegations.retain(|held| held.key != state.key);
        self.delegations.fetch_sub(before - entry.delegations.len(), Ordering::Relaxed);
    }

    /// Returns the number of layout states.
    pub(super) fn layouts(&self) -> usize {
        self.layouts.load(Ordering::Relaxed)
    }

    /// All layout states.
    pub(super) fn all_layouts(&self) -> Vec<Arc<State>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for entry in sync::lock(shard).values() {
                all.extend(entry.layouts.iter().cloned());
            }
        }
        all
    }

    /// Adds the layouts of a client.
    pub(super) fn add_layouts(&self, entry: &mut FileEntry, state: &Arc<State>) {
        entry.layouts.push(Arc::clone(state));
        self.layouts.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the layouts of a client if they exist.
    pub(super) fn remove_layouts(&self, entry: &mut FileEntry, state: &State) {
        let before = entry.layouts.len();
        entry.layouts.retain(|held| held.key != state.key);
        self.layouts.fetch_sub(before - entry.layouts.len(), Ordering::Relaxed);
    }

    /// Adds an open.
    pub(super) fn add(&self, entry: &mut FileEntry, state: &Arc<State>) {
        self.count_share(entry, state.share());
        entry.opens.insert(state.key, Arc::clone(state));
    }

    /// Changes the access and deny bits of an open.
    pub(super) fn change_share(
        &self,
        entry: &mut FileEntry,
        state: &State,
        set: impl FnOnce(&State),
    ) {
        self.uncount_share(entry, state.share());
        set(state);
        self.count_share(entry, state.share());
    }

    /// Removes an open from its file, with its locks; returns their lock states.
    pub(super) fn remove(&self, entry: &mut FileEntry, state: &State) -> Vec<Arc<State>> {
        if entry.opens.remove(&state.key).is_none() {
            return Vec::new();
        }
        self.uncount_share(entry, state.share());
        let mut lockers = Vec::new();
        for locker in entry.lockers.values() {
            if let Some(open) = &locker.open
                && open.key == state.key
            {
                lockers.push(Arc::clone(locker));
            }
        }
        for locker in &lockers {
            entry.lockers.remove(&locker.key);
            entry.ranges.clear_all(locker.key);
        }
        lockers
    }

    // The counts of an entry and the number of deniers are changed together, under the lock of the
    // entry's shard. A READ that looks at `deniers` without that lock may be ordered before an OPEN
    // that is in flight; both orders are valid.
    fn count_share(&self, entry: &mut FileEntry, share: Share) {
        for (count, bit) in entry.counts.iter_mut().zip(bits(share)) {
            *count += usize::from(bit);
        }
        if share.deny != 0 {
            self.deniers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn uncount_share(&self, entry: &mut FileEntry, share: Share) {
        for (count, bit) in entry.counts.iter_mut().zip(bits(share)) {
            *count -= usize::from(bit);
        }
        if share.deny != 0 {
            self.deniers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl FileEntry {
    /// Returns an open that conflicts with `share`. As the RFC requires, an owner's own opens count
    /// like all others.
    ///
    /// **Source:** RFC 7530 section 9.9.
    pub(super) fn find_conflict(&self, share: Share) -> Option<&Arc<State>> {
        let [readers, writers, read_deniers, write_deniers] = self.counts.map(|count| count > 0);
        let [reads, writes, denies_read, denies_write] = bits(share);
        let forbidden = reads && read_deniers
            || writes && write_deniers
            || denies_read && readers
            || denies_write && writers;
        if !forbidden {
            return None;
        }
        // Only now go through the opens, to find one.
        self.opens.values().find(|open| open.share().conflicts(share))
    }

    /// The delegations held by clients other than `client`.
    pub(super) fn delegations_of_others(&self, client: Option<&Arc<Client>>) -> Vec<Arc<State>> {
        of_others(&self.delegations, client)
    }

    /// The layouts held by clients other than `client`.
    pub(super) fn layouts_of_others(&self, client: Option<&Arc<Client>>) -> Vec<Arc<State>> {
        of_others(&self.layouts, client)
    }

    /// Whether a client has the file open, or delegated.
    pub(super) fn is_open_by(&self, client: &Client) -> bool {
        let mut states = self.opens.values().chain(&self.delegations);
        states.any(|state| std::ptr::eq(client, &raw const *state.client))
    }

    /// Whether an open or a delegation lets a client read or write (`need`).
    pub(super) fn lets_client(&self, client: &Arc<Client>, need: u32) -> bool {
        let mut states = self.opens.values().chain(&self.delegations);
        // An open for writing also lets it read, as for READ.
        let lets = |state: &State| need == READ || state.share().access & need != 0;
        states.any(|state| Arc::ptr_eq(client, &state.client) && lets(state))
    }

    /// Whether a client other than `client` may write, or denies reading.
    pub(super) fn forbids_delegation(&self, client: &Arc<Client>) -> bool {
        let [_, writers, read_deniers, _] = self.counts;
        if writers == 0 && read_deniers == 0 {
            return false;
        }
        self.opens.values().any(|open| {
            let share = open.share();
            let forbids = share.access & WRITE != 0 || share.deny & READ != 0;
            forbids && !Arc::ptr_eq(client, &open.client)
        })
    }

    /// Removes the entry of a file that no client has open.
    pub(super) fn drop_if_unused(shard: &mut HashMap<InodeId, Self>, file: InodeId) {
        if let Some(entry) = shard.get(&file)
            && entry.opens.is_empty()
            && entry.delegations.is_empty()
            && entry.layouts.is_empty()
        {
            shard.remove(&file);
        }
    }
}

fn of_others(states: &[Arc<State>], client: Option<&Arc<Client>>) -> Vec<Arc<State>> {
    states
        .iter()
        .filter(|held| client.is_none_or(|client| !Arc::ptr_eq(client, &held.client)))
        .cloned()
        .collect()
}

fn bits(share: Share) -> [bool; 4] {
    [share.access & READ, share.access & WRITE, share.deny & READ, share.deny & WRITE]
        .map(|bit| bit != 0)
}
