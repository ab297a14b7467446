//! The sockets that messages travel over.
//!
//! [`Transport`] is one nonblocking, connected socket: TCP, TCP with TLS, or UDP. Only opening one
//! blocks, and never longer than its limit. **Source:** RFC 5531 section 10, tcp(7), udp(7).

mod deadline;
mod open;
mod tcp_counters;
mod tls;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

pub(crate) use open::{
    Opening, Route, SocketAttempt, begin_opening, connect_socket, continue_opening, open_transport,
};
pub use tcp_counters::{TcpCounters, TcpMeter};
pub use tls::{Tls, TlsOptions};
pub(crate) use tls::{TlsFailure, TlsStream, offers_starttls, refuses_certificate};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    Udp(UdpSocket),
    Tls(TlsStream),
}

impl Transport {
    /// Sends as much of these pieces as the socket takes; over UDP they are one datagram.
    pub(crate) fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.send(pieces);
        }
        let fd = self.as_fd();
        let mut no_control = SendAncillaryBuffer::default();
        Ok(sendmsg(fd, pieces, &mut no_control, SendFlags::NOSIGNAL)?)
    }

    /// Receives into `space`; 0 is the end of a stream, but may be a datagram.
    pub(crate) fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.receive(space);
        }
        Ok(recv(self.as_fd(), space, RecvFlags::empty())?.1)
    }

    /// Skips up to as many bytes of the stream as `space` has; only TLS writes to it.
    ///
    /// TCP drops bytes received with MSG_TRUNC instead of copying them: tcp(7).
    pub(crate) fn discard(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if let Self::Tls(stream) = self {
            return stream.receive(space);
        }
        Ok(recv(self.as_fd(), space, RecvFlags::TRUNC)?.1)
    }

    /// Makes the socket ready for reading only when it has this many bytes, or has ended; returns
    /// false if that failed, or for TLS and datagrams, whose sizes on the wire are not known here.
    ///
    /// **Source:** socket(7), SO_RCVLOWAT.
    #[expect(unsafe_code, reason = "rustix has no SO_RCVLOWAT")]
    pub(crate) fn set_low_water(&self, bytes: usize) -> bool {
        let Self::Tcp(stream) = self else { return false };
        let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: the kernel reads the `size_of_val(&value)` bytes of `value`, which outlives the
        // call.
        let result = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        result == 0
    }

    /// Returns true if bytes are waiting here that the socket has not taken.
    pub(crate) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.wants_write())
    }

    /// Returns true if messages are datagrams.
    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// Returns the address of this end.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
            Self::Tls(stream) => stream.stream.local_addr(),
        }
    }

    /// Returns the effective congestion control, if there is one.
    pub(crate) fn congestion_control(&self) -> io::Result<Option<String>> {
        match self {
            Self::Tcp(_) | Self::Tls(_) => {
                Ok(Some(rustix::net::sockopt::tcp_congestion(self.as_fd())?))
            }
            Self::Udp(_) => Ok(None),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
            Self::Tls(stream) => stream.stream.as_fd(),
        }
    }
}
