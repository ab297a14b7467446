//! `dfsbench curve --bound`: the heaviest load under a response time, in few load points.
//!
//! Which load is tried next, [`bound_search`] says. Each load point is a run of one campaign, stored
//! like any other, so that all that was measured is kept, however the search ends.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use controller::Walk;
use controller::search::Keeping;
use model::question::{CurveRequest, Question, ResponseBound};
use model::{Campaign, CampaignState, Run, RunSpec, TrialState};
use plan::Plan;
use results::Store;
use stats::curve::{LoadPoint, bound_search, steps_to_load};
use stats::judge;

use super::Asking;
use crate::campaign::{self, Means, Observers};
use crate::embedded::{self, Embedded};
use crate::exit::{End, Failure};
use crate::progress::Progress;

/// Searches for the heaviest load of each run, whatever its other settings are.
///
/// # Errors
/// As [`campaign::make`].
pub fn search(
    means: &Means<'_>,
    ask: &Asking<'_>,
    request: &CurveRequest,
    bound: ResponseBound,
    stop: &Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    let mut heaviest = ask.plan(&[request.maximum.per_s])?;
    let server = embedded::start(&heaviest)?;
    if let Some(server) = &server {
        server.set_addresses(&mut heaviest);
    }
    let progress = Progress::open_ended(&heaviest, means.visibility());
    let mut observers = Observers::new(means, progress, 0)?;
    let local = server.as_ref().map(Embedded::as_local_server);
    let searched = campaign::with_agents(means, &heaviest, local, stop, &mut observers, |walk| {
        search_all_runs(walk, means, request, bound)
    });
    drop(server);
    let made = match searched {
        Ok((stored, searched)) => report_search(means, stored, searched),
        Err(failure) => Err(failure),
    };
    observers.end(&made);
    Ok(made?.0.into())
}

/// Reports what was found; `searched` is how the search itself ended.
fn report_search(
    means: &Means<'_>,
    stored: Campaign,
    searched: End,
) -> Result<(End, Campaign), Failure> {
    let end = campaign::conclude(means, &stored)?;
    if searched != End::Ok || stored.state != CampaignState::Complete {
        return Ok((End::Invalid, stored));
    }
    // Load points beyond the bound break a rule, and a search needs some of them.
    Ok((if end == End::Invalid { End::Ok } else { end }, stored))
}

/// Searches with each run of the plan, all in one campaign; the end is Ok where each has its
/// answer.
fn search_all_runs(
    walk: &mut Walk<'_>,
    means: &Means<'_>,
    request: &CurveRequest,
    bound: ResponseBound,
) -> Result<(Campaign, End), Failure> {
    controller::preflight(walk)?;
    let question = Question::Curve(request.clone());
    let header = campaign::header(walk, &question)?;
    let mut store = Store::open_or_create(means.results)?;
    let id = store.begin_campaign(&header)?;
    let mut keeping = Keeping::new(&mut store, id);
    let plan: &Plan = walk.plan;
    let mut is_known = true;
    for run in &plan.runs {
        if run.impossible().is_some() {
            continue;
        }
        keeping.begin();
        let mut search = bound_search();
        while let Some(steps) = search.next() {
            let load = steps_to_load(steps, request.maximum.per_s);
            if walk.stop.load(Relaxed) {
                break;
            }
            let spec = at_load(run, load);
            let trial = keeping.make(walk, load, &spec)?;
            if trial.state == TrialState::Interrupted {
                break;
            }
            let run = Run { index: 0, spec, trials: vec![trial] };
            // Every pass has to keep the bound, or the load is too heavy.
            let mut keeps = true;
            for pass in run.spec.passes() {
                let judged = judge::pass(&run, *pass);
                keeps &= LoadPoint::of(&run, &judged, &request.mix).keeps(&bound);
            }
            if keeps {
                search.note_good(steps);
            } else {
                search.note_bad(steps);
            }
        }
        is_known &= search.good().is_some();
    }
    let stopped = walk.stop.load(Relaxed);
    let state = if stopped { CampaignState::Interrupted } else { CampaignState::Complete };
    store.finish(id, state)?;
    Ok((store.load(id)?, if is_known { End::Ok } else { End::Invalid }))
}

/// The run with another offered load, on a file set that follows it.
fn at_load(run: &RunSpec, per_s: u64) -> RunSpec {
    let mut spec = run.clone();
    spec.load.rate_per_s = per_s;
    spec
}
