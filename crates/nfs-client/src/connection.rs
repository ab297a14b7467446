//! A nonblocking connection for the measured path.
//!
//! [`Connection`] keeps calls in flight over one socket. After [`Connection::open`] it does not
//! allocate, lock or log, and it uses the caller's clock. Waiting is separate: [`Connection::wait`]
//! polls this one socket; a caller with many connections polls them together. A lost connection is
//! re-established if the options allow it, and each time is counted: see
//! [`nfs_proto::client::Counters`].

mod client4;
mod control;
mod copies;
mod delegations;
mod paths;
mod recovery;
mod shared_session;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nfs_proto::client::{
    Config, Counters, Data, Event, Framing, Operation, PayloadMode, Pending, ProtocolVersion,
    Session, StartError, WantedDelegation,
};
use nfs_proto::limits::SLOTS_MAX;
use nfs_proto::nfs4::{LayoutRecall, Op};
use rustix::event::{PollFlags, Timespec, poll};

use crate::error::{ConnectionError, MountError, PendingCalls};
use crate::link::{Link, SocketFailure};
use crate::options::{Identity, MountOptions};
use crate::scratch::Scratch;
use crate::service::NFS;
use crate::transport::{Opening, TcpCounters, TcpMeter, Transport, open_transport};

pub(crate) use client4::Client4;
pub(crate) use control::Control;
pub(crate) use copies::CopyUser;
pub use delegations::DelegationCounts;
pub(crate) use delegations::DelegationUser;
pub use paths::PathCounters;
use paths::Paths;
pub(crate) use paths::addresses;
pub(crate) use recovery::RENEWAL_SLOTS;
use recovery::{Outage, Renewal};
use shared_session::SessionUser;
pub(crate) use shared_session::{GrantedLimits, SessionSize};

/// Maximum number of calls that a connection can have in flight for its user.
pub const CALLS_MAX: usize = SLOTS_MAX - RENEWAL_SLOTS;

/// How a connection is opened.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Maximum number of calls in flight, 1 to [`CALLS_MAX`].
    pub slots: usize,
    /// Data that WRITE payloads are sent from; shared by all connections.
    pub write_pool: Arc<Vec<u8>>,
    /// Size of the buffer for the payload of one READ, in bytes, which its event contains; `None`
    /// discards payloads.
    pub keep_payload: Option<u32>,
    /// Reconnect if the connection is lost, for as long as the mount's timeout.
    pub reconnect: bool,
    /// The caller, if it differs from the mount's.
    pub identity: Option<Identity>,
    /// Number of the address to use, in the order of the mount's: 0 for the first.
    pub path: usize,
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
            path: 0,
        }
    }
}

/// A connection with calls in flight.
#[derive(Debug)]
pub struct Connection {
    link: Link,
    /// The address in use.
    target: Arc<Target>,
    paths: Paths,
    pool: Arc<Vec<u8>>,
    reconnect: bool,
    trouble: Option<Outage>,
    /// A socket whose connect is still in progress.
    connecting: Option<OwnedFd>,
    /// The group of addresses on which the session is valid.
    group: usize,
    /// The v4 client that this connection belongs to.
    client: Option<Arc<Client4>>,
    /// Use of a session, in v4.1 and later.
    session_user: Option<Arc<SessionUser>>,
    identity: Option<Identity>,
    /// Calls that the caller may have in flight; if possible a renewal has its own slot in
    /// addition.
    slots: usize,
    renewal: Renewal,
    /// This connection's part in the client's delegations, in v4.1 and later.
    delegations: Option<DelegationUser>,
    /// This connection's part in the client's asynchronous copies, if they are wanted.
    copies: Option<CopyUser>,
    /// The server no longer knows the session or the client.
    forgotten: bool,
    tcp: TcpMeter,
}

/// The server that connections of a mount go to, at one address.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Name of the service, for messages.
    pub(crate) service: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) options: MountOptions,
    /// Number of the group of addresses that have the same sessions.
    pub(crate) group: usize,
}

impl Connection {
    /// Connects to a service at one address.
    pub(crate) fn connect_to(
        target: &Arc<Target>,
        version: ProtocolVersion,
        options: &ConnectionOptions,
    ) -> Result<Self, MountError> {
        Self::connect_at(&Arc::from([Arc::clone(target)]), 0, version, options)
    }

    /// Connects to a service at one of several addresses.
    pub(crate) fn connect_at(
        targets: &Arc<[Arc<Target>]>,
        path: usize,
        version: ProtocolVersion,
        options: &ConnectionOptions,
    ) -> Result<Self, MountError> {
        let target = &targets[path];
        let transport = target.open_within(target.options.timeout)?;
        let payload = match options.keep_payload {
            Some(bytes_max) => PayloadMode::Keep { bytes_max },
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
            paths: Paths::new(Arc::clone(targets), path),
            pool: Arc::clone(&options.write_pool),
            reconnect: options.reconnect,
            trouble: None,
            connecting: None,
            group: target.group,
            client: None,
            session_user: None,
            identity: if version.is_stateful() { options.identity.clone() } else { None },
            slots: options.slots,
            renewal: Renewal::default(),
            delegations: None,
            copies: None,
            forgotten: false,
            tcp: TcpMeter::default(),
        })
    }

    /// Makes the connection part of a v4 client, for `slots` calls of its user.
    pub(crate) fn set_client(&mut self, client: Arc<Client4>, slots: usize) {
        self.slots = slots;
        self.renewal.every_ns = client.renewal_interval().as_nanos() as u64;
        self.client = Some(client);
    }

    /// Starts an operation; it is sent by the next [`Connection::flush`]. The payload of a WRITE
    /// should be a part of the pool, which is not copied.
    ///
    /// # Errors
    /// [`StartError::Busy`] if [`Connection::free_slots`] is 0: take events, then start again. The
    /// other errors are permanent.
    ///
    /// # Panics
    /// If a payload is not within the pool. The tags `u32::MAX` and from `u32::MAX - 4` to
    /// `u32::MAX - 2` are reserved.
    pub fn start(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
    ) -> Result<(), StartError> {
        if self.free_slots() == 0 {
            return Err(StartError::Busy);
        }
        self.check_payload(operation);
        let uses_delegations = match &mut self.delegations {
            Some(user) if user.wanted() == WantedDelegation::Read => {
                user.note_change(operation);
                true
            }
            _ => false,
        };
        // Before the change itself, if there is a slot for both.
        if uses_delegations && self.has_returns() && self.link.session.free_slots() > 1 {
            self.start_return(now_ns);
        }
        self.link.session.start(now_ns, tag, operation)?;
        if uses_delegations && let Some(user) = &mut self.delegations {
            user.note_open(tag, operation);
        }
        if let Some(user) = &mut self.copies {
            user.note_start(tag, operation);
        }
        Ok(())
    }

    /// Starts an operation at a data server for a user, uid and gid; `None` for the connection's
    /// own. All calls of such a connection have to be started by this function.
    ///
    /// # Errors
    /// As for [`Connection::start`].
    ///
    /// # Panics
    /// As for [`Connection::start`].
    pub fn start_as(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
        user: Option<(u32, u32)>,
    ) -> Result<(), StartError> {
        if self.free_slots() == 0 {
            return Err(StartError::Busy);
        }
        self.check_payload(operation);
        self.link.session.start_as(now_ns, tag, operation, user)
    }

    /// Checks that a payload is within the pool.
    #[inline]
    fn check_payload(&self, operation: &Operation<'_>) {
        if let Operation::Write { data: Data::Pool(payload), .. } = operation {
            let end = payload.start + payload.len as usize;
            assert!(end <= self.pool.len(), "payload up to {end} of a pool of {}", self.pool.len());
        }
    }

    /// Starts a v4 compound of these operations, such as those of pNFS, after a SEQUENCE; see
    /// [`Event::result_of`].
    ///
    /// # Errors
    /// As for [`Connection::start`].
    pub fn start_compound(
        &mut self,
        now_ns: u64,
        tag: u32,
        ops: &[Op<'_>],
    ) -> Result<(), StartError> {
        if self.free_slots() == 0 {
            return Err(StartError::Busy);
        }
        self.link.session.start_ops(now_ns, tag, ops)
    }

    /// Returns a recall of layouts, which the caller has to return to the server.
    pub fn take_layout_recall(&mut self) -> Option<LayoutRecall> {
        self.link.session.take_layout_recall()
    }

    /// Sends as much as the socket takes.
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

    /// Returns true if the socket should be polled for writing.
    pub fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// Receives everything the socket has, passes each completed call to `events`, and returns how
    /// many there were.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection. Events passed on before that are valid.
    pub fn receive(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        if self.is_down() {
            return Ok(self.take_events(clock, events));
        }
        let received = if self.client.is_none() && self.delegations.is_none() {
            self.link.receive(scratch, clock, events)
        } else {
            self.receive_stateful(scratch, clock, events)
        };
        match received {
            Ok(count) => {
                // Only a reply shows that the connection works again: a socket that connects and is
                // closed at once must not reset the pauses.
                if count > 0 && !self.forgotten {
                    self.trouble = None;
                }
                Ok(count)
            }
            Err(broken) => {
                self.handle_loss(broken, clock())?;
                Ok(self.take_events(clock, events))
            }
        }
    }

    /// Sends pending data, sleeps until the socket is ready or `timeout` expires, receives, and
    /// returns how many calls completed.
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
        // With several calls in flight, replies are probably already there: save the poll.
        let has_mail = matches!(&self.copies, Some(user) if user.has_mail());
        if self.link.session.in_flight() > 1 || self.link.session.has_event() || has_mail {
            let count = self.receive(scratch, clock, events)?;
            if count > 0 {
                return Ok(count);
            }
        }
        let timeout = self.until_next(timeout, clock);
        if self.is_down() {
            sleep_for(timeout);
        } else {
            let ready = self
                .link
                .poll_socket(timeout, self.wakeup())
                .map_err(|broken| self.error_of(broken))?;
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

    /// Returns the earliest time at which [`Connection::handle_timeout`] has something to do.
    pub fn next_timeout_ns(&self) -> Option<u64> {
        let mut earliest_ns = None;
        let session_ns = self.link.session.next_timeout_ns();
        let timers = [self.attempt_ns(), session_ns, self.renewal_ns(), self.copy_query_ns()];
        for timer_ns in timers.into_iter().flatten() {
            earliest_ns = Some(earliest_ns.map_or(timer_ns, |ns: u64| ns.min(timer_ns)));
        }
        earliest_ns
    }

    /// Resends calls that have timed out, and reconnects if that is scheduled.
    ///
    /// # Errors
    /// [`ConnectionError::ConnectionLost`] if reconnecting has failed for too long.
    pub fn handle_timeout(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        let Some(next_ns) = self.next_timeout_ns() else { return Ok(()) };
        let now_ns = clock();
        if next_ns > now_ns {
            return Ok(());
        }
        // The renewal comes last: if the connection was just re-established, it goes over the new
        // socket, and resent calls get their slots first.
        self.link.session.handle_timeout(now_ns);
        if has_passed(self.attempt_ns(), now_ns) {
            self.reconnect(clock())?;
        }
        if has_passed(self.renewal_ns(), now_ns) {
            self.renew_lease(now_ns);
        }
        if has_passed(self.copy_query_ns(), now_ns) {
            self.query_copies(now_ns);
        }
        self.flush(clock)
    }

    /// Checks that if the oldest pending call has been waiting for longer than `timeout_ns`,
    /// something was received within that time: a slow line with a long queue is not dead, but one
    /// that delivers a byte now and then is. It scans all slots: call it a few times a second, not
    /// after each call.
    ///
    /// # Errors
    /// [`ConnectionError::CallTimedOut`]: open another connection.
    pub fn check_timeout(&mut self, now_ns: u64, timeout_ns: u64) -> Result<(), ConnectionError> {
        let silent_ns = |oldest_ns: u64| {
            let waited_ns = now_ns.saturating_sub(oldest_ns.max(self.link.progress_ns));
            (waited_ns > timeout_ns).then_some(waited_ns)
        };
        let silent_ns = self.link.session.oldest_pending_ns().and_then(silent_ns);
        let stuck_ns = || self.stuck_copy_ns(now_ns, timeout_ns);
        let Some(waited_ns) = silent_ns.or_else(stuck_ns) else { return Ok(()) };
        // Bytes may be waiting that did not make the socket ready. They show at the next check.
        if self.link.reset_low_water() {
            return Ok(());
        }
        let server = self.server();
        let pending = self.pending_calls();
        let strays = self.counters().late_replies;
        Err(ConnectionError::CallTimedOut { server, waited_ns, strays, pending })
    }

    /// Returns the protocol version in use.
    pub const fn version(&self) -> ProtocolVersion {
        self.link.session.version()
    }

    /// Reserves room in every call for a copied payload of `bytes` bytes, so that no such WRITE
    /// allocates.
    pub fn reserve_copies(&mut self, bytes: u32) {
        self.link.session.reserve_copies(bytes);
    }

    /// Reserves memory for replies that are not READs, with up to `bytes` bytes of data: then
    /// READ_PLUS and READDIR never allocate.
    pub fn reserve_replies(&mut self, bytes: u32) {
        self.link.session.reserve_replies(bytes);
    }

    /// Returns how many calls can be started before [`StartError::Busy`]. It can shrink without a
    /// call: servers decide how many slots a v4.1 session has.
    pub fn free_slots(&self) -> usize {
        let session = &self.link.session;
        let returning = matches!(&self.delegations, Some(user) if user.is_returning());
        let querying = matches!(&self.copies, Some(user) if user.is_querying());
        let own = usize::from(self.renewal.in_flight) + usize::from(returning);
        let own = own + usize::from(querying);
        let in_flight = session.in_flight() - own;
        // In v4.0 the slots are only ours, and the one for the renewal is kept free. In a session
        // every call renews the lease: if the server grants no more slots than the caller uses, the
        // renewal takes any free slot and a call waits for it.
        session.free_slots().min(self.slots.saturating_sub(in_flight))
    }

    /// Returns the number of calls without a reply.
    pub fn in_flight(&self) -> usize {
        self.link.session.in_flight()
    }

    /// Returns the traffic counters.
    pub fn counters(&self) -> &Counters {
        self.link.session.counters()
    }

    /// Resets the TCP counters. A system call: not for the measured path.
    pub fn begin_tcp_counters(&mut self) {
        self.tcp = TcpMeter::begin_at(&self.link.transport);
        self.begin_path_counters();
    }

    /// Returns what TCP did since [`Connection::begin_tcp_counters`], including on sockets that
    /// have been replaced since. A system call: not for the measured path.
    pub fn tcp_counters(&self) -> TcpCounters {
        self.tcp.counters(&self.link.transport)
    }

    /// Switches to another socket; returns the previous one.
    fn replace_transport(&mut self, transport: Transport) -> Transport {
        self.tcp.note_replaced(&self.link.transport);
        self.link.replace_transport(transport)
    }

    /// Returns the address of the server.
    pub fn server(&self) -> SocketAddr {
        self.target.server
    }

    /// Returns true if the connection is lost and not yet re-established.
    pub fn is_down(&self) -> bool {
        self.attempt_ns().is_some()
    }

    /// Returns the time of the next attempt to connect; `None` while connected.
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

    /// Shortens a timeout to the next scheduled event.
    fn until_next(&self, timeout: Duration, clock: &dyn Fn() -> u64) -> Duration {
        match self.next_timeout_ns() {
            Some(next_ns) => timeout.min(Duration::from_nanos(next_ns.saturating_sub(clock()))),
            None => timeout,
        }
    }

    fn pending_calls(&self) -> PendingCalls {
        let mut pending: Vec<Pending> = self.link.session.pending().collect();
        if let Some(user) = &self.copies {
            pending.extend(user.pending());
        }
        pending.sort_by_key(|call| call.started_ns);
        PendingCalls(pending)
    }

    fn error_of(&self, broken: SocketFailure) -> ConnectionError {
        let server = self.server();
        let pending = self.pending_calls();
        match broken {
            SocketFailure::Lost(reason) => {
                ConnectionError::ConnectionLost { server, reason, pending }
            }
            SocketFailure::Garbage(error) => ConnectionError::Garbage { server, error, pending },
        }
    }
}

impl Target {
    fn open_within(&self, timeout: Duration) -> Result<Transport, MountError> {
        open_transport(&self.opening_within(timeout))
    }

    fn opening_within(&self, timeout: Duration) -> Opening<'_> {
        let Self { service, server, options, .. } = self;
        Opening { service, server: *server, options, timeout }
    }
}

/// Returns the slots to the session, for the next connection.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(user) = &self.session_user {
            // A slot whose call had no reply is left out: we don't know whether the server executed
            // the call, and so which sequence number it expects next.
            user.return_slots(self.link.session.settled_slots());
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.transport.as_fd()
    }
}

/// Returns true if a timer is set and has expired.
fn has_passed(timer_ns: Option<u64>, now_ns: u64) -> bool {
    timer_ns.is_some_and(|timer_ns| timer_ns <= now_ns)
}

/// Sleeps if there is no socket to wait for.
fn sleep_for(timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // Waking up early does no harm.
    let _ = poll(&mut [], Some(&timeout));
}

/// Returns a starting xid that differs between connections open at the same time.
fn xid_seed(transport: &Transport) -> u32 {
    // Servers that cache replies by xid must not mistake one connection's calls for another's. The
    // multiplier is 2^32 divided by the golden ratio, which spreads neighboring ports far apart.
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
    debug_assert!(service != NFS || server.port() != 0, "the port has been found");
    Target { service, server, options: options.clone(), group: 0 }
}
