//! Turns the state a run wants into the actions that establish it, in order of their dependencies.
//! Pure: no host is contacted.
//!
//! The order is: tuning, devices, file system, server features, kernel server, mount, export, modes
//! of the server, path test, tunnel, client features, client mount, read-ahead. An invalidation
//! undoes and redoes the end of this list, see [`redo_from`]. That is why the kernel server starts
//! before file systems are mounted, except for tmpfs, which would lose its files.

mod connection;
mod power_loss;
pub(crate) mod reuse;
mod storage;
mod systems;
mod tuning;
mod write_back;

use std::path::PathBuf;

use model::action::SwitchName;
use model::lab::tunnel_client;
use model::soak::FaultKind;
use model::system::RecipeError;
use model::{
    Action, DataPath, FileSystem, Host, Invalidation, LabSpec, LabStep, MountSec, NfsVersion,
    Protocol, Raid, ServerKind, ServerThreads, Serving, TunnelForwards, action,
};
use thiserror::Error;

use crate::actions::{Layer, layer};
use connection::tunnel_end;

pub use power_loss::{after_power_loss, outlasts_power_loss};
pub use systems::{
    clients_of_system, counters_of_system, exits_of_system, kill_of_system, restart_of_system,
};
pub use write_back::{
    DrainSteps, EvictSteps, ObjectSteps, drain_of_system, evict_of_system, object_of_system,
};

const LOOPBACK: &str = "127.0.0.1";

/// Why a state cannot be established.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ComposeError {
    /// The file system needs a device.
    #[error("{0} needs a device: set `devices`, or `loop_size` to use a file")]
    NoDevice(FileSystem),
    /// The RAID level needs more devices.
    #[error("RAID {level} needs at least {needed} devices, but the plan has {given}")]
    FewDevices {
        level: Raid,
        /// Devices it needs.
        needed: usize,
        /// Devices given.
        given: usize,
    },
    /// It isn't known how other hosts can reach this one.
    #[error("other hosts need the address of host `{0}`: set its `address`")]
    NoAddress(String),
    /// Only the kernel's server can export several directories.
    #[error(
        "{0} can export only one directory, but the plan has {1}; server_kind knfsd can export \
         several"
    )]
    OneExport(ServerKind, usize),
    /// The options are in the format of exports(5).
    #[error("`export_options` are for the kernel's NFS server and have no meaning for {0}")]
    NoExportOptions(ServerKind),
    /// The recipe cannot be filled in.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// There are no addresses left for tunnels.
    #[error("at most {0} clients can have a packet tunnel")]
    ManyTunnels(usize),
    /// It isn't known which interface to tune.
    #[error("the network interface of host `{0}` is not known: set its `interface`")]
    NoInterface(String),
}

/// Turns the state that a run wants into actions on its hosts, in order.
///
/// # Errors
/// If the state is contradictory or incomplete.
pub fn compose(spec: &LabSpec) -> Result<Vec<LabStep>, ComposeError> {
    let mut steps = Vec::new();
    tuning::tune(spec, &mut steps)?;
    let serves = spec.is_served();
    if serves && let Some(system) = &spec.system {
        for host in spec.storage_hosts() {
            let mut actions = Vec::new();
            let devices = storage::prepare_devices(spec, &mut actions)?;
            actions.extend(storage::mount_all(spec, devices));
            steps.extend(actions.into_iter().map(|action| step(host, action)));
        }
        systems::serve_system(spec, system, &mut steps)?;
        tuning::try_paths(spec, &mut steps);
        systems::connect_system(spec, system, &mut steps)?;
        return Ok(steps);
    }
    let mut actions = Vec::new();
    let devices = storage::prepare_devices(spec, &mut actions)?;
    let mounts = storage::mount_all(spec, devices);
    let has_nfsd = spec.has_server_kind() && spec.serving.kind == ServerKind::Knfsd;
    let nfsd = if has_nfsd { kernel_server(spec) } else { Vec::new() };
    actions.extend(server_switches(spec));
    // Restarting the server also redoes every step after it. File systems on devices should be
    // remounted in that case, but tmpfs would lose its files, so mount it before the server starts.
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
    steps.extend(actions.into_iter().map(|action| step(&spec.server, action)));
    if serves {
        tuning::try_paths(spec, &mut steps);
        connect(spec, &mut steps)?;
    }
    Ok(steps)
}

fn step(host: &Host, action: Action) -> LabStep {
    LabStep { host: host.name.clone(), action }
}

/// Returns the index of the first step to undo and redo in order to invalidate caches.
///
/// All hosts drop their caches between undoing and redoing. A tmpfs is never unmounted; in that
/// case only the steps after it are redone.
pub fn redo_from(steps: &[LabStep], how: Invalidation) -> usize {
    let has = |wanted| steps.iter().any(|step| layer(&step.action) == wanted);
    let has_client = has(Layer::Client);
    let has_server = has(Layer::Server) || has(Layer::Export);
    let redone: &[Layer] = match how {
        Invalidation::None | Invalidation::Files | Invalidation::Caches => &[],
        Invalidation::Remount if has_client => &[Layer::Client],
        // Our own client has no mount; it reconnects before each pass. A client cannot make the
        // server drop its caches.
        Invalidation::Remount if has_server => &[],
        // On the server's own disk, this is the only mount.
        Invalidation::Remount => &[Layer::Storage],
        Invalidation::ServerRemount => &[Layer::Client, Layer::Storage, Layer::Export],
        Invalidation::ServerRestart => {
            &[Layer::Client, Layer::Storage, Layer::Export, Layer::Server]
        }
    };
    let in_memory = steps.iter().rposition(|step| layer(&step.action) == Layer::Memory);
    if let Some(index) = in_memory
        && redone.contains(&Layer::Storage)
    {
        return index + 1;
    }
    let is_redone = |step: &LabStep| redone.contains(&layer(&step.action));
    steps.iter().position(is_redone).unwrap_or(steps.len())
}

/// Returns the index of the first step to undo so that file systems, exports and mounts are created
/// again, see [`model::Fresh`]. Arrays and mappings below them are kept.
pub fn fresh_from(steps: &[LabStep]) -> usize {
    let is_made_again = |step: &LabStep| match &step.action {
        // These servers have a built-in export, so they are restarted with it.
        Action::Ganesha(_) | Action::Unfs3(_) | Action::OwnServer(_) => true,
        action => matches!(
            layer(action),
            Layer::FileSystem | Layer::Storage | Layer::Memory | Layer::Export | Layer::Client
        ),
    };
    steps.iter().position(is_made_again).unwrap_or(steps.len())
}

/// Returns the step that injects a fault into one of the run's hosts, along with that host.
///
/// # Errors
/// If the fault doesn't apply to any of the run's hosts. The error is a sentence.
pub fn disturbance(spec: &LabSpec, fault: FaultKind) -> Result<LabStep, String> {
    let server = &spec.server;
    let action = match fault {
        FaultKind::NfsdStop if spec.has_server_kind() && spec.serving.kind == ServerKind::Knfsd => {
            Action::NfsdStop(action::NfsdStop {})
        }
        FaultKind::NetworkCut => {
            let interface = tuning::interface(spec, server).map_err(|error| error.to_string())?;
            let port = match (spec.system_nfs(), &spec.site_mount) {
                (Some(nfs), _) => nfs.port,
                (None, None) if spec.system.is_none() => spec.serving.kind.port(),
                _ => return Err("the port that clients connect to is not known".to_owned()),
            };
            Action::Cut(action::Cut { interface, port })
        }
        FaultKind::DiskFull
            if spec.has_storage() && spec.storage.file_system != FileSystem::Existing =>
        {
            Action::Fill(action::Fill { point: spec.storage.place().to_owned() })
        }
        FaultKind::NfsdStop => return Err(format!("{} does not run nfsd", server.name)),
        FaultKind::DiskFull => {
            return Err(
                "only a file system created by the plan can be filled (file_system)".to_owned()
            );
        }
        other => return Err(format!("{other} is not possible on {}", server.name)),
    };
    Ok(step(server, action))
}

/// Returns the action that sets how the kernel's server reads and writes, if requested.
fn nfsd_modes(spec: &LabSpec) -> Option<Action> {
    let &Serving { io_read: read, io_write: write, .. } = &spec.serving;
    if read.is_none() && write.is_none() {
        return None;
    }
    let directory = spec.storage.place().to_owned();
    Some(Action::NfsdModes(action::NfsdModes { read, write, directory }))
}

/// Returns the actions that turn features of the kernel's server on or off, if requested. They come
/// before the server, because what it has granted to clients stays until it is restarted.
fn server_switches(spec: &LabSpec) -> impl Iterator<Item = Action> {
    let serving = &spec.serving;
    let switches = [
        (SwitchName::ServerDelegations, serving.delegations),
        (SwitchName::DelegatedTimestamps, serving.delegated_timestamps),
    ];
    switches.into_iter().filter_map(|(switch, requested)| {
        requested.map(|is_on| Action::KernelSwitch(action::KernelSwitch { switch, is_on }))
    })
}

/// Returns the actions that start the kernel's server or change the running one. Its limits can
/// only be read, and so restored, while it is running: they are changed after it was started.
fn kernel_server(spec: &LabSpec) -> Vec<Action> {
    let serving = &spec.serving;
    let ServerThreads { min, max } = serving.threads;
    let plain = action::Nfsd {
        // A dynamic number starts with its least, since threads end only after some idle time.
        threads: if min > 0 { min } else { max },
        threads_min: 0,
        versions: served_versions(spec),
        udp: serving.udp,
        rdma: serving.rdma,
        transfer_max_bytes: 0,
    };
    let limited = action::Nfsd {
        threads: max,
        threads_min: min,
        transfer_max_bytes: serving.max_block_bytes.unwrap_or(0),
        ..plain.clone()
    };
    let actions = if limited == plain { vec![plain] } else { vec![plain, limited] };
    actions.into_iter().map(Action::Nfsd).collect()
}

/// Returns the versions that the kernel's server should offer; empty keeps the current ones.
/// Servers that still support v2 only offer it on request. **Source:** nfs-utils 1.3, rpc.nfsd(8),
/// `-V`.
fn served_versions(spec: &LabSpec) -> Vec<NfsVersion> {
    if spec.serving.versions.is_empty() && spec.mounting.nfs.version == NfsVersion::V2 {
        return vec![NfsVersion::V2, NfsVersion::V3];
    }
    spec.serving.versions.clone()
}

/// Returns the actions that export the directories: all of them with the kernel's server, only one
/// with any other server.
fn serve(spec: &LabSpec) -> Result<Vec<Action>, ComposeError> {
    if spec.site_mount.is_some() {
        return Ok(Vec::new());
    }
    let serving = &spec.serving;
    let directory = spec.storage.place().to_owned();
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
            let threads = serving.threads.max;
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
        // The modes come last, since they change without a restart.
        ServerKind::Knfsd => exports
            .into_iter()
            .map(|directory| export(spec, directory))
            .chain(nfsd_modes(spec).map(Ok))
            .collect::<Result<Vec<_>, _>>()?,
    })
}

fn export(spec: &LabSpec, directory: PathBuf) -> Result<Action, ComposeError> {
    let clients = clients(spec)?;
    Ok(Action::Export(action::Export { directory, clients, options: export_options(spec) }))
}

/// Returns who may mount the export: the clients' addresses as seen by the server.
fn clients(spec: &LabSpec) -> Result<String, ComposeError> {
    match spec.path {
        DataPath::Network => {
            let addresses = spec.clients().map(address_of).collect::<Result<Vec<_>, _>>()?;
            Ok(addresses.join(" "))
        }
        DataPath::Tunnel if spec.has_tunnel(TunnelForwards::Packets) => {
            let mut addresses = Vec::new();
            for number in 0..spec.clients().count() {
                let address = tunnel_client(number).ok_or(ComposeError::ManyTunnels(number))?;
                addresses.push(address.to_string());
            }
            Ok(addresses.join(" "))
        }
        // Forwarded connections come from the server's own address.
        DataPath::Tunnel if tunnel_end(spec) != LOOPBACK => {
            Ok(format!("{LOOPBACK} {}", tunnel_end(spec)))
        }
        DataPath::Disk | DataPath::Loopback | DataPath::Tunnel => Ok(LOOPBACK.to_owned()),
    }
}

fn export_options(spec: &LabSpec) -> Vec<String> {
    let mut options = spec.serving.export_options.clone();
    add_default(&mut options, &["ro", "rw"], "rw");
    // Subtree checking is expensive and protects little. exportfs warns if neither is given.
    add_default(&mut options, &["subtree_check", "no_subtree_check"], "no_subtree_check");
    // The program works as root on the client, just as it does on a local disk.
    add_default(&mut options, &["root_squash", "no_root_squash", "all_squash"], "no_root_squash");
    if spec.has_tunnel(TunnelForwards::Ports) || spec.own_client {
        // ssh and our own client use unprivileged source ports.
        add_default(&mut options, &["secure", "insecure"], "insecure");
    }
    // Another client may mount the export with any flavor that it lists.
    let sec = spec.mounting.sec;
    if spec.mounts_own_export() && sec != MountSec::Server {
        add_default(&mut options, &["sec"], &format!("sec={sec}"));
    }
    if spec.mounts_own_export() && sec.is_kerberos() {
        // The program works as root, which has the ticket of its machine. The server maps machines
        // to the anonymous user.
        add_default(&mut options, &["anonuid"], "anonuid=0");
        add_default(&mut options, &["anongid"], "anongid=0");
    }
    if spec.storage.file_system == FileSystem::Tmpfs || spec.is_re_exported() {
        // tmpfs and FUSE have no UUID by which clients could identify them, so use an arbitrary
        // number.
        add_default(&mut options, &["fsid"], "fsid=3573");
    }
    options
}

/// Adds an option unless the list contains one of its alternatives.
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
    match host.reachable_address() {
        Some(address) => Ok(address.to_owned()),
        None => Err(ComposeError::NoAddress(host.name.clone())),
    }
}

/// Adds the steps that connect the clients with the server, by NFS or with the site's own mount.
fn connect(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    match &spec.site_mount {
        Some(mount) => {
            systems::connect_site(spec, mount, steps);
            Ok(())
        }
        None => match spec.serving.kind.protocol() {
            Protocol::Nfs => connection::connect_nfs(spec, steps),
        },
    }
}

#[cfg(test)]
mod system_tests;
#[cfg(test)]
mod tests;
