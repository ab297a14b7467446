//! The watcher of a pass: collects interval samples, stalls and CPU time while workers are busy.
//!
//! [`Watch`] reads counters that workers maintain anyway, about ten times per second, so it costs
//! the measured loop nothing. All times are relative to when the pass starts to count. The duration
//! of a stall is a lower bound: a late tick never causes one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::{
    IntervalSample, IntervalStats, IntervalTimes, RunSpec, Stall, Stalls, TimelinePoint, Work,
};

use crate::clock::Clock;
use crate::intervals::IntervalWatch;
use crate::limits::WATCH_TICK;
use crate::live_times::{LiveTimes, TimesWatch};
use crate::stop::Stop;
use crate::timeline::Timeline;
use crate::worker::Progress;

const TICK_NS: u64 = WATCH_TICK.as_nanos() as u64;

/// Hooks provided by the caller of a pass.
pub struct Monitor<'a> {
    /// Set to stop the pass.
    pub stop: &'a Stop,
    /// Called when all backends are open, right before the start, so that the caller can read
    /// counters.
    pub opened: &'a dyn Fn(),
    /// Called after that. Returns when to start, according to the target's clock. A time in the
    /// past means now, and `None` calls off the start.
    pub gate: &'a mut dyn FnMut() -> Option<u64>,
    /// Receives what was done since the last call, about ten times per second.
    pub observe: &'a mut dyn FnMut(IntervalSample),
    /// Returns the client's CPU time over all its threads.
    pub client_cpu_ns: &'a dyn Fn() -> u64,
}

/// Watches the workers of one pass.
pub(crate) struct Watch<'a> {
    clock: &'a dyn Clock,
    progress: &'a [Progress],
    /// When ops start to count.
    origin_ns: u64,
    /// Live progress, at a fixed interval.
    live: Series,
    /// Samples to keep, at the plan's interval.
    kept: Series,
    samples: Vec<IntervalSample>,
    times: TimesWatch,
    standing: StallDetector,
    /// Progress over time. Only used if other hosts work at the same time.
    timeline: Option<Timeline>,
    /// Interval statistics of a soak's workers.
    intervals: Option<IntervalWatch>,
    /// CPU time when the pass started to count; `None` until then.
    cpu_before_ns: Option<u64>,
}

/// What was observed during a pass.
pub(crate) struct PassRecords {
    /// Work in each interval.
    pub samples: Vec<IntervalSample>,
    /// Response times in each interval.
    pub interval_times: Vec<IntervalTimes>,
    /// Periods without completions; `None` if they weren't looked for.
    pub stalls: Option<Stalls>,
    /// The client's CPU time while the pass was counting.
    pub client_cpu_ns: u64,
    /// Progress over time, if recorded.
    pub timeline: Vec<TimelinePoint>,
    /// Statistics of each interval of a soak.
    pub intervals: Vec<IntervalStats>,
}

impl<'a> Watch<'a> {
    /// Starts to watch a pass whose workers start at `begun_ns`, which may be in the future.
    pub(crate) fn new(
        clock: &'a dyn Clock,
        progress: &'a [Progress],
        times: Vec<Arc<LiveTimes>>,
        spec: &RunSpec,
        begun_ns: u64,
        monitor: &Monitor<'_>,
    ) -> Self {
        let origin_ns = begun_ns.saturating_add(spec.warmup_ns());
        let interval_ns = spec.sampling.interval_ns().max(TICK_NS);
        let at_once = clock.now_ns() >= origin_ns;
        Self {
            clock,
            progress,
            origin_ns,
            live: Series::new(origin_ns, TICK_NS),
            kept: Series::new(origin_ns, interval_ns),
            samples: Vec::new(),
            times: TimesWatch::new(times, interval_ns),
            standing: StallDetector::new(progress.len(), spec.sampling.stall_ns()),
            timeline: None,
            intervals: None,
            // This value involves two clocks; in a very short pass, the difference may be negative.
            cpu_before_ns: if at_once { Some((monitor.client_cpu_ns)()) } else { None },
        }
    }

    /// Also records a timeline of the pass.
    #[must_use]
    pub(crate) fn with_timeline(mut self) -> Self {
        self.timeline = Some(Timeline::new(self.origin_ns));
        self
    }

    /// Also computes interval statistics.
    #[must_use]
    pub(crate) fn with_intervals(mut self, intervals: IntervalWatch) -> Self {
        self.intervals = Some(intervals);
        self
    }

    /// Returns how long to wait before the next [`Self::check`].
    pub(crate) fn until_next(&self) -> Duration {
        let timeline_ns = match &self.timeline {
            Some(timeline) => timeline.next_ns(),
            None => u64::MAX,
        };
        let next_ns = if self.cpu_before_ns.is_none() {
            self.origin_ns
        } else {
            self.live.next_ns.min(self.kept.next_ns).min(timeline_ns)
        };
        let left_ns = next_ns.saturating_sub(self.clock.now_ns());
        WATCH_TICK.min(Duration::from_nanos(left_ns))
    }

    /// Reads the counters and closes intervals that have ended.
    pub(crate) fn check(&mut self, monitor: &mut Monitor<'_>) {
        let now_ns = self.clock.now_ns();
        if now_ns < self.origin_ns {
            return;
        }
        if self.cpu_before_ns.is_none() {
            self.cpu_before_ns = Some((monitor.client_cpu_ns)());
            // The warm-up is over, and stalls during the warm-up don't count.
            self.standing.reset(0);
        }
        let at_ns = now_ns - self.origin_ns;
        let progress = self.progress;
        if let Some(timeline) = &mut self.timeline {
            timeline.record(now_ns, || sum_work(progress));
        }
        if now_ns >= self.live.next_ns {
            (monitor.observe)(self.live.take_sample(sum_work(self.progress), at_ns));
            self.standing.update(self.progress, at_ns);
            self.live.advance(now_ns);
        }
        if now_ns >= self.kept.next_ns {
            self.close_interval(at_ns);
            self.kept.advance(now_ns);
        }
    }

    /// Stops watching. The last interval may be short.
    pub(crate) fn end(mut self, monitor: &mut Monitor<'_>) -> PassRecords {
        let at_ns = self.clock.now_ns().saturating_sub(self.origin_ns);
        self.close_interval(at_ns);
        (monitor.observe)(self.live.take_sample(sum_work(self.progress), at_ns));
        let client_cpu_ns = self
            .cpu_before_ns
            .map_or(0, |before_ns| (monitor.client_cpu_ns)().saturating_sub(before_ns));
        PassRecords {
            samples: self.samples,
            interval_times: self.times.finish(),
            stalls: self.standing.end(),
            client_cpu_ns,
            timeline: self.timeline.map(Timeline::finish).unwrap_or_default(),
            intervals: self.intervals.map(IntervalWatch::finish).unwrap_or_default(),
        }
    }

    fn close_interval(&mut self, at_ns: u64) {
        let taken = self.kept.take_sample(sum_work(self.progress), at_ns);
        self.samples.push(taken);
        let times = self.times.close_interval(at_ns);
        if let Some(intervals) = &mut self.intervals {
            intervals.close_interval(at_ns, &times);
        }
    }
}

/// Returns the total work done by all workers so far.
fn sum_work(progress: &[Progress]) -> Work {
    let mut sum = Work::default();
    for worker in progress {
        sum.ops += worker.ops.load(Relaxed);
        sum.bytes += worker.bytes.load(Relaxed);
    }
    sum
}

/// Samples of the workers' counters at regular intervals.
///
/// Each series has its own previous reading, so that they don't affect each other.
struct Series {
    step_ns: u64,
    /// Time of the next sample.
    next_ns: u64,
    /// Work done at the last sample.
    seen: Work,
}

impl Series {
    fn new(origin_ns: u64, step_ns: u64) -> Self {
        Self { step_ns, next_ns: origin_ns.saturating_add(step_ns), seen: Work::default() }
    }

    /// Returns the work since the last sample.
    fn take_sample(&mut self, done: Work, at_ns: u64) -> IntervalSample {
        let ops = done.ops - self.seen.ops;
        let bytes = done.bytes - self.seen.bytes;
        self.seen = done;
        IntervalSample { at_ns, ops, bytes }
    }

    /// Sets the time of the next sample to the next regular one in the future. Missed samples are
    /// skipped, so that a late watcher doesn't produce a burst of them.
    fn advance(&mut self, now_ns: u64) {
        let steps = (now_ns - self.next_ns) / self.step_ns + 1;
        self.next_ns = self.next_ns.saturating_add(steps.saturating_mul(self.step_ns));
    }
}

/// Detects periods in which workers complete nothing.
struct StallDetector {
    /// Minimum duration of a stall; `None` if stalls aren't looked for.
    least_ns: Option<u64>,
    workers: Vec<LastProgress>,
    current: Option<Stall>,
    found: Stalls,
}

/// The last progress of a worker.
#[derive(Clone, Copy, Default)]
struct LastProgress {
    /// Number of ops it had completed.
    ops: u64,
    /// When the progress was noticed.
    at_ns: u64,
}

impl StallDetector {
    fn new(workers: usize, least_ns: u64) -> Self {
        let least_ns = if least_ns > 0 { Some(least_ns) } else { None };
        let workers = vec![LastProgress::default(); workers];
        Self { least_ns, workers, current: None, found: Stalls::default() }
    }

    fn reset(&mut self, at_ns: u64) {
        for last in &mut self.workers {
            last.at_ns = at_ns;
        }
    }

    fn update(&mut self, progress: &[Progress], at_ns: u64) {
        let Some(least_ns) = self.least_ns else { return };
        let mut standing = 0;
        let mut since_ns = at_ns;
        for (progress, last) in progress.iter().zip(&mut self.workers) {
            let ops = progress.ops.load(Relaxed);
            // An idle worker isn't waiting for a completion, so it cannot stall.
            if ops != last.ops || progress.idle.load(Relaxed) {
                *last = LastProgress { ops, at_ns };
            } else if at_ns - last.at_ns >= least_ns {
                standing += 1;
                since_ns = since_ns.min(last.at_ns);
            }
        }
        if standing == 0 {
            self.close_stall();
            return;
        }
        // Workers that stall at the same time count as one stall, starting with the first of them.
        let stall = self.current.get_or_insert(Stall { at_ns: since_ns, ..Stall::default() });
        stall.at_ns = stall.at_ns.min(since_ns);
        stall.lasts_ns = at_ns - stall.at_ns;
        stall.workers = stall.workers.max(standing);
    }

    fn close_stall(&mut self) {
        if let Some(stall) = self.current.take() {
            self.found.add(stall);
        }
    }

    fn end(mut self) -> Option<Stalls> {
        self.close_stall();
        if self.least_ns.is_some() { Some(self.found) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn standing(workers: usize) -> (StallDetector, Vec<Progress>) {
        let progress = (0..workers).map(|_| Progress::default()).collect();
        (StallDetector::new(workers, 1_000 * MS), progress)
    }

    #[test]
    fn detects_stalled_worker() {
        let (mut standing, progress) = standing(2);
        for tick in 1..=40_u64 {
            progress[0].ops.store(tick, Relaxed);
            // The other one last made progress at 0.5 s, and again at 3 s.
            progress[1].ops.store(if tick < 30 { tick.min(5) } else { tick }, Relaxed);
            standing.update(&progress, tick * 100 * MS);
        }
        let longest = Stall { at_ns: 500 * MS, lasts_ns: 2_400 * MS, workers: 1 };
        assert_eq!(standing.end(), Some(Stalls { count: 1, longest }));
    }

    #[test]
    fn merges_overlapping_stalls() {
        let (mut standing, progress) = standing(2);
        for tick in 1..=50_u64 {
            progress[0].ops.store(tick.min(10), Relaxed);
            progress[1].ops.store(tick.min(20), Relaxed);
            standing.update(&progress, tick * 100 * MS);
        }
        let longest = Stall { at_ns: 1_000 * MS, lasts_ns: 4_000 * MS, workers: 2 };
        assert_eq!(standing.end(), Some(Stalls { count: 1, longest }));
    }

    #[test]
    fn ignores_idle_and_late_workers() {
        let (mut standing, progress) = standing(1);
        progress[0].idle.store(true, Relaxed);
        for tick in 1..=30 {
            standing.update(&progress, tick * 100 * MS);
        }
        progress[0].idle.store(false, Relaxed);
        progress[0].ops.store(1, Relaxed);
        standing.update(&progress, 9_000 * MS);
        progress[0].ops.store(2, Relaxed);
        standing.update(&progress, 15_000 * MS);
        assert_eq!(standing.end(), Some(Stalls::default()));
        assert_eq!(StallDetector::new(1, 0).end(), None);
    }

    #[test]
    fn keeps_step_after_delay() {
        for (now_ns, next_ns) in [(100, 200), (199, 200), (450, 500)] {
            let mut series = Series::new(0, 100);
            series.advance(now_ns);
            assert_eq!(series.next_ns, next_ns);
        }
    }
}
