//! From the state that a run wants to the actions that make it, in the order in which they build
//! on each other. Pure: nothing is requested of any host.
//!
//! The order is: tuning, devices, file system, kernel's server, mount, export, paths tried, tunnel,
//! client's mount, read-ahead. What is undone for an invalidation is a tail of it, see
//! [`redo_from`]: that is why the kernel's server starts before the file system is mounted, but not
//! before memory is, which a remount would empty.

use std::path::PathBuf;

use model::lab::{MOUNT_POINT, NFS_PORT, OWN_PORT, TUNNEL_MOUNT_PORT, TUNNEL_PORT, bracketed};
use model::soak::FaultKind;
use model::{
    Action, DataPath, Device, FileSystem, Host, Invalidation, LabSpec, LabStep, NfsVersion, Peer,
    Protocol, Raid, RemotePort, ServerKind, action,
};
use thiserror::Error;

use crate::actions::{Layer, layer};

/// Name of our array and of our mapping.
const NAME: &str = "dfsbench";
/// This very host.
const LOOPBACK: &str = "127.0.0.1";
/// Smallest and first size of TCP's buffers, in bytes: to receive, to send.
///
/// **Source:** tcp(7), `tcp_rmem` and `tcp_wmem`.
const BUFFERS: [(&str, &str, [u64; 2]); 2] = [
    ("net.ipv4.tcp_rmem", "net.core.rmem_max", [4_096, 131_072]),
    ("net.ipv4.tcp_wmem", "net.core.wmem_max", [4_096, 16_384]),
];

/// Why a state can't be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ComposeError {
    /// A file system needs a device.
    #[error("{0} needs a device: give `devices`, or `loop_size` for files")]
    NoDevice(FileSystem),
    /// A level of RAID wants more devices.
    #[error("RAID {level} needs at least {needed} devices, and there are {given}")]
    FewDevices {
        /// Level of the array.
        level: Raid,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// Nobody knows how other hosts reach this one.
    #[error("host `{0}` has no address for the other hosts: give its `address`")]
    NoAddress(String),
    /// The options are those of exports(5).
    #[error("`export_options` are those of the kernel's server, and {0} knows none of them")]
    NoExportOptions(ServerKind),
    /// Nobody knows which interface is measured.
    #[error("host `{0}` has no interface that could be tuned: give its `interface`")]
    NoInterface(String),
}

/// Turns the state that a run wants into actions for its hosts, the first first.
///
/// # Errors
/// Where the state contradicts itself or leaves out what is needed.
pub fn compose(spec: &LabSpec) -> Result<Vec<LabStep>, ComposeError> {
    let mut steps = Vec::new();
    tune(spec, &mut steps)?;
    let server = |action| LabStep { host: spec.server.name.clone(), action };
    let (devices, device) = devices(spec)?;
    steps.extend(devices.into_iter().map(server));
    let mount = mount(spec, device).map(server);
    let in_memory = spec.storage.file_system == FileSystem::Tmpfs;
    let serves = spec.is_served();
    let nfsd = (serves && spec.serving.kind == ServerKind::Knfsd).then(|| server(nfsd(spec)));
    if in_memory {
        steps.extend(mount);
        steps.extend(nfsd);
    } else {
        steps.extend(nfsd);
        steps.extend(mount);
    }
    if serves {
        steps.extend(serve(spec)?.map(server));
        try_paths(spec, &mut steps);
        connect(spec, &mut steps)?;
    }
    Ok(steps)
}

/// Returns the first step that is undone, and applied again, to invalidate what hosts remember.
///
/// Between undoing and applying caches are dropped on every host. What is in memory only is never
/// unmounted: of that, the steps after it are redone.
pub fn redo_from(steps: &[LabStep], how: Invalidation) -> usize {
    let has_client = steps.iter().any(|step| layer(&step.action) == Layer::Client);
    let redone: &[Layer] = match how {
        Invalidation::None | Invalidation::Files | Invalidation::Caches => &[],
        Invalidation::Remount if has_client => &[Layer::Client],
        // On the server's own disk there is no other mount.
        Invalidation::Remount => &[Layer::Storage],
        Invalidation::ServerRemount => &[Layer::Client, Layer::Storage, Layer::Export],
        Invalidation::ServerRestart => {
            &[Layer::Client, Layer::Storage, Layer::Export, Layer::Server]
        }
    };
    for (index, step) in steps.iter().enumerate() {
        match layer(&step.action) {
            Layer::Memory if redone.contains(&Layer::Storage) => return index + 1,
            layer if redone.contains(&layer) => return index,
            _ => {}
        }
    }
    steps.len()
}

fn tune(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let tuning = &spec.tuning;
    if spec.path != DataPath::Disk {
        tune_network(spec, steps)?;
    }
    let mut push = |host: &Host, action| steps.push(LabStep { host: host.name.clone(), action });
    if let Some(slots) = tuning.slots.filter(|_| spec.path != DataPath::Disk) {
        for client in spec.clients() {
            push(client, sysctl("sunrpc.tcp_max_slot_table_entries", slots.to_string()));
        }
    }
    if let Some(khz) = tuning.cpu_khz {
        push(&spec.server, Action::CpuFrequency(action::CpuFrequency { khz }));
    }
    if let Some(online) = tuning.cores {
        push(&spec.server, Action::Cores(action::Cores { online }));
    }
    for (name, value) in &tuning.server_sysctls {
        push(&spec.server, sysctl(name, value.clone()));
    }
    for (name, value) in &tuning.client_sysctls {
        spec.clients().for_each(|client| push(client, sysctl(name, value.clone())));
    }
    Ok(())
}

/// Tunes both ends of every connection, each kind on all hosts before the next.
fn tune_network(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let tuning = &spec.tuning;
    let mut on_each = |action: &dyn Fn(&Host) -> Result<Action, ComposeError>| {
        spec.hosts().try_for_each(|host| {
            steps.push(LabStep { host: host.name.clone(), action: action(host)? });
            Ok(())
        })
    };
    if let Some(bytes) = tuning.mtu_bytes {
        on_each(&|host| Ok(Action::Mtu(action::Mtu { interface: interface(spec, host)?, bytes })))?;
    }
    if tuning.rate_bits_per_s.is_some() || tuning.delay_us.is_some() {
        on_each(&|host| {
            Ok(Action::Shape(action::Shape {
                interface: interface(spec, host)?,
                rate_bits_per_s: tuning.rate_bits_per_s,
                delay_us: tuning.delay_us,
            }))
        })?;
    }
    if let Some(name) = &tuning.congestion {
        on_each(&|_| Ok(sysctl("net.ipv4.tcp_congestion_control", name.clone())))?;
    }
    let Some(bytes) = tuning.tcp_buffer_bytes else { return Ok(()) };
    for (name, most, first) in BUFFERS {
        let [smallest, first] = first.map(|size| size.min(bytes));
        on_each(&|_| Ok(sysctl(most, bytes.to_string())))?;
        on_each(&|_| Ok(sysctl(name, format!("{smallest} {first} {bytes}"))))?;
    }
    Ok(())
}

fn sysctl(name: &str, value: String) -> Action {
    Action::Sysctl(action::Sysctl { name: name.to_owned(), value })
}

/// Returns the step by which a host that a run sets up is disturbed, and which host it is.
///
/// # Errors
/// When none of the run's hosts can be disturbed so; in a sentence.
pub fn disturbance(spec: &LabSpec, fault: FaultKind) -> Result<LabStep, String> {
    let server = &spec.server;
    let action = match fault {
        FaultKind::NfsdStop if spec.serving.kind == ServerKind::Knfsd => {
            Action::NfsdStop(action::NfsdStop {})
        }
        FaultKind::NetworkCut => {
            let interface = interface(spec, server).map_err(|error| error.to_string())?;
            Action::Cut(action::Cut { interface, port: spec.serving.kind.port() })
        }
        FaultKind::DiskFull
            if spec.has_storage() && spec.storage.file_system != FileSystem::Existing =>
        {
            Action::Fill(action::Fill { point: spec.storage.place().to_owned() })
        }
        FaultKind::NfsdStop => return Err(format!("{} is served by no nfsd", server.name)),
        FaultKind::DiskFull => {
            return Err("only a file system that the plan makes is filled (file_system)".to_owned());
        }
        other => return Err(format!("nobody can do {other} to {}", server.name)),
    };
    Ok(LabStep { host: server.name.clone(), action })
}

/// Has every host try the way to all others, where packets are of a size that was requested: a way
/// that drops them hangs whatever is mounted over it. Above what is served, since it names the
/// clients as an export does: one more of them leaves what is below alone.
fn try_paths(spec: &LabSpec, steps: &mut Vec<LabStep>) {
    let Some(bytes) = spec.tuning.mtu_bytes.filter(|_| spec.leaves_server()) else { return };
    for host in spec.hosts() {
        let action = Action::TryPaths(action::TryPaths { peers: peers(spec, host), bytes });
        steps.push(LabStep { host: host.name.clone(), action });
    }
}

/// The other hosts of a run, as a host reaches them; those that nobody gave an address are left
/// out, and so is what is the same machine.
fn peers(spec: &LabSpec, host: &Host) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for other in spec.hosts() {
        let Some(address) = other.reached_at() else { continue };
        let is_known = peers.iter().any(|peer| peer.address == address);
        if Some(address) != host.reached_at() && other.name != host.name && !is_known {
            peers.push(Peer { name: other.name.clone(), address: address.to_owned() });
        }
    }
    peers
}

/// The interface that data of a run goes through.
fn interface(spec: &LabSpec, host: &Host) -> Result<String, ComposeError> {
    match (&host.interface, spec.path) {
        (_, DataPath::Loopback) => Ok("lo".to_owned()),
        (Some(interface), _) => Ok(interface.clone()),
        (None, _) => Err(ComposeError::NoInterface(host.name.clone())),
    }
}

/// Makes what the file system lies on, and the file system.
fn devices(spec: &LabSpec) -> Result<(Vec<Action>, Option<Device>), ComposeError> {
    let storage = &spec.storage;
    let file_system = storage.file_system;
    if !storage.is_formatted() || !spec.has_storage() {
        return Ok((Vec::new(), None));
    }
    let mut actions = Vec::new();
    let device = |path: &PathBuf| match storage.loop_bytes {
        0 => Device::Node(path.clone()),
        _ => Device::Loop(path.clone()),
    };
    if storage.loop_bytes != 0 {
        let files = storage.used().iter().cloned();
        actions
            .extend(files.map(|file| {
                Action::LoopFile(action::LoopFile { file, bytes: storage.loop_bytes })
            }));
    }
    let mut devices: Vec<Device> = storage.used().iter().map(device).collect();
    if storage.raid != Raid::None {
        enough(storage.raid, devices.len())?;
        let (name, level) = (NAME.to_owned(), storage.raid);
        actions.push(Action::Raid(action::Raid { name: name.clone(), level, devices }));
        devices = vec![Device::Array(name)];
    }
    let Some(device) = devices.into_iter().next() else {
        return Err(ComposeError::NoDevice(file_system));
    };
    let device = if storage.crypt {
        actions.push(Action::Crypt(action::Crypt { name: NAME.to_owned(), device }));
        Device::Mapped(NAME.to_owned())
    } else {
        device
    };
    let options = storage.format_options.clone();
    actions.push(Action::Format(action::Format { device: device.clone(), file_system, options }));
    Ok((actions, Some(device)))
}

/// Checks that an array has enough devices. **Source:** md(4).
const fn enough(level: Raid, given: usize) -> Result<(), ComposeError> {
    let needed = match level {
        Raid::None => 1,
        Raid::Raid0 | Raid::Raid1 | Raid::Raid10 => 2,
        Raid::Raid5 => 3,
        Raid::Raid6 => 4,
    };
    if given < needed {
        return Err(ComposeError::FewDevices { level, needed, given });
    }
    Ok(())
}

fn mount(spec: &LabSpec, device: Option<Device>) -> Option<Action> {
    let storage = &spec.storage;
    let mut options = storage.mount_options.clone();
    let file_system = storage.file_system;
    match file_system {
        _ if !spec.has_storage() => return None,
        FileSystem::Existing => return None,
        FileSystem::Tmpfs if storage.size_bytes != 0 => {
            options.push(format!("size={}", storage.size_bytes));
        }
        _ => {}
    }
    Some(Action::Mount(action::Mount {
        device,
        file_system,
        point: storage.place().to_owned(),
        options,
    }))
}

fn nfsd(spec: &LabSpec) -> Action {
    let serving = &spec.serving;
    Action::Nfsd(action::Nfsd {
        threads: serving.threads,
        versions: serving.versions.clone(),
        udp: serving.udp,
        transfer_max_bytes: serving.transfer_max_bytes,
    })
}

/// Exports the directory, by the kernel's server or one of its own.
fn serve(spec: &LabSpec) -> Result<Option<Action>, ComposeError> {
    let (serving, directory) = (&spec.serving, spec.storage.place().to_owned());
    let exports = matches!(serving.kind, ServerKind::Knfsd | ServerKind::Running);
    if !exports && !serving.export_options.is_empty() {
        return Err(ComposeError::NoExportOptions(serving.kind));
    }
    Ok(match serving.kind {
        ServerKind::Running => None,
        ServerKind::Ganesha => {
            let versions = serving.versions.clone();
            Some(Action::Ganesha(action::Ganesha { directory, threads: serving.threads, versions }))
        }
        ServerKind::Unfs3 => {
            Some(Action::Unfs3(action::Unfs3 { directory, clients: clients(spec)? }))
        }
        ServerKind::Own => {
            let memory_bytes = spec.storage.size_bytes;
            Some(Action::OwnServer(action::OwnServer {
                clients: clients(spec)?,
                memory_bytes,
                udp: serving.udp,
            }))
        }
        ServerKind::Knfsd => {
            let options = export_options(spec);
            Some(Action::Export(action::Export { directory, clients: clients(spec)?, options }))
        }
    })
}

/// Who may mount the export: the clients as the server sees them.
fn clients(spec: &LabSpec) -> Result<String, ComposeError> {
    match spec.path {
        DataPath::Network => {
            let all: Result<Vec<String>, _> = spec.clients().map(reach).collect();
            all.map(|addresses| addresses.join(" "))
        }
        // What a tunnel forwards comes from the server's own address.
        DataPath::Tunnel if tunnel_end(spec) != LOOPBACK => {
            Ok(format!("{LOOPBACK} {}", tunnel_end(spec)))
        }
        DataPath::Disk | DataPath::Loopback | DataPath::Tunnel => Ok(LOOPBACK.to_owned()),
    }
}

fn export_options(spec: &LabSpec) -> Vec<String> {
    let mut options = spec.serving.export_options.clone();
    let has = |options: &[String], names: &[&str]| {
        let name = |option: &String| option.split('=').next().unwrap_or_default().to_owned();
        options.iter().any(|option| names.contains(&name(option).as_str()))
    };
    let mut add = |others: &[&str], option: &str| {
        if !has(&options, others) {
            options.push(option.to_owned());
        }
    };
    add(&["ro", "rw"], "rw");
    // Its checks cost and protect little; exportfs warns where neither is said.
    add(&["subtree_check", "no_subtree_check"], "no_subtree_check");
    // The program works as root on the client, too, as it does on the disk.
    add(&["root_squash", "no_root_squash", "all_squash"], "no_root_squash");
    if spec.path == DataPath::Tunnel || spec.own_client {
        // ssh comes from any port, and so does the program's own client.
        add(&["secure", "insecure"], "insecure");
    }
    if spec.storage.file_system == FileSystem::Tmpfs {
        // Memory has no UUID by which clients could know it. Any number does.
        add(&["fsid"], "fsid=3573");
    }
    options
}

/// How the other hosts reach a host.
fn reach(host: &Host) -> Result<String, ComposeError> {
    let address = host.reached_at().map(str::to_owned);
    address.ok_or_else(|| ComposeError::NoAddress(host.name.clone()))
}

/// Mounts the export on the clients, through a tunnel where one is wanted; each step on all of
/// them before the next.
fn connect(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    match spec.serving.kind.protocol() {
        Protocol::Nfs => connect_nfs(spec, steps),
    }
}

/// Mounts an export of NFS on the clients.
fn connect_nfs(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let mut on_each = |action: &dyn Fn(&Host) -> Result<Action, ComposeError>| {
        spec.clients().try_for_each(|host| {
            steps.push(LabStep { host: host.name.clone(), action: action(host)? });
            Ok(())
        })
    };
    let mounting = &spec.mounting;
    let is_v4 = mounting.nfs.version >= NfsVersion::V4_0;
    let mut options = mounting.all_options();
    if spec.path == DataPath::Tunnel {
        let is_ours = spec.serving.kind == ServerKind::Own;
        let nfs = RemotePort::Number(if is_ours { OWN_PORT } else { NFS_PORT });
        let mount = match mounting.nfs.version {
            _ if is_ours => nfs,
            // **Source:** RFC 1094, appendix A; RFC 1813, appendix I.
            NfsVersion::V2 => RemotePort::Mount { version: 1 },
            _ => RemotePort::Mount { version: 3 },
        };
        let tunnels = [(TUNNEL_PORT, nfs), (TUNNEL_MOUNT_PORT, mount)];
        for (local_port, remote_port) in tunnels.into_iter().take(if is_v4 { 1 } else { 2 }) {
            on_each(&|client| {
                Ok(Action::Tunnel(action::Tunnel {
                    ssh: ssh_destination(&spec.server)?,
                    // The file is this host's.
                    ssh_config: spec.server.ssh_config.clone().filter(|_| client.ssh.is_none()),
                    local_port,
                    address: tunnel_end(spec).to_owned(),
                    remote_port,
                    compression: spec.tunnelling.compression,
                    cipher: spec.tunnelling.cipher.clone(),
                }))
            })?;
        }
    }
    if let Some((port, mount_port)) = spec.ports() {
        options.push(format!("port={port}"));
        if !is_v4 {
            options.push(format!("mountport={mount_port}"));
            // Locks would go past the tunnel, or to the kernel's server.
            options.extend(["mountproto=tcp".to_owned(), "nolock".to_owned()]);
        }
    }
    if !spec.is_mounted() {
        return Ok(());
    }
    let address = match spec.path {
        DataPath::Network => reach(&spec.server)?,
        _ => "127.0.0.1".to_owned(),
    };
    let source = format!("{}:{}", bracketed(&address), spec.export().display());
    let point = PathBuf::from(MOUNT_POINT);
    on_each(&|_| {
        let (source, point, options) = (source.clone(), point.clone(), options.clone());
        Ok(Action::NfsMount(action::NfsMount { source, point, options }))
    })?;
    if let Some(kib) = mounting.read_ahead_kib {
        on_each(&|_| Ok(Action::ReadAhead(action::ReadAhead { point: point.clone(), kib })))?;
    }
    Ok(())
}

/// Returns the address that the server's end of a tunnel forwards to, as the plan has it.
fn tunnel_end(spec: &LabSpec) -> &str {
    spec.server.address.as_deref().unwrap_or(LOOPBACK)
}

/// How a client's ssh finds the server.
fn ssh_destination(server: &Host) -> Result<String, ComposeError> {
    server.ssh.clone().map_or_else(|| reach(server), Ok)
}

#[cfg(test)]
mod tests;
