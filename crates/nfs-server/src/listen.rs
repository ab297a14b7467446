//! Opens the sockets that a server answers on.
//!
//! TCP and UDP share a port: if the system chooses it, TCP asks first and UDP follows; if another
//! process already has that UDP port, both try again. Each loop has its own UDP socket.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use nfs_proto::program::OfferedPrograms;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_reuseport,
    set_socket_send_buffer_size, set_tcp_congestion,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};

use crate::config::{Portmap, ServerConfig};
use crate::error::ServerError;
use crate::event_loop::{Listener, Sockets};
use crate::limits::{BACKLOG, DATAGRAM_BUFFER_BYTES};

/// Attempts at finding a port that is free for both transports.
const PORT_ATTEMPTS: usize = 64;

/// All sockets of a server.
#[derive(Debug)]
pub(crate) struct OpenedSockets {
    /// Per loop; only the first loop has listeners.
    pub(crate) sockets: Vec<Sockets>,
    /// Address where NFS and MOUNT are served.
    pub(crate) address: SocketAddr,
    /// Address of the portmapper, if it is served.
    pub(crate) portmap_address: Option<SocketAddr>,
}

/// Opens the sockets of `threads` loops.
///
/// # Errors
/// `ServerError::Listen`.
pub(crate) fn open(config: &ServerConfig, threads: usize) -> Result<OpenedSockets, ServerError> {
    let mut sockets: Vec<_> = (0..threads).map(|_| Sockets::default()).collect();
    let programs = offered_programs(config);
    let address = open_port(config, config.port, programs, &mut sockets)?;
    let portmap_address = match config.portmap {
        Portmap::Off => None,
        Portmap::SamePort => Some(address),
        Portmap::Port(port) => Some(open_port(
            config,
            port,
            Programs { tcp: PORTMAPPER, udp: PORTMAPPER },
            &mut sockets,
        )?),
    };
    Ok(OpenedSockets { sockets, address, portmap_address })
}

/// The portmapper's programs.
const PORTMAPPER: OfferedPrograms =
    OfferedPrograms { portmap: true, rpcbind: true, ..OfferedPrograms::NONE };

/// The programs served on a port.
#[derive(Clone, Copy, Debug)]
struct Programs {
    tcp: OfferedPrograms,
    udp: OfferedPrograms,
}

/// Returns the programs on the NFS port: v4 is not served over UDP. **Source:** RFC 7530 section
/// 3.1.
fn offered_programs(config: &ServerConfig) -> Programs {
    let v2 = config.versions.v2;
    let v3 = config.versions.v3;
    let base = match config.portmap {
        Portmap::SamePort => PORTMAPPER,
        Portmap::Off | Portmap::Port(_) => OfferedPrograms::NONE,
    };
    let udp = OfferedPrograms { nfs2: v2, mount1: v2, nfs3: v3, mount3: v3, ..base };
    let nfs4 = config.versions.v4_0 || config.versions.v4_1 || config.versions.v4_2;
    Programs { tcp: OfferedPrograms { nfs4, ..udp }, udp }
}

/// Opens one port for all transports and returns its address.
fn open_port(
    config: &ServerConfig,
    port: u16,
    programs: Programs,
    sockets: &mut [Sockets],
) -> Result<SocketAddr, ServerError> {
    let attempts = if port == 0 { PORT_ATTEMPTS } else { 1 };
    let wanted = SocketAddr::new(config.listen, port);
    let mut outcome = Err(Errno::ADDRINUSE);
    for _ in 0..attempts {
        outcome = try_port(config, wanted, sockets.len());
        if !matches!(outcome, Err(Errno::ADDRINUSE)) {
            break;
        }
    }
    let (address, listener, datagrams) =
        outcome.map_err(|error| ServerError::Listen { address: wanted, source: error.into() })?;
    if let Some(socket) = listener {
        sockets[0].listeners.push(Listener { socket, offered: programs.tcp });
    }
    for (sockets, socket) in sockets.iter_mut().zip(datagrams) {
        sockets.datagrams.push((socket, programs.udp));
    }
    Ok(address)
}

type Port = (SocketAddr, Option<TcpListener>, Vec<UdpSocket>);

fn try_port(config: &ServerConfig, wanted: SocketAddr, threads: usize) -> Result<Port, Errno> {
    // With port 0 the first socket gets a port from the system, and the others use the same one.
    let mut address = wanted;
    let mut listener = None;
    if config.tcp {
        let socket = open_listener(address, config.congestion_control.as_deref())?;
        address = SocketAddr::try_from(getsockname(&socket)?)?;
        listener = Some(socket);
    }
    let mut datagrams = Vec::new();
    for _ in 0..if config.udp { threads } else { 0 } {
        let socket = open_datagrams(address, threads)?;
        address = SocketAddr::try_from(getsockname(&socket)?)?;
        datagrams.push(socket);
    }
    Ok((address, listener, datagrams))
}

/// Opens a listening socket; accepted ones inherit its congestion control.
fn open_listener(
    address: SocketAddr,
    congestion_control: Option<&str>,
) -> rustix::io::Result<TcpListener> {
    let socket = open_socket(address, SocketType::STREAM)?;
    set_socket_reuseaddr(&socket, true)?;
    if let Some(name) = congestion_control {
        // If it is refused or unknown, `Server::congestion_control` reports which one is in effect.
        let _ = set_tcp_congestion(&socket, name);
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Opens a datagram socket that shares its port with those of the other loops. With a single loop
/// it does not share, so it fails if another process already has the port.
fn open_datagrams(address: SocketAddr, loops: usize) -> rustix::io::Result<UdpSocket> {
    let socket = open_socket(address, SocketType::DGRAM)?;
    // The system grants less if its limit is lower.
    let _ = set_socket_recv_buffer_size(&socket, DATAGRAM_BUFFER_BYTES);
    let _ = set_socket_send_buffer_size(&socket, DATAGRAM_BUFFER_BYTES);
    set_socket_reuseport(&socket, loops > 1)?;
    bind(&socket, &address)?;
    Ok(UdpSocket::from(socket))
}

fn open_socket(address: SocketAddr, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, kind, flags, None)
}
