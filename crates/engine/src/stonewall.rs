//! How far the workers of a pass are together, and what each had done by then.
//!
//! [`PassState`] goes through three stages: some worker has not started yet, all are busy, one has
//! done all its ops. Each worker compares one byte after each reap and takes a `Marks` when it
//! has changed, at most a batch late, at the start as at the end.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use model::Work;

/// Some worker has not started yet.
const STARTING: u8 = 0;
/// All have started, and none has ended.
const ALL_BUSY: u8 = 1;
/// Some worker has done all its ops.
const FIRST_DONE: u8 = 2;

/// The state that the workers of a pass and their watcher share.
#[derive(Debug, Default)]
pub struct PassState {
    /// All workers are to stop at once.
    pub stop: AtomicBool,
    /// One of the stages above, and never back.
    stage: AtomicU8,
    started: AtomicU32,
    workers: u32,
}

impl PassState {
    /// Makes what so many workers share.
    pub fn new(workers: u32) -> Self {
        Self { workers, ..Self::default() }
    }

    /// Notes a worker that starts.
    pub(crate) fn note_start(&self) {
        if self.started.fetch_add(1, Relaxed) + 1 >= self.workers {
            self.stage.fetch_max(ALL_BUSY, Relaxed);
        }
    }

    /// Notes a worker that has done all its ops.
    pub(crate) fn note_done(&self) {
        self.stage.fetch_max(FIRST_DONE, Relaxed);
    }
}

/// Work of one worker at the moments when the workers together reached a stage.
#[derive(Default)]
pub(crate) struct Marks {
    seen: u8,
    all_busy: Option<Work>,
    first_done: Option<Work>,
}

impl Marks {
    /// Looks whether a stage was reached since the last time.
    #[inline]
    pub(crate) fn update(&mut self, state: &PassState, done: impl Fn() -> Work) {
        // The stonewall: no lock and no second clock, but each worker's own counts at the first
        // reap after the stage changed, so the figure is exact to one batch for each worker.
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

    /// Returns the work up to the first worker's end, and the part of it while all were busy, for a
    /// worker that has done `all`.
    pub(crate) fn finish(self, all: Work) -> (Work, Work) {
        let first_done = self.first_done.unwrap_or(all);
        // A worker that never saw all of them busy had ended before they were.
        let before = self.all_busy.unwrap_or(first_done);
        let common =
            Work { ops: first_done.ops - before.ops, bytes: first_done.bytes - before.bytes };
        (first_done, common)
    }
}

const _: () = assert!(STARTING == 0, "marks begin as nothing");

#[cfg(test)]
mod tests {
    use super::*;

    const fn work(ops: u64) -> Work {
        Work { ops, bytes: ops * 10 }
    }

    #[test]
    fn what_was_done_before_the_last_start_and_after_the_first_end_is_not_common() {
        let shared = PassState::new(2);
        let mut marks = Marks::default();
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
    fn who_is_first_to_end_has_all_its_work_in_common_but_what_it_did_alone() {
        let shared = PassState::new(1);
        let mut marks = Marks::default();
        shared.note_start();
        marks.update(&shared, || work(0));
        assert_eq!(marks.finish(work(9)), (work(9), work(9)));
    }

    #[test]
    fn who_ends_before_the_last_start_has_nothing_in_common() {
        let shared = PassState::new(2);
        let mut quick = Marks::default();
        shared.note_start();
        quick.update(&shared, || work(0));
        shared.note_done();
        assert_eq!(quick.finish(work(4)), (work(4), work(0)));
        let mut late = Marks::default();
        shared.note_start();
        late.update(&shared, || work(0));
        assert_eq!(late.finish(work(8)), (work(0), work(0)));
    }
}
