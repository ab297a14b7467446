//! The watcher of a pass: interval samples, stalls and processor time, seen while workers work.
//!
//! [`Watch`] reads the counters that workers store anyway, some ten times a second, so that nothing
//! it finds costs the measured loop anything. All its instants count from where the pass begins to
//! count. The length of a stall is a lower bound: a tick that comes late makes none.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::{IntervalSample, IntervalStats, RunSpec, Stall, Stalls, TimelinePoint, Work};

use crate::clock::Clock;
use crate::intervals::IntervalWatch;
use crate::limits::WATCH_TICK;
use crate::stop::Stop;
use crate::timeline::Timeline;
use crate::worker::Progress;

const TICK_NS: u64 = WATCH_TICK.as_nanos() as u64;

/// The observers that the caller lends to a pass.
pub struct Monitor<'a> {
    /// Set to make the pass stop.
    pub stop: &'a Stop,
    /// Called once all backends are open, right before the start: for counts of what follows.
    pub opened: &'a dyn Fn(),
    /// Says after that when to start, by the target's clock; a past instant is at once, and `None`
    /// not at all.
    pub gate: &'a mut dyn FnMut() -> Option<u64>,
    /// Receives what was done since the last time, some ten times a second.
    pub observe: &'a mut dyn FnMut(IntervalSample),
    /// Reads the processor time of the client, all its threads together.
    pub client_cpu_ns: &'a dyn Fn() -> u64,
}

/// Watches the workers of one pass.
pub struct Watch<'a> {
    clock: &'a dyn Clock,
    progress: &'a [Progress],
    /// The instant from which on ops count.
    origin_ns: u64,
    /// Live progress, at a fixed step.
    live: Series,
    /// Samples that are kept, at the step of the plan.
    kept: Series,
    samples: Vec<IntervalSample>,
    standing: Standing,
    /// Progress curve; only where other hosts work at the same moment.
    timeline: Option<Timeline>,
    /// Interval statistics of the workers of a soak.
    intervals: Option<IntervalWatch>,
    /// Processor time when the pass began to count; `None` until then.
    cpu_before_ns: Option<u64>,
}

/// The observations of a pass.
pub struct Watched {
    /// Work in each interval.
    pub samples: Vec<IntervalSample>,
    /// Times without a completion; `None` where they were not looked for.
    pub stalls: Option<Stalls>,
    /// Processor time of the client while the pass counted.
    pub client_cpu_ns: u64,
    /// Progress curve, where that is followed.
    pub timeline: Vec<TimelinePoint>,
    /// Statistics of each interval of a soak.
    pub intervals: Vec<IntervalStats>,
}

impl<'a> Watch<'a> {
    /// Begins to watch a pass whose workers start at `begun_ns`, now or later.
    pub fn new(
        clock: &'a dyn Clock,
        progress: &'a [Progress],
        spec: &RunSpec,
        begun_ns: u64,
        monitor: &Monitor<'_>,
    ) -> Self {
        let origin_ns = begun_ns.saturating_add(spec.warmup_ns());
        let at_once = clock.now_ns() >= origin_ns;
        Self {
            clock,
            progress,
            origin_ns,
            live: Series::new(origin_ns, TICK_NS),
            kept: Series::new(origin_ns, spec.sampling.interval_ns().max(TICK_NS)),
            samples: Vec::new(),
            standing: Standing::new(progress.len(), spec.sampling.stall_ns()),
            timeline: None,
            intervals: None,
            // Two clocks make this figure; in a very short pass their difference may run backwards.
            cpu_before_ns: if at_once { Some((monitor.client_cpu_ns)()) } else { None },
        }
    }

    /// Records the progress curve of the pass, too.
    #[must_use]
    pub fn with_timeline(mut self) -> Self {
        self.timeline = Some(Timeline::new(self.origin_ns));
        self
    }

    /// Keeps interval statistics, too.
    #[must_use]
    pub fn with_intervals(mut self, intervals: IntervalWatch) -> Self {
        self.intervals = Some(intervals);
        self
    }

    /// Returns how long to wait before the next [`Self::check`].
    pub fn until_next(&self) -> Duration {
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

    /// Reads the counters, and closes the intervals that are over.
    pub fn check(&mut self, monitor: &mut Monitor<'_>) {
        let now_ns = self.clock.now_ns();
        if now_ns < self.origin_ns {
            return;
        }
        if self.cpu_before_ns.is_none() {
            self.cpu_before_ns = Some((monitor.client_cpu_ns)());
            // The warm-up is over: a worker that stood still in it has not stalled yet.
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

    /// Ends watching, with the last interval however short it is.
    pub fn end(mut self, monitor: &mut Monitor<'_>) -> Watched {
        let at_ns = self.clock.now_ns().saturating_sub(self.origin_ns);
        self.close_interval(at_ns);
        (monitor.observe)(self.live.take_sample(sum_work(self.progress), at_ns));
        let client_cpu_ns = match self.cpu_before_ns {
            Some(before_ns) => (monitor.client_cpu_ns)().saturating_sub(before_ns),
            None => 0,
        };
        Watched {
            samples: self.samples,
            stalls: self.standing.end(),
            client_cpu_ns,
            timeline: self.timeline.map(Timeline::finish).unwrap_or_default(),
            intervals: self.intervals.map(IntervalWatch::finish).unwrap_or_default(),
        }
    }

    fn close_interval(&mut self, at_ns: u64) {
        let taken = self.kept.take_sample(sum_work(self.progress), at_ns);
        self.samples.push(taken);
        if let Some(intervals) = &mut self.intervals {
            intervals.close_interval(at_ns);
        }
    }
}

/// Sums up what all workers have done so far.
fn sum_work(progress: &[Progress]) -> Work {
    let mut sum = Work::default();
    for worker in progress {
        sum.ops += worker.ops.load(Relaxed);
        sum.bytes += worker.bytes.load(Relaxed);
    }
    sum
}

/// Samples of the workers' counters at a regular step.
///
/// Each series has a last reading of its own, so that none takes work from another.
struct Series {
    step_ns: u64,
    /// The instant of the next sample.
    next_ns: u64,
    /// Work at the last sample.
    seen: Work,
}

impl Series {
    fn new(origin_ns: u64, step_ns: u64) -> Self {
        Self { step_ns, next_ns: origin_ns.saturating_add(step_ns), seen: Work::default() }
    }

    /// Returns the work since the last sample.
    fn take_sample(&mut self, done: Work, at_ns: u64) -> IntervalSample {
        let (ops, bytes) = (done.ops - self.seen.ops, done.bytes - self.seen.bytes);
        self.seen = done;
        IntervalSample { at_ns, ops, bytes }
    }

    /// Sets the next sample to the first regular instant that lies ahead; missed ones are left out,
    /// so that a late watcher doesn't make up for them in a burst.
    fn advance(&mut self, now_ns: u64) {
        let steps = (now_ns - self.next_ns) / self.step_ns + 1;
        self.next_ns = self.next_ns.saturating_add(steps.saturating_mul(self.step_ns));
    }
}

/// Finds the times in which workers end nothing.
struct Standing {
    /// The least length of a stall; `None` where stalls are not looked for.
    least_ns: Option<u64>,
    workers: Vec<LastProgress>,
    current: Option<Stall>,
    found: Stalls,
}

/// The last progress of a worker.
#[derive(Clone, Copy, Default)]
struct LastProgress {
    /// Ops that it had ended by then.
    ops: u64,
    /// The instant at which it was seen to move.
    at_ns: u64,
}

impl Standing {
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
        let (mut standing, mut since_ns) = (0, at_ns);
        for (progress, last) in progress.iter().zip(&mut self.workers) {
            let ops = progress.ops.load(Relaxed);
            // An idle worker waits for no completion, so it can't stall.
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
        // Workers that stand still at the same time are one stall, from the first of them on.
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

    fn standing(workers: usize) -> (Standing, Vec<Progress>) {
        let progress = (0..workers).map(|_| Progress::default()).collect();
        (Standing::new(workers, 1_000 * MS), progress)
    }

    #[test]
    fn a_worker_that_ends_nothing_for_long_stalls_until_it_ends_something() {
        let (mut standing, progress) = standing(2);
        for tick in 1..=40_u64 {
            progress[0].ops.store(tick, Relaxed);
            // The other one is last seen to move at 0.5 s, and again at 3 s.
            progress[1].ops.store(if tick < 30 { tick.min(5) } else { tick }, Relaxed);
            standing.update(&progress, tick * 100 * MS);
        }
        let longest = Stall { at_ns: 500 * MS, lasts_ns: 2_400 * MS, workers: 1 };
        assert_eq!(standing.end(), Some(Stalls { count: 1, longest }));
    }

    #[test]
    fn stalls_that_overlap_are_one_and_the_last_may_be_open() {
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
    fn workers_without_work_or_seen_late_do_not_stall() {
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
        assert_eq!(Standing::new(1, 0).end(), None);
    }

    #[test]
    fn a_series_goes_on_in_step_after_a_delay() {
        for (now_ns, next_ns) in [(100, 200), (199, 200), (450, 500)] {
            let mut series = Series::new(0, 100);
            series.advance(now_ns);
            assert_eq!(series.next_ns, next_ns);
        }
    }
}
