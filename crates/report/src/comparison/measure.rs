//! The measures compared in a row: its rate, and the response times of its ops.
//!
//! [`Measure`] names it, [`ComparedFigure`] holds it for both sides. A time of a side is the median
//! over its trials of each trial's own quantile, so that trials stay the unit of every statistic.

use model::units::{Nanos, three_digits};
use model::{Pass, PassResult};
use stats::{Comparison, Outcome, Rate, TRIALS_MAX};

use crate::humanize;

/// Above this ratio a change is stated as a multiple, below as a percentage.
const TIMES_MIN: f64 = 2.0;

/// A figure that rows are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes or ops per second.
    Rate,
    /// Median of the response times.
    ResponseP50,
    /// 99th percentile of the response times.
    ResponseP99,
    /// Median of the service times; shown where it differs from the response time, in an open loop.
    ServiceP50,
    /// 99th percentile of the service times.
    ServiceP99,
}

impl Measure {
    /// Every measure, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Rate, Self::ResponseP50, Self::ResponseP99, Self::ServiceP50, Self::ServiceP99];

    /// Names it as tables and options do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::ResponseP50 => "p50",
            Self::ResponseP99 => "p99",
            Self::ServiceP50 => "service-p50",
            Self::ServiceP99 => "service-p99",
        }
    }

    /// Finds a measure of time by its name.
    pub fn time_named(name: &str) -> Option<Self> {
        Self::ALL[1..].iter().copied().find(|measure| measure.name() == name)
    }

    /// Says whether more of it is better.
    pub(super) const fn is_gain(self) -> bool {
        matches!(self, Self::Rate)
    }

    /// The time in a trial, in nanoseconds; `None` for a rate, and where nothing was timed.
    pub(super) fn time_ns(self, result: &PassResult) -> Option<f64> {
        let (times, quantile) = match self {
            Self::Rate => return None,
            Self::ResponseP50 => (result.response_time(), 0.5),
            Self::ResponseP99 => (result.response_time(), 0.99),
            Self::ServiceP50 => (result.service_time(), 0.5),
            Self::ServiceP99 => (result.service_time(), 0.99),
        };
        if times.count() > 0 { Some(times.quantile(quantile) as f64) } else { None }
    }
}

/// A bound that a comparison is held to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The measure of the bound.
    pub measure: Measure,
    /// By how much it may get worse, as a share: 0.05 is 5 %.
    pub share: f64,
}

/// The direction of a certain change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A rate fell, or a time rose.
    Worse,
    /// A rate rose, or a time fell.
    Better,
}

/// One measure of both sides.
#[derive(Clone, Copy, Debug)]
pub struct ComparedFigure {
    /// The measure that was compared.
    pub measure: Measure,
    /// The pass it is of, which decides the unit of a rate.
    pub pass: Pass,
    /// Medians over the trials: bytes or ops per second, or nanoseconds.
    pub medians: [f64; 2],
    /// By how much they differ.
    pub comparison: Comparison,
    /// By how much it may get worse, as a share; `None` where none is set.
    pub bound: Option<f64>,
    /// Only the second side was served from a cache, which may hide a loss.
    pub is_flattered: bool,
}

impl ComparedFigure {
    /// A side's median with its unit.
    pub(crate) fn shown(&self, side: usize) -> String {
        let median = self.medians[side];
        match self.measure {
            // The ratio is one of rates, so this has to be one, too, and not a command's time.
            Measure::Rate if self.pass == Pass::App => Rate::Ops(median).to_string(),
            Measure::Rate => Rate::of_pass(self.pass, median).to_string(),
            _ => Nanos(median.round() as u64).to_string(),
        }
    }

    /// Says whether it got worse, for certain, by more than its bound.
    pub(crate) fn is_regression(&self) -> bool {
        let Some(bound) = self.bound else { return false };
        let (outcome, ratio) = (self.comparison.outcome(), self.comparison.ratio);
        if self.measure.is_gain() {
            outcome == Outcome::Lower && ratio < 1.0 - bound
        } else {
            outcome == Outcome::Higher && ratio > 1.0 + bound
        }
    }

    /// How much worse it got, as the logarithm of the ratio: below 0 it got better.
    pub(super) fn loss(&self) -> f64 {
        let change = self.comparison.ratio.ln();
        if self.measure.is_gain() { -change } else { change }
    }

    /// Whether it got worse for certain, or better.
    pub(super) fn change_for_sure(&self) -> Option<Change> {
        match (self.comparison.outcome(), self.measure.is_gain()) {
            (Outcome::Lower, true) | (Outcome::Higher, false) => Some(Change::Worse),
            (Outcome::Higher, true) | (Outcome::Lower, false) => Some(Change::Better),
            (Outcome::Same | Outcome::Unclear, _) => None,
        }
    }

    /// Describes the change within a sentence: `rate fell by 25 % (22 to 28 %)`.
    pub(crate) fn change(&self) -> String {
        let (lo, hi) = self.comparison.possible();
        let ratio = self.comparison.ratio;
        let name = self.measure.name();
        // Percentages above a doubling are hard to read.
        if ratio >= TIMES_MIN {
            let [ratio, lo, hi] = [ratio, lo, hi].map(three_digits);
            return format!("{name} is {ratio} times as high ({lo} to {hi})");
        }
        if lo <= 1.0 && hi >= 1.0 {
            let [ratio, lo, hi] = [ratio, lo, hi].map(|ratio| (ratio - 1.0) * 100.0);
            return format!("{name} changed by {ratio:+.1} % ({lo:+.1} to {hi:+.1} %)");
        }
        let (verb, sign) = if ratio < 1.0 { ("fell", -1.0) } else { ("rose", 1.0) };
        let percent = |ratio: f64| format!("{:.0}", (ratio - 1.0) * 100.0 * sign);
        let (least, most) = if ratio < 1.0 { (hi, lo) } else { (lo, hi) };
        let (at, least, most) = (percent(ratio), percent(least), percent(most));
        format!("{name} {verb} by {at} % ({least} to {most} %)")
    }

    /// The bound in words: `at most 5.0 % less`; empty where there is none.
    pub(crate) fn limit(&self) -> String {
        let Some(share) = self.bound else { return String::new() };
        let word = if self.measure.is_gain() { "less" } else { "more" };
        format!("at most {} {word}", humanize::percent(share))
    }

    /// Says whether it has a bound of which the trials can't tell whether it is kept: it is not
    /// overstepped for certain, and the interval of the ratio reaches beyond it, or the trials are
    /// too few to show anything.
    pub(crate) fn is_undecidable(&self) -> bool {
        let Some(most) = self.worst_ratio() else { return false };
        // Only the end of the interval towards the worse side matters: a gain can't break a bound.
        let (lo, hi) = self.comparison.possible();
        let reaches_beyond = if self.measure.is_gain() { lo < most } else { hi > most };
        let is_open = self.comparison.is_blind() || self.is_flattered || reaches_beyond;
        !self.is_regression() && is_open
    }

    /// The ratio at which the bound is reached.
    pub(super) fn worst_ratio(&self) -> Option<f64> {
        let bound = self.bound?;
        Some(if self.measure.is_gain() { 1.0 - bound } else { 1.0 + bound })
    }

    /// Says what would tell whether the bound is kept.
    pub(crate) fn remedy(&self) -> String {
        let Some(most) = self.worst_ratio() else { return String::new() };
        let ratio = self.comparison.ratio;
        let is_kept = if self.measure.is_gain() { ratio >= most } else { ratio <= most };
        // A ratio beyond the bound is certain once the interval leaves out 1.
        let limit = if is_kept { most } else { 1.0 };
        match self.comparison.trials_to_exclude(limit) {
            Some(trials) => format!("about {trials} trials per side would decide it"),
            None => format!(
                "even {TRIALS_MAX} trials per side would not decide it: the ratio is too close to \
                 the bound"
            ),
        }
    }
}
