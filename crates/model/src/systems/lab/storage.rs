//! Storage of a server: disks, how they are combined, and the file systems on them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{STORAGE_POINT, numbered};
use crate::text::words::words;

words! {
    /// The file system to create on a device.
    FileSystem {
        /// ext4.
        Ext4 = "ext4",
        /// ext3: ext2 with a journal.
        Ext3 = "ext3",
        /// ext2, without a journal.
        Ext2 = "ext2",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs.
        Btrfs = "btrfs",
        /// Memory of the server, without a device.
        Tmpfs = "tmpfs",
        /// An existing file system, which is neither formatted nor mounted.
        Existing = "existing",
    }
}

words! {
    /// How disks are combined.
    Raid {
        /// They are not combined.
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

/// Storage layers of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Storage {
    /// Devices, or backing files of loop devices. Without RAID only the first is used; empty for
    /// `tmpfs` and `existing`.
    pub devices: Vec<PathBuf>,
    /// Create the `devices` as files of this size, with a loop device each; 0 uses them as they
    /// are.
    pub loop_bytes: u64,
    /// How several devices are combined.
    pub raid: Raid,
    /// Encrypt with dm-crypt.
    pub crypt: bool,
    /// The file system to create.
    pub file_system: FileSystem,
    /// Arguments for mkfs, one per element.
    pub format_options: Vec<String>,
    /// Mount options on the server, such as `noatime`.
    pub mount_options: Vec<String>,
    /// Maximum size of a `tmpfs` in bytes; 0 lets the kernel choose.
    pub size_bytes: u64,
    /// An existing directory on the server.
    pub directory: PathBuf,
    /// Further directories, each exported and mounted separately.
    #[serde(default)]
    pub more_directories: Vec<PathBuf>,
    /// Each device has its own file system, and all of them are exported and mounted.
    #[serde(default)]
    pub is_spread: bool,
    /// Chunk size of the array in bytes; `None` lets mdadm choose.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// Cipher for dm-crypt; `None` for `aes-xts-plain64`.
    #[serde(default)]
    pub cipher: Option<String>,
    /// Key size in bits; `None` for 512.
    #[serde(default)]
    pub key_bits: Option<u32>,
}

impl Default for Storage {
    /// Returns an existing directory.
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
    /// Returns true if a file system is created on devices.
    pub const fn is_formatted(&self) -> bool {
        !matches!(self.file_system, FileSystem::Tmpfs | FileSystem::Existing)
    }

    /// Returns the devices, or backing files of loop devices, that are formatted.
    pub fn used(&self) -> &[PathBuf] {
        match (self.is_formatted(), self.raid) {
            (false, _) => &[],
            (true, Raid::None) if self.is_spread => &self.devices,
            // Without RAID, further devices are not used, and the data on them is safe.
            (true, Raid::None) => &self.devices[..self.devices.len().min(1)],
            (true, _) => &self.devices,
        }
    }

    /// Returns the first exported directory, as seen by the server.
    pub fn place(&self) -> &Path {
        match self.file_system {
            FileSystem::Existing => &self.directory,
            _ => Path::new(STORAGE_POINT),
        }
    }

    /// Returns all exported directories, one per file system.
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
