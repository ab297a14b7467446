//! `dfsbench curve --bound`: the heaviest load under a response time, in few load points.
//!
//! Which load is tried next, [`BoundSearch`] says. Each load point is a run of one campaign, stored
//! like any other, so that all that was measured is kept, however the search ends.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use controller::CampaignRunner;
use controller::search::Keeping;
use model::question::{CurveRequest, Question, ResponseBound};
use model::{Campaign, CampaignState, Run, RunSpec, TrialState};
use plan::Plan;
use results::Store;
use stats::curve::{BoundSearch, LoadPoint};
use stats::judge;

use super::Asking;
use crate::campaign::{self, Session};
use crate::embedded;
use crate::exit::{End, Failure};
use crate::progress::Progress;

/// Searches for the heaviest load of each run, whatever its other settings are.
///
/// # Errors
/// As [`Session::run_plan`].
pub fn search(
    mut session: Session<'_>,
    ask: &Asking<'_>,
    request: &CurveRequest,
    bound: ResponseBound,
) -> Result<ExitCode, Failure> {
    let mut heaviest = ask.plan(&[request.maximum.per_s])?;
    let server = embedded::start(&heaviest)?;
    if let Some(server) = &server {
        server.set_addresses(&mut heaviest);
    }
    let progress = Progress::open_ended(&heaviest, session.visibility());
    let mut observer = session.observe(progress, 0)?;
    let results = &session.making.results;
    let searched = session.with_runner(&heaviest, server.as_ref(), &mut observer, |runner| {
        search_all_runs(runner, results, request, bound)
    });
    drop(server);
    let made = match searched {
        Ok((stored, searched)) => report_search(&session, stored, searched),
        Err(failure) => Err(failure),
    };
    observer.end(&made);
    Ok(made?.0.into())
}

/// Reports what was found; `searched` is how the search itself ended.
fn report_search(
    session: &Session<'_>,
    stored: Campaign,
    searched: End,
) -> Result<(End, Campaign), Failure> {
    let end = session.report(&stored)?;
    if searched != End::Ok || stored.state != CampaignState::Complete {
        return Ok((End::Invalid, stored));
    }
    // Load points beyond the bound break a rule, and a search needs some of them.
    Ok((if end == End::Invalid { End::Ok } else { end }, stored))
}

/// Searches with each run of the plan, all in one campaign; the end is Ok where each has its
/// answer.
fn search_all_runs(
    runner: &mut CampaignRunner<'_>,
    results: &Path,
    request: &CurveRequest,
    bound: ResponseBound,
) -> Result<(Campaign, End), Failure> {
    runner.preflight()?;
    let question = Question::Curve(request.clone());
    let header = campaign::header(runner, &question)?;
    let mut store = Store::open_or_create(results)?;
    let id = store.begin_campaign(&header)?;
    let mut keeping = Keeping::new(&mut store, id);
    let plan: &Plan = runner.plan;
    let mut is_known = true;
    for run in &plan.runs {
        if run.impossible().is_some() {
            continue;
        }
        keeping.begin();
        let mut search = BoundSearch::new(request.maximum.per_s);
        let mut kept = 0_u32;
        while let Some(load) = search.next() {
            if runner.stop.load(Relaxed) {
                break;
            }
            let spec = at_load(run, load);
            let trial = keeping.make(runner, load, &spec)?;
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
            kept += u32::from(keeps);
            if keeps {
                search.note_kept();
            } else {
                search.note_broken();
            }
        }
        is_known &= kept > 0;
    }
    let stopped = runner.stop.load(Relaxed);
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
