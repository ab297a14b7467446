//! Effect of a fault on the load: when it was noticed, and how long it lasted.
//!
//! An [`Effect`] is derived from the intervals of the segment in which the fault was injected.

use model::soak::FaultKind;
use model::{CaveatCode, FaultEvent, IntervalStats, Pass, PassResult, Soak, Trial};

use super::find_pass;
use crate::median;

/// Share of the previous throughput from which on the load has recovered.
const RECOVERED_SHARE: f64 = 0.9;
/// Share of the previous throughput below which an interval is disturbed. Random arrivals vary by
/// 10 or 20 %, but never by half.
const HELD_UP_SHARE: f64 = 0.5;
/// An interval is also disturbed if an op took this many times as long as the longest op usually
/// does.
const LATE_TIMES: f64 = 10.0;
/// Minimum number of intervals before a fault to know what is usual.
const BEFORE_MIN: usize = 5;
/// A fault doesn't explain anything that begins later than this after its end, in nanoseconds.
const NOTICED_WITHIN_NS: u64 = 1_000_000_000;
/// Number of consecutive good intervals for recovery.
const RECOVERED_INTERVALS: usize = 2;

/// Effect of a fault on the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The fault; its times are relative to the start of the segment.
    pub event: FaultEvent,
    /// Number of the segment, from 0.
    pub segment: u64,
    /// When it began, in nanoseconds of measured time from the start of the soak.
    pub begun_ns: u64,
    /// Previous throughput in ops per second, as the median over the intervals; `None` if there are
    /// too few.
    pub before_per_s: Option<f64>,
    /// Time until the end of the first interval with failed, late or few ops, in nanoseconds;
    /// `None` if there was none.
    pub detect_ns: Option<u64>,
    /// The longest time without a completed op, in nanoseconds, in whole intervals.
    pub stall_ns: u64,
    /// Time until the throughput had recovered, in nanoseconds; `None` if it did not within the
    /// segment, or the previous throughput is unknown.
    pub recover_ns: Option<u64>,
    /// Ops that failed from the start of the fault until recovery.
    pub errors: u64,
    /// The longest op in this time, in nanoseconds.
    pub longest_ns: u64,
    /// Blocks that were acknowledged but not durable when it began.
    pub uncommitted: u64,
    /// Offset of a clock step in milliseconds; 0 for other faults.
    pub by_ms: i64,
    /// A host noticed its clock step while it was working.
    pub saw_step: bool,
    /// Time until a killed agent was noticed, in nanoseconds.
    pub noticed_ns: Option<u64>,
    /// Reads by the replacement of a killed agent, of what that agent had written.
    pub read_back_ops: Option<u64>,
    /// Length of an interval in nanoseconds, which is the resolution of all times.
    pub interval_ns: u64,
}

/// A segment and its start within the soak.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) start_ns: u64,
}

impl Effect {
    /// Adds what a segment contains about the affected host.
    pub(super) fn add_host(mut self, soak: &Soak, load: &PassResult, trial: &Trial) -> Self {
        let event = &self.event;
        for (at_ns, disturbance) in soak.within(self.segment) {
            if (at_ns, disturbance.fault) == (event.planned_ns, event.fault) {
                self.by_ms = disturbance.by_ms;
                break;
            }
        }
        let saw_step = load.caveats.iter().any(|caveat| caveat.code == CaveatCode::Clock);
        self.saw_step = self.by_ms != 0 && saw_step;
        if event.fault != FaultKind::ClientKill {
            return self;
        }
        if let (Some(ended_ns), None) = (event.ended_ns, &event.failed) {
            self.noticed_ns = Some(ended_ns.saturating_sub(event.begun_ns));
        }
        if let Some(read) = find_pass(trial, Pass::Read) {
            let own = read.hosts.iter().find(|host| host.host == event.host);
            self.read_back_ops = own.map(|host| host.ops);
        }
        self
    }

    /// Returns when it was reverted, in nanoseconds of measured time from the start of the soak.
    pub fn ended_ns(&self) -> Option<u64> {
        let since_begun_ns = self.event.ended_ns?.saturating_sub(self.event.begun_ns);
        Some(self.begun_ns.saturating_add(since_begun_ns))
    }

    /// Determines the effect of a fault until the next one began.
    pub(super) fn from_intervals(
        event: &FaultEvent,
        samples: &[IntervalStats],
        segment: Segment,
        until_ns: u64,
    ) -> Self {
        let intervals = Intervals { samples };
        let interval_ns = samples.first().map_or(0, |first| first.at_ns);
        // Intervals are in order of time, so those before the fault come first.
        let count_before =
            samples.iter().take_while(|sample| sample.at_ns <= event.begun_ns).count();
        let usual = UsualValues::from_intervals(&intervals, count_before);
        let mut effect = Self {
            event: event.clone(),
            segment: segment.number,
            begun_ns: segment.start_ns.saturating_add(event.begun_ns),
            before_per_s: usual.per_s,
            detect_ns: None,
            stall_ns: 0,
            recover_ns: None,
            errors: 0,
            longest_ns: 0,
            uncommitted: samples[..count_before].last().map_or(0, |last| last.uncommitted),
            by_ms: 0,
            saw_step: false,
            noticed_ns: None,
            read_back_ops: None,
            interval_ns,
        };
        if event.failed.is_some() {
            return effect;
        }
        let mut after = Vec::new();
        for index in count_before..samples.len() {
            // The remainder at the end of a segment may be too short for a rate.
            let is_long = intervals.length_ns(index) >= interval_ns / 2;
            if is_long && intervals.begins_ns(index) < until_ns {
                after.push(index);
            }
        }
        effect.add_aftermath(&intervals, &usual, &after);
        effect
    }

    /// Adds when the fault was noticed, how long it lasted, and when the load had recovered.
    /// `after` contains the intervals after the fault.
    fn add_aftermath(&mut self, intervals: &Intervals<'_>, usual: &UsualValues, after: &[usize]) {
        let begun_ns = self.event.begun_ns;
        let over_ns = self.event.ended_ns.unwrap_or(begun_ns).saturating_add(NOTICED_WITHIN_NS);
        let is_disturbed = |index: &usize| usual.is_disturbed(intervals, *index);
        let Some(first) = after.iter().position(is_disturbed) else { return };
        if intervals.begins_ns(after[first]) > over_ns {
            return;
        }
        let disturbed = &after[first..];
        self.detect_ns = Some(intervals.samples[disturbed[0]].at_ns.saturating_sub(begun_ns));
        // A single good interval may be a backlog that a stalled server completes at once, so more
        // must follow.
        let mut runs = disturbed.windows(RECOVERED_INTERVALS);
        let back = runs.position(|run| run.iter().all(|index| usual.is_back(intervals, *index)));
        if let Some(at) = back {
            self.recover_ns = Some(intervals.begins_ns(disturbed[at]).saturating_sub(begun_ns));
        }
        // The first good interval may still complete delayed ops.
        let held_up = &disturbed[..back.map_or(disturbed.len(), |at| at + 1)];
        let mut stands_ns = 0;
        for index in held_up {
            let sample = &intervals.samples[*index];
            stands_ns = if sample.ops == 0 { stands_ns + intervals.length_ns(*index) } else { 0 };
            self.stall_ns = self.stall_ns.max(stands_ns);
            self.errors += sample.errors;
            self.longest_ns = self.longest_ns.max(sample.max_ns);
        }
    }
}

/// The intervals of a pass by number.
struct Intervals<'a> {
    samples: &'a [IntervalStats],
}

impl Intervals<'_> {
    /// Returns when an interval begins, which is the end of the previous one.
    fn begins_ns(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.samples[index - 1].at_ns }
    }

    /// Returns the length of an interval, at least 1 ns.
    fn length_ns(&self, index: usize) -> u64 {
        self.samples[index].at_ns.saturating_sub(self.begins_ns(index)).max(1)
    }

    fn per_s(&self, index: usize) -> f64 {
        self.samples[index].ops as f64 * 1e9 / self.length_ns(index) as f64
    }
}

/// Usual values before a fault; `None` if there are too few intervals.
struct UsualValues {
    per_s: Option<f64>,
    /// The longest op of an interval, in nanoseconds.
    longest_ns: Option<f64>,
}

impl UsualValues {
    /// Takes the medians over the first `count` intervals.
    fn from_intervals(intervals: &Intervals<'_>, count: usize) -> Self {
        if count < BEFORE_MIN {
            return Self { per_s: None, longest_ns: None };
        }
        let mut rates = Vec::with_capacity(count);
        let mut longest = Vec::with_capacity(count);
        for (index, sample) in intervals.samples[..count].iter().enumerate() {
            rates.push(intervals.per_s(index));
            longest.push(sample.max_ns as f64);
        }
        Self { per_s: median(&rates), longest_ns: median(&longest) }
    }

    /// Returns true if an interval is as good as before the fault.
    fn is_back(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let Some(before) = self.per_s else { return false };
        intervals.samples[index].errors == 0 && intervals.per_s(index) >= before * RECOVERED_SHARE
    }

    /// Returns true if an interval has errors, no ops, far fewer than before, or a very late one.
    fn is_disturbed(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let sample = &intervals.samples[index];
        let is_few =
            self.per_s.is_some_and(|before| intervals.per_s(index) < before * HELD_UP_SHARE);
        let is_late =
            self.longest_ns.is_some_and(|usual| sample.max_ns as f64 > usual * LATE_TIMES);
        // Without usual values, only absolute problems count.
        sample.errors > 0 || sample.ops == 0 || is_few || is_late
    }
}
