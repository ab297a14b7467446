//! Pictures of rates over a numeric factor: clients, file size, I/O size, queue depth.
//!
//! There is a line for each combination of the other settings, with the 95 % interval and trials of
//! every point. They show the knee of a cache and the end of scaling. If the factor is a number of
//! machines, dotted lines show the ideal.

use maud::{Markup, html};

use crate::chart::RateAxis;
use crate::chart::{ChartText, Picture, figures};
use crate::chart::{Dot, DotKind, Plot, SERIES_MAX, Series, describe_series};
use crate::humanize::counted;
use crate::table::factor_levels::FactorLevels;
use crate::table::rate_metric::RateMetric;
use crate::table::scaling::scaling_points;
use crate::table::{Row, Sheet};

/// Setting for the offered load.
const OFFERED: &str = "rate";
/// Maximum number of factors of a kind of pass to draw.
const FACTORS_MAX: usize = 3;
/// Maximum number of pictures.
const PICTURES_MAX: usize = 24;
/// How many times the highest rate the axis may reach, for the sake of the ideal.
const IDEAL_TIMES_MAX: f64 = 2.0;
/// Maximum number of trials to draw as separate dots.
const TRIALS_MAX: usize = 20;

/// Renders the section; empty if no numeric factor has several levels.
pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="curves" {
                h2 #curves { "Rates along a factor" }
                p.legend {
                    "Medians with their 95 % intervals; small dots are trials. One line for each \
                     combination of the other settings. Arrows: the interval extends beyond the \
                     axis."
                }
                (figures(&drawn))
            }
        }
    }
}

/// Draws the pictures without a section.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if pass.is_timed_as_whole() {
            continue;
        }
        let metric = RateMetric::for_rows(pass, rows.iter().copied());
        for levels in FactorLevels::all(sheet, &rows).iter().take(FACTORS_MAX) {
            // Rates over the offered load only show that the offered ops were done.
            if levels.name == OFFERED {
                continue;
            }
            let id = format!("curve-{}", drawn.len());
            drawn.extend(draw_curve(id, &name, metric, &rows, levels, sheet));
        }
    }
    drawn.truncate(PICTURES_MAX);
    drawn
}

/// Draws one picture; `None` if no two rows differ only in this factor.
fn draw_curve(
    id: String,
    name: &str,
    metric: RateMetric,
    rows: &[&Row<'_>],
    levels: &FactorLevels,
    sheet: &Sheet<'_>,
) -> Option<Picture> {
    // There are only as many lines as colors. If there are more, draw those with the highest rates.
    let mut lines = levels.lines(sheet, rows);
    let left_out = lines.len().saturating_sub(SERIES_MAX);
    if left_out > 0 {
        lines.sort_by(|(_, a), (_, b)| best_rate(b, metric).total_cmp(&best_rate(a, metric)));
        lines.truncate(SERIES_MAX);
        // In campaign order, as in the other panels.
        lines.sort_by_key(|(_, rows)| rows.iter().map(|row| row.run.index).min());
    }
    // The axis must also cover the trials, which may be above the median.
    let mut most = 0.0_f64;
    for row in lines.iter().flat_map(|(_, rows)| rows) {
        for point in &row.judged.points {
            most = most.max(metric.point(&row.judged, point.per_s));
        }
    }
    let ideal_max = lines.iter().flat_map(|(_, rows)| ideal_rates(rows, metric, levels));
    let ideal_max = ideal_max.fold(0.0_f64, |most, (_, per_s)| most.max(per_s));
    // An ideal far above the rates would squeeze them, and is cut off instead.
    let axis = RateAxis::new(metric.counted(), most.max(ideal_max.min(IDEAL_TIMES_MAX * most)));
    let ideals: Vec<Vec<(f64, f64)>> = lines
        .iter()
        .map(|(_, rows)| {
            let rates = ideal_rates(rows, metric, levels).into_iter();
            rates.map(|(level, per_s)| (levels.place(level), axis.at(per_s))).collect()
        })
        .collect();
    let mut series = Vec::new();
    for (name, rows) in &lines {
        let dots: Vec<_> =
            rows.iter().filter_map(|row| place_dot(row, levels, &axis, metric)).collect();
        series.push(Series { name: name.clone(), dots, is_joined: true });
    }
    let about = ChartText {
        id,
        title: format!("{name}: rate in {} along {}", axis.unit, levels.name),
        description: describe_series(&series),
        unit: "",
    };
    if series.is_empty() {
        return None;
    }
    let y_ticks = axis.ticks_with_unit();
    let plot = Plot {
        about,
        x_ticks: levels.ticks(),
        x_name: levels.title(),
        y_ticks,
        upright: None,
        series,
    };
    let mut notes = Vec::new();
    if left_out > 0 {
        let lines = counted(left_out, "more line");
        notes.push(format!("{lines} with lower rates: see the table."));
    }
    Some(plot.picture_beside(&ideals, format!("{name} along {}", levels.name), notes))
}

/// Returns the ideal of a line, if its factor counts machines: levels with the rate at the first one
/// times their ratio. There are levels in between, since the axis may be logarithmic.
fn ideal_rates(rows: &[&Row<'_>], metric: RateMetric, levels: &FactorLevels) -> Vec<(f64, f64)> {
    const STEPS: u32 = 16;
    let points = scaling_points(rows, metric, levels);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let steps = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
    let level = |share: f64| first.level + (last.level - first.level) * share;
    steps.map(|share| (level(share), first.ideal * level(share) / first.level)).collect()
}

fn best_rate(rows: &[&Row<'_>], metric: RateMetric) -> f64 {
    let mut best = 0.0_f64;
    for row in rows {
        best = best.max(metric.median(&row.judged));
    }
    best
}

fn place_dot(
    row: &Row<'_>,
    levels: &FactorLevels,
    axis: &RateAxis,
    metric: RateMetric,
) -> Option<Dot> {
    let rate = metric.figure(&row.judged)?;
    let mut trials = Vec::new();
    for point in &row.judged.points {
        if point.used && trials.len() < TRIALS_MAX {
            trials.push(axis.at(metric.point(&row.judged, point.per_s)));
        }
    }
    let reach = (axis.at(rate.interval.0), axis.at(rate.interval.1));
    Some(Dot {
        x: levels.at(row)?,
        y: axis.at(rate.median),
        reach: if rate.n > 1 { Some(reach) } else { None },
        trials,
        standing: DotKind::Counts,
        text: format!("{} {}", row.values[levels.column], metric.rate(rate.median)),
    })
}
