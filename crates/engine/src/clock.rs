//! Interface to time: the system's clock here, simulated clocks in tests.
//!
//! All times in a campaign are nanoseconds since the clock was created, so they fit into 64 bits
//! and can be subtracted safely.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A clock that counts nanoseconds from some fixed point and never runs backwards.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now_ns(&self) -> u64;

    /// Returns the wall-clock time in nanoseconds since 1970 UTC. It may be set at any time, so use
    /// it only for timestamps that people read, never for durations.
    fn calendar_ns(&self) -> u64;

    /// Sleeps until an instant. Returns immediately if it has passed, and early if a signal
    /// arrives.
    fn sleep_until(&self, instant_ns: u64);
}

/// The system's monotonic clock. It is read without going through `Instant` and `Duration`, because
/// at 30 ns a reading makes up most of what the null backend measures.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin_ns: u64,
}

impl SystemClock {
    /// Creates a clock that starts at 1, because a `scheduled_ns` of 0 means "when sent".
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
        // Callers check the clock again, so returning early does no harm.
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
