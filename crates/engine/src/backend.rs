//! The seam to whatever executes ops.
//!
//! One contract for synchronous and asynchronous engines: [`Backend::submit`] takes a batch and
//! says how many ops it accepted, [`Backend::reap`] hands back those that ended. Accepting fewer
//! than were given means busy: reap, then submit the rest. Every accepted op comes back exactly
//! once. Dynamic dispatch is paid per batch.
//!
//! **Source:** the queue / commit / reap contract of fio's `ioengines.h`.

pub mod calls;
pub mod files;
mod in_turn;
pub mod mapping;
pub mod memory;
pub mod nfs;
pub mod null;
pub mod posix;
pub mod tcp;
pub mod uring;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::{ClientResult, Completion, Op};
use nfs_client::proto::CallError;
use nfs_client::proto::client::Kind;
use workload::Mismatches;

use crate::clock::Clock;
use crate::limits::TICK;
pub use calls::{Calls, OperationKind};
pub use nfs_client::TcpCounters;

/// The target is gone, with the reason in a sentence; nothing more can be executed.
///
/// Ops that were accepted and not handed back by then have failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Lost(pub String);

/// The deadline for [`Backend::reap`] where no further op has a scheduled instant.
pub const NO_LIMIT: u64 = u64::MAX;

/// An executor of ops.
pub trait Backend: Send {
    /// Takes ops from the front of the batch and says how many.
    ///
    /// Execution may begin now or in [`Self::reap`].
    fn submit(&mut self, batch: &[Op]) -> usize;

    /// Appends ops that have ended, and waits for at least `min` of them, but neither beyond the
    /// instant `until_ns` of the worker's clock ([`NO_LIMIT`] for none) nor longer than about
    /// [`crate::limits::TICK`]; `out` has room for all that were accepted.
    ///
    /// Another op may be scheduled at `until_ns`: a backend that executes ops one after the other,
    /// and so never waits, may return later, but should not begin to wait.
    ///
    /// # Errors
    /// When the target is gone for good: the worker ends.
    fn reap(&mut self, min: usize, until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost>;

    /// Closes the files, which a network file system answers with what it owes the server; no op
    /// is in flight, and none follows. It is called inside the timed window where closing counts,
    /// and else not at all. Once `stop` is set it ends soon.
    ///
    /// # Errors
    /// When a file could not be closed well: what was written to it may be lost.
    fn close(&mut self, stop: &AtomicBool) -> Result<(), Lost> {
        let _ = stop;
        Ok(())
    }

    /// Returns what the server lent for the pass, which is over; outside the timed window.
    fn end(&mut self) {}

    /// Counts of its own, independent of the recorder, once the pass is over.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// Returns the work of each emulated client, where that was recorded; once the pass is over.
    fn clients(&self) -> Vec<ClientResult> {
        Vec::new()
    }
}

/// Returns how long a backend may wait that is to wait until an instant: a tick at most.
pub(crate) fn wait_time(clock: &dyn Clock, until_ns: u64) -> Duration {
    if until_ns == NO_LIMIT {
        return TICK;
    }
    TICK.min(Duration::from_nanos(until_ns.saturating_sub(clock.now_ns())))
}

/// Counts that a backend, or the kernel on its behalf, made by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that were received as file data.
    pub read_bytes: Option<u64>,
    /// Bytes that were sent as file data.
    pub write_bytes: Option<u64>,
    /// Ops that reached the layer below.
    pub ops: Option<u64>,
    /// Work that was done more than once, or late.
    pub recovered: Recovered,
    /// Calls that moved less data than they asked for.
    pub short_transfers: ShortTransfers,
    /// Calls that were started, where ops are calls.
    pub calls: Option<Calls>,
    /// Syncs that took no COMMIT, for the server had answered all WRITEs as durable.
    pub syncs_without_commit: u64,
    /// Data that was read and is not as it was written.
    pub mismatches: Mismatches,
    /// Files that were read without an OPEN and a CLOSE, for they were delegated.
    pub delegated_opens: u64,
    /// The first reply that refused or misunderstood a call, where ops are calls.
    pub bad_reply: Option<BadReply>,
    /// Counts of TCP on connections of our own while they were measured.
    pub tcp: TcpCounters,
}

/// A reply that brought neither a result nor an error of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply {
    /// The call that it answers.
    pub call: Kind,
    /// The error that it brought.
    pub error: CallError,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.error)
    }
}

/// Extra work of a client, because something went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Calls sent again because no reply arrived in time.
    pub retransmissions: u64,
    /// Connections that were reopened.
    pub reconnects: u64,
    /// Calls sent again over a new connection.
    pub replays: u64,
    /// Answers of "later", after which a call was made again.
    pub delays: u64,
    /// Data written more than once, in bytes.
    pub resent_bytes: u64,
}

/// READ and WRITE calls that moved data, and those of them that moved less than they asked for
/// although the file had more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortTransfers {
    /// Calls that moved data.
    pub calls: u64,
    /// READs that brought less.
    pub short_reads: u64,
    /// WRITEs that took less.
    pub short_writes: u64,
    /// Bytes that further calls had to move.
    pub missing_bytes: u64,
}

impl ShortTransfers {
    /// Counts a READ that brought `moved` of `asked` bytes.
    pub(crate) const fn note_read(&mut self, moved: u32, asked: u32) {
        self.short_reads += self.note(moved, asked);
    }

    /// Counts a WRITE that took `moved` of `asked` bytes.
    pub(crate) const fn note_write(&mut self, moved: u32, asked: u32) {
        self.short_writes += self.note(moved, asked);
    }

    /// Returns 1 for a short call.
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

impl Recovered {
    /// Says whether a server may have seen something twice.
    pub const fn repeats(&self) -> bool {
        self.retransmissions + self.replays + self.resent_bytes > 0
    }

    /// Adds what another backend had to do.
    pub const fn add(&mut self, other: &Self) {
        self.retransmissions += other.retransmissions;
        self.reconnects += other.reconnects;
        self.replays += other.replays;
        self.delays += other.delays;
        self.resent_bytes += other.resent_bytes;
    }
}
