//! Compares the clocks of other hosts with the local clock.
//!
//! A host's clock is read several times, and the reading with the shortest round trip counts. The
//! clock was read at some point within the round trip, so the midpoint is wrong by at most half of
//! it. Sampling stops early when a round trip is about as short as the shortest one ever seen. Two
//! samples give the rate of the clock. This module is pure: clocks are read elsewhere.
//!
//! **Source:** RFC 5905, section 8 (offset and delay), and its clock filter.

use std::ops::Range;

use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, Fact};

use crate::ClockReading;

/// Maximum number of exchanges with a host per sample.
pub const EXCHANGES: u32 = 8;

/// A round trip within this percentage of the shortest one so far ends the sampling.
const ENOUGH_PERCENT: u64 = 125;

/// How long a sample stays valid, in nanoseconds. A clock that is 100 ppm fast gains 50 µs in this
/// time.
pub const FRESH_NS: u64 = 500_000_000;

/// Deviation of a clock's rate above which a caveat is raised, in parts per million.
const RATE_OFF_MAX: u64 = 10_000;

/// One reading of a remote host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The local clock in the middle of the exchange.
    here_ns: u64,
    /// The remote clock.
    there_ns: u64,
    /// How far the remote wall clock is ahead of the local one.
    ahead_ns: i64,
    /// Error bound of the other fields.
    pub error_ns: u64,
}

impl Sample {
    /// Creates a sample from an answer that was received between two local readings.
    pub fn new(sent: ClockReading, there: ClockReading, received: ClockReading) -> Self {
        // The remote clock was read between the two instants. The midpoint is the best guess; it is
        // wrong by half of the round trip if one direction took all the time.
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
    /// Returns the local time at which the sample was taken.
    pub const fn taken_ns(&self) -> u64 {
        self.here_ns
    }

    /// Converts a local time to the remote clock, assuming that both run at the same rate.
    pub const fn there_ns(&self, here_ns: u64) -> u64 {
        self.there_ns.wrapping_add(here_ns.wrapping_sub(self.here_ns))
    }
}

/// The exchanges with one host that make up a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchanges {
    best: Option<Sample>,
    made: u32,
    /// Error bound of the best sample of this host so far.
    least_ns: Option<u64>,
}

impl Exchanges {
    /// Starts a sample of a host, using what is known about its round trips.
    pub fn with(drift: Option<&Drift>) -> Self {
        Self { least_ns: drift.map(|drift| drift.least_ns), ..Self::default() }
    }

    /// Adds a sample. Returns true if no more are needed.
    pub fn add(&mut self, sample: Sample) -> bool {
        self.made += 1;
        if self.best.is_none_or(|best| sample.error_ns < best.error_ns) {
            self.best = Some(sample);
        }
        // If the round trip is about as short as the best one ever, the network allows no better,
        // and more exchanges would only delay the start.
        let is_good = self
            .least_ns
            .is_some_and(|least| sample.error_ns <= least.saturating_mul(ENOUGH_PERCENT) / 100);
        self.made >= EXCHANGES || is_good
    }

    /// Returns the sample with the smallest error.
    pub const fn best(&self) -> Option<Sample> {
        self.best
    }
}

/// Maps between two clocks, based on a sample taken before and one taken after the interval.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub before: Sample,
    pub after: Sample,
}

impl Mapping {
    /// Converts a time of the remote clock to the local clock.
    pub fn here_ns(&self, there_ns: u64) -> u64 {
        let Self { before, after } = self;
        map_linearly(there_ns, before.there_ns..after.there_ns, before.here_ns..after.here_ns)
    }

    /// Converts a local time to the remote clock.
    pub fn there_ns(&self, here_ns: u64) -> u64 {
        let Self { before, after } = self;
        map_linearly(here_ns, before.here_ns..after.here_ns, before.there_ns..after.there_ns)
    }

    /// Returns the error bound of both conversions between the two samples.
    pub fn error_ns(&self) -> u64 {
        self.before.error_ns.max(self.after.error_ns)
    }
}

/// Maps `at` linearly from `span` to `other`, extrapolating outside of them. If either is empty,
/// both clocks are assumed to run at the same rate.
fn map_linearly(at: u64, span: Range<u64>, other: Range<u64>) -> u64 {
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

/// How a clock drifts relative to the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    first: Sample,
    last: Sample,
    /// Error bound of the best sample.
    least_ns: u64,
}

/// Rate of a clock relative to the local one, with its error bound, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    millionths: u64,
    error: u64,
}

impl Drift {
    /// Returns true if the rate is known and the last sample is newer than `oldest_ns`.
    pub fn is_known_since(&self, oldest_ns: u64) -> bool {
        self.first != self.last && self.last.here_ns > oldest_ns
    }

    pub const fn last(&self) -> Sample {
        self.last
    }

    /// Starts with the first sample.
    pub const fn begin(sample: Sample) -> Self {
        Self { first: sample, last: sample, least_ns: sample.error_ns }
    }

    /// Adds a later sample.
    pub const fn add_sample(&mut self, sample: Sample) {
        self.last = sample;
        if sample.error_ns < self.least_ns {
            self.least_ns = sample.error_ns;
        }
    }

    /// Returns the rate, or `None` if no time has passed.
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

    /// Returns offset and rate as facts, with their error bounds.
    pub fn facts(&self, host: &str) -> Vec<Fact> {
        let Sample { ahead_ns, error_ns, .. } = self.last;
        let word = if ahead_ns < 0 { "behind" } else { "ahead of" };
        let by = Nanos(ahead_ns.unsigned_abs());
        let offset = format!("{by} {word} the controller's clock, ± {}", Nanos(error_ns));
        let source = format!("shortest of up to {EXCHANGES} exchanges");
        let mut facts = vec![Fact::new(host, "clock offset", offset, source)];
        if let Some(Rate { millionths, error }) = self.rate() {
            let rate = format!("{} ± {}", decimal(millionths), decimal(error));
            facts.push(Fact::new(host, "clock rate", rate, "relative to the controller's clock"));
        }
        facts
    }

    /// Raises a caveat if the clock's rate differs from the local one by more than the error bound.
    pub fn caveat(&self, host: &str) -> Option<Caveat> {
        let Rate { millionths, error } = self.rate()?;
        let off = millionths.abs_diff(1_000_000);
        // Over a short time, the sampling error alone accounts for much of the rate.
        if off <= RATE_OFF_MAX.saturating_add(error) {
            return None;
        }
        let passed = Nanos(self.last.here_ns.saturating_sub(self.first.here_ns));
        let evidence = format!(
            "the clock of host {host} ran at {} ± {} times the rate of the controller's clock, \
             measured over {passed}",
            decimal(millionths),
            decimal(error)
        );
        let limit = RATE_OFF_MAX.saturating_add(error);
        let source = "rate error of the host's clock between two samples";
        let data = Evidence::shares(off as f64 / 1e6, limit as f64 / 1e6, source);
        Some(CaveatCode::ClockRate.because(evidence).with_data(data))
    }
}

/// Returns a ratio in millionths.
fn millionths(ns: u128, of_ns: u128) -> u64 {
    u64::try_from(ns * 1_000_000 / of_ns).unwrap_or(u64::MAX)
}

/// Formats millionths as a decimal number.
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
    fn maps_instant_between_clock_samples() {
        // The remote clock is 5 s behind and runs 10 % faster.
        let mapping = Mapping {
            before: sample(10_000_000_000, 5_000_000_000),
            after: sample(20_000_000_000, 16_000_000_000),
        };
        assert_eq!(mapping.here_ns(10_500_000_000), 15_000_000_000);
        assert_eq!(mapping.there_ns(15_000_000_000), 10_500_000_000);
        assert_eq!(mapping.error_ns(), 1_000_000);
        // A single sample gives no rate.
        let once = Mapping { after: mapping.before, ..mapping };
        assert_eq!(once.here_ns(5_000_000_007), 10_000_000_007);
        assert_eq!(mapping.before.there_ns(9_000_000_000), 4_000_000_000);
    }

    /// Returns a sample with a round trip of 2 ms.
    fn sample(here_ns: u64, there_ns: u64) -> Sample {
        let sent = at(here_ns - 1_000_000, 5_000_000_000);
        Sample::new(sent, at(there_ns, 5_003_000_000), at(here_ns + 1_000_000, 0))
    }

    #[test]
    fn estimates_offset_and_error() {
        let facts = Drift::begin(sample(1_000_000_000, 7)).facts("web");
        // No time has passed, so there is no rate.
        let [offset] = &facts[..] else { panic!("{facts:?}") };
        let late = Sample::new(at(0, 9_000), at(0, 2_000), at(0, 9_000));
        let facts = Drift::begin(late).facts("web");
        insta::assert_snapshot!([&offset.value, &facts[0].value].map(String::as_str).join("\n"), @"
        2.00 ms ahead of the controller's clock, ± 1.00 ms
        7.00 µs behind the controller's clock, ± 0 ns
        ");
    }

    #[test]
    fn keeps_shortest_clock_exchange() {
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
    fn raises_caveat_for_fast_clock() {
        let mut drift = Drift::begin(sample(1_000_000_000, 50_000_000_000));
        assert_eq!(drift.caveat("web"), None);
        drift.add_sample(sample(3_000_000_000, 56_000_000_000));
        let caveat = drift.caveat("web").unwrap();
        assert_eq!(caveat.code, CaveatCode::ClockRate);
        insta::assert_snapshot!(caveat.evidence);
        assert_eq!(drift.facts("web")[1].value, "3.000000 ± 0.001000");
    }

    #[test]
    fn follows_steps_of_wall_clock() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        for by_ns in [HOUR_NS, -HOUR_NS] {
            let before = sample(5_000_000_000, 1_000_000_000);
            let after = sample(7_000_000_000, 3_000_000_000);
            let stepped = Sample { ahead_ns: after.ahead_ns + by_ns, ..after };
            let mut drift = Drift::begin(before);
            drift.add_sample(stepped);
            assert_eq!(drift.caveat("web"), None);
            let facts = drift.facts("web");
            let way = if by_ns > 0 { "3600 s ahead of" } else { "3600 s behind" };
            assert_eq!(facts[0].value, format!("{way} the controller's clock, ± 1.00 ms"));
            assert!(facts[1].value.starts_with("1.000000 "), "{facts:?}");
            let mapping = Mapping { before, after: stepped };
            assert_eq!(mapping.here_ns(2_000_000_000), 6_000_000_000);
        }
    }

    #[test]
    fn tolerates_error_within_round_trip() {
        // 5 % too fast over 20 ms, with an error bound of 2 ms (10 %).
        let mut drift = Drift::begin(sample(1_000_000_000, 0));
        drift.add_sample(sample(1_020_000_000, 21_000_000));
        assert_eq!(drift.caveat("web"), None);
        // Over 2 s, the deviation exceeds the error bound.
        drift.add_sample(sample(3_000_000_000, 2_100_000_000));
        assert!(drift.caveat("web").is_some());
        // A clock that stops or runs backwards raises a caveat, too.
        drift.add_sample(sample(3_000_000_000, 0));
        assert!(drift.caveat("web").is_some());
    }
}
