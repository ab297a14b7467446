//! Synchronous system calls: one op at a time per worker, each timed separately.
//!
//! Data files are opened before the pass. Ops on their data are in `data`; those on names, relative
//! to the open working directory, are in `names`; and those that open, use and close a file are in
//! `by_name`. Each op uses the system call that is closest to its NFS call.

mod by_name;
mod data;
pub mod listing;
pub(super) mod names;
pub(super) mod ranges;
mod xattrs;

pub(super) use data::{get_each, put_each};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::{Completion, Op, OpError, OpKind, Outcome};
use rustix::io::Errno;
use workload::Pattern;

use super::files::{Files, failed};
use super::sequential::SequentialQueue;
use super::{Backend, BackendCounts, LostTarget};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::limits::STDIO_BYTES;

/// Executes ops with blocking system calls.
pub struct Posix {
    queue: SequentialQueue,
    calls: Calls,
}

/// The files and the buffers for calls on them.
struct Calls {
    set: Files,
    /// Buffer for data that is read or assembled for writing.
    buffer: Buffers,
    /// Buffer of character streams.
    stdio: Buffers,
}

impl Posix {
    /// Creates a backend for open files.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> Self {
        let queue = SequentialQueue::new(clock, set.queue_depth);
        let buffer = Buffers::new(1, set.io_size_bytes);
        let stdio = Buffers::new(1, STDIO_BYTES);
        Self { queue, calls: Calls { set, buffer, stdio } }
    }

    /// Writes this content from now on.
    pub fn set_pattern(&mut self, pattern: Pattern) {
        self.calls.set.pattern = pattern;
    }
}

impl Calls {
    fn execute(&mut self, op: &Op) -> Result<u32, OpError> {
        let set = &self.set;
        let buffer = self.buffer.slot(0);
        match op.kind {
            OpKind::Read => data::read(set, buffer, op),
            OpKind::Write => data::write(set, buffer, op),
            OpKind::Update => data::update(set, buffer, op),
            OpKind::PutChars => data::put_chars(set, self.stdio.slot(0), op),
            OpKind::GetChars => data::get_chars(set, self.stdio.slot(0), op),
            OpKind::LogAppend => data::append_to_log(set, buffer, op),
            OpKind::Sync | OpKind::Commit => data::sync(set, op),
            OpKind::Create => by_name::create(set, buffer, op),
            OpKind::ReadFile => by_name::read_file(set, buffer, op),
            OpKind::Append => by_name::append(set, buffer, op),
            OpKind::Copy | OpKind::Clone | OpKind::Allocate | OpKind::Punch | OpKind::Seek => {
                ranges::execute(set, op)
            }
            OpKind::ReadPlus => ranges::read_sparse(set, buffer, op),
            OpKind::Execute => Err(failed(Errno::OPNOTSUPP)),
            _ => names::execute(set, op),
        }
    }
}

impl Backend for Posix {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.queue.submit(batch)
    }

    fn reap(
        &mut self,
        _min: usize,
        _until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let Self { queue, calls } = self;
        queue.reap(out, |op| match calls.execute(op) {
            Ok(bytes) => Outcome::Done(bytes),
            Err(error) => Outcome::Failed(error),
        });
        Ok(())
    }

    fn close(&mut self, _stop: &AtomicBool) -> Result<(), LostTarget> {
        self.calls.set.close()
    }

    fn tally(&self) -> BackendCounts {
        let set = &self.calls.set;
        BackendCounts {
            ops: Some(self.queue.executed()),
            mismatches: set.mismatches.get(),
            ranges: set.ranges.get(),
            ..BackendCounts::default()
        }
    }
}
