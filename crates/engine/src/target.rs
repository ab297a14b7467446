//! The target of one trial: a directory, an NFS export, or nowhere.
//!
//! A [`TrialTarget`] owns one working directory, `.dfsbench-<id>`, made when the target is made and
//! removed with everything in it when the target is removed or dropped; nothing else is touched.
//! Preparing and opening are done here, outside any timed window.

mod access;
mod content;
mod directory;
mod fixtures;
mod job_timer;
pub mod leftover;
pub mod marked;
mod memory;
mod mount_options;
mod neighbor_search;
mod neighbors;
mod nfs;
pub mod removal;
mod tcp;

use std::path::PathBuf;
use std::sync::Arc;

use model::units::Size;
use model::work::Sharing;
use model::{Ability, Caveat, CaveatCode, Fact, Panicked, Pass, RunSpec, Share, Target, Workload};
use workload::{FileSet, Journal, Name, Pattern};

use crate::backend::Backend;
use crate::clock::Clock;
use crate::limits::PREPARE_IO;
use crate::stop::Stop;
use access::{NullAccess, TargetAccess, WorkerPass};
use content::content_of;
use directory::DirectoryAccess;
use fixtures::PreparedFixtures;
use memory::MemoryAccess;
use nfs::NfsAccess;
use tcp::TcpAccess;

pub use content::{follow_rewrites, pattern_of};
pub use mount_options::mount_options;
pub use neighbors::Neighbors;

/// Why a target can't be made, prepared or opened. Each says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The directory is not there.
    #[error("directory `{}` does not exist (hint: create it, or name another)", .0.display())]
    Missing(PathBuf),
    /// The path is something else.
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// We may not write there.
    #[error("directory `{}` is not writable: {reason} (hint: check its owner and mount options)",
        path.display())]
    NotWritable {
        /// The directory in question.
        path: PathBuf,
        /// The reason that the system gave.
        reason: String,
    },
    /// The files won't fit.
    #[error(
        "not enough space in `{location}`: the files need {needed}, {free} are free \
        (hint: a smaller --file-size or fewer --files)"
    )]
    NoSpace {
        /// The file system in question.
        location: String,
        /// Size of the file set.
        needed: String,
        /// Space that is free.
        free: String,
    },
    /// The file system refuses `O_DIRECT`.
    #[error("the file system of `{}` has no O_DIRECT (hint: --direct false)", .0.display())]
    NoDirect(PathBuf),
    /// A file that is to be read does not hold what ops will read.
    #[error(
        "reading what was never written is refused: `{location}` holds {written} of {wanted} \
        (hint: have a write pass without bounds go before)"
    )]
    Unwritten {
        /// The file in question.
        location: String,
        /// The start of its content.
        written: String,
        /// The content that it should have.
        wanted: String,
    },
    /// A call failed.
    #[error("can't {what} `{location}`: {reason}")]
    Io {
        /// The action that was tried.
        what: &'static str,
        /// On which file or directory.
        location: String,
        /// The reason that the system gave.
        reason: String,
    },
    /// The NFS server could not be used.
    #[error("{0}")]
    Nfs(String),
    /// A program that works in our place could not be used.
    #[error("{0}")]
    Program(String),
    /// Another worker could not open its files.
    #[error("stopped, because another worker could not start")]
    Stopped,
    /// The system refused a thread.
    #[error("can't start {0} workers: {1} (hint: fewer --workers, or a higher limit of threads)")]
    Threads(u32, String),
    /// A worker panicked: a bug of ours, which ends the trial and nothing else.
    #[error("worker {worker} {panicked}")]
    Panicked {
        /// The number of the worker, from 0 on.
        worker: u32,
        /// The message of the panic.
        panicked: Panicked,
    },
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}

/// The settings from which a target is made.
pub struct TargetConfig {
    /// Name of the working directory.
    pub work_name: String,
    /// Seed of the pass's ops, which the sizes of files depend on.
    pub seed: u64,
    /// Content of the files.
    pub pattern: Pattern,
    /// The clock of all workers.
    pub clock: Arc<dyn Clock>,
    /// Leave the working directory behind.
    pub keep: bool,
    /// Set to stop everything, preparations too.
    pub stop: Stop,
    /// The workers whose files it makes and counts: all of the run's, or those of this agent.
    pub share: Share,
    /// The working directory may be there already, and is then removed by the agent that made it.
    pub joins: bool,
}

/// The most that one call moves, in bytes: files of a metadata run are written whole.
fn largest_op(spec: &RunSpec) -> u32 {
    match spec.workload {
        Workload::Metadata => u32::try_from(spec.file_size_bytes).unwrap_or(PREPARE_IO),
        _ => spec.io_size_bytes,
    }
}

/// Returns the files that a worker has open in a pass: the number of the first one, and from each
/// to the next.
fn opened_files(spec: &RunSpec, pass: Pass, worker: u32) -> (u32, u32) {
    let anywhere = matches!(pass, Pass::Mix | Pass::Seeks | Pass::OpMix);
    if anywhere || spec.layout.sharing == Sharing::Shared {
        return (0, 1);
    }
    (worker, spec.workers)
}

/// Says whether each worker of a pass works on the files of all.
pub fn works_anywhere(spec: &RunSpec, pass: Pass) -> bool {
    spec.workers == 1 || opened_files(spec, pass, 0).1 < spec.workers
}

/// A backend that is ready to go.
pub struct Opened {
    /// Executes the worker's ops.
    pub backend: Box<dyn Backend>,
    /// Caveats that opening raised, such as a fallback.
    pub caveats: Vec<Caveat>,
    /// The kernel counts this backend's reads and writes per thread.
    pub kernel_counts: bool,
    /// Ops that the worker keeps in flight.
    pub queue_depth: usize,
}

impl TargetError {
    /// Refuses a file that holds `written` of the `wanted` bytes that are to be read.
    fn unwritten(location: String, written: u64, wanted: u64) -> Self {
        let (written, wanted) = (Size(written).to_string(), Size(wanted).to_string());
        Self::Unwritten { location, written, wanted }
    }
}

impl Opened {
    /// A backend without caveats, and with the requested number of ops in flight.
    fn without_caveats(queue_depth: u32, backend: Box<dyn Backend>) -> Self {
        let queue_depth = queue_depth as usize;
        Self { backend, caveats: Vec::new(), kernel_counts: false, queue_depth }
    }
}

/// The inventory of the working directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// How many files; one with two names counts twice.
    pub files: u64,
    /// Their sizes, added up.
    pub bytes: u64,
    /// How many directories, the working directory not counted.
    pub directories: u64,
    /// How many symbolic links.
    pub links: u64,
    /// How many files that were removed while a client had them open, and that are kept under
    /// another name (`.fuse_hidden...`, `.nfs...`) until it closes them. They are no files of the
    /// directory any more.
    pub removed_but_open: u64,
}

/// The part of a working directory that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryScope {
    /// All that is there.
    All,
    /// Names with a number that belongs to a share of so many workers.
    OfShare(Share, u32),
}

impl InventoryScope {
    /// Says whether a name is counted; the first workers count what belongs to none.
    pub fn counts_name(self, name: &[u8]) -> bool {
        let Self::OfShare(share, workers) = self else { return true };
        match Name::number_of(name) {
            Some(number) => share.owns(number, workers),
            None => share.first == 0,
        }
    }
}

/// The target of one trial.
pub struct TrialTarget {
    access: Box<dyn TargetAccess>,
    config: TargetConfig,
    prepared: PreparedFixtures,
    schedule_seed: u64,
}

/// Makes the place where a trial works: the one match over kinds of targets.
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
    /// Makes the working directory of a trial at the run's target, or joins those who work there.
    ///
    /// # Errors
    /// When the target can't be used.
    pub fn create(spec: &RunSpec, config: TargetConfig) -> Result<Self, TargetError> {
        let access = access_target(spec, &config)?;
        Ok(Self::of(access, config))
    }

    fn of(access: Box<dyn TargetAccess>, config: TargetConfig) -> Self {
        let schedule_seed = config.seed;
        Self { access, config, prepared: PreparedFixtures::default(), schedule_seed }
    }

    /// Draws the scheduled instants of an open loop from a seed apart from that of the ops.
    #[must_use]
    pub const fn scheduled_by(mut self, schedule_seed: u64) -> Self {
        self.schedule_seed = schedule_seed;
        self
    }

    /// The seed of the scheduled instants of an open loop.
    pub const fn schedule_seed(&self) -> u64 {
        self.schedule_seed
    }

    /// A target whose null backend loses every `nth` op: a planted fault, for tests.
    pub fn losing(nth: u64, config: TargetConfig) -> Self {
        let access = Box::new(NullAccess { loses_every: Some(nth) });
        Self::of(access, config)
    }

    /// Makes what of its share a pass expects to find and no earlier pass has made. Passes are
    /// expected to be made in the order in which they are prepared, and those who join to prepare
    /// after the agent that made the working directory.
    ///
    /// # Errors
    /// When it can't be made, or a stop was requested.
    pub fn prepare(&self, spec: &RunSpec, pass: Pass) -> Result<(), TargetError> {
        let set = FileSet::of(spec, self.config.seed);
        let todo = self.prepared.before(spec, pass, &set);
        self.access.prepare(todo, &set, spec, &self.config)
    }

    /// Opens the backend of one worker for one pass.
    ///
    /// # Errors
    /// When files can't be opened or a connection can't be made.
    pub fn open(&self, spec: &RunSpec, pass: Pass, worker: u32) -> Result<Opened, TargetError> {
        let work = WorkerPass { spec, pass, worker, config: &self.config };
        let mut opened = self.access.open(work)?;
        // A transaction works on what those before it made: two at once would meet on one file.
        if pass == Pass::Transactions && opened.queue_depth > 1 {
            let evidence = format!(
                "{} transactions of a worker at once requested, 1 effective: each relies on those \
                before it (hint: more --workers)",
                opened.queue_depth
            );
            opened.queue_depth = 1;
            opened.caveats = vec![CaveatCode::OptionNotEffective.because(evidence)];
        }
        if spec.layout.mmap && !spec.backend.can(Ability::MapFiles) {
            let evidence = format!(
                "mmap requested, calls effective: {} maps no files (hint: backend posix)",
                spec.backend.name()
            );
            opened.caveats.push(CaveatCode::OptionNotEffective.because(evidence));
        }
        Ok(opened)
    }

    /// Counts what is in the working directory, as far as it is `whose`; `None` for a target
    /// without files.
    ///
    /// # Errors
    /// When it can't be listed.
    pub fn inventory(&self, whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        self.access.inventory(whose)
    }

    /// Says whether a working directory was made here, on this host's file system, and not found as
    /// another agent's.
    pub fn made_directory(&self) -> bool {
        self.access.made_directory()
    }

    /// Takes a working directory that was joined for its own: the agent that made it is lost.
    pub fn adopt_directory(&mut self) {
        self.access.adopt_directory();
    }

    /// Takes the files of its share as made: the agent that made them is lost, and this one goes
    /// on.
    pub fn assume_prepared(&self) {
        self.prepared.assume_prepared();
    }

    /// Returns the effective settings of the target.
    pub fn facts(&self) -> Vec<Fact> {
        self.access.facts()
    }

    /// Returns to the server what it lent for a pass, whose window is over, and lists the counts of
    /// it.
    pub fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        self.access.end_pass(pass)
    }

    /// Shows other campaigns that this one works here: before and after each pass.
    pub fn show_life(&self) {
        self.access.show_life(&self.config);
    }

    /// Looks for working directories of other campaigns; `None` if they can't be listed, or the
    /// target has none.
    pub fn neighbors(&self) -> Option<Neighbors> {
        self.access.neighbors(&self.config)
    }

    /// Returns the caveats that the target raised by itself, such as an option that it refused.
    pub fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        self.access.caveats(spec)
    }

    /// The working directories, where they are on this host.
    pub fn local_paths(&self) -> Vec<PathBuf> {
        self.access.local_paths()
    }

    /// Holds nothing open on file systems of this host, so that they can be unmounted.
    pub fn close_handles(&mut self) {
        self.access.close_handles();
    }

    /// Opens again what [`Self::close_handles`] closed.
    ///
    /// # Errors
    /// When the working directory isn't there any more.
    pub fn reopen_handles(&mut self) -> Result<(), TargetError> {
        self.access.reopen_handles()
    }

    /// The clock of all workers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
    }

    /// Returns the journal of what was acknowledged, where one is kept.
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        self.config.pattern.journal()
    }

    /// Removes the working directory, unless it is to be kept.
    ///
    /// # Errors
    /// When something of ours could not be removed.
    pub fn remove(mut self) -> Result<(), TargetError> {
        self.clean_up()
    }

    fn clean_up(&mut self) -> Result<(), TargetError> {
        // What drops afterwards finds nothing more to remove.
        let access = std::mem::replace(&mut self.access, Box::new(NullAccess::default()));
        if self.config.keep {
            access.keep_files();
            return Ok(());
        }
        access.remove(&self.config)
    }
}

/// Fails when a stop was requested.
fn check_stop(config: &TargetConfig) -> Result<(), TargetError> {
    if config.stop.is_set() { Err(TargetError::Interrupted) } else { Ok(()) }
}

impl Drop for TrialTarget {
    fn drop(&mut self) {
        // A caller that needs to know of a failure calls `remove`.
        let _ = self.clean_up();
    }
}
