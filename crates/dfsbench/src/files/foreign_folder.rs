//! Warns root before it writes to a folder of another user, once per folder.
//!
//! Files created by root belong to root: the folder's owner can't add to those results and can't
//! remove root's directories unless they are empty.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use model::RunSpec;

use crate::terminal::output;

/// Folders that we already warned about.
static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Warns about the folder of a file that is about to be written.
pub(crate) fn warn_beside(file: &Path) {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => warn(folder),
        _ => warn(Path::new(".")),
    }
}

/// Warns about local directories that runs work in.
pub(crate) fn warn_of_targets(runs: &[RunSpec]) {
    for run in runs {
        if run.placement.hosts.is_empty() && run.lab.is_none() {
            run.target.paths().iter().for_each(|path| warn(path));
        }
    }
}

/// Warns about a folder that files are about to be created in.
pub(crate) fn warn(folder: &Path) {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return;
    }
    let Ok(found) = fs::metadata(folder) else { return };
    let Some(warning) = describe(folder, found.uid()) else { return };
    if output::lock_always(&WARNED).insert(folder.to_owned()) {
        output::message(&warning);
    }
}

/// Returns the warning about a folder; `None` if it belongs to root.
fn describe(folder: &Path, owner: u32) -> Option<String> {
    if owner == 0 {
        return None;
    }
    Some(format!(
        "warning: {} belongs to user {owner}, but new files in it will belong to root (hint: `sudo \
         -u '#{owner}' dfsbench ...`, or use a folder owned by root)",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_owner_of_foreign_folder() {
        let folder = Path::new("/home/alice");
        let warning = describe(folder, 1000).unwrap();
        assert!(warning.contains("/home/alice belongs to user 1000"), "{warning}");
        assert_eq!(describe(folder, 0), None);
    }
}
