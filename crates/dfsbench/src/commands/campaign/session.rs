//! What a process does before it runs a campaign: it checks the outputs and gathers the agents of a
//! job.
//!
//! [`Session`] is the main type. All commands that run trials start one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use fleet::job::Job;
use plan::Surroundings;
use results::{Store, StoreError};

use super::observer::{CampaignObserver, visibility};
use crate::args::{JobArgs, TrialArgs};
use crate::commands::render;
use crate::exit::Failure;
use crate::files::foreign_folder;
use crate::hosts::agents;
use crate::server::embedded;
use crate::signals;
use crate::terminal::progress::{Progress, Visibility, check_screen};

/// One campaign run by this process.
pub(crate) struct Session<'a> {
    pub making: &'a TrialArgs,
    /// Set by the first signal.
    pub stop: Arc<AtomicBool>,
    /// ID of the stored campaign to resume.
    pub resumes: Option<i64>,
    /// Hosts of a job, until a campaign takes over their agents.
    pub(super) job: Option<Job>,
    /// When the page next to the results file was last written; `None` if there is none.
    pub(super) page_written: Option<SystemTime>,
}

impl<'a> Session<'a> {
    /// Checks that results can be stored, and waits for the agents of a job, if there is one.
    ///
    /// # Errors
    /// If results can't be stored or not all agents connect.
    pub(crate) fn start(making: &'a TrialArgs, job: &JobArgs) -> Result<Self, Failure> {
        let mut session = Self::silent(making, signals::stop_flag()?);
        if making.watch {
            check_screen(making.json_progress.as_deref())?;
        }
        check_outputs(&making.results)?;
        foreign_folder::warn_beside(&making.results);
        // Many workers keep files open at the same time, which easily exceeds the soft limit.
        embedded::raise_descriptor_limit();
        if let Some(request) = job.request() {
            session.job = Some(agents::gather_job(&request, &session.stop)?);
        }
        Ok(session)
    }

    /// Starts a session whose trials are not stored, so that it needs no outputs.
    pub(crate) fn silent(making: &'a TrialArgs, stop: Arc<AtomicBool>) -> Self {
        let page_written = last_written(&page_path(&making.results));
        Self { making, stop, resumes: None, job: None, page_written }
    }

    /// Adds the hosts of the job, whose names are now known. Returns false if there is no job.
    pub(crate) fn add_job_hosts(&self, around: &mut Surroundings) -> bool {
        let Some(job) = &self.job else { return false };
        around.job = Some(job.hosts().to_vec());
        true
    }

    pub(crate) fn visibility(&self) -> Visibility {
        visibility(self.making)
    }

    /// Starts to show a campaign of this many trials; 0 if the number is unknown.
    ///
    /// # Errors
    /// If the file for `--json-progress` can't be opened.
    pub(crate) fn observe(
        &self,
        progress: Progress,
        trials: usize,
    ) -> Result<CampaignObserver, Failure> {
        CampaignObserver::start(self.making, progress, trials)
    }
}

/// Checks that a results file and its page can be written.
pub(crate) fn check_outputs(results: &Path) -> Result<(), Failure> {
    results::check_results_path(results)?;
    if results.exists() {
        match Store::open_existing(results) {
            // A process that was killed before its first transaction leaves an empty file.
            Ok(_) | Err(StoreError::Empty(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    render::check_page(&page_path(results), results)
}

pub(crate) fn page_path(results: &Path) -> PathBuf {
    results.with_extension("html")
}

pub(super) fn last_written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}
