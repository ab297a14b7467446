//! The page cache of this host, as far as it holds our own files.
//!
//! Dropping pages needs no privilege for one's own files. Whether it worked is not assumed: the
//! agent compares what storage then reads with what the workload reads.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::Advice;

/// Drops a file's pages from the page cache, after they are on storage.
///
/// Needs no privilege. Memory file systems keep their pages, since they have nothing else.
///
/// # Errors
/// When the file can't be opened or synced.
///
/// **Source:** posix_fadvise(2), `POSIX_FADV_DONTNEED`: dirty pages are not dropped.
pub fn drop_file(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_data()?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Drops the files of a directory and of those below whose names are wanted, see [`drop_file`].
/// Links aren't followed.
///
/// # Errors
/// When one of them can't be dropped.
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
