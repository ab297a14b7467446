//! Synchronous system calls: one op at a time per worker, each timed by itself.
//!
//! Files are open before the pass starts; names are looked up relative to the open working
//! directory. Reads land in an aligned buffer, writes go out from the pattern (or, with
//! `O_DIRECT`, from the aligned buffer).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::{Completion, Op, OpError, OpKind, Outcome};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use workload::{Name, Pattern};

use super::{Backend, Lost, Tally};
use crate::buffers::Buffers;
use crate::clock::Clock;

/// What a backend on a directory works with.
pub struct Files {
    /// The working directory.
    pub directory: OwnedFd,
    /// Every `stride`-th file of the set, open; empty where a pass works by name.
    pub files: Vec<OwnedFd>,
    /// Distance between the numbers of files that are open here.
    pub stride: u32,
    /// What is written, and what must come back.
    pub pattern: Pattern,
    /// Compare what is read.
    pub verify: bool,
    /// Files are open with `O_DIRECT`.
    pub direct: bool,
    /// Largest op.
    pub io_size_bytes: usize,
    /// Ops in flight.
    pub queue_depth: usize,
}

impl Files {
    /// Where the file with this number stands in `files`.
    #[inline]
    pub const fn index(&self, number: u32) -> usize {
        (number / self.stride) as usize
    }

    #[inline]
    fn file(&self, number: u32) -> &OwnedFd {
        &self.files[self.index(number)]
    }
}

/// Executes ops by blocking system calls.
pub struct Posix {
    set: Files,
    clock: Arc<dyn Clock>,
    buffer: Buffers,
    queue: Vec<Op>,
    ops: u64,
}

impl Posix {
    /// Makes a backend on open files.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> Self {
        let buffer = Buffers::new(1, set.io_size_bytes);
        let queue = Vec::with_capacity(set.queue_depth);
        Self { set, clock, buffer, queue, ops: 0 }
    }

    fn execute(&mut self, op: &Op) -> Result<u32, OpError> {
        match op.kind {
            OpKind::Read => self.read(op),
            OpKind::Write => self.write(op),
            OpKind::Sync => {
                retry(|| rustix::fs::fsync(self.set.file(op.file))).map(|()| 0).map_err(failed)
            }
            OpKind::Create => self.create(op),
            OpKind::Stat => {
                let name = Name::file(op.file);
                retry(|| {
                    rustix::fs::statat(
                        &self.set.directory,
                        name.as_c_str(),
                        AtFlags::SYMLINK_NOFOLLOW,
                    )
                })
                .map(|_| 0)
                .map_err(failed)
            }
            OpKind::Remove => {
                let name = Name::file(op.file);
                retry(|| {
                    rustix::fs::unlinkat(&self.set.directory, name.as_c_str(), AtFlags::empty())
                })
                .map(|()| 0)
                .map_err(failed)
            }
            _ => Err(failed(Errno::OPNOTSUPP)),
        }
    }

    fn read(&mut self, op: &Op) -> Result<u32, OpError> {
        let buffer = &mut self.buffer.slot(0)[..op.len_bytes as usize];
        let file = self.set.file(op.file);
        let read = retry(|| rustix::io::pread(file, &mut *buffer, op.offset_bytes));
        whole(op, read.map_err(failed)?)?;
        let expected = self.set.pattern.slice(op.file, op.offset_bytes, op.len_bytes);
        if self.set.verify && *buffer != *expected {
            return Err(OpError::MISMATCH);
        }
        Ok(op.len_bytes)
    }

    fn write(&mut self, op: &Op) -> Result<u32, OpError> {
        let mut data = self.set.pattern.slice(op.file, op.offset_bytes, op.len_bytes);
        if self.set.direct {
            let aligned = &mut self.buffer.slot(0)[..data.len()];
            aligned.copy_from_slice(data);
            data = aligned;
        }
        let file = self.set.file(op.file);
        let written = retry(|| rustix::io::pwrite(file, data, op.offset_bytes)).map_err(failed)?;
        whole(op, written)
    }

    fn create(&self, op: &Op) -> Result<u32, OpError> {
        let name = Name::file(op.file);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let open = || rustix::fs::openat(&self.set.directory, name.as_c_str(), flags, mode);
        let file = retry(open).map_err(failed)?;
        let data = self.set.pattern.slice(op.file, 0, op.len_bytes);
        if !data.is_empty() {
            whole(op, retry(|| rustix::io::write(&file, data)).map_err(failed)?)?;
        }
        Ok(op.len_bytes)
    }
}

impl Backend for Posix {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.queue.capacity() - self.queue.len());
        self.queue.extend_from_slice(&batch[..accepted]);
        accepted
    }

    fn reap(&mut self, _min: usize, _until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let mut sent_ns = self.clock.now_ns();
        for index in 0..self.queue.len() {
            let op = self.queue[index];
            let outcome = match self.execute(&op) {
                Ok(bytes) => Outcome::Done(bytes),
                Err(error) => Outcome::Failed(error),
            };
            let done_ns = self.clock.now_ns();
            out.push(Completion { op, sent_ns, done_ns, outcome });
            sent_ns = done_ns;
        }
        self.ops += self.queue.len() as u64;
        self.queue.clear();
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally { ops: Some(self.ops), ..Tally::default() }
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn failed(errno: Errno) -> OpError {
    OpError(errno.raw_os_error() as u32)
}

fn whole(op: &Op, moved: usize) -> Result<u32, OpError> {
    if moved == op.len_bytes as usize { Ok(op.len_bytes) } else { Err(OpError::SHORT) }
}
