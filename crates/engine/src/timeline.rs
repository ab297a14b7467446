//! One host's progress over time, to be combined with that of other hosts.
//!
//! A [`Timeline`] has at most [`TIMELINE_POINTS_MAX`] points at roughly equal intervals. When it is
//! full, every second point is dropped and the interval is doubled. This way, passes of any length
//! fit, and short ones are recorded in detail. All memory is allocated before the start.

use model::{TimelinePoint, Work};

use crate::limits::{TIMELINE_POINTS_MAX, TIMELINE_STEP_NS};

/// The points of one pass.
pub(crate) struct Timeline {
    points: Vec<TimelinePoint>,
    step_ns: u64,
    /// Time of the next point.
    next_ns: u64,
}

impl Timeline {
    /// Creates a timeline that begins when ops start to count.
    pub(crate) fn new(origin_ns: u64) -> Self {
        let next_ns = origin_ns.saturating_add(TIMELINE_STEP_NS);
        Self { points: Vec::with_capacity(TIMELINE_POINTS_MAX), step_ns: TIMELINE_STEP_NS, next_ns }
    }

    /// Returns the time of the next point.
    pub(crate) const fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Adds a point with the work done so far, if it is time for one.
    pub(crate) fn record(&mut self, at_ns: u64, done: impl FnOnce() -> Work) {
        if at_ns < self.next_ns {
            return;
        }
        if self.points.len() == TIMELINE_POINTS_MAX {
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                !odd
            });
            self.step_ns *= 2;
        }
        self.points.push(TimelinePoint { at_ns, done: done() });
        self.next_ns = at_ns.saturating_add(self.step_ns);
    }

    pub(crate) fn finish(self) -> Vec<TimelinePoint> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_points_of_long_pass() {
        let mut timeline = Timeline::new(1_000);
        let memory = timeline.points.capacity();
        let mut at_ns = 0;
        while at_ns < 60_000_000_000 {
            at_ns = timeline.next_ns();
            timeline.record(at_ns, || Work { ops: at_ns - 1_000, bytes: 0 });
        }
        assert_eq!(timeline.points.capacity(), memory);
        let points = timeline.finish();
        assert!((TIMELINE_POINTS_MAX / 2..=TIMELINE_POINTS_MAX).contains(&points.len()));
        assert!(points.is_sorted_by_key(|point| point.at_ns));
        assert!(points.iter().all(|point| point.done.ops + 1_000 == point.at_ns));
        let steps = points.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
        assert!(steps.max().unwrap() <= 640_000_000);
    }

    #[test]
    fn records_nothing_before_first_step() {
        let mut timeline = Timeline::new(0);
        timeline.record(TIMELINE_STEP_NS - 1, || panic!("too early"));
        timeline.record(TIMELINE_STEP_NS, Work::default);
        assert_eq!(timeline.next_ns(), 2 * TIMELINE_STEP_NS);
    }
}
