//! The changes that were made to this host, as a stack: the last is undone first.
//!
//! Principal type: [`Lab`]. A change is in the undo log before it is made, and what fails half-way
//! is undone at once, so that the stack holds whole changes only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::{Action, EffectiveSettings, Fact, Invalidation};

use crate::actions::{self, Prepared};
use crate::commands::Runner;
use crate::error::LabError;
use crate::invalidate;
use crate::log::{Entry, UndoLog, boot_id};
use crate::restore::{restore_all, restore_entry};
use crate::undo::Undo;
use crate::undo_guard;

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
    /// The changes that were made, the oldest first.
    applied: Vec<Applied>,
}

/// A change that was made.
#[derive(Debug)]
struct Applied {
    /// Its number in the log.
    id: u64,
    undo: Vec<Undo>,
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

    /// Takes this host again for a campaign within which it has lost its power: file systems that
    /// were made on devices stay, with what is in them. Else as [`Lab::open`].
    ///
    /// What they were mounted, served and used by went with the power; the rest is undone.
    ///
    /// # Errors
    /// Where the host has not started again since, another campaign left something behind, or
    /// something can't be undone.
    pub fn open_after_power_loss(
        state_dir: &Path,
        campaign: &str,
        allow_destroy: Vec<PathBuf>,
    ) -> Result<Self, LabError> {
        let mut log = UndoLog::open(state_dir, PATIENCE)?;
        let mut runner = Runner::with_lock(log.lock()?);
        let entries = log.open_entries().to_vec();
        let boot = boot_id();
        if entries.iter().any(|entry| entry.campaign != campaign || entry.boot == boot) {
            return Err(LabError::Leftovers(entries.len()));
        }
        let mut applied = Vec::new();
        for Entry { id, mut undo, .. } in entries.into_iter().rev() {
            if undo.iter().any(|part| matches!(part, Undo::Wipe { .. })) {
                applied.push(Applied { id, undo });
                continue;
            }
            // What clients left in a directory is what a loss of power is measured by.
            undo.retain(|part| part.outlives_boot() && !matches!(part, Undo::Works { .. }));
            restore_entry(&mut runner, &mut log, id, &undo)?;
        }
        applied.reverse();
        let campaign = campaign.to_owned();
        Ok(Self { campaign, allow_destroy, keeps_files: false, runner, log, stop: None, applied })
    }

    /// Gives up a change that is being made when this flag is set.
    #[must_use]
    pub fn stopped_by(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Some(Arc::clone(stop)), ..self }
    }

    /// Leaves the campaign's working directories behind where this host serves them.
    #[must_use]
    pub fn keeping_files(self) -> Self {
        Self { keeps_files: true, ..self }
    }

    /// Makes a change on this host, and reads back what is effective.
    ///
    /// What fails is undone at once.
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
        undo.iter().rev().try_for_each(undo_guard::check_before_change)?;
        // On disk before the first step: a process that is killed now leaves nothing unknown.
        let id = self.log.begin(&self.campaign, actions::describe(action), undo.clone())?;
        self.applied.push(Applied { id, undo });
        if let Some(stop) = &self.stop {
            self.runner.heed_stop(Arc::clone(stop));
        }
        let done = self.carry_out(prepared.as_ref());
        // What restores the host is not given up when the campaign is stopped.
        self.runner.ignore_stop();
        let Err(error) = done else { return done };
        match self.undo_last() {
            Ok(()) => Err(error),
            Err(undo) => Err(LabError::Several(vec![error, undo])),
        }
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

    /// Undoes the last change; does nothing where there is none.
    ///
    /// # Errors
    /// Where it can't be undone: it is kept, and can be requested again.
    pub fn undo_last(&mut self) -> Result<(), LabError> {
        let Some(Applied { id, undo }) = self.applied.last() else { return Ok(()) };
        let id = *id;
        // It may be made again for the next pass, which reads the files that the last one wrote.
        let mut parts: Vec<&Undo> = undo.iter().collect();
        parts.retain(|part| !matches!(part, Undo::Works { .. }));
        restore_all(&mut self.runner, parts)?;
        self.applied.pop();
        self.log.undone(id)
    }

    /// Undoes everything, and goes on where something can't be.
    ///
    /// # Errors
    /// With all that can't be undone; `dfsbench clean` tries again.
    pub fn undo_all(&mut self) -> Result<(), LabError> {
        let mut errors = Vec::new();
        for change in std::mem::take(&mut self.applied).into_iter().rev() {
            let done = restore_entry(&mut self.runner, &mut self.log, change.id, &change.undo);
            if let Err(error) = done {
                errors.push(error);
                // The oldest stands first, as before.
                self.applied.insert(0, change);
            }
        }
        LabError::join(errors)
    }

    /// Drops what this host holds in memory of its files, and reports what it held before and
    /// after.
    ///
    /// Mounting again is no matter of one host: see [`crate::redo_from`].
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A host with a file system on a device and something on it, made in this boot or another.
    fn changed(boot: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let wipe = r#"[{"undo":"wipe","device":"/dev/none","uuid":"u"}]"#;
        let begin = |id: u64, undo: &str| {
            format!(
                "{{\"begin\":{{\"id\":{id},\"campaign\":\"c\",\"boot\":\"{boot}\",\
                 \"what\":\"w\",\"undo\":{undo}}}}}\n"
            )
        };
        let mounted = r#"[{"undo":"unmount","point":"/none","file_system":"ext4"}]"#;
        let log = folder.path().join("undo.jsonl");
        fs::write(&log, begin(0, wipe) + &begin(1, mounted)).unwrap();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o600)).unwrap();
        folder
    }

    fn loop_file(file: PathBuf) -> Action {
        Action::LoopFile(model::action::LoopFile { file, bytes: 4096 })
    }

    #[test]
    fn refuses_loop_file_below_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        for file in ["link/x", "link/new/x"] {
            let mut lab = Lab::open(&at("state"), "c", Vec::new()).unwrap();
            let error = lab.apply(&loop_file(at(file))).unwrap_err().to_string();
            assert!(error.contains(&at("link").display().to_string()), "{error}");
            let real = at("real").join(Path::new(file).strip_prefix("link").unwrap());
            assert!(error.contains(&format!("without it is {}", real.display())), "{error}");
            assert_eq!((lab.height(), lab.log.open_entries().len()), (0, 0));
        }
        assert_eq!(fs::read_dir(at("real")).unwrap().count(), 0);
        // Without the link it may be made.
        let action = loop_file(at("real/x"));
        let undo = actions::prepare(&action).unwrap().undo(&[]).unwrap();
        undo.iter().try_for_each(undo_guard::check_before_change).unwrap();
    }

    #[test]
    fn a_loss_of_power_leaves_file_systems_on_devices() {
        let folder = changed("another");
        let open = |campaign| Lab::open_after_power_loss(folder.path(), campaign, Vec::new());
        // What another campaign has left is not taken over.
        assert!(matches!(open("d"), Err(LabError::Leftovers(2))));
        let lab = open("c").unwrap();
        assert_eq!(lab.height(), 1, "the mount went with the power");
        drop(lab);
        // Without a loss of power nothing is taken for gone.
        let folder = changed(&boot_id());
        let opened = Lab::open_after_power_loss(folder.path(), "c", Vec::new());
        assert!(matches!(opened, Err(LabError::Leftovers(2))));
    }
}
