//! Steps that tune interfaces, the kernel's network stack, CPUs and memory.

use model::{Action, DataPath, Host, LabSpec, LabStep, Peer, action};

use super::{ComposeError, step};

/// Minimum and default sizes of TCP's receive and send buffers, in bytes.
///
/// **Source:** tcp(7), `tcp_rmem` and `tcp_wmem`.
const BUFFERS: [(&str, &str, [u64; 2]); 2] = [
    ("net.ipv4.tcp_rmem", "net.core.rmem_max", [4_096, 131_072]),
    ("net.ipv4.tcp_wmem", "net.core.wmem_max", [4_096, 16_384]),
];

/// Adds the steps that tune the hosts and their network.
pub(super) fn tune(spec: &LabSpec, steps: &mut Vec<LabStep>) -> Result<(), ComposeError> {
    let tuning = &spec.tuning;
    let server = &spec.server;
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

/// Tunes both ends of every connection. Each setting is applied to all hosts before the next.
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
        // Set the socket limit first. The minimum and default must not exceed the maximum.
        let smallest = smallest.min(bytes);
        let first = first.min(bytes);
        set_sysctl(steps, spec.hosts(), most, &bytes.to_string());
        set_sysctl(steps, spec.hosts(), name, &format!("{smallest} {first} {bytes}"));
    }
    Ok(())
}

/// Adds the steps that set a sysctl on the given hosts.
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

/// If an MTU was requested, makes every host test the path to all others, because a path that drops
/// large packets hangs any mount that uses it. These steps come after the export: both list the
/// clients, so adding a client leaves the steps below unchanged.
pub(super) fn try_paths(spec: &LabSpec, steps: &mut Vec<LabStep>) {
    let Some(bytes) = spec.tuning.mtu_bytes else { return };
    if !spec.leaves_server() {
        return;
    }
    for host in spec.hosts() {
        let action = Action::TryPaths(action::TryPaths { peers: peers(spec, host), bytes });
        steps.push(step(host, action));
    }
}

/// Returns the other hosts of a run, with the addresses by which `host` reaches them. Leaves out
/// hosts without an address and those on the same machine.
fn peers(spec: &LabSpec, host: &Host) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for other in spec.hosts() {
        let Some(address) = other.reachable_address() else { continue };
        let is_known = peers.iter().any(|peer| peer.address == address);
        if Some(address) != host.reachable_address() && other.name != host.name && !is_known {
            peers.push(Peer { name: other.name.clone(), address: address.to_owned() });
        }
    }
    peers
}

/// Returns the interface used for a run's data.
pub(super) fn interface(spec: &LabSpec, host: &Host) -> Result<String, ComposeError> {
    match (&host.interface, spec.path) {
        (_, DataPath::Loopback) => Ok("lo".to_owned()),
        (Some(interface), _) => Ok(interface.clone()),
        (None, _) => Err(ComposeError::NoInterface(host.name.clone())),
    }
}
