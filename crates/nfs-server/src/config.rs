//! The configuration that a server is started with.
//!
//! A `ServerConfig` is plain data with defaults for every field; `Server::start` checks it.

use std::net::{IpAddr, Ipv4Addr};

use crate::access::Network;
use crate::clock;
use crate::fault::FaultPlan;
use crate::fs::{FileTime, Permissions, StoreMode};
use crate::tls::TlsConfig;

/// The place where the portmapper program is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Portmap {
    /// It is not answered.
    #[default]
    Off,
    /// On the port of NFS and MOUNT.
    SamePort,
    /// On a port of its own; 0 lets the system choose.
    Port(u16),
}

/// The delegations that clients get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delegations {
    /// To read, as kernels' servers grant them.
    #[default]
    Read,
    /// To read, even to clients that ask for none, as a server may (RFC 8881 section 18.16.3).
    Unasked,
    /// None at all.
    Off,
}

/// Versions of NFS that are offered; a call of another one is refused with the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch for each version")]
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
    /// All of them.
    pub const ALL: Self = Self { v2: true, v3: true, v4_0: true, v4_1: true, v4_2: true };
    /// None of them, to add to.
    pub const NONE: Self = Self { v2: false, v3: false, v4_0: false, v4_1: false, v4_2: false };

    /// Whether any version is offered.
    pub fn has_any(self) -> bool {
        self != Self::NONE
    }
}

/// Everything a server needs to know; `ServerConfig::default()` serves `/export` on loopback.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen on; loopback by default.
    pub listen: IpAddr,
    /// Who may call, besides loopback. Off loopback the list must not be empty. Others are closed
    /// as they connect, and their datagrams are ignored.
    pub allowed: Vec<Network>,
    /// Whether loopback may call without being on the list.
    pub loopback_allowed: bool,
    /// Port of NFS and MOUNT, the same for TCP and UDP; 0 lets the system choose.
    pub port: u16,
    /// Whether TCP is served.
    pub tcp: bool,
    /// Whether UDP is served: v2, v3, MOUNT and the portmapper.
    pub udp: bool,
    /// RPC over TLS on TCP, where it is offered.
    pub tls: Option<TlsConfig>,
    /// Versions of NFS offered.
    pub versions: Versions,
    /// Whether modes and owners decide what a caller may do.
    pub permissions: Permissions,
    /// Delegations that clients of v4.1 and later get where they can be called back.
    pub delegations: Delegations,
    /// The place where the portmapper program is answered.
    pub portmap: Portmap,
    /// Directories that can be mounted, each an absolute path; they are made at the start.
    pub exports: Vec<String>,
    /// The way in which file data is kept.
    pub store: StoreMode,
    /// Bound in bytes on all that clients can make the server hold. Files get the part that
    /// `model::server_memory::file_bytes` returns; connections and the state of clients share the
    /// rest. Beyond it files get NOSPC, long calls wait in the kernel's buffers, connections are
    /// closed, and clients of v4 are put off; `ServerCounters` has how often. The process itself
    /// comes on top, with a buffer for a call and its reply for each thread. A single call is
    /// always taken, even where the memory is smaller.
    pub memory_limit_bytes: u64,
    /// Event loops, each a thread; 0 means one per core.
    pub threads: usize,
    /// Connections served at once; more are closed as they come. Each takes a descriptor, and the
    /// process's soft limit (RLIMIT_NOFILE) less `limits::DESCRIPTORS_RESERVED` bounds it too, and
    /// so does the memory limit.
    pub clients_max: usize,
    /// Time in which a record that was begun must arrive, in nanoseconds; else the connection is
    /// closed. It is looked at every half second.
    pub partial_record_timeout_ns: u64,
    /// Replies kept for repeated calls of v2, v3 and v4.0 that must not be carried out twice; 0
    /// keeps none. Each takes at most `limits::CACHED_REPLY_BYTES_MAX`.
    pub cached_replies_max: usize,
    /// Lease of a v4 client, in seconds.
    pub lease_s: u32,
    /// Largest READ granted, in bytes (rtmax).
    pub read_bytes_max: u32,
    /// Largest WRITE granted, in bytes (wtmax).
    pub write_bytes_max: u32,
    /// Preferred size of a READDIR reply, in bytes (dtpref).
    pub directory_bytes_preferred: u32,
    /// Congestion control requested for the sockets, such as `cubic`; what the system refuses is
    /// ignored, and `Server::congestion_control` reports what is effective.
    pub congestion_control: Option<String>,
    /// The faults that are planned.
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
            faults: FaultPlan::default(),
            clock: clock::wall,
        }
    }
}
