//! The pictures of rates along a number: clients, file size, I/O size, depth.
//!
//! A line for each combination of the other settings, with the 95 % interval and the trials of
//! every point. The knee of a cache and the end of scaling are seen here.

use std::collections::HashMap;

use maud::{Markup, html};
use model::Pass;

use super::levels::Levels;
use crate::picture::RateAxis;
use crate::picture::{About, Picture, figures};
use crate::picture::{Dot, Plot, SERIES_MAX, Series, describe_series};
use crate::rate_metric::RateMetric;
use crate::sheet::{NOT_APPLICABLE, Row, Sheet};
use crate::show::counted;

/// So many factors of a kind of pass are drawn.
const FACTORS_MAX: usize = 3;
/// So many pictures are drawn.
const PICTURES_MAX: usize = 24;
/// Trials that stay apart as dots.
const TRIALS_MAX: usize = 20;

/// The section; nothing where no factor is a number with several levels.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="curves" {
                h2 #curves { "Rates along a factor" }
                p.legend {
                    "Medians with their 95 % intervals; the small dots are trials. A line for each \
                     combination of the other settings."
                }
                (figures(&drawn))
            }
        }
    }
}

/// The pictures alone.
pub fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, pass, rows) in sheet.groups() {
        let rows: Vec<&Row<'_>> = rows.into_iter().filter(|row| row.counts()).collect();
        if pass == Pass::App {
            continue;
        }
        let metric = RateMetric::of(pass, rows.iter().copied());
        for levels in Levels::all(sheet, &rows).iter().take(FACTORS_MAX) {
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
    levels: &Levels,
    sheet: &Sheet<'_>,
) -> Option<Picture> {
    let mut lines = group_lines(sheet, rows, levels);
    let best = |rows: &Vec<&Row<'_>>| {
        rows.iter().map(|row| metric.median(&row.judged)).fold(0.0, f64::max)
    };
    let left_out = lines.len().saturating_sub(SERIES_MAX);
    if left_out > 0 {
        lines.sort_by(|(_, a), (_, b)| best(b).total_cmp(&best(a)));
        lines.truncate(SERIES_MAX);
    }
    let rows = lines.iter().flat_map(|(_, rows)| rows).map(|row| &row.judged);
    let points =
        rows.flat_map(|judged| judged.points.iter().map(|point| metric.point(judged, point.per_s)));
    let axis = RateAxis::new(metric.counted(), points.fold(0.0, f64::max));
    let dots = |rows: &[&Row<'_>]| {
        let dots = rows.iter().filter_map(|row| place_dot(row, levels, &axis, metric));
        dots.collect::<Vec<_>>()
    };
    let series: Vec<Series> = lines
        .iter()
        .map(|(name, rows)| Series { name: name.clone(), dots: dots(rows), is_joined: true })
        .collect();
    let about = About {
        id,
        title: format!("{name}: rate in {} along {}", axis.unit, levels.name),
        description: describe_series(&series),
        unit: "",
    };
    if series.is_empty() {
        return None;
    }
    let last = axis.ticks().len() - 1;
    let unit = |(number, (at, label)): (usize, (f64, String))| {
        (at, if number == last { format!("{label} {}", axis.unit) } else { label })
    };
    let y_ticks = axis.ticks().into_iter().enumerate().map(unit).collect();
    let (x_ticks, x_name) = (levels.ticks(), levels.title());
    let plot = Plot { about, x_ticks, x_name, y_ticks, upright: None, series };
    let note = || format!("{} with lower rates: see the table.", counted(left_out, "more line"));
    let notes = (left_out > 0).then(note).into_iter().collect();
    Some(plot.picture(format!("{name} along {}", levels.name), notes))
}

/// The rows that differ in this factor alone, together, from its smallest level to its largest;
/// two at least.
fn group_lines<'a, 'b>(
    sheet: &Sheet<'_>,
    rows: &[&'a Row<'b>],
    levels: &Levels,
) -> Vec<(String, Vec<&'a Row<'b>>)> {
    let mut lines: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let varies =
        |column: usize| rows.iter().any(|row| row.values[column] != rows[0].values[column]);
    let others: Vec<usize> =
        (0..sheet.columns.len()).filter(|c| *c != levels.column && varies(*c)).collect();
    for row in rows.iter().filter(|row| levels.at(row).is_some()) {
        let mut name = row.run.spec.target_name.clone();
        for column in others.iter().filter(|column| row.values[**column] != NOT_APPLICABLE) {
            name.extend([", ", sheet.columns[*column], " ", &row.values[*column]]);
        }
        let place = *places.entry(name.clone()).or_insert(lines.len());
        if place == lines.len() {
            lines.push((name, Vec::new()));
        }
        lines[place].1.push(row);
    }
    lines.retain(|(_, rows)| rows.len() > 1);
    for (_, rows) in &mut lines {
        let at = |row: &Row<'_>| levels.at(row).unwrap_or_default();
        rows.sort_by(|a, b| at(a).total_cmp(&at(b)));
    }
    lines
}

fn place_dot(row: &Row<'_>, levels: &Levels, axis: &RateAxis, metric: RateMetric) -> Option<Dot> {
    let rate = metric.figure(&row.judged)?;
    let at = |per_s| axis.at(metric.point(&row.judged, per_s));
    let used = row.judged.points.iter().filter(|point| point.used);
    let reach = (axis.at(rate.interval.0), axis.at(rate.interval.1));
    Some(Dot {
        x: levels.at(row)?,
        y: axis.at(rate.median),
        reach: (rate.n > 1).then_some(reach),
        trials: used.take(TRIALS_MAX).map(|point| at(point.per_s)).collect(),
        said: format!("{} {}", row.values[levels.column], metric.rate(rate.median)),
    })
}
