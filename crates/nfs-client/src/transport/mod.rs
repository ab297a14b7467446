//! The sockets that messages travel over.
//!
//! [`Transport`] is one nonblocking, connected socket: a TCP stream or a UDP socket. Opening one is
//! the only thing here that waits, and never longer than its limit.
//! **Source:** RFC 5531 section 10, tcp(7), udp(7).

mod open;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

pub(crate) use open::{Opening, Route, connected, open};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Transport {
    /// Sends what the socket takes of these pieces; over UDP they are one datagram.
    pub(crate) fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let fd = self.as_fd();
        let mut no_control = SendAncillaryBuffer::default();
        Ok(sendmsg(fd, pieces, &mut no_control, SendFlags::NOSIGNAL)?)
    }

    /// Receives into `space`; 0 is the end of a stream, but may be a datagram.
    pub(crate) fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.as_fd(), space, RecvFlags::empty()).map(|(_, len)| len)?)
    }

    /// Passes over as many bytes of the stream as `space` has, without writing to it.
    ///
    /// TCP drops bytes asked for with MSG_TRUNC instead of copying them: tcp(7).
    pub(crate) fn discard(&mut self, space: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.as_fd(), space, RecvFlags::TRUNC).map(|(_, len)| len)?)
    }

    /// Tells whether bytes wait here that the socket has not taken.
    pub(crate) fn wants_write(&self) -> bool {
        false
    }

    /// Tells whether messages are datagrams.
    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// Returns the address of this end.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    /// Returns the congestion control in force, where there is one.
    pub(crate) fn congestion_control(&self) -> io::Result<Option<String>> {
        match self {
            Self::Tcp(stream) => Ok(Some(rustix::net::sockopt::tcp_congestion(stream)?)),
            Self::Udp(_) => Ok(None),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}
