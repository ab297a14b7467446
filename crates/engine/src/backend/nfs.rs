//! The perfect client as a backend: one connection per worker, many calls in flight.
//!
//! An op is cut into transfers of at most `rsize` or `wsize` bytes, one call each; it ends when
//! its last transfer has. Short READs and WRITEs are continued, as RFC 1813 asks. A create is a
//! CREATE and, where the file has content, FILE_SYNC WRITEs on the handle it returned; a stat is
//! a LOOKUP. Ops and transfers live in tables that are made before the start.
//!
//! **Source:** RFC 1813, 3.3.6, 3.3.7 (short transfers, write verifiers), 3.3.21 (COMMIT).

mod transfers;

use std::sync::Arc;

use model::{Completion, Op};
use nfs_client::proto::client::File;
use nfs_client::{Connection, Scratch};
use workload::Pattern;

use super::{Backend, Lost, Tally};
use crate::clock::Clock;
use crate::limits::TICK;
use transfers::Transfers;

/// What the backend works on.
pub struct NfsFiles {
    /// The working directory.
    pub directory: File,
    /// Every `stride`-th file of the set; empty where a pass works by name.
    pub files: Vec<File>,
    /// Distance between the numbers of files that are known here.
    pub stride: u32,
    /// Largest payload of a READ.
    pub rsize: u32,
    /// Largest payload of a WRITE.
    pub wsize: u32,
    /// What is written, and what must come back.
    pub pattern: Pattern,
    /// Compare what is read.
    pub verify: bool,
    /// Ops in flight.
    pub queue_depth: usize,
    /// A reply that takes longer is a failure.
    pub timeout_ns: u64,
}

/// Executes ops as NFS calls.
pub struct Nfs {
    connection: Connection,
    scratch: Scratch,
    clock: Arc<dyn Clock>,
    transfers: Transfers,
    timeout_ns: u64,
    checked_ns: u64,
}

impl Nfs {
    /// Makes a backend on an open connection.
    pub fn new(connection: Connection, set: NfsFiles, clock: Arc<dyn Clock>) -> Self {
        let timeout_ns = set.timeout_ns;
        let slots = connection.free_slots();
        let transfers = Transfers::new(set, slots);
        let scratch = Scratch::new();
        Self { connection, scratch, clock, transfers, timeout_ns, checked_ns: 0 }
    }

    /// Looks for calls without an answer, now and then: it walks all of them.
    fn check_timeout(&mut self) -> Result<(), Lost> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.checked_ns) < TICK.as_nanos() as u64 {
            return Ok(());
        }
        self.checked_ns = now_ns;
        self.connection
            .check_timeout(now_ns, self.timeout_ns)
            .map_err(|error| Lost(error.to_string()))
    }
}

impl Backend for Nfs {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = self.transfers.accept(batch, self.clock.now_ns());
        self.transfers.pump(&mut self.connection, self.clock.now_ns());
        accepted
    }

    fn reap(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let Self { connection, scratch, clock, transfers, .. } = self;
        let now = || clock.now_ns();
        let wanted = out.len() + min;
        loop {
            let result = connection.wait(scratch, &now, TICK, &mut |event| transfers.ended(event));
            transfers.drain_into(out);
            let ended = result.map_err(|error| Lost(error.to_string()))?;
            transfers.pump(connection, now());
            if ended == 0 || out.len() >= wanted {
                break;
            }
        }
        self.check_timeout()
    }

    fn tally(&self) -> Tally {
        let counters = self.connection.counters();
        Tally {
            read_bytes: Some(counters.payload_bytes_in),
            write_bytes: Some(counters.payload_bytes_out - self.transfers.resent_bytes()),
            ops: None,
        }
    }
}
