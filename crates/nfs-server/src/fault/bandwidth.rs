//! The bandwidth cap: a pipe shared by all threads.
//!
//! A single number records until when the pipe is taken. Each sender reserves the next stretch of
//! time and learns when its last byte will have left; so the cap applies across all connections,
//! and an idle pipe saves nothing up.

use std::sync::atomic::{AtomicU64, Ordering};

use super::BandwidthCap;

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// A pipe of one rate.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    taken_until_ns: AtomicU64,
    burst_used_bytes: AtomicU64,
}

impl Pipe {
    /// Reserves the time needed for `bytes` and returns when they will have left, in nanoseconds on
    /// the clock of `now_ns`.
    pub(crate) fn reserve(&self, bytes: u64, cap: BandwidthCap, now_ns: u64) -> u64 {
        let bytes = bytes - self.take_burst(bytes, cap.burst_bytes);
        if bytes == 0 {
            return now_ns;
        }
        let rate = u128::from(cap.bytes_per_s.max(1));
        let cost_ns = u128::from(bytes) * NANOSECONDS_PER_SECOND / rate;
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        // An idle pipe starts now, not where it stopped: unused time is lost, as on a real link.
        let until = |taken: u64| taken.max(now_ns).saturating_add(cost_ns);
        let success = Ordering::Relaxed;
        let failure = Ordering::Relaxed;
        let taken = self.taken_until_ns.fetch_update(success, failure, |taken| Some(until(taken)));
        until(taken.unwrap_or_default())
    }

    /// Uses up burst credit for `bytes` and returns how many of them it covers.
    fn take_burst(&self, bytes: u64, burst_bytes: u64) -> u64 {
        let success = Ordering::Relaxed;
        let failure = Ordering::Relaxed;
        let take = |used: u64| Some(used.saturating_add(bytes).min(burst_bytes));
        let used = self.burst_used_bytes.fetch_update(success, failure, take);
        burst_bytes.saturating_sub(used.unwrap_or_default()).min(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::CappedBytes;

    fn cap(bytes_per_s: u64, burst_bytes: u64) -> BandwidthCap {
        BandwidthCap { bytes_per_s, counts: CappedBytes::Payload, burst_bytes }
    }

    #[test]
    fn sends_bytes_at_rate() {
        let pipe = Pipe::default();
        assert_eq!(pipe.reserve(1000, cap(1_000_000, 0), 500), 1_000_500);
        assert_eq!(pipe.reserve(1000, cap(1_000_000, 0), 500), 2_000_500);
        // Idle time is lost.
        assert_eq!(pipe.reserve(1000, cap(1_000_000, 0), 9_000_000), 10_000_000);
        assert_eq!(pipe.reserve(u64::MAX, cap(0, 0), 0), u64::MAX);
    }

    #[test]
    fn burst_credit_passes_freely_once() {
        let pipe = Pipe::default();
        let cap = cap(1_000_000, 1500);
        assert_eq!(pipe.reserve(1000, cap, 500), 500);
        // Half of these bytes exceed the credit.
        assert_eq!(pipe.reserve(1000, cap, 500), 500_500);
        assert_eq!(pipe.reserve(1000, cap, 9_000_000), 10_000_000);
    }
}
