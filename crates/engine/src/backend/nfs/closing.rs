//! Closes a worker's open files if that is part of the timed window.
//!
//! Works like close(2) in kernels: unstable data is committed and, in version 4, the open is
//! released. All calls use the first connection, which is the one that made the opens in v4.0.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use model::{Completion, Outcome};

use super::set::WorkerState;
use super::transfers::Transfers;
use crate::backend::{Backend, LostTarget, NO_LIMIT};

/// A backend whose first connection can close files.
pub(super) trait Closing: Backend {
    /// Returns that connection's ops and the shared state.
    fn first(&mut self) -> (&mut Transfers, &mut WorkerState);

    /// Starts the calls of accepted ops.
    fn start_calls(&mut self);
}

/// Commits and closes every file of the set.
pub(super) fn close_files(backend: &mut impl Closing, stop: &AtomicBool) -> Result<(), LostTarget> {
    let (_, common) = backend.first();
    let count = common.set.files.len();
    let commits = common.uncommitted.is_some();
    let closes = common.set.closable;
    // The clients' records only contain ops of the plan.
    let clients = std::mem::take(&mut common.set.clients);
    let mut ended = Vec::new();
    let mut closed = Ok(());
    // Two rounds, so that all data is safe before any file is closed.
    for (is_needed, accept) in
        [(commits, Transfers::accept_sync as Accept), (closes, Transfers::accept_close)]
    {
        if is_needed && closed.is_ok() {
            closed = for_each_file(backend, count, accept, stop, &mut ended);
        }
    }
    backend.first().1.set.clients = clients;
    closed
}

type Accept = fn(&mut Transfers, u32, &WorkerState) -> bool;

/// Does something with each file, with as many in parallel as there is room for.
fn for_each_file(
    backend: &mut impl Closing,
    count: usize,
    accept: Accept,
    stop: &AtomicBool,
    ended: &mut Vec<Completion>,
) -> Result<(), LostTarget> {
    let mut next = 0;
    loop {
        let (transfers, common) = backend.first();
        while next < count && accept(transfers, common.number(next), common) {
            next += 1;
        }
        if next == count && transfers.is_idle() {
            return Ok(());
        }
        if stop.load(Relaxed) {
            return Err(LostTarget("interrupted while closing files".to_owned()));
        }
        backend.start_calls();
        backend.reap(1, NO_LIMIT, ended)?;
        for completion in ended.drain(..) {
            if let Outcome::Failed(error) = completion.outcome {
                let hint = "(hint: data written to it may be lost)";
                return Err(LostTarget(format!("a file could not be closed: {error} {hint}")));
            }
        }
    }
}
