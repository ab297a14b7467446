//! Pictures of load curves, drawn as usual in the field: response time over throughput.
//!
//! Lines are quantiles on a logarithmic axis, because a growing queue raises the 99th percentile
//! long before the median. Points that were not sustained, and points at which the client was at
//! its limit, have special marks, because their times say little about the server.

use model::units::Nanos;
use stats::Rate;
use stats::curve::{self, Knee, LoadPoint};

use super::NamedCurve;
use crate::chart::{
    ChartText, Dot, DotKind, Picture, Plot, RateAxis, RateUnit, Series, TimeAxis, describe_series,
};
use crate::humanize::counted;

/// Quantile with its name.
type Quantile = (&'static str, f64);

/// Lines for a single curve.
const QUANTILES: [Quantile; 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
/// Lines for each of two curves in one picture.
const OUTER_QUANTILES: [Quantile; 2] = [("p50", 0.5), ("p99", 0.99)];

/// Draws a picture for each curve, all with the same axes; empty if no load point has a result.
pub(crate) fn pictures(curves: &[NamedCurve]) -> Vec<Picture> {
    let Some(axes) = Axes::new(curves.iter()) else { return Vec::new() };
    let mut drawn = Vec::new();
    for (number, named) in curves.iter().enumerate() {
        let series = quantile_lines("", named, &QUANTILES, &axes);
        drawn.push(axes.draw(number, &named.name, series, &[named]));
    }
    drawn
}

/// Draws two curves in one picture, labeled by their sides.
pub(crate) fn pictures_of_two(name: &str, sides: &[(&str, NamedCurve); 2]) -> Vec<Picture> {
    let Some(axes) = Axes::new(sides.iter().map(|(_, named)| named)) else { return Vec::new() };
    let series: Vec<_> = sides
        .iter()
        .flat_map(|(side, named)| quantile_lines(side, named, &OUTER_QUANTILES, &axes))
        .collect();
    vec![axes.draw(0, name, series, &[&sides[0].1, &sides[1].1])]
}

/// Common axes of pictures that are compared by eye.
struct Axes {
    times: TimeAxis,
    loads: RateAxis,
}

impl Axes {
    fn new<'a>(curves: impl Iterator<Item = &'a NamedCurve>) -> Option<Self> {
        let mut quickest_ns = u64::MAX;
        let mut slowest_ns = 0;
        let mut most = 0.0_f64;
        for point in curves.flat_map(|named| named.curve.points()) {
            if point.missing.is_none() {
                quickest_ns = quickest_ns.min(point.response_time.quantile(0.5));
                slowest_ns = slowest_ns.max(point.response_time.quantile(0.99));
                most = most.max(point.achieved_per_s);
            }
        }
        if quickest_ns == u64::MAX {
            return None;
        }
        Some(Self {
            times: TimeAxis::new(quickest_ns, slowest_ns),
            loads: RateAxis::new(RateUnit::Ops, most),
        })
    }

    fn draw(
        &self,
        number: usize,
        name: &str,
        series: Vec<Series>,
        curves: &[&NamedCurve],
    ) -> Picture {
        let about = ChartText {
            id: format!("sustained-{number}"),
            title: format!("{name}: response time over throughput"),
            description: describe_series(&series),
            unit: "",
        };
        let mut upright = None;
        let mut notes = Vec::new();
        for named in curves {
            if let ([_], Knee::Bend { at_per_s, .. }) = (curves, named.curve.knee()) {
                upright = Some((self.loads.at(at_per_s), "knee".to_owned()));
            }
            notes.extend(knee_note(named));
            notes.extend(missing_note(named));
        }
        let plot = Plot {
            about,
            x_ticks: self.loads.ticks(),
            x_name: format!("throughput, {}", self.loads.unit),
            y_ticks: self.times.ticks(),
            upright,
            series,
        };
        plot.picture(format!("{name}: response time over throughput, logarithmic"), notes)
    }
}

/// One line per quantile. Points that were not sustained come after the others and are not
/// connected.
fn quantile_lines(
    side: &str,
    named: &NamedCurve,
    quantiles: &[Quantile],
    axes: &Axes,
) -> Vec<Series> {
    let mut lines = Vec::new();
    for (name, q) in quantiles {
        let mut sustained = Vec::new();
        let mut others = Vec::new();
        for point in named.curve.points() {
            match point.status() {
                curve::PointStatus::Sustained => sustained.push(draw_dot(point, *q, axes)),
                curve::PointStatus::Missing => {}
                _ => others.push(draw_dot(point, *q, axes)),
            }
        }
        // More may be offered and less done, so sort by what was done.
        sustained.sort_by(|one, other| one.x.total_cmp(&other.x));
        sustained.append(&mut others);
        let name = if side.is_empty() { (*name).to_owned() } else { format!("{name}, {side}") };
        lines.push(Series { name, dots: sustained, is_joined: true });
    }
    lines
}

fn draw_dot(point: &LoadPoint, q: f64, axes: &Axes) -> Dot {
    let done = Rate::Ops(point.achieved_per_s);
    let offered = point.requested_per_s as f64;
    let time_ns = point.response_time.quantile(q);
    let is_sustained = point.status() == curve::PointStatus::Sustained;
    let remark = match (is_sustained, point.client_saturated) {
        (true, false) => "",
        (true, true) => ", this host short of CPU time",
        (false, false) => ", not sustained",
        (false, true) => ", not sustained, this host short of CPU time",
    };
    Dot {
        x: axes.loads.at(point.achieved_per_s),
        y: axes.times.at(time_ns),
        reach: None,
        trials: Vec::new(),
        standing: DotKind::new(is_sustained, point.client_saturated),
        text: format!("{done} of {}: {}{remark}", Rate::Ops(offered), Nanos(time_ns)),
    }
}

fn knee_note(named: &NamedCurve) -> Option<String> {
    let (low, high) = match named.curve.knee() {
        Knee::Bend { interval_per_s, .. } => interval_per_s,
        Knee::Cliff { sustained_per_s, short_per_s } => (sustained_per_s, short_per_s),
        _ => return None,
    };
    Some(format!("Knee of {}: {} to {}.", named.name, Rate::Ops(low), Rate::Ops(high)))
}

/// Counts the load points that cannot be drawn.
fn missing_note(named: &NamedCurve) -> Option<String> {
    let mut missing = 0;
    for point in named.curve.points() {
        missing += usize::from(point.missing.is_some());
    }
    let points = counted(missing, "load point");
    let have = if missing == 1 { "has" } else { "have" };
    (missing > 0).then(|| format!("{points} of {} {have} no result.", named.name))
}
