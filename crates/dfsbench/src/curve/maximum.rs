//! The heaviest load of a curve, where it is not named: the rate of a short closed loop.
//!
//! Every client sends its next call when one has been answered, so that the server is never idle
//! for want of work. That is all that so many clients can do with so many calls in flight each; an
//! open loop with as much to do would wait for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use controller::{CampaignRunner, ControllerError};
use model::question::{ClosedLoop, LoadMaximum};
use model::units::Nanos;
use model::{RunSpec, TrialState, Workload};
use plan::Plan;
use stats::Rate;

use crate::campaign::{self, Session};
use crate::embedded;
use crate::exit::Failure;
use crate::output;
use crate::progress::{Progress, Visibility};

/// How long the loop runs at most: a thousand ops of a server that does five hundred a second.
const DURATION_MS: u64 = 2_000;

/// How long before that it works without counting.
const WARMUP_MS: u64 = 500;

/// Data files of an op mix in the loop, whose set would else follow from the load: 27 MB.
const FILES: u32 = 1_000;

/// A heaviest load below this is no load, in ops per second.
const LEAST: u64 = 50;

/// How long the loop would take, for people.
pub fn shown(light: &Plan) -> Nanos {
    let mut longest = 0;
    for run in &light.runs {
        longest = longest.max(closed_loop(run).duration_ms);
    }
    Nanos(longest * 1_000_000)
}

/// Finds the heaviest load; `light` is the plan with a load of next to nothing.
///
/// # Errors
/// When the loop can't be made, or gets next to nothing done.
pub fn find(session: &Session<'_>, mut light: Plan) -> Result<LoadMaximum, Failure> {
    for run in &mut light.runs {
        *run = closed_loop(run);
    }
    if session.visibility() == Visibility::Shown {
        let time = shown(&light);
        output::message(&format!("the heaviest load is found by a closed loop of {time}"));
    }
    let server = embedded::start(&light)?;
    if let Some(server) = &server {
        server.set_addresses(&mut light);
    }
    let making = campaign::without_progress(session.making);
    let mut silent = Session::silent(&making, Arc::clone(&session.stop));
    let mut observer = silent.observe(Progress::new(&light, Visibility::Hidden), 0)?;
    let found = silent.with_runner(&light, server.as_ref(), &mut observer, find_best)?;
    if found.per_s() < LEAST {
        let rate = Rate::Ops(found.per_s() as f64);
        let what = format!("a closed loop reached only {rate}, too little for a curve");
        return Err(Failure::Lab(format!("{what} (hint: more --clients, or --max-load)")));
    }
    if session.visibility() == Visibility::Shown {
        let rate = Rate::Ops(found.per_s() as f64);
        output::message(&format!("the heaviest load is {rate}"));
    }
    Ok(LoadMaximum { per_s: found.per_s(), found: Some(found) })
}

/// Makes each run of a plan once, and returns the loop with the highest rate.
fn find_best(runner: &mut CampaignRunner<'_>) -> Result<ClosedLoop, Failure> {
    runner.preflight()?;
    let mut best = ClosedLoop::default();
    let plan: &Plan = runner.plan;
    for run in &plan.runs {
        if run.impossible().is_some() {
            continue;
        }
        let trial = runner.run_once(run)?;
        if runner.stop.load(Relaxed) {
            return Err(ControllerError::Interrupted.into());
        }
        if let TrialState::Failed(reason) = trial.state {
            let what = "the closed loop that finds the heaviest load failed";
            return Err(Failure::Lab(format!(
                "{what}: {reason} (hint: name the load with --max-load)"
            )));
        }
        let Some(pass) = trial.passes.first() else { continue };
        let files = if run.workload == Workload::OpMix { FILES } else { 0 };
        let found = ClosedLoop { ops: pass.ops(), window_ns: pass.window_ns, files };
        if found.per_s() > best.per_s() {
            best = found;
        }
    }
    Ok(best)
}

/// The closed loop of a load point.
fn closed_loop(run: &RunSpec) -> RunSpec {
    let mut run = run.clone();
    (run.load.rate_per_s, run.load.ramp_ms) = (0, 0);
    run.load.warmup_ms = run.load.warmup_ms.min(WARMUP_MS);
    run.duration_ms = run.duration_ms.min(DURATION_MS);
    if run.workload == Workload::OpMix {
        (run.op_mix.set_bytes_per_rate, run.files) = (0, FILES);
    }
    run
}
