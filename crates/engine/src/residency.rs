//! Pages of our own files that the page cache of this host holds, counted in a sample.
//!
//! `O_DIRECT` is a request: file systems that can't fulfil it (ext4 with `data=journal`, tmpfs) go
//! through the page cache and report nothing. The pages that a pass leaves there show it. A sample
//! is a few milliseconds of work outside the measured time; it reads nothing in, and takes pieces
//! from the whole length of files from the whole set.
//!
//! **Source:** mincore(2); `ext4_dio_supported` in fs/ext4/file.c; `btrfs_dio_write` and
//! `check_direct_IO` in fs/btrfs; Linux 6.6, "tmpfs: trivial support for direct IO".

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::backend::mapping::{Mapping, PageRange};

/// Files that are looked at in each directory.
const FILES_MAX: usize = 16;

/// Names that are read to choose them from.
const NAMES_MAX: usize = 4096;

/// Pieces that are looked at in each file, from its begin to its end.
const PIECES: usize = 8;

/// Pages of a piece.
const PIECE_PAGES: usize = 256;

/// The pages of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Those that the page cache holds.
    pub resident_pages: u64,
    /// All that were looked at.
    pub pages: u64,
}

impl Residency {
    /// Counts a sample of the files in some directories and below them; `None` where they can't be
    /// looked at, or hold no whole page.
    pub fn sample(directories: &[PathBuf]) -> Option<Self> {
        let mut residency = Self::default();
        for directory in directories {
            residency.add_directory(directory).ok()?;
        }
        if residency.pages > 0 { Some(residency) } else { None }
    }

    /// Returns the share of the pages that the page cache holds.
    pub fn share(self) -> f64 {
        self.resident_pages as f64 / self.pages.max(1) as f64
    }

    fn add_directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        list_files(directory, &mut files)?;
        // The order in which a directory is read may change between two samples.
        files.sort_unstable();
        for path in files.iter().step_by(files.len().div_ceil(FILES_MAX).max(1)) {
            self.add_file(path)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        // Opened for writing, too: who may not write sees every page as resident.
        let file = File::options().read(true).write(true).open(path)?;
        // Whole pages only: the rest at the end can't be moved past the page cache everywhere.
        let page = rustix::param::page_size();
        let pages = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX) / page;
        if pages == 0 {
            return Ok(());
        }
        let map = Mapping::read_only(&OwnedFd::from(file), pages * page)?;
        let distance = pages.div_ceil(PIECES).max(PIECE_PAGES);
        for first in (0..pages).step_by(distance) {
            let count = PIECE_PAGES.min(pages - first);
            self.resident_pages += map.count_resident_pages(PageRange { first, count })?;
            self.pages += count as u64;
        }
        Ok(())
    }
}

/// Lists the files of a directory and of those below, up to a number of names.
fn list_files(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        if files.len() >= NAMES_MAX {
            break;
        }
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list_files(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
