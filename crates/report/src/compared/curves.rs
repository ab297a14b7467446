//! Two load curves beside each other, where both campaigns drew some.
//!
//! [`CurvePair`] is the principal type: a curve before and after. Its rows are load points of one
//! trial each, of which no row can be compared alone; all of them together say whether the server
//! is slower, and whether it carries less. Numbers come from [`stats::curve`].

use std::collections::BTreeSet;

use model::Question;
use model::question::CurveRequest;
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::curve::{Between, Curve, CurvesCompared, PAIRS_MIN, RATIO_CONFIDENCE, TimePair};
use stats::{Outcome, Rate};

use super::rows::{self, REPETITION};
use super::{LeftOut, Measure, Rules, Selection};
use crate::document::{Column, Role, Table, TableRow};
use crate::found::curve::{self, Named};
use crate::picture::Picture;
use crate::sheet::{Row, Sheet};
use crate::show;

/// A curve of each side.
pub struct CurvePair {
    /// Target and workload, and settings that tell it from others.
    pub name: String,
    /// The comparison of both curves.
    pub compared: CurvesCompared,
    curves: [Curve; 2],
    /// Settings that differ, with both values.
    differing: Vec<String>,
    /// By how much the peak may fall, and times may rise, as shares.
    bounds: [Option<f64>; 2],
}

/// A figure of a pair that may have a bound.
pub struct Check {
    /// `peak` or `response-time`.
    pub name: &'static str,
    /// The outcome, with its bound.
    pub why: String,
    /// It got worse by more than its bound.
    pub is_regression: bool,
    /// It has a bound, and nobody can tell whether that is kept.
    pub is_undecidable: bool,
}

/// A curve of one side.
struct Side {
    named: Named,
    settings: BTreeSet<(&'static str, String)>,
}

/// Pairs the curves of two selections, where both are of campaigns that drew curves; searches for a
/// bound try loads of their own.
pub(super) fn paired(
    sides: [Selection<'_>; 2],
    rules: &Rules,
) -> Option<(Vec<CurvePair>, Vec<LeftOut>)> {
    let [before, after] = sides.map(curve_asked);
    let named = sides.iter().flat_map(|side| side.only).map(|(name, _)| name.as_str());
    let unsaid: Vec<&str> = named.chain(REPETITION).chain(["rate"]).collect();
    let first = of_side(sides[0], before?, &unsaid);
    let second = of_side(sides[1], after?, &unsaid);
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let are_alone = first.len() == 1 && second.len() == 1;
    let fits = |one: &Side, other: &Side| are_alone || one.named.name == other.named.name;
    let mut out = Vec::new();
    let mut pairs = Vec::new();
    for one in &first {
        match second.iter().find(|other| fits(one, other)) {
            Some(other) => pairs.push(CurvePair::of(one, other, rules)),
            None => out.push(only_before(one)),
        }
    }
    let new = second.iter().filter(|other| !first.iter().any(|one| fits(one, other)));
    out.extend(new.map(only_after));
    Some((pairs, out))
}

fn only_before(side: &Side) -> LeftOut {
    let why = "only before".to_owned();
    LeftOut { name: side.named.name.clone(), why, matters: true, matched: false }
}

/// Returns the entry for a curve that only the second side has; it can't have got worse.
fn only_after(side: &Side) -> LeftOut {
    let why = "only after".to_owned();
    LeftOut { name: side.named.name.clone(), why, matters: false, matched: false }
}

fn curve_asked(side: Selection<'_>) -> Option<&CurveRequest> {
    match &side.campaign.question {
        Question::Curve(asked) if asked.bound.is_none() => Some(asked),
        _ => None,
    }
}

fn of_side(side: Selection<'_>, asked: &CurveRequest, unsaid: &[&str]) -> Vec<Side> {
    let sheet = Sheet::of(side.campaign);
    let chosen = || sheet.rows.iter().filter(|row| rows::is_chosen(row, side.only));
    let curves = curve::curves(&sheet, chosen(), asked, unsaid);
    let of = |named: Named| {
        let of_curve = |row: &&Row<'_>| sheet.name_without(row, unsaid) == named.name;
        let first = chosen().find(of_curve);
        let settings = first.into_iter().flat_map(rows::settings);
        let said = settings.filter(|(name, _)| !unsaid.contains(name)).collect();
        Side { named, settings: said }
    };
    curves.into_iter().map(of).collect()
}

impl CurvePair {
    fn of(before: &Side, after: &Side, rules: &Rules) -> Self {
        let curves = [before, after].map(|side| side.named.curve.clone());
        let value = |side: &Side, name: &str| {
            let known = side.settings.iter().find(|(known, _)| *known == name);
            known.map_or("none", |(_, value)| value).to_owned()
        };
        let differing = before.settings.symmetric_difference(&after.settings);
        let names: BTreeSet<&str> = differing.map(|(name, _)| *name).collect();
        let told =
            |name: &&str| format!("{name} ({}, {})", value(before, name), value(after, name));
        let times = Measure::ALL[1..].iter().filter_map(|measure| rules.bound(*measure));
        Self {
            name: before.named.name.clone(),
            compared: CurvesCompared::of(&curves[0], &curves[1], rules.effect),
            curves,
            differing: names.iter().map(told).collect(),
            bounds: [rules.bound(Measure::Rate), times.reduce(f64::min)],
        }
    }

    /// Describes the outcome in one sentence.
    pub fn sentence(&self) -> String {
        let CurvesCompared { time, peak, .. } = &self.compared;
        let verdict = match (time, peak) {
            (Outcome::Higher, Outcome::Higher) => "slower afterwards, and carries more",
            (Outcome::Lower, Outcome::Lower) => "faster afterwards, and carries less",
            (Outcome::Higher, Outcome::Lower) => "slower afterwards, and carries less",
            (Outcome::Lower, Outcome::Higher) => "faster afterwards, and carries more",
            (Outcome::Higher, _) => "slower afterwards",
            (Outcome::Lower, _) => "faster afterwards",
            (_, Outcome::Lower) => "carries less afterwards",
            (_, Outcome::Higher) => "carries more afterwards",
            (Outcome::Same, _) => "no difference",
            _ => "no difference can be told from noise",
        };
        format!("{}: {verdict}: {}; {}.", self.name, self.times(), self.peaks())
    }

    /// Describes the change of response times.
    fn times(&self) -> String {
        let pairs = show::counted(self.compared.pairs.len(), "load");
        let Some(ratio) = self.compared.time_ratio else {
            return format!("{pairs} that both carry say nothing of response times");
        };
        let overall = self.compared.overall_ns.map_or_else(String::new, |(from, to)| {
            format!(
                ", the overall response time there {} ({} to {}) instead of {}",
                format_nanos(to.at),
                format_nanos(to.low),
                format_nanos(to.high),
                format_nanos(from)
            )
        });
        format!(
            "at {pairs} that both carry, answers take {} times as long as before ({:.0} % interval \
             {} to {}){overall}",
            three_digits(ratio.at),
            RATIO_CONFIDENCE * 100.0,
            three_digits(ratio.low),
            three_digits(ratio.high)
        )
    }

    /// Describes the change of the peak.
    fn peaks(&self) -> String {
        let [Some(before), Some(after)] = self.compared.peaks else {
            return "one of the two has no peak, since nothing was carried".to_owned();
        };
        let word = match self.compared.peak {
            Outcome::Higher => "rose",
            Outcome::Lower => "fell",
            Outcome::Same => "is the same",
            Outcome::Unclear => "is known no better than load points are apart",
        };
        format!("the peak {word}: {} before, {} after", describe_peak(before), describe_peak(after))
    }

    /// Returns the remarks that qualify the outcome.
    pub fn remarks(&self) -> Vec<String> {
        let mut said = Vec::new();
        let name = &self.name;
        if let [Some(before), Some(after)] = self.compared.knees {
            let word = match self.compared.knee {
                Outcome::Higher => "comes later",
                Outcome::Lower => "comes sooner",
                Outcome::Same => "is where it was",
                Outcome::Unclear => "may be where it was",
            };
            let told =
                |knee: Between| format!("{} to {}", format_ops(knee.low), format_ops(knee.high));
            said.push(format!(
                "{name}: the knee {word}: {} before, {} after.",
                told(before),
                told(after)
            ));
        }
        for (side, curve) in ["before", "after"].iter().zip(&self.curves) {
            let holes = curve.holes().len();
            if holes > 0 {
                let points = show::counted(holes, "load point");
                said.push(format!("{name}: {points} {side} below the peak do not count."));
            }
        }
        if self.compared.pairs.iter().any(|pair| pair.is_between) {
            said.push(format!(
                "{name}: the curves have different load points, and response times after lie \
                 between two of them: the same --max-load and --points would do better."
            ));
        }
        if !self.differing.is_empty() {
            said.push(format!("{name}: settings differ: {}.", show::listed(&self.differing)));
        }
        said
    }

    /// The peak and the response time, each held to its bound.
    pub fn checks(&self) -> impl Iterator<Item = Check> {
        let CurvesCompared { time, time_ratio, peak, peaks, .. } = &self.compared;
        let limit = |bound: Option<f64>, word: &str| {
            bound.map_or_else(String::new, |b| format!("; at most {} {word}", show::percent(b)))
        };
        let of_peak = || {
            let [before, after] = [peaks[0]?, peaks[1]?];
            let least = before.at * (1.0 - self.bounds[0]?);
            let is_lost = *peak == Outcome::Lower && after.at < least;
            Some((is_lost, *peak == Outcome::Unclear && after.at < least))
        };
        let of_time = || {
            let (ratio, most) = ((*time_ratio)?, 1.0 + self.bounds[1]?);
            let is_lost = *time == Outcome::Higher && ratio.at > most;
            Some((is_lost, *time == Outcome::Unclear && ratio.high > most))
        };
        let check = |name, why, bound: Option<f64>, told: Option<(bool, bool)>| Check {
            name,
            why,
            is_regression: told.is_some_and(|(is_lost, _)| is_lost),
            is_undecidable: bound.is_some() && told.is_none_or(|(_, is_open)| is_open),
        };
        let why_peak = self.peaks() + &limit(self.bounds[0], "less");
        let why_time = self.times() + &limit(self.bounds[1], "more");
        [
            check("peak", why_peak, self.bounds[0], of_peak()),
            check("response-time", why_time, self.bounds[1], of_time()),
        ]
        .into_iter()
    }

    /// Mean response times, load by load.
    pub fn table(&self) -> Table {
        let columns = [
            ("offered", Role::Number),
            ("mean before", Role::Number),
            ("mean after", Role::Number),
            ("ratio", Role::Number),
        ];
        let row = |pair: &TimePair| {
            let [before, after] = pair.mean_ns;
            let mark = if pair.is_between { "*" } else { "" };
            vec![
                Rate::Ops(pair.requested_per_s as f64).to_string(),
                format_nanos(before),
                format_nanos(after) + mark,
                three_digits(after / before),
            ]
        };
        let mut reading = Vec::new();
        if self.compared.pairs.iter().any(|pair| pair.is_between) {
            reading.push("* between two load points.".to_owned());
        }
        if self.compared.pairs.len() < PAIRS_MIN {
            reading.push(format!("Fewer than {PAIRS_MIN} say nothing."));
        }
        Table {
            caption: format!("Mean response times at the same load, {}", self.name),
            columns: Column::all(&columns),
            rows: TableRow::all(self.compared.pairs.iter().map(row)),
            reading,
            ..Table::default()
        }
    }

    /// Both curves in one picture.
    pub fn pictures(&self) -> Vec<Picture> {
        let sides = ["before", "after"].iter().zip(&self.curves);
        let named = sides.map(|(side, curve)| Named {
            name: format!("{}, {side}", self.name),
            curve: curve.clone(),
        });
        curve::pictures(&named.collect::<Vec<_>>())
    }

    /// All of it for programs; an open end is `null`.
    pub fn json(&self) -> Value {
        let compared = &self.compared;
        let between = |known: &Option<Between>| {
            let finite = |ops: f64| ops.is_finite().then_some(ops);
            known.as_ref().map(|known| {
                json!({ "ops_per_s": known.at, "interval_lo_ops_per_s": known.low,
                    "interval_hi_ops_per_s": finite(known.high) })
            })
        };
        let pair = |pair: &TimePair| {
            json!({
                "asked_ops_per_s": pair.requested_per_s,
                "response_time_mean_before_ns": pair.mean_ns[0],
                "response_time_mean_after_ns": pair.mean_ns[1],
                "is_between_load_points": pair.is_between,
            })
        };
        let ratio = compared.time_ratio.map(|ratio| {
            json!({ "ratio": ratio.at, "interval_lo": ratio.low, "interval_hi": ratio.high,
                "confidence": RATIO_CONFIDENCE })
        });
        let overall = compared.overall_ns.map(|(before, after)| {
            json!({ "before_ns": before, "after_ns": after.at, "after_interval_lo_ns": after.low,
                "after_interval_hi_ns": after.high })
        });
        json!({
            "name": self.name,
            "sentence": self.sentence(),
            "response_time": compared.time.name(),
            "response_time_ratio": ratio,
            "overall_response_time": overall,
            "peak": compared.peak.name(),
            "peak_before": between(&compared.peaks[0]),
            "peak_after": between(&compared.peaks[1]),
            "knee": compared.knee.name(),
            "knee_before": between(&compared.knees[0]),
            "knee_after": between(&compared.knees[1]),
            "load_points": compared.pairs.iter().map(pair).collect::<Vec<Value>>(),
            "differing_settings": self.differing,
            "regressions": self.checks().filter(|check| check.is_regression)
                .map(|check| check.name).collect::<Vec<_>>(),
        })
    }
}

fn format_ops(per_s: f64) -> String {
    Rate::Ops(per_s).to_string()
}

fn format_nanos(ns: f64) -> String {
    Nanos(ns.round() as u64).to_string()
}

/// A peak with what is not carried above it.
fn describe_peak(peak: Between) -> String {
    if peak.high.is_finite() {
        format!("{} ({} are not carried)", format_ops(peak.at), format_ops(peak.high))
    } else {
        format!("{} (nothing heavier was offered)", format_ops(peak.at))
    }
}
