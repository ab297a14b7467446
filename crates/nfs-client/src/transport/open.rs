//! How a socket is opened: from a reserved port where requested, within a limit of time.
//!
//! [`open`] gives a [`Transport`] with all options set, under TLS where that was queried; this is
//! the only place that waits for a peer. [`begin`] and [`go_on`] do the same without waiting, as
//! far as there is no TLS.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use model::Proto;
use nfs_proto::client::ProtocolVersion;
use nfs_proto::rpc::ProcedureId;
use nfs_proto::{mount1, mount3, nfs3};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_tcp_congestion, set_tcp_nodelay, socket_error,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::tls::Deadline;
use super::{Refused, Tls, TlsStream, Transport, refuses_certificate};
use crate::error::MountError;
use crate::interrupt::{Interrupt, LOOK_EVERY};
use crate::locate::{MOUNT, PORTMAPPER};
use crate::options::MountOptions;

/// Ports that only a privileged process may call from and that no service has by custom.
///
/// **Source:** Linux include/linux/sunrpc/xprtsock.h, `RPC_DEF_MIN_RESVPORT` and its maximum.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;

/// The receive buffer that is requested where replies are datagrams, in bytes.
const DATAGRAM_ROOM_BYTES: usize = 4 * 1024 * 1024;

/// The connection that is to be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening<'a> {
    /// Its name, for messages.
    pub(crate) service: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) options: &'a MountOptions,
    /// How long it may take.
    pub(crate) timeout: Duration,
}

/// The way to a server.
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

/// How far an attempt to open a socket has come.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is open.
    Open(Transport),
    /// The server has not answered yet.
    InProgress(OwnedFd),
}

/// Opens a socket with the options that every connection has.
pub(crate) fn open(opening: &Opening<'_>) -> Result<Transport, MountError> {
    let fd = connected(&opening.route()).map_err(|reason| opening.failed(reason))?;
    finish(fd, opening)
}

/// Begins to open a socket, without waiting for the server: but under TLS, whose handshake waits.
pub(crate) fn begin(opening: &Opening<'_>) -> Result<Attempt, MountError> {
    if opening.options.tls.is_some() {
        return open(opening).map(Attempt::Open);
    }
    match begun(&opening.route()).map_err(|reason| opening.failed(reason))? {
        (fd, true) => finish(fd, opening).map(Attempt::Open),
        (fd, false) => Ok(Attempt::InProgress(fd)),
    }
}

/// Goes on with what [`begin`] has begun.
pub(crate) fn go_on(fd: OwnedFd, opening: &Opening<'_>) -> Result<Attempt, MountError> {
    let answered = wait_for(fd.as_fd(), PollFlags::OUT, Duration::ZERO, &Interrupt::default());
    match answered.and_then(|()| socket_error(&fd)?.map_err(io::Error::from)) {
        Ok(()) => finish(fd, opening).map(Attempt::Open),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Attempt::InProgress(fd)),
        Err(error) => Err(opening.failed(error)),
    }
}

impl Opening<'_> {
    fn route(&self) -> Route {
        let Self { server, options, timeout, .. } = *self;
        Route {
            server,
            proto: options.proto,
            resvport: options.resvport,
            timeout,
            interrupt: options.interrupt.clone(),
        }
    }

    fn failed(&self, reason: io::Error) -> MountError {
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

/// Gives a connected socket its options, and puts it under TLS where that was queried.
fn finish(fd: OwnedFd, opening: &Opening<'_>) -> Result<Transport, MountError> {
    let Opening { service, server, options, .. } = *opening;
    let socket = |reason: io::Error| MountError::Socket { server, reason };
    if options.proto == Proto::Udp {
        // Room for the replies to all calls in flight; the system may grant less.
        let _ = set_socket_recv_buffer_size(&fd, DATAGRAM_ROOM_BYTES);
        return Ok(Transport::Udp(UdpSocket::from(fd)));
    }
    set_tcp_nodelay(&fd, true).map_err(|errno| socket(errno.into()))?;
    if let Some(name) = &options.congestion_control {
        set_tcp_congestion(&fd, name).map_err(|errno| MountError::CongestionControl {
            name: name.clone(),
            reason: errno.into(),
        })?;
    }
    let stream = TcpStream::from(fd);
    match &options.tls {
        Some(tls) if service != PORTMAPPER => protected(stream, tls, opening),
        _ => Ok(Transport::Tcp(stream)),
    }
}

/// Puts a stream under TLS. MOUNT may be without: servers in a kernel have theirs in a daemon that
/// does not know TLS.
fn protected(stream: TcpStream, tls: &Tls, opening: &Opening<'_>) -> Result<Transport, MountError> {
    let Opening { service, server, options, timeout } = *opening;
    let (program, version) = match (service, options.version) {
        (MOUNT, ProtocolVersion::V2) => (mount1::PROGRAM, mount1::VERSION),
        (MOUNT, _) => (mount3::PROGRAM, mount3::VERSION),
        (_, version) => (nfs3::PROGRAM, version.program_version()),
    };
    let null_call = ProcedureId::null(program, version);
    let deadline = Deadline::after(timeout, options.interrupt.clone());
    let started = TlsStream::start(stream, null_call, tls, &options.host, &deadline);
    let (stream, refused) = match started {
        Ok(stream) => return Ok(Transport::Tls(stream)),
        Err(refused) => refused,
    };
    Err(match refused {
        Refused::NotOffered if service == MOUNT => return Ok(Transport::Tcp(stream)),
        Refused::NotOffered => MountError::NoTls { service, server },
        Refused::Trust(reason) => MountError::Trust { reason },
        Refused::Certificate(reason) => {
            MountError::Untrusted { server, reason: reason.to_string() }
        }
        Refused::Failed(reason) if options.interrupt.reason().is_some() => opening.failed(reason),
        Refused::Failed(reason) if reason.kind() == ErrorKind::TimedOut => {
            MountError::NoAnswer { service, server, timeout }
        }
        Refused::Failed(reason) if refuses_certificate(&reason) => {
            MountError::ClientCertificate { server, reason: reason.to_string() }
        }
        Refused::Failed(reason) => MountError::Handshake { server, reason },
    })
}

/// Returns a nonblocking socket that is connected.
pub(crate) fn connected(route: &Route) -> io::Result<OwnedFd> {
    let (fd, is_connected) = begun(route)?;
    if !is_connected {
        wait_for(fd.as_fd(), PollFlags::OUT, route.timeout, &route.interrupt)?;
        socket_error(&fd)??;
    }
    Ok(fd)
}

/// Returns a nonblocking socket that is connected or about to be, and which of both.
fn begun(route: &Route) -> io::Result<(OwnedFd, bool)> {
    if !route.resvport {
        return connect_from(route, None);
    }
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for port in RESERVED_PORTS.rev() {
        match connect_from(route, Some(port)) {
            Err(error) if is_taken(&error) => last = error,
            result => return result,
        }
    }
    Err(last)
}

/// Another socket has this port, or had it with this server a moment ago.
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

/// Waits until a socket is ready, or fails with `TimedOut`, also where the caller wants no more.
pub(super) fn wait_for(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    timeout: Duration,
    interrupt: &Interrupt,
) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let mut left = timeout;
    loop {
        let step = left.min(LOOK_EVERY);
        left -= step;
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(step.subsec_nanos()) };
        match poll(&mut fds, Some(&wait)) {
            Ok(0) if left.is_zero() || interrupt.reason().is_some() => {
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}
