//! Executes ops one after the other, for backends whose calls block.
//!
//! Principal type: [`InTurn`], what was accepted and not yet executed. An op is sent when the one
//! before it is done, so that each instant is read once.

use std::sync::Arc;

use model::{Completion, Op, Outcome};

use crate::clock::Clock;

/// A queue of ops that are not executed yet, and the number of those that were.
pub struct InTurn {
    clock: Arc<dyn Clock>,
    waiting: Vec<Op>,
    executed: u64,
}

impl InTurn {
    /// Makes an empty queue for so many ops.
    pub fn new(clock: Arc<dyn Clock>, depth: usize) -> Self {
        Self { clock, waiting: Vec::with_capacity(depth), executed: 0 }
    }

    /// Accepts ops from the front of the batch, and returns how many.
    pub fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.waiting.capacity() - self.waiting.len());
        self.waiting.extend_from_slice(&batch[..accepted]);
        accepted
    }

    /// Executes all ops that were accepted.
    pub fn reap(&mut self, out: &mut Vec<Completion>, mut execute: impl FnMut(&Op) -> Outcome) {
        let mut sent_ns = self.clock.now_ns();
        self.executed += self.waiting.len() as u64;
        for op in self.waiting.drain(..) {
            let outcome = execute(&op);
            let done_ns = self.clock.now_ns();
            out.push(Completion { op, sent_ns, done_ns, outcome });
            sent_ns = done_ns;
        }
    }

    /// Returns how many ops were executed.
    pub const fn executed(&self) -> u64 {
        self.executed
    }
}
