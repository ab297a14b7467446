//! What a mount is asked for.
//!
//! [`MountOptions`] has usable defaults for all but host and export.

use std::time::Duration;

use model::NfsTarget;
use nfs_proto::portmap;
use nfs_proto::rpc::{AuthSys, Credential, Groups};

/// The largest transfer size that is asked for where none is named: what Linux clients use.
pub const TRANSFER_BYTES_DEFAULT: u32 = 1024 * 1024;

/// Where to mount from, as whom, and with which transfer sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Host name or address of the server.
    pub host: String,
    /// Port of NFS. Where it is not given, the portmapper is asked, and where that does not
    /// answer, 2049 is taken.
    pub port: Option<u16>,
    /// Port of MOUNT. Where it is not given but `port` is, MOUNT is looked for on that port first
    /// (servers with one port for all, perhaps beside another server's portmapper), then at the
    /// portmapper. Where neither is given the portmapper is asked, then the NFS port tried.
    pub mount_port: Option<u16>,
    /// Port of the portmapper, where it is asked.
    pub portmap_port: u16,
    /// Path to mount. It may lead below an export; the rest is then walked by LOOKUP.
    pub export: String,
    /// Directory below the mounted path that becomes the root; empty for none.
    pub subdir: String,
    /// User id sent with each call.
    pub uid: u32,
    /// Group id sent with each call.
    pub gid: u32,
    /// Supplementary group ids; the first 16 are sent.
    pub groups: Vec<u32>,
    /// Client name sent with each call, cut at 255 bytes.
    pub machine_name: String,
    /// READ size asked for, in bytes; the server may grant less.
    pub rsize: Option<u32>,
    /// WRITE size asked for, in bytes; the server may grant less.
    pub wsize: Option<u32>,
    /// How long to wait for a connection, and for each reply during set-up.
    pub timeout: Duration,
    /// TCP congestion control to set; `None` leaves the system's.
    pub congestion_control: Option<String>,
}

impl MountOptions {
    /// Mounts `export` of `host` as root, with 5 s of patience and the defaults for all else.
    pub fn new(host: impl Into<String>, export: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            mount_port: None,
            portmap_port: portmap::PORT,
            export: export.into(),
            subdir: String::new(),
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            machine_name: "dfsbench".into(),
            rsize: None,
            wsize: None,
            timeout: Duration::from_secs(5),
            congestion_control: None,
        }
    }

    /// Mounts what a plan names as its target, with the defaults for all it does not say.
    pub fn from_target(target: &NfsTarget) -> Self {
        Self {
            port: target.port,
            mount_port: target.mount_port,
            uid: target.identity.uid,
            gid: target.identity.gid,
            groups: target.identity.groups.clone(),
            ..Self::new(&target.host, &target.path)
        }
    }

    /// Returns the credential sent with each call.
    pub(crate) fn credential(&self) -> Credential<'_> {
        let name = self.machine_name.as_bytes();
        Credential::Sys(AuthSys {
            stamp: 0,
            machine_name: &name[..name.len().min(255)],
            uid: self.uid,
            gid: self.gid,
            groups: Groups::from_slice(&self.groups),
        })
    }
}
