//! Two load curves: is the one slower, does the other carry more, or can nobody tell?
//!
//! [`CurvesCompared`] is the principal type. Response times are compared in pairs, at the same
//! offered load, where both carry it; where the other curve has no such load point, between the
//! two around it. The ratios of all pairs are one sample, whose mean has an interval. Peak and knee
//! are known no better than load points are apart: they differ where their intervals do.
//!
//! **Source:** Jain, "The Art of Computer Systems Performance Analysis" (1991), 13.4 (paired
//! observations); Fleming and Wallace, CACM 29 (1986) (the geometric mean of ratios).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Curve, Knee, LoadPoint, PEAK_MARGIN, Standing};
use crate::compare::Outcome;

/// Confidence of the ratio of response times. Stricter than elsewhere, since the load points of a
/// curve are made one after the other and share what their host did then.
pub const RATIO_CONFIDENCE: f64 = 0.99;

/// Fewer pairs have no interval that says anything.
pub const PAIRS_MIN: usize = 3;

/// A figure with the ends between which it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The figure.
    pub at: f64,
    /// Where it begins.
    pub low: f64,
    /// Where it ends; infinite where nothing heavier was tried.
    pub high: f64,
}

/// Mean response times at one offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimePair {
    /// Ops per second that were asked for.
    pub asked_per_s: u64,
    /// Before and after, in nanoseconds.
    pub mean_ns: [f64; 2],
    /// The later one lies between two load points.
    pub is_between: bool,
}

/// Two curves, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvesCompared {
    /// Loads that both carry.
    pub pairs: Vec<TimePair>,
    /// How many times as long answers take after as before, at the same load: the geometric mean,
    /// with its interval; `None` for less than [`PAIRS_MIN`] pairs.
    pub time_ratio: Option<Between>,
    /// What became of response times.
    pub time: Outcome,
    /// Overall response times over the loads of the pairs, in nanoseconds, the interval of the
    /// later one being that of the ratio; `None` as [`CurvesCompared::time_ratio`].
    pub overall_ns: Option<(f64, Between)>,
    /// The peaks in ops per second, each with the second load above it that is not carried.
    pub peaks: [Option<Between>; 2],
    /// What became of the peak.
    pub peak: Outcome,
    /// The knees in ops per second, where they can be told.
    pub knees: [Option<Between>; 2],
    /// What became of the knee.
    pub knee: Outcome,
}

impl CurvesCompared {
    /// Compares; differences of response times count from `effect` on, as a share.
    pub fn of(before: &Curve, after: &Curve, effect: f64) -> Self {
        let pairs = pairs(before, after);
        let time_ratio = time_ratio(&pairs);
        let peaks = [before, after].map(peak);
        let knees = [before, after].map(knee);
        Self {
            time: time_ratio.map_or(Outcome::Unclear, |ratio| outcome_of_ratio(ratio, effect)),
            overall_ns: time_ratio.and_then(|ratio| overall(&pairs, ratio)),
            pairs,
            time_ratio,
            peak: apart(peaks, PEAK_MARGIN),
            peaks,
            knee: apart(knees, effect),
            knees,
        }
    }
}

/// What both carry, by what was offered.
fn pairs(before: &Curve, after: &Curve) -> Vec<TimePair> {
    let carried = |curve: &Curve| -> Vec<(u64, f64)> {
        let points = curve.points().iter().filter(|point| point.standing() == Standing::Carried);
        points.map(|point: &LoadPoint| (point.asked_per_s, point.mean_ns as f64)).collect()
    };
    let others = carried(after);
    let pair = |(asked_per_s, mean_ns): (u64, f64)| {
        let (other, is_between) = at(&others, asked_per_s)?;
        let both = [mean_ns, other];
        both.iter().all(|ns| *ns > 0.0).then_some(TimePair {
            asked_per_s,
            mean_ns: both,
            is_between,
        })
    };
    carried(before).into_iter().filter_map(pair).collect()
}

/// The response time at a load, and whether it lies between two load points; nothing beyond them.
fn at(points: &[(u64, f64)], load: u64) -> Option<(f64, bool)> {
    if let Some((_, ns)) = points.iter().find(|(known, _)| *known == load) {
        return Some((*ns, false));
    }
    let between = points.windows(2).find(|pair| pair[0].0 < load && load < pair[1].0)?;
    let (from, to) = (between[0], between[1]);
    let share = (load - from.0) as f64 / (to.0 - from.0) as f64;
    Some((from.1 + share * (to.1 - from.1), true))
}

/// The geometric mean of the ratios, with Student's interval of the logarithms.
fn time_ratio(pairs: &[TimePair]) -> Option<Between> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let logs: Vec<f64> =
        pairs.iter().map(|pair| (pair.mean_ns[1] / pair.mean_ns[0]).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean) * (log - mean)).sum();
    let t =
        StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(f64::midpoint(1.0, RATIO_CONFIDENCE));
    let half = t * (squares / (n - 1.0) / n).sqrt();
    Some(Between { at: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

fn outcome_of_ratio(ratio: Between, effect: f64) -> Outcome {
    let (least, most) = (1.0 / (1.0 + effect), 1.0 + effect);
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

/// Areas under the pairs over the heaviest of their loads, as [`Curve::overall_ns`] has it.
fn overall(pairs: &[TimePair], ratio: Between) -> Option<(f64, Between)> {
    let heaviest = pairs.last()?.asked_per_s as f64;
    let area = |side: usize| -> f64 {
        let slice = |two: &[TimePair]| {
            let wide = (two[1].asked_per_s - two[0].asked_per_s) as f64;
            wide * f64::midpoint(two[0].mean_ns[side], two[1].mean_ns[side])
        };
        pairs.windows(2).map(slice).sum::<f64>() / heaviest
    };
    let (before, at) = (area(0), area(1));
    let (low, high) = (at * ratio.low / ratio.at, at * ratio.high / ratio.at);
    Some((before, Between { at, low, high }))
}

/// The peak of a curve lies between what was carried and the second load above it that was not: of
/// one load point, chance may make a short one.
fn peak(curve: &Curve) -> Option<Between> {
    let peak = curve.peak()?;
    let (asked, at) = (peak.asked_per_s, peak.achieved_per_s);
    let short =
        |point: &&LoadPoint| point.asked_per_s > asked && point.standing() == Standing::Short;
    let over = curve.points().iter().filter(short).take(2).last();
    let high = over.map_or(f64::INFINITY, |over| over.offered_per_s.max(at));
    Some(Between { at, low: at, high })
}

fn knee(curve: &Curve) -> Option<Between> {
    match curve.knee() {
        Knee::Bend { at_per_s, interval_per_s: (low, high) } => {
            Some(Between { at: at_per_s, low, high })
        }
        Knee::Cliff { carried_per_s, short_per_s } => {
            let at = f64::midpoint(carried_per_s, short_per_s);
            Some(Between { at, low: carried_per_s, high: short_per_s })
        }
        Knee::Straight | Knee::TooFew(_) => None,
    }
}

/// What became of a figure that is known to lie between two ends: nobody can tell where those
/// overlap, unless both are the same within a margin.
fn apart([before, after]: [Option<Between>; 2], margin: f64) -> Outcome {
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
