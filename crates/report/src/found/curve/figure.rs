//! The picture of load curves, as the field draws it: response time over throughput.
//!
//! The times are means, and the axis is linear, up to the slowest load point that was carried. What
//! was not carried stands at its upper edge where it is slower: those times say how long the run
//! was, and not how fast the server is.

use model::units::Nanos;
use stats::Rate;
use stats::curve::{Knee, LoadPoint, Standing};

use super::Named;
use crate::picture::{
    About, Counted, Dot, LinearTimeAxis, Picture, Plot, RateAxis, SERIES_MAX, Series,
    describe_series,
};

/// The picture; none where nothing was carried.
pub fn pictures(curves: &[Named]) -> Vec<Picture> {
    let mut drawn = Vec::new();
    // A curve takes up to two lines: what was carried, and what was not.
    for (number, group) in curves.chunks(SERIES_MAX / 2).enumerate() {
        drawn.extend(draw_curves(number, group));
    }
    drawn
}

fn draw_curves(number: usize, curves: &[Named]) -> Option<Picture> {
    let (mut slowest_ns, mut most) = (None, 0.0_f64);
    for point in curves.iter().flat_map(|named| named.curve.points()) {
        if point.standing() == Standing::Carried {
            slowest_ns = slowest_ns.max(Some(point.mean_ns));
        }
        most = most.max(point.achieved_per_s);
    }
    let times = LinearTimeAxis::new(slowest_ns?);
    let loads = RateAxis::new(Counted::Ops, most);
    let mut series = Vec::new();
    for named in curves {
        let (mut carried, mut others) = (Vec::new(), Vec::new());
        for point in named.curve.points() {
            match point.standing() {
                Standing::Carried => carried.push(draw_dot(point, &loads, &times, "")),
                Standing::Missing => {}
                _ => others.push(draw_dot(point, &loads, &times, ", not carried")),
            }
        }
        // More may be offered and less be done: the line goes by what was done.
        carried.sort_by(|one, other| one.x.total_cmp(&other.x));
        series.push(Series { name: named.name.clone(), dots: carried, is_joined: true });
        if !others.is_empty() {
            let name = format!("not carried, {}", named.name);
            series.push(Series { name, dots: others, is_joined: false });
        }
    }
    let about = About {
        id: format!("carried-{number}"),
        title: "Response time over throughput".to_owned(),
        description: describe_series(&series),
        unit: "",
    };
    let x_name = format!("throughput, {}", loads.unit);
    let plot = Plot {
        about,
        x_ticks: loads.ticks(),
        x_name,
        y_ticks: times.ticks(),
        upright: None,
        series,
    };
    let notes = curves.iter().filter_map(knee_note).collect();
    Some(plot.picture("Mean response time over throughput".to_owned(), notes))
}

fn draw_dot(point: &LoadPoint, loads: &RateAxis, times: &LinearTimeAxis, remark: &str) -> Dot {
    let (done, offered) = (Rate::Ops(point.achieved_per_s), point.requested_per_s as f64);
    Dot {
        x: loads.at(point.achieved_per_s),
        y: times.at(point.mean_ns),
        reach: None,
        trials: Vec::new(),
        text: format!("{done} of {}: {}{remark}", Rate::Ops(offered), Nanos(point.mean_ns)),
    }
}

fn knee_note(named: &Named) -> Option<String> {
    let (low, high) = match named.curve.knee() {
        Knee::Bend { interval_per_s, .. } => interval_per_s,
        Knee::Cliff { carried_per_s, short_per_s } => (carried_per_s, short_per_s),
        _ => return None,
    };
    Some(format!("Knee of {}: {} to {}.", named.name, Rate::Ops(low), Rate::Ops(high)))
}
