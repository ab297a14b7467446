//! Restores changes left behind by an earlier dfsbench after a kill, a lost connection or a reboot.
//!
//! The undo log is the only source of information. If we get its lock, none of the earlier
//! dfsbench's programs is still running.

use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::Duration;

use crate::ACK_JOURNAL_PREFIX;
use crate::commands::Runner;
use crate::error::LabError;
use crate::undo::Undo;
use crate::undo::log::{UndoLog, boot_id};
use crate::undo::restore::{restore, restore_entry};

/// Time limit for a program that the earlier dfsbench was waiting for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Age after which a killed agent's journal is no longer needed by a replacement agent.
const JOURNAL_KEPT: Duration = Duration::from_secs(3_600);

/// A change that was found in the log.
#[derive(Debug)]
pub struct CleanedChange {
    /// The campaign that made the change.
    pub campaign: String,
    /// Description of the change.
    pub what: String,
    /// Whether it was restored.
    pub outcome: Result<(), LabError>,
    /// What remains because the change was dropped from the log, one sentence each.
    pub stays: Vec<String>,
}

/// Restores everything in this host's undo log, last change first.
///
/// Changes that cannot be restored stay in the log and don't prevent the others from being
/// restored.
///
/// # Errors
/// If the log cannot be read, or another dfsbench is active.
pub fn clean(state_dir: &Path) -> Result<Vec<CleanedChange>, LabError> {
    restore_logged(state_dir, Unrestorable::Kept)
}

/// Restores like [`clean`], but drops entries that cannot be restored or read from the log.
///
/// # Errors
/// If another dfsbench is active, or the log cannot be written.
pub fn clean_and_forget(state_dir: &Path) -> Result<Vec<CleanedChange>, LabError> {
    let mut cleaned: Vec<_> = UndoLog::drop_unreadable(state_dir, PATIENCE)?
        .into_iter()
        .map(|line| CleanedChange {
            campaign: "unknown".to_owned(),
            what: "an unreadable line of the undo log".to_owned(),
            outcome: Err(LabError::Refused(format!("`{line}`"))),
            stays: vec!["the change recorded in that line was not undone".to_owned()],
        })
        .collect();
    cleaned.extend(restore_logged(state_dir, Unrestorable::Forgotten)?);
    Ok(cleaned)
}

/// What to do with entries that cannot be restored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unrestorable {
    Kept,
    Forgotten,
}

fn restore_logged(
    state_dir: &Path,
    unrestorable: Unrestorable,
) -> Result<Vec<CleanedChange>, LabError> {
    let mut log = UndoLog::open(state_dir, PATIENCE)?;
    let mut runner = Runner::with_lock(log.lock()?);
    let boot = boot_id();
    let mut cleaned = Vec::new();
    for entry in log.open_entries().to_vec().into_iter().rev() {
        let mut undo = entry.undo;
        if entry.boot != boot {
            // Mounts, mappings, sysctls, tc rules and programs disappeared with the old kernel. If
            // such a setting exists now, someone else made it, so leave it alone. Files and
            // signatures on devices survive a reboot.
            undo.retain(Undo::outlives_boot);
        }
        let mut outcome = restore_entry(&mut runner, &mut log, entry.id, &undo);
        let mut stays = Vec::new();
        if unrestorable == Unrestorable::Forgotten && outcome.is_err() {
            stays = name_remainders(&mut runner, &undo);
            log.undone(entry.id)?;
            if stays.is_empty() {
                outcome = Ok(());
            }
        }
        cleaned.push(CleanedChange { campaign: entry.campaign, what: entry.what, outcome, stays });
    }
    remove_old_journals(state_dir);
    Ok(cleaned)
}

/// Describes what remains of a change that could not be undone completely.
fn name_remainders(runner: &mut Runner, undo: &[Undo]) -> Vec<String> {
    let mut stays = Vec::new();
    for part in undo.iter().rev() {
        // Retry each part on its own, to find out which ones have been undone.
        if restore(part, runner).is_err() {
            stays.push(part.remainder());
        }
    }
    stays
}

/// Removes acknowledgement journals of killed agents if no agent will continue with them.
///
/// A soak doesn't hold the host's lock, and it takes seconds to replace a killed agent. In the
/// meantime no process has the journal open, so its age is the only way to recognize an abandoned
/// one.
fn remove_old_journals(state_dir: &Path) {
    let Ok(entries) = fs::read_dir(state_dir) else { return };
    for file in entries.flatten() {
        let name = file.file_name();
        if name.as_encoded_bytes().starts_with(ACK_JOURNAL_PREFIX.as_bytes()) && is_old(&file) {
            // If it cannot be removed now, the next `dfsbench clean` will try again.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Returns true if the file is old. A file of unknown age, or from the future, isn't.
fn is_old(file: &DirEntry) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let Ok(changed) = metadata.modified() else { return false };
    changed.elapsed().is_ok_and(|age| age > JOURNAL_KEPT)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    /// Creates a state folder whose log contains these changes.
    fn logged(changes: Vec<Vec<Undo>>) -> tempfile::TempDir {
        let state = tempfile::tempdir().unwrap();
        let mut log = UndoLog::open(state.path(), PATIENCE).unwrap();
        for undo in changes {
            log.begin("c", "a file".to_owned(), undo).unwrap();
        }
        state
    }

    #[test]
    fn forgets_what_cannot_be_undone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        for name in ["real/kept", "gone"] {
            File::create(at(name)).unwrap();
        }
        let through_link = at("link/kept");
        let plain = at("gone");
        let state = logged(vec![
            vec![
                Undo::Folder { path: at("gone-folder") },
                Undo::File { path: through_link.clone() },
            ],
            vec![Undo::File { path: plain.clone() }],
        ]);
        let kept = clean(state.path()).unwrap();
        assert!(kept[0].outcome.is_ok() && !plain.exists());
        assert!(kept[1].outcome.is_err() && kept[1].stays.is_empty(), "{kept:?}");
        // If kept, it would block every later campaign.
        let forgotten = clean_and_forget(state.path()).unwrap();
        let [change] = &forgotten[..] else { panic!("{forgotten:?}") };
        assert_eq!(change.stays, [format!("the file {} still exists", through_link.display())]);
        assert!(at("real/kept").exists());
        assert!(clean(state.path()).unwrap().is_empty());
    }

    #[test]
    fn forgets_nothing_that_was_restored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap();
        let state = logged(vec![vec![Undo::File { path: path.clone() }]]);
        let restored = clean_and_forget(state.path()).unwrap();
        assert!(restored[0].outcome.is_ok() && restored[0].stays.is_empty(), "{restored:?}");
        assert!(!path.exists());
    }

    #[test]
    fn drops_unreadable_lines_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap();
        let state = logged(vec![vec![Undo::File { path: path.clone() }]]);
        let log = state.path().join("undo.jsonl");
        let readable = fs::read_to_string(&log).unwrap();
        fs::write(&log, format!("{{\"begin\":\x1b1}}\n{readable}")).unwrap();
        let error = clean(state.path()).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("clean --forget"), "{error}");
        assert!(path.exists());
        let cleaned = clean_and_forget(state.path()).unwrap();
        let [unreadable, restored] = &cleaned[..] else { panic!("{cleaned:?}") };
        let shown = unreadable.outcome.as_ref().unwrap_err().to_string();
        assert!(shown.contains(r#"{\"begin\":\x1b1}"#), "{shown}");
        assert!(restored.outcome.is_ok() && !path.exists());
        assert!(clean(state.path()).unwrap().is_empty());
    }

    #[test]
    fn keeps_journal_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["books.new", "books.old", "undo.jsonl"] {
            let file = File::create(path(name)).unwrap();
            if name != "books.new" {
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        remove_old_journals(folder.path());
        let left = ["books.new", "books.old", "undo.jsonl"].map(|name| path(name).exists());
        assert_eq!(left, [true, false, true]);
    }
}
