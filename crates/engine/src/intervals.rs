//! Interval statistics of a soak's workers: failures, latencies, uncommitted data, and memory.
//!
//! Only the worker writes an `IntervalCounts`, and the watcher reads it with relaxed atomics. The
//! counts only increase, so `IntervalWatch` computes an interval as the difference from its
//! previous reading. Latencies are those that every pass has, see `live_times`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{Completion, Histogram, IntervalStats, Outcome};
use workload::Journal;

/// Counts of one worker.
#[derive(Debug, Default)]
pub(crate) struct IntervalCounts {
    failed: AtomicU64,
}

impl IntervalCounts {
    /// Counts a completed op if it failed.
    ///
    /// The worker is the only writer, so a load and a store are enough for an addition.
    #[inline]
    pub(crate) fn record_ended(&self, completion: &Completion) {
        if matches!(completion.outcome, Outcome::Failed(_)) {
            self.failed.store(self.failed.load(Relaxed) + 1, Relaxed);
        }
    }
}

/// Computes the interval statistics of all workers for the watcher.
pub(crate) struct IntervalWatch {
    workers: Vec<Arc<IntervalCounts>>,
    journal: Option<Arc<Journal>>,
    /// Failed ops at the last reading.
    failed: u64,
    intervals: Vec<IntervalStats>,
}

impl IntervalWatch {
    /// Creates a watch on these workers.
    pub(crate) const fn new(
        workers: Vec<Arc<IntervalCounts>>,
        journal: Option<Arc<Journal>>,
    ) -> Self {
        Self { workers, journal, failed: 0, intervals: Vec::new() }
    }

    /// Ends an interval now and keeps its statistics. `times` are those of its successful ops.
    pub(crate) fn close_interval(&mut self, at_ns: u64, times: &Histogram) {
        let failed = self.workers.iter().map(|counts| counts.failed.load(Relaxed)).sum();
        self.intervals.push(IntervalStats {
            at_ns,
            ops: times.count(),
            errors: failed - self.failed,
            p50_ns: times.quantile(0.5),
            p95_ns: times.quantile(0.95),
            p99_ns: times.quantile(0.99),
            max_ns: times.max(),
            uncommitted: self.journal.as_ref().map_or(0, |journal| journal.uncommitted()),
            rss_bytes: resident_bytes(),
        });
        self.failed = failed;
    }

    /// Returns the statistics of all intervals.
    pub(crate) fn finish(self) -> Vec<IntervalStats> {
        self.intervals
    }
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
    use model::{Op, OpError, OpKind};

    const MS: u64 = 1_000_000;

    #[test]
    fn separates_failures_of_intervals() {
        let workers =
            vec![Arc::new(IntervalCounts::default()), Arc::new(IntervalCounts::default())];
        let mut intervals = IntervalWatch::new(workers.clone(), None);
        let op =
            Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 1, file: 0, kind: OpKind::Write };
        for outcome in [Outcome::Done(1), Outcome::Failed(OpError(5))] {
            workers[1].record_ended(&Completion { op, sent_ns: 1, done_ns: 2, outcome });
        }
        let mut times = Histogram::sparse();
        times.record_n(2 * MS, 98);
        times.record_n(70 * MS, 2);
        intervals.close_interval(1_000, &times);
        intervals.close_interval(2_000, &Histogram::sparse());
        let found = intervals.finish();
        assert_eq!((found[0].at_ns, found[0].ops, found[0].errors), (1_000, 100, 1));
        let close = |ns: u64, ms: u64| ns.abs_diff(ms * MS) <= ms * MS / 128;
        assert!(close(found[0].p50_ns, 2) && close(found[0].p99_ns, 70), "{:?}", found[0]);
        assert_eq!(found[0].max_ns, 70 * MS);
        assert_eq!((found[1].ops, found[1].errors, found[1].p99_ns), (0, 0, 0));
        assert!(found[0].rss_bytes > 100_000, "{:?}", found[0]);
    }
}
