//! Locates a server's services.
//!
//! Over IPv4 we query portmap version 2, over IPv6 rpcbind version 4 or 3, each over the transport
//! to be used. For the order of the search see [`MountOptions::mount_port`]. **Source:** RFC 1833.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use nfs_proto::client::ProtocolVersion;
use nfs_proto::portmap::{self, Mapping};
use nfs_proto::program::Call;
use nfs_proto::rpcbind::{self, NetId, Registration, UniversalAddress};
use nfs_proto::xdr::Reader;
use nfs_proto::{CallError, RpcError, mount1, mount3, nfs3};

use crate::connection::Control;
use crate::error::{CallFailure, MountError};
use crate::options::{Family, MountOptions, Proto};
use crate::service::{MOUNT, NFS, PORTMAPPER, explain, program_of};

/// Resolves the host and connects to NFS at the first of its addresses that answers.
pub(crate) fn connect_nfs(options: &MountOptions) -> Result<Control, MountError> {
    let mut first_failure = None;
    for address in resolve_host(options)? {
        match connect_nfs_at(address, options) {
            Ok(control) => return Ok(control),
            Err(error @ MountError::Interrupted { .. }) => return Err(error),
            // The first address is the preferred one; its failure is the one to report.
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.expect("a resolved name has at least one address"))
}

fn connect_nfs_at(address: SocketAddr, options: &MountOptions) -> Result<Control, MountError> {
    let port = find_nfs_port(address, options)?;
    Control::connect(NFS, with_port(address, port), options)
}

/// Connects to the MOUNT service that belongs to an NFS service.
pub(crate) fn connect_mount(
    nfs: SocketAddr,
    options: &MountOptions,
) -> Result<Control, MountError> {
    if let Some(port) = options.mount_port {
        return Control::connect(MOUNT, with_port(nfs, port), options);
    }
    // A server with one port for everything answers MOUNT there, and may run next to another
    // server's portmapper, which would lead to that server's exports.
    if options.port.is_some()
        && let Ok(control) = connect_mount_at_nfs(nfs, options)
    {
        return Ok(control);
    }
    match query_portmapper(nfs, MOUNT, options) {
        Ok(0) => Err(not_registered(MOUNT, nfs, options)),
        Ok(port) => Control::connect(MOUNT, with_port(nfs, port), options),
        Err(_) => connect_mount_at_nfs(nfs, options),
    }
}

fn resolve_host(options: &MountOptions) -> Result<Vec<SocketAddr>, MountError> {
    let host = &options.host;
    // An IPv6 address may be in brackets, as in a URL.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses: Vec<SocketAddr> = match (bare, 0).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(reason) => return Err(MountError::Resolve { host: host.clone(), reason }),
    };
    let Some(first) = addresses.first().copied() else {
        let reason = io::Error::other("the name has no address");
        return Err(MountError::Resolve { host: host.clone(), reason });
    };
    if let Some(family) = options.family {
        addresses.retain(|address| address.is_ipv6() == (family == Family::V6));
        if addresses.is_empty() {
            return Err(MountError::Family { host: host.clone(), family, found: first.ip() });
        }
    }
    Ok(addresses)
}

/// Returns the same host with another port; the scope of an IPv6 address is kept.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

fn find_nfs_port(address: SocketAddr, options: &MountOptions) -> Result<u16, MountError> {
    if let Some(port) = options.port {
        return Ok(port);
    }
    // Version 4 has one well-known port, so that it passes firewalls without a portmapper: RFC 7530
    // section 3.1. Older versions fall back to it if the portmapper does not answer.
    if options.version.is_stateful() {
        return Ok(nfs3::PORT);
    }
    match query_portmapper(address, NFS, options) {
        Ok(0) => Err(not_registered(NFS, address, options)),
        Ok(port) => Ok(port),
        Err(_) => Ok(nfs3::PORT),
    }
}

/// Connects to MOUNT on the NFS port, if it is offered there.
fn connect_mount_at_nfs(nfs: SocketAddr, options: &MountOptions) -> Result<Control, MountError> {
    let mut control = Control::connect(MOUNT, nfs, options)?;
    let null = match options.version {
        ProtocolVersion::V2 => Call::Mount1(mount1::Call::Null),
        _ => Call::Mount3(mount3::Call::Null),
    };
    match control.call(&null, |_| Ok(())) {
        Ok(()) => Ok(control),
        Err(failure) => Err(explain(MOUNT, options, failure)),
    }
}

fn not_registered(service: &'static str, at: SocketAddr, options: &MountOptions) -> MountError {
    let (_, version) = program_of(service, options);
    MountError::NotRegistered {
        service,
        version,
        protocol: options.proto,
        server: with_port(at, options.portmap_port),
    }
}

/// Returns the port of a service, or 0 if it is not registered.
fn query_portmapper(
    server: SocketAddr,
    service: &'static str,
    options: &MountOptions,
) -> Result<u16, MountError> {
    let portmapper = with_port(server, options.portmap_port);
    let mut control = Control::connect(PORTMAPPER, portmapper, options)?;
    let (program, version) = program_of(service, options);
    // Portmap v2 has only IPv4 ports. Registrations for IPv6 are queried as universal addresses,
    // which rpcbind introduced: RFC 1833 section 2.
    let port = if server.is_ipv6() {
        let netid = NetId::from_address(options.proto == Proto::Udp, server.ip());
        query_rpcbind(&mut control, program, version, netid)
    } else {
        let protocol = match options.proto {
            Proto::Tcp => portmap::PROTOCOL_TCP,
            Proto::Udp => portmap::PROTOCOL_UDP,
        };
        let mapping = Mapping { program, version, protocol, port: 0 };
        let call = Call::Portmap(portmap::Call::Getport(mapping));
        control.call(&call, |event| portmap::Reply::decode_getport(Reader::new(event.body)))
    };
    port.map_err(|failure| explain(PORTMAPPER, options, failure))
}

/// Queries rpcbind of version 4, then 3.
fn query_rpcbind(
    control: &mut Control,
    program: u32,
    version: u32,
    netid: NetId,
) -> Result<u16, CallFailure> {
    let netid = netid.name().as_bytes();
    let wanted = Registration { program, version, netid, address: b"", owner: b"" };
    let getaddr = rpcbind::Call::Getaddr(wanted);
    match query_address(control, &Call::Rpcbind4(getaddr)) {
        Err(failure) if is_mismatch(&failure) => query_address(control, &Call::Rpcbind3(getaddr)),
        result => result,
    }
}

/// Makes a GETADDR and returns the port of its address; 0 if the address is empty.
fn query_address(control: &mut Control, call: &Call<'_>) -> Result<u16, CallFailure> {
    control.call(call, |event| {
        let text = rpcbind::Reply::decode_address(Reader::new(event.body))?;
        match UniversalAddress::parse(text) {
            Some(address) => Ok(address.port()),
            None => Ok(0),
        }
    })
}

fn is_mismatch(failure: &CallFailure) -> bool {
    matches!(failure.answered(), Some(CallError::Rpc(RpcError::ProgramMismatch { .. })))
}
