//! Compares two load curves: whether one is slower or sustains more, or the points don't decide it.
//!
//! In [`CurvesCompared`], response times are compared in pairs at the same offered load, if both
//! curves sustain it. If the other curve has no such load point, its value is interpolated. The
//! ratios of all pairs are a sample whose mean has an interval. The resolution of peak and knee is
//! the distance between load points, so they only differ if their intervals do.
//!
//! **Source:** Jain, "The Art of Computer Systems Performance Analysis" (1991), 13.4 (paired
//! observations); Fleming and Wallace, CACM 29 (1986) (the geometric mean of ratios).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Curve, Knee, PEAK_MARGIN, PointStatus};
use crate::compare::Outcome;
use crate::summary::squared_distances;

/// Confidence level for the ratio of response times. Stricter than elsewhere, because the load
/// points of a curve are measured in sequence and share the state of their host.
pub const RATIO_CONFIDENCE: f64 = 0.99;

/// Minimum number of pairs for a meaningful interval.
pub const PAIRS_MIN: usize = 3;

/// A value with lower and upper bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedValue {
    pub at: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound; infinite if nothing heavier was tried.
    pub high: f64,
}

/// Mean response times at one offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimePair {
    /// Requested ops per second.
    pub requested_per_s: u64,
    /// Before and after, in nanoseconds.
    pub mean_ns: [f64; 2],
    /// The later one is interpolated between two load points.
    pub is_between: bool,
}

/// Comparison of two curves.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvesCompared {
    /// Loads that both sustain.
    pub pairs: Vec<TimePair>,
    /// Response time after divided by before at the same load: the geometric mean with its
    /// interval; `None` for fewer than [`PAIRS_MIN`] pairs.
    pub time_ratio: Option<BoundedValue>,
    /// Change of response times.
    pub time: Outcome,
    /// Overall response times over the loads of the pairs, in nanoseconds. The interval of the
    /// later one is derived from the ratio. `None` in the same cases as
    /// [`CurvesCompared::time_ratio`].
    pub overall_ns: Option<(f64, BoundedValue)>,
    /// The peaks in ops per second. Each upper bound is the second load above it that is not
    /// sustained.
    pub peaks: [Option<BoundedValue>; 2],
    pub peak: Outcome,
    /// The knees in ops per second, if known.
    pub knees: [Option<BoundedValue>; 2],
    pub knee: Outcome,
}

impl CurvesCompared {
    /// Compares two curves. Response times must differ by at least `effect`, as a share.
    pub fn new(before: &Curve, after: &Curve, effect: f64) -> Self {
        let pairs = pair_times(before, after);
        let time_ratio = mean_ratio(&pairs);
        let peaks = [peak_between(before), peak_between(after)];
        let knees = [knee_between(before), knee_between(after)];
        let mut time = Outcome::Unclear;
        let mut overall_ns = None;
        if let Some(ratio) = time_ratio {
            time = outcome_of_ratio(ratio, effect);
            overall_ns = overall_times(&pairs, ratio);
        }
        Self {
            time,
            overall_ns,
            pairs,
            time_ratio,
            peak: outcome_of_ends(peaks, PEAK_MARGIN),
            peaks,
            knee: outcome_of_ends(knees, effect),
            knees,
        }
    }
}

/// Pairs the response times of loads that both curves sustain, by offered load.
fn pair_times(before: &Curve, after: &Curve) -> Vec<TimePair> {
    let others = sustained_times(after);
    let mut pairs = Vec::new();
    for (requested_per_s, mean_ns) in sustained_times(before) {
        let Some((other_ns, is_between)) = time_at(&others, requested_per_s) else { continue };
        // A ratio needs two positive times.
        if mean_ns > 0.0 && other_ns > 0.0 {
            pairs.push(TimePair { requested_per_s, mean_ns: [mean_ns, other_ns], is_between });
        }
    }
    pairs
}

/// Returns offered load and mean response time of the sustained points.
fn sustained_times(curve: &Curve) -> Vec<(u64, f64)> {
    curve
        .points()
        .iter()
        .filter(|point| point.status() == PointStatus::Sustained)
        .map(|point| (point.requested_per_s, point.mean_ns as f64))
        .collect()
}

/// Returns the response time at a load, and whether it is interpolated. Returns `None` beyond the
/// load points, because nothing is extrapolated.
fn time_at(points: &[(u64, f64)], load: u64) -> Option<(f64, bool)> {
    let mut below: Option<(u64, f64)> = None;
    for &(known, ns) in points {
        if known == load {
            return Some((ns, false));
        }
        if known > load {
            let (from, from_ns) = below?;
            // Response times rise slowly enough between neighbors for a straight line.
            let share = (load - from) as f64 / (known - from) as f64;
            return Some((from_ns + share * (ns - from_ns), true));
        }
        below = Some((known, ns));
    }
    None
}

/// Returns the geometric mean of the ratios, with Student's interval of the logarithms.
fn mean_ratio(pairs: &[TimePair]) -> Option<BoundedValue> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let logs: Vec<_> = pairs.iter().map(|pair| (pair.mean_ns[1] / pair.mean_ns[0]).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares = squared_distances(&logs, mean);
    let t =
        StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(f64::midpoint(1.0, RATIO_CONFIDENCE));
    let half = t * (squares / (n - 1.0) / n).sqrt();
    Some(BoundedValue { at: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// Judges a ratio of response times. It is a change if the whole interval is on one side of 1 and
/// the ratio reaches the effect. It is no change if the interval is within the effect.
fn outcome_of_ratio(ratio: BoundedValue, effect: f64) -> Outcome {
    let least = 1.0 / (1.0 + effect);
    let most = 1.0 + effect;
    if ratio.low > 1.0 && ratio.at >= most {
        Outcome::Higher
    } else if ratio.high < 1.0 && ratio.at <= least {
        Outcome::Lower
    } else if ratio.low >= least && ratio.high <= most {
        Outcome::Same
    } else {
        Outcome::Unclear
    }
}

/// Returns the areas under the pairs divided by the heaviest of their loads, like
/// [`Curve::overall_ns`].
fn overall_times(pairs: &[TimePair], ratio: BoundedValue) -> Option<(f64, BoundedValue)> {
    let heaviest = pairs.last()?.requested_per_s as f64;
    let mut areas = [0.0, 0.0];
    for two in pairs.windows(2) {
        let wide = (two[1].requested_per_s - two[0].requested_per_s) as f64;
        for (side, area) in areas.iter_mut().enumerate() {
            *area += wide * f64::midpoint(two[0].mean_ns[side], two[1].mean_ns[side]);
        }
    }
    let before = areas[0] / heaviest;
    let at = areas[1] / heaviest;
    Some((
        before,
        BoundedValue { at, low: at * ratio.low / ratio.at, high: at * ratio.high / ratio.at },
    ))
}

/// Returns the bounds of a peak: from what was sustained to the second load above it that was not,
/// because a single load point may fall short by chance.
fn peak_between(curve: &Curve) -> Option<BoundedValue> {
    let peak = curve.peak()?;
    let requested = peak.requested_per_s;
    let at = peak.achieved_per_s;
    let mut short = curve
        .points()
        .iter()
        .filter(|point| point.requested_per_s > requested && point.status() == PointStatus::Short);
    let first = short.next();
    let high = match short.next().or(first) {
        Some(over) => over.offered_per_s.max(at),
        None => f64::INFINITY,
    };
    Some(BoundedValue { at, low: at, high })
}

fn knee_between(curve: &Curve) -> Option<BoundedValue> {
    match curve.knee() {
        Knee::Bend { at_per_s, interval_per_s: (low, high) } => {
            Some(BoundedValue { at: at_per_s, low, high })
        }
        Knee::Cliff { sustained_per_s, short_per_s } => {
            let at = f64::midpoint(sustained_per_s, short_per_s);
            Some(BoundedValue { at, low: sustained_per_s, high: short_per_s })
        }
        Knee::Straight | Knee::TooFew(_) => None,
    }
}

/// Judges values with bounds. The result is unclear if they overlap, unless both values are equal
/// within a margin.
fn outcome_of_ends([before, after]: [Option<BoundedValue>; 2], margin: f64) -> Outcome {
    let (Some(before), Some(after)) = (before, after) else { return Outcome::Unclear };
    if after.low > before.high * (1.0 + margin) {
        Outcome::Higher
    } else if after.high < before.low * (1.0 - margin) {
        Outcome::Lower
    } else if before.high.is_finite()
        && after.high.is_finite()
        && (after.at / before.at - 1.0).abs() <= margin
    {
        Outcome::Same
    } else {
        Outcome::Unclear
    }
}

#[cfg(test)]
mod tests;
