//! From the state that a run wants to the actions that make it, in the order in which they build
//! on each other. Pure: nothing is requested of any host.
//!
//! The order is: tuning, devices, file system, kernel's server, mount, export, paths tried, tunnel,
//! client's mount, read-ahead. What is undone for an invalidation is a tail of it, see
//! [`redo_from`]: that is why the kernel's server starts before the file system is mounted, but not
//! before memory is, which a remount would empty.

mod systems;

use model::lab::{NFS_PORT, OWN_PORT, TUNNEL_MOUNT_PORT, TUNNEL_PORT, bracketed};
use model::soak::FaultKind;
use model::system::RecipeError;
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
    /// It isn't known how other hosts reach this one.
    #[error("host `{0}` has no address for the other hosts: give its `address`")]
    NoAddress(String),
    /// Only the kernel's server is given several directories.
    #[error("{0} serves one directory only, and there are {1}: server_kind knfsd serves several")]
    OneExport(ServerKind, usize),
    /// The options are those of exports(5).
    #[error("`export_options` are those of the kernel's server, and {0} knows none of them")]
    NoExportOptions(ServerKind),
    /// A recipe can't be filled in.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// It isn't known which interface is measured.
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
    let mut actions = Vec::new();
    let devices = prepare_devices(spec, &mut actions)?;
    let mounts = mounts(spec, devices);
    let serves = spec.is_served();
    let has_nfsd = spec.has_server_kind() && spec.serving.kind == ServerKind::Knfsd;
    let nfsd = if has_nfsd { Some(nfsd(spec)) } else { None };
    // A restart of the server redoes all from its start on. A file system on devices is remounted
    // by that, as it shall be; one in memory would be empty, and so is mounted before.
    if spec.storage.file_system == FileSystem::Tmpfs {
        actions.extend(mounts);
        actions.extend(nfsd);
    } else {
        actions.extend(nfsd);
        actions.extend(mounts);
    }
    if serves {
        actions.extend(serve(spec)?);
    }
    for action in actions {
        steps.push(step(&spec.server, action));
    }
    if serves {
        try_paths(spec, &mut steps);
        connect(spec, &mut steps)?;
    }
    Ok(steps)
}

fn step(host: &Host, action: Action) -> LabStep {
    LabStep { host: host.name.clone(), action }
}

/// Returns the first step that is undone, and applied again, to invalidate what hosts remember.
///
/// Between undoing and applying caches are dropped on every host. What is in memory only is never
/// unmounted: of that, the steps after it are redone.
pub fn redo_from(steps: &[LabStep], how: Invalidation) -> usize {
    let has = |wanted| steps.iter().any(|step| layer(&step.action) == wanted);
    let (has_client, has_server) = (has(Layer::Client), has(Layer::Server) || has(Layer::Export));
    let redone: &[Layer] = match how {
        Invalidation::None | Invalidation::Files | Invalidation::Caches => &[],
        Invalidation::Remount if has_client => &[Layer::Client],
        // A client of ours mounts nothing: it connects again before each pass. What the server
        // remembers is not for a client to take from it.
        Invalidation::Remount if has_server => &[],
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

/// Returns the first of the applied steps that is undone so that file systems, exports and mounts
/// are made again, see [`model::Fresh`]; arrays and mappings below them are kept.
pub fn fresh_from(steps: &[LabStep]) -> usize {
    let is_made_again = |step: &LabStep| match &step.action {
        // Servers of ours that hold the export themselves: they are started with it.
        Action::Ganesha(_) | Action::Unfs3(_) | Action::OwnServer(_) => true,
        action => matches!(
            layer(action),
            Layer::FileSystem | Layer::Storage | Layer::Memory | Layer::Export | Layer::Client
        ),
    };
    steps.iter().position(is_made_again).unwrap_or(steps.len())
}

fn tune(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let (tuning, server) = (&spec.tuning, &spec.server);
    if spec.path != DataPath::Disk {
        tune_network(spec, steps)?;
        if let Some(slots) = tuning.slots {
            let name = "sunrpc.tcp_max_slot_table_entries";
            set_sysctl(steps, spec.clients(), name, &slots.to_string());
        }
    }
    if let Some(khz) = tuning.cpu_khz {
        steps.push(step(server, Action::CpuFrequency(action::CpuFrequency { khz })));
    }
    if let Some(online) = tuning.cores {
        steps.push(step(server, Action::Cores(action::Cores { online })));
    }
    if let Some(left_bytes) = tuning.server_ram_bytes {
        steps.push(step(server, Action::Ram(action::Ram { left_bytes })));
    }
    if let Some(left_bytes) = tuning.client_ram_bytes {
        for client in spec.clients() {
            steps.push(step(client, Action::Ram(action::Ram { left_bytes })));
        }
    }
    for (name, value) in &tuning.server_sysctls {
        set_sysctl(steps, [server], name, value);
    }
    for (name, value) in &tuning.client_sysctls {
        set_sysctl(steps, spec.clients(), name, value);
    }
    Ok(())
}

/// Tunes both ends of every connection, each kind on all hosts before the next.
fn tune_network(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let tuning = &spec.tuning;
    if let Some(bytes) = tuning.mtu_bytes {
        for host in spec.hosts() {
            let interface = interface(spec, host)?;
            steps.push(step(host, Action::Mtu(action::Mtu { interface, bytes })));
        }
    }
    if tuning.rate_bits_per_s.is_some() || tuning.delay_us.is_some() {
        for host in spec.hosts() {
            let shape = action::Shape {
                interface: interface(spec, host)?,
                rate_bits_per_s: tuning.rate_bits_per_s,
                delay_us: tuning.delay_us,
            };
            steps.push(step(host, Action::Shape(shape)));
        }
    }
    if let Some(name) = &tuning.congestion {
        set_sysctl(steps, spec.hosts(), "net.ipv4.tcp_congestion_control", name);
    }
    let Some(bytes) = tuning.tcp_buffer_bytes else { return Ok(()) };
    for (name, most, [smallest, first]) in BUFFERS {
        // The limit of sockets goes first; of the three sizes none may be above the largest.
        let (smallest, first) = (smallest.min(bytes), first.min(bytes));
        set_sysctl(steps, spec.hosts(), most, &bytes.to_string());
        set_sysctl(steps, spec.hosts(), name, &format!("{smallest} {first} {bytes}"));
    }
    Ok(())
}

/// Adds the steps that set a sysctl on some hosts.
fn set_sysctl<'h>(
    steps: &mut Vec<LabStep>,
    hosts: impl IntoIterator<Item = &'h Host>,
    name: &str,
    value: &str,
) {
    for host in hosts {
        let sysctl = action::Sysctl { name: name.to_owned(), value: value.to_owned() };
        steps.push(step(host, Action::Sysctl(sysctl)));
    }
}

/// Returns the step by which a host that a run sets up is disturbed, and which host it is.
///
/// # Errors
/// When none of the run's hosts can be disturbed so; in a sentence.
pub fn disturbance(spec: &LabSpec, fault: FaultKind) -> Result<LabStep, String> {
    let server = &spec.server;
    let action = match fault {
        FaultKind::NfsdStop if spec.has_server_kind() && spec.serving.kind == ServerKind::Knfsd => {
            Action::NfsdStop(action::NfsdStop {})
        }
        FaultKind::NetworkCut => {
            let interface = interface(spec, server).map_err(|error| error.to_string())?;
            let port = match (spec.system_nfs(), &spec.site_mount) {
                (Some(nfs), _) => nfs.port,
                (None, None) if spec.system.is_none() => spec.serving.kind.port(),
                _ => return Err("it isn't known by which port clients reach it".to_owned()),
            };
            Action::Cut(action::Cut { interface, port })
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
        other => return Err(format!("{other} can't be done to {}", server.name)),
    };
    Ok(step(server, action))
}

/// Has every host try the way to all others, where packets are of a size that was requested: a way
/// that drops them hangs whatever is mounted over it. Above what is served, since it names the
/// clients as an export does: one more of them leaves what is below alone.
fn try_paths(spec: &LabSpec, steps: &mut Vec<LabStep>) {
    let Some(bytes) = spec.tuning.mtu_bytes else { return };
    if !spec.leaves_server() {
        return;
    }
    for host in spec.hosts() {
        let action = Action::TryPaths(action::TryPaths { peers: peers(spec, host), bytes });
        steps.push(step(host, action));
    }
}

/// The other hosts of a run, as a host reaches them; those without an address are left out, and so
/// is what is the same machine.
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

/// Adds the actions that make what file systems lie on, and the file systems; returns the device of
/// each, none where there is none.
///
/// Each layer is made of the one below: loop devices of files, an array of devices, a mapping of
/// the array. Undone in reverse, none is taken apart while another holds it.
fn prepare_devices(spec: &LabSpec, actions: &mut Vec<Action>) -> Result<Vec<Device>, ComposeError> {
    let storage = &spec.storage;
    let file_system = storage.file_system;
    if !storage.is_formatted() || !spec.has_storage() {
        return Ok(Vec::new());
    }
    let mut devices = Vec::new();
    for path in storage.used() {
        if storage.loop_bytes == 0 {
            devices.push(Device::Node(path.clone()));
        } else {
            let (file, bytes) = (path.clone(), storage.loop_bytes);
            actions.push(Action::LoopFile(action::LoopFile { file, bytes }));
            devices.push(Device::Loop(path.clone()));
        }
    }
    if storage.raid != Raid::None {
        check_device_count(storage.raid, devices.len())?;
        let (name, level, chunk_bytes) = (NAME.to_owned(), storage.raid, storage.chunk_bytes);
        let raid = action::Raid { name: name.clone(), level, chunk_bytes, devices };
        actions.push(Action::Raid(raid));
        devices = vec![Device::Array(name)];
    }
    if devices.is_empty() {
        return Err(ComposeError::NoDevice(file_system));
    }
    if storage.crypt {
        for (index, device) in devices.iter_mut().enumerate() {
            let name = if index == 0 { NAME.to_owned() } else { format!("{NAME}-{}", index + 1) };
            let below = std::mem::replace(device, Device::Mapped(name.clone()));
            actions.push(Action::Crypt(action::Crypt {
                name,
                device: below,
                cipher: storage.cipher.clone(),
                key_bits: storage.key_bits,
            }));
        }
    }
    for device in &devices {
        let (device, options) = (device.clone(), storage.format_options.clone());
        actions.push(Action::Format(action::Format { device, file_system, options }));
    }
    Ok(devices)
}

/// Checks that an array has enough devices. **Source:** md(4).
const fn check_device_count(level: Raid, given: usize) -> Result<(), ComposeError> {
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

/// Mounts each file system at a place of its own, or memory.
fn mounts(spec: &LabSpec, devices: Vec<Device>) -> Vec<Action> {
    let storage = &spec.storage;
    let file_system = storage.file_system;
    if !spec.has_storage() || file_system == FileSystem::Existing {
        return Vec::new();
    }
    let mut options = storage.mount_options.clone();
    if file_system == FileSystem::Tmpfs && storage.size_bytes != 0 {
        options.push(format!("size={}", storage.size_bytes));
    }
    let mut devices = devices.into_iter();
    let mut mounts = Vec::new();
    for point in storage.places() {
        // Memory has no device.
        let (device, options) = (devices.next(), options.clone());
        mounts.push(Action::Mount(action::Mount { device, file_system, point, options }));
    }
    mounts
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

/// Exports each directory, by the kernel's server, or one by a server of its own.
fn serve(spec: &LabSpec) -> Result<Vec<Action>, ComposeError> {
    if let Some(system) = &spec.system {
        return Ok(vec![systems::serve_system(spec, system)?]);
    }
    if spec.site_mount.is_some() {
        return Ok(Vec::new());
    }
    let (serving, directory) = (&spec.serving, spec.storage.place().to_owned());
    let takes_options = matches!(serving.kind, ServerKind::Knfsd | ServerKind::Running);
    if !takes_options && !serving.export_options.is_empty() {
        return Err(ComposeError::NoExportOptions(serving.kind));
    }
    let exports = spec.exports();
    if !takes_options && exports.len() > 1 {
        return Err(ComposeError::OneExport(serving.kind, exports.len()));
    }
    Ok(match serving.kind {
        ServerKind::Running => Vec::new(),
        ServerKind::Ganesha => {
            let versions = serving.versions.clone();
            let threads = serving.threads;
            vec![Action::Ganesha(action::Ganesha { directory, threads, versions })]
        }
        ServerKind::Unfs3 => {
            vec![Action::Unfs3(action::Unfs3 { directory, clients: clients(spec)? })]
        }
        ServerKind::Own => {
            let memory_bytes = spec.storage.size_bytes;
            vec![Action::OwnServer(action::OwnServer {
                clients: clients(spec)?,
                memory_bytes,
                udp: serving.udp,
            })]
        }
        ServerKind::Knfsd => {
            let mut actions = Vec::with_capacity(exports.len());
            for directory in exports {
                let (clients, options) = (clients(spec)?, export_options(spec));
                actions.push(Action::Export(action::Export { directory, clients, options }));
            }
            actions
        }
    })
}

/// Who may mount the export: the clients as the server sees them.
fn clients(spec: &LabSpec) -> Result<String, ComposeError> {
    match spec.path {
        DataPath::Network => {
            let mut addresses = Vec::new();
            for client in spec.clients() {
                addresses.push(address_of(client)?);
            }
            Ok(addresses.join(" "))
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
    add_default(&mut options, &["ro", "rw"], "rw");
    // Its checks cost and protect little; exportfs warns where neither is given.
    add_default(&mut options, &["subtree_check", "no_subtree_check"], "no_subtree_check");
    // The program works as root on the client, too, as it does on the disk.
    add_default(&mut options, &["root_squash", "no_root_squash", "all_squash"], "no_root_squash");
    if spec.path == DataPath::Tunnel || spec.own_client {
        // ssh comes from any port, and so does the program's own client.
        add_default(&mut options, &["secure", "insecure"], "insecure");
    }
    if spec.storage.file_system == FileSystem::Tmpfs {
        // Memory has no UUID by which clients could know it. Any number does.
        add_default(&mut options, &["fsid"], "fsid=3573");
    }
    options
}

/// Adds an option where the list has none of its alternatives.
fn add_default(options: &mut Vec<String>, alternatives: &[&str], option: &str) {
    for given in options.iter() {
        let name = given.split('=').next().unwrap_or_default();
        if alternatives.contains(&name) {
            return;
        }
    }
    options.push(option.to_owned());
}

/// Returns the address by which the other hosts reach a host.
fn address_of(host: &Host) -> Result<String, ComposeError> {
    match host.reached_at() {
        Some(address) => Ok(address.to_owned()),
        None => Err(ComposeError::NoAddress(host.name.clone())),
    }
}

/// Mounts the export on the clients, through a tunnel where one is wanted; each step on all of
/// them before the next.
fn connect(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    match (&spec.system, &spec.site_mount) {
        (Some(system), _) => systems::connect_system(spec, system, steps),
        (None, Some(mount)) => {
            systems::connect_site(spec, mount, steps);
            Ok(())
        }
        (None, None) => match spec.serving.kind.protocol() {
            Protocol::Nfs => connect_nfs(spec, steps),
        },
    }
}

/// Mounts an export of NFS on the clients.
fn connect_nfs(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    if spec.path == DataPath::Tunnel {
        start_tunnels(spec, steps)?;
    }
    if !spec.is_mounted() {
        return Ok(());
    }
    let mounting = &spec.mounting;
    let mut options = mounting.all_options();
    if let Some((port, mount_port)) = spec.ports() {
        options.push(format!("port={port}"));
        if !is_v4(spec) {
            options.push(format!("mountport={mount_port}"));
            // Locks would go past the tunnel, or to the kernel's server.
            options.extend(["mountproto=tcp".to_owned(), "nolock".to_owned()]);
        }
    }
    let address = match spec.path {
        DataPath::Network => address_of(&spec.server)?,
        _ => LOOPBACK.to_owned(),
    };
    let points = spec.mount_points();
    for (export, point) in std::iter::zip(spec.exports(), &points) {
        let source = format!("{}:{}", bracketed(&address), export.display());
        for client in spec.clients() {
            let (source, point, options) = (source.clone(), point.clone(), options.clone());
            steps.push(step(client, Action::NfsMount(action::NfsMount { source, point, options })));
        }
    }
    if let Some(kib) = mounting.read_ahead_kib {
        for point in points {
            for client in spec.clients() {
                let point = point.clone();
                steps.push(step(client, Action::ReadAhead(action::ReadAhead { point, kib })));
            }
        }
    }
    Ok(())
}

fn is_v4(spec: &LabSpec) -> bool {
    spec.mounting.nfs.version >= NfsVersion::V4_0
}

/// Forwards the port of NFS from each client, and before v4 that of MOUNT as well.
fn start_tunnels(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let is_ours = spec.serving.kind == ServerKind::Own;
    let nfs = RemotePort::Number(if is_ours { OWN_PORT } else { NFS_PORT });
    let mount = match spec.mounting.nfs.version {
        // This program's server has both protocols on one port.
        _ if is_ours => nfs,
        // **Source:** RFC 1094, appendix A; RFC 1813, appendix I.
        NfsVersion::V2 => RemotePort::Mount { version: 1 },
        _ => RemotePort::Mount { version: 3 },
    };
    let mut tunnels = vec![(TUNNEL_PORT, nfs)];
    if !is_v4(spec) {
        tunnels.push((TUNNEL_MOUNT_PORT, mount));
    }
    for (local_port, remote_port) in tunnels {
        for client in spec.clients() {
            // The configuration file is this host's: a client on another host hasn't got it.
            let is_here = client.ssh.is_none();
            let tunnel = action::Tunnel {
                ssh: ssh_destination(&spec.server)?,
                ssh_config: if is_here { spec.server.ssh_config.clone() } else { None },
                local_port,
                address: tunnel_end(spec).to_owned(),
                remote_port,
                compression: spec.tunnelling.compression,
                cipher: spec.tunnelling.cipher.clone(),
            };
            steps.push(step(client, Action::Tunnel(tunnel)));
        }
    }
    Ok(())
}

/// Returns the address that the server's end of a tunnel forwards to, as the plan has it.
fn tunnel_end(spec: &LabSpec) -> &str {
    spec.server.address.as_deref().unwrap_or(LOOPBACK)
}

/// How a client's ssh finds the server.
fn ssh_destination(server: &Host) -> Result<String, ComposeError> {
    match &server.ssh {
        Some(ssh) => Ok(ssh.clone()),
        None => address_of(server),
    }
}

#[cfg(test)]
mod tests;
