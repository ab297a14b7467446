//! Measures compared in a row: its rate and the response times of its ops.
//!
//! [`Measure`] names a measure, [`ComparedFigure`] has its values on both sides. The time of a side
//! is the median over its trials of each trial's quantile, so that trials remain the unit of every
//! statistic.

use model::units::{Nanos, three_digits};
use model::{Pass, PassResult};
use stats::{Comparison, Outcome, Rate, TRIALS_MAX};

use crate::humanize;

/// Ratio from which a change is stated as a multiple instead of a percentage.
const TIMES_MIN: f64 = 2.0;

/// Measure by which rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes or ops per second.
    Rate,
    /// Median of the response times.
    ResponseP50,
    /// 99th percentile of the response times.
    ResponseP99,
    /// Median of the service times, shown if it differs from the response time, in an open loop.
    ServiceP50,
    /// 99th percentile of the service times.
    ServiceP99,
}

impl Measure {
    /// All measures in table order.
    pub const ALL: [Self; 5] =
        [Self::Rate, Self::ResponseP50, Self::ResponseP99, Self::ServiceP50, Self::ServiceP99];

    /// Name in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::ResponseP50 => "p50",
            Self::ResponseP99 => "p99",
            Self::ServiceP50 => "service-p50",
            Self::ServiceP99 => "service-p99",
        }
    }

    /// Finds a time measure by name.
    pub fn time_named(name: &str) -> Option<Self> {
        Self::ALL[1..].iter().copied().find(|measure| measure.name() == name)
    }

    /// Returns true if higher is better.
    pub(super) const fn is_gain(self) -> bool {
        matches!(self, Self::Rate)
    }

    /// Time in a trial in nanoseconds; `None` for a rate, or if nothing was timed.
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

/// Bound that a comparison is checked against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonBound {
    pub measure: Measure,
    /// How much the measure may get worse, as a share: 0.05 is 5 %.
    pub share: f64,
}

/// Direction of a certain change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A rate fell or a time rose.
    Worse,
    /// A rate rose or a time fell.
    Better,
}

/// Measure on both sides.
#[derive(Clone, Copy, Debug)]
pub struct ComparedFigure {
    pub measure: Measure,
    /// Pass, which determines the unit of a rate.
    pub pass: Pass,
    /// Medians over the trials, in bytes or ops per second, or nanoseconds.
    pub medians: [f64; 2],
    /// Ratio and its statistics.
    pub comparison: Comparison,
    /// How much it may get worse, as a share; `None` if there is no bound.
    pub bound: Option<f64>,
    /// True if only the second side was served from a cache, which may hide a loss.
    pub is_flattered: bool,
}

impl ComparedFigure {
    /// Formats a side's median with its unit.
    pub(crate) fn shown(&self, side: usize) -> String {
        let median = self.medians[side];
        match self.measure {
            // The ratio is of rates, so show a rate here, too, and not the time of a command.
            Measure::Rate if self.pass.is_timed_as_whole() => Rate::Ops(median).to_string(),
            Measure::Rate => Rate::for_pass(self.pass, median).to_string(),
            _ => Nanos(median.round() as u64).to_string(),
        }
    }

    /// Returns true if it certainly got worse by more than its bound.
    pub(crate) fn is_regression(&self) -> bool {
        let Some(bound) = self.bound else { return false };
        let outcome = self.comparison.outcome();
        let ratio = self.comparison.ratio;
        if self.measure.is_gain() {
            outcome == Outcome::Lower && ratio < 1.0 - bound
        } else {
            outcome == Outcome::Higher && ratio > 1.0 + bound
        }
    }

    /// How much worse it got, as the logarithm of the ratio. Below 0, it got better.
    pub(super) fn loss(&self) -> f64 {
        let change = self.comparison.ratio.ln();
        if self.measure.is_gain() { -change } else { change }
    }

    /// Direction of the change, if it is certain.
    pub(super) fn change_for_sure(&self) -> Option<Change> {
        match (self.comparison.outcome(), self.measure.is_gain()) {
            (Outcome::Lower, true) | (Outcome::Higher, false) => Some(Change::Worse),
            (Outcome::Higher, true) | (Outcome::Lower, false) => Some(Change::Better),
            (Outcome::Same | Outcome::Unclear, _) => None,
        }
    }

    /// Describes the change within a sentence: `rate fell by 25 % (22 to 28 %)`.
    pub(crate) fn change(&self) -> String {
        let (lo, hi) = self.comparison.possible_ratios();
        let ratio = self.comparison.ratio;
        let name = self.measure.name();
        // Percentages are hard to read from a doubling on.
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
        let at = percent(ratio);
        let least = percent(least);
        let most = percent(most);
        format!("{name} {verb} by {at} % ({least} to {most} %)")
    }

    /// Describes the bound: `at most 5.0 % less`; empty if there is none.
    pub(crate) fn limit(&self) -> String {
        let Some(share) = self.bound else { return String::new() };
        let word = if self.measure.is_gain() { "less" } else { "more" };
        format!("at most {} {word}", humanize::percent(share))
    }

    /// Returns true if the trials cannot tell whether the bound is met: it is not certainly
    /// exceeded, but the interval of the ratio extends beyond it, or there are too few trials to
    /// show anything.
    pub(crate) fn is_undecidable(&self) -> bool {
        let Some(most) = self.worst_ratio() else { return false };
        // Only the worse end of the interval matters, because a gain cannot exceed a bound.
        let (lo, hi) = self.comparison.possible_ratios();
        let reaches_beyond = if self.measure.is_gain() { lo < most } else { hi > most };
        let is_open = self.comparison.is_blind() || self.is_flattered || reaches_beyond;
        !self.is_regression() && is_open
    }

    /// Ratio at which the bound is reached.
    pub(super) fn worst_ratio(&self) -> Option<f64> {
        let bound = self.bound?;
        Some(if self.measure.is_gain() { 1.0 - bound } else { 1.0 + bound })
    }

    /// Describes what would show whether the bound is met.
    pub(crate) fn remedy(&self) -> String {
        let Some(most) = self.worst_ratio() else { return String::new() };
        let ratio = self.comparison.ratio;
        let is_kept = if self.measure.is_gain() { ratio >= most } else { ratio <= most };
        // A ratio beyond the bound is certain once the interval excludes 1.
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
