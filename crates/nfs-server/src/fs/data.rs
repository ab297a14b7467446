//! Operations on one object by its id: attributes, data, link targets, space.
//!
//! None of them takes the namespace mutex; each locks its inode once.

use std::sync::Arc;

use super::block::DataPiece;
use super::clone::CLONE_BLOCK_BYTES;
use super::content::{FileContent, ReadSpan, StoreMode};
use super::handle::InodeId;
use super::inode::{Body, INODE_BYTES};
use super::payload::Payload;
use super::permission::{READ, WRITE};
use super::sparse::{Extent, ExtentKind};
use super::types::{Attributes, Change, FileKind, FileTime, FsError, SetAttributes};
use super::{Context, FileSystem};
use crate::sync;

/// Space in the file system. **Source:** RFC 1813 section 3.3.18 (FSSTAT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceInfo {
    /// The memory limit in bytes.
    pub total_bytes: u64,
    /// Number of bytes that are free.
    pub free_bytes: u64,
    /// Inodes in use plus those that fit into the free memory.
    pub total_files: u64,
    /// Inodes that fit into the free memory.
    pub free_files: u64,
}

/// The ranges of a clone.
#[derive(Clone, Copy, Debug)]
pub struct CloneRange {
    /// The source and the offset in it.
    pub from: (InodeId, u64),
    /// The file that changes and the offset in it.
    pub to: (InodeId, u64),
    /// Length in bytes; 0 means to the end of the source.
    pub length: u64,
}

/// Output buffers of `FileSystem::read_extents`.
#[derive(Debug)]
pub struct ExtentsRead<'a> {
    /// Extents of data and holes, in order.
    pub extents: &'a mut Vec<Extent>,
    /// Maximum number of extents.
    pub extents_max: usize,
    /// Stored bytes of the data extents, in order.
    pub pieces: &'a mut Vec<DataPiece>,
}

impl FileSystem {
    /// Changes attributes; with a guard, only if ctime still equals it.
    ///
    /// # Errors
    /// `NotSync` if the guard differs; `IsDirectory`, `Invalid` or `FileTooBig` for a size;
    /// `AccessDenied`, `NotPermitted`.
    pub fn set_attributes(
        &self,
        id: InodeId,
        set: &SetAttributes,
        guard: Option<FileTime>,
        context: &Context,
    ) -> Result<Change, FsError> {
        let inode = self.table.get(id)?;
        let (change, ()) = inode.change(|state| {
            // Check the guard and make the change under one lock, or two guarded calls could both
            // pass.
            if guard.unwrap_or(state.ctime) != state.ctime {
                return Err(FsError::NotSync);
            }
            inode.apply(state, set, context)
        })?;
        Ok(change)
    }

    /// Appends to `out` the pieces of up to `count` bytes from `offset`; nothing is copied.
    ///
    /// # Errors
    /// `IsDirectory` or `Invalid` if the object has no data; `AccessDenied`.
    pub fn read(
        &self,
        id: InodeId,
        offset: u64,
        count: u32,
        context: &Context,
        out: &mut Vec<DataPiece>,
    ) -> Result<(Attributes, ReadSpan), FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        if inode.kind == FileKind::Regular {
            context.caller.check_data(state.protection(), READ)?;
        }
        let span = match &state.body {
            Body::Regular(content) => content.read(offset, count, out),
            Body::Directory(_) => return Err(FsError::IsDirectory),
            Body::Symlink(_) | Body::Special => return Err(FsError::Invalid),
        };
        inode.set_atime(context.now);
        Ok((inode.attributes_of(&state), span))
    }

    /// Writes `data` at `offset`; the returned count is short only if memory runs out.
    ///
    /// # Errors
    /// `NoSpace` and `FileTooBig`, having written nothing; `IsDirectory` or `Invalid`;
    /// `AccessDenied`.
    pub fn write(
        &self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        context: &Context,
    ) -> Result<(Change, usize), FsError> {
        // A stable write makes the whole file stable: earlier data that the client did not COMMIT
        // can no longer be lost, which the RFC allows (RFC 1813 section 3.3.7).
        self.write_prepared(id, context, FileContent::commit, |content| {
            content.write(offset, data, &self.budget)
        })
    }

    /// Makes room for a payload of `len` bytes at `offset` of some file, to be received and then
    /// stored by `write_payload`. `None` if it would have to be copied in any case.
    pub fn prepare_payload(&self, offset: u64, len: usize) -> Option<Payload> {
        match self.mode {
            StoreMode::Keep => Payload::new(&self.budget, offset, len),
            StoreMode::Discard => Some(Payload::dropped(&self.budget, offset, len)),
        }
    }

    /// Writes like `write`; buffers of the payload become blocks of the file.
    ///
    /// # Errors
    /// Same as `write`.
    pub fn write_payload(
        &self,
        id: InodeId,
        mut payload: Payload,
        context: &Context,
    ) -> Result<(Change, usize), FsError> {
        self.write_prepared(id, context, FileContent::commit, |content| {
            content.write_payload(&mut payload, &self.budget)
        })
    }

    /// Writes like `write`, but the data may be lost until it is committed: by `commit`, by a
    /// change of size, or with the whole file by the next `write`.
    ///
    /// # Errors
    /// Same as `write`.
    pub fn write_unstable(
        &self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        context: &Context,
    ) -> Result<(Change, usize), FsError> {
        let remember = |content: &mut FileContent| content.remember_stable(offset, data.len());
        self.write_prepared(id, context, remember, |content| {
            content.write(offset, data, &self.budget)
        })
    }

    /// Writes like `write`, and remembers the latest `count_max` such writes for
    /// [`FileSystem::lose_last_writes`].
    ///
    /// # Errors
    /// Same as `write`.
    pub fn write_revocable(
        &self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        context: &Context,
        count_max: usize,
    ) -> Result<(Change, usize), FsError> {
        // Held across the write: the undo data must be in the order of the writes.
        let mut last_writes = sync::lock(&self.last_writes);
        let mut before = None;
        let remember = |content: &mut FileContent| {
            before = Some(content.before_write(offset, data.len()));
        };
        let written = self.write_prepared(id, context, remember, |content| {
            content.write(offset, data, &self.budget)
        })?;
        if let Some(before) = before {
            last_writes.push_back((id, before));
        }
        while last_writes.len() > count_max {
            last_writes.pop_front();
        }
        Ok(written)
    }

    /// Reverts the writes remembered by `write_revocable`, whatever was promised for them.
    pub fn lose_last_writes(&self) {
        for (id, before) in sync::lock(&self.last_writes).drain(..).rev() {
            // A file that has been removed since has nothing to lose.
            let Ok(inode) = self.table.get(id) else { continue };
            if let Ok(content) = inode.write().file() {
                content.restore(before);
            }
        }
    }

    fn write_prepared(
        &self,
        id: InodeId,
        context: &Context,
        prepare: impl FnOnce(&mut FileContent),
        write: impl FnOnce(&mut FileContent) -> Result<usize, FsError>,
    ) -> Result<(Change, usize), FsError> {
        self.table.get(id)?.change(|state| {
            context.caller.check_data(state.protection(), WRITE)?;
            let content = state.file()?;
            prepare(content);
            let written = write(content)?;
            if written > 0 {
                state.touch_data(context.now);
                state.mode = context.caller.mode_after_write(state.mode);
            }
            Ok(written)
        })
    }

    /// Claims that all data of a file is stable; [`FileSystem::lose_committed`] may prove it wrong.
    ///
    /// # Errors
    /// `IsDirectory` or `Invalid` if the object has no data.
    pub fn claim_stable(&self, id: InodeId) -> Result<(), FsError> {
        self.table.get(id)?.write().file()?.keep_former();
        Ok(())
    }

    /// Makes all data of a file stable.
    ///
    /// # Errors
    /// `IsDirectory` or `Invalid` if the object has no data.
    pub fn commit(&self, id: InodeId) -> Result<(), FsError> {
        self.table.get(id)?.write().file()?.commit();
        Ok(())
    }

    /// Loses all data that was written unstably and not committed, as in a crash; attributes other
    /// than the size stay.
    pub fn lose_unstable(&self) {
        for inode in self.table.all() {
            if let Ok(content) = inode.write().file() {
                content.lose_unstable();
            }
        }
    }

    /// Loses uncommitted data and, in each file, whatever was most recently reported as stable.
    pub fn lose_committed(&self) {
        for inode in self.table.all() {
            if let Ok(content) = inode.write().file() {
                content.lose_committed();
            }
        }
    }

    /// Appends to `out` the pieces of up to `count` bytes from `offset` that are data, and to
    /// `extents` the extents of data and holes that contain them, at most `extents_max`; nothing is
    /// copied. Returns whether the end of the file was reached.
    ///
    /// # Errors
    /// `IsDirectory` or `Invalid` if the object has no data; `AccessDenied`.
    pub fn read_extents(
        &self,
        id: InodeId,
        offset: u64,
        count: u32,
        context: &Context,
        into: &mut ExtentsRead<'_>,
    ) -> Result<bool, FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        let content = state.body.file()?;
        context.caller.check_data(state.protection(), READ)?;
        let end = offset.saturating_add(u64::from(count)).min(content.size());
        let mut position = offset;
        while position < end && into.extents.len() < into.extents_max {
            let extent = content.extent(position, end);
            if extent.kind == ExtentKind::Data {
                content.read(position, extent.length as u32, into.pieces);
            }
            into.extents.push(extent);
            position += extent.length;
        }
        inode.set_atime(context.now);
        Ok(position >= content.size())
    }

    /// Finds the first byte at or after `offset` that is data, or in a hole; `None` if no data
    /// follows. The end of the file counts as a hole.
    ///
    /// # Errors
    /// `Past` if `offset` is not within the file; `IsDirectory` or `Invalid`; `AccessDenied`.
    pub fn seek(
        &self,
        id: InodeId,
        offset: u64,
        kind: ExtentKind,
        context: &Context,
    ) -> Result<Option<u64>, FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        let content = state.body.file()?;
        context.caller.check_data(state.protection(), READ)?;
        if offset >= content.size() {
            return Err(FsError::Past);
        }
        Ok(content.seek(offset, kind))
    }

    /// Stores zeros in all holes of a range, so that writing there can't run out of memory.
    ///
    /// # Errors
    /// `NoSpace`, `FileTooBig`, `IsDirectory` or `Invalid`; `AccessDenied`.
    pub fn allocate(
        &self,
        id: InodeId,
        offset: u64,
        length: u64,
        context: &Context,
    ) -> Result<Change, FsError> {
        self.change_data(id, context, |content| content.allocate(offset, length, &self.budget))
    }

    /// Punches a hole without changing the size.
    ///
    /// # Errors
    /// `NoSpace`, `IsDirectory` or `Invalid`; `AccessDenied`.
    pub fn punch(
        &self,
        id: InodeId,
        offset: u64,
        length: u64,
        context: &Context,
    ) -> Result<Change, FsError> {
        self.change_data(id, context, |content| content.punch(offset, length, &self.budget))
    }

    /// Makes a range of a file share the blocks of another range; returns its length.
    ///
    /// Offsets are multiples of [`CLONE_BLOCK_BYTES`], and so is the length, unless the range ends
    /// where the source does and reaches the end of the other file.
    ///
    /// # Errors
    /// `Invalid` for ranges that are not aligned, overlap or go beyond the source; `NoSpace`,
    /// `FileTooBig` or `IsDirectory`; `AccessDenied`.
    pub fn clone_range(&self, range: &CloneRange, context: &Context) -> Result<u64, FsError> {
        let CloneRange { from, to, length } = *range;
        let source = self.table.get(from.0)?;
        // One inode is locked at a time: the blocks of the snapshot can't change any more.
        let (snapshot, length, is_tail) = {
            let state = source.read();
            let content = state.body.file()?;
            context.caller.check_data(state.protection(), READ)?;
            let left = content.size().checked_sub(from.1).ok_or(FsError::Invalid)?;
            let length = if length == 0 { left } else { length };
            let is_aligned = (from.1 | to.1).is_multiple_of(CLONE_BLOCK_BYTES);
            let is_tail = !length.is_multiple_of(CLONE_BLOCK_BYTES);
            let overlaps = from.0 == to.0 && from.1.abs_diff(to.1) < length;
            if !is_aligned || overlaps || length > left || is_tail && length != left {
                return Err(FsError::Invalid);
            }
            source.set_atime(context.now);
            (content.snapshot(from.1, length), length, is_tail)
        };
        self.change_data(to.0, context, |content| {
            if is_tail && to.1.saturating_add(length) < content.size() {
                return Err(FsError::Invalid);
            }
            content.adopt(to.1, length, &snapshot, &self.budget)
        })?;
        Ok(length)
    }

    fn change_data(
        &self,
        id: InodeId,
        context: &Context,
        change: impl FnOnce(&mut FileContent) -> Result<(), FsError>,
    ) -> Result<Change, FsError> {
        let inode = self.table.get(id)?;
        let (change, ()) = inode.change(|state| {
            context.caller.check_data(state.protection(), WRITE)?;
            let content = state.file()?;
            change(content)?;
            content.commit();
            state.touch_data(context.now);
            state.mode = context.caller.mode_after_write(state.mode);
            Ok(())
        })?;
        Ok(change)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn read_link(&self, id: InodeId) -> Result<(Attributes, Arc<[u8]>), FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        let Body::Symlink(target) = &state.body else {
            return Err(FsError::Invalid);
        };
        Ok((inode.attributes_of(&state), Arc::clone(target)))
    }

    /// Space used and free.
    pub fn space(&self) -> SpaceInfo {
        let total_bytes = self.budget.limit_bytes();
        let free_bytes = total_bytes.saturating_sub(self.budget.used_bytes());
        let free_files = free_bytes / INODE_BYTES;
        let total_files = self.table.len() + free_files;
        SpaceInfo { total_bytes, free_bytes, total_files, free_files }
    }
}
