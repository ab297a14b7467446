//! Actions on a host, as data that can be planned, displayed, sent, applied, checked and undone.
//!
//! Nothing here performs them. Actions on a host build on each other, so the last one applied is
//! the first one undone. Each is a struct listed in `for_each_action`; `lab` implements each one in
//! a file of its own. All names made up by an action (mount points, arrays, mappings, files) are
//! prefixed with, or located below, a dfsbench name, so that they can be told apart from others.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::systems::fact::Fact;
use crate::systems::lab::{FileSystem, NfsdIo, Raid as RaidLevel};
use crate::systems::system::{FilledFile, FilledStep};
use crate::targets::nfs::NfsVersion;
use crate::text::words::words;

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// A device node named by the user.
    Node(PathBuf),
    /// The loop device of a file created by [`LoopFile`].
    Loop(PathBuf),
    /// The array created by [`Raid`], by name.
    Array(String),
    /// The mapping opened by [`Crypt`], by name.
    Mapped(String),
}

/// Another host, as seen from one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Name of the host in plans.
    pub name: String,
    /// Address, or a name that resolves to it.
    pub address: String,
}

/// A port on the remote end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemotePort {
    /// The port with this number.
    Number(u16),
    /// The port of its MOUNT service of this version, as reported by its portmapper.
    Mount {
        /// Version of MOUNT: 1 for NFS v2, 3 for v3.
        version: u32,
    },
}

/// Passes the names of all actions to a macro, for example one that generates a `match` arm for
/// each. This is the only list of actions.
#[macro_export]
macro_rules! for_each_action {
    ($hand_to:ident) => {
        $hand_to! {
            LoopFile Raid Crypt Format Mount Export NfsdModes Nfsd Ganesha Unfs3 OwnServer Tunnel
            PacketTunnel Localio KernelSwitch NfsMount ReadAhead Sysctl Mtu TryPaths Shape
            CpuFrequency Cores Ram NfsdStop Cut Fill ClockStep Service SystemSteps SystemCrash
            SystemCounters SystemCommand SystemExits AwaitQuiet RemoteMount FuseMount
        }
    };
}

macro_rules! define_action {
    ($($name:ident)+) => {
        /// An action on one host.
        ///
        /// Its JSON form contains the fields of the action's struct, plus `action` with its name.
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

/// Creates a file and a loop device for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoopFile {
    /// The file, which must not exist.
    pub file: PathBuf,
    /// Size of the device in bytes.
    pub bytes: u64,
}

/// Creates an md array. All data on the devices is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raid {
    /// Name under /dev/md.
    pub name: String,
    pub level: RaidLevel,
    /// Chunk size in bytes; `None` lets mdadm choose.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    pub devices: Vec<Device>,
}

/// Encrypts a device with a throwaway key. All data on it is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Crypt {
    /// Name under /dev/mapper.
    pub name: String,
    /// The encrypted device.
    pub device: Device,
    /// Cipher, or `None` for the default.
    #[serde(default)]
    pub cipher: Option<String>,
    /// Key size in bits, or `None` for the default.
    #[serde(default)]
    pub key_bits: Option<u32>,
}

/// Creates a file system. All data on the device is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Format {
    pub device: Device,
    /// Kind of file system.
    pub file_system: FileSystem,
    /// Options of mkfs.
    pub options: Vec<String>,
}

/// Mounts a local file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// The device, or `None` for memory.
    pub device: Option<Device>,
    /// Kind of file system.
    pub file_system: FileSystem,
    /// Mount point; created if missing.
    pub point: PathBuf,
    /// Options of mount, such as `noatime` or `size=64m`.
    pub options: Vec<String>,
}

/// Exports a directory through the kernel's NFS server, with exportfs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Export {
    pub directory: PathBuf,
    /// Hosts that may mount it, in the syntax of exports(5), separated by spaces.
    pub clients: String,
    /// Options of exports(5).
    pub options: Vec<String>,
}

/// Starts the kernel's NFS server, or reconfigures the running one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nfsd {
    /// Number of threads, or the largest one if it is dynamic; 0 keeps the current number, or
    /// starts 8.
    pub threads: u32,
    /// The smallest number of threads if it is dynamic; 0 if it is fixed.
    #[serde(default)]
    pub threads_min: u32,
    /// NFS versions to offer; empty for all supported ones.
    pub versions: Vec<NfsVersion>,
    /// Also offer UDP.
    pub udp: bool,
    /// Also listen for RDMA, on [`RDMA_PORT`](crate::lab::RDMA_PORT).
    #[serde(default)]
    pub rdma: bool,
    /// Maximum transfer size in bytes; 0 keeps the current one.
    pub transfer_max_bytes: u32,
}

/// Sets how the kernel's NFS server reads and writes files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsdModes {
    /// How it reads; `None` keeps the current mode.
    pub read: Option<NfsdIo>,
    /// How it writes; `None` keeps the current mode.
    pub write: Option<NfsdIo>,
    /// A directory that it exports.
    pub directory: PathBuf,
}

/// Starts NFS-Ganesha with one export.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ganesha {
    pub directory: PathBuf,
    /// Number of threads; 0 for its default.
    pub threads: u32,
    /// NFS versions to offer; empty for all supported ones.
    pub versions: Vec<NfsVersion>,
}

/// Starts unfs3 with one export.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unfs3 {
    pub directory: PathBuf,
    /// Hosts that may mount it, in the syntax of exports(5).
    pub clients: String,
}

/// Starts our own server, in memory and without faults.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OwnServer {
    /// Hosts that may call it, by address or name, separated by spaces.
    pub clients: String,
    /// Maximum bytes of file data; 0 for its default.
    pub memory_bytes: u64,
    /// Also serve UDP.
    pub udp: bool,
}

/// Opens an ssh tunnel from a port on this host to a port on another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tunnel {
    /// Destination of the other host for `ssh`: a name or address, optionally with a user.
    pub ssh: String,
    /// Configuration file for `ssh -F`, or `None` for the user's.
    pub ssh_config: Option<PathBuf>,
    /// Port on this host's loopback address.
    pub local_port: u16,
    /// Address, of its own or reachable from it, that the other host forwards to.
    pub address: String,
    /// Port on that address.
    pub remote_port: RemotePort,
    /// Compress the traffic.
    pub compression: bool,
    /// Cipher, or `None` to let ssh choose.
    pub cipher: Option<String>,
}

/// Opens an ssh tunnel for IP packets between a tun device on this host and one on another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PacketTunnel {
    /// Destination of the other host for `ssh`: a name or address, optionally with a user.
    pub ssh: String,
    /// Configuration file for `ssh -F`, or `None` for the user's.
    pub ssh_config: Option<PathBuf>,
    /// Number of the tun device of the other host.
    pub device: u32,
    /// Address of this host in the tunnel.
    pub near: Ipv4Addr,
    /// Address of the other host in the tunnel.
    pub far: Ipv4Addr,
    /// TCP port on which the other host answers once the tunnel is up.
    pub port: u16,
    /// Compress the traffic.
    pub compression: bool,
    /// Cipher, or `None` to let ssh choose.
    pub cipher: Option<String>,
}

/// Turns LOCALIO on or off for the kernel's NFS client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Localio {
    /// Whether the client may bypass RPC for a server on this host.
    pub is_on: bool,
}

words! {
    /// A switch of a kernel's NFS server or client, named after its setting.
    SwitchName {
        /// The server grants delegations.
        ServerDelegations = "server_delegations",
        /// The server lets clients keep timestamps of delegated files.
        DelegatedTimestamps = "delegated_timestamps",
        /// The client asks for delegations of directories.
        DirectoryDelegations = "directory_delegations",
    }
}

/// Turns something on or off in the kernel's NFS server or client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelSwitch {
    pub switch: SwitchName,
    pub is_on: bool,
}

/// Mounts an export with the kernel's NFS client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsMount {
    /// Host and path of the export, in the syntax of mount(8).
    pub source: String,
    /// Mount point; created if missing.
    pub point: PathBuf,
    /// Options of nfs(5).
    pub options: Vec<String>,
    /// Minimum number of connections to the server that the client must have afterwards, if the
    /// mount only adds a connection to those of an earlier one (trunking).
    #[serde(default)]
    pub trunk_connections: Option<u32>,
}

/// Sets the read-ahead of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadAhead {
    /// Path of the mount point.
    pub point: PathBuf,
    /// Read-ahead in KiB.
    pub kib: u32,
}

/// Sets a sysctl.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sysctl {
    /// Name with dots.
    pub name: String,
    pub value: String,
}

/// Sets the MTU of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mtu {
    pub interface: String,
    /// MTU in bytes.
    pub bytes: u32,
}

/// Checks whether full-size packets reach other hosts. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TryPaths {
    pub peers: Vec<Peer>,
    /// Packet size in bytes, including the IP header.
    pub bytes: u32,
}

/// Limits the outgoing traffic of an interface, with tc.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    pub interface: String,
    /// Maximum rate in bits per second.
    pub rate_bits_per_s: Option<u64>,
    /// Delay added to each packet, in microseconds.
    pub delay_us: Option<u32>,
}

/// Limits the frequency of all CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuFrequency {
    /// Maximum frequency in kHz.
    pub khz: u32,
}

/// Takes CPUs offline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cores {
    /// Number of CPUs that stay online.
    pub online: u32,
}

/// Locks memory so that only part of it remains usable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ram {
    /// Memory that remains, in bytes.
    pub left_bytes: u64,
}

/// Stops the kernel's server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsdStop {}

/// Drops all packets leaving an interface from a TCP or UDP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cut {
    pub interface: String,
    pub port: u16,
}

/// Fills up one of our file systems.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fill {
    /// Path of the mount point.
    pub point: PathBuf,
}

/// Steps the wall clock, and sets it back when undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockStep {
    /// Offset in milliseconds; negative means back.
    pub by_ms: i64,
    /// Boot ID of the kernel whose clock must not be changed: the controller's.
    pub not_boot: String,
}

/// How the commands of a recipe are run on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommandContext {
    /// Folders of programs, as in the recipe.
    pub path: Vec<String>,
    /// Environment variables; secrets in them are markers.
    pub environment: Vec<(String, String)>,
}

/// Prepares a host for a system according to its recipe. Undoing it stops everything that was
/// started there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Name of the recipe.
    pub system: String,
    /// Values of the recipe's settings, as in a plan.
    pub settings: String,
    /// Directory for its own files, which also identifies its processes.
    pub dir: PathBuf,
    /// Directory on the server that contains its files; `None` if it keeps them elsewhere.
    pub storage: Option<PathBuf>,
    /// How its commands are run.
    pub context: CommandContext,
    /// Programs that must be installed on the host.
    pub programs: Vec<String>,
    /// Packages that provide them: the ID of a distribution, and package names separated by blanks.
    pub packages: Vec<(String, String)>,
    /// TCP ports that must be free.
    pub ports: Vec<u16>,
    /// Directories that are created first.
    pub folders: Vec<PathBuf>,
    /// Keep the directories on storage when the system is stopped, so that it finds its files when
    /// started again.
    pub keeps_storage: bool,
    /// Files that are written next.
    pub files: Vec<FilledFile>,
    /// Time limit for stopping after SIGTERM, in seconds.
    pub stop_within_s: u64,
    /// Files and directories that the programs create elsewhere.
    pub leaves: Vec<PathBuf>,
    /// Command that prints the version, or empty for none.
    pub version: Vec<String>,
    /// What the documentation promises about the durability of written data.
    pub durability: String,
}

/// Runs some of the start-up steps of a system on a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemSteps {
    /// Name of the recipe.
    pub system: String,
    /// Directory for its own files, which identifies its processes.
    pub dir: PathBuf,
    /// How its commands are run.
    pub context: CommandContext,
    /// Index of the first of these steps among all steps of the system.
    pub first: usize,
    /// A program was started on this host earlier; stop waiting if it exits.
    pub has_program: bool,
    /// The steps, in this order.
    pub steps: Vec<FilledStep>,
}

impl SystemSteps {
    /// Returns the steps that restart the programs on existing data, without those that create the
    /// system.
    #[must_use]
    pub fn that_start_again(&self) -> Self {
        let makes_it = |step: &FilledStep| matches!(step, FilledStep::Run { again: false, .. });
        let mut again = self.clone();
        again.steps.retain(|step| !makes_it(step));
        again
    }
}

/// Kills the servers of a system on a host, which loses the data in their memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemCrash {
    /// Name of the recipe.
    pub system: String,
    /// Directory for its own files, which identifies its processes.
    pub dir: PathBuf,
}

/// Reads the counters of a system's servers on a host as facts. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemCounters {
    /// Name of the recipe.
    pub system: String,
    /// How its commands are run.
    pub context: CommandContext,
    /// Command that prints the counters.
    pub run: Vec<String>,
}

/// Runs a command of a recipe once, and reports its exit status and the last line it printed as
/// facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemCommand {
    /// Name of the recipe.
    pub system: String,
    /// How its commands are run.
    pub context: CommandContext,
    /// The command.
    pub run: Vec<String>,
}

impl SystemCommand {
    /// Name of the fact with the exit status: `0`, or how it failed.
    pub const STATUS: &'static str = "exit status";
    /// Name of the fact with the last line of stdout, or of stderr if that is empty.
    pub const PRINTED: &'static str = "printed";
}

/// Reports the programs of a system that have exited on a host, as facts. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SystemExits {
    /// Name of the recipe.
    pub system: String,
    /// Directory for its own files, which identifies its processes.
    pub dir: PathBuf,
    /// Commands that should keep running, each with the number of its step.
    pub started: Vec<(usize, Vec<String>)>,
}

/// Waits until a system's background activity has ended. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AwaitQuiet {
    /// Name of the recipe.
    pub system: String,
    /// How its commands are run.
    pub context: CommandContext,
    /// Command that exits with 0 when the system is idle.
    pub run: Vec<String>,
    /// Text that the command prints while the system is busy; empty if the exit code shows it.
    pub busy: String,
    /// Time limit in seconds.
    pub within_s: u64,
}

/// Mounts a file system of any type supported by the kernel or a helper of mount(8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteMount {
    /// Type for mount(8).
    pub kind: String,
    /// Source for mount(8).
    pub source: String,
    /// Mount point; created if missing.
    pub point: PathBuf,
    /// Mount options.
    pub options: Vec<String>,
}

/// Mounts a system with a program of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuseMount {
    /// Name of the recipe.
    pub system: String,
    /// How its commands are run.
    pub context: CommandContext,
    pub run: Vec<String>,
    /// Directory for its own files, which also identifies its processes.
    pub dir: PathBuf,
    /// Mount point; created if missing.
    pub point: PathBuf,
    /// Packages that provide the program: the ID of a distribution, and package names separated by
    /// blanks.
    pub packages: Vec<(String, String)>,
    /// Time limit for mounting, in seconds.
    pub within_s: u64,
    /// Files and directories that the program creates elsewhere.
    pub leaves: Vec<PathBuf>,
}

/// An action and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStep {
    pub host: String,
    pub action: Action,
}

/// A setting whose effective value differs from the requested one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Name of the setting, as users write it.
    pub name: String,
    pub requested: String,
    /// The effective value.
    pub found: String,
    /// Source of the effective value.
    pub source: String,
}

/// The settings in effect after an action, as read back from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSettings {
    pub facts: Vec<Fact>,
    /// Settings that differ from what was requested.
    pub differences: Vec<Difference>,
}
