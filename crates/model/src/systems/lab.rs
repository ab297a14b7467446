//! How hosts are set up for a run: the desired state, with every setting resolved.
//!
//! `lab::compose` turns a [`LabSpec`] into [`Action`](crate::Action)s in the order of their
//! dependencies. Between two runs, only the differences and whatever depends on them are undone and
//! redone.

mod host;
mod storage;
mod system;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::host::{Host, bracket_ipv6, label_facts};
pub use self::storage::{FileSystem, Raid, Storage};
pub use self::system::{SiteMount, System};
pub use crate::systems::system::Invalidation;
use crate::targets::nfs::{NfsSettings, NfsVersion, Proto, XprtSec};
use crate::text::words::words;

/// Where the server mounts the file system that it exports.
pub const STORAGE_POINT: &str = "/run/dfsbench/storage";

/// Where the client mounts the export.
pub const MOUNT_POINT: &str = "/run/dfsbench/mount";

/// Where the client mounts the export through a further address of the server, followed by `-` and
/// a number.
pub const TRUNK_POINT: &str = "/run/dfsbench/trunk";

/// Where the server mounts a system that it re-exports.
pub const EXPORTED_POINT: &str = "/run/dfsbench/exported";

/// Port on the client's loopback from which a tunnel forwards NFS.
pub const TUNNEL_PORT: u16 = 20_490;

/// Port on the client's loopback from which a tunnel forwards MOUNT, for v2 and v3.
pub const TUNNEL_MOUNT_PORT: u16 = 20_491;

/// Address of the server within a packet tunnel, the same for each client.
///
/// **Source:** RFC 3927: addresses that routers don't forward.
pub const TUNNEL_SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);

/// Number of the tun device on the server for the first client; further clients follow.
pub const TUNNEL_DEVICE: u32 = 77;

/// Returns the address of a client within a packet tunnel, by its number from 0 on, or `None` if
/// there are no more addresses.
pub fn tunnel_client(number: usize) -> Option<Ipv4Addr> {
    let last = u8::try_from(number).ok()?.checked_add(2)?;
    if last == u8::MAX { None } else { Some(Ipv4Addr::new(169, 254, 77, last)) }
}

/// Port of our server when started on the server host, for NFS, MOUNT and raw TCP.
pub const OWN_PORT: u16 = 20_492;

/// Path exported by our server.
pub(crate) const OWN_EXPORT: &str = "/export";

/// Port of NFS. **Source:** RFC 7530, 1.5.4.
pub const NFS_PORT: u16 = 2_049;

/// Port of NFS over RDMA. **Source:** RFC 8267, 4.2.
pub const RDMA_PORT: u16 = 20_049;

words! {
    /// How data travels between the program and the server's disk.
    DataPath {
        /// The program runs on the server, on its file system, without NFS.
        Disk = "disk",
        /// The server mounts its own export.
        Loopback = "loopback",
        /// The client mounts the export over the network.
        Network = "network",
        /// The client mounts the export through an ssh tunnel.
        Tunnel = "tunnel",
    }
}

words! {
    /// The traffic forwarded by an ssh tunnel.
    #[derive(Default)]
    TunnelForwards {
        /// Connections to ports of the server (`ssh -L`); only TCP.
        #[default]
        Ports = "ports",
        /// All packets between two tun devices (`ssh -w`).
        Packets = "packets",
    }
}

words! {
    /// The program that serves NFS.
    ServerKind {
        /// The server of the Linux kernel.
        Knfsd = "knfsd",
        /// NFS-Ganesha.
        Ganesha = "ganesha",
        /// unfs3.
        Unfs3 = "unfs3",
        /// A server that is already running and is left as it is.
        Running = "running",
        /// Our own server, in memory and without faults.
        Own = "dfsbench",
    }
}

words! {
    /// The protocol of a network file system.
    Protocol {
        /// The Network File System.
        Nfs = "nfs",
    }
}

impl ServerKind {
    /// Returns the protocol used by its clients.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Knfsd | Self::Ganesha | Self::Unfs3 | Self::Running | Self::Own => Protocol::Nfs,
        }
    }

    /// Returns the port on which it serves NFS.
    pub const fn port(self) -> u16 {
        match self {
            Self::Own => OWN_PORT,
            Self::Knfsd | Self::Ganesha | Self::Unfs3 | Self::Running => NFS_PORT,
        }
    }
}

words! {
    /// How the kernel's server reads or writes the files of its file system.
    NfsdIo {
        /// Through the page cache, the default.
        Buffered = "buffered",
        /// Through the page cache, from which the pages are dropped afterwards.
        DontCache = "dontcache",
        /// Past the page cache, as far as the alignment of a request permits.
        Direct = "direct",
    }
}

words! {
    /// When file systems, exports and mounts are recreated even if unchanged. Each level includes
    /// the previous ones.
    #[derive(Default)]
    Fresh {
        /// Never, as long as they match the run.
        #[default]
        Campaign = "campaign",
        /// Before a run that differs from the last one.
        Run = "run",
        /// Before each trial.
        Trial = "trial",
        /// Before each trial; also exports and mounts before each further pass, which keeps the
        /// files.
        Pass = "pass",
    }
}

words! {
    /// The security flavor of a kernel mount. **Source:** nfs(5), `sec`.
    #[derive(Default)]
    MountSec {
        /// The first flavor of the export that the client supports.
        #[default]
        Server = "server",
        /// AUTH_SYS: with uid, gid and groups.
        Sys = "sys",
        /// Kerberos authenticates each user.
        Krb5 = "krb5",
        /// Kerberos also protects the integrity of calls and replies.
        Krb5i = "krb5i",
        /// Kerberos also encrypts calls and replies.
        Krb5p = "krb5p",
    }
}

impl MountSec {
    /// Returns true for the flavors of Kerberos.
    pub const fn is_kerberos(self) -> bool {
        matches!(self, Self::Krb5 | Self::Krb5i | Self::Krb5p)
    }
}

/// Returns `count` names, the first one without a number: `mount`, `mount-2`.
fn numbered(first: &str, count: usize) -> Vec<PathBuf> {
    let mut names = vec![PathBuf::from(first)];
    names.extend((2..=count).map(|number| PathBuf::from(format!("{first}-{number}"))));
    names
}

/// Number of a server's threads: fixed, or dynamic within limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerThreads {
    /// The number, or the largest one if it is dynamic; 0 keeps the current number.
    #[serde(rename = "threads")]
    pub max: u32,
    /// The smallest number if it is dynamic; 0 if it is fixed.
    #[serde(rename = "threads_min", default)]
    pub min: u32,
}

/// How files are served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Serving {
    /// The server program.
    pub kind: ServerKind,
    /// Number of threads.
    #[serde(flatten)]
    pub threads: ServerThreads,
    /// NFS versions to offer; empty for all supported ones.
    pub versions: Vec<NfsVersion>,
    /// Also offer UDP.
    pub udp: bool,
    /// Also listen for RDMA.
    #[serde(default)]
    pub rdma: bool,
    /// Options of the export, such as `async` or `no_root_squash`.
    pub export_options: Vec<String>,
    /// Largest payload of a READ or WRITE that the kernel's server accepts, in bytes; `None` keeps
    /// the host's setting.
    #[serde(default)]
    pub max_block_bytes: Option<u32>,
    /// How the kernel's server reads files; `None` keeps the host's setting.
    #[serde(default)]
    pub io_read: Option<NfsdIo>,
    /// How the kernel's server writes files; `None` keeps the host's setting.
    #[serde(default)]
    pub io_write: Option<NfsdIo>,
    /// Whether the kernel's server grants delegations; `None` keeps the host's setting.
    #[serde(default)]
    pub delegations: Option<bool>,
    /// Whether clients may keep timestamps of delegated files; `None` keeps the host's setting.
    #[serde(default)]
    pub delegated_timestamps: Option<bool>,
}

impl Default for Serving {
    /// Returns the kernel's server with its current settings.
    fn default() -> Self {
        Self {
            kind: ServerKind::Knfsd,
            threads: ServerThreads::default(),
            versions: Vec::new(),
            udp: false,
            rdma: false,
            export_options: Vec::new(),
            max_block_bytes: None,
            io_read: None,
            io_write: None,
            delegations: None,
            delegated_timestamps: None,
        }
    }
}

/// How the client mounts an export; see [`Mounting::all_options`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mounting {
    /// NFS settings, as far as they are mount options.
    pub nfs: NfsSettings,
    /// Maximum payload of READ and WRITE in bytes (`rsize` and `wsize`); `None` lets client and
    /// server negotiate it.
    pub transfer_size_bytes: Option<u32>,
    /// Other options of nfs(5), as `name` or `name=value`.
    pub options: Vec<String>,
    /// Security flavor.
    #[serde(default)]
    pub sec: MountSec,
    /// Read-ahead of the mount in KiB; `None` keeps the current one.
    pub read_ahead_kib: Option<u32>,
    /// Whether the kernel's client may bypass RPC for a server on its own host (LOCALIO); `None`
    /// keeps the host's setting.
    #[serde(default)]
    pub localio: Option<bool>,
    /// Whether the kernel's client asks for delegations of directories; `None` keeps the host's
    /// setting.
    #[serde(default)]
    pub directory_delegations: Option<bool>,
}

impl Mounting {
    /// Returns all options of nfs(5), as `name` or `name=value`, starting with ours.
    pub fn all_options(&self) -> Vec<String> {
        let nfs = &self.nfs;
        let mut options = vec![format!("vers={}", nfs.version), format!("proto={}", nfs.proto)];
        if nfs.proto == Proto::Rdma {
            options.push(format!("port={RDMA_PORT}"));
        }
        if nfs.xprtsec != XprtSec::None {
            options.push(format!("xprtsec={}", nfs.xprtsec));
        }
        if self.sec != MountSec::Server {
            options.push(format!("sec={}", self.sec));
        }
        if nfs.nconnect > 1 {
            options.push(format!("nconnect={}", nfs.nconnect));
        }
        if let Some(connections) = nfs.max_connect {
            options.push(format!("max_connect={connections}"));
        }
        if let Some(bytes) = self.transfer_size_bytes {
            options.extend([format!("rsize={bytes}"), format!("wsize={bytes}")]);
        }
        if nfs.proto == Proto::Udp {
            // nfs(5) uses tenths of a second.
            let timeo = nfs.timeo_ms.div_ceil(100);
            options.extend([format!("timeo={timeo}"), format!("retrans={}", nfs.retrans)]);
        }
        options.extend(self.options.iter().cloned());
        options
    }
}

/// Changes to hosts apart from files. `None` and empty values leave things as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tuning {
    /// MTU in bytes, on both hosts.
    pub mtu_bytes: Option<u32>,
    /// Maximum outgoing rate of each host, in bits per second.
    pub rate_bits_per_s: Option<u64>,
    /// Delay of each outgoing packet, in microseconds.
    pub delay_us: Option<u32>,
    /// TCP congestion control, on both hosts.
    pub congestion: Option<String>,
    /// Maximum TCP buffer size in bytes, on both hosts.
    pub tcp_buffer_bytes: Option<u64>,
    /// Maximum calls in flight per connection of the kernel's client
    /// (`tcp_max_slot_table_entries`).
    pub slots: Option<u32>,
    /// Maximum CPU frequency of the server, in kHz.
    pub cpu_khz: Option<u32>,
    /// Number of CPUs of the server that stay online.
    pub cores: Option<u32>,
    /// Memory that remains usable on the server, in bytes.
    pub server_ram_bytes: Option<u64>,
    /// Memory that remains usable on each client, in bytes.
    pub client_ram_bytes: Option<u64>,
    /// Other sysctls of the server, as (name, value).
    pub server_sysctls: Vec<(String, String)>,
    /// Other sysctls of the client, as (name, value).
    pub client_sysctls: Vec<(String, String)>,
}

/// How a tunnel is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tunnelling {
    /// The forwarded traffic.
    #[serde(default)]
    pub forwards: TunnelForwards,
    /// Compress the traffic (`ssh -C`).
    pub compression: bool,
    /// Cipher (`ssh -c`), or `None` to let ssh choose.
    pub cipher: Option<String>,
}

/// The setup of hosts for a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LabSpec {
    /// How data travels.
    pub path: DataPath,
    /// The host that serves.
    pub server: Host,
    /// The host that mounts. Not used for `disk` and `loopback`, where the server itself does.
    pub client: Host,
    /// Further hosts that mount.
    #[serde(default)]
    pub more_clients: Vec<Host>,
    /// The program itself speaks NFS or raw TCP, and the client mounts nothing.
    pub own_client: bool,
    /// The server's storage layers.
    pub storage: Storage,
    /// How files are served.
    pub serving: Serving,
    /// How they are mounted.
    pub mounting: Mounting,
    /// How the tunnel is set up, if there is one.
    pub tunnelling: Tunnelling,
    /// Further changes to the hosts.
    pub tuning: Tuning,
    /// What to do before a pass reads.
    pub invalidation: Invalidation,
    /// When file systems, exports and mounts are recreated.
    #[serde(default)]
    pub fresh: Fresh,
    /// A setting that doesn't take effect fails the run instead of raising a caveat.
    pub strict: bool,
    /// The system that replaces the NFS server, if the plan names one.
    #[serde(default)]
    pub system: Option<Box<System>>,
    /// Settings of this system given in the plan.
    #[serde(default)]
    pub system_settings: Vec<(String, String)>,
    /// The file system to mount, if it was set up by the site.
    #[serde(default)]
    pub site_mount: Option<SiteMount>,
}

impl LabSpec {
    /// Returns a setup in which a client mounts an existing directory of a server, with defaults.
    pub fn new(server: Host, client: Host) -> Self {
        Self {
            path: DataPath::Network,
            server,
            client,
            more_clients: Vec::new(),
            own_client: false,
            storage: Storage::default(),
            serving: Serving::default(),
            mounting: Mounting::default(),
            tunnelling: Tunnelling::default(),
            tuning: Tuning::default(),
            invalidation: Invalidation::None,
            fresh: Fresh::Campaign,
            strict: false,
            system: None,
            system_settings: Vec::new(),
            site_mount: None,
        }
    }

    /// Returns the distinct hosts that mount, or the server itself if data doesn't leave it.
    pub fn clients(&self) -> impl Iterator<Item = &Host> + Clone {
        // On the server, there is nothing to share, so the other clients don't take part.
        let more: &[Host] = if self.leaves_server() { &self.more_clients } else { &[] };
        std::iter::once(self.worker()).chain(more)
    }

    /// Returns the distinct hosts that take part, servers first.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> + Clone {
        system::each_once(self.servers(), self.clients()).into_iter()
    }

    /// Returns the host that runs the program, or the first one of several.
    pub const fn worker(&self) -> &Host {
        if self.leaves_server() { &self.client } else { &self.server }
    }

    /// Returns the host whose power loss the files must survive: the server, or the first client if
    /// clients keep the files themselves on a shared disk.
    pub fn keeper(&self) -> &Host {
        match &self.system {
            Some(system) if system.recipe.is_kept_by_clients() => &self.client,
            _ => &self.server,
        }
    }

    /// Returns true if data is transferred from one host to another.
    pub const fn leaves_server(&self) -> bool {
        matches!(self.path, DataPath::Network | DataPath::Tunnel)
    }

    /// Returns true if data goes through a tunnel of this kind.
    pub fn has_tunnel(&self, forwards: TunnelForwards) -> bool {
        self.path == DataPath::Tunnel && self.tunnelling.forwards == forwards
    }

    /// Returns true if files are served at all.
    pub const fn is_served(&self) -> bool {
        !matches!(self.path, DataPath::Disk)
    }

    /// Returns true if a kernel mounts the export.
    pub const fn is_mounted(&self) -> bool {
        self.is_served() && !self.own_client
    }

    /// Returns true if a kernel mounts it through NFS, whose replies are counted.
    pub fn mounts_nfs(&self) -> bool {
        self.is_mounted()
            && match (&self.system, &self.site_mount) {
                (Some(_), _) => self.system_nfs().is_some() || self.is_re_exported(),
                (None, Some(mount)) => matches!(mount.kind.as_str(), "nfs" | "nfs4"),
                (None, None) => true,
            }
    }

    /// Returns true if it mounts the export of a server that a plan's settings configure, and not
    /// that of a system or a site, which have their own options.
    pub fn mounts_own_export(&self) -> bool {
        self.mounts_nfs()
            && self.site_mount.is_none()
            && (self.system.is_none() || self.is_re_exported())
    }

    /// Returns the further addresses of the server that clients connect to.
    pub fn trunk_addresses(&self) -> &[String] {
        if !self.mounts_own_export() || self.path != DataPath::Network {
            return &[];
        }
        let further = self.mounting.nfs.max_connect.unwrap_or(1).saturating_sub(1) as usize;
        let addresses = &self.server.more_addresses;
        &addresses[..further.min(addresses.len())]
    }

    /// Returns true if files are on [`Self::storage`] and not in our own server.
    pub fn has_storage(&self) -> bool {
        if !self.is_served() {
            return true;
        }
        match (&self.system, &self.site_mount) {
            (_, Some(_)) => false,
            (Some(system), None) => system.recipe.has_storage(),
            (None, None) => self.serving.kind != ServerKind::Own,
        }
    }

    /// Returns true if the server is one of [`ServerKind`] and not from a recipe or the site.
    pub fn has_server_kind(&self) -> bool {
        self.is_served() && self.system.is_none() && self.site_mount.is_none()
    }

    /// Returns the path of the first export that clients mount.
    pub fn export(&self) -> &Path {
        if self.is_re_exported() {
            return Path::new(EXPORTED_POINT);
        }
        if let Some(nfs) = self.system_nfs()
            && nfs.export != "{storage}"
        {
            return Path::new(&nfs.export);
        }
        if self.has_storage() { self.storage.place() } else { Path::new(OWN_EXPORT) }
    }

    /// Returns the paths of all exports that clients mount.
    pub fn exports(&self) -> Vec<PathBuf> {
        if !self.has_server_kind() && self.is_served() {
            return vec![self.export().to_owned()];
        }
        if self.has_storage() { self.storage.places() } else { vec![PathBuf::from(OWN_EXPORT)] }
    }

    /// Returns where clients mount each of the exports.
    pub fn mount_points(&self) -> Vec<PathBuf> {
        numbered(MOUNT_POINT, self.exports().len())
    }

    /// Returns the ports of NFS and MOUNT as seen by clients, or `None` for the default ports.
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.has_tunnel(TunnelForwards::Ports) {
            // This is the client's end of the tunnel; only the tunnel knows the server's ports.
            return Some((TUNNEL_PORT, TUNNEL_MOUNT_PORT));
        }
        if let Some(nfs) = self.system_nfs() {
            let mount_port = if nfs.mount_port == 0 { nfs.port } else { nfs.mount_port };
            return Some((nfs.port, mount_port));
        }
        let is_ours = self.serving.kind == ServerKind::Own;
        is_ours.then_some((OWN_PORT, OWN_PORT))
    }

    /// Returns true if two runs have the same setup in the first `layers` layers: tuning, storage,
    /// server with its clients, tunnel, mount. Runs that agree in all of them need no changes in
    /// between.
    pub fn agrees(&self, other: &Self, layers: usize) -> bool {
        // Each layer depends on the previous ones, so the first difference decides: everything
        // above it is undone and redone even if equal.
        let agree = [
            (self.servers(), &self.tuning) == (other.servers(), &other.tuning),
            (self.storage_hosts(), &self.storage) == (other.storage_hosts(), &other.storage),
            // An export lists its clients.
            self.is_served() == other.is_served()
                && self.serving == other.serving
                && (&self.system, &self.system_settings) == (&other.system, &other.system_settings)
                && self.clients().eq(other.clients()),
            self.path == other.path && self.tunnelling == other.tunnelling,
            (self.own_client, &self.mounting, &self.site_mount)
                == (other.own_client, &other.mounting, &other.site_mount),
        ];
        !agree[..layers.min(Self::LAYERS)].contains(&false)
    }

    /// Number of layers distinguished by [`Self::agrees`].
    pub const LAYERS: usize = 5;
}
