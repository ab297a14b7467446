//! A worker: takes ops from its stream, keeps its backend busy, and records completions.
//!
//! This is the measured loop. After the start it does not allocate, lock, format or log. It shares
//! only two flags and its own counters with other threads, all of them relaxed atomics. A `Sync`
//! waits until everything before it has completed. Time-limited streams use the time of the last
//! completion instead of reading the clock again. Only a worker with an [`Admission`] reads the
//! clock before starting an op, and sleeps if there is nothing to reap.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use model::{Completion, Op, OpKind, Outcome, Work};
use workload::OpStream;

use crate::accelerators::Reader;
use crate::admission::{Admission, Timing, Wait};
use crate::backend::{Backend, LostTarget, NO_LIMIT};
use crate::clock::Clock;
use crate::limits::{DRAIN_MAX, ERRORS_MAX, TICK, UNANSWERED_TIMED_MAX, WEAR_OUT_POLL_NS};
use crate::recorder::Recorder;
use crate::stonewall::{PassState, StageMarks};
use crate::working_set::WorkingSetTracker;

/// One worker's counters for the watcher, on a separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// Number of ops done.
    pub ops: AtomicU64,
    /// Number of bytes transferred.
    pub bytes: AtomicU64,
    /// Nothing, or only a sync, is in flight, so no completion is expected.
    pub idle: AtomicBool,
}

/// How a worker's pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stream was executed completely.
    Complete,
    /// A stop was requested.
    Stopped,
    /// Too many ops failed.
    TooManyErrors,
    /// The target is gone.
    Lost(String),
}

/// A worker in its pass.
pub struct Worker<'a> {
    /// The ops to execute.
    pub stream: OpStream,
    pub backend: &'a mut dyn Backend,
    pub recorder: Recorder,
    /// State shared with other workers.
    pub shared: &'a PassState,
    /// Counters for the watcher.
    pub progress: &'a Progress,
    /// The times of the pass.
    pub timing: Timing,
    /// The clock that they refer to.
    pub clock: &'a dyn Clock,
    /// The conditions that an op waits for besides a free slot in the queue.
    pub admission: Option<Admission>,
    /// Tracks the files and bytes it touched.
    pub working_set: Option<WorkingSetTracker>,
    /// Maximum number of ops in flight.
    pub queue_depth: usize,
    /// How long ops may keep failing before we give up, in nanoseconds.
    pub vain_max_ns: u64,
    /// When time is up, continue until all workers have done as much as the furthest one.
    pub wears_out: bool,
}

/// The result of a worker's pass.
pub struct WorkerEnd {
    /// What was recorded.
    pub recorder: Recorder,
    pub ending: Ending,
    /// Work done until the first worker finished.
    pub first_done: Work,
    /// Work done between the last worker's start and the first worker's end.
    pub common: Work,
    /// Tracks the files and bytes it touched.
    pub working_set: Option<WorkingSetTracker>,
    /// Number of scheduled ops that were never started because time was up.
    pub unanswered: u64,
}

/// Ops between the stream and the backend.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
struct Pipe {
    /// Generated but not accepted yet.
    waiting: Vec<Op>,
    /// A sync held back until nothing is in flight.
    sync: Option<Op>,
    /// An op held back until it may start.
    held: Option<Op>,
    /// When an op that must wait can start.
    wake_ns: u64,
    /// Ops that had not been started when time was up.
    backlog: Option<Backlog>,
    in_flight: usize,
    exhausted: bool,
    /// The op in flight is a sync.
    syncing: bool,
    completions: Vec<Completion>,
    /// When an op last succeeded, or the worker started.
    success_ns: u64,
    /// Ops have kept failing for too long.
    is_vain: bool,
    /// Time is up, and the amount of work is not known until it is for all workers.
    is_timed_out: bool,
    /// The others know that time is up for this worker.
    noted_timeout: bool,
}

/// Ops of an open loop that were not started in time.
struct Backlog {
    /// The first of them, if it was already taken from the stream.
    held: Option<Op>,
    /// All others, followed by those scheduled later.
    rest: OpStream,
    given_up_ns: u64,
}

impl Pipe {
    /// Starts the sync that was held back, if there is one.
    fn begin_sync(&mut self, progress: &Progress) {
        if let Some(sync) = self.sync.take() {
            self.syncing = true;
            progress.idle.store(true, Relaxed);
            self.waiting.push(sync);
        }
    }

    /// Records the end of a sync. It is over when nothing is in flight, since it is always alone.
    #[cold]
    fn end_sync(&mut self, progress: &Progress) {
        if self.in_flight == 0 {
            self.syncing = false;
            progress.idle.store(false, Relaxed);
        }
    }
}

impl Worker<'_> {
    /// Executes the whole stream.
    pub fn run(mut self) -> WorkerEnd {
        let mut pipe = Pipe {
            waiting: Vec::with_capacity(self.queue_depth),
            sync: None,
            held: None,
            wake_ns: NO_LIMIT,
            backlog: None,
            in_flight: 0,
            exhausted: false,
            syncing: false,
            completions: Vec::with_capacity(self.queue_depth),
            success_ns: self.timing.start_ns,
            is_vain: false,
            is_timed_out: false,
            noted_timeout: false,
        };
        let mut marks = StageMarks::default();
        self.shared.note_start();
        marks.update(self.shared, || self.done_work());
        let ending = self.drive(&mut pipe, &mut marks);
        if ending == Ending::Complete {
            if let Some(reader) = self.reader() {
                self.progress.idle.store(true, Relaxed);
                reader.wait_for_end(self.clock, &self.shared.stop);
            }
            self.shared.note_done();
            // It did everything in time, and the others still wait for it at the end of theirs.
            if self.wears_out && !pipe.noted_timeout {
                self.shared.note_timed_out(self.stream.taken());
            }
        }
        // A worker that has finished cannot stall.
        self.progress.idle.store(true, Relaxed);
        if matches!(ending, Ending::Lost(_)) {
            self.recorder.fail_in_flight();
        }
        // If the pass fails for one worker, it fails for all, so stop the others.
        if matches!(ending, Ending::Lost(_) | Ending::TooManyErrors) {
            self.shared.stop.store(true, Relaxed);
        }
        let all = self.done_work();
        let mut unanswered = 0;
        if let Some(backlog) = pipe.backlog.take()
            && ending == Ending::Complete
        {
            unanswered = self.give_up(backlog);
        }
        if let Some(working_set) = &mut self.working_set {
            let (ops, bytes) = self.recorder.with_warmup();
            working_set.note_total(self.stream.files_begun().unwrap_or(ops), bytes);
        }
        let (first_done, common) = marks.finish(all);
        WorkerEnd {
            recorder: self.recorder,
            ending,
            first_done,
            common,
            working_set: self.working_set,
            unanswered,
        }
    }

    fn done_work(&self) -> Work {
        Work { ops: self.recorder.ops(), bytes: self.recorder.bytes() }
    }

    /// Queues, submits and reaps until the stream is exhausted or the pass is ended. Then waits for
    /// ops in flight, because the backend may still be writing to their buffers.
    fn drive(&mut self, pipe: &mut Pipe, marks: &mut StageMarks) -> Ending {
        let mut ending = Ending::Complete;
        let mut drained_by_ns = NO_LIMIT;
        loop {
            if ending == Ending::Complete {
                self.refill(pipe);
                self.submit(pipe);
            }
            if pipe.in_flight == 0 && (pipe.exhausted || ending != Ending::Complete) {
                return ending;
            }
            // With nothing in flight, a reap would wait forever.
            if pipe.in_flight == 0 && pipe.waiting.is_empty() {
                self.sleep_until(pipe.wake_ns);
            } else if let Err(LostTarget(reason)) = self.reap(pipe) {
                return Ending::Lost(reason);
            }
            marks.update(self.shared, || self.done_work());
            if self.shared.stop.load(Relaxed) {
                ending = Ending::Stopped;
            } else if (self.recorder.errors() >= ERRORS_MAX || pipe.is_vain)
                && !self.endures_failures()
            {
                ending = Ending::TooManyErrors;
            }
            if ending != Ending::Complete && self.is_drained_too_long(&mut drained_by_ns) {
                self.recorder.fail_in_flight();
                return ending;
            }
        }
    }

    /// Returns true if ops in flight are taking too long to complete after the last op was started.
    #[cold]
    fn is_drained_too_long(&self, by_ns: &mut u64) -> bool {
        let now_ns = self.clock.now_ns();
        if *by_ns == NO_LIMIT {
            *by_ns = now_ns.saturating_add(DRAIN_MAX.as_nanos() as u64);
        }
        now_ns > *by_ns
    }

    /// Returns the batches that this worker reads, in a training.
    fn reader(&self) -> Option<&Reader> {
        self.admission.as_ref().and_then(Admission::reader)
    }

    /// Returns true if failures never end the pass: a soak waits for its server to come back.
    fn endures_failures(&self) -> bool {
        matches!(&self.admission, Some(admission) if admission.is_journaling())
    }

    /// Fills up the queue from the stream: the "queue" of queue / commit / reap.
    #[inline]
    fn refill(&mut self, pipe: &mut Pipe) {
        if self.admission.is_some() {
            return self.refill_in_time(pipe);
        }
        if pipe.is_timed_out && !self.wear_out(pipe) {
            return;
        }
        // Streams can provide runs of similar ops as a batch. Single ops fill the rest of the
        // queue.
        if pipe.sync.is_none() && !pipe.exhausted {
            let taken = pipe.waiting.len() + pipe.in_flight;
            self.stream.take(self.queue_depth.saturating_sub(taken), &mut pipe.waiting);
        }
        while pipe.sync.is_none()
            && !pipe.exhausted
            && pipe.waiting.len() + pipe.in_flight < self.queue_depth
        {
            match self.stream.next_op() {
                None => pipe.exhausted = true,
                // Hold it back: a sync only covers writes that have completed.
                Some(op) if op.kind == OpKind::Sync => pipe.sync = Some(op),
                Some(op) => pipe.waiting.push(op),
            }
        }
        if pipe.waiting.is_empty() && pipe.in_flight == 0 {
            pipe.begin_sync(self.progress);
        }
    }

    /// Ends the stream because time is up. If the pass wears out, only stops taking ops: the
    /// furthest worker determines when the stream ends.
    #[cold]
    fn end_in_time(&mut self, pipe: &mut Pipe) {
        if !self.wears_out {
            return self.stream.finish();
        }
        if !pipe.noted_timeout {
            pipe.is_timed_out = true;
            pipe.noted_timeout = true;
            self.shared.note_timed_out(self.stream.taken());
        }
    }

    /// Continues the stream up to the ops of the furthest worker. Returns false while that isn't
    /// known, because time is not yet up for all workers.
    #[cold]
    fn wear_out(&mut self, pipe: &mut Pipe) -> bool {
        let Some(level) = self.shared.wear_out_level() else {
            pipe.wake_ns = self.clock.now_ns().saturating_add(WEAR_OUT_POLL_NS);
            return false;
        };
        self.stream.end_after(level);
        pipe.is_timed_out = false;
        pipe.wake_ns = NO_LIMIT;
        true
    }

    /// Takes ops that may start now, see [`Admission`].
    fn refill_in_time(&mut self, pipe: &mut Pipe) {
        let now_ns = self.clock.now_ns();
        let Self { admission: Some(admission), stream, timing, recorder, queue_depth, .. } = self
        else {
            return;
        };
        // Time is up. Whatever is left in the stream was scheduled but never started. Set it aside
        // and count it after the pass, because counting now would delay the ops in flight.
        if stream.is_endless() && now_ns >= timing.drained_ns {
            let held = pipe.held.take();
            if stream.is_open_loop() {
                let rest = stream.clone();
                pipe.backlog = Some(Backlog { held, rest, given_up_ns: now_ns });
            }
            stream.finish();
        }
        let (thinking, mut wake_ns) = admission.count_thinking(now_ns);
        while pipe.sync.is_none()
            && !pipe.exhausted
            && pipe.waiting.len() + pipe.in_flight + thinking < *queue_depth
        {
            // An op that was held back comes next, because the stream is ordered by time.
            let next = match pipe.held.take() {
                Some(held) => Some(held),
                None => next_scheduled(stream, timing.start_ns),
            };
            let Some(op) = next else {
                pipe.exhausted = true;
                break;
            };
            if op.kind == OpKind::Sync {
                pipe.sync = Some(op);
                break;
            }
            if op.scheduled_ns >= timing.deadline_ns && now_ns >= timing.deadline_ns {
                // All ops scheduled in time have been started; this one is scheduled after the
                // deadline.
                stream.finish();
                continue;
            }
            match admission.check_start(&op, now_ns) {
                Wait::No => {
                    admission.note_start(&op, now_ns);
                    recorder.count_scheduled(op.scheduled_ns);
                    pipe.waiting.push(op);
                    continue;
                }
                Wait::Until(instant_ns) => wake_ns = instant_ns,
                Wait::ForOther => {}
            }
            pipe.held = Some(op);
            break;
        }
        if pipe.waiting.is_empty() && pipe.in_flight == 0 {
            pipe.begin_sync(self.progress);
        }
        // A sleeping worker also wakes up for the deadline and, after that, for the end of the
        // drain.
        let end_ns =
            if now_ns < timing.deadline_ns { timing.deadline_ns } else { timing.drained_ns };
        pipe.wake_ns = if stream.is_endless() { wake_ns.min(end_ns) } else { wake_ns };
    }

    /// Sleeps until an instant, but at most for a tick, so that the caller notices stop requests.
    fn sleep_until(&self, until_ns: u64) {
        let tick_ns = self.clock.now_ns().saturating_add(TICK.as_nanos() as u64);
        self.progress.idle.store(true, Relaxed);
        if self.reader().is_some_and(Reader::is_waiting) {
            // Another worker wakes this one.
            std::thread::park_timeout(TICK);
        } else {
            self.clock.sleep_until(until_ns.min(tick_ns));
        }
        self.progress.idle.store(false, Relaxed);
    }

    /// Records the ops that were scheduled in time but never started. Returns their number.
    ///
    /// Each counts as a response that took longer than the time it had been waiting. Without them,
    /// the percentiles of an overloaded target would only reflect the ops that were lucky.
    #[cold]
    fn give_up(&mut self, backlog: Backlog) -> u64 {
        let Timing { start_ns, counts_ns, deadline_ns, .. } = self.timing;
        let Backlog { mut held, mut rest, given_up_ns } = backlog;
        let mut count = 0;
        loop {
            let next = match held.take() {
                Some(held) => Some(held),
                None => next_scheduled(&mut rest, start_ns),
            };
            let Some(op) = next else { break };
            if op.scheduled_ns >= deadline_ns {
                break;
            }
            if op.kind == OpKind::Sync || op.scheduled_ns < counts_ns {
                continue;
            }
            count += 1;
            self.recorder.record_unstarted(op.kind, given_up_ns.saturating_sub(op.scheduled_ns));
            if count == UNANSWERED_TIMED_MAX {
                // Any more wouldn't change the percentiles, so only count them.
                return count + rest.count_unstarted(deadline_ns - start_ns);
            }
        }
        count
    }

    /// Passes waiting ops to the backend. If it is busy and accepts only some of them, the rest
    /// stays at the front of the queue for the next attempt after a reap.
    #[inline]
    fn submit(&mut self, pipe: &mut Pipe) {
        if pipe.waiting.is_empty() {
            return;
        }
        let accepted = self.backend.submit(&pipe.waiting);
        self.recorder.record_issued(&pipe.waiting[..accepted]);
        pipe.in_flight += accepted;
        // Clearing is the usual case, and cheaper than moving the rest.
        if accepted == pipe.waiting.len() {
            pipe.waiting.clear();
        } else {
            pipe.waiting.drain(..accepted);
        }
    }

    /// Records when an op last succeeded, which usually is the last completion.
    #[inline]
    fn note_success(&self, pipe: &mut Pipe) {
        let Some(last) = pipe.completions.last() else { return };
        for one in pipe.completions.iter().rev() {
            if matches!(one.outcome, Outcome::Done(_)) {
                pipe.success_ns = one.done_ns;
                return;
            }
        }
        // All ops have failed. Measure the time since the last success: a target that fails each op
        // immediately could otherwise keep a worker busy for hours.
        let vain_ns = last.done_ns.saturating_sub(pipe.success_ns);
        pipe.is_vain |= vain_ns > self.vain_max_ns;
    }

    /// Reaps completions and records them: first in the histograms, then for anything the next op
    /// may depend on. If nothing is in flight, it asks for none, so that it doesn't wait forever.
    #[inline]
    fn reap(&mut self, pipe: &mut Pipe) -> Result<(), LostTarget> {
        let min = usize::from(pipe.in_flight > 0);
        let result = self.backend.reap(min, pipe.wake_ns, &mut pipe.completions);
        self.recorder.record_ended(&pipe.completions);
        if let Some(working_set) = &mut self.working_set {
            working_set.record_ended(&pipe.completions);
        }
        if let Some(admission) = &mut self.admission {
            for completion in &pipe.completions {
                admission.note_end(completion);
            }
        }
        self.note_success(pipe);
        pipe.in_flight -= pipe.completions.len();
        if pipe.syncing {
            pipe.end_sync(self.progress);
        }
        // The time of the last completion is as good as another clock reading.
        if self.admission.is_none()
            && self.stream.is_endless()
            && let Some(last) = pipe.completions.last()
            && last.done_ns >= self.timing.deadline_ns
        {
            self.end_in_time(pipe);
        }
        pipe.completions.clear();
        let mut ops = self.recorder.ops();
        if self.recorder.counts_entries() {
            // A large directory may take minutes, and is no stall.
            ops += self.backend.entries_in_progress();
        }
        self.progress.ops.store(ops, Relaxed);
        self.progress.bytes.store(self.recorder.bytes(), Relaxed);
        result
    }
}

/// Takes the next op and converts its scheduled time to the worker's clock.
fn next_scheduled(stream: &mut OpStream, start_ns: u64) -> Option<Op> {
    let mut op = stream.next_op()?;
    if op.scheduled_ns > 0 {
        op.scheduled_ns = op.scheduled_ns.saturating_add(start_ns);
    }
    Some(op)
}
