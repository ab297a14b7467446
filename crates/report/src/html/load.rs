//! The latency curve: response times against the offered load.
//!
//! Drawn where at least three loads were offered in an open loop. Where less was done than fell
//! due, the server was past its knee, and the point says so.

use maud::{Markup, html};
use model::units::Nanos;

use crate::picture::{About, Counted, Picture, figures};
use crate::picture::{Dot, Plot, Series, describe_series};
use crate::picture::{RateAxis, TimeAxis};
use crate::sheet::{Row, Sheet};

/// Fewer loads are no curve.
const LOADS_MIN: usize = 3;
/// So many curves in a picture, each a median and a 99th percentile.
const CURVES_MAX: usize = 3;
/// So many pictures are drawn.
const PICTURES_MAX: usize = 12;
/// A share of what fell due below which the load was not kept up with.
const KEPT_UP: f64 = 0.95;

/// The rows of one combination of the other settings, by offered load.
type Curve<'a, 'b> = (String, Vec<&'a Row<'b>>);

/// The section; nothing where no load was offered.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="latency" {
                h2 #latency { "Response times against the offered load" }
                p.legend {
                    "p50 and p99 of the response times, from due to done; logarithmic. Where less \
                     than 95 % of what fell due was done, the point says so."
                }
                (figures(&drawn))
            }
        }
    }
}

/// The pictures alone.
pub fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, _, rows) in sheet.groups() {
        let mut curves = load_curves(sheet, &rows);
        curves.truncate(CURVES_MAX);
        if !curves.is_empty() && drawn.len() < PICTURES_MAX {
            drawn.push(draw_load(format!("load-{}", drawn.len()), name, &curves));
        }
    }
    drawn
}

fn offered_load(row: &Row<'_>) -> f64 {
    row.judged.offered_per_s.unwrap_or(row.run.spec.load.rate_per_s as f64)
}

fn load_curves<'a, 'b>(sheet: &Sheet<'_>, rows: &[&'a Row<'b>]) -> Vec<Curve<'a, 'b>> {
    let mut curves: Vec<Curve<'a, 'b>> = Vec::new();
    let loaded =
        |row: &&&Row<'_>| row.run.spec.load.rate_per_s > 0 && row.judged.response_time.count() > 0;
    for row in rows.iter().filter(loaded) {
        let name = sheet.name_without(row, &["rate"]);
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(row),
            None => curves.push((name, vec![row])),
        }
    }
    for (_, points) in &mut curves {
        points.sort_by(|a, b| offered_load(a).total_cmp(&offered_load(b)));
    }
    curves.retain(|(_, points)| points.len() >= LOADS_MIN);
    curves
}

fn draw_load(id: String, name: String, curves: &[Curve<'_, '_>]) -> Picture {
    let rows = || curves.iter().flat_map(|(_, rows)| rows);
    let quantile = |row: &Row<'_>, q: f64| row.judged.response_time.quantile(q);
    let least = rows().map(|row| quantile(row, 0.5)).min().unwrap_or(1);
    let most = rows().map(|row| quantile(row, 0.99)).max().unwrap_or(1);
    let times = TimeAxis::new(least, most);
    let loads =
        RateAxis::new(Counted::Ops, rows().map(|row| offered_load(row)).fold(0.0, f64::max));
    let dot = |row: &Row<'_>, q: f64| {
        let time = quantile(row, q);
        let done = row.judged.ops_per_s.as_ref().map_or(0.0, |ops| ops.median);
        // The rate is what was carried of the load that was asked for.
        let asked = row.run.spec.load.rate_per_s as f64;
        let late = if done < asked * KEPT_UP { ", not kept up with" } else { "" };
        Dot {
            x: loads.at(offered_load(row)),
            y: times.at(time),
            reach: None,
            trials: Vec::new(),
            said: format!("{} offered: {}{late}", stats::Rate::Ops(offered_load(row)), Nanos(time)),
        }
    };
    let series: Vec<Series> = curves
        .iter()
        .flat_map(|(name, rows)| {
            [("p50", 0.5), ("p99", 0.99)].map(|(quantile, q)| Series {
                name: format!("{quantile}, {name}"),
                dots: rows.iter().map(|row| dot(row, q)).collect(),
                is_joined: true,
            })
        })
        .collect();
    let about = About {
        id,
        title: format!("{name}: response times against the offered load"),
        description: describe_series(&series),
        unit: "",
    };
    let x_name = format!("offered load, {}", loads.unit);
    Plot { about, x_ticks: loads.ticks(), x_name, y_ticks: times.ticks(), upright: None, series }
        .picture(name, Vec::new())
}
