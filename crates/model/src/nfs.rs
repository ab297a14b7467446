//! How NFS is spoken: versions, transports, and every setting that a mount would have.
//!
//! [`NfsTarget`] says where an export is and as whom it is used, [`NfsSettings`] how: each of its
//! fields may be a factor. The words are those of mount options where there are some.
//! **Source:** nfs(5), nfsvers, proto, xprtsec, nconnect, timeo, retrans, sec, resvport.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// A version of NFS, with its minor version.
    NfsVersion {
        /// Version 2: RFC 1094.
        V2 = "2",
        /// Version 3: RFC 1813.
        V3 = "3",
        /// Version 4.0: RFC 7530.
        V4_0 = "4.0",
        /// RFC 8881: sessions.
        V4_1 = "4.1",
        /// Version 4.2: RFC 7862.
        V4_2 = "4.2",
    }
}

impl NfsVersion {
    /// The version of the RPC program: 2, 3 or 4.
    pub const fn major(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4_0 | Self::V4_1 | Self::V4_2 => 4,
        }
    }

    /// The minor version of NFS v4; `None` below.
    pub const fn minor(self) -> Option<u32> {
        match self {
            Self::V2 | Self::V3 => None,
            Self::V4_0 => Some(0),
            Self::V4_1 => Some(1),
            Self::V4_2 => Some(2),
        }
    }

    /// The largest payload of one READ or WRITE, in bytes, where the protocol has one.
    ///
    /// **Source:** RFC 1094, 2.3.1, MAXDATA.
    pub const fn transfer_bytes_max(self) -> Option<u32> {
        match self {
            Self::V2 => Some(8_192),
            _ => None,
        }
    }

    /// The largest file, in bytes: v2 has offsets of 32 bits, and clients take them as signed.
    ///
    /// **Source:** RFC 1094, 2.3.5 (fattr.size); the large file summit's limit for such clients.
    pub const fn file_bytes_max(self) -> u64 {
        match self {
            Self::V2 => (1 << 31) - 1,
            _ => i64::MAX as u64,
        }
    }
}

words! {
    /// The transport that RPC uses.
    Proto {
        /// A stream with record marks.
        Tcp = "tcp",
        /// One datagram per message.
        Udp = "udp",
    }
}

words! {
    /// How the transport is protected.
    XprtSec {
        /// Not at all.
        None = "none",
        /// RPC-over-TLS: encrypted, and the server shows a certificate (RFC 9289).
        Tls = "tls",
    }
}

words! {
    /// How safe a WRITE must be before it is answered.
    ///
    /// **Source:** RFC 1813, 3.3.7, stable_how. A WRITE of v2 is always `FileSync`.
    Stable {
        /// The server may hold it in memory until COMMIT.
        Unstable = "unstable",
        /// The data, and what is needed to find it again.
        DataSync = "data_sync",
        /// The data and all attributes.
        FileSync = "file_sync",
    }
}

words! {
    /// How the client says who it is.
    Sec {
        /// Not at all: AUTH_NONE.
        None = "none",
        /// By uid, gid and groups: AUTH_SYS.
        Sys = "sys",
    }
}

words! {
    /// The address family of a host.
    Family {
        /// Addresses of IPv4 only.
        Ipv4 = "ipv4",
        /// Addresses of IPv6 only.
        Ipv6 = "ipv6",
    }
}

/// Groups that AUTH_SYS can send beside the gid.
///
/// **Source:** RFC 5531, appendix A.
pub const GROUPS_MAX: usize = 16;

words! {
    /// The bound on calls over UDP that have no reply yet.
    UdpWindow {
        /// A window that grows with replies and is halved by losses, as kernels have it.
        Adaptive = "adaptive",
        /// All calls are sent at once, as many as the queue depth asks for.
        Off = "off",
    }
}

/// How NFS is spoken in a run; every field may be a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NfsSettings {
    /// Version of NFS.
    pub version: NfsVersion,
    /// The transport that RPC uses.
    pub proto: Proto,
    /// How the transport is protected.
    pub xprtsec: XprtSec,
    /// Connections of one client; 1 to 16.
    pub nconnect: u32,
    /// How long an answer over UDP is waited for before the call is sent again, in milliseconds;
    /// each further time it is twice as long.
    pub timeo_ms: u64,
    /// How often a call over UDP is sent again before the waits start over.
    pub retrans: u32,
    /// How many calls over UDP may be without a reply at a time.
    pub udp_window: UdpWindow,
    /// Delegations to read are kept, and their files opened without a call; of v4.1 and later.
    pub delegations: bool,
    /// Transfers that a sequential reader has in flight beyond what its ops ask for.
    pub read_ahead: u32,
    /// Transfers that a sequential writer has in flight after their ops have ended.
    pub write_behind: u32,
    /// How safe a WRITE must be before it is answered.
    pub stable: Stable,
    /// User ids that the emulated clients have in turn, from the target's uid on; at least 1.
    pub client_uids: u32,
    /// Record each client's ops, bytes and times apart.
    pub per_client: bool,
}

impl Default for NfsSettings {
    /// Version 3 over one TCP connection, and nothing in flight but what ops ask for: what was
    /// meant before there were such settings.
    fn default() -> Self {
        Self {
            version: NfsVersion::V3,
            proto: Proto::Tcp,
            xprtsec: XprtSec::None,
            nconnect: 1,
            timeo_ms: 1_100,
            retrans: 3,
            udp_window: UdpWindow::Adaptive,
            delegations: false,
            read_ahead: 0,
            write_behind: 0,
            stable: Stable::Unstable,
            client_uids: 1,
            per_client: false,
        }
    }
}

/// The location of an export, with the identity and options of its client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsTarget {
    /// Host name or address.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// The address family to use; `None` takes any.
    #[serde(default)]
    pub family: Option<Family>,
    /// Path to mount; it may lead below an export.
    pub path: String,
    /// Who the client says it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Who is trusted and shown under TLS.
    #[serde(flatten)]
    pub tls: Box<TlsOptions>,
    /// It is the in-memory server of this very process.
    pub embedded: bool,
    /// True for the in-memory server of this process that injects no faults.
    #[serde(default)]
    pub faultless: bool,
    /// How NFS is spoken.
    #[serde(default)]
    pub settings: NfsSettings,
}

/// Whom a client trusts under TLS, and what it shows of itself; all files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsOptions {
    /// Certificates of those whom a server's certificate may be signed by; `None` trusts those
    /// that the system trusts.
    #[serde(rename = "tls_ca")]
    pub ca: Option<PathBuf>,
    /// The client's own certificate, then those that vouch for it, where the server asks for one.
    #[serde(rename = "tls_cert")]
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    #[serde(rename = "tls_key")]
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must be for; `None` takes the host's.
    #[serde(rename = "tls_server_name")]
    pub server_name: Option<String>,
}

/// Who a client says it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// How it says so.
    #[serde(default = "sys")]
    pub sec: Sec,
    /// User id sent with each call.
    pub uid: u32,
    /// Group id sent with each call.
    pub gid: u32,
    /// Further groups sent with each call, at most [`GROUPS_MAX`].
    #[serde(default)]
    pub groups: Vec<u32>,
    /// Send from a port below 1024, which some exports ask for.
    #[serde(default)]
    pub resvport: bool,
}

const fn sys() -> Sec {
    Sec::Sys
}

impl Identity {
    /// A user with one group, by AUTH_SYS from any port.
    pub const fn of(uid: u32, gid: u32) -> Self {
        Self { sec: Sec::Sys, uid, gid, groups: Vec::new(), resvport: false }
    }
}

impl NfsTarget {
    /// An export with every default: v3 over TCP, ports from the portmapper, as root.
    pub fn new(host: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            mount_port: None,
            family: None,
            path: path.into(),
            identity: Identity::of(0, 0),
            tls: Box::default(),
            embedded: false,
            faultless: false,
            settings: NfsSettings::default(),
        }
    }

    /// The user id of an emulated client; the first one's is the target's.
    pub fn uid_of(&self, client: u32) -> u32 {
        self.identity.uid.saturating_add(client % self.settings.client_uids.max(1))
    }

    /// Says whether the server is reached without leaving this host, as far as its name tells.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for NfsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.embedded {
            return write!(f, "nfs://(in-memory server){}", self.path);
        }
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => write!(f, "nfs://{host}:{port}{}", self.path),
            None => write!(f, "nfs://{host}{}", self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_names() {
        for version in NfsVersion::ALL {
            assert_eq!(NfsVersion::from_name(version.name()), Some(*version));
        }
        // One word must mean one version: 4 alone doesn't.
        assert_eq!(NfsVersion::from_name("4"), None);
        assert_eq!((NfsVersion::V4_2.major(), NfsVersion::V4_2.minor()), (4, Some(2)));
        assert_eq!(Stable::NAMES, ["unstable", "data_sync", "file_sync"]);
    }

    #[test]
    fn uids_start_at_the_targets_and_come_round_again() {
        let mut nfs = NfsTarget { identity: Identity::of(1_000, 1), ..NfsTarget::new("h", "/e") };
        assert_eq!([0, 1, 7].map(|client| nfs.uid_of(client)), [1_000; 3]);
        nfs.settings.client_uids = 3;
        assert_eq!([0, 1, 2, 3, 7].map(|c| nfs.uid_of(c)), [1_000, 1_001, 1_002, 1_000, 1_001]);
    }

    #[test]
    fn an_ipv6_target_prints_as_a_url() {
        let nfs = NfsTarget { port: Some(2049), ..NfsTarget::new("::1", "/export") };
        assert_eq!(nfs.to_string(), "nfs://[::1]:2049/export");
        assert!(nfs.is_loopback());
    }
}
