//! How hosts are set up for a run: the state that is wanted, every setting resolved.
//!
//! A [`LabSpec`] says what should be so; `lab::compose` turns it into [`Action`](crate::Action)s
//! in the order in which they build on each other. Between two runs only what differs, and what
//! was built on it, is undone and made again.

mod host;
mod storage;
mod system;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::host::{Host, bracketed, label_facts};
pub use self::storage::{FileSystem, Raid, Storage};
pub use self::system::{SiteMount, System};
pub use crate::invalidation::Invalidation;
use crate::nfs::{NfsSettings, NfsVersion, Proto, XprtSec};
use crate::words::words;

/// Path at which the server mounts the file system that it serves.
pub const STORAGE_POINT: &str = "/run/dfsbench/storage";

/// Path at which the client mounts the export.
pub const MOUNT_POINT: &str = "/run/dfsbench/mount";

/// Path at which the server mounts a system that it exports again.
pub const EXPORTED_POINT: &str = "/run/dfsbench/exported";

/// Port of the client's loopback that a tunnel carries NFS from.
pub const TUNNEL_PORT: u16 = 20_490;

/// Port of the client's loopback that a tunnel carries MOUNT from, for v2 and v3.
pub const TUNNEL_MOUNT_PORT: u16 = 20_491;

/// Address of the server within a tunnel that carries packets, the same for each client.
///
/// **Source:** RFC 3927: addresses that no router passes on.
pub const TUNNEL_SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);

/// Number of the tun device of the first client on the server; each further client has the next.
pub const TUNNEL_DEVICE: u32 = 77;

/// Returns the address of a client within a tunnel that carries packets, by its number from 0 on;
/// `None` where there are no more of them.
pub fn tunnel_client(number: usize) -> Option<Ipv4Addr> {
    let last = u8::try_from(number).ok()?.checked_add(2)?;
    if last == u8::MAX { None } else { Some(Ipv4Addr::new(169, 254, 77, last)) }
}

/// Port of a server of ours that is started on the server's host, for NFS, MOUNT and plain TCP.
pub const OWN_PORT: u16 = 20_492;

/// Path that a server of ours exports.
pub const OWN_EXPORT: &str = "/export";

/// Port of NFS. **Source:** RFC 7530, 1.5.4.
pub const NFS_PORT: u16 = 2_049;

words! {
    /// By which way data travels between the program and the server's disk.
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
    /// The traffic that an ssh tunnel carries.
    #[derive(Default)]
    TunnelForwards {
        /// Connections to ports of the server (`ssh -L`): TCP alone.
        #[default]
        Ports = "ports",
        /// All packets between two tun devices (`ssh -w`).
        Packets = "packets",
    }
}

words! {
    /// The program that serves NFS.
    ServerKind {
        /// The Linux kernel's.
        Knfsd = "knfsd",
        /// The server NFS-Ganesha.
        Ganesha = "ganesha",
        /// The server unfs3.
        Unfs3 = "unfs3",
        /// It runs already, and nothing is done to it.
        Running = "running",
        /// This program's own, without faults, which keeps files in memory.
        Own = "dfsbench",
    }
}

words! {
    /// The protocol of a network file system: what a server of some kind serves, and clients mount.
    Protocol {
        /// The Network File System.
        Nfs = "nfs",
    }
}

impl ServerKind {
    /// The protocol that it serves, by which its clients mount.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Knfsd | Self::Ganesha | Self::Unfs3 | Self::Running | Self::Own => Protocol::Nfs,
        }
    }

    /// The port that it serves NFS on.
    pub const fn port(self) -> u16 {
        match self {
            Self::Own => OWN_PORT,
            Self::Knfsd | Self::Ganesha | Self::Unfs3 | Self::Running => NFS_PORT,
        }
    }
}

words! {
    /// When file systems, exports and mounts are made again though nothing of them has changed;
    /// each includes those before it.
    #[derive(Default)]
    Fresh {
        /// Never: they are kept as long as they are as wanted.
        #[default]
        Campaign = "campaign",
        /// Before another run than the last.
        Run = "run",
        /// Before each trial.
        Trial = "trial",
        /// And before each further pass of a trial exports and mounts, since it needs the files.
        Pass = "pass",
    }
}

/// Returns so many names, the first without a number: `mount`, `mount-2`.
fn numbered(first: &str, count: usize) -> Vec<PathBuf> {
    let mut names = vec![PathBuf::from(first)];
    for number in 2..=count {
        names.push(PathBuf::from(format!("{first}-{number}")));
    }
    names
}

/// How it is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Serving {
    /// The program that serves.
    pub kind: ServerKind,
    /// Threads of the server; 0 leaves them as they are.
    pub threads: u32,
    /// Versions that are offered; empty for all that it has.
    pub versions: Vec<NfsVersion>,
    /// Offer UDP, too.
    pub udp: bool,
    /// Options of the export, such as `async` or `no_root_squash`.
    pub export_options: Vec<String>,
    /// Largest transfer that is offered, in bytes; 0 leaves it as it is.
    pub transfer_max_bytes: u32,
}

impl Default for Serving {
    /// By the kernel, as it is.
    fn default() -> Self {
        Self {
            kind: ServerKind::Knfsd,
            threads: 0,
            versions: Vec::new(),
            udp: false,
            export_options: Vec::new(),
            transfer_max_bytes: 0,
        }
    }
}

/// How the client mounts it: see [`Mounting::all_options`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mounting {
    /// How NFS is spoken, as far as a mount has options for it.
    pub nfs: NfsSettings,
    /// Largest payload of one READ or WRITE, in bytes (`rsize` and `wsize`); `None` takes what
    /// client and server agree on.
    pub transfer_size_bytes: Option<u32>,
    /// Any other option of nfs(5), as `name` or `name=value`.
    pub options: Vec<String>,
    /// Read-ahead of the mount, in KiB; `None` leaves it as it is.
    pub read_ahead_kib: Option<u32>,
}

impl Mounting {
    /// Every option of nfs(5), as `name` or `name=value`, ours first.
    pub fn all_options(&self) -> Vec<String> {
        let nfs = &self.nfs;
        let mut options = vec![format!("vers={}", nfs.version), format!("proto={}", nfs.proto)];
        if nfs.xprtsec != XprtSec::None {
            options.push(format!("xprtsec={}", nfs.xprtsec));
        }
        if nfs.nconnect > 1 {
            options.push(format!("nconnect={}", nfs.nconnect));
        }
        if let Some(bytes) = self.transfer_size_bytes {
            options.extend([format!("rsize={bytes}"), format!("wsize={bytes}")]);
        }
        if nfs.proto == Proto::Udp {
            // In tenths of a second there.
            let timeo = nfs.timeo_ms.div_ceil(100);
            options.extend([format!("timeo={timeo}"), format!("retrans={}", nfs.retrans)]);
        }
        options.extend(self.options.iter().cloned());
        options
    }
}

/// Changes of the hosts beside files; `None` and empty leave things as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tuning {
    /// Bytes of the largest packet, on both hosts.
    pub mtu_bytes: Option<u32>,
    /// Most bits per second that leave each host.
    pub rate_bits_per_s: Option<u64>,
    /// Delay of each packet that leaves a host, in microseconds.
    pub delay_us: Option<u32>,
    /// Congestion control of TCP, on both hosts.
    pub congestion: Option<String>,
    /// Largest TCP buffers, in bytes, on both hosts.
    pub tcp_buffer_bytes: Option<u64>,
    /// Calls in flight per connection of the client's kernel (`tcp_max_slot_table_entries`).
    pub slots: Option<u32>,
    /// Highest frequency of the server's processors, in kHz.
    pub cpu_khz: Option<u32>,
    /// Processors of the server that stay in use.
    pub cores: Option<u32>,
    /// Bytes of memory that the server has left.
    pub server_ram_bytes: Option<u64>,
    /// Bytes of memory that each client has left.
    pub client_ram_bytes: Option<u64>,
    /// Any other sysctl of the server, as (name, value).
    pub server_sysctls: Vec<(String, String)>,
    /// Any other sysctl of the client, as (name, value).
    pub client_sysctls: Vec<(String, String)>,
}

/// How a tunnel is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tunnelling {
    /// The traffic that it carries.
    #[serde(default)]
    pub forwards: TunnelForwards,
    /// Compress what goes through it (`ssh -C`).
    pub compression: bool,
    /// Cipher (`ssh -c`); `None` is what ssh chooses.
    pub cipher: Option<String>,
}

/// The set-up of hosts that a run wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LabSpec {
    /// By which way data travels.
    pub path: DataPath,
    /// The host that serves.
    pub server: Host,
    /// The host that mounts; the server itself for `disk` and `loopback`.
    pub client: Host,
    /// The hosts that mount beside it.
    #[serde(default)]
    pub more_clients: Vec<Host>,
    /// The program speaks NFS, or plain TCP, itself, and the client mounts nothing.
    pub own_client: bool,
    /// Layers that the server keeps files on.
    pub storage: Storage,
    /// How it is served.
    pub serving: Serving,
    /// How it is mounted.
    pub mounting: Mounting,
    /// How the tunnel is made, where there is one.
    pub tunnelling: Tunnelling,
    /// Further changes of the hosts.
    pub tuning: Tuning,
    /// Steps before a pass reads.
    pub invalidation: Invalidation,
    /// When file systems, exports and mounts are made again.
    #[serde(default)]
    pub fresh: Fresh,
    /// A setting that is not effective fails the run, and is not a mere caveat.
    pub strict: bool,
    /// The system that is set up in the place of an NFS server, where a plan names one.
    #[serde(default)]
    pub system: Option<Box<System>>,
    /// Values of its settings that a plan gives.
    #[serde(default)]
    pub system_settings: Vec<(String, String)>,
    /// The file system that is mounted, where the site has set it up itself.
    #[serde(default)]
    pub site_mount: Option<SiteMount>,
}

impl LabSpec {
    /// A server's directory that exists already, mounted by a client with every default.
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

    /// The hosts that mount, each once; the server itself where data doesn't leave it.
    pub fn clients(&self) -> impl Iterator<Item = &Host> + Clone {
        // On the server there is nothing to share out: the other clients take no part.
        let more: &[Host] = if self.leaves_server() { &self.more_clients } else { &[] };
        std::iter::once(self.worker()).chain(more)
    }

    /// The hosts that take part, each once, those that serve first.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> + Clone {
        system::each_once(self.servers(), self.clients()).into_iter()
    }

    /// The host that the program runs on; the first of them where there are several.
    pub const fn worker(&self) -> &Host {
        if self.leaves_server() { &self.client } else { &self.server }
    }

    /// The host whose power files have to outlast: the server's; the first client's where clients
    /// keep the files themselves, on a disk that they share.
    pub fn keeper(&self) -> &Host {
        match &self.system {
            Some(system) if system.recipe.is_kept_by_clients() => &self.client,
            _ => &self.server,
        }
    }

    /// Says whether data goes from one host to another.
    pub const fn leaves_server(&self) -> bool {
        matches!(self.path, DataPath::Network | DataPath::Tunnel)
    }

    /// Says whether data goes through a tunnel that forwards this.
    pub fn has_tunnel(&self, forwards: TunnelForwards) -> bool {
        self.path == DataPath::Tunnel && self.tunnelling.forwards == forwards
    }

    /// Says whether anything is served at all.
    pub const fn is_served(&self) -> bool {
        !matches!(self.path, DataPath::Disk)
    }

    /// Says whether a kernel mounts what is served.
    pub const fn is_mounted(&self) -> bool {
        self.is_served() && !self.own_client
    }

    /// Says whether a kernel mounts it by NFS, whose answers are counted.
    pub fn mounts_nfs(&self) -> bool {
        self.is_mounted()
            && match (&self.system, &self.site_mount) {
                (Some(_), _) => self.system_nfs().is_some() || self.is_re_exported(),
                (None, Some(mount)) => matches!(mount.kind.as_str(), "nfs" | "nfs4"),
                (None, None) => true,
            }
    }

    /// Says whether files lie on what [`Self::storage`] names, and not in a server of ours.
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

    /// Says whether the plan's own kinds of servers serve, and not a recipe or the site.
    pub fn has_server_kind(&self) -> bool {
        self.is_served() && self.system.is_none() && self.site_mount.is_none()
    }

    /// Returns the path of the export that clients mount; of several the first.
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

    /// Returns where a client mounts each of the exports.
    pub fn mount_points(&self) -> Vec<PathBuf> {
        numbered(MOUNT_POINT, self.exports().len())
    }

    /// Ports of NFS and of MOUNT as clients reach them; `None` where they are the usual ones.
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.has_tunnel(TunnelForwards::Ports) {
            // The client's end of the tunnel; the server's ports are known to the tunnel alone.
            return Some((TUNNEL_PORT, TUNNEL_MOUNT_PORT));
        }
        if let Some(nfs) = self.system_nfs() {
            let mount_port = if nfs.mount_port == 0 { nfs.port } else { nfs.mount_port };
            return Some((nfs.port, mount_port));
        }
        let is_ours = self.serving.kind == ServerKind::Own;
        is_ours.then_some((OWN_PORT, OWN_PORT))
    }

    /// Says whether two runs stand on the same, up to this many of the layers that hosts are set
    /// up in: tuning, storage, server with its clients, tunnel, mount. Runs that agree in all need
    /// nothing redone.
    pub fn agrees(&self, other: &Self, layers: usize) -> bool {
        // Each layer stands on those before it, so the first difference decides: what is above it
        // is undone and made again, even where it is equal.
        let agree = [
            (self.servers(), &self.tuning) == (other.servers(), &other.tuning),
            (self.storage_hosts(), &self.storage) == (other.storage_hosts(), &other.storage),
            // An export names its clients.
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

    /// Layers that [`Self::agrees`] tells apart.
    pub const LAYERS: usize = 5;
}
