//! A clock for the tests of all crates. Not used by the program.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::Clock;

/// A clock that advances only when a test sets it or someone sleeps.
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
