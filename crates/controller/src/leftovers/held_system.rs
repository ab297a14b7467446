//! Records of systems that `dfsbench systems up` keeps up.
//!
//! A [`HeldSystem`] is written to this user's folder before a host is changed, and removed once all
//! hosts are restored. The process that holds the system keeps its record locked. So a record that
//! nobody has locked names hosts that may still be changed.

use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use model::Host;
use serde::{Deserialize, Serialize};

use super::record_file::{self, RefusedRecord};
use super::{UnwritableRecord, unwritable};

/// Beginning and end of a record's file name, around the name of the campaign.
const BEGIN: &str = "up-";
const END: &str = ".lock";

/// A system that is or was kept up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSystem {
    /// Name or file of the recipe, as given to `systems up`.
    pub source: String,
    /// Name in the recipe.
    pub name: String,
    /// The process that keeps it up.
    pub pid: u32,
    /// All of its hosts.
    pub hosts: Vec<Host>,
}

/// The record of a system.
#[derive(Debug)]
pub struct HeldRecord {
    path: PathBuf,
    pub system: HeldSystem,
    /// Open, and locked by the process that keeps the system up.
    file: File,
}

/// Records of this user's systems.
#[derive(Debug, Default)]
pub struct HeldRecords {
    pub records: Vec<HeldRecord>,
    /// Files that were refused.
    pub(super) refused: Vec<RefusedRecord>,
}

impl HeldRecord {
    /// Writes and locks the record of a system that this process is about to set up.
    ///
    /// # Errors
    /// If no file can be created in the folder.
    pub fn begin(
        system: HeldSystem,
        campaign: &str,
        records_dir: &Path,
    ) -> Result<Self, UnwritableRecord> {
        let path = records_dir.join(format!("{BEGIN}{campaign}{END}"));
        let written =
            fs::create_dir_all(records_dir).and_then(|()| record_file::write(&path, &system));
        match written {
            Ok(file) => Ok(Self { path, system, file }),
            Err(error) => {
                let hint = "set XDG_STATE_HOME to a writable folder";
                Err(unwritable(records_dir, &error, hint))
            }
        }
    }

    /// Returns true if the process that set up the system is still running.
    pub fn is_held(&self) -> bool {
        is_locked(&self.file)
    }

    /// Removes the record, because all hosts are restored; and the folder if it is empty then.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.path.parent().map(fs::remove_dir);
    }

    /// Returns the file of the record.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl HeldRecords {
    /// Reads the records in this user's folder.
    pub fn read(records_dir: &Path) -> Self {
        let mut found = Self::default();
        let Ok(entries) = fs::read_dir(records_dir) else { return found };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.as_bytes();
            if !name.starts_with(BEGIN.as_bytes()) || !name.ends_with(END.as_bytes()) {
                continue;
            }
            let path = entry.path();
            match read(&path) {
                Ok(record) => found.records.extend(record),
                Err(why) => {
                    let is_foreign = record_file::is_foreign(&path);
                    found.refused.push(RefusedRecord { path, why, is_foreign });
                }
            }
        }
        found
    }
}

/// Reads a record; `None` if it is gone or nothing was changed yet.
fn read(path: &Path) -> Result<Option<HeldRecord>, String> {
    let Some(file) = record_file::open(path)? else { return Ok(None) };
    if let Some(system) = record_file::parse(&file)? {
        return Ok(Some(HeldRecord { path: path.to_owned(), system, file }));
    }
    if !is_locked(&file) {
        // The process was killed before it wrote the record, and so before it changed anything.
        let _ = fs::remove_file(path);
    }
    Ok(None)
}

/// Returns true if another process has an exclusive lock on a file.
fn is_locked(file: &File) -> bool {
    // A shared lock, so that two of us don't take each other for the owner.
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_held_systems_from_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let records_dir = folder.path().join("state");
        assert!(HeldRecords::read(&records_dir).records.is_empty());
        let system = HeldSystem {
            source: "./mine.toml".to_owned(),
            name: "mine".to_owned(),
            pid: 7,
            hosts: vec![Host::local("here")],
        };
        let ours = HeldRecord::begin(system.clone(), "4711", &records_dir).unwrap();
        let [seen, again] = [(); 2].map(|()| HeldRecords::read(&records_dir).records.remove(0));
        assert_eq!(seen.system, system);
        assert!(seen.is_held() && again.is_held());
        drop(ours);
        // Another test may have just forked a process, which has the lock until it calls exec.
        for _ in 0..500 {
            if !seen.is_held() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        assert!(!seen.is_held() && !again.is_held());
        // One that is empty was abandoned before anything was changed.
        fs::write(records_dir.join("up-1.lock"), "").unwrap();
        fs::write(records_dir.join("up-2.lock"), "{}").unwrap();
        let found = HeldRecords::read(&records_dir);
        assert_eq!((found.records.len(), found.refused.len()), (1, 1));
        assert!(found.refused[0].why.contains("not a record"), "{found:?}");
        found.records[0].remove();
        let left: Vec<_> = fs::read_dir(&records_dir).unwrap().flatten().collect();
        assert_eq!((left.len(), left[0].file_name()), (1, "up-2.lock".into()));
    }
}
