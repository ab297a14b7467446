//! The third layer: turns the syntax into a complete plan.
//!
//! Fills in defaults and surroundings, multiplies the matrix, refuses combinations that make no
//! sense, and writes a complete plan as text. It uses `syntax` and `parse`; neither of them uses
//! it.

pub(crate) mod checks;
pub(crate) mod coverage;
pub(crate) mod defaults;
pub(crate) mod destroy;
pub(crate) mod estimate;
pub(crate) mod lab;
pub(crate) mod ladder;
pub(crate) mod loads;
pub(crate) mod matrix;
pub(crate) mod no_effect;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod product;
pub(crate) mod programs;
pub(crate) mod server;
pub(crate) mod surroundings;
pub(crate) mod target;
pub(crate) mod write;

use std::collections::BTreeSet;

use model::contender::{Fairness, contenders, differences};
use model::{Discard, Limit, LimitMetric, Pass, Requirement, RunSpec};

use crate::syntax::error::{Fault, Located, PlanError, PlanPosition, value_or};
use crate::syntax::limits;
use crate::syntax::raw::RawPlan;
use crate::syntax::repetition::RawRepetition;
use matrix::Matrix;
use plan::Plan;
use surroundings::Surroundings;

impl Plan {
    /// Fills in every default and makes the runs.
    ///
    /// Everything that a plan leaves to its surroundings comes from [`Surroundings`]; two calls
    /// with the same arguments return equal plans.
    ///
    /// # Errors
    /// If settings don't go together, or a workload names an unknown target. The error refers to
    /// the line or flag that must change.
    pub fn resolve(raw: &RawPlan, around: &Surroundings) -> Result<Self, PlanError> {
        resolve_all(raw, around).map_err(|error| error.in_source(&raw.source_name))
    }
}

fn resolve_all(raw: &RawPlan, around: &Surroundings) -> Result<Plan, PlanError> {
    check_files_are_read(raw)?;
    checks::lab::check_systems(raw)?;
    let plan = defaults::fill_in(raw, around);
    check_repetition(&raw.repetition, plan.trials)?;
    let Matrix { mut runs, without_effect, thinned } = matrix::multiply(raw, around, &plan.server)?;
    for run in &mut runs {
        run.repetition = plan.repetition;
    }
    check_paths(&runs)?;
    check_requirements(&raw.requirements, &runs)?;
    check_fairness(raw.fair, &runs)?;
    let quiet_ms = value_or(raw.quiet_ms, defaults::quiet_ms(&runs));
    Ok(Plan { quiet_ms, runs, without_effect, thinned, ..plan })
}

/// Refuses a plan that refers to a file that has not been read yet.
fn check_files_are_read(raw: &RawPlan) -> Result<(), PlanError> {
    for workload in &raw.workloads {
        if let Some(path) = &workload.mix_from {
            let fault = Fault::new(format!("`{}` was not read", path.value));
            return Err(fault.of_key("mix_from", path.place));
        }
    }
    for target in &raw.targets {
        if let Some(lab) = target.what.lab()
            && let Some(system) = &lab.system
            && system.recipe.is_none()
        {
            let fault = Fault::new(format!("`{}` was not read", system.source.value));
            return Err(fault.of_key("system", system.source.place));
        }
    }
    Ok(())
}

/// Refuses plans that leave no usable trials: too few for the discard policy, or for the interval
/// of `until`.
fn check_repetition(raw: &RawRepetition, trials: u32) -> Result<(), PlanError> {
    // Blame the number of trials first.
    let place_of = |other: PlanPosition| raw.trials.map_or(other, |trials| trials.place);
    if let Some(Located { value: discard, place }) = raw.discard
        && discard != Discard::None
        && trials < limits::DISCARD_TRIALS_MIN
    {
        let s = if trials == 1 { "" } else { "s" };
        let what = format!("discard {discard} of {trials} trial{s} leaves no usable trials");
        let hint = format!("at least {} trials", limits::DISCARD_TRIALS_MIN);
        return Err(Fault::new(what).hint(hint).at(place_of(place)));
    }
    let least = limits::UNTIL_TRIALS_MIN;
    if let Some(until) = raw.until_permille
        && trials <= least
    {
        let what =
            format!("until has no effect with {trials} trials: at least {least} are always run");
        let hint = "trials is then the maximum";
        return Err(Fault::new(what).hint(hint).at(place_of(until.place)));
    }
    Ok(())
}

/// Refuses a requirement on a pass that no run has, or on a metric that its pass doesn't have.
fn check_requirements(
    requirements: &[Located<Requirement>],
    runs: &[RunSpec],
) -> Result<(), PlanError> {
    for Located { value: requirement, place } in requirements {
        // The text was checked when it was parsed.
        let Ok(limit) = Limit::parse(&requirement.limit) else { continue };
        let passes =
            || runs.iter().flat_map(|run| run.passes().iter().map(|pass| (run.workload, *pass)));
        let covered: Vec<Pass> = passes()
            .filter(|(workload, pass)| limit.covers(*workload, *pass))
            .map(|(_, pass)| pass)
            .collect();
        let fault = if covered.is_empty() {
            let names: BTreeSet<String> =
                passes().map(|(workload, pass)| workload.pass_name(pass)).collect();
            let names: Vec<String> = names.into_iter().collect();
            Fault::new(format!("`{}`: no run has the pass `{}`", requirement.limit, limit.pass))
                .hint(format!("the plan has {}", names.join(", ")))
        } else if let Some(pass) = covered.iter().find(|pass| !limit.metric.applies_to(**pass)) {
            let hint = match limit.metric {
                LimitMetric::ByteRate => {
                    "give the rate in op/s, or name the pass: `read.rate > 1GB/s`"
                }
                LimitMetric::Utilization => "only trainings have accelerators",
                LimitMetric::WallTime => "time is for app workloads; use p99 or max",
                LimitMetric::LateFrames => "only the frames of media have deadlines",
                _ => "a command has no ops: limit its time",
            };
            Fault::new(format!("`{}` doesn't apply to {pass}", requirement.limit)).hint(hint)
        } else {
            continue;
        };
        return Err(fault.at(*place));
    }
    Ok(())
}

/// Refuses a plan that must treat all contenders alike and doesn't, with a list of the differences.
fn check_fairness(fair: Option<Located<Fairness>>, runs: &[RunSpec]) -> Result<(), PlanError> {
    let Some(Located { value: Fairness::Strict, place }) = fair else { return Ok(()) };
    let differences = differences(runs);
    if differences.is_empty() {
        return Ok(());
    }
    let names = contenders(runs);
    let mut listed = Vec::with_capacity(differences.len());
    for difference in &differences {
        let values: Vec<_> = names
            .iter()
            .zip(difference.shown())
            .map(|(name, value)| format!("{value} ({name})"))
            .collect();
        listed.push(format!("{}: {}", difference.what, values.join(", ")));
    }
    let what = format!("the contenders differ in more than the system: {}", listed.join("; "));
    let hint = "make them equal, or write fair = \"named\"";
    Err(Fault::new(what).hint(hint).of_key("fair", place))
}

/// Refuses directories whose path cannot be written in a plan or a results file.
fn check_paths(runs: &[RunSpec]) -> Result<(), PlanError> {
    for run in runs {
        for path in run.target.paths() {
            if path.to_str().is_none() {
                let path = path.display();
                let target = &run.target_name;
                let what = format!("the path `{path}` of `{target}` is not UTF-8");
                return Err(Fault::new(what).at(PlanPosition::Whole));
            }
        }
    }
    Ok(())
}
