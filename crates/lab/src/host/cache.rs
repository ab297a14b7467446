//! Drops our own files from this host's page cache.
//!
//! This needs no privileges for one's own files. We don't assume that it worked: the agent compares
//! the bytes that storage then reads with those that the workload reads.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::Advice;

/// Drops a file's pages from the page cache after writing them to storage.
///
/// Needs no privileges. Has no effect on in-memory file systems, whose only copy is in the page
/// cache.
///
/// # Errors
/// If the file cannot be opened or synced.
///
/// **Source:** posix_fadvise(2), `POSIX_FADV_DONTNEED`: dirty pages are not dropped.
pub(crate) fn drop_file(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_data()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Drops the files in and below a directory whose names satisfy `is_wanted`, see `drop_file`.
/// Symlinks aren't followed.
///
/// # Errors
/// If one of the files cannot be dropped.
pub fn drop_directory(path: &Path, is_wanted: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            drop_directory(&entry.path(), is_wanted)?;
        } else if kind.is_file() && is_wanted(&entry.file_name()) {
            drop_file(&entry.path())?;
        }
    }
    Ok(())
}
