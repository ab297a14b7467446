//! Decides which results files root may write: none that a link of another user leads to, and none
//! of another user in a world-writable directory.
//!
//! See [`check`]. Otherwise a user could place a link under the name of a results file and choose
//! which file root changes. Other users can only be led to their own files.
//!
//! **Source:** the kernel's `Documentation/admin-guide/sysctl/fs.rst` (`protected_symlinks`,
//! `protected_regular`), which may be off.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Maximum number of links to follow.
///
/// **Source:** path_resolution(7).
const LINKS_MAX: u32 = 40;

/// Sticky and world-writable, as /tmp is.
///
/// **Source:** inode(7), `S_ISVTX` and `S_IWOTH`.
const SHARED_FOLDER: u32 = 0o1002;

/// Checks a results file that will be written to, whether or not it exists. For root, returns the
/// path without any links, which must be opened without following links: no user can place one
/// after the check.
///
/// # Errors
/// If it was created by another user and this is root.
pub(crate) fn check(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Ok(None);
    }
    let end = check_for(user.as_raw(), path)?;
    let folder = fs::canonicalize(folder_of(&end))
        .map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
    let Some(name) = end.file_name() else { return Ok(None) };
    Ok(Some(folder.join(name)))
}

/// Follows the links at the end of a path; returns the target of the last one.
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
            // `join` replaces the directory if the link is absolute.
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

    /// The user running the tests.
    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn does_not_follow_foreign_links() {
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
        // A file that another user owns in their own directory is there on purpose.
        fs::write(&file, "").unwrap();
        check_for(us() + 1, &file).unwrap();
    }

    #[test]
    fn distrusts_shared_files_of_others() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let file = directory.path().join("dfsbench.db");
        check_for(us() + 1, &file).unwrap();
        fs::write(&file, "").unwrap();
        check_for(us(), &file).unwrap();
        assert!(matches!(check_for(us() + 1, &file), Err(StoreError::Placed { .. })));
    }
}
