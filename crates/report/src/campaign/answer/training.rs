//! The headline of trainings: how much of the time accelerators compute, and what waiting costs.

use model::units::{Nanos, three_digits};
use stats::TrainingJudged;

use super::lead::qualify_judged;
use crate::humanize::{counted, seconds, share};
use crate::table::{Row, Sheet};

/// Maximum number of runs to describe; the table has the others.
const RUNS_MAX: usize = 4;

/// Describes the runs that feed accelerators.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let rows: Vec<_> = sheet.rows.iter().filter(|row| row.judged.training.is_some()).collect();
    let rows: Vec<_> = rows.into_iter().filter(|row| row.counts()).collect();
    let mut sentences: Vec<String> = rows
        .iter()
        .take(RUNS_MAX)
        .filter_map(|row| {
            let factors = sheet.factors(row);
            let name = match (rows.len(), factors.is_empty()) {
                (1, _) => String::new(),
                (_, true) => format!("{}: ", row.run.spec.target_name),
                _ => format!("{}, {factors}: ", row.run.spec.target_name),
            };
            Some(format!("{name}{}.", describe_run(row)?))
        })
        .collect();
    if let more @ 1.. = rows.len().saturating_sub(RUNS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// Describes a run: `4 accelerators compute 93.1 % of the time, enough for the required 90.0 %:
/// 1430 samples/s, 2.1 s lost to waiting by each in 500 steps of 162 ms`.
fn describe_run(row: &Row<'_>) -> Option<String> {
    let training = row.judged.training.as_ref()?;
    let TrainingJudged { accelerators, steps, utilization, required, .. } = *training;
    let verb = if accelerators == 1 { "computes" } else { "compute" };
    let interval = utilization.confidence_interval();
    let interval = interval
        .map(|(low, high)| format!(" (95 %: {} to {})", share(low.max(0.0)), share(high.min(1.0))));
    let judgment = if training.is_fed() { "enough for the" } else { "less than the" };
    Some(format!(
        "{} {verb} {} of the time{}{}, {judgment} required {}: {} samples/s, {} lost to waiting \
         by each in {steps} steps of {}",
        counted(accelerators as usize, "accelerator"),
        share(utilization.median),
        interval.unwrap_or_default(),
        qualify_judged(&row.judged),
        share(required),
        three_digits(training.samples_per_s.median),
        seconds(training.waited_s),
        Nanos(row.run.spec.training.compute_ns),
    ))
}
