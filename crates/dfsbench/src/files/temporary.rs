//! Named temporary files and folders of this program, and how to find those left by killed
//! processes.
//!
//! Each one is locked by its process while it is in use, before anything is written to it. One that
//! has content but no lock was left by a killed process; `dfsbench clean` removes it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

/// Prefixes of all names created here.
const PREFIXES: [&str; 2] = ["dfsbench-view-", "dfsbench-ca-"];

/// Name of the file that is locked in a folder.
const LOCK: &str = "lock";

/// A folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Creates a folder for copies of results files.
    ///
    /// # Errors
    /// If it can't be created, for example because the disk is full.
    pub(crate) fn for_copies() -> io::Result<Self> {
        let folder = TempDir::with_prefix(PREFIXES[0])?;
        let mut lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        lock.write_all(b"locked while it is used\n")?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Creates a file with a certificate, which is removed on drop.
///
/// # Errors
/// If it can't be written, for example because the disk is full.
pub(crate) fn certificate(pem: &str) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::with_prefix(PREFIXES[1])?;
    file.as_file().lock()?;
    file.write_all(pem.as_bytes())?;
    Ok(file)
}

/// Removes what killed processes of this user left in the temporary folder, and returns the number.
pub(crate) fn remove_abandoned() -> usize {
    remove_from(&std::env::temp_dir())
}

fn remove_from(temporary: &Path) -> usize {
    let me = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(temporary) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        // Leave the files of other users alone, and don't follow links.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.uid() != me {
            continue;
        }
        let is_gone = if found.is_dir() {
            is_abandoned(&path.join(LOCK)) && fs::remove_dir_all(&path).is_ok()
        } else {
            found.is_file() && is_abandoned(&path) && fs::remove_file(&path).is_ok()
        };
        removed += usize::from(is_gone);
    }
    removed
}

/// Returns true if a file was locked once and no longer is.
fn is_abandoned(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let was_locked = file.metadata().is_ok_and(|found| found.len() > 0);
    was_locked && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_unused_leftovers() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        fs::write(at("dfsbench-ca-dead"), "pem").unwrap();
        fs::write(at("dfsbench-ca-new"), "").unwrap();
        fs::write(at("other"), "pem").unwrap();
        let used = File::create(at("dfsbench-ca-used")).unwrap();
        used.lock().unwrap();
        (&used).write_all(b"pem").unwrap();
        fs::create_dir(at("dfsbench-view-dead")).unwrap();
        fs::write(at("dfsbench-view-dead/lock"), "locked").unwrap();
        fs::write(at("dfsbench-view-dead/copy.db"), "rows").unwrap();
        fs::create_dir(at("dfsbench-view-new")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("dfsbench-ca-link")).unwrap();
        assert_eq!(remove_from(temporary.path()), 2);
        let mut left: Vec<_> = fs::read_dir(temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let kept = [
            "dfsbench-ca-link",
            "dfsbench-ca-new",
            "dfsbench-ca-used",
            "dfsbench-view-new",
            "other",
        ];
        assert_eq!(left, kept);
    }
}
