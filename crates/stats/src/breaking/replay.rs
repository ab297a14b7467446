//! Replays the searches of a campaign from its trials.
//!
//! A search is determined by the outcomes it receives, so the ordered trials are enough to repeat
//! it. Each search begins where the previous one ended.

use model::question::RampRequest;
use model::{Campaign, Run, Trial, TrialState};

use super::{Search, TrialFailure, TrialOutcome};

/// A search with its trials.
#[derive(Clone, Debug)]
pub struct FinishedSearch<'a> {
    /// The search with its result. If it still has a next load, it was stopped.
    pub search: Search,
    /// Trials in order.
    pub tried: Vec<SearchTrial<'a>>,
}

/// Purpose of a trial in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To check whether a load is good.
    Load,
    /// To check whether a load is served worse than a lighter one, by alternating them.
    Turn {
        /// The heavier load.
        load: u32,
        /// The lighter load.
        reference: u32,
    },
    /// To check whether the server has recovered.
    Recovery,
}

/// A trial of a search.
#[derive(Clone, Debug)]
pub struct SearchTrial<'a> {
    pub load: u32,
    pub purpose: Purpose,
    pub run: &'a Run,
    pub trial: &'a Trial,
    pub outcome: TrialOutcome,
}

impl FinishedSearch<'_> {
    /// Returns why the trial failed at the load that broke the server, or else at the lighter one
    /// alternated with it.
    pub fn failure(&self) -> Option<&TrialFailure> {
        let (lightest_bad, _) = self.search.breaking_point().lightest_bad?;
        let mut of_turn = None;
        for tried in &self.tried {
            let TrialOutcome::Broken(trouble) = &tried.outcome else { continue };
            if tried.load == lightest_bad {
                return Some(trouble);
            }
            if matches!(tried.purpose, Purpose::Turn { load, .. } if load == lightest_bad) {
                of_turn = of_turn.or(Some(trouble));
            }
        }
        of_turn
    }
}

pub fn replay<'a>(campaign: &'a Campaign, limits: &RampRequest) -> Vec<FinishedSearch<'a>> {
    let mut trials: Vec<(&Run, &Trial)> = Vec::new();
    for run in &campaign.runs {
        for trial in &run.trials {
            // The search did not see the outcome of an interrupted trial.
            if trial.state != TrialState::Interrupted {
                trials.push((run, trial));
            }
        }
    }
    trials.sort_by_key(|(_, trial)| trial.position);
    let mut searches: Vec<FinishedSearch<'a>> = Vec::new();
    for (run, trial) in trials {
        let load = limits.load_of(&run.spec);
        if searches.last().is_none_or(|known| known.search.next() != Some(load)) {
            searches.push(FinishedSearch { search: Search::new(limits.into()), tried: Vec::new() });
        }
        let Some(FinishedSearch { search, tried }) = searches.last_mut() else { continue };
        let outcome = TrialOutcome::from_trial(&run.spec, trial);
        let purpose = search.purpose();
        tried.push(SearchTrial { load, purpose, run, trial, outcome: outcome.clone() });
        search.handle_outcome(outcome, trial.started_unix_ms);
    }
    searches
}
