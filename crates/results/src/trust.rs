//! Decides which results files root may write: none that a link of another user leads to, and none
//! of another user in a folder that all users may write to.
//!
//! [`check`] is the way in. A user who places a link by the name of a results file would else
//! choose which file root changes. Other users can be led to their own files only.
//!
//! **Source:** the kernel's `Documentation/admin-guide/sysctl/fs.rst` (`protected_symlinks`,
//! `protected_regular`), which may be off.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Links that are followed at most.
///
/// **Source:** path_resolution(7).
const LINKS_MAX: u32 = 40;

/// Sticky, and writable for all users, as /tmp is.
///
/// **Source:** inode(7), `S_ISVTX` and `S_IWOTH`.
const SHARED_FOLDER: u32 = 0o1002;

/// Checks a results file that is to be written to, there already or not. For root it returns the
/// path without any link, which is to be opened without following one: no user can place a link
/// after the check.
///
/// # Errors
/// When it was placed by another user and this is root.
pub fn check(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Ok(None);
    }
    let end = check_for(user.as_raw(), path)?;
    let folder = match fs::canonicalize(folder_of(&end)) {
        Ok(folder) => folder,
        Err(source) => return Err(StoreError::Io { path: path.to_owned(), source }),
    };
    let Some(name) = end.file_name() else { return Ok(None) };
    Ok(Some(folder.join(name)))
}

/// Follows the links at the end of a path; returns where the last one leads.
fn check_for(user: u32, path: &Path) -> Result<PathBuf, StoreError> {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let found = match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(at),
            Err(source) => return Err(StoreError::Io { path: at, source }),
            Ok(found) => found,
        };
        let folder = folder_of(&at);
        let is_foreign = found.uid() != user;
        if is_foreign && (found.is_symlink() || is_shared(&folder)) {
            let [path, placed] = [path, &at].map(Path::to_owned);
            return Err(StoreError::Placed { path, placed, owner: found.uid() });
        }
        if !found.is_symlink() {
            return Ok(at);
        }
        match fs::read_link(&at) {
            // `join` replaces the folder where the link is absolute.
            Ok(target) => at = folder.join(target),
            Err(source) => return Err(StoreError::Io { path: at, source }),
        }
    }
    Ok(at)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn is_shared(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.mode() & SHARED_FOLDER == SHARED_FOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// The user that runs the tests.
    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn links_of_another_user_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, second] =
            ["real.db", "link.db", "second.db"].map(|name| directory.path().join(name));
        symlink("real.db", &link).unwrap();
        symlink(&link, &second).unwrap();
        for path in [&link, &second] {
            check_for(us(), path).unwrap();
            let error = check_for(us() + 1, path).unwrap_err().to_string();
            assert!(error.contains(&format!("belongs to user {}", us())), "{error}");
        }
        // A file that another user has in a folder of their own is theirs by intent.
        fs::write(&file, "").unwrap();
        check_for(us() + 1, &file).unwrap();
    }

    #[test]
    fn files_of_another_user_in_a_shared_folder_are_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let file = directory.path().join("dfsbench.db");
        check_for(us() + 1, &file).unwrap();
        fs::write(&file, "").unwrap();
        check_for(us(), &file).unwrap();
        assert!(matches!(check_for(us() + 1, &file), Err(StoreError::Placed { .. })));
    }
}
