//! The setup of hosts for the target of a run.
//!
//! `spec` starts from the target, and `derive_fields` keeps a run's target and its lab spec
//! consistent while settings are put into it. Nothing here accesses a host.

use std::collections::BTreeMap;

use model::lab::TUNNEL_SERVER;
use model::setting::{Family, Setting, Value};
use model::system::SecretSource;
use model::{
    BackendKind, DataPath, FileSystem, Fresh, Invalidation, LabSpec, Proto, RunSpec, Storage,
    System, Target, TunnelForwards,
};

use crate::resolve::placement;
use crate::syntax::error::value_or;
use crate::syntax::lab::{LabArg, SystemArg};

impl LabArg {
    /// The setup of the hosts with the default of every setting.
    pub(crate) fn spec(&self, backend: BackendKind) -> LabSpec {
        let client = self.client.as_ref().unwrap_or(&self.server);
        let mut spec = LabSpec::new(self.server.clone(), client.clone());
        let devices = value_or(self.devices.clone(), Vec::new());
        spec.path = if self.client.is_some() { DataPath::Network } else { DataPath::Loopback };
        spec.own_client = matches!(backend, BackendKind::Nfs | BackendKind::Tcp);
        spec.invalidation = Invalidation::Caches;
        if let Some(SystemArg { source, recipe: Some(recipe), access, roles, secrets }) =
            &self.system
        {
            spec.invalidation = spec.invalidation.max(recipe.caches.cold);
            // Otherwise files removed by earlier trials would still take up space.
            if recipe.keeps_removed {
                spec.fresh = Fresh::Trial;
            }
            let roles = roles.iter().map(|role| (role.name.value.clone(), role.hosts.clone()));
            let secrets = secrets.iter();
            let secrets: BTreeMap<String, SecretSource> =
                secrets.map(|(name, source)| (name.value.clone(), source.clone())).collect();
            let mut recipe = recipe.clone();
            recipe.secrets.extend(secrets.clone());
            spec.system = Some(Box::new(System {
                source: source.value.clone(),
                recipe,
                secrets,
                access: access.as_ref().map(|access| access.value),
                roles: roles.collect(),
                admits: Vec::new(),
            }));
        }
        if let Some(mount) = &self.site_mount {
            spec.invalidation = Invalidation::Remount;
            spec.site_mount = Some(mount.clone());
        }
        let mut directories = value_or(self.directories.clone(), Vec::new()).into_iter();
        let directory = directories.next().unwrap_or_default();
        spec.storage = Storage {
            file_system: match (&self.directories, devices.is_empty()) {
                (Some(_), _) => FileSystem::Existing,
                (None, false) => FileSystem::Ext4,
                (None, true) => FileSystem::Tmpfs,
            },
            devices,
            loop_bytes: self.loop_bytes,
            size_bytes: self.tmpfs_bytes,
            directory,
            more_directories: directories.collect(),
            is_spread: self.is_spread,
            ..Storage::default()
        };
        spec
    }
}

/// Updates everything that follows from a run's settings: the location of its files, the server's
/// address, and whether the server must support UDP.
pub(crate) fn derive_fields(run: &mut RunSpec) {
    placement::derive_fields(run);
    let proto = run.nfs().proto;
    let Some(lab) = run.lab.as_deref_mut() else { return };
    lab.serving.udp = lab.is_served() && proto == Proto::Udp;
    lab.serving.rdma = lab.is_mounted() && proto == Proto::Rdma;
    // A mount takes the transfer size as an option; our own client requests it itself.
    lab.mounting.transfer_size_bytes =
        if lab.is_mounted() { run.transfer_size_bytes } else { None };
    run.invalidate = lab.invalidation >= Invalidation::Files;
    let host = match lab.path {
        DataPath::Network => lab.server.reachable_address().unwrap_or_default().to_owned(),
        DataPath::Tunnel if lab.has_tunnel(TunnelForwards::Packets) => TUNNEL_SERVER.to_string(),
        DataPath::Tunnel | DataPath::Disk | DataPath::Loopback => "127.0.0.1".to_owned(),
    };
    let ports = lab.ports();
    let is_direct = lab.path == DataPath::Network;
    let more_addresses = if is_direct { lab.server.more_addresses.clone() } else { Vec::new() };
    match &mut run.target {
        Target::Nfs(nfs) => {
            nfs.host.clone_from(&host);
            (nfs.port, nfs.mount_port) = ports.unzip();
            nfs.path = lab.export().to_string_lossy().into_owned();
            // As with mounts, the further addresses of a host are only used if that is requested.
            nfs.more_addresses =
                if nfs.settings.max_connect.is_some() { more_addresses } else { Vec::new() };
        }
        Target::Tcp(tcp) => {
            tcp.host = host;
            tcp.port = ports.map(|(port, _)| port);
        }
        _ => {
            let mut paths =
                if lab.is_mounted() { lab.mount_points() } else { lab.storage.places() };
            run.target = match paths.len() {
                1 => Target::Directory { path: paths.remove(0) },
                _ => Target::Directories { paths },
            };
        }
    }
}

/// Puts a level into a run, and updates the run's target if necessary.
///
/// # Panics
/// If the level has the wrong type for the setting, or the run has no such part; both are bugs in
/// this crate.
pub(crate) fn set_level(setting: Setting, run: &mut RunSpec, value: Value) {
    let done = setting.put(run, value);
    assert!(done, "{setting:?} has no place in {run:?}, or is of another kind");
    let moves_target = matches!(setting.family(), Family::Lab | Family::Nfs);
    if moves_target || matches!(setting, Setting::ClientHosts | Setting::AgentsPerHost) {
        derive_fields(run);
    }
}
