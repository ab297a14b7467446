//! Recalls of layouts, which the workers of a target share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nfs_client::proto::nfs4::LayoutRecall;

use super::background::LayoutReports;

/// Recalls so far. A server sends one over any connection of the client, whichever worker has the
/// file.
#[derive(Debug, Default)]
pub(crate) struct RecallBoard {
    count: AtomicUsize,
    recalls: Mutex<Vec<LayoutRecall>>,
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
