//! Interface to whatever executes ops.
//!
//! Synchronous and asynchronous engines share the same contract. [`Backend::submit`] takes a batch
//! and returns how many ops it accepted; [`Backend::reap`] returns completed ones. If fewer ops are
//! accepted than offered, the backend is busy: reap some, then submit the rest. Every accepted op
//! is returned exactly once. The cost of dynamic dispatch is paid once per batch.
//!
//! **Source:** the queue / commit / reap contract of fio's `ioengines.h`.

pub mod calls;
pub mod files;
pub mod find;
pub mod mapping;
pub mod memory;
pub mod nfs;
pub mod null;
pub mod posix;
mod sequential;
pub mod sparse;
pub mod tcp;
pub mod uring;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::soak::Recovery;
use model::{ClientResult, Completion, Op, PathWork, PnfsWork, WireBytes};
use nfs_client::proto::CallError;
use nfs_client::proto::client::Kind;
use workload::Mismatches;

use crate::clock::Clock;
use crate::limits::TICK;
pub use calls::{Calls, OperationKind};
pub use find::Listed;
pub use nfs_client::TcpCounters;
pub use nfs_client::proto::client::CopyCounts;
pub use nfs_client::proto::limits::COPY_QUERY_NS;

/// The target is gone, so nothing more can be executed. Contains the reason as a sentence.
///
/// Ops that were accepted but not yet returned have failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LostTarget(pub String);

/// Deadline for [`Backend::reap`] if no further op is scheduled.
pub const NO_LIMIT: u64 = u64::MAX;

/// Executes ops.
pub trait Backend: Send {
    /// Accepts ops from the front of the batch and returns their number.
    ///
    /// They may be executed now or in [`Self::reap`].
    fn submit(&mut self, batch: &[Op]) -> usize;

    /// Appends completed ops to `out`. Waits until there are at least `min` of them, but not beyond
    /// `until_ns` of the worker's clock ([`NO_LIMIT`] for none), and not much longer than
    /// `crate::limits::TICK`. `out` has room for all accepted ops.
    ///
    /// Another op may be scheduled at `until_ns`. A backend that executes ops synchronously, and
    /// therefore never waits, may return later, but should not start to wait.
    ///
    /// # Errors
    /// If the target is permanently gone. The worker stops.
    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget>;

    /// Closes the files, upon which a network file system flushes what it owes the server. No op is
    /// in flight and none follows. Called within the timed window if closing counts, and otherwise
    /// not at all. Returns soon after `stop` is set.
    ///
    /// # Errors
    /// If closing a file failed, so that data written to it may be lost.
    fn close(&mut self, stop: &AtomicBool) -> Result<(), LostTarget> {
        let _ = stop;
        Ok(())
    }

    /// Returns server resources borrowed for the pass. Called after the pass, outside of the timed
    /// window.
    fn end(&mut self) {}

    /// Returns the number of entries that ops in flight have listed so far.
    fn entries_in_progress(&self) -> u64 {
        0
    }

    /// Returns the backend's own counts, which are independent of the recorder's. Called after the
    /// pass.
    fn tally(&self) -> BackendCounts {
        BackendCounts::default()
    }

    /// Returns what each of the server's addresses did, if there are several. Called after the
    /// pass.
    fn paths(&self) -> Vec<PathWork> {
        Vec::new()
    }

    /// Returns what the servers of a pNFS cluster did, if the backend used layouts. Called after
    /// the pass.
    fn pnfs_work(&self) -> Option<PnfsWork> {
        None
    }

    /// Returns the results of each emulated client, if they were recorded. Called after the pass.
    fn clients(&self) -> Vec<ClientResult> {
        Vec::new()
    }
}

/// Returns how long a backend may wait until an instant: at most one tick.
pub(crate) fn wait_time(clock: &dyn Clock, until_ns: u64) -> Duration {
    if until_ns == NO_LIMIT {
        return TICK;
    }
    TICK.min(Duration::from_nanos(until_ns.saturating_sub(clock.now_ns())))
}

/// Counts made by a backend itself, or by the kernel on its behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCounts {
    /// File data received, in bytes.
    pub read_bytes: Option<u64>,
    /// File data sent, in bytes.
    pub write_bytes: Option<u64>,
    /// Ops that reached the layer below.
    pub ops: Option<u64>,
    /// Work that was repeated or delayed because of failures.
    pub recovered: Recovery,
    /// Calls that transferred less data than requested.
    pub short_transfers: ShortTransfers,
    /// Calls that were started, if ops are calls.
    pub calls: Option<Calls>,
    /// Syncs that needed no COMMIT because the server had acknowledged all WRITEs as durable.
    pub syncs_without_commit: u64,
    /// Data that was read and differs from what was written.
    pub mismatches: Mismatches,
    /// Files that were read under a delegation, without OPEN and CLOSE.
    pub delegated_opens: u64,
    /// The first reply that rejected a call or was malformed, if ops are calls.
    pub bad_reply: Option<BadReply>,
    /// Counts of directories, entries and matches, if ops list directories.
    pub listed: Option<Listed>,
    /// TCP counters of our own connections over the measurement.
    pub tcp: TcpCounters,
    /// Work on ranges of files, as counted by the layer below.
    pub ranges: RangeCounts,
    /// Bytes of all calls and replies, if they are counted.
    pub wire: Option<WireBytes>,
    /// How data was divided between metadata and data servers, with pNFS.
    pub pnfs: Option<PnfsCounts>,
}

/// How data was divided between a metadata server and its data servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PnfsCounts {
    /// Bytes read from and written to data servers; each mirror counts.
    pub data_bytes: u64,
    /// Bytes read and written through the metadata server.
    pub metadata_bytes: u64,
    /// Bytes written to mirrors other than the first.
    pub mirrored_bytes: u64,
    /// Files that the pass works on.
    pub files: u64,
    /// Files without a layout from the start.
    pub without_layout: u64,
    /// Layouts that the server recalled.
    pub recalled: u64,
    /// Layouts that took the place of one that was recalled, or that data servers refused.
    pub regained: u64,
    /// READs and WRITEs that a data server refused, and that went to the metadata server instead.
    pub refused: u64,
    /// Data servers that could no longer be reached.
    pub lost_servers: u64,
}

impl PnfsCounts {
    /// Adds the counts of another backend.
    pub const fn add(&mut self, other: &Self) {
        self.data_bytes += other.data_bytes;
        self.metadata_bytes += other.metadata_bytes;
        self.mirrored_bytes += other.mirrored_bytes;
        self.files += other.files;
        self.without_layout += other.without_layout;
        self.recalled += other.recalled;
        self.regained += other.regained;
        self.refused += other.refused;
        self.lost_servers += other.lost_servers;
    }

    /// Returns the share of bytes that went through the metadata server, if there were any.
    pub fn metadata_share(&self) -> Option<f64> {
        let all = self.data_bytes + self.metadata_bytes;
        (all > 0).then(|| self.metadata_bytes as f64 / all as f64)
    }
}

/// Work on ranges of files, as counted by the layer below: system calls or replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeCounts {
    /// Bytes copied without reading or writing them.
    pub copied_bytes: u64,
    /// Bytes that READ_PLUS described as holes.
    pub hole_bytes: u64,
    /// Bytes of data in replies to READ_PLUS.
    pub data_bytes: u64,
    /// Ends of data and holes that were found exactly where they are.
    pub found_ends: u64,
    /// How the copies ended that the server could continue after its reply.
    pub copies: CopyCounts,
}

impl RangeCounts {
    /// Adds the counts of another backend.
    pub const fn add(&mut self, other: &Self) {
        self.copies.add(&other.copies);
        self.copied_bytes += other.copied_bytes;
        self.hole_bytes += other.hole_bytes;
        self.data_bytes += other.data_bytes;
        self.found_ends += other.found_ends;
    }
}

/// A reply that contained neither a result nor an NFS error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply {
    /// The call that it answers.
    pub call: Kind,
    pub error: CallError,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.error)
    }
}

/// READ and WRITE calls that transferred data, and how many of them were short although the file
/// had more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortTransfers {
    /// Calls that transferred data.
    pub calls: u64,
    /// READs that returned less than requested.
    pub short_reads: u64,
    /// WRITEs that accepted less than sent.
    pub short_writes: u64,
    /// Bytes that had to be transferred by further calls.
    pub missing_bytes: u64,
}

impl ShortTransfers {
    /// Counts a READ that returned `moved` of `asked` bytes.
    pub(crate) const fn note_read(&mut self, moved: u32, asked: u32) {
        self.short_reads += self.note(moved, asked);
    }

    /// Counts a WRITE that accepted `moved` of `asked` bytes.
    pub(crate) const fn note_write(&mut self, moved: u32, asked: u32) {
        self.short_writes += self.note(moved, asked);
    }

    /// Returns 1 for a short transfer, otherwise 0.
    const fn note(&mut self, moved: u32, asked: u32) -> u64 {
        self.calls += 1;
        self.missing_bytes += (asked - moved) as u64;
        (moved < asked) as u64
    }

    /// Adds the counts of another backend.
    pub const fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.short_reads += other.short_reads;
        self.short_writes += other.short_writes;
        self.missing_bytes += other.missing_bytes;
    }
}
