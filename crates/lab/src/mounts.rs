//! Finds the file system of a path, and whether the kernel counts its storage reads.
//!
//! The table of mounts is that of this process's namespace; of several mounts on one point the
//! last is effective. **Source:** proc_pid_mountinfo(5).

use std::path::Path;

use model::Fact;
use model::units::Size;
use procfs::process::{MountInfo, Process};
use rustix::fs::statvfs;

use crate::{compression, mountstats};

/// The mount that a path lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Type of the file system, such as `ext4`.
    pub file_system: String,
    /// Source of the mount.
    pub source: String,
    /// Path of the mount point.
    pub mount_point: String,
    /// Effective options, comma-separated.
    pub options: String,
    /// Number of its device, as `major:minor`.
    pub device: String,
    /// What compresses files that are made at the path that the mount was found for; `None` if
    /// nothing is known to.
    pub compression: Option<String>,
    /// Number of the mount itself: one that was mounted again has another.
    pub id: i32,
}

/// The mount on exactly this point; of several the last, which is effective.
pub fn at(point: &Path) -> Option<Mount> {
    match point.canonicalize() {
        Ok(point) => named(&point),
        Err(_) => named(point),
    }
}

/// Finds a mount as [`at`] does, by a path as the kernel writes it: nothing looks at the point,
/// which may be on a mount that doesn't answer.
pub fn named(point: &Path) -> Option<Mount> {
    let mount = all().into_iter().rfind(|mount| mount.mount_point == point)?;
    Some(Mount::from(mount))
}

/// Returns all mounts of this process's namespace, the oldest first; none where `/proc` has no
/// list.
pub(crate) fn all() -> Vec<MountInfo> {
    let Ok(process) = Process::myself() else { return Vec::new() };
    match process.mountinfo() {
        Ok(mounts) => mounts.0,
        Err(_) => Vec::new(),
    }
}

impl Mount {
    /// Finds the mount of an existing path; `None` where `/proc` does not say.
    pub fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let mut mounts = all();
        mounts.retain(|mount| path.starts_with(&mount.mount_point));
        // The innermost point; of mounts on the same point max_by_key returns the last one, which
        // is effective.
        let mount = mounts.into_iter().max_by_key(|mount| mount.mount_point.as_os_str().len())?;
        let mount = Self::from(mount);
        let compression = compression::describe(&mount.file_system, &mount.options, &path);
        Some(Self { compression, ..mount })
    }

    /// Memory is all the storage that this file system has.
    pub fn is_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs" | "hugetlbfs")
    }

    /// It is a mount of the kernel's NFS client.
    pub fn is_nfs(&self) -> bool {
        matches!(self.file_system.as_str(), "nfs" | "nfs4")
    }

    /// A program serves it (FUSE).
    pub fn is_fuse(&self) -> bool {
        matches!(self.file_system.as_str(), "fuse" | "fuseblk")
            || self.file_system.starts_with("fuse.")
    }

    /// Returns the value of an option, such as `rsize`.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.split(',').filter_map(|option| option.split_once('='));
        options.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Reads that reach storage are counted in the process's `read_bytes`.
    ///
    /// The block layer counts them for the process that submits them. File systems in user space
    /// and over the network submit nothing to it, or in another process.
    pub fn counts_storage_reads(&self) -> bool {
        const LOCAL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat"];
        self.is_memory() || LOCAL.contains(&self.file_system.as_str())
    }

    /// The mount as facts of the target.
    pub fn facts(&self) -> Vec<Fact> {
        let source = "/proc/self/mountinfo";
        let mut facts = vec![
            Fact::new("target", "file system", &self.file_system, source),
            Fact::new("target", "device", &self.source, source),
            Fact::new("target", "mount point", &self.mount_point, source),
            Fact::new("target", "mount options", &self.options, source),
        ];
        let compression = self.compression.as_ref();
        facts.extend(
            compression.map(|how| {
                Fact::new("target", "compression", how, "/proc/self/mountinfo, statx(2)")
            }),
        );
        facts.extend(self.size());
        facts
    }

    /// The size of the file system, whichever host it lies on.
    fn size(&self) -> Option<Fact> {
        let volume = statvfs(self.mount_point.as_str()).ok()?;
        let size = Size(volume.f_blocks.saturating_mul(volume.f_frsize));
        Some(Fact::new("target", "file system size", size.to_string(), "statvfs(3)"))
    }
}

/// Answers that the connections of an NFS mount have received; 0 where it has none, or isn't one.
///
/// **Source:** net/sunrpc/xprtsock.c (`xs_tcp_print_stats`, `xs_udp_print_stats`): of the columns
/// after the transport's name the 7th is `recvs`, with UDP the 4th.
pub fn answers(point: &Path) -> u64 {
    let text = std::fs::read_to_string(mountstats::PATH).unwrap_or_default();
    answers_in(&text, point)
}

fn answers_in(text: &str, point: &Path) -> u64 {
    let Some(mount) = mountstats::find(text, point) else { return 0 };
    let mut answers = 0;
    for (name, rest) in mount.lines {
        if name != "xprt" {
            continue;
        }
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The name of the transport is word 0, so that the columns count from 1.
        let column = if words.first() == Some(&"udp") { 4 } else { 7 };
        if let Some(word) = words.get(column) {
            answers += word.parse().unwrap_or(0);
        }
    }
    answers
}

/// Lists the mount points of a device, by its number or its node.
///
/// A file system may have a number of its own (btrfs): then the node tells.
pub fn of_device(number: &str, node: &Path) -> Vec<String> {
    let mut points = Vec::new();
    for mount in all() {
        if mount.majmin == number || mount.mount_source.as_deref() == node.to_str() {
            points.push(mount.mount_point.display().to_string());
        }
    }
    points
}

impl From<MountInfo> for Mount {
    fn from(mount: MountInfo) -> Self {
        // The options of the mount point and those of the file system, which may be on several
        // points: one that both have is listed once.
        let mut options = Vec::new();
        for (name, value) in mount.mount_options.into_iter().chain(mount.super_options) {
            options.push(match value {
                Some(value) => format!("{name}={value}"),
                None => name,
            });
        }
        options.sort();
        options.dedup();
        Self {
            file_system: mount.fs_type,
            source: mount.mount_source.unwrap_or_default(),
            mount_point: mount.mount_point.display().to_string(),
            options: options.join(","),
            device: mount.majmin,
            compression: None,
            id: mount.mnt_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_lies_on_proc() {
        let mount = Mount::of(Path::new("/proc/self")).unwrap();
        assert_eq!((mount.file_system.as_str(), mount.is_memory()), ("proc", false));
        assert!(!mount.counts_storage_reads());
        assert_eq!(Mount::of(Path::new("/no/such/path")), None);
    }
}
