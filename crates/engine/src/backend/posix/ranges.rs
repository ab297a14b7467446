//! Ops on ranges of open files that move no data through this process.
//!
//! | op | call |
//! |---|---|
//! | Copy | `copy_file_range`, repeated if it is short |
//! | Clone | `ioctl(FICLONERANGE)` |
//! | Allocate | `fallocate` |
//! | Punch | `fallocate(FALLOC_FL_PUNCH_HOLE \| FALLOC_FL_KEEP_SIZE)` |
//! | Seek | `lseek(SEEK_HOLE)` from data, `lseek(SEEK_DATA)` from a hole |
//!
//! ReadPlus is a plain `pread` of a sparse file: how its holes travel is up to the file system.

use std::hint::black_box;
use std::os::fd::AsFd as _;

use model::{Op, OpError, OpKind};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use super::super::files::{Files, check_whole, clone_range, failed, retry};
use super::data::read_at;

/// Executes an op on a range, and returns the number of bytes it covers.
pub(in super::super) fn execute(set: &Files, op: &Op) -> Result<u32, OpError> {
    let Op { offset_bytes: offset, len_bytes: len, .. } = *op;
    match op.kind {
        OpKind::Copy => copy(set, op)?,
        OpKind::Clone => {
            let from = set.file(op.file)?.as_fd();
            let to = set.twin(op.file)?.as_fd();
            retry(|| clone_range(from, offset, to, offset, len.into()))?;
        }
        OpKind::Allocate => {
            let file = set.twin(op.file)?;
            retry(|| fallocate(file, FallocateFlags::empty(), offset, len.into()))?;
        }
        OpKind::Punch => {
            let file = set.file(op.file)?;
            retry(|| fallocate(file, PUNCH, offset, len.into()))?;
        }
        OpKind::Seek => find_end(set, op)?,
        _ => return Err(failed(Errno::OPNOTSUPP)),
    }
    Ok(len)
}

/// Flags that punch a hole.
pub(in super::super) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

fn copy(set: &Files, op: &Op) -> Result<(), OpError> {
    let from = set.file(op.file)?;
    let to = set.twin(op.file)?;
    let end = op.offset_bytes + u64::from(op.len_bytes);
    let mut from_offset = op.offset_bytes;
    let mut to_offset = op.offset_bytes;
    while from_offset < end {
        let left = (end - from_offset) as usize;
        let copied = retry(|| {
            copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), left)
        })?;
        if copied == 0 {
            return Err(OpError::SHORT);
        }
        let mut counts = set.ranges.get();
        counts.copied_bytes += copied as u64;
        set.ranges.set(counts);
    }
    check_whole(op.len_bytes as usize, (from_offset - op.offset_bytes) as usize)
}

/// Finds the end of the data or of the hole that starts at the op's offset.
fn find_end(set: &Files, op: &Op) -> Result<(), OpError> {
    let file = set.file(op.file)?;
    let is_hole = set.sparse.is_hole(op.offset_bytes);
    let from =
        if is_hole { SeekFrom::Data(op.offset_bytes) } else { SeekFrom::Hole(op.offset_bytes) };
    let found = match retry(|| seek(file, from)) {
        Ok(found) => Some(found),
        Err(error) if error == failed(Errno::NXIO) => None,
        Err(error) => return Err(error),
    };
    let mut counts = set.ranges.get();
    let judged = set.sparse.judge_seek(op.offset_bytes, found, &mut counts);
    set.ranges.set(counts);
    judged
}

/// Reads a part of a sparse file.
pub(super) fn read_sparse(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let buffer = &mut buffer[..op.len_bytes as usize];
    read_at(set.file(op.file)?, buffer, op.offset_bytes)?;
    black_box(&*buffer);
    set.check_read_sparse(op.file, op.offset_bytes, buffer)?;
    Ok(op.len_bytes)
}
