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

use crate::picture::{About, Counted, Dot, Picture, Plot, RateAxis, Series, Tick, TimeAxis};

/// So many passes of a run are drawn.
const PASSES_MAX: usize = 4;

/// So many powers of two stand at the axis at most.
const TICKS_MAX: u32 = 6;

/// Two pictures of a search; none where fewer than two loads have figures.
pub fn pictures(
    number: usize,
    name: &str,
    searched: &Searched<'_>,
    asked: &RampRequest,
) -> Vec<Picture> {
    let Some(drawn) = Drawn::of(searched, asked) else { return Vec::new() };
    let rates = RateAxis::new(drawn.counted, drawn.most(|(per_s, _)| per_s));
    let of_rates = drawn.series(
        |(per_s, _)| rates.at(per_s),
        |pass, (per_s, _)| Rate::of_pass(pass, per_s).to_string(),
    );
    let slowest = drawn.most(|(_, ns)| ns as f64) as u64;
    let quickest = drawn.figures().map(|(_, ns)| ns).min().unwrap_or(1);
    let times = TimeAxis::new(quickest, slowest);
    let of_times = drawn.series(|(_, ns)| times.at(ns), |_, (_, ns)| Nanos(ns).to_string());
    let title = |what: &str| format!("{what} over load, {name}");
    vec![
        drawn.picture(
            format!("ramp-rate-{number}"),
            title(&format!("Throughput ({})", rates.unit)),
            rates.ticks(),
            of_rates,
        ),
        drawn.picture(
            format!("ramp-p99-{number}"),
            title("99th percentile of response times"),
            times.ticks(),
            of_times,
        ),
    ]
}

/// A rate per second, and a 99th percentile in nanoseconds.
type Point = (f64, u64);

/// The data drawn of a search.
struct Drawn<'a> {
    asked: &'a RampRequest,
    counted: Counted,
    /// Each pass with its loads and their figures.
    passes: Vec<(Pass, Vec<(u32, Point)>)>,
    /// Loads with which trials failed, or no answer came.
    failed: Vec<u32>,
    gave_in: Option<u32>,
    ends: (u32, u32),
}

impl<'a> Drawn<'a> {
    fn of(searched: &Searched<'_>, asked: &'a RampRequest) -> Option<Self> {
        let spec = &searched.tried.first()?.run.spec;
        let counted = Counted::of_pass(*spec.passes().first()?);
        let loads: BTreeSet<u32> = searched.tried.iter().map(|tried| tried.load).collect();
        let is_alike = |(_, pass): &(usize, &Pass)| Counted::of_pass(**pass) == counted;
        let passes = spec.passes().iter().enumerate().filter(is_alike).take(PASSES_MAX);
        let of_pass = |(place, pass): (usize, &Pass)| {
            let at = |load: &u32| {
                let figure = searched.search.figure(*load, place)?;
                Some((*load, (figure.per_s, figure.p99_ns)))
            };
            (*pass, loads.iter().filter_map(at).collect::<Vec<_>>())
        };
        let passes: Vec<_> = passes.map(of_pass).collect();
        let broken = searched.tried.iter().filter(|tried| {
            tried.purpose != Purpose::Recovery && matches!(tried.outcome, TrialOutcome::Broken(_))
        });
        let failed: BTreeSet<u32> = broken.map(|tried| tried.load).collect();
        let known = passes.iter().any(|(_, points)| points.len() > 1);
        known.then_some(Self {
            asked,
            counted,
            passes,
            failed: failed.into_iter().collect(),
            gave_in: searched.search.found().gave_in.map(|(load, _)| load),
            ends: (*loads.first()?, *loads.last()?),
        })
    }

    fn figures(&self) -> impl Iterator<Item = Point> {
        self.passes.iter().flat_map(|(_, points)| points.iter().map(|(_, point)| *point))
    }

    fn most(&self, of: impl Fn(Point) -> f64) -> f64 {
        self.figures().map(of).fold(0.0, f64::max)
    }

    /// Returns the position of a load on the axis, in percent.
    fn at(&self, load: u32) -> f64 {
        let (first, last) = self.ends;
        let doublings = |load: u32| (f64::from(load) / f64::from(first.max(1))).log2();
        doublings(load) / doublings(last).max(f64::MIN_POSITIVE) * 100.0
    }

    /// The first load and its doubles, as many as there is room for.
    fn ticks(&self) -> Vec<Tick> {
        let (first, last) = self.ends;
        let doublings = (last / first.max(1)).max(1).ilog2();
        let step = doublings.div_ceil(TICKS_MAX).max(1);
        let ticks = (0..=doublings).step_by(step as usize).map(|n| first.max(1) << n);
        ticks.map(|load| (self.at(load), load.to_string())).collect()
    }

    fn series(
        &self,
        height: impl Fn(Point) -> f64,
        said: impl Fn(Pass, Point) -> String,
    ) -> Vec<Series> {
        let of_pass = |(pass, points): &(Pass, Vec<(u32, Point)>)| Series {
            name: pass.name().to_owned(),
            dots: points
                .iter()
                .map(|(load, point)| self.dot(*load, height(*point), &said(*pass, *point)))
                .collect(),
            is_joined: true,
        };
        let mut series: Vec<Series> = self.passes.iter().map(of_pass).collect();
        if !self.failed.is_empty() {
            let dots = self.failed.iter().map(|load| self.dot(*load, 0.0, "failed")).collect();
            let name = "no answer, or failed".to_owned();
            series.push(Series { name, dots, is_joined: false });
        }
        series
    }

    fn dot(&self, load: u32, y: f64, said: &str) -> Dot {
        let said = format!("{}: {said}", self.asked.describe_load(load));
        Dot { x: self.at(load), y, reach: None, trials: Vec::new(), said }
    }

    fn picture(
        &self,
        id: String,
        title: String,
        y_ticks: Vec<Tick>,
        series: Vec<Series>,
    ) -> Picture {
        let described = series.iter().map(|series| {
            let said: Vec<&str> = series.dots.iter().map(|dot| dot.said.as_str()).collect();
            format!("{}: {}", series.name, said.join(", "))
        });
        let description = described.collect::<Vec<_>>().join("; ");
        let about = About { id, title: title.clone(), description, unit: "" };
        let x_name = match self.asked.setting.as_str() {
            "rate" => "offered load, op/s".to_owned(),
            setting => setting.replace('_', " "),
        };
        let upright = self.gave_in.map(|load| (self.at(load), format!("gave in at {load}")));
        let plot = Plot { about, x_ticks: self.ticks(), x_name, y_ticks, upright, series };
        plot.picture(title, Vec::new())
    }
}
