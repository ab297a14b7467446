//! Puts back what an earlier dfsbench left behind: after a kill, a lost connection or a reboot.
//!
//! Nothing is known but the undo log. Whoever gets its lock knows that no program of the earlier
//! dfsbench is still at work.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::ACK_JOURNAL_PREFIX;
use crate::commands::Runner;
use crate::error::LabError;
use crate::log::{UndoLog, boot_id};
use crate::restore::restore_all;

/// The longest time for a program that an earlier dfsbench waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// So long after they were changed last, nobody goes on with the books of an agent that was killed.
const BOOKS_KEPT: Duration = Duration::from_secs(3_600);

/// One change that was found.
#[derive(Debug)]
pub struct Cleaned {
    /// The campaign that made it.
    pub campaign: String,
    /// Description of what was done.
    pub what: String,
    /// Whether it was put back.
    pub outcome: Result<(), LabError>,
}

/// Puts back everything that the undo log of this host holds, the last first.
///
/// What can't be put back stays in the log, and the rest is put back all the same.
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
            // The rest was the kernel's, and went with it.
            undo.retain(crate::undo::Undo::outlives_boot);
        }
        let outcome = restore_all(&mut runner, &undo).and_then(|()| log.undone(entry.id));
        cleaned.push(Cleaned { campaign: entry.campaign, what: entry.what, outcome });
    }
    forget_books(state_dir);
    Ok(cleaned)
}

/// Removes what agents that were killed had booked, where nobody goes on with it any more.
///
/// A soak takes no lock of the host, and it replaces an agent that was killed within seconds: until
/// then no process has the file open, so that its age alone says that it is forgotten.
fn forget_books(state_dir: &Path) {
    for file in fs::read_dir(state_dir).into_iter().flatten().flatten() {
        let are_books =
            file.file_name().as_encoded_bytes().starts_with(ACK_JOURNAL_PREFIX.as_bytes());
        let changed = file.metadata().and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok());
        if are_books && age.is_some_and(|age| age > BOOKS_KEPT) {
            // What can't be removed now is found by the next one who cleans.
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn books_that_an_agent_is_about_to_go_on_with_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["books.new", "books.old", "undo.jsonl"] {
            let file = File::create(path(name)).unwrap();
            if name != "books.new" {
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        forget_books(folder.path());
        let left = ["books.new", "books.old", "undo.jsonl"].map(|name| path(name).exists());
        assert_eq!(left, [true, false, true]);
    }
}
