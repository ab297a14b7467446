//! Why a trial failed, if it did because a server of its system exited.

use lab::exits_of_system;
use model::{RunSpec, Trial, TrialState};

use super::system_counts::ask_facts;
use crate::hosts::Hosts;

/// Looks for servers that have exited if a trial failed or ops did, and makes their last words part
/// of the trial's reason.
pub(crate) fn explain(hosts: &mut Hosts<'_>, spec: &RunSpec, trial: &mut Trial) {
    let has_errors = trial.passes.iter().any(|pass| pass.errors() > 0);
    let first = match &trial.state {
        TrialState::Failed(first) => Some(first.clone()),
        TrialState::Done if has_errors => None,
        _ => return,
    };
    let Some(lab) = &spec.lab else { return };
    let Ok(steps) = exits_of_system(lab) else { return };
    let mut reasons: Vec<String> = first.into_iter().collect();
    let known = reasons.len();
    // What can't be asked is lost, which is a reason of its own.
    let Ok(answers) = ask_facts(hosts, &steps) else { return };
    for (step, answer) in steps.iter().zip(answers) {
        for fact in answer.map(|effective| effective.facts).unwrap_or_default() {
            reasons.push(format!("{}: {}", step.host, fact.value));
        }
    }
    if reasons.len() > known {
        trial.state = TrialState::Failed(reasons.join("; "));
    }
}
