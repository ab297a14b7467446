//! The searches of a campaign, told again from its trials.
//!
//! A search takes no way but that of what it hears, so whoever has the trials in their order has
//! the search. One begins where the one before it has ended.

use model::question::RampAsked;
use model::{Campaign, Run, Trial, TrialState};

use super::{Came, Search, Trouble};

/// A search with the trials it is made of.
#[derive(Clone, Debug)]
pub struct Searched<'a> {
    /// With what it found; where it names another load, somebody stopped it.
    pub search: Search,
    /// Its trials, in their order.
    pub tried: Vec<Tried<'a>>,
}

/// What a trial of a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To see whether a load is borne.
    Load,
    /// To see whether one is served worse than a lighter one, which are tried in turns.
    Turn {
        /// The heavier one.
        load: u32,
        /// The lighter one.
        reference: u32,
    },
    /// To see whether the server has recovered.
    Recovery,
}

/// One trial of a search.
#[derive(Clone, Debug)]
pub struct Tried<'a> {
    /// Under which load.
    pub load: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// Of which run.
    pub run: &'a Run,
    /// What came of it.
    pub came: Came,
}

impl Searched<'_> {
    /// Why the trial failed with the load under which the server gave in, where one did; or
    /// else the lighter one that was tried in turns with it.
    pub fn trouble(&self) -> Option<&Trouble> {
        let (gave_in, _) = self.search.found().gave_in?;
        let of = |is: fn(&Tried<'_>, u32) -> bool| {
            self.tried.iter().find_map(|tried| match &tried.came {
                Came::Broken(trouble) if is(tried, gave_in) => Some(trouble),
                _ => None,
            })
        };
        of(|tried, load| tried.load == load).or_else(|| {
            of(|tried, at| matches!(tried.purpose, Purpose::Turn { load, .. } if load == at))
        })
    }
}

/// The searches of a campaign.
pub fn replay<'a>(campaign: &'a Campaign, asked: &RampAsked) -> Vec<Searched<'a>> {
    let of_run = |run: &'a Run| run.trials.iter().map(move |trial| (run, trial));
    let mut trials: Vec<(&Run, &Trial)> = campaign.runs.iter().flat_map(of_run).collect();
    trials.sort_by_key(|(_, trial)| trial.position);
    trials.retain(|(_, trial)| trial.state != TrialState::Interrupted);
    let mut searches: Vec<Searched<'a>> = Vec::new();
    for (run, trial) in trials {
        let load = asked.load_of(&run.spec);
        if searches.last().is_none_or(|known| known.search.next() != Some(load)) {
            searches.push(Searched { search: Search::new(asked.into()), tried: Vec::new() });
        }
        let Some(Searched { search, tried }) = searches.last_mut() else { continue };
        let came = Came::of(&run.spec, trial);
        let purpose = search.purpose();
        tried.push(Tried { load, purpose, run, came: came.clone() });
        search.hear(came, trial.started_unix_ms);
    }
    searches
}
