//! Closing what a worker has open, where that belongs into the timed window.
//!
//! As kernels do at close(2): what was written is committed, and in version 4 the open is
//! released. All of it goes over the first connection, which in v4.0 has made the opens itself.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use model::{Completion, Outcome};

use super::set::Common;
use super::transfers::Transfers;
use crate::backend::{Backend, Lost, NO_LIMIT};

/// A backend whose first connection can close files.
pub(super) trait Closing: Backend {
    /// That connection's ops, and what all share.
    fn first(&mut self) -> (&mut Transfers, &mut Common);

    /// Starts calls of ops that it was given.
    fn start_calls(&mut self);
}

/// Commits and closes every file of the set.
pub(super) fn close_files(backend: &mut impl Closing, stop: &AtomicBool) -> Result<(), Lost> {
    let (_, common) = backend.first();
    let count = common.set.files.len();
    let commits = common.uncommitted.is_some();
    let closes = common.set.closable;
    // The clients' records are of ops of the plan only.
    let clients = std::mem::take(&mut common.set.clients);
    let mut ended = Vec::new();
    let mut closed = Ok(());
    // In two rounds: what was written is safe before any open is given up.
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

type Accept = fn(&mut Transfers, u32, &Common) -> bool;

/// Does something to each file, as many at once as there is room for.
fn for_each_file(
    backend: &mut impl Closing,
    count: usize,
    accept: Accept,
    stop: &AtomicBool,
    ended: &mut Vec<Completion>,
) -> Result<(), Lost> {
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
            return Err(Lost("interrupted while files were closed".to_owned()));
        }
        backend.start_calls();
        backend.reap(1, NO_LIMIT, ended)?;
        for completion in ended.drain(..) {
            if let Outcome::Failed(error) = completion.outcome {
                let hint = "(hint: what was written may be lost)";
                return Err(Lost(format!("closing a file failed: {error} {hint}")));
            }
        }
    }
}
