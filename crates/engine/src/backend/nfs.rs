//! Our own NFS client as a backend: one connection per worker ([`Nfs`]) or those of many clients
//! ([`Many`]), each with many calls in flight.
//!
//! An op is split into transfers of at most `rsize` or `wsize` bytes, one call each, and completes
//! with its last transfer. Short READs and WRITEs are continued, as RFC 1813 requires. Most ops
//! take one call; see `transfers` for those that take more. Tables for ops and transfers are
//! allocated before the start.
//!
//! **Source:** RFC 1813, 3.3.6, 3.3.7 (short transfers, write verifiers), 3.3.21 (COMMIT).

mod closing;
mod many;
mod pnfs;
mod set;
mod transfers;
mod uncommitted;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::soak::Recovery;
use model::{ClientResult, Completion, Op, PathWork, WireBytes};
use nfs_client::proto::client::{Event, File};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{Connection, PathCounters, Scratch, TcpCounters};
use workload::Pattern;

use super::{Backend, BackendCounts, LostTarget, wait_time};
use crate::clock::Clock;
use crate::limits::{REAP_ROUNDS_MAX, RETURN_WITHIN_NS, TICK};
use closing::Closing;
use set::WorkerState;
use transfers::{Opens, Transfers};

pub use many::Many;
pub use pnfs::Pnfs;
pub(crate) use pnfs::{LayoutReports, PnfsParts, PnfsTally, RecallBoard};
pub use set::NfsFiles;
pub(crate) use set::PlusListing;
pub use uncommitted::Grid;

/// Executes ops as NFS calls.
pub struct Nfs {
    connection: Connection,
    scratch: Scratch,
    clock: Arc<dyn Clock>,
    transfers: Transfers,
    common: WorkerState,
    timeout_ns: u64,
    checked_ns: u64,
}

impl Nfs {
    /// Creates a backend for an open connection.
    pub fn new(mut connection: Connection, set: NfsFiles, clock: Arc<dyn Clock>) -> Self {
        let timeout_ns = set.timeout_ns;
        let depth = depth_on(&connection, set.queue_depth);
        let opens = if set.own == 0 { Opens::OfAnother } else { Opens::Own };
        let transfers = Transfers::new(depth, connection.free_slots(), opens).with_listings(&set);
        let mut common = WorkerState::new(set);
        common.wire_before = wire_bytes(&connection);
        let scratch = Scratch::new();
        connection.begin_tcp_counters();
        Self { connection, scratch, clock, transfers, common, timeout_ns, checked_ns: 0 }
    }

    /// Works on a single open file from now on, which any op with this number means. No op may be
    /// in flight.
    pub fn switch_file(&mut self, number: u32, file: File, stable: StableHow, pattern: Pattern) {
        let set = &mut self.common.set;
        set.files.clear();
        set.files.push(file);
        set.first = number;
        set.stride = u32::MAX;
        set.stable = stable;
        set.pattern = pattern;
    }

    /// Checks for calls that have timed out. Does so only once per tick, since it visits all of
    /// them.
    fn check_timeout(&mut self) -> Result<(), LostTarget> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.checked_ns) < TICK.as_nanos() as u64 {
            return Ok(());
        }
        self.checked_ns = now_ns;
        self.connection
            .check_timeout(now_ns, self.timeout_ns)
            .map_err(|error| LostTarget(error.to_string()))
    }
}

impl Backend for Nfs {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = self.transfers.accept(batch, self.clock.now_ns(), &self.common);
        self.transfers.start_calls(&mut self.connection, self.clock.now_ns(), &mut self.common);
        accepted
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let Self { connection, scratch, clock, transfers, common, .. } = self;
        let before = out.len();
        let wanted = out.len() + min;
        // A sync that needs no COMMIT was complete when it was submitted.
        transfers.drain_into(out);
        // Calls may keep completing without completing any op. After some rounds, return to the
        // worker.
        let mut rounds = 0;
        while out.len() < wanted && rounds < REAP_ROUNDS_MAX {
            rounds += 1;
            let mut end_call = |event: &Event<'_>| transfers.end_call(event, common);
            let wait = wait_time(clock.as_ref(), until_ns);
            let result = connection.wait(scratch, &|| clock.now_ns(), wait, &mut end_call);
            // Replies have freed slots, so start calls that were waiting for one.
            transfers.start_calls(connection, clock.now_ns(), common);
            transfers.drain_into(out);
            if result.map_err(|error| LostTarget(error.to_string()))? == 0
                || common.rewrites_in_vain()
            {
                break;
            }
        }
        common.set.clients.record_ended(0, &out[before..]);
        if common.rewrites_in_vain() {
            return common.give_up_rewriting();
        }
        self.check_timeout()
    }

    fn close(&mut self, stop: &AtomicBool) -> Result<(), LostTarget> {
        closing::close_files(self, stop)
    }

    fn end(&mut self) {
        let Self { connection, scratch, clock, timeout_ns, .. } = self;
        let until_ns = clock.now_ns().saturating_add(RETURN_WITHIN_NS);
        connection.return_delegations(scratch, &|| clock.now_ns(), until_ns);
        // The server may report the copies of other workers to this connection.
        let until_ns = clock.now_ns().saturating_add(*timeout_ns);
        connection.finish_copies(scratch, &|| clock.now_ns(), until_ns);
    }

    fn entries_in_progress(&self) -> u64 {
        self.transfers.entries_in_progress()
    }

    fn tally(&self) -> BackendCounts {
        tally_of(std::iter::once(&self.connection), &self.common)
    }

    fn clients(&self) -> Vec<ClientResult> {
        self.common.set.clients.results()
    }
}

/// Returns how many of the requested ops can be in flight on a connection: one per slot, since each
/// has a call in flight. Any more would wait here, and that time doesn't count as service time.
pub(crate) fn depth_on(connection: &Connection, requested: usize) -> usize {
    requested.min(connection.free_slots()).max(1)
}

/// Adds up the counts of all connections of a worker.
fn tally_of<'a>(
    connections: impl Iterator<Item = &'a Connection>,
    common: &WorkerState,
) -> BackendCounts {
    let mut read_bytes = 0;
    let mut write_bytes = 0;
    // Leave out the rest of short WRITEs: it was sent again, but nothing had been lost.
    let resent_bytes = common.rewritten_bytes;
    let mut recovered = Recovery { resent_bytes, ..Recovery::default() };
    let mut tcp = TcpCounters::default();
    let mut wire = WireBytes::default();
    let mut ranges = common.ranges;
    for connection in connections {
        let counters = connection.counters();
        tcp.add(&connection.tcp_counters());
        wire.add(wire_bytes(connection));
        read_bytes += counters.payload_bytes_in;
        write_bytes += counters.payload_bytes_out;
        ranges.copies.add(&connection.copy_counts());
        recovered.add(Recovery {
            retransmissions: counters.retransmissions,
            reconnects: counters.reconnects,
            replays: counters.replays,
            delays: counters.delays,
            resent_bytes: 0,
        });
    }
    let before = common.wire_before;
    BackendCounts {
        // READ_PLUS delivers holes, too.
        read_bytes: Some(read_bytes + ranges.data_bytes + ranges.hole_bytes),
        write_bytes: Some(write_bytes - common.resent_bytes),
        ops: None,
        recovered,
        short_transfers: common.short_transfers,
        calls: Some(common.calls.get()),
        syncs_without_commit: common.syncs_without_commit,
        delegated_opens: common.delegated_opens,
        listed: common.set.lists.map(|_| common.listed),
        mismatches: common.mismatches,
        bad_reply: common.bad_reply,
        tcp,
        ranges,
        wire: Some(WireBytes {
            sent_bytes: wire.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: wire.received_bytes.saturating_sub(before.received_bytes),
        }),
        pnfs: None,
    }
}

/// Returns the bytes that a connection has sent and received so far.
fn wire_bytes(connection: &Connection) -> WireBytes {
    let counters = connection.counters();
    WireBytes { sent_bytes: counters.wire_bytes_out, received_bytes: counters.wire_bytes_in }
}

/// Adds what a connection counted at an address.
fn add_counters(work: &mut PathWork, counters: &PathCounters) {
    work.calls += counters.calls;
    work.sent_bytes += counters.bytes_out;
    work.received_bytes += counters.bytes_in;
    work.segments_retransmitted += counters.segments_retransmitted;
    work.lost_connections += counters.losses;
    work.moved_calls += counters.moved_calls;
}

impl Closing for Nfs {
    fn first(&mut self) -> (&mut Transfers, &mut WorkerState) {
        (&mut self.transfers, &mut self.common)
    }

    fn start_calls(&mut self) {
        self.transfers.start_calls(&mut self.connection, self.clock.now_ns(), &mut self.common);
    }
}
