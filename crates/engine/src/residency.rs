//! Counts a sample of our files' pages in this host's page cache.
//!
//! `O_DIRECT` is only a request: file systems that cannot fulfill it (ext4 with `data=journal`,
//! tmpfs) use the page cache without reporting an error. The pages that a pass leaves there reveal
//! it. Sampling takes a few milliseconds outside of the measured time and doesn't read anything in.
//! It covers files from the whole set, over their whole length.
//!
//! **Source:** mincore(2); `ext4_dio_supported` in fs/ext4/file.c; `btrfs_dio_write` and
//! `check_direct_IO` in fs/btrfs; Linux 6.6, "tmpfs: trivial support for direct IO".

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::backend::mapping::{Mapping, PageRange};

/// Number of files to sample in each directory.
const FILES_MAX: usize = 16;

/// Maximum number of names from which they are selected.
const NAMES_MAX: usize = 4096;

/// Number of pieces to sample in each file, evenly distributed.
const PIECES: usize = 8;

/// Number of pages per piece.
const PIECE_PAGES: usize = 256;

/// The pages of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Pages in the page cache.
    pub resident_pages: u64,
    /// Pages that were examined.
    pub pages: u64,
}

impl Residency {
    /// Samples the files in and below some directories. Returns `None` if they cannot be examined
    /// or don't contain a whole page.
    pub fn sample(directories: &[PathBuf]) -> Option<Self> {
        let mut residency = Self::default();
        for directory in directories {
            residency.add_directory(directory).ok()?;
        }
        if residency.pages > 0 { Some(residency) } else { None }
    }

    /// Returns the fraction of the pages that are in the page cache.
    pub fn share(self) -> f64 {
        self.resident_pages as f64 / self.pages.max(1) as f64
    }

    fn add_directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        list_files(directory, &mut files)?;
        // The order of a directory listing may change between two samples.
        files.sort_unstable();
        for path in files.iter().step_by(files.len().div_ceil(FILES_MAX).max(1)) {
            self.add_file(path)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        // Open the file for writing as well: otherwise, the kernel may report every page as
        // resident.
        let file = File::options().read(true).write(true).open(path)?;
        // Whole pages only: on some file systems, the rest can't bypass the page cache.
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

/// Lists the files in and below a directory, up to a maximum number of names.
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
