//! The values of everything that a plan leaves open, and their reasons.
//!
//! [`fill_in`] is called once, and applies what does not depend on the runs. Settings do: [`level`]
//! is asked while a run is put together, when those that come earlier in [`Setting::ALL`] are
//! already in it, so that a default may look at them. Defaults of settings that depend on nothing
//! stand in the rows of `model::setting`.

use model::contender::{Fairness, compares_systems};
use model::setting::{Family, Setting, Value};
use model::{NfsVersion, Order, Repetition, RunSpec, Target, Workload};

use crate::resolve::plan::Plan;
use crate::resolve::server::ServerPlan;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::value_or;
use crate::syntax::limits;
use crate::syntax::raw::{RawPlan, RawServer};
use crate::syntax::repetition::RawRepetition;

/// Enough trials for a median and a first idea of the spread, in a time that one waits.
pub(crate) const TRIALS: u32 = 5;

/// The most trials where an interval is to become narrow: beyond, the machine is not quiet enough.
pub(crate) const TRIALS_UNTIL: u32 = 30;

/// The in-memory server's memory, in bytes: room for the default file sets of a few workers,
/// within what a small machine has to spare.
pub(crate) const SERVER_MEMORY_BYTES: u64 = 256 << 20;

/// One thread: on a small machine the client needs the other core.
pub(crate) const SERVER_THREADS: u32 = 1;

/// Enough to fill half a second where a server does ten thousand ops per second.
pub(crate) const SMALL_FILES: u64 = 5_000;

/// Ops per second of an op mix: what any server can do, with a file set of 1 GB.
pub(crate) const MIX_RATE: u64 = 100;

/// Files of the pool of transactions.
///
/// **Source:** `PostMark` 1.51, `show`: 500 files, read and write blocks of 512 bytes.
pub(crate) const POOL_FILES: u64 = 500;

/// Makes a plan without runs, in which everything else has its written value or its default.
pub(crate) fn fill_in(raw: &RawPlan, around: &Surroundings) -> Plan {
    let RawRepetition {
        trials,
        discard,
        until_permille,
        budget_ms,
        warmup_trials,
        order,
        interference,
    } = raw.repetition;
    let usual = Repetition::default();
    let seed = value_or(raw.seed, around.seed);
    let mut places = raw.workloads.iter().flat_map(|workload| raw.places(workload));
    let on_lab = places.any(|(target, _)| target.what.lab().is_some());
    Plan {
        name: raw.name.clone(),
        trials: value_or(trials, if until_permille.is_some() { TRIALS_UNTIL } else { TRIALS }),
        repetition: Repetition {
            discard: value_or(discard, usual.discard),
            until_permille: value_or(until_permille, usual.until_permille),
            warmup_trials: value_or(warmup_trials, usual.warmup_trials),
            interference: value_or(interference, usual.interference),
        },
        budget_ms: value_or(budget_ms, 0),
        // Setting up hosts again for each trial would take longer than the trials.
        order: value_or(order, if on_lab { Order::Grouped } else { Order::Blocks }),
        fair: value_or(raw.fair, Fairness::Named),
        seed,
        server: fill_in_server(&raw.server, seed),
        large_ops: raw.large_ops.clone(),
        disturbances: raw.disturbances.iter().map(|one| one.value.clone()).collect(),
        conclusions: raw.conclusions.clone(),
        labels: raw.labels.clone(),
        // These come with the runs.
        quiet_ms: 0,
        runs: Vec::new(),
        without_effect: Vec::new(),
        thinned: 0,
    }
}

/// Faults follow the plan's seed where they have none.
fn fill_in_server(raw: &RawServer, seed: u64) -> ServerPlan {
    ServerPlan {
        memory_bytes: value_or(raw.memory_bytes, SERVER_MEMORY_BYTES),
        threads: value_or(raw.threads, SERVER_THREADS),
        discard: value_or(raw.discard, false),
        permissions: value_or(raw.permissions, true),
        delegations: value_or(raw.delegations, true),
        versions: raw.versions.clone().unwrap_or(NfsVersion::ALL.to_vec()),
        faults: raw.faults.planned.clone(),
        fault_seed: raw.faults.seed.unwrap_or(seed),
    }
}

/// Returns how long a trial waits until its hosts are quiet, where the plan does not say.
pub(crate) fn quiet_ms(runs: &[RunSpec]) -> u64 {
    if compares_systems(runs) { limits::QUIET_MS_OF_CONTENDERS } else { 0 }
}

/// Finds the default of a setting in a run whose earlier settings are known: by a rule, as its row
/// says, or the value of a program that does not know the setting.
pub(crate) fn level(setting: Setting, run: &RunSpec) -> Value {
    match setting {
        Setting::Files => Value::Number(files(run)),
        Setting::SmallFiles if run.workload == Workload::Transactions => {
            Value::Number(POOL_FILES.max(run.all_workers().into()))
        }
        // However many workers there are, none stands idle.
        Setting::SmallFiles => Value::Number(SMALL_FILES.max(run.all_workers().into())),
        Setting::IoSize => io_size(run),
        // A transaction needs what those before it made, so a worker has one in flight.
        Setting::QueueDepth if run.workload == Workload::Transactions => Value::Number(1),
        Setting::QueueDepth => Value::Number(run.backend.row().default_queue_depth.into()),
        // What the target says, where it says anything.
        _ if setting.family() == Family::Lab || setting == Setting::ClientHosts => setting.get(run),
        Setting::Rate if run.workload == Workload::OpMix => Value::Number(MIX_RATE),
        Setting::Timeout => Value::Number(run.workload.default_timeout_ms()),
        _ => setting.default_level().unwrap_or_else(|| setting.unset()),
    }
}

/// One file per worker, so that none waits for another; bonnie has one in all.
fn files(run: &RunSpec) -> u64 {
    match run.target {
        _ if run.workload == Workload::Bonnie => 1,
        // No directory stands idle.
        Target::Directories { .. } => directories(&run.target).max(run.all_workers().into()),
        _ => run.all_workers().into(),
    }
}

/// Directories that the files of a run are dealt out to.
pub(crate) fn directories(target: &Target) -> u64 {
    target.paths().len().max(1) as u64
}

fn io_size(spec: &RunSpec) -> Value {
    let usual = spec.workload.row().io_size_bytes;
    // A smaller file is then moved in one op; pools and mixes have files of many sizes.
    let sized = !matches!(spec.workload, Workload::Transactions | Workload::OpMix);
    Value::Number(if sized { usual.min(spec.file_size_bytes.max(1)) } else { usual })
}
