//! Ops that open a file by name, use it and close it, like mail and news servers.
//!
//! Files are read and written in pieces of `io_size`. Files are closed even after failures. Like
//! most programs, this ignores errors of close(2), but not those of the sync requested with
//! `sync_each`.

use std::os::fd::OwnedFd;

use model::{Op, OpError};
use rustix::fs::{Mode, OFlags};
use workload::names::Sort;

use super::super::files::{Files, cut_pieces, retry};
use super::data::{read_at, write_at};

/// `openat` of a new file, `pwrite`s of its content, `close`.
pub(super) fn create(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let file =
        open_named(set, op.file, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | set.durable)?;
    fill_file(set, buffer, op, &file)
}

/// `openat`, `pwrite`s at the end, `close`.
pub(super) fn append(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let file = open_named(set, op.file, OFlags::WRONLY | set.durable)?;
    fill_file(set, buffer, op, &file)
}

/// `openat`, `pread`s from the start, `close`.
pub(super) fn read_file(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let file = open_named(set, op.file, OFlags::RDONLY)?;
    for (at, len) in cut_pieces(op.len_bytes, set.io_size_bytes as u32) {
        let piece = &mut buffer[..len as usize];
        read_at(&file, piece, at)?;
        set.check_read(op.file, at, piece)?;
    }
    Ok(op.len_bytes)
}

fn open_named(set: &Files, number: u32, flags: OFlags) -> Result<OwnedFd, OpError> {
    let path = set.path(Sort::File, number);
    let flags = flags | OFlags::CLOEXEC | set.direct_flag();
    let mode = Mode::from_raw_mode(0o644);
    retry(|| rustix::fs::openat(set.root(number), path.as_c_str(), flags, mode))
}

fn fill_file(set: &Files, buffer: &mut [u8], op: &Op, file: &OwnedFd) -> Result<u32, OpError> {
    for (at, len) in cut_pieces(op.len_bytes, set.io_size_bytes as u32) {
        let offset = op.offset_bytes + at;
        write_at(file, set.outgoing_bytes(buffer, op.file, offset, len), offset)?;
    }
    if set.sync_each {
        retry(|| rustix::fs::fsync(file))?;
    }
    Ok(op.len_bytes)
}
