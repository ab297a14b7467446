//! Response times of workers that can be read while a pass is running.
//!
//! Each worker counts its ops in [`LiveTimes`] anyway, for the histograms of the pass. The watcher
//! reads the counts with relaxed atomics, and the difference from its previous reading are the ops
//! of an interval ([`TimesWatch`]), so that percentiles over time cost the measured loop nothing.
//! Intervals are kept with 16 buckets per octave. If there are [`INTERVAL_TIMES_MAX`] of them,
//! neighbors are merged, which is exact, and the interval is doubled.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{Histogram, IntervalTimes};

use crate::limits::INTERVAL_TIMES_MAX;

/// Counts that one worker writes and the watcher reads.
#[derive(Debug)]
pub(crate) struct LiveTimes {
    counts: [AtomicU64; Histogram::BUCKETS],
}

impl Default for LiveTimes {
    #[expect(clippy::large_stack_arrays, reason = "30 KB, which are moved to the heap at once")]
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; Histogram::BUCKETS] }
    }
}

impl LiveTimes {
    /// Counts a value `times` times.
    ///
    /// The worker is the only writer, so a load and a store are enough for an addition.
    #[inline]
    pub(crate) fn count(&self, value_ns: u64, times: u64) {
        let count = &self.counts[Histogram::bucket_of(value_ns)];
        count.store(count.load(Relaxed) + times, Relaxed);
    }

    /// Returns what was counted. `sum_ns` is the sum of all values.
    pub(crate) fn histogram(&self, sum_ns: u128, range_ns: RangeInclusive<u64>) -> Histogram {
        let mut totals = vec![0; Histogram::BUCKETS];
        self.add_to(&mut totals);
        Histogram::from_counts(&totals, sum_ns, range_ns)
    }

    /// Adds the counts so far.
    fn add_to(&self, totals: &mut [u64]) {
        for (total, count) in totals.iter_mut().zip(&self.counts) {
            *total += count.load(Relaxed);
        }
    }
}

/// Collects the times of all workers in each interval for the watcher.
pub(crate) struct TimesWatch {
    workers: Vec<Arc<LiveTimes>>,
    /// Counts at the last reading.
    before: Vec<u64>,
    now: Vec<u64>,
    series: TimesSeries,
}

impl TimesWatch {
    /// Creates a watch on these counts, with intervals of `step_ns`.
    pub(crate) fn new(workers: Vec<Arc<LiveTimes>>, step_ns: u64) -> Self {
        let series = TimesSeries { step_ns, kept_step_ns: step_ns, ended: Vec::new() };
        let counts = vec![0; Histogram::BUCKETS];
        Self { workers, before: counts.clone(), now: counts, series }
    }

    /// Ends an interval now and returns the times of the ops that completed in it.
    pub(crate) fn close_interval(&mut self, at_ns: u64) -> Histogram {
        self.now.fill(0);
        for times in &self.workers {
            times.add_to(&mut self.now);
        }
        // The old counts become the difference.
        for (before, now) in self.before.iter_mut().zip(&self.now) {
            *before = now - *before;
        }
        let times = Histogram::from_buckets(&self.before);
        std::mem::swap(&mut self.before, &mut self.now);
        self.series.add(at_ns, &times);
        times
    }

    /// Returns the times of all intervals.
    pub(crate) fn finish(self) -> Vec<IntervalTimes> {
        self.series.ended
    }
}

/// Times of intervals whose ends are multiples of a step, except for the last one.
struct TimesSeries {
    /// Length of the intervals that are added.
    step_ns: u64,
    /// Length of the intervals that are kept.
    kept_step_ns: u64,
    ended: Vec<IntervalTimes>,
}

impl TimesSeries {
    /// Adds the times of the interval that ended at `at_ns`.
    fn add(&mut self, at_ns: u64, times: &Histogram) {
        let last_ns = self.ended.last().map_or(0, |last| last.at_ns);
        // The watcher is always a little late, so the interval ended at the previous multiple. If
        // that one is taken, this is the rest at the end of the pass.
        let mut end_ns = at_ns / self.step_ns * self.step_ns;
        if last_ns >= end_ns {
            if times.count() == 0 {
                return;
            }
            end_ns = at_ns.max(last_ns);
        }
        let times = times.coarse().packed();
        self.ended.push(IntervalTimes { at_ns: end_ns, times });
        if self.ended.len() > INTERVAL_TIMES_MAX {
            self.kept_step_ns *= 2;
            IntervalTimes::widen(&mut self.ended, self.kept_step_ns);
        } else if end_ns.div_ceil(self.kept_step_ns) == last_ns.div_ceil(self.kept_step_ns) {
            let last_two = self.ended.len().saturating_sub(2);
            let mut both = self.ended.split_off(last_two);
            IntervalTimes::widen(&mut both, self.kept_step_ns);
            self.ended.append(&mut both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn separates_times_of_intervals() {
        let workers = vec![Arc::new(LiveTimes::default()), Arc::new(LiveTimes::default())];
        let mut watch = TimesWatch::new(workers.clone(), 100 * MS);
        workers[0].count(2 * MS, 98);
        workers[1].count(60 * MS, 1);
        workers[1].count(70 * MS, 1);
        watch.close_interval(101 * MS);
        workers[0].count(MS, 3);
        watch.close_interval(200 * MS);
        watch.close_interval(300 * MS);
        workers[1].count(5, 1);
        watch.close_interval(340 * MS);
        let found = watch.finish();
        let ends: Vec<u64> = found.iter().map(|interval| interval.at_ns / MS).collect();
        assert_eq!(ends, [100, 200, 300, 340]);
        let counts: Vec<u64> = found.iter().map(|interval| interval.times.count()).collect();
        assert_eq!(counts, [100, 3, 0, 1]);
        let close = |ns: u64, ms: u64| ns.abs_diff(ms * MS) <= ms * MS / 25;
        let first = &found[0].times;
        assert!(close(first.quantile(0.5), 2) && close(first.quantile(0.99), 60), "{first:?}");
        assert!(close(first.max(), 70) && close(found[1].times.max(), 1), "{found:?}");
        // The sum of the intervals is the histogram of the pass, which is more accurate.
        let whole = workers[0].histogram(199 * u128::from(MS), MS..=2 * MS);
        assert_eq!((whole.count(), whole.min(), whole.max()), (101, MS, 2 * MS));
    }

    #[test]
    fn limits_intervals_of_long_pass() {
        let times = Arc::new(LiveTimes::default());
        let mut watch = TimesWatch::new(vec![Arc::clone(&times)], MS);
        let made = 5 * INTERVAL_TIMES_MAX as u64 / 2;
        for number in 1..=made {
            times.count(number, number);
            watch.close_interval(number * MS);
        }
        let found = watch.finish();
        assert!((INTERVAL_TIMES_MAX / 2..=INTERVAL_TIMES_MAX).contains(&found.len()));
        assert!(found.windows(2).all(|pair| pair[1].at_ns - pair[0].at_ns == 4 * MS));
        let counted: u64 = found.iter().map(|interval| interval.times.count()).sum();
        assert_eq!(counted, made * (made + 1) / 2);
        assert_eq!(found[1].times.count(), 5 + 6 + 7 + 8);
    }
}
