//! Ops that took far longer than most because segments of TCP were lost, and the time it cost.
//!
//! A lost segment holds up the ops of its connection until TCP sends it again, which no counter of
//! the kernel measures. [`HeldOps::of_losses`] takes as many of the slowest ops as lost segments
//! explain. Ops that are not slow for TCP's timers never count: chance can't make them so.

use std::ops::Range;

use crate::campaign::PassResult;
use crate::caveat::Evidence;
use crate::histogram::Histogram;
use crate::units::{Nanos, three_digits};

/// An op that is not held up takes less than this many times the lower quartile.
const USUAL_TIMES_MAX: u64 = 3;

const MS: u64 = 1_000_000;

/// How much longer than usual an op takes that waits for the first timeout and no further one.
/// **Source:** include/net/tcp.h (`TCP_RTO_MIN`): 200 ms.
const FIRST_TIMEOUT_NS: Range<u64> = 180 * MS..300 * MS;

/// How much longer an op takes that was slow, but not for a timeout.
const NEARLY_TIMEOUT_NS: Range<u64> = 60 * MS..180 * MS;

/// The slowest ops of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldOps {
    /// Number of ops that were held up.
    pub ops: u64,
    /// Time beyond the usual that they took, in nanoseconds.
    pub held_ns: u64,
    /// Time that all ops took, in nanoseconds.
    pub total_ns: u64,
}

impl HeldOps {
    /// Above this share of the time of all ops their delay makes the figure another one: the
    /// accuracy that is asked for unless a plan says otherwise.
    pub const SHARE_MAX: f64 = 0.05;

    /// Fewer lost segments than this say nothing about ops that took as long as a timeout: an
    /// acknowledgement may still be on its way.
    pub const TIMEOUTS_MIN: u64 = 4;

    /// Counts the ops that took one timeout of TCP longer than usual, as far as traces of lost
    /// segments explain them; none if ops of nearly that time are not rare, as with slow disks.
    ///
    /// It is for traces that have other causes, too: segments out of order, calls that were sent
    /// again in vain, and what other programs lost.
    pub fn timed_out(result: &PassResult, traces: u64, connections: Option<u32>) -> Self {
        if traces < Self::TIMEOUTS_MIN {
            return Self::default();
        }
        let held = Self::of_losses(result, traces, connections, FIRST_TIMEOUT_NS);
        let nearly = Self::of_losses(result, u64::MAX, None, NEARLY_TIMEOUT_NS);
        if nearly.ops * 4 > held.ops { Self::default() } else { held }
    }

    /// Counts the ops of a pass that lost segments held up. A loss holds up all ops in flight on
    /// its connection, or one at the least if the number of connections is not known.
    pub fn of_losses(
        result: &PassResult,
        lost: u64,
        connections: Option<u32>,
        excess_ns: Range<u64>,
    ) -> Self {
        let times = result.service_time();
        let in_flight = connections.map_or(1.0, |connections| {
            // Little's law.
            let span_ns = result.window_ns.max(1) as f64 * f64::from(connections.max(1));
            times.mean() as f64 * times.count() as f64 / span_ns
        });
        let ops_max = (lost as f64 * in_flight.max(1.0)).ceil() as u64;
        Self::slowest(&times, ops_max, excess_ns)
    }

    /// Counts at most `ops_max` of the slowest ops. The time that each took beyond the lower
    /// quartile must be in `excess_ns`, and the op must have taken three times that quartile.
    fn slowest(service_time: &Histogram, ops_max: u64, excess_ns: Range<u64>) -> Self {
        // The median would be that of a held op where a network loses a lot.
        let usual_ns = service_time.quantile(0.25);
        let total_ns = service_time.mean().saturating_mul(service_time.count());
        let mut held = Self { total_ns, ..Self::default() };
        let buckets: Vec<(u64, u64)> = service_time.buckets().collect();
        for (time_ns, count) in buckets.into_iter().rev() {
            let over_ns = time_ns.saturating_sub(usual_ns);
            if time_ns <= usual_ns.saturating_mul(USUAL_TIMES_MAX) {
                break;
            }
            if excess_ns.contains(&over_ns) {
                let counted = count.min(ops_max - held.ops);
                held.ops += counted;
                held.held_ns = held.held_ns.saturating_add(over_ns.saturating_mul(counted));
            }
        }
        held
    }

    /// Returns the share of the time of all ops, 0 to 1, that the held ones took beyond the usual.
    pub fn share(&self) -> f64 {
        self.held_ns as f64 / self.total_ns.max(1) as f64
    }

    /// Returns true if the figure of the pass is another one for it.
    pub fn matters(&self) -> bool {
        self.share() > Self::SHARE_MAX
    }

    /// Describes the time that was lost, with its limit.
    pub fn describe(&self) -> String {
        format!(
            "{} ops waited {} for TCP's timers, of {} that all ops took ({} %, at most {} %)",
            self.ops,
            Nanos(self.held_ns),
            Nanos(self.total_ns),
            three_digits(self.share() * 100.0),
            Self::SHARE_MAX * 100.0,
        )
    }

    /// Returns the number that decided; `source` is that of the lost segments.
    pub fn evidence(&self, source: &str) -> Evidence {
        let source = format!("service times of as many ops as segments were lost, {source}");
        Evidence::shares(self.share(), Self::SHARE_MAX, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        for (time_ns, count) in of {
            histogram.record_n(*time_ns, *count);
        }
        histogram
    }

    #[test]
    fn counts_the_slowest_up_to_maximum() {
        let service_time = times(&[(MS, 900), (20 * MS, 50), (200 * MS, 10)]);
        let held = HeldOps::slowest(&service_time, 30, 2 * MS..u64::MAX);
        assert_eq!(held.ops, 30);
        // Buckets are 1/64 of an octave wide, and counted at their lower bound.
        let expected_ns = 10 * 199 * MS + 20 * 19 * MS;
        assert!((expected_ns * 98 / 100..=expected_ns).contains(&held.held_ns), "{held:?}");
        assert_eq!(held.total_ns, (900 + 1_000 + 2_000) * MS / 960 * 960);
        assert!((0.59..0.62).contains(&held.share()), "{held:?}");
    }

    #[test]
    fn ignores_ops_outside_the_range() {
        let service_time = times(&[(MS, 900), (20 * MS, 50), (1_800 * MS, 10)]);
        assert_eq!(HeldOps::slowest(&service_time, 60, FIRST_TIMEOUT_NS).ops, 0);
        // Slow ops are not held up where a quarter of all is about as slow.
        let slow = times(&[(100 * MS, 300), (290 * MS, 100)]);
        assert_eq!(HeldOps::slowest(&slow, 60, 2 * MS..u64::MAX).ops, 0);
        let none = HeldOps::slowest(&Histogram::new(), 60, 0..u64::MAX);
        assert_eq!((none, none.share().to_bits()), (HeldOps::default(), 0));
    }
}
