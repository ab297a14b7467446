//! What a process does before it makes a campaign: it checks the outputs and gathers the agents of
//! a job.
//!
//! Principal type: [`Session`], which all commands that make trials start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use fleet::job::Job;
use plan::Surroundings;
use results::{Store, StoreError};

use super::observer::{CampaignObserver, visibility};
use crate::args::{JobArgs, MakingArgs};
use crate::exit::Failure;
use crate::progress::{Progress, Visibility, check_screen};
use crate::{agents, embedded, foreign_folder, render, signals};

/// The making of one campaign in this process.
pub struct Session<'a> {
    pub making: &'a MakingArgs,
    /// Set by the first signal.
    pub stop: Arc<AtomicBool>,
    /// The stored campaign that is resumed.
    pub resumes: Option<i64>,
    /// The hosts of a job, until a campaign takes their agents.
    pub(super) job: Option<Job>,
    /// When the page beside the results file was last written; `None` if there is none.
    pub(super) page_written: Option<SystemTime>,
}

impl<'a> Session<'a> {
    /// Checks that results can be kept, and waits for the agents of a job, if one is requested.
    ///
    /// # Errors
    /// When results can't be kept, or not all agents come.
    pub fn start(making: &'a MakingArgs, job: &JobArgs) -> Result<Self, Failure> {
        let mut session = Self::silent(making, signals::stop_flag()?);
        if making.watch {
            check_screen(making.json_progress.as_deref())?;
        }
        check_outputs(&making.results)?;
        foreign_folder::warn_beside(&making.results);
        // Files of many workers are open at once; more than the soft limit is no surprise.
        embedded::raise_descriptor_limit();
        if let Some(request) = job.request() {
            session.job = Some(agents::gather_job(&request, &session.stop)?);
        }
        Ok(session)
    }

    /// Begins trials that are not stored, and so need no outputs.
    pub fn silent(making: &'a MakingArgs, stop: Arc<AtomicBool>) -> Self {
        let page_written = last_written(&page_path(&making.results));
        Self { making, stop, resumes: None, job: None, page_written }
    }

    /// Adds the hosts of the job, whose names are known now. Returns false if there is no job.
    pub fn add_job_hosts(&self, around: &mut Surroundings) -> bool {
        let Some(job) = &self.job else { return false };
        around.job = Some(job.hosts().to_vec());
        true
    }

    pub fn visibility(&self) -> Visibility {
        visibility(self.making)
    }

    /// Begins to show a campaign of so many trials; 0 where their number is not known.
    ///
    /// # Errors
    /// When the file for programs can't be opened.
    pub fn observe(&self, progress: Progress, trials: usize) -> Result<CampaignObserver, Failure> {
        CampaignObserver::start(self.making, progress, trials)
    }
}

/// Checks that a results file and its page can be written.
///
/// # Errors
/// When they can't.
pub fn check_outputs(results: &Path) -> Result<(), Failure> {
    results::check_results_path(results)?;
    if results.exists() {
        match Store::open_existing(results) {
            // Such a file is left by a process that was killed before its first transaction ended.
            Ok(_) | Err(StoreError::Empty(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    render::check_page(&page_path(results), results)
}

/// Returns the path of the page that belongs to a results file.
pub fn page_path(results: &Path) -> PathBuf {
    results.with_extension("html")
}

pub(super) fn last_written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}
