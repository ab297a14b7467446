//! Compares the clocks of other hosts with this one's.
//!
//! A host's clock is read several times, and the answer with the shortest round trip counts: its
//! clock was read somewhere within, so the middle is wrong by half of it at most. An answer that
//! took about as little as ever is enough. Two such samples give the rate of its clock. Pure:
//! clocks are read elsewhere.
//!
//! **Source:** RFC 5905, section 8 (offset and delay), and its clock filter.

use std::ops::Range;

use fleet::ClockReading;
use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, Fact};

/// The most exchanges with a host for one sample.
pub const EXCHANGES: u32 = 8;

/// How much longer than the shortest so far a round trip may take that is good enough, in percent.
const ENOUGH_PERCENT: u64 = 125;

/// A sample is fresh for so long, in nanoseconds: a clock that runs 100 millionths fast is off by
/// 50 us then.
pub(crate) const FRESH_NS: u64 = 500_000_000;

/// How far the rate of a clock may be off before it is a caveat, in millionths.
const RATE_OFF_MAX: u64 = 10_000;

/// One reading of a host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// This host's clock, half way through.
    here_ns: u64,
    /// Reading of its clock.
    there_ns: u64,
    /// How far its wall clock is ahead of this host's.
    ahead_ns: i64,
    /// The error bound of the other fields.
    pub error_ns: u64,
}

impl Sample {
    /// Makes a sample of an answer that was received between two instants.
    pub fn of(sent: ClockReading, there: ClockReading, received: ClockReading) -> Self {
        // The reading was made between both instants. The middle is the best guess, and wrong by
        // half of the round trip where one direction took all of it.
        let half_ns = received.mono_ns.saturating_sub(sent.mono_ns) / 2;
        let wall_ns = sent.wall_ns.saturating_add(half_ns);
        Self {
            here_ns: sent.mono_ns.saturating_add(half_ns),
            there_ns: there.mono_ns,
            ahead_ns: there.wall_ns.wrapping_sub(wall_ns).cast_signed(),
            error_ns: half_ns,
        }
    }
}

impl Sample {
    /// This host's clock when it was taken.
    pub(crate) const fn taken_ns(&self) -> u64 {
        self.here_ns
    }

    /// An instant of this host's clock by the other one, if both run at the same rate.
    pub const fn there_ns(&self, here_ns: u64) -> u64 {
        self.there_ns.wrapping_add(here_ns.wrapping_sub(self.here_ns))
    }
}

/// The exchanges with one host that make a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchanges {
    best: Option<Sample>,
    made: u32,
    /// How wrong the best sample of this host was so far.
    least_ns: Option<u64>,
}

impl Exchanges {
    /// None yet, with a host of which that is known.
    pub(crate) fn with(drift: Option<&Drift>) -> Self {
        Self { least_ns: drift.map(|drift| drift.least_ns), ..Self::default() }
    }

    /// Adds one, and says whether there are enough.
    pub fn add(&mut self, sample: Sample) -> bool {
        self.made += 1;
        if self.best.is_none_or(|best| sample.error_ns < best.error_ns) {
            self.best = Some(sample);
        }
        // One that took about as little as the best ever is as good as this network allows: more
        // exchanges would only delay the start.
        let is_good = match self.least_ns {
            Some(least) => sample.error_ns <= least.saturating_mul(ENOUGH_PERCENT) / 100,
            None => false,
        };
        self.made >= EXCHANGES || is_good
    }

    /// The one that counts.
    pub const fn best(&self) -> Option<Sample> {
        self.best
    }
}

/// Two clocks between a sample that was taken before and one that was taken after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    /// The sample that was taken before.
    pub(crate) before: Sample,
    /// The sample that was taken after.
    pub(crate) after: Sample,
}

impl Mapping {
    /// An instant of the other clock by this host's.
    pub(crate) fn here_ns(&self, there_ns: u64) -> u64 {
        let Self { before, after } = self;
        along(there_ns, before.there_ns..after.there_ns, before.here_ns..after.here_ns)
    }

    /// An instant of this host's clock by the other one.
    pub(crate) fn there_ns(&self, here_ns: u64) -> u64 {
        let Self { before, after } = self;
        along(here_ns, before.here_ns..after.here_ns, before.there_ns..after.there_ns)
    }

    /// How wrong both may be between the two samples.
    pub(crate) fn error_ns(&self) -> u64 {
        self.before.error_ns.max(self.after.error_ns)
    }
}

/// Returns the instant that lies in `other` as `at` lies in `span`, or before or after it. Where no
/// time has passed in one of them, both run at the same rate.
fn along(at: u64, span: Range<u64>, other: Range<u64>) -> u64 {
    let passed = i128::from(at) - i128::from(span.start);
    let step = span.end.saturating_sub(span.start);
    let other_step = other.end.saturating_sub(other.start);
    let other_passed = if step == 0 || other_step == 0 {
        passed
    } else {
        passed.saturating_mul(i128::from(other_step)) / i128::from(step)
    };
    u64::try_from(other_passed.saturating_add(i128::from(other.start))).unwrap_or(0)
}

/// How a clock went between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    first: Sample,
    last: Sample,
    /// How wrong the best sample was.
    least_ns: u64,
}

/// A rate in millionths of this host's, and how wrong that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    millionths: u64,
    error: u64,
}

impl Drift {
    /// Says whether there is a rate already, and none of it is older than that.
    pub(crate) fn is_known_since(&self, oldest_ns: u64) -> bool {
        self.first != self.last && self.last.here_ns > oldest_ns
    }

    /// The latest sample.
    pub(crate) const fn last(&self) -> Sample {
        self.last
    }

    /// At the first sample.
    pub const fn begin(sample: Sample) -> Self {
        Self { first: sample, last: sample, least_ns: sample.error_ns }
    }

    /// At a later one.
    pub const fn go_on(&mut self, sample: Sample) {
        self.last = sample;
        if sample.error_ns < self.least_ns {
            self.least_ns = sample.error_ns;
        }
    }

    /// `None` where no time has passed.
    fn rate(&self) -> Option<Rate> {
        let here = u128::from(self.last.here_ns.saturating_sub(self.first.here_ns));
        if here == 0 {
            return None;
        }
        let there = u128::from(self.last.there_ns.saturating_sub(self.first.there_ns));
        // Both samples may be wrong, in opposite directions.
        let error = u128::from(self.first.error_ns) + u128::from(self.last.error_ns);
        Some(Rate { millionths: millionths(there, here), error: millionths(error, here) })
    }

    /// Offset and rate, with their error bounds.
    pub fn facts(&self, host: &str) -> Vec<Fact> {
        let Sample { ahead_ns, error_ns, .. } = self.last;
        let word = if ahead_ns < 0 { "behind" } else { "ahead of" };
        let by = Nanos(ahead_ns.unsigned_abs());
        let offset = format!("{by} {word} the controller's, ± {}", Nanos(error_ns));
        let source = format!("up to {EXCHANGES} exchanges, the shortest");
        let mut facts = vec![Fact::new(host, "clock offset", offset, source)];
        if let Some(Rate { millionths, error }) = self.rate() {
            let rate = format!("{} ± {}", decimal(millionths), decimal(error));
            facts.push(Fact::new(host, "clock rate", rate, "against the controller's"));
        }
        facts
    }

    /// A caveat where the clock runs at another rate than this host's, beyond what can be wrong.
    pub fn caveat(&self, host: &str) -> Option<Caveat> {
        let Rate { millionths, error } = self.rate()?;
        let off = millionths.abs_diff(1_000_000);
        // Over a short time the error of the samples alone is a large part of the rate.
        if off <= RATE_OFF_MAX.saturating_add(error) {
            return None;
        }
        let passed = Nanos(self.last.here_ns.saturating_sub(self.first.here_ns));
        let evidence = format!(
            "the clock of host {host} ran at {} ± {} of the controller's over {passed}",
            decimal(millionths),
            decimal(error)
        );
        let limit = RATE_OFF_MAX.saturating_add(error);
        let source = "rate of the host's clock between two samples, off by";
        let data = Evidence::shares(off as f64 / 1e6, limit as f64 / 1e6, source);
        Some(CaveatCode::ClockRate.because(evidence).with_data(data))
    }
}

/// Returns a ratio in millionths.
fn millionths(ns: u128, of_ns: u128) -> u64 {
    u64::try_from(ns * 1_000_000 / of_ns).unwrap_or(u64::MAX)
}

/// Millionths as a decimal number.
fn decimal(millionths: u64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(mono_ns: u64, wall_ns: u64) -> ClockReading {
        ClockReading { mono_ns, wall_ns }
    }

    #[test]
    fn an_instant_of_another_clock_lies_between_the_samples_around_it() {
        // It is 5 s behind and runs a tenth faster.
        let mapping = Mapping {
            before: sample(10_000_000_000, 5_000_000_000),
            after: sample(20_000_000_000, 16_000_000_000),
        };
        assert_eq!(mapping.here_ns(10_500_000_000), 15_000_000_000);
        assert_eq!(mapping.there_ns(15_000_000_000), 10_500_000_000);
        assert_eq!(mapping.error_ns(), 1_000_000);
        // One sample alone knows no rate.
        let once = Mapping { after: mapping.before, ..mapping };
        assert_eq!(once.here_ns(5_000_000_007), 10_000_000_007);
        assert_eq!(mapping.before.there_ns(9_000_000_000), 4_000_000_000);
    }

    /// A sample with a round trip of 2 ms.
    fn sample(here_ns: u64, there_ns: u64) -> Sample {
        let sent = at(here_ns - 1_000_000, 5_000_000_000);
        Sample::of(sent, at(there_ns, 5_003_000_000), at(here_ns + 1_000_000, 0))
    }

    #[test]
    fn the_offset_is_that_of_the_middle_and_wrong_by_half_the_round_trip() {
        let facts = Drift::begin(sample(1_000_000_000, 7)).facts("web");
        // No time has passed, so there is no rate.
        let [offset] = &facts[..] else { panic!("{facts:?}") };
        assert_eq!(offset.value, "2.00 ms ahead of the controller's, ± 1.00 ms");
        let late = Sample::of(at(0, 9_000), at(0, 2_000), at(0, 9_000));
        let facts = Drift::begin(late).facts("web");
        assert_eq!(facts[0].value, "7.00 µs behind the controller's, ± 0 ns");
    }

    #[test]
    fn exchanges_end_when_one_took_about_as_little_as_ever_and_the_shortest_counts() {
        let of = |error_ns| Sample { error_ns, ..sample(1_000_000_000, 7) };
        let mut first = Exchanges::with(None);
        let took: Vec<bool> =
            [9, 5, 7, 5, 6, 8, 9, 9].map(|error_ns| first.add(of(error_ns))).to_vec();
        assert_eq!(took, [[false; 7].as_slice(), &[true]].concat());
        assert_eq!(first.best().unwrap().error_ns, 5);
        let known = Drift::begin(of(100));
        let mut later = Exchanges::with(Some(&known));
        assert!(!later.add(of(400)) && !later.add(of(126)) && later.add(of(125)));
        assert_eq!(later.best().unwrap().error_ns, 125);
    }

    #[test]
    fn a_clock_that_runs_three_times_as_fast_raises_a_caveat() {
        let mut drift = Drift::begin(sample(1_000_000_000, 50_000_000_000));
        assert_eq!(drift.caveat("web"), None);
        drift.go_on(sample(3_000_000_000, 56_000_000_000));
        let caveat = drift.caveat("web").unwrap();
        assert_eq!(caveat.code, CaveatCode::ClockRate);
        let evidence =
            "the clock of host web ran at 3.000000 ± 0.001000 of the controller's over 2.00 s";
        assert_eq!(caveat.evidence, evidence);
        assert_eq!(drift.facts("web")[1].value, "3.000000 ± 0.001000");
    }

    #[test]
    fn a_wall_clock_that_is_set_moves_the_offset_and_neither_rate_nor_instants() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        for by_ns in [HOUR_NS, -HOUR_NS] {
            let before = sample(5_000_000_000, 1_000_000_000);
            let after = sample(7_000_000_000, 3_000_000_000);
            let stepped = Sample { ahead_ns: after.ahead_ns + by_ns, ..after };
            let mut drift = Drift::begin(before);
            drift.go_on(stepped);
            assert_eq!(drift.caveat("web"), None);
            let facts = drift.facts("web");
            let way = if by_ns > 0 { "3600 s ahead of" } else { "3600 s behind" };
            assert_eq!(facts[0].value, format!("{way} the controller's, ± 1.00 ms"));
            assert!(facts[1].value.starts_with("1.000000 "), "{facts:?}");
            let mapping = Mapping { before, after: stepped };
            assert_eq!(mapping.here_ns(2_000_000_000), 6_000_000_000);
        }
    }

    #[test]
    fn what_the_round_trip_explains_is_no_caveat() {
        // 5 % too fast over 20 ms, with 2 ms that may be wrong: 10 %.
        let mut drift = Drift::begin(sample(1_000_000_000, 0));
        drift.go_on(sample(1_020_000_000, 21_000_000));
        assert_eq!(drift.caveat("web"), None);
        // Over 2 s it is one.
        drift.go_on(sample(3_000_000_000, 2_100_000_000));
        assert!(drift.caveat("web").is_some());
        // A clock that stands still or runs backwards is.
        drift.go_on(sample(3_000_000_000, 0));
        assert!(drift.caveat("web").is_some());
    }
}
