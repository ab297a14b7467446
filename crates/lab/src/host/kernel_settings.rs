//! Checks which files may be written as kernel settings.
//!
//! A path is resolved first, because it may look like a setting but lead elsewhere through a
//! symlink. **Source:** proc_sys(5), sysfs(5).

use std::io::ErrorKind;
use std::path::Path;

use model::options::check_path;

use crate::error::LabError;
use crate::{DEBUGFS, NFSD_FOLDER};

const FOLDERS: [&str; 2] = ["/proc/sys", "/sys"];

/// Checks that a path leads to a kernel setting.
///
/// # Errors
/// If it doesn't, or the file doesn't exist.
pub(crate) fn check(path: &Path) -> Result<(), LabError> {
    if let Err(error) = check_path(path) {
        return Err(refuse(path, &error.to_string()));
    }
    let real = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && is_private(path) => {
            return Ok(());
        }
        real => real.map_err(|error| LabError::file("write", path, error))?,
    };
    if contains(&real) || real.starts_with(NFSD_FOLDER) {
        return Ok(());
    }
    Err(refuse(path, "it does not lead to a kernel setting"))
}

/// Returns true if a path is below one of the folders of kernel settings.
pub(crate) fn contains(path: &Path) -> bool {
    FOLDERS.iter().any(|folder| path != Path::new(folder) && path.starts_with(folder))
}

/// Returns true if a path is below debugfs, which only root can look at: nobody else can have put a
/// symlink there.
pub(crate) fn is_private(path: &Path) -> bool {
    path.starts_with(DEBUGFS) && path != Path::new(DEBUGFS)
}

fn refuse(path: &Path, why: &str) -> LabError {
    let path = path.display().to_string();
    LabError::Refused(format!("refusing to write `{}`: {why}", path.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("precious");
        std::fs::write(&file, "precious").unwrap();
        let error = check(&file).unwrap_err().to_string();
        assert!(error.contains("not lead to a kernel setting"), "{error}");
        check(Path::new("/proc/sys/vm/drop_caches")).unwrap();
    }
}
