//! Comparison as JSON.
//!
//! The names and order of the fields are those of the output, so this file is the reference of the
//! format. `schema` is incremented when a field changes its meaning or is removed.

use serde::Serialize;
use stats::Rate;

use super::{CampaignComparison, ComparedFigure, ComparisonSide, Difference, RowPair};

/// Version of the format.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    before: String,
    after: String,
    sides: &'a [ComparisonSide; 2],
    changed: &'a [Difference],
    smallest_effect: f64,
    adjusted: bool,
    regressions: usize,
    undecided: bool,
    pairs: Vec<PairPart<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<serde_json::Value>,
    not_compared: Vec<LeftOutPart<'a>>,
}

#[derive(Serialize)]
struct PairPart<'a> {
    name: &'a str,
    rate_unit: &'static str,
    rate_before: f64,
    rate_after: f64,
    #[serde(flatten)]
    rate: FigurePart,
    trials_before: usize,
    trials_after: usize,
    times: Vec<TimePart>,
    caveats: Vec<&'static str>,
    /// How caveats restrict the outcomes; absent if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
}

/// Measure of time: `p50` and `p99` of the response times, or `service-p50` and `service-p99`.
#[derive(Serialize)]
struct TimePart {
    measure: &'static str,
    before_ns: f64,
    after_ns: f64,
    #[serde(flatten)]
    figure: FigurePart,
}

#[derive(Serialize)]
struct FigurePart {
    ratio: f64,
    ratio_interval_lo: f64,
    ratio_interval_hi: f64,
    probability: f64,
    probability_adjusted: f64,
    outcome: &'static str,
    bound: Option<f64>,
    regression: bool,
    undecided: bool,
}

#[derive(Serialize)]
struct LeftOutPart<'a> {
    name: &'a str,
    reason: &'a str,
    matters: bool,
}

/// Renders the document.
pub(super) fn render(compared: &CampaignComparison) -> String {
    let [before, after] = compared.sides.each_ref().map(ComparisonSide::describe);
    let not_compared: Vec<_> = compared
        .left_out
        .iter()
        .map(|row| LeftOutPart { name: &row.name, reason: &row.why, matters: row.matters })
        .collect();
    let mut curves = Vec::new();
    let mut curves_lost = 0;
    for curve in &compared.curves {
        curves_lost += curve.regressions().len();
        curves.push(curve.json());
    }
    let document = Document {
        schema: SCHEMA,
        before,
        after,
        sides: &compared.sides,
        changed: &compared.differences,
        smallest_effect: compared.rules.effect,
        adjusted: compared.rules.adjust,
        regressions: compared.regressions().count() + curves_lost,
        undecided: compared.is_undecided(),
        pairs: compared.pairs.iter().map(pair_part).collect(),
        curves,
        not_compared,
    };
    serde_json::to_string_pretty(&document).expect("numbers and text can be serialized") + "\n"
}

fn pair_part(pair: &RowPair) -> PairPart<'_> {
    let (rate, times) = pair.figures.split_first().expect("a pair has a rate");
    let [before, after] = rate.medians;
    let mut caveats = Vec::new();
    for code in &pair.caveats {
        caveats.push(code.code());
    }
    PairPart {
        name: &pair.name,
        rate_unit: match Rate::for_pass(rate.pass, before) {
            Rate::Bytes(_) => "bytes_per_s",
            Rate::Ops(_) | Rate::Entries(_) | Rate::Commands(_) => "ops_per_s",
        },
        rate_before: before,
        rate_after: after,
        rate: figure_part(rate),
        trials_before: rate.comparison.trials.0,
        trials_after: rate.comparison.trials.1,
        times: times.iter().map(time_part).collect(),
        caveats,
        reservation: pair.reservations.reason(),
    }
}

fn time_part(figure: &ComparedFigure) -> TimePart {
    let [before_ns, after_ns] = figure.medians;
    TimePart { measure: figure.measure.name(), before_ns, after_ns, figure: figure_part(figure) }
}

fn figure_part(figure: &ComparedFigure) -> FigurePart {
    let comparison = &figure.comparison;
    FigurePart {
        ratio: comparison.ratio,
        ratio_interval_lo: comparison.interval.0,
        ratio_interval_hi: comparison.interval.1,
        probability: comparison.probability,
        probability_adjusted: comparison.adjusted,
        outcome: comparison.outcome().name(),
        bound: figure.bound,
        regression: figure.is_regression(),
        undecided: figure.is_undecidable(),
    }
}
