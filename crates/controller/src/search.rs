//! Raises the load on a server until it gives in, see [`stats::breaking`].
//!
//! Each load is a run of the campaign, stored with its trials like any other, so that whatever ends
//! the search, all that was measured is kept. What a load is, only the caller knows.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use model::question::RampRequest;
use model::{RunSpec, Trial, TrialState};
use results::{Store, StoreError};
use stats::breaking::{Search, TrialOutcome};

use crate::{ControllerError, Event, Walk, results_place, trial};

/// So many tenths of a second lie between two looks whether a server has recovered: one that
/// refuses connections would else be requested without end.
const PAUSES: u32 = 5;

/// The campaign that the runs of a search belong to.
pub struct Keeping<'a> {
    store: &'a mut Store,
    campaign: i64,
    /// Runs and trials that were made.
    runs: u32,
    trials: usize,
    /// Run in the store and number of trials, for each load of this search.
    tried: BTreeMap<u64, (i64, u32)>,
}

impl<'a> Keeping<'a> {
    /// Starts without any runs.
    pub const fn new(store: &'a mut Store, campaign: i64) -> Self {
        Self { store, campaign, runs: 0, trials: 0, tried: BTreeMap::new() }
    }

    /// Begins another search: its loads are runs of their own.
    pub fn begin(&mut self) {
        self.tried.clear();
    }

    /// Makes and stores a trial of the run with this load; another one where it has some.
    ///
    /// # Errors
    /// When the results can't be kept, or the agent is gone.
    pub fn make(
        &mut self,
        walk: &mut Walk<'_>,
        load: u64,
        spec: &RunSpec,
    ) -> Result<Trial, ControllerError> {
        let (run_id, made) = match self.tried.get(&load) {
            Some(run) => *run,
            None => (self.add(spec)?, 0),
        };
        let mut trial = Trial { index: made, ..trial::run(walk, spec, self.trials)? };
        results_place::note(self.store, spec, &mut trial);
        self.store.add_trial(run_id, &trial)?;
        self.tried.insert(load, (run_id, made + 1));
        self.trials += 1;
        (walk.observe)(Event::TrialEnded { spec, trial: &trial });
        Ok(trial)
    }

    fn add(&mut self, spec: &RunSpec) -> Result<i64, StoreError> {
        let id = self.store.add_run(self.campaign, self.runs, spec)?;
        self.runs += 1;
        Ok(id)
    }
}

/// Searches for the load under which a server gives in; `at` makes the run with a load. Where the
/// search names another load in the end, it was stopped.
///
/// # Errors
/// When a run can't be made, the results can't be kept, or the agent is gone. What was stored until
/// then is kept.
pub fn search(
    walk: &mut Walk<'_>,
    keeping: &mut Keeping<'_>,
    requested: &RampRequest,
    at: &dyn Fn(u32) -> Result<RunSpec, String>,
) -> Result<Search, ControllerError> {
    let mut search = Search::new(requested.into());
    keeping.begin();
    while let Some(load) = search.next() {
        if search.awaits_recovery() {
            for _ in 0..PAUSES {
                (walk.wait)(walk.hosts.wakeup());
            }
        }
        if walk.stop.load(Relaxed) {
            break;
        }
        let spec = at(load).map_err(ControllerError::Unusable)?;
        let trial = keeping.make(walk, load.into(), &spec)?;
        if trial.state == TrialState::Interrupted {
            break;
        }
        search.handle_outcome(TrialOutcome::of(&spec, &trial), trial.started_unix_ms);
    }
    Ok(search)
}
