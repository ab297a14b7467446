//! One blocking connection for set-up and clean-up.
//!
//! [`Control`] makes one call at a time and waits for it, over any transport. It has a deadline for
//! each call, so that a server that sends a byte now and then does not hold it for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_proto::client::{Counters, Event, Kind, Operation, ProtocolVersion, Session, StartError};
use nfs_proto::nfs4::Op;
use nfs_proto::program::Call;
use nfs_proto::{CallError, DecodeError};

use crate::connection::{Connection, ConnectionOptions, Target, target};
use crate::error::{CallFailure, ConnectionError, MountError, Silence};
use crate::interrupt::LOOK_EVERY;
use crate::options::{MountOptions, TRANSFER_BYTES_DEFAULT};
use crate::scratch::Scratch;

/// A blocking connection to one service.
#[derive(Debug)]
pub(crate) struct Control {
    connection: Connection,
    target: Arc<Target>,
    scratch: Scratch,
    started: Instant,
}

impl Control {
    /// Connects to a service, whose name is for messages.
    pub(crate) fn connect(
        service: &'static str,
        server: SocketAddr,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let target = Arc::new(target(service, server, options));
        let connection_options = ConnectionOptions {
            keep_payload: Some(TRANSFER_BYTES_DEFAULT),
            reconnect: false,
            ..ConnectionOptions::default()
        };
        let connection = Connection::to(&target, options.version, &connection_options)?;
        Ok(Self::over(connection))
    }

    /// Takes a connection without calls in flight, to make calls one at a time.
    pub(crate) fn over(connection: Connection) -> Self {
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

    /// Makes a call of any program and has `done` look at its successful end.
    pub(crate) fn call<T>(
        &mut self,
        call: &Call<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let now_ns = self.now_ns();
        let started = self.session().start_call(now_ns, 0, call);
        self.finish(Kind::of(call), started, |event| Ok(done(event)?))
    }

    /// Makes a compound of version 4 and has `done` look at its successful end.
    pub(crate) fn compound<T>(
        &mut self,
        ops: &[Op<'_>],
        done: impl FnOnce(&Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallFailure> {
        let now_ns = self.now_ns();
        let started = self.session().start_ops(now_ns, 0, ops);
        self.finish(Kind::COMPOUND, started, done)
    }

    /// Does a file operation and has `done` look at its successful end.
    pub(crate) fn operate<T>(
        &mut self,
        operation: &Operation<'_>,
        done: impl FnOnce(&Event<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, CallFailure> {
        let started = self.connection.start(self.now_ns(), 0, operation);
        self.finish(Kind::File(operation.kind()), started, |event| Ok(done(event)?))
    }

    fn finish<T>(
        &mut self,
        call: Kind,
        started: Result<(), StartError>,
        done: impl FnOnce(&Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallFailure> {
        let server = self.server();
        started.map_err(|reason| CallFailure::NotStarted { call, server, reason })?;
        let mut done = Some(done);
        let mut answer = None;
        let result = self.transfer(call, &mut |event| {
            if let Some(done) = done.take() {
                answer = Some(event.result.and_then(|_| done(event)));
            }
        });
        if let Err(failure) = result {
            self.session().abandon(0);
            return Err(failure);
        }
        // A transfer ends with an event; were there none, the call had no answer.
        let answer = answer.unwrap_or(Err(CallError::Lost));
        answer.map_err(|error| CallFailure::Answered { call, server, error })
    }

    /// Sends what is to be sent and receives until an event was passed on.
    fn transfer(
        &mut self,
        call: Kind,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), CallFailure> {
        let (server, timeout) = (self.server(), self.target.options.timeout);
        let deadline = now() + timeout;
        let started = self.started;
        let clock = || nanoseconds(started);
        let before = *self.connection.counters();
        loop {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                let silence = silence_since(&before, self.connection.counters());
                return Err(CallFailure::TimedOut { call, server, timeout, silence });
            }
            if let Some(why) = self.target.options.interrupt.reason() {
                return Err(CallFailure::Interrupted { call, server, why });
            }
            let wait = left.min(LOOK_EVERY);
            match self.connection.wait(&mut self.scratch, &clock, wait, events) {
                Ok(0) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(failure(call, error)),
            }
        }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.started)
    }
}

fn failure(call: Kind, error: ConnectionError) -> CallFailure {
    match error {
        ConnectionError::ConnectionLost { server, reason, .. } => {
            CallFailure::Lost { call, server, reason }
        }
        ConnectionError::Garbage { server, error, .. } => {
            CallFailure::Garbage { call, server, error }
        }
        ConnectionError::CallTimedOut { server, waited_ns, .. } => {
            let (timeout, silence) = (Duration::from_nanos(waited_ns), Silence::Nothing);
            CallFailure::TimedOut { call, server, timeout, silence }
        }
    }
}

/// Returns what was received in place of the answer.
fn silence_since(before: &Counters, after: &Counters) -> Silence {
    let put_off = after.delays - before.delays;
    let strays = after.late_replies - before.late_replies;
    let bytes = after.wire_bytes_in - before.wire_bytes_in;
    if put_off > 0 {
        Silence::PutOff(put_off)
    } else if strays > 0 {
        Silence::Strays(strays)
    } else if bytes > 0 {
        Silence::Part(bytes)
    } else {
        Silence::Nothing
    }
}

#[expect(clippy::disallowed_methods, reason = "set-up blocks and is never measured")]
fn now() -> Instant {
    Instant::now()
}

fn nanoseconds(since: Instant) -> u64 {
    now().saturating_duration_since(since).as_nanos() as u64
}
