//! Resources of a backend on a local directory: open files, names and content.
//!
//! The target creates [`Files`] outside of the timed window. Names are looked up relative to the
//! open working directories. With several targets, file `f` is in directory `f` modulo their
//! number. Nothing here allocates memory.

use std::cell::Cell;
use std::ffi::CStr;
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::Arc;

use model::{Op, OpError};
use rustix::fd::AsFd as _;
use rustix::fs::OFlags;
use rustix::io::Errno;
use workload::names::Sort;
use workload::places::PathName;
use workload::{Mismatch, Mismatches, Name, Pattern, Places};

use super::mapping::Mapping;
use super::sparse::SparseLayout;
use super::{LostTarget, RangeCounts};

/// Open files, names and content; see the module.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub struct Files {
    /// The working directories, one per target.
    pub roots: Vec<OwnedFd>,
    /// Their subdirectories, by number.
    pub places: Arc<Places>,
    /// Every `stride`-th file of the set, open. Empty if a pass works by name.
    pub files: Handles,
    /// The twins of these files, which are written. Empty unless a pass has them.
    pub twins: Handles,
    /// The same files as memory mappings. Empty if data is transferred by system calls.
    pub maps: Vec<Mapping>,
    /// Distance between the numbers of the files that are open here.
    pub stride: u32,
    /// The content to write, which must be read back unchanged.
    pub pattern: Pattern,
    /// Whether to compare the data that is read.
    pub verify: bool,
    /// Content that differed from what was written.
    pub mismatches: Cell<Mismatches>,
    /// Where sparse files have data and holes.
    pub sparse: SparseLayout,
    /// Work on ranges so far.
    pub ranges: Cell<RangeCounts>,
    /// Whether files are opened with `O_DIRECT`.
    pub direct: bool,
    /// Flags for opening files whose writes must all be durable: none, `O_DSYNC` or `O_SYNC`.
    pub durable: OFlags,
    /// Whether to sync files opened by name before closing them.
    pub(crate) sync_each: bool,
    /// Whether to sync the log after each append.
    pub syncs_log: bool,
    /// Maximum size of an op, and of the pieces in which files opened by name are read and written.
    pub io_size_bytes: usize,
    /// Maximum number of ops in flight.
    pub queue_depth: usize,
}

/// The open files of a worker.
#[derive(Debug)]
pub enum Handles {
    /// Files of a single worker.
    Own(Vec<OwnedFd>),
    /// Files shared by all workers, because a worker may access any of them and descriptors are
    /// limited.
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
    /// Returns the index in `files` of the file with this number.
    #[inline]
    pub const fn index(&self, number: u32) -> usize {
        (number / self.stride) as usize
    }

    /// Returns the open file with this number.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    #[inline]
    pub fn file(&self, number: u32) -> Result<&OwnedFd, OpError> {
        match self.files.get(self.index(number)) {
            Some(file) => Ok(file),
            None => Err(failed(Errno::BADF)),
        }
    }

    /// Returns the twin of the file with this number.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    #[inline]
    pub fn twin(&self, number: u32) -> Result<&OwnedFd, OpError> {
        match self.twins.get(self.index(number)) {
            Some(twin) => Ok(twin),
            None => Err(failed(Errno::BADF)),
        }
    }

    /// Returns the file that ops with this number write: the twin, if there is one.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    #[inline]
    pub fn written_file(&self, number: u32) -> Result<&OwnedFd, OpError> {
        match self.twins.get(self.index(number)) {
            Some(twin) => Ok(twin),
            None => self.file(number),
        }
    }

    /// Returns the mapping of the file with this number, if files are mapped.
    #[inline]
    pub fn map(&self, number: u32) -> Option<&Mapping> {
        self.maps.get(self.index(number))
    }

    /// Closes all files of this worker, even if some of them fail.
    ///
    /// # Errors
    /// The first failure: data written to that file may be lost.
    pub(super) fn close(&mut self) -> Result<(), LostTarget> {
        self.maps.clear();
        let mut first = None;
        let mut failures = 0;
        for handles in [&mut self.files, &mut self.twins] {
            let Handles::Own(files) = handles else { continue };
            for file in files.drain(..) {
                if let Err(errno) = close_file(file) {
                    first.get_or_insert(errno);
                    failures += 1;
                }
            }
        }
        match first {
            None => Ok(()),
            Some(errno) => Err(LostTarget(format!(
                "{failures} files could not be closed: {} (hint: data written to them may be lost)",
                failed(errno)
            ))),
        }
    }

    /// Returns the flag with which files are opened by name.
    #[inline]
    pub(super) const fn direct_flag(&self) -> OFlags {
        if self.direct { OFlags::DIRECT } else { OFlags::empty() }
    }

    /// Returns the working directory for a file's number.
    #[inline]
    pub fn root(&self, number: u32) -> BorrowedFd<'_> {
        self.roots[number as usize % self.roots.len()].as_fd()
    }

    /// Returns the path of a number with the given type of name, relative to its working directory.
    #[inline]
    pub fn path(&self, sort: Sort, number: u32) -> PathName {
        self.places.path(self.places.of_number(number), Name::new(sort, number))
    }

    /// Returns the path of the directory that an op creates or removes.
    #[inline]
    pub(crate) fn directory_path(&self, op: &Op) -> PathName {
        if op.is_of_place() {
            self.places.path_of(op.file)
        } else {
            self.path(Sort::Directory, op.file)
        }
    }

    /// Returns the path that a link op gives to its file.
    #[inline]
    pub(crate) fn second_path(&self, op: &Op) -> PathName {
        let name = Name::new(Sort::SecondName, op.offset_bytes as u32);
        self.places.path(self.places.of_number(op.file), name)
    }

    /// Returns the bytes to write. Uses `buffer` if they have to be aligned or assembled.
    #[inline]
    pub(crate) fn outgoing_bytes<'a>(
        &'a self,
        buffer: &'a mut [u8],
        file: u32,
        offset_bytes: u64,
        len: u32,
    ) -> &'a [u8] {
        // A slice of the pool can start anywhere, but O_DIRECT requires memory, offset and length
        // to be aligned to the device's logical blocks. So its data goes through the slot's aligned
        // buffer.
        if !self.direct && !self.pattern.is_copied() {
            return self.pattern.slice(file, offset_bytes, len);
        }
        let data = &mut buffer[..len as usize];
        self.pattern.fill(data, file, offset_bytes);
        data
    }

    /// Returns the bytes for an update to write, after it has read the old ones into `buffer`.
    ///
    /// They are written back unchanged, as by any read-modify-write program. The memory is in the
    /// CPU cache, and damaged data is left for a later reader to find. Only stamps are regenerated,
    /// since they record which pass wrote the data.
    #[inline]
    pub(crate) fn bytes_to_return<'a>(&'a self, buffer: &'a mut [u8], op: &Op) -> &'a [u8] {
        if self.pattern.is_stamped() {
            return self.outgoing_bytes(buffer, op.file, op.offset_bytes, op.len_bytes);
        }
        &buffer[..op.len_bytes as usize]
    }

    /// Compares the data read with what was written, if the plan wants that.
    ///
    /// # Errors
    /// [`OpError::MISMATCH`].
    #[inline]
    pub(crate) fn check_read(
        &self,
        file: u32,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<(), OpError> {
        if !self.verify {
            return Ok(());
        }
        self.note_checked(self.pattern.check(data, file, offset_bytes))
    }

    /// Compares the data read from a sparse file with what it contains, if the plan wants that.
    ///
    /// # Errors
    /// [`OpError::MISMATCH`].
    pub(crate) fn check_read_sparse(
        &self,
        file: u32,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<(), OpError> {
        if !self.verify {
            return Ok(());
        }
        self.note_checked(self.sparse.check(&self.pattern, data, file, offset_bytes))
    }

    /// Records the result of a comparison.
    #[inline]
    fn note_checked(&self, checked: Result<(), Mismatch>) -> Result<(), OpError> {
        let Err(mismatch) = checked else { return Ok(()) };
        let mut log = self.mismatches.get();
        log.note(mismatch);
        self.mismatches.set(log);
        Err(OpError::MISMATCH)
    }
}

/// Name of the extended attribute that passes set and read, as used by NFS.
pub(crate) const XATTR_NAME: &[u8] = b"dfsbench";
/// The same name with Linux's namespace prefix.
pub(crate) const XATTR_NAME_OF_LINUX: &CStr = c"user.dfsbench";
/// Value of that attribute, which is as long as a checksum in hexadecimal.
pub const XATTR_VALUE: [u8; 64] = [b'a'; 64];

/// Closes a file and returns the result: this is where a network file system reports failed
/// write-back.
///
/// **Source:** close(2), "dealing with error returns".
///
/// # Errors
/// As reported by the file system.
#[allow(unsafe_code)]
pub fn close_file(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: we owned the descriptor, and it isn't used afterwards no matter what the call
    // returns.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // The descriptor is closed anyway, and nothing was lost.
            None | Some(Errno::INTR) => Ok(()),
            Some(errno) => Err(errno),
        },
    }
}

/// Makes a range of `to` share the blocks of a range of `from`; a length of 0 means to the end.
///
/// **Source:** ioctl_ficlonerange(2).
///
/// # Errors
/// As reported by the file system: `OPNOTSUPP` if it cannot share blocks.
#[allow(unsafe_code)]
pub fn clone_range(
    from: BorrowedFd<'_>,
    from_offset: u64,
    to: BorrowedFd<'_>,
    to_offset: u64,
    len: u64,
) -> Result<(), Errno> {
    let range = libc::file_clone_range {
        src_fd: from.as_raw_fd().into(),
        src_offset: from_offset,
        src_length: len,
        dest_offset: to_offset,
    };
    // SAFETY: both descriptors are open, and the kernel only reads `range`.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Repeats a call as long as it is interrupted.
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

/// Splits `len` bytes of an op into pieces: (offset within the op, length).
pub(super) fn cut_pieces(len: u32, piece: u32) -> impl Iterator<Item = (u64, u32)> {
    let piece = piece.max(1);
    (0..len).step_by(piece as usize).map(move |at| (u64::from(at), piece.min(len - at)))
}

/// Checks that a transfer is complete.
#[inline]
pub(super) const fn check_whole(wanted: usize, moved: usize) -> Result<(), OpError> {
    if moved == wanted { Ok(()) } else { Err(OpError::SHORT) }
}

/// Returns the types of the old and the new name in a rename op.
#[inline]
pub(super) const fn there_and_back(op: &Op, usual: Sort, other: Sort) -> (Sort, Sort) {
    if op.offset_bytes == 0 { (usual, other) } else { (other, usual) }
}
