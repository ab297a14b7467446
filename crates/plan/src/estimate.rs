//! How much a plan will move and about how long it takes, before it is started.
//!
//! Bytes and ops of sequential and metadata passes are exact; everything that depends on speed
//! rests on the rates below, which are those of a laptop's disk and of NFS over a fast network.
//! They are there to tell a minute from an hour, no more.

use model::units::Nanos;
use model::{RunSpec, Target, Workload};

use crate::resolve::Plan;

/// Assumed speed of sequential reads and writes, in bytes per second.
pub const BYTES_PER_S: u64 = 200_000_000;

/// Assumed random ops per second, all workers together.
pub const RANDOM_OPS_PER_S: u64 = 10_000;

/// Assumed creates, stats or removes per second, all workers together.
pub const METADATA_OPS_PER_S: u64 = 5_000;

/// Assumed time around each trial for connecting, dropping caches and cleaning up.
pub const TRIAL_OVERHEAD_MS: u64 = 100;

/// What a plan will cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// One for each of the plan's runs.
    pub runs: Vec<RunEstimate>,
    /// What each target must have room for, in the order of their first use.
    pub targets: Vec<TargetEstimate>,
    /// Trials of all runs.
    pub trials: u64,
    /// Written by all trials, in bytes.
    pub bytes_written: u64,
    /// Read by all trials, in bytes.
    pub bytes_read: u64,
    /// Duration of all trials, in milliseconds.
    pub duration_ms: u64,
}

/// What one trial of a run will cost, its preparation included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEstimate {
    /// Written, in bytes.
    pub bytes_written: u64,
    /// Read, in bytes.
    pub bytes_read: u64,
    /// Ops that are measured, syncs not counted.
    pub ops: u64,
    /// Duration, in milliseconds.
    pub duration_ms: u64,
}

/// What a target must have room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetEstimate {
    /// Its name.
    pub name: String,
    /// The largest set of files that is there at one time, in bytes.
    pub peak_bytes: u64,
}

impl Estimate {
    /// The duration of all trials, for printing.
    pub fn duration(&self) -> Nanos {
        Nanos(self.duration_ms.saturating_mul(1_000_000))
    }
}

/// Estimates what a plan will cost.
pub fn estimate(plan: &Plan) -> Estimate {
    let runs: Vec<RunEstimate> = plan.runs.iter().map(estimate_run).collect();
    let mut targets: Vec<TargetEstimate> = Vec::new();
    for run in &plan.runs {
        // Each trial removes its files before the next one begins.
        let stays = run.target != Target::Null && run.impossible().is_none();
        let bytes = if stays { run.set_bytes() } else { 0 };
        if let Some(target) = targets.iter_mut().find(|target| target.name == run.target_name) {
            target.peak_bytes = target.peak_bytes.max(bytes);
        } else {
            targets.push(TargetEstimate { name: run.target_name.clone(), peak_bytes: bytes });
        }
    }
    let possible = plan.runs.iter().filter(|run| run.impossible().is_none()).count();
    let made_each = plan.trials + plan.repetition.warmup_trials;
    let total = |of: fn(&RunEstimate) -> u64| {
        let once = runs.iter().map(of).fold(0, u64::saturating_add);
        once.saturating_mul(made_each.into())
    };
    Estimate {
        trials: possible as u64 * u64::from(made_each),
        bytes_written: total(|run| run.bytes_written),
        bytes_read: total(|run| run.bytes_read),
        duration_ms: total(|run| run.duration_ms),
        runs,
        targets,
    }
}

fn estimate_run(run: &RunSpec) -> RunEstimate {
    if run.impossible().is_some() {
        return RunEstimate { bytes_written: 0, bytes_read: 0, ops: 0, duration_ms: 0 };
    }
    let set = run.set_bytes();
    let io = u64::from(run.io_size_bytes);
    let moving_ms = |bytes: u64| per_second_ms(bytes, BYTES_PER_S);
    let mut estimate = match run.workload {
        Workload::Stream => RunEstimate {
            bytes_written: set,
            bytes_read: set,
            ops: 2 * (set / io),
            duration_ms: 2 * moving_ms(set),
        },
        Workload::Mixed => {
            let ops = (u128::from(run.duration_ms) * u128::from(RANDOM_OPS_PER_S) / 1_000) as u64;
            let reads = ops * u64::from(run.read_percent) / 100;
            RunEstimate {
                bytes_written: set.saturating_add((ops - reads).saturating_mul(io)),
                bytes_read: reads.saturating_mul(io),
                ops,
                duration_ms: moving_ms(set) + run.duration_ms,
            }
        }
        _ => {
            let ops = 3 * u64::from(run.files);
            let duration_ms = moving_ms(set) + per_second_ms(ops, METADATA_OPS_PER_S);
            RunEstimate { bytes_written: set, bytes_read: 0, ops, duration_ms }
        }
    };
    if run.target == Target::Null {
        let duration_ms = if run.workload == Workload::Mixed { run.duration_ms } else { 0 };
        estimate = RunEstimate { bytes_written: 0, bytes_read: 0, duration_ms, ..estimate };
    }
    RunEstimate { duration_ms: estimate.duration_ms + TRIAL_OVERHEAD_MS, ..estimate }
}

fn per_second_ms(amount: u64, rate: u64) -> u64 {
    (u128::from(amount) * 1_000 / u128::from(rate)) as u64
}
