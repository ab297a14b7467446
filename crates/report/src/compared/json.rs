//! A comparison as JSON.
//!
//! The order and the names of the fields are those of the output, so this file is the format's
//! reference; `schema` grows when a field changes its meaning or goes.

use serde::Serialize;
use stats::Rate;

use super::{Compared, Pair};

/// Version of the format: grows when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    before: &'a str,
    after: &'a str,
    smallest_effect: f64,
    pairs: Vec<PairPart<'a>>,
    not_compared: Vec<LeftOut<'a>>,
}

#[derive(Serialize)]
struct PairPart<'a> {
    name: &'a str,
    rate_unit: &'static str,
    rate_before: f64,
    rate_after: f64,
    ratio: f64,
    ratio_interval_lo: f64,
    ratio_interval_hi: f64,
    probability: f64,
    trials_before: usize,
    trials_after: usize,
    outcome: &'static str,
    caveats: &'a [&'static str],
}

#[derive(Serialize)]
struct LeftOut<'a> {
    name: &'a str,
    reason: &'a str,
}

/// Writes the document.
pub fn render(compared: &Compared) -> String {
    let [before, after] = &compared.sides;
    let left_out = compared.left_out.iter();
    let document = Document {
        schema: SCHEMA,
        before,
        after,
        smallest_effect: compared.effect,
        pairs: compared.pairs.iter().map(part).collect(),
        not_compared: left_out.map(|(name, reason)| LeftOut { name, reason }).collect(),
    };
    serde_json::to_string_pretty(&document).expect("numbers and text can be written") + "\n"
}

fn part(pair: &Pair) -> PairPart<'_> {
    let comparison = &pair.comparison;
    let [before, after] = pair.rates;
    let rate_unit = match before {
        Rate::Bytes(_) => "bytes_per_s",
        Rate::Ops(_) | Rate::Commands(_) => "ops_per_s",
    };
    PairPart {
        name: &pair.name,
        rate_unit,
        rate_before: before.per_s(),
        rate_after: after.per_s(),
        ratio: comparison.ratio,
        ratio_interval_lo: comparison.interval.0,
        ratio_interval_hi: comparison.interval.1,
        probability: comparison.probability,
        trials_before: comparison.trials.0,
        trials_after: comparison.trials.1,
        outcome: comparison.outcome().name(),
        caveats: &pair.caveats,
    }
}
