//! The seam to time: the system's clock here, simulated clocks in tests.
//!
//! All instants of a campaign are nanoseconds since the clock was made, so that they fit in 64
//! bits and can be subtracted without care.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the time in nanoseconds since some fixed instant; never runs backwards.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now_ns(&self) -> u64;

    /// The time of day in nanoseconds since 1970 UTC, which may be set at any time: for instants
    /// that people read, never for durations.
    fn calendar_ns(&self) -> u64;

    /// Sleeps until an instant; returns at once where it has passed, and early where a signal
    /// arrived.
    fn sleep_until(&self, instant_ns: u64);
}

/// The system's monotonic clock, read without the detour over `Instant` and `Duration`: at 30 ns
/// a reading it is most of what the null backend measures.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin_ns: u64,
}

impl SystemClock {
    /// Starts a clock at 1, so that no instant is 0: a `scheduled_ns` of 0 stands for "when sent".
    pub fn new() -> Self {
        Self { origin_ns: monotonic_ns() - 1 }
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
        monotonic_ns() - self.origin_ns
    }

    fn calendar_ns(&self) -> u64 {
        in_ns(clock_gettime(ClockId::Realtime))
    }

    fn sleep_until(&self, instant_ns: u64) {
        let instant_ns = self.origin_ns.saturating_add(instant_ns);
        let time = Timespec {
            tv_sec: (instant_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (instant_ns % 1_000_000_000).cast_signed(),
        };
        // A sleeper looks at the clock again: an early end is no harm.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    }
}

#[inline]
fn monotonic_ns() -> u64 {
    in_ns(clock_gettime(ClockId::Monotonic))
}

#[inline]
const fn in_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
