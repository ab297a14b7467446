//! One nonblocking connection for the measured path.
//!
//! [`Connection`] keeps calls in flight over one socket. After [`Connection::open`] nothing is
//! allocated, locked or logged, and the clock is the caller's. Waiting is apart:
//! [`Connection::wait`] polls this one socket; [`crate::Swarm`] watches many. A connection that is
//! lost is made anew where the options allow that, and each time is counted: see
//! [`nfs_proto::client::Counters`].

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nfs_proto::client::{
    Config, Counters, Data, Event, Framing, Operation, PayloadMode, Pending, Session, StartError,
    Version, is_unbound,
};
use nfs_proto::nfs4::Op;
use rustix::event::{PollFlags, Timespec, poll};

use crate::client4::Client4;
use crate::control::Control;
use crate::error::{ConnectionError, MountError, PendingCalls};
use crate::link::{Broken, Link};
use crate::locate::{NFS, explain};
use crate::mount::Mount;
use crate::options::{Identity, MountOptions};
use crate::scratch::Scratch;
use crate::transport::{Opening, Transport, open};

/// The tag of calls that are not the caller's.
const RENEWAL: u32 = u32::MAX;
/// How long one attempt to connect anew may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The first pause between two attempts to connect anew; each further one is twice as long.
const PAUSE_NS_MIN: u64 = 20_000_000;
/// The longest pause between two attempts.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// How a connection is opened.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Calls in flight at most.
    pub slots: usize,
    /// Where WRITE payloads are sent from; shared by all connections.
    pub write_pool: Arc<[u8]>,
    /// The size of the buffer that each slot keeps its READ payload in, in bytes; `None` discards
    /// payloads.
    pub keep_payload: Option<u32>,
    /// Connect anew when the connection is lost, for as long as the mount's timeout.
    pub reconnect: bool,
    /// Who calls, if not whoever the mount names.
    pub identity: Option<Identity>,
}

/// One call at a time, nothing to write, READ payloads discarded.
impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            slots: 1,
            write_pool: Arc::from([]),
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
    pool: Arc<[u8]>,
    reconnect: bool,
    trouble: Option<Trouble>,
    /// Of version 4: who this connection belongs to.
    client: Option<Arc<Client4>>,
    identity: Option<Identity>,
    renewal: Renewal,
    /// The server does not know the session or the client any more.
    forgotten: bool,
}

/// When the lease of a client of version 4 is renewed by an idle connection.
#[derive(Debug, Clone, Copy, Default)]
struct Renewal {
    /// 0 where there is no lease.
    every_ns: u64,
    last_ns: u64,
    under_way: bool,
}

/// Where connections of a mount lead.
#[derive(Debug)]
pub(crate) struct Target {
    /// For messages.
    pub(crate) service: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) options: MountOptions,
}

/// A connection that was lost and has brought no reply since.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    since_ns: u64,
    /// When to try again; `None` while connected.
    next_ns: Option<u64>,
    pause_ns: u64,
}

impl Trouble {
    fn at(now_ns: u64) -> Self {
        Self { since_ns: now_ns, next_ns: None, pause_ns: PAUSE_NS_MIN }
    }
}

impl Connection {
    /// Opens a connection to the server of a mount and creates all buffers it will use.
    ///
    /// # Errors
    /// [`MountError`] as for mounting.
    pub fn open(mount: &Mount, options: &ConnectionOptions) -> Result<Self, MountError> {
        let connection = Self::to(mount.target(), mount.version(), options)?;
        let Some(client) = mount.client() else { return Ok(connection) };
        let mut control = Control::over(connection);
        let failed = |failure| explain(NFS, mount.options(), failure);
        let client = match &options.identity {
            None => Arc::clone(client),
            Some(identity) => {
                let name = &identity.machine_name;
                Arc::new(Client4::introduce(&mut control, name).map_err(failed)?)
            }
        };
        client.join(&mut control).map_err(failed)?;
        let mut connection = control.into_connection();
        connection.renewal.every_ns = client.renewal().as_nanos() as u64;
        connection.client = Some(client);
        Ok(connection)
    }

    pub(crate) fn to(
        target: &Arc<Target>,
        version: Version,
        options: &ConnectionOptions,
    ) -> Result<Self, MountError> {
        let transport = target.open(target.options.timeout)?;
        let payload = options
            .keep_payload
            .map_or(PayloadMode::Discard, |bytes_per_slot| PayloadMode::Keep { bytes_per_slot });
        let identity = options.identity.as_ref().unwrap_or(&target.options.identity);
        let session = Session::new(&Config {
            version,
            framing: if transport.is_datagram() { Framing::Datagram } else { Framing::Record },
            retry: target.options.retry(),
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
            client: None,
            identity: if version.is_stateful() { options.identity.clone() } else { None },
            renewal: Renewal::default(),
            forgotten: false,
        })
    }

    /// Starts an operation; it leaves with the next [`Connection::flush`]. The payload of a WRITE
    /// should be a part of the pool, which is not copied.
    ///
    /// # Errors
    /// [`StartError::Busy`] when all slots are in use; the others are for good.
    ///
    /// # Panics
    /// When a payload is not within the pool. The tag `u32::MAX` is not the caller's.
    pub fn start(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
    ) -> Result<(), StartError> {
        if let Operation::Write { data: Data::Pool(payload), .. } = operation {
            let end = payload.start + payload.len as usize;
            assert!(end <= self.pool.len(), "payload up to {end} of a pool of {}", self.pool.len());
        }
        self.link.session.start(now_ns, tag, operation)
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection.
    pub fn flush(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        if self.is_down() || self.link.session.is_unbound() {
            return Ok(());
        }
        match self.link.flush(&self.pool, clock) {
            Ok(()) => Ok(()),
            Err(broken) => self.broke(broken, clock()),
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
            return Ok(self.link.take_events(events));
        }
        let received = if self.client.is_none() {
            self.link.receive(scratch, clock, events)
        } else {
            self.receive_stateful(scratch, clock, events)
        };
        match received {
            Ok(count) => {
                if count > 0 && !self.forgotten {
                    self.trouble = None;
                }
                Ok(count)
            }
            Err(broken) => {
                self.broke(broken, clock())?;
                Ok(self.link.take_events(events))
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
            sleep(timeout);
        } else {
            let ready = self.link.poll(timeout);
            let ready = ready.map_err(|broken| self.as_error(broken))?;
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
        let attempt_ns = self.trouble.and_then(|trouble| trouble.next_ns);
        let session_ns = self.link.session.next_timeout_ns();
        attempt_ns.into_iter().chain(session_ns).chain(self.renewal_ns()).min()
    }

    /// Sends again what is due, and connects anew if that is.
    ///
    /// # Errors
    /// [`ConnectionError::ConnectionLost`] when that did not succeed for too long.
    pub fn handle_timeout(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        let Some(next_ns) = self.next_timeout_ns() else { return Ok(()) };
        let now_ns = clock();
        if next_ns > now_ns {
            return Ok(());
        }
        self.link.session.handle_timeout(now_ns);
        if self.trouble.and_then(|trouble| trouble.next_ns).is_some_and(|next| next <= now_ns) {
            self.connect_anew(clock())?;
        }
        if self.renewal_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.renew(now_ns);
        }
        self.flush(clock)
    }

    /// Checks that with calls pending, the oldest for longer than `timeout_ns`, bytes still moved
    /// within that time: a slow line with a long queue is not a dead one. It walks all slots: ask
    /// a few times a second, not after each call.
    ///
    /// # Errors
    /// [`ConnectionError::CallTimedOut`]: open another connection.
    pub fn check_timeout(&self, now_ns: u64, timeout_ns: u64) -> Result<(), ConnectionError> {
        let Some(oldest_ns) = self.link.session.oldest_pending_ns() else { return Ok(()) };
        let waited_ns = now_ns.saturating_sub(oldest_ns.max(self.link.moved_ns));
        if waited_ns <= timeout_ns {
            return Ok(());
        }
        let (server, pending) = (self.server(), self.pending());
        Err(ConnectionError::CallTimedOut { server, waited_ns, pending })
    }

    /// Returns the version that is spoken.
    pub const fn version(&self) -> Version {
        self.link.session.version()
    }

    /// Returns how many calls can be started before [`StartError::Busy`].
    pub fn free_slots(&self) -> usize {
        self.link.session.free_slots()
    }

    /// Returns how many calls have no reply yet.
    pub fn in_flight(&self) -> usize {
        self.link.session.in_flight()
    }

    /// Returns what went over the wire so far, and what it took.
    pub fn counters(&self) -> &Counters {
        self.link.session.counters()
    }

    /// Returns the address of the server.
    pub fn server(&self) -> SocketAddr {
        self.target.server
    }

    /// Tells whether the connection is lost and not made anew yet.
    pub fn is_down(&self) -> bool {
        self.trouble.is_some_and(|trouble| trouble.next_ns.is_some())
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Returns when the lease is to be renewed; an operation of a session renews it too.
    fn renewal_ns(&self) -> Option<u64> {
        let Renewal { every_ns, last_ns, under_way } = self.renewal;
        let busy = under_way || self.link.session.free_slots() == 0;
        if every_ns == 0 || busy || self.is_down() || self.forgotten {
            return None;
        }
        let has_sessions = self.link.session.version().has_sessions();
        Some(if has_sessions { last_ns.max(self.link.moved_ns) } else { last_ns } + every_ns)
    }

    /// Renews the lease: by a SEQUENCE alone where there are sessions, else by RENEW.
    /// **Source:** RFC 7530 section 16.28, RFC 8881 section 8.3.
    fn renew(&mut self, now_ns: u64) {
        let session = &mut self.link.session;
        let renew = [Op::Renew { client: session.client() }];
        let ops = if session.version().has_sessions() { &[][..] } else { &renew };
        self.renewal.under_way = session.start_ops(now_ns, RENEWAL, ops).is_ok();
        self.renewal.last_ns = now_ns;
    }

    /// Receives, and keeps what is not the caller's to itself.
    fn receive_stateful(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, Broken> {
        let (mut own, mut forgotten) = (0, false);
        let count = self.link.receive(scratch, clock, &mut |event| {
            if event.tag == RENEWAL {
                own += 1;
                let status = event.result.err().and_then(|error| error.status());
                forgotten |= status.is_some_and(is_unbound);
            } else {
                events(event);
            }
        });
        self.renewal.under_way &= own == 0;
        self.forgotten |= forgotten || self.link.session.is_unbound();
        // Calls that are out will be refused too; their replies are worth waiting for.
        if self.forgotten && self.link.session.awaited() == 0 {
            let now_ns = clock();
            let trouble = self.trouble.get_or_insert(Trouble::at(now_ns));
            trouble.next_ns.get_or_insert(now_ns);
        }
        count.map(|count| count - own)
    }

    /// Connects anew and makes another session, and another client if need be; the calls that
    /// were held back go on in it.
    fn bind_anew(&mut self, now_ns: u64) -> Result<(), MountError> {
        let Some(client) = self.client.clone() else { return Ok(()) };
        let session = &self.link.session;
        let slots = session.free_slots() + session.in_flight();
        let options = ConnectionOptions {
            slots,
            reconnect: false,
            identity: self.identity.clone(),
            ..ConnectionOptions::default()
        };
        let fresh = Self::to(&self.target, session.version(), &options)?;
        let former = session.client();
        let mut control = Control::over(fresh);
        let joined = client.join_again(&mut control, former);
        joined.map_err(|failure| explain(NFS, &self.target.options, failure))?;
        let fresh = control.into_connection().link;
        self.link.transport = fresh.transport;
        self.link.session.resume(now_ns, &fresh.session);
        self.forgotten = false;
        Ok(())
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.link.transport
    }

    /// Deals with the end of a socket: connects anew, or says why not.
    fn broke(&mut self, broken: Broken, now_ns: u64) -> Result<(), ConnectionError> {
        let may_recover = match &broken {
            Broken::Garbage(_) => false,
            // Whoever sends datagrams is told of each that nobody took; it is sent again in time.
            Broken::Lost(reason) if self.link.transport.is_datagram() => {
                if self.reconnect && reason.kind() == ErrorKind::ConnectionRefused {
                    return Ok(());
                }
                false
            }
            Broken::Lost(_) => self.reconnect,
        };
        if !may_recover {
            return Err(self.as_error(broken));
        }
        let trouble = self.trouble.get_or_insert(Trouble::at(now_ns));
        let first = trouble.since_ns == now_ns;
        trouble.next_ns = Some(if first { now_ns } else { now_ns + trouble.pause_ns });
        if self.is_over(now_ns) {
            return Err(self.as_error(broken));
        }
        if first { self.connect_anew(now_ns) } else { Ok(()) }
    }

    /// Makes one attempt to connect.
    fn connect_anew(&mut self, now_ns: u64) -> Result<(), ConnectionError> {
        let opened = if self.forgotten {
            self.bind_anew(now_ns)
        } else {
            self.target.open(self.target.options.timeout.min(ATTEMPT)).map(|transport| {
                self.link.transport = transport;
                self.link.session.reconnected(now_ns);
            })
        };
        let over = self.is_over(now_ns);
        let Some(trouble) = &mut self.trouble else { return Ok(()) };
        trouble.pause_ns = (2 * trouble.pause_ns).min(PAUSE_NS_MAX);
        match opened {
            Ok(()) => {
                trouble.next_ns = None;
                self.link.moved_ns = now_ns;
                Ok(())
            }
            Err(error) if over => Err(self.as_error(Broken::Lost(io::Error::other(error)))),
            Err(_) => {
                trouble.next_ns = Some(now_ns + trouble.pause_ns);
                Ok(())
            }
        }
    }

    /// Tells whether there was no reply for too long.
    fn is_over(&self, now_ns: u64) -> bool {
        let limit_ns = self.target.options.timeout.as_nanos() as u64;
        self.trouble.is_some_and(|trouble| now_ns.saturating_sub(trouble.since_ns) > limit_ns)
    }

    /// Cuts a timeout at the next instant at which something is due.
    fn until_next(&self, timeout: Duration, clock: &dyn Fn() -> u64) -> Duration {
        match self.next_timeout_ns() {
            Some(next_ns) => timeout.min(Duration::from_nanos(next_ns.saturating_sub(clock()))),
            None => timeout,
        }
    }

    fn pending(&self) -> PendingCalls {
        let mut pending: Vec<Pending> = self.link.session.pending().collect();
        pending.sort_by_key(|call| call.started_ns);
        PendingCalls(pending)
    }

    fn as_error(&self, broken: Broken) -> ConnectionError {
        let (server, pending) = (self.server(), self.pending());
        match broken {
            Broken::Lost(reason) => ConnectionError::ConnectionLost { server, reason, pending },
            Broken::Garbage(error) => ConnectionError::Garbage { server, error, pending },
        }
    }
}

impl Target {
    fn open(&self, timeout: Duration) -> Result<Transport, MountError> {
        let Self { service, server, options } = self;
        open(&Opening { service, server: *server, options, timeout })
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.transport.as_fd()
    }
}

/// Sleeps where there is no socket to wait for.
fn sleep(timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // Waking up early harms nothing.
    let _ = poll(&mut [], Some(&timeout));
}

/// Returns a start for xids that differs between connections that are open at the same time.
fn xid_seed(transport: &Transport) -> u32 {
    let port = transport.local_address().map_or(0, |address| address.port());
    u32::from(port).wrapping_mul(0x9e37_79b9)
}

/// Connects to a service that is not part of a mount.
pub(crate) fn target(service: &'static str, server: SocketAddr, options: &MountOptions) -> Target {
    debug_assert!(service != NFS || server.port() != 0, "a port was found");
    Target { service, server, options: options.clone() }
}
