//! Settings that apply only to some kinds of work.
//!
//! Each group of settings is a separate type, whose default leaves the work unchanged. Shares are
//! integers; nothing here is a float.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::runs::op::OpKind;
use crate::text::words::words;

/// Returns the name of a working directory, from its campaign and its identifier within it.
pub fn directory_name(campaign: &str, which: impl Display) -> String {
    format!(".dfsbench-{campaign}-{which}")
}

/// Suffix of a marker's name.
const MARK_END: &str = ".campaign";

/// Returns the name of the marker, an empty directory inside of `directory` that identifies it as
/// ours. It is created right after `directory`. It is a directory because these are included in no
/// count of files or CREATE calls.
pub fn mark_of(directory: &str) -> String {
    format!("{directory}{MARK_END}")
}

/// Returns true if this is the name of a marker.
pub fn is_mark(name: &[u8]) -> bool {
    let name = name.strip_prefix(b".").unwrap_or(name);
    name.starts_with(b"dfsbench-") && name.ends_with(MARK_END.as_bytes())
}

/// Prefix of the names of directories created by replays.
const REPLAY_BEGIN: &str = "dfsbench-replay-";

/// Returns the name of the directory that a replay creates for its tree.
pub fn replay_directory(token: u64) -> String {
    format!("{REPLAY_BEGIN}{token:016x}")
}

/// Returns true if this name could have been returned by [`replay_directory`].
pub fn is_replay_directory(name: &str) -> bool {
    name.strip_prefix(REPLAY_BEGIN).is_some_and(|token| token.len() == 16 && is_hex(token))
}

/// Returns true if a text is a hexadecimal number in the form used in our names.
pub fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    !text.is_empty() && text.len() <= 16 && text.bytes().all(is_digit)
}

words! {
    /// Who works on a file or a directory.
    Sharing {
        /// A single worker.
        Own = "own",
        /// All workers.
        Shared = "shared",
    }
}

/// How data files are laid out and accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Whether each worker has files of its own, or all of them write to each file.
    pub sharing: Sharing,
    /// Number of consecutive bytes of a shared file that belong to one worker before the next
    /// worker's part begins; 0 divides the file into one such block per worker.
    pub block_size_bytes: u64,
    /// Distance between the ops of a strided read, in blocks.
    pub stride: u32,
    /// How often a pass processes its files.
    pub loops: u32,
    /// Access data through memory mapping instead of system calls.
    pub mmap: bool,
    /// Close files inside the timed window.
    pub timed_close: bool,
    /// Share of ops in a mix that go to a random offset, in percent; the others continue where the
    /// previous op ended.
    pub random_percent: u32,
    /// Skew of random offsets: the exponent of Zipf's law in hundredths; 0 is uniform.
    pub skew_percent: u32,
    /// Each worker uses the files of the next one.
    pub uses_next: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            sharing: Sharing::Own,
            block_size_bytes: 0,
            stride: 17,
            loops: 1,
            mmap: false,
            timed_close: false,
            random_percent: 100,
            skew_percent: 0,
            uses_next: false,
        }
    }
}

words! {
    /// Distribution of the arrival times of an offered load.
    Arrivals {
        /// Random and independent: a Poisson process.
        Poisson = "poisson",
        /// Equal intervals.
        Constant = "constant",
    }
}

/// When ops are scheduled, and when a pass ends. Zero means not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Offered load in ops per second over all workers. 0 is a closed loop, in which the next op
    /// follows the completion of the previous one.
    pub rate_per_s: u64,
    /// Distribution of arrival times in an open loop.
    pub arrivals: Arrivals,
    /// Pause after each op of a closed loop, in nanoseconds.
    pub think_time_ns: u64,
    /// Maximum bytes per second over all workers.
    pub bytes_per_s: u64,
    /// How long the offered load increases linearly before the measurement starts.
    pub ramp_ms: u64,
    /// How long to work before the measurement starts.
    pub warmup_ms: u64,
    /// Time limit of a pass that normally ends with its files. Timed passes use
    /// `RunSpec::duration_ms`.
    pub time_max_ms: u64,
    /// After `time_max_ms`, workers continue until each has done as many ops as the one that was
    /// furthest then.
    pub wears_out: bool,
    /// Maximum number of ops of a pass, over all workers.
    pub ops_max: u64,
    /// Maximum number of bytes of a pass, over all workers.
    pub bytes_max: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate_per_s: 0,
            arrivals: Arrivals::Poisson,
            think_time_ns: 0,
            bytes_per_s: 0,
            ramp_ms: 0,
            warmup_ms: 0,
            time_max_ms: 0,
            wears_out: false,
            ops_max: 0,
            bytes_max: 0,
        }
    }
}

words! {
    /// Content of written bytes.
    Fill {
        /// Random bytes, except for the compressible and repeated shares.
        Random = "random",
        /// Only zeros.
        Zeros = "zeros",
    }
}

/// Settings for written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DataSettings {
    /// The content of the bytes.
    pub fill: Fill,
    /// Share of each block that a compressor can remove, in percent.
    pub compress_percent: u32,
    /// Share of blocks that are duplicates, in percent.
    pub dedup_percent: u32,
    /// Stamp each block with campaign, file, offset, generation and checksum, and check the stamps
    /// of data that is read with `verify`.
    pub stamp: bool,
}

impl Default for DataSettings {
    fn default() -> Self {
        Self { fill: Fill::Random, compress_percent: 0, dedup_percent: 0, stamp: false }
    }
}

/// Directories of a metadata run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Tree {
    /// Whether each worker has a tree of its own, or all of them share one.
    pub sharing: Sharing,
    /// Levels of directories below the top one; 0 is a single flat directory.
    pub depth: u32,
    /// Subdirectories in each directory that is not a leaf.
    pub branching: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { sharing: Sharing::Shared, depth: 0, branching: 1 }
    }
}

/// Pool and biases of a transactions run.
///
/// **Source:** the defaults are those shown by `PostMark` 1.51. The sizes of its files are those of
/// the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Transactions {
    /// Transactions over all workers.
    pub count: u64,
    /// Share of reads among reads and appends, in percent.
    pub read_percent: u32,
    /// Share of creations among creations and removals, in percent.
    pub create_percent: u32,
    /// Directories that the pool is spread over; 0 uses the working directory.
    pub directories: u32,
}

impl Default for Transactions {
    fn default() -> Self {
        Self { count: 500, read_percent: 50, create_percent: 50, directories: 0 }
    }
}

/// What a transaction of a database consists of, and what commits it.
///
/// **Source:** PostgreSQL, "Write-Ahead Logging": a backend reads and writes pages of 8 KiB, and a
/// commit waits until its record in the log is durable (`wal_sync_method`, by default fdatasync).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Database {
    /// Reads and writes of pages per transaction; 0 leaves only the log.
    pub transaction_ops: u32,
    /// Bytes appended to the log by each commit.
    pub commit_bytes: u32,
    /// Transactions that are committed together.
    pub group_commit: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self { transaction_ops: 10, commit_bytes: 8 << 10, group_commit: 1 }
    }
}

impl Database {
    /// Returns the number of reads and writes of pages before each append to the log.
    pub fn ops_per_append(&self) -> u64 {
        u64::from(self.transaction_ops) * u64::from(self.group_commit)
    }
}

/// What a virtual machine does until it has booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct VmBoot {
    /// Bytes that it reads and writes.
    pub bytes: u64,
    /// All virtual machines read one image, the last of the files, and write to their own.
    pub base_image: bool,
}

/// Shares of ops, and how the file set grows with the load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct OpMix {
    /// Name of the mix: one from `workload::mix`, or the plan's own.
    pub name: String,
    /// Share of each kind of op in hundredths of a percent, adding up to 10,000. Empty if `name` is
    /// sufficient.
    pub shares: Vec<(OpKind, u32)>,
    /// Size of the file set per op/s of offered load, in bytes.
    pub set_bytes_per_rate: u64,
    /// Share of the files that are read and written, in percent.
    pub accessed_percent: u32,
    /// Share of writes that append, in percent.
    pub append_percent: u32,
    pub files_per_directory: u32,
}

impl Default for OpMix {
    fn default() -> Self {
        Self {
            name: String::new(),
            shares: Vec::new(),
            set_bytes_per_rate: 10 << 20,
            accessed_percent: 10,
            append_percent: 70,
            files_per_directory: 30,
        }
    }
}

/// Numbers of small files that the phases of io500 have created, over all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Io500Files {
    /// Empty ones.
    pub easy: u32,
    /// Those with data, in the shared directory.
    pub hard: u32,
}

/// A command with its setup and cleanup, as argument vectors that never go through a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Command {
    /// The timed command; for an adapter, further arguments for its program.
    pub run: Vec<String>,
    /// Command to run before, untimed.
    pub setup: Vec<String>,
    /// Command to run afterwards, untimed.
    pub cleanup: Vec<String>,
    /// Time limit for each command, in milliseconds; 0 for none.
    pub limit_ms: u64,
}
