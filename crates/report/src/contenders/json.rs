//! Comparison of contenders as JSON.

use std::collections::BTreeMap;
use std::iter::zip;

use model::system::AccessWay;
use serde::Serialize;

use super::Contenders;
use super::cost::Cost;
use super::work::{BaselineRatio, Work};

#[derive(Serialize)]
struct ContendersDocument<'a> {
    schema: u32,
    baseline: &'a str,
    contenders: Vec<ContenderPart<'a>>,
    differences: Vec<DifferencePart<'a>>,
    works: Vec<WorkPart<'a>>,
}

#[derive(Serialize)]
struct ContenderPart<'a> {
    name: &'a str,
    version: &'a str,
    promises: Vec<&'static str>,
    tier: &'static str,
    /// Durability relative to the baseline, such as `weaker promise`; empty if both survive the
    /// same.
    promise: &'static str,
    documented: &'a str,
    /// Why the authors of its recipe have never tried it; null if they have.
    recipe_not_tried: Option<&'a str>,
    /// Availability of each way of access: used, available, none, or unknown.
    ways: BTreeMap<&'static str, &'static str>,
    failures: &'a [String],
}

#[derive(Serialize)]
struct DifferencePart<'a> {
    what: &'a str,
    /// Values of each contender, in their order.
    values: &'a [Vec<String>],
}

#[derive(Serialize)]
struct WorkPart<'a> {
    pass: &'a str,
    factors: &'a str,
    /// Result of each contender, in their order; null if it has none for this work.
    figures: Vec<Option<FigurePart>>,
}

#[derive(Serialize)]
struct FigurePart {
    verdict: &'static str,
    trials: u32,
    per_s: Option<f64>,
    per_s_low: Option<f64>,
    per_s_high: Option<f64>,
    ratio: Option<f64>,
    /// Whether the intervals of this result and the baseline do not overlap.
    is_apart: bool,
    /// Unit of the CPU times: `s/GiB`, `µs/op` or `ms/command`.
    cpu_unit: Option<&'static str>,
    client_cpu: Option<f64>,
    program_cpu: Option<f64>,
    server_cpu: Option<f64>,
    disk_bytes_per_byte: Option<f64>,
    network_bytes_per_byte: Option<f64>,
}

/// Renders the comparison as JSON. The text ends with a newline.
pub(super) fn render(contest: &Contenders<'_>) -> String {
    let mut contenders = Vec::new();
    for (number, contender) in contest.contenders.iter().enumerate() {
        contenders.push(ContenderPart {
            name: &contender.name,
            version: &contender.version,
            promises: contender.promises.iter().map(|promise| promise.name()).collect(),
            tier: contender.tier.name(),
            promise: contest.promise_words(number),
            documented: &contender.documented,
            recipe_not_tried: Some(contender.not_tried.as_str()).filter(|why| !why.is_empty()),
            ways: zip(AccessWay::NAMES, &contender.ways)
                .map(|(way, state)| (*way, state.name()))
                .collect(),
            failures: &contender.failures,
        });
    }
    let mut differences = Vec::new();
    for difference in &contest.differences {
        differences.push(DifferencePart { what: &difference.what, values: &difference.values });
    }
    let mut works = Vec::new();
    for work in &contest.works {
        works.push(part_of(work, contest.baseline));
    }
    let baseline = &contest.contenders[contest.baseline].name;
    let whole = ContendersDocument { schema: 1, baseline, contenders, differences, works };
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

fn part_of<'a>(work: &'a Work<'_>, baseline: usize) -> WorkPart<'a> {
    let mut figures = Vec::with_capacity(work.rows.len());
    for (number, row) in work.rows.iter().enumerate() {
        let Some(row) = row else {
            figures.push(None);
            continue;
        };
        let rate = row.judged.rate.as_ref();
        let interval = rate.and_then(stats::Summary::confidence_interval);
        let (ratio, is_apart) = match work.compare_to_baseline(number, baseline) {
            BaselineRatio::Baseline => (Some(1.0), false),
            BaselineRatio::Ratio { ratio, is_apart, .. } => (Some(ratio), is_apart),
            BaselineRatio::Missing => (None, false),
        };
        let cost = Cost::from_row(row);
        figures.push(Some(FigurePart {
            verdict: row.judged.verdict.name(),
            trials: row.judged.trials_used,
            per_s: rate.map(|rate| rate.median),
            per_s_low: interval.map(|(low, _)| low),
            per_s_high: interval.map(|(_, high)| high),
            ratio,
            is_apart,
            cpu_unit: cost.cpu.map(|cpu| cpu.unit.name()),
            client_cpu: cost.cpu.map(|cpu| cpu.client),
            program_cpu: cost.program_cpu,
            server_cpu: cost.server_cpu,
            disk_bytes_per_byte: cost.disk_bytes_per_byte,
            network_bytes_per_byte: cost.network_bytes_per_byte,
        }));
    }
    WorkPart { pass: &work.pass, factors: &work.factors, figures }
}
