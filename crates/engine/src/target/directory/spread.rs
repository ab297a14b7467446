//! Creates a working directory in a part of the file system that earlier trials haven't used.
//!
//! ext4 places a directory in the block group of its parent, so all trials' files would share a few
//! groups. Without a journal, ext4 skips inodes freed within the last five minutes, and it does so
//! again for every new file. After a trial removes 8,000 files, creating files in the next trial is
//! twenty times slower. Top-level directories, which are marked with a flag, are spread over all
//! groups instead. Other file systems distribute directories well on their own.
//!
//! **Source:** `chattr(1)`, attribute `T`; fs/ext4/ialloc.c of Linux (`find_group_orlov`,
//! `recently_deleted`).

use std::collections::BTreeSet;
use std::fs;
use std::io::Result;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, IFlags, Mode, OFlags, RenameFlags};

use crate::file_system::FileSystemType;

/// Number of inodes in the groups that ext4 treats as one when placing a directory: by default 16
/// block groups of 8,192 inodes (`mke2fs(8)`, `flex_bg`).
const GROUP_INODES: u64 = 1 << 17;

/// Suffix of the directory in which a working directory is first created.
const TOP: &str = ".top";

/// Maximum number of names to try in order to find an unused group.
const NAMES_MAX: u32 = 32;

/// Groups used by trials of this process. A file system of 256 GiB has 128.
static USED_GROUPS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Creates a directory, away from others if the file system needs that.
pub(super) fn create_directory(target: &Path, name: &str) -> Result<()> {
    let is_ext4 = FileSystemType::from_path(target) == FileSystemType::Ext4;
    if is_ext4 && create_apart(target, name).is_ok() {
        return Ok(());
    }
    // If the name is taken or the target isn't writable, this reports it.
    fs::create_dir(target.join(name))
}

/// Creates the directory inside a top-level one and then moves it: moving doesn't change its block
/// group.
fn create_apart(target: &Path, name: &str) -> Result<()> {
    // A clean-up recognizes directories by this prefix and removes them if they are empty.
    let top = target.join(format!("{name}{TOP}"));
    fs::create_dir(&top)?;
    let moved = mark_top(&top).and_then(|()| {
        let made = create_below(&top, name)?;
        // Never replace another agent's directory, even if it is still empty.
        let flags = RenameFlags::NOREPLACE;
        let moved = rustix::fs::renameat_with(CWD, &made, CWD, target.join(name), flags);
        if moved.is_err() {
            let _ = fs::remove_dir(&made);
        }
        Ok(moved?)
    });
    fs::remove_dir(&top)?;
    moved
}

/// Marks a directory as the top of a hierarchy.
fn mark_top(top: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(top, flags, Mode::empty())?;
    let attributes = rustix::fs::ioctl_getflags(&handle)?;
    Ok(rustix::fs::ioctl_setflags(&handle, attributes | IFlags::TOPDIR)?)
}

/// Creates a directory inside a top-level one. Its name determines where the search for a group
/// begins, so names are tried until one leads to a group that no trial has used. If all are used,
/// the last one is kept.
fn create_below(top: &Path, name: &str) -> Result<PathBuf> {
    let mut used = USED_GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut attempt = 1;
    loop {
        let made = top.join(format!("{name}.{attempt}"));
        fs::create_dir(&made)?;
        let is_unused = used.insert(fs::metadata(&made)?.ino() / GROUP_INODES);
        if is_unused || attempt == NAMES_MAX {
            return Ok(made);
        }
        fs::remove_dir(&made)?;
        attempt += 1;
    }
}

/// Removes empty directories left in a top-level directory by a killed process. Does nothing if
/// `name` isn't that of a top-level directory.
pub(in crate::target) fn empty_top(top: &Path, name: &str) -> Result<()> {
    let Some(working) = name.strip_suffix(TOP) else { return Ok(()) };
    for entry in fs::read_dir(top)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(working) {
            // Fails for anything except an empty directory, which is then left alone.
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimum number of inodes for eight directories not to end up in the same group by chance.
    const INODES_MIN: u64 = 1 << 20;

    fn inode_after(folder: &Path, name: &str) -> u64 {
        create_directory(folder, name).unwrap();
        let inode = fs::metadata(folder.join(name)).unwrap().ino();
        let left: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [name], "only the spread directories are left");
        fs::remove_dir(folder.join(name)).unwrap();
        inode
    }

    #[test]
    fn spreads_trials_over_block_groups() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let inodes: BTreeSet<u64> =
            (0..8).map(|trial| inode_after(folder.path(), &format!("trial-{trial}"))).collect();
        let is_large = rustix::fs::statvfs(folder.path()).unwrap().f_files >= INODES_MIN;
        let kind = FileSystemType::from_path(folder.path());
        if kind == FileSystemType::Ext4 && is_large {
            // Created the usual way, they would all reuse the first one's inode.
            let apart = inodes.last().unwrap() - inodes.first().unwrap();
            assert!(apart >= 1 << 13, "all in one block group: {inodes:?}");
        }
    }

    #[test]
    fn refuses_and_keeps_existing_name() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        create_directory(folder.path(), "taken").unwrap();
        let taken = fs::metadata(folder.path().join("taken")).unwrap().ino();
        let refused = create_directory(folder.path(), "taken").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(fs::metadata(folder.path().join("taken")).unwrap().ino(), taken);
        assert!(!folder.path().join("taken.top").exists());
        let missing = create_directory(&folder.path().join("missing"), "name").unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    }
}
