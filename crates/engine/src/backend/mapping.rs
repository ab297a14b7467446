//! A file mapped into memory, as iozone -B does: data moves by copying, and page faults do the I/O.
//!
//! A [`Mapping`] is as long as the file was when it was made and never grows; transfers beyond its
//! end are refused. A process that cuts the file short meanwhile, or lets the file system run full
//! under a sparse one, has the process killed (`SIGBUS`), which is why the target reserves the
//! space first.
//! **Source:** mmap(2), msync(2), mincore(2).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;

use model::OpError;
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MsyncFlags, ProtFlags};

/// Pages of a mapping that follow one another.
#[derive(Clone, Copy, Debug)]
pub struct PageRange {
    /// Number of the first one.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the mapping is plain memory, owned by this value alone; the pointer may go wherever the
// value goes.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from its start on, to be read and written.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn writable(file: &OwnedFd, len: usize) -> Result<Self, Errno> {
        Self::map(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps `len` bytes of a file from its start on, to be read only.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn read_only(file: &OwnedFd, len: usize) -> Result<Self, Errno> {
        Self::map(file, len, ProtFlags::READ)
    }

    fn map(file: &OwnedFd, len: usize, access: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses the place, so nothing of ours is replaced.
        let start = unsafe {
            mm::mmap(std::ptr::null_mut(), len.max(1), access, MapFlags::SHARED, file, 0)?
        };
        Ok(Self { start, len })
    }

    /// The whole file as words that may be changed at any moment, by other processes, too; what
    /// is left at its end is no part of them. For callers that never copy into it.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping begins at a page, lasts as long as `self`, was made to be written,
        // and has so many whole words; they are changed as atomics only.
        unsafe {
            let words = self.len / size_of::<AtomicU32>();
            std::slice::from_raw_parts(self.start.cast::<AtomicU32>().cast_const(), words)
        }
    }

    /// Copies out of the file.
    ///
    /// # Errors
    /// [`OpError::SHORT`] where the file ends before.
    #[inline]
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), OpError> {
        let from = self.at(offset_bytes, into.len())?;
        // SAFETY: `at` has checked that the mapping holds so many bytes, and `into` is no part of
        // it: only this type knows its address.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies into the file, which must have been mapped to be written.
    ///
    /// # Errors
    /// As [`Self::read`].
    #[inline]
    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<(), OpError> {
        let to = self.at(offset_bytes, data.len())?;
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Waits until what was copied in is on storage.
    ///
    /// # Errors
    /// What msync(2) says.
    pub fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the range is that of the mapping.
        unsafe { mm::msync(self.start, self.len, MsyncFlags::SYNC) }
    }

    /// Counts the pages of a range of whole pages that the page cache holds; nothing is read in.
    ///
    /// The kernel answers only those who own the file or may write to it; to others it says that
    /// all pages are there.
    ///
    /// # Errors
    /// What mincore(2) says, and `EINVAL` where the range ends behind the mapping.
    pub fn count_resident_pages(&self, range: PageRange) -> Result<u64, Errno> {
        let page = rustix::param::page_size();
        let (offset, len) = (range.first * page, range.count * page);
        if offset > self.len || len > self.len - offset {
            return Err(Errno::INVAL);
        }
        let mut states = vec![0_u8; range.count];
        let start = self.start.wrapping_byte_add(offset);
        // SAFETY: the range lies in the mapping and begins at a page, and there is a byte for each
        // page of it.
        let result = unsafe { libc::mincore(start, len, states.as_mut_ptr()) };
        if result < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        }
        // Only the lowest bit has a meaning.
        Ok(states.iter().map(|state| u64::from(state & 1)).sum())
    }

    fn at(&self, offset_bytes: u64, len: usize) -> Result<*mut u8, OpError> {
        // Checked without overflow: an offset may be anything up to 2^64.
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
        // SAFETY: the range is that of the mapping, and no pointer into it is left.
        let _ = unsafe { mm::munmap(self.start, self.len.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_the_mapping_and_not_beyond_its_end() {
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
