//! Recovery of a connection: reconnects it, binds it to another session, renews its lease.
//!
//! Successful calls never pass through here. A lost connection is re-established with growing
//! pauses, within the mount's timeout; if the server has forgotten its client, the client registers
//! again. **Source:** RFC 7530 section 9.6, RFC 8881 sections 8.3, 8.4 and 2.10.

use std::io::{self, ErrorKind};
use std::time::Duration;

use nfs_proto::client::{Event, is_unbound};
use nfs_proto::nfs4::{Op, direction};
use nfs_proto::{CallError, Status};

use super::copies::QUERY;
use super::delegations::RETURN;
use super::{Connection, ConnectionOptions, Control, CopyUser, DelegationUser};
use crate::error::{ConnectionError, MountError};
use crate::link::SocketFailure;
use crate::scratch::Scratch;
use crate::service::{NFS, explain};
use crate::transport::{SocketAttempt, begin_opening, continue_opening};

/// The tag of our own calls.
const RENEWAL: u32 = u32::MAX;
/// Slots reserved for them.
pub(crate) const RENEWAL_SLOTS: usize = 1;
/// Maximum duration of one attempt to reconnect.
const ATTEMPT: Duration = Duration::from_secs(1);
/// First pause between two attempts to reconnect; each further one is twice as long.
const PAUSE_NS_MIN: u64 = 20_000_000;
/// How often an attempt in progress is checked.
const LOOK_NS: u64 = 5_000_000;
/// The longest pause between two attempts.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// When an idle connection renews the lease of its v4 client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Renewal {
    /// 0 if there is no lease.
    pub(super) every_ns: u64,
    pub(super) last_ns: u64,
    pub(super) in_flight: bool,
    /// The server can't call back over this connection until it is bound to the session again.
    binds: bool,
    /// The call in flight does that.
    is_binding: bool,
}

/// The completions of our own calls among the events of one receive.
#[derive(Debug, Default)]
struct OwnEnds {
    /// Number of completions.
    count: usize,
    is_renewed: bool,
    /// Whether that call was lost with its connection.
    is_lost: bool,
    /// Whether the server no longer knows the client.
    is_refused: bool,
}

impl OwnEnds {
    /// Handles the completion of one of our own calls, and returns whether it was one. An event of
    /// the caller's may bring a delegation.
    fn take_own(
        &mut self,
        event: &Event<'_>,
        user: &mut Option<DelegationUser>,
        copies: &mut Option<CopyUser>,
    ) -> bool {
        if let Some(copies) = copies
            && copies.take_event(event)
        {
            self.count += 1;
            // A query shows that the server has forgotten the session, as a renewal does.
            let status = event.result.err().and_then(|error| error.status());
            self.is_refused |= event.tag == QUERY && status.is_some_and(is_unbound);
            return true;
        }
        if let Some(user) = user {
            if event.tag == RETURN {
                user.note_returned(event);
                self.count += 1;
                return true;
            }
            user.note_event(event);
        }
        if event.tag != RENEWAL {
            return false;
        }
        self.is_renewed = true;
        self.is_lost = event.result == Err(CallError::Lost);
        self.count += 1;
        if let Err(error) = event.result
            && let Some(status) = error.status()
        {
            self.is_refused |= is_unbound(status) || status == Status::Expired;
        }
        true
    }
}

/// A connection that was lost and has had no reply since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) since_ns: u64,
    /// When to try again; `None` while connected.
    pub(super) next_ns: Option<u64>,
    pub(super) pause_ns: u64,
    /// When the attempt in progress started.
    pub(super) begun_ns: u64,
    /// Number of attempts so far.
    pub(super) attempts: usize,
}

impl Outage {
    pub(super) fn new(now_ns: u64) -> Self {
        let pause_ns = PAUSE_NS_MIN;
        Self { since_ns: now_ns, next_ns: None, pause_ns, begun_ns: now_ns, attempts: 0 }
    }
}

impl Connection {
    /// Returns when the lease has to be renewed; operations in a session renew it, too.
    pub(super) fn renewal_ns(&self) -> Option<u64> {
        let Renewal { every_ns, last_ns, in_flight, binds, .. } = self.renewal;
        let busy = in_flight || self.link.session.free_slots() == 0;
        if every_ns == 0 || busy || self.is_down() || self.forgotten {
            return None;
        }
        if binds {
            return Some(0);
        }
        // In a session every call starts with SEQUENCE, which renews the lease: only an idle
        // session needs more. Before v4.1 only calls with an open's stateid renew it, so RENEW is
        // sent on schedule regardless. RFC 8881 section 8.3, RFC 7530 section 9.5.
        let has_sessions = self.link.session.version().has_sessions();
        Some(if has_sessions { last_ns.max(self.link.progress_ns) } else { last_ns } + every_ns)
    }

    /// Renews the lease: with a lone SEQUENCE if there are sessions, otherwise with RENEW. Before
    /// that, a new socket becomes part of the backchannel, if the server has something to recall.
    /// **Source:** RFC 7530 section 16.28, RFC 8881 sections 8.3 and 2.10.3.1.
    pub(super) fn renew_lease(&mut self, now_ns: u64) {
        let session = &mut self.link.session;
        let renew = [Op::Renew { client: session.client() }];
        let direction = self.client.as_ref().map_or(direction::FORE, |client| client.direction());
        let bind =
            [Op::BindConnToSession { session: session.session_id(), direction, rdma: false }];
        let ops = match session.version().has_sessions() {
            true if self.renewal.binds => &bind[..],
            true => &[],
            false => &renew,
        };
        self.renewal.is_binding = self.renewal.binds;
        self.renewal.in_flight = session.start_ops(now_ns, RENEWAL, ops).is_ok();
        self.renewal.last_ns = now_ns;
    }

    /// Receives, and passes on all events except those of renewals.
    pub(super) fn receive_stateful(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, SocketFailure> {
        let mut own = OwnEnds::default();
        let user = &mut self.delegations;
        let copies = &mut self.copies;
        let count = self.link.receive(scratch, clock, &mut |event| {
            if !own.take_own(event, user, copies) {
                events(event);
            }
        });
        self.take_recalls();
        let ended = self.end_copies(clock, events);
        self.note_own(&own);
        // The session holds back operations that the server refused with BADSESSION or
        // STALE_CLIENTID: nothing more may be sent before there is another binding. The mount's own
        // connection is re-established by its caller.
        self.forgotten |= self.client.is_some() && self.link.session.is_unbound();
        // Calls in flight will be refused, too; wait for their replies.
        if self.forgotten && self.link.session.awaited_calls() == 0 {
            let now_ns = clock();
            let trouble = self.trouble.get_or_insert(Outage::new(now_ns));
            trouble.next_ns.get_or_insert(now_ns);
        }
        Ok(count? - own.count + ended)
    }

    /// Passes on pending events without reading from the socket, and keeps those of our own calls:
    /// a renewal may also end because its connection is lost.
    pub(super) fn take_events(
        &mut self,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> usize {
        let mut own = OwnEnds::default();
        let user = &mut self.delegations;
        let copies = &mut self.copies;
        let count = self.link.take_events(&mut |event| {
            if !own.take_own(event, user, copies) {
                events(event);
            }
        });
        self.note_own(&own);
        count - own.count + self.end_copies(clock, events)
    }

    fn note_own(&mut self, own: &OwnEnds) {
        if own.is_renewed {
            self.renewal.in_flight = false;
            // A server that refuses is not asked again.
            self.renewal.binds &= !self.renewal.is_binding || own.is_lost;
        }
        self.forgotten |= own.is_refused;
    }

    /// Reconnects and creates another session, and another client if necessary; calls that were
    /// held back continue in it.
    fn rebind(&mut self, now_ns: u64) -> Result<(), MountError> {
        let Some(client) = self.client.clone() else { return Ok(()) };
        let session = &self.link.session;
        let slots = session.free_slots() + session.in_flight();
        let options = ConnectionOptions {
            slots,
            reconnect: false,
            identity: self.identity.clone(),
            ..ConnectionOptions::default()
        };
        // The new session is created on a separate connection, with blocking calls; then its socket
        // and its binding replace ours, and our calls in flight are adapted to it.
        let fresh = Self::connect_to(&self.target, session.version(), &options)?;
        let calls = session.in_flight();
        let former = session.client();
        let former_session = session.session_id();
        let mut control = Control::new(fresh);
        client
            .join_again(&mut control, former, former_session)
            .map_err(|failure| explain(NFS, &self.target.options, failure))?;
        let mut fresh = control.into_connection();
        // Read the counters of the old socket before it is closed; they belong to this connection.
        self.tcp.note_replaced(&self.link.transport);
        std::mem::swap(&mut self.link.transport, &mut fresh.link.transport);
        // The slots of the old session are useless, and those of the new one are ours now: neither
        // is returned when `fresh` is dropped.
        self.session_user = fresh.session_user.take();
        // Calls that the server refused or never got are sent again in the new session. A call that
        // may have been executed, and is not idempotent, is reported as lost: the reply cache that
        // would have recognized its retry is gone with the old session.
        self.link.session.resume(now_ns, &fresh.link.session);
        self.note_moved(calls);
        self.group = self.target.group;
        if self.link.session.client() != former {
            self.lose_copies(now_ns);
        }
        self.forgotten = false;
        Ok(())
    }

    /// Returns true if the server may have something to recall over this connection.
    fn is_called_back(&self) -> bool {
        let has_sessions = self.link.session.version().has_sessions();
        let direction = self.client.as_ref().map(|client| client.direction());
        has_sessions && direction.is_some_and(|direction| direction != direction::FORE)
    }

    /// Handles a broken socket: reconnects, or returns why it can't.
    pub(super) fn handle_loss(
        &mut self,
        broken: SocketFailure,
        now_ns: u64,
    ) -> Result<(), ConnectionError> {
        let may_recover = match &broken {
            SocketFailure::Garbage(_) => false,
            // The system reports each datagram that was sent to a closed port; it will be sent
            // again.
            SocketFailure::Lost(reason) if self.link.transport.is_datagram() => {
                if self.reconnect && reason.kind() == ErrorKind::ConnectionRefused {
                    return Ok(());
                }
                false
            }
            SocketFailure::Lost(_) => self.reconnect,
        };
        if !may_recover {
            return Err(self.error_of(broken));
        }
        // The first attempt is made at once, since most losses are short restarts. Each further one
        // waits twice as long as the one before.
        let trouble = self.trouble.get_or_insert(Outage::new(now_ns));
        let first = trouble.since_ns == now_ns;
        let tries_other = trouble.attempts < self.paths.count();
        trouble.next_ns = Some(if tries_other { now_ns } else { now_ns + trouble.pause_ns });
        if self.is_over(now_ns) {
            return Err(self.error_of(broken));
        }
        if first { self.reconnect(now_ns) } else { Ok(()) }
    }

    /// Continues an attempt to connect, or starts one, and returns whether it has succeeded. Blocks
    /// only for TLS.
    fn advance_attempt(&mut self, now_ns: u64) -> Result<bool, MountError> {
        // TCP would repeat a lost SYN after 1, 3 and 7 seconds. Starting over every second reaches
        // a server sooner once it is back.
        let limit = self.target.options.timeout.min(ATTEMPT);
        let opening = self.target.opening_within(limit);
        let attempt = if let Some(fd) = self.connecting.take() {
            continue_opening(fd, &opening)?
        } else {
            self.trouble.get_or_insert(Outage::new(now_ns)).begun_ns = now_ns;
            begin_opening(&opening)?
        };
        match attempt {
            SocketAttempt::Open(transport) => {
                // The server still knows the client and its session: only the socket is new. In a
                // session calls are resent with their slot and sequence number, and the server
                // answers those it has already executed from its reply cache.
                drop(self.replace_transport(transport));
                let calls = self.link.session.in_flight();
                self.link.session.reconnected(now_ns);
                self.renewal.binds = self.is_called_back();
                self.note_moved(calls);
                Ok(true)
            }
            SocketAttempt::InProgress(fd) => {
                let begun_ns = match self.trouble {
                    Some(trouble) => trouble.begun_ns,
                    None => now_ns,
                };
                if now_ns.saturating_sub(begun_ns) > limit.as_nanos() as u64 {
                    return Err(MountError::NoAnswer {
                        service: self.target.service,
                        server: self.target.server,
                        timeout: limit,
                    });
                }
                self.connecting = Some(fd);
                Ok(false)
            }
        }
    }

    /// Chooses the address of the next attempt: most losses are short restarts, so the first one
    /// is to the same address, and each further one to the next.
    fn begin_attempt(&mut self) {
        let Some(trouble) = &mut self.trouble else { return };
        trouble.attempts += 1;
        if trouble.attempts > 1 && self.paths.has_others() {
            self.switch_path();
        }
    }

    /// Starts an attempt to connect, or continues one.
    pub(super) fn reconnect(&mut self, now_ns: u64) -> Result<(), ConnectionError> {
        if self.connecting.is_none() {
            self.begin_attempt();
        }
        // A session is only valid on some of the addresses.
        let opened = if self.forgotten || self.group != self.target.group {
            self.rebind(now_ns).map(|()| true)
        } else {
            self.advance_attempt(now_ns)
        };
        let over = self.is_over(now_ns);
        let Some(trouble) = &mut self.trouble else { return Ok(()) };
        match opened {
            Ok(true) => {
                // A socket that connects proves little: a server whose NFS service has failed
                // accepts and closes at once. So the pause grows here as well, and only a reply
                // resets it (see `Connection::receive`).
                trouble.pause_ns = (2 * trouble.pause_ns).min(PAUSE_NS_MAX);
                trouble.next_ns = None;
                self.link.progress_ns = now_ns;
                Ok(())
            }
            Err(error) if over => Err(self.error_of(SocketFailure::Lost(io::Error::other(error)))),
            Ok(false) => {
                trouble.next_ns = Some(now_ns + LOOK_NS);
                Ok(())
            }
            // Another address may answer at once.
            Err(_) if trouble.attempts < self.paths.count() => {
                trouble.next_ns = Some(now_ns);
                Ok(())
            }
            Err(_) => {
                trouble.pause_ns = (2 * trouble.pause_ns).min(PAUSE_NS_MAX);
                trouble.next_ns = Some(now_ns + trouble.pause_ns);
                Ok(())
            }
        }
    }

    /// Returns true if there was no reply for longer than the mount's timeout.
    fn is_over(&self, now_ns: u64) -> bool {
        let limit_ns = self.target.options.timeout.as_nanos() as u64;
        let Some(trouble) = self.trouble else { return false };
        now_ns.saturating_sub(trouble.since_ns) > limit_ns
    }
}
