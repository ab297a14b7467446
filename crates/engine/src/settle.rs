//! Waits until a file system has released what a trial removed, so that the next one finds it as
//! this one did.
//!
//! [`Settling`] notes the inodes that are free before a trial makes its files, and waits for them
//! after the files are removed. ext4 without a journal gives inodes back in its own time: trials on
//! names that followed each other at once made 44, 5, 7 and 50 kop/s. Dirty pages are written
//! first; the wait for the rest is bounded, and is given up early where nothing more comes back,
//! since other programs use the file system, too.
//!
//! **Source:** syncfs(2), statvfs(3).

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::clock::Clock;

/// The longest that is waited for a file system.
pub const SETTLE_NS_MAX: u64 = 5_000_000_000;

/// Without any progress for so long the rest belongs to other processes.
const IDLE_NS_MAX: u64 = 500_000_000;

/// Pause between two readings.
const PAUSE_NS: u64 = 20_000_000;

/// From so many files on, what a trial leaves behind is more than the noise of a file system.
pub const FILES_MIN: u32 = 1_000;

/// Returns how many inodes are free where a path lies; 0 on file systems that make them as they are
/// needed.
fn free_inodes(path: &Path) -> Option<u64> {
    Some(rustix::fs::statvfs(path).ok()?.f_ffree)
}

/// A file system that a trial works on.
#[derive(Debug)]
struct Place {
    /// A folder on it.
    folder: PathBuf,
    /// Inodes that were free before the trial.
    free_inodes: u64,
}

/// The file systems that a trial works on, and what was free there.
#[derive(Debug, Default)]
pub struct Settling {
    places: Vec<Place>,
}

impl Settling {
    /// Notes what is free beside the working directories of a trial, which are removed with it.
    pub fn beside(directories: &[PathBuf]) -> Self {
        let mut places = Vec::with_capacity(directories.len());
        for directory in directories {
            if let Some(parent) = directory.parent()
                && let Some(free) = free_inodes(parent)
            {
                places.push(Place { folder: parent.to_owned(), free_inodes: free });
            }
        }
        Self { places }
    }

    /// Writes what is dirty and waits until as many inodes are free again; says whether they are
    /// everywhere.
    pub fn settle(&self, clock: &dyn Clock) -> bool {
        let mut is_back = true;
        for Place { folder, free_inodes: before } in &self.places {
            if let Ok(directory) = File::open(folder) {
                // What can't be written is an error of those who wrote it.
                let _ = rustix::fs::syncfs(&directory);
            }
            is_back &= settle(clock, *before, &mut || free_inodes(folder));
        }
        is_back
    }
}

/// Waits until as many inodes are free as before; says whether they are.
pub fn settle(clock: &dyn Clock, before: u64, read: &mut dyn FnMut() -> Option<u64>) -> bool {
    let begun_ns = clock.now_ns();
    let Some(mut last) = read() else { return false };
    let mut moved_ns = begun_ns;
    while last < before {
        let now_ns = clock.now_ns();
        if now_ns - begun_ns >= SETTLE_NS_MAX || now_ns - moved_ns >= IDLE_NS_MAX {
            return false;
        }
        clock.sleep_until(now_ns + PAUSE_NS);
        let Some(now) = read() else { return false };
        if now > last {
            moved_ns = clock.now_ns();
        }
        last = now;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SetClock;

    #[test]
    fn inodes_that_come_back_are_waited_for() {
        let clock = SetClock::default();
        let mut inodes = 900;
        let is_back = settle(&clock, 1_000, &mut || {
            inodes += 10;
            Some(inodes)
        });
        assert!(is_back);
        assert_eq!(clock.now_ns(), 9 * PAUSE_NS);
    }

    #[test]
    fn inodes_that_do_not_come_back_end_the_wait() {
        let clock = SetClock::default();
        assert!(!settle(&clock, 1_000, &mut || Some(999)));
        assert_eq!(clock.now_ns(), IDLE_NS_MAX);
        // Slow progress is waited for, but not for ever.
        let clock = SetClock::default();
        let mut inodes = 0;
        let is_back = settle(&clock, 1_000_000, &mut || {
            inodes += 1;
            Some(inodes)
        });
        assert!(!is_back);
        assert_eq!(clock.now_ns(), SETTLE_NS_MAX);
    }

    #[test]
    fn inodes_that_are_free_are_not_waited_for() {
        let clock = SetClock::default();
        assert!(settle(&clock, 1_000, &mut || Some(1_000)));
        assert_eq!(clock.now_ns(), 0);
        let folder = tempfile::tempdir().unwrap();
        let settling = Settling::beside(&[folder.path().join("work")]);
        assert_eq!(settling.places.len(), 1);
    }
}
