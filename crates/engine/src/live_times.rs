//! Response times of workers that can be read while a pass is running.
//!
//! Each worker counts its ops in [`LiveTimes`] anyway, for the histograms of the pass. The watcher
//! reads the counts with relaxed atomics, and the difference from its previous reading are the ops
//! of an interval ([`TimesWatch`]), so that percentiles over time cost the measured loop nothing.
//! Intervals are kept with 16 buckets per octave. If there are [`INTERVAL_TIMES_MAX`] of them,
//! neighbors are merged, which is exact, and the interval is doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{Histogram, IntervalTimes};

use crate::limits::INTERVAL_TIMES_MAX;

/// Histogram that one worker writes and the watcher reads.
#[derive(Debug)]
pub(crate) struct LiveTimes {
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    counts: [AtomicU64; Histogram::BUCKETS],
}

impl Default for LiveTimes {
    #[expect(clippy::large_stack_arrays, reason = "30 KB, which are moved to the heap at once")]
    fn default() -> Self {
        Self {
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; Histogram::BUCKETS],
        }
    }
}

impl LiveTimes {
    /// Records a value `times` times.
    ///
    /// The worker is the only writer, so loads and stores are enough for an addition.
    #[inline]
    pub(crate) fn record_n(&self, value_ns: u64, times: u64) {
        let count = &self.counts[Histogram::bucket_of(value_ns)];
        count.store(count.load(Relaxed) + times, Relaxed);
        // Both are rarely true, and a predicted branch is faster than storing the same value again.
        if value_ns < self.min_ns.load(Relaxed) {
            self.min_ns.store(value_ns, Relaxed);
        }
        if value_ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(value_ns, Relaxed);
        }
    }

    /// Returns what was recorded. `sum_ns` is the sum of all values.
    pub(crate) fn histogram(&self, sum_ns: u128) -> Histogram {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let range_ns = self.min_ns.load(Relaxed)..=self.max_ns.load(Relaxed);
        Histogram::from_counts(&counts, sum_ns, range_ns)
    }

    /// Adds the counts so far.
    fn add_to(&self, totals: &mut Totals) {
        let min_ns = self.min_ns.load(Relaxed);
        let max_ns = self.max_ns.load(Relaxed);
        if min_ns > max_ns {
            return;
        }
        totals.min_ns = totals.min_ns.min(min_ns);
        totals.max_ns = totals.max_ns.max(max_ns);
        // Buckets outside of the range are empty, and most of the array is.
        let used = Histogram::bucket_of(min_ns)..=Histogram::bucket_of(max_ns);
        for (total, count) in totals.counts[used.clone()].iter_mut().zip(&self.counts[used]) {
            *total += count.load(Relaxed);
        }
    }
}

/// Counts of all workers at one time.
struct Totals {
    min_ns: u64,
    max_ns: u64,
    counts: Vec<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self { min_ns: u64::MAX, max_ns: 0, counts: vec![0; Histogram::BUCKETS] }
    }
}

impl Totals {
    fn clear(&mut self) {
        self.counts.fill(0);
        self.min_ns = u64::MAX;
        self.max_ns = 0;
    }
}

/// Collects the times of all workers in each interval for the watcher.
pub(crate) struct TimesWatch {
    workers: Vec<Arc<LiveTimes>>,
    /// Counts at the last reading.
    before: Totals,
    now: Totals,
    series: TimesSeries,
}

impl TimesWatch {
    /// Creates a watch on these counts, with intervals of `step_ns`.
    pub(crate) fn new(workers: Vec<Arc<LiveTimes>>, step_ns: u64) -> Self {
        let series = TimesSeries { step_ns, kept_step_ns: step_ns, ended: Vec::new() };
        Self { workers, before: Totals::default(), now: Totals::default(), series }
    }

    /// Ends an interval now and returns the times of the ops that completed in it.
    pub(crate) fn close_interval(&mut self, at_ns: u64) -> Histogram {
        self.now.clear();
        for times in &self.workers {
            times.add_to(&mut self.now);
        }
        // The old counts become the difference.
        for (before, now) in self.before.counts.iter_mut().zip(&self.now.counts) {
            *before = now - *before;
        }
        let range_ns = self.now.min_ns..=self.now.max_ns;
        let times = Histogram::from_buckets(&self.before.counts, range_ns);
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
        workers[0].record_n(2 * MS, 98);
        workers[1].record_n(60 * MS, 1);
        workers[1].record_n(70 * MS, 1);
        watch.close_interval(101 * MS);
        workers[0].record_n(MS, 3);
        watch.close_interval(200 * MS);
        watch.close_interval(300 * MS);
        workers[1].record_n(5, 1);
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
        let whole = workers[0].histogram(98 * 2 * u128::from(MS) + 3 * u128::from(MS));
        assert_eq!((whole.count(), whole.min(), whole.max()), (101, MS, 2 * MS));
    }

    #[test]
    fn limits_intervals_of_long_pass() {
        let times = Arc::new(LiveTimes::default());
        let mut watch = TimesWatch::new(vec![Arc::clone(&times)], MS);
        let made = 5 * INTERVAL_TIMES_MAX as u64 / 2;
        for number in 1..=made {
            times.record_n(number, number);
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
