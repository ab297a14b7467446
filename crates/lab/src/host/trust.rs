//! Checks which folders and files a privileged process may rely on because no other user can change
//! them.
//!
//! A path is trusted if every part of it belongs to root or to us and no other user can write to
//! it. In world-writable folders such as /tmp, this applies only to entries owned by root or us,
//! and only if the sticky bit is set. As a result, symlinks and files of other users are never
//! followed, written or removed. **Source:** open(2), `O_NOFOLLOW`; the kernel's
//! Documentation/admin-guide/sysctl/fs.rst, `protected_symlinks`.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::error::LabError;

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Rejects a path if another user owns or could replace any part of it. Parts that don't exist yet
/// are fine.
///
/// # Errors
/// If it isn't trusted. The error names the part and the reason.
pub(crate) fn check_path(path: &Path) -> Result<(), LabError> {
    // Start at the root: whether a part can be trusted only depends on its parents.
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.retain(|part| !part.as_os_str().is_empty());
    for part in parts.into_iter().rev() {
        let metadata = match part.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(LabError::file("inspect", part, error)),
        };
        if let Some(why) = reason_to_distrust(&metadata) {
            return Err(LabError::Refused(format!(
                "refusing to use {}: {} {why} (hint: use a folder that only {} can write to)",
                path.display(),
                part.display(),
                if geteuid().is_root() { "root" } else { "you" }
            )));
        }
        if metadata.is_symlink() {
            // A symlink owned by root or us. Its target must be trusted as well.
            match part.canonicalize() {
                Ok(target) => check_path(&target)?,
                Err(error) => return Err(LabError::file("follow", part, error)),
            }
        }
    }
    Ok(())
}

/// Describes how another user could change an entry, or returns `None` if they can't.
fn reason_to_distrust(metadata: &Metadata) -> Option<String> {
    let owner = metadata.uid();
    let mode = metadata.mode();
    if owner != 0 && owner != geteuid().as_raw() {
        return Some(format!("belongs to user {owner}"));
    }
    // In a sticky folder, only owners can remove or rename entries. The mode of a symlink is
    // meaningless.
    if metadata.is_symlink() || (metadata.is_dir() && mode & STICKY != 0) {
        return None;
    }
    if mode & OTHERS_WRITE != 0 {
        return Some("is writable by all users".to_owned());
    }
    // Root's group, and the owner's private group, have no other members.
    let group = metadata.gid();
    if mode & GROUP_WRITES != 0 && group != 0 && group != owner {
        return Some(format!("is writable by group {group}"));
    }
    None
}

/// Creates a folder that only we can use, if it doesn't exist.
///
/// # Errors
/// If it cannot be created, or another user owns or can write to it or one of its parents.
pub(crate) fn private_folder(folder: &Path) -> Result<(), LabError> {
    check_path(folder)?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| LabError::file("create", folder, error))?;
    // Someone may have created it between the first check and our attempt.
    check_path(folder)
}

/// Opens one of our files for reading and appending. Creates it if missing.
///
/// # Errors
/// If it is a symlink, isn't a regular file, has other hard links, or belongs to another user.
pub(crate) fn open_log(path: &Path) -> Result<File, LabError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    open_own(&mut options, path)
}

/// Creates one of our files, or truncates it.
///
/// # Errors
/// Same as [`open_log`].
pub(crate) fn create_file(path: &Path) -> Result<File, LabError> {
    if let Some(folder) = path.parent() {
        check_path(folder)?;
    }
    // Truncate it only after checking that it is ours.
    let file = open_own(OpenOptions::new().write(true).create(true), path)?;
    file.set_len(0).map_err(|error| LabError::file("truncate", path, error))?;
    Ok(file)
}

/// Creates a file that must not exist yet, not even as a symlink.
///
/// # Errors
/// If something with this name exists.
pub(crate) fn create_new(path: &Path) -> Result<File, LabError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| LabError::file("create", path, error))
}

fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, LabError> {
    // Non-blocking, so that a named pipe in its place cannot block us.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let options = options.mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|error| LabError::file("open", path, error))?;
    let metadata = file.metadata().map_err(|error| LabError::file("inspect", path, error))?;
    let why = if !metadata.is_file() {
        "is not a regular file".to_owned()
    } else if metadata.nlink() > 1 {
        "has another hard link".to_owned()
    } else if let Some(why) = reason_to_distrust(&metadata) {
        why
    } else {
        return Ok(file);
    };
    Err(LabError::Refused(format!("refusing to use {}: it {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// Debian's unprivileged user.
    const OTHER_USER: u32 = 65_534;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn distrusts_folder_others_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner/log");
        private_folder(&inner).unwrap();
        assert_eq!(inner.metadata().unwrap().mode() & 0o777, 0o700);
        for (mode, fine) in [(0o755, true), (0o777, false), (0o1777, true), (0o700, true)] {
            set_mode(folder.path(), mode);
            assert_eq!(check_path(&inner).is_ok(), fine, "{mode:o}");
        }
        set_mode(&inner, 0o777);
        let error = private_folder(&inner).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(inner.to_str().unwrap(), "[folder]"));
    }

    #[test]
    fn does_not_open_links() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let link = folder.path().join("link");
        fs::write(&target, "precious").unwrap();
        set_mode(&target, 0o600);
        symlink(&target, &link).unwrap();
        assert!(open_log(&link).is_err() && create_file(&link).is_err());
        assert!(create_new(&link).is_err() && create_new(&target).is_err());
        let other = folder.path().join("other");
        fs::hard_link(&target, &other).unwrap();
        let error = create_file(&other).unwrap_err().to_string();
        assert!(error.contains("another hard link"), "{error}");
        assert!(create_file(folder.path()).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        fs::remove_file(other).unwrap();
        set_mode(&target, 0o666);
        assert!(open_log(&target).unwrap_err().to_string().contains("all users"));
    }

    #[test]
    fn distrusts_files_of_other_users() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("theirs");
        let link = folder.path().join("link");
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        let error = private_folder(&theirs.join("state")).unwrap_err().to_string();
        assert!(error.contains(&format!("belongs to user {OTHER_USER}")), "{error}");
        symlink(folder.path(), &link).unwrap();
        check_path(&link.join("x")).unwrap();
        std::os::unix::fs::lchown(&link, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        assert!(check_path(&link.join("x")).is_err());
        let file = folder.path().join("file");
        fs::write(&file, "{}").unwrap();
        chown(&file, Some(OTHER_USER), None).unwrap();
        assert!(open_log(&file).is_err() && create_file(&file).is_err());
    }
}
