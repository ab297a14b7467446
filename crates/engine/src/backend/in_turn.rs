//! Ops that are executed one after the other, for backends whose calls block.
//!
//! Principal type: [`InTurn`], what was accepted and not yet executed. An op is sent when the one
//! before it is done, so that each instant is read once.

use std::sync::Arc;

use model::{Completion, Op, Outcome};

use crate::clock::Clock;

/// A queue of what waits for its turn, and how many ops had theirs.
pub struct InTurn {
    clock: Arc<dyn Clock>,
    waiting: Vec<Op>,
    executed: u64,
}

impl InTurn {
    /// Nothing waits; so many ops may.
    pub fn new(clock: Arc<dyn Clock>, depth: usize) -> Self {
        Self { clock, waiting: Vec::with_capacity(depth), executed: 0 }
    }

    /// Takes ops from the front of the batch and says how many.
    pub fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.waiting.capacity() - self.waiting.len());
        self.waiting.extend_from_slice(&batch[..accepted]);
        accepted
    }

    /// Executes all that waits.
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

    /// How many ops were executed.
    pub const fn executed(&self) -> u64 {
        self.executed
    }
}
