//! How clients access a system.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Recipe, step_limit};
use crate::text::words::words;

words! {
    /// A way for clients to access a system.
    AccessWay {
        /// Through the system's own NFS server.
        Nfs = "nfs",
        /// Through a kernel mount.
        Mount = "mount",
        /// Through a program that mounts it with FUSE.
        Fuse = "fuse",
        /// Through the kernel's NFS server, which re-exports a mount on the server host.
        ReExport = "re-export",
    }
}

/// The supported ways to access a system; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessWays {
    /// Through NFS, with dfsbench's own client or a kernel mount.
    #[serde(default)]
    pub nfs: Option<NfsAccess>,
    /// Through a kernel mount.
    #[serde(default)]
    pub mount: Option<MountAccess>,
    /// Through a program that mounts it with FUSE.
    #[serde(default)]
    pub fuse: Option<FuseAccess>,
}

/// Access through NFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsAccess {
    /// Port of NFS.
    pub port: u16,
    /// Port of MOUNT, for v2 and v3; defaults to the NFS port.
    #[serde(default)]
    pub mount_port: u16,
    /// Additional programs that the server host needs for it.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Path of the export, absolute or `{storage}`.
    pub export: String,
    /// Supported versions, such as `3` and `4.1`; empty for all.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// Access through a kernel mount, with the arguments of mount(8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountAccess {
    /// Type of the file system.
    #[serde(rename = "type")]
    pub kind: String,
    /// The source, such as `{address}:/`.
    pub source: String,
    /// Mount options.
    #[serde(default)]
    pub options: Vec<String>,
}

/// Access through a program that mounts the system on `{point}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuseAccess {
    /// The command; `{point}` is the mount point. It may exit after mounting or keep running.
    pub run: Vec<String>,
    /// Time limit for mounting, in seconds.
    #[serde(default = "step_limit")]
    pub within_s: u64,
    /// Packages that provide the program, by distribution ID.
    #[serde(default)]
    pub packages: BTreeMap<String, Vec<String>>,
    /// Files and directories outside of `{dir}` that the program creates on the client.
    #[serde(default)]
    pub leaves: Vec<String>,
}

impl Recipe {
    /// Returns the supported ways. Anything that can be mounted can also be re-exported.
    pub fn ways(&self) -> Vec<AccessWay> {
        let access = &self.access;
        let is_mounted = access.mount.is_some() || access.fuse.is_some();
        [
            (AccessWay::Nfs, access.nfs.is_some()),
            (AccessWay::Mount, access.mount.is_some()),
            (AccessWay::Fuse, access.fuse.is_some()),
            (AccessWay::ReExport, is_mounted),
        ]
        .into_iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(way, _)| way)
        .collect()
    }
}
