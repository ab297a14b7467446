//! Trials of several runs in turns, until a question is answered.
//!
//! [`alternate_trials`] makes one trial of each run, in random order, then the next of each. Such
//! trials can be compared in pairs: whatever changes on the machines changes both.

use std::sync::atomic::Ordering::Relaxed;

use model::{Campaign, CampaignState, PassResult, Severity, Trial, TrialState, Verdict};
use results::Store;

use super::SearchCampaign;
use crate::{CampaignRunner, ControllerError, FAILURES_MAX};

/// How many trials to make.
#[derive(Clone, Copy, Debug)]
pub struct AlternationLimits {
    /// Trials of each run before the first question.
    pub first: u32,
    /// Time in milliseconds after which no more trials begin; 0 means no limit.
    pub time_ms: u64,
}

/// How alternating trials ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternationEnd {
    /// The question needs no more trials, or the plan has no more.
    Done,
    /// A run failed or was invalid again and again.
    GivenUp {
        /// Name of its target.
        target: String,
        /// Why the last trial can't be used.
        why: String,
    },
    /// The time is over.
    OutOfTime,
    /// The process was asked to stop.
    Interrupted,
}

/// Makes trials of all runs of the plan in its order, and asks `decide` from time to time. It gets
/// the campaign so far, and returns how many trials of each run to make until the next question;
/// `None` ends the campaign.
///
/// # Errors
/// If the results cannot be stored, the agent is gone, or `decide` fails. Results stored so far are
/// kept.
pub fn alternate_trials<E: From<ControllerError>>(
    runner: &mut CampaignRunner<'_>,
    store: &mut Store,
    header: &Campaign,
    limits: AlternationLimits,
    decide: &mut dyn FnMut(&Campaign) -> Result<Option<u32>, E>,
) -> Result<(Campaign, AlternationEnd), E> {
    let failed = |error: results::StoreError| E::from(ControllerError::from(error));
    let mut campaign = SearchCampaign::begin(store, header).map_err(failed)?;
    let plan = runner.plan;
    for (number, spec) in (0_u64..).zip(&plan.runs) {
        let id = campaign.add(spec).map_err(failed)?;
        campaign.tried.insert(number, (id, 0));
    }
    let mut failures = vec![0_u32; plan.runs.len()];
    let begun_ms = runner.hosts.now_unix_ms();
    let mut wanted = limits.first;
    let mut end = AlternationEnd::Done;
    for step in crate::steps(plan) {
        if step.trial >= wanted {
            let so_far = campaign.store.load(campaign.campaign).map_err(failed)?;
            match decide(&so_far)? {
                None => break,
                Some(more) => wanted = more.max(wanted + 1),
            }
        }
        if runner.stop.load(Relaxed) {
            end = AlternationEnd::Interrupted;
            break;
        }
        let worked_ms = runner.hosts.now_unix_ms().saturating_sub(begun_ms);
        if limits.time_ms > 0 && worked_ms >= limits.time_ms {
            end = AlternationEnd::OutOfTime;
            break;
        }
        let spec = &plan.runs[step.run];
        let trial = campaign.make(runner, step.run as u64, spec)?;
        if trial.state == TrialState::Interrupted {
            end = AlternationEnd::Interrupted;
            break;
        }
        let Some(why) = why_unusable(&trial) else {
            failures[step.run] = 0;
            continue;
        };
        failures[step.run] += 1;
        if failures[step.run] == FAILURES_MAX {
            end = AlternationEnd::GivenUp { target: spec.target_name.clone(), why };
            break;
        }
    }
    let state = match end {
        AlternationEnd::Interrupted => CampaignState::Interrupted,
        _ => CampaignState::Complete,
    };
    Ok((campaign.finish(state).map_err(failed)?, end))
}

/// Returns why a trial must not be used: its failure, or its first invalid pass with the evidence.
fn why_unusable(trial: &Trial) -> Option<String> {
    if let TrialState::Failed(why) = &trial.state {
        return Some(why.clone());
    }
    let is_invalid = |pass: &&PassResult| Verdict::from_caveats(&pass.caveats) == Verdict::Invalid;
    let pass = trial.passes.iter().find(is_invalid)?;
    let caveat = pass.caveats.iter().find(|one| one.code.severity() == Severity::Invalid)?;
    Some(format!("invalid: {} ({}: {})", pass.pass.name(), caveat.code, caveat.evidence))
}
