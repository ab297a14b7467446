//! What a setting is when nobody says, and why.
//!
//! One function, `of`, is asked while a run is put together: settings that come earlier in
//! [`Setting::ALL`] are already in it, so a default may look at them.

use model::{Durability, NfsSettings, RunSpec, Workload};

use crate::setting::{Setting, Value};

/// Enough trials for a median and a first idea of the spread, in a time that one waits.
pub const TRIALS: u32 = 5;

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

/// Thousands of ops on any target that is usable at all.
pub const DURATION_MS: u64 = 1_000;

/// Ten times what a loaded disk takes; less than a person's patience.
pub const TIMEOUT_MS: u64 = 5_000;

/// The default of a setting in a run whose earlier settings are known.
pub(crate) fn of(setting: Setting, spec: &RunSpec) -> Value {
    let nfs = NfsSettings::default();
    match setting {
        Setting::Workers => Value::Number(WORKERS),
        // One file per worker.
        Setting::Files => Value::Number(spec.workers.into()),
        // One client per worker.
        Setting::Clients => Value::Number(0),
        Setting::ClientUids => Value::Number(nfs.client_uids.into()),
        Setting::PerClient => Value::Flag(nfs.per_client),
        Setting::FileSize => Value::Number(FILE_SIZE),
        Setting::SmallFiles => Value::Number(SMALL_FILES),
        Setting::SmallFileSize => Value::Number(SMALL_FILE_SIZE),
        Setting::IoSize => {
            let stream = spec.workload == Workload::Stream;
            let usual = if stream { STREAM_IO_SIZE } else { RANDOM_IO_SIZE };
            // A smaller file is then moved in one op.
            Value::Number(usual.min(spec.file_size_bytes.max(1)))
        }
        Setting::QueueDepth => Value::Number(spec.backend.default_queue_depth().into()),
        Setting::NfsVers => Value::Version(nfs.version),
        Setting::Proto => Value::Proto(nfs.proto),
        Setting::XprtSec => Value::XprtSec(nfs.xprtsec),
        Setting::Nconnect => Value::Number(nfs.nconnect.into()),
        Setting::TransferSize => Value::Server,
        Setting::ReadAhead => Value::Number(nfs.read_ahead.into()),
        Setting::WriteBehind => Value::Number(nfs.write_behind.into()),
        Setting::Stable => Value::Stable(nfs.stable),
        Setting::Timeo => Value::Number(nfs.timeo_ms),
        Setting::Retrans => Value::Number(nfs.retrans.into()),
        Setting::ReadPercent => Value::Number(READ_PERCENT),
        Setting::Duration => Value::Number(DURATION_MS),
        Setting::Direct | Setting::Verify => Value::Flag(false),
        Setting::Invalidate => Value::Flag(true),
        Setting::Durability => Value::Durability(Durability::Sync),
        Setting::Timeout => Value::Number(TIMEOUT_MS),
    }
}
