//! Raises the load on a server until it breaks; see [`stats::breaking`].
//!
//! Each load is a run of the campaign and stored with its trials like any other run, so all
//! measurements are kept no matter how the search ends. The caller defines what a load is.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use model::question::RampRequest;
use model::{RunSpec, Trial, TrialState};
use results::{Store, StoreError};
use stats::breaking::{Search, TrialOutcome};

use crate::{CampaignRunner, ControllerError, Event, results_on_target};

/// Number of 100 ms pauses between checks whether a server has recovered. Without them, a server
/// that refuses connections would be queried in a busy loop.
const PAUSES: u32 = 5;

/// The campaign that stores the runs of a search.
pub struct Keeping<'a> {
    store: &'a mut Store,
    campaign: i64,
    /// Number of runs and trials so far.
    runs: u32,
    trials: usize,
    /// Run ID in the store and number of trials, for each load of this search.
    tried: BTreeMap<u64, (i64, u32)>,
}

impl<'a> Keeping<'a> {
    pub const fn new(store: &'a mut Store, campaign: i64) -> Self {
        Self { store, campaign, runs: 0, trials: 0, tried: BTreeMap::new() }
    }

    /// Begins another search, whose loads get runs of their own.
    pub fn begin(&mut self) {
        self.tried.clear();
    }

    /// Runs and stores a trial with this load, in addition to earlier ones.
    ///
    /// # Errors
    /// If the results cannot be stored or the agent is gone.
    pub fn make(
        &mut self,
        runner: &mut CampaignRunner<'_>,
        load: u64,
        spec: &RunSpec,
    ) -> Result<Trial, ControllerError> {
        let (run_id, made) = match self.tried.get(&load) {
            Some(run) => *run,
            None => (self.add(spec)?, 0),
        };
        let mut trial = Trial { index: made, ..runner.run_trial(spec, self.trials)? };
        results_on_target::note(self.store, spec, &mut trial);
        self.store.add_trial(run_id, &trial)?;
        self.tried.insert(load, (run_id, made + 1));
        self.trials += 1;
        (runner.observe)(Event::TrialEnded { spec, trial: &trial });
        Ok(trial)
    }

    fn add(&mut self, spec: &RunSpec) -> Result<i64, StoreError> {
        let id = self.store.add_run(self.campaign, self.runs, spec)?;
        self.runs += 1;
        Ok(id)
    }
}

/// Searches for the load that breaks a server. `at` creates the run for a load. If the search was
/// stopped early, the returned search still has a next load to try.
///
/// # Errors
/// If a run cannot be created, the results cannot be stored, or the agent is gone. Results stored
/// so far are kept.
pub fn search(
    runner: &mut CampaignRunner<'_>,
    keeping: &mut Keeping<'_>,
    requested: &RampRequest,
    at: &dyn Fn(u32) -> Result<RunSpec, String>,
) -> Result<Search, ControllerError> {
    let mut search = Search::new(requested.into());
    keeping.begin();
    while let Some(load) = search.next() {
        if search.awaits_recovery() {
            for _ in 0..PAUSES {
                runner.hosts.wait();
            }
        }
        if runner.stop.load(Relaxed) {
            break;
        }
        let spec = at(load).map_err(ControllerError::Unusable)?;
        let trial = keeping.make(runner, load.into(), &spec)?;
        if trial.state == TrialState::Interrupted {
            break;
        }
        search.handle_outcome(TrialOutcome::of(&spec, &trial), trial.started_unix_ms);
    }
    Ok(search)
}
