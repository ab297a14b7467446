//! Synchronous system calls: one op at a time per worker, each timed by itself.
//!
//! Data files are open before the pass starts, and what moves there is in `data`; what works by
//! name is in `names`, relative to the open working directory; files that are opened, used and
//! closed within one op are in `by_name`. Every kind of op is the system call nearest to the NFS
//! call that it stands for.

mod by_name;
mod data;
pub(super) mod names;
mod xattrs;

pub(super) use data::{get_each, put_each};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::{Completion, Op, OpError, OpKind, Outcome};
use rustix::io::Errno;

use super::files::{Files, failed};
use super::in_turn::InTurn;
use super::{Backend, Lost, Tally};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::limits::STDIO_BYTES;

/// Executes ops by blocking system calls.
pub struct Posix {
    queue: InTurn,
    calls: Calls,
}

/// The files, and the memory that calls on them need.
struct Calls {
    set: Files,
    /// Buffers for data that is read, or put together to be written.
    buffer: Buffers,
    /// Buffers of character streams.
    stdio: Buffers,
}

impl Posix {
    /// Makes a backend on open files.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> Self {
        let queue = InTurn::new(clock, set.queue_depth);
        let buffer = Buffers::new(1, set.io_size_bytes);
        let stdio = Buffers::new(1, STDIO_BYTES);
        Self { queue, calls: Calls { set, buffer, stdio } }
    }
}

impl Calls {
    fn execute(&mut self, op: &Op) -> Result<u32, OpError> {
        let (set, buffer) = (&self.set, self.buffer.slot(0));
        match op.kind {
            OpKind::Read => data::read(set, buffer, op),
            OpKind::Write => data::write(set, buffer, op),
            OpKind::Update => data::update(set, buffer, op),
            OpKind::PutChars => data::put_chars(set, self.stdio.slot(0), op),
            OpKind::GetChars => data::get_chars(set, self.stdio.slot(0), op),
            OpKind::Sync | OpKind::Commit => data::sync(set, op),
            OpKind::Create => by_name::create(set, buffer, op),
            OpKind::ReadFile => by_name::read_file(set, buffer, op),
            OpKind::Append => by_name::append(set, buffer, op),
            OpKind::Execute => Err(failed(Errno::OPNOTSUPP)),
            _ => names::execute(set, op),
        }
    }
}

impl Backend for Posix {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.queue.submit(batch)
    }

    fn reap(&mut self, _min: usize, _until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let Self { queue, calls } = self;
        queue.reap(out, |op| match calls.execute(op) {
            Ok(bytes) => Outcome::Done(bytes),
            Err(error) => Outcome::Failed(error),
        });
        Ok(())
    }

    fn close(&mut self, _stop: &AtomicBool) -> Result<(), Lost> {
        self.calls.set.close()
    }

    fn tally(&self) -> Tally {
        let mismatches = self.calls.set.mismatches.get();
        Tally { ops: Some(self.queue.executed()), mismatches, ..Tally::default() }
    }
}
