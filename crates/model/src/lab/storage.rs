//! The storage of a server: disks, how they are combined, and the file systems on them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{STORAGE_POINT, numbered};
use crate::words::words;

words! {
    /// The kind of file system that is made on a device.
    FileSystem {
        /// The file system ext4.
        Ext4 = "ext4",
        /// The file system ext3: ext2 with a journal.
        Ext3 = "ext3",
        /// The file system ext2, without a journal.
        Ext2 = "ext2",
        /// The file system XFS.
        Xfs = "xfs",
        /// The file system Btrfs.
        Btrfs = "btrfs",
        /// Memory of the server: no device at all.
        Tmpfs = "tmpfs",
        /// A file system that is there already, which is neither formatted nor mounted.
        Existing = "existing",
    }
}

words! {
    /// How disks are combined.
    Raid {
        /// They are not.
        None = "none",
        /// Striped, without redundancy.
        Raid0 = "0",
        /// Mirrored on all devices.
        Raid1 = "1",
        /// Striped with parity.
        Raid5 = "5",
        /// Striped with two parities.
        Raid6 = "6",
        /// Striped over mirrors.
        Raid10 = "10",
    }
}

/// Layers that the server keeps files on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Storage {
    /// The devices, or files that loop devices are made of. The first alone is used where they
    /// are not combined; none is for `tmpfs` and `existing`.
    pub devices: Vec<PathBuf>,
    /// Make the `devices` as files of so many bytes, with a loop device each; 0 takes them as they
    /// are.
    pub loop_bytes: u64,
    /// How several are combined.
    pub raid: Raid,
    /// Encrypt it with dm-crypt.
    pub crypt: bool,
    /// The kind of file system that is made on it.
    pub file_system: FileSystem,
    /// Arguments of mkfs, each on its own.
    pub format_options: Vec<String>,
    /// Options of its mount on the server, such as `noatime`.
    pub mount_options: Vec<String>,
    /// Most bytes of a `tmpfs`; 0 leaves it to the kernel.
    pub size_bytes: u64,
    /// Path of a directory that exists already on the server.
    pub directory: PathBuf,
    /// Directories beside it, each exported and mounted on its own.
    #[serde(default)]
    pub more_directories: Vec<PathBuf>,
    /// Each device has a file system of its own, and all of them are exported and mounted.
    #[serde(default)]
    pub is_spread: bool,
    /// Bytes of a chunk of the array; `None` is what mdadm chooses.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// Cipher of dm-crypt, such as `aes-xts-plain64`; `None` is that.
    #[serde(default)]
    pub cipher: Option<String>,
    /// Bits of its key; `None` is 512.
    #[serde(default)]
    pub key_bits: Option<u32>,
}

impl Default for Storage {
    /// A directory that exists already.
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            loop_bytes: 0,
            raid: Raid::None,
            crypt: false,
            file_system: FileSystem::Existing,
            format_options: Vec::new(),
            mount_options: Vec::new(),
            size_bytes: 0,
            directory: PathBuf::new(),
            more_directories: Vec::new(),
            is_spread: false,
            chunk_bytes: None,
            cipher: None,
            key_bits: None,
        }
    }
}

impl Storage {
    /// Says whether a file system is made on devices.
    pub const fn is_formatted(&self) -> bool {
        !matches!(self.file_system, FileSystem::Tmpfs | FileSystem::Existing)
    }

    /// The devices, or files of loop devices, that are formatted.
    pub fn used(&self) -> &[PathBuf] {
        match (self.is_formatted(), self.raid) {
            (false, _) => &[],
            (true, Raid::None) if self.is_spread => &self.devices,
            // Without raid there is nothing to combine further devices by; they are left alone, and
            // what is on them is safe.
            (true, Raid::None) => &self.devices[..self.devices.len().min(1)],
            (true, _) => &self.devices,
        }
    }

    /// Returns the directory that is exported, as the server sees it; of several the first.
    pub fn place(&self) -> &Path {
        match self.file_system {
            FileSystem::Existing => &self.directory,
            _ => Path::new(STORAGE_POINT),
        }
    }

    /// Returns all directories that are exported: one of each file system.
    pub fn places(&self) -> Vec<PathBuf> {
        if self.file_system == FileSystem::Existing {
            let mut places = vec![self.directory.clone()];
            places.extend_from_slice(&self.more_directories);
            return places;
        }
        let count = if self.raid == Raid::None { self.used().len() } else { 1 };
        numbered(STORAGE_POINT, count.max(1))
    }
}
