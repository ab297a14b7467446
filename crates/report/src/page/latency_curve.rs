//! Latency curve: response times over the offered load.
//!
//! Drawn if at least three loads were offered in an open loop. If fewer ops were completed than
//! scheduled, the server was past its knee, and the point is marked accordingly.

use maud::{Markup, html};
use model::CaveatCode;
use model::units::Nanos;

use crate::chart::{ChartText, Picture, RateUnit, figures};
use crate::chart::{Dot, DotKind, Plot, Series, describe_series};
use crate::chart::{RateAxis, TimeAxis};
use crate::table::{Row, Sheet};

/// Minimum number of loads for a curve.
const LOADS_MIN: usize = 3;
/// Maximum number of curves in a picture, each with three quantiles.
const CURVES_MAX: usize = 2;
/// Maximum number of pictures.
const PICTURES_MAX: usize = 12;
/// Share of the scheduled ops that a server must complete to keep up with the load.
const KEPT_UP: f64 = 0.95;

/// Rows of one combination of the other settings, sorted by offered load.
type Curve<'a, 'b> = (String, Vec<&'a Row<'b>>);

/// Renders the pictures below a heading; empty if no load was offered.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            h3 #latency { "Response times against the offered load" }
            p.legend {
                "p50, p95 and p99 of the response times, from scheduled start to completion \
                 (logarithmic). Not sustained: less than 95 % of the scheduled ops were completed."
            }
            (figures(&drawn))
        }
    }
}

/// Draws the pictures without a heading.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
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
    for row in rows {
        if row.run.spec.load.rate_per_s == 0 || row.judged.response_time.count() == 0 {
            continue;
        }
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
    let mut least = u64::MAX;
    let mut slowest = 1;
    let mut most = 0.0_f64;
    for row in curves.iter().flat_map(|(_, rows)| rows) {
        least = least.min(row.judged.response_time.quantile(0.5));
        slowest = slowest.max(row.judged.response_time.quantile(0.99));
        most = most.max(offered_load(row));
    }
    let times = TimeAxis::new(least, slowest);
    let loads = RateAxis::new(RateUnit::Ops, most);
    let mut series = Vec::new();
    for (name, rows) in curves {
        for (quantile, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let dots = rows.iter().map(|row| draw_dot(row, q, &loads, &times)).collect();
            series.push(Series { name: format!("{quantile}, {name}"), dots, is_joined: true });
        }
    }
    let about = ChartText {
        id,
        title: format!("{name}: response times against the offered load"),
        description: describe_series(&series),
        unit: "",
    };
    let x_name = format!("offered load, {}", loads.unit);
    Plot { about, x_ticks: loads.ticks(), x_name, y_ticks: times.ticks(), upright: None, series }
        .picture(name, Vec::new())
}

fn draw_dot(row: &Row<'_>, q: f64, loads: &RateAxis, times: &TimeAxis) -> Dot {
    let offered = offered_load(row);
    let time = row.judged.response_time.quantile(q);
    // The offered load is what the generator scheduled; beyond the knee, fewer ops are completed.
    let done = row.judged.ops_per_s.map_or(0.0, |ops| ops.median);
    let is_sustained = done >= offered * KEPT_UP;
    let late = if is_sustained { "" } else { ", the server did not keep up" };
    let mut is_limited = false;
    for caveat in &row.judged.caveats {
        is_limited |= caveat.code == CaveatCode::ClientSaturated;
    }
    Dot {
        x: loads.at(offered),
        y: times.at(time),
        reach: None,
        trials: Vec::new(),
        standing: DotKind::new(is_sustained, is_limited),
        text: format!("{} offered: {}{late}", stats::Rate::Ops(offered), Nanos(time)),
    }
}
