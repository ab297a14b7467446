//! Recovery of a connection: reconnects, binds it to another session, renews its lease.
//!
//! Calls that succeed never pass through here. A lost connection is made again with growing
//! pauses, within the mount's timeout; to a server that forgot its client, it is introduced again.
//! **Source:** RFC 7530 section 9.6, RFC 8881 sections 8.3, 8.4 and 2.10.

use std::io::{self, ErrorKind};
use std::time::Duration;

use nfs_proto::Status;
use nfs_proto::client::{Event, is_unbound};
use nfs_proto::nfs4::Op;

use super::delegations::RETURN;
use super::{Connection, ConnectionOptions, Control, DelegationUser};
use crate::error::{ConnectionError, MountError};
use crate::link::Broken;
use crate::scratch::Scratch;
use crate::service::{NFS, explain};
use crate::transport::{Attempt, begin_opening, continue_opening};

/// The tag of calls that are not the caller's.
const RENEWAL: u32 = u32::MAX;
/// Slots that are kept for them.
pub(crate) const RENEWAL_SLOTS: usize = 1;
/// How long one attempt to reconnect may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The first pause between two attempts to reconnect; each further one is twice as long.
const PAUSE_NS_MIN: u64 = 20_000_000;
/// How often an attempt is looked at that is in progress.
const LOOK_NS: u64 = 5_000_000;
/// The longest pause between two attempts.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// When the lease of a client of version 4 is renewed by an idle connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Renewal {
    /// 0 where there is no lease.
    pub(super) every_ns: u64,
    pub(super) last_ns: u64,
    pub(super) in_flight: bool,
}

/// The ends of calls that are not the caller's, among the events of one receive.
#[derive(Debug, Default)]
struct OwnEnds {
    /// All of them.
    count: usize,
    is_renewed: bool,
    /// The server does not know the client any more.
    is_refused: bool,
}

impl OwnEnds {
    /// Handles an event that ends such a call, and returns whether it was one. An event of the
    /// caller may bring a delegation.
    fn take_own(&mut self, event: &Event<'_>, user: &mut Option<DelegationUser>) -> bool {
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
        self.count += 1;
        if let Err(error) = event.result
            && let Some(status) = error.status()
        {
            self.is_refused |= is_unbound(status) || status == Status::Expired;
        }
        true
    }
}

/// A connection that was lost and has brought no reply since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    pub(super) since_ns: u64,
    /// When to try again; `None` while connected.
    pub(super) next_ns: Option<u64>,
    pub(super) pause_ns: u64,
    /// When the attempt that is in progress began.
    pub(super) begun_ns: u64,
}

impl Trouble {
    fn beginning_at(now_ns: u64) -> Self {
        Self { since_ns: now_ns, next_ns: None, pause_ns: PAUSE_NS_MIN, begun_ns: now_ns }
    }
}

impl Connection {
    /// Returns when the lease is to be renewed; an operation of a session renews it too.
    pub(super) fn renewal_ns(&self) -> Option<u64> {
        let Renewal { every_ns, last_ns, in_flight } = self.renewal;
        let busy = in_flight || self.link.session.free_slots() == 0;
        if every_ns == 0 || busy || self.is_down() || self.forgotten {
            return None;
        }
        // In a session every call begins with SEQUENCE, which renews the lease: only an idle one
        // has to be renewed. Before v4.1 the calls that renew are those with an open's stateid, and
        // RENEW is sent at its time whatever else is. RFC 8881 section 8.3, RFC 7530 section 9.5.
        let has_sessions = self.link.session.version().has_sessions();
        Some(if has_sessions { last_ns.max(self.link.progress_ns) } else { last_ns } + every_ns)
    }

    /// Renews the lease: by a SEQUENCE alone where there are sessions, else by RENEW.
    /// **Source:** RFC 7530 section 16.28, RFC 8881 section 8.3.
    pub(super) fn renew_lease(&mut self, now_ns: u64) {
        let session = &mut self.link.session;
        let renew = [Op::Renew { client: session.client() }];
        let ops = if session.version().has_sessions() { &[][..] } else { &renew };
        self.renewal.in_flight = session.start_ops(now_ns, RENEWAL, ops).is_ok();
        self.renewal.last_ns = now_ns;
    }

    /// Receives, and passes on all events but those of renewals.
    pub(super) fn receive_stateful(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, Broken> {
        let mut own = OwnEnds::default();
        let user = &mut self.delegations;
        let count = self.link.receive(scratch, clock, &mut |event| {
            if !own.take_own(event, user) {
                events(event);
            }
        });
        self.take_recalls();
        self.note_own(&own);
        // The session holds operations back that the server refused with BADSESSION or
        // STALE_CLIENTID: nothing more may be sent before there is another binding. The connection
        // of the mount itself is made again by its caller.
        self.forgotten |= self.client.is_some() && self.link.session.is_unbound();
        // Calls that are out will be refused too; their replies are worth waiting for.
        if self.forgotten && self.link.session.awaited_calls() == 0 {
            let now_ns = clock();
            let trouble = self.trouble.get_or_insert(Trouble::beginning_at(now_ns));
            trouble.next_ns.get_or_insert(now_ns);
        }
        Ok(count? - own.count)
    }

    /// Passes on the events that wait, without reading from the socket, and keeps what is not the
    /// caller's: a renewal ends here too, by the loss of its connection.
    pub(super) fn take_events(&mut self, events: &mut dyn FnMut(&Event<'_>)) -> usize {
        let mut own = OwnEnds::default();
        let user = &mut self.delegations;
        let count = self.link.take_events(&mut |event| {
            if !own.take_own(event, user) {
                events(event);
            }
        });
        self.note_own(&own);
        count - own.count
    }

    fn note_own(&mut self, own: &OwnEnds) {
        self.renewal.in_flight &= !own.is_renewed;
        self.forgotten |= own.is_refused;
    }

    /// Reconnects and makes another session, and another client if need be; the calls that
    /// were held back go on in it.
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
        // The new session is made on a connection of its own, with blocking calls; then its socket
        // and its binding replace those of this connection, whose calls in flight are adapted to
        // it.
        let fresh = Self::connect_to(&self.target, session.version(), &options)?;
        let (former, former_session) = (session.client(), session.session_id());
        let mut control = Control::over(fresh);
        client
            .join_again(&mut control, former, former_session)
            .map_err(|failure| explain(NFS, &self.target.options, failure))?;
        let mut fresh = control.into_connection();
        // The counters of the old socket are read before it goes; they belong to this connection.
        self.tcp.note_replaced(&self.link.transport);
        std::mem::swap(&mut self.link.transport, &mut fresh.link.transport);
        // Slots of the former session are of no use, and those of the present one are ours now:
        // neither is returned when `fresh` goes.
        self.session_user = fresh.session_user.take();
        // Calls that the server refused or never got are sent again under the new session. One that
        // may have been carried out, and is not idempotent, is reported as lost: the reply cache
        // that would have recognized its retry went with the old session.
        self.link.session.resume(now_ns, &fresh.link.session);
        self.forgotten = false;
        Ok(())
    }

    /// Handles the end of a socket: reconnects, or returns why it can't.
    pub(super) fn handle_loss(
        &mut self,
        broken: Broken,
        now_ns: u64,
    ) -> Result<(), ConnectionError> {
        let may_recover = match &broken {
            Broken::Garbage(_) => false,
            // The system reports each datagram that no socket accepted; it is sent again in time.
            Broken::Lost(reason) if self.link.transport.is_datagram() => {
                if self.reconnect && reason.kind() == ErrorKind::ConnectionRefused {
                    return Ok(());
                }
                false
            }
            Broken::Lost(_) => self.reconnect,
        };
        if !may_recover {
            return Err(self.error_of(broken));
        }
        // The first attempt is made at once, since most losses are restarts of a moment. Each
        // further one waits twice as long as the one before.
        let trouble = self.trouble.get_or_insert(Trouble::beginning_at(now_ns));
        let first = trouble.since_ns == now_ns;
        trouble.next_ns = Some(if first { now_ns } else { now_ns + trouble.pause_ns });
        if self.is_over(now_ns) {
            return Err(self.error_of(broken));
        }
        if first { self.reconnect(now_ns) } else { Ok(()) }
    }

    /// Goes on with an attempt to connect, or makes one, and tells whether it has succeeded. It
    /// does not wait, but for TLS.
    fn advance_attempt(&mut self, now_ns: u64) -> Result<bool, MountError> {
        // TCP would repeat a lost SYN after 1, 3 and 7 seconds. An attempt that begins again after
        // a second reaches a server sooner that has just come back.
        let limit = self.target.options.timeout.min(ATTEMPT);
        let opening = self.target.opening_within(limit);
        let attempt = if let Some(fd) = self.connecting.take() {
            continue_opening(fd, &opening)?
        } else {
            self.trouble.get_or_insert(Trouble::beginning_at(now_ns)).begun_ns = now_ns;
            begin_opening(&opening)?
        };
        match attempt {
            Attempt::Open(transport) => {
                // The server still knows the client and its session: only the socket is new. In a
                // session calls are sent again with their slot and sequence number, and the server
                // answers from its reply cache what it has carried out already.
                drop(self.replace_transport(transport));
                self.link.session.reconnected(now_ns);
                Ok(true)
            }
            Attempt::InProgress(fd) => {
                let begun_ns = match self.trouble {
                    Some(trouble) => trouble.begun_ns,
                    None => now_ns,
                };
                if now_ns.saturating_sub(begun_ns) > limit.as_nanos() as u64 {
                    let (service, server) = (self.target.service, self.target.server);
                    return Err(MountError::NoAnswer { service, server, timeout: limit });
                }
                self.connecting = Some(fd);
                Ok(false)
            }
        }
    }

    /// Makes one attempt to connect, or goes on with it.
    pub(super) fn reconnect(&mut self, now_ns: u64) -> Result<(), ConnectionError> {
        let opened = if self.forgotten {
            self.rebind(now_ns).map(|()| true)
        } else {
            self.advance_attempt(now_ns)
        };
        let over = self.is_over(now_ns);
        let Some(trouble) = &mut self.trouble else { return Ok(()) };
        match opened {
            Ok(true) => {
                // A socket that connects proves little: a server whose NFS service fails accepts
                // and closes at once. So the pause grows here as well, and only a reply ends the
                // trouble (see `Connection::receive`).
                trouble.pause_ns = (2 * trouble.pause_ns).min(PAUSE_NS_MAX);
                trouble.next_ns = None;
                self.link.progress_ns = now_ns;
                Ok(())
            }
            Err(error) if over => Err(self.error_of(Broken::Lost(io::Error::other(error)))),
            Ok(false) => {
                trouble.next_ns = Some(now_ns + LOOK_NS);
                Ok(())
            }
            Err(_) => {
                trouble.pause_ns = (2 * trouble.pause_ns).min(PAUSE_NS_MAX);
                trouble.next_ns = Some(now_ns + trouble.pause_ns);
                Ok(())
            }
        }
    }

    /// Returns whether there was no reply for longer than the mount's timeout.
    fn is_over(&self, now_ns: u64) -> bool {
        let limit_ns = self.target.options.timeout.as_nanos() as u64;
        let Some(trouble) = self.trouble else { return false };
        now_ns.saturating_sub(trouble.since_ns) > limit_ns
    }
}
