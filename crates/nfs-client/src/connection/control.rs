//! A blocking connection for setup and cleanup.
//!
//! [`Control`] makes one call at a time and waits for it, over any transport. Each call has a
//! deadline, so that a server that sends a byte now and then does not block it forever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_proto::client::{
    Counters, Event, File, Kind, OpenAccess, Operation, Outcome, ProtocolVersion, Session,
    StartError,
};
use nfs_proto::nfs3::Fsinfo;
use nfs_proto::nfs4::Op;
use nfs_proto::program::Call;
use nfs_proto::{CallError, DecodeError};

use super::shared_session::SessionUser;
use super::{Connection, ConnectionOptions, CopyUser, DelegationUser, Target, target_of};
use crate::error::{CallFailure, ConnectionError, MissingAnswer, MountError};
use crate::interrupt::POLL_INTERVAL;
use crate::options::{MountOptions, TRANSFER_BYTES_DEFAULT};
use crate::scratch::Scratch;

/// A blocking connection to a service.
#[derive(Debug)]
pub(crate) struct Control {
    connection: Connection,
    target: Arc<Target>,
    scratch: Scratch,
    started: Instant,
}

impl Control {
    /// Connects to a service; its name is for messages.
    pub(crate) fn connect(
        service: &'static str,
        server: SocketAddr,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let target = Arc::new(target_of(service, server, options));
        let connection_options = ConnectionOptions {
            keep_payload: Some(TRANSFER_BYTES_DEFAULT),
            reconnect: false,
            ..ConnectionOptions::default()
        };
        let connection = Connection::connect_to(&target, options.version, &connection_options)?;
        Ok(Self::new(connection))
    }

    /// Wraps a connection without calls in flight, to make calls one at a time.
    pub(crate) fn new(connection: Connection) -> Self {
        let target = Arc::clone(connection.target());
        Self { connection, target, scratch: Scratch::new(), started: now() }
    }

    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.connection.link().session
    }

    /// Returns how many calls the connection can have in flight.
    pub(crate) fn slots(&mut self) -> usize {
        self.session().free_slots() + self.session().in_flight()
    }

    /// Records that the connection uses its session from now on.
    pub(super) fn set_session_user(&mut self, user: Arc<SessionUser>) {
        self.connection.session_user = Some(user);
    }

    /// Gives the connection its part in the delegations of its client.
    pub(super) fn set_delegations(&mut self, user: DelegationUser) {
        self.session().want_delegations(user.wanted());
        self.connection.delegations = Some(user);
    }

    /// Gives the connection its part in the asynchronous copies of its client.
    pub(super) fn set_copies(&mut self, user: Option<CopyUser>) {
        self.connection.copies = user;
    }

    /// Returns all delegations that the client of this connection holds.
    pub(crate) fn return_delegations(&mut self) {
        self.connection.take_all_delegations();
        self.finish_returns();
    }

    /// Waits until all pending delegations are returned: this connection makes one call at a time.
    fn finish_returns(&mut self) {
        if self.connection.has_returns() {
            let started = self.started;
            let until_ns = self.now_ns() + self.target.options.timeout.as_nanos() as u64;
            let clock = || nanoseconds_since(started);
            self.connection.finish_returns(&mut self.scratch, &clock, until_ns);
        }
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.connection.server()
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.target.options.version
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Makes a call of any program and passes a successful result to `done`.
    pub(crate) fn call<T>(
        &mut self,
        call: &Call<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let now_ns = self.now_ns();
        let started = self.session().start_call(now_ns, 0, call);
        self.finish_call(Kind::from_call(call), started, |event| Ok(done(event)?))
    }

    /// Makes a v4 compound and passes a successful result to `done`.
    pub(crate) fn compound<T>(
        &mut self,
        ops: &[Op<'_>],
        done: impl FnOnce(&Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallFailure> {
        let now_ns = self.now_ns();
        let started = self.session().start_ops(now_ns, 0, ops);
        self.finish_call(Kind::COMPOUND, started, done)
    }

    /// Performs a file operation and passes a successful result to `done`.
    pub(crate) fn operate<T>(
        &mut self,
        operation: &Operation<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let started = self.connection.start(self.now_ns(), 0, operation);
        self.finish_call(Kind::File(operation.kind()), started, |event| Ok(done(event)?))
    }

    /// Finds a name in a directory.
    pub(crate) fn lookup(&mut self, dir: &File, name: &[u8]) -> Result<File, CallFailure> {
        self.operate(&Operation::Lookup { dir, name }, named_file)
    }

    /// Opens a file that exists.
    pub(crate) fn open_file(
        &mut self,
        dir: &File,
        name: &[u8],
        access: OpenAccess,
    ) -> Result<File, CallFailure> {
        self.operate(&Operation::Open { dir, name, access }, named_file)
    }

    /// Gets the limits of a file system.
    pub(crate) fn fsinfo(&mut self, root: &File) -> Result<Fsinfo, CallFailure> {
        // Version 2 has no FSINFO; the protocol itself sets its only limit. Any v2 server answers
        // GETATTR, which shows that the handle is valid.
        if self.version() == ProtocolVersion::V2 {
            self.operate(&Operation::Getattr { file: root }, |_| Ok(()))?;
            let file_bytes_max = nfs_proto::nfs2::FILE_BYTES_MAX.into();
            return Ok(Fsinfo { file_bytes_max, ..Fsinfo::default() });
        }
        self.operate(&Operation::Fsinfo { root }, |event| match event.result {
            Ok(Outcome::Fsinfo(fsinfo)) => Ok(fsinfo),
            _ => Err(DecodeError::BadValue { what: "FSINFO", value: 0 }),
        })
    }

    fn finish_call<T>(
        &mut self,
        call: Kind,
        started: Result<(), StartError>,
        done: impl FnOnce(&Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallFailure> {
        let server = self.server();
        if let Err(reason) = started {
            return Err(CallFailure::NotStarted { call, server, reason });
        }
        let mut done = Some(done);
        let mut answer = None;
        let result = self.transfer_until_event(call, &mut |event| {
            if let Some(done) = done.take() {
                answer = Some(event.result.and_then(|_| done(event)));
            }
        });
        if let Err(failure) = result {
            self.session().abandon(0);
            return Err(failure);
        }
        self.finish_returns();
        // A transfer ends with an event; if there was none, the call has no answer.
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(CallFailure::Answered { call, server, error }),
            None => Err(CallFailure::Answered { call, server, error: CallError::Lost }),
        }
    }

    /// Sends pending data and receives until an event was passed on.
    fn transfer_until_event(
        &mut self,
        call: Kind,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), CallFailure> {
        let server = self.server();
        let timeout = self.target.options.timeout;
        let deadline = now() + timeout;
        let started = self.started;
        // The session's clock: nanoseconds since this connection was opened.
        let clock = || nanoseconds_since(started);
        let before = *self.connection.counters();
        loop {
            // The deadline is for the whole call: a server that sends a byte now and then, or
            // answers "try later" forever, does not extend it.
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                let silence = silence_since(&before, self.connection.counters());
                return Err(CallFailure::TimedOut { call, server, timeout, silence });
            }
            if let Some(why) = self.target.options.interrupt.reason() {
                return Err(CallFailure::Interrupted { call, server, why });
            }
            let wait = left.min(POLL_INTERVAL);
            match self.connection.wait(&mut self.scratch, &clock, wait, events) {
                Ok(0) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(failure_of(call, error)),
            }
        }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds_since(self.started)
    }
}

fn failure_of(call: Kind, error: ConnectionError) -> CallFailure {
    match error {
        ConnectionError::ConnectionLost { server, reason, .. } => {
            CallFailure::Lost { call, server, reason }
        }
        ConnectionError::Garbage { server, error, .. } => {
            CallFailure::Garbage { call, server, error }
        }
        ConnectionError::CallTimedOut { server, waited_ns, .. } => CallFailure::TimedOut {
            call,
            server,
            timeout: Duration::from_nanos(waited_ns),
            silence: MissingAnswer::Nothing,
        },
    }
}

/// Returns the file named in a reply.
fn named_file(event: &Event<'_>) -> Result<File, DecodeError> {
    match event.file {
        Some(file) => Ok(*file),
        None => Err(DecodeError::BadValue { what: "handle_follows", value: 0 }),
    }
}

/// Returns what was received instead of the answer.
fn silence_since(before: &Counters, after: &Counters) -> MissingAnswer {
    let put_off = after.delays - before.delays;
    let strays = after.late_replies - before.late_replies;
    let bytes = after.wire_bytes_in - before.wire_bytes_in;
    if put_off > 0 {
        MissingAnswer::PutOff(put_off)
    } else if strays > 0 {
        MissingAnswer::Strays(strays)
    } else if bytes > 0 {
        MissingAnswer::Part(bytes)
    } else {
        MissingAnswer::Nothing
    }
}

#[expect(clippy::disallowed_methods, reason = "setup blocks and is never measured")]
fn now() -> Instant {
    Instant::now()
}

fn nanoseconds_since(start: Instant) -> u64 {
    now().saturating_duration_since(start).as_nanos() as u64
}
