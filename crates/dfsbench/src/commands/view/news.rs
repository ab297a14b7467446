//! Tracks changes of the results file for pages that wait for them.
//!
//! [`ChangeFeed`] is the main type: one thread reads the file and records changes, and any number
//! of connections wait. Changes are kept for a while, so that a client that asks late misses none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{CampaignLine, CampaignState};

use crate::terminal::output::lock_always;

/// Maximum number of changes to keep. A client that missed more gets all campaigns.
const KEPT_MAX: usize = 64;

/// The changes so far.
#[derive(Default)]
pub(super) struct ChangeFeed {
    history: Mutex<History>,
    more: Condvar,
}

#[derive(Default)]
struct History {
    version: u64,
    changes: VecDeque<Vec<i64>>,
    known: BTreeMap<i64, (CampaignState, u32)>,
    running: Vec<i64>,
}

impl ChangeFeed {
    /// Compares the campaigns, and those that are currently being run, with the last update, and
    /// wakes the waiting clients if anything changed.
    pub(super) fn update(&self, lines: &[CampaignLine], running: Vec<i64>) {
        let mut history = self.lock_history();
        let mut gone = std::mem::take(&mut history.known);
        let mut changed = Vec::new();
        for line in lines {
            let now = (line.state, line.trials);
            // Campaigns that remain in the old list were removed from the file.
            if gone.remove(&line.id) != Some(now) {
                changed.push(line.id);
            }
            history.known.insert(line.id, now);
        }
        changed.extend(gone.into_keys());
        // A killed process changes nothing in the file, so compare the running campaigns, too.
        let before = std::mem::replace(&mut history.running, running);
        for id in &before {
            if !history.running.contains(id) && !changed.contains(id) {
                changed.push(*id);
            }
        }
        for id in history.running.clone() {
            if !before.contains(&id) && !changed.contains(&id) {
                changed.push(id);
            }
        }
        if changed.is_empty() {
            return;
        }
        history.version += 1;
        history.changes.push_back(changed);
        if history.changes.len() > KEPT_MAX {
            history.changes.pop_front();
        }
        self.more.notify_all();
    }

    /// Returns the campaigns that are currently being run by a process.
    pub(super) fn running(&self) -> Vec<i64> {
        self.lock_history().running.clone()
    }

    /// Returns the version of the current state.
    pub(super) fn version(&self) -> u64 {
        self.lock_history().version
    }

    fn lock_history(&self) -> MutexGuard<'_, History> {
        lock_always(&self.history)
    }

    /// Waits for a change after a version. Returns the new version and the campaigns that changed
    /// since, or `None` if nothing changed for `patience`.
    pub(super) fn wait_since(&self, version: u64, patience: Duration) -> Option<(u64, Vec<i64>)> {
        let waited = self.more.wait_timeout_while(self.lock_history(), patience, |history| {
            history.version == version
        });
        let (history, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // A page of an earlier `dfsbench view` may ask for a version that this one never had.
        let missed = history.version.checked_sub(version).unwrap_or(history.version);
        if missed == 0 {
            return None;
        }
        let mut ids: Vec<i64> = match usize::try_from(missed) {
            Ok(missed) if missed <= history.changes.len() => {
                history.changes.range(history.changes.len() - missed..).flatten().copied().collect()
            }
            _ => history.known.keys().copied().collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        Some((history.version, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: i64, trials: u32) -> CampaignLine {
        CampaignLine {
            id,
            trials,
            state: CampaignState::Running,
            ..crate::commands::view::tests::line()
        }
    }

    #[test]
    fn sends_only_changes_to_waiting_client() {
        let news = ChangeFeed::default();
        let soon = Duration::from_millis(1);
        assert_eq!(news.wait_since(0, soon), None);
        news.update(&[line(1, 0), line(2, 5)], Vec::new());
        news.update(&[line(1, 0), line(2, 5)], Vec::new());
        assert_eq!(news.wait_since(0, soon), Some((1, vec![1, 2])));
        news.update(&[line(1, 1), line(2, 5)], Vec::new());
        news.update(&[line(1, 2)], Vec::new());
        assert_eq!(news.wait_since(1, soon), Some((3, vec![1, 2])));
        assert_eq!(news.wait_since(3, soon), None);
        for trials in 3..200 {
            news.update(&[line(1, trials)], Vec::new());
        }
        // For a version that is too old or never existed, everything is returned.
        assert_eq!(news.wait_since(1, soon), Some((200, vec![1])));
        assert_eq!(news.wait_since(999, soon), Some((200, vec![1])));
    }

    #[test]
    fn reports_started_and_killed_processes() {
        let news = ChangeFeed::default();
        let soon = Duration::from_millis(1);
        news.update(&[line(1, 0), line(2, 5)], vec![1]);
        assert_eq!((news.running(), news.version()), (vec![1], 1));
        news.update(&[line(1, 0), line(2, 5)], vec![1]);
        assert_eq!(news.wait_since(1, soon), None);
        news.update(&[line(1, 0), line(2, 5)], vec![2]);
        assert_eq!(news.wait_since(1, soon), Some((2, vec![1, 2])));
        assert_eq!(news.running(), [2]);
    }
}
