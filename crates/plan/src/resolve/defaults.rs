//! Default values of a plan, and the reasons for them.
//!
//! [`fill_in`] is called once and applies the defaults that don't depend on runs. Those of settings
//! do: [`level`] is called while a run is being assembled. By then the run contains the settings
//! that come earlier in [`Setting::ALL`], so a default may look at them. Unconditional defaults are
//! in the rows of `model::setting`.

use model::checkpoint::RANKS_PER_HOST_MAX;
use model::contender::{Fairness, compares_systems};
use model::io500::STONEWALL_MS;
use model::kv_cache::CONTEXTS_PER_USER;
use model::media::{FRAME_BYTES, SECONDS_PER_STREAM};
use model::setting::{Family, Setting, Value};
use model::{NfsVersion, Order, Repetition, RunSpec, SizeDistribution, Target, Workload};

use crate::resolve::plan::Plan;
use crate::resolve::server::ServerPlan;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::value_or;
use crate::syntax::limits;
use crate::syntax::raw::{RawPlan, RawServer};
use crate::syntax::repetition::RawRepetition;

/// Enough trials for a median and a rough idea of the spread, without a long wait.
pub(crate) const TRIALS: u32 = 5;

/// Maximum number of trials to reach a narrow interval; beyond that, the machine is too noisy.
pub(crate) const TRIALS_UNTIL: u32 = 30;

/// Memory of the in-memory server, in bytes: enough for the default file sets of a few workers, and
/// affordable on a small machine.
pub(crate) const SERVER_MEMORY_BYTES: u64 = 256 << 20;

/// One thread, because the client needs the other core of a small machine.
pub(crate) const SERVER_THREADS: u32 = 1;

/// Source files of a developer: a project of medium size, which takes a minute where each of its
/// calls takes a millisecond.
const DEVELOPER_FILES: u64 = 2_000;

/// Lasts half a second on a server that does ten thousand ops per second.
pub(crate) const SMALL_FILES: u64 = 5_000;

/// A page, like most small files.
const SMALL_FILE_BYTES: u64 = 4 << 10;

/// Ops per second of an op mix: any server can sustain them, and the file set is 1 GB.
pub(crate) const MIX_RATE: u64 = 100;

/// Number of files in the pool of transactions.
///
/// **Source:** `PostMark` 1.51, `show`: 500 files, read and write blocks of 512 bytes.
pub(crate) const POOL_FILES: u64 = 500;

/// Number of users of a key-value cache.
const CACHE_USERS: u64 = 4;

/// Exponent of Zipf's law for its contexts, in hundredths.
const CACHE_SKEW: u64 = 100;

/// How long they use it, in milliseconds.
const CACHE_MS: u64 = 10_000;

/// Share of reads in a mix, in percent.
const MIX_READ_PERCENT: u64 = 70;

/// Share of reads until a virtual machine has booted, in percent.
///
/// **Source:** ThinScale, "`ThinIO` facts and figures, part 2": a boot of Windows 7 read 500 to 600
/// MB and wrote 20 to 30 MB.
const BOOT_READ_PERCENT: u64 = 95;

/// Creates a plan without runs and fills in all values that don't depend on them.
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
        // Setting up the hosts again for each trial would take longer than the trials themselves.
        order: value_or(order, if on_lab { Order::Grouped } else { Order::Blocks }),
        fair: value_or(raw.fair, Fairness::Named),
        seed,
        server: fill_in_server(&raw.server, seed),
        large_ops: raw.large_ops.clone(),
        disturbances: raw.disturbances.iter().map(|one| one.value.clone()).collect(),
        conclusions: raw.conclusions.clone(),
        requirements: raw.requirements.iter().map(|one| one.value.clone()).collect(),
        labels: raw.labels.clone(),
        // Filled in together with the runs.
        quiet_ms: 0,
        runs: Vec::new(),
        without_effect: Vec::new(),
        thinned: 0,
    }
}

/// Fills in the in-memory server; its faults use the plan's seed unless they have their own.
fn fill_in_server(raw: &RawServer, seed: u64) -> ServerPlan {
    ServerPlan {
        memory_bytes: value_or(raw.memory_bytes, SERVER_MEMORY_BYTES),
        threads: value_or(raw.threads, SERVER_THREADS),
        discard: value_or(raw.discard, false),
        permissions: value_or(raw.permissions, true),
        delegations: value_or(raw.delegations, true),
        versions: raw.versions.clone().unwrap_or(NfsVersion::ALL.to_vec()),
        cluster: raw.cluster.clone(),
        faults: raw.faults.planned.clone(),
        fault_seed: raw.faults.seed.unwrap_or(seed),
    }
}

/// Returns how long trials wait for idle hosts if the plan does not set it.
pub(crate) fn quiet_ms(runs: &[RunSpec]) -> u64 {
    if compares_systems(runs) { limits::QUIET_MS_OF_CONTENDERS } else { 0 }
}

/// Returns the default of a setting in a run whose earlier settings are known: from a rule here,
/// from its row, or else the value that means "not set".
pub(crate) fn level(setting: Setting, run: &RunSpec) -> Value {
    match setting {
        // A target's own settings and `--scale` are in the run already.
        Setting::ModelScale => setting.get(run),
        Setting::Readers
        | Setting::Batch
        | Setting::ComputeTime
        | Setting::Shuffle
        | Setting::SamplesPerFile
        | Setting::RequiredAu => of_trained_model(setting, run),
        Setting::Workers if run.workload == Workload::Training => {
            Value::Number((run.training.accelerators * run.training.readers).into())
        }
        Setting::Files if run.workload == Workload::Training => {
            Value::Number(run.training.scaled_files(run.agents()))
        }
        Setting::FileSize if run.workload == Workload::Training => {
            match run.training.usual_file_sizes() {
                SizeDistribution::Fixed(bytes) => Value::Number(bytes),
                sizes => Value::Sizes(Box::new(sizes)),
            }
        }
        Setting::Workers if run.workload == Workload::Checkpoint => ranks(run),
        Setting::FileSize if run.workload == Workload::Checkpoint => {
            Value::Number(run.checkpoint.shard_bytes(run.files))
        }
        Setting::FileSize if run.workload == Workload::Media => Value::Number(FRAME_BYTES),
        // Shards are restored by the next agent, which is on another host if all have equally many.
        // A rank serializes its state into one write after the other.
        Setting::Neighbour | Setting::QueueDepth
            if matches!(run.workload, Workload::Checkpoint | Workload::Io500) =>
        {
            Value::Number(1)
        }
        Setting::Workers if run.workload == Workload::KvCache => Value::Number(CACHE_USERS),
        Setting::CacheCapacity => Value::Number(cache_capacity(run)),
        Setting::Skew if run.workload == Workload::KvCache => Value::Number(CACHE_SKEW),
        Setting::Duration if run.workload == Workload::KvCache => Value::Number(CACHE_MS),
        // A user waits for its object.
        Setting::QueueDepth if run.workload == Workload::KvCache => Value::Number(1),
        // More than the stonewall allows.
        Setting::FileSize if run.workload == Workload::Io500 => Value::Number(limits::IO500_BYTES),
        Setting::SmallFiles if run.workload == Workload::Io500 => {
            let files = limits::IO500_FILES.saturating_mul(run.all_workers().into());
            Value::Number(files.min(limits::IO500_FILES_ALL))
        }
        Setting::TimeMax if run.workload == Workload::Io500 => Value::Number(STONEWALL_MS),
        // A reader decodes a sample before it reads the next one.
        Setting::QueueDepth if run.workload == Workload::Training => Value::Number(1),
        Setting::Workers => setting.unset(),
        Setting::Files => Value::Number(files(run)),
        Setting::SmallFiles if run.workload == Workload::Transactions => {
            Value::Number(POOL_FILES.max(run.all_workers().into()))
        }
        Setting::SmallFiles if run.workload == Workload::Developer => {
            Value::Number(DEVELOPER_FILES.max(run.all_workers().into()))
        }
        // At least one file per worker, so that none is idle.
        Setting::SmallFiles => Value::Number(SMALL_FILES.max(run.all_workers().into())),
        // A size that find can distinguish from that of an empty file.
        Setting::SmallFileSize if run.workload == Workload::Listing => Value::Number(1),
        Setting::SmallFileSize if run.workload == Workload::Transactions => {
            Value::Sizes(Box::new(SizeDistribution::of_pool()))
        }
        Setting::SmallFileSize => Value::Number(SMALL_FILE_BYTES),
        Setting::IoSize => io_size(run),
        // A transaction depends on the previous ones, a connection of a database waits for each op,
        // and so does a developer's tool: each worker has only one in flight.
        Setting::QueueDepth
            if matches!(
                run.workload,
                Workload::Transactions | Workload::Database | Workload::Developer
            ) =>
        {
            Value::Number(1)
        }
        Setting::QueueDepth => Value::Number(run.backend.row().default_queue_depth.into()),
        // The target's own value, if it has one.
        _ if setting.family() == Family::Lab || setting == Setting::ClientHosts => setting.get(run),
        Setting::ReadPercent if run.workload == Workload::VmBoot => {
            Value::Number(BOOT_READ_PERCENT)
        }
        Setting::ReadPercent => Value::Number(MIX_READ_PERCENT),
        Setting::Rate if run.workload == Workload::OpMix => Value::Number(MIX_RATE),
        Setting::Timeout => Value::Number(run.workload.default_timeout_ms()),
        _ => setting.default_level().unwrap_or_else(|| setting.unset()),
    }
}

/// A property of the model that is trained.
fn of_trained_model(setting: Setting, run: &RunSpec) -> Value {
    let shape = run.training.model.shape();
    Value::Number(match setting {
        Setting::Readers => shape.readers.into(),
        Setting::Batch => shape.batch.into(),
        Setting::ComputeTime => shape.compute_ns,
        Setting::SamplesPerFile => shape.samples_per_file.into(),
        Setting::RequiredAu => shape.au_min_percent.into(),
        _ => return Value::Word(shape.shuffle.name()),
    })
}

/// The ranks of a checkpoint on each agent.
fn ranks(run: &RunSpec) -> Value {
    Value::Number(run.checkpoint.ranks_per_agent(run.agents()).min(RANKS_PER_HOST_MAX))
}

/// One file per worker, so that they don't wait for each other; bonnie uses one file in all, and
/// a stream has one for each frame. Databases have a log as well, and virtual machines may have a
/// base image.
fn files(run: &RunSpec) -> u64 {
    match run.target {
        _ if run.workload == Workload::Bonnie => 1,
        _ if run.workload == Workload::KvCache => u64::from(run.all_workers()) * CONTEXTS_PER_USER,
        _ if run.workload == Workload::Media => {
            u64::from(run.all_workers()) * u64::from(run.media.frame_rate) * SECONDS_PER_STREAM
        }
        // At least one file per directory, so that none is idle.
        Target::Directories { .. } => directories(&run.target).max(run.all_workers().into()),
        _ if run.workload == Workload::Database || run.vm_boot.base_image => {
            u64::from(run.all_workers()) + 1
        }
        _ => run.all_workers().into(),
    }
}

/// Half of the objects, but at least one for each user, however large it is.
fn cache_capacity(run: &RunSpec) -> u64 {
    let objects = u64::from(run.files).saturating_mul(run.kv_cache.mean_bytes(run.files));
    let largest = run.kv_cache.largest_bytes(run.files);
    (objects / 2).max(largest.saturating_mul(run.all_workers().into()))
}

/// Number of directories over which the files of a run are distributed.
pub(crate) fn directories(target: &Target) -> u64 {
    target.paths().len().max(1) as u64
}

fn io_size(spec: &RunSpec) -> Value {
    let usual = spec.workload.row().io_size_bytes;
    // A smaller file is transferred in one op. Pools and mixes have files of many sizes.
    let is_varied =
        [Workload::Transactions, Workload::OpMix, Workload::KvCache, Workload::Developer];
    let sized = !is_varied.contains(&spec.workload);
    Value::Number(if sized { usual.min(spec.largest_file_bytes().max(1)) } else { usual })
}
