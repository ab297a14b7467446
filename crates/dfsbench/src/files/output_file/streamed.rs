//! Output that is too large for memory: it is written to a file next to its final place and moved
//! there once it is complete.
//!
//! The rules are those of [`super::write`]. A file that is not committed is removed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use super::{OpenedFile, PendingMove, check, describe_failure, is_stdout, open_checked};
use crate::exit::Failure;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub struct StreamedFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// `None` if the file is written in place, and after it was committed.
    moved: Option<PendingMove>,
}

impl StreamedFile {
    /// Creates a file at a path named by the user.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the file must not be written to, [`Failure::Output`] if it can't be
    /// created.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        check(path, None)?;
        Self::open(path).map_err(|error| describe_failure(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        let OpenedFile { file, moved } = if is_stdout(path) {
            // A pipe or a socket can't be opened by name.
            let stdout = io::stdout().as_fd().try_clone_to_owned()?;
            OpenedFile { file: File::from(stdout), moved: None }
        } else {
            open_checked(path)?
        };
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { path: path.to_owned(), out, moved })
    }

    /// Writes the remaining data and moves the file to its final place.
    ///
    /// # Errors
    /// [`Failure::Output`] if that fails.
    pub fn commit(mut self) -> Result<(), Failure> {
        let mut written = self.out.flush();
        if let Some(moved) = self.moved.take() {
            written = moved.finish(written);
        }
        written.map_err(|error| self.failure(&error))
    }

    pub fn failure(&self, error: &io::Error) -> Failure {
        describe_failure(&self.path, error)
    }
}

impl Write for &mut StreamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for StreamedFile {
    fn drop(&mut self) {
        if let Some(moved) = &self.moved {
            moved.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn creates_file_only_on_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, "before").unwrap();
        let mut file = StreamedFile::create(&path).unwrap();
        (&mut file).write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        let mut file = StreamedFile::create(&path).unwrap();
        (&mut file).write_all(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(StreamedFile::create(folder.path()).is_err());
    }
    #[test]
    fn keeps_mode_and_hard_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let other = folder.path().join("other");
        fs::write(&path, "a longer one before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut file = StreamedFile::create(&path).unwrap();
        (&mut file).write_all(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::hard_link(&path, &other).unwrap();
        let mut file = StreamedFile::create(&path).unwrap();
        (&mut file).write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
    }
}
