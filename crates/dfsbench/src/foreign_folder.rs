//! Warns root before it writes into a folder of another user, each folder once.
//!
//! What root makes there belongs to root: its owner can't add to those results, and can't remove a
//! directory of root's that is not empty.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use model::RunSpec;

use crate::output;

/// Folders that were warned of.
static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Warns of the folder of a file that is written.
pub fn warn_beside(file: &Path) {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => warn(folder),
        _ => warn(Path::new(".")),
    }
}

/// Warns of the directories of this host that runs work in.
pub fn warn_of_targets(runs: &[RunSpec]) {
    for run in runs {
        if run.placement.hosts.is_empty() && run.lab.is_none() {
            run.target.paths().iter().for_each(|path| warn(path));
        }
    }
}

/// Warns of a folder that files are made in.
pub fn warn(folder: &Path) {
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

/// Words what root should know of a folder; `None` if it is root's own.
fn describe(folder: &Path, owner: u32) -> Option<String> {
    if owner == 0 {
        return None;
    }
    Some(format!(
        "warning: {} belongs to user {owner}, and what is made in it now will belong to root (hint: \
         `sudo -u '#{owner}' dfsbench ...`, or name a folder of root's)",
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
