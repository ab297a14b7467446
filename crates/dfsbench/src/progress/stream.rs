//! Lines for another process, which are never waited for while something is measured.
//!
//! Principal type: [`Stream`]. A pipe has room for 64 KiB; after that a write waits until its
//! reader reads, and the campaign would wait with it. So a pipe is only written to while it has
//! room, and further lines are held here, up to a limit that the caller checks. A regular file gets
//! each line with one call, and nothing is held.
//!
//! **Source:** POSIX.1-2017, write(): "Write requests to a pipe or FIFO"; Linux, fs/pipe.c, for
//! `poll`: a pipe that can be written to has room for `PIPE_BUF` bytes at least.

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

/// Bytes that a pipe with room takes without waiting. **Source:** Linux, `PIPE_BUF`.
const AT_ONCE_BYTES: usize = 4096;

/// Bytes of lines that are held for a slow reader at most: some minutes of progress.
const HELD_MAX_BYTES: usize = 1 << 20;

/// Seconds without anything read after which the lines at the end are given up.
const STALLED_S: i64 = 2;

/// How often a FIFO that no process reads yet is opened again, and how many times: 5 s in all.
const READER_TICK: Duration = Duration::from_millis(100);
const READER_TICKS: u32 = 50;

/// Writes lines to a file, a pipe or stderr.
pub struct Stream {
    /// `None` for stderr.
    file: Option<File>,
    /// Lines are held where there is no room for them: all but regular files.
    is_paced: bool,
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// Bytes of the first held line that were written.
    begun_bytes: usize,
}

impl Stream {
    /// Opens a file to append to it. A FIFO is waited for until a process reads it, 5 s at most.
    ///
    /// # Errors
    /// When it can't be opened, or no process reads the FIFO.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // A FIFO without a reader is an error then, in place of a call that doesn't come back.
        options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        for _ in 0..READER_TICKS {
            match options.open(path) {
                Ok(file) => {
                    let is_paced = !file.metadata()?.is_file();
                    return Ok(Self::of(Some(file), is_paced));
                }
                Err(error) if is_unread_fifo(&error, path) => wait_a_tick(),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(ErrorKind::NotConnected, "it is a FIFO that no process reads"))
    }

    /// Writes to stderr.
    pub fn stderr() -> Self {
        let is_file = rustix::fs::fstat(io::stderr())
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
        Self::of(None, !is_file)
    }

    fn of(file: Option<File>, is_paced: bool) -> Self {
        Self { file, is_paced, held: VecDeque::new(), held_bytes: 0, begun_bytes: 0 }
    }

    /// Says whether so many lines are held for a slow reader that no more should be.
    pub fn is_full(&self) -> bool {
        self.held_bytes >= HELD_MAX_BYTES
    }

    /// Writes a line, or holds it for a slow reader; never waits for one.
    ///
    /// # Errors
    /// When the file can't be written to any more.
    pub fn write(&mut self, line: String) -> io::Result<()> {
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

    /// Writes what is held while there is room for it.
    ///
    /// # Errors
    /// When the file can't be written to any more.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_held(0)
    }

    /// Writes all that is held, for as long as the reader reads; returns how many lines it didn't.
    ///
    /// # Errors
    /// When the file can't be written to any more.
    pub fn finish(&mut self) -> io::Result<usize> {
        self.write_held(STALLED_S)?;
        Ok(self.held.len())
    }

    /// Writes held lines while there is room, or is again within so many seconds.
    fn write_held(&mut self, patience_s: i64) -> io::Result<()> {
        while let Some(line) = self.held.front() {
            if !self.has_room(patience_s)? {
                return Ok(());
            }
            // A line that fits is written with one call, so that no other writer gets into it.
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
                    // Whatever is held can't be written either.
                    *self = Self::of(self.file.take(), self.is_paced);
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

    /// Says whether a write would go through at once, now or within so many seconds. A reader that
    /// is gone counts: the write says so.
    fn has_room(&self, patience_s: i64) -> io::Result<bool> {
        let stderr = io::stderr();
        let file = match &self.file {
            Some(file) => file.as_fd(),
            None => stderr.as_fd(),
        };
        let mut ends = [PollFd::new(&file, PollFlags::OUT)];
        match poll(&mut ends, Some(&Timespec { tv_sec: patience_s, tv_nsec: 0 })) {
            Ok(ready) => Ok(ready > 0),
            // A signal: the campaign is to end, and so is this.
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

    /// Opens the end that reads, without waiting for the other one.
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
        // Lines of more than a page, too: they are written in parts.
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
        // 16 pages are the room of a pipe.
        for _ in 0..20 {
            stream.write(format!("{}\n", "x".repeat(AT_ONCE_BYTES - 1))).unwrap();
        }
        assert_eq!(stream.finish().unwrap(), 4);
        drop(reader);
        assert_eq!(stream.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.finish().unwrap(), 0);
    }
}
