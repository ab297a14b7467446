//! Decides when a worker may start its next op.
//!
//! [`Timing`] contains the times of a pass. [`Admission`] contains the conditions besides a free
//! slot in the queue: the scheduled time in an open loop, the think time in a closed loop, the
//! bandwidth cap, and the completion of another op on the same file. A worker with none of these
//! conditions never consults it.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Completion, Op, OpError, OpKind, Outcome, Pass, RunSpec};
use workload::journal::AckedDurability;
use workload::{Journal, OpStream, Rewrites};

use crate::accelerators::{ReadStart, Reader};
use crate::backend::NO_LIMIT;
use crate::intervals::IntervalCounts;
use crate::limits::{CAP_CREDIT_NS, SCHEDULE_DRAIN_MAX};

/// The times of one worker's pass, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When it starts.
    pub start_ns: u64,
    /// When ops start to count, after ramp and warm-up.
    pub(crate) counts_ns: u64,
    /// When it ends at the latest; [`NO_LIMIT`] if it isn't limited by time.
    pub deadline_ns: u64,
    /// When ops of an open loop may start at the latest if they were scheduled before the deadline.
    pub(crate) drained_ns: u64,
}

impl Timing {
    /// Computes the times of a pass that starts at `start_ns`.
    pub fn new(spec: &RunSpec, pass: Pass, start_ns: u64) -> Self {
        let counts_ns = start_ns.saturating_add(spec.warmup_ns());
        let Some(time_ns) = spec.time_max_ns(pass) else {
            return Self { start_ns, counts_ns, deadline_ns: NO_LIMIT, drained_ns: NO_LIMIT };
        };
        let deadline_ns = counts_ns.saturating_add(time_ns);
        // The segments of a soak follow each other without a gap, so the next one starts overdue
        // ops.
        let drain_ns = if spec.load.rate_per_s > 0 && spec.soak.is_none() {
            time_ns.min(SCHEDULE_DRAIN_MAX.as_nanos() as u64)
        } else {
            0
        };
        Self { start_ns, counts_ns, deadline_ns, drained_ns: deadline_ns.saturating_add(drain_ns) }
    }

    /// With a warm-up, makes all workers start counting at the same time, even those that started
    /// late. `begun_ns` is when the workers were released.
    #[must_use]
    pub(crate) fn counting_as_one(mut self, begun_ns: u64) -> Self {
        let warmup_ns = self.counts_ns - self.start_ns;
        if warmup_ns > 0 {
            // Move all of this worker's times earlier by as much as it started late.
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

    /// Returns the time to pass to [`crate::recorder::Recorder::counting_from`]; 0 if everything
    /// counts.
    pub const fn counts_since(&self) -> u64 {
        if self.counts_ns > self.start_ns { self.counts_ns } else { 0 }
    }

    /// Returns how long ops were being scheduled. `last_scheduled_ns` is the time of the last one.
    pub(crate) const fn schedule_span_ns(&self, last_scheduled_ns: u64) -> u64 {
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
    /// When the current pauses end, earliest first.
    thinking: VecDeque<u64>,
    /// Time per byte under the cap, in 2^-20 nanoseconds; 0 without a cap.
    byte_time: u64,
    /// When the cap allows the next op.
    allowed_ns: u64,
    /// Files with an op in flight, if ops on the same file must not overlap.
    busy: Option<Vec<Subject>>,
    /// The journal of acknowledged writes, in a soak.
    journaled: Option<WorkerJournal>,
    /// The writes of each block, in a mix whose reads are verified.
    rewrites: Option<Arc<Rewrites>>,
    /// The batches that the worker reads, in a training.
    reader: Option<Reader>,
}

/// A worker's view of a soak's journal.
pub(crate) struct WorkerJournal {
    /// Acknowledged writes of each block.
    pub journal: Arc<Journal>,
    /// Interval statistics of this worker.
    pub counts: Arc<IntervalCounts>,
    /// How durable a write is once it is acknowledged.
    pub safety: AckedDurability,
    /// This worker owns the files with this number, modulo the number of workers.
    pub worker: u32,
    /// Total number of workers.
    pub workers: u32,
}

impl WorkerJournal {
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
            // A sync guarantees nothing about concurrent writes by other workers.
            (OpKind::Sync, Outcome::Done(_)) if file % self.workers == self.worker => {
                self.journal.note_committed(file);
            }
            (OpKind::Read, Outcome::Failed(OpError::SHORT)) => {
                self.journal.record_read(file, offset_bytes, None);
            }
            _ => {}
        }
    }
}

/// Whether an op has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The op can start now.
    No,
    /// The op can start at this time.
    Until(u64),
    /// The op can start when another op has completed.
    ForOther,
}

impl Admission {
    /// Creates the conditions of one worker; `None` if it only ever waits for a free slot.
    pub fn new(spec: &RunSpec, stream: &OpStream, queue_depth: usize) -> Option<Self> {
        let load = &spec.load;
        let is_ordered = stream.is_ordered() && queue_depth > 1;
        let thinks = load.think_time_ns > 0 && !stream.is_open_loop();
        if !stream.is_open_loop() && !thinks && load.bytes_per_s == 0 && !is_ordered {
            return None;
        }
        // The cap applies to all workers together, and each gets a fixed share of it, even if
        // others don't use theirs. Fixed-point, since above 1 GB/s a byte takes less than a
        // nanosecond.
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
            reader: None,
        })
    }

    /// Creates the conditions of a soak's worker, which records the outcome of each block in the
    /// journal. Only one op per block is in flight at a time, since the order of two writes would
    /// be unknown.
    #[must_use]
    pub(crate) fn with_journal(
        admission: Option<Self>,
        journaled: WorkerJournal,
        queue_depth: usize,
    ) -> Self {
        let busy = Some(Vec::with_capacity(queue_depth));
        Self { busy, journaled: Some(journaled), ..admission.unwrap_or_default() }
    }

    /// Creates the conditions of a worker in a mix whose reads are verified. They don't restrict it
    /// any further, but its ops are recorded before they start and after they were checked.
    #[must_use]
    pub fn with_rewrites(admission: Option<Self>, rewrites: Arc<Rewrites>) -> Self {
        Self { rewrites: Some(rewrites), ..admission.unwrap_or_default() }
    }

    /// Creates the conditions of a worker that reads batches for an accelerator.
    #[must_use]
    pub(crate) fn with_reader(admission: Option<Self>, reader: Reader) -> Self {
        Self { reader: Some(reader), ..admission.unwrap_or_default() }
    }

    /// Returns the batches that the worker reads, in a training.
    pub(crate) const fn reader(&self) -> Option<&Reader> {
        self.reader.as_ref()
    }

    /// Returns true if the outcome of each block is recorded in a journal.
    pub(crate) const fn is_journaling(&self) -> bool {
        self.journaled.is_some()
    }

    /// Returns the number of queue slots that are still pausing, and when the first pause ends.
    pub(crate) fn count_thinking(&mut self, now_ns: u64) -> (usize, u64) {
        // All pauses have the same length, so they end in the order in which they began.
        while let Some(end_ns) = self.thinking.front() {
            if *end_ns > now_ns {
                return (self.thinking.len(), *end_ns);
            }
            self.thinking.pop_front();
        }
        (0, NO_LIMIT)
    }

    /// Returns whether an op can start now, or what it has to wait for.
    pub(crate) fn check_start(&self, op: &Op, now_ns: u64) -> Wait {
        // In an open loop, an op never starts early. If it is late, it starts immediately but keeps
        // its scheduled time, so that its response time includes the delay.
        if op.scheduled_ns > now_ns {
            return Wait::Until(op.scheduled_ns);
        }
        if self.byte_time > 0 && self.allowed_ns > now_ns {
            return Wait::Until(self.allowed_ns);
        }
        if let Some(reader) = &self.reader {
            return match reader.check_start(now_ns) {
                ReadStart::Now => Wait::No,
                ReadStart::At(instant_ns) => Wait::Until(instant_ns),
                ReadStart::Later => Wait::ForOther,
            };
        }
        match &self.busy {
            Some(busy) if busy.contains(&self.subject_of(op)) => Wait::ForOther,
            _ => Wait::No,
        }
    }

    /// Records the start of an op.
    pub fn note_start(&mut self, op: &Op, now_ns: u64) {
        if self.byte_time > 0 {
            let takes_ns = (u128::from(op.len_bytes) * u128::from(self.byte_time)) >> 20;
            // An idle worker accumulates credit, but only up to a limit, or else it would burst
            // past the cap.
            let earliest_ns = now_ns.saturating_sub(CAP_CREDIT_NS);
            let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
            self.allowed_ns = self.allowed_ns.max(earliest_ns).saturating_add(takes_ns);
        }
        if let Some(reader) = &mut self.reader {
            reader.note_start();
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

    /// Records the end of an op.
    pub fn note_end(&mut self, completion: &Completion) {
        if self.think_time_ns > 0 {
            self.thinking.push_back(completion.done_ns.saturating_add(self.think_time_ns));
        }
        if let Some(reader) = &mut self.reader {
            reader.note_end(completion.done_ns);
        }
        let ended = self.subject_of(&completion.op);
        if let Some(busy) = &mut self.busy {
            // Remove only one entry, even if a sync has the same number as an op on the file.
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

    /// Returns the object that an op works on: a block if a journal is kept, otherwise a file.
    const fn subject_of(&self, op: &Op) -> Subject {
        let (sort, number) = numbered(op);
        (sort, number, if self.is_journaling() { op.offset_bytes } else { 0 })
    }
}

/// Type of the object an op works on, its number, and the offset in it.
type Subject = (u8, u32, u64);

/// Returns type and number of an op's object. Files, directories and links are numbered separately.
const fn numbered(op: &Op) -> (u8, u32) {
    let sort = match op.kind {
        OpKind::Mkdir | OpKind::StatDir | OpKind::RenameDir | OpKind::Rmdir => 1,
        kind if kind.counts_entries() => 1,
        OpKind::Symlink | OpKind::Unlink | OpKind::Readlink => 2,
        _ => 0,
    };
    (sort, op.file)
}
