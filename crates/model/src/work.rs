//! The settings that only some kinds of work have.
//!
//! Each group of settings is a type of its own, whose default leaves the work unchanged. Shares are
//! whole numbers; nothing here is a float.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::words::words;

/// Name of a working directory: that of its campaign, and which of the campaign's it is.
pub fn directory_name(campaign: &str, which: impl Display) -> String {
    format!(".dfsbench-{campaign}-{which}")
}

/// End of the name of a mark.
const MARK_END: &str = ".campaign";

/// Name of the empty directory that marks the directory in which it is made as ours. It is made
/// right after that one, and is a directory because no count of files or CREATE calls includes it.
pub fn mark_of(directory: &str) -> String {
    format!("{directory}{MARK_END}")
}

/// Returns true if a name is that of a mark.
pub fn is_mark(name: &[u8]) -> bool {
    let name = name.strip_prefix(b".").unwrap_or(name);
    name.starts_with(b"dfsbench-") && name.ends_with(MARK_END.as_bytes())
}

/// Beginning of the names of directories that replays make.
const REPLAY_BEGIN: &str = "dfsbench-replay-";

/// Name of the directory that a replay makes for its tree.
pub fn replay_directory(token: u64) -> String {
    format!("{REPLAY_BEGIN}{token:016x}")
}

/// Returns true if a name is one that [`replay_directory`] returns.
pub fn is_replay_directory(name: &str) -> bool {
    name.strip_prefix(REPLAY_BEGIN).is_some_and(|token| token.len() == 16 && is_hex(token))
}

/// Returns true if a text is a number in the hexadecimal digits that our names have.
pub fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    !text.is_empty() && text.len() <= 16 && text.bytes().all(is_digit)
}

words! {
    /// Who works on a file or a directory.
    Sharing {
        /// One worker alone.
        Own = "own",
        /// All workers together.
        Shared = "shared",
    }
}

/// How data files are laid out and walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Whether each worker has files of its own, or all write to each file.
    pub sharing: Sharing,
    /// Number of bytes of a shared file that one worker has in a row before the next worker's
    /// begin; 0 cuts the file into one such block per worker.
    pub block_size_bytes: u64,
    /// Blocks from one op of a strided read to the next.
    pub stride: u32,
    /// Move data by memory mapping instead of calls.
    pub mmap: bool,
    /// Close files inside the timed window.
    pub timed_close: bool,
    /// Share of the ops of a mix that go to a random place, in percent; the others go on where
    /// the one before it ended.
    pub random_percent: u32,
    /// How unequal the chances of random places are: the exponent of Zipf's law in hundredths; 0
    /// makes all equal.
    pub skew_percent: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            sharing: Sharing::Own,
            block_size_bytes: 0,
            stride: 17,
            mmap: false,
            timed_close: false,
            random_percent: 100,
            skew_percent: 0,
        }
    }
}

words! {
    /// How the scheduled instants of an offered load follow each other.
    Arrivals {
        /// At random, independent of each other: a Poisson process.
        Poisson = "poisson",
        /// Arrivals at equal intervals.
        Constant = "constant",
    }
}

/// When ops are scheduled, and what bounds a pass. Zero means: not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Offered load in ops per second, all workers together; 0 is a closed loop: the next op
    /// follows the end of the one before.
    pub rate_per_s: u64,
    /// How scheduled instants follow each other in an open loop.
    pub arrivals: Arrivals,
    /// In a closed loop: pause after each op, in nanoseconds.
    pub think_time_ns: u64,
    /// Most bytes per second, all workers together.
    pub bytes_per_s: u64,
    /// The offered load rises evenly for this long, before anything counts.
    pub ramp_ms: u64,
    /// Work for this long before anything counts.
    pub warmup_ms: u64,
    /// A pass that its files would end ends after so long at the latest; those that time ends
    /// have `RunSpec::duration_ms`.
    pub time_max_ms: u64,
    /// A pass ends after so many ops, all workers together.
    pub ops_max: u64,
    /// A pass ends after so many bytes, all workers together.
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
            ops_max: 0,
            bytes_max: 0,
        }
    }
}

words! {
    /// The content of written bytes.
    Fill {
        /// Random bytes, but for the shares that compress and repeat.
        Random = "random",
        /// Nothing but zeros.
        Zeros = "zeros",
    }
}

/// The settings of written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DataSettings {
    /// The content of the bytes.
    pub fill: Fill,
    /// Share of each block that a compressor can take away, in percent.
    pub compress_percent: u32,
    /// Share of blocks that are there already, in percent.
    pub dedup_percent: u32,
    /// Put campaign, file, offset, generation and checksum into each block, and look for them in
    /// what is read with `verify`.
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
    /// Whether each worker has a tree of its own, or all work in one.
    pub sharing: Sharing,
    /// Levels of directories below the first one; 0 is one flat directory.
    pub depth: u32,
    /// Directories in each directory that is not a leaf.
    pub branching: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { sharing: Sharing::Shared, depth: 0, branching: 1 }
    }
}

/// Pool and biases of a transactions run.
///
/// **Source:** the defaults are those that `PostMark` 1.51 shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Transactions {
    /// Transactions, all workers together.
    pub count: u64,
    /// Smallest file, in bytes.
    pub size_min_bytes: u32,
    /// Largest file, in bytes.
    pub size_max_bytes: u32,
    /// Share of reads among reads and appends, in percent.
    pub read_percent: u32,
    /// Share of creations among creations and removals, in percent.
    pub create_percent: u32,
    /// Directories that the pool is spread over; 0 is none below the working directory.
    pub directories: u32,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            count: 500,
            size_min_bytes: 500,
            size_max_bytes: 10_000,
            read_percent: 50,
            create_percent: 50,
            directories: 0,
        }
    }
}

/// Shares of ops, and how the file set grows with the load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct OpMix {
    /// Name of the mix: one of `workload::mix`, or what the plan calls it.
    pub name: String,
    /// Share of each kind of op, in hundredths of a percent; together 10,000. Empty where `name`
    /// says it all.
    pub shares: Vec<(OpKind, u32)>,
    /// File set per op/s of offered load, in bytes.
    pub set_bytes_per_rate: u64,
    /// Share of the files that data is read from and written to, in percent.
    pub accessed_percent: u32,
    /// Share of writes that append, in percent.
    pub append_percent: u32,
    /// Files in a directory.
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

/// A command and what goes before and after it: argument vectors, never a line for a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Command {
    /// The timed command; for an adapter, further arguments for its program.
    pub run: Vec<String>,
    /// The command executed before, untimed.
    pub setup: Vec<String>,
    /// The command executed after, untimed.
    pub cleanup: Vec<String>,
    /// Longest time that one of them may take, in milliseconds; 0 is no limit.
    pub limit_ms: u64,
}
