//! Data of clients without a layout: in the store, or passed on to data servers.
//!
//! Without data servers these functions cost one test of an `Option`. With them, a file's data goes
//! to data servers from its first write on.

use std::sync::Arc;

use super::Service;
use crate::fs::{
    Attributes, Change, Context, FsError, InodeId, READ, ReadSpan, SetAttributes, SpaceInfo, WRITE,
};
use crate::placement::Placement;
use crate::pnfs::{DataRange, Pnfs};

/// The data servers, and where the data of a file is on them.
type PlacedFile = (Arc<Pnfs>, Arc<Placement>);

impl Service {
    /// Gathers the pieces of up to `count` bytes from `offset`.
    ///
    /// # Errors
    /// Those of `FileSystem::read`; `TryLater` or `DataServer`.
    pub(super) fn read_data(
        &mut self,
        id: InodeId,
        offset: u64,
        count: u32,
        context: &Context,
    ) -> Result<(Attributes, ReadSpan), FsError> {
        if let Some((pnfs, placement)) = self.placement_of(id)? {
            let found = self.shared.fs.attributes(id)?;
            context.caller.check_data(found.protection(), READ)?;
            let range = DataRange { file: id.number(), offset, length: u64::from(count) };
            let bytes = pnfs.read(&placement, range, found.size)?;
            self.shared.fs.push_copy(&bytes, &mut self.pieces);
            let eof = offset.saturating_add(bytes.len() as u64) >= found.size;
            return Ok((found, ReadSpan { count: bytes.len() as u32, eof }));
        }
        self.shared.fs.read(id, offset, count, context, &mut self.pieces)
    }

    /// Writes to data servers; `None` if the data of the file is in the store.
    ///
    /// # Errors
    /// `TryLater`, `DataServer`, `NoSpace` or `AccessDenied`.
    pub(super) fn write_to_data_servers(
        &self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        context: &Context,
    ) -> Result<Option<(Change, usize)>, FsError> {
        let Some(pnfs) = &self.shared.pnfs else { return Ok(None) };
        // Without data there is only something to check, as for files in the store.
        if data.is_empty() {
            return Ok(None);
        }
        let found = self.shared.fs.attributes(id)?;
        context.caller.check_data(found.protection(), WRITE)?;
        let placement = match self.shared.fs.place(id, || pnfs.place()) {
            Err(FsError::Exists) => return Ok(None),
            placed => placed?,
        };
        let length = data.len() as u64;
        let end = offset.checked_add(length).ok_or(FsError::FileTooBig)?;
        pnfs.write(&placement, DataRange { file: id.number(), offset, length }, data)?;
        let change = self.shared.fs.note_written(id, end, None, context)?;
        Ok(Some((change, data.len())))
    }

    /// Sets the size of data files before that of their file.
    ///
    /// # Errors
    /// `TryLater`, `DataServer`, `AccessDenied` or `NotPermitted`.
    pub(super) fn resize_data(
        &self,
        id: InodeId,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<(), FsError> {
        if let Some(size) = set.size
            && let Some((pnfs, placement)) = self.placement_of(id)?
        {
            self.shared.fs.check_set(id, set, context)?;
            pnfs.resize(id.number(), &placement, size)?;
        }
        Ok(())
    }

    /// Space used and free: for data, it is that of the data servers.
    pub(super) fn space(&self) -> SpaceInfo {
        let mut space = self.shared.fs.space();
        if let Some(pnfs) = &self.shared.pnfs {
            (space.total_bytes, space.free_bytes) = pnfs.space();
        }
        space
    }

    /// Refuses operations that need the data in the store.
    ///
    /// # Errors
    /// `NotSupported` if this server has data servers.
    pub(super) fn require_own_data(&self) -> Result<(), FsError> {
        if self.shared.pnfs.is_some() { Err(FsError::NotSupported) } else { Ok(()) }
    }

    /// Where the data of a file is if it is on data servers.
    fn placement_of(&self, id: InodeId) -> Result<Option<PlacedFile>, FsError> {
        let Some(pnfs) = &self.shared.pnfs else { return Ok(None) };
        let placement = self.shared.fs.placement(id)?;
        Ok(placement.map(|placement| (Arc::clone(pnfs), placement)))
    }
}
