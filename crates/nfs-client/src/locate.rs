//! Finds out where a server's services listen.
//!
//! Over IPv4 the portmapper of version 2 is queried, over IPv6 rpcbind of version 4 or 3, each over
//! the transport that is to be used. The order of the search stands at
//! [`MountOptions::mount_port`]. **Source:** RFC 1833.

use std::net::{SocketAddr, ToSocketAddrs};

use model::Proto;
use nfs_proto::client::ProtocolVersion;
use nfs_proto::portmap::{self, Mapping};
use nfs_proto::program::Call;
use nfs_proto::rpcbind::{self, NetId, Registration, UniversalAddress};
use nfs_proto::xdr::Reader;
use nfs_proto::{CallError, RpcError, Status, mount1, mount3, nfs3};

use crate::control::Control;
use crate::error::{CallFailure, MountError, Silence};
use crate::options::{Family, MountOptions};
use crate::transport::refuses_certificate;

pub(crate) const NFS: &str = "NFS";
pub(crate) const MOUNT: &str = "MOUNT";
pub(crate) const PORTMAPPER: &str = "the portmapper";

/// Resolves the host and connects to NFS on the first of its addresses that answers.
pub(crate) fn connect_nfs(options: &MountOptions) -> Result<Control, MountError> {
    let mut failure = None;
    for address in resolve(options)? {
        let connected = nfs_port(address, options)
            .and_then(|port| Control::connect(NFS, at(address, port), options));
        match connected {
            Ok(control) => return Ok(control),
            Err(error @ MountError::Interrupted { .. }) => return Err(error),
            // The first address is the preferred one; its failure is the one to report.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.expect("a name that resolves has at least one address"))
}

/// Connects to the MOUNT service that belongs to an NFS service.
pub(crate) fn connect_mount(
    nfs: SocketAddr,
    options: &MountOptions,
) -> Result<Control, MountError> {
    if let Some(port) = options.mount_port {
        return Control::connect(MOUNT, at(nfs, port), options);
    }
    if options.port.is_some()
        && let Ok(control) = offers_mount(nfs, options)
    {
        return Ok(control);
    }
    match ask_portmapper(nfs, MOUNT, options) {
        Ok(0) => Err(not_registered(MOUNT, nfs, options)),
        Ok(port) => Control::connect(MOUNT, at(nfs, port), options),
        Err(_) => offers_mount(nfs, options),
    }
}

/// Turns a failure of a call into the error of mounting that says most.
pub(crate) fn explain(
    service: &'static str,
    options: &MountOptions,
    failure: CallFailure,
) -> MountError {
    match failure {
        CallFailure::TimedOut { server, timeout, silence: Silence::Nothing, .. } => {
            MountError::NoAnswer { service, server, timeout }
        }
        CallFailure::Interrupted { server, why, .. } => {
            MountError::Interrupted { service, server, why }
        }
        CallFailure::Lost { server, reason, .. } if refuses_certificate(&reason) => {
            MountError::ClientCertificate { server, reason: reason.to_string() }
        }
        CallFailure::Lost { server, reason, .. }
            if reason.kind() == std::io::ErrorKind::ConnectionRefused =>
        {
            MountError::Connect { service, server, reason }
        }
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramMismatch { low, high }),
            ..
        } => {
            let requested = numbers(service, options).1;
            MountError::Version { service, server, requested, low, high }
        }
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramUnavailable),
            ..
        } => MountError::NotOffered { service, server },
        CallFailure::Answered { server, error, .. }
            if error.status() == Some(Status::MinorVersMismatch) =>
        {
            MountError::MinorVersion { server, requested: options.version }
        }
        failure => MountError::Call { service, failure: Box::new(failure) },
    }
}

/// Returns the program and version of a service.
fn numbers(service: &'static str, options: &MountOptions) -> (u32, u32) {
    match (service, options.version) {
        (NFS, version) => (nfs3::PROGRAM, version.program_version()),
        (MOUNT, ProtocolVersion::V2) => (mount1::PROGRAM, mount1::VERSION),
        (MOUNT, _) => (mount3::PROGRAM, mount3::VERSION),
        _ => (portmap::PROGRAM, portmap::VERSION),
    }
}

fn resolve(options: &MountOptions) -> Result<Vec<SocketAddr>, MountError> {
    let host = &options.host;
    let failed = |reason| MountError::Resolve { host: host.clone(), reason };
    // An address of version 6 may come in brackets, as in a URL.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses: Vec<_> = (bare, 0).to_socket_addrs().map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(std::io::Error::other("it has no address")));
    }
    if let Some(family) = options.family {
        let found = addresses[0].ip();
        addresses.retain(|address| address.is_ipv6() == (family == Family::V6));
        if addresses.is_empty() {
            return Err(MountError::Family { host: host.clone(), family, found });
        }
    }
    Ok(addresses)
}

/// Returns the same host's other port; the scope of an IPv6 address is kept.
fn at(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

fn nfs_port(address: SocketAddr, options: &MountOptions) -> Result<u16, MountError> {
    if let Some(port) = options.port {
        return Ok(port);
    }
    if options.version.is_stateful() {
        return Ok(nfs3::PORT);
    }
    match ask_portmapper(address, NFS, options) {
        Ok(0) => Err(not_registered(NFS, address, options)),
        Ok(port) => Ok(port),
        Err(_) => Ok(nfs3::PORT),
    }
}

/// Connects to MOUNT where NFS is, if it is offered there.
fn offers_mount(nfs: SocketAddr, options: &MountOptions) -> Result<Control, MountError> {
    let mut control = Control::connect(MOUNT, nfs, options)?;
    let call = match options.version {
        ProtocolVersion::V2 => Call::Mount1(mount1::Call::Null),
        _ => Call::Mount3(mount3::Call::Null),
    };
    control.call(&call, |_| Ok(())).map_err(|failure| explain(MOUNT, options, failure))?;
    Ok(control)
}

fn not_registered(service: &'static str, at: SocketAddr, options: &MountOptions) -> MountError {
    let (protocol, version) = (options.proto, numbers(service, options).1);
    MountError::NotRegistered { service, version, protocol, server: portmapper(at, options) }
}

fn portmapper(server: SocketAddr, options: &MountOptions) -> SocketAddr {
    at(server, options.portmap_port)
}

/// Returns the port of a service, or 0 where it is not registered.
fn ask_portmapper(
    server: SocketAddr,
    service: &'static str,
    options: &MountOptions,
) -> Result<u16, MountError> {
    let mut control = Control::connect(PORTMAPPER, portmapper(server, options), options)?;
    let (program, version) = numbers(service, options);
    let port = if server.is_ipv6() {
        let netid = NetId::of(options.proto == Proto::Udp, server.ip());
        ask_rpcbind(&mut control, program, version, netid)
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

/// Asks rpcbind of version 4, then 3.
fn ask_rpcbind(
    control: &mut Control,
    program: u32,
    version: u32,
    netid: NetId,
) -> Result<u16, CallFailure> {
    let netid = netid.name().as_bytes();
    let wanted = Registration { program, version, netid, address: b"", owner: b"" };
    let question = rpcbind::Call::Getaddr(wanted);
    let mut ask = |call: &Call<'_>| {
        control.call(call, |event| {
            let text = rpcbind::Reply::decode_address(Reader::new(event.body))?;
            Ok(UniversalAddress::parse(text).map_or(0, |address| address.port()))
        })
    };
    match ask(&Call::Rpcbind4(question)) {
        Err(failure) if is_mismatch(&failure) => ask(&Call::Rpcbind3(question)),
        result => result,
    }
}

fn is_mismatch(failure: &CallFailure) -> bool {
    matches!(failure.answered(), Some(CallError::Rpc(RpcError::ProgramMismatch { .. })))
}
