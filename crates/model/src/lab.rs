//! How hosts are set up for a run: the state that is wanted, every setting resolved.
//!
//! A [`LabSpec`] says what should be so; `lab::compose` turns it into [`Action`](crate::Action)s
//! in the order in which they build on each other. Between two runs only what differs, and what
//! was built on it, is undone and made anew.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::nfs::NfsVersion;
use crate::words::words;

/// A host that takes part in a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// What plans and tables call it.
    pub name: String,
    /// Where `ssh` finds it, such as `root@10.0.0.1` or a name of the user's configuration; `None`
    /// is this very host.
    pub ssh: Option<String>,
    /// Configuration file for `ssh -F`; `None` is the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Address or name by which the other hosts reach it; `None` is `ssh` without its user.
    pub address: Option<String>,
    /// Interface of the network that is measured, such as `eth0`; `None` is that of `address`.
    pub interface: Option<String>,
}

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
    /// Which program serves NFS.
    ServerKind {
        /// The Linux kernel's.
        Knfsd = "knfsd",
        /// NFS-Ganesha.
        Ganesha = "ganesha",
        /// unfs3.
        Unfs3 = "unfs3",
        /// It runs already, and nothing is done to it.
        Running = "running",
    }
}

words! {
    /// What is made on a device.
    FileSystem {
        /// ext4.
        Ext4 = "ext4",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs.
        Btrfs = "btrfs",
        /// Memory of the server: no device at all.
        Tmpfs = "tmpfs",
        /// What is there already, which is neither formatted nor mounted.
        Existing = "existing",
    }
}

words! {
    /// How disks are combined.
    Raid {
        /// They are not.
        None = "none",
        /// Striped.
        Raid0 = "0",
        /// Mirrored.
        Raid1 = "1",
        /// Striped with parity.
        Raid5 = "5",
        /// Striped with two parities.
        Raid6 = "6",
        /// Striped mirrors.
        Raid10 = "10",
    }
}

words! {
    /// What is done before a pass reads, so that data comes from where it should; each includes
    /// those before it.
    Invalidation {
        /// Nothing.
        None = "none",
        /// The files are dropped from the page cache of the host that reads.
        Files = "files",
        /// Its whole page cache, and that of the server.
        Caches = "caches",
        /// The client mounts anew.
        Remount = "remount",
        /// The server mounts its file system anew, too.
        ServerRemount = "server-remount",
        /// The server is started anew, too.
        ServerRestart = "server-restart",
    }
}

/// What the server keeps files on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Storage {
    /// The devices, or files that loop devices are made of; none for `tmpfs` and `existing`.
    pub devices: Vec<PathBuf>,
    /// Make the `devices` as files of so many bytes, with a loop device each; 0 takes them as they
    /// are.
    pub loop_bytes: u64,
    /// How several are combined.
    pub raid: Raid,
    /// Encrypt it with dm-crypt.
    pub crypt: bool,
    /// What is made on it.
    pub file_system: FileSystem,
    /// Options of mkfs.
    pub format_options: Vec<String>,
    /// Options of its mount on the server, such as `noatime`.
    pub mount_options: Vec<String>,
    /// Most bytes of a `tmpfs`.
    pub size_bytes: u64,
    /// Where it is mounted, or lies, on the server.
    pub directory: PathBuf,
}

/// How it is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Serving {
    /// By what.
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

/// How the client mounts it: options of nfs(5) as `name` or `name=value`, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mounting {
    /// The options, `vers=` and `proto=` among them.
    pub options: Vec<String>,
    /// Read-ahead of the mount, in KiB; `None` leaves it as it is.
    pub read_ahead_kib: Option<u32>,
}

/// What is changed on the hosts beside files; `None` and empty leave things as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tuning {
    /// Bytes of the largest packet, on both hosts.
    pub mtu_bytes: Option<u32>,
    /// Most bits per second that leave each host.
    pub rate_bits_per_s: Option<u64>,
    /// What each packet that leaves a host waits, in microseconds.
    pub delay_us: Option<u32>,
    /// Congestion control of TCP, on both hosts.
    pub congestion: Option<String>,
    /// Largest TCP buffers, in bytes, on both hosts.
    pub tcp_buffer_bytes: Option<u64>,
    /// Calls under way per connection of the client's kernel (`tcp_max_slot_table_entries`).
    pub slots: Option<u32>,
    /// Highest frequency of the server's processors, in kHz.
    pub cpu_khz: Option<u32>,
    /// Processors of the server that stay in use.
    pub cores: Option<u32>,
    /// Any other sysctl of the server, as (name, value).
    pub server_sysctls: Vec<(String, String)>,
    /// Any other sysctl of the client, as (name, value).
    pub client_sysctls: Vec<(String, String)>,
}

/// How a tunnel is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tunnelling {
    /// Compress what goes through it (`ssh -C`).
    pub compression: bool,
    /// Cipher (`ssh -c`); `None` is what ssh chooses.
    pub cipher: Option<String>,
}

/// What a run wants of the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LabSpec {
    /// By which way data travels.
    pub path: DataPath,
    /// The host that serves.
    pub server: Host,
    /// The host that mounts; the server itself for `disk` and `loopback`.
    pub client: Host,
    /// What the server keeps files on.
    pub storage: Storage,
    /// How it is served.
    pub serving: Serving,
    /// How it is mounted.
    pub mounting: Mounting,
    /// How the tunnel is made, where there is one.
    pub tunnelling: Tunnelling,
    /// What else is changed.
    pub tuning: Tuning,
    /// What is done before a pass reads.
    pub invalidation: Invalidation,
    /// A setting that is not in force fails the run, and is not merely told.
    pub strict: bool,
}

impl LabSpec {
    /// The host that the program runs on.
    pub const fn worker(&self) -> &Host {
        match self.path {
            DataPath::Disk | DataPath::Loopback => &self.server,
            DataPath::Network | DataPath::Tunnel => &self.client,
        }
    }
}
