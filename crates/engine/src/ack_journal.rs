//! A soak's acknowledgement journal in a file, so that it survives a killed process.
//!
//! Everything recorded in a `JournalFile` is in the page cache immediately, so an agent that
//! replaces a killed one finds all of it. The space is reserved in advance, because writing to a
//! mapped file that the file system cannot extend would kill the process.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU32;

use model::RunSpec;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use workload::Journal;

use crate::backend::mapping::Mapping;

/// An array of words in a file.
pub(crate) struct JournalFile(Mapping);

// SAFETY: the mapping is only accessed through atomics.
unsafe impl Sync for JournalFile {}

/// Creates the journal file of a soak.
///
/// # Errors
/// If the file already exists or cannot be created.
pub fn begin_journal(path: &Path, spec: &RunSpec) -> io::Result<Journal> {
    Ok(journal_over(JournalFile::begin(path, journal_words(spec))?, spec))
}

/// Continues with the journal file that an earlier process left.
///
/// # Errors
/// If the file doesn't exist or belongs to a different run.
pub fn continue_journal(path: &Path, spec: &RunSpec) -> io::Result<Journal> {
    Ok(journal_over(JournalFile::reopen(path, journal_words(spec))?, spec))
}

fn journal_words(spec: &RunSpec) -> usize {
    Journal::count_words(spec.files, spec.file_size_bytes, spec.io_size_bytes)
}

fn journal_over(file: JournalFile, spec: &RunSpec) -> Journal {
    Journal::over(Box::new(file), spec.file_size_bytes, spec.io_size_bytes)
}

impl JournalFile {
    /// Creates a file with `words` words, all of them 0.
    ///
    /// # Errors
    /// If the file already exists, cannot be created, or there is no space for it.
    pub(crate) fn begin(path: &Path, words: usize) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let bytes = words.max(1) * size_of::<AtomicU32>();
        // Allocate the space first: storing to a page that the file system cannot back kills the
        // process.
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        Self::map_file(file, bytes)
    }

    /// Opens the words left by an earlier agent.
    ///
    /// # Errors
    /// If the file doesn't exist or has a different size.
    pub(crate) fn reopen(path: &Path, words: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path)?;
        let bytes = words.max(1) * size_of::<AtomicU32>();
        let found = file.metadata()?.len();
        if found != bytes as u64 {
            let what = format!("the journal has {found} B instead of {bytes} B");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Self::map_file(file, bytes)
    }

    fn map_file(file: File, bytes: usize) -> io::Result<Self> {
        Ok(Self(Mapping::writable(&OwnedFd::from(file), bytes)?))
    }
}

impl AsRef<[AtomicU32]> for JournalFile {
    fn as_ref(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn hands_journal_to_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let first = JournalFile::begin(&path, 8).unwrap();
        first.as_ref()[7].store(42, Relaxed);
        assert!(JournalFile::begin(&path, 8).is_err(), "another agent uses the journal");
        drop(first);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(JournalFile::reopen(&link, 8).is_err(), "a link may lead to another file");
        let left = JournalFile::reopen(&path, 8).unwrap();
        assert_eq!(left.as_ref().len(), 8);
        assert_eq!((left.as_ref()[7].load(Relaxed), left.as_ref()[0].load(Relaxed)), (42, 0));
        assert!(JournalFile::reopen(&path, 9).is_err());
        assert!(JournalFile::reopen(&folder.path().join("none"), 8).is_err());
    }
}
