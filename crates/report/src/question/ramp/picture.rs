//! The pictures of a ramp: throughput and response times over the load, and where it broke.
//!
//! Loads double, so their axis is one of powers of two. Each point is the median of the trials with
//! its load; what failed stands on the ground, and loads at which the client was at its own limit
//! have an unfilled mark.

use std::collections::BTreeSet;

use model::question::RampRequest;
use model::units::Nanos;
use model::{Pass, PassResult};
use stats::Rate;
use stats::breaking::{Purpose, Searched, TrialOutcome};

use crate::chart::{
    ChartText, Dot, DotKind, Picture, Plot, RateAxis, RateUnit, Series, Tick, TimeAxis,
    describe_series,
};

/// The quantiles of response times that are drawn.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// So many passes of a run are drawn.
const PASSES_MAX: usize = 4;

/// So many powers of two stand at the axis at most.
const TICKS_MAX: u32 = 6;

/// The pictures of a search: the rates, and the response times of each pass; none where fewer than
/// two loads have figures.
pub(super) fn pictures(
    number: usize,
    name: &str,
    searched: &Searched<'_>,
    request: &RampRequest,
) -> Vec<Picture> {
    let Some(drawn) = RampPlot::new(searched, request) else { return Vec::new() };
    let (mut most, mut slowest, mut quickest) = (0.0_f64, 0, u64::MAX);
    for point in drawn.passes.iter().flat_map(|(_, points)| points) {
        most = most.max(point.per_s);
        slowest = slowest.max(point.times_ns[2]);
        quickest = quickest.min(point.times_ns[0]);
    }
    let rates = RateAxis::new(drawn.counted, most);
    // One axis for all passes.
    let times = TimeAxis::new(quickest, slowest);
    let mut rate_lines = Vec::new();
    for (pass, points) in &drawn.passes {
        let mut dots = Vec::new();
        for point in points {
            let rate = Rate::of_pass(*pass, point.per_s).to_string();
            dots.push(drawn.dot(point, rates.at(point.per_s), &rate));
        }
        rate_lines.push(Series { name: pass.name().to_owned(), dots, is_joined: true });
    }
    let title = format!("Throughput ({}) over load, {name}", rates.unit);
    let mut pictures =
        vec![drawn.picture(format!("ramp-rate-{number}"), title, rates.ticks(), rate_lines)];
    for (place, (pass, points)) in drawn.passes.iter().enumerate() {
        let mut lines = Vec::new();
        for (quantile, quantile_name) in ["p50", "p95", "p99"].into_iter().enumerate() {
            let mut dots = Vec::new();
            for point in points {
                let time_ns = point.times_ns[quantile];
                dots.push(drawn.dot(point, times.at(time_ns), &Nanos(time_ns).to_string()));
            }
            lines.push(Series { name: quantile_name.to_owned(), dots, is_joined: true });
        }
        let of =
            if drawn.passes.len() > 1 { format!(" of {}", pass.name()) } else { String::new() };
        let title = format!("Response time{of} over load, logarithmic, {name}");
        let id = format!("ramp-times-{number}-{place}");
        pictures.push(drawn.picture(id, title, times.ticks(), lines));
    }
    pictures
}

/// The medians of the trials with a load.
struct Point {
    load: u32,
    per_s: f64,
    /// The quantiles of [`QUANTILES`].
    times_ns: [u64; 3],
    /// The client was at its own limit in all of its trials.
    is_limited: bool,
    /// So much of the offered load was done as counts as sustained; always in closed loops.
    is_sustained: bool,
}

impl Point {
    /// The trials of a load in a pass, by its place in the run: those that say something of the
    /// server, or else those in which the client was at its own limit.
    fn new(searched: &Searched<'_>, load: u32, place: usize) -> Option<Self> {
        let (mut clean, mut limited): (Vec<&PassResult>, Vec<&PassResult>) = (vec![], vec![]);
        for tried in &searched.tried {
            // After a break, the lightest load is tried to see whether the server recovers.
            if tried.load != load || tried.purpose == Purpose::Recovery {
                continue;
            }
            let TrialOutcome::Figures(figures) = &tried.outcome else { continue };
            let pass = tried.run.spec.passes().get(place).copied();
            let result = tried.trial.passes.iter().find(|result| Some(result.pass) == pass);
            match (figures.get(place), result) {
                (Some(Some(_)), Some(result)) => clean.push(result),
                (Some(None), Some(result)) => limited.push(result),
                _ => {}
            }
        }
        let is_limited = clean.is_empty();
        let results = if is_limited { limited } else { clean };
        let mut rates = Vec::new();
        let mut times: [Vec<f64>; 3] = Default::default();
        for result in results {
            let amount = if result.pass.is_byte_rate() { result.bytes() } else { result.ops() };
            rates.push(amount as f64 * 1e9 / result.window_ns.max(1) as f64);
            let response_time = result.response_time();
            for (number, q) in QUANTILES.into_iter().enumerate() {
                times[number].push(response_time.quantile(q) as f64);
            }
        }
        // What the search went by is what is drawn, where there is a figure of the server.
        let figure = searched.search.figure(load, place);
        let per_s = match figure {
            Some(figure) => figure.per_s,
            None => stats::median(&rates)?,
        };
        let is_sustained = !figure.is_some_and(|figure| figure.is_behind());
        let times_ns = times.map(|times| stats::median(&times).unwrap_or(0.0) as u64);
        Some(Self { load, per_s, times_ns, is_limited, is_sustained })
    }
}

/// The data drawn of a search.
struct RampPlot<'a> {
    request: &'a RampRequest,
    counted: RateUnit,
    /// Each pass with the loads that have figures.
    passes: Vec<(Pass, Vec<Point>)>,
    /// Loads with which trials failed or got no reply.
    failed: BTreeSet<u32>,
    gave_in: Option<u32>,
    /// The lightest and the heaviest load that was tried.
    ends: (u32, u32),
}

impl<'a> RampPlot<'a> {
    fn new(searched: &Searched<'_>, request: &'a RampRequest) -> Option<Self> {
        let spec = &searched.tried.first()?.run.spec;
        let counted = RateUnit::from_pass(*spec.passes().first()?);
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
            if RateUnit::from_pass(*pass) != counted || passes.len() == PASSES_MAX {
                continue;
            }
            let mut points = Vec::new();
            for &load in &loads {
                points.extend(Point::new(searched, load, place));
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

    fn dot(&self, point: &Point, y: f64, figure: &str) -> Dot {
        let remark = if point.is_limited { ", this host short of CPU time" } else { "" };
        Dot {
            x: self.x_of_load(point.load),
            y,
            reach: None,
            trials: Vec::new(),
            standing: DotKind::new(point.is_sustained, point.is_limited),
            text: format!("{}: {figure}{remark}", self.request.describe_load(point.load)),
        }
    }

    /// A load without a reply, on the ground.
    fn failed_dot(&self, load: u32) -> Dot {
        Dot {
            x: self.x_of_load(load),
            y: 0.0,
            reach: None,
            trials: Vec::new(),
            standing: DotKind::NotSustained,
            text: format!("{}: no reply, or failed", self.request.describe_load(load)),
        }
    }

    fn picture(
        &self,
        id: String,
        title: String,
        y_ticks: Vec<Tick>,
        mut series: Vec<Series>,
    ) -> Picture {
        // They have no figure of the server, so they stand on the ground of every picture.
        if let Some(first) = series.first_mut() {
            for load in &self.failed {
                first.dots.push(self.failed_dot(*load));
            }
        }
        let description = describe_series(&series);
        let about = ChartText { id, title: title.clone(), description, unit: "" };
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
