//! The scope of a pass: the load it was offered, the part of the file set it touched, its progress.
//!
//! Beside the figures of a pass: they say for what they hold. All of it may be absent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interference::Interference;
use crate::op::OpKind;
use crate::sampling::{ProcessorWait, Stalls, Work};
use crate::soak::{Kept, Recovery};

/// The offered load of a pass, the data it touched, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// The offered load of an open loop.
    pub offered: Option<Offered>,
    /// The achieved working set; `None` where no file was touched by number.
    pub working_set: Option<WorkingSet>,
    /// The work before anything counted, by kind: it is in no figure, but visible at the target.
    pub warmup: Vec<WarmedUp>,
    /// The resources that a timed command of the user's used.
    pub program: Option<ProgramUse>,
    /// Done between the last worker's start and the first worker's end, while all were busy.
    pub common: Option<Work>,
    /// Times without a completion; `None` where they were not sampled.
    pub stalls: Option<Stalls>,
    /// How long the workers waited for a processor; `None` where the kernel does not say.
    pub processor_wait: Option<ProcessorWait>,
    /// The state of a soak's data after it was verified.
    pub kept: Option<Kept>,
    /// The recovery work of a client during a soak, beyond the requested ops.
    pub recovery: Option<Recovery>,
    /// Ops that could be in flight at a time, all workers together; 0 where it is not known.
    pub slots: u32,
    /// What disturbed the pass from outside.
    pub interference: Interference,
}

impl Scope {
    /// Ops of an open loop that were done too late to count as carried: started after the window
    /// had ended, but for as many as there are slots. A server that keeps up still has a few ops
    /// waiting at any instant, and so at the last one.
    pub fn overdue_ops(&self) -> u64 {
        self.offered.map_or(0, |offered| offered.late_ops.saturating_sub(self.slots.into()))
    }

    /// Ops and bytes of a kind that were done before anything counted.
    pub fn warmed_up(&self, kind: OpKind) -> (u64, u64) {
        let of_kind = self.warmup.iter().filter(|warm| warm.kind == kind);
        of_kind.fold((0, 0), |(ops, bytes), warm| (ops + warm.done, bytes + warm.bytes))
    }
}

/// The offered load of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offered {
    /// The requested rate, in ops per second.
    pub rate_per_s: u64,
    /// Ops that were scheduled in the measured window, all workers together.
    pub scheduled_ops: u64,
    /// Time over which they were scheduled, in nanoseconds.
    pub span_ns: u64,
    /// The completed ops that could be started only after the window had ended. Their
    /// response times count, but the load was not carried in time.
    pub late_ops: u64,
    /// Ops that were scheduled and never started: the drain of the pass was over. They are among
    /// the response times with the time that they had waited by then.
    pub unanswered_ops: u64,
    /// Ops that were scheduled in the warm-up and done in the measured window. Far above a target's
    /// capacity the warm-up leaves a queue, and the target works on that first: these are all that
    /// it carries.
    pub carried_over_ops: u64,
}

impl Offered {
    /// Returns the load really offered, in ops per second: random arrivals never match the request.
    pub fn ops_per_s(&self) -> f64 {
        self.scheduled_ops as f64 * 1e9 / self.span_ns.max(1) as f64
    }
}

/// The distinct data that a pass touched, however often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSet {
    /// Number of distinct files.
    pub files: u64,
    /// Different bytes, in whole units.
    pub bytes: u64,
    /// The granularity of distinct bytes, in bytes; 0 where every byte was touched once at most.
    pub unit_bytes: u64,
}

/// The resources used by a command and its awaited children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramUse {
    /// Processor time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Largest resident memory of any one process, in bytes.
    pub rss_max_bytes: u64,
}

impl WarmedUp {
    /// Adds what others did.
    pub fn merge_all(all: &mut Vec<Self>, more: &[Self]) {
        for warm in more {
            match all.iter_mut().find(|known| known.kind == warm.kind) {
                None => all.push(*warm),
                Some(known) => {
                    known.done = known.done.saturating_add(warm.done);
                    known.bytes = known.bytes.saturating_add(warm.bytes);
                }
            }
        }
    }
}

/// The warmup ops of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// The kind of op.
    pub kind: OpKind,
    /// Ops that ended well.
    pub done: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}
