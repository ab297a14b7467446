//! Who has which file open, and who has locked what in it.
//!
//! Entries are spread over shards by file, each with one mutex, and exist only while a file is
//! open. Counts of readers, writers and deniers answer most questions, so opening a file that ten
//! thousand others have open costs the same as opening one of one's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::held::{READ, Share, State, WRITE};
use super::ranges::Ranges;
use crate::fs::InodeId;

const SHARDS: u64 = 64;

/// The opens and locks of one file.
#[derive(Debug, Default)]
pub(super) struct FileEntry {
    opens: HashMap<u64, Arc<State>>,
    /// States of locks, also those without any lock at the moment.
    pub(super) lockers: HashMap<u64, Arc<State>>,
    pub(super) ranges: Ranges,
    /// Number of opens with each bit: access READ, WRITE, deny READ, WRITE.
    counts: [usize; 4],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    shards: Vec<Mutex<HashMap<InodeId, FileEntry>>>,
    /// Opens that deny something, anywhere.
    deniers: AtomicUsize,
}

impl Files {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, deniers: AtomicUsize::new(0) }
    }

    /// Locks the shard that a file is in.
    pub(super) fn lock(&self, file: InodeId) -> MutexGuard<'_, HashMap<InodeId, FileEntry>> {
        let shard = &self.shards[(file.fileid() % SHARDS) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any open anywhere denies something; mostly not, and then nobody needs to look.
    pub(super) fn has_deniers(&self) -> bool {
        self.deniers.load(Ordering::Relaxed) > 0
    }

    /// Adds an open.
    pub(super) fn add(&self, entry: &mut FileEntry, state: &Arc<State>) {
        entry.count(state.share(), true);
        self.count_denier(state.share(), true);
        entry.opens.insert(state.key, Arc::clone(state));
    }

    /// Changes what an open allows and denies.
    pub(super) fn change(&self, entry: &mut FileEntry, state: &State, set: impl FnOnce(&State)) {
        entry.count(state.share(), false);
        self.count_denier(state.share(), false);
        set(state);
        entry.count(state.share(), true);
        self.count_denier(state.share(), true);
    }

    /// Takes an open off its file with the locks under it; returns the states of those locks.
    pub(super) fn remove(&self, entry: &mut FileEntry, state: &State) -> Vec<Arc<State>> {
        if entry.opens.remove(&state.key).is_none() {
            return Vec::new();
        }
        entry.count(state.share(), false);
        self.count_denier(state.share(), false);
        let under =
            |locker: &Arc<State>| locker.open.as_ref().is_some_and(|open| open.key == state.key);
        let lockers: Vec<_> = entry.lockers.values().filter(|it| under(it)).cloned().collect();
        for locker in &lockers {
            entry.lockers.remove(&locker.key);
            entry.ranges.clear_all(locker.key);
        }
        lockers
    }

    fn count_denier(&self, share: Share, up: bool) {
        if share.deny == 0 {
            return;
        }
        if up {
            self.deniers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.deniers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl FileEntry {
    /// An open that forbids `share`. An owner's own opens count like all others, which is how the
    /// RFC has it.
    ///
    /// **Source:** RFC 7530 section 9.9.
    pub(super) fn conflict(&self, share: Share) -> Option<&Arc<State>> {
        let [readers, writers, read_deniers, write_deniers] = self.counts.map(|count| count > 0);
        let asked = bits(share);
        let forbidden = asked[0] && read_deniers
            || asked[1] && write_deniers
            || asked[2] && readers
            || asked[3] && writers;
        let find = || self.opens.values().find(|open| open.share().conflicts(share));
        forbidden.then(find).flatten()
    }

    /// Takes the entry of a file out that nobody has open.
    pub(super) fn drop_if_unused(shard: &mut HashMap<InodeId, Self>, file: InodeId) {
        if shard.get(&file).is_some_and(|entry| entry.opens.is_empty()) {
            shard.remove(&file);
        }
    }

    fn count(&mut self, share: Share, up: bool) {
        for (count, bit) in self.counts.iter_mut().zip(bits(share)) {
            *count = if up { *count + usize::from(bit) } else { *count - usize::from(bit) };
        }
    }
}

fn bits(share: Share) -> [bool; 4] {
    [share.access & READ, share.access & WRITE, share.deny & READ, share.deny & WRITE]
        .map(|bit| bit != 0)
}
