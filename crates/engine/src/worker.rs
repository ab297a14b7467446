//! One worker: takes ops from its stream, keeps its backend full, records what ends.
//!
//! This is the measured loop. After the start it neither allocates nor locks, formats or logs;
//! the only things it shares are two flags and its own counters, all relaxed atomics. A `Sync`
//! waits until everything before it has ended, and time-bounded streams look at the instant of
//! the last completion instead of asking the clock once more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use model::{Completion, Op, OpKind};
use workload::OpStream;

use crate::backend::{Backend, Lost, NO_LIMIT};
use crate::limits::ERRORS_MAX;
use crate::recorder::Recorder;

/// What the workers of a pass and their watcher share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Everybody is to stop at once.
    pub stop: AtomicBool,
    /// Some worker has done all its ops.
    pub first_done: AtomicBool,
}

/// Counters of one worker for whoever watches, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// Ops done.
    pub ops: AtomicU64,
    /// Bytes moved.
    pub bytes: AtomicU64,
}

/// How a worker's pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stream was executed to its end.
    Complete,
    /// Somebody asked to stop.
    Stopped,
    /// Too many ops failed.
    TooManyErrors,
    /// The target is gone.
    Lost(String),
}

/// A worker in its pass.
pub struct Worker<'a> {
    /// Ops to do.
    pub stream: OpStream,
    /// What executes them.
    pub backend: &'a mut dyn Backend,
    /// What records them.
    pub recorder: Recorder,
    /// Shared flags.
    pub shared: &'a Shared,
    /// Counters for the watcher.
    pub progress: &'a Progress,
    /// Instant at which an endless stream ends.
    pub deadline_ns: u64,
    /// Ops that may be in flight.
    pub queue_depth: usize,
}

/// What a worker's pass came to.
pub struct WorkerEnd {
    /// What was recorded.
    pub recorder: Recorder,
    /// How it ended.
    pub ending: Ending,
    /// Ops and bytes when the first worker was done.
    pub first_done: (u64, u64),
}

/// The ops between the stream and the backend.
struct Pipe {
    /// Generated and not accepted yet.
    waiting: Vec<Op>,
    /// Held back until nothing is in flight.
    sync: Option<Op>,
    in_flight: usize,
    exhausted: bool,
    completions: Vec<Completion>,
}

impl Worker<'_> {
    /// Executes the stream to its end.
    pub fn run(mut self) -> WorkerEnd {
        let mut pipe = Pipe {
            waiting: Vec::with_capacity(self.queue_depth),
            sync: None,
            in_flight: 0,
            exhausted: false,
            completions: Vec::with_capacity(self.queue_depth),
        };
        let mut first_done = None;
        let ending = self.drive(&mut pipe, &mut first_done);
        if ending == Ending::Complete {
            self.shared.first_done.store(true, Relaxed);
        }
        if matches!(ending, Ending::Lost(_)) {
            self.recorder.lost();
        }
        // A pass that is broken for one worker is broken for all: nobody need go on.
        if matches!(ending, Ending::Lost(_) | Ending::TooManyErrors) {
            self.shared.stop.store(true, Relaxed);
        }
        let all = (self.recorder.ops(), self.recorder.bytes());
        WorkerEnd { recorder: self.recorder, ending, first_done: first_done.unwrap_or(all) }
    }

    fn drive(&mut self, pipe: &mut Pipe, first_done: &mut Option<(u64, u64)>) -> Ending {
        let mut ending = Ending::Complete;
        loop {
            if ending == Ending::Complete {
                self.refill(pipe);
                self.submit(pipe);
            }
            if pipe.in_flight == 0 && (pipe.exhausted || ending != Ending::Complete) {
                return ending;
            }
            if let Err(Lost(reason)) = self.reap(pipe) {
                return Ending::Lost(reason);
            }
            if first_done.is_none() && self.shared.first_done.load(Relaxed) {
                *first_done = Some((self.recorder.ops(), self.recorder.bytes()));
            }
            if self.shared.stop.load(Relaxed) {
                ending = Ending::Stopped;
            } else if self.recorder.errors() >= ERRORS_MAX {
                ending = Ending::TooManyErrors;
            }
        }
    }

    #[inline]
    fn refill(&mut self, pipe: &mut Pipe) {
        while pipe.sync.is_none()
            && !pipe.exhausted
            && pipe.waiting.len() + pipe.in_flight < self.queue_depth
        {
            match self.stream.next_op() {
                None => pipe.exhausted = true,
                Some(op) if op.kind == OpKind::Sync => pipe.sync = Some(op),
                Some(op) => pipe.waiting.push(op),
            }
        }
        if pipe.waiting.is_empty() && pipe.in_flight == 0 {
            pipe.waiting.extend(pipe.sync.take());
        }
    }

    #[inline]
    fn submit(&mut self, pipe: &mut Pipe) {
        if pipe.waiting.is_empty() {
            return;
        }
        let accepted = self.backend.submit(&pipe.waiting);
        for op in &pipe.waiting[..accepted] {
            self.recorder.issued(op.kind);
        }
        pipe.in_flight += accepted;
        if accepted == pipe.waiting.len() {
            pipe.waiting.clear();
        } else {
            pipe.waiting.drain(..accepted);
        }
    }

    #[inline]
    fn reap(&mut self, pipe: &mut Pipe) -> Result<(), Lost> {
        let min = usize::from(pipe.in_flight > 0);
        let result = self.backend.reap(min, NO_LIMIT, &mut pipe.completions);
        for completion in &pipe.completions {
            self.recorder.ended(completion);
        }
        pipe.in_flight -= pipe.completions.len();
        if self.stream.is_endless()
            && pipe.completions.last().is_some_and(|last| last.done_ns >= self.deadline_ns)
        {
            self.stream.finish();
        }
        pipe.completions.clear();
        self.progress.ops.store(self.recorder.ops(), Relaxed);
        self.progress.bytes.store(self.recorder.bytes(), Relaxed);
        result
    }
}
