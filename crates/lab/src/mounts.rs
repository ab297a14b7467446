//! Finds the file system of a path, and whether the kernel counts its storage reads.
//!
//! Uses the mount table of this process's namespace. If several file systems are mounted on the
//! same point, the last one is visible. **Source:** proc_pid_mountinfo(5).

mod compression;
pub(crate) mod mountstats;
pub(crate) mod unmount;

use std::path::Path;

use model::Fact;
use model::units::Size;
use procfs::process::{MountInfo, Process};
use rustix::fs::statvfs;

/// The mount that contains a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Type of the file system, such as `ext4`.
    pub file_system: String,
    /// Source of the mount.
    pub source: String,
    /// Path of the mount point.
    pub mount_point: String,
    /// Options in effect, comma-separated.
    pub options: String,
    /// Device number, as `major:minor`.
    pub device: String,
    /// What compresses files created at the path for which the mount was looked up; `None` if
    /// nothing is known to.
    pub compression: Option<String>,
    /// Mount ID, which changes whenever the file system is mounted again.
    pub id: i32,
}

/// Returns the mount on exactly this point. If there are several, returns the last one, which is
/// visible.
pub fn find_at(point: &Path) -> Option<Mount> {
    match point.canonicalize() {
        Ok(point) => find_named(&point),
        Err(_) => find_named(point),
    }
}

/// Finds a mount like [`find_at`], but takes the path as written by the kernel and never accesses
/// it, because the mount may not respond.
pub fn find_named(point: &Path) -> Option<Mount> {
    let mount = list_mounts().into_iter().rfind(|mount| mount.mount_point == point)?;
    Some(Mount::from(mount))
}

/// Returns all mounts of this process's namespace, oldest first; empty if `/proc` doesn't list
/// them.
pub(crate) fn list_mounts() -> Vec<MountInfo> {
    let Ok(process) = Process::myself() else { return Vec::new() };
    match process.mountinfo() {
        Ok(mounts) => mounts.0,
        Err(_) => Vec::new(),
    }
}

impl Mount {
    /// Finds the mount of an existing path. Returns `None` if `/proc` doesn't list it.
    pub fn find_containing(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let mut mounts = list_mounts();
        mounts.retain(|mount| path.starts_with(&mount.mount_point));
        // The innermost mount point. For equal keys, max_by_key returns the last element, which is
        // the visible mount.
        let mount = mounts.into_iter().max_by_key(|mount| mount.mount_point.as_os_str().len())?;
        let mount = Self::from(mount);
        let compression = compression::describe(&mount.file_system, &mount.options, &path);
        Some(Self { compression, ..mount })
    }

    /// Returns true if the file system exists only in memory.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs" | "hugetlbfs")
    }

    /// Returns true for a mount of the kernel's NFS client.
    pub fn is_nfs(&self) -> bool {
        matches!(self.file_system.as_str(), "nfs" | "nfs4")
    }

    /// Returns true if the file system is served by a program (FUSE).
    pub fn is_fuse(&self) -> bool {
        matches!(self.file_system.as_str(), "fuse" | "fuseblk")
            || self.file_system.starts_with("fuse.")
    }

    /// Returns the value of an option, such as `rsize`.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.split(',').filter_map(|option| option.split_once('='));
        options.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns true if reads from storage show up in the process's `read_bytes`.
    ///
    /// The block layer counts them for the process that submits them. Network file systems submit
    /// nothing to it, and FUSE servers do so in another process.
    pub fn counts_storage_reads(&self) -> bool {
        const LOCAL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat"];
        self.is_memory() || LOCAL.contains(&self.file_system.as_str())
    }

    /// Returns the mount as facts about the target.
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

    /// Returns the size of the file system, even if it is on another host.
    fn size(&self) -> Option<Fact> {
        let volume = statvfs(self.mount_point.as_str()).ok()?;
        let size = Size(volume.f_blocks.saturating_mul(volume.f_frsize));
        Some(Fact::new("target", "file system size", size.to_string(), "statvfs(3)"))
    }
}

/// Returns the number of replies received by an NFS mount's connections, or 0 if it has none or
/// isn't an NFS mount.
///
/// **Source:** net/sunrpc/xprtsock.c (`xs_tcp_print_stats`, `xs_udp_print_stats`): after the
/// transport's name, `recvs` is the 7th column, or the 4th with UDP.
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
        // Word 0 is the name of the transport, so columns count from 1.
        let column = if words.first() == Some(&"udp") { 4 } else { 7 };
        if let Some(word) = words.get(column) {
            answers += word.parse().unwrap_or(0);
        }
    }
    answers
}

/// Lists the mount points of a device, given its number and node.
///
/// File systems such as btrfs have device numbers of their own and are found by the node.
pub(crate) fn points_of_device(number: &str, node: &Path) -> Vec<String> {
    list_mounts()
        .into_iter()
        .filter(|mount| mount.majmin == number || mount.mount_source.as_deref() == node.to_str())
        .map(|mount| mount.mount_point.display().to_string())
        .collect()
}

impl From<MountInfo> for Mount {
    fn from(mount: MountInfo) -> Self {
        // Combine the options of the mount point with those of the file system, which may be
        // mounted several times. Options that appear in both are listed once.
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
        let mount = Mount::find_containing(Path::new("/proc/self")).unwrap();
        assert_eq!((mount.file_system.as_str(), mount.is_memory()), ("proc", false));
        assert!(!mount.counts_storage_reads());
        assert_eq!(Mount::find_containing(Path::new("/no/such/path")), None);
    }
}
