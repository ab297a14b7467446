//! RENAME: within a directory, across directories, replacing an existing target.
//!
//! The new name is added before the old one is removed, so a concurrent reader may find the object
//! twice but never misses it, and running out of memory leaves everything unchanged.
//!
//! **Source:** RFC 1813 section 3.3.14; for incompatible kinds the errors of rename(2).

use std::sync::Arc;

use super::handle::InodeId;
use super::inode::{Inode, State};
use super::namespace::check_removal;
use super::permission::{Caller, EXECUTE, WRITE};
use super::types::{Change, FileKind, FileTime, FsError};
use super::{Context, FileSystem};

/// The changes of the two directories; identical if there is only one.
#[derive(Clone, Copy, Debug)]
pub struct RenameChanges {
    /// The directory of the old name.
    pub from: Change,
    /// The directory of the new name.
    pub to: Change,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryName<'a> {
    /// The directory.
    pub directory: InodeId,
    /// The name in it.
    pub name: &'a [u8],
}

impl<'a> DirectoryName<'a> {
    /// Creates a name in a directory.
    pub const fn new(directory: InodeId, name: &'a [u8]) -> Self {
        Self { directory, name }
    }
}

impl FileSystem {
    /// Renames an object, replacing the target if it exists. If both names refer to the same file,
    /// nothing changes.
    ///
    /// # Errors
    /// `NoEntry`; `Invalid` for `.` and `..` and for a directory moved below itself; `NotEmpty`,
    /// `IsDirectory` and `NotDirectory` if the target can't be replaced; `NoSpace`; `AccessDenied`,
    /// `NotPermitted` (sticky bit).
    pub fn rename(
        &self,
        from: DirectoryName<'_>,
        to: DirectoryName<'_>,
        context: &Context,
    ) -> Result<RenameChanges, FsError> {
        let Context { caller, now, .. } = *context;
        let names = self.lock_names();
        let source = self.table.get(from.directory)?;
        let target = self.table.get(to.directory)?;
        let moved = self.find_child(&source, from.name, &caller)?;
        let replaced = self.find_child(&target, to.name, &caller)?;
        if matches!(from.name, b"." | b"..") || matches!(to.name, b"." | b"..") {
            return Err(FsError::Invalid);
        }
        let Some(moved) = moved else { return Err(FsError::NoEntry) };
        if matches!(&replaced, Some(replaced) if replaced.id == moved.id) {
            let (from, ()) = source.change(|_| Ok(()))?;
            let (to, ()) = target.change(|_| Ok(()))?;
            return Ok(RenameChanges { from, to });
        }
        check_move(&caller, &source, &target, &moved)?;
        if moved.kind == FileKind::Directory && self.is_below(&target, moved.id)? {
            return Err(FsError::Invalid);
        }
        if let Some(replaced) = &replaced {
            check_removal(&caller, &target, replaced)?;
            check_replaceable(&moved, replaced)?;
        }
        // A directory counts a link for the `..` of each subdirectory: the new parent gains one,
        // the old one loses one, and a replaced (empty) directory takes its own with it.
        let links = i64::from(moved.kind == FileKind::Directory);
        let lost = i64::from(links == 1 && replaced.is_some());
        let renamed = if source.id == target.id {
            rename_within(&source, from.name, to.name, |state| note_change(state, -lost, now))?
        } else {
            let (to, ()) = target.change(|state| {
                state.directory_mut()?.insert(to.name, moved.id)?;
                note_change(state, links - lost, now);
                Ok(())
            })?;
            let (from, ()) = source.change(|state| {
                state.directory_mut()?.remove(from.name);
                note_change(state, -links, now);
                Ok(())
            })?;
            RenameChanges { from, to }
        };
        note_moved(&moved, target.id, now);
        if let Some(replaced) = &replaced {
            self.drop_name(replaced, now);
        }
        drop(names); // What was replaced is freed without the lock.
        Ok(renamed)
    }

    /// Returns true if a directory is `ancestor` or below it.
    fn is_below(&self, directory: &Arc<Inode>, ancestor: InodeId) -> Result<bool, FsError> {
        // Ends at the root, its own parent: names change only under the namespace mutex, so the
        // tree can't change meanwhile, and this very check keeps it free of cycles.
        let mut current = Arc::clone(directory);
        loop {
            if current.id == ancestor {
                return Ok(true);
            }
            let parent = current.read().directory()?.parent;
            if parent == current.id {
                return Ok(false);
            }
            current = self.table.get(parent)?;
        }
    }
}

/// Checks whether an object may move from one directory to another. A directory that gets another
/// parent is itself changed, since its `..` is (Linux `vfs_rename`).
fn check_move(
    caller: &Caller,
    source: &Inode,
    target: &Inode,
    moved: &Inode,
) -> Result<(), FsError> {
    check_removal(caller, source, moved)?;
    caller.check(target.read().protection(), WRITE | EXECUTE)?;
    if moved.kind == FileKind::Directory && source.id != target.id {
        caller.check(moved.read().protection(), WRITE)?;
    }
    Ok(())
}

fn check_replaceable(moved: &Inode, replaced: &Inode) -> Result<(), FsError> {
    let directories = (moved.kind == FileKind::Directory, replaced.kind == FileKind::Directory);
    match directories {
        (false, false) => Ok(()),
        (true, false) => Err(FsError::NotDirectory),
        (false, true) => Err(FsError::IsDirectory),
        (true, true) if replaced.read().directory()?.is_empty() => Ok(()),
        (true, true) => Err(FsError::NotEmpty),
    }
}

fn rename_within(
    directory: &Inode,
    from: &[u8],
    to: &[u8],
    note_change: impl FnOnce(&mut State),
) -> Result<RenameChanges, FsError> {
    let (change, ()) = directory.change(|state| {
        let entries = state.directory_mut()?;
        let id = entries.find(from).ok_or(FsError::NoEntry)?;
        entries.insert(to, id)?;
        entries.remove(from);
        note_change(state);
        Ok(())
    })?;
    Ok(RenameChanges { from: change, to: change })
}

/// Records in a directory that an entry was added or removed, with the `..` of a subdirectory.
fn note_change(state: &mut State, links: i64, now: FileTime) {
    state.nlink = u32::try_from(i64::from(state.nlink) + links).unwrap_or(u32::MAX);
    state.touch_data(now);
}

fn note_moved(moved: &Inode, parent: InodeId, now: FileTime) {
    let mut state = moved.write();
    state.touch(now);
    if let Ok(entries) = state.directory_mut() {
        entries.parent = parent;
    }
}
