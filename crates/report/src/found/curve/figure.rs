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
};

/// The picture; none where nothing was carried.
pub fn pictures(curves: &[Named]) -> Vec<Picture> {
    let groups: Vec<&[Named]> = curves.chunks(SERIES_MAX / 2).collect();
    let picture = |(number, group): (usize, &&[Named])| draw_curves(number, group);
    groups.iter().enumerate().filter_map(picture).collect()
}

fn draw_curves(number: usize, curves: &[Named]) -> Option<Picture> {
    let points = || curves.iter().flat_map(|named| named.curve.points());
    let carried = |point: &&LoadPoint| point.standing() == Standing::Carried;
    let slowest_ns = points().filter(carried).map(|point| point.mean_ns).max()?;
    let times = LinearTimeAxis::new(slowest_ns);
    let most = points().map(|point| point.achieved_per_s).fold(0.0, f64::max);
    let loads = RateAxis::new(Counted::Ops, most);
    let dot = |point: &LoadPoint| {
        let short = if carried(&point) { "" } else { ", not carried" };
        let (done, offered) = (Rate::Ops(point.achieved_per_s), point.requested_per_s as f64);
        Dot {
            x: loads.at(point.achieved_per_s),
            y: times.at(point.mean_ns),
            reach: None,
            trials: Vec::new(),
            said: format!("{done} of {}: {}{short}", Rate::Ops(offered), Nanos(point.mean_ns)),
        }
    };
    let mut series = Vec::new();
    for named in curves {
        let mut dots: Vec<Dot> = named.curve.points().iter().filter(carried).map(dot).collect();
        dots.sort_by(|one, other| one.x.total_cmp(&other.x));
        series.push(Series { name: named.name.clone(), dots, is_joined: true });
        let other =
            |point: &&LoadPoint| !matches!(point.standing(), Standing::Carried | Standing::Missing);
        let dots: Vec<Dot> = named.curve.points().iter().filter(other).map(dot).collect();
        if !dots.is_empty() {
            let name = format!("not carried, {}", named.name);
            series.push(Series { name, dots, is_joined: false });
        }
    }
    let described = series.iter().map(|series| {
        let said: Vec<&str> = series.dots.iter().map(|dot| dot.said.as_str()).collect();
        format!("{}: {}", series.name, said.join(", "))
    });
    let about = About {
        id: format!("carried-{number}"),
        title: "Response time over throughput".to_owned(),
        description: described.collect::<Vec<_>>().join("; "),
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

fn knee_note(named: &Named) -> Option<String> {
    let (low, high) = match named.curve.knee() {
        Knee::Bend { interval_per_s, .. } => interval_per_s,
        Knee::Cliff { carried_per_s, short_per_s } => (carried_per_s, short_per_s),
        _ => return None,
    };
    Some(format!("Knee of {}: {} to {}.", named.name, Rate::Ops(low), Rate::Ops(high)))
}
