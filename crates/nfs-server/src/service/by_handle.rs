//! File system operations on file handles, shared by NFS v2 and v3.
//!
//! Both versions identify an object by its handle in every call, and both resolve it first: a
//! handle that was never ours, or whose object is gone, fails the call before anything changes. v4
//! resolves a handle once, in PUTFH, and works on inodes from there.

use super::Service;
use crate::clock::monotonic_ns;
use crate::fs::{
    Attributes, Caller, Change, Context, CreateMode, CreatedObject, DirectoryName, FileTime,
    FsError, InodeId, Listing, LookupResult, NewObject, RenameChanges, SetAttributes,
};

/// A name in the directory with this handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) dir: &'a [u8],
    pub(super) name: &'a [u8],
}

impl Service {
    pub(super) fn inode_of(&self, file: &[u8]) -> Result<InodeId, FsError> {
        self.shared.fs.inode_id(file)
    }

    pub(super) fn attributes_of(&self, file: &[u8]) -> Result<Attributes, FsError> {
        self.shared.fs.attributes(self.inode_of(file)?)
    }

    pub(super) fn set_attributes_of(
        &self,
        file: &[u8],
        set: &SetAttributes,
        guard: Option<FileTime>,
        context: &Context,
    ) -> Result<Change, FsError> {
        let id = self.inode_of(file)?;
        self.recall(id)?;
        if set.size.is_some() {
            self.recall_layouts(id)?;
        }
        self.resize_data(id, set, context)?;
        self.shared.fs.set_attributes(id, set, guard, context)
    }

    /// Makes v4.1 clients return their delegations of a file before it changes.
    ///
    /// # Errors
    /// `Recalled` until they have, if the call's version has a status for "try again later".
    pub(super) fn recall(&self, file: InodeId) -> Result<(), FsError> {
        let tables = &self.shared.nfs4;
        if !tables.has_delegations() {
            return Ok(());
        }
        match tables.recall_from_others(file, None, monotonic_ns()) {
            Err(_) if self.waits_for_recalls => Err(FsError::Recalled),
            _ => Ok(()),
        }
    }

    /// Makes v4.1 clients return their layouts of a file before its size is set.
    ///
    /// # Errors
    /// Those of `recall`.
    fn recall_layouts(&self, file: InodeId) -> Result<(), FsError> {
        match self.shared.nfs4.recall_layouts_of_others(file, None, monotonic_ns()) {
            Err(_) if self.waits_for_recalls => Err(FsError::Recalled),
            _ => Ok(()),
        }
    }

    /// Recalls delegations of the object behind a name.
    fn recall_named(&self, at: Name<'_>, caller: &Caller) -> Result<(), FsError> {
        if !self.shared.nfs4.has_delegations() {
            return Ok(());
        }
        // If the name is not found, or may not be, the call itself reports it.
        match self.find_name(at, caller) {
            Ok(found) => self.recall(found.id),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn find_name(&self, at: Name<'_>, caller: &Caller) -> Result<LookupResult, FsError> {
        self.shared.fs.lookup(self.inode_of(at.dir)?, at.name, caller)
    }

    pub(super) fn create_file(
        &self,
        at: Name<'_>,
        mode: CreateMode,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<CreatedObject, FsError> {
        // An unchecked CREATE truncates an existing file.
        if set.size.is_some() && mode == CreateMode::Unchecked {
            self.recall_named(at, &context.caller)?;
            if self.shared.pnfs.is_some()
                && let Ok(found) = self.find_name(at, &context.caller)
            {
                self.recall_layouts(found.id)?;
                let only_size = SetAttributes { size: set.size, ..SetAttributes::default() };
                self.resize_data(found.id, &only_size, context)?;
            }
        }
        self.shared.fs.create(self.inode_of(at.dir)?, at.name, mode, set, context)
    }

    pub(super) fn make_object(
        &self,
        at: Name<'_>,
        object: NewObject<'_>,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<CreatedObject, FsError> {
        self.shared.fs.make(self.inode_of(at.dir)?, at.name, object, set, context)
    }

    pub(super) fn remove_name(&self, at: Name<'_>, context: &Context) -> Result<Change, FsError> {
        self.recall_named(at, &context.caller)?;
        self.shared.fs.remove(self.inode_of(at.dir)?, at.name, context)
    }

    pub(super) fn remove_directory(
        &self,
        at: Name<'_>,
        context: &Context,
    ) -> Result<Change, FsError> {
        self.shared.fs.remove_directory(self.inode_of(at.dir)?, at.name, context)
    }

    pub(super) fn rename_name(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        context: &Context,
    ) -> Result<RenameChanges, FsError> {
        self.recall_named(from, &context.caller)?;
        self.recall_named(to, &context.caller)?;
        let from = DirectoryName::new(self.inode_of(from.dir)?, from.name);
        let to = DirectoryName::new(self.inode_of(to.dir)?, to.name);
        self.shared.fs.rename(from, to, context)
    }

    pub(super) fn link_name(
        &self,
        file: &[u8],
        to: Name<'_>,
        context: &Context,
    ) -> Result<(Attributes, Change), FsError> {
        let file = self.inode_of(file)?;
        self.recall(file)?;
        self.shared.fs.link(file, self.inode_of(to.dir)?, to.name, context)
    }

    /// Lists as many entries as a reply of `bytes_max` could hold if each took `entry_bytes`
    /// besides its name. The codec pads names and has a header, so it may take fewer of them: this
    /// lower bound only keeps the server from gathering a whole large directory for one page.
    pub(super) fn list_entries(
        &self,
        directory: InodeId,
        cookie: u64,
        bytes_max: u32,
        entry_bytes: usize,
        caller: &Caller,
    ) -> Result<Listing, FsError> {
        let mut bytes_left = bytes_max as usize;
        self.shared.fs.list(directory, cookie, caller, |name| {
            let bytes = entry_bytes + name.len();
            let fits = bytes <= bytes_left;
            bytes_left = bytes_left.saturating_sub(bytes);
            fits
        })
    }
}
