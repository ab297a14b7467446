//! What the workers of a target share: recalls of layouts, and the use of each data server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
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

/// How much a server was used for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataUse {
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// READs and WRITEs that were answered.
    pub(crate) calls: u64,
    /// Sum of their response times, in nanoseconds.
    pub(crate) response_ns: u64,
    pub(crate) is_lost: bool,
}

impl DataUse {
    /// Returns all bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

/// The use of all servers in a pass, and what was reported about them.
#[derive(Debug, Default)]
pub(crate) struct PnfsTally {
    /// Metadata servers come first.
    servers: Mutex<BTreeMap<(bool, SocketAddr), DataUse>>,
    reports: Mutex<LayoutReports>,
}

impl PnfsTally {
    /// Adds what a worker has counted.
    pub(super) fn add(&self, is_metadata: bool, address: SocketAddr, used: &DataUse) {
        let mut all = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = all.entry((!is_metadata, address)).or_default();
        sum.read_bytes += used.read_bytes;
        sum.write_bytes += used.write_bytes;
        sum.calls += used.calls;
        sum.response_ns += used.response_ns;
        sum.is_lost |= used.is_lost;
    }

    /// Adds what a worker has reported.
    pub(super) fn add_reports(&self, reports: &LayoutReports) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).add(reports);
    }

    /// Returns what was reported, and starts over.
    pub(crate) fn take_reports(&self) -> LayoutReports {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the data servers with their use, and that of the metadata server, and starts over.
    pub(crate) fn take(&self) -> (Vec<(SocketAddr, DataUse)>, DataUse) {
        let all = std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut metadata = DataUse::default();
        let mut data = Vec::new();
        for ((is_data, address), used) in all {
            if is_data {
                data.push((address, used));
            } else {
                metadata = used;
            }
        }
        (data, metadata)
    }
}
