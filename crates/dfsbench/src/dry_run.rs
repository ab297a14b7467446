//! `--dry-run`: the matrix, with estimates of time and bytes.
//!
//! Nothing is measured, written or connected to. The assumed rates are printed with the estimate,
//! because they are guesses about a target that nobody has measured yet.

mod hosts;

use std::fmt::Write as _;

use model::units::{Nanos, Size};
use model::{Pass, RunSpec};
use plan::{Plan, estimate};

use crate::output::aligned;

/// Describes what a plan would do.
pub fn describe(plan: &Plan) -> String {
    let estimate = estimate(plan);
    let varying = plan.varying();
    let mut rows = vec![header(&varying)];
    for (index, (run, cost)) in plan.runs.iter().zip(&estimate.runs).enumerate() {
        let settings = run.settings();
        let value = |name: &str| {
            let found = settings.iter().find(|(known, _)| *known == name);
            found.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
        };
        let mut row = vec![format!("{}", index + 1)];
        row.extend(varying.iter().map(|name| value(name)));
        row.push(passes(run));
        row.push(Size(cost.bytes_written).to_string());
        row.push(Size(cost.bytes_read).to_string());
        row.push(Nanos(cost.duration_ms * 1_000_000).to_string());
        rows.push(row);
    }
    let mut text = aligned(&rows);
    // Writing to a String never fails.
    let _ = write!(
        text,
        "\n{} runs x {} trials = {} trials, seed {}\nestimate: {} written, {} read, {} in all \
         (targets at {} MB/s, {} random and {} metadata op/s)\n",
        estimate.trials / u64::from(plan.trials),
        plan.trials,
        estimate.trials,
        plan.seed,
        Size(estimate.bytes_written),
        Size(estimate.bytes_read),
        estimate.duration(),
        plan::BYTES_PER_S / 1_000_000,
        plan::RANDOM_OPS_PER_S,
        plan::METADATA_OPS_PER_S,
    );
    for target in &estimate.targets {
        let _ = writeln!(text, "space:    {} on {}", Size(target.peak_bytes), target.name);
    }
    text.push_str(&hosts::describe(plan));
    text
}

fn header(varying: &[&str]) -> Vec<String> {
    let names = std::iter::once("run").chain(varying.iter().copied());
    names.chain(["passes", "written", "read", "time"]).map(str::to_owned).collect()
}

fn passes(run: &RunSpec) -> String {
    if let Some(why) = run.impossible() {
        return format!("none: {why}");
    }
    run.passes().iter().map(|pass: &Pass| pass.name()).collect::<Vec<_>>().join(", ")
}
