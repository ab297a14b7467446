//! The admission of a worker's ops: when it may start the next one.
//!
//! [`Timing`] holds the instants of a pass, [`Admission`] the conditions beyond a free place in the
//! queue: the scheduled time of an open loop, the think time of a closed one, the allowance of a
//! bandwidth cap, and the end of another op on the same file. A worker without any of these never
//! asks.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Completion, Op, OpError, OpKind, Outcome, Pass, RunSpec};
use workload::journal::Safety;
use workload::{Journal, OpStream, Rewrites};

use crate::backend::NO_LIMIT;
use crate::intervals::IntervalCounts;
use crate::limits::{CAP_CREDIT_NS, SCHEDULE_DRAIN_MAX};

/// The instants of one worker's pass, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When it starts.
    pub start_ns: u64,
    /// The instant from which on ops count: the end of ramp and warm-up.
    pub counts_ns: u64,
    /// When it ends at the latest; [`NO_LIMIT`] where time is no bound.
    pub deadline_ns: u64,
    /// The last instant at which ops of an open loop may start that were scheduled before the
    /// deadline.
    pub drained_ns: u64,
}

impl Timing {
    /// Computes the instants of a pass that starts now.
    pub fn of(spec: &RunSpec, pass: Pass, start_ns: u64) -> Self {
        let counts_ns = start_ns.saturating_add(spec.warmup_ns());
        let Some(time_ns) = spec.time_max_ns(pass) else {
            return Self { start_ns, counts_ns, deadline_ns: NO_LIMIT, drained_ns: NO_LIMIT };
        };
        let deadline_ns = counts_ns.saturating_add(time_ns);
        // The segments of a soak follow each other: the next one starts what is scheduled then.
        let drain_ns = if spec.load.rate_per_s > 0 && spec.soak.is_none() {
            time_ns.min(SCHEDULE_DRAIN_MAX.as_nanos() as u64)
        } else {
            0
        };
        Self { start_ns, counts_ns, deadline_ns, drained_ns: deadline_ns.saturating_add(drain_ns) }
    }

    /// Lets all workers count from the same instant where they warm up, even those that start late:
    /// `begun_ns` is when the gates opened.
    #[must_use]
    pub fn counting_as_one(mut self, begun_ns: u64) -> Self {
        let warmup_ns = self.counts_ns - self.start_ns;
        if warmup_ns > 0 {
            // All of this worker's instants move earlier by as much as it started late.
            let late_ns = self.counts_ns - begun_ns.saturating_add(warmup_ns).max(self.start_ns);
            self.counts_ns -= late_ns;
            for end_ns in [&mut self.deadline_ns, &mut self.drained_ns] {
                if *end_ns != NO_LIMIT {
                    *end_ns -= late_ns;
                }
            }
        }
        self
    }

    /// Returns the instant for [`crate::recorder::Recorder::counting_from`]: 0 where everything
    /// counts.
    pub const fn counts_since(&self) -> u64 {
        if self.counts_ns > self.start_ns { self.counts_ns } else { 0 }
    }

    /// Returns how long ops were scheduled, the last of them at `last_scheduled_ns`.
    pub const fn schedule_span_ns(&self, last_scheduled_ns: u64) -> u64 {
        let end_ns =
            if self.deadline_ns == NO_LIMIT { last_scheduled_ns } else { self.deadline_ns };
        end_ns.saturating_sub(self.counts_ns)
    }
}

/// The conditions that a worker waits for.
#[derive(Default)]
pub struct Admission {
    /// Pause after each op, in nanoseconds.
    think_time_ns: u64,
    /// The ends of the pauses that are being made, first to end first.
    thinking: VecDeque<u64>,
    /// Time that a byte takes under the cap, in 2^-20 nanoseconds; 0 without a cap.
    byte_time: u64,
    /// When the cap allows the next op.
    allowed_ns: u64,
    /// Files with an op in flight, where ops on a file must follow each other.
    busy: Option<Vec<Subject>>,
    /// The journal of what is acknowledged, in a soak.
    journaled: Option<Journaled>,
    /// The writes of each block, in a mix whose reads are verified.
    rewrites: Option<Arc<Rewrites>>,
}

/// The journal of a worker in a soak.
pub struct Journaled {
    /// Acknowledgements of each block.
    pub journal: Arc<Journal>,
    /// Interval statistics of this worker.
    pub counts: Arc<IntervalCounts>,
    /// How safe a write is once it is answered.
    pub safety: Safety,
    /// Files with these numbers, modulo the number of workers, are its own.
    pub worker: u32,
    /// Workers in all.
    pub workers: u32,
}

impl Journaled {
    fn note_start(&self, op: &Op) {
        if op.kind == OpKind::Write {
            self.journal.note_begun(op.file, op.offset_bytes);
        }
    }

    fn note_end(&self, completion: &Completion) {
        self.counts.record_ended(completion);
        let Op { kind, file, offset_bytes, .. } = completion.op;
        match (kind, completion.outcome) {
            (OpKind::Write, Outcome::Done(_)) => {
                self.journal.note_acknowledged(file, offset_bytes, self.safety);
            }
            // A sync promises nothing about what another worker wrote meanwhile.
            (OpKind::Sync, Outcome::Done(_)) if file % self.workers == self.worker => {
                self.journal.note_committed(file);
            }
            (OpKind::Read, Outcome::Failed(OpError::SHORT)) => {
                self.journal.note_found(file, offset_bytes, None);
            }
            _ => {}
        }
    }
}

/// Why an op can't start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The op can start.
    No,
    /// The op can start at this instant.
    Until(u64),
    /// The op can start once another one has ended.
    ForOther,
}

impl Admission {
    /// Makes the conditions of one worker; `None` where it only waits for a place in the queue.
    pub fn new(spec: &RunSpec, stream: &OpStream, queue_depth: usize) -> Option<Self> {
        let load = &spec.load;
        let is_ordered = stream.is_ordered() && queue_depth > 1;
        let thinks = load.think_time_ns > 0 && !stream.is_open_loop();
        if !stream.is_open_loop() && !thinks && load.bytes_per_s == 0 && !is_ordered {
            return None;
        }
        // The cap is that of all workers: each gets its part, whether the others use theirs or not.
        // A fixed-point number of nanoseconds: above 1 GB/s a byte takes less than one.
        let byte_time = match u128::from(load.bytes_per_s) {
            0 => 0,
            bytes_per_s => u128::from(spec.workers) * (1_000_000_000 << 20) / bytes_per_s,
        };
        Some(Self {
            think_time_ns: if thinks { load.think_time_ns } else { 0 },
            thinking: VecDeque::with_capacity(queue_depth),
            byte_time: u64::try_from(byte_time).unwrap_or(u64::MAX),
            allowed_ns: 0,
            busy: if is_ordered { Some(Vec::with_capacity(queue_depth)) } else { None },
            journaled: None,
            rewrites: None,
        })
    }

    /// Makes the conditions of a worker of a soak: one op at a time is in flight for each block,
    /// and its outcome is journaled. With two, the order of their writes would be unknown.
    #[must_use]
    pub fn with_journal(admission: Option<Self>, journaled: Journaled, queue_depth: usize) -> Self {
        let busy = Some(Vec::with_capacity(queue_depth));
        Self { busy, journaled: Some(journaled), ..admission.unwrap_or_default() }
    }

    /// Makes the conditions of a worker of a mix whose writes are followed: none beyond those that
    /// it has, but its ops are noted before they start and after they were checked.
    #[must_use]
    pub fn with_rewrites(admission: Option<Self>, rewrites: Arc<Rewrites>) -> Self {
        Self { rewrites: Some(rewrites), ..admission.unwrap_or_default() }
    }

    /// Says whether the outcome of each block is journaled.
    pub const fn is_journaling(&self) -> bool {
        self.journaled.is_some()
    }

    /// Returns the places in the queue whose pause has not ended, and when the first of them is
    /// free.
    pub fn count_thinking(&mut self, now_ns: u64) -> (usize, u64) {
        // All pauses are equally long, so they end in the order in which they began.
        while let Some(end_ns) = self.thinking.front() {
            if *end_ns > now_ns {
                return (self.thinking.len(), *end_ns);
            }
            self.thinking.pop_front();
        }
        (0, NO_LIMIT)
    }

    /// Says whether an op can start now, or what it has to wait for.
    pub fn check_start(&self, op: &Op, now_ns: u64) -> Wait {
        // Open loop: never before its time. An op that is late starts at once and keeps its
        // scheduled instant, so that its response time holds all that it waited for.
        if op.scheduled_ns > now_ns {
            return Wait::Until(op.scheduled_ns);
        }
        if self.byte_time > 0 && self.allowed_ns > now_ns {
            return Wait::Until(self.allowed_ns);
        }
        match &self.busy {
            Some(busy) if busy.contains(&self.subject_of(op)) => Wait::ForOther,
            _ => Wait::No,
        }
    }

    /// Notes an op that starts.
    pub fn note_start(&mut self, op: &Op, now_ns: u64) {
        if self.byte_time > 0 {
            let takes_ns = (u128::from(op.len_bytes) * u128::from(self.byte_time)) >> 20;
            // An idle worker saves up credit, but only so much: else it would burst past the cap.
            let earliest_ns = now_ns.saturating_sub(CAP_CREDIT_NS);
            let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
            self.allowed_ns = self.allowed_ns.max(earliest_ns).saturating_add(takes_ns);
        }
        let subject = self.subject_of(op);
        if let Some(busy) = &mut self.busy {
            busy.push(subject);
        }
        if let Some(journaled) = &self.journaled {
            journaled.note_start(op);
        }
        if let Some(rewrites) = &self.rewrites {
            match op.kind {
                OpKind::Write => rewrites.begin_write(op.file, op.offset_bytes),
                OpKind::Read => rewrites.begin_read(op.file, op.offset_bytes),
                _ => {}
            }
        }
    }

    /// Notes an op that ended.
    pub fn note_end(&mut self, completion: &Completion) {
        if self.think_time_ns > 0 {
            self.thinking.push_back(completion.done_ns.saturating_add(self.think_time_ns));
        }
        let ended = self.subject_of(&completion.op);
        if let Some(busy) = &mut self.busy {
            // One entry goes, even where a sync has the number of an op on the same file.
            for at in 0..busy.len() {
                if busy[at] == ended {
                    busy.swap_remove(at);
                    break;
                }
            }
        }
        if let Some(journaled) = &self.journaled {
            journaled.note_end(completion);
        }
        if let Some(rewrites) = &self.rewrites {
            let Op { kind, file, offset_bytes, .. } = completion.op;
            match (kind, completion.outcome) {
                (OpKind::Write, Outcome::Done(_)) => rewrites.end_write(file, offset_bytes),
                (OpKind::Read, _) => rewrites.end_read(file, offset_bytes),
                _ => {}
            }
        }
    }

    /// Returns the object that an op works on; a block where a file is journaled.
    const fn subject_of(&self, op: &Op) -> Subject {
        let (sort, number) = numbered(op);
        (sort, number, if self.is_journaling() { op.offset_bytes } else { 0 })
    }
}

/// The sort of object that an op works on, its number, and the offset in it.
type Subject = (u8, u32, u64);

/// Returns the object that an op works on: files, directories and links are numbered separately.
const fn numbered(op: &Op) -> (u8, u32) {
    let sort = match op.kind {
        OpKind::Mkdir | OpKind::StatDir | OpKind::RenameDir | OpKind::Rmdir => 1,
        OpKind::Symlink | OpKind::Unlink | OpKind::Readlink => 2,
        _ => 0,
    };
    (sort, op.file)
}
