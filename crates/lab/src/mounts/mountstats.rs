//! Reads the kernel client's counters of each NFS mount from `/proc/self/mountstats`.
//!
//! Start with [`parse_mounts`]. The procfs crate parses the per-procedure counters but leaves out
//! the lines `opts:`, `age:` and `xprt:`, of which there is one per connection.
//!
//! **Source:** fs/nfs/super.c (`nfs_show_stats`) and net/sunrpc/xprtsock.c of Linux.

use std::path::Path;

pub(crate) const PATH: &str = "/proc/self/mountstats";

/// The section of one mount.
pub(crate) struct Mount<'a> {
    pub source: &'a str,
    /// Path of the mount point, with spaces escaped as the kernel does it.
    pub point: &'a str,
    /// Its lines, split at the first colon.
    pub lines: Vec<(&'a str, &'a str)>,
}

impl Mount<'_> {
    /// Returns true if the client uses pNFS layouts, which may send data to other servers.
    ///
    /// **Source:** fs/nfs/super.c (`show_pnfs`).
    pub(crate) fn has_layouts(&self) -> bool {
        let line = self.lines.iter().find(|(name, _)| *name == "nfsv4");
        let layout =
            line.and_then(|(_, rest)| rest.split(',').find_map(|w| w.strip_prefix("pnfs=")));
        layout.is_some_and(|layout| layout != "not configured")
    }
}

/// Finds the NFS mount on a point. If there are several, returns the last one, which is visible.
///
/// The kernel writes spaces in paths as octal escapes. **Source:** fs/seq_file.c (`mangle_path`).
pub(crate) fn find<'t>(text: &'t str, point: &Path) -> Option<Mount<'t>> {
    let point = point.display().to_string().replace(' ', "\\040");
    parse_mounts(text).into_iter().rfind(|mount| mount.point == point)
}

/// Parses the NFS mounts in the file's text.
pub(crate) fn parse_mounts(text: &str) -> Vec<Mount<'_>> {
    let mut mounts: Vec<Mount<'_>> = Vec::new();
    let mut is_nfs = false;
    for line in text.lines() {
        if line.starts_with("device ") {
            let mount = header(line);
            is_nfs = mount.is_some();
            mounts.extend(mount);
        } else if is_nfs
            && let Some((name, rest)) = line.split_once(':')
            && let Some(mount) = mounts.last_mut()
        {
            mount.lines.push((name.trim(), rest.trim()));
        }
    }
    mounts
}

/// Parses `device SOURCE mounted on POINT with fstype nfs4 statvers=1.1`.
fn header(line: &str) -> Option<Mount<'_>> {
    let (source, rest) = line.strip_prefix("device ")?.split_once(" mounted on ")?;
    let (point, kind) = rest.split_once(" with fstype ")?;
    // `nfsd` is the pseudo file system for configuring the kernel's server.
    let is_nfs = matches!(kind.split_whitespace().next(), Some("nfs" | "nfs4"));
    if is_nfs { Some(Mount { source, point, lines: Vec::new() }) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_pseudo_root_mount() {
        let text = "device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n\
            device s:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n\
            \topts:\trw\n\
            device s:/b mounted on /mnt/b with fstype nfs statvers=1.1\n";
        let points: Vec<_> =
            parse_mounts(text).into_iter().map(|mount| (mount.point, mount.lines.len())).collect();
        assert_eq!(points, [("/mnt/a", 1), ("/mnt/b", 0)]);
    }
}
