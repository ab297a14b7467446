//! Interval statistics of a soak's worker: counts and latencies, read by the watcher.
//!
//! Only the worker writes an `IntervalCounts`, and the watcher reads it with relaxed atomics. The
//! counts only increase, so `IntervalWatch` computes an interval as the difference from its
//! previous reading. Each octave of latencies has 8 buckets, so a quantile is at most 1/16 = 6.3 %
//! from the true value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use model::histogram::{bucket_of, middle_of};
use model::{Completion, IntervalStats, OpKind, Outcome};
use workload::Journal;

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 3;
/// Maximum latency in nanoseconds (73 minutes). Longer ones are counted as this.
const TIME_NS_MAX: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket_of::<SUB_BITS>(TIME_NS_MAX) + 1;

/// Counts of one worker.
#[derive(Debug)]
pub(crate) struct IntervalCounts {
    failed: AtomicU64,
    /// Maximum latency since the watcher's last reading.
    max_ns: AtomicU64,
    times: [AtomicU32; BUCKETS],
}

impl Default for IntervalCounts {
    fn default() -> Self {
        let times = [const { AtomicU32::new(0) }; BUCKETS];
        Self { failed: AtomicU64::new(0), max_ns: AtomicU64::new(0), times }
    }
}

impl IntervalCounts {
    /// Counts a completed op. As in rates, syncs only count if they failed.
    ///
    /// The worker is the only writer, so a load and a store are enough for an addition.
    #[inline]
    pub(crate) fn record_ended(&self, completion: &Completion) {
        let time_ns = match completion.outcome {
            Outcome::Failed(_) => return self.failed.store(self.failed.load(Relaxed) + 1, Relaxed),
            Outcome::Done(_) if completion.op.kind == OpKind::Sync => return,
            Outcome::Done(_) if completion.op.scheduled_ns == 0 => completion.service_time_ns(),
            Outcome::Done(_) => completion.response_time_ns(),
        };
        let count = &self.times[bucket_of::<SUB_BITS>(time_ns.min(TIME_NS_MAX))];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        // The watcher resets this value, so a separate load and store could undo the reset.
        if time_ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(time_ns, Relaxed);
        }
    }
}

/// Computes the interval statistics of all workers for the watcher.
pub(crate) struct IntervalWatch {
    workers: Vec<Arc<IntervalCounts>>,
    journal: Option<Arc<Journal>>,
    /// Failed ops at the last reading.
    failed: u64,
    times: Vec<u32>,
    intervals: Vec<IntervalStats>,
}

impl IntervalWatch {
    /// Creates a watch on these workers.
    pub(crate) fn new(workers: Vec<Arc<IntervalCounts>>, journal: Option<Arc<Journal>>) -> Self {
        Self { workers, journal, failed: 0, times: vec![0; BUCKETS], intervals: Vec::new() }
    }

    /// Ends an interval now and keeps its statistics.
    pub(crate) fn close_interval(&mut self, at_ns: u64) {
        let mut interval =
            IntervalStats { at_ns, rss_bytes: resident_bytes(), ..IntervalStats::default() };
        let mut failed = 0;
        let mut totals = [0_u32; BUCKETS];
        for counts in &self.workers {
            failed += counts.failed.load(Relaxed);
            interval.max_ns = interval.max_ns.max(counts.max_ns.swap(0, Relaxed));
            for (total, count) in totals.iter_mut().zip(&counts.times) {
                *total = total.wrapping_add(count.load(Relaxed));
            }
        }
        interval.errors = failed - self.failed;
        self.failed = failed;
        // Counts may wrap around in a long soak, but their differences are still right.
        let mut counts = totals;
        for (count, before) in counts.iter_mut().zip(&self.times) {
            *count = count.wrapping_sub(*before);
        }
        self.times.copy_from_slice(&totals);
        for count in &counts {
            interval.ops += u64::from(*count);
        }
        // Use the middle of the bucket. In the last bucket, that may exceed the maximum latency,
        // which is known exactly.
        interval.p50_ns = time_at_rank(&counts, interval.ops.div_ceil(2)).min(interval.max_ns);
        interval.p95_ns =
            time_at_rank(&counts, (interval.ops * 95).div_ceil(100)).min(interval.max_ns);
        interval.p99_ns =
            time_at_rank(&counts, (interval.ops * 99).div_ceil(100)).min(interval.max_ns);
        if let Some(journal) = &self.journal {
            interval.uncommitted = journal.uncommitted();
        }
        self.intervals.push(interval);
    }

    /// Returns the statistics of all intervals.
    pub(crate) fn finish(self) -> Vec<IntervalStats> {
        self.intervals
    }
}

/// Returns the latency of the op with this rank, counted from 1, or 0 if there is none.
fn time_at_rank(counts: &[u32], rank: u64) -> u64 {
    if rank == 0 {
        return 0;
    }
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += u64::from(*count);
        if seen >= rank {
            return middle_of::<SUB_BITS>(bucket);
        }
    }
    0
}

/// Returns the resident memory of this process in bytes, or 0 if the kernel does not report it.
///
/// **Source:** proc_pid_statm(5), the second field.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Op, OpError};

    const MS: u64 = 1_000_000;

    fn ended(counts: &IntervalCounts, kind: OpKind, took_ns: u64, outcome: Outcome) {
        let op = Op { scheduled_ns: 1_000, offset_bytes: 0, len_bytes: 1, file: 0, kind };
        counts.record_ended(&Completion { op, sent_ns: 5_000, done_ns: 1_000 + took_ns, outcome });
    }

    #[test]
    fn separates_counts_of_intervals() {
        let workers =
            vec![Arc::new(IntervalCounts::default()), Arc::new(IntervalCounts::default())];
        let mut intervals = IntervalWatch::new(workers.clone(), None);
        let done = Outcome::Done(1);
        for _ in 0..98 {
            ended(&workers[0], OpKind::Read, 2 * MS, done);
        }
        ended(&workers[1], OpKind::Write, 60 * MS, done);
        ended(&workers[1], OpKind::Write, 70 * MS, done);
        ended(&workers[1], OpKind::Sync, 900 * MS, done);
        ended(&workers[1], OpKind::Sync, 900 * MS, Outcome::Failed(OpError(5)));
        intervals.close_interval(1_000);
        ended(&workers[0], OpKind::Read, MS, done);
        intervals.close_interval(2_000);
        intervals.close_interval(3_000);
        let found = intervals.finish();
        let close = |ns: u64, ms: u64| ns.abs_diff(ms * MS) <= ms * MS / 16;
        assert_eq!((found[0].at_ns, found[0].ops, found[0].errors), (1_000, 100, 1));
        assert!(close(found[0].p50_ns, 2) && close(found[0].p99_ns, 60), "{:?}", found[0]);
        assert!(close(found[0].p95_ns, 2), "{:?}", found[0]);
        assert_eq!(found[0].max_ns, 70 * MS);
        assert_eq!((found[1].ops, found[1].errors, found[1].max_ns), (1, 0, MS));
        assert_eq!((found[2].ops, found[2].p50_ns, found[2].p99_ns), (0, 0, 0));
        assert!(found[0].rss_bytes > 100_000, "{:?}", found[0]);
    }
}
