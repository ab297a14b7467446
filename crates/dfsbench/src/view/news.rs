//! Watches the results file for changes, for pages that wait for them.
//!
//! [`News`] is the principal type: one thread looks at the file and tells; any number of
//! connections wait. What was told is kept a while, so that nobody who asks late misses it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use model::{CampaignLine, CampaignState};

/// So many changes are kept; who missed more is told that all has changed.
const KEPT_MAX: usize = 64;

/// The changes so far.
#[derive(Default)]
pub struct News {
    told: Mutex<Told>,
    more: Condvar,
}

#[derive(Default)]
struct Told {
    version: u64,
    changes: VecDeque<Vec<i64>>,
    known: BTreeMap<i64, (CampaignState, u32)>,
}

impl News {
    /// Takes the list of campaigns as it is now, and wakes those who wait where it is another.
    pub fn look(&self, lines: &[CampaignLine]) {
        let now: BTreeMap<_, _> =
            lines.iter().map(|line| (line.id, (line.state, line.trials))).collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |(id, how): &(&i64, &_)| told.known.get(id) != Some(*how);
        let gone = told.known.keys().filter(|id| !now.contains_key(id));
        let changed: Vec<i64> =
            now.iter().filter(is_new).map(|(id, _)| *id).chain(gone.copied()).collect();
        told.known = now;
        if !changed.is_empty() {
            told.version += 1;
            told.changes.push_back(changed);
            if told.changes.len() > KEPT_MAX {
                told.changes.pop_front();
            }
            self.more.notify_all();
        }
    }

    /// Numbers the state that is known now.
    pub fn version(&self) -> u64 {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Waits for a change after a version; the version that is known then, and the campaigns that
    /// changed since. `None` where nothing happened for so long.
    pub fn since(&self, version: u64, patience: Duration) -> Option<(u64, Vec<i64>)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.more.wait_timeout_while(told, patience, |told| told.version == version);
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let missed = told.version.checked_sub(version).unwrap_or(told.version);
        if missed == 0 {
            return None;
        }
        let mut ids: Vec<i64> = match usize::try_from(missed) {
            Ok(missed) if missed <= told.changes.len() => {
                told.changes.iter().rev().take(missed).flatten().copied().collect()
            }
            _ => told.known.keys().copied().collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        Some((told.version, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: i64, trials: u32) -> CampaignLine {
        CampaignLine { id, trials, state: CampaignState::Running, ..crate::view::tests::line() }
    }

    #[test]
    fn who_waits_is_told_what_changed_and_only_that() {
        let news = News::default();
        let soon = Duration::from_millis(1);
        assert_eq!(news.since(0, soon), None);
        news.look(&[line(1, 0), line(2, 5)]);
        news.look(&[line(1, 0), line(2, 5)]);
        assert_eq!(news.since(0, soon), Some((1, vec![1, 2])));
        news.look(&[line(1, 1), line(2, 5)]);
        news.look(&[line(1, 2)]);
        assert_eq!(news.since(1, soon), Some((3, vec![1, 2])));
        assert_eq!(news.since(3, soon), None);
        for trials in 3..200 {
            news.look(&[line(1, trials)]);
        }
        // Too long ago, and a version that never was: everything.
        assert_eq!(news.since(1, soon), Some((200, vec![1])));
        assert_eq!(news.since(999, soon), Some((200, vec![1])));
    }
}
