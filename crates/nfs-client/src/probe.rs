//! Finds out what a server offers: programs, versions, transports, ports, exports, limits, round
//! trips.
//!
//! [`Probe::run`] asks; the result is plain data. If one part fails, that is data as well
//! ([`NoAnswer`]) and never ends the probe. Each question has a timeout, and a connection that has
//! gone silent is not used again; questions are asked in parallel where possible, except for round
//! trips, which are measured one after the other.

mod ask;
mod cluster;
mod data;
mod exports;
mod liveness;
mod options;
mod registrations;
mod services;
mod v4;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::thread::ScopedJoinHandle;

use nfs_proto::{ProtocolVersion, RpcError, Status, mount3, nfs3};

pub use data::{
    Answer, DataDevice, Export, ExportLayouts, Flavor, Limits, MountEntry, NoAnswer, Probe,
    Registration, ReservedPort, RoundTrip, ServerIdentity, Service, TriedVersion, Trunking, V4Root,
    layout_name,
};
pub use options::ProbeOptions;

use crate::options::Proto;
use exports::{MountServices, find_answered};
use liveness::Liveness;
use registrations::{Addresses, portmap_dump, rpcbind_dump};
use v4::Conversation;

/// Reason why there is no probe at all.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The name has no address; check its spelling, or use an address.
    #[error("cannot resolve {host}: {reason}")]
    Name {
        /// Name of the host.
        host: String,
        /// The system's error.
        reason: io::Error,
    },
}

impl Probe {
    /// Queries everything a server offers.
    ///
    /// # Errors
    /// [`ProbeError`] if the server's name has no address; everything else is data.
    pub fn run(options: &ProbeOptions) -> Result<Self, ProbeError> {
        let addresses = resolve_host(&options.host)?;
        let address = find_reachable(&addresses, options);
        let portmapper = SocketAddr::new(address, options.portmap_port);
        let (portmap, rpcbind) = std::thread::scope(|scope| {
            let rpcbind = scope.spawn(|| rpcbind_dump(portmapper, options));
            let portmap = portmap_dump(portmapper, options);
            (portmap, join_thread(rpcbind))
        });
        let places = Addresses::new(options, portmapper, &rpcbind, &portmap);
        let (mut nfs, mut mount) = services::find_services(&places, options);
        let mut liveness = if nfs.iter().any(|service| service.null.is_ok()) {
            Liveness::new(&nfs, nfs3::PROGRAM, options)
        } else {
            Liveness::new(&mount, mount3::PROGRAM, options)
        };
        services::measure_services(&mut nfs, nfs3::PROGRAM, options, &mut liveness);
        services::measure_services(&mut mount, mount3::PROGRAM, options, &mut liveness);
        let minor_replies = try_minor_versions(&nfs, options, &mut liveness);
        let minor_versions = spoken_versions(&minor_replies);
        let mut conversation =
            liveness.ask(|| start_conversation(|_| true, &nfs, &minor_versions, options));
        let root = match &mut conversation {
            Ok(conversation) => describe_root(conversation, &nfs, &minor_versions, options),
            Err(reason) => no_root(reason),
        };
        let services = MountServices {
            mount1: find_answered(&mount, 1),
            mount3: find_answered(&mount, 3),
            nfs2: find_answered(&nfs, 2),
            nfs3: find_answered(&nfs, 3),
        };
        let mounted = liveness.ask(|| exports::list_mounted(&services, options));
        let exports = liveness.ask(|| exports::list_exports(&services, &mut conversation, options));
        let listed = match &exports {
            Ok(exports) => exports.len(),
            Err(_) => 0,
        };
        let reserved_port = liveness.ask(|| {
            let path = match &exports {
                Ok(exports) => exports.first().map(|export| export.path.as_str()),
                Err(_) => None,
            };
            let v4 = V4Services { nfs: &nfs, minor_versions: &minor_versions };
            ask_reserved_port(path, &root, &services, v4, options)
        });
        let xattrs = liveness.ask(|| {
            let v4 = V4Services { nfs: &nfs, minor_versions: &minor_versions };
            ask_for_xattrs(&exports, &root, v4, options)
        });
        let v4 = V4Services { nfs: &nfs, minor_versions: &minor_versions };
        let mut in_session = liveness.ask(|| {
            start_conversation(ProtocolVersion::has_sessions, v4.nfs, v4.minor_versions, options)
        });
        let others = other_addresses(&addresses, address, v4, options);
        let trunking = others.into_iter().map(|other| {
            let compared = match &in_session {
                Ok(first) => liveness.ask(|| cluster::compare_server(first, other, options)),
                Err(reason) => Err(reason.clone()),
            };
            (other, compared)
        });
        let trunking = trunking.collect();
        let identity = match &in_session {
            Ok(first) => first.identity().map(|(_, server)| server),
            Err(reason) => Err(reason.clone()),
        };
        let layouts = match &mut in_session {
            Ok(conversation) => examined_paths(&exports, &root, options)
                .iter()
                .map(|path| cluster::ask_layouts(conversation, path))
                .collect(),
            Err(_) => Vec::new(),
        };
        drop(in_session);
        let tls = liveness.ask(|| ask_for_tls(&nfs, options));
        Ok(Self {
            host: options.host.clone(),
            addresses,
            address,
            exports_not_examined: listed.saturating_sub(options.exports_max),
            tls,
            portmap,
            rpcbind,
            nfs,
            minor_versions,
            minor_replies,
            mount,
            exports,
            mounted,
            root,
            identity,
            trunking,
            layouts,
            reserved_port,
            xattrs,
            stopped: liveness.finish(),
        })
    }
}

/// Lists the addresses to compare with the one that is probed: the others of its name, on the same
/// port, and those that the caller has named.
fn other_addresses(
    addresses: &[IpAddr],
    used: IpAddr,
    v4: V4Services<'_>,
    options: &ProbeOptions,
) -> Vec<SocketAddr> {
    let Ok(first) = find_answered_over_tcp(v4.nfs, 4) else { return Vec::new() };
    let of_name = addresses.iter().filter(|address| **address != used);
    let mut others: Vec<_> =
        of_name.map(|address| SocketAddr::new(*address, first.port())).collect();
    others.extend_from_slice(&options.also);
    others
}

/// Lists the paths whose layouts are examined: the exports, or the names in the root of v4 if MOUNT
/// lists none.
fn examined_paths(
    exports: &Answer<Vec<Export>>,
    root: &V4Root,
    options: &ProbeOptions,
) -> Vec<String> {
    let paths = match (exports, &root.names) {
        (Ok(exports), _) if !exports.is_empty() => {
            exports.iter().map(|export| export.path.clone()).collect()
        }
        (_, Ok(names)) => names.iter().map(|name| format!("/{name}")).collect(),
        _ => Vec::new(),
    };
    paths.into_iter().take(options.exports_max).collect()
}

fn resolve_host(host: &str) -> Result<Vec<IpAddr>, ProbeError> {
    // An IPv6 address has brackets in a URL.
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').unwrap_or(host),
        None => host,
    };
    let found = (bare, 0)
        .to_socket_addrs()
        .map_err(|reason| ProbeError::Name { host: host.to_owned(), reason })?;
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        let reason = io::ErrorKind::NotFound.into();
        return Err(ProbeError::Name { host: host.to_owned(), reason });
    }
    Ok(addresses)
}

/// Returns the result of a thread; a panic, which would be a bug, is passed on.
fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the first address where NFS or the portmapper accepts a connection; if none does, the
/// first address.
fn find_reachable(addresses: &[IpAddr], options: &ProbeOptions) -> IpAddr {
    if let [only] = addresses {
        return *only;
    }
    for address in addresses {
        for port in [options.port.unwrap_or(nfs3::PORT), options.portmap_port] {
            let server = SocketAddr::new(*address, port);
            if TcpStream::connect_timeout(&server, options.timeout).is_ok() {
                return *address;
            }
        }
    }
    addresses[0]
}

fn try_minor_versions(
    nfs: &[Service],
    options: &ProbeOptions,
    liveness: &mut Liveness<'_>,
) -> Vec<(ProtocolVersion, Answer<Status>)> {
    let mut replies = Vec::new();
    for version in [ProtocolVersion::V4_0, ProtocolVersion::V4_1, ProtocolVersion::V4_2] {
        let reply = find_answered_over_tcp(nfs, 4)
            .and_then(|address| liveness.ask(|| v4::try_version(address, version, options)));
        replies.push((version, reply));
    }
    replies
}

/// Returns which of the tried minor versions are supported.
fn spoken_versions(
    replies: &[(ProtocolVersion, Answer<Status>)],
) -> Vec<(ProtocolVersion, Answer<bool>)> {
    let mut spoken = Vec::new();
    for (version, reply) in replies {
        let is_spoken = match reply {
            Ok(status) => Ok(*status != Status::MinorVersMismatch),
            Err(reason) => Err(reason.clone()),
        };
        spoken.push((*version, is_spoken));
    }
    spoken
}

/// Asks whether the first export requires calls from reserved ports; over v4 the first name in the
/// root if MOUNT lists none.
fn ask_reserved_port(
    path: Option<&str>,
    root: &V4Root,
    services: &MountServices,
    v4: V4Services<'_>,
    options: &ProbeOptions,
) -> Answer<ReservedPort> {
    if let Some(path) = path {
        let reach = |options: &ProbeOptions| exports::reach_export(services, path, options);
        return exports::ask_reserved_port(reach, options);
    }
    let name = match &root.names {
        Ok(names) => names.first(),
        Err(reason) => return Err(reason.clone()),
    };
    let Some(name) = name else {
        return Err(NoAnswer::NotRequested("no exports are known"));
    };
    let reach = |options: &ProbeOptions| {
        let mut conversation = start_conversation(|_| true, v4.nfs, v4.minor_versions, options)?;
        conversation.limits_at(&[name.as_bytes()]).map(drop)
    };
    exports::ask_reserved_port(reach, options)
}

/// Asks in v4.2 whether the first export has extended attributes; if MOUNT lists none, the first
/// name in the root.
fn ask_for_xattrs(
    exports: &Answer<Vec<Export>>,
    root: &V4Root,
    v4: V4Services<'_>,
    options: &ProbeOptions,
) -> Answer<bool> {
    let is_newest = |version| version == ProtocolVersion::V4_2;
    let mut conversation = start_conversation(is_newest, v4.nfs, v4.minor_versions, options)?;
    let mut path = "";
    if let Ok(names) = &root.names
        && let Some(name) = names.first()
    {
        path = name;
    }
    if let Ok(exports) = exports
        && let Some(export) = exports.first()
    {
        path = &export.path;
    }
    conversation.has_xattrs_at(&exports::names_of(path))
}

/// The NFS services, and which minor versions of v4 are supported.
#[derive(Debug, Clone, Copy)]
struct V4Services<'a> {
    nfs: &'a [Service],
    minor_versions: &'a [(ProtocolVersion, Answer<bool>)],
}

fn find_answered_over_tcp(services: &[Service], version: u32) -> Answer<SocketAddr> {
    let over_tcp: Vec<_> =
        services.iter().filter(|service| service.transport == Proto::Tcp).cloned().collect();
    let (_, address) = find_answered(&over_tcp, version)?;
    Ok(address)
}

/// Starts an NFS v4 conversation in the lowest supported minor version that is `wanted`.
fn start_conversation(
    wanted: fn(ProtocolVersion) -> bool,
    nfs: &[Service],
    minor_versions: &[(ProtocolVersion, Answer<bool>)],
    options: &ProbeOptions,
) -> Answer<Conversation> {
    let address = find_answered_over_tcp(nfs, 4)?;
    for (version, spoken) in minor_versions {
        if *spoken == Ok(true) && wanted(*version) {
            return Conversation::start(address, *version, options);
        }
    }
    Err(NoAnswer::NotRequested("no such minor version is supported"))
}

/// Asks for the root, and for its flavors in a version that can report them, if there is one.
fn describe_root(
    conversation: &mut Conversation,
    nfs: &[Service],
    minor_versions: &[(ProtocolVersion, Answer<bool>)],
    options: &ProbeOptions,
) -> V4Root {
    let mut root = conversation.describe_root();
    // SECINFO_NO_NAME, which returns the flavors of a handle, exists since v4.1.
    if !conversation.version().has_sessions()
        && let Ok(mut other) =
            start_conversation(ProtocolVersion::has_sessions, nfs, minor_versions, options)
    {
        root.flavors = other.root_flavors();
    }
    root
}

fn no_root(reason: &NoAnswer) -> V4Root {
    V4Root {
        limits: Err(reason.clone()),
        lease_seconds: Err(reason.clone()),
        names: Err(reason.clone()),
        flavors: Err(reason.clone()),
    }
}

/// Asks for TLS in a version that answers over TCP, or at least is refused because of its
/// credential: a server may accept nothing without TLS.
fn ask_for_tls(nfs: &[Service], options: &ProbeOptions) -> Answer<bool> {
    let mut refused = None;
    let mut answered = None;
    for service in nfs {
        if service.transport != Proto::Tcp || service.address.is_none() {
            continue;
        }
        match &service.null {
            Ok(_) => answered = Some(service),
            Err(NoAnswer::Rpc(RpcError::Authentication(_))) => refused = Some(service),
            Err(_) => {}
        }
    }
    let found = answered.or(refused);
    let service = found.ok_or(NoAnswer::NotRequested("no NFS version answers over TCP"))?;
    let address = service.address.ok_or(NoAnswer::NotRequested("the port is not known"))?;
    services::offers_tls(address, service.version, options)
}
