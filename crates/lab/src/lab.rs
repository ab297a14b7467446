//! The changes that were made to this host, as a stack: the last is put back first.
//!
//! Principal type: [`Lab`]. A change is in the undo log before it is made, and what fails half-way
//! is put back at once, so that the stack holds whole changes only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::{Action, EffectiveSettings, Fact, Invalidation};

use crate::actions::{self, Prepared};
use crate::commands::Runner;
use crate::error::LabError;
use crate::invalidate;
use crate::log::UndoLog;
use crate::restore::restore_all;
use crate::undo::Undo;

/// The longest time for an earlier dfsbench that was killed to let go of the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Changes of this host that are to be undone.
#[derive(Debug)]
pub struct Lab {
    campaign: String,
    allow_destroy: Vec<PathBuf>,
    /// Whether files that the campaign leaves where this host serves stay there.
    keeps_files: bool,
    runner: Runner,
    log: UndoLog,
    /// Gives up what is being changed when it is set; what is restored is restored all the same.
    stop: Option<Arc<AtomicBool>>,
    /// Numbers in the log and how they are put back, the oldest first.
    applied: Vec<(u64, Vec<Undo>)>,
}

impl Lab {
    /// Takes this host for a campaign.
    ///
    /// `allow_destroy` are the devices that may lose what is on them: those that the command line
    /// repeated.
    ///
    /// # Errors
    /// Where another dfsbench has it, or an earlier one left something behind.
    pub fn open(
        state_dir: &Path,
        campaign: &str,
        allow_destroy: Vec<PathBuf>,
    ) -> Result<Self, LabError> {
        let log = UndoLog::open(state_dir, PATIENCE)?;
        match log.open_entries().len() {
            0 => {}
            left => return Err(LabError::Leftovers(left)),
        }
        let runner = Runner::with_lock(log.lock()?);
        let campaign = campaign.to_owned();
        Ok(Self {
            campaign,
            allow_destroy,
            keeps_files: false,
            runner,
            log,
            stop: None,
            applied: Vec::new(),
        })
    }

    /// Gives up a change that is under way when this flag is set.
    #[must_use]
    pub fn stopped_by(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Some(Arc::clone(stop)), ..self }
    }

    /// Leaves the campaign's working directories behind where this host serves them.
    #[must_use]
    pub fn keeping_files(self) -> Self {
        Self { keeps_files: true, ..self }
    }

    /// Does something to this host, and reads back what is in force.
    ///
    /// What fails is put back at once.
    ///
    /// # Errors
    /// Where it would harm what isn't ours, can't be done, or can't be read back.
    pub fn apply(&mut self, action: &Action) -> Result<EffectiveSettings, LabError> {
        let prepared = actions::prepare(action)?;
        let mut undo = prepared.undo(&self.allow_destroy)?;
        if let Some(directory) = prepared.served()
            && !self.keeps_files
        {
            // First in the list, and so undone last: what clients left there goes once it is no
            // longer served.
            let (directory, campaign) = (directory.to_owned(), self.campaign.clone());
            undo.insert(0, Undo::Works { directory, campaign });
        }
        // On disk before the first step: a process that is killed now leaves nothing unknown.
        let id = self.log.begin(&self.campaign, actions::describe(action), undo.clone())?;
        self.applied.push((id, undo));
        if let Some(stop) = &self.stop {
            self.runner.heed_stop(Arc::clone(stop));
        }
        let done = self.carry_out(prepared.as_ref());
        self.runner.ignore_stop();
        done.map_err(|error| match self.undo_last() {
            Ok(()) => error,
            Err(undo) => LabError::Several(vec![error, undo]),
        })
    }

    /// Performs the steps of an action and reads back what is effective.
    fn carry_out(&mut self, action: &dyn Prepared) -> Result<EffectiveSettings, LabError> {
        for step in action.steps() {
            step.perform(&mut self.runner)?;
        }
        action.check()
    }

    /// How many changes there are.
    pub fn height(&self) -> usize {
        self.applied.len()
    }

    /// Puts the last change back; does nothing where there is none.
    ///
    /// # Errors
    /// Where it can't be put back: it is kept, and can be requested again.
    pub fn undo_last(&mut self) -> Result<(), LabError> {
        let Some((id, undo)) = self.applied.last() else { return Ok(()) };
        let id = *id;
        // It may be made anew for the next pass, which reads what the last one wrote.
        let undo = undo.iter().filter(|undo| !matches!(undo, Undo::Works { .. }));
        restore_all(&mut self.runner, undo)?;
        self.applied.pop();
        self.log.undone(id)
    }

    /// Puts everything back, and goes on where something can't be.
    ///
    /// # Errors
    /// With all that can't be put back; `dfsbench clean` tries again.
    pub fn undo_all(&mut self) -> Result<(), LabError> {
        let mut errors = Vec::new();
        for (id, undo) in std::mem::take(&mut self.applied).into_iter().rev() {
            let done = restore_all(&mut self.runner, &undo).and_then(|()| self.log.undone(id));
            if let Err(error) = done {
                errors.push(error);
                self.applied.insert(0, (id, undo));
            }
        }
        LabError::of_all(errors).map_or(Ok(()), Err)
    }

    /// Drops what this host holds in memory of its files, and says what it held before and after.
    ///
    /// Mounting anew is no matter of one host: see [`crate::redo_from`].
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn invalidate(
        &mut self,
        how: Invalidation,
        directory: Option<&Path>,
    ) -> Result<Vec<Fact>, LabError> {
        invalidate::drop_caches(&mut self.runner, how, directory)
    }
}
