//! Executes ops one after the other, for backends whose calls block.
//!
//! [`SequentialQueue`] contains the ops that have been accepted but not executed. An op counts as
//! sent when the previous one is done, so that the clock is read only once per op.

use std::sync::Arc;

use model::{Completion, Op, Outcome};

use crate::clock::Clock;

/// A queue of ops to execute, and the number of those already executed.
pub(crate) struct SequentialQueue {
    clock: Arc<dyn Clock>,
    waiting: Vec<Op>,
    executed: u64,
}

impl SequentialQueue {
    /// Creates an empty queue for `depth` ops.
    pub(crate) fn new(clock: Arc<dyn Clock>, depth: usize) -> Self {
        Self { clock, waiting: Vec::with_capacity(depth), executed: 0 }
    }

    /// Accepts ops from the front of the batch and returns their number.
    pub(crate) fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.waiting.capacity() - self.waiting.len());
        self.waiting.extend_from_slice(&batch[..accepted]);
        accepted
    }

    /// Executes all accepted ops.
    pub(crate) fn reap(
        &mut self,
        out: &mut Vec<Completion>,
        mut execute: impl FnMut(&Op) -> Outcome,
    ) {
        let mut sent_ns = self.clock.now_ns();
        self.executed += self.waiting.len() as u64;
        for op in self.waiting.drain(..) {
            let outcome = execute(&op);
            let done_ns = self.clock.now_ns();
            out.push(Completion { op, sent_ns, done_ns, outcome });
            sent_ns = done_ns;
        }
    }

    /// Returns the number of ops executed.
    pub(crate) const fn executed(&self) -> u64 {
        self.executed
    }
}
