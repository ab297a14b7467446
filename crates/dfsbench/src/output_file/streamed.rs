//! Output that is too long for memory: written to a file beside its place, and moved there once it
//! is whole.
//!
//! The rules are those of [`super::write`]. A file that is not committed is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use super::{
    check, describe_failure, follow_links, is_open_file, is_stdout, make_part, move_into_place,
};
use crate::exit::Failure;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub struct StreamedFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// The place of the file now, and the one where it belongs; none where it is written in place.
    moved: Option<Moved>,
}

#[derive(Debug)]
struct Moved {
    part: PathBuf,
    place: PathBuf,
}

impl StreamedFile {
    /// Begins to write to a path that a user named.
    ///
    /// # Errors
    /// [`Failure::Usage`] for what must not be written to, [`Failure::Output`] where no file can be
    /// made.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        check(path, None)?;
        Self::open(path).map_err(|error| describe_failure(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        if is_stdout(path) {
            // A pipe or a socket can't be opened by its name.
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            let out = BufWriter::with_capacity(BUFFER_BYTES, stdout);
            return Ok(Self { path: path.to_owned(), out, moved: None });
        }
        let place = follow_links(path)?;
        let is_replaced = match fs::metadata(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error),
            Ok(found) => found.is_file() && !is_open_file(path),
        };
        let (file, moved) = if is_replaced {
            let (part, file) = make_part(&place)?;
            (file, Some(Moved { part, place }))
        } else {
            (OpenOptions::new().write(true).open(&place)?, None)
        };
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { path: path.to_owned(), out, moved })
    }

    /// Writes the rest and moves the file to its place.
    ///
    /// # Errors
    /// [`Failure::Output`] where that fails.
    pub fn commit(mut self) -> Result<(), Failure> {
        let mut written = self.out.flush();
        if let Some(Moved { part, place }) = self.moved.take() {
            written = move_into_place(&part, &place, written);
        }
        written.map_err(|error| self.failure(&error))
    }

    /// Describes why the file can't be written.
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
            // Should the removal fail, the name of the rest shows which file it was to become.
            let _ = fs::remove_file(&moved.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_once_it_is_committed_and_else_nothing_is_left() {
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
}
