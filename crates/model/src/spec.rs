//! The specification of a run, with every setting resolved.
//!
//! A `RunSpec` is one point of the matrix: nothing in it is left to a default any more. It is
//! stored with the results and handed to the agents as it stands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::lab::{Host, LabSpec};
use crate::nfs::{NfsSettings, Stable};
use crate::pass::Pass;
use crate::placement::Placement;
use crate::repetition::Repetition;
use crate::sampling::Sampling;
use crate::soak::Soak;
use crate::target::{BackendKind, Target};
use crate::words::words;
use crate::work::{Command, DataSettings, Layout, Load, OpMix, Sharing, Transactions, Tree};
use crate::workload::Workload;

words! {
    /// When written data must be safe.
    Durability {
        /// Never waited for.
        None = "none",
        /// Each file is closed inside the timed window, which a network file system answers with a
        /// flush (close-to-open), and nothing more is waited for.
        Close = "close",
        /// Each file is synced (`fsync`, COMMIT) inside the timed window.
        Sync = "sync",
        /// Every write waits for its data (`O_DSYNC`, DATA_SYNC).
        Dsync = "dsync",
        /// Every write waits for data and attributes (`O_SYNC`, FILE_SYNC).
        Osync = "osync",
    }
}

/// One point of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunSpec {
    /// Memory of the server, in bytes; 0 where it is not known.
    #[serde(default)]
    pub server_memory_bytes: u64,
    /// Under which name the target stands in tables, such as `nfs` or `dir`.
    pub target_name: String,
    /// The measured target.
    pub target: Target,
    /// How ops are executed.
    pub backend: BackendKind,
    /// The kind of workload.
    pub workload: Workload,
    /// Bytes of one read or write.
    pub io_size_bytes: u32,
    /// Size of each file: `file_size` of a plan, `small_file_size` for metadata.
    pub file_size_bytes: u64,
    /// Files in the set, all workers together: `files` of a plan, `small_files` for metadata.
    pub files: u32,
    /// Threads with a recorder each, on each client host.
    pub workers: u32,
    /// NFS clients that are emulated, each with connections and a name of its own; at least
    /// as many as workers, or 0 for one per worker: see [`RunSpec::clients`].
    #[serde(default)]
    pub clients: u32,
    /// Ops in flight per worker.
    pub queue_depth: u32,
    /// Share of reads in a mix, in percent.
    pub read_percent: u32,
    /// How long a mix runs.
    pub duration_ms: u64,
    /// Largest payload of one READ or WRITE on the wire; `None` takes what the server offers.
    pub transfer_size_bytes: Option<u32>,
    /// Bypass the page cache with `O_DIRECT`.
    pub direct: bool,
    /// Drop the files from this host's page cache before they are read.
    pub invalidate: bool,
    /// When written data must be safe.
    pub durability: Durability,
    /// Compare every byte read with what was written.
    pub verify: bool,
    /// Replies slower than this count as errors.
    pub timeout_ms: u64,
    /// The passes of a trial, in their order; empty for the workload's usual ones: see
    /// [`RunSpec::passes`].
    #[serde(default)]
    pub passes: Vec<Pass>,
    /// How files are laid out and walked through.
    #[serde(default)]
    pub layout: Layout,
    /// When ops are scheduled, and what bounds a pass.
    #[serde(default)]
    pub load: Load,
    /// The content of written data.
    #[serde(default)]
    pub data: DataSettings,
    /// Directories and names of a metadata run.
    #[serde(default)]
    pub tree: Tree,
    /// Pool and biases of a transactions run.
    #[serde(default)]
    pub transactions: Transactions,
    /// Shares of ops and scale of the file set of an op mix.
    #[serde(default)]
    pub op_mix: OpMix,
    /// The command of an app run, or of an adapter.
    #[serde(default)]
    pub command: Command,
    /// How the run is repeated.
    #[serde(default)]
    pub repetition: Repetition,
    /// How a pass is watched.
    #[serde(default)]
    pub sampling: Sampling,
    /// How hosts are set up; `None` where nothing is done to any.
    #[serde(default)]
    pub lab: Option<Box<LabSpec>>,
    /// On which hosts it works.
    #[serde(default)]
    pub placement: Placement,
    /// The specification of a soak; `None` for all other runs.
    #[serde(default)]
    pub soak: Option<Box<Soak>>,
}

impl RunSpec {
    /// Says whether closing the files belongs into the timed window.
    pub fn closes_in_time(&self) -> bool {
        self.durability == Durability::Close || self.layout.timed_close
    }

    /// A run on the null backend, every setting as plain as can be: what other runs are made from.
    pub fn null(workload: Workload) -> Self {
        Self {
            server_memory_bytes: 0,
            target_name: "null".to_owned(),
            target: Target::Null,
            backend: BackendKind::Null,
            workload,
            io_size_bytes: 4096,
            file_size_bytes: 4096,
            files: 1,
            workers: 1,
            clients: 0,
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
            command: Command::default(),
            repetition: Repetition::default(),
            sampling: Sampling::default(),
            lab: None,
            placement: Placement::default(),
            soak: None,
        }
    }

    /// The passes of one trial, in their order.
    pub fn passes(&self) -> &[Pass] {
        if self.passes.is_empty() { self.workload.passes() } else { &self.passes }
    }

    /// After how much time a pass ends at the latest, in nanoseconds; `None` where time is no
    /// bound.
    pub const fn time_max_ns(&self, pass: Pass) -> Option<u64> {
        // A mixed or random pass has no end of its own: `duration` ends it, unless it has a number
        // of ops or bytes to do. All other passes end with their files, or with `time_max` before.
        let is_counted = self.load.ops_max > 0 || self.load.bytes_max > 0;
        let ms = if !pass.is_timed() || (self.duration_ms == 0 && is_counted) {
            self.load.time_max_ms
        } else {
            return Some(self.duration_ms.saturating_mul(1_000_000));
        };
        if ms == 0 { None } else { Some(ms.saturating_mul(1_000_000)) }
    }

    /// Says whether a bound may end a pass before it has done all that it would do.
    pub const fn is_cut(&self) -> bool {
        let load = &self.load;
        load.ops_max > 0 || load.bytes_max > 0 || load.time_max_ms > 0
    }

    /// How long a pass works before anything counts, in nanoseconds.
    pub const fn warmup_ns(&self) -> u64 {
        self.load.ramp_ms.saturating_add(self.load.warmup_ms).saturating_mul(1_000_000)
    }

    /// The run as one of its passes is made: what a soak reads back is not offered at its rate.
    pub fn in_pass(&self, pass: Pass) -> Cow<'_, Self> {
        if self.soak.is_none() || pass == Pass::Mix {
            return Cow::Borrowed(self);
        }
        // Reading back is a closed loop, as fast as it goes.
        Cow::Owned(Self { load: Load::default(), ..self.clone() })
    }

    /// Says whether a write is safe once it is answered.
    pub fn answers_safe(&self) -> bool {
        // The file may be opened so that each write waits; or NFS asks for a stable WRITE, and
        // every WRITE of v2 is one.
        let waits = matches!(self.durability, Durability::Dsync | Durability::Osync);
        let nfs = self.target.nfs().map(|nfs| nfs.settings);
        let stable = |nfs: NfsSettings| nfs.stable != Stable::Unstable || nfs.version.major() == 2;
        waits || nfs.is_some_and(stable)
    }

    /// NFS clients that are emulated, all workers together.
    pub fn clients(&self) -> u32 {
        if self.clients == 0 { self.all_workers() } else { self.clients }
    }

    /// How NFS is spoken, by the program or by the kernel that mounts for it; the defaults where
    /// it isn't.
    pub fn nfs(&self) -> NfsSettings {
        match (&self.target, &self.lab) {
            (Target::Nfs(nfs), _) => nfs.settings,
            // A path on a mount of ours; of other paths it is not known what is below them.
            (_, Some(lab)) if lab.is_mounted() => lab.mounting.nfs,
            _ => NfsSettings::default(),
        }
    }

    /// Says whether it is known that NFS is spoken, by whomever.
    pub fn speaks_nfs(&self) -> bool {
        self.target.nfs().is_some() || self.lab.as_ref().is_some_and(|lab| lab.mounts_nfs())
    }

    /// Says whether some workers have no file of their own in a pass, as bonnie's seekers have in
    /// its other passes: they are not late.
    pub fn stands_idle(&self, pass: Pass) -> bool {
        // bonnie has one file and several seekers: its sequential passes have work for one worker.
        let owns = self.layout.sharing == Sharing::Own;
        pass.moves_blocks() && owns && self.files < self.all_workers()
    }

    /// Bytes that the file set holds.
    pub const fn set_bytes(&self) -> u64 {
        self.file_size_bytes * self.files as u64
    }
}

impl RunSpec {
    /// The hosts that work, in their order, an agent on each; none where this process works.
    pub fn client_hosts(&self) -> &[Host] {
        match &self.lab {
            _ if !self.placement.hosts.is_empty() => &self.placement.hosts,
            Some(lab) => std::slice::from_ref(lab.worker()),
            None => &[],
        }
    }

    /// Agents that work at one moment, at least one.
    pub fn agents(&self) -> u32 {
        self.client_hosts().len().max(1) as u32
    }

    /// Workers of all client hosts together.
    pub fn all_workers(&self) -> u32 {
        self.workers.saturating_mul(self.agents())
    }

    /// The run as each of its agents gets it: [`RunSpec::workers`] are those of all hosts, and it
    /// no longer matters which hosts they are.
    #[must_use]
    pub fn for_agents(&self) -> Self {
        // An agent takes its share of the workers by its own number, so the numbers of workers,
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
