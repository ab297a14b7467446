//! Ops that took much longer than most because TCP segments were lost, and the time that cost.
//!
//! A lost segment holds up the ops of its connection until TCP retransmits it, which no kernel
//! counter measures. [`HeldOps::of_losses`] takes as many of the slowest ops as the lost segments
//! explain. Ops that are not slow enough for TCP's timers never count, so chance cannot add any.

use std::ops::Range;

use crate::judgments::caveat::Evidence;
use crate::results::campaign::PassResult;
use crate::results::histogram::Histogram;
use crate::text::units::{Nanos, three_digits};

/// Factor over the lower quartile below which an op doesn't count as held up.
const USUAL_TIMES_MAX: u64 = 3;

const MS: u64 = 1_000_000;

/// Additional time of an op that waits for the first timeout and no further one.
/// **Source:** include/net/tcp.h (`TCP_RTO_MIN`): 200 ms.
const FIRST_TIMEOUT_NS: Range<u64> = 180 * MS..300 * MS;

/// Additional time of a slow op that did not wait for a timeout.
const NEARLY_TIMEOUT_NS: Range<u64> = 60 * MS..180 * MS;

/// The slowest ops of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldOps {
    /// Number of ops held up.
    pub ops: u64,
    /// Time beyond the usual, in nanoseconds.
    pub held_ns: u64,
    /// Total time of all ops, in nanoseconds.
    pub total_ns: u64,
}

impl HeldOps {
    /// Share of the time of all ops above which the delays affect the result. This is the default
    /// accuracy of plans.
    pub(crate) const SHARE_MAX: f64 = 0.05;

    /// Minimum number of lost segments that can explain ops delayed by a timeout; with fewer, an
    /// acknowledgement may just still be on its way.
    pub const TIMEOUTS_MIN: u64 = 4;

    /// Counts the ops that took one TCP timeout longer than usual, up to the number that traces of
    /// lost segments explain. Returns nothing if ops of nearly that duration are common, as with
    /// slow disks.
    ///
    /// Used for traces that can have other causes, too: out-of-order segments, unnecessary
    /// retransmissions, and losses of other programs.
    pub fn timed_out(result: &PassResult, traces: u64, connections: Option<u32>) -> Self {
        if traces < Self::TIMEOUTS_MIN {
            return Self::default();
        }
        let held = Self::of_losses(result, traces, connections, FIRST_TIMEOUT_NS);
        let nearly = Self::of_losses(result, u64::MAX, None, NEARLY_TIMEOUT_NS);
        if nearly.ops * 4 > held.ops { Self::default() } else { held }
    }

    /// Counts the ops of a pass that were held up by lost segments. A loss holds up all ops in
    /// flight on its connection, or at least one if the number of connections is unknown.
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

    /// Counts at most `ops_max` of the slowest ops. The time beyond the lower quartile must be in
    /// `excess_ns`, and the op must have taken at least three times the quartile.
    fn slowest(service_time: &Histogram, ops_max: u64, excess_ns: Range<u64>) -> Self {
        // In a very lossy network, the median would be that of a held-up op.
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

    /// Returns the share (0 to 1) of the time of all ops that was spent being held up.
    pub fn share(&self) -> f64 {
        self.held_ns as f64 / self.total_ns.max(1) as f64
    }

    /// Returns true if the delays affect the result.
    pub fn affects_result(&self) -> bool {
        self.share() > Self::SHARE_MAX
    }

    /// Describes the lost time with its limit.
    pub fn describe(&self) -> String {
        format!(
            "{} ops waited {} for TCP timers, {} % of the {} that all ops took (limit {} %)",
            self.ops,
            Nanos(self.held_ns),
            three_digits(self.share() * 100.0),
            Nanos(self.total_ns),
            Self::SHARE_MAX * 100.0,
        )
    }

    /// Returns the decisive number. `source` is the source of the lost segments.
    pub fn evidence(&self, source: &str) -> Evidence {
        let source = format!("service times of as many ops as there were lost segments, {source}");
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
        // Buckets are 1/64 of an octave wide and counted at their lower bound.
        let expected_ns = 10 * 199 * MS + 20 * 19 * MS;
        assert!((expected_ns * 98 / 100..=expected_ns).contains(&held.held_ns), "{held:?}");
        assert_eq!(held.total_ns, (900 + 1_000 + 2_000) * MS / 960 * 960);
        assert!((0.59..0.62).contains(&held.share()), "{held:?}");
    }

    #[test]
    fn ignores_ops_outside_the_range() {
        let service_time = times(&[(MS, 900), (20 * MS, 50), (1_800 * MS, 10)]);
        assert_eq!(HeldOps::slowest(&service_time, 60, FIRST_TIMEOUT_NS).ops, 0);
        // Slow ops are not held up if a quarter of all ops are about as slow.
        let slow = times(&[(100 * MS, 300), (290 * MS, 100)]);
        assert_eq!(HeldOps::slowest(&slow, 60, 2 * MS..u64::MAX).ops, 0);
        let none = HeldOps::slowest(&Histogram::new(), 60, 0..u64::MAX);
        assert_eq!((none, none.share().to_bits()), (HeldOps::default(), 0));
    }
}
