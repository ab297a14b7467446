//! A clock for tests of every crate. Not for the program.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::Clock;

/// A clock that only tests and sleeping move.
#[derive(Default)]
pub struct SetClock(pub AtomicU64);

impl Clock for SetClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn calendar_ns(&self) -> u64 {
        self.now_ns()
    }

    fn sleep_until(&self, instant_ns: u64) {
        self.0.fetch_max(instant_ns, Relaxed);
    }
}
