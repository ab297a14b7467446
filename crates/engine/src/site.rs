//! The place where one trial works: a directory, an NFS export, or nowhere.
//!
//! A site owns one working directory, `.dfsbench-<id>`, made when the site is made and removed
//! with everything in it when the site is removed or dropped; nothing else is touched. Preparing
//! and opening happen here, outside any timed window.

mod content;
mod directory;
pub mod leftover;
mod mark;
mod nfs;
mod patience;
mod stock;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::work::Sharing;
use model::{
    BackendKind, Caveat, CaveatCode, Fact, Panicked, Pass, RunSpec, Share, Target, TcpTarget,
    Workload,
};
use workload::{FileSet, Journal, Name, Pattern};

use crate::backend::Backend;
use crate::backend::memory::Memory;
use crate::backend::null::Null;
use crate::backend::tcp::{self, Tcp};
use crate::clock::Clock;
use crate::limits::PREPARE_IO;
use crate::stop::Stop;
use content::content;
use directory::DirectorySite;
use nfs::NfsSite;
use stock::Made;

pub use content::pattern_of;

/// Why a site can't be made, prepared or opened. Each says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
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
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The files won't fit.
    #[error(
        "not enough space in `{place}`: the files need {needed}, {free} are free \
        (hint: a smaller --file-size or fewer --files)"
    )]
    NoSpace {
        /// Where.
        place: String,
        /// Size of the file set.
        needed: String,
        /// What is free.
        free: String,
    },
    /// The file system refuses `O_DIRECT`.
    #[error("the file system of `{}` has no O_DIRECT (hint: --direct false)", .0.display())]
    NoDirect(PathBuf),
    /// A file that is to be read does not hold what will be asked for.
    #[error(
        "reading what was never written is refused: `{place}` holds {written} of {wanted} \
        (hint: have a write pass without bounds go before)"
    )]
    Unwritten {
        /// The file.
        place: String,
        /// What it holds from its start on.
        written: String,
        /// What it should hold.
        wanted: String,
    },
    /// A call failed.
    #[error("can't {what} `{place}`: {reason}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or directory.
        place: String,
        /// What the system said.
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
        /// What it said.
        panicked: Panicked,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a site is made from.
pub struct SiteConfig {
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
    /// Set by whoever wants everything to stop, preparations too.
    pub stop: Stop,
    /// The workers whose files it makes and counts: all of the run's, or those of this agent.
    pub share: Share,
    /// The working directory may be there already, and is then removed by whoever made it.
    pub joins: bool,
}

/// The most that one call moves, in bytes: files of a metadata run are written whole.
fn largest_op(spec: &RunSpec) -> u32 {
    match spec.workload {
        Workload::Metadata => u32::try_from(spec.file_size_bytes).unwrap_or(PREPARE_IO),
        _ => spec.io_size_bytes,
    }
}

/// Which files a worker has open in a pass: the number of the first one, and from each to the next.
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
    /// Doubts that opening raised, such as a fallback.
    pub caveats: Vec<Caveat>,
    /// The kernel counts this backend's reads and writes per thread.
    pub kernel_counts: bool,
    /// Ops that the worker keeps in flight.
    pub queue_depth: usize,
}

/// What is in the working directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// How many files; one with two names counts twice.
    pub files: u64,
    /// Their sizes, added up.
    pub bytes: u64,
    /// How many directories, the working directory not counted.
    pub directories: u64,
    /// How many symbolic links.
    pub links: u64,
}

/// What of a working directory is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All that is there.
    Everybodys,
    /// What has a number that belongs to a share of so many workers.
    Of(Share, u32),
}

impl Whose {
    /// Says whether a name is counted; what is nobody's, the first workers count.
    pub fn counts(self, name: &[u8]) -> bool {
        let Self::Of(share, workers) = self else { return true };
        Name::number_of(name).map_or(share.first == 0, |number| share.owns(number, workers))
    }
}

/// Where one trial works.
pub struct Site {
    place: Place,
    config: SiteConfig,
    made: Made,
}

enum Place {
    Null { loses: Option<u64> },
    Memory,
    Tcp(TcpTarget),
    Directory(DirectorySite),
    Nfs(Box<NfsSite>),
}

impl Site {
    /// Makes the working directory of a trial at the run's target, or joins those who work there.
    ///
    /// # Errors
    /// When the target can't be used.
    pub fn create(spec: &RunSpec, config: SiteConfig) -> Result<Self, SiteError> {
        let place = match &spec.target {
            Target::Null => Place::Null { loses: None },
            Target::Memory => Place::Memory,
            Target::Tcp(target) => Place::Tcp(target.clone()),
            Target::Directory { path } => {
                let targets = std::slice::from_ref(path);
                Place::Directory(DirectorySite::create(targets, spec, &config)?)
            }
            Target::Directories { paths } => {
                Place::Directory(DirectorySite::create(paths, spec, &config)?)
            }
            Target::Nfs(target) => Place::Nfs(Box::new(NfsSite::create(target, spec, &config)?)),
        };
        Ok(Self { place, config, made: Made::default() })
    }

    /// A site whose null backend loses every `nth` op: a planted fault, for tests.
    pub fn losing(nth: u64, config: SiteConfig) -> Self {
        Self { place: Place::Null { loses: Some(nth) }, config, made: Made::default() }
    }

    /// Makes what of its share a pass expects to find and no earlier pass has made. Passes are
    /// expected to be made in the order in which they are prepared, and those who join to prepare
    /// after whoever made the working directory.
    ///
    /// # Errors
    /// When it can't be made, or somebody asked to stop.
    pub fn prepare(&self, spec: &RunSpec, pass: Pass) -> Result<(), SiteError> {
        let set = FileSet::of(spec, self.config.seed);
        let todo = self.made.before(spec, pass, &set);
        match &self.place {
            Place::Null { .. } | Place::Memory | Place::Tcp(_) => Ok(()),
            Place::Directory(site) => site.prepare(todo, &set, spec, &self.config),
            Place::Nfs(site) => site.prepare(todo, &set, spec, &self.config),
        }
    }

    /// Opens the backend of one worker for one pass.
    ///
    /// # Errors
    /// When files can't be opened or a connection can't be made.
    pub fn open(&self, spec: &RunSpec, pass: Pass, worker: u32) -> Result<Opened, SiteError> {
        let mut opened = self.open_place(spec, pass, worker)?;
        // A transaction works on what those before it made: two at once would meet on one file.
        if pass == Pass::Transactions && opened.queue_depth > 1 {
            let evidence = format!(
                "{} transactions of a worker at once asked for, 1 in force: each relies on those \
                before it (hint: more --workers)",
                opened.queue_depth
            );
            opened.queue_depth = 1;
            opened.caveats = vec![CaveatCode::OptionNotInForce.because(evidence)];
        }
        let maps = matches!(spec.backend, BackendKind::Posix | BackendKind::Null);
        if spec.layout.mmap && !maps {
            let evidence = format!(
                "mmap asked for, calls in force: {} maps no files (hint: backend posix)",
                spec.backend.name()
            );
            opened.caveats.push(CaveatCode::OptionNotInForce.because(evidence));
        }
        Ok(opened)
    }

    fn open_place(&self, spec: &RunSpec, pass: Pass, worker: u32) -> Result<Opened, SiteError> {
        match &self.place {
            Place::Null { loses } => {
                let null = Null::new(Arc::clone(self.clock()), spec.queue_depth as usize);
                let null = match loses {
                    Some(nth) => null.losing_every(*nth),
                    None => null,
                };
                Ok(plain(spec.queue_depth as usize, Box::new(null)))
            }
            Place::Memory => {
                let (depth, io_size) = (spec.queue_depth as usize, spec.io_size_bytes as usize);
                let clock = Arc::clone(self.clock());
                let memory = Memory::new(clock, depth, io_size, spec.set_bytes());
                Ok(plain(depth, Box::new(memory)))
            }
            Place::Tcp(target) => self.open_tcp(spec, target),
            Place::Directory(site) => site.open(spec, pass, worker, &self.config),
            Place::Nfs(site) => site.open(spec, pass, worker, &self.config),
        }
    }

    fn open_tcp(&self, spec: &RunSpec, target: &TcpTarget) -> Result<Opened, SiteError> {
        let failed = |error: std::io::Error| SiteError::Io {
            what: "connect to",
            place: spec.target.to_string(),
            reason: error.to_string(),
        };
        let timeout = Duration::from_millis(spec.timeout_ms);
        let stream = tcp::connect(target, timeout).map_err(failed)?;
        let (depth, io_size) = (spec.queue_depth as usize, spec.io_size_bytes as usize);
        let timeout_ns = spec.timeout_ms.saturating_mul(1_000_000);
        let backend = Tcp::new(stream, Arc::clone(self.clock()), depth, io_size, timeout_ns);
        Ok(plain(depth, Box::new(backend)))
    }

    /// Counts what is in the working directory, as far as it is `whose`; `None` for a target
    /// without files.
    ///
    /// # Errors
    /// When it can't be listed.
    pub fn census(&self, whose: Whose) -> Result<Option<Census>, SiteError> {
        match &self.place {
            Place::Null { .. } | Place::Memory | Place::Tcp(_) => Ok(None),
            Place::Directory(site) => site.census(whose).map(Some),
            Place::Nfs(site) => site.census(whose).map(Some),
        }
    }

    /// Takes a working directory that was joined for its own: whoever made it is lost.
    pub fn inherit(&mut self) {
        match &mut self.place {
            Place::Null { .. } | Place::Memory | Place::Tcp(_) => {}
            Place::Directory(site) => site.inherit(),
            Place::Nfs(site) => site.inherit(),
        }
    }

    /// Takes the files of its share as made: whoever made them is lost, and this goes on.
    pub fn take_over(&self) {
        self.made.take_over();
    }

    /// Settings of the target that are in force.
    pub fn facts(&self) -> Vec<Fact> {
        match &self.place {
            Place::Null { .. } | Place::Memory | Place::Tcp(_) => Vec::new(),
            Place::Directory(site) => site.facts(),
            Place::Nfs(site) => site.facts(),
        }
    }

    /// Doubts that the target raised by itself, such as an option that it refused.
    pub fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        match &self.place {
            Place::Nfs(site) => site.caveats(spec.transfer_size_bytes),
            _ => Vec::new(),
        }
    }

    /// The working directories, where they are on this host.
    pub fn local_paths(&self) -> Vec<PathBuf> {
        match &self.place {
            Place::Directory(site) => site.work_paths(),
            _ => Vec::new(),
        }
    }

    /// Holds nothing open on file systems of this host, so that they can be unmounted.
    pub fn let_go(&mut self) {
        if let Place::Directory(site) = &mut self.place {
            site.let_go();
        }
    }

    /// Opens again what [`Self::let_go`] closed.
    ///
    /// # Errors
    /// When the working directory isn't there any more.
    pub fn hold(&mut self) -> Result<(), SiteError> {
        match &mut self.place {
            Place::Directory(site) => site.hold(),
            _ => Ok(()),
        }
    }

    /// The clock of all workers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
    }

    /// The books on what was acknowledged, where they are kept.
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        self.config.pattern.journal()
    }

    /// Removes the working directory, unless it is to be kept.
    ///
    /// # Errors
    /// When something of ours could not be removed.
    pub fn remove(mut self) -> Result<(), SiteError> {
        self.clean()
    }

    fn clean(&mut self) -> Result<(), SiteError> {
        let place = std::mem::replace(&mut self.place, Place::Null { loses: None });
        match place {
            Place::Nfs(site) if self.config.keep => {
                site.leave();
                Ok(())
            }
            _ if self.config.keep => Ok(()),
            Place::Null { .. } | Place::Memory | Place::Tcp(_) => Ok(()),
            Place::Directory(site) => site.remove(&*self.config.clock),
            Place::Nfs(site) => site.remove(),
        }
    }
}

/// A backend without doubts, and with as much in flight as was asked for.
fn plain(queue_depth: usize, backend: Box<dyn Backend>) -> Opened {
    Opened { backend, caveats: Vec::new(), kernel_counts: false, queue_depth }
}

/// Fails when somebody asked to stop.
fn interrupted(config: &SiteConfig) -> Result<(), SiteError> {
    if config.stop.is_set() { Err(SiteError::Interrupted) } else { Ok(()) }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Whoever wants to know of a failure calls `remove`.
        let _ = self.clean();
    }
}
