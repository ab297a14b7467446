//! Searches for a load: the one that breaks a server, and the heaviest one under a response time.
//!
//! [`stats::breaking`] and [`stats::curve::bound_search`] choose the loads. Each load is a run of
//! the campaign and stored with its trials like any other run, so all measurements are kept no
//! matter how the search ends.

pub mod alternation;
pub mod closed_loop;
pub mod curve_plan;
pub mod raised_load;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use model::question::{CurveRequest, RampRequest, ResponseBound};
use model::{Campaign, CampaignState, Run, RunSpec, Trial, TrialState};
use results::{Store, StoreError};
use stats::breaking::{Search, TrialOutcome};
use stats::curve::{LoadPoint, bound_search, steps_to_load};
use stats::judge;

use crate::{CampaignRunner, ControllerError, Event, results_on_target};

/// Number of 100 ms pauses between checks whether a server has recovered. Without them, a server
/// that refuses connections would be queried in a busy loop.
const PAUSES: u32 = 5;

/// The campaign that stores the runs of a search.
struct SearchCampaign<'a> {
    store: &'a mut Store,
    campaign: i64,
    /// Number of runs and trials so far.
    runs: u32,
    trials: usize,
    /// Run ID in the store and number of trials, for each load of this search.
    tried: BTreeMap<u64, (i64, u32)>,
}

impl<'a> SearchCampaign<'a> {
    /// Begins a campaign; `header` is the campaign without runs.
    fn begin(store: &'a mut Store, header: &Campaign) -> Result<Self, StoreError> {
        let campaign = store.begin_campaign(header)?;
        Ok(Self { store, campaign, runs: 0, trials: 0, tried: BTreeMap::new() })
    }

    /// Begins another search; each of its loads becomes a run of its own.
    fn begin_search(&mut self) {
        self.tried.clear();
    }

    /// Runs and stores a trial with this load, in addition to earlier ones.
    fn make(
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
        results_on_target::add_note(self.store, spec, &mut trial);
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

    fn finish(self, state: CampaignState) -> Result<Campaign, StoreError> {
        self.store.finish(self.campaign, state)?;
        self.store.load(self.campaign)
    }
}

/// Searches for the load that breaks the server with each run of the plan, all in one campaign.
/// `at` creates the run with a number for a load.
///
/// # Errors
/// If a run cannot be created, the results cannot be stored, or the agent is gone. Results stored
/// so far are kept.
pub fn find_breaking_loads(
    runner: &mut CampaignRunner<'_>,
    store: &mut Store,
    header: &Campaign,
    request: &RampRequest,
    at: &dyn Fn(usize, u32) -> Result<RunSpec, String>,
) -> Result<Campaign, ControllerError> {
    let mut campaign = SearchCampaign::begin(store, header)?;
    let mut state = CampaignState::Complete;
    let plan = runner.plan;
    for (number, run) in plan.runs.iter().enumerate() {
        if run.impossible().is_some() {
            continue;
        }
        let at = |load| at(number, load);
        let search = find_breaking_load(runner, &mut campaign, request, &at)?;
        if search.next().is_some() {
            state = CampaignState::Interrupted;
            break;
        }
    }
    Ok(campaign.finish(state)?)
}

/// Searches with one run. If the search was stopped early, the returned search still has a next
/// load to try.
fn find_breaking_load(
    runner: &mut CampaignRunner<'_>,
    campaign: &mut SearchCampaign<'_>,
    request: &RampRequest,
    at: &dyn Fn(u32) -> Result<RunSpec, String>,
) -> Result<Search, ControllerError> {
    let mut search = Search::new(request.into());
    campaign.begin_search();
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
        let trial = campaign.make(runner, load.into(), &spec)?;
        if trial.state == TrialState::Interrupted {
            break;
        }
        search.handle_outcome(TrialOutcome::from_trial(&spec, &trial), trial.started_unix_ms);
    }
    Ok(search)
}

/// Result of a search for the heaviest loads under a bound.
pub struct LoadsUnderBound {
    /// The campaign that stores the load points.
    pub campaign: Campaign,
    /// Some load of each run satisfies the bound.
    pub are_known: bool,
}

/// Searches for the heaviest load under a bound with each run of the plan, all in one campaign.
///
/// # Errors
/// If the results cannot be stored or the agent is gone. Results stored so far are kept.
pub fn find_loads_under_bound(
    runner: &mut CampaignRunner<'_>,
    store: &mut Store,
    header: &Campaign,
    request: &CurveRequest,
    bound: &ResponseBound,
) -> Result<LoadsUnderBound, ControllerError> {
    let mut campaign = SearchCampaign::begin(store, header)?;
    let mut are_known = true;
    let plan = runner.plan;
    for run in &plan.runs {
        if run.impossible().is_some() {
            continue;
        }
        campaign.begin_search();
        let mut search = bound_search();
        while let Some(steps) = search.next() {
            if runner.stop.load(Relaxed) {
                break;
            }
            let load = steps_to_load(steps, request.maximum.per_s);
            let mut spec = run.clone();
            // The file set of an op mix follows it.
            spec.load.rate_per_s = load;
            let trial = campaign.make(runner, load, &spec)?;
            if trial.state == TrialState::Interrupted {
                break;
            }
            let run = Run { index: 0, spec, trials: vec![trial] };
            if satisfies(&run, request, bound) {
                search.note_good(steps);
            } else {
                search.note_bad(steps);
            }
        }
        are_known &= search.heaviest_good().is_some();
    }
    let stopped = runner.stop.load(Relaxed);
    let state = if stopped { CampaignState::Interrupted } else { CampaignState::Complete };
    Ok(LoadsUnderBound { campaign: campaign.finish(state)?, are_known })
}

/// Returns true if every pass of a load point satisfies the bound.
fn satisfies(run: &Run, request: &CurveRequest, bound: &ResponseBound) -> bool {
    run.spec.passes().iter().all(|pass| {
        let judged = judge::pass(run, *pass);
        LoadPoint::from_run(run, &judged, &request.mix).meets_bound(bound)
    })
}
