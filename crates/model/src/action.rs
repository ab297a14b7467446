//! Actions on a host, as data: planned, shown, sent to it, applied, checked and undone.
//!
//! Nothing here acts. Actions of a host build on each other like a stack: the last applied is the
//! first undone. Every name that an action makes up (mount points, arrays, mappings, files) starts
//! with or lies under a name of dfsbench, so that what is ours can be told from what isn't.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::lab::{FileSystem, Raid};
use crate::nfs::NfsVersion;

/// Something with blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// A device node that the user named.
    Node(PathBuf),
    /// The loop device of a file that [`Action::LoopFile`] made.
    Loop(PathBuf),
    /// The array that [`Action::Raid`] made, by its name.
    Array(String),
    /// The mapping that [`Action::Crypt`] opened, by its name.
    Mapped(String),
}

/// Another host, as one host reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Name of the device in plans.
    pub name: String,
    /// Its address, or a name that resolves to it.
    pub address: String,
}

/// A port of the host at the other end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemotePort {
    /// The port with this number.
    Number(u16),
    /// That of its MOUNT service of this version, which its portmapper is asked for.
    Mount {
        /// Version of MOUNT: 1 for NFS v2, 3 for v3.
        version: u32,
    },
}

/// One thing that is done to one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Makes a file and a loop device of it.
    LoopFile {
        /// The file, which must not exist.
        file: PathBuf,
        /// Size of the device in bytes.
        bytes: u64,
    },
    /// Makes an md array. What is on the devices is lost.
    Raid {
        /// Its name under /dev/md.
        name: String,
        /// Level of the array.
        level: Raid,
        /// Devices of the array.
        devices: Vec<Device>,
    },
    /// Encrypts a device with a key that is thrown away. What is on it is lost.
    Crypt {
        /// Its name under /dev/mapper.
        name: String,
        /// The encrypted device.
        device: Device,
    },
    /// Makes a file system. What is on the device is lost.
    Format {
        /// The formatted device.
        device: Device,
        /// The kind of file system that is made.
        file_system: FileSystem,
        /// Options of mkfs.
        options: Vec<String>,
    },
    /// Mounts a file system of the host.
    Mount {
        /// The device; `None` for memory.
        device: Option<Device>,
        /// The kind of file system on it.
        file_system: FileSystem,
        /// Path of the mount point; made where it is missing.
        point: PathBuf,
        /// Options of mount, such as `noatime` or `size=64m`.
        options: Vec<String>,
    },
    /// Exports a directory through the kernel's server, with exportfs.
    Export {
        /// Path of the directory.
        directory: PathBuf,
        /// Who may mount it, each as exports(5) says, with a space between several.
        clients: String,
        /// Options of exports(5).
        options: Vec<String>,
    },
    /// Starts the kernel's server, or changes the running one.
    Nfsd {
        /// Its threads; 0 leaves them, or starts 8.
        threads: u32,
        /// Versions that it offers; empty for all that it has.
        versions: Vec<NfsVersion>,
        /// Offer UDP, too.
        udp: bool,
        /// Largest transfer, in bytes; 0 leaves it.
        transfer_max_bytes: u32,
    },
    /// Starts NFS-Ganesha with one export.
    Ganesha {
        /// Path of the directory.
        directory: PathBuf,
        /// Its threads; 0 for its default.
        threads: u32,
        /// Versions that it offers; empty for all that it has.
        versions: Vec<NfsVersion>,
    },
    /// Starts unfs3 with one export.
    Unfs3 {
        /// Path of the directory.
        directory: PathBuf,
        /// Who may mount it, as exports(5) says.
        clients: String,
    },
    /// Starts this program's own server, in memory and without faults.
    OwnServer {
        /// Who may call it, by address or name, with a space between several.
        clients: String,
        /// Bytes of files that it holds at most; 0 for its default.
        memory_bytes: u64,
        /// Serve UDP, too.
        udp: bool,
    },
    /// Opens an ssh tunnel from a port of this host to one of another.
    Tunnel {
        /// Destination by which `ssh` finds the other host: a name or address, maybe with a user.
        ssh: String,
        /// Configuration file for `ssh -F`; `None` is that of the user.
        ssh_config: Option<PathBuf>,
        /// Port of this host's loopback.
        local_port: u16,
        /// Address that the other host forwards to, one of its own, as it reaches it.
        address: String,
        /// The port there.
        remote_port: RemotePort,
        /// Compress what goes through it.
        compression: bool,
        /// Cipher; `None` is what ssh chooses.
        cipher: Option<String>,
    },
    /// Mounts an export with the kernel's client.
    NfsMount {
        /// Host and path of the export, as mount(8) takes it.
        source: String,
        /// Path of the mount point; made where it is missing.
        point: PathBuf,
        /// Options of nfs(5).
        options: Vec<String>,
    },
    /// Sets the read-ahead of a mounted file system.
    ReadAhead {
        /// Path of the mount point.
        point: PathBuf,
        /// Number of KiB that are read ahead.
        kib: u32,
    },
    /// Sets a sysctl.
    Sysctl {
        /// Its name, with dots.
        name: String,
        /// Value of the setting.
        value: String,
    },
    /// Sets the largest packet of an interface.
    Mtu {
        /// Name of the interface.
        interface: String,
        /// Size of a packet in bytes.
        bytes: u32,
    },
    /// Tries whether packets of full size get through to other hosts; changes nothing.
    TryPaths {
        /// The other hosts.
        peers: Vec<Peer>,
        /// Bytes of a packet, its IP header included.
        bytes: u32,
    },
    /// Slows down what leaves an interface, with tc.
    Shape {
        /// Name of the interface.
        interface: String,
        /// Most bits per second.
        rate_bits_per_s: Option<u64>,
        /// Delay of each packet, in microseconds.
        delay_us: Option<u32>,
    },
    /// Limits the frequency of all processors.
    CpuFrequency {
        /// The highest, in kHz.
        khz: u32,
    },
    /// Takes processors offline until so many are left.
    Cores {
        /// Processors that stay.
        online: u32,
    },
    /// Stops the kernel's server.
    NfsdStop,
    /// Loses all that leaves an interface from a TCP or UDP port.
    Cut {
        /// Name of the interface.
        interface: String,
        /// Number of the port.
        port: u16,
    },
    /// Fills a file system of ours.
    Fill {
        /// Path of the mount point.
        point: PathBuf,
    },
    /// Sets the calendar, and puts it back when it is undone.
    ClockStep {
        /// How far forward, in milliseconds; back, where that is negative.
        by_ms: i64,
        /// The boot of the kernel whose clock is left alone, that of whoever controls.
        not_boot: String,
    },
}

/// An action and the host that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStep {
    /// Name of the host.
    pub host: String,
    /// The action on that host.
    pub action: Action,
}

/// A setting whose effective value is not the requested one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the setting, as the user would write it.
    pub name: String,
    /// The requested value.
    #[serde(alias = "asked")]
    pub requested: String,
    /// Value that is effective.
    pub found: String,
    /// Source of the effective value.
    pub source: String,
}

/// The settings that are effective after an action, read back from where the host keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSettings {
    /// Facts about the effective settings.
    pub facts: Vec<Fact>,
    /// Settings whose effective value is not the requested one.
    pub differences: Vec<Difference>,
}
