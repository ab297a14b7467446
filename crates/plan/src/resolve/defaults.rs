//! Values of settings that are left out, and their reasons.
//!
//! One function, `of`, is called while a run is put together: settings that come earlier in
//! [`Setting::ALL`] are already in it, so a default may look at them. Defaults that depend on
//! nothing stand in the rows of `model::setting`.

use model::setting::{Family, Setting, Value};
use model::{RunSpec, Target, Workload};

/// Enough trials for a median and a first idea of the spread, in a time that one waits.
pub const TRIALS: u32 = 5;

/// The most trials where an interval is to become narrow: beyond, the machine is not quiet enough.
pub const TRIALS_UNTIL: u32 = 30;

/// The in-memory server's memory, in bytes: room for the default file sets of a few workers,
/// within what a small machine has to spare.
pub const SERVER_MEMORY_BYTES: u64 = 256 << 20;

/// One thread: on a small machine the client needs the other core.
pub const SERVER_THREADS: u32 = 1;

/// Enough to fill half a second where a server does ten thousand ops per second.
pub const SMALL_FILES: u64 = 5_000;

/// Ops per second of an op mix: what any server can do, with a file set of 1 GB.
pub const MIX_RATE: u64 = 100;

/// Files of the pool of transactions.
///
/// **Source:** `PostMark` 1.51, `show`: 500 files, read and write blocks of 512 bytes.
pub const POOL_FILES: u64 = 500;

/// Finds the default of a setting in a run whose earlier settings are known: by a rule, as its row
/// says, or the value of a program that does not know the setting.
pub(crate) fn of(setting: Setting, run: &RunSpec) -> Value {
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
