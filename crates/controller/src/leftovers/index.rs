//! The results files that have records beside them, so that `dfsbench clean` finds all of them.
//!
//! Principal type: [`IndexEntry`]. Records lie beside results files, whose names a later `clean`
//! need not know. So each record has an entry among the files of this user: it has the name of the
//! campaign, and contains the path of the results file. An entry only says where to look; what is
//! done there is up to the record. Without a folder for entries a record is found by `--results`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::record_file;

/// Beginning of an entry's name, before that of the campaign.
const BEGIN: &str = "run-";

/// The entry of one campaign.
#[derive(Debug)]
pub struct IndexEntry {
    path: PathBuf,
    /// The results file beside which the record of the campaign is.
    pub results: PathBuf,
}

impl IndexEntry {
    /// Adds an entry; `None` if this user has no folder in which one can be made.
    pub fn add(results: &Path, campaign: &str, records_dir: &Path) -> Option<Self> {
        let results = std::path::absolute(results).ok()?;
        fs::create_dir_all(records_dir).ok()?;
        let path = records_dir.join(format!("{BEGIN}{campaign}"));
        fs::write(&path, results.as_os_str().as_bytes()).ok()?;
        Some(Self { path, results })
    }

    /// Removes the entry, and its folder if that is empty now.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Returns true if the record that the entry leads to is gone.
    pub fn is_stale(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let campaign = name.trim_start_matches(BEGIN);
        !record_file::path_of(&self.results, campaign).exists()
    }
}

/// Lists the entries of this user.
pub fn list(records_dir: &Path) -> Vec<IndexEntry> {
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
