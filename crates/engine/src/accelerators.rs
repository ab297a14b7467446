//! The accelerators of a training, which compute on batches that workers have read.
//!
//! Nothing is computed, and no thread waits for it: the time at which a step ends follows from when
//! its batches were complete. The accelerators of a host start each step together, as they do if
//! gradients are exchanged after it. [`Accelerators`] is shared by all workers of a pass; a
//! [`Reader`] decides when its worker may read the next batch. Both only use atomics, and a reader
//! sleeps until another one has completed the batch that it depends on.
//!
//! **Source:** MLPerf Storage, rules: AU, the utilization of accelerators; `DataLoader` of
//! `PyTorch`: a worker may have `prefetch_factor` batches that were not taken yet.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use model::{Pass, RunSpec, Share, TrainingWork};
use workload::TrainingSteps;

use crate::clock::Clock;
use crate::limits::TICK;

/// A reader that waits for no step.
const NO_STEP: u64 = u64::MAX;

/// The accelerators of this host and their steps.
pub(crate) struct Accelerators {
    steps: Vec<Step>,
    /// Number of steps that have a time, from the first one on.
    known: AtomicU64,
    readers: Vec<Waiting>,
    accelerators: u32,
    per_accelerator: u64,
    compute_ns: u64,
    /// How many steps before its own a reader's batch may be read.
    ahead: u64,
    ops_per_batch: u64,
    batch: u64,
}

struct Step {
    /// Accelerators whose batch is not complete.
    missing: AtomicU32,
    /// When the last of the batches was complete.
    ready_ns: AtomicU64,
    /// When the step ends; only set once all steps before it have a time.
    end_ns: AtomicU64,
}

/// What a reader waits for.
struct Waiting {
    thread: OnceLock<Thread>,
    /// The step that must have a time before it can go on.
    step: AtomicU64,
}

impl Accelerators {
    /// Creates the accelerators that a share of the workers reads for; `None` if the pass has none.
    pub(crate) fn new(spec: &RunSpec, pass: Pass, share: Share) -> Option<Arc<Self>> {
        if pass != Pass::Train {
            return None;
        }
        let TrainingSteps { all, ops_per_batch, batch, .. } = TrainingSteps::new(spec);
        let readers = share.workers().count();
        let per_accelerator = u64::from(spec.training.readers.max(1));
        let accelerators = (readers as u64 / per_accelerator).max(1) as u32;
        let step = || Step {
            missing: AtomicU32::new(accelerators),
            ready_ns: AtomicU64::new(0),
            end_ns: AtomicU64::new(0),
        };
        let waiting = || Waiting { thread: OnceLock::new(), step: AtomicU64::new(NO_STEP) };
        Some(Arc::new(Self {
            steps: (0..all).map(|_| step()).collect(),
            known: AtomicU64::new(0),
            readers: (0..readers).map(|_| waiting()).collect(),
            accelerators,
            per_accelerator,
            compute_ns: spec.training.compute_ns,
            ahead: spec.training.batches_ahead().max(1),
            ops_per_batch,
            batch,
        }))
    }

    /// Returns when a step starts, if that is known.
    fn start_of(&self, step: u64) -> Option<u64> {
        (step < self.known.load(SeqCst))
            .then(|| self.steps[step as usize].end_ns.load(Relaxed) - self.compute_ns)
    }

    /// Records that the batch of one accelerator is complete.
    fn end_batch(&self, step: u64, done_ns: u64) {
        let state = &self.steps[step as usize];
        state.ready_ns.fetch_max(done_ns, Relaxed);
        if state.missing.fetch_sub(1, SeqCst) == 1 {
            self.advance();
        }
    }

    /// Computes the times of all steps whose batches are complete, and wakes the readers that wait
    /// for one of them.
    fn advance(&self) {
        loop {
            let known = self.known.load(SeqCst);
            let Some(step) = self.steps.get(known as usize) else { return };
            if step.missing.load(SeqCst) > 0 {
                return;
            }
            let before_ns = match known.checked_sub(1) {
                Some(before) => self.steps[before as usize].end_ns.load(Relaxed),
                None => 0,
            };
            // Another thread that does the same stores the same number.
            let start_ns = step.ready_ns.load(Relaxed).max(before_ns);
            step.end_ns.store(start_ns + self.compute_ns, Relaxed);
            if self.known.compare_exchange(known, known + 1, SeqCst, SeqCst).is_ok() {
                self.wake(known);
            }
        }
    }

    fn wake(&self, step: u64) {
        for reader in &self.readers {
            if reader.step.load(SeqCst) <= step
                && let Some(thread) = reader.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// Returns how the accelerators spent their time, given the start of the pass. Returns `None`
    /// if fewer than two steps have ended.
    pub(crate) fn work(&self, begun_ns: u64) -> Option<TrainingWork> {
        let known = self.known.load(SeqCst);
        let ends: Vec<u64> =
            self.steps[..known as usize].iter().map(|step| step.end_ns.load(Relaxed)).collect();
        let (first, last) = (ends.first()?, ends.last()?);
        let mut longest_wait_ns = 0;
        let mut late_steps = 0;
        for pair in ends.windows(2) {
            let waited_ns = pair[1] - pair[0] - self.compute_ns;
            longest_wait_ns = waited_ns.max(longest_wait_ns);
            late_steps += u64::from(waited_ns > 0);
        }
        let accelerators = u64::from(self.accelerators);
        (known > 1).then(|| TrainingWork {
            accelerators: self.accelerators,
            steps: known,
            samples: known * accelerators * self.batch,
            compute_ns: (known - 1) * self.compute_ns * accelerators,
            span_ns: (last - first) * accelerators,
            first_batch_ns: (first - self.compute_ns).saturating_sub(begun_ns),
            longest_wait_ns,
            late_steps,
        })
    }
}

/// When a reader may start its next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStart {
    Now,
    /// At this time.
    At(u64),
    /// When other reads are complete: its own, or those of another reader.
    Later,
}

/// A worker that reads batches for one of the accelerators.
pub(crate) struct Reader {
    accelerators: Arc<Accelerators>,
    /// Its number among the workers of this process.
    number: usize,
    /// The step whose batch it reads.
    step: u64,
    started: u64,
    done: u64,
    done_ns: u64,
}

impl Reader {
    /// Creates the reader with this number among the workers of this process.
    pub(crate) fn new(accelerators: Arc<Accelerators>, number: usize) -> Self {
        let step = number as u64 % accelerators.per_accelerator;
        Self { accelerators, number, step, started: 0, done: 0, done_ns: 0 }
    }

    /// Tells the other readers which thread to wake.
    pub(crate) fn register_thread(&self) {
        let _ = self.accelerators.readers[self.number].thread.set(std::thread::current());
    }

    /// Returns whether the next read may start. The first one of a batch waits until an accelerator
    /// has taken an earlier batch, and until the one before it is complete.
    #[inline]
    pub(crate) fn check_start(&self, now_ns: u64) -> ReadStart {
        if self.started > 0 {
            let is_complete = self.started == self.accelerators.ops_per_batch;
            return if is_complete { ReadStart::Later } else { ReadStart::Now };
        }
        let Some(needed) = self.step.checked_sub(self.accelerators.ahead) else {
            return ReadStart::Now;
        };
        match self.wait_for(needed) {
            None => ReadStart::Later,
            Some(start_ns) if start_ns > now_ns => ReadStart::At(start_ns),
            Some(_) => ReadStart::Now,
        }
    }

    /// Returns when a step starts. If it isn't known, this thread is woken when it is.
    fn wait_for(&self, step: u64) -> Option<u64> {
        let waiting = &self.accelerators.readers[self.number].step;
        if let Some(start_ns) = self.accelerators.start_of(step) {
            waiting.store(NO_STEP, Relaxed);
            return Some(start_ns);
        }
        waiting.store(step, SeqCst);
        // It may have become known before the others could see that we wait for it.
        self.accelerators.start_of(step)
    }

    /// Returns true if this thread is woken as soon as it can go on.
    pub(crate) fn is_waiting(&self) -> bool {
        self.accelerators.readers[self.number].step.load(Relaxed) != NO_STEP
    }

    pub(crate) fn note_start(&mut self) {
        self.started += 1;
    }

    /// Records the end of a read, successful or not: a batch without one of its samples is still
    /// processed.
    #[inline]
    pub(crate) fn note_end(&mut self, done_ns: u64) {
        self.done += 1;
        self.done_ns = self.done_ns.max(done_ns);
        if self.done == self.accelerators.ops_per_batch {
            self.accelerators.end_batch(self.step, self.done_ns);
            self.step += self.accelerators.per_accelerator;
            (self.started, self.done) = (0, 0);
        }
    }

    /// Waits until the accelerators have ended their last step, or `stop` is set: a training is not
    /// over when its last sample has been read.
    pub(crate) fn wait_for_end(&self, clock: &dyn Clock, stop: &AtomicBool) {
        let Some(last) = (self.accelerators.steps.len() as u64).checked_sub(1) else { return };
        while !stop.load(Relaxed) {
            let Some(start_ns) = self.wait_for(last) else {
                std::thread::park_timeout(TICK);
                continue;
            };
            let end_ns = start_ns + self.accelerators.compute_ns;
            let now_ns = clock.now_ns();
            if now_ns >= end_ns {
                return;
            }
            clock.sleep_until(end_ns.min(now_ns + TICK.as_nanos() as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use model::{Training, Workload};

    const MS: u64 = 1_000_000;

    /// Two accelerators with a reader each, which may read two batches of two samples ahead, and
    /// compute 10 ms on each of four.
    fn readers() -> (Arc<Accelerators>, [Reader; 2]) {
        let training = Training {
            accelerators: 2,
            readers: 1,
            batch: 2,
            compute_ns: 10 * MS,
            samples_per_file: 1,
            ..Training::default()
        };
        let spec =
            RunBuilder::new(Workload::Training).workers(2).files(16).training(training).build();
        let accelerators =
            Accelerators::new(&spec, Pass::Train, Share { first: 0, count: 2 }).unwrap();
        let readers = [0, 1].map(|number| Reader::new(Arc::clone(&accelerators), number));
        (accelerators, readers)
    }

    fn read_batch(reader: &mut Reader, done_ns: u64) {
        for _ in 0..2 {
            assert_eq!(reader.check_start(done_ns), ReadStart::Now);
            reader.note_start();
        }
        assert_eq!(reader.check_start(done_ns), ReadStart::Later, "the batch isn't complete");
        reader.note_end(done_ns - 1);
        reader.note_end(done_ns);
    }

    #[test]
    fn starts_steps_with_last_batch() {
        let (accelerators, [mut fast, mut slow]) = readers();
        read_batch(&mut fast, MS);
        read_batch(&mut fast, 2 * MS);
        assert_eq!(fast.check_start(2 * MS), ReadStart::Later, "two batches weren't taken");
        assert!(fast.is_waiting());
        read_batch(&mut slow, 5 * MS);
        // The first step starts at 5 ms, when both have their batch.
        assert_eq!(fast.check_start(4 * MS), ReadStart::At(5 * MS));
        assert!(!fast.is_waiting());
        read_batch(&mut fast, 6 * MS);
        // The second batch of the slow reader is 3 ms late, the others are in time.
        read_batch(&mut slow, 18 * MS);
        read_batch(&mut slow, 19 * MS);
        assert_eq!(fast.check_start(17 * MS), ReadStart::At(18 * MS));
        read_batch(&mut fast, 20 * MS);
        assert!(accelerators.work(0).is_some_and(|work| work.steps == 3));
        assert_eq!(slow.check_start(20 * MS), ReadStart::Now);
        read_batch(&mut slow, 21 * MS);
        let work = accelerators.work(MS).unwrap();
        let expected = TrainingWork {
            accelerators: 2,
            steps: 4,
            samples: 16,
            compute_ns: 2 * 30 * MS,
            span_ns: 2 * 33 * MS,
            first_batch_ns: 4 * MS,
            longest_wait_ns: 3 * MS,
            late_steps: 1,
        };
        assert_eq!(work, expected);
    }

    #[test]
    fn needs_two_steps_for_utilization() {
        let (accelerators, [mut one, mut other]) = readers();
        assert_eq!(accelerators.work(0), None);
        read_batch(&mut one, MS);
        read_batch(&mut other, MS);
        assert_eq!(accelerators.work(0), None);
    }
}
