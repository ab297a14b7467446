//! Files whose data is on data servers: only names and attributes are here.

use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, DataPiece};
use super::handle::InodeId;
use super::inode::Body;
use super::types::{Change, FileTime, FsError, SetAttributes};
use super::{Context, FileSystem};
use crate::placement::Placement;

impl FileSystem {
    /// Where the data of a file is, if it isn't here.
    ///
    /// # Errors
    /// `Stale`.
    pub(crate) fn placement(&self, id: InodeId) -> Result<Option<Arc<Placement>>, FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        Ok(match &state.body {
            Body::Regular(content) => content.placement().cloned(),
            _ => None,
        })
    }

    /// Returns where the data of a file is; a file without data gets the placement that `make`
    /// returns.
    ///
    /// # Errors
    /// `TryLater` if `make` returns none; `Exists` if the data is here; `IsDirectory` or `Invalid`.
    pub(crate) fn place(
        &self,
        id: InodeId,
        make: impl FnOnce() -> Option<Placement>,
    ) -> Result<Arc<Placement>, FsError> {
        let inode = self.table.get(id)?;
        let mut state = inode.write();
        let content = state.file()?;
        if let Some(placement) = content.placement() {
            return Ok(Arc::clone(placement));
        }
        if content.has_blocks() {
            return Err(FsError::Exists);
        }
        Ok(content.place(make().ok_or(FsError::TryLater)?))
    }

    /// Records that data up to `end` was written to data servers, perhaps at a given time.
    ///
    /// # Errors
    /// `Stale`, `IsDirectory` or `Invalid`.
    pub(crate) fn note_written(
        &self,
        id: InodeId,
        end: u64,
        modified: Option<FileTime>,
        context: &Context,
    ) -> Result<Change, FsError> {
        let inode = self.table.get(id)?;
        let (change, ()) = inode.change(|state| {
            state.file()?.extend_to(end);
            state.touch_data(context.now);
            state.mtime = modified.unwrap_or(state.mtime);
            state.mode = context.caller.mode_after_write(state.mode);
            Ok(())
        })?;
        Ok(change)
    }

    /// Checks whether a caller may set these attributes.
    ///
    /// # Errors
    /// `AccessDenied` or `NotPermitted`.
    pub(crate) fn check_set(
        &self,
        id: InodeId,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<(), FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        context.caller.check_set(inode.kind, state.protection(), set)?;
        Ok(())
    }

    /// Appends bytes that are not stored here to the pieces of a reply.
    pub(crate) fn push_copy(&self, bytes: &[u8], out: &mut Vec<DataPiece>) {
        for chunk in bytes.chunks(BLOCK_BYTES) {
            let block = Arc::new(Block::copy_of(&self.budget, chunk));
            out.push(DataPiece::from_block(&block, 0, chunk.len()));
        }
    }
}
