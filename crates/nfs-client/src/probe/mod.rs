//! Asks what a server offers: programs, versions, transports, ports, exports, limits, round trips.
//!
//! [`Probe::run`] asks; the outcome is plain data. A part that failed is data of its own
//! ([`NoAnswer`]) and never the end of a probe. Each question is bounded in time, and nothing is
//! requested again over a connection that fell silent; what can be requested at the same time is,
//! but for the round trips, which are taken one after the other.

mod ask;
mod data;
mod exports;
mod options;
mod registrations;
mod services;
mod v4;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::thread::ScopedJoinHandle;

use nfs_proto::{ProtocolVersion, RpcError, mount3, nfs3};

pub use data::{
    Answer, Export, Flavor, Limits, Mounted, NoAnswer, Probe, Registration, RoundTrip, Service,
    Transport, V4Root,
};
pub use options::ProbeOptions;

use exports::{Doors, answered};
use registrations::{Places, portmap_dump, rpcbind_dump};
use v4::Talk;

/// Why there is no probe at all.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The name has no address; check its spelling, or give an address.
    #[error("can't find an address for {host}: {reason}")]
    Name {
        /// Name of the host.
        host: String,
        /// The system's error.
        reason: io::Error,
    },
}

impl Probe {
    /// Asks a server for all that it offers.
    ///
    /// # Errors
    /// [`ProbeError`] when the server's name has no address; everything else is data.
    pub fn run(options: &ProbeOptions) -> Result<Self, ProbeError> {
        let addresses = resolve(&options.host)?;
        let address = reachable(&addresses, options);
        let portmapper = SocketAddr::new(address, options.portmap_port);
        let (portmap, rpcbind) = std::thread::scope(|scope| {
            let rpcbind = scope.spawn(|| rpcbind_dump(portmapper, options));
            let portmap = portmap_dump(portmapper, options);
            (portmap, joined(rpcbind))
        });
        let places = Places::new(options, portmapper, &rpcbind, &portmap);
        let (mut nfs, mut mount) = services::find(&places, options);
        services::measure(&mut nfs, nfs3::PROGRAM, options);
        services::measure(&mut mount, mount3::PROGRAM, options);
        let minor_versions = minor_versions(&nfs, options);
        let mut talk = talk(&nfs, &minor_versions, options);
        let root = match &mut talk {
            Ok(talk) => root(talk, &nfs, &minor_versions, options),
            Err(reason) => no_root(reason),
        };
        let doors = Doors {
            mount1: answered(&mount, 1),
            mount3: answered(&mount, 3),
            nfs2: answered(&nfs, 2),
            nfs3: answered(&nfs, 3),
        };
        let mounted = exports::mounted(&doors, options);
        let exports = exports::exports(&doors, &mut talk, options);
        let listed = exports.as_ref().map_or(0, Vec::len);
        Ok(Self {
            host: options.host.clone(),
            addresses,
            address,
            exports_not_examined: listed.saturating_sub(options.exports_max),
            tls: tls(&nfs, options),
            portmap,
            rpcbind,
            nfs,
            minor_versions,
            mount,
            exports,
            mounted,
            root,
        })
    }
}

fn resolve(host: &str) -> Result<Vec<IpAddr>, ProbeError> {
    let name = |reason| ProbeError::Name { host: host.to_owned(), reason };
    // Brackets are how an IPv6 address stands in a URL.
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let mut addresses = Vec::new();
    for address in (bare, 0).to_socket_addrs().map_err(name)? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() { Err(name(io::ErrorKind::NotFound.into())) } else { Ok(addresses) }
}

/// Returns what a thread found; its panic, which would be a bug, is passed on.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The first address where NFS or the portmapper takes a connection; else the first of all.
fn reachable(addresses: &[IpAddr], options: &ProbeOptions) -> IpAddr {
    let ports = [options.port.unwrap_or(nfs3::PORT), options.portmap_port];
    let takes = |address: &&IpAddr| {
        ports.iter().any(|port| {
            let server = SocketAddr::new(**address, *port);
            TcpStream::connect_timeout(&server, options.timeout).is_ok()
        })
    };
    match addresses {
        [only] => *only,
        _ => *addresses.iter().find(takes).unwrap_or(&addresses[0]),
    }
}

fn minor_versions(nfs: &[Service], options: &ProbeOptions) -> Vec<(ProtocolVersion, Answer<bool>)> {
    match answered_over_tcp(nfs, 4) {
        Ok(address) => v4::minor_versions(address, options),
        Err(reason) => [ProtocolVersion::V4_0, ProtocolVersion::V4_1, ProtocolVersion::V4_2]
            .map(|version| (version, Err(reason.clone())))
            .into(),
    }
}

fn answered_over_tcp(services: &[Service], version: u32) -> Answer<SocketAddr> {
    let tcp: Vec<_> =
        services.iter().filter(|service| service.transport == Transport::Tcp).cloned().collect();
    answered(&tcp, version).map(|(_, address)| address)
}

/// Starts to talk NFS v4 in the lowest minor version that is spoken.
fn talk(
    nfs: &[Service],
    minor_versions: &[(ProtocolVersion, Answer<bool>)],
    options: &ProbeOptions,
) -> Answer<Talk> {
    talk_in(|_| true, nfs, minor_versions, options)
}

/// Starts to talk NFS v4 in the lowest minor version that is spoken and `wanted`.
fn talk_in(
    wanted: impl Fn(ProtocolVersion) -> bool,
    nfs: &[Service],
    minor_versions: &[(ProtocolVersion, Answer<bool>)],
    options: &ProbeOptions,
) -> Answer<Talk> {
    let address = answered_over_tcp(nfs, 4)?;
    let mut spoken = minor_versions.iter().filter(|(_, spoken)| *spoken == Ok(true));
    let found = spoken.find(|(version, _)| wanted(*version));
    let (version, _) = found.ok_or(NoAnswer::NotRequested("no such minor version is spoken"))?;
    Talk::start(address, *version, options)
}

/// Asks for the root, and its flavors in a version that can tell them, if there is one.
fn root(
    talk: &mut Talk,
    nfs: &[Service],
    minor_versions: &[(ProtocolVersion, Answer<bool>)],
    options: &ProbeOptions,
) -> V4Root {
    let mut root = talk.root();
    if !talk.version().has_sessions()
        && let Ok(mut other) = talk_in(ProtocolVersion::has_sessions, nfs, minor_versions, options)
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

/// Asks for TLS in a version that answers over TCP, or at least is refused for its credential: a
/// server may take nothing without TLS.
fn tls(nfs: &[Service], options: &ProbeOptions) -> Answer<bool> {
    let over_tcp = nfs.iter().filter(|service| service.transport == Transport::Tcp);
    let is_there = |service: &&Service| match &service.null {
        Ok(_) | Err(NoAnswer::Rpc(RpcError::Authentication(_))) => service.address.is_some(),
        Err(_) => false,
    };
    let found = over_tcp.filter(is_there).max_by_key(|service| service.null.is_ok());
    let service = found.ok_or(NoAnswer::NotRequested("no version of NFS answers over TCP"))?;
    let address = service.address.ok_or(NoAnswer::NotRequested("no port is known"))?;
    services::offers_tls(address, service.version, options)
}
