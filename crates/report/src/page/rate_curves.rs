//! Pictures of rates over a numeric factor: clients, file size, I/O size, queue depth.
//!
//! There is a line for each combination of the other settings, with the 95 % interval and trials of
//! every point. They show the knee of a cache and the end of scaling.

use std::collections::HashMap;

use maud::{Markup, html};

use super::factor_levels::FactorLevels;
use crate::chart::RateAxis;
use crate::chart::{ChartText, Picture, figures};
use crate::chart::{Dot, DotKind, Plot, SERIES_MAX, Series, describe_series};
use crate::humanize::counted;
use crate::table::rate_metric::RateMetric;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Setting for the offered load.
const OFFERED: &str = "rate";
/// Maximum number of factors of a kind of pass to draw.
const FACTORS_MAX: usize = 3;
/// Maximum number of pictures.
const PICTURES_MAX: usize = 24;
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
    let mut lines = group_lines(sheet, rows, levels);
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
    let axis = RateAxis::new(metric.counted(), most);
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
    Some(plot.picture(format!("{name} along {}", levels.name), notes))
}

fn best_rate(rows: &[&Row<'_>], metric: RateMetric) -> f64 {
    let mut best = 0.0_f64;
    for row in rows {
        best = best.max(metric.median(&row.judged));
    }
    best
}

/// Groups rows that differ only in this factor, sorted by level, with at least two rows each.
fn group_lines<'a, 'b>(
    sheet: &Sheet<'_>,
    rows: &[&'a Row<'b>],
    levels: &FactorLevels,
) -> Vec<(String, Vec<&'a Row<'b>>)> {
    let mut lines: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let others: Vec<_> = (0..sheet.columns.len())
        .filter(|&column| column != levels.column)
        .filter(|&column| rows.iter().any(|row| row.values[column] != rows[0].values[column]))
        .collect();
    for row in rows {
        if levels.at(row).is_none() {
            continue;
        }
        let mut name = row.run.spec.target_name.clone();
        for &column in &others {
            if row.values[column] != NOT_APPLICABLE {
                name.extend([", ", sheet.columns[column], " ", &row.values[column]]);
            }
        }
        let place = *places.entry(name.clone()).or_insert(lines.len());
        if place == lines.len() {
            lines.push((name, Vec::new()));
        }
        lines[place].1.push(row);
    }
    lines.retain(|(_, rows)| rows.len() > 1);
    for (_, rows) in &mut lines {
        rows.sort_by(|a, b| {
            let [a, b] = [a, b].map(|row| levels.at(row).unwrap_or_default());
            a.total_cmp(&b)
        });
    }
    lines
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
