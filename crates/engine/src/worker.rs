//! One worker: takes ops from its stream, keeps its backend full, records what ends.
//!
//! This is the measured loop. After the start it neither allocates nor locks, formats or logs;
//! the only things it shares are two flags and its own counters, all relaxed atomics. A `Sync`
//! waits until everything before it has ended, and time-bounded streams look at the instant of
//! the last completion instead of reading the clock again. Only a worker with a [`Admission`] looks
//! at the clock before it starts an op, and sleeps where there is nothing to wait for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use model::{Completion, Op, OpKind, Outcome, Work};
use workload::OpStream;

use crate::admission::{Admission, Timing, Wait};
use crate::backend::{Backend, Lost, NO_LIMIT};
use crate::clock::Clock;
use crate::limits::{DRAIN_MAX, ERRORS_MAX, TICK, UNANSWERED_TIMED_MAX};
use crate::recorder::Recorder;
use crate::stonewall::{Marks, PassState};
use crate::working_set::WorkingSetTracker;

/// Counters of one worker for the watcher, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// Number of ops done.
    pub ops: AtomicU64,
    /// Number of bytes moved.
    pub bytes: AtomicU64,
    /// Nothing is in flight but a sync, or nothing at all: no completion is waited for.
    pub idle: AtomicBool,
}

/// How a worker's pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stream was executed to its end.
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
    /// The ops to do.
    pub stream: OpStream,
    /// The executor of the ops.
    pub backend: &'a mut dyn Backend,
    /// The recorder of the ops.
    pub recorder: Recorder,
    /// The shared flags.
    pub shared: &'a PassState,
    /// Counters for the watcher.
    pub progress: &'a Progress,
    /// The instants of the pass.
    pub timing: Timing,
    /// The clock that they are read from.
    pub clock: &'a dyn Clock,
    /// The conditions that an op waits for besides a place in the queue.
    pub admission: Option<Admission>,
    /// Record of the files and bytes that it touched.
    pub working_set: Option<WorkingSetTracker>,
    /// Ops that may be in flight.
    pub queue_depth: usize,
    /// For how long ops may do nothing but fail, in nanoseconds.
    pub vain_max_ns: u64,
}

/// The result of a worker's pass.
pub struct WorkerEnd {
    /// The record of the worker.
    pub recorder: Recorder,
    /// How it ended.
    pub ending: Ending,
    /// Work up to the moment when the first worker was done.
    pub first_done: Work,
    /// Work since the last worker had started, up to the same moment.
    pub common: Work,
    /// Record of the files and bytes that it touched.
    pub working_set: Option<WorkingSetTracker>,
    /// Scheduled ops that were never started: the time to wait for them was over.
    pub unanswered: u64,
}

/// The ops between the stream and the backend.
struct Pipe {
    /// Generated and not accepted yet.
    waiting: Vec<Op>,
    /// Held back until nothing is in flight.
    sync: Option<Op>,
    /// Held back until its time has come.
    held: Option<Op>,
    /// When something can start that can't now.
    wake_ns: u64,
    /// Ops that had not been started when waiting ended.
    backlog: Option<Backlog>,
    in_flight: usize,
    exhausted: bool,
    /// The op in flight is a sync.
    syncing: bool,
    completions: Vec<Completion>,
    /// When an op last succeeded, or the worker began.
    success_ns: u64,
    /// For longer than may be, ops have done nothing but fail.
    is_vain: bool,
}

/// Ops of an open loop that were not started before waiting ended.
struct Backlog {
    /// The first of them, where it was taken from the stream already.
    held: Option<Op>,
    /// All others, and those that are scheduled later.
    rest: OpStream,
    given_up_ns: u64,
}

impl Pipe {
    /// Starts the sync that was held back, where there is one.
    fn begin_sync(&mut self, progress: &Progress) {
        if let Some(sync) = self.sync.take() {
            self.syncing = true;
            progress.idle.store(true, Relaxed);
            self.waiting.push(sync);
        }
    }

    /// Notes the end of a sync, where it has ended: nothing else is in flight with it.
    #[cold]
    fn end_sync(&mut self, progress: &Progress) {
        if self.in_flight == 0 {
            self.syncing = false;
            progress.idle.store(false, Relaxed);
        }
    }
}

impl Worker<'_> {
    /// Executes the stream to its end.
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
        };
        let mut marks = Marks::default();
        self.shared.note_start();
        marks.update(self.shared, || self.done_work());
        let ending = self.drive(&mut pipe, &mut marks);
        if ending == Ending::Complete {
            self.shared.note_done();
        }
        // A worker that has ended stalls no more.
        self.progress.idle.store(true, Relaxed);
        if matches!(ending, Ending::Lost(_)) {
            self.recorder.fail_in_flight();
        }
        // A pass that is broken for one worker is broken for all: none need go on.
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

    /// Queues, submits and reaps until the stream is exhausted, or something ends the pass; ops in
    /// flight are then waited for, since a backend may still write into their buffers.
    fn drive(&mut self, pipe: &mut Pipe, marks: &mut Marks) -> Ending {
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
            // With nothing in flight a reap would wait for ever.
            if pipe.in_flight == 0 && pipe.waiting.is_empty() {
                self.sleep_until(pipe.wake_ns);
            } else if let Err(Lost(reason)) = self.reap(pipe) {
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

    /// Says whether what is in flight has not ended in time after the last op was started.
    #[cold]
    fn is_drained_too_long(&self, by_ns: &mut u64) -> bool {
        let now_ns = self.clock.now_ns();
        if *by_ns == NO_LIMIT {
            *by_ns = now_ns.saturating_add(DRAIN_MAX.as_nanos() as u64);
        }
        now_ns > *by_ns
    }

    /// Says whether no number of failures ends the pass: a soak waits until its server is back.
    fn endures_failures(&self) -> bool {
        matches!(&self.admission, Some(admission) if admission.is_journaling())
    }

    /// Fills the queue up from the stream: the "queue" of queue / commit / reap.
    #[inline]
    fn refill(&mut self, pipe: &mut Pipe) {
        if self.admission.is_some() {
            return self.refill_in_time(pipe);
        }
        // Streams give runs of like ops in batches; single ops fill what is left of the queue.
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
                // Held back: a sync covers what was written before it only if that has ended.
                Some(op) if op.kind == OpKind::Sync => pipe.sync = Some(op),
                Some(op) => pipe.waiting.push(op),
            }
        }
        if pipe.waiting.is_empty() && pipe.in_flight == 0 {
            pipe.begin_sync(self.progress);
        }
    }

    /// Takes ops as they may start: see [`Admission`].
    fn refill_in_time(&mut self, pipe: &mut Pipe) {
        let now_ns = self.clock.now_ns();
        let Self { admission: Some(admission), stream, timing, recorder, queue_depth, .. } = self
        else {
            return;
        };
        // The drain is over. What is still in the stream was scheduled and never started: it is
        // kept aside and counted once the pass has ended, since that would delay the ops in flight.
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
            // An op that was held back is next: the order of the stream is that of its schedule.
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
                // All ops that were scheduled in time are started; this one is scheduled too late.
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
        // A worker that sleeps wakes for the deadline, and after it for the end of the drain.
        let end_ns =
            if now_ns < timing.deadline_ns { timing.deadline_ns } else { timing.drained_ns };
        pipe.wake_ns = if stream.is_endless() { wake_ns.min(end_ns) } else { wake_ns };
    }

    /// Sleeps until an instant, but a tick at most, so that the caller sees a stop soon.
    fn sleep_until(&self, until_ns: u64) {
        let tick_ns = self.clock.now_ns().saturating_add(TICK.as_nanos() as u64);
        self.progress.idle.store(true, Relaxed);
        self.clock.sleep_until(until_ns.min(tick_ns));
        self.progress.idle.store(false, Relaxed);
    }

    /// Records the ops that were scheduled in time and never started; returns how many they are.
    ///
    /// Each counts as a response that took longer than it had waited: without them the percentiles
    /// of a load that was not carried would be those of the lucky ones.
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
                // Beyond this many the percentiles no longer change: the others are only counted.
                return count + rest.count_unstarted(deadline_ns - start_ns);
            }
        }
        count
    }

    /// Hands the backend what waits. One that accepts only a part is busy: the rest is kept in
    /// front of the queue and is offered again after the next reap.
    #[inline]
    fn submit(&mut self, pipe: &mut Pipe) {
        if pipe.waiting.is_empty() {
            return;
        }
        let accepted = self.backend.submit(&pipe.waiting);
        self.recorder.record_issued(&pipe.waiting[..accepted]);
        pipe.in_flight += accepted;
        // Clearing is the usual case, and cheaper than moving what a drain leaves.
        if accepted == pipe.waiting.len() {
            pipe.waiting.clear();
        } else {
            pipe.waiting.drain(..accepted);
        }
    }

    /// Notes when an op last succeeded: usually the last one that ended.
    #[inline]
    fn note_success(&self, pipe: &mut Pipe) {
        let Some(last) = pipe.completions.last() else { return };
        for one in pipe.completions.iter().rev() {
            if matches!(one.outcome, Outcome::Done(_)) {
                pipe.success_ns = one.done_ns;
                return;
            }
        }
        // All have failed: counted from the last success on, for a target that answers each op with
        // an error at once would keep a worker busy for hours.
        let vain_ns = last.done_ns.saturating_sub(pipe.success_ns);
        pipe.is_vain |= vain_ns > self.vain_max_ns;
    }

    /// Takes what has ended and records it: first the histograms, then what the next op may depend
    /// on. With nothing in flight it asks for none, so that it doesn't wait for ever.
    #[inline]
    fn reap(&mut self, pipe: &mut Pipe) -> Result<(), Lost> {
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
        // The last completion is as good a clock as another reading of it.
        if self.admission.is_none()
            && self.stream.is_endless()
            && let Some(last) = pipe.completions.last()
            && last.done_ns >= self.timing.deadline_ns
        {
            self.stream.finish();
        }
        pipe.completions.clear();
        self.progress.ops.store(self.recorder.ops(), Relaxed);
        self.progress.bytes.store(self.recorder.bytes(), Relaxed);
        result
    }
}

/// Takes the next op, with its scheduled time on the clock of the worker.
fn next_scheduled(stream: &mut OpStream, start_ns: u64) -> Option<Op> {
    let mut op = stream.next_op()?;
    if op.scheduled_ns > 0 {
        op.scheduled_ns = op.scheduled_ns.saturating_add(start_ns);
    }
    Some(op)
}
