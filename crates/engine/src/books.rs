//! The books of a soak in a file, which outlives a process that is killed.
//!
//! Principal type: [`Books`]. What is journaled is in the kernel's memory at once, so that an agent
//! that comes after a killed process finds all that it knew. The room is reserved before, since a
//! mapping of a file that can't grow kills its process.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU32;

use model::RunSpec;
use rustix::fs::{FallocateFlags, fallocate};

use workload::Journal;

use crate::backend::mapping::Mapping;

/// Words in a file.
pub struct Books(Mapping);

// SAFETY: the mapping is reached as atomics only.
unsafe impl Sync for Books {}

/// Begins the journal of a soak in a file.
///
/// # Errors
/// When the file is there already, or can't be made.
pub fn begin_journal(path: &Path, spec: &RunSpec) -> io::Result<Journal> {
    Ok(journal_over(Books::begin(path, journal_words(spec))?, spec))
}

/// Continues the journal of a soak that an earlier process left in a file.
///
/// # Errors
/// When there is no such file, or it is that of another run.
pub fn continue_journal(path: &Path, spec: &RunSpec) -> io::Result<Journal> {
    Ok(journal_over(Books::go_on(path, journal_words(spec))?, spec))
}

fn journal_words(spec: &RunSpec) -> usize {
    Journal::words(spec.files, spec.file_size_bytes, spec.io_size_bytes)
}

fn journal_over(books: Books, spec: &RunSpec) -> Journal {
    Journal::over(Box::new(books), spec.file_size_bytes, spec.io_size_bytes)
}

impl Books {
    /// Makes a file with so many words, all 0.
    ///
    /// # Errors
    /// When it is there already, can't be made, or has no room.
    pub fn begin(path: &Path, words: usize) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let bytes = words.max(1) * size_of::<AtomicU32>();
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        Self::of(file, bytes)
    }

    /// Opens the words that an earlier agent left.
    ///
    /// # Errors
    /// When there is no such file, or it has not so many words.
    pub fn go_on(path: &Path, words: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = words.max(1) * size_of::<AtomicU32>();
        let found = file.metadata()?.len();
        if found != bytes as u64 {
            let what = format!("{found} B of books where there should be {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Self::of(file, bytes)
    }

    fn of(file: File, bytes: usize) -> io::Result<Self> {
        Ok(Self(Mapping::writable(&OwnedFd::from(file), bytes)?))
    }
}

impl AsRef<[AtomicU32]> for Books {
    fn as_ref(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_are_there_for_whoever_comes_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("books");
        let books = Books::begin(&path, 8).unwrap();
        books.as_ref()[7].store(42, Relaxed);
        assert!(Books::begin(&path, 8).is_err(), "they are somebody's");
        drop(books);
        let left = Books::go_on(&path, 8).unwrap();
        assert_eq!(left.as_ref().len(), 8);
        assert_eq!((left.as_ref()[7].load(Relaxed), left.as_ref()[0].load(Relaxed)), (42, 0));
        assert!(Books::go_on(&path, 9).is_err());
        assert!(Books::go_on(&folder.path().join("none"), 8).is_err());
    }
}
