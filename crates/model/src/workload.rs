//! The kinds of work that a run can do, with one row of facts for each.
//!
//! [`WorkloadRow`] says which passes a workload makes, which groups of settings apply to it, who
//! executes it and how it is described to a reader. Plan reader, defaults, checks, engine and
//! reports read the row; a new workload is a variant and a row here, and its ops in
//! `workload::stream`. The rows stand in the order of the variants.

use crate::pass::Pass;
use crate::words::words;

use self::SettingGroup as G;

words! {
    /// The kind of work that a run does.
    Workload {
        /// Whole files, from one end to the other or block by block.
        Stream = "stream",
        /// Reads and writes in the stated shares on prepared files, for a time.
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

/// A group of settings that applies to a workload or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingGroup {
    /// Settings that only our own engine knows: depths, loads, content, protocol.
    Engine,
    /// A number of threads.
    Workers,
    /// Passes to choose from.
    Passes,
    /// A number of data files, which our engine makes.
    Files,
    /// Data files of one size.
    FileSize,
    /// Reads and writes of data, direct or not, durable or not.
    Data,
    /// A size of one read or write.
    IoSize,
    /// Transfers large enough for more than one call.
    Transfers,
}

/// The executor of a workload's ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Our own engine.
    Engine,
    /// An external tool whose figures are read; its version comes with this argument.
    Tool {
        /// Name of the program.
        program: &'static str,
        /// The argument with which it prints its version.
        version_argument: &'static str,
    },
    /// A command of the user's, timed as a whole.
    Command,
}

/// Everything that is known about a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadRow {
    /// The workload that the row is of.
    pub workload: Workload,
    /// Describes it to a reader who does not know it, without a full stop.
    pub description: &'static str,
    /// The passes of one trial where the run names none.
    pub passes: &'static [Pass],
    /// The passes that a run may name; none where there is no choice.
    pub passes_allowed: &'static [Pass],
    /// The groups of settings that apply to it.
    pub settings: &'static [SettingGroup],
    /// The executor of its ops.
    pub executor: Executor,
    /// Usual size of one read or write, in bytes.
    pub io_size_bytes: u64,
    /// All workers work on all files, so there may be fewer files than workers.
    pub shares_files: bool,
    /// It is about names and many small files.
    pub is_about_names: bool,
}

/// Bytes of one read or write of a stream: what kernels offer as rsize today, and what copying
/// tools issue.
const STREAM_IO_SIZE: u64 = 1 << 20;

/// Bytes of one random read or write: a page, the unit of databases and of paging.
const RANDOM_IO_SIZE: u64 = 4 << 10;

/// Bytes of one read or write of transactions.
///
/// **Source:** `PostMark` 1.51, `show`: read and write blocks of 512 bytes.
const POOL_IO_SIZE: u64 = 512;

/// The block of bonnie and bonnie++, and of the mixes of its predecessors.
///
/// **Source:** bonnie++(8), `-s`: chunk-size 8 KiB.
const BONNIE_IO_SIZE: u64 = 8 << 10;

const BONNIE_PASSES: &[Pass] =
    &[Pass::CharWrite, Pass::Write, Pass::Update, Pass::CharRead, Pass::Read, Pass::Seeks];

const BLOCK_PASSES: &[Pass] = &[
    Pass::Write,
    Pass::Rewrite,
    Pass::Read,
    Pass::Reread,
    Pass::RandomRead,
    Pass::RandomWrite,
    Pass::BackwardRead,
    Pass::StrideRead,
];

/// Groups that apply to every tool which moves data.
const TOOL: &[G] = &[G::Passes, G::FileSize, G::Data, G::IoSize, G::Transfers];

/// The same of tools that run several workers.
const TOOL_WITH_WORKERS: &[G] =
    &[G::Workers, G::Passes, G::FileSize, G::Data, G::IoSize, G::Transfers];

/// Facts that hold for most: what a row does not say is as here.
const USUAL: WorkloadRow = WorkloadRow {
    workload: Workload::Stream,
    description: "",
    passes: &[],
    passes_allowed: &[],
    settings: &[],
    executor: Executor::Engine,
    io_size_bytes: RANDOM_IO_SIZE,
    shares_files: false,
    is_about_names: false,
};

/// Groups of settings that apply to workloads of passes over the blocks of large files.
const FILE_PASS_SETTINGS: &[G] =
    &[G::Engine, G::Workers, G::Passes, G::Files, G::FileSize, G::Data, G::IoSize, G::Transfers];

const ROWS: [WorkloadRow; Workload::ALL.len()] = [
    WorkloadRow {
        workload: Workload::Stream,
        description: "Files are written and read from their first byte to their last",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: BLOCK_PASSES,
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Mixed,
        description: "Blocks of large files are read and written, in a mix",
        passes: &[Pass::Mix],
        settings: &[G::Engine, G::Workers, G::Files, G::FileSize, G::Data, G::IoSize, G::Transfers],
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Metadata,
        description: "Many small files are made, looked at and removed",
        passes: &[Pass::Create, Pass::Stat, Pass::Remove],
        passes_allowed: &[
            Pass::Create,
            Pass::Stat,
            Pass::ReadFiles,
            Pass::Rename,
            Pass::Remove,
            Pass::Mkdir,
            Pass::StatDirs,
            Pass::RenameDirs,
            Pass::Rmdir,
            Pass::SetXattr,
            Pass::GetXattr,
        ],
        settings: &[G::Engine, G::Workers, G::Passes],
        is_about_names: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Bonnie,
        description: "What the benchmark bonnie does, pass by pass",
        passes: BONNIE_PASSES,
        passes_allowed: BONNIE_PASSES,
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: BONNIE_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Transactions,
        description: "Small files come and go as in a mail server, as postmark does it",
        passes: &[Pass::Create, Pass::Transactions, Pass::Remove],
        settings: &[G::Engine, G::Workers, G::IoSize, G::Transfers],
        io_size_bytes: POOL_IO_SIZE,
        is_about_names: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::OpMix,
        description: "Calls of a file server are made in the shares of a given mix",
        passes: &[Pass::OpMix],
        settings: &[G::Engine, G::Workers, G::Data, G::IoSize, G::Transfers],
        io_size_bytes: BONNIE_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::App,
        description: "A command of yours runs in the target, and its time is taken",
        passes: &[Pass::App],
        settings: &[G::Transfers],
        executor: Executor::Command,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Fio,
        description: "fio does the work, and this program starts and checks it",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: &[
            Pass::Write,
            Pass::Rewrite,
            Pass::Read,
            Pass::RandomRead,
            Pass::RandomWrite,
        ],
        settings: TOOL_WITH_WORKERS,
        executor: Executor::Tool { program: "fio", version_argument: "--version" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Iozone,
        description: "iozone does the work, and this program starts and checks it",
        passes: &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
        passes_allowed: BLOCK_PASSES,
        settings: TOOL_WITH_WORKERS,
        executor: Executor::Tool { program: "iozone", version_argument: "-v" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Bonniexx,
        description: "What the benchmark bonnie does, pass by pass",
        passes: BONNIE_PASSES,
        passes_allowed: BONNIE_PASSES,
        settings: TOOL,
        executor: Executor::Tool { program: "bonnie++", version_argument: "-?" },
        io_size_bytes: BONNIE_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Dd,
        description: "dd does the work, and this program starts and checks it",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
        settings: TOOL,
        executor: Executor::Tool { program: "dd", version_argument: "--version" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
];

// A row is found by the number of its variant.
const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].workload as usize == at, "rows stand in the order of the variants");
        at += 1;
    }
};

impl Workload {
    /// Returns what is known about it.
    pub const fn row(self) -> &'static WorkloadRow {
        &ROWS[self as usize]
    }

    /// The passes of one trial where the run names none.
    pub const fn passes(self) -> &'static [Pass] {
        self.row().passes
    }

    /// The passes that a run may name; none where there is no choice.
    pub const fn passes_allowed(self) -> &'static [Pass] {
        self.row().passes_allowed
    }

    /// Says whether an external tool does the work, and its figures are read.
    pub const fn is_adapter(self) -> bool {
        matches!(self.row().executor, Executor::Tool { .. })
    }

    /// Says whether a program other than this one does the work.
    pub const fn is_external(self) -> bool {
        !matches!(self.row().executor, Executor::Engine)
    }

    /// How long a reply, or a program, may take where the plan says nothing, in milliseconds: for a
    /// reply ten times what a loaded disk takes, and less than a person's patience; for a program a
    /// build, or a tool over a whole matrix of its own.
    pub const fn default_timeout_ms(self) -> u64 {
        if self.is_external() { 3_600_000 } else { 5_000 }
    }

    /// Says whether a group of settings applies to it.
    const fn has_group(self, group: SettingGroup) -> bool {
        let groups = self.row().settings;
        let mut at = 0;
        while at < groups.len() {
            if groups[at] as u8 == group as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Counts the workloads that a group of settings applies to.
    pub(crate) const fn count_with(group: SettingGroup) -> usize {
        let (mut count, mut at) = (0, 0);
        while at < Self::ALL.len() {
            count += Self::ALL[at].has_group(group) as usize;
            at += 1;
        }
        count
    }

    /// Lists the workloads that a group of settings applies to; `N` is their number.
    pub(crate) const fn list_with<const N: usize>(group: SettingGroup) -> [Self; N] {
        let mut list = [Self::Stream; N];
        let (mut count, mut at) = (0, 0);
        while at < Self::ALL.len() {
            if Self::ALL[at].has_group(group) {
                list[count] = Self::ALL[at];
                count += 1;
            }
            at += 1;
        }
        list
    }
}
