//! The pictures of rates along a number: clients, file size, I/O size, depth.
//!
//! A line for each combination of the other settings, with the 95 % interval and the trials of
//! every point. The knee of a cache and the end of scaling are seen here.

use std::collections::HashMap;

use maud::{Markup, html};
use model::Pass;

use super::factor_levels::FactorLevels;
use crate::chart::RateAxis;
use crate::chart::{ChartText, Picture, figures};
use crate::chart::{Dot, DotKind, Plot, SERIES_MAX, Series, describe_series};
use crate::humanize::counted;
use crate::table::rate_metric::RateMetric;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// The setting that offers a load.
const OFFERED: &str = "rate";
/// So many factors of a kind of pass are drawn.
const FACTORS_MAX: usize = 3;
/// So many pictures are drawn.
const PICTURES_MAX: usize = 24;
/// Trials that stay apart as dots.
const TRIALS_MAX: usize = 20;

/// The section; nothing where no factor is a number with several levels.
pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="curves" {
                h2 #curves { "Rates along a factor" }
                p.legend {
                    "Medians with their 95 % intervals; the small dots are trials. A line for each \
                     combination of the other settings. Arrows: the interval goes on beyond the \
                     axis."
                }
                (figures(&drawn))
            }
        }
    }
}

/// The pictures alone.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if pass == Pass::App {
            continue;
        }
        let metric = RateMetric::for_rows(pass, rows.iter().copied());
        for levels in FactorLevels::all(sheet, &rows).iter().take(FACTORS_MAX) {
            // Rates along the offered load say that what was offered was done: see `load`.
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

/// One picture; `None` where no two rows differ in this factor alone.
fn draw_curve(
    id: String,
    name: &str,
    metric: RateMetric,
    rows: &[&Row<'_>],
    levels: &FactorLevels,
    sheet: &Sheet<'_>,
) -> Option<Picture> {
    // There are as many colours as lines: of more lines those with the best rates are drawn.
    let mut lines = group_lines(sheet, rows, levels);
    let left_out = lines.len().saturating_sub(SERIES_MAX);
    if left_out > 0 {
        lines.sort_by(|(_, a), (_, b)| best_rate(b, metric).total_cmp(&best_rate(a, metric)));
        lines.truncate(SERIES_MAX);
        // As in the other panels, in the order of the campaign.
        lines.sort_by_key(|(_, rows)| rows.iter().map(|row| row.run.index).min());
    }
    // The axis holds the trials, too, which may lie above the median.
    let mut most = 0.0_f64;
    for row in lines.iter().flat_map(|(_, rows)| rows) {
        for point in &row.judged.points {
            most = most.max(metric.point(&row.judged, point.per_s));
        }
    }
    let axis = RateAxis::new(metric.counted(), most);
    let mut series = Vec::new();
    for (name, rows) in &lines {
        let mut dots = Vec::new();
        for row in rows {
            dots.extend(place_dot(row, levels, &axis, metric));
        }
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
    let (x_ticks, x_name) = (levels.ticks(), levels.title());
    let plot = Plot { about, x_ticks, x_name, y_ticks, upright: None, series };
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

/// The rows that differ in this factor alone, together, from its smallest level to its largest;
/// two at least.
fn group_lines<'a, 'b>(
    sheet: &Sheet<'_>,
    rows: &[&'a Row<'b>],
    levels: &FactorLevels,
) -> Vec<(String, Vec<&'a Row<'b>>)> {
    let mut lines: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut others = Vec::new();
    for column in 0..sheet.columns.len() {
        let varies = rows.iter().any(|row| row.values[column] != rows[0].values[column]);
        if varies && column != levels.column {
            others.push(column);
        }
    }
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
