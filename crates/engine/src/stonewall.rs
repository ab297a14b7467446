//! Tracks how far the workers of a pass are as a group, and what each had done by then.
//!
//! [`PassState`] has three stages: some workers haven't started, all are busy, or one has finished
//! its ops. Each worker checks a single byte after each reap and updates its `StageMarks` if it has
//! changed. Both are late by at most one batch.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed, Release};
use model::Work;

/// Some worker has not started yet.
const STARTING: u8 = 0;
/// All have started and none has finished.
const ALL_BUSY: u8 = 1;
/// Some worker has finished all its ops.
const FIRST_DONE: u8 = 2;

/// State shared by the workers of a pass and their watcher.
#[derive(Debug, Default)]
pub struct PassState {
    /// All workers should stop immediately.
    pub stop: AtomicBool,
    /// One of the stages above; only ever increases.
    stage: AtomicU8,
    started: AtomicU32,
    workers: u32,
    /// Number of workers that have reached the end of their time.
    timed_out: AtomicU32,
    /// Number of ops that the furthest of them had taken from its stream by then.
    furthest: AtomicU64,
}

impl PassState {
    /// Creates the shared state for `workers` workers.
    pub fn new(workers: u32) -> Self {
        Self { workers, ..Self::default() }
    }

    /// Records that a worker starts.
    pub(crate) fn note_start(&self) {
        if self.started.fetch_add(1, Relaxed) + 1 >= self.workers {
            self.stage.fetch_max(ALL_BUSY, Relaxed);
        }
    }

    /// Records that a worker has reached the end of its time, or of its work, with a number of ops
    /// taken from its stream.
    pub(crate) fn note_timed_out(&self, taken: u64) {
        self.furthest.fetch_max(taken, Relaxed);
        self.timed_out.fetch_add(1, Release);
    }

    /// Returns the number of ops that each worker does until it is worn out, once that is known.
    pub(crate) fn wear_out_level(&self) -> Option<u64> {
        if self.timed_out.load(Acquire) < self.workers {
            return None;
        }
        Some(self.furthest.load(Relaxed))
    }

    /// Records that a worker has finished all its ops.
    pub(crate) fn note_done(&self) {
        self.stage.fetch_max(FIRST_DONE, Relaxed);
    }
}

/// What one worker had done when the group reached each stage.
#[derive(Default)]
pub(crate) struct StageMarks {
    seen: u8,
    all_busy: Option<Work>,
    first_done: Option<Work>,
}

impl StageMarks {
    /// Checks whether a new stage has been reached.
    #[inline]
    pub(crate) fn update(&mut self, state: &PassState, done: impl Fn() -> Work) {
        // The stonewall. It needs neither a lock nor another clock reading: each worker saves its
        // own counts at the first reap after the change, so the result is accurate to one batch per
        // worker.
        let stage = state.stage.load(Relaxed);
        if stage != self.seen {
            self.note(stage, done());
        }
    }

    #[cold]
    fn note(&mut self, stage: u8, done: Work) {
        self.seen = stage;
        self.all_busy.get_or_insert(done);
        if stage == FIRST_DONE {
            self.first_done = Some(done);
        }
    }

    /// Returns the work up to the first worker's end, and the part of it done while all were busy.
    /// `all` is the total work of this worker.
    pub(crate) fn finish(self, all: Work) -> (Work, Work) {
        let first_done = self.first_done.unwrap_or(all);
        // A worker that never saw all of them busy had finished before.
        let before = self.all_busy.unwrap_or(first_done);
        let common =
            Work { ops: first_done.ops - before.ops, bytes: first_done.bytes - before.bytes };
        (first_done, common)
    }
}

const _: () = assert!(STARTING == 0, "zero-initialized marks mean starting");

#[cfg(test)]
mod tests {
    use super::*;

    const fn work(ops: u64) -> Work {
        Work { ops, bytes: ops * 10 }
    }

    #[test]
    fn excludes_ops_outside_common_window() {
        let shared = PassState::new(2);
        let mut marks = StageMarks::default();
        shared.note_start();
        marks.update(&shared, || work(0));
        marks.update(&shared, || work(5));
        shared.note_start();
        marks.update(&shared, || work(7));
        marks.update(&shared, || work(20));
        shared.note_done();
        marks.update(&shared, || work(30));
        assert_eq!(marks.finish(work(100)), (work(30), work(23)));
    }

    #[test]
    fn waits_for_all_to_time_out() {
        let shared = PassState::new(3);
        shared.note_timed_out(5);
        shared.note_timed_out(9);
        assert_eq!(shared.wear_out_level(), None);
        shared.note_timed_out(0);
        assert_eq!(shared.wear_out_level(), Some(9));
    }

    #[test]
    fn keeps_work_of_first_finisher() {
        let shared = PassState::new(1);
        let mut marks = StageMarks::default();
        shared.note_start();
        marks.update(&shared, || work(0));
        assert_eq!(marks.finish(work(9)), (work(9), work(9)));
    }

    #[test]
    fn has_no_window_after_early_end() {
        let shared = PassState::new(2);
        let mut quick = StageMarks::default();
        shared.note_start();
        quick.update(&shared, || work(0));
        shared.note_done();
        assert_eq!(quick.finish(work(4)), (work(4), work(0)));
        let mut late = StageMarks::default();
        shared.note_start();
        late.update(&shared, || work(0));
        assert_eq!(late.finish(work(8)), (work(0), work(0)));
    }
}
