//! What a setting is when nobody says, and why.
//!
//! One function, `of`, is asked while a run is put together: settings that come earlier in
//! [`Setting::ALL`] are already in it, so a default may look at them.

use model::{Durability, RunSpec, Target, Workload};

use crate::setting::{Family, Setting, Value};

/// Enough trials for a median and a first idea of the spread, in a time that one waits.
pub const TRIALS: u32 = 5;

/// The most trials where an interval is to become narrow: beyond, the machine is not quiet enough.
pub const TRIALS_UNTIL: u32 = 30;

/// The in-memory server's memory, in bytes: room for the default file sets of a few workers,
/// within what a small machine has to spare.
pub const SERVER_MEMORY_BYTES: u64 = 192 << 20;

/// One thread: on a small machine the client needs the other core.
pub const SERVER_THREADS: u32 = 1;

/// One worker: the plainest figure, and the one that more workers are compared with.
pub const WORKERS: u64 = 1;

/// Large enough that opening, syncing and the clock don't show, small enough for a laptop.
pub const FILE_SIZE: u64 = 64 << 20;

/// A small file, and one page: what mail, source trees and thumbnails are made of.
pub const SMALL_FILE_SIZE: u64 = 4 << 10;

/// Enough to fill half a second where a server does ten thousand ops per second.
pub const SMALL_FILES: u64 = 5_000;

/// What kernels offer as rsize and wsize today, and what copying tools issue.
pub const STREAM_IO_SIZE: u64 = 1 << 20;

/// A page: the unit of databases and of paging.
pub const RANDOM_IO_SIZE: u64 = 4 << 10;

/// The mix that storage vendors and SPEC's databases quote: 70 % reads.
pub const READ_PERCENT: u64 = 70;

/// The last mix of which all figures were published.
pub const MIX: &str = "sfs3-like-v3";

/// Ops per second of an op mix: what any server can do, with a file set of 1 GB.
pub const MIX_RATE: u64 = 100;

/// Files of the pool of transactions.
///
/// **Source:** `PostMark` 1.51, `show`: 500 files, read and write blocks of 512 bytes.
pub const POOL_FILES: u64 = 500;

/// Bytes of one read or write of transactions.
pub const POOL_IO_SIZE: u64 = 512;

/// Thousands of ops on any target that is usable at all.
pub const DURATION_MS: u64 = 1_000;

/// Ten times what a loaded disk takes; less than a person's patience.
pub const TIMEOUT_MS: u64 = 5_000;

/// How long a program of others may take: a build, or a tool over a whole matrix of its own.
pub const PROGRAM_TIMEOUT_MS: u64 = 3_600_000;

/// The block of bonnie and bonnie++, and of the mixes that came before them.
///
/// **Source:** bonnie++(8), `-s`: chunk-size 8 KiB.
pub const BONNIE_IO_SIZE: u64 = 8 << 10;

/// The default of a setting in a run whose earlier settings are known.
pub(crate) fn of(setting: Setting, spec: &RunSpec) -> Value {
    match setting {
        Setting::Workers => Value::Number(WORKERS),
        Setting::Files if spec.workload == Workload::Bonnie => Value::Number(1),
        // No directory stands idle.
        Setting::Files if matches!(spec.target, Target::Directories { .. }) => {
            Value::Number(directories(spec).max(spec.all_workers().into()))
        }
        // One file per worker.
        Setting::Files => Value::Number(spec.all_workers().into()),
        // One client per worker.
        Setting::Clients => Value::Number(0),
        Setting::FileSize => Value::Number(FILE_SIZE),
        Setting::SmallFiles if spec.workload == Workload::Transactions => {
            Value::Number(POOL_FILES.max(spec.all_workers().into()))
        }
        // However many workers there are, none stands idle.
        Setting::SmallFiles => Value::Number(SMALL_FILES.max(spec.all_workers().into())),
        Setting::SmallFileSize => Value::Number(SMALL_FILE_SIZE),
        Setting::IoSize => io_size(spec),
        Setting::QueueDepth => Value::Number(spec.backend.default_queue_depth().into()),
        Setting::TransferSize => Value::Open,
        // What the target says, where it says anything.
        _ if setting.family() == Family::Lab || setting == Setting::ClientHosts => {
            setting.get(spec)
        }
        // Shares that stand in the plan go before any name.
        Setting::Mix if spec.op_mix.shares.is_empty() => Value::Word(MIX),
        Setting::Rate if spec.workload == Workload::OpMix => Value::Number(MIX_RATE),
        Setting::ReadPercent => Value::Number(READ_PERCENT),
        Setting::Duration => Value::Number(DURATION_MS),
        Setting::Invalidate => Value::Flag(true),
        Setting::Durability => Value::Word(Durability::Sync.name()),
        Setting::Timeout if spec.workload.is_external() => Value::Number(PROGRAM_TIMEOUT_MS),
        Setting::Timeout => Value::Number(TIMEOUT_MS),
        // As it is where nobody ever heard of the setting.
        _ => setting.unset(),
    }
}

/// Directories that the files of a run are dealt out to.
pub(crate) const fn directories(spec: &RunSpec) -> u64 {
    match &spec.target {
        Target::Directories { paths } => paths.len() as u64,
        _ => 1,
    }
}

fn io_size(spec: &RunSpec) -> Value {
    let usual = match spec.workload {
        Workload::Stream | Workload::Fio | Workload::Iozone | Workload::Dd => STREAM_IO_SIZE,
        Workload::Bonnie | Workload::Bonniexx | Workload::OpMix => BONNIE_IO_SIZE,
        Workload::Transactions => POOL_IO_SIZE,
        _ => RANDOM_IO_SIZE,
    };
    // A smaller file is then moved in one op; pools and mixes have files of many sizes.
    let sized = !matches!(spec.workload, Workload::Transactions | Workload::OpMix);
    Value::Number(if sized { usual.min(spec.file_size_bytes.max(1)) } else { usual })
}
