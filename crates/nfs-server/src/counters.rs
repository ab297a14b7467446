//! What the server counts.
//!
//! Each thread counts into a block of its own that only it writes, so counting is a plain load
//! and store; [`ServerCounters`] is the sum of all blocks at the moment of reading.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_proto::nfs3::{Procedure, Status};

const PROCEDURES: usize = Procedure::ALL.len();
/// One slot for each status of the RFC and one for all others.
const STATUSES: usize = Status::ALL.len() + 1;

/// A counter that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning thread may.
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter for each status; more of them than `Default` is derived for.
#[derive(Debug)]
struct ByStatus([Counter; STATUSES]);

impl Default for ByStatus {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// One thread's counts; aligned so that two threads never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    pub(crate) calls: [Counter; PROCEDURES],
    statuses: ByStatus,
    pub(crate) mount_calls: Counter,
    pub(crate) portmap_calls: Counter,
    pub(crate) refused_calls: Counter,
    pub(crate) payload_read: Counter,
    pub(crate) payload_written: Counter,
    pub(crate) wire_in: Counter,
    pub(crate) wire_out: Counter,
    pub(crate) accepted: Counter,
    pub(crate) turned_away: Counter,
    pub(crate) closed: Counter,
    pub(crate) broken_streams: Counter,
    pub(crate) faults: Counter,
}

impl ThreadCounters {
    /// Counts a call of NFS v3.
    pub(crate) fn call(&self, procedure: Procedure) {
        self.calls[procedure.number() as usize].add(1);
    }

    /// Counts an error reply of NFS v3.
    pub(crate) fn error(&self, status: Status) {
        let known = Status::ALL.iter().position(|listed| *listed == status);
        self.statuses.0[known.unwrap_or(STATUSES - 1)].add(1);
    }
}

/// Sums over all threads since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// NFS v3 calls by procedure number; see [`ServerCounters::calls_of`].
    pub calls: [u64; PROCEDURES],
    /// NFS v3 error replies by status, planned ones included.
    pub errors: BTreeMap<Status, u64>,
    /// Calls of MOUNT.
    pub mount_calls: u64,
    /// Calls of the portmapper.
    pub portmap_calls: u64,
    /// Calls refused at the RPC level: unknown program or procedure, garbage, bad credential.
    pub refused_calls: u64,
    /// Payload of READ replies, in bytes.
    pub payload_read_bytes: u64,
    /// Payload of WRITE calls that was taken, in bytes.
    pub payload_written_bytes: u64,
    /// Bytes received from sockets.
    pub wire_in_bytes: u64,
    /// Bytes handed to sockets.
    pub wire_out_bytes: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections closed at once because of `clients_max`, or for want of descriptors.
    pub connections_turned_away: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections closed because their stream made no sense.
    pub broken_streams: u64,
    /// Calls that a planned fault failed, dropped, hung or closed; delays are not counted.
    pub planned_faults: u64,
}

impl ServerCounters {
    /// Adds one thread's counts.
    pub(crate) fn merge(&mut self, thread: &ThreadCounters) {
        for (sum, counter) in self.calls.iter_mut().zip(&thread.calls) {
            *sum += counter.get();
        }
        let names = Status::ALL.iter().copied().chain([Status::Other(0)]);
        for (status, counter) in names.zip(&thread.statuses.0) {
            if counter.get() > 0 {
                *self.errors.entry(status).or_default() += counter.get();
            }
        }
        self.mount_calls += thread.mount_calls.get();
        self.portmap_calls += thread.portmap_calls.get();
        self.refused_calls += thread.refused_calls.get();
        self.payload_read_bytes += thread.payload_read.get();
        self.payload_written_bytes += thread.payload_written.get();
        self.wire_in_bytes += thread.wire_in.get();
        self.wire_out_bytes += thread.wire_out.get();
        let accepted = thread.accepted.get();
        self.connections_accepted += accepted;
        self.connections_open += accepted.saturating_sub(thread.closed.get());
        self.connections_turned_away += thread.turned_away.get();
        self.broken_streams += thread.broken_streams.get();
        self.planned_faults += thread.faults.get();
    }

    /// Calls of one procedure.
    pub fn calls_of(&self, procedure: Procedure) -> u64 {
        self.calls[procedure.number() as usize]
    }

    /// All NFS v3 calls.
    pub fn calls_total(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// COMMIT calls.
    pub fn commits(&self) -> u64 {
        self.calls_of(Procedure::Commit)
    }
}
