//! How rates grow with a number of machines, compared with the ideal: the rate with the fewest,
//! times the ratio of their numbers.
//!
//! [`scaling_lines`] is the entry point. Numbers of 0 are left out, since nothing is in proportion
//! to them.

use stats::Comparison;
use stats::criteria::TRIALS_MIN;

use super::factor_levels::FactorLevels;
use super::rate_metric::RateMetric;
use super::{Row, Sheet};

/// Seed of the bootstrap.
const SEED: u64 = 0x7363_616c;

/// Rows that differ only in a number of machines.
pub(crate) struct ScalingLine<'s, 'a> {
    /// Workload and pass, such as `stream read`.
    pub pass: String,
    /// Target and settings that distinguish it from other lines of the pass.
    pub place: String,
    /// The setting that counts machines.
    pub factor: String,
    pub metric: RateMetric,
    /// Points with increasing numbers, at least two.
    pub points: Vec<ScalingPoint<'s, 'a>>,
}

/// The rate with some number of machines.
pub(crate) struct ScalingPoint<'s, 'a> {
    pub row: &'s Row<'a>,
    /// Number of machines.
    pub level: f64,
    /// Median rate.
    pub per_s: f64,
    /// Rate in proportion to that of the first point.
    pub ideal: f64,
    /// The 95 % confidence interval of the efficiency; `None` for the first point, and with too few
    /// trials.
    pub interval: Option<(f64, f64)>,
}

impl ScalingPoint<'_, '_> {
    /// Returns the share of the ideal rate that was reached.
    pub(crate) fn efficiency(&self) -> f64 {
        self.per_s / self.ideal
    }
}

/// Finds all rows that differ only in a number of machines.
pub(crate) fn scaling_lines<'s, 'a>(sheet: &'s Sheet<'a>) -> Vec<ScalingLine<'s, 'a>> {
    let mut found = Vec::new();
    for (pass_name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if pass.is_timed_as_whole() || rows.is_empty() {
            continue;
        }
        let metric = RateMetric::for_rows(pass, rows.iter().copied());
        for levels in FactorLevels::all(sheet, &rows).iter().filter(|one| one.counts_machines()) {
            for (place, rows) in levels.lines(sheet, &rows) {
                let points = scaling_points(&rows, metric, levels);
                if !points.is_empty() {
                    let (pass, factor) = (pass_name.clone(), levels.name.clone());
                    found.push(ScalingLine { pass, place, factor, metric, points });
                }
            }
        }
    }
    found
}

/// Compares rows with the ideal; empty unless they have two numbers of machines.
pub(crate) fn scaling_points<'s, 'a>(
    rows: &[&'s Row<'a>],
    metric: RateMetric,
    levels: &FactorLevels,
) -> Vec<ScalingPoint<'s, 'a>> {
    let mut points: Vec<ScalingPoint<'s, 'a>> = Vec::new();
    if !levels.counts_machines() {
        return points;
    }
    for row in rows {
        let per_s = metric.median(&row.judged);
        let Some(level) = levels.level(row).filter(|level| *level > 0.0 && per_s > 0.0) else {
            continue;
        };
        let (mut ideal, mut interval) = (per_s, None);
        if let Some(first) = points.first() {
            let times = level / first.level;
            ideal = first.per_s * times;
            interval =
                compare_trials(first.row, row, metric).map(|(lo, hi)| (lo / times, hi / times));
        }
        points.push(ScalingPoint { row, level, per_s, ideal, interval });
    }
    let is_line = points.first().zip(points.last()).is_some_and(|(a, b)| a.level < b.level);
    if is_line { points } else { Vec::new() }
}

/// Returns the interval of the ratio of two rates.
fn compare_trials(first: &Row<'_>, row: &Row<'_>, metric: RateMetric) -> Option<(f64, f64)> {
    let [before, after] = [first, row].map(|row| {
        let used = row.judged.points.iter().filter(|point| point.used && point.per_s > 0.0);
        used.map(|point| metric.point(&row.judged, point.per_s)).collect::<Vec<_>>()
    });
    let Comparison { interval, .. } = stats::compare(&before, &after, 0.0, SEED)?;
    (before.len().min(after.len()) >= TRIALS_MIN).then_some(interval)
}
