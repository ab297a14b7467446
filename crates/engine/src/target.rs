//! The target of one trial: a directory, an NFS export, or nothing.
//!
//! A [`TrialTarget`] owns one working directory, `.dfsbench-<id>`. It is created with the target
//! and removed with all its contents when the target is removed or dropped. Nothing else is
//! touched. Preparing and opening happen here, outside of the timed window.

mod access;
mod content;
mod directory;
mod fixtures;
mod job_timer;
pub mod leftover;
pub mod marked_directories;
mod mount_options;
pub mod named_files;
mod neighbor_search;
mod neighbors;
mod nfs;
mod nfs_file;
mod no_files;
pub mod removal;

use std::path::PathBuf;
use std::sync::Arc;

use model::units::Size;
use model::work::Sharing;
use model::{Ability, Caveat, CaveatCode, Fact, Opens, Panicked, Pass, RunSpec, Share, Target};
use workload::names::Sort;
use workload::{FileSet, Journal, Name, Pattern};

use crate::backend::Backend;
use crate::backend::sparse::SparseLayout;
use crate::clock::Clock;
use crate::stop::Stop;
use access::{NullAccess, TargetAccess, WorkerPass};
use content::content_of;
use directory::DirectoryAccess;
use fixtures::PreparedFixtures;
use nfs::NfsAccess;
use no_files::{MemoryAccess, TcpAccess};

pub use content::{follow_rewrites, pattern_of};
pub use mount_options::mount_options;
pub use neighbors::Neighbors;
pub use nfs_file::NfsFile;

/// Why a target cannot be created, prepared or opened. Each error says what happened, where, and
/// what to do.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The directory does not exist.
    #[error("directory `{}` does not exist (hint: create it, or choose another)", .0.display())]
    Missing(PathBuf),
    /// The path isn't a directory.
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// We don't have permission to write there.
    #[error("directory `{}` is not writable: {reason} (hint: check its owner and mount options)",
        path.display())]
    NotWritable {
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// There isn't enough space for the files.
    #[error(
        "not enough space in `{location}`: the files need {needed}, but {free} are free (hint: use \
         a smaller --file-size or fewer --files)"
    )]
    NoSpace {
        /// The file system.
        location: String,
        /// Size of the file set.
        needed: String,
        /// Free space.
        free: String,
    },
    /// The file system does not support `O_DIRECT`.
    #[error(
        "the file system of `{}` does not support O_DIRECT (hint: use --direct false)",
        .0.display()
    )]
    NoDirect(PathBuf),
    /// A file is too short for the data to be read from it.
    #[error(
        "cannot read data that was never written: `{location}` contains only {written} of {wanted} \
         (hint: run an unlimited write pass first)"
    )]
    Unwritten {
        location: String,
        /// How much of it has been written.
        written: String,
        /// How much will be read.
        wanted: String,
    },
    /// A call failed.
    #[error("cannot {what} `{location}`: {reason}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        location: String,
        /// The system's reason.
        reason: String,
    },
    /// The NFS server could not be used.
    #[error("{0}")]
    Nfs(String),
    /// An external program could not be used.
    #[error("{0}")]
    Program(String),
    /// Another worker could not open its files.
    #[error("stopped because another worker could not start")]
    Stopped,
    /// The system could not create a thread.
    #[error(
        "cannot start {0} workers: {1} (hint: use fewer --workers, or raise the limit of threads)"
    )]
    Threads(u32, String),
    /// The run asks for more CPUs than this process may use.
    #[error("cpus = {requested}, but this process may only use {allowed} (hint: lower --cpus)")]
    TooFewCpus {
        /// Number of CPUs in the run.
        requested: u32,
        /// Number of CPUs that this process may use.
        allowed: u32,
    },
    /// Threads could not be confined to some CPUs.
    #[error("cannot restrict threads to some CPUs: {0} (hint: leave out --cpus)")]
    Affinity(String),
    /// A worker panicked. This is a bug of ours, but it ends only the trial.
    #[error("worker {worker} {panicked}")]
    Panicked {
        /// Number of the worker, starting at 0.
        worker: u32,
        /// The panic message.
        panicked: Panicked,
    },
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}

/// The settings for creating a target.
pub struct TargetConfig {
    /// Name of the working directory.
    pub work_name: String,
    /// Seed of the pass's ops, which also determines file sizes.
    pub seed: u64,
    /// Content of the files.
    pub pattern: Pattern,
    /// The clock of all workers.
    pub clock: Arc<dyn Clock>,
    /// Keep the working directory.
    pub keep: bool,
    /// Set to stop everything, including preparations.
    pub stop: Stop,
    /// The workers whose files it creates and counts: all of the run's workers, or those of this
    /// agent.
    pub share: Share,
    /// The working directory may already exist. If so, the agent that created it removes it.
    pub joins: bool,
}

/// Returns where sparse files of a run have data and holes.
fn sparse_layout(spec: &RunSpec) -> SparseLayout {
    let block_bytes = u64::from(spec.io_size_bytes.max(1));
    SparseLayout { block_bytes, file_bytes: spec.file_size_bytes }
}

/// Returns which files a worker has open in a pass: the number of the first one, and the distance
/// between them.
fn opened_files(spec: &RunSpec, pass: Pass, worker: u32) -> (u32, u32) {
    let anywhere = match pass {
        Pass::Mix | Pass::Seeks | Pass::OpMix | Pass::Oltp | Pass::Train => true,
        Pass::Boot => spec.vm_boot.base_image,
        _ => false,
    };
    if anywhere || spec.layout.sharing == Sharing::Shared {
        return (0, 1);
    }
    (worker, spec.workers)
}

/// Returns how a pass opens data files before it starts. Samples that are files are opened by the
/// ops that read them.
const fn opens_before(spec: &RunSpec, pass: Pass) -> Opens {
    match pass {
        Pass::Train if spec.training.reads_whole_files() => Opens::Nothing,
        _ => pass.opens(),
    }
}

/// Returns true if each worker of a pass works on the files of all workers.
pub fn works_anywhere(spec: &RunSpec, pass: Pass) -> bool {
    spec.workers == 1 || opened_files(spec, pass, 0).1 < spec.workers
}

/// A backend that is ready to use.
pub struct OpenedBackend {
    pub backend: Box<dyn Backend>,
    /// Caveats raised while opening it, such as a fallback.
    pub caveats: Vec<Caveat>,
    /// Whether the kernel counts this backend's reads and writes per thread.
    pub(crate) kernel_counts: bool,
    /// Number of ops that the worker keeps in flight.
    pub queue_depth: usize,
}

impl TargetError {
    /// Creates the error for a file that contains only `written` of the `wanted` bytes to be read.
    fn unwritten(location: String, written: u64, wanted: u64) -> Self {
        Self::Unwritten {
            location,
            written: Size(written).to_string(),
            wanted: Size(wanted).to_string(),
        }
    }
}

impl OpenedBackend {
    /// Wraps a backend without caveats that supports the requested queue depth.
    fn without_caveats(queue_depth: u32, backend: Box<dyn Backend>) -> Self {
        let queue_depth = queue_depth as usize;
        Self { backend, caveats: Vec::new(), kernel_counts: false, queue_depth }
    }
}

/// The contents of the working directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Number of files. Hard links count separately.
    pub files: u64,
    /// Total size of the files.
    pub bytes: u64,
    /// Number of directories, not counting the working directory.
    pub directories: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Number of files that were removed while open, and that a client keeps under another name
    /// (`.fuse_hidden...`, `.nfs...`) until they are closed. They no longer count as files.
    pub removed_but_open: u64,
}

/// The part of a working directory to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryScope {
    /// Everything.
    All,
    /// Names with a number that belongs to a share, given the total number of workers.
    OfShare(Share, u32),
}

impl InventoryScope {
    /// Returns true if a name is counted. Names that belong to no worker are counted by the share
    /// with the first worker.
    pub fn counts_name(self, name: &[u8]) -> bool {
        let Self::OfShare(share, workers) = self else { return true };
        match Name::number_of(name) {
            Some(number) => share.owns(number, workers),
            None => share.first == 0,
        }
    }
}

pub struct TrialTarget {
    access: Box<dyn TargetAccess>,
    config: TargetConfig,
    prepared: PreparedFixtures,
    schedule_seed: u64,
}

/// Creates access to a trial's target. This is the only match on kinds of targets.
fn access_target(
    spec: &RunSpec,
    config: &TargetConfig,
) -> Result<Box<dyn TargetAccess>, TargetError> {
    Ok(match &spec.target {
        Target::Null => Box::new(NullAccess::default()),
        Target::Memory => Box::new(MemoryAccess),
        Target::Tcp(server) => Box::new(TcpAccess(server.clone())),
        Target::Directory { .. } | Target::Directories { .. } => {
            Box::new(DirectoryAccess::create(spec.target.paths(), spec, config)?)
        }
        Target::Nfs(server) => Box::new(NfsAccess::create(server, spec, config)?),
    })
}

impl TrialTarget {
    /// Creates a trial's working directory at the run's target, or joins an existing one.
    pub fn create(spec: &RunSpec, config: TargetConfig) -> Result<Self, TargetError> {
        let access = access_target(spec, &config)?;
        Ok(Self::from_access(access, config))
    }

    /// Creates a directory in this working directory, or joins it, as the target of a run on one
    /// of several sets of files. It is removed together with this target.
    pub fn create_part(
        &self,
        number: u32,
        spec: &RunSpec,
        pattern: Pattern,
    ) -> Result<Self, TargetError> {
        let config = TargetConfig {
            work_name: self.config.work_name.clone(),
            seed: self.config.seed,
            pattern,
            clock: Arc::clone(&self.config.clock),
            keep: true,
            stop: self.config.stop.clone(),
            share: self.config.share,
            joins: true,
        };
        let access = self.access.part(Name::new(Sort::Place, number), spec, &config)?;
        Ok(Self::from_access(access, config).scheduled_by(self.schedule_seed))
    }

    fn from_access(access: Box<dyn TargetAccess>, config: TargetConfig) -> Self {
        let schedule_seed = config.seed;
        Self { access, config, prepared: PreparedFixtures::default(), schedule_seed }
    }

    /// Uses a separate seed for the arrival times of an open loop.
    #[must_use]
    pub const fn scheduled_by(mut self, schedule_seed: u64) -> Self {
        self.schedule_seed = schedule_seed;
        self
    }

    /// Returns the seed for the arrival times of an open loop.
    pub const fn schedule_seed(&self) -> u64 {
        self.schedule_seed
    }

    /// Creates a target whose null backend loses every `nth` op, an injected fault for tests.
    pub fn with_losses(nth: u64, config: TargetConfig) -> Self {
        let access = Box::new(NullAccess { loses_every: Some(nth) });
        Self::from_access(access, config)
    }

    /// Creates this share of what a pass expects to find, unless an earlier pass has created it.
    /// Passes must run in the order in which they were prepared. Agents that join must prepare
    /// after the one that created the working directory.
    ///
    /// # Errors
    /// If it cannot be created, or a stop was requested.
    pub fn prepare(&self, spec: &RunSpec, pass: Pass) -> Result<(), TargetError> {
        let set = FileSet::new(spec);
        let todo = self.prepared.before(spec, pass, &set);
        self.access.prepare(todo, &set, spec, &self.config)
    }

    /// Opens the backend of one worker for one pass on its own files.
    ///
    /// # Errors
    /// If files cannot be opened or a connection cannot be made.
    pub fn open(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
    ) -> Result<OpenedBackend, TargetError> {
        self.open_files_of(spec, pass, worker, worker)
    }

    /// Opens the backend of one worker for one pass on the files that belong to worker `files_of`.
    ///
    /// # Errors
    /// If files cannot be opened or a connection cannot be made.
    pub(crate) fn open_files_of(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        files_of: u32,
    ) -> Result<OpenedBackend, TargetError> {
        let work = WorkerPass { spec, pass, worker, files_of, config: &self.config };
        let mut opened = self.access.open(work)?;
        // A transaction depends on the previous ones; two at the same time would collide. So does
        // an op of a developer's tool.
        let depends = pass == Pass::Transactions || pass.is_of_developer();
        if depends && opened.queue_depth > 1 {
            let what = if pass == Pass::Transactions { "transactions" } else { "ops" };
            let evidence = format!(
                "{} concurrent {what} per worker requested, 1 effective: each depends on \
                 earlier ones (hint: use more --workers)",
                opened.queue_depth
            );
            opened.queue_depth = 1;
            opened.caveats = vec![CaveatCode::OptionNotEffective.because(evidence)];
        }
        if spec.layout.mmap && !spec.backend.has_ability(Ability::MapFiles) {
            let evidence = format!(
                "mmap requested, but {} cannot map files and uses calls instead (hint: use backend \
                 posix)",
                spec.backend.name()
            );
            opened.caveats.push(CaveatCode::OptionNotEffective.because(evidence));
        }
        Ok(opened)
    }

    /// Counts the part of the working directory given by `whose`. Returns `None` for a target
    /// without files.
    pub fn inventory(&self, whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        self.access.inventory(whose)
    }

    /// Returns true if we created a working directory on this host's file system, rather than
    /// joining another agent's.
    pub fn made_directory(&self) -> bool {
        self.access.made_directory()
    }

    /// Takes ownership of a working directory that was joined, because the agent that created it is
    /// lost.
    pub fn adopt_directory(&mut self) {
        self.access.adopt_directory();
    }

    /// Assumes that this share's files exist, because this agent replaces the lost one that created
    /// them.
    pub fn assume_prepared(&self) {
        self.prepared.assume_prepared();
    }

    /// Returns the effective settings of the target.
    pub fn facts(&self) -> Vec<Fact> {
        self.access.facts()
    }

    /// Returns server resources borrowed for a pass after its window has ended. Returns facts about
    /// them.
    pub fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        self.access.end_pass(pass)
    }

    /// Shows other campaigns that this one is active. Called before and after each pass.
    pub fn show_life(&self) {
        self.access.show_life(&self.config);
    }

    /// Looks for working directories of other campaigns. Returns `None` if they cannot be listed,
    /// or the target has none.
    pub fn neighbors(&self) -> Option<Neighbors> {
        self.access.neighbors(&self.config)
    }

    /// Returns the caveats raised by the target itself, such as an unsupported option.
    pub fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        self.access.caveats(spec)
    }

    /// Returns the working directories that are on this host.
    pub fn local_paths(&self) -> Vec<PathBuf> {
        self.access.local_paths()
    }

    /// Closes all handles on this host's file systems, so that they can be unmounted.
    pub fn close_handles(&mut self) {
        self.access.close_handles();
    }

    /// Reopens the handles closed by [`Self::close_handles`].
    pub fn reopen_handles(&mut self) -> Result<(), TargetError> {
        self.access.reopen_handles()
    }

    /// Returns the clock of all workers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
    }

    /// Returns the journal of acknowledged writes, if there is one.
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        self.config.pattern.journal()
    }

    /// Removes the working directory, unless it should be kept.
    pub fn remove(mut self) -> Result<(), TargetError> {
        self.clean_up()
    }

    fn clean_up(&mut self) -> Result<(), TargetError> {
        // Dropping `self` afterwards finds nothing left to remove.
        let access = std::mem::replace(&mut self.access, Box::new(NullAccess::default()));
        if self.config.keep {
            access.keep_files();
            return Ok(());
        }
        access.remove(&self.config)
    }
}

/// Fails if a stop was requested.
fn check_stop(config: &TargetConfig) -> Result<(), TargetError> {
    if config.stop.is_set() { Err(TargetError::Interrupted) } else { Ok(()) }
}

impl Drop for TrialTarget {
    fn drop(&mut self) {
        // Callers that need to know about failures call `remove`.
        let _ = self.clean_up();
    }
}
