//! What the workers of a target share: layouts of files that several of them use, and recalls of
//! these.
//!
//! A client has one layout of a file, whichever of its connections got it. So only the last worker
//! that uses it returns it, and none gets a new one before that. **Source:** RFC 8881 section
//! 12.5.3.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nfs_client::proto::nfs4::{LayoutRecall, Stateid};

use super::background::LayoutReports;
use super::usage::Usage;

/// Recalls so far. A server sends one over any connection of the client, whichever worker has the
/// file.
#[derive(Debug, Default)]
pub(crate) struct RecallBoard {
    count: AtomicUsize,
    recalls: Mutex<Vec<LayoutRecall>>,
    /// The layouts of files, by number.
    layouts: Mutex<BTreeMap<u32, SharedLayout>>,
}

/// The layout of a file that workers use.
#[derive(Debug, Default)]
struct SharedLayout {
    /// Workers that have it, or have requested it.
    users: u32,
    /// Someone has given it up, so all do.
    is_ending: bool,
    /// The latest stateid of those who gave it up.
    stateid: Option<Stateid>,
    /// How much they used it.
    usage: Usage,
}

impl RecallBoard {
    /// Returns the number of recalls so far.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a recall.
    #[cold]
    pub(super) fn post(&self, recall: LayoutRecall) {
        let mut recalls = self.recalls.lock().unwrap_or_else(PoisonError::into_inner);
        recalls.push(recall);
        self.count.store(recalls.len(), Ordering::Release);
    }

    fn lock_layouts(&self) -> MutexGuard<'_, BTreeMap<u32, SharedLayout>> {
        self.layouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a worker as a user of a file's layout, before it requests one. Returns false if
    /// others are still giving up the last one.
    pub(super) fn join(&self, file: u32) -> bool {
        let mut layouts = self.lock_layouts();
        let layout = layouts.entry(file).or_default();
        layout.users += u32::from(!layout.is_ending);
        !layout.is_ending
    }

    /// Ends a worker's use of a layout, or its request for one, which has no stateid. The last user
    /// gets the stateid to return, and the use of all others.
    pub(super) fn leave(
        &self,
        file: u32,
        stateid: Option<Stateid>,
        usage: &mut Usage,
    ) -> Option<Stateid> {
        let mut layouts = self.lock_layouts();
        let layout = layouts.get_mut(&file)?;
        layout.users = layout.users.saturating_sub(1);
        layout.is_ending |= stateid.is_some();
        if let Some(new) = stateid {
            let is_newer = |old: &Stateid| new.other != old.other || new.seqid > old.seqid;
            if layout.stateid.as_ref().is_none_or(is_newer) {
                layout.stateid = Some(new);
            }
        }
        if layout.users > 0 {
            layout.usage.add(usage);
            return None;
        }
        usage.add(&layout.usage);
        layout.usage = Usage::default();
        let last = layout.stateid.take();
        if last.is_none() {
            layouts.remove(&file);
        }
        last
    }

    /// Records that a layout was returned, so that new ones may be requested.
    pub(super) fn note_returned(&self, file: u32) {
        self.lock_layouts().remove(&file);
    }

    /// Forgets the layouts of a pass.
    pub(crate) fn clear_layouts(&self) {
        self.lock_layouts().clear();
    }

    /// Passes on all recalls after the first `seen`, and returns how many there are.
    #[cold]
    pub(super) fn read(&self, seen: usize, mut take: impl FnMut(&LayoutRecall)) -> usize {
        let recalls = self.recalls.lock().unwrap_or_else(PoisonError::into_inner);
        recalls[seen.min(recalls.len())..].iter().for_each(&mut take);
        recalls.len()
    }
}

/// What the workers reported to the metadata server in a pass.
#[derive(Debug, Default)]
pub(crate) struct PnfsTally(Mutex<LayoutReports>);

impl PnfsTally {
    /// Adds what a worker has reported.
    pub(super) fn add(&self, reports: &LayoutReports) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(reports);
    }

    /// Returns what was reported, and starts over.
    pub(crate) fn take(&self) -> LayoutReports {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stateid(seqid: u32) -> Stateid {
        Stateid { seqid, other: [1; 12] }
    }

    #[test]
    fn last_user_returns_layout() {
        let board = RecallBoard::default();
        let leave = |file, stateid| board.leave(file, stateid, &mut Usage::default());
        assert!(board.join(7) && board.join(7) && board.join(8));
        assert_eq!(leave(7, Some(stateid(2))), None);
        assert!(!board.join(7), "the other one has it");
        assert_eq!(leave(7, Some(stateid(1))), Some(stateid(2)), "the latest");
        assert!(!board.join(7), "it is being returned");
        board.note_returned(7);
        assert!(board.join(7));
        assert_eq!(leave(8, Some(stateid(5))), Some(stateid(5)));
    }

    #[test]
    fn refused_request_leaves_others_alone() {
        let board = RecallBoard::default();
        let leave = |stateid| board.leave(7, stateid, &mut Usage::default());
        assert!(board.join(7) && board.join(7));
        assert_eq!(leave(None), None);
        assert!(board.join(7), "the other one keeps its layout");
        // That one gives it up while a request is under way, which is then refused.
        assert_eq!(leave(Some(stateid(1))), None);
        assert_eq!(leave(None), Some(stateid(1)));
        board.note_returned(7);
        assert!(board.join(7));
        assert_eq!(leave(None), None);
        assert!(board.join(7));
    }
}
