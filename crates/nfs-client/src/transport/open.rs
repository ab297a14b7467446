//! Opening a socket: from a reserved port if requested, within a time limit.
//!
//! [`open_transport`] returns a [`Transport`] with all options set, with TLS if requested; it is
//! the only function that waits for a peer. [`begin_opening`] and [`continue_opening`] do the same
//! without blocking, except for TLS.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nfs_proto::rpc::ProcedureId;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_tcp_congestion, set_tcp_nodelay, socket_error,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::deadline::{Deadline, wait_for};
use super::{Tls, TlsFailure, TlsStream, Transport, refuses_certificate};
use crate::error::MountError;
use crate::interrupt::Interrupt;
use crate::options::{MountOptions, Proto};
use crate::service::{MOUNT, PORTMAPPER, program_of};

/// Ports that only a privileged process may call from and that no service conventionally uses.
///
/// **Source:** Linux include/linux/sunrpc/xprtsock.h, `RPC_DEF_MIN_RESVPORT` and its maximum.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;

/// Receive buffer requested for datagrams, in bytes.
const DATAGRAM_ROOM_BYTES: usize = 4 * 1024 * 1024;

/// The connection to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening<'a> {
    /// Name of the service, for messages.
    pub(crate) service: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) options: &'a MountOptions,
    /// How long it may take.
    pub(crate) timeout: Duration,
}

/// Address and options for reaching a server.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) server: SocketAddr,
    pub(crate) proto: Proto,
    /// Whether to call from a reserved port.
    pub(crate) resvport: bool,
    /// How long connecting may take.
    pub(crate) timeout: Duration,
    /// Ends it before that.
    pub(crate) interrupt: Interrupt,
}

/// State of an attempt to open a socket.
#[derive(Debug)]
pub(crate) enum SocketAttempt {
    /// It is open.
    Open(Transport),
    /// The connect is still in progress.
    InProgress(OwnedFd),
}

/// Opens a socket with the options common to all connections.
pub(crate) fn open_transport(opening: &Opening<'_>) -> Result<Transport, MountError> {
    match connect_socket(&opening.route_to()) {
        Ok(fd) => configure_socket(fd, opening),
        Err(reason) => Err(opening.error_of(reason)),
    }
}

/// Starts to open a socket, without waiting for the server; only a TLS handshake blocks.
pub(crate) fn begin_opening(opening: &Opening<'_>) -> Result<SocketAttempt, MountError> {
    if opening.options.tls.is_some() {
        return open_transport(opening).map(SocketAttempt::Open);
    }
    match begin_connecting(&opening.route_to()) {
        Ok((fd, true)) => configure_socket(fd, opening).map(SocketAttempt::Open),
        Ok((fd, false)) => Ok(SocketAttempt::InProgress(fd)),
        Err(reason) => Err(opening.error_of(reason)),
    }
}

/// Continues an attempt started by [`begin_opening`].
pub(crate) fn continue_opening(
    fd: OwnedFd,
    opening: &Opening<'_>,
) -> Result<SocketAttempt, MountError> {
    match connect_result(&fd, Duration::ZERO, &Interrupt::default()) {
        Ok(()) => configure_socket(fd, opening).map(SocketAttempt::Open),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(SocketAttempt::InProgress(fd)),
        Err(error) => Err(opening.error_of(error)),
    }
}

impl Opening<'_> {
    fn route_to(&self) -> Route {
        let Self { server, options, timeout, .. } = *self;
        Route {
            server,
            proto: options.proto,
            resvport: options.resvport,
            timeout,
            interrupt: options.interrupt.clone(),
        }
    }

    fn error_of(&self, reason: io::Error) -> MountError {
        let Self { service, server, timeout, .. } = *self;
        if let Some(why) = self.options.interrupt.reason() {
            return MountError::Interrupted { service, server, why };
        }
        match reason.kind() {
            ErrorKind::TimedOut => MountError::NoAnswer { service, server, timeout },
            ErrorKind::PermissionDenied => MountError::ReservedPort { server, reason },
            _ => MountError::Connect { service, server, reason },
        }
    }
}

/// Sets the options of a connected socket, and starts TLS if requested.
fn configure_socket(fd: OwnedFd, opening: &Opening<'_>) -> Result<Transport, MountError> {
    let Opening { service, server, options, .. } = *opening;
    if options.proto == Proto::Udp {
        // Room for the replies to all calls in flight; the system may grant less.
        let _ = set_socket_recv_buffer_size(&fd, DATAGRAM_ROOM_BYTES);
        return Ok(Transport::Udp(UdpSocket::from(fd)));
    }
    // Nagle's algorithm would hold back a small call until the reply to the one before it.
    if let Err(errno) = set_tcp_nodelay(&fd, true) {
        return Err(MountError::Socket { server, reason: errno.into() });
    }
    if let Some(name) = &options.congestion_control
        && let Err(errno) = set_tcp_congestion(&fd, name)
    {
        return Err(MountError::CongestionControl { name: name.clone(), reason: errno.into() });
    }
    let stream = TcpStream::from(fd);
    match &options.tls {
        Some(tls) if service != PORTMAPPER => start_tls(stream, tls, opening),
        _ => Ok(Transport::Tcp(stream)),
    }
}

/// Starts TLS on a stream. MOUNT may do without: kernel servers have theirs in a daemon that does
/// not support TLS.
fn start_tls(stream: TcpStream, tls: &Tls, opening: &Opening<'_>) -> Result<Transport, MountError> {
    let Opening { service, server, options, timeout } = *opening;
    let (program, version) = program_of(service, options);
    let null_call = ProcedureId::null(program, version);
    let deadline = Deadline::after_timeout(timeout, options.interrupt.clone());
    let started = TlsStream::start(stream, null_call, tls, &options.host, &deadline);
    let (stream, refused) = match started {
        Ok(stream) => return Ok(Transport::Tls(stream)),
        Err(refused) => refused,
    };
    Err(match refused {
        TlsFailure::NotOffered if service == MOUNT => return Ok(Transport::Tcp(stream)),
        TlsFailure::NotOffered => MountError::NoTls { service, server },
        TlsFailure::Trust(reason) => MountError::Trust { reason },
        TlsFailure::Certificate(reason) => {
            MountError::Untrusted { server, reason: reason.to_string() }
        }
        TlsFailure::Failed(reason) if options.interrupt.reason().is_some() => {
            opening.error_of(reason)
        }
        TlsFailure::Failed(reason) if reason.kind() == ErrorKind::TimedOut => {
            MountError::NoAnswer { service, server, timeout }
        }
        TlsFailure::Failed(reason) if refuses_certificate(&reason) => {
            MountError::ClientCertificate { server, reason: reason.to_string() }
        }
        TlsFailure::Failed(reason) => MountError::Handshake { server, reason },
    })
}

/// Returns a connected, nonblocking socket.
pub(crate) fn connect_socket(route: &Route) -> io::Result<OwnedFd> {
    let (fd, is_connected) = begin_connecting(route)?;
    if !is_connected {
        connect_result(&fd, route.timeout, &route.interrupt)?;
    }
    Ok(fd)
}

/// Waits for a connect to complete, and returns its result.
fn connect_result(fd: &OwnedFd, timeout: Duration, interrupt: &Interrupt) -> io::Result<()> {
    // A socket that becomes writable has connected or failed; SO_ERROR tells which, see EINPROGRESS
    // in connect(2).
    wait_for(fd.as_fd(), PollFlags::OUT, timeout, interrupt)?;
    socket_error(fd)??;
    Ok(())
}

/// Returns a nonblocking socket, and whether it is already connected.
fn begin_connecting(route: &Route) -> io::Result<(OwnedFd, bool)> {
    if !route.resvport {
        return connect_from(route, None);
    }
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    // From the top down: services use ports at the low end.
    for port in RESERVED_PORTS.rev() {
        match connect_from(route, Some(port)) {
            Err(error) if is_taken(&error) => last = error,
            result => return result,
        }
    }
    Err(last)
}

/// Another socket has this port, or recently had it with this server.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable)
}

fn connect_from(route: &Route, port: Option<u16>) -> io::Result<(OwnedFd, bool)> {
    let server = route.server;
    let (family, any) = match server {
        SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let kind = match route.proto {
        Proto::Tcp => SocketType::STREAM,
        Proto::Udp => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, kind, flags, None)?;
    if let Some(port) = port {
        bind(&fd, &SocketAddr::new(any, port))?;
    }
    match connect(&fd, &server) {
        Ok(()) => Ok((fd, true)),
        Err(Errno::INPROGRESS) => Ok((fd, false)),
        Err(errno) => Err(errno.into()),
    }
}
