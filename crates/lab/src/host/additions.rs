//! Files and folders that a system's programs add to folders that aren't ours.
//!
//! [`list`] records what exists before the programs start, and [`remove`] later removes everything
//! else. Whatever existed before is never touched, even if its content has changed.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::commands::{Runner, SOON};
use crate::error::LabError;

/// Maximum number of entries per folder, since they are written to the undo log.
const LISTED_MAX: usize = 20_000;

/// Lists a path and everything below it. Returns `None` if it doesn't exist.
///
/// # Errors
/// If there are too many entries or they cannot be read.
pub(crate) fn list(path: &Path) -> Result<Option<BTreeSet<PathBuf>>, LabError> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(None) };
    let mut found = BTreeSet::from([path.to_owned()]);
    let mut folders = Vec::new();
    if metadata.is_dir() {
        folders.push(path.to_owned());
    }
    while let Some(folder) = folders.pop() {
        for entry in read_folder(&folder)? {
            // The type of the entry itself: symlinks aren't followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            found.insert(entry.path());
        }
        if found.len() > LISTED_MAX {
            let path = path.display();
            let what = format!(
                "{path} contains more than {LISTED_MAX} files, too many to tell which ones a \
                 system adds"
            );
            return Err(LabError::Refused(what));
        }
    }
    Ok(Some(found))
}

fn read_folder(folder: &Path) -> Result<Vec<fs::DirEntry>, LabError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(LabError::file("list", folder, error)),
    }
}

/// Removes everything at or below a path that wasn't there before.
///
/// # Errors
/// If something cannot be removed.
pub(crate) fn remove(
    runner: &Runner,
    path: &Path,
    before: Option<&BTreeSet<PathBuf>>,
) -> Result<(), LabError> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let Some(before) = before else { return remove_all(runner, path) };
    let mut folders = Vec::new();
    if metadata.is_dir() {
        folders.push(path.to_owned());
    }
    while let Some(folder) = folders.pop() {
        for entry in read_folder(&folder)? {
            let path = entry.path();
            if !before.contains(&path) {
                remove_all(runner, &path)?;
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    Ok(())
}

fn remove_all(runner: &Runner, path: &Path) -> Result<(), LabError> {
    let name = path.display().to_string();
    runner.run(&["rm", "--recursive", "--force", "--one-file-system", "--", &name], SOON)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn keeps_earlier_additions() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("state/old")).unwrap();
        fs::write(at("state/old/kept"), "1").unwrap();
        fs::write(at("precious"), "1").unwrap();
        let before = list(&at("state")).unwrap();
        fs::write(at("state/old/kept"), "changed").unwrap();
        fs::write(at("state/old/new"), "1").unwrap();
        fs::create_dir_all(at("state/added/inner")).unwrap();
        symlink(at("precious"), at("state/link")).unwrap();
        let runner = Runner::default();
        for _ in 0..2 {
            remove(&runner, &at("state"), before.as_ref()).unwrap();
            let left = list(&at("state")).unwrap().unwrap();
            let expected = [at("state"), at("state/old"), at("state/old/kept")];
            assert_eq!(left.into_iter().collect::<Vec<_>>(), expected);
        }
        assert!(at("precious").exists());
        // If the folder did not exist before, it is removed completely.
        assert_eq!(list(&at("none")).unwrap(), None);
        fs::create_dir_all(at("none/x")).unwrap();
        remove(&runner, &at("none"), None).unwrap();
        assert!(!at("none").exists());
    }
}
