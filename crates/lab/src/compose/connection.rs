//! Steps that connect clients with a server: tunnels, mounts and read-ahead.

use std::path::PathBuf;

use model::action::SwitchName;
use model::lab::{
    NFS_PORT, OWN_PORT, TRUNK_POINT, TUNNEL_DEVICE, TUNNEL_MOUNT_PORT, TUNNEL_PORT, TUNNEL_SERVER,
    bracket_ipv6, tunnel_client,
};
use model::{
    Action, DataPath, Host, LabSpec, LabStep, NfsVersion, RemotePort, ServerKind, TunnelForwards,
    action,
};

use super::{ComposeError, LOOPBACK, address_of, step};

/// Adds the steps that mount an NFS export on the clients, through a tunnel if requested. Each step
/// is done on all clients before the next.
pub(super) fn connect_nfs(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    if spec.has_tunnel(TunnelForwards::Ports) {
        start_tunnels(spec, steps)?;
    }
    if spec.has_tunnel(TunnelForwards::Packets) {
        start_packet_tunnels(spec, steps)?;
    }
    if !spec.is_mounted() {
        return Ok(());
    }
    switch_clients(spec, steps);
    let mounting = &spec.mounting;
    let mut options = mounting.all_options();
    if let (Some(bytes), None) = (spec.serving.max_block_bytes, mounting.transfer_size_bytes) {
        // Without them, the mount would negotiate the same sizes, but nothing would compare them.
        for name in ["rsize", "wsize"] {
            if !options.iter().any(|option| option.starts_with(name)) {
                options.push(format!("{name}={bytes}"));
            }
        }
    }
    if let Some((port, mount_port)) = spec.ports() {
        options.push(format!("port={port}"));
        if !is_v4(spec) {
            options.push(format!("mountport={mount_port}"));
            // NLM would bypass the tunnel, or reach the local kernel's server.
            options.extend(["mountproto=tcp".to_owned(), "nolock".to_owned()]);
        }
    }
    let address = match spec.path {
        DataPath::Network => address_of(&spec.server)?,
        _ if spec.has_tunnel(TunnelForwards::Packets) => TUNNEL_SERVER.to_string(),
        _ => LOOPBACK.to_owned(),
    };
    let points = spec.mount_points();
    for (export, point) in std::iter::zip(spec.exports(), &points) {
        let source = format!("{}:{}", bracket_ipv6(&address), export.display());
        for client in spec.clients() {
            steps.push(step(
                client,
                Action::NfsMount(action::NfsMount {
                    source: source.clone(),
                    point: point.clone(),
                    options: options.clone(),
                    trunk_connections: None,
                }),
            ));
        }
    }
    add_trunks(spec, &options, steps);
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

/// Adds the steps that mount the first export again through each further address of the server. The
/// kernel finds the same server there, and adds a connection that all its mounts use.
///
/// **Source:** nfs(5), `max_connect`; RFC 8881, 2.10.5.
fn add_trunks(spec: &LabSpec, options: &[String], steps: &mut Vec<LabStep>) {
    let export = spec.export().display();
    let mut connections = spec.mounting.nfs.nconnect;
    for (number, address) in (2..).zip(spec.trunk_addresses()) {
        connections += 1;
        for client in spec.clients() {
            steps.push(step(
                client,
                Action::NfsMount(action::NfsMount {
                    source: format!("{}:{export}", bracket_ipv6(address)),
                    point: PathBuf::from(format!("{TRUNK_POINT}-{number}")),
                    options: options.to_vec(),
                    trunk_connections: Some(connections),
                }),
            ));
        }
    }
}

/// Adds the steps that turn features of the clients on or off, if requested. They come before the
/// mounts, because a client tries LOCALIO once, when it first meets a server, and keeps delegations
/// of directories until it unmounts.
pub(super) fn switch_clients(spec: &LabSpec, steps: &mut Vec<LabStep>) {
    let mounting = &spec.mounting;
    if let Some(is_on) = mounting.localio {
        for client in spec.clients() {
            steps.push(step(client, Action::Localio(action::Localio { is_on })));
        }
    }
    if let Some(is_on) = mounting.directory_delegations {
        for client in spec.clients() {
            let switch = SwitchName::DirectoryDelegations;
            let action = action::KernelSwitch { switch, is_on };
            steps.push(step(client, Action::KernelSwitch(action)));
        }
    }
}

fn is_v4(spec: &LabSpec) -> bool {
    spec.mounting.nfs.version >= NfsVersion::V4_0
}

/// Adds the steps that forward the NFS port from each client, and the MOUNT port for versions
/// before 4.
fn start_tunnels(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let is_ours = spec.serving.kind == ServerKind::Own;
    let nfs = RemotePort::Number(if is_ours { OWN_PORT } else { NFS_PORT });
    let mount = match spec.mounting.nfs.version {
        // Our own server has both protocols on one port.
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
            let tunnel = action::Tunnel {
                ssh: ssh_destination(&spec.server)?,
                ssh_config: ssh_config_of(client, &spec.server),
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

/// Adds the steps that connect each client with the server by a pair of tun devices.
fn start_packet_tunnels(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let port = spec.ports().map_or(NFS_PORT, |(port, _)| port);
    for (number, client) in spec.clients().enumerate() {
        let near = tunnel_client(number).ok_or(ComposeError::ManyTunnels(number))?;
        let tunnel = action::PacketTunnel {
            ssh: ssh_destination(&spec.server)?,
            ssh_config: ssh_config_of(client, &spec.server),
            device: TUNNEL_DEVICE + number as u32,
            near,
            far: TUNNEL_SERVER,
            port,
            compression: spec.tunnelling.compression,
            cipher: spec.tunnelling.cipher.clone(),
        };
        steps.push(step(client, Action::PacketTunnel(tunnel)));
    }
    Ok(())
}

/// Returns the configuration file with which a client's ssh finds the server. The file is on this
/// host; a client on another host doesn't have it.
fn ssh_config_of(client: &Host, server: &Host) -> Option<PathBuf> {
    if client.ssh.is_none() { server.ssh_config.clone() } else { None }
}

/// Returns the address that the server's end of a tunnel forwards to, as given in the plan.
pub(super) fn tunnel_end(spec: &LabSpec) -> &str {
    spec.server.address.as_deref().unwrap_or(LOOPBACK)
}

/// Returns the name by which a client's ssh finds the server.
fn ssh_destination(server: &Host) -> Result<String, ComposeError> {
    match &server.ssh {
        Some(ssh) => Ok(ssh.clone()),
        None => address_of(server),
    }
}
