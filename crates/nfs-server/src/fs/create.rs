//! Creating objects: CREATE, MKDIR, SYMLINK and MKNOD.
//!
//! The object is complete before its name appears, and is removed again if there is no room for the
//! name.
//!
//! **Source:** RFC 1813 sections 3.3.8 to 3.3.11.

use std::sync::Arc;

use super::budget::Charge;
use super::content::FileContent;
use super::directory::Directory;
use super::handle::InodeId;
use super::inode::{Body, INODE_BYTES, Inode, NewInode};
use super::types::{
    Attributes, Change, CreateMode, FileKind, FileTime, FsError, SYMLINK_BYTES_MAX, SetAttributes,
};
use super::{Context, FileSystem};

/// The object that was created (or, for CREATE, found), and the change of its directory.
#[derive(Clone, Copy, Debug)]
pub struct CreatedObject {
    /// Number of the object.
    pub id: InodeId,
    /// Attributes of the object.
    pub attributes: Attributes,
    /// The directory before and after.
    pub directory: Change,
}

/// An object to create, other than a regular file.
#[derive(Clone, Copy, Debug)]
pub enum NewObject<'a> {
    /// A directory, by MKDIR.
    Directory,
    /// SYMLINK with its target.
    Symlink(&'a [u8]),
    /// MKNOD of a device (with major and minor number), socket or pipe.
    Node(FileKind, (u32, u32)),
}

impl FileSystem {
    /// Creates a regular file, or takes an existing one if `mode` allows it.
    ///
    /// # Errors
    /// `Exists` depending on `mode`, and for anything but a regular file; see also `make`.
    pub fn create(
        &self,
        directory: InodeId,
        name: &[u8],
        mode: CreateMode,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<CreatedObject, FsError> {
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        if let Some(existing) = self.find_child(&parent, name, &context.caller)? {
            return take_existing(&parent, &existing, mode, set, context);
        }
        let set =
            context.caller.check_creation(parent.read().protection(), FileKind::Regular, set)?;
        let create_verifier = match mode {
            CreateMode::Exclusive(verifier) => Some(verifier),
            CreateMode::Unchecked | CreateMode::Guarded => None,
        };
        let mut content = FileContent::new(self.mode);
        content.resize(set.size.unwrap_or(0))?;
        let new = NewInode {
            kind: FileKind::Regular,
            body: Body::Regular(content),
            rdev: (0, 0),
            create_verifier,
            caller: context.caller,
            charge: Charge::take(&self.budget, INODE_BYTES)?,
        };
        let created = self.add(&parent, name, new, &set, context.now)?;
        self.note_created(name, created.id);
        Ok(created)
    }

    /// Creates a directory, symbolic link or node.
    ///
    /// # Errors
    /// `Exists`, `NotDirectory`, `NameTooLong`, `Invalid` (bad name), `NoSpace`, `BadType`,
    /// `AccessDenied`; `NotPermitted` for a device.
    pub fn make(
        &self,
        directory: InodeId,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<CreatedObject, FsError> {
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        if self.find_child(&parent, name, &context.caller)?.is_some() {
            return Err(FsError::Exists);
        }
        let (kind, body, rdev, extra_bytes) = self.body_of(object, parent.id)?;
        let set = context.caller.check_creation(parent.read().protection(), kind, set)?;
        let new = NewInode {
            kind,
            body,
            rdev,
            create_verifier: None,
            caller: context.caller,
            charge: Charge::take(&self.budget, INODE_BYTES + extra_bytes)?,
        };
        self.add(&parent, name, new, &set, context.now)
    }

    fn body_of(
        &self,
        object: NewObject<'_>,
        parent: InodeId,
    ) -> Result<(FileKind, Body, (u32, u32), u64), FsError> {
        Ok(match object {
            NewObject::Directory => {
                let body = Body::Directory(Directory::new(parent, &self.budget));
                (FileKind::Directory, body, (0, 0), 0)
            }
            NewObject::Symlink([]) => return Err(FsError::Invalid),
            NewObject::Symlink(target) if target.len() > SYMLINK_BYTES_MAX => {
                return Err(FsError::NameTooLong);
            }
            NewObject::Symlink(target) => {
                let body = Body::Symlink(Arc::from(target));
                (FileKind::Symlink, body, (0, 0), target.len() as u64)
            }
            NewObject::Node(
                kind @ (FileKind::BlockDevice
                | FileKind::CharacterDevice
                | FileKind::Socket
                | FileKind::Fifo),
                rdev,
            ) => (kind, Body::Special, rdev, 0),
            NewObject::Node(..) => return Err(FsError::BadType),
        })
    }

    /// Adds a new inode to the table and its name to the directory.
    fn add(
        &self,
        parent: &Inode,
        name: &[u8],
        new: NewInode,
        set: &SetAttributes,
        now: FileTime,
    ) -> Result<CreatedObject, FsError> {
        let is_directory = new.kind == FileKind::Directory;
        let inode = self.table.insert(|id| Inode::new(id, new, set, now));
        let added = parent.change(|state| {
            state.directory_mut()?.insert(name, inode.id)?;
            state.nlink += u32::from(is_directory);
            state.touch_data(now);
            Ok(())
        });
        match added {
            Ok((directory, ())) => {
                Ok(CreatedObject { id: inode.id, attributes: inode.attributes(), directory })
            }
            Err(error) => {
                self.table.remove(inode.id);
                Err(error)
            }
        }
    }
}

/// CREATE of an existing name.
fn take_existing(
    parent: &Inode,
    existing: &Inode,
    mode: CreateMode,
    set: &SetAttributes,
    context: &Context,
) -> Result<CreatedObject, FsError> {
    let is_file = existing.kind == FileKind::Regular;
    let taken = match mode {
        CreateMode::Unchecked => is_file,
        CreateMode::Guarded => false,
        CreateMode::Exclusive(verifier) => is_file && existing.create_verifier == Some(verifier),
    };
    if !taken {
        return Err(FsError::Exists);
    }
    let (directory, ()) = parent.change(|_| Ok(()))?;
    if mode == CreateMode::Unchecked && set.size.is_some() {
        // Only the size of an existing file is set, as on the Linux server.
        let only_size = SetAttributes { size: set.size, ..SetAttributes::default() };
        existing.change(|state| existing.apply(state, &only_size, context))?;
    }
    Ok(CreatedObject { id: existing.id, attributes: existing.attributes(), directory })
}
