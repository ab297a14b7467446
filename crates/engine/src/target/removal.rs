//! Progress of removing a working directory, for the person who waits for it.
//!
//! Removing a hundred thousand files takes minutes on a slow server. A `Removal` counts what has
//! been removed, and [`progress`] can be called from any thread of the process. Nothing is measured
//! at that time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The current removal of this process; if there are several, the latest.
static CURRENT: Mutex<Option<Removal>> = Mutex::new(None);

/// Progress of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Path or address of the directory.
    pub place: String,
    /// Number of entries removed.
    pub removed: u64,
    /// Number of entries found, including removed ones.
    pub found: u64,
    /// Whether every directory has been listed, so that no more entries will be found.
    pub is_all_found: bool,
}

/// Returns the progress of the current removal, if there is one.
pub fn progress() -> Option<Progress> {
    lock_current().as_ref().map(Removal::progress)
}

/// Counts the entries of one removal.
#[derive(Clone, Debug)]
pub(super) struct Removal(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    place: String,
    removed: AtomicU64,
    found: AtomicU64,
    is_all_found: AtomicBool,
}

impl Removal {
    /// Runs a removal whose progress can be read until it ends.
    pub(super) fn run<T>(place: String, remove: impl FnOnce(&Self) -> T) -> T {
        let removal = Self(Arc::new(Counts {
            place,
            removed: AtomicU64::new(0),
            found: AtomicU64::new(0),
            is_all_found: AtomicBool::new(false),
        }));
        *lock_current() = Some(removal.clone());
        let removed = remove(&removal);
        lock_current().take_if(|current| Arc::ptr_eq(&current.0, &removal.0));
        removed
    }

    pub(super) fn progress(&self) -> Progress {
        let Counts { place, removed, found, is_all_found } = &*self.0;
        let removed = removed.load(Relaxed);
        Progress {
            place: place.clone(),
            removed,
            found: found.load(Relaxed).max(removed),
            is_all_found: is_all_found.load(Relaxed),
        }
    }

    /// Records that an entry was removed.
    pub(super) fn note_removed(&self) {
        self.0.removed.fetch_add(1, Relaxed);
    }

    /// Records entries found in a directory.
    pub(super) fn record_found(&self, entries: u64) {
        self.0.found.fetch_add(entries, Relaxed);
    }

    /// Records that exactly `left` entries remain.
    pub(super) fn record_left(&self, left: u64) {
        self.0.found.store(self.0.removed.load(Relaxed) + left, Relaxed);
        self.0.is_all_found.store(true, Relaxed);
    }

    /// Returns true if everything that is left has been counted.
    pub(super) fn is_everything_counted(&self) -> bool {
        self.0.is_all_found.load(Relaxed)
    }
}

fn lock_current() -> MutexGuard<'static, Option<Removal>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}
