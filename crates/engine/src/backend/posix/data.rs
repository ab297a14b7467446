//! Ops on the data of open files.
//!
//! Reads use the worker's buffer. Writes use the pattern directly, or the buffer if they have to be
//! aligned. Character I/O goes byte by byte through a buffer as large as that of stdio, which is
//! flushed and filled with calls of that size. Mapped files are copied.

use std::hint::black_box;
use std::os::fd::OwnedFd;

use model::{Op, OpError, OpKind};
use workload::Pattern;

use super::super::files::{Files, check_whole, cut_pieces, failed, retry};
use crate::limits::STDIO_BYTES;

/// `pread`, or a copy from the mapping.
pub(super) fn read(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let buffer = &mut buffer[..op.len_bytes as usize];
    if let Some(map) = set.map(op.file) {
        map.read(op.offset_bytes, buffer)?;
        // The copy is what we measure, so don't let the optimizer remove it.
        black_box(&*buffer);
    } else {
        read_at(set.file(op.file)?, buffer, op.offset_bytes)?;
    }
    set.check_read(op.file, op.offset_bytes, buffer)?;
    Ok(op.len_bytes)
}

/// `pwrite`, or a copy to the mapping.
pub(super) fn write(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    put_data(set, set.outgoing_bytes(buffer, op.file, op.offset_bytes, op.len_bytes), op)
}

/// Reads some bytes and writes them back from the same buffer, see [`Files::bytes_to_return`].
pub(super) fn update(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    read(set, buffer, op)?;
    black_box(&mut buffer[..op.len_bytes as usize]);
    put_data(set, set.bytes_to_return(buffer, op), op)
}

/// `pwrite`, and `fdatasync` unless the write is durable by itself or needn't be.
pub(super) fn append_to_log(set: &Files, buffer: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let written = write(set, buffer, op)?;
    if set.syncs_log {
        let file = set.file(op.file)?;
        retry(|| rustix::fs::fdatasync(file))?;
    }
    Ok(written)
}

fn put_data(set: &Files, data: &[u8], op: &Op) -> Result<u32, OpError> {
    if let Some(map) = set.map(op.file) {
        map.write(op.offset_bytes, data)?;
    } else {
        write_at(set.file(op.file)?, data, op.offset_bytes)?;
    }
    Ok(op.len_bytes)
}

/// `fsync`, `fdatasync` for a commit, or `msync` for a mapped file.
pub(super) fn sync(set: &Files, op: &Op) -> Result<u32, OpError> {
    if let Some(map) = set.map(op.file) {
        map.sync().map_err(failed)?;
        return Ok(0);
    }
    let file = set.written_file(op.file)?;
    if op.kind == OpKind::Commit {
        retry(|| rustix::fs::fdatasync(file))?;
    } else {
        retry(|| rustix::fs::fsync(file))?;
    }
    Ok(0)
}

/// `putc` for each byte, into the buffer, which is written when it is full.
///
/// **Source:** `putc_unlocked` of glibc, whose buffers have `st_blksize` bytes.
pub(super) fn put_chars(set: &Files, stdio: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let file = set.file(op.file)?;
    for (at, len) in cut_pieces(op.len_bytes, STDIO_BYTES as u32) {
        let offset = op.offset_bytes + at;
        put_each(&set.pattern, op.file, offset, &mut stdio[..len as usize]);
        write_at(file, &stdio[..len as usize], offset)?;
    }
    Ok(op.len_bytes)
}

/// Puts the characters into a buffer one by one. Content that has to be assembled, such as a stamp,
/// is filled in first, and then each character is copied again.
pub(in super::super) fn put_each(
    pattern: &Pattern,
    file: u32,
    offset_bytes: u64,
    buffer: &mut [u8],
) {
    if pattern.is_copied() {
        pattern.fill(buffer, file, offset_bytes);
        for character in buffer {
            *character = black_box(*character);
        }
        return;
    }
    let characters = pattern.slice(file, offset_bytes, buffer.len() as u32);
    for (place, character) in buffer.iter_mut().zip(characters) {
        *place = black_box(*character);
    }
}

/// `getc` for each byte, from the buffer, which is refilled when it is empty.
pub(super) fn get_chars(set: &Files, stdio: &mut [u8], op: &Op) -> Result<u32, OpError> {
    let file = set.file(op.file)?;
    for (at, len) in cut_pieces(op.len_bytes, STDIO_BYTES as u32) {
        let offset = op.offset_bytes + at;
        let buffer = &mut stdio[..len as usize];
        read_at(file, buffer, offset)?;
        get_each(buffer);
        set.check_read(op.file, offset, buffer)?;
    }
    Ok(op.len_bytes)
}

/// Takes the characters from a buffer one by one.
pub(in super::super) fn get_each(buffer: &[u8]) {
    for character in buffer {
        black_box(*character);
    }
}

/// Reads exactly `buffer.len()` bytes.
pub(super) fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<(), OpError> {
    let read = retry(|| rustix::io::pread(file, &mut *buffer, offset))?;
    check_whole(buffer.len(), read)
}

/// Writes all of `data`.
pub(super) fn write_at(file: &OwnedFd, data: &[u8], offset: u64) -> Result<(), OpError> {
    let written = retry(|| rustix::io::pwrite(file, data, offset))?;
    check_whole(data.len(), written)
}
