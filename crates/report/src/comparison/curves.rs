//! Compares two load curves, if both campaigns measured curves.
//!
//! [`CurvePair`] is the main type: a curve before and after. Its rows are load points with one
//! trial each, so no row can be compared on its own. Together, they show whether the server became
//! slower and whether it sustains less. Numbers come from [`stats::curve`].

use std::collections::BTreeSet;

use model::Question;
use model::question::CurveRequest;
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::curve::{BoundedValue, Curve, CurvesCompared, PAIRS_MIN, RATIO_CONFIDENCE};
use stats::{Outcome, Rate};

use super::rows::{self, REPETITION};
use super::{ComparisonRules, LeftOut, Measure, Selection};
use crate::chart::Picture;
use crate::document::{Column, Role, Table, TableRow};
use crate::humanize;
use crate::question::curve::{self, NamedCurve};
use crate::table::{Row, Sheet};

/// Curve that exists on both sides.
pub struct CurvePair {
    /// Target, workload, and the settings that distinguish it from others.
    pub name: String,
    pub compared: CurvesCompared,
    curves: [Curve; 2],
    /// Settings that differ, with both values.
    differing: Vec<String>,
    /// How much the peak may fall and times may rise, as shares.
    bounds: [Option<f64>; 2],
}

/// Result of a pair that may have a bound.
pub(crate) struct Check {
    /// `peak` or `response-time`.
    pub name: &'static str,
    /// Outcome, including the bound.
    pub why: String,
    /// True if it got worse by more than its bound.
    pub is_regression: bool,
    /// True if it has a bound and the data cannot tell whether it is met.
    pub is_undecidable: bool,
}

/// Curve on one side.
struct Side {
    named: NamedCurve,
    settings: BTreeSet<(&'static str, String)>,
}

/// Pairs the curves of two selections, if both campaigns measured curves. Searches for a bound do
/// not count, since they choose their own loads.
pub(super) fn pair_curves(
    sides: [Selection<'_>; 2],
    rules: &ComparisonRules,
) -> Option<(Vec<CurvePair>, Vec<LeftOut>)> {
    let [before, after] = sides.map(curve_request);
    let mut omitted = rows::selected_names(&sides);
    omitted.extend(REPETITION);
    omitted.push("rate");
    let first = side_curves(sides[0], before?, &omitted);
    let second = side_curves(sides[1], after?, &omitted);
    if first.is_empty() || second.is_empty() {
        return None;
    }
    // Names include the settings that vary within a side, so two campaigns that differ in a setting
    // give their only curve different names. It is still the intended pair, so a single curve on
    // each side needs no common name.
    let are_alone = first.len() == 1 && second.len() == 1;
    let mut left_out = Vec::new();
    let mut pairs = Vec::new();
    let mut matched_names = BTreeSet::new();
    for before in &first {
        let name = &before.named.name;
        match second.iter().find(|after| are_alone || after.named.name == *name) {
            Some(after) => {
                matched_names.insert(after.named.name.as_str());
                pairs.push(CurvePair::new(before, after, rules));
            }
            None => left_out.push(only_before(before)),
        }
    }
    for after in &second {
        if !matched_names.contains(after.named.name.as_str()) {
            left_out.push(only_after(after));
        }
    }
    Some((pairs, left_out))
}

fn only_before(side: &Side) -> LeftOut {
    let why = "only before".to_owned();
    LeftOut { name: side.named.name.clone(), why, matters: true, matched: false, pairing: None }
}

/// Returns the entry for a curve that exists only on the second side and so cannot have got worse.
fn only_after(side: &Side) -> LeftOut {
    let why = "only after".to_owned();
    LeftOut { name: side.named.name.clone(), why, matters: false, matched: false, pairing: None }
}

fn curve_request(side: Selection<'_>) -> Option<&CurveRequest> {
    match &side.campaign.question {
        Question::Curve(request) if request.bound.is_none() => Some(request),
        _ => None,
    }
}

fn side_curves(side: Selection<'_>, request: &CurveRequest, omitted: &[&str]) -> Vec<Side> {
    let sheet = Sheet::from_campaign(side.campaign);
    let chosen: Vec<&Row<'_>> =
        sheet.rows.iter().filter(|row| rows::is_chosen(row, side.only)).collect();
    let mut curves = Vec::new();
    for named in curve::curves(&sheet, chosen.iter().copied(), request, omitted) {
        // Load points of a curve differ only in omitted settings, so the first has all others.
        let mut settings = BTreeSet::new();
        if let Some(row) = chosen.iter().find(|row| sheet.name_without(row, omitted) == named.name)
        {
            settings.extend(rows::row_settings(row));
            settings.retain(|(name, _)| !omitted.contains(name));
        }
        curves.push(Side { named, settings });
    }
    curves
}

impl Side {
    /// Value of a setting, or `none` if the curve does not have it.
    fn value_or_none(&self, name: &str) -> &str {
        for (known, value) in &self.settings {
            if *known == name {
                return value;
            }
        }
        "none"
    }
}

impl CurvePair {
    fn new(before: &Side, after: &Side, rules: &ComparisonRules) -> Self {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (name, _) in before.settings.symmetric_difference(&after.settings) {
            names.insert(name);
        }
        let mut differing = Vec::new();
        for name in names {
            let values = (before.value_or_none(name), after.value_or_none(name));
            differing.push(format!("{name} ({}, {})", values.0, values.1));
        }
        // A curve has a single response time, which gets the strictest of the time bounds.
        let mut time_bound: Option<f64> = None;
        for measure in &Measure::ALL[1..] {
            if let Some(bound) = rules.bound(*measure) {
                time_bound = Some(time_bound.unwrap_or(bound).min(bound));
            }
        }
        let first = &before.named.curve;
        let second = &after.named.curve;
        Self {
            name: before.named.name.clone(),
            compared: CurvesCompared::new(first, second, rules.effect),
            curves: [first.clone(), second.clone()],
            differing,
            bounds: [rules.bound(Measure::Rate), time_bound],
        }
    }

    /// Describes the outcome in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let CurvesCompared { time, peak, .. } = &self.compared;
        let verdict = match (time, peak) {
            (Outcome::Higher, Outcome::Higher) => "slower afterwards, and sustains more",
            (Outcome::Lower, Outcome::Lower) => "faster afterwards, and sustains less",
            (Outcome::Higher, Outcome::Lower) => "slower afterwards, and sustains less",
            (Outcome::Lower, Outcome::Higher) => "faster afterwards, and sustains more",
            (Outcome::Higher, _) => "slower afterwards",
            (Outcome::Lower, _) => "faster afterwards",
            (_, Outcome::Lower) => "sustains less afterwards",
            (_, Outcome::Higher) => "sustains more afterwards",
            (Outcome::Same, _) => "no difference",
            _ => "can't tell",
        };
        format!("{}: {verdict}: {}; {}.", self.name, self.describe_times(), self.describe_peaks())
    }

    /// Describes the change of response times.
    fn describe_times(&self) -> String {
        let pairs = humanize::counted(self.compared.pairs.len(), "load");
        let Some(ratio) = self.compared.time_ratio else {
            return format!("{pairs} sustained by both are too few to compare response times");
        };
        let overall = match self.compared.overall_ns {
            Some((from, to)) => format!(
                ", the overall response time there {} ({} to {}) instead of {}",
                format_nanos(to.at),
                format_nanos(to.low),
                format_nanos(to.high),
                format_nanos(from)
            ),
            None => String::new(),
        };
        format!(
            "at {pairs} sustained by both, response times are {} times as long ({:.0} % interval \
             {} to {}){overall}",
            three_digits(ratio.at),
            RATIO_CONFIDENCE * 100.0,
            three_digits(ratio.low),
            three_digits(ratio.high)
        )
    }

    /// Describes the change of the peak.
    fn describe_peaks(&self) -> String {
        let [Some(before), Some(after)] = self.compared.peaks else {
            return "one of the two has no peak because no load point was sustained".to_owned();
        };
        let word = match self.compared.peak {
            Outcome::Higher => "rose",
            Outcome::Lower => "fell",
            Outcome::Same => "is the same",
            Outcome::Unclear => {
                return format!(
                    "the peaks ({} and {}) are closer than the step between load points",
                    format_ops(before.at),
                    format_ops(after.at)
                );
            }
        };
        format!("the peak {word}: {} before, {} after", describe_peak(before), describe_peak(after))
    }

    /// Returns the remarks that qualify the outcome.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let name = &self.name;
        if let [Some(before), Some(after)] = self.compared.knees {
            let word = match self.compared.knee {
                Outcome::Higher => "is at a higher load",
                Outcome::Lower => "is at a lower load",
                Outcome::Same => "is at the same load",
                Outcome::Unclear => "may be at the same load",
            };
            remarks.push(format!(
                "{name}: the knee {word}: {} to {} before, {} to {} after.",
                format_ops(before.low),
                format_ops(before.high),
                format_ops(after.low),
                format_ops(after.high)
            ));
        }
        for (side, curve) in self.sides() {
            let holes = curve.holes().len();
            if holes > 0 {
                let points = humanize::counted(holes, "load point");
                remarks.push(format!("{name}: {points} {side} below the peak do not count."));
            }
        }
        if self.compared.pairs.iter().any(|pair| pair.is_between) {
            remarks.push(format!(
                "{name}: the curves have different load points, so some response times after are \
                 interpolated: repeat it with the same --max-load and --points."
            ));
        }
        if !self.differing.is_empty() {
            remarks
                .push(format!("{name}: settings differ: {}.", humanize::listed(&self.differing)));
        }
        remarks
    }

    /// Each curve with the name of its side.
    fn sides(&self) -> [(&'static str, &Curve); 2] {
        [("before", &self.curves[0]), ("after", &self.curves[1])]
    }

    /// Checks the peak and the response time against their bounds.
    pub(crate) fn checks(&self) -> [Check; 2] {
        let compared = &self.compared;
        let [peak_bound, time_bound] = self.bounds;
        let mut peak = Check::new("peak", self.describe_peaks(), peak_bound, "less");
        if let (Some(bound), [Some(before), Some(after)]) = (peak_bound, compared.peaks) {
            let is_beyond = after.at < before.at * (1.0 - bound);
            peak.is_regression = is_beyond && compared.peak == Outcome::Lower;
            peak.is_undecidable = is_beyond && compared.peak == Outcome::Unclear;
        }
        let mut time = Check::new("response-time", self.describe_times(), time_bound, "more");
        if let (Some(bound), Some(ratio)) = (time_bound, compared.time_ratio) {
            // If the outcome is unclear, the upper end of the interval decides, not its middle.
            let most = 1.0 + bound;
            time.is_regression = compared.time == Outcome::Higher && ratio.at > most;
            time.is_undecidable = compared.time == Outcome::Unclear && ratio.high > most;
        }
        [peak, time]
    }

    /// Names of the checks that got worse by more than their bounds.
    pub(crate) fn regressions(&self) -> Vec<&'static str> {
        self.checks()
            .into_iter()
            .filter(|check| check.is_regression)
            .map(|check| check.name)
            .collect()
    }

    /// Builds the table of mean response times by load.
    pub(crate) fn table(&self) -> Table {
        let columns = [
            ("offered", Role::Number),
            ("mean before", Role::Number),
            ("mean after", Role::Number),
            ("ratio", Role::Number),
        ];
        let mut rows = Vec::new();
        for pair in &self.compared.pairs {
            let [before, after] = pair.mean_ns;
            let mark = if pair.is_between { "*" } else { "" };
            rows.push(vec![
                format_ops(pair.requested_per_s as f64),
                format_nanos(before),
                format_nanos(after) + mark,
                three_digits(after / before),
            ]);
        }
        let mut reading = Vec::new();
        if self.compared.pairs.iter().any(|pair| pair.is_between) {
            reading.push("* interpolated between two load points.".to_owned());
        }
        if self.compared.pairs.len() < PAIRS_MIN {
            reading.push(format!("A comparison needs at least {PAIRS_MIN} loads."));
        }
        Table {
            caption: format!("Mean response times at the same load, {}", self.name),
            columns: Column::all(&columns),
            rows: TableRow::all(rows.into_iter()),
            reading,
            ..Table::default()
        }
    }

    /// Draws both curves in one picture.
    pub(crate) fn pictures(&self) -> Vec<Picture> {
        let sides = self.sides().map(|(side, curve)| {
            let name = format!("{}, {side}", self.name);
            (side, NamedCurve { name, curve: curve.clone() })
        });
        curve::pictures_of_two(&self.name, &sides)
    }

    /// Returns everything as JSON; an open end is `null`.
    pub(crate) fn json(&self) -> Value {
        let compared = &self.compared;
        let mut load_points = Vec::new();
        for pair in &compared.pairs {
            load_points.push(json!({
                "asked_ops_per_s": pair.requested_per_s,
                "response_time_mean_before_ns": pair.mean_ns[0],
                "response_time_mean_after_ns": pair.mean_ns[1],
                "is_between_load_points": pair.is_between,
            }));
        }
        let ratio = match compared.time_ratio {
            Some(ratio) => json!({ "ratio": ratio.at, "interval_lo": ratio.low,
                "interval_hi": ratio.high, "confidence": RATIO_CONFIDENCE }),
            None => Value::Null,
        };
        let overall = match compared.overall_ns {
            Some((before, after)) => json!({ "before_ns": before, "after_ns": after.at,
                "after_interval_lo_ns": after.low, "after_interval_hi_ns": after.high }),
            None => Value::Null,
        };
        json!({
            "name": self.name,
            "sentence": self.sentence(),
            "response_time": compared.time.name(),
            "response_time_ratio": ratio,
            "overall_response_time": overall,
            "peak": compared.peak.name(),
            "peak_before": between_json(compared.peaks[0]),
            "peak_after": between_json(compared.peaks[1]),
            "knee": compared.knee.name(),
            "knee_before": between_json(compared.knees[0]),
            "knee_after": between_json(compared.knees[1]),
            "load_points": load_points,
            "differing_settings": self.differing,
            "regressions": self.regressions(),
        })
    }
}

impl Check {
    /// Creates a passed check, or an undecided one if it has a bound.
    fn new(name: &'static str, mut why: String, bound: Option<f64>, word: &str) -> Self {
        if let Some(bound) = bound {
            why = format!("{why}; at most {} {word}", humanize::percent(bound));
        }
        Self { name, why, is_regression: false, is_undecidable: bound.is_some() }
    }
}

/// Returns a value with its interval as JSON; an infinite end is `null`.
fn between_json(known: Option<BoundedValue>) -> Value {
    let Some(known) = known else { return Value::Null };
    let high = if known.high.is_finite() { Some(known.high) } else { None };
    json!({ "ops_per_s": known.at, "interval_lo_ops_per_s": known.low,
        "interval_hi_ops_per_s": high })
}

fn format_ops(per_s: f64) -> String {
    Rate::Ops(per_s).to_string()
}

fn format_nanos(ns: f64) -> String {
    Nanos(ns.round() as u64).to_string()
}

/// Formats a peak, including the load that was not sustained above it.
fn describe_peak(peak: BoundedValue) -> String {
    if peak.high.is_finite() {
        format!("{} ({} was not sustained)", format_ops(peak.at), format_ops(peak.high))
    } else {
        format!("{} (no higher load was offered)", format_ops(peak.at))
    }
}
