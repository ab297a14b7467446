//! Copies data within memory, which is the minimum cost of transferring any byte.
//!
//! A write copies the op's bytes to their place in a region, and a read copies them back. The
//! region is as large as the worker's files, up to `MEMORY_REGION_MAX`, which exceeds CPU caches,
//! so that memory is measured. Ops without data complete immediately.

use std::sync::Arc;

use model::{Completion, Op, OpKind, Outcome};

use super::sequential::SequentialQueue;
use super::{Backend, BackendCounts, LostTarget};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::limits::MEMORY_REGION_MAX;

/// The memory backend; see the module.
pub struct Memory {
    queue: SequentialQueue,
    memory: Regions,
}

/// The memory that is copied from and to.
struct Regions {
    buffer: Buffers,
    region: Vec<u8>,
}

impl Memory {
    /// Creates a backend for `queue_depth` ops of up to `io_size` bytes, on files with a total of
    /// `set_bytes`.
    pub fn new(clock: Arc<dyn Clock>, queue_depth: usize, io_size: usize, set_bytes: u64) -> Self {
        let region = (set_bytes.min(MEMORY_REGION_MAX) as usize).max(io_size);
        Self {
            queue: SequentialQueue::new(clock, queue_depth),
            memory: Regions {
                buffer: Buffers::new(1, io_size),
                // Fill it with a nonzero value, since untouched pages would fault in the first ops.
                region: vec![0x5a; region],
            },
        }
    }
}

impl Regions {
    fn copy(&mut self, op: &Op) {
        // Files created or read by name may be larger than any transfer.
        if !matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::LogAppend) {
            return;
        }
        let len = (op.len_bytes as usize).min(self.region.len());
        let room = self.region.len() - len + 1;
        let start = (op.offset_bytes % room as u64) as usize;
        let place = &mut self.region[start..start + len];
        let own = &mut self.buffer.slot(0)[..len];
        if op.kind == OpKind::Read {
            own.copy_from_slice(place);
        } else {
            place.copy_from_slice(own);
        }
        // Keep the optimizer from noticing that the result is never used.
        std::hint::black_box(&mut self.region);
    }
}

impl Backend for Memory {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.queue.submit(batch)
    }

    fn reap(
        &mut self,
        _min: usize,
        _until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let Self { queue, memory } = self;
        queue.reap(out, |op| {
            memory.copy(op);
            Outcome::Done(op.len_bytes)
        });
        Ok(())
    }

    fn tally(&self) -> BackendCounts {
        BackendCounts { ops: Some(self.queue.executed()), ..BackendCounts::default() }
    }
}
