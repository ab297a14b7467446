//! NFS settings: versions, transports, and everything that a mount can configure.
//!
//! [`NfsTarget`] is the location of an export and the client's identity. Each field of
//! [`NfsSettings`] may be a factor. Names follow the mount options if there is one.
//! **Source:** nfs(5), nfsvers, proto, xprtsec, nconnect, timeo, retrans, sec, resvport.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::text::words::words;

words! {
    /// A version of NFS, including the minor version.
    NfsVersion {
        /// Version 2: RFC 1094.
        V2 = "2",
        /// Version 3: RFC 1813.
        V3 = "3",
        /// Version 4.0: RFC 7530.
        V4_0 = "4.0",
        /// Version 4.1, with sessions: RFC 8881.
        V4_1 = "4.1",
        /// Version 4.2: RFC 7862.
        V4_2 = "4.2",
    }
}

impl NfsVersion {
    /// Returns the version of the RPC program: 2, 3 or 4.
    pub const fn major(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4_0 | Self::V4_1 | Self::V4_2 => 4,
        }
    }

    /// Returns the minor version of NFS v4, or `None` for older versions.
    pub const fn minor(self) -> Option<u32> {
        match self {
            Self::V2 | Self::V3 => None,
            Self::V4_0 => Some(0),
            Self::V4_1 => Some(1),
            Self::V4_2 => Some(2),
        }
    }

    /// Returns the maximum payload of READ and WRITE in bytes, if the protocol has a limit.
    ///
    /// **Source:** RFC 1094, 2.3.1, MAXDATA.
    pub(crate) const fn transfer_bytes_max(self) -> Option<u32> {
        match self {
            Self::V2 => Some(8_192),
            _ => None,
        }
    }

    /// Returns the maximum file size in bytes. v2 has 32-bit offsets, which clients treat as
    /// signed.
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
    /// The transport used by RPC.
    Proto {
        /// A stream with record marks.
        Tcp = "tcp",
        /// One datagram per message.
        Udp = "udp",
        /// RPC over RDMA (RFC 8166), for mounts.
        Rdma = "rdma",
    }
}

words! {
    /// How the transport is protected.
    XprtSec {
        /// No protection.
        None = "none",
        /// RPC-over-TLS: encryption and a server certificate (RFC 9289).
        Tls = "tls",
        /// The same with a certificate of the client, for mounts.
        Mtls = "mtls",
    }
}

words! {
    /// How durable a WRITE must be before the server replies.
    ///
    /// **Source:** RFC 1813, 3.3.7, stable_how. A WRITE of v2 is always `FileSync`.
    Stable {
        /// The server may keep it in memory until COMMIT.
        Unstable = "unstable",
        /// The data, and the metadata needed to find it.
        DataSync = "data_sync",
        /// The data and all attributes.
        FileSync = "file_sync",
    }
}

words! {
    /// How the client authenticates.
    Sec {
        /// AUTH_NONE.
        None = "none",
        /// AUTH_SYS: with uid, gid and groups.
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

/// Maximum number of groups in AUTH_SYS besides the gid.
///
/// **Source:** RFC 5531, appendix A.
pub const GROUPS_MAX: usize = 16;

words! {
    /// How a client with several connections chooses the one for an op.
    ConnectionPolicy {
        /// Each connection has an equal share of the queue depth, and gets another op when one of
        /// its own is done: a slow one gets fewer.
        Share = "share",
        /// All connections in turn, whatever they have in flight.
        RoundRobin = "round-robin",
        /// The one with the fewest ops in flight.
        LeastInFlight = "least-in-flight",
        /// The same one for all ops on a file.
        PerFile = "per-file",
    }
}

words! {
    /// How the number of unanswered UDP calls is limited.
    UdpWindow {
        /// By a window that grows with replies and is halved on losses, as in kernels.
        Adaptive = "adaptive",
        /// Not limited: all calls are sent at once, up to the queue depth.
        Off = "off",
    }
}

words! {
    /// Which layouts our own client requests, so that data goes to data servers.
    Pnfs {
        /// None: all data goes through the metadata server.
        Off = "off",
        /// Layouts of the first type that the server offers.
        On = "on",
        /// The files layout.
        Files = "files",
        /// Flexible files.
        FlexFiles = "flexfiles",
    }
}

/// NFS settings of a run. Every field may be a factor.
#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NfsSettings {
    pub version: NfsVersion,
    /// The transport used by RPC.
    pub proto: Proto,
    /// How the transport is protected.
    pub xprtsec: XprtSec,
    /// Connections per client, 1 to 16.
    pub nconnect: u32,
    /// Maximum number of addresses of the server that are used at the same time; `None` uses those
    /// that a target names, and the first one for mounts.
    pub max_connect: Option<u32>,
    /// How a client with several connections chooses the one for an op.
    pub connection_policy: ConnectionPolicy,
    /// How long to wait for a reply over UDP before retransmitting, in milliseconds. Doubles with
    /// each retransmission.
    pub timeo_ms: u64,
    /// Number of retransmissions over UDP before the waiting time starts over.
    pub retrans: u32,
    /// How the number of unanswered UDP calls is limited.
    pub udp_window: UdpWindow,
    /// Keep read delegations and open their files without a call; v4.1 and later.
    pub delegations: bool,
    /// Let the server continue copies after its reply to COPY; v4.2.
    pub async_copy: bool,
    /// Layouts to request; v4.1 and later.
    pub pnfs: Pnfs,
    /// Data servers of the in-memory server; `None` for another server, or as it is set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_servers: Option<u32>,
    /// Consecutive bytes on one of them, like `data_servers`; 0 keeps each file on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe_unit: Option<u32>,
    /// Copies of the data on them, like `data_servers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<u32>,
    /// Transfers that a sequential reader keeps in flight ahead of its ops.
    pub read_ahead: u32,
    /// Transfers that a sequential writer keeps in flight after their ops have completed.
    pub write_behind: u32,
    /// How durable a WRITE must be before the server replies.
    pub stable: Stable,
    /// Number of user IDs that the emulated clients rotate through, starting at the target's uid;
    /// at least 1.
    pub client_uids: u32,
    /// Record ops, bytes and times of each client separately.
    pub per_client: bool,
    /// List names and attributes in one call, if the version and the server can.
    pub readdirplus: bool,
}

impl Default for NfsSettings {
    /// Version 3 over one TCP connection, with nothing in flight beyond the ops. This was the
    /// behavior before these settings existed.
    fn default() -> Self {
        Self {
            version: NfsVersion::V3,
            proto: Proto::Tcp,
            xprtsec: XprtSec::None,
            nconnect: 1,
            max_connect: None,
            connection_policy: ConnectionPolicy::Share,
            timeo_ms: 1_100,
            retrans: 3,
            udp_window: UdpWindow::Adaptive,
            delegations: false,
            async_copy: false,
            pnfs: Pnfs::Off,
            data_servers: None,
            stripe_unit: None,
            mirrors: None,
            read_ahead: 0,
            write_behind: 0,
            stable: Stable::Unstable,
            client_uids: 1,
            per_client: false,
            readdirplus: true,
        }
    }
}

/// Location of an export, with the identity and options of its client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsTarget {
    /// Host name or address.
    pub host: String,
    /// Port of the NFS program; `None` queries the portmapper.
    pub port: Option<u16>,
    /// Further addresses of the same server, to be used at the same time: hosts, or hosts with the
    /// port of NFS there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_addresses: Vec<String>,
    /// Port of the MOUNT program; `None` queries the portmapper.
    pub mount_port: Option<u16>,
    /// Address family to use; `None` for any.
    #[serde(default)]
    pub family: Option<Family>,
    /// Path to mount; may be below an export.
    pub path: String,
    /// Identity of the client.
    #[serde(flatten)]
    pub identity: Identity,
    /// TLS certificates and keys.
    #[serde(flatten)]
    pub tls: Box<TlsOptions>,
    /// The export is served by the in-memory server of this process.
    pub embedded: bool,
    /// The in-memory server of this process injects no faults.
    #[serde(default)]
    pub faultless: bool,
    #[serde(default)]
    pub settings: NfsSettings,
}

/// TLS certificates of a client. All files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsOptions {
    /// Trusted CA certificates; `None` for those of the system.
    #[serde(rename = "tls_ca")]
    pub ca: Option<PathBuf>,
    /// The client's certificate and its chain, in case the server requests one.
    #[serde(rename = "tls_cert")]
    pub cert: Option<PathBuf>,
    /// Private key for `cert`.
    #[serde(rename = "tls_key")]
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must have; `None` for the host's name.
    #[serde(rename = "tls_server_name")]
    pub server_name: Option<String>,
}

/// Identity of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// How the client authenticates.
    #[serde(default = "sys")]
    pub sec: Sec,
    /// User ID sent with each call.
    pub uid: u32,
    /// Group ID sent with each call.
    pub gid: u32,
    /// Further groups sent with each call, at most [`GROUPS_MAX`].
    #[serde(default)]
    pub groups: Vec<u32>,
    /// Use a source port below 1024, which some exports require.
    #[serde(default)]
    pub resvport: bool,
}

const fn sys() -> Sec {
    Sec::Sys
}

impl Identity {
    /// Returns a user with one group, using AUTH_SYS from any port.
    pub const fn new(uid: u32, gid: u32) -> Self {
        Self { sec: Sec::Sys, uid, gid, groups: Vec::new(), resvport: false }
    }
}

impl NfsTarget {
    /// Returns an export with all defaults: v3 over TCP, ports from the portmapper, as root.
    pub fn new(host: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            more_addresses: Vec::new(),
            mount_port: None,
            family: None,
            path: path.into(),
            identity: Identity::new(0, 0),
            tls: Box::default(),
            embedded: false,
            faultless: false,
            settings: NfsSettings::default(),
        }
    }

    /// Returns the user ID of an emulated client. The first one has the target's uid.
    pub fn uid_of(&self, client: u32) -> u32 {
        self.identity.uid.saturating_add(client % self.settings.client_uids.max(1))
    }

    /// Returns the further addresses that are used, as far as `max_connect` allows.
    pub fn further_addresses(&self) -> &[String] {
        let further = match self.settings.max_connect {
            Some(most) => most.saturating_sub(1) as usize,
            None => self.more_addresses.len(),
        };
        &self.more_addresses[..further.min(self.more_addresses.len())]
    }

    /// Returns true if the server is on this host, judging by its name.
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
        write!(f, "nfs://{host}")?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        for address in &self.more_addresses {
            write!(f, ",{address}")?;
        }
        f.write_str(&self.path)
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
        // Each name must mean exactly one version, so 4 is not accepted.
        assert_eq!(NfsVersion::from_name("4"), None);
        assert_eq!((NfsVersion::V4_2.major(), NfsVersion::V4_2.minor()), (4, Some(2)));
        assert_eq!(Stable::NAMES, ["unstable", "data_sync", "file_sync"]);
    }

    #[test]
    fn rotates_uids_from_target() {
        let mut nfs = NfsTarget { identity: Identity::new(1_000, 1), ..NfsTarget::new("h", "/e") };
        assert_eq!([0, 1, 7].map(|client| nfs.uid_of(client)), [1_000; 3]);
        nfs.settings.client_uids = 3;
        assert_eq!([0, 1, 2, 3, 7].map(|c| nfs.uid_of(c)), [1_000, 1_001, 1_002, 1_000, 1_001]);
    }

    #[test]
    fn prints_ipv6_target_as_url() {
        let nfs = NfsTarget { port: Some(2049), ..NfsTarget::new("::1", "/export") };
        assert_eq!(nfs.to_string(), "nfs://[::1]:2049/export");
        assert!(nfs.is_loopback());
    }

    #[test]
    fn limits_addresses_to_max_connect() {
        let more = ["b", "[::1]:2050"].map(str::to_owned).to_vec();
        let mut nfs = NfsTarget { more_addresses: more, ..NfsTarget::new("a", "/export") };
        assert_eq!(nfs.to_string(), "nfs://a,b,[::1]:2050/export");
        let used = |nfs: &NfsTarget| nfs.further_addresses().len();
        assert_eq!(used(&nfs), 2);
        for (most, further) in [(1, 0), (2, 1), (3, 2), (4, 2)] {
            nfs.settings.max_connect = Some(most);
            assert_eq!(used(&nfs), further, "max_connect {most}");
        }
    }
}
