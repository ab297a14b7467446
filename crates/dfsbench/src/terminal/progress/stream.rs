//! Writes lines for another process without ever waiting for it during a measurement.
//!
//! [`Stream`] is the main type. A pipe has room for 64 KiB; after that a write blocks until its
//! reader reads, and the campaign would block with it. So a pipe is only written to while it has
//! room, and further lines are held back here, up to a limit that the caller checks. For a regular
//! file each line is written with a single call, and nothing is held back.
//!
//! **Source:** POSIX.1-2017, write(): "Write requests to a pipe or FIFO"; Linux, fs/pipe.c, for
//! `poll`: a writable pipe has room for at least `PIPE_BUF` bytes.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

/// Bytes that a writable pipe accepts without blocking. **Source:** Linux, `PIPE_BUF`.
const AT_ONCE_BYTES: usize = 4096;

/// Maximum bytes of lines held back for a slow reader: a few minutes of progress.
const HELD_MAX_BYTES: usize = 1 << 20;

/// If nothing is read for this many seconds, the final lines are dropped.
const STALLED_S: i64 = 2;

/// How often and how many times to retry opening a FIFO without a reader: 5 s in total.
const READER_TICK: Duration = Duration::from_millis(100);
const READER_TICKS: u32 = 50;

/// Writes lines to a file, a pipe or stderr.
pub(super) struct Stream {
    /// `None` for stderr.
    file: Option<File>,
    /// Whether lines are held back if there is no room: true for everything except regular files.
    is_paced: bool,
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// Bytes of the first held line that were already written.
    begun_bytes: usize,
}

impl Stream {
    /// Opens a file for appending. For a FIFO, waits up to 5 s for a reader.
    ///
    /// # Errors
    /// If it can't be opened or no process reads the FIFO.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // With this flag, opening a FIFO without a reader fails instead of blocking.
        options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        for _ in 0..READER_TICKS {
            match options.open(path) {
                Ok(file) => {
                    let is_paced = !file.metadata()?.is_file();
                    return Ok(Self::from_file(Some(file), is_paced));
                }
                Err(error) if is_unread_fifo(&error, path) => wait_a_tick(),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(ErrorKind::NotConnected, "it is a FIFO that no process reads"))
    }

    /// Creates a stream that writes to stderr.
    pub(super) fn stderr() -> Self {
        let is_file = rustix::fs::fstat(io::stderr())
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
        Self::from_file(None, !is_file)
    }

    fn from_file(file: Option<File>, is_paced: bool) -> Self {
        Self { file, is_paced, held: VecDeque::new(), held_bytes: 0, begun_bytes: 0 }
    }

    /// Returns true if no further lines should be held back.
    pub(super) fn is_full(&self) -> bool {
        self.held_bytes >= HELD_MAX_BYTES
    }

    /// Writes a line, or buffers it for a slow reader. Never blocks.
    pub(super) fn write(&mut self, line: String) -> io::Result<()> {
        if !self.is_paced {
            return match &mut self.file {
                Some(file) => file.write_all(line.as_bytes()),
                None => io::stderr().lock().write_all(line.as_bytes()),
            };
        }
        self.held_bytes += line.len();
        self.held.push_back(line.into_bytes());
        self.write_held(0)
    }

    /// Writes the lines held back, as long as there is room.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_held(0)
    }

    /// Writes all lines held back, as long as the reader keeps reading. Returns the number of lines
    /// that were not written.
    pub(super) fn finish(&mut self) -> io::Result<usize> {
        self.write_held(STALLED_S)?;
        Ok(self.held.len())
    }

    /// Writes held lines while there is room, waiting up to `patience_s` for it.
    fn write_held(&mut self, patience_s: i64) -> io::Result<()> {
        while let Some(line) = self.held.front() {
            if !self.has_room(patience_s)? {
                return Ok(());
            }
            // Write short lines with a single call, so that other writers can't interrupt them.
            let rest = &line[self.begun_bytes..];
            let part = &rest[..rest.len().min(AT_ONCE_BYTES)];
            let written = match &self.file {
                Some(file) => (&*file).write(part),
                None => io::stderr().lock().write(part),
            };
            match written {
                Ok(bytes) if bytes == rest.len() => self.drop_first(),
                Ok(bytes) => self.begun_bytes += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another writer was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    // The other held lines can't be written either.
                    *self = Self::from_file(self.file.take(), self.is_paced);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn drop_first(&mut self) {
        if let Some(line) = self.held.pop_front() {
            self.held_bytes -= line.len();
        }
        self.begun_bytes = 0;
    }

    /// Returns true if a write won't block, waiting up to `patience_s` for that. Also returns true
    /// if the reader is gone: the write then fails.
    fn has_room(&self, patience_s: i64) -> io::Result<bool> {
        let stderr = io::stderr();
        let file = match &self.file {
            Some(file) => file.as_fd(),
            None => stderr.as_fd(),
        };
        let mut ends = [PollFd::new(&file, PollFlags::OUT)];
        match poll(&mut ends, Some(&Timespec { tv_sec: patience_s, tv_nsec: 0 })) {
            Ok(ready) => Ok(ready > 0),
            // A signal asks the campaign to stop, so stop waiting.
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_unread_fifo(error: &io::Error, path: &Path) -> bool {
    let is_unread = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
    is_unread && fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[allow(clippy::disallowed_methods, reason = "another process is waited for, before the campaign")]
fn wait_a_tick() {
    std::thread::sleep(READER_TICK);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::PathBuf;

    use rustix::fs::{CWD, Mode, mknodat};

    use super::*;

    fn fifo(folder: &Path) -> PathBuf {
        let fifo = folder.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        fifo
    }

    /// Opens the reading end without waiting for a writer.
    fn open_reader(fifo: &Path) -> File {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        options.open(fifo).unwrap()
    }

    #[test]
    fn never_waits_for_stalled_reader() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = fifo(folder.path());
        let mut reader = open_reader(&fifo);
        let mut stream = Stream::open(&fifo).unwrap();
        let mut written = String::new();
        // Include lines longer than a page, which are written in parts.
        for number in 0.. {
            if stream.is_full() {
                break;
            }
            let line = format!("{number} {}\n", "x".repeat(number * 997 % 9000));
            written.push_str(&line);
            stream.write(line).unwrap();
        }
        assert!(written.len() > HELD_MAX_BYTES, "{} bytes", written.len());
        let mut read = Vec::new();
        while read.len() < written.len() {
            stream.flush().unwrap();
            let _ = reader.read_to_end(&mut read);
        }
        assert!(read == written.as_bytes(), "other lines were read");
        assert!(!stream.is_full());
        assert_eq!(stream.finish().unwrap(), 0);
    }

    #[test]
    fn counts_lines_missed_by_stalled_reader() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = fifo(folder.path());
        let reader = open_reader(&fifo);
        let mut stream = Stream::open(&fifo).unwrap();
        // A pipe has room for 16 pages.
        for _ in 0..20 {
            stream.write(format!("{}\n", "x".repeat(AT_ONCE_BYTES - 1))).unwrap();
        }
        assert_eq!(stream.finish().unwrap(), 4);
        drop(reader);
        assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.finish().unwrap(), 0);
    }
}
