//! The changes made to this host, kept as a stack: the last one is undone first.
//!
//! [`Lab`] writes each change to the undo log before making it. A change that fails halfway is
//! undone immediately, so the stack contains only complete changes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::system::Secrets;
use model::{Action, EffectiveSettings, Fact, Invalidation};

use crate::actions::{self, PreparedAction};
use crate::commands::Runner;
use crate::error::LabError;
use crate::host::invalidate;
use crate::undo::log::{Entry, UndoLog, boot_id};
use crate::undo::restore::{restore_all, restore_entry};
use crate::undo::{Undo, guard};

/// Time limit for a killed dfsbench to release the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Changes to this host that will have to be undone.
#[derive(Debug)]
pub struct Lab {
    campaign: String,
    allow_destroy: Vec<PathBuf>,
    /// Whether to keep the files that the campaign leaves in exported directories.
    keeps_files: bool,
    runner: Runner,
    log: UndoLog,
    /// Aborts a change when set. Restoring is never aborted.
    stop: Option<Arc<AtomicBool>>,
    /// Changes made so far, oldest first.
    applied: Vec<AppliedChange>,
}

#[derive(Debug)]
struct AppliedChange {
    /// Its number in the log.
    id: u64,
    undo: Vec<Undo>,
}

impl Lab {
    /// Reserves this host for a campaign.
    ///
    /// `allow_destroy` lists the devices that may be overwritten according to the command line.
    ///
    /// # Errors
    /// If another dfsbench uses the host, or an earlier one left changes behind.
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

    /// Like [`Lab::open`], but for a host that lost its power during the campaign. File systems
    /// created on devices are kept, along with their contents.
    ///
    /// Mounts, exports and processes disappeared with the power loss; the rest is undone.
    ///
    /// # Errors
    /// If the host has not rebooted since, another campaign left changes behind, or something
    /// cannot be undone.
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
                applied.push(AppliedChange { id, undo });
                continue;
            }
            // Keep the files left by clients, since they show what the power loss did.
            undo.retain(|part| part.outlives_boot() && !matches!(part, Undo::Works { .. }));
            restore_entry(&mut runner, &mut log, id, &undo)?;
        }
        applied.reverse();
        let campaign = campaign.to_owned();
        Ok(Self { campaign, allow_destroy, keeps_files: false, runner, log, stop: None, applied })
    }

    /// Makes `stop` abort the change in progress.
    #[must_use]
    pub fn with_stop(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Some(Arc::clone(stop)), ..self }
    }

    /// Keeps the campaign's working directories in the directories that this host exports.
    #[must_use]
    pub fn keeping_files(self) -> Self {
        Self { keeps_files: true, ..self }
    }

    /// Also knows the values of secrets, which files and commands of recipes contain as markers.
    /// They are neither logged nor part of what [`Lab::apply`] returns.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.runner.secrets = secrets;
        self
    }

    /// Changes this host and reads back the settings in effect.
    ///
    /// If anything fails, the change is undone immediately.
    ///
    /// # Errors
    /// If it would harm something that isn't ours, fails, or cannot be read back.
    pub fn apply(&mut self, action: &Action) -> Result<EffectiveSettings, LabError> {
        let done = self.apply_with_secrets(action);
        done.map(|settings| self.redact(settings)).map_err(|error| self.redact_error(error))
    }

    fn apply_with_secrets(&mut self, action: &Action) -> Result<EffectiveSettings, LabError> {
        let prepared = actions::prepare(action, &self.runner.secrets)?;
        let mut undo = prepared.undo(&self.allow_destroy)?;
        if let Some(directory) = prepared.served()
            && !self.keeps_files
        {
            // First in the list, and therefore undone last: files left by clients are removed when
            // the directory is no longer exported.
            undo.insert(
                0,
                Undo::Works { directory: directory.to_owned(), campaign: self.campaign.clone() },
            );
        }
        undo.iter().rev().try_for_each(guard::check_before_change)?;
        // Written to disk before the first step, so nothing is forgotten if this process is killed
        // now.
        let id = self.log.begin(&self.campaign, actions::describe(action), undo.clone())?;
        self.applied.push(AppliedChange { id, undo });
        if let Some(stop) = &self.stop {
            self.runner.heed_stop(Arc::clone(stop));
        }
        let done = self.carry_out(prepared.as_ref());
        // From here on we restore the host, which must not be aborted when the campaign is stopped.
        self.runner.ignore_stop();
        let Err(error) = done else { return done };
        match self.undo_last() {
            Ok(()) => Err(error),
            Err(undo) => Err(LabError::Several(vec![error, undo])),
        }
    }

    /// Removes secrets from what programs printed.
    fn redact(&self, mut settings: EffectiveSettings) -> EffectiveSettings {
        let redact = |text: &mut String| *text = self.runner.secrets.redact(text).into_owned();
        for fact in &mut settings.facts {
            redact(&mut fact.value);
            redact(&mut fact.source);
        }
        for difference in &mut settings.differences {
            redact(&mut difference.requested);
            redact(&mut difference.found);
        }
        settings
    }

    /// Removes secrets from an error, which may quote what programs printed.
    fn redact_error(&self, error: LabError) -> LabError {
        match self.runner.secrets.redact(&error.to_string()) {
            Cow::Owned(text) => LabError::Refused(text),
            Cow::Borrowed(_) => error,
        }
    }

    /// Performs the steps of an action and reads back the settings in effect.
    fn carry_out(&mut self, action: &dyn PreparedAction) -> Result<EffectiveSettings, LabError> {
        for step in action.steps() {
            step.perform(&mut self.runner)?;
        }
        action.check()
    }

    /// Returns the number of changes.
    pub fn height(&self) -> usize {
        self.applied.len()
    }

    /// Undoes the last change, if there is one.
    ///
    /// # Errors
    /// If it cannot be undone. The change is kept, so this can be called again.
    pub fn undo_last(&mut self) -> Result<(), LabError> {
        let Some(AppliedChange { id, undo }) = self.applied.last() else { return Ok(()) };
        let id = *id;
        // Keep the files of clients: the change may be redone for the next pass, which reads them.
        let mut parts: Vec<&Undo> = undo.iter().collect();
        parts.retain(|part| !matches!(part, Undo::Works { .. }));
        restore_all(&mut self.runner, parts)?;
        self.applied.pop();
        self.log.undone(id)
    }

    /// Undoes all changes, even if some of them fail.
    ///
    /// # Errors
    /// If something cannot be undone. The error includes all failures; `dfsbench clean` can try
    /// again.
    pub fn undo_all(&mut self) -> Result<(), LabError> {
        let mut errors = Vec::new();
        for change in std::mem::take(&mut self.applied).into_iter().rev() {
            let done = restore_entry(&mut self.runner, &mut self.log, change.id, &change.undo);
            if let Err(error) = done {
                errors.push(error);
                // Keep the oldest change first.
                self.applied.insert(0, change);
            }
        }
        LabError::join(errors)
    }

    /// Drops this host's caches and reports their size before and after.
    ///
    /// Remounting involves more than one host, see [`crate::redo_from`].
    ///
    /// # Errors
    /// If the kernel does not allow it.
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

    use model::action::{CommandContext, Service};
    use model::system::{FilledFile, FilledStep, SecretSource};

    use super::*;

    /// Returns the log of a host with a file system on a device and a mount, made during the given
    /// boot.
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

    /// Secrets are in the file and the environment of programs, and nowhere else.
    #[test]
    fn keeps_secrets_out_of_everything() {
        const VALUE: &str = "hunter22-and-more";
        if !crate::commands::is_root() {
            return;
        }
        let source = SecretSource { env: "KEY".to_owned(), ..SecretSource::default() };
        let mut secrets = Secrets::default();
        secrets.insert(&source, VALUE.to_owned());
        let folder = tempfile::tempdir().unwrap();
        let name = format!("dfsbench-secret-{}", std::process::id());
        let dir = Path::new(crate::RUN).join(name);
        let state = folder.path().join("state");
        let mut lab = Lab::open(&state, "c", Vec::new()).unwrap().with_secrets(secrets);
        let shell = |text: &str| ["sh", "-c", text].map(str::to_owned).to_vec();
        let conf = dir.join("conf");
        let environment = vec![("KEY".to_owned(), source.marker())];
        let context = CommandContext { path: Vec::new(), environment };
        let service = Service {
            system: "plain".to_owned(),
            dir: dir.clone(),
            context: context.clone(),
            files: vec![FilledFile {
                path: conf.display().to_string(),
                text: format!("key = {}", source.marker()),
            }],
            stop_within_s: 1,
            version: shell("echo version $KEY; tr '\\0' ' ' </proc/$$/cmdline >&2"),
            ..Service::default()
        };
        let found = lab.apply(&service.into()).unwrap();
        let version = found.facts.iter().find(|fact| fact.name == "system version").unwrap();
        assert_eq!(version.value, "version ***");
        assert_eq!(fs::read_to_string(&conf).unwrap(), format!("key = {VALUE}"));
        assert_eq!(fs::metadata(&conf).unwrap().permissions().mode() & 0o777, 0o600);
        let run = |text: &str| {
            Action::SystemSteps(model::action::SystemSteps {
                system: "plain".to_owned(),
                dir: dir.clone(),
                context: context.clone(),
                first: 0,
                has_program: false,
                steps: vec![FilledStep::Run { words: shell(text), within_s: 9, again: false }],
            })
        };
        let args = "! grep -qz hunter2[2] /proc/$$/cmdline && grep -qz hunter2[2] /proc/$$/environ";
        lab.apply(&run(args)).unwrap();
        let error = lab.apply(&run("echo \"bad key $KEY\" >&2; exit 1")).unwrap_err().to_string();
        assert!(error.contains("bad key ***") && !error.contains(VALUE), "{error}");
        let error = lab.apply(&run(&source.marker())).unwrap_err().to_string();
        assert!(error.contains("every user of the host could see the secret"), "{error}");
        let log = fs::read_to_string(state.join("undo.jsonl")).unwrap();
        assert!(log.contains("dfsbench-secret") && !log.contains(VALUE), "{log}");
        // Nothing needs the secrets to be undone.
        lab.runner.secrets = Secrets::NONE;
        lab.undo_all().unwrap();
        assert!(!dir.exists());
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
            assert!(
                error.contains(&format!("without it, the path is {}", real.display())),
                "{error}"
            );
            assert_eq!((lab.height(), lab.log.open_entries().len()), (0, 0));
        }
        assert_eq!(fs::read_dir(at("real")).unwrap().count(), 0);
        // Without the symlink, it is allowed.
        let action = loop_file(at("real/x"));
        let undo = actions::prepare(&action, &Secrets::NONE).unwrap().undo(&[]).unwrap();
        undo.iter().try_for_each(guard::check_before_change).unwrap();
    }

    #[test]
    fn keeps_device_mounts_after_power_loss() {
        let folder = changed("another");
        let open = |campaign| Lab::open_after_power_loss(folder.path(), campaign, Vec::new());
        // Changes left by another campaign are not taken over.
        assert!(matches!(open("d"), Err(LabError::Leftovers(2))));
        let lab = open("c").unwrap();
        assert_eq!(lab.height(), 1, "the mount did not outlast the power loss");
        drop(lab);
        // Unless the host was rebooted, no change is assumed to be gone.
        let folder = changed(&boot_id());
        let opened = Lab::open_after_power_loss(folder.path(), "c", Vec::new());
        assert!(matches!(opened, Err(LabError::Leftovers(2))));
    }
}
