//! The type of a file system, for code that depends on it.
//!
//! [`FileSystemType`] distinguishes only the few types that need special treatment.
//!
//! **Source:** statfs(2), `f_type`; linux/magic.h.

use std::path::Path;

use rustix::fs::FsWord;

const TMPFS_MAGIC: FsWord = 0x0102_1994;
const NFS_MAGIC: FsWord = 0x6969;
/// Magic number of ext2, ext3 and ext4.
const EXT4_MAGIC: FsWord = 0xef53;

/// The type of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemType {
    /// A file system in memory.
    Tmpfs,
    /// ext4 or one of its predecessors.
    Ext4,
    /// A kernel's mount of any version.
    Nfs,
    /// Any other type, or one that cannot be determined.
    Other,
}

impl FileSystemType {
    /// Returns the type of the file system that contains a path.
    pub fn from_path(path: &Path) -> Self {
        match rustix::fs::statfs(path) {
            Ok(found) if found.f_type == TMPFS_MAGIC => Self::Tmpfs,
            Ok(found) if found.f_type == EXT4_MAGIC => Self::Ext4,
            Ok(found) if found.f_type == NFS_MAGIC => Self::Nfs,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_memory_from_missing_path() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        if mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm tmpfs ")) {
            assert_eq!(FileSystemType::from_path(Path::new("/dev/shm")), FileSystemType::Tmpfs);
        }
        assert_eq!(FileSystemType::from_path(Path::new("/no/such/path")), FileSystemType::Other);
        assert_eq!(FileSystemType::from_path(Path::new("/proc")), FileSystemType::Other);
    }
}
