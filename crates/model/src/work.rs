//! Kinds of work, and the settings that only some of them have.
//!
//! Each group of settings is a type of its own with the defaults that leave everything as it was
//! before there was such a setting, so that results of earlier releases read as what they are.
//! Shares are whole numbers; nothing here is a float.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::pass::Pass;
use crate::words::words;

/// Name of a working directory: that of its campaign, and which of the campaign's it is.
pub fn directory_name(campaign: &str, which: impl Display) -> String {
    format!(".dfsbench-{campaign}-{which}")
}

words! {
    /// The kind of work that a run does.
    Workload {
        /// Whole files, from one end to the other or block by block.
        Stream = "stream",
        /// Reads and writes in the stated shares on prepared files, for a time.
        #[serde(alias = "random")]
        Mixed = "mixed",
        /// Create, stat, read, rename and remove of many files and directories.
        Metadata = "metadata",
        /// The passes of bonnie over one large file.
        Bonnie = "bonnie",
        /// A mail or news server's pool of small files, as `PostMark` has it.
        Transactions = "transactions",
        /// All kinds of NFS calls in the shares of a field study, at an offered load.
        OpMix = "op_mix",
        /// A command of the user's.
        App = "app",
        /// Run by fio, its figures read.
        Fio = "fio",
        /// Run by iozone, its figures read.
        Iozone = "iozone",
        /// Run by bonnie++, its figures read.
        Bonniexx = "bonnie++",
        /// Run by dd, its figures read.
        Dd = "dd",
    }
}

impl Workload {
    /// The passes of one trial where the run names none.
    pub const fn passes(self) -> &'static [Pass] {
        match self {
            Self::Stream | Self::Fio | Self::Dd => &[Pass::Write, Pass::Read],
            Self::Mixed => &[Pass::Mix],
            Self::Metadata => &[Pass::Create, Pass::Stat, Pass::Remove],
            Self::Bonnie | Self::Bonniexx => &[
                Pass::CharWrite,
                Pass::Write,
                Pass::Update,
                Pass::CharRead,
                Pass::Read,
                Pass::Seeks,
            ],
            Self::Transactions => &[Pass::Create, Pass::Transactions, Pass::Remove],
            Self::OpMix => &[Pass::OpMix],
            Self::App => &[Pass::App],
            Self::Iozone => &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
        }
    }

    /// The passes that a run may name; none where there is no choice.
    pub const fn passes_allowed(self) -> &'static [Pass] {
        match self {
            Self::Stream | Self::Iozone => &[
                Pass::Write,
                Pass::Rewrite,
                Pass::Read,
                Pass::Reread,
                Pass::RandomRead,
                Pass::RandomWrite,
                Pass::BackwardRead,
                Pass::StrideRead,
            ],
            Self::Metadata => &[
                Pass::Create,
                Pass::Stat,
                Pass::ReadFiles,
                Pass::Rename,
                Pass::Remove,
                Pass::Mkdir,
                Pass::StatDirs,
                Pass::RenameDirs,
                Pass::Rmdir,
            ],
            Self::Bonnie | Self::Bonniexx => Self::Bonnie.passes(),
            Self::Fio => {
                &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::RandomRead, Pass::RandomWrite]
            }
            Self::Dd => &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
            Self::Mixed | Self::Transactions | Self::OpMix | Self::App => &[],
        }
    }

    /// Says whether a tool that others made does the work, and its figures are read.
    pub const fn is_adapter(self) -> bool {
        matches!(self, Self::Fio | Self::Iozone | Self::Bonniexx | Self::Dd)
    }

    /// Says whether a program other than this one does the work.
    pub const fn is_external(self) -> bool {
        matches!(self, Self::App | Self::Fio | Self::Iozone | Self::Bonniexx | Self::Dd)
    }

    /// How long a reply, or a program, may take where nobody says, in milliseconds: for a reply ten
    /// times what a loaded disk takes, and less than a person's patience; for a program a build,
    /// or a tool over a whole matrix of its own.
    pub const fn default_timeout_ms(self) -> u64 {
        if self.is_external() { 3_600_000 } else { 5_000 }
    }

    /// Says whether the run is about names and many small files.
    pub const fn is_about_names(self) -> bool {
        matches!(self, Self::Metadata | Self::Transactions)
    }
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

/// When ops are scheduled, and what bounds a pass. Zero means: not asked for.
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
