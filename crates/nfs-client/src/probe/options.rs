//! Options of a probe.
//!
//! [`ProbeOptions`] has usable defaults for everything except the server. Every wait is bounded by
//! [`ProbeOptions::timeout`], every list by a limit here or in the module that reads it.

use std::net::SocketAddr;
use std::time::Duration;

use nfs_proto::portmap;

/// The server to probe, and how long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The server: a name or an address.
    pub host: String,
    /// Further addresses that may be the same server; those of its name are compared anyway.
    pub also: Vec<SocketAddr>,
    /// Port of NFS; `None`: ask the portmapper, and use 2049 if it does not know.
    pub port: Option<u16>,
    /// Port of MOUNT; `None`: ask the portmapper, and try the NFS port if it does not know.
    pub mount_port: Option<u16>,
    /// Port of the portmapper.
    pub portmap_port: u16,
    /// Timeout of one question, for connecting and again for the answer.
    pub timeout: Duration,
    /// Number of NULL calls per round-trip measurement.
    pub samples: u32,
    /// Number of exports to examine; further ones are only listed.
    pub exports_max: usize,
    /// Whether to call from reserved ports, without which some servers reveal little; requires
    /// root.
    pub resvport: bool,
    /// User id of the calls.
    pub uid: u32,
    /// Group id of the calls.
    pub gid: u32,
}

impl ProbeOptions {
    /// Returns the defaults for a server: usual ports, 2 s per question, 21 samples, as root.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            also: Vec::new(),
            port: None,
            mount_port: None,
            portmap_port: portmap::PORT,
            timeout: Duration::from_secs(2),
            samples: 21,
            exports_max: 16,
            resvport: false,
            uid: 0,
            gid: 0,
        }
    }
}
