//! One nonblocking connection for the measured path.
//!
//! [`Connection`] keeps calls in flight over one socket. After [`Connection::open`] nothing is
//! allocated, locked or logged, and the clock is the caller's. Waiting is apart:
//! [`Connection::wait`] polls this one socket; a caller with many connections watches them
//! together. A connection that is lost is made again where the options allow that, and each time is
//! counted: see [`nfs_proto::client::Counters`].

mod client4;
mod control;
mod delegations;
mod recovery;
mod shared_session;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nfs_proto::client::{
    Config, Counters, Data, Event, Framing, Operation, PayloadMode, Pending, ProtocolVersion,
    Session, StartError, Wanted,
};
use nfs_proto::limits::SLOTS_MAX;
use rustix::event::{PollFlags, Timespec, poll};

use crate::error::{ConnectionError, MountError, PendingCalls};
use crate::link::{Broken, Link};
use crate::options::{Identity, MountOptions};
use crate::scratch::Scratch;
use crate::service::NFS;
use crate::transport::{Opening, TcpCounters, TcpMeter, Transport, open_transport};

pub(crate) use client4::Client4;
pub(crate) use control::Control;
pub use delegations::DelegationCounts;
pub(crate) use delegations::DelegationUser;
pub(crate) use recovery::RENEWAL_SLOTS;
use recovery::{Renewal, Trouble};
use shared_session::SessionUser;
pub(crate) use shared_session::{Granted, SessionSize};

/// The most calls that a connection can have in flight for its user.
pub const CALLS_MAX: usize = SLOTS_MAX - RENEWAL_SLOTS;

/// How a connection is opened.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Calls in flight at most, 1 to [`CALLS_MAX`].
    pub slots: usize,
    /// Data that WRITE payloads are sent from; shared by all connections.
    pub write_pool: Arc<Vec<u8>>,
    /// The size of the buffer that each slot keeps its READ payload in, in bytes; `None` discards
    /// payloads.
    pub keep_payload: Option<u32>,
    /// Reconnect when the connection is lost, for as long as the mount's timeout.
    pub reconnect: bool,
    /// The caller, if not the one that the mount names.
    pub identity: Option<Identity>,
}

/// One call at a time, nothing to write, READ payloads discarded.
impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            slots: 1,
            write_pool: Arc::default(),
            keep_payload: None,
            reconnect: true,
            identity: None,
        }
    }
}

/// A connection with calls in flight.
#[derive(Debug)]
pub struct Connection {
    link: Link,
    target: Arc<Target>,
    pool: Arc<Vec<u8>>,
    reconnect: bool,
    trouble: Option<Trouble>,
    /// A socket that the server has not answered yet.
    connecting: Option<OwnedFd>,
    /// The client of version 4 that this connection belongs to.
    client: Option<Arc<Client4>>,
    /// The use of a session of v4.1 and later.
    session_user: Option<Arc<SessionUser>>,
    identity: Option<Identity>,
    /// Calls that the caller may have in flight; a renewal has a slot beside them where it can.
    slots: usize,
    renewal: Renewal,
    /// The part in the delegations of the client, in v4.1 and later.
    delegations: Option<DelegationUser>,
    /// The server does not know the session or the client any more.
    forgotten: bool,
    tcp: TcpMeter,
}

/// The destination of connections of a mount.
#[derive(Debug)]
pub(crate) struct Target {
    /// Name of the service, for messages.
    pub(crate) service: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) options: MountOptions,
}

impl Connection {
    /// Connects to a service.
    pub(crate) fn connect_to(
        target: &Arc<Target>,
        version: ProtocolVersion,
        options: &ConnectionOptions,
    ) -> Result<Self, MountError> {
        let transport = target.open_within(target.options.timeout)?;
        let payload = match options.keep_payload {
            Some(bytes_per_slot) => PayloadMode::Keep { bytes_per_slot },
            None => PayloadMode::Discard,
        };
        let identity = options.identity.as_ref().unwrap_or(&target.options.identity);
        let session = Session::new(&Config {
            version,
            framing: if transport.is_datagram() { Framing::Datagram } else { Framing::Record },
            retry: target.options.retry_policy(),
            slots: options.slots,
            credential: target.options.credential(identity),
            payload,
            xid_seed: xid_seed(&transport),
        });
        Ok(Self {
            link: Link::new(transport, session),
            target: Arc::clone(target),
            pool: Arc::clone(&options.write_pool),
            reconnect: options.reconnect,
            trouble: None,
            connecting: None,
            client: None,
            session_user: None,
            identity: if version.is_stateful() { options.identity.clone() } else { None },
            slots: options.slots,
            renewal: Renewal::default(),
            delegations: None,
            forgotten: false,
            tcp: TcpMeter::default(),
        })
    }

    /// Makes the connection a part of a client of version 4, for `slots` calls of its user.
    pub(crate) fn set_client(&mut self, client: Arc<Client4>, slots: usize) {
        self.slots = slots;
        self.renewal.every_ns = client.renewal_interval().as_nanos() as u64;
        self.client = Some(client);
    }

    /// Starts an operation; it leaves with the next [`Connection::flush`]. The payload of a WRITE
    /// should be a part of the pool, which is not copied.
    ///
    /// # Errors
    /// [`StartError::Busy`] when [`Connection::free_slots`] is 0: take events, then start again.
    /// The others are for good.
    ///
    /// # Panics
    /// When a payload is not within the pool. The tags `u32::MAX` and `u32::MAX - 2` are not the
    /// caller's.
    pub fn start(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
    ) -> Result<(), StartError> {
        if self.free_slots() == 0 {
            return Err(StartError::Busy);
        }
        if let Operation::Write { data: Data::Pool(payload), .. } = operation {
            let end = payload.start + payload.len as usize;
            assert!(end <= self.pool.len(), "payload up to {end} of a pool of {}", self.pool.len());
        }
        let uses_delegations = match &mut self.delegations {
            Some(user) if user.wanted() == Wanted::Read => {
                user.note_change(operation);
                true
            }
            _ => false,
        };
        // Before the change itself, where a slot is left for both.
        if uses_delegations && self.has_returns() && self.link.session.free_slots() > 1 {
            self.start_return(now_ns);
        }
        self.link.session.start(now_ns, tag, operation)?;
        if uses_delegations && let Some(user) = &mut self.delegations {
            user.note_open(tag, operation);
        }
        Ok(())
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection.
    pub fn flush(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        if self.is_down() || self.link.session.is_unbound() {
            return Ok(());
        }
        if self.has_returns() {
            self.start_return(clock());
        }
        match self.link.flush(&self.pool, clock) {
            Ok(()) => Ok(()),
            Err(broken) => self.handle_loss(broken, clock()),
        }
    }

    /// Tells whether the socket should be watched for room to write.
    pub fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// Receives what the socket has, passes each completed call to `events`, and returns how many
    /// there were.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection. Events passed on before are valid.
    pub fn receive(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        if self.is_down() {
            return Ok(self.take_events(events));
        }
        let received = if self.client.is_none() && self.delegations.is_none() {
            self.link.receive(scratch, clock, events)
        } else {
            self.receive_stateful(scratch, clock, events)
        };
        match received {
            Ok(count) => {
                // Only a reply shows that the connection is of use again: a socket that connects
                // and is closed at once must not start the pauses over.
                if count > 0 && !self.forgotten {
                    self.trouble = None;
                }
                Ok(count)
            }
            Err(broken) => {
                self.handle_loss(broken, clock())?;
                Ok(self.take_events(events))
            }
        }
    }

    /// Sends what waits, sleeps until the socket is ready or `timeout` is over, receives, and
    /// returns how many calls ended.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection.
    pub fn wait(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        timeout: Duration,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        self.flush(clock)?;
        // With several calls out, replies are likely to be there: save the system call.
        if self.link.session.in_flight() > 1 || self.link.session.has_event() {
            let count = self.receive(scratch, clock, events)?;
            if count > 0 {
                return Ok(count);
            }
        }
        let timeout = self.until_next(timeout, clock);
        if self.is_down() {
            sleep_for(timeout);
        } else {
            let ready = match self.link.poll_socket(timeout) {
                Ok(ready) => ready,
                Err(broken) => return Err(self.error_of(broken)),
            };
            if ready.is_empty() && self.next_timeout_ns().is_none() {
                return Ok(0);
            }
            if ready.contains(PollFlags::OUT) {
                self.flush(clock)?;
            }
        }
        self.handle_timeout(clock)?;
        self.receive(scratch, clock, events)
    }

    /// Returns when [`Connection::handle_timeout`] has something to do at the earliest.
    pub fn next_timeout_ns(&self) -> Option<u64> {
        let mut earliest_ns = None;
        let timers = [self.attempt_ns(), self.link.session.next_timeout_ns(), self.renewal_ns()];
        for timer_ns in timers.into_iter().flatten() {
            earliest_ns = Some(earliest_ns.map_or(timer_ns, |ns: u64| ns.min(timer_ns)));
        }
        earliest_ns
    }

    /// Sends again calls whose time has passed, and reconnects if that is scheduled.
    ///
    /// # Errors
    /// [`ConnectionError::ConnectionLost`] when that did not succeed for too long.
    pub fn handle_timeout(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        let Some(next_ns) = self.next_timeout_ns() else { return Ok(()) };
        let now_ns = clock();
        if next_ns > now_ns {
            return Ok(());
        }
        // The renewal comes last: where the connection was just made again, it leaves over the new
        // socket, and calls that are sent again have their slots before it.
        self.link.session.handle_timeout(now_ns);
        if has_passed(self.attempt_ns(), now_ns) {
            self.reconnect(clock())?;
        }
        if has_passed(self.renewal_ns(), now_ns) {
            self.renew_lease(now_ns);
        }
        self.flush(clock)
    }

    /// Checks that with calls pending, the oldest for longer than `timeout_ns`, something still
    /// was received within that time: a slow line with a long queue is not a dead one, but one that
    /// brings a byte now and then is. It walks all slots: ask a few times a second, not after each
    /// call.
    ///
    /// # Errors
    /// [`ConnectionError::CallTimedOut`]: open another connection.
    pub fn check_timeout(&self, now_ns: u64, timeout_ns: u64) -> Result<(), ConnectionError> {
        let Some(oldest_ns) = self.link.session.oldest_pending_ns() else { return Ok(()) };
        let waited_ns = now_ns.saturating_sub(oldest_ns.max(self.link.progress_ns));
        if waited_ns <= timeout_ns {
            return Ok(());
        }
        let (server, pending) = (self.server(), self.pending_calls());
        let strays = self.counters().late_replies;
        Err(ConnectionError::CallTimedOut { server, waited_ns, strays, pending })
    }

    /// Returns the version that is spoken.
    pub const fn version(&self) -> ProtocolVersion {
        self.link.session.version()
    }

    /// Makes room in every call for a payload of so many bytes that is copied, so that no WRITE of
    /// such bytes allocates.
    pub fn reserve_copies(&mut self, bytes: u32) {
        self.link.session.reserve_copies(bytes);
    }

    /// Returns how many calls can be started before [`StartError::Busy`]. It can shrink without a
    /// call: a server grants each session of v4.1 and later as many slots as it wants to.
    pub fn free_slots(&self) -> usize {
        let session = &self.link.session;
        let returning = matches!(&self.delegations, Some(user) if user.is_returning());
        let own = usize::from(self.renewal.in_flight) + usize::from(returning);
        let in_flight = session.in_flight() - own;
        // What v4.0 has in place of slots is ours alone, and the renewal's is kept free. In a
        // session every call renews the lease: where the server grants no more than the caller
        // uses, the renewal takes any free slot and a call waits for it.
        session.free_slots().min(self.slots.saturating_sub(in_flight))
    }

    /// Returns how many calls have no reply yet.
    pub fn in_flight(&self) -> usize {
        self.link.session.in_flight()
    }

    /// Returns what went over the wire so far, and what it took.
    pub fn counters(&self) -> &Counters {
        self.link.session.counters()
    }

    /// Starts the counters of TCP over. A system call: not for the measured path.
    pub fn begin_tcp_counters(&mut self) {
        self.tcp = TcpMeter::begin_at(&self.link.transport);
    }

    /// Returns what TCP did since [`Connection::begin_tcp_counters`], on the sockets that were
    /// replaced since, too. A system call: not for the measured path.
    pub fn tcp_counters(&self) -> TcpCounters {
        self.tcp.counters(&self.link.transport)
    }

    /// Goes on over another socket; returns the one before.
    fn replace_transport(&mut self, transport: Transport) -> Transport {
        self.tcp.note_replaced(&self.link.transport);
        std::mem::replace(&mut self.link.transport, transport)
    }

    /// Returns the address of the server.
    pub fn server(&self) -> SocketAddr {
        self.target.server
    }

    /// Tells whether the connection is lost and not made again yet.
    pub fn is_down(&self) -> bool {
        self.attempt_ns().is_some()
    }

    /// Returns when the next attempt to connect is made; `None` while connected.
    fn attempt_ns(&self) -> Option<u64> {
        self.trouble?.next_ns
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.link.transport
    }

    /// Cuts a timeout at the next instant at which something is scheduled.
    fn until_next(&self, timeout: Duration, clock: &dyn Fn() -> u64) -> Duration {
        match self.next_timeout_ns() {
            Some(next_ns) => timeout.min(Duration::from_nanos(next_ns.saturating_sub(clock()))),
            None => timeout,
        }
    }

    fn pending_calls(&self) -> PendingCalls {
        let mut pending: Vec<Pending> = self.link.session.pending().collect();
        pending.sort_by_key(|call| call.started_ns);
        PendingCalls(pending)
    }

    fn error_of(&self, broken: Broken) -> ConnectionError {
        let (server, pending) = (self.server(), self.pending_calls());
        match broken {
            Broken::Lost(reason) => ConnectionError::ConnectionLost { server, reason, pending },
            Broken::Garbage(error) => ConnectionError::Garbage { server, error, pending },
        }
    }
}

impl Target {
    fn open_within(&self, timeout: Duration) -> Result<Transport, MountError> {
        open_transport(&self.opening_within(timeout))
    }

    fn opening_within(&self, timeout: Duration) -> Opening<'_> {
        let Self { service, server, options } = self;
        Opening { service, server: *server, options, timeout }
    }
}

/// Gives the slots of its session back, for the next connection.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(user) = &self.session_user {
            // A slot whose call had no reply is left out: whether the server has carried the call
            // out, and so which sequence number it expects next, is not known.
            user.return_slots(self.link.session.settled_slots());
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.transport.as_fd()
    }
}

/// Tells whether a timer is set and its time has passed.
fn has_passed(timer_ns: Option<u64>, now_ns: u64) -> bool {
    timer_ns.is_some_and(|timer_ns| timer_ns <= now_ns)
}

/// Sleeps where there is no socket to wait for.
fn sleep_for(timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // Waking up early harms nothing.
    let _ = poll(&mut [], Some(&timeout));
}

/// Returns a start for xids that differs between connections that are open at the same time.
fn xid_seed(transport: &Transport) -> u32 {
    // Servers that remember replies by xid must not take one connection's calls for another's. The
    // multiplier is 2^32 over the golden ratio, which spreads neighbouring ports far apart.
    let port = match transport.local_address() {
        Ok(address) => address.port(),
        Err(_) => 0,
    };
    u32::from(port).wrapping_mul(0x9e37_79b9)
}

/// Connects to a service that is not part of a mount.
pub(crate) fn target_of(
    service: &'static str,
    server: SocketAddr,
    options: &MountOptions,
) -> Target {
    debug_assert!(service != NFS || server.port() != 0, "a port was found");
    Target { service, server, options: options.clone() }
}
