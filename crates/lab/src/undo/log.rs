//! The undo log of a host, which is on disk before it is needed.
//!
//! [`UndoLog`] consists of one line of JSON per change, synced before the change is made, and
//! another one after it has been undone. Only one process at a time can use the log. The lock
//! belongs to an open file that is shared with the programs it waits for, so the next process to
//! get the lock can be sure that none of them is still running. An incomplete last line belongs to
//! a change that was never started.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::{processes, trust};
use crate::undo::Undo;

const LOG: &str = "undo.jsonl";
const LOCK: &str = "lock";
/// Name of the log while it is being rewritten.
const NEW_LOG: &str = "undo.jsonl.new";
/// Maximum number of bytes to show of a line that cannot be read.
const SHOWN_BYTES: usize = 500;
/// How often to retry if another process holds the lock.
const POLL: Duration = Duration::from_millis(50);

/// A change that must be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its number. Numbers only increase.
    pub id: u64,
    /// The campaign that made the change.
    pub campaign: String,
    /// ID of the boot in which it was made. Kernel state doesn't survive a reboot.
    pub boot: String,
    /// Description for people.
    pub what: String,
    /// How to undo it, from last to first.
    pub undo: Vec<Undo>,
}

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Begin(Entry),
    Undone(u64),
}

/// The open undo log of this host.
#[derive(Debug)]
pub(crate) struct UndoLog {
    path: PathBuf,
    file: File,
    lock: File,
    open: Vec<Entry>,
    next_id: u64,
}

impl UndoLog {
    /// Opens the log in a folder, which is created if missing. Waits a while for the lock.
    ///
    /// # Errors
    /// If another process holds the lock, the log cannot be read or written, or another user owns
    /// or can write to it or its folder.
    pub(crate) fn open(folder: &Path, patience: Duration) -> Result<Self, LabError> {
        trust::private_folder(folder)?;
        let lock = trust::open_log(&folder.join(LOCK))?;
        await_lock(&lock, &folder.join(LOCK), patience)?;
        let path = folder.join(LOG);
        let file = trust::open_log(&path)?;
        let Contents { entries, unreadable } = read(&file, &path)?;
        if let Some(UnreadableLine { number, error, .. }) = unreadable.first() {
            let message = format!(
                "line {number}: {error} (hint: `dfsbench clean --forget` drops unreadable lines)"
            );
            let error = io::Error::new(ErrorKind::InvalidData, message);
            return Err(LabError::file("read", &path, error));
        }
        // Numbers only increase and entries are in order, so the last entry has the largest number.
        let next_id = entries.last().map_or(0, |last| last.id + 1);
        Ok(Self { path, file, lock, open: entries, next_id })
    }

    /// Removes unreadable lines from the log in a folder and returns their text.
    ///
    /// # Errors
    /// Same as [`UndoLog::open`].
    pub(crate) fn drop_unreadable(
        folder: &Path,
        patience: Duration,
    ) -> Result<Vec<String>, LabError> {
        trust::private_folder(folder)?;
        let lock = trust::open_log(&folder.join(LOCK))?;
        await_lock(&lock, &folder.join(LOCK), patience)?;
        let path = folder.join(LOG);
        let Contents { entries, unreadable } = read(&trust::open_log(&path)?, &path)?;
        if unreadable.is_empty() {
            return Ok(Vec::new());
        }
        let text: Vec<_> =
            entries.into_iter().flat_map(|entry| line_of(&Line::Begin(entry))).collect();
        // Replaced atomically: after a kill, either the old log or the new one is there.
        let new = folder.join(NEW_LOG);
        let written = trust::create_file(&new)?;
        let write = || -> io::Result<()> {
            (&written).write_all(&text)?;
            written.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| LabError::file("write", &path, error))?;
        Ok(unreadable.into_iter().map(|line| line.text).collect())
    }

    /// Returns the lock, to be passed on to programs.
    ///
    /// # Errors
    /// If this process has too many open files.
    pub(crate) fn lock(&self) -> Result<File, LabError> {
        self.lock
            .try_clone()
            .map_err(|error| LabError::file("duplicate the handle of", &self.path, error))
    }

    /// Returns the changes that must be undone, oldest first.
    pub(crate) fn open_entries(&self) -> &[Entry] {
        &self.open
    }

    /// Records how to undo a change. The change may be made once this returns.
    ///
    /// # Errors
    /// If it cannot be written. The change must not be made in that case.
    pub(crate) fn begin(
        &mut self,
        campaign: &str,
        what: String,
        undo: Vec<Undo>,
    ) -> Result<u64, LabError> {
        let id = self.next_id;
        let entry = Entry { id, campaign: campaign.to_owned(), boot: boot_id(), what, undo };
        self.append(&Line::Begin(entry.clone()))?;
        self.next_id += 1;
        self.open.push(entry);
        Ok(id)
    }

    /// Records that a change was undone. Empties the log when none are left.
    ///
    /// # Errors
    /// If it cannot be written. The change will then be undone again, which does no harm.
    pub(crate) fn undone(&mut self, id: u64) -> Result<(), LabError> {
        self.open.retain(|entry| entry.id != id);
        if !self.open.is_empty() {
            return self.append(&Line::Undone(id));
        }
        // The length is metadata, which fdatasync(2) may not write, so use fsync(2).
        self.empty().map_err(|error| LabError::file("truncate", &self.path, error))
    }

    fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()
    }

    fn append(&mut self, line: &Line) -> Result<(), LabError> {
        self.write_synced(&line_of(line))
            .map_err(|error| LabError::file("write", &self.path, error))
    }

    /// Appends a complete line and returns once it is on disk.
    ///
    /// It uses a single write(2), so a crash can cut the line off but not mix it with another.
    fn write_synced(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)?;
        self.file.sync_data()
    }
}

fn line_of(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("all maps have string keys");
    text.push(b'\n');
    text
}

/// Returns the ID of this host's current boot, or an empty string if the kernel doesn't report it.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn await_lock(lock: &File, path: &Path, patience: Duration) -> Result<(), LabError> {
    let mut waited = Duration::ZERO;
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if waited < patience => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holders = processes::with_open_file(path).join(", ");
                return Err(LabError::Locked { holders });
            }
            Err(errno) => return Err(LabError::file("lock", path, errno.into())),
        }
        processes::pause(POLL);
        waited += POLL;
    }
}

/// The contents of a log.
struct Contents {
    /// Entries that haven't been undone.
    entries: Vec<Entry>,
    unreadable: Vec<UnreadableLine>,
}

/// A line that isn't ours, or was written by a later version.
struct UnreadableLine {
    number: usize,
    /// The beginning of the line, without control characters.
    text: String,
    error: serde_json::Error,
}

fn read(mut file: &File, path: &Path) -> Result<Contents, LabError> {
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|error| LabError::file("read", path, error))?;
    // An incomplete last line was cut off while it was written, so its change was never started.
    let mut whole = text.len();
    while whole > 0 && text[whole - 1] != b'\n' {
        whole -= 1;
    }
    if whole < text.len() {
        // Cut it off, or the next line would be appended to it.
        file.set_len(whole as u64).map_err(|error| LabError::file("truncate", path, error))?;
    }
    let mut entries = Vec::<Entry>::new();
    let mut unreadable = Vec::new();
    for (number, line) in text[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        match serde_json::from_slice(line) {
            Ok(Line::Begin(entry)) => entries.push(entry),
            Ok(Line::Undone(id)) => entries.retain(|entry| entry.id != id),
            Err(error) => {
                let shown =
                    line.trim_ascii_end().get(..SHOWN_BYTES).unwrap_or(line.trim_ascii_end());
                let text = shown.escape_ascii().to_string();
                unreadable.push(UnreadableLine { number: number + 1, text, error });
            }
        }
    }
    Ok(Contents { entries, unreadable })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;
    /// Patience for a lock that should be free. A program being started by another test has a copy
    /// of it between fork(2) and execve(2).
    const AT_LAST: Duration = Duration::from_secs(10);

    fn undo() -> Vec<Undo> {
        vec![Undo::File { path: PathBuf::from("/no/such/file") }]
    }

    fn in_new_folder() -> (tempfile::TempDir, UndoLog) {
        let folder = tempfile::tempdir().unwrap();
        let log = UndoLog::open(folder.path(), AT_LAST).unwrap();
        (folder, log)
    }

    #[test]
    fn finds_steps_not_undone() {
        let (folder, mut log) = in_new_folder();
        let first = log.begin("c", "first".to_owned(), undo()).unwrap();
        let second = log.begin("c", "second".to_owned(), undo()).unwrap();
        log.undone(first).unwrap();
        drop(log);
        let mut log = UndoLog::open(folder.path(), AT_LAST).unwrap();
        let [entry] = log.open_entries() else { panic!("{log:?}") };
        assert_eq!((entry.id, entry.what.as_str(), &entry.undo), (second, "second", &undo()));
        log.undone(second).unwrap();
        assert_eq!(fs::metadata(folder.path().join(LOG)).unwrap().len(), 0);
    }

    #[test]
    fn ignores_truncated_last_line() {
        let (folder, mut log) = in_new_folder();
        log.begin("c", "whole".to_owned(), undo()).unwrap();
        drop(log);
        let path = folder.path().join(LOG);
        let whole = fs::read(&path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&path, [whole.as_slice(), &whole[..cut]].concat()).unwrap();
            let mut log = UndoLog::open(folder.path(), AT_LAST).unwrap();
            assert_eq!(log.open_entries().len(), 1, "cut at {cut}");
            log.begin("c", "next".to_owned(), undo()).unwrap();
            drop(log);
            let log = UndoLog::open(folder.path(), AT_LAST).unwrap();
            assert_eq!(log.open_entries().len(), 2, "cut at {cut}");
        }
    }

    #[test]
    fn rejects_bad_log_with_line() {
        let (folder, log) = in_new_folder();
        drop(log);
        fs::write(folder.path().join(LOG), "{}\n{\"undone\":1}\n").unwrap();
        let error = UndoLog::open(folder.path(), AT_LAST).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn locks_log_and_names_holder() {
        let (folder, log) = in_new_folder();
        let error = UndoLog::open(folder.path(), AT_ONCE).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(log);
        UndoLog::open(folder.path(), AT_LAST).unwrap();
    }
}
