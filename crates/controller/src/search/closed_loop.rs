//! Estimates the heaviest load of a curve, if none is given, from the rate of a short closed loop.
//!
//! Each client sends its next call as soon as one is answered, so the server always has work. No
//! open loop with the same number of clients and calls in flight can sustain a higher rate; it
//! would only queue ever more calls.

use std::sync::atomic::Ordering::Relaxed;

use model::question::ClosedLoop;
use model::units::Nanos;
use model::{RunSpec, TrialState, Workload};
use plan::Plan;

use crate::{CampaignRunner, ControllerError};

/// Maximum duration of the loop: a thousand ops on a server that does five hundred per second.
const DURATION_MS: u64 = 2_000;

/// Duration of the warm-up before that.
const WARMUP_MS: u64 = 500;

/// Number of data files of an op mix in the loop (27 MB); otherwise it would follow from the load.
const FILES: u32 = 1_000;

/// Returns the duration of the longest loop.
pub fn longest(light: &Plan) -> Nanos {
    let mut longest = 0;
    for run in &light.runs {
        longest = longest.max(closed_loop(run).duration_ms);
    }
    Nanos(longest * 1_000_000)
}

/// Turns a plan's load points into closed loops.
pub fn close_loops(plan: &mut Plan) {
    for run in &mut plan.runs {
        *run = closed_loop(run);
    }
}

/// Runs each closed loop of a plan once, and returns the one with the highest rate.
pub fn find_best(runner: &mut CampaignRunner<'_>) -> Result<ClosedLoop, ControllerError> {
    runner.preflight()?;
    let mut best = ClosedLoop::default();
    let plan = runner.plan;
    for run in &plan.runs {
        if run.impossible().is_some() {
            continue;
        }
        let trial = runner.run_once(run)?;
        if runner.stop.load(Relaxed) {
            return Err(ControllerError::Interrupted);
        }
        if let TrialState::Failed(reason) = trial.state {
            let what = "the closed loop that determines the maximum load failed";
            return Err(ControllerError::Unusable(format!(
                "{what}: {reason} (hint: set the maximum with --max-load)"
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

/// Returns the closed loop for a load point.
fn closed_loop(run: &RunSpec) -> RunSpec {
    let mut run = run.clone();
    run.load.rate_per_s = 0;
    run.load.ramp_ms = 0;
    run.load.warmup_ms = run.load.warmup_ms.min(WARMUP_MS);
    run.duration_ms = run.duration_ms.min(DURATION_MS);
    if run.workload == Workload::OpMix {
        run.op_mix.set_bytes_per_rate = 0;
        run.files = FILES;
    }
    run
}
