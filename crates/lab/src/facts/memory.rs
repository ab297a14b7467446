//! Memory available to this process and its page cache: that of the host, or less if a control
//! group limits it.
//!
//! Page cache is charged to the control group of the process that reads the pages in, so a limit
//! also decides which files fit into memory. Limits of all parent groups apply as well. The main
//! function is [`usable`].
//!
//! **Source:** Documentation/admin-guide/cgroup-v2.rst of Linux (`memory.max`, `memory.high`),
//! Documentation/admin-guide/cgroup-v1/memory.rst (`memory.limit_in_bytes`), `proc_pid_cgroup(5)`.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::MountInfo;
use procfs::{Current as _, Meminfo};

use crate::facts::hardware::line;
use crate::mounts;

/// Files with a group's memory limits. In v2, both of them make the kernel reclaim page cache.
const LIMITS_V2: &[&str] = &["memory.max", "memory.high"];
const LIMITS_V1: &[&str] = &["memory.limit_in_bytes"];

/// An amount of memory and the file it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    pub bytes: u64,
    pub source: String,
}

impl Memory {
    /// Returns the memory of the whole host.
    pub fn from_host(bytes: u64) -> Self {
        Self { bytes, source: "/proc/meminfo".to_owned() }
    }
}

/// Returns the memory that this process may use, or `None` if the kernel does not report it.
pub fn usable() -> Option<Memory> {
    let host = Memory::from_host(host_bytes()?);
    Some(limit().filter(|limit| limit.bytes < host.bytes).unwrap_or(host))
}

/// Returns this host's memory in bytes, or `None` if the kernel does not report it.
pub fn host_bytes() -> Option<u64> {
    Some(Meminfo::current().ok()?.mem_total)
}

/// Returns the smallest limit of this process's control groups, or `None` if there is none.
pub(crate) fn limit() -> Option<Memory> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    mounts::list_mounts()
        .iter()
        .filter_map(|mount| CgroupHierarchy::find(mount, &groups))
        .filter_map(|hierarchy| hierarchy.limit())
        .min_by_key(|limit| limit.bytes)
}

/// A mounted cgroup hierarchy and this process's group in it.
struct CgroupHierarchy {
    /// Folder of the topmost visible group.
    top: PathBuf,
    /// Folder of this process's group.
    group: PathBuf,
    limits: &'static [&'static str],
}

impl CgroupHierarchy {
    /// Returns the hierarchy of a mount if it can limit memory. `groups` is the text of
    /// `/proc/self/cgroup`.
    fn find(mount: &MountInfo, groups: &str) -> Option<Self> {
        // Lines are `ID:CONTROLLERS:PATH`. For v2, the ID is 0 and there are no controllers.
        let limits = match mount.fs_type.as_str() {
            "cgroup2" => LIMITS_V2,
            "cgroup" if mount.super_options.contains_key("memory") => LIMITS_V1,
            _ => return None,
        };
        let is_v2 = mount.fs_type == "cgroup2";
        let path = groups.lines().find_map(|line| {
            let [id, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else {
                return None;
            };
            let is_wanted = if is_v2 {
                id == "0" && controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == "memory")
            };
            is_wanted.then_some(path)
        })?;
        // A container often sees only its own part of the hierarchy. Its group's path then starts
        // at the root of the mount.
        let path = Path::new(path);
        let below = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/")).ok()?;
        let top = mount.mount_point.clone();
        // The path of a group outside the namespace contains `..`, which leads to no folder here.
        let is_inside = !below.starts_with("..") && top.join(below).is_dir();
        let group = if is_inside { top.join(below) } else { top.clone() };
        Some(Self { top, group, limits })
    }

    /// Returns the smallest limit of the group and its parents.
    fn limit(&self) -> Option<Memory> {
        self.group
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.top))
            .flat_map(|folder| self.limits.iter().map(|file| folder.join(file)))
            // `max`, which isn't a number, means no limit.
            .filter_map(|file| Some((line(&file)?.parse().ok()?, file)))
            .min_by_key(|(bytes, _)| *bytes)
            .map(|(bytes, file)| Memory { bytes, source: file.display().to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::hardware::testing::plant;

    /// Returns a mount of a hierarchy whose folders are below `top`, seen from `root`.
    fn mount(kind: &str, options: &str, root: &str, top: &Path) -> MountInfo {
        let top = top.display();
        let line = format!("35 31 0:32 {root} {top} rw,relatime - {kind} {kind} {options}");
        MountInfo::from_line(&line).unwrap()
    }

    fn limit(mount: &MountInfo, groups: &str) -> Option<(u64, String)> {
        let limit = CgroupHierarchy::find(mount, groups)?.limit()?;
        let file = Path::new(&limit.source).strip_prefix(&mount.mount_point).unwrap();
        Some((limit.bytes, file.display().to_string()))
    }

    #[test]
    fn takes_the_smallest_limit_upwards() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        plant(
            top,
            &[
                ("a.slice/memory.max", "400000000\n"),
                ("a.slice/memory.high", "max\n"),
                ("a.slice/b.service/memory.max", "max\n"),
                ("a.slice/b.service/memory.high", "max\n"),
                ("a.slice/c.service/memory.max", "300000000\n"),
                ("a.slice/c.service/memory.high", "200000000\n"),
                ("d.service/memory.max", "max\n"),
            ],
        );
        let v2 = mount("cgroup2", "rw", "/", top);
        let of = |path: &str| limit(&v2, &format!("9:memory:/x\n0::{path}\n"));
        assert_eq!(of("/a.slice/b.service"), Some((400_000_000, "a.slice/memory.max".into())));
        let high = "a.slice/c.service/memory.high";
        assert_eq!(of("/a.slice/c.service"), Some((200_000_000, high.into())));
        assert_eq!(of("/d.service"), None);
    }

    #[test]
    fn reads_limits_of_v1() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        plant(
            top,
            &[
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                ("box/memory.limit_in_bytes", "500000000\n"),
            ],
        );
        let groups = "4:memory:/box\n3:cpuset:/\n0::/\n";
        let v1 = mount("cgroup", "rw,memory", "/", top);
        assert_eq!(limit(&v1, groups), Some((500_000_000, "box/memory.limit_in_bytes".into())));
        // Another controller's hierarchy, and groups without a line for memory.
        assert_eq!(limit(&mount("cgroup", "rw,cpu", "/", top), groups), None);
        assert_eq!(limit(&v1, "0::/box\n"), None);
    }

    #[test]
    fn finds_a_container_in_its_part() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        plant(top, &[("memory.max", "700\n"), ("app/memory.max", "max\n")]);
        let part = mount("cgroup2", "rw", "/docker/abc", top);
        for path in ["/docker/abc", "/docker/abc/app", "/../other"] {
            assert_eq!(limit(&part, &format!("0::{path}\n")), Some((700, "memory.max".into())));
        }
    }

    #[test]
    fn caps_memory_at_host() {
        let usable = usable().unwrap();
        assert!(usable.bytes > 1 << 20 && usable.bytes <= host_bytes().unwrap(), "{usable:?}");
        assert!(Path::new(&usable.source).is_file(), "{usable:?}");
    }
}
