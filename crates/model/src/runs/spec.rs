//! Specification of a run, with every setting resolved.
//!
//! A `RunSpec` is one point of the matrix, without any defaults left to apply. It is stored with
//! the results and sent to agents unchanged.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::faults::soak::Soak;
use crate::runs::checkpoint::Checkpoint;
use crate::runs::file_sizes::SizeDistribution;
use crate::runs::kv_cache::KvCache;
use crate::runs::media::Media;
use crate::runs::named_load::NamedLoad;
use crate::runs::pass::Pass;
use crate::runs::placement::Placement;
use crate::runs::repetition::Repetition;
use crate::runs::sampling::Sampling;
use crate::runs::training::Training;
use crate::runs::work::{
    Command, DataSettings, Database, Io500Files, Layout, Load, OpMix, Sharing, Transactions, Tree,
    VmBoot,
};
use crate::runs::workload::Workload;
use crate::systems::lab::{Host, LabSpec};
use crate::targets::nfs::{NfsSettings, Stable};
use crate::targets::target::{BackendKind, Target};
use crate::text::words::words;

words! {
    /// When written data must be durable.
    Durability {
        /// Never wait for it.
        None = "none",
        /// Close each file inside the timed window, to which a network file system responds with a
        /// flush (close-to-open). Wait for nothing else.
        Close = "close",
        /// Sync each file (`fsync`, COMMIT) inside the timed window.
        Sync = "sync",
        /// Every write waits for its data (`O_DSYNC`, DATA_SYNC).
        Dsync = "dsync",
        /// Every write waits for data and attributes (`O_SYNC`, FILE_SYNC).
        Osync = "osync",
    }
}

/// Small files are read and written in pieces of at most this size, in bytes.
const SMALL_FILE_PIECE_MAX: u64 = 1 << 20;

/// One point of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunSpec {
    /// Memory of the server in bytes; 0 if unknown.
    #[serde(default)]
    pub server_memory_bytes: u64,
    /// Name of the target in tables, such as `nfs` or `dir`.
    pub target_name: String,
    pub target: Target,
    /// How ops are executed.
    pub backend: BackendKind,
    /// The kind of workload.
    pub workload: Workload,
    /// Size of one read or write in bytes.
    pub io_size_bytes: u32,
    /// Size of each file: `file_size` of a plan, `small_file_size` for metadata. If sizes differ,
    /// this is their mean; see [`RunSpec::distribution`].
    pub file_size_bytes: u64,
    /// Distribution of the sizes; `None` if all files have the same one.
    #[serde(default)]
    pub file_sizes: Option<Box<SizeDistribution>>,
    /// Number of files over all workers: `files` of a plan, `small_files` for metadata.
    pub files: u32,
    /// Threads on each client host, each with its own recorder.
    pub workers: u32,
    /// Number of emulated NFS clients, each with its own connections and name. At least as many as
    /// workers, or 0 for one per worker; see [`RunSpec::clients`].
    #[serde(default)]
    pub clients: u32,
    /// Number of CPUs that the workers share on each host, and the server if it is in this process;
    /// `None` for all that the agent may use.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Ops in flight per worker.
    pub queue_depth: u32,
    /// Share of reads in a mix, in percent.
    pub read_percent: u32,
    /// Duration of a mix.
    pub duration_ms: u64,
    /// Maximum payload of READ and WRITE on the wire; `None` uses what the server offers.
    pub transfer_size_bytes: Option<u32>,
    /// Bypass the page cache with `O_DIRECT`.
    pub direct: bool,
    /// Drop the files from this host's page cache before reading them.
    pub invalidate: bool,
    /// When written data must be durable.
    pub durability: Durability,
    /// Compare every byte read with what was written.
    pub verify: bool,
    /// Replies slower than this count as errors.
    pub timeout_ms: u64,
    /// Passes of a trial in order; empty for the workload's defaults, see [`RunSpec::passes`].
    #[serde(default)]
    pub passes: Vec<Pass>,
    /// How files are laid out and accessed.
    #[serde(default)]
    pub layout: Layout,
    /// When ops are scheduled, and when a pass ends.
    #[serde(default)]
    pub load: Load,
    /// Content of written data.
    #[serde(default)]
    pub data: DataSettings,
    /// Directories and names of a metadata run.
    #[serde(default)]
    pub tree: Tree,
    /// Pool and biases of a transactions run.
    #[serde(default)]
    pub transactions: Transactions,
    /// Op shares and file set size of an op mix.
    #[serde(default)]
    pub op_mix: OpMix,
    /// Model, scale and pauses of a checkpoint run.
    #[serde(default)]
    pub checkpoint: Checkpoint,
    /// Objects of a run that is a key-value cache.
    #[serde(default)]
    pub kv_cache: KvCache,
    /// Schedule of the frames of a media run.
    #[serde(default)]
    pub media: Media,
    /// Transactions and log of a database run.
    #[serde(default)]
    pub database: Database,
    /// What each virtual machine of a boot storm does.
    #[serde(default)]
    pub vm_boot: VmBoot,
    /// Numbers of small files that the phases of io500 have created; `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io500_files: Option<Io500Files>,
    /// Accelerators, batches and samples of a training run.
    #[serde(default)]
    pub training: Training,
    /// Command of an app run or an adapter.
    #[serde(default)]
    pub command: Command,
    #[serde(default)]
    pub repetition: Repetition,
    /// How a pass is sampled.
    #[serde(default)]
    pub sampling: Sampling,
    /// How hosts are set up; `None` if they are left as they are.
    #[serde(default)]
    pub lab: Option<Box<LabSpec>>,
    /// Which hosts the run works on.
    #[serde(default)]
    pub placement: Placement,
    /// Specification of a soak; `None` for all other runs.
    #[serde(default)]
    pub soak: Option<Box<Soak>>,
    /// Which of several loads this is; `None` if the plan has only one.
    #[serde(default)]
    pub named_load: Option<Box<NamedLoad>>,
}

impl RunSpec {
    /// Returns true if closing the files is part of the timed window.
    pub fn closes_in_time(&self) -> bool {
        self.durability == Durability::Close || self.layout.timed_close
    }

    /// Returns a run on the null backend with the simplest settings, as a basis for others.
    pub fn null(workload: Workload) -> Self {
        let run = Self {
            server_memory_bytes: 0,
            target_name: "null".to_owned(),
            target: Target::Null,
            backend: BackendKind::Null,
            workload,
            io_size_bytes: 4096,
            file_size_bytes: 4096,
            file_sizes: None,
            files: 1,
            workers: 1,
            clients: 0,
            cpus: None,
            queue_depth: 1,
            read_percent: 0,
            duration_ms: 0,
            transfer_size_bytes: None,
            direct: false,
            invalidate: false,
            durability: Durability::None,
            verify: false,
            timeout_ms: workload.default_timeout_ms(),
            passes: Vec::new(),
            layout: Layout::default(),
            load: Load::default(),
            data: DataSettings::default(),
            tree: Tree::default(),
            transactions: Transactions::default(),
            op_mix: OpMix::default(),
            checkpoint: Checkpoint::default(),
            kv_cache: KvCache::default(),
            media: Media::default(),
            database: Database::default(),
            vm_boot: VmBoot::default(),
            io500_files: None,
            training: Training::default(),
            command: Command::default(),
            repetition: Repetition::default(),
            sampling: Sampling::default(),
            lab: None,
            placement: Placement::default(),
            soak: None,
            named_load: None,
        };
        match workload {
            Workload::Transactions => run.with_sizes(SizeDistribution::of_pool()),
            _ => run,
        }
    }

    /// Returns the run with other file sizes; its number of files must be known.
    #[must_use]
    pub fn with_sizes(self, sizes: SizeDistribution) -> Self {
        let file_size_bytes = sizes.mean(self.files.into());
        let file_sizes = match sizes {
            SizeDistribution::Fixed(_) => None,
            sizes => Some(Box::new(sizes)),
        };
        Self { file_size_bytes, file_sizes, ..self }
    }

    /// Returns the distribution of the file sizes.
    pub fn distribution(&self) -> SizeDistribution {
        let fixed = || SizeDistribution::Fixed(self.file_size_bytes);
        self.file_sizes.as_deref().cloned().unwrap_or_else(fixed)
    }

    /// Returns an upper bound of the file sizes in bytes.
    pub fn largest_file_bytes(&self) -> u64 {
        if self.workload == Workload::KvCache {
            return self.kv_cache.largest_bytes(self.files);
        }
        let sizes = self.file_sizes.as_deref();
        sizes.map_or(self.file_size_bytes, |sizes| sizes.largest(self.files.into()))
    }

    /// Returns the maximum number of bytes in one piece of a small file, which is read or written
    /// with one op.
    pub fn small_file_piece(&self) -> u32 {
        self.largest_file_bytes().min(SMALL_FILE_PIECE_MAX) as u32
    }

    /// Returns the maximum number of bytes that an op transfers.
    pub fn largest_op_bytes(&self) -> u32 {
        match self.workload {
            Workload::Metadata | Workload::Listing => self.small_file_piece(),
            Workload::Database => self.io_size_bytes.max(self.database.commit_bytes),
            _ => self.io_size_bytes,
        }
    }

    /// Returns the passes of a trial in order.
    pub fn passes(&self) -> &[Pass] {
        if self.passes.is_empty() { self.workload.passes() } else { &self.passes }
    }

    /// Returns the time limit of a pass in nanoseconds, or `None` if there is none.
    pub const fn time_max_ns(&self, pass: Pass) -> Option<u64> {
        // A mixed or random pass has no natural end, so `duration` ends it unless it has a number
        // of ops or bytes to do. All other passes end with their files, or earlier because of
        // `time_max`.
        let is_counted = self.load.ops_max > 0 || self.load.bytes_max > 0;
        let ms = if !pass.is_timed() || (self.duration_ms == 0 && is_counted) {
            self.load.time_max_ms
        } else {
            return Some(self.duration_ms.saturating_mul(1_000_000));
        };
        if ms == 0 { None } else { Some(ms.saturating_mul(1_000_000)) }
    }

    /// Returns true if a limit may end a pass before all its work is done.
    pub const fn is_cut(&self) -> bool {
        let load = &self.load;
        // With a wear-out, all workers do the same amount, and later passes use that.
        load.ops_max > 0 || load.bytes_max > 0 || (load.time_max_ms > 0 && !load.wears_out)
    }

    /// Returns how long a pass works before the measurement starts, in nanoseconds.
    pub const fn warmup_ns(&self) -> u64 {
        self.load.ramp_ms.saturating_add(self.load.warmup_ms).saturating_mul(1_000_000)
    }

    /// Returns how long an op of a pass may take from its scheduled start until it is late, in
    /// nanoseconds; `None` if it has no deadline.
    pub fn late_after_ns(&self, pass: Pass) -> Option<u64> {
        pass.moves_frames().then(|| self.media.time_per_frame_ns())
    }

    /// Returns the run with the settings for one of its passes: a soak doesn't read back at its
    /// rate.
    pub fn in_pass(&self, pass: Pass) -> Cow<'_, Self> {
        if self.soak.is_none() || pass == Pass::Mix {
            return Cow::Borrowed(self);
        }
        // Reading back is a closed loop at full speed.
        Cow::Owned(Self { load: Load::default(), ..self.clone() })
    }

    /// Returns true if a write is durable as soon as it is acknowledged.
    pub fn answers_safe(&self) -> bool {
        // Either the file is opened so that each write waits, or NFS requests a stable WRITE, which
        // is always the case for v2.
        let waits = matches!(self.durability, Durability::Dsync | Durability::Osync);
        let nfs = self.target.nfs().map(|nfs| nfs.settings);
        let stable = |nfs: NfsSettings| nfs.stable != Stable::Unstable || nfs.version.major() == 2;
        waits || nfs.is_some_and(stable)
    }

    /// Returns the number of emulated NFS clients over all workers.
    pub fn clients(&self) -> u32 {
        if self.clients == 0 { self.all_workers() } else { self.clients }
    }

    /// Returns the NFS settings of our client or of the mount, or the defaults if NFS is not used.
    pub fn nfs(&self) -> NfsSettings {
        match (&self.target, &self.lab) {
            (Target::Nfs(nfs), _) => nfs.settings,
            // A path on one of our mounts. For other paths, we don't know what is below them.
            (_, Some(lab)) if lab.is_mounted() => lab.mounting.nfs,
            _ => NfsSettings::default(),
        }
    }

    /// Returns true if NFS is known to be used, by our client or a mount.
    pub fn speaks_nfs(&self) -> bool {
        self.target.nfs().is_some() || self.lab.as_ref().is_some_and(|lab| lab.mounts_nfs())
    }

    /// Returns true if some workers have no file of their own in a pass and are idle by design,
    /// like bonnie's seekers in its other passes.
    pub fn has_idle_workers(&self, pass: Pass) -> bool {
        // bonnie has one file and several seekers, so its sequential passes only have work for one
        // worker.
        let owns = self.layout.sharing == Sharing::Own;
        pass.moves_blocks() && owns && self.files < self.all_workers()
    }

    /// Returns the size of the file set in bytes; if sizes differ, to the nearest byte per file.
    pub fn set_bytes(&self) -> u64 {
        if self.workload == Workload::Io500 {
            return self.io500_set_bytes();
        }
        self.file_size_bytes.saturating_mul(u64::from(self.files))
    }
}

impl RunSpec {
    /// Returns the client hosts in order, with one agent each; empty if this process does the work.
    pub fn client_hosts(&self) -> &[Host] {
        match &self.lab {
            _ if !self.placement.hosts.is_empty() => &self.placement.hosts,
            Some(lab) => std::slice::from_ref(lab.worker()),
            None => &[],
        }
    }

    /// Returns the number of concurrent agents, at least one.
    pub fn agents(&self) -> u32 {
        self.client_hosts().len().max(1) as u32
    }

    /// Returns true if another load runs at the same time on a host of this one.
    pub fn has_company(&self) -> bool {
        self.named_load.as_ref().is_some_and(|load| load.shares_hosts)
    }

    /// Returns the number of workers over all client hosts.
    pub fn all_workers(&self) -> u32 {
        self.workers.saturating_mul(self.agents())
    }

    /// Returns the run as sent to each agent: [`RunSpec::workers`] is the total over all hosts, and
    /// the hosts are removed.
    #[must_use]
    pub fn for_agents(&self) -> Self {
        // An agent picks its share of the workers by its own number, so the numbers of workers,
        // files and clients must be those of the whole run on every host.
        let workers = self.all_workers();
        Self { workers, placement: Placement::default(), ..self.clone() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::RunBuilder;

    pub(crate) fn run(workload: Workload, read_percent: u32) -> RunSpec {
        RunBuilder::new(workload)
            .files(2)
            .read_percent(read_percent)
            .duration_ms(1_000)
            .invalidate(true)
            .durability(Durability::Sync)
            .build()
    }
}
