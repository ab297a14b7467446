//! What a backend on a directory of this host works with: open files, names, and content.
//!
//! [`Files`] is made by the target, outside any timed window. Names are looked up relative to the
//! open working directories; file `f` of a run on several targets lives in directory `f` mod
//! their number. Nothing here allocates.

use std::cell::Cell;
use std::ffi::CStr;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::Arc;

use model::{Op, OpError};
use rustix::fd::AsFd as _;
use rustix::fs::OFlags;
use rustix::io::Errno;
use workload::names::Sort;
use workload::places::PathName;
use workload::{Mismatches, Name, Pattern, Places};

use super::Lost;
use super::mapping::Mapping;

/// See the module.
pub struct Files {
    /// The working directories, one for each target.
    pub roots: Vec<OwnedFd>,
    /// The directories below them, by their numbers.
    pub places: Arc<Places>,
    /// Every `stride`-th file of the set, open; empty where a pass works by name.
    pub files: Handles,
    /// The same files, mapped; empty where data moves by calls.
    pub maps: Vec<Mapping>,
    /// Distance between the numbers of files that are open here.
    pub stride: u32,
    /// The content that is written, and must come back.
    pub pattern: Pattern,
    /// Compare what is read.
    pub verify: bool,
    /// Content that was not as it was written.
    pub mismatches: Cell<Mismatches>,
    /// Files are open with `O_DIRECT`.
    pub direct: bool,
    /// How files are to be opened whose every write is to be durable: nothing, `O_DSYNC` or
    /// `O_SYNC`.
    pub durable: OFlags,
    /// Files that are opened by name are synced before they are closed.
    pub sync_each: bool,
    /// Largest op; files that are opened by name are read and written in pieces of it.
    pub io_size_bytes: usize,
    /// Ops in flight.
    pub queue_depth: usize,
}

/// The open files of a worker.
#[derive(Debug)]
pub enum Handles {
    /// The files of one worker.
    Own(Vec<OwnedFd>),
    /// The files of all workers together: one may be on any file, and descriptors are limited.
    Shared(Arc<[OwnedFd]>),
}

impl Deref for Handles {
    type Target = [OwnedFd];

    fn deref(&self) -> &[OwnedFd] {
        match self {
            Self::Own(files) => files,
            Self::Shared(files) => files,
        }
    }
}

impl Files {
    /// Returns the place in `files` of the file with this number.
    #[inline]
    pub const fn index(&self, number: u32) -> usize {
        (number / self.stride) as usize
    }

    /// The open file with this number.
    ///
    /// # Errors
    /// `EBADF` where it is not open.
    #[inline]
    pub fn file(&self, number: u32) -> Result<&OwnedFd, OpError> {
        match self.files.get(self.index(number)) {
            Some(file) => Ok(file),
            None => Err(failed(Errno::BADF)),
        }
    }

    /// The mapping of the file with this number, where data moves so.
    #[inline]
    pub fn map(&self, number: u32) -> Option<&Mapping> {
        self.maps.get(self.index(number))
    }

    /// Closes the files of this worker, all of them even where one fails.
    ///
    /// # Errors
    /// The first failure: what was written to that file may be lost.
    pub(super) fn close(&mut self) -> Result<(), Lost> {
        self.maps.clear();
        let Handles::Own(files) = &mut self.files else { return Ok(()) };
        let (mut first, mut failures) = (None, 0);
        for file in files.drain(..) {
            if let Err(errno) = close_file(file) {
                first.get_or_insert(errno);
                failures += 1;
            }
        }
        match first {
            None => Ok(()),
            Some(errno) => Err(Lost(format!(
                "closing {failures} of the files failed: {} (hint: what was written to them may be \
                 lost)",
                failed(errno)
            ))),
        }
    }

    /// The working directory that a number lives in.
    #[inline]
    pub fn root(&self, number: u32) -> BorrowedFd<'_> {
        self.roots[number as usize % self.roots.len()].as_fd()
    }

    /// The path of a number under a sort of name, from its working directory on.
    #[inline]
    pub fn path(&self, sort: Sort, number: u32) -> PathName {
        self.places.path(self.places.of_number(number), Name::new(sort, number))
    }

    /// The path that a link gives its file.
    #[inline]
    pub fn second_path(&self, op: &Op) -> PathName {
        let name = Name::new(Sort::SecondName, op.offset_bytes as u32);
        self.places.path(self.places.of_number(op.file), name)
    }

    /// The bytes to write, in `buffer` where they have to be aligned or put together.
    #[inline]
    pub fn outgoing_bytes<'a>(
        &'a self,
        buffer: &'a mut [u8],
        file: u32,
        offset_bytes: u64,
        len: u32,
    ) -> &'a [u8] {
        // A slice of the pool begins anywhere. O_DIRECT wants memory, offset and length aligned to
        // the logical blocks of the device, so its data goes through the slot's aligned buffer.
        if !self.direct && !self.pattern.is_copied() {
            return self.pattern.slice(file, offset_bytes, len);
        }
        let data = &mut buffer[..len as usize];
        self.pattern.fill(data, file, offset_bytes);
        data
    }

    /// The bytes that an update writes, once it has read those of its place into `buffer`.
    ///
    /// They are written back unchanged, as in every program that reads, changes and writes: out of
    /// memory that is in a cache, and damage is left for a later reader to find. Stamps alone are
    /// made again, since they say which pass wrote them.
    #[inline]
    pub fn bytes_to_return<'a>(&'a self, buffer: &'a mut [u8], op: &Op) -> &'a [u8] {
        if self.pattern.is_stamped() {
            return self.outgoing_bytes(buffer, op.file, op.offset_bytes, op.len_bytes);
        }
        &buffer[..op.len_bytes as usize]
    }

    /// Compares what was read with what was written, where the plan wants that.
    ///
    /// # Errors
    /// [`OpError::MISMATCH`].
    #[inline]
    pub fn check_read(&self, file: u32, offset_bytes: u64, data: &[u8]) -> Result<(), OpError> {
        if !self.verify {
            return Ok(());
        }
        let Err(mismatch) = self.pattern.check(data, file, offset_bytes) else { return Ok(()) };
        let mut log = self.mismatches.get();
        log.note(mismatch);
        self.mismatches.set(log);
        Err(OpError::MISMATCH)
    }
}

/// Name of the extended attribute that passes set and read, as NFS has it.
pub const XATTR_NAME: &[u8] = b"dfsbench";
/// The same name with the namespace of Linux.
pub const XATTR_NAME_OF_LINUX: &CStr = c"user.dfsbench";
/// Value of that attribute: as long as a checksum in hexadecimal digits.
pub const XATTR_VALUE: [u8; 64] = [b'a'; 64];

/// Closes a file and says how that went: a network file system tells there what it could not write.
///
/// **Source:** close(2), "dealing with error returns".
///
/// # Errors
/// What the file system reports.
#[allow(unsafe_code)]
pub fn close_file(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned here and is used no more, whatever the call returns.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // It is closed all the same, and nothing was lost.
            None | Some(Errno::INTR) => Ok(()),
            Some(errno) => Err(errno),
        },
    }
}

/// Makes a call until it is not interrupted.
#[inline]
pub(super) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, OpError> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result.map_err(failed),
        }
    }
}

pub(super) const fn failed(errno: Errno) -> OpError {
    OpError(errno.raw_os_error() as u32)
}

/// Cuts `len` bytes of an op into pieces: (offset within the op, length).
pub(super) fn cut_pieces(len: u32, piece: u32) -> impl Iterator<Item = (u64, u32)> {
    let piece = piece.max(1);
    (0..len).step_by(piece as usize).map(move |at| (u64::from(at), piece.min(len - at)))
}

/// Says whether all of a transfer moved.
#[inline]
pub(super) const fn check_whole(wanted: usize, moved: usize) -> Result<(), OpError> {
    if moved == wanted { Ok(()) } else { Err(OpError::SHORT) }
}

/// The sort of name that a renaming leads from, and the one it leads to.
#[inline]
pub(super) const fn there_and_back(op: &Op, usual: Sort, other: Sort) -> (Sort, Sort) {
    if op.offset_bytes == 0 { (usual, other) } else { (other, usual) }
}
