//! One blocking connection for set-up and clean-up.
//!
//! [`Control`] makes one call at a time and waits for it. It has a deadline for each call, so that
//! a server that sends a byte now and then does not hold it for ever.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use nfs_proto::client::{
    Chunk, Config, Event, Kind, Operation, PayloadMode, Session, StartError, Version,
};
use nfs_proto::program::Call;
use nfs_proto::{CallError, DecodeError};

use crate::error::{CallFailure, MountError};
use crate::options::{MountOptions, TRANSFER_BYTES_DEFAULT};

const RECEIVE_BYTES: usize = 64 * 1024;

/// A blocking connection to one service.
#[derive(Debug)]
pub(crate) struct Control {
    stream: TcpStream,
    server: SocketAddr,
    timeout: Duration,
    session: Session,
    receive: Vec<u8>,
    /// What was received and not taken yet: late replies may follow the one that is waited for.
    unread: Range<usize>,
}

impl Control {
    /// Connects to a service, whose name is for messages.
    pub(crate) fn connect(
        service: &'static str,
        server: SocketAddr,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let timeout = options.timeout;
        let stream = connect_stream(service, server, options)?;
        let config = Config {
            version: Version::V3,
            slots: 1,
            credential: options.credential(),
            payload: PayloadMode::Keep { bytes_per_slot: TRANSFER_BYTES_DEFAULT },
            xid_seed: xid_seed(&stream),
            ..Config::default()
        };
        let session = Session::new(&config);
        let receive = vec![0; RECEIVE_BYTES];
        Ok(Self { stream, server, timeout, session, receive, unread: 0..0 })
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Makes a call of any program and has `done` look at its successful end.
    pub(crate) fn call<T>(
        &mut self,
        call: &Call<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let started = self.session.start_call(0, 0, call);
        self.finish(Kind::of(call), started, done)
    }

    /// Does a file operation and has `done` look at its successful end.
    pub(crate) fn operate<T>(
        &mut self,
        operation: &Operation<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let started = self.session.start(0, 0, operation);
        self.finish(Kind::File(operation.kind()), started, done)
    }

    fn finish<T>(
        &mut self,
        name: Kind,
        started: Result<(), StartError>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let server = self.server;
        started.map_err(|reason| CallFailure::NotStarted { call: name, server, reason })?;
        let deadline = Deadline::after(self.timeout);
        let result = self.transfer(&deadline, name);
        if let Err(failure) = result {
            self.session.abandon(0);
            return Err(failure);
        }
        let Some(event) = self.session.poll_event() else {
            unreachable!("the transfer ends with an event")
        };
        let answered = |error| CallFailure::Answered { call: name, server, error };
        event.result.map_err(answered)?;
        done(&event).map_err(|error| answered(CallError::Malformed(error)))
    }

    /// Sends what is to be sent and receives until an event waits.
    fn transfer(&mut self, deadline: &Deadline, call: Kind) -> Result<(), CallFailure> {
        let server = self.server;
        let timeout = self.timeout;
        let lost = |reason: io::Error| match reason.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                CallFailure::TimedOut { call, server, timeout }
            }
            _ => CallFailure::Lost { call, server, reason },
        };
        self.send(deadline).map_err(lost)?;
        while !self.session.has_event() {
            if self.unread.is_empty() {
                self.unread = 0..self.receive_some(deadline).map_err(lost)?;
            }
            let bytes = &self.receive[self.unread.clone()];
            let taken = self.session.handle_input(0, bytes);
            self.unread.start +=
                taken.map_err(|error| CallFailure::Garbage { call, server, error })?;
        }
        Ok(())
    }

    fn send(&mut self, deadline: &Deadline) -> io::Result<()> {
        while self.session.wants_write() {
            self.stream.set_write_timeout(Some(deadline.left()?))?;
            let Some(Chunk::Bytes(bytes)) = self.session.outgoing().next() else {
                unreachable!("payload is copied on this connection")
            };
            match (&self.stream).write(bytes) {
                Ok(len) => self.session.sent(0, len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive_some(&mut self, deadline: &Deadline) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(deadline.left()?))?;
            match self.stream.read(&mut self.receive) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Opens a stream with the options that every connection has.
pub(crate) fn connect_stream(
    service: &'static str,
    server: SocketAddr,
    options: &MountOptions,
) -> Result<TcpStream, MountError> {
    let timeout = options.timeout;
    let stream =
        TcpStream::connect_timeout(&server, timeout).map_err(|reason| match reason.kind() {
            ErrorKind::TimedOut => MountError::NoAnswer { service, server, timeout },
            _ => MountError::Connect { service, server, reason },
        })?;
    stream.set_nodelay(true).map_err(|reason| MountError::Socket { server, reason })?;
    if let Some(name) = &options.congestion_control {
        rustix::net::sockopt::set_tcp_congestion(&stream, name).map_err(|errno| {
            MountError::CongestionControl { name: name.clone(), reason: errno.into() }
        })?;
    }
    Ok(stream)
}

/// Returns a start for xids that differs between connections that are open at the same time.
pub(crate) fn xid_seed(stream: &TcpStream) -> u32 {
    let port = stream.local_addr().map_or(0, |address| address.port());
    u32::from(port).wrapping_mul(0x9e37_79b9)
}

/// The instant at which one blocking call gives up.
struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "set-up blocks and is never measured")]
    fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Returns what is left, or `TimedOut`.
    #[expect(clippy::disallowed_methods, reason = "set-up blocks and is never measured")]
    fn left(&self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}
