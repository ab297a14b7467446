//! Names: LOOKUP, LINK, REMOVE and RMDIR; see also `create` and `rename`.
//!
//! Anything that changes names takes the namespace mutex first and resolves its directories
//! afterwards: a directory that was removed meanwhile is found stale, never filled.
//!
//! **Source:** RFC 1813 sections 3.3.3, 3.3.12, 3.3.13 and 3.3.15.

use std::sync::Arc;

use super::handle::InodeId;
use super::inode::Inode;
use super::permission::{Caller, EXECUTE, WRITE};
use super::types::{Attributes, Change, FileKind, FileTime, FsError, LINKS_MAX, NAME_BYTES_MAX};
use super::{Context, FileSystem};

/// The object that LOOKUP finds.
#[derive(Clone, Copy, Debug)]
pub struct LookupResult {
    /// The object.
    pub id: InodeId,
    /// Attributes of the object.
    pub attributes: Attributes,
    /// Attributes of the directory.
    pub directory: Attributes,
}

impl FileSystem {
    /// Finds a name in a directory, including `.` and `..`.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `NameTooLong`, `AccessDenied`; `Invalid` for a name with a slash
    /// or NUL.
    pub fn lookup(
        &self,
        directory: InodeId,
        name: &[u8],
        caller: &Caller,
    ) -> Result<LookupResult, FsError> {
        let parent = self.table.get(directory)?;
        let (id, directory) = {
            let state = parent.read();
            let entries = state.directory()?;
            caller.check(state.protection(), EXECUTE)?;
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
        // Removed since the lock was released: to the caller this is the same as removed before.
        let Ok(inode) = self.table.get(id) else { return Err(FsError::NoEntry) };
        let led_to = self.looped(parent.id, id, inode.kind);
        if led_to != id && name != b".." {
            let attributes = self.attributes(led_to)?;
            return Ok(LookupResult { id: led_to, attributes, directory });
        }
        Ok(LookupResult { id, attributes: inode.attributes(), directory })
    }

    /// Adds a name to a file; returns its attributes and the directory's change.
    ///
    /// # Errors
    /// `Invalid` for a directory, `Exists`, `TooManyLinks`, `NotDirectory`, `NoSpace`,
    /// `AccessDenied`.
    pub fn link(
        &self,
        file: InodeId,
        directory: InodeId,
        name: &[u8],
        context: &Context,
    ) -> Result<(Attributes, Change), FsError> {
        let now = context.now;
        let _names = self.lock_names();
        let inode = self.table.get(file)?;
        let parent = self.table.get(directory)?;
        if self.find_child(&parent, name, &context.caller)?.is_some() {
            return Err(FsError::Exists);
        }
        if inode.kind == FileKind::Directory {
            return Err(FsError::Invalid);
        }
        // Links change only under the namespace mutex, so the check still applies at the increment
        // below.
        if inode.read().nlink >= LINKS_MAX {
            return Err(FsError::TooManyLinks);
        }
        let (change, ()) = parent.change(|state| {
            context.caller.check(state.protection(), WRITE)?;
            state.directory_mut()?.insert(name, file)?;
            state.touch_data(now);
            Ok(())
        })?;
        let mut state = inode.write();
        state.nlink += 1;
        state.touch(now);
        Ok((inode.attributes_of(&state), change))
    }

    /// Removes a name of anything but a directory; the object is freed with its last name.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `IsDirectory` (also for `.` and `..`), `NameTooLong`,
    /// `AccessDenied`, `NotPermitted` (sticky bit).
    pub fn remove(
        &self,
        directory: InodeId,
        name: &[u8],
        context: &Context,
    ) -> Result<Change, FsError> {
        let now = context.now;
        let names = self.lock_names();
        let parent = self.table.get(directory)?;
        let child = self.find_child(&parent, name, &context.caller)?.ok_or(FsError::NoEntry)?;
        check_removal(&context.caller, &parent, &child)?;
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
    /// requires; `AccessDenied`, `NotPermitted` (sticky bit).
    pub fn remove_directory(
        &self,
        directory: InodeId,
        name: &[u8],
        context: &Context,
    ) -> Result<Change, FsError> {
        let now = context.now;
        let _names = self.lock_names();
        let parent = self.table.get(directory)?;
        let child = self.find_child(&parent, name, &context.caller)?.ok_or(FsError::NoEntry)?;
        match name {
            b"." => return Err(FsError::Invalid),
            b".." => return Err(FsError::Exists),
            _ => check_removal(&context.caller, &parent, &child)?,
        }
        if !child.read().directory()?.is_empty() {
            return Err(FsError::NotEmpty);
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

    /// Finds the object behind a name in a directory; `.` and `..` count as present.
    pub(super) fn find_child(
        &self,
        parent: &Arc<Inode>,
        name: &[u8],
        caller: &Caller,
    ) -> Result<Option<Arc<Inode>>, FsError> {
        // Release the directory's lock before looking up another inode.
        let id = {
            let state = parent.read();
            let entries = state.directory()?;
            caller.check(state.protection(), EXECUTE)?;
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

    /// Removes a link from an object that has just lost a name, and frees it with its last.
    pub(super) fn drop_name(&self, inode: &Inode, now: FileTime) {
        let last = {
            let mut state = inode.write();
            let last = inode.kind == FileKind::Directory || state.nlink == 1;
            state.nlink = if last { 0 } else { state.nlink - 1 };
            state.touch(now);
            last && state.pins == 0
        };
        if last {
            self.table.remove(inode.id);
        }
    }
}

/// Checks whether an object may lose its name in a directory; locks the two one after the other.
pub(super) fn check_removal(
    caller: &Caller,
    directory: &Inode,
    removed: &Inode,
) -> Result<(), FsError> {
    let directory = directory.read().protection();
    caller.check_removal(directory, removed.read().protection())
}

/// Refuses names that are not valid in any directory.
pub(super) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FsError::Invalid);
    }
    Ok(())
}
