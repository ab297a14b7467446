//! Scope of a pass: the load it was offered, the files it touched, and its progress.
//!
//! This shows what the results of a pass apply to. Every part is optional.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::faults::interference::Interference;
use crate::faults::soak::{DataCheck, Recovery};
use crate::results::path::{PathWork, PnfsWork};
use crate::runs::op::OpKind;
use crate::runs::sampling::{ProcessorWait, Stalls, Work};

/// Offered load of a pass, the data it touched, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// The offered load of an open loop.
    pub offered: Option<OfferedLoad>,
    /// The actual working set; `None` if no file was accessed by number.
    pub working_set: Option<WorkingSet>,
    /// What a pass over whole directories listed.
    pub listing: Option<ListingWork>,
    /// How many frames of a pass over streams were late.
    pub frames: Option<FrameDelivery>,
    /// The 95th percentile of the slowest worker for each kind of op, if users wait for their own
    /// objects; empty for other passes.
    pub worst_p95: Vec<WorkerTime>,
    /// Work before the measurement, by kind. It is in no result but visible at the target.
    pub warmup: Vec<WarmedUp>,
    /// Resources used by a timed user-defined command.
    pub program: Option<ProgramUse>,
    /// Work between the last worker's start and the first worker's end, while all were busy.
    pub common: Option<Work>,
    /// Periods without a completion; `None` if they were not sampled.
    pub stalls: Option<Stalls>,
    /// How long the workers waited for a CPU; `None` if the kernel doesn't report it.
    pub processor_wait: Option<ProcessorWait>,
    /// State of a soak's data after verification.
    pub kept: Option<DataCheck>,
    /// Recovery work of a client during a soak, beyond the requested ops.
    pub recovery: Option<Recovery>,
    /// Time of each rank from the start of the pass until its last op was done, in nanoseconds and
    /// in the order of ranks; empty unless the pass is [`crate::Pass::is_timed_by_rank`].
    pub rank_times_ns: Vec<u64>,
    /// What the accelerators of a training did.
    pub training: Option<TrainingWork>,
    /// Maximum number of ops in flight over all workers; 0 if unknown.
    pub slots: u32,
    /// Bytes of all NFS calls and replies during the pass; `None` if they are not counted.
    pub wire: Option<WireBytes>,
    /// What each of the server's addresses did; empty unless there are several.
    pub paths: Vec<PathWork>,
    /// What the servers of a pNFS cluster did; `None` unless our client was to use layouts.
    pub pnfs: Option<PnfsWork>,
    /// External disturbances of the pass.
    pub interference: Interference,
}

impl Scope {
    /// Returns the ops of an open loop that were started after the end of the window, except for as
    /// many as there are slots. They were too late to count toward the load. Even a server that
    /// keeps up always has a few ops waiting, including at the end.
    pub fn overdue_ops(&self) -> u64 {
        self.offered.map_or(0, |offered| offered.late_ops.saturating_sub(self.slots.into()))
    }

    /// Returns ops and bytes of a kind from before the measurement.
    pub fn warmed_up(&self, kind: OpKind) -> (u64, u64) {
        let of_kind = self.warmup.iter().filter(|warm| warm.kind == kind);
        of_kind.fold((0, 0), |(ops, bytes), warm| (ops + warm.done, bytes + warm.bytes))
    }
}

/// Bytes of calls and replies on the wire, with all headers above TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WireBytes {
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl WireBytes {
    /// Returns the bytes in both directions.
    pub const fn total(&self) -> u64 {
        self.sent_bytes.saturating_add(self.received_bytes)
    }

    /// Adds the bytes of other connections.
    pub const fn add(&mut self, other: Self) {
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
    }
}

/// The offered load of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OfferedLoad {
    /// The requested rate, in ops per second.
    pub rate_per_s: u64,
    /// Ops scheduled in the measured window, over all workers.
    pub scheduled_ops: u64,
    /// Length of the schedule, in nanoseconds.
    pub span_ns: u64,
    /// Completed ops that could only be started after the end of the window. Their response times
    /// count, but the load was not sustained.
    pub late_ops: u64,
    /// Ops that were scheduled but never started before the pass ended. They count in the response
    /// times with the time they had waited so far.
    pub unanswered_ops: u64,
    /// Ops scheduled in the warm-up but completed in the measured window. If the load is far above
    /// a target's capacity, the warm-up leaves a backlog that the target works on first, so these
    /// may be all that it completes.
    pub carried_over_ops: u64,
}

impl OfferedLoad {
    /// Returns the load actually offered, in ops per second. With random arrivals, it never matches
    /// the request exactly.
    pub fn ops_per_s(&self) -> f64 {
        self.scheduled_ops as f64 * 1e9 / self.span_ns.max(1) as f64
    }
}

/// The distinct data that a pass touched, however often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSet {
    /// Number of distinct files.
    pub files: u64,
    /// Distinct bytes, in multiples of `unit_bytes`.
    pub bytes: u64,
    /// The granularity of distinct bytes, in bytes; 0 if every byte was touched at most once.
    pub unit_bytes: u64,
}

/// How accelerators spent their time in a training.
///
/// The first step is in none of the times, since it waits for the first batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainingWork {
    pub accelerators: u32,
    /// Steps of each accelerator, including the first.
    pub steps: u64,
    /// Samples processed by all accelerators, including those of the first step.
    pub samples: u64,
    /// Time that accelerators computed, summed over all of them.
    pub compute_ns: u64,
    /// Time from the end of the first step to the end of the last one, summed over accelerators.
    pub span_ns: u64,
    /// Longest time from the start until a first batch was complete.
    pub first_batch_ns: u64,
    /// Longest time that a step waited for its batch.
    pub longest_wait_ns: u64,
    /// Steps after the first that waited for their batch, on the host with the most.
    pub late_steps: u64,
}

impl TrainingWork {
    /// Returns the accelerator utilization, between 0 and 1.
    ///
    /// **Source:** MLPerf Storage, rules: compute time divided by total time, without the first
    /// step.
    pub fn utilization(&self) -> Option<f64> {
        (self.span_ns > 0).then(|| self.compute_ns as f64 / self.span_ns as f64)
    }

    /// Returns the time lost to waiting for batches, summed over accelerators.
    pub const fn waited_ns(&self) -> u64 {
        self.span_ns.saturating_sub(self.compute_ns)
    }

    /// Adds the accelerators of another host.
    pub fn add(&mut self, other: &Self) {
        self.accelerators += other.accelerators;
        self.steps = self.steps.max(other.steps);
        self.samples += other.samples;
        self.compute_ns = self.compute_ns.saturating_add(other.compute_ns);
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
        self.first_batch_ns = self.first_batch_ns.max(other.first_batch_ns);
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.late_steps = self.late_steps.max(other.late_steps);
    }
}

/// What a pass over whole directories listed, and what that took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListingWork {
    /// Directories that were listed completely.
    pub directories: u64,
    /// Their entries, which are also the ops of the pass.
    pub entries: u64,
    /// Files that a find has found.
    pub matches: u64,
    /// Round trips to an NFS server: its calls that return names or attributes, with their numbers.
    /// Empty if they are not known.
    pub calls: Vec<ListingCalls>,
    /// Bytes of the replies to these calls.
    pub reply_bytes: u64,
}

/// The number of calls of one procedure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListingCalls {
    /// Name of the procedure or operation.
    pub procedure: String,
    /// Number of calls.
    pub count: u64,
}

impl ListingWork {
    /// Returns the number of round trips, or `None` if it isn't known.
    pub fn round_trips(&self) -> Option<u64> {
        if self.calls.is_empty() {
            return None;
        }
        Some(self.calls.iter().map(|calls| calls.count).sum())
    }

    /// Adds what another host listed.
    pub fn add(&mut self, other: &Self) {
        self.directories = self.directories.saturating_add(other.directories);
        self.entries = self.entries.saturating_add(other.entries);
        self.matches = self.matches.saturating_add(other.matches);
        self.reply_bytes = self.reply_bytes.saturating_add(other.reply_bytes);
        for calls in &other.calls {
            match self.calls.iter_mut().find(|known| known.procedure == calls.procedure) {
                Some(known) => known.count = known.count.saturating_add(calls.count),
                None => self.calls.push(calls.clone()),
            }
        }
    }
}

/// Response time of one worker for a kind of op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerTime {
    #[schemars(with = "String")]
    pub kind: OpKind,
    pub time_ns: u64,
}

impl WorkerTime {
    /// Keeps the longer time of each kind.
    pub fn merge_slowest(all: &mut Vec<Self>, more: &[Self]) {
        for one in more {
            match all.iter_mut().find(|known| known.kind == one.kind) {
                Some(known) => known.time_ns = known.time_ns.max(one.time_ns),
                None => all.push(*one),
            }
        }
    }
}

/// How the frames of all streams met their deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FrameDelivery {
    /// Frames that were due, including those that failed or never came.
    pub frames: u64,
    /// Frames that were not complete by their deadline.
    pub late_frames: u64,
    /// Streams, one for each worker.
    pub streams: u32,
    /// Streams with at least one late frame.
    pub late_streams: u32,
    /// How long after its deadline the latest frame was complete, in nanoseconds; 0 if none was
    /// late. A failed frame has no such time.
    pub worst_lateness_ns: u64,
}

impl FrameDelivery {
    /// Returns the number of streams without a late frame.
    pub const fn good_streams(&self) -> u32 {
        self.streams.saturating_sub(self.late_streams)
    }

    /// Adds other streams.
    pub const fn add(&mut self, other: Self) {
        self.frames = self.frames.saturating_add(other.frames);
        self.late_frames = self.late_frames.saturating_add(other.late_frames);
        self.streams = self.streams.saturating_add(other.streams);
        self.late_streams = self.late_streams.saturating_add(other.late_streams);
        if other.worst_lateness_ns > self.worst_lateness_ns {
            self.worst_lateness_ns = other.worst_lateness_ns;
        }
    }
}

/// The resources used by a command and its awaited children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramUse {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Largest resident memory of any one process, in bytes.
    pub rss_max_bytes: u64,
}

impl WarmedUp {
    /// Adds the resources of others.
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

/// The warm-up ops of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// The kind of op.
    pub kind: OpKind,
    /// Ops that succeeded.
    pub done: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
}
