//! Configuration of a server.
//!
//! A `ServerConfig` is plain data with defaults for every field; `Server::start` checks it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::access::Network;
use crate::clock;
use crate::fault::FaultPlan;
use crate::fs::{FileTime, Permissions, StoreMode};
use crate::tls::TlsConfig;

/// Where the portmapper program is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Portmap {
    /// Not at all.
    #[default]
    Off,
    /// On the port of NFS and MOUNT.
    SamePort,
    /// On a port of its own; 0 lets the system choose.
    Port(u16),
}

/// Delegations granted to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delegations {
    /// Read delegations, as kernel servers grant them.
    #[default]
    Read,
    /// Read delegations, even to clients that did not ask for any, as a server may (RFC 8881
    /// section 18.16.3).
    Unasked,
    /// None.
    Off,
}

/// NFS versions offered; a call of another version is refused, with the supported range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per version")]
pub struct Versions {
    /// NFS v2, with MOUNT v1.
    pub v2: bool,
    /// NFS v3, with MOUNT v3.
    pub v3: bool,
    /// Whether NFS v4.0 is served.
    pub v4_0: bool,
    /// Whether NFS v4.1 is served.
    pub v4_1: bool,
    /// Whether NFS v4.2 is served.
    pub v4_2: bool,
}

impl Versions {
    /// All versions.
    pub const ALL: Self = Self { v2: true, v3: true, v4_0: true, v4_1: true, v4_2: true };
    /// No versions, as a starting point.
    pub const NONE: Self = Self { v2: false, v3: false, v4_0: false, v4_1: false, v4_2: false };

    /// Whether any version is offered.
    pub fn has_any(self) -> bool {
        self != Self::NONE
    }
}

/// The layouts that a metadata server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// Flexible files (RFC 8435): clients use data servers over NFSv3, as synthetic users.
    #[default]
    FlexFiles,
    /// Flexible files whose data servers are used over v4.1, loosely coupled: with the anonymous
    /// stateid, as synthetic users.
    FlexFilesV4,
    /// Flexible files whose data servers are used over v4.1, tightly coupled: with stateids of the
    /// metadata server, which only data servers of ours can check.
    FlexFilesTight,
    /// Files (RFC 8881 chapter 13): clients use data servers over v4.1.
    Files,
}

impl LayoutKind {
    /// Whether these are flexible files, which may have mirrors and can be fenced.
    pub fn is_flexible(self) -> bool {
        self != Self::Files
    }
}

/// A server that keeps data for a metadata server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataServerAddress {
    /// Address of NFS, for us and for clients.
    pub address: SocketAddr,
    /// The export to keep data files in.
    pub export: String,
}

/// The servers that keep data for a metadata server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataServers {
    /// So many of our own in this process, with ports that the system chooses.
    Own(usize),
    /// Others: of ours, or any with NFSv3 that lets user 0 create files for other users.
    At(Vec<DataServerAddress>),
}

impl DataServers {
    /// Number of data servers.
    pub fn count(&self) -> usize {
        match self {
            Self::Own(count) => *count,
            Self::At(servers) => servers.len(),
        }
    }
}

/// The settings of a pNFS metadata server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PnfsConfig {
    /// Where the data goes.
    pub servers: DataServers,
    /// The layouts to offer.
    pub layout: LayoutKind,
    /// Number of consecutive bytes on one data server, a multiple of 64 bytes; 0 keeps each file on
    /// one data server.
    pub stripe_unit: u32,
    /// Number of copies of the data; only flexible files have more than one.
    pub mirrors: usize,
}

/// All settings of a server; `ServerConfig::default()` serves `/export` on loopback.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches of users")]
pub struct ServerConfig {
    /// Address to listen on; loopback by default.
    pub listen: IpAddr,
    /// Networks that may call, besides loopback. Must not be empty unless the server listens on
    /// loopback. Connections from anyone else are closed at once, and their datagrams are ignored.
    pub allowed: Vec<Network>,
    /// Whether loopback may call without being on the list.
    pub loopback_allowed: bool,
    /// Port of NFS and MOUNT, the same for TCP and UDP; 0 lets the system choose.
    pub port: u16,
    /// Whether TCP is served.
    pub tcp: bool,
    /// Whether UDP is served: v2, v3, MOUNT and the portmapper.
    pub udp: bool,
    /// RPC over TLS on TCP, if offered.
    pub tls: Option<TlsConfig>,
    /// Versions of NFS offered.
    pub versions: Versions,
    /// Whether mode bits and owners are enforced.
    pub permissions: Permissions,
    /// Delegations granted to clients of v4.1 and later that can be called back.
    pub delegations: Delegations,
    /// Where the portmapper program is served.
    pub portmap: Portmap,
    /// Directories that can be mounted, as absolute paths; created at startup.
    pub exports: Vec<String>,
    /// How file data is stored.
    pub store: StoreMode,
    /// Limit in bytes on everything that clients can make the server hold. Files get the part that
    /// `model::server_memory::file_bytes` returns; connections and client state share the rest.
    /// Past the limit, files get NOSPC, long calls wait in the kernel's buffers, connections are
    /// closed, and v4 clients are deferred; `ServerCounters` reports how often. The process itself
    /// comes on top, with one buffer per thread for a call and its reply. A single call is always
    /// accepted, even if the memory is smaller.
    pub memory_limit_bytes: u64,
    /// Number of event loops, one thread each; 0 means one per core.
    pub threads: usize,
    /// Maximum number of connections served at once; further ones are closed on arrival. Each needs
    /// a descriptor, so the process's soft limit (RLIMIT_NOFILE) less
    /// `limits::DESCRIPTORS_RESERVED` also bounds it, as does the memory limit.
    pub clients_max: usize,
    /// Time in which a started record must arrive completely, in nanoseconds; otherwise the
    /// connection is closed. Checked every half second.
    pub partial_record_timeout_ns: u64,
    /// Maximum number of cached replies to non-idempotent calls of v2, v3 and v4.0, sent again if
    /// the call is repeated; 0 disables the cache. Each takes at most
    /// `limits::CACHED_REPLY_BYTES_MAX`.
    pub cached_replies_max: usize,
    /// Lease of a v4 client, in seconds.
    pub lease_s: u32,
    /// Largest READ granted, in bytes (rtmax).
    pub read_bytes_max: u32,
    /// Largest WRITE granted, in bytes (wtmax).
    pub write_bytes_max: u32,
    /// Preferred size of a READDIR reply, in bytes (dtpref).
    pub directory_bytes_preferred: u32,
    /// Congestion control requested for the sockets, such as `cubic`. If the system refuses it, it
    /// is ignored; `Server::congestion_control` reports which one is in effect.
    pub congestion_control: Option<String>,
    /// Data servers, which make this server a pNFS metadata server; `None` keeps all data here.
    pub pnfs: Option<PnfsConfig>,
    /// Whether this server is a data server for clients of v4.1: it then accepts the stateids of
    /// its metadata server. Those of tightly coupled data files are checked.
    pub is_data_server: bool,
    /// Planned faults.
    pub faults: FaultPlan,
    /// Source of file times.
    pub clock: fn() -> FileTime,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            allowed: Vec::new(),
            loopback_allowed: true,
            port: 0,
            tcp: true,
            udp: true,
            tls: None,
            versions: Versions::ALL,
            permissions: Permissions::Enforced,
            delegations: Delegations::Read,
            portmap: Portmap::Off,
            exports: vec!["/export".to_owned()],
            store: StoreMode::Keep,
            memory_limit_bytes: 1 << 30,
            threads: 1,
            clients_max: 16_384,
            partial_record_timeout_ns: 30_000_000_000,
            cached_replies_max: 4096,
            lease_s: 90,
            read_bytes_max: 1 << 20,
            write_bytes_max: 1 << 20,
            directory_bytes_preferred: 1 << 20,
            congestion_control: None,
            pnfs: None,
            is_data_server: false,
            faults: FaultPlan::default(),
            clock: clock::wall_time,
        }
    }
}
