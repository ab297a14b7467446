//! Waits until a file system has released what a trial removed, so that the next trial finds it in
//! the same state.
//!
//! [`Settling`] records the number of free inodes before a trial creates its files and waits until
//! they are free again. Without a journal, ext4 releases inodes with a delay: consecutive trials
//! without this wait reached 44, 5, 7 and 50 kop/s. Dirty pages are written first. The wait for the
//! rest is limited and ends early if there is no more progress, because other programs use the file
//! system, too.
//!
//! **Source:** syncfs(2), statvfs(3).

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::clock::Clock;

/// Maximum time to wait for a file system.
pub(crate) const SETTLE_NS_MAX: u64 = 5_000_000_000;

/// If there is no progress for this long, the rest belongs to other processes.
const IDLE_NS_MAX: u64 = 500_000_000;

/// Pause between two readings.
const PAUSE_NS: u64 = 20_000_000;

/// Minimum number of files whose removal affects a file system by more than the usual noise.
pub const FILES_MIN: u32 = 1_000;

/// Returns the number of free inodes of a path's file system; 0 if it creates them on demand.
fn free_inodes(path: &Path) -> Option<u64> {
    Some(rustix::fs::statvfs(path).ok()?.f_ffree)
}

/// A file system used by a trial.
#[derive(Debug)]
struct UsedFileSystem {
    folder: PathBuf,
    /// Number of free inodes before the trial.
    free_inodes: u64,
}

/// The file systems used by a trial, with their free inodes.
#[derive(Debug, Default)]
pub struct Settling {
    places: Vec<UsedFileSystem>,
}

impl Settling {
    /// Records the free inodes next to the trial's working directories, which will be removed.
    pub fn next_to(directories: &[PathBuf]) -> Self {
        let mut places = Vec::with_capacity(directories.len());
        for directory in directories {
            if let Some(parent) = directory.parent()
                && let Some(free) = free_inodes(parent)
            {
                places.push(UsedFileSystem { folder: parent.to_owned(), free_inodes: free });
            }
        }
        Self { places }
    }

    /// Writes dirty data and waits until the inodes are free again. Returns true if they are on all
    /// file systems.
    pub fn settle(&self, clock: &dyn Clock) -> bool {
        let mut is_back = true;
        for UsedFileSystem { folder, free_inodes: before } in &self.places {
            if let Ok(directory) = File::open(folder) {
                // Write errors are reported to those who wrote the data.
                let _ = rustix::fs::syncfs(&directory);
            }
            is_back &= settle(clock, *before, &mut || free_inodes(folder));
        }
        is_back
    }
}

/// Waits until as many inodes are free as before. Returns true if they are.
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
    fn waits_for_inodes_to_return() {
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
    fn stops_waiting_for_stuck_inodes() {
        let clock = SetClock::default();
        assert!(!settle(&clock, 1_000, &mut || Some(999)));
        assert_eq!(clock.now_ns(), IDLE_NS_MAX);
        // Slow progress is worth waiting for, but not forever.
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
    fn does_not_wait_for_free_inodes() {
        let clock = SetClock::default();
        assert!(settle(&clock, 1_000, &mut || Some(1_000)));
        assert_eq!(clock.now_ns(), 0);
        let folder = tempfile::tempdir().unwrap();
        let settling = Settling::next_to(&[folder.path().join("work")]);
        assert_eq!(settling.places.len(), 1);
    }
}
