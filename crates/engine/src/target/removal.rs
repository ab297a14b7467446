//! Progress of the removal of a working directory, for the person who waits for it.
//!
//! Removing a hundred thousand files takes minutes on a slow server. A `Removal` counts what is
//! gone, and [`progress`] reads it from any thread of the process. Nothing is measured meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The removal in progress in this process; the latest, if there are several.
static CURRENT: Mutex<Option<Removal>> = Mutex::new(None);

/// How far a removal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Path or address of the directory.
    pub place: String,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries that were found, removed ones included.
    pub found: u64,
    /// Every directory was listed, so that there are no more entries.
    pub is_all_found: bool,
}

/// Returns the progress of the removal that this process makes at the moment.
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
    /// Runs a removal, whose progress can be read until it ends.
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

    /// Notes that an entry was removed.
    pub(super) fn note_removed(&self) {
        self.0.removed.fetch_add(1, Relaxed);
    }

    /// Notes entries that a directory was found to have.
    pub(super) fn note_found(&self, entries: u64) {
        self.0.found.fetch_add(entries, Relaxed);
    }

    /// Notes that so many entries are left, and no more.
    pub(super) fn note_all_left(&self, left: u64) {
        self.0.found.store(self.0.removed.load(Relaxed) + left, Relaxed);
        self.0.is_all_found.store(true, Relaxed);
    }

    /// Returns true if all that is left was counted.
    pub(super) fn is_all_found(&self) -> bool {
        self.0.is_all_found.load(Relaxed)
    }
}

fn lock_current() -> MutexGuard<'static, Option<Removal>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}
