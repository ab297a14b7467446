//! Pictures of a ramp: throughput and response times over the load, and where it broke.
//!
//! Loads double, so the axis has powers of two. Each point is the median of the trials with its
//! load. Failed loads are drawn at the bottom, and loads at which the client was at its limit have
//! an unfilled mark.

use std::collections::BTreeSet;

use model::question::RampRequest;
use model::units::Nanos;
use model::{Pass, PassResult};
use stats::Rate;
use stats::breaking::{FinishedSearch, Purpose, TrialOutcome};

use crate::chart::{
    ChartText, Dot, DotKind, Picture, Plot, RateAxis, RateUnit, Series, Tick, TimeAxis,
    describe_series,
};

/// Quantiles of response times to draw.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Maximum number of passes of a run to draw.
const PASSES_MAX: usize = 4;

/// Maximum number of powers of two on the axis.
const TICKS_MAX: u32 = 6;

/// Draws the pictures of a search: the rates, and the response times of each pass. Empty unless two
/// loads have results.
pub(super) fn pictures(
    number: usize,
    name: &str,
    searched: &FinishedSearch<'_>,
    request: &RampRequest,
) -> Vec<Picture> {
    let Some(drawn) = RampPlot::new(searched, request) else { return Vec::new() };
    let mut most = 0.0_f64;
    let mut slowest = 0;
    let mut quickest = u64::MAX;
    for point in drawn.passes.iter().flat_map(|(_, points)| points) {
        most = most.max(point.per_s);
        slowest = slowest.max(point.times_ns[2]);
        quickest = quickest.min(point.times_ns[0]);
    }
    let rates = RateAxis::new(drawn.counted, most);
    // All passes share one axis.
    let times = TimeAxis::new(quickest, slowest);
    let mut rate_lines = Vec::new();
    for (pass, points) in &drawn.passes {
        let mut dots = Vec::new();
        for point in points {
            let rate = Rate::for_pass(*pass, point.per_s).to_string();
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

/// Medians of the trials with a load.
struct Point {
    load: u32,
    per_s: f64,
    /// At the quantiles in [`QUANTILES`].
    times_ns: [u64; 3],
    /// True if the client was at its limit in all trials.
    is_limited: bool,
    /// True if enough of the offered load was done to count as sustained; always true in closed
    /// loops.
    is_sustained: bool,
}

impl Point {
    /// Summarizes the trials of a load in the pass at index `place`: those that tell something
    /// about the server or, if there are none, those in which the client was at its limit.
    fn new(searched: &FinishedSearch<'_>, load: u32, place: usize) -> Option<Self> {
        let mut clean: Vec<&PassResult> = Vec::new();
        let mut limited: Vec<&PassResult> = Vec::new();
        for tried in &searched.tried {
            // After a break, the lightest load is repeated to see whether the server recovers.
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
        // If the search used a result of the server, draw that one.
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

/// Data of a search to draw.
struct RampPlot<'a> {
    request: &'a RampRequest,
    counted: RateUnit,
    /// Each pass with the loads that have results.
    passes: Vec<(Pass, Vec<Point>)>,
    /// Loads under which trials failed or got no reply.
    failed: BTreeSet<u32>,
    lightest_bad: Option<u32>,
    /// Lightest and heaviest load tried.
    ends: (u32, u32),
}

impl<'a> RampPlot<'a> {
    fn new(searched: &FinishedSearch<'_>, request: &'a RampRequest) -> Option<Self> {
        let spec = &searched.tried.first()?.run.spec;
        let counted = RateUnit::from_pass(*spec.passes().first()?);
        let mut loads = BTreeSet::new();
        let mut failed = BTreeSet::new();
        for tried in &searched.tried {
            loads.insert(tried.load);
            // Failures after a break say nothing about the load, since the server was already down.
            let is_broken = matches!(tried.outcome, TrialOutcome::Broken(_));
            if is_broken && tried.purpose != Purpose::Recovery {
                failed.insert(tried.load);
            }
        }
        let mut passes = Vec::new();
        let mut has_line = false;
        for (place, pass) in spec.passes().iter().enumerate() {
            // All lines share an axis, so they need the same unit.
            if RateUnit::from_pass(*pass) != counted || passes.len() == PASSES_MAX {
                continue;
            }
            let points: Vec<_> =
                loads.iter().filter_map(|&load| Point::new(searched, load, place)).collect();
            has_line |= points.len() > 1;
            passes.push((*pass, points));
        }
        if !has_line {
            return None;
        }
        let lightest_bad = searched.search.breaking_point().lightest_bad.map(|(load, _)| load);
        let ends = (*loads.first()?, *loads.last()?);
        Some(Self { request, counted, passes, failed, lightest_bad, ends })
    }

    /// Position of a load on the axis, in percent.
    fn x_of_load(&self, load: u32) -> f64 {
        let (first, last) = self.ends;
        let all = count_doublings(first, last).max(f64::MIN_POSITIVE);
        count_doublings(first, load) / all * 100.0
    }

    /// Ticks at the first load and its doubles, as space allows.
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

    /// Dot at the bottom for a load without a reply.
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
        // Failed loads have no result of the server, so they are at the bottom of every picture.
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
        let upright =
            self.lightest_bad.map(|load| (self.x_of_load(load), format!("breaks at {load}")));
        let plot = Plot { about, x_ticks: self.x_ticks(), x_name, y_ticks, upright, series };
        plot.picture(title, Vec::new())
    }
}

/// Returns the number of doublings from the first load to this one.
fn count_doublings(first: u32, load: u32) -> f64 {
    // A search doubles its loads, so they are equally spaced on this axis.
    (f64::from(load) / f64::from(first.max(1))).log2()
}
