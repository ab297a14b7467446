//! Kinds of work that a run can do, with a table row for each.
//!
//! A [`WorkloadRow`] defines the passes of a workload, the groups of settings that apply to it, its
//! executor and its description. Plan reader, defaults, checks, engine and reports use the row. A
//! new workload needs a variant and a row here, and its ops in `workload::stream`. The rows are in
//! the order of the variants.

use crate::runs::pass::Pass;
use crate::text::words::words;

use self::SettingGroup as G;

words! {
    /// The kind of work that a run does.
    Workload {
        /// Whole files, sequentially or block by block.
        Stream = "stream",
        /// Reads and writes in the given proportions on prepared files, for a given time.
        Mixed = "mixed",
        /// Create, stat, read, rename and remove many files and directories.
        Metadata = "metadata",
        /// Lists and searches large directories.
        Listing = "listing",
        /// The passes of bonnie over one large file.
        Bonnie = "bonnie",
        /// The pool of small files of a mail or news server, as in `PostMark`.
        Transactions = "transactions",
        /// All kinds of NFS calls in the proportions of a field study, at an offered load.
        OpMix = "op_mix",
        /// Operations on ranges of files: copies, clones, space, holes.
        DataOps = "data_ops",
        /// A user-defined command.
        App = "app",
        /// Runs fio and parses its results.
        Fio = "fio",
        /// Runs iozone and parses its results.
        Iozone = "iozone",
        /// Runs bonnie++ and parses its results.
        Bonniexx = "bonnie++",
        /// Runs dd and parses its results.
        Dd = "dd",
        /// Ranks that save their shard of a model's state, and restore those of others.
        Checkpoint = "checkpoint",
        /// The weights of a model, read as a server does when it starts.
        ModelLoad = "model_load",
        /// Streams of large frames, each of which has a deadline.
        Media = "media",
        /// The key-value cache of an inference server: whole objects, with eviction.
        KvCache = "kv_cache",
        /// Transactions on the pages of a database and its log.
        Database = "database",
        /// Virtual machines that boot from their images at the same time.
        VmBoot = "vm_boot",
        /// What developers wait for on a source tree: tar, git, an install, a build, rsync, rm.
        Developer = "developer",
        /// The phases of IO500, on files that each phase leaves to the next.
        Io500 = "io500",
        /// Readers that feed samples to accelerators.
        Training = "training",
    }
}

/// A group of settings that applies to some workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingGroup {
    /// Settings only supported by our own engine: depths, loads, content, protocol.
    Engine,
    /// The number of threads.
    Workers,
    /// A choice of passes.
    Passes,
    /// The number of data files created by our engine.
    Files,
    /// Data files of the same size.
    FileSize,
    /// Reads and writes of data, including direct I/O and durability.
    Data,
    /// The size of one read or write.
    IoSize,
    /// Transfers that may need more than one call.
    Transfers,
}

/// The executor of a workload's ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Our own engine.
    Engine,
    /// An external tool whose results are parsed.
    Tool {
        /// Name of the program.
        program: &'static str,
        /// Argument that makes it print its version.
        version_argument: &'static str,
    },
    /// A user-defined command, timed as a whole.
    Command,
}

/// Properties of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadRow {
    pub workload: Workload,
    /// Description for readers unfamiliar with it, without a period at the end.
    pub description: &'static str,
    /// Default passes of a trial.
    pub passes: &'static [Pass],
    /// Passes that a run may select; empty if there is no choice.
    pub passes_allowed: &'static [Pass],
    /// Groups of settings that apply.
    pub settings: &'static [SettingGroup],
    pub executor: Executor,
    /// Default size of one read or write, in bytes.
    pub io_size_bytes: u64,
    /// All workers use all files, so there may be fewer files than workers.
    pub shares_files: bool,
    /// The workload is about names and many small files.
    pub is_about_names: bool,
}

/// I/O size of a stream in bytes: the rsize currently offered by kernels, and the size used by copy
/// tools.
const STREAM_IO_SIZE: u64 = 1 << 20;

/// I/O size of random reads and writes: a page, the unit of databases and paging.
const RANDOM_IO_SIZE: u64 = 4 << 10;

/// I/O size of transactions in bytes.
///
/// **Source:** `PostMark` 1.51, `show`: read and write blocks of 512 bytes.
const POOL_IO_SIZE: u64 = 512;

/// Block size of bonnie and bonnie++, and of the mixes of their predecessors.
///
/// **Source:** bonnie++(8), `-s`: chunk-size 8 KiB.
const BONNIE_IO_SIZE: u64 = 8 << 10;

const BONNIE_PASSES: &[Pass] =
    &[Pass::CharWrite, Pass::Write, Pass::Update, Pass::CharRead, Pass::Read, Pass::Seeks];

/// I/O size of a developer's tools, in bytes: the buffer that `cp` and `cat` use.
///
/// **Source:** coreutils, `src/ioblksize.h`: 128 KiB until 2024, 256 KiB since.
const DEVELOPER_IO_SIZE: u64 = 128 << 10;

const DEVELOPER_PASSES: &[Pass] = &[
    Pass::Unpack,
    Pass::BuildReads,
    Pass::SyncTree,
    Pass::GitClone,
    Pass::GitStatus,
    Pass::GitCheckout,
    Pass::Install,
    Pass::RemoveTree,
];

const LISTING_PASSES: &[Pass] = &[Pass::List, Pass::ListStat, Pass::Find];

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

const DATA_OPS_PASSES: &[Pass] =
    &[Pass::Copy, Pass::Clone, Pass::Allocate, Pass::Punch, Pass::Seek, Pass::ReadPlus];

/// The phases of IO500 in their order.
///
/// **Source:** IO500, src/phase-definitions.h.
const IO500_PASSES: &[Pass] = &[
    Pass::IorEasyWrite,
    Pass::MdtestEasyWrite,
    Pass::IorHardWrite,
    Pass::MdtestHardWrite,
    Pass::Io500Find,
    Pass::IorEasyRead,
    Pass::MdtestEasyStat,
    Pass::IorHardRead,
    Pass::MdtestHardStat,
    Pass::MdtestEasyDelete,
    Pass::MdtestHardRead,
    Pass::MdtestHardDelete,
    Pass::IorRnd4kEasyRead,
];

/// Groups that apply to every tool that transfers data.
const TOOL: &[G] = &[G::Passes, G::FileSize, G::Data, G::IoSize, G::Transfers];

/// Groups that apply to such tools with several workers.
const TOOL_WITH_WORKERS: &[G] =
    &[G::Workers, G::Passes, G::FileSize, G::Data, G::IoSize, G::Transfers];

/// Default row; other rows only specify the differences.
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

/// I/O size of a checkpoint: what `torch.save` and its relatives write at a time, as a rule, and
/// large enough for every file system to work at its best.
const CHECKPOINT_IO_SIZE: u64 = 16 << 20;

/// I/O size of a database: a page.
///
/// **Source:** PostgreSQL, documentation of `block_size` and `wal_block_size`: 8192 bytes.
const DATABASE_IO_SIZE: u64 = 8 << 10;

/// I/O size of a booting virtual machine.
///
/// **Source:** ThinScale, "`ThinIO` facts and figures, part 2": a boot of Windows 7 made 70,000
/// requests for about 560 MB.
const BOOT_IO_SIZE: u64 = 8 << 10;

/// Groups that apply to mixes of reads and writes of blocks.
const MIX_SETTINGS: &[G] =
    &[G::Engine, G::Workers, G::Files, G::FileSize, G::Data, G::IoSize, G::Transfers];

/// Size of a transfer in the easy phases of io500.
///
/// **Source:** IO500, src/phase_ior_easy.c: transferSize 2m.
const IO500_EASY_IO_SIZE: u64 = 2 << 20;

/// I/O size of training: most samples are smaller, and are read in one piece.
const TRAINING_IO_SIZE: u64 = 4 << 20;

/// Groups that apply to workloads of passes over the blocks of large files.
const FILE_PASS_SETTINGS: &[G] =
    &[G::Engine, G::Workers, G::Passes, G::Files, G::FileSize, G::Data, G::IoSize, G::Transfers];

const ROWS: [WorkloadRow; Workload::ALL.len()] = [
    WorkloadRow {
        workload: Workload::Stream,
        description: "Writes and reads whole files from the first byte to the last",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: BLOCK_PASSES,
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Mixed,
        description: "Reads and writes blocks of large files, in a mix",
        passes: &[Pass::Mix],
        settings: MIX_SETTINGS,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Metadata,
        description: "Creates, examines and removes many small files",
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
        workload: Workload::Listing,
        description: "Lists and searches large directories: readdir, `ls -l`, find",
        passes: LISTING_PASSES,
        passes_allowed: LISTING_PASSES,
        settings: &[G::Engine, G::Workers, G::Passes],
        is_about_names: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Bonnie,
        description: "The passes of the bonnie benchmark",
        passes: BONNIE_PASSES,
        passes_allowed: BONNIE_PASSES,
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: BONNIE_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Transactions,
        description: "Creates, changes and removes small files like a mail server (PostMark)",
        passes: &[Pass::Create, Pass::Transactions, Pass::Remove],
        settings: &[G::Engine, G::Workers, G::IoSize, G::Transfers],
        io_size_bytes: POOL_IO_SIZE,
        is_about_names: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::OpMix,
        description: "Issues NFS calls in the shares of a given mix",
        passes: &[Pass::OpMix],
        settings: &[G::Engine, G::Workers, G::Data, G::IoSize, G::Transfers],
        io_size_bytes: BONNIE_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::DataOps,
        description: "Copies, clones, allocates and punches ranges of files without moving data",
        passes: DATA_OPS_PASSES,
        passes_allowed: DATA_OPS_PASSES,
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::App,
        description: "Runs a command of your own in the target and times it",
        passes: &[Pass::App],
        settings: &[G::Transfers],
        executor: Executor::Command,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Fio,
        description: "fio does the work; this program starts and checks it",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: &[
            Pass::Write,
            Pass::Rewrite,
            Pass::Read,
            Pass::RandomRead,
            Pass::RandomWrite,
            Pass::Mix,
        ],
        settings: TOOL_WITH_WORKERS,
        executor: Executor::Tool { program: "fio", version_argument: "--version" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Iozone,
        description: "iozone does the work; this program starts and checks it",
        passes: &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
        passes_allowed: BLOCK_PASSES,
        settings: TOOL_WITH_WORKERS,
        executor: Executor::Tool { program: "iozone", version_argument: "-v" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Bonniexx,
        description: "The passes of the bonnie benchmark",
        passes: BONNIE_PASSES,
        passes_allowed: BONNIE_PASSES,
        settings: TOOL,
        executor: Executor::Tool { program: "bonnie++", version_argument: "-?" },
        io_size_bytes: BONNIE_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Dd,
        description: "dd does the work; this program starts and checks it",
        passes: &[Pass::Write, Pass::Read],
        passes_allowed: &[Pass::Write, Pass::Rewrite, Pass::Read, Pass::Reread],
        settings: TOOL,
        executor: Executor::Tool { program: "dd", version_argument: "--version" },
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Checkpoint,
        description: "Saves the state of a model from many ranks and restores it in others",
        passes: &[Pass::Save, Pass::Restore],
        passes_allowed: &[Pass::Save, Pass::Restore],
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: CHECKPOINT_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::ModelLoad,
        description: "Reads the files of a model, as an inference server does when it starts",
        passes: &[Pass::Load],
        passes_allowed: &[Pass::Load],
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Media,
        description: "Plays and records streams of large frames, each due at a time of its own",
        passes: &[Pass::Play],
        passes_allowed: &[Pass::Play, Pass::Record],
        settings: FILE_PASS_SETTINGS,
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::KvCache,
        description: "Reads, writes and evicts whole objects, like a KV cache of inference servers",
        passes: &[Pass::Serve],
        settings: &[G::Engine, G::Workers, G::Files, G::Data, G::IoSize, G::Transfers],
        io_size_bytes: STREAM_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Database,
        description: "Reads and writes pages of a database and commits them in its log",
        passes: &[Pass::Oltp],
        settings: MIX_SETTINGS,
        io_size_bytes: DATABASE_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::VmBoot,
        description: "Boots virtual machines from their images at the same time",
        passes: &[Pass::Boot],
        settings: MIX_SETTINGS,
        io_size_bytes: BOOT_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Developer,
        description: "Unpacks, clones, builds from, syncs and removes source trees, as tools do",
        passes: DEVELOPER_PASSES,
        passes_allowed: DEVELOPER_PASSES,
        settings: &[G::Engine, G::Workers, G::Passes, G::IoSize, G::Transfers],
        io_size_bytes: DEVELOPER_IO_SIZE,
        is_about_names: true,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Io500,
        description: "The phases of IO500 in their order: large and small, easy and hard, find",
        passes: IO500_PASSES,
        settings: &[G::Engine, G::Workers, G::FileSize, G::Data, G::Transfers],
        io_size_bytes: IO500_EASY_IO_SIZE,
        ..USUAL
    },
    WorkloadRow {
        workload: Workload::Training,
        description: "Feeds samples in random order to accelerators that compute in between",
        passes: &[Pass::Train],
        settings: &[G::Engine, G::Workers, G::Files, G::FileSize, G::IoSize, G::Transfers],
        io_size_bytes: TRAINING_IO_SIZE,
        shares_files: true,
        ..USUAL
    },
];

// Rows are indexed by the number of their variant.
const _: () = {
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].workload as usize == at, "rows must be in the order of the variants");
        at += 1;
    }
};

impl Workload {
    /// Returns the name of one of its passes, such as `stream write`; only the name of the workload
    /// if it has just one kind of pass.
    pub fn pass_name(self, pass: Pass) -> String {
        match pass {
            pass if pass.is_timed() || matches!(pass, Pass::App | Pass::Boot) => {
                self.name().to_owned()
            }
            _ => format!("{} {}", self.name(), pass.name()),
        }
    }

    /// Returns true if `name` is that of the pass, with or without this workload, or of this
    /// workload.
    pub fn has_pass_named(self, name: &str, pass: Pass) -> bool {
        name == pass.name() || name == self.name() || name == self.pass_name(pass)
    }

    /// Returns the workload's properties.
    pub const fn row(self) -> &'static WorkloadRow {
        &ROWS[self as usize]
    }

    /// Returns the default passes of a trial.
    pub const fn passes(self) -> &'static [Pass] {
        self.row().passes
    }

    /// Returns the passes that a run may select; empty if there is no choice.
    pub const fn passes_allowed(self) -> &'static [Pass] {
        self.row().passes_allowed
    }

    /// Returns true if another program does the work.
    pub const fn is_external(self) -> bool {
        !matches!(self.row().executor, Executor::Engine)
    }

    /// Returns the default time limit in milliseconds for a reply or a program. For a reply, this
    /// is ten times what a loaded disk takes and less than a person's patience. For a program, it
    /// is enough for a build, or for a tool that runs a matrix of its own.
    pub const fn default_timeout_ms(self) -> u64 {
        if self.is_external() { 3_600_000 } else { 5_000 }
    }

    /// Returns true if a group of settings applies.
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

    /// Returns the number of workloads to which a group of settings applies.
    pub(crate) const fn count_with(group: SettingGroup) -> usize {
        let mut count = 0;
        let mut at = 0;
        while at < Self::ALL.len() {
            count += Self::ALL[at].has_group(group) as usize;
            at += 1;
        }
        count
    }

    /// Returns the workloads to which a group of settings applies; `N` is their number.
    pub(crate) const fn list_with<const N: usize>(group: SettingGroup) -> [Self; N] {
        let mut list = [Self::Stream; N];
        let mut count = 0;
        let mut at = 0;
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
