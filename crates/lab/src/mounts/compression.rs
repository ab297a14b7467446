//! Detects whether a local file system compresses files written to a directory.
//!
//! A mount option covers the whole file system, an attribute the files created in the directory.
//! The main function is [`describe`].
//!
//! **Source:** btrfs(5), chattr(1) (`c`), statx(2) (`STATX_ATTR_COMPRESSED`: `chattr +c` and the
//! property `compression` of btrfs), Documentation/filesystems/f2fs.rst of Linux, bcachefs(8)
//! (`bcachefs_effective.*`).

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, getxattr, statx};

/// File systems that can compress and report it.
const COMPRESSING: [&str; 4] = ["btrfs", "f2fs", "bcachefs", "ubifs"];

/// Extended attribute with a directory's effective compression on bcachefs.
const OF_BCACHEFS: &str = "bcachefs_effective.compression";

/// Describes what compresses data in a directory on a file system with these mount options. Returns
/// `None` if nothing does.
pub(crate) fn describe(file_system: &str, options: &str, directory: &Path) -> Option<String> {
    if !COMPRESSING.contains(&file_system) {
        return None;
    }
    let option = options.split(',').find(|option| option.starts_with("compress"));
    if let Some(option) = option {
        return Some(format!("{file_system} is mounted with {option}"));
    }
    if has_attribute(directory) {
        return Some(format!(
            "{file_system} compresses in this directory (chattr +c or a property; \
             STATX_ATTR_COMPRESSED)"
        ));
    }
    let mut value = [0_u8; 64];
    let length = getxattr(directory, OF_BCACHEFS, &mut value).ok()?;
    let value = String::from_utf8_lossy(&value[..length]);
    (value != "none").then(|| format!("{file_system} compresses with {value} ({OF_BCACHEFS})"))
}

/// Returns true if files created in the directory inherit the attribute `c`.
fn has_attribute(directory: &Path) -> bool {
    let Ok(found) = statx(CWD, directory, AtFlags::empty(), StatxFlags::empty()) else {
        return false;
    };
    let compressed = StatxAttributes::COMPRESSED;
    found.stx_attributes_mask.contains(compressed) && found.stx_attributes.contains(compressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_mount_option() {
        let option = |file_system, options| describe(file_system, options, Path::new("/"));
        let found = option("btrfs", "rw,compress=zstd:3,space_cache").unwrap();
        insta::assert_snapshot!(found, @"btrfs is mounted with compress=zstd:3");
        assert_eq!(option("ext4", "rw,compress=zstd:3"), None);
    }

    #[test]
    fn finds_nothing_without_a_cause() {
        let folder = tempfile::tempdir().unwrap();
        for file_system in COMPRESSING {
            assert_eq!(describe(file_system, "rw,relatime", folder.path()), None);
        }
    }
}
