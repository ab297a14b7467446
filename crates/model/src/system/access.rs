//! The ways by which clients reach a system.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Recipe, step_limit};
use crate::words::words;

words! {
    /// A way by which clients reach a system.
    AccessWay {
        /// By NFS of its own server.
        Nfs = "nfs",
        /// By a mount of the kernel.
        Mount = "mount",
        /// By a program that mounts it with FUSE.
        Fuse = "fuse",
        /// By NFS of the kernel's server, which exports a mount of it on the server's host.
        ReExport = "re-export",
    }
}

/// The ways by which clients reach a system; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessWays {
    /// By NFS: with dfsbench's own client, or mounted by a kernel.
    #[serde(default)]
    pub nfs: Option<NfsAccess>,
    /// By a mount of the kernel.
    #[serde(default)]
    pub mount: Option<MountAccess>,
    /// By a program that mounts it with FUSE.
    #[serde(default)]
    pub fuse: Option<FuseAccess>,
}

/// Access by NFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsAccess {
    /// Port of NFS.
    pub port: u16,
    /// Port of MOUNT, for v2 and v3; that of NFS where it is left out.
    #[serde(default)]
    pub mount_port: u16,
    /// Programs that the server's host needs for it, beside the others.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Path of the export: an absolute one, or `{storage}`.
    pub export: String,
    /// Versions that are served, such as `3` and `4.1`; empty for all.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// Access by a mount of the kernel: what mount(8) is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountAccess {
    /// Type of the file system.
    #[serde(rename = "type")]
    pub kind: String,
    /// The source, such as `{address}:/`.
    pub source: String,
    /// Options of the type.
    #[serde(default)]
    pub options: Vec<String>,
}

/// Access by a program that mounts it on `{point}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuseAccess {
    /// The command; `{point}` is the mount point. It may end once it has mounted, or go on.
    pub run: Vec<String>,
    /// Longest time until it is mounted, in seconds.
    #[serde(default = "step_limit")]
    pub within_s: u64,
    /// Packages that have the program, by the ID of the distribution.
    #[serde(default)]
    pub packages: BTreeMap<String, Vec<String>>,
    /// Files and folders outside of `{dir}` that the program makes on the client.
    #[serde(default)]
    pub leaves: Vec<String>,
}

impl Recipe {
    /// The ways that it has; what can be mounted can be exported by another server.
    pub fn ways(&self) -> Vec<AccessWay> {
        let access = &self.access;
        let is_mounted = access.mount.is_some() || access.fuse.is_some();
        let mut ways = Vec::new();
        for (way, is_there) in [
            (AccessWay::Nfs, access.nfs.is_some()),
            (AccessWay::Mount, access.mount.is_some()),
            (AccessWay::Fuse, access.fuse.is_some()),
            (AccessWay::ReExport, is_mounted),
        ] {
            if is_there {
                ways.push(way);
            }
        }
        ways
    }
}
