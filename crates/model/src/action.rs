//! Actions on a host, as data: planned, shown, sent to it, applied, checked and undone.
//!
//! Nothing here acts. Actions of a host build on each other: the last applied is the first undone.
//! Each is a struct, and `for_each_action` lists them; what `lab` does for one stands in a file
//! of its own there. Every name that an action makes up (mount points, arrays, mappings, files)
//! starts with or lies under a name of dfsbench, so that ours can be distinguished from others.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::lab::{FileSystem, Raid as RaidLevel};
use crate::nfs::NfsVersion;
use crate::system::{FilledFile, FilledStep};

/// Something with blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// A device node that the user named.
    Node(PathBuf),
    /// The loop device of a file that [`LoopFile`] made.
    Loop(PathBuf),
    /// The array that [`Raid`] made, by its name.
    Array(String),
    /// The mapping that [`Crypt`] opened, by its name.
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
    /// That of its MOUNT service of this version, which its portmapper returns.
    Mount {
        /// Version of MOUNT: 1 for NFS v2, 3 for v3.
        version: u32,
    },
}

/// Hands the names of all actions to a macro, such as one that makes an arm of a `match` of each:
/// this is the one list of them.
#[macro_export]
macro_rules! for_each_action {
    ($hand_to:ident) => {
        $hand_to! {
            LoopFile Raid Crypt Format Mount Export Nfsd Ganesha Unfs3 OwnServer Tunnel
            PacketTunnel NfsMount ReadAhead Sysctl Mtu TryPaths Shape CpuFrequency Cores Ram
            NfsdStop Cut Fill ClockStep Service SystemSteps SystemCrash
            SystemCounters AwaitQuiet RemoteMount FuseMount
        }
    };
}

macro_rules! define_action {
    ($($name:ident)+) => {
        /// One thing that is done to one host.
        ///
        /// As JSON it is the fields of the action's struct, and `action` with its name.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(tag = "action", rename_all = "kebab-case")]
        pub enum Action {
            $(#[doc = concat!("Applies [`", stringify!($name), "`].")] $name($name),)+
        }

        $(impl From<$name> for Action {
            fn from(action: $name) -> Self {
                Self::$name(action)
            }
        })+
    };
}

for_each_action!(define_action);

/// Makes a file and a loop device of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoopFile {
    /// The file, which must not exist.
    pub file: PathBuf,
    /// Size of the device in bytes.
    pub bytes: u64,
}

/// Makes an md array. What is on the devices is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raid {
    /// Its name under /dev/md.
    pub name: String,
    /// Level of the array.
    pub level: RaidLevel,
    /// Bytes of a chunk; `None` is what mdadm chooses.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// Devices of the array.
    pub devices: Vec<Device>,
}

/// Encrypts a device with a key that is thrown away. What is on it is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Crypt {
    /// Its name under /dev/mapper.
    pub name: String,
    /// The encrypted device.
    pub device: Device,
    /// Its cipher; `None` is the usual one.
    #[serde(default)]
    pub cipher: Option<String>,
    /// Bits of its key; `None` is the usual number.
    #[serde(default)]
    pub key_bits: Option<u32>,
}

/// Makes a file system. What is on the device is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Format {
    /// The formatted device.
    pub device: Device,
    /// The kind of file system that is made.
    pub file_system: FileSystem,
    /// Options of mkfs.
    pub options: Vec<String>,
}

/// Mounts a file system of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// The device; `None` for memory.
    pub device: Option<Device>,
    /// The kind of file system on it.
    pub file_system: FileSystem,
    /// Path of the mount point; made where it is missing.
    pub point: PathBuf,
    /// Options of mount, such as `noatime` or `size=64m`.
    pub options: Vec<String>,
}

/// Exports a directory through the kernel's server, with exportfs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Export {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Who may mount it, each as exports(5) says, with a space between several.
    pub clients: String,
    /// Options of exports(5).
    pub options: Vec<String>,
}

/// Starts the kernel's server, or changes the running one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nfsd {
    /// Its threads; 0 leaves them, or starts 8.
    pub threads: u32,
    /// Versions that it offers; empty for all that it has.
    pub versions: Vec<NfsVersion>,
    /// Offer UDP, too.
    pub udp: bool,
    /// Largest transfer, in bytes; 0 leaves it.
    pub transfer_max_bytes: u32,
}

/// Starts NFS-Ganesha with one export.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ganesha {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Its threads; 0 for its default.
    pub threads: u32,
    /// Versions that it offers; empty for all that it has.
    pub versions: Vec<NfsVersion>,
}

/// Starts unfs3 with one export.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unfs3 {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Who may mount it, as exports(5) says.
    pub clients: String,
}

/// Starts this program's own server, in memory and without faults.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OwnServer {
    /// Who may call it, by address or name, with a space between several.
    pub clients: String,
    /// Bytes of files that it holds at most; 0 for its default.
    pub memory_bytes: u64,
    /// Serve UDP, too.
    pub udp: bool,
}

/// Opens an ssh tunnel from a port of this host to one of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tunnel {
    /// Destination by which `ssh` finds the other host: a name or address, maybe with a user.
    pub ssh: String,
    /// Configuration file for `ssh -F`; `None` is that of the user.
    pub ssh_config: Option<PathBuf>,
    /// Port of this host's loopback.
    pub local_port: u16,
    /// Address that the other host forwards to, one of its own, as it reaches it.
    pub address: String,
    /// The port there.
    pub remote_port: RemotePort,
    /// Compress what goes through it.
    pub compression: bool,
    /// Cipher; `None` is what ssh chooses.
    pub cipher: Option<String>,
}

/// Opens an ssh tunnel for all packets between a tun device of this host and one of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PacketTunnel {
    /// Destination by which `ssh` finds the other host: a name or address, maybe with a user.
    pub ssh: String,
    /// Configuration file for `ssh -F`; `None` is that of the user.
    pub ssh_config: Option<PathBuf>,
    /// Number of the tun device of the other host.
    pub device: u32,
    /// Address of this host in the tunnel.
    pub near: Ipv4Addr,
    /// Address of the other host in the tunnel.
    pub far: Ipv4Addr,
    /// TCP port at which the other host answers once the tunnel stands.
    pub port: u16,
    /// Compress what goes through it.
    pub compression: bool,
    /// Cipher; `None` is what ssh chooses.
    pub cipher: Option<String>,
}

/// Mounts an export with the kernel's client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsMount {
    /// Host and path of the export, as mount(8) takes it.
    pub source: String,
    /// Path of the mount point; made where it is missing.
    pub point: PathBuf,
    /// Options of nfs(5).
    pub options: Vec<String>,
}

/// Sets the read-ahead of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadAhead {
    /// Path of the mount point.
    pub point: PathBuf,
    /// Number of KiB that are read ahead.
    pub kib: u32,
}

/// Sets a sysctl.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its name, with dots.
    pub name: String,
    /// Value of the setting.
    pub value: String,
}

/// Sets the largest packet of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mtu {
    /// Name of the interface.
    pub interface: String,
    /// Size of a packet in bytes.
    pub bytes: u32,
}

/// Tries whether packets of full size get through to other hosts; changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TryPaths {
    /// The other hosts.
    pub peers: Vec<Peer>,
    /// Bytes of a packet, its IP header included.
    pub bytes: u32,
}

/// Slows down what leaves an interface, with tc.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Name of the interface.
    pub interface: String,
    /// Most bits per second.
    pub rate_bits_per_s: Option<u64>,
    /// Delay of each packet, in microseconds.
    pub delay_us: Option<u32>,
}

/// Limits the frequency of all processors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuFrequency {
    /// The highest, in kHz.
    pub khz: u32,
}

/// Takes processors offline until so many are left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cores {
    /// Processors that stay.
    pub online: u32,
}

/// Holds memory back until so much is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ram {
    /// Memory that is left, in bytes.
    pub left_bytes: u64,
}

/// Stops the kernel's server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsdStop {}

/// Loses all that leaves an interface from a TCP or UDP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cut {
    /// Name of the interface.
    pub interface: String,
    /// Number of the port.
    pub port: u16,
}

/// Fills a file system of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fill {
    /// Path of the mount point.
    pub point: PathBuf,
}

/// Sets the calendar, and puts it back when it is undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockStep {
    /// How far forward, in milliseconds; back, where that is negative.
    pub by_ms: i64,
    /// The boot of the kernel whose clock is left alone, that of the controller.
    pub not_boot: String,
}

/// Prepares a host for a system, as its recipe says; undone, it ends all that was started there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Name of the recipe.
    pub system: String,
    /// Values of its settings, as a plan writes them.
    pub settings: String,
    /// Folder of its own files, which also marks its processes.
    pub dir: PathBuf,
    /// Directory of the server that its files lie below; `None` where it keeps them elsewhere.
    pub storage: Option<PathBuf>,
    /// Programs that the host needs.
    pub programs: Vec<String>,
    /// Packages that have them: the ID of a distribution, and names with blanks between them.
    pub packages: Vec<(String, String)>,
    /// TCP ports that must be free.
    pub ports: Vec<u16>,
    /// Folders that are made first.
    pub folders: Vec<PathBuf>,
    /// Whether those on storage stay when it ends: it finds its files there when it is started
    /// again.
    pub keeps_storage: bool,
    /// Files that are written then.
    pub files: Vec<FilledFile>,
    /// Longest time to end after SIGTERM, in seconds.
    pub stop_within_s: u64,
    /// Files and folders elsewhere that the programs make.
    pub leaves: Vec<PathBuf>,
    /// Command that prints the version; empty for none.
    pub version: Vec<String>,
    /// Promise of its documentation about written data.
    pub durability: String,
}

/// Makes steps of the start of a system on a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemSteps {
    /// Name of the recipe.
    pub system: String,
    /// Folder of its own files, which marks its processes.
    pub dir: PathBuf,
    /// Number of the first of them among those of the system: others come before.
    pub first: usize,
    /// Whether a program was started on this host before: what is waited for ends with it.
    pub has_program: bool,
    /// The steps, in this order.
    pub steps: Vec<FilledStep>,
}

impl SystemSteps {
    /// Returns those that start its programs again on what they have kept: without what makes the
    /// system.
    #[must_use]
    pub fn that_start_again(&self) -> Self {
        let makes_it = |step: &FilledStep| matches!(step, FilledStep::Run { again: false, .. });
        let mut again = self.clone();
        again.steps.retain(|step| !makes_it(step));
        again
    }
}

/// Kills the servers of a system on a host: what is lost then was in their memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemCrash {
    /// Name of the recipe.
    pub system: String,
    /// Folder of its own files, which marks its processes.
    pub dir: PathBuf,
}

/// Reads what the servers of a system on a host have counted, as facts; changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemCounters {
    /// Name of the recipe.
    pub system: String,
    /// Command that prints them.
    pub run: Vec<String>,
}

/// Waits until nothing goes on in the background of a system; changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AwaitQuiet {
    /// Name of the recipe.
    pub system: String,
    /// Command that ends with 0 where it is quiet.
    pub run: Vec<String>,
    /// Text that it prints while it isn't; empty where its exit code tells.
    pub busy: String,
    /// Longest time, in seconds.
    pub within_s: u64,
}

/// Mounts a file system of any type that the kernel or a helper of mount(8) knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteMount {
    /// Type of the file system, as mount(8) takes it.
    pub kind: String,
    /// The source, as mount(8) takes it.
    pub source: String,
    /// Path of the mount point; made where it is missing.
    pub point: PathBuf,
    /// Options of the type.
    pub options: Vec<String>,
}

/// Mounts a system by a program of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuseMount {
    /// Name of the recipe.
    pub system: String,
    /// The command that mounts it.
    pub run: Vec<String>,
    /// Folder of its own files, which also marks its processes.
    pub dir: PathBuf,
    /// Path of the mount point; made where it is missing.
    pub point: PathBuf,
    /// Packages that have the program: the ID of a distribution, and names with blanks between
    /// them.
    pub packages: Vec<(String, String)>,
    /// Longest time until it is mounted, in seconds.
    pub within_s: u64,
    /// Files and folders elsewhere that the program makes.
    pub leaves: Vec<PathBuf>,
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
