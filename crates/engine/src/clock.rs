//! The seam to time: the system's clock here, simulated clocks in tests.
//!
//! All instants of a campaign are nanoseconds since the clock was made, so that they fit in 64
//! bits and can be subtracted without care.

use std::time::Instant;

/// Tells the time in nanoseconds since some fixed instant; never runs backwards.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now_ns(&self) -> u64;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Starts a clock at 0.
    #[allow(clippy::disallowed_methods, reason = "this is the owner of the clock")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}
