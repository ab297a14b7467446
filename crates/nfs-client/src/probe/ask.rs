//! One question at a time over one transport, each with a deadline.
//!
//! [`Asker`] has no slots and no pipelining, so it can ask what a session can't: programs and
//! versions that may not exist, and credentials that should be refused. After a failure that makes
//! the connection unusable, every further question ends at once with the same answer, so a silent
//! server costs only one timeout.
//!
//! **Source:** RFC 5531 sections 9 and 11.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nfs_proto::program::Call;
use nfs_proto::record::{self, Inbox};
use nfs_proto::rpc::{
    AuthSys, CallHeader, Credential, Groups, ProcedureId, RPC_VERSION, ReplyHeader,
};
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{DecodeError, RpcError};

use super::data::{Answer, NoAnswer};
use super::options::ProbeOptions;
use crate::interrupt::Interrupt;
use crate::options::Proto;
use crate::transport::{Route, connect_socket};

/// Largest reply over TCP, in bytes, for long lists of registrations and exports.
const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest datagram, in bytes. **Source:** RFC 768, a length of 16 bits.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// How often a datagram is sent before we give up.
const DATAGRAM_SENDS: u32 = 3;
const RECEIVE_BYTES: usize = 64 * 1024;

#[derive(Debug)]
enum Wire {
    Tcp(TcpStream, Inbox),
    Udp(UdpSocket, Vec<u8>),
}

/// A connection, or a datagram socket, to one port of the server.
#[derive(Debug)]
pub(super) struct Asker {
    wire: Wire,
    timeout: Duration,
    uid: u32,
    gid: u32,
    xid: u32,
    /// Why nothing more is asked here.
    ended: Option<NoAnswer>,
}

impl Asker {
    /// Connects; over UDP this only fails if there is no socket.
    pub(super) fn connect(
        proto: Proto,
        server: SocketAddr,
        options: &ProbeOptions,
    ) -> Answer<Self> {
        let timeout = options.timeout;
        let route = Route {
            server,
            proto,
            resvport: options.resvport,
            timeout,
            interrupt: Interrupt::default(),
        };
        let wire = Wire::open_socket(&route).map_err(|error| reason_for_no_answer(&error))?;
        let port = u32::from(wire.local_port());
        let xid = port.wrapping_mul(0x9e37_79b9);
        Ok(Self { wire, timeout, uid: options.uid, gid: options.gid, xid, ended: None })
    }

    /// Returns a number that differs between connections that are open at the same time.
    pub(super) fn identity(&self) -> u32 {
        self.xid
    }

    /// Makes a call as the user in the options and decodes its results with `done`.
    pub(super) fn call<T>(
        &mut self,
        call: &Call<'_>,
        done: impl FnOnce(Reader<'_>) -> Result<T, DecodeError>,
    ) -> Answer<T> {
        self.ask(call.procedure_id(), |writer| call.encode(writer), done)
    }

    /// Makes a call that [`Call`] may not contain.
    pub(super) fn ask<T>(
        &mut self,
        id: ProcedureId,
        arguments: impl FnOnce(&mut Writer<'_>),
        done: impl FnOnce(Reader<'_>) -> Result<T, DecodeError>,
    ) -> Answer<T> {
        let user = Credential::Sys(AuthSys {
            stamp: 0,
            machine_name: &b"dfsbench"[..],
            uid: self.uid,
            gid: self.gid,
            groups: Groups::default(),
        });
        let reply = self.exchange(id, user, arguments)?;
        let mut reader = Reader::new(&reply);
        let header = ReplyHeader::decode(&mut reader).map_err(NoAnswer::Malformed)?;
        header.result.map_err(no_answer_of_refusal)?;
        done(reader).map_err(NoAnswer::Malformed)
    }

    /// Makes a call with any credential and returns the whole reply, including the header.
    pub(super) fn exchange(
        &mut self,
        id: ProcedureId,
        credential: Credential<'_>,
        arguments: impl FnOnce(&mut Writer<'_>),
    ) -> Answer<Vec<u8>> {
        if let Some(reason) = &self.ended {
            return Err(reason.clone());
        }
        // A new xid for each question: a late reply is then not mistaken for the answer to the next
        // one.
        self.xid = self.xid.wrapping_add(1);
        let credential = Ok(credential);
        let ProcedureId { program, version, procedure } = id;
        let xid = self.xid;
        let header =
            CallHeader { xid, rpc_version: RPC_VERSION, program, version, procedure, credential };
        let mut message = Vec::new();
        let mark = record::begin(&mut message);
        let mut writer = Writer::new(&mut message);
        header.encode(&mut writer);
        arguments(&mut writer);
        record::end(&mut message, mark, 0);
        match self.wire.exchange(&message, xid, self.timeout) {
            Ok(reply) => Ok(reply),
            Err(error) => {
                let reason = reason_for_no_answer(&error);
                self.ended = Some(reason.clone());
                Err(reason)
            }
        }
    }
}

impl Wire {
    fn open_socket(route: &Route) -> io::Result<Self> {
        let fd = connect_socket(route)?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(match route.proto {
            Proto::Udp => Self::Udp(UdpSocket::from(fd), Vec::new()),
            Proto::Tcp => {
                let stream = TcpStream::from(fd);
                stream.set_nodelay(true)?;
                Self::Tcp(stream, Inbox::new(REPLY_BYTES_MAX))
            }
        })
    }

    fn local_port(&self) -> u16 {
        let address = match self {
            Self::Tcp(stream, _) => stream.local_addr(),
            Self::Udp(socket, _) => socket.local_addr(),
        };
        match address {
            Ok(address) => address.port(),
            Err(_) => 0,
        }
    }

    /// Sends a framed call and waits for its reply.
    fn exchange(&mut self, message: &[u8], xid: u32, timeout: Duration) -> io::Result<Vec<u8>> {
        let deadline = Deadline::after_timeout(timeout);
        match self {
            Self::Tcp(stream, inbox) => {
                send_stream(stream, message, &deadline)?;
                receive_stream(stream, inbox, xid, &deadline)
            }
            Self::Udp(socket, buffer) => {
                let datagram = &message[nfs_proto::limits::MARK_BYTES..];
                buffer.resize(DATAGRAM_BYTES_MAX, 0);
                // Lost datagrams are sent again, with the same xid: either copy may be answered.
                for _ in 0..DATAGRAM_SENDS {
                    let pause = Deadline::after_timeout(timeout / DATAGRAM_SENDS);
                    socket.send(datagram)?;
                    match receive_datagram(socket, buffer, xid, &pause) {
                        Err(error) if is_timeout(&error) => {}
                        received => return received,
                    }
                }
                Err(ErrorKind::TimedOut.into())
            }
        }
    }
}

fn send_stream(stream: &mut TcpStream, mut rest: &[u8], deadline: &Deadline) -> io::Result<()> {
    while !rest.is_empty() {
        stream.set_write_timeout(Some(deadline.time_left()?))?;
        match stream.write(rest) {
            Ok(sent) => rest = &rest[sent..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives records until one matches `xid`.
fn receive_stream(
    stream: &mut TcpStream,
    inbox: &mut Inbox,
    xid: u32,
    deadline: &Deadline,
) -> io::Result<Vec<u8>> {
    loop {
        while let Some(found) = inbox.next_record().map_err(io::Error::other)? {
            if Reader::new(found).u32() == Ok(xid) {
                return Ok(found.to_vec());
            }
        }
        stream.set_read_timeout(Some(deadline.time_left()?))?;
        match stream.read(inbox.free_space(RECEIVE_BYTES)) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => inbox.mark_filled(len),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives datagrams until one matches `xid`.
fn receive_datagram(
    socket: &UdpSocket,
    buffer: &mut [u8],
    xid: u32,
    deadline: &Deadline,
) -> io::Result<Vec<u8>> {
    loop {
        socket.set_read_timeout(Some(deadline.time_left()?))?;
        match socket.recv(buffer) {
            Ok(len) if Reader::new(&buffer[..len]).u32() == Ok(xid) => {
                return Ok(buffer[..len].to_vec());
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Converts a system error to the reason for a missing answer.
fn reason_for_no_answer(error: &io::Error) -> NoAnswer {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => NoAnswer::Silent,
        ErrorKind::ConnectionRefused => NoAnswer::Refused,
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => NoAnswer::Closed,
        _ => NoAnswer::System(error.to_string()),
    }
}

/// Converts a refusal at the RPC level to the reason for a missing answer.
fn no_answer_of_refusal(error: RpcError) -> NoAnswer {
    match error {
        RpcError::ProgramUnavailable => NoAnswer::NoProgram,
        RpcError::ProgramMismatch { low, high } => NoAnswer::VersionMismatch { low, high },
        other => NoAnswer::Rpc(other),
    }
}

/// The deadline of one question.
struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "probes block and are never measured")]
    fn after_timeout(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Returns the remaining time, or `TimedOut`.
    #[expect(clippy::disallowed_methods, reason = "probes block and are never measured")]
    fn time_left(&self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}
