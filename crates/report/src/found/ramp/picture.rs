//! The pictures of a ramp: throughput and response times over the load, and where it broke.
//!
//! Loads double, so their axis is one of powers of two. Each point is the median of the trials with
//! its load; what failed stands on the ground. A load without a figure of the server has no point.

use std::collections::BTreeSet;

use model::Pass;
use model::question::RampRequest;
use model::units::Nanos;
use stats::Rate;
use stats::breaking::{Purpose, Searched, TrialOutcome};

use crate::picture::{
    About, Counted, Dot, Picture, Plot, RateAxis, Series, Tick, TimeAxis, describe_series,
};

/// So many passes of a run are drawn.
const PASSES_MAX: usize = 4;

/// So many powers of two stand at the axis at most.
const TICKS_MAX: u32 = 6;

/// Two pictures of a search; none where fewer than two loads have figures.
pub fn pictures(
    number: usize,
    name: &str,
    searched: &Searched<'_>,
    request: &RampRequest,
) -> Vec<Picture> {
    let Some(drawn) = Drawn::of(searched, request) else { return Vec::new() };
    let (mut most, mut slowest, mut quickest) = (0.0_f64, 0, u64::MAX);
    for (_, points) in &drawn.passes {
        for point in points {
            most = most.max(point.per_s);
            slowest = slowest.max(point.p99_ns);
            quickest = quickest.min(point.p99_ns);
        }
    }
    let rates = RateAxis::new(drawn.counted, most);
    let times = TimeAxis::new(quickest, slowest);
    let (mut rate_lines, mut time_lines) = (Vec::new(), Vec::new());
    for (pass, points) in &drawn.passes {
        let (mut rate_dots, mut time_dots) = (Vec::new(), Vec::new());
        for point in points {
            let rate = Rate::of_pass(*pass, point.per_s).to_string();
            rate_dots.push(drawn.dot(point.load, rates.at(point.per_s), &rate));
            let time = Nanos(point.p99_ns).to_string();
            time_dots.push(drawn.dot(point.load, times.at(point.p99_ns), &time));
        }
        let name = pass.name().to_owned();
        rate_lines.push(Series { name: name.clone(), dots: rate_dots, is_joined: true });
        time_lines.push(Series { name, dots: time_dots, is_joined: true });
    }
    vec![
        drawn.picture(
            format!("ramp-rate-{number}"),
            format!("Throughput ({}) over load, {name}", rates.unit),
            rates.ticks(),
            rate_lines,
        ),
        drawn.picture(
            format!("ramp-p99-{number}"),
            format!("99th percentile of response times over load, {name}"),
            times.ticks(),
            time_lines,
        ),
    ]
}

/// The median of the trials with a load.
struct Point {
    load: u32,
    per_s: f64,
    p99_ns: u64,
}

/// The data drawn of a search.
struct Drawn<'a> {
    request: &'a RampRequest,
    counted: Counted,
    /// Each pass with the loads that have figures.
    passes: Vec<(Pass, Vec<Point>)>,
    /// Loads with which trials failed or got no reply.
    failed: BTreeSet<u32>,
    gave_in: Option<u32>,
    /// The lightest and the heaviest load that was tried.
    ends: (u32, u32),
}

impl<'a> Drawn<'a> {
    fn of(searched: &Searched<'_>, request: &'a RampRequest) -> Option<Self> {
        let spec = &searched.tried.first()?.run.spec;
        let counted = Counted::of_pass(*spec.passes().first()?);
        let (mut loads, mut failed) = (BTreeSet::new(), BTreeSet::new());
        for tried in &searched.tried {
            loads.insert(tried.load);
            // What fails after a break says nothing of the load: the server was down already.
            let is_broken = matches!(tried.outcome, TrialOutcome::Broken(_));
            if is_broken && tried.purpose != Purpose::Recovery {
                failed.insert(tried.load);
            }
        }
        let mut passes = Vec::new();
        let mut has_line = false;
        for (place, pass) in spec.passes().iter().enumerate() {
            // All lines share an axis, so they are of one unit.
            if Counted::of_pass(*pass) != counted || passes.len() == PASSES_MAX {
                continue;
            }
            let mut points = Vec::new();
            for &load in &loads {
                if let Some(figure) = searched.search.figure(load, place) {
                    points.push(Point { load, per_s: figure.per_s, p99_ns: figure.p99_ns });
                }
            }
            has_line |= points.len() > 1;
            passes.push((*pass, points));
        }
        if !has_line {
            return None;
        }
        let gave_in = searched.search.found().gave_in.map(|(load, _)| load);
        let ends = (*loads.first()?, *loads.last()?);
        Some(Self { request, counted, passes, failed, gave_in, ends })
    }

    /// Returns the position of a load on the axis, in percent.
    fn x_of_load(&self, load: u32) -> f64 {
        let (first, last) = self.ends;
        let all = count_doublings(first, last).max(f64::MIN_POSITIVE);
        count_doublings(first, load) / all * 100.0
    }

    /// The first load and its doubles, as many as there is room for.
    fn x_ticks(&self) -> Vec<Tick> {
        let (first, last) = self.ends;
        let doublings = (last / first.max(1)).max(1).ilog2();
        let step = doublings.div_ceil(TICKS_MAX).max(1);
        let mut ticks = Vec::new();
        for doubling in (0..=doublings).step_by(step as usize) {
            let load = first.max(1) << doubling;
            ticks.push((self.x_of_load(load), load.to_string()));
        }
        ticks
    }

    fn dot(&self, load: u32, y: f64, figure: &str) -> Dot {
        let text = format!("{}: {figure}", self.request.describe_load(load));
        Dot { x: self.x_of_load(load), y, reach: None, trials: Vec::new(), text }
    }

    fn picture(
        &self,
        id: String,
        title: String,
        y_ticks: Vec<Tick>,
        mut series: Vec<Series>,
    ) -> Picture {
        if !self.failed.is_empty() {
            // They have no figure of the server, so they stand on the ground of both pictures.
            let dots = self.failed.iter().map(|load| self.dot(*load, 0.0, "failed")).collect();
            let name = "no reply, or failed".to_owned();
            series.push(Series { name, dots, is_joined: false });
        }
        let description = describe_series(&series);
        let about = About { id, title: title.clone(), description, unit: "" };
        let x_name = match self.request.setting.as_str() {
            "rate" => "offered load, op/s".to_owned(),
            setting => setting.replace('_', " "),
        };
        let upright = self.gave_in.map(|load| (self.x_of_load(load), format!("breaks at {load}")));
        let plot = Plot { about, x_ticks: self.x_ticks(), x_name, y_ticks, upright, series };
        plot.picture(title, Vec::new())
    }
}

/// Returns how often the first load has to be doubled to become this one.
fn count_doublings(first: u32, load: u32) -> f64 {
    // A search doubles its loads, so on this axis they have equal distances.
    (f64::from(load) / f64::from(first.max(1))).log2()
}
