//! The place where one trial works: a directory, an NFS export, or nowhere.
//!
//! A site owns one working directory, `.dfsbench-<id>`, made when the site is made and removed
//! with everything in it when the site is removed or dropped; nothing else is touched. Preparing
//! and opening happen here, outside any timed window.

mod directory;
mod nfs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use model::{Caveat, Fact, Pass, RunSpec, Target};
use workload::Pattern;

use crate::backend::Backend;
use crate::backend::null::Null;
use crate::clock::Clock;
use crate::limits::PREPARE_IO;
use directory::DirectorySite;
use nfs::NfsSite;

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
    /// Another worker could not open its files.
    #[error("stopped, because another worker could not start")]
    Stopped,
    /// The system refused a thread.
    #[error("can't start {0} workers: {1} (hint: fewer --workers, or a higher limit of threads)")]
    Threads(u32, String),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a site is made from.
pub struct SiteConfig {
    /// Name of the working directory.
    pub work_name: String,
    /// Content of the files.
    pub pattern: Pattern,
    /// The clock of all workers.
    pub clock: Arc<dyn Clock>,
    /// Leave the working directory behind.
    pub keep: bool,
    /// Set by whoever wants everything to stop, preparations too.
    pub stop: Arc<AtomicBool>,
}

/// Makes the content of a run's files, for ops of every size that the run issues.
pub fn pattern_of(spec: &RunSpec, seed: u64) -> Pattern {
    let about_names = spec.workload.is_about_names();
    let largest = if about_names { spec.file_size_bytes } else { spec.io_size_bytes.into() };
    Pattern::new(seed, (largest as usize).max(PREPARE_IO as usize))
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
    /// How many files.
    pub files: u64,
    /// Their sizes, added up.
    pub bytes: u64,
}

/// Where one trial works.
pub struct Site {
    place: Place,
    config: SiteConfig,
}

enum Place {
    Null { loses: Option<u64> },
    Directory(DirectorySite),
    Nfs(Box<NfsSite>),
}

impl Site {
    /// Makes the working directory of a trial at the run's target.
    ///
    /// # Errors
    /// When the target can't be used.
    pub fn create(spec: &RunSpec, config: SiteConfig) -> Result<Self, SiteError> {
        let place = match &spec.target {
            Target::Null => Place::Null { loses: None },
            Target::Directory { path } => {
                Place::Directory(DirectorySite::create(path, &config.work_name, spec)?)
            }
            Target::Nfs(target) => Place::Nfs(Box::new(NfsSite::create(target, spec, &config)?)),
        };
        Ok(Self { place, config })
    }

    /// A site whose null backend loses every `nth` op: a planted fault, for tests.
    pub fn losing(nth: u64, config: SiteConfig) -> Self {
        Self { place: Place::Null { loses: Some(nth) }, config }
    }

    /// Makes the files that a pass expects to find.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn prepare(&self, spec: &RunSpec, pass: Pass) -> Result<(), SiteError> {
        if pass != Pass::Mix {
            return Ok(());
        }
        match &self.place {
            Place::Null { .. } => Ok(()),
            Place::Directory(site) => site.fill(spec, &self.config),
            Place::Nfs(site) => site.fill(spec, &self.config),
        }
    }

    /// Opens the backend of one worker for one pass.
    ///
    /// # Errors
    /// When files can't be opened or a connection can't be made.
    pub fn open(&self, spec: &RunSpec, pass: Pass, worker: u32) -> Result<Opened, SiteError> {
        match &self.place {
            Place::Null { loses } => {
                let null = Null::new(Arc::clone(self.clock()), spec.queue_depth as usize);
                let null = match loses {
                    Some(nth) => null.losing_every(*nth),
                    None => null,
                };
                Ok(Opened {
                    backend: Box::new(null),
                    caveats: Vec::new(),
                    kernel_counts: false,
                    queue_depth: spec.queue_depth as usize,
                })
            }
            Place::Directory(site) => site.open(spec, pass, worker, &self.config),
            Place::Nfs(site) => site.open(spec, pass, worker, &self.config),
        }
    }

    /// Counts what is in the working directory; `None` for a target without files.
    ///
    /// # Errors
    /// When it can't be listed.
    pub fn census(&self) -> Result<Option<Census>, SiteError> {
        match &self.place {
            Place::Null { .. } => Ok(None),
            Place::Directory(site) => site.census().map(Some),
            Place::Nfs(site) => site.census().map(Some),
        }
    }

    /// Settings of the target that are in force.
    pub fn facts(&self) -> Vec<Fact> {
        match &self.place {
            Place::Null { .. } => Vec::new(),
            Place::Directory(site) => site.facts(),
            Place::Nfs(site) => site.facts(),
        }
    }

    /// Doubts that the target raised by itself, such as an option that it refused.
    pub fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        match &self.place {
            Place::Null { .. } | Place::Directory(_) => Vec::new(),
            Place::Nfs(site) => site.caveats(spec),
        }
    }

    /// The working directory, where it is one of this host.
    pub fn local_path(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Directory(site) => Some(site.work_path()),
            Place::Null { .. } | Place::Nfs(_) => None,
        }
    }

    /// The clock of all workers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
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
            _ if self.config.keep => Ok(()),
            Place::Null { .. } => Ok(()),
            Place::Directory(site) => site.remove(),
            Place::Nfs(site) => site.remove(),
        }
    }
}

/// Fails when somebody asked to stop.
fn interrupted(config: &SiteConfig) -> Result<(), SiteError> {
    if config.stop.load(Relaxed) { Err(SiteError::Interrupted) } else { Ok(()) }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Whoever wants to know of a failure calls `remove`.
        let _ = self.clean();
    }
}
