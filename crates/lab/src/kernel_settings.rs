//! Settings of the kernel that are files: which files may be written as such.
//!
//! A path may name a setting and lead elsewhere by a link, so that it is resolved first.
//! **Source:** proc_sys(5), sysfs(5).

use std::path::Path;

use model::options::check_path;

use crate::NFSD_FOLDER;
use crate::error::LabError;

/// Folders of the kernel's settings.
const FOLDERS: [&str; 2] = ["/proc/sys", "/sys"];

/// Refuses to write to a file that is no setting of the kernel, whatever path leads to it.
///
/// # Errors
/// Where it is none, or isn't there.
pub fn check(path: &Path) -> Result<(), LabError> {
    if let Err(error) = check_path(path) {
        return Err(refuse(path, &error.to_string()));
    }
    let real = path.canonicalize().map_err(|error| LabError::file("write", path, error))?;
    if contains(&real) || real.starts_with(NFSD_FOLDER) {
        return Ok(());
    }
    Err(refuse(path, "it leads to no setting of the kernel"))
}

/// Says whether a path lies below a folder of settings.
pub fn contains(path: &Path) -> bool {
    FOLDERS.iter().any(|folder| path != Path::new(folder) && path.starts_with(folder))
}

fn refuse(path: &Path, why: &str) -> LabError {
    let path = path.display().to_string();
    LabError::Refused(format!("`{}` is not written: {why}", path.escape_debug()))
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
        assert!(error.contains("no setting of the kernel"), "{error}");
        check(Path::new("/proc/sys/vm/drop_caches")).unwrap();
    }
}
