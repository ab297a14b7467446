//! An index of results files with records, so that `dfsbench clean` finds all of them.
//!
//! Records are stored next to results files, whose names a later `clean` may not know. So each
//! record has an [`IndexEntry`] in this user's folder: a file with the name of the campaign that
//! contains the path of the results file. An entry only tells `clean` where to look; the record
//! determines what is done there. Without such a folder, a record can be found with `--results`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::record_file;

/// Prefix of an entry's file name, followed by the campaign's name.
const BEGIN: &str = "run-";

/// The entry of one campaign.
#[derive(Debug)]
pub(super) struct IndexEntry {
    path: PathBuf,
    /// The results file next to which the record is stored.
    pub results: PathBuf,
}

impl IndexEntry {
    /// Adds an entry; `None` if this user has no writable folder for it.
    pub(super) fn add(results: &Path, campaign: &str, records_dir: &Path) -> Option<Self> {
        let results = std::path::absolute(results).ok()?;
        fs::create_dir_all(records_dir).ok()?;
        let path = records_dir.join(format!("{BEGIN}{campaign}"));
        fs::write(&path, results.as_os_str().as_bytes()).ok()?;
        Some(Self { path, results })
    }

    /// Removes the entry, and its folder if that is now empty.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Returns true if the record that the entry leads to is gone.
    pub(super) fn is_stale(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let campaign = name.trim_start_matches(BEGIN);
        !record_file::path_of(&self.results, campaign).exists()
    }
}

/// Lists the entries of this user.
pub(super) fn list(records_dir: &Path) -> Vec<IndexEntry> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(records_dir) else { return found };
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(BEGIN.as_bytes()) {
            continue;
        }
        let path = entry.path();
        if let Ok(content) = fs::read(&path)
            && Path::new(&OsString::from_vec(content.clone())).is_absolute()
        {
            found.push(IndexEntry { path, results: OsString::from_vec(content).into() });
        }
    }
    found
}
