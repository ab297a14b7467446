//! Puts back what an earlier dfsbench left behind: after a kill, a lost connection or a reboot.
//!
//! Nothing is known but the undo log. Whoever gets its lock knows that no program of the earlier
//! dfsbench is still at work.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::BOOKS;
use crate::commands::Runner;
use crate::error::LabError;
use crate::lab;
use crate::log::{UndoLog, boot_id};

/// What a program may take that an earlier dfsbench waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// One change that was found.
#[derive(Debug)]
pub struct Cleaned {
    /// The campaign that made it.
    pub campaign: String,
    /// What was done.
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
        let outcome = lab::put_back(&mut runner, &undo).and_then(|()| log.undone(entry.id));
        cleaned.push(Cleaned { campaign: entry.campaign, what: entry.what, outcome });
    }
    forget_books(state_dir);
    Ok(cleaned)
}

/// Removes what agents that were killed had booked: nobody goes on with it.
fn forget_books(state_dir: &Path) {
    let files = fs::read_dir(state_dir).into_iter().flatten().flatten();
    for file in
        files.filter(|file| file.file_name().as_encoded_bytes().starts_with(BOOKS.as_bytes()))
    {
        // What can't be removed now is found by the next one who cleans.
        let _ = fs::remove_file(file.path());
    }
}
