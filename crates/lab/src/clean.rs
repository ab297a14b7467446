//! Restores what an earlier dfsbench left changed: after a kill, a lost connection or a reboot.
//!
//! Nothing is known but the undo log. The process that gets its lock knows that no program of the
//! earlier dfsbench is still at work.

use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::Duration;

use crate::ACK_JOURNAL_PREFIX;
use crate::commands::Runner;
use crate::error::LabError;
use crate::log::{UndoLog, boot_id};
use crate::restore::restore_entry;

/// The longest time for a program that an earlier dfsbench waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// So long after it was changed last, no agent goes on with the journal of one that was killed.
const JOURNAL_KEPT: Duration = Duration::from_secs(3_600);

/// One change that was found.
#[derive(Debug)]
pub struct Cleaned {
    /// The campaign that made it.
    pub campaign: String,
    /// Description of what was done.
    pub what: String,
    /// Whether it was restored.
    pub outcome: Result<(), LabError>,
}

/// Restores everything that the undo log of this host holds, the last first.
///
/// What can't be restored is kept in the log, and the rest is restored all the same.
///
/// # Errors
/// Where the log can't be read, or another dfsbench is at work.
pub fn clean(state_dir: &Path) -> Result<Vec<Cleaned>, LabError> {
    let mut log = UndoLog::open(state_dir, PATIENCE)?;
    let mut runner = Runner::with_lock(log.lock()?);
    let boot = boot_id();
    let mut cleaned = Vec::new();
    for entry in log.open_entries().to_vec().into_iter().rev() {
        let mut undo = entry.undo;
        if entry.boot != boot {
            // Mounts, mappings, sysctls, rules and programs were the kernel's, and went with it:
            // what a setting is now was made by another, and is left alone. Files and marks on
            // devices outlive a boot.
            undo.retain(crate::undo::Undo::outlives_boot);
        }
        let outcome = restore_entry(&mut runner, &mut log, entry.id, &undo);
        cleaned.push(Cleaned { campaign: entry.campaign, what: entry.what, outcome });
    }
    remove_old_journals(state_dir);
    Ok(cleaned)
}

/// Removes the acknowledgement journals of agents that were killed, where no agent goes on with
/// them.
///
/// A soak takes no lock of the host, and it replaces an agent that was killed within seconds: until
/// then no process has the file open, so that its age alone says that it is forgotten.
fn remove_old_journals(state_dir: &Path) {
    let Ok(entries) = fs::read_dir(state_dir) else { return };
    for file in entries.flatten() {
        let name = file.file_name();
        if name.as_encoded_bytes().starts_with(ACK_JOURNAL_PREFIX.as_bytes()) && is_old(&file) {
            // What can't be removed now is found by the next `dfsbench clean`.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// A file of unknown age, or from a time that the wall clock hasn't reached, is none.
fn is_old(file: &DirEntry) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let Ok(changed) = metadata.modified() else { return false };
    match changed.elapsed() {
        Ok(age) => age > JOURNAL_KEPT,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_journal_that_an_agent_is_about_to_go_on_with_is_left() {
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
