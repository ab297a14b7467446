//! Copies data within memory: what every byte costs that is moved at all.
//!
//! A write copies the op's bytes to their place in a region, a read copies them out again. The
//! region is as large as the worker's files, up to [`MEMORY_REGION_MAX`]: larger than caches, so
//! that it is memory that is measured. Ops that move no data are done at once.

use std::sync::Arc;

use model::{Completion, Op, OpKind, Outcome};

use super::{Backend, Lost, Tally};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::limits::MEMORY_REGION_MAX;

/// The backend; see the module.
pub struct Memory {
    clock: Arc<dyn Clock>,
    queue: Vec<Op>,
    buffer: Buffers,
    region: Vec<u8>,
    ops: u64,
}

impl Memory {
    /// Makes a backend that holds `queue_depth` ops of at most `io_size` bytes on files of
    /// `set_bytes` together.
    pub fn new(
        clock: Arc<dyn Clock>,
        queue_depth: usize,
        (io_size, set_bytes): (usize, u64),
    ) -> Self {
        let region = (set_bytes.min(MEMORY_REGION_MAX) as usize).max(io_size);
        Self {
            clock,
            queue: Vec::with_capacity(queue_depth),
            buffer: Buffers::new(1, io_size),
            // Written, not only zeroed: untouched pages would fault inside the first ops.
            region: vec![0x5a; region],
            ops: 0,
        }
    }

    fn copy(&mut self, op: &Op) {
        let len = (op.len_bytes as usize).min(self.region.len());
        let room = self.region.len() - len + 1;
        let start = (op.offset_bytes % room as u64) as usize;
        let (place, own) = (&mut self.region[start..start + len], &mut self.buffer.slot(0)[..len]);
        match op.kind {
            OpKind::Write => place.copy_from_slice(own),
            OpKind::Read => own.copy_from_slice(place),
            _ => {}
        }
        // Whoever optimises must not find out that nobody looks.
        std::hint::black_box(&mut self.region);
    }
}

impl Backend for Memory {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.queue.capacity() - self.queue.len());
        self.queue.extend_from_slice(&batch[..accepted]);
        accepted
    }

    fn reap(&mut self, _min: usize, _until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let mut sent_ns = self.clock.now_ns();
        for index in 0..self.queue.len() {
            let op = self.queue[index];
            self.copy(&op);
            let done_ns = self.clock.now_ns();
            out.push(Completion { op, sent_ns, done_ns, outcome: Outcome::Done(op.len_bytes) });
            sent_ns = done_ns;
        }
        self.ops += self.queue.len() as u64;
        self.queue.clear();
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally { ops: Some(self.ops), ..Tally::default() }
    }
}
