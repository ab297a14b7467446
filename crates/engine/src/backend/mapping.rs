//! A memory-mapped file, as used by iozone -B: data is transferred by copying, and page faults do
//! the I/O.
//!
//! A [`Mapping`] is as long as the file was at its creation and never grows; transfers beyond its
//! end are rejected. If another process truncates the file, or the file system fills up under a
//! sparse file, our process is killed (`SIGBUS`). That is why the target reserves the space in
//! advance. **Source:** mmap(2), msync(2), mincore(2).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;

use model::OpError;
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MsyncFlags, ProtFlags};

/// Consecutive pages of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRange {
    /// Number of the first page.
    pub first: usize,
    /// Number of pages.
    pub count: usize,
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the mapping is plain memory owned by this value, so the pointer may move to another
// thread with it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file for reading and writing.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn writable(file: &OwnedFd, len: usize) -> Result<Self, Errno> {
        Self::map(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps the first `len` bytes of a file for reading only.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn read_only(file: &OwnedFd, len: usize) -> Result<Self, Errno> {
        Self::map(file, len, ProtFlags::READ)
    }

    fn map(file: &OwnedFd, len: usize, access: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses the address, so none of our memory is replaced.
        let start = unsafe {
            mm::mmap(std::ptr::null_mut(), len.max(1), access, MapFlags::SHARED, file, 0)?
        };
        Ok(Self { start, len })
    }

    /// Returns the whole file as words that may change at any time, even by other processes. An
    /// incomplete word at the end is left out. Only for callers that never copy into the mapping.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, was created writable, and
        // contains this many whole words. They are only modified as atomics.
        unsafe {
            let words = self.len / size_of::<AtomicU32>();
            std::slice::from_raw_parts(self.start.cast::<AtomicU32>().cast_const(), words)
        }
    }

    /// Copies data out of the file.
    ///
    /// # Errors
    /// [`OpError::SHORT`] if it extends beyond the end of the file.
    #[inline]
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), OpError> {
        let from = self.at(offset_bytes, into.len())?;
        // SAFETY: `at` has checked that the mapping contains this range, and `into` cannot overlap
        // with it because only this type knows its address.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies data into the file, which must have been mapped writable.
    #[inline]
    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<(), OpError> {
        let to = self.at(offset_bytes, data.len())?;
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Waits until the copied data is on storage.
    ///
    /// # Errors
    /// Those of msync(2).
    pub fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the range is exactly the mapping.
        unsafe { mm::msync(self.start, self.len, MsyncFlags::SYNC) }
    }

    /// Counts how many pages of a range are in the page cache, without reading any of them in.
    ///
    /// The kernel only gives an answer to the file's owner and those who may write to it; for
    /// others it reports all pages as resident.
    ///
    /// # Errors
    /// Those of mincore(2), and `EINVAL` if the range extends beyond the mapping.
    pub(crate) fn count_resident_pages(&self, range: PageRange) -> Result<u64, Errno> {
        let page = rustix::param::page_size();
        let offset = range.first * page;
        let len = range.count * page;
        if offset > self.len || len > self.len - offset {
            return Err(Errno::INVAL);
        }
        let mut states = vec![0_u8; range.count];
        let start = self.start.wrapping_byte_add(offset);
        // SAFETY: the range is page-aligned and within the mapping, and `states` has a byte for
        // each of its pages.
        let result = unsafe { libc::mincore(start, len, states.as_mut_ptr()) };
        if result < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        }
        // Only the lowest bit is defined.
        Ok(states.iter().map(|state| u64::from(state & 1)).sum())
    }

    fn at(&self, offset_bytes: u64, len: usize) -> Result<*mut u8, OpError> {
        // Avoids overflow, since offsets can be anything up to 2^64.
        match usize::try_from(offset_bytes) {
            Ok(at) if at <= self.len && len <= self.len - at => {
                Ok(self.start.cast::<u8>().wrapping_add(at))
            }
            _ => Err(OpError::SHORT),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping, and no pointers into it remain.
        let _ = unsafe { mm::munmap(self.start, self.len.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_bytes_within_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5000).unwrap();
        let map = Mapping::writable(&file.try_clone().unwrap().into(), 5000).unwrap();
        map.write(4990, b"0123456789").unwrap();
        map.sync().unwrap();
        let mut found = [0; 10];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, 4990).unwrap();
        assert_eq!(&found, b"0123456789");
        map.read(4989, &mut found).unwrap();
        assert_eq!(&found, b"\x00012345678");
        for offset in [4991, 5000, u64::MAX] {
            assert_eq!(map.read(offset, &mut found), Err(OpError::SHORT), "{offset}");
            assert_eq!(map.write(offset, &found), Err(OpError::SHORT), "{offset}");
        }
    }
}
