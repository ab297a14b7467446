//! Options of a probe.
//!
//! [`ProbeOptions`] has usable defaults for all but the server. Every wait is bounded by
//! [`ProbeOptions::timeout`], every list by a number here or in the module that reads it.

use std::time::Duration;

use nfs_proto::portmap;

/// The server to ask, and how long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The server: a name or an address.
    pub host: String,
    /// Port of NFS; `None`: ask the portmapper, and take 2049 where it does not tell.
    pub port: Option<u16>,
    /// Port of MOUNT; `None`: ask the portmapper, and try the port of NFS where it does not tell.
    pub mount_port: Option<u16>,
    /// Port of the portmapper.
    pub portmap_port: u16,
    /// How long one question may take: to connect, and again to answer.
    pub timeout: Duration,
    /// NULL calls for each round trip.
    pub samples: u32,
    /// Exports that are looked at closely; further ones are only listed.
    pub exports_max: usize,
    /// Whether to call from reserved ports, without which some servers tell little; it takes root.
    pub resvport: bool,
    /// User id of the calls.
    pub uid: u32,
    /// Group id of the calls.
    pub gid: u32,
}

impl ProbeOptions {
    /// Returns the defaults for a server: ports as usual, 2 s for a question, 21 samples, as
    /// root.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
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
