//! Names: LOOKUP, making objects, LINK, REMOVE and RMDIR.
//!
//! Whatever changes names holds the namespace mutex, and resolves its directories only then: a
//! directory that was removed meanwhile is found stale, never filled.
//!
//! **Source:** RFC 1813 sections 3.3.3 and 3.3.8 to 3.3.15.

use std::sync::Arc;

use super::budget::Charge;
use super::content::FileContent;
use super::directory::Directory;
use super::handle::InodeId;
use super::inode::{Body, INODE_BYTES, Inode, NewInode};
use super::types::{
    Attributes, Change, CreateMode, FileKind, FileTime, FsError, LINKS_MAX, NAME_BYTES_MAX,
    SYMLINK_BYTES_MAX, SetAttributes,
};
use super::{Context, FileSystem};

/// What LOOKUP finds.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The object.
    pub id: InodeId,
    /// Its attributes.
    pub attributes: Attributes,
    /// Attributes of the directory.
    pub directory: Attributes,
}

/// What was made (or taken, for CREATE), and what became of its directory.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The object.
    pub id: InodeId,
    /// Its attributes.
    pub attributes: Attributes,
    /// The directory before and after.
    pub directory: Change,
}

/// An object other than a regular file, to be made.
#[derive(Clone, Copy, Debug)]
pub enum NewObject<'a> {
    /// MKDIR.
    Directory,
    /// SYMLINK with its target.
    Symlink(&'a [u8]),
    /// MKNOD of a device (with major and minor number), socket or pipe.
    Node(FileKind, (u32, u32)),
}

impl FileSystem {
    /// Finds a name in a directory; knows `.` and `..`.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `NameTooLong`, `Invalid` for a name with a slash or NUL.
    pub fn lookup(&self, directory: InodeId, name: &[u8]) -> Result<Found, FsError> {
        let parent = self.table.get(directory)?;
        let (id, directory) = {
            let state = parent.read();
            let entries = state.directory()?;
            let id = match name {
                b"." => parent.id,
                b".." => entries.parent,
                _ => {
                    check_name(name)?;
                    entries.find(name).ok_or(FsError::NoEntry)?
                }
            };
            (id, parent.attributes_of(&state))
        };
        // Removed since the lock was let go: the same to the caller as removed before.
        let inode = self.table.get(id).map_err(|_| FsError::NoEntry)?;
        Ok(Found { id, attributes: inode.attributes(), directory })
    }

    /// Makes a regular file, or takes an existing one as `mode` says.
    ///
    /// # Errors
    /// `Exists` as `mode` says and for anything but a regular file; see also `make`.
    pub fn create(
        &self,
        directory: InodeId,
        name: &[u8],
        mode: CreateMode,
        set: &SetAttributes,
        context: Context,
    ) -> Result<Created, FsError> {
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        if let Some(existing) = self.find_child(&parent, name)? {
            return take_existing(&parent, &existing, mode, set, context.now);
        }
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
        self.add(&parent, name, new, set, context.now)
    }

    /// Makes a directory, symbolic link or node.
    ///
    /// # Errors
    /// `Exists`, `NotDirectory`, `NameTooLong`, `Invalid` (bad name), `NoSpace`, `BadType`.
    pub fn make(
        &self,
        directory: InodeId,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
        context: Context,
    ) -> Result<Created, FsError> {
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        if self.find_child(&parent, name)?.is_some() {
            return Err(FsError::Exists);
        }
        let (kind, body, rdev, extra_bytes) = self.body_of(object, parent.id)?;
        let new = NewInode {
            kind,
            body,
            rdev,
            create_verifier: None,
            caller: context.caller,
            charge: Charge::take(&self.budget, INODE_BYTES + extra_bytes)?,
        };
        self.add(&parent, name, new, set, context.now)
    }

    /// Gives a file one more name; returns its attributes and the directory's change.
    ///
    /// # Errors
    /// `Invalid` for a directory, `Exists`, `TooManyLinks`, `NotDirectory`, `NoSpace`.
    pub fn link(
        &self,
        file: InodeId,
        directory: InodeId,
        name: &[u8],
        now: FileTime,
    ) -> Result<(Attributes, Change), FsError> {
        let _names = self.lock_names();
        let inode = self.table.get(file)?;
        let parent = self.table.get(directory)?;
        if self.find_child(&parent, name)?.is_some() {
            return Err(FsError::Exists);
        }
        if inode.kind == FileKind::Directory {
            return Err(FsError::Invalid);
        }
        if inode.read().nlink >= LINKS_MAX {
            return Err(FsError::TooManyLinks);
        }
        let (change, ()) = parent.change(|state| {
            state.directory_mut()?.insert(name, file)?;
            state.touch_data(now);
            Ok(())
        })?;
        let mut state = inode.write();
        state.nlink += 1;
        state.touch(now);
        Ok((inode.attributes_of(&state), change))
    }

    /// Removes the name of anything but a directory; with its last name the object goes.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `IsDirectory` (also for `.` and `..`), `NameTooLong`.
    pub fn remove(
        &self,
        directory: InodeId,
        name: &[u8],
        now: FileTime,
    ) -> Result<Change, FsError> {
        let names = self.lock_names();
        let parent = self.table.get(directory)?;
        let child = self.find_child(&parent, name)?.ok_or(FsError::NoEntry)?;
        if child.kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        let (change, ()) = parent.change(|state| {
            state.directory_mut()?.remove(name);
            state.touch_data(now);
            Ok(())
        })?;
        self.drop_name(&child, now);
        drop(names); // The data of a large file is freed without the lock, with `child`.
        Ok(change)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `NotEmpty`; `Invalid` for `.` and `Exists` for `..`, as the RFC
    /// says.
    pub fn remove_directory(
        &self,
        directory: InodeId,
        name: &[u8],
        now: FileTime,
    ) -> Result<Change, FsError> {
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        let child = self.find_child(&parent, name)?.ok_or(FsError::NoEntry)?;
        match name {
            b"." => return Err(FsError::Invalid),
            b".." => return Err(FsError::Exists),
            _ if !child.read().directory()?.is_empty() => return Err(FsError::NotEmpty),
            _ => {}
        }
        let (change, ()) = parent.change(|state| {
            state.directory_mut()?.remove(name);
            state.nlink -= 1;
            state.touch_data(now);
            Ok(())
        })?;
        self.drop_name(&child, now);
        Ok(change)
    }

    /// Finds what a name in a directory stands for; `.` and `..` count as present.
    pub(super) fn find_child(
        &self,
        parent: &Arc<Inode>,
        name: &[u8],
    ) -> Result<Option<Arc<Inode>>, FsError> {
        let id = {
            let state = parent.read();
            let entries = state.directory()?;
            match name {
                b"." => Some(parent.id),
                b".." => Some(entries.parent),
                _ => {
                    check_name(name)?;
                    entries.find(name)
                }
            }
        };
        id.map(|id| self.table.get(id)).transpose()
    }

    /// Takes one name from an object that has just lost it, and frees it with its last.
    pub(super) fn drop_name(&self, inode: &Inode, now: FileTime) {
        let last = {
            let mut state = inode.write();
            let last = inode.kind == FileKind::Directory || state.nlink == 1;
            state.nlink = if last { 0 } else { state.nlink - 1 };
            state.touch(now);
            last
        };
        if last {
            self.table.remove(inode.id);
        }
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

    /// Puts a new inode into the table and its name into the directory.
    fn add(
        &self,
        parent: &Inode,
        name: &[u8],
        new: NewInode,
        set: &SetAttributes,
        now: FileTime,
    ) -> Result<Created, FsError> {
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
                Ok(Created { id: inode.id, attributes: inode.attributes(), directory })
            }
            Err(error) => {
                self.table.remove(inode.id);
                Err(error)
            }
        }
    }
}

/// Refuses names that no directory can hold.
pub(super) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FsError::Invalid);
    }
    Ok(())
}

/// CREATE of a name that exists.
fn take_existing(
    parent: &Inode,
    existing: &Inode,
    mode: CreateMode,
    set: &SetAttributes,
    now: FileTime,
) -> Result<Created, FsError> {
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
        // Only the size of an existing file is set, as the Linux server does.
        let only_size = SetAttributes { size: set.size, ..SetAttributes::default() };
        existing.change(|state| existing.apply(state, &only_size, now))?;
    }
    Ok(Created { id: existing.id, attributes: existing.attributes(), directory })
}
