//! How calls arrive, and how many are in flight.
//!
//! The index of dispersion is the variance of the number of calls in an interval divided by its
//! mean. It is 1 for a Poisson process with any interval, higher for bursty loads, and grows with
//! the interval if the bursts are long. **Source:** R. Gusella, "Characterizing the variability of
//! arrival processes with indexes of dispersion", IEEE JSAC 9 (1991).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Histogram;
use serde::Serialize;

use super::Quantiles;

/// Lengths of the intervals in which calls are counted, in nanoseconds.
const INTERVALS_NS: [u64; 5] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
/// Index of the interval used for the peak.
const PEAK: usize = 3;
/// Minimum number of intervals for computing a dispersion.
const INTERVALS_MIN: u64 = 10;
/// Maximum number of calls in flight to track.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Arrivals of calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArrivalDescription {
    /// Times between the starts of calls.
    pub gaps: Quantiles,
    /// Standard deviation of these times divided by their mean; 1 for a Poisson process.
    pub gap_variation: f64,
    /// Maximum number of calls in a second.
    pub peak_calls_per_second: u64,
    /// Indices of dispersion, shortest interval first. Intervals of which the trace has fewer than
    /// ten are omitted.
    pub dispersions: Vec<Dispersion>,
}

/// The index of dispersion for one interval length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dispersion {
    pub interval_ns: u64,
    /// Variance of the counts divided by their mean.
    pub index: f64,
}

/// Counts in intervals of one length.
#[derive(Debug, Default)]
struct Counts {
    interval: u64,
    count: u64,
    sum_of_squares: u128,
    sum: u64,
    max: u64,
}

/// Starts of calls, which are in order except for calls with very late replies.
#[derive(Debug)]
pub(crate) struct Arrivals {
    last_ns: Option<u64>,
    gaps: Histogram,
    gap_sum: f64,
    gap_squares: f64,
    counts: [Counts; INTERVALS_NS.len()],
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            last_ns: None,
            gaps: Histogram::sparse(),
            gap_sum: 0.0,
            gap_squares: 0.0,
            counts: Default::default(),
        }
    }
}

impl Arrivals {
    /// Adds the start of a call.
    pub(crate) fn add(&mut self, start_ns: u64) {
        if let Some(last_ns) = self.last_ns {
            let gap_ns = start_ns.saturating_sub(last_ns);
            self.gaps.record(gap_ns);
            self.gap_sum += gap_ns as f64;
            self.gap_squares += gap_ns as f64 * gap_ns as f64;
        }
        self.last_ns = Some(start_ns.max(self.last_ns.unwrap_or_default()));
        for (counts, interval_ns) in self.counts.iter_mut().zip(INTERVALS_NS) {
            counts.add(start_ns / interval_ns);
        }
    }

    pub(crate) fn describe(&mut self) -> ArrivalDescription {
        let mut dispersions = Vec::new();
        let mut peak = 0;
        for (position, (counts, interval_ns)) in
            self.counts.iter_mut().zip(INTERVALS_NS).enumerate()
        {
            if position == PEAK {
                peak = counts.max.max(counts.count);
            }
            // The last interval is incomplete, so ignore it.
            if counts.interval >= INTERVALS_MIN && counts.sum > 0 {
                let intervals = counts.interval as f64;
                let mean = counts.sum as f64 / intervals;
                let variance = counts.sum_of_squares as f64 / intervals - mean * mean;
                dispersions.push(Dispersion { interval_ns, index: variance / mean });
            }
        }
        let count = self.gaps.count() as f64;
        let mean = if count > 0.0 { self.gap_sum / count } else { 0.0 };
        let variance = if count > 0.0 { self.gap_squares / count - mean * mean } else { 0.0 };
        let gap_variation = if mean > 0.0 { variance.max(0.0).sqrt() / mean } else { 0.0 };
        ArrivalDescription {
            gaps: Quantiles::from_histogram(&self.gaps),
            gap_variation,
            peak_calls_per_second: peak,
            dispersions,
        }
    }
}

impl Counts {
    fn add(&mut self, interval: u64) {
        // Intervals without calls add nothing to the sum of squares; the index of the last interval
        // accounts for them. A late call counts in the current interval.
        if interval > self.interval {
            self.sum += self.count;
            self.sum_of_squares += u128::from(self.count) * u128::from(self.count);
            self.max = self.max.max(self.count);
            self.interval = interval;
            self.count = 0;
        }
        self.count += 1;
    }
}

/// Calls in flight.
#[derive(Debug)]
pub(crate) struct CallsInFlight {
    ends: BinaryHeap<Reverse<u64>>,
    depths: Histogram,
}

impl Default for CallsInFlight {
    fn default() -> Self {
        Self { ends: BinaryHeap::new(), depths: Histogram::sparse() }
    }
}

impl CallsInFlight {
    /// Adds a call. Calls without an end are not tracked.
    pub(crate) fn add(&mut self, start_ns: u64, end_ns: Option<u64>) {
        while self.ends.peek().is_some_and(|end| end.0 <= start_ns) {
            self.ends.pop();
        }
        let Some(end_ns) = end_ns else { return };
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(Reverse(end_ns));
        }
        self.depths.record(self.ends.len() as u64);
    }

    /// Returns the quantiles of the calls in flight when one starts, including itself.
    pub(crate) fn describe(&self) -> Quantiles {
        Quantiles::from_histogram(&self.depths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn index_at(description: &ArrivalDescription, interval_ns: u64) -> f64 {
        let found = description.dispersions.iter().find(|one| one.interval_ns == interval_ns);
        found.unwrap().index
    }

    #[test]
    fn measures_dispersion_of_arrivals() {
        let mut steady = Arrivals::default();
        for number in 0..10_000 {
            steady.add(number * MS);
        }
        let steady = steady.describe();
        assert!(index_at(&steady, 100 * MS).abs() < 1e-9);
        assert_eq!((steady.peak_calls_per_second, steady.gaps.count), (1000, 9999));
        assert!(steady.gap_variation < 0.01, "{}", steady.gap_variation);
        // One hundred calls at once, each 100 ms.
        let mut bursts = Arrivals::default();
        for number in 0..10_000 {
            bursts.add(number / 100 * 100 * MS);
        }
        let bursts = bursts.describe();
        assert!((index_at(&bursts, MS) - 99.0).abs() < 1.0, "{:?}", bursts.dispersions);
        assert!(index_at(&bursts, 100 * MS).abs() < 1e-9);
        assert!(bursts.gap_variation > 5.0);
    }

    #[test]
    fn counts_calls_in_flight_at_start() {
        let mut depth = CallsInFlight::default();
        for (start, end) in [(0, Some(10)), (1, Some(5)), (6, Some(20)), (7, None), (30, Some(31))]
        {
            depth.add(start, end);
        }
        let found = depth.describe();
        assert_eq!((found.count, found.max, found.p50), (4, 2, 1));
    }
}
