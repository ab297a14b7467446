//! Limits how long we wait for a server outside of measured passes: setup, file count, clean-up.
//!
//! Each call is limited by `timeout`. A [`JobTimer`] limits jobs that consist of many calls and
//! checks for stop requests between them. A stop request ends setup and file count immediately.
//! Clean-up continues, but only as long as it makes progress. If a server keeps answering without
//! ever finishing, we give up and report what is left there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs_client::{Interrupt, Interrupted};

use crate::clock::Clock;
use crate::limits::{
    CLEAN_UP_MAX, COUNT_MAX, MOUNT_TIMEOUTS_MAX, STOPPED_CLEAN_UP_IDLE_MAX, STOPPED_CLEAN_UP_MAX,
};
use crate::stop::Stop;

/// A job that consists of many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Finds and mounts the export, with this timeout per call.
    Mount(Duration),
    /// Creates and opens files, with as many calls as the plan requires.
    SetUp,
    /// Counts the contents of the working directory.
    Count,
    /// Removes the working directory.
    CleanUp,
}

impl Job {
    const fn name(self) -> &'static str {
        match self {
            Self::Mount(_) => "mounting",
            Self::SetUp => "setup",
            Self::Count => "counting the files",
            Self::CleanUp => "cleanup",
        }
    }

    fn limit(self) -> Duration {
        match self {
            Self::Mount(timeout) => timeout.saturating_mul(MOUNT_TIMEOUTS_MAX),
            Self::SetUp => Duration::MAX,
            Self::Count => COUNT_MAX,
            Self::CleanUp => CLEAN_UP_MAX,
        }
    }
}

/// Time limits of the current job; see the module.
#[derive(Clone)]
pub(super) struct JobTimer(Arc<Shared>);

struct Shared {
    stop: Stop,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    job: Job,
    begun_ns: u64,
    /// When a stop request was first noticed during a clean-up.
    stopped_ns: Option<u64>,
    /// When something was last removed.
    progress_ns: u64,
}

impl JobTimer {
    pub(super) fn new(stop: Stop, clock: Arc<dyn Clock>, job: Job) -> Self {
        let begun_ns = clock.now_ns();
        let state = State { job, begun_ns, stopped_ns: None, progress_ns: begun_ns };
        Self(Arc::new(Shared { stop, clock, state: Mutex::new(state) }))
    }

    /// Starts another job, whose time counts from now.
    pub(super) fn begin(&self, job: Job) {
        let now_ns = self.0.clock.now_ns();
        let mut state = self.state();
        *state = State { job, begun_ns: now_ns, progress_ns: now_ns, ..*state };
    }

    /// Records that something was removed.
    pub(super) fn note_progress(&self) {
        let now_ns = self.0.clock.now_ns();
        self.state().progress_ns = now_ns;
    }

    /// Returns the handle that interrupts a client working on the current job and later ones.
    pub(super) fn interrupt(&self) -> Interrupt {
        let this = self.clone();
        Interrupt::new(move || this.interruption())
    }

    /// Returns the reason to end the job now, if there is one.
    fn interruption(&self) -> Option<Interrupted> {
        let now_ns = self.0.clock.now_ns();
        let is_stopped = self.0.stop.is_set();
        let mut state = self.state();
        let job = state.job.name();
        let limit = state.job.limit();
        if elapsed(now_ns, state.begun_ns) > limit {
            return Some(Interrupted::TooLong { job, limit });
        }
        if !is_stopped {
            return None;
        }
        if state.job != Job::CleanUp {
            return Some(Interrupted::Stopped);
        }
        // A clean-up continues after a stop request as long as it keeps removing something, for at
        // most a minute, because a controller or a person is waiting for it.
        let stopped_ns = *state.stopped_ns.get_or_insert(now_ns);
        if elapsed(now_ns, stopped_ns.max(state.progress_ns)) > STOPPED_CLEAN_UP_IDLE_MAX {
            return Some(Interrupted::Stuck { job, idle: STOPPED_CLEAN_UP_IDLE_MAX });
        }
        let limit = STOPPED_CLEAN_UP_MAX;
        if elapsed(now_ns, stopped_ns) > limit {
            return Some(Interrupted::TooLong { job, limit });
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn elapsed(now_ns: u64, since_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(since_ns))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::testing::SetClock;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn stop_ends_setup_and_stuck_cleanup() {
        let stop = Stop::default();
        let clock = Arc::new(SetClock::default());
        let job = Job::Mount(Duration::from_secs(5));
        let timer = JobTimer::new(stop.clone(), clock.clone(), job);
        let at = |seconds: u64| {
            clock.0.store(seconds * SECOND_NS, Relaxed);
            timer.interruption()
        };
        assert_eq!(at(29), None);
        assert!(matches!(at(31), Some(Interrupted::TooLong { job: "mounting", .. })));
        timer.begin(Job::SetUp);
        assert_eq!(at(1_000_000), None);
        stop.set();
        assert_eq!(at(1_000_000), Some(Interrupted::Stopped));
        timer.begin(Job::CleanUp);
        assert_eq!((at(1_000_000), at(1_000_004)), (None, None));
        timer.note_progress();
        assert_eq!(at(1_000_009), None);
        assert!(matches!(at(1_000_010), Some(Interrupted::Stuck { .. })));
        // A clean-up that makes progress but doesn't finish.
        timer.note_progress();
        assert_eq!(at(1_000_012), None);
        clock.0.store(1_000_059 * SECOND_NS, Relaxed);
        timer.note_progress();
        assert!(matches!(at(1_000_061), Some(Interrupted::TooLong { .. })));
    }
}
