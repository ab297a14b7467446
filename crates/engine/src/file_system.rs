//! The type of a file system, where something depends on it.
//!
//! [`FileSystemType`] tells apart the few types that are treated in a way of their own.
//!
//! **Source:** statfs(2), `f_type`; linux/magic.h.

use std::path::Path;

use rustix::fs::FsWord;

const TMPFS_MAGIC: FsWord = 0x0102_1994;
/// The number of ext2, ext3 and ext4.
const EXT4_MAGIC: FsWord = 0xef53;

/// The type of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemType {
    /// A file system in memory.
    Tmpfs,
    /// ext4, or one of its forerunners.
    Ext4,
    /// Any other, or one whose type can't be read.
    Other,
}

impl FileSystemType {
    /// Returns the type of the file system that a path is on.
    pub fn of_path(path: &Path) -> Self {
        match rustix::fs::statfs(path) {
            Ok(found) if found.f_type == TMPFS_MAGIC => Self::Tmpfs,
            Ok(found) if found.f_type == EXT4_MAGIC => Self::Ext4,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_distinguished_from_a_missing_path() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        if mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm tmpfs ")) {
            assert_eq!(FileSystemType::of_path(Path::new("/dev/shm")), FileSystemType::Tmpfs);
        }
        assert_eq!(FileSystemType::of_path(Path::new("/no/such/path")), FileSystemType::Other);
        assert_eq!(FileSystemType::of_path(Path::new("/proc")), FileSystemType::Other);
    }
}
