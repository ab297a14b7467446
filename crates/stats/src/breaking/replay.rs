//! The searches of a campaign, replayed from its trials.
//!
//! A search is determined by the outcomes that it is given, so the trials in their order are
//! enough to repeat it. One begins where the one before it has ended.

use model::question::RampRequest;
use model::{Campaign, Run, Trial, TrialState};

use super::{Search, TrialOutcome, Trouble};

/// A search with the trials it is made of.
#[derive(Clone, Debug)]
pub struct Searched<'a> {
    /// The search with its result; where it names another load, it was stopped.
    pub search: Search,
    /// Its trials, in their order.
    pub tried: Vec<Tried<'a>>,
}

/// The purpose of a trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To see whether a load is borne.
    Load,
    /// To see whether one is served worse than a lighter one, which are tried in turns.
    Turn {
        /// The heavier load.
        load: u32,
        /// The lighter load.
        reference: u32,
    },
    /// To see whether the server has recovered.
    Recovery,
}

/// One trial of a search.
#[derive(Clone, Debug)]
pub struct Tried<'a> {
    /// The load that was tried.
    pub load: u32,
    /// The purpose of the trial.
    pub purpose: Purpose,
    /// The run that it belongs to.
    pub run: &'a Run,
    /// The trial itself.
    pub trial: &'a Trial,
    /// The outcome of the trial.
    pub outcome: TrialOutcome,
}

impl Searched<'_> {
    /// Returns why the trial failed with the load under which the server gave in, where one did; or
    /// else the lighter one that was tried in turns with it.
    pub fn trouble(&self) -> Option<&Trouble> {
        let (gave_in, _) = self.search.found().gave_in?;
        let mut of_turn = None;
        for tried in &self.tried {
            let TrialOutcome::Broken(trouble) = &tried.outcome else { continue };
            if tried.load == gave_in {
                return Some(trouble);
            }
            if matches!(tried.purpose, Purpose::Turn { load, .. } if load == gave_in) {
                of_turn = of_turn.or(Some(trouble));
            }
        }
        of_turn
    }
}

/// Replays the searches of a campaign.
pub fn replay<'a>(campaign: &'a Campaign, limits: &RampRequest) -> Vec<Searched<'a>> {
    let mut trials: Vec<(&Run, &Trial)> = Vec::new();
    for run in &campaign.runs {
        for trial in &run.trials {
            // The search was not given the outcome of an interrupted trial.
            if trial.state != TrialState::Interrupted {
                trials.push((run, trial));
            }
        }
    }
    trials.sort_by_key(|(_, trial)| trial.position);
    let mut searches: Vec<Searched<'a>> = Vec::new();
    for (run, trial) in trials {
        let load = limits.load_of(&run.spec);
        if searches.last().is_none_or(|known| known.search.next() != Some(load)) {
            searches.push(Searched { search: Search::new(limits.into()), tried: Vec::new() });
        }
        let Some(Searched { search, tried }) = searches.last_mut() else { continue };
        let outcome = TrialOutcome::of(&run.spec, trial);
        let purpose = search.purpose();
        tried.push(Tried { load, purpose, run, trial, outcome: outcome.clone() });
        search.handle_outcome(outcome, trial.started_unix_ms);
    }
    searches
}
