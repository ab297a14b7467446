//! Finds the programs that serve FUSE file systems, and how much storage has read for them.
//!
//! Before Linux 6.16, it isn't possible to find out which program serves a particular mount. In
//! that case, all programs with `/dev/fuse` open are counted together, which gives an upper bound
//! for the right one.
//!
//! **Source:** fuse(4), proc_pid_io(5); Linux, fs/fuse/dev.c (`fuse_dev_show_fdinfo`).

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use procfs::ProcResult;
use procfs::process::{FDTarget, Process, all_processes};

/// The device through which programs serve FUSE mounts.
const DEVICE: &str = "/dev/fuse";

/// Snapshot of the programs on this host that serve, or may serve, a FUSE mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuseServers {
    servers: Vec<FuseServer>,
    /// One of them is in a different network namespace than this process.
    is_elsewhere: bool,
    is_complete: bool,
}

/// The FUSE mounts that a process serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FuseService {
    /// Nothing, or only other mounts.
    Nothing,
    /// Some mount, but the kernel doesn't report which one.
    Unknown,
    /// The mount in question.
    Mount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FuseServer {
    pid: i32,
    name: String,
    stored_bytes: u64,
}

/// Bytes read from storage by the programs that serve, or may serve, a FUSE mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuseReads {
    /// Programs with their process IDs, such as `fuse2fs (4711)`.
    pub names: Vec<String>,
    /// Bytes that storage read for all of them.
    pub stored_bytes: u64,
    /// Whether all data they deliver is covered by this host's counters: all of them are visible,
    /// none has its own network namespace, and no device bypasses the kernel.
    pub is_complete: bool,
}

impl FuseServers {
    /// Finds the processes that may serve the mount with this device number (`major:minor`). Only
    /// root can see those of other users.
    pub fn find(device: &str) -> Self {
        let Ok(processes) = all_processes() else { return Self::default() };
        let own_network = Process::myself().ok().and_then(|own| network_of(&own));
        let connection = connection_of(device);
        let mut certain = Self::default();
        let mut possible = Self::default();
        let mut sees_all = true;
        // Ignore processes that exit in the meantime.
        for process in processes.flatten() {
            let found = match served_by(&process, connection) {
                Ok(FuseService::Mount) => &mut certain,
                Ok(FuseService::Unknown) => &mut possible,
                Ok(FuseService::Nothing) => continue,
                Err(_) => {
                    sees_all &= !process.is_alive();
                    continue;
                }
            };
            let (Ok(io), Ok(stat)) = (process.io(), process.stat()) else {
                sees_all &= !process.is_alive();
                continue;
            };
            let pid = process.pid();
            let name = stat.comm;
            let has_own_network = own_network.is_some() && network_of(&process) == own_network;
            found.is_elsewhere |= !has_own_network;
            found.servers.push(FuseServer { pid, name, stored_bytes: io.read_bytes });
        }
        let mut found = if certain.servers.is_empty() { possible } else { certain };
        found.is_complete = sees_all && !found.is_elsewhere && !has_uncounted_devices();
        found
    }

    /// Returns the bytes that storage has read for the programs since an earlier snapshot.
    pub fn since(&self, earlier: &Self) -> FuseReads {
        let mut reads = FuseReads {
            is_complete: self.is_complete && earlier.is_complete && !self.servers.is_empty(),
            ..FuseReads::default()
        };
        for FuseServer { pid, name, stored_bytes } in &self.servers {
            let before = earlier.servers.iter().find(|server| server.pid == *pid);
            let before = before.map_or(0, |server| server.stored_bytes);
            reads.stored_bytes += stored_bytes.saturating_sub(before);
            reads.names.push(format!("{name} ({pid})"));
        }
        reads
    }
}

/// Returns the mounts that a process serves.
fn served_by(process: &Process, connection: Option<u64>) -> ProcResult<FuseService> {
    let mut serves = FuseService::Nothing;
    for fd in process.fd()?.flatten() {
        let FDTarget::Path(path) = &fd.target else { continue };
        if path != Path::new(DEVICE) {
            continue;
        }
        let info = fs::read_to_string(format!("/proc/{}/fdinfo/{}", process.pid(), fd.fd));
        serves = serves.max(served_through(&info.unwrap_or_default(), connection));
    }
    Ok(serves)
}

/// Returns the mount served through an open `/dev/fuse`, given its `fdinfo`.
fn served_through(fdinfo: &str, connection: Option<u64>) -> FuseService {
    let named = fdinfo.lines().find_map(|line| line.strip_prefix("fuse_connection:"));
    match named.map(|number| number.trim().parse::<u64>().ok()) {
        None => FuseService::Unknown,
        Some(number) if number.is_some() && number == connection => FuseService::Mount,
        Some(_) => FuseService::Nothing,
    }
}

/// Returns the number of a mount's FUSE connection, which is its device number in the kernel's
/// encoding.
///
/// **Source:** Linux, include/linux/kdev_t.h (`MKDEV`).
fn connection_of(device: &str) -> Option<u64> {
    let (major, minor) = device.split_once(':')?;
    Some(major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?)
}

/// Returns the network namespace of a process.
fn network_of(process: &Process) -> Option<u64> {
    let namespaces = process.namespaces().ok()?;
    Some(namespaces.0.get(OsStr::new("net"))?.identifier)
}

/// Returns true if this host has devices that may bypass the kernel's counters: RDMA, or devices
/// driven from user space (VFIO, UIO).
fn has_uncounted_devices() -> bool {
    let has_entry = |folder: &str, other_than: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name() != other_than)
    };
    has_entry("/sys/class/infiniband", "")
        || has_entry("/sys/class/uio", "")
        || has_entry("/dev/vfio", "vfio")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    fn servers(list: &[(i32, u64)]) -> FuseServers {
        let server = |&(pid, stored_bytes): &(i32, u64)| FuseServer {
            pid,
            name: "sshfs".to_owned(),
            stored_bytes,
        };
        let servers = list.iter().map(server).collect();
        FuseServers { servers, is_elsewhere: false, is_complete: true }
    }

    #[test]
    fn adds_reads_of_all_servers() {
        // One server was started and one exited in between.
        let reads = servers(&[(7, 30), (8, 5)]).since(&servers(&[(7, 10), (6, 90)]));
        assert_eq!((reads.stored_bytes, reads.is_complete), (25, true));
        assert_eq!(reads.names, ["sshfs (7)", "sshfs (8)"]);
    }

    #[test]
    fn claims_nothing_without_servers() {
        assert!(!servers(&[]).since(&servers(&[])).is_complete);
        let hidden = FuseServers { is_complete: false, ..servers(&[(7, 1)]) };
        assert!(!servers(&[(7, 1)]).since(&hidden).is_complete);
    }

    #[test]
    fn tells_mounts_by_their_connection() {
        let number = connection_of("0:53");
        assert_eq!((number, connection_of("8:1")), (Some(53), Some(8 << 20 | 1)));
        let old = "pos:\t0\nflags:\t02\n";
        let serves = |line: &str| served_through(&format!("{old}{line}"), number);
        assert!(serves("") == FuseService::Unknown);
        assert!(serves("fuse_connection:\t53\n") == FuseService::Mount);
        assert!(serves("fuse_connection:\t54\n") == FuseService::Nothing);
    }

    #[test]
    fn finds_who_has_the_device_open() {
        let own = std::process::id().cast_signed();
        let has_own = |found: &FuseServers| found.servers.iter().any(|server| server.pid == own);
        assert!(!has_own(&FuseServers::find("0:1")));
        // Some hosts don't have the device, or only let root open it.
        if let Ok(device) = fs::File::open(DEVICE) {
            // It doesn't serve a mount yet, which newer kernels report.
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", device.as_raw_fd()));
            let is_unknown = served_through(&info.unwrap(), None) == FuseService::Unknown;
            assert_eq!(has_own(&FuseServers::find("0:1")), is_unknown);
            drop(device);
        }
    }
}
