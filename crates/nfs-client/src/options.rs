//! Options of a mount.
//!
//! [`MountOptions`] has usable defaults for everything except host and export. Fields that
//! correspond to a Linux mount option have its name. **Source:** nfs(5).

use std::fmt;
use std::time::Duration;

use nfs_proto::client::{ProtocolVersion, Retry, UdpWindow};
use nfs_proto::limits::V2_TRANSFER_BYTES_MAX;
use nfs_proto::portmap;
use nfs_proto::rpc::{AuthSys, Credential, Groups};

use crate::interrupt::Interrupt;
use crate::transport::Tls;

/// Default maximum transfer size: the one that Linux clients use.
pub const TRANSFER_BYTES_DEFAULT: u32 = 1024 * 1024;
/// Default maximum transfer size over UDP. **Source:** nfs(5), `rsize`: Linux clients use 32 KiB
/// over UDP.
pub const DATAGRAM_TRANSFER_BYTES_DEFAULT: u32 = 32 * 1024;
/// Largest transfer size that fits a datagram together with its overhead.
pub const DATAGRAM_TRANSFER_BYTES_MAX: u32 = 60 * 1024;

/// Address family of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4 addresses only.
    V4,
    /// IPv6 addresses only.
    V6,
}

/// The transport protocol; Linux calls it `proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proto {
    /// A stream with record marks.
    Tcp,
    /// One datagram for each message.
    Udp,
}

impl Proto {
    /// Both of the transports.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Returns the name as used in mount options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The flavor of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sec {
    /// User and group ids that the server trusts. **Source:** RFC 5531, AUTH_SYS.
    Sys,
    /// None. **Source:** RFC 5531, AUTH_NONE.
    None,
}

/// The part of a client in pNFS, declared when it registers at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PnfsRole {
    /// None at all.
    #[default]
    None,
    /// A client of a metadata server, which gets layouts and recalls of them.
    MetadataClient,
    /// A client of a data server.
    DataClient,
}

/// The identity of a client among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Client name sent with each call, truncated to 255 bytes.
    pub machine_name: String,
    /// User id sent with each call.
    pub uid: u32,
    /// Group id sent with each call.
    pub gid: u32,
    /// Supplementary group ids; the first 16 are sent.
    pub groups: Vec<u32>,
}

/// The size of the session shared by the connections of a mount, in v4.1 and later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPlan {
    /// Connections that the slots are for, not counting the mount's own.
    pub connections: u32,
    /// Calls that each of them may have in flight.
    pub slots: u32,
}

/// One connection with as many calls as the Linux client has in a session.
///
/// **Source:** Linux fs/nfs/nfs4client.c, `max_session_slots`.
impl Default for SessionPlan {
    fn default() -> Self {
        Self { connections: 1, slots: 64 }
    }
}

/// The export to mount, the caller's identity, and the transfer sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Host name or address of the server.
    pub host: String,
    /// Port of NFS. By default the portmapper is queried, and if it does not answer, 2049 is used;
    /// version 4 uses 2049 right away.
    pub port: Option<u16>,
    /// Further addresses of the same server: hosts, or hosts with the port of NFS there. Mounting
    /// checks that they are the same server; connections may then use any of them, and move to
    /// another one if theirs fails. In v3, v4.1 and later.
    pub more_addresses: Vec<String>,
    /// Port of MOUNT. If only `port` is given, MOUNT is tried on that port first (some servers have
    /// one port for everything, perhaps next to another server's portmapper), then looked up at the
    /// portmapper. If neither is given, the portmapper is queried first, then the NFS port tried.
    pub mount_port: Option<u16>,
    /// Port of the portmapper, if it is queried.
    pub portmap_port: u16,
    /// Path to mount. It may be below an export; the rest is then walked with LOOKUP.
    pub export: String,
    /// Directory below the mounted path that becomes the root; empty for none.
    pub subdir: String,
    /// The NFS version; Linux calls it `nfsvers`.
    pub version: ProtocolVersion,
    /// The transport protocol.
    pub proto: Proto,
    /// Address family to use; `None` for any.
    pub family: Option<Family>,
    /// The flavor of credentials.
    pub sec: Sec,
    /// The identity of the caller.
    pub identity: Identity,
    /// READ size requested, in bytes; the server may grant less.
    pub rsize: Option<u32>,
    /// WRITE size requested, in bytes; the server may grant less.
    pub wsize: Option<u32>,
    /// Connections for the load of one client.
    pub nconnect: u32,
    /// The size of the session shared by these connections, in v4.1 and later.
    pub session: SessionPlan,
    /// Time without a reply after which a datagram is sent again.
    pub timeo: Duration,
    /// Number of retransmissions before the timeouts start over.
    pub retrans: u32,
    /// How many datagrams may be in flight.
    pub udp_window: UdpWindow,
    /// Keep read delegations and open their files without a call, in v4.1 and later; otherwise OPEN
    /// requests none, and one granted anyway is returned at once.
    pub delegations: bool,
    /// Follow asynchronous copies to their end, in v4.2; otherwise no COPY may request one.
    pub async_copies: bool,
    /// The part in pNFS, in v4.1 and later.
    pub pnfs: PnfsRole,
    /// Use a source port below 1024, which requires a privilege.
    pub resvport: bool,
    /// Use TLS for NFS, and for MOUNT if possible; over TCP only.
    pub tls: Option<Tls>,
    /// How long to wait for a connection, and for each reply during setup.
    pub timeout: Duration,
    /// TCP congestion control to set; `None` leaves the system's.
    pub congestion_control: Option<String>,
    /// Ends blocking operations early.
    pub interrupt: Interrupt,
}

/// Number of timeouts for which a call may be deferred before "try later" becomes its result: half
/// a minute by default.
const PATIENCE_TIMEOUTS: u64 = 6;

impl MountOptions {
    /// Mounts `export` of `host` as root, with version 3 over TCP, a timeout of 5 s and the
    /// defaults for everything else.
    pub fn new(host: impl Into<String>, export: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            more_addresses: Vec::new(),
            mount_port: None,
            portmap_port: portmap::PORT,
            export: export.into(),
            subdir: String::new(),
            version: ProtocolVersion::V3,
            proto: Proto::Tcp,
            family: None,
            sec: Sec::Sys,
            identity: Identity::default(),
            rsize: None,
            wsize: None,
            nconnect: 1,
            session: SessionPlan::default(),
            timeo: Duration::from_millis(1_100),
            retrans: 3,
            udp_window: UdpWindow::Adaptive,
            delegations: false,
            async_copies: false,
            pnfs: PnfsRole::None,
            resvport: false,
            tls: None,
            timeout: Duration::from_secs(5),
            congestion_control: None,
            interrupt: Interrupt::default(),
        }
    }

    /// Returns the credential for calls of an identity.
    pub(crate) fn credential<'a>(&self, identity: &'a Identity) -> Credential<'a> {
        if self.sec == Sec::None {
            return Credential::None;
        }
        let name = identity.machine_name.as_bytes();
        Credential::Sys(AuthSys {
            stamp: 0,
            // The RFC limits it to 255 bytes; a longer one would make every call fail with
            // GARBAGE_ARGS.
            machine_name: &name[..name.len().min(255)],
            uid: identity.uid,
            gid: identity.gid,
            groups: Groups::from_slice(&identity.groups),
        })
    }

    /// Returns when calls are sent again.
    pub(crate) fn retry_policy(&self) -> Retry {
        let timeo_ns = self.timeo.as_nanos() as u64;
        let timeout_ns = self.timeout.as_nanos() as u64;
        Retry {
            // At least a millisecond: with a timeout of zero, calls would be sent endlessly.
            timeo_ns: timeo_ns.max(1_000_000),
            retrans: self.retrans,
            patience_ns: timeout_ns.saturating_mul(PATIENCE_TIMEOUTS),
            udp_window: self.udp_window,
        }
    }

    /// Returns the effective transfer size: the smallest of the requested (or usual) size, the
    /// server's limit, and the maximum of version and transport. If the server reports no limit,
    /// the usual size is used.
    pub(crate) fn granted_bytes(&self, requested: Option<u32>, server_max: u32) -> u32 {
        let (usual, most) = match (self.version, self.proto) {
            (ProtocolVersion::V2, _) => (V2_TRANSFER_BYTES_MAX, V2_TRANSFER_BYTES_MAX),
            (_, Proto::Udp) => (DATAGRAM_TRANSFER_BYTES_DEFAULT, DATAGRAM_TRANSFER_BYTES_MAX),
            _ => (TRANSFER_BYTES_DEFAULT, TRANSFER_BYTES_DEFAULT),
        };
        // FSINFO of some servers reports 0 for "no limit".
        let server_max = if server_max == 0 { usual } else { server_max };
        requested.unwrap_or(usual).min(server_max).clamp(1, most)
    }
}

/// Root on a host called `dfsbench`.
impl Default for Identity {
    fn default() -> Self {
        Self { machine_name: "dfsbench".into(), uid: 0, gid: 0, groups: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_smallest_transfer_limit() {
        let mut options = MountOptions::new("host", "/");
        assert_eq!(options.granted_bytes(None, 65_536), 65_536);
        assert_eq!(options.granted_bytes(Some(8_192), 65_536), 8_192);
        assert_eq!(options.granted_bytes(Some(4 << 20), 4 << 20), 1 << 20);
        assert_eq!(options.granted_bytes(None, 0), 1 << 20);
        options.proto = Proto::Udp;
        assert_eq!(options.granted_bytes(None, 1 << 20), 32 << 10);
        assert_eq!(options.granted_bytes(Some(1 << 20), 1 << 20), 60 << 10);
        options.version = ProtocolVersion::V2;
        assert_eq!(options.granted_bytes(Some(1 << 20), 0), 8_192);
        assert_eq!(options.granted_bytes(Some(4_096), 0), 4_096);
    }
}
