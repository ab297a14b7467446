//! Copies data within memory: what every byte costs that is moved at all.
//!
//! A write copies the op's bytes to their place in a region, a read copies them out again. The
//! region is as large as the worker's files, up to [`MEMORY_REGION_MAX`]: larger than caches, so
//! that it is memory that is measured. Ops that move no data are done at once.

use std::sync::Arc;

use model::{Completion, Op, OpKind, Outcome};

use super::in_turn::InTurn;
use super::{Backend, Lost, Tally};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::limits::MEMORY_REGION_MAX;

/// The backend; see the module.
pub struct Memory {
    queue: InTurn,
    memory: Regions,
}

/// The memory that is copied from and to.
struct Regions {
    buffer: Buffers,
    region: Vec<u8>,
}

impl Memory {
    /// Makes a backend that holds `queue_depth` ops of at most `io_size` bytes on files of
    /// `set_bytes` together.
    pub fn new(clock: Arc<dyn Clock>, queue_depth: usize, io_size: usize, set_bytes: u64) -> Self {
        let region = (set_bytes.min(MEMORY_REGION_MAX) as usize).max(io_size);
        Self {
            queue: InTurn::new(clock, queue_depth),
            memory: Regions {
                buffer: Buffers::new(1, io_size),
                // Written, not only zeroed: untouched pages would fault inside the first ops.
                region: vec![0x5a; region],
            },
        }
    }
}

impl Regions {
    fn copy(&mut self, op: &Op) {
        // Files that are made or read whole by their name may be larger than any transfer.
        if !matches!(op.kind, OpKind::Read | OpKind::Write) {
            return;
        }
        let len = (op.len_bytes as usize).min(self.region.len());
        let room = self.region.len() - len + 1;
        let start = (op.offset_bytes % room as u64) as usize;
        let (place, own) = (&mut self.region[start..start + len], &mut self.buffer.slot(0)[..len]);
        if op.kind == OpKind::Write {
            place.copy_from_slice(own);
        } else {
            own.copy_from_slice(place);
        }
        // The optimiser must not find out that the result is never read.
        std::hint::black_box(&mut self.region);
    }
}

impl Backend for Memory {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.queue.submit(batch)
    }

    fn reap(&mut self, _min: usize, _until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let Self { queue, memory } = self;
        queue.reap(out, |op| {
            memory.copy(op);
            Outcome::Done(op.len_bytes)
        });
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally { ops: Some(self.queue.executed()), ..Tally::default() }
    }
}
