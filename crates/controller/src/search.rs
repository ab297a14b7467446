//! Raises the load on a server until it gives in, see [`stats::breaking`].
//!
//! Each load is a run of the campaign, stored with its trials like any other, so that whatever ends
//! the search, all that was measured stays. What a load is, only the caller knows.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use model::{CaveatCode, OpError, RunSpec, Trial, TrialState};
use results::{Store, StoreError};
use stats::breaking::{Came, Search};
use stats::judge;

use crate::{ControllerError, Event, Walk, trial};

/// What words of a failed trial say that an answer did not come.
const NO_ANSWER: &str = "no answer";

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// With what it found; where it names another load, somebody stopped it.
    pub search: Search,
    /// Why the trial failed with the load under which the server gave in, where it did.
    pub why: Option<Trouble>,
}

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// An answer did not come in time.
    pub hangs: bool,
    /// In a sentence.
    pub reason: String,
}

/// The campaign that the runs of a search belong to.
pub struct Keeping<'a> {
    store: &'a mut Store,
    campaign: i64,
    /// Runs and trials that were made.
    runs: u32,
    trials: usize,
    /// Of each load of this search: its run in the store, and how many trials it has.
    tried: BTreeMap<u64, (i64, u32)>,
}

impl<'a> Keeping<'a> {
    /// Nothing was made yet.
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
        let trial = Trial { index: made, ..trial::run(walk, spec, self.trials)? };
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

/// Searches from one load to another; `at` makes the run with a load.
///
/// # Errors
/// When a run can't be made, the results can't be kept, or the agent is gone. What was stored until
/// then stays.
pub fn search(
    walk: &mut Walk<'_>,
    keeping: &mut Keeping<'_>,
    (first, max): (u32, u32),
    at: &dyn Fn(u32) -> Result<RunSpec, String>,
) -> Result<Outcome, ControllerError> {
    let mut search = Search::new(first, max);
    let mut troubles: BTreeMap<u32, Trouble> = BTreeMap::new();
    keeping.begin();
    while let Some(load) = search.next() {
        if walk.stop.load(Relaxed) {
            break;
        }
        let spec = at(load).map_err(ControllerError::Unusable)?;
        let trial = keeping.make(walk, load.into(), &spec)?;
        if trial.state == TrialState::Interrupted {
            break;
        }
        search.hear(match judged(&spec, trial) {
            Ok(rates) => Came::Rates(rates),
            Err(trouble) => {
                troubles.insert(load, trouble);
                Came::Broken
            }
        });
    }
    let why = search.found().gave_in.and_then(|(load, _)| troubles.remove(&load));
    Ok(Outcome { search, why })
}

/// The rate of each pass of one trial; `None` where the client was at its own limit.
///
/// # Errors
/// When the trial failed, or an op did.
fn judged(spec: &RunSpec, trial: Trial) -> Result<Vec<Option<f64>>, Trouble> {
    if let TrialState::Failed(reason) = &trial.state {
        return Err(Trouble { hangs: reason.contains(NO_ANSWER), reason: reason.clone() });
    }
    let kinds = trial.passes.iter().flat_map(|pass| pass.kinds.iter().map(move |k| (pass, k)));
    let mut errors = kinds.flat_map(|(pass, kind)| kind.errors.iter().map(move |e| (pass, e)));
    if let Some((pass, (error, count))) = errors.next() {
        let reason = format!("{}: {count} ops failed with {}", pass.pass, error.name());
        return Err(Trouble { hangs: *error == OpError::LOST, reason });
    }
    let run = model::Run { index: 0, spec: spec.clone(), trials: vec![trial] };
    let rate = |pass: &model::Pass| {
        let judged = judge::pass(&run, *pass);
        let none = || judged.reason().unwrap_or("no figure").to_owned();
        let limited = |caveat: &stats::JudgedCaveat| caveat.code == CaveatCode::ClientSaturated;
        let told = !judged.caveats.iter().any(limited);
        judged.rate.as_ref().map(|rate| told.then_some(rate.median)).ok_or_else(none)
    };
    let rates: Result<Vec<Option<f64>>, String> = spec.passes().iter().map(rate).collect();
    rates.map_err(|reason| Trouble { hangs: false, reason })
}
