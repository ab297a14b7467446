//! What a disturbance did to the load: when it was noticed, and how long it held up.
//!
//! Principal type: [`Effect`], found in the intervals of the segment in which it was injected.

use model::soak::FaultKind;
use model::{CaveatCode, FaultEvent, IntervalStats, Pass, PassResult, Soak, Trial};

use super::find_pass;
use crate::median;

/// A disturbance is over once so much of the throughput before is back.
const RECOVERED_SHARE: f64 = 0.9;
/// An interval with less than this share of the throughput before it is disturbed: arrivals at
/// random vary by a tenth or two, never by half.
const HELD_UP_SHARE: f64 = 0.5;
/// An interval is disturbed, too, in which an op took this many times as long as the longest
/// usually did.
const LATE_TIMES: f64 = 10.0;
/// Intervals before a disturbance without which it is unknown what is usual.
const BEFORE_MIN: usize = 5;
/// A disturbance explains nothing that begins later than this after it is over, in nanoseconds.
const NOTICED_WITHIN_NS: u64 = 1_000_000_000;
/// Intervals in a row that have to be as before.
const RECOVERED_INTERVALS: usize = 2;

/// The effect of a disturbance on the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The disturbance; its instants are from the start of the segment.
    pub event: FaultEvent,
    /// Its segment, from 0.
    pub segment: u64,
    /// When it began, in nanoseconds of measured time from the start of the soak.
    pub begun_ns: u64,
    /// Throughput before, in ops per second: the median of the intervals; `None` where there are
    /// too few.
    pub before_per_s: Option<f64>,
    /// How long until the first interval ended in which ops failed, were late, or were few, in
    /// nanoseconds; `None` where there was none.
    pub detect_ns: Option<u64>,
    /// The longest time in which no op ended, in nanoseconds, in whole intervals.
    pub stall_ns: u64,
    /// How long until the throughput was back, in nanoseconds; `None` where it was not before the
    /// segment ended, or it is unknown what it was.
    pub recover_ns: Option<u64>,
    /// Ops that failed from its begin until it was over.
    pub errors: u64,
    /// The longest that an op took meanwhile, in nanoseconds.
    pub longest_ns: u64,
    /// Blocks that were acknowledged and not safe when it began.
    pub uncommitted: u64,
    /// How far a clock was set forward, in milliseconds; 0 where that was not what was done.
    pub by_ms: i64,
    /// Says whether a host saw its clock step while it worked.
    pub saw_step: bool,
    /// How long until an agent that was killed was seen to be gone, in nanoseconds.
    pub noticed_ns: Option<u64>,
    /// Reads of another agent in the place of one that was killed, of what that one had written.
    pub read_back_ops: Option<u64>,
    /// Length of an interval, in nanoseconds: no instant is known better.
    pub interval_ns: u64,
}

/// A segment, and when it began within the soak.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) start_ns: u64,
}

impl Effect {
    /// Adds what a segment says of the host that was disturbed.
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

    /// Returns when it was undone, in nanoseconds of measured time from the start of the soak.
    pub fn ended_ns(&self) -> Option<u64> {
        let since_begun_ns = self.event.ended_ns?.saturating_sub(self.event.begun_ns);
        Some(self.begun_ns.saturating_add(since_begun_ns))
    }

    /// Finds out what a disturbance did until the next one began.
    pub(super) fn of(
        event: &FaultEvent,
        samples: &[IntervalStats],
        segment: Segment,
        until_ns: u64,
    ) -> Self {
        let intervals = Intervals { samples };
        let interval_ns = samples.first().map_or(0, |first| first.at_ns);
        // Intervals are in the order of time: those before the disturbance come first.
        let count_before =
            samples.iter().take_while(|sample| sample.at_ns <= event.begun_ns).count();
        let usual = Usual::of(&intervals, count_before);
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

    /// Adds when the disturbance was noticed, how long it held up, and when all was as before;
    /// `after` are the intervals that followed it.
    fn add_aftermath(&mut self, intervals: &Intervals<'_>, usual: &Usual, after: &[usize]) {
        let begun_ns = self.event.begun_ns;
        let over_ns = self.event.ended_ns.unwrap_or(begun_ns).saturating_add(NOTICED_WITHIN_NS);
        let is_disturbed = |index: &usize| usual.is_disturbed(intervals, *index);
        let Some(first) = after.iter().position(is_disturbed) else { return };
        if intervals.begins_ns(after[first]) > over_ns {
            return;
        }
        let disturbed = &after[first..];
        self.detect_ns = Some(intervals.samples[disturbed[0]].at_ns.saturating_sub(begun_ns));
        // One good interval may be what a stalled server hands out at once: more must follow.
        let mut runs = disturbed.windows(RECOVERED_INTERVALS);
        let back = runs.position(|run| run.iter().all(|index| usual.is_back(intervals, *index)));
        if let Some(at) = back {
            self.recover_ns = Some(intervals.begins_ns(disturbed[at]).saturating_sub(begun_ns));
        }
        // The first interval that is as before may still end what was held up.
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

/// The intervals of a pass, by their numbers.
struct Intervals<'a> {
    samples: &'a [IntervalStats],
}

impl Intervals<'_> {
    /// Returns the instant at which an interval begins: where the one before it ends.
    fn begins_ns(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.samples[index - 1].at_ns }
    }

    /// Returns how long it is, at least 1 ns.
    fn length_ns(&self, index: usize) -> u64 {
        self.samples[index].at_ns.saturating_sub(self.begins_ns(index)).max(1)
    }

    fn per_s(&self, index: usize) -> f64 {
        self.samples[index].ops as f64 * 1e9 / self.length_ns(index) as f64
    }
}

/// The usual figures before a disturbance; `None` where too few intervals were seen.
struct Usual {
    per_s: Option<f64>,
    /// The longest op of an interval, in nanoseconds.
    longest_ns: Option<f64>,
}

impl Usual {
    /// Takes the medians over the first `count` intervals.
    fn of(intervals: &Intervals<'_>, count: usize) -> Self {
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

    /// Says whether an interval is as good as before.
    fn is_back(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let Some(before) = self.per_s else { return false };
        intervals.samples[index].errors == 0 && intervals.per_s(index) >= before * RECOVERED_SHARE
    }

    /// Says whether an interval has errors, no ops, far fewer than before, or a very late one.
    fn is_disturbed(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let sample = &intervals.samples[index];
        let is_few =
            self.per_s.is_some_and(|before| intervals.per_s(index) < before * HELD_UP_SHARE);
        let is_late =
            self.longest_ns.is_some_and(|usual| sample.max_ns as f64 > usual * LATE_TIMES);
        // Without usual figures only what is wrong in itself counts.
        sample.errors > 0 || sample.ops == 0 || is_few || is_late
    }
}
