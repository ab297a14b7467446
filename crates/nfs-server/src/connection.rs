//! One connection: bytes in, requests answered, replies out.
//!
//! It belongs to one event loop and is only touched when its socket is ready, a reply held back
//! is due, or the loop looks after it. Memory is bounded: input by the record limit of the
//! session, output by `OUTBOX_BYTES_MAX` plus one reply; past that, requests stay unread until the
//! peer has taken what it asked for. Buffers are lent by the loop's kit and given back.

use std::io::IoSlice;

use nfs_proto::limits::INPUT_BYTES_START;
use nfs_proto::raw::Frame;
use nfs_proto::rpc::{AUTH_TLS, Credential};
use nfs_proto::server::{Request, Session, encode_starttls_reply};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::channel::Channel;
use crate::delay::{Addressee, Due};
use crate::dispatch::{Handled, handle};
use crate::fault::{FaultKind, FaultState};
use crate::kit::Kit;
use crate::limits::{
    INPUT_KEEP_BYTES, OUTBOX_BYTES_MAX, RECEIVE_BYTES_MIN, RECEIVES_PER_TURN, VECTORS_MAX,
};
use crate::outbox::Outbox;
use crate::reflect::Raw;
use crate::service::{Origin, Service, Transport};

/// The connection is over; its owner drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are read and answered.
    Open,
    /// Replies in the queue are sent, then TLS begins.
    Securing,
    /// Replies in the queue are sent, then the connection is closed.
    Ending,
    /// Nothing is read or answered any more, by plan.
    Hung,
}

/// Signs of life since the connection was last checked, and how often there were none.
#[derive(Debug, Default)]
struct Signs {
    called: bool,
    sent: bool,
    idle_sweeps: u32,
    stuck_sweeps: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    /// Events that the kernel was asked for.
    pub(crate) interest: EventFlags,
    token: u64,
    origin: Origin,
    session: Session,
    /// Frames in the place of RPC, where the peer began so.
    raw: Option<Box<Raw>>,
    /// Nothing has come yet.
    is_new: bool,
    outbox: Outbox,
    faults: Option<Box<FaultState>>,
    delayed_bytes: usize,
    /// Replies that leave in drops, by plan; their bytes count as delayed.
    trickled: Outbox,
    phase: Phase,
    signs: Signs,
}

/// How many drops a second there are of what trickles out, where each has a byte at least.
const DROPS_PER_S: u64 = 10;

impl Connection {
    /// Takes over an accepted socket.
    pub(crate) fn new(
        token: u64,
        channel: Channel,
        origin: Origin,
        session: Session,
        faults: Option<Box<FaultState>>,
    ) -> Self {
        Self {
            channel,
            interest: EventFlags::empty(),
            token,
            origin,
            session,
            raw: None,
            is_new: true,
            outbox: Outbox::default(),
            faults,
            delayed_bytes: 0,
            trickled: Outbox::default(),
            phase: Phase::Open,
            signs: Signs::default(),
        }
    }

    /// Makes the connection fall silent.
    pub(crate) fn hang(&mut self) {
        self.phase = Phase::Hung;
    }

    /// The events to wait for as things stand.
    pub(crate) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.wants_input());
        wanted.set(EventFlags::OUT, self.unsent());
        // A silent connection reads nothing, so only this tells that its peer has left.
        wanted.set(EventFlags::RDHUP, self.phase == Phase::Hung);
        wanted
    }

    /// Does what the socket is ready for.
    pub(crate) fn turn(&mut self, ready: EventFlags, kit: &mut Kit) -> Result<(), Closed> {
        if ready.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            return Err(Closed);
        }
        self.borrow(kit);
        if ready.contains(EventFlags::OUT) {
            self.flush(&kit.service)?;
            self.work(kit)?;
        }
        // What TLS has decrypted already makes no socket ready.
        if ready.contains(EventFlags::IN) || self.channel.has_input() {
            let mut receives = 0;
            while receives < RECEIVES_PER_TURN || self.channel.has_input() {
                if !self.wants_input() {
                    break;
                }
                let filled = self.receive(kit)?;
                self.work(kit)?;
                // A system call to hear that there is no more would be one in three of a turn; in
                // the middle of a record more is likely to be there.
                if !filled && !self.begun() && !self.channel.has_input() {
                    break;
                }
                receives += 1;
            }
        }
        self.give_back(kit);
        self.check_end()
    }

    /// Takes a reply that was held back.
    pub(crate) fn deliver(&mut self, reply: Outbox, kit: &mut Kit) -> Result<(), Closed> {
        self.delayed_bytes -= reply.bytes();
        self.borrow(kit);
        self.queue(reply, kit);
        self.flush(&kit.service)?;
        self.work(kit)?;
        self.give_back(kit);
        self.check_end()
    }

    /// Sends the next drop of what trickles out.
    pub(crate) fn drip(&mut self, kit: &mut Kit) -> Result<(), Closed> {
        let Some(bytes_per_s) = kit.service.shared.faults.trickle_bytes_per_s else {
            return Ok(());
        };
        self.borrow(kit);
        let before = self.trickled.bytes();
        self.trickled.move_front((bytes_per_s / DROPS_PER_S).max(1) as usize, &mut self.outbox);
        self.delayed_bytes -= before - self.trickled.bytes();
        self.plan_drip(bytes_per_s, kit);
        self.flush(&kit.service)?;
        self.work(kit)?;
        self.give_back(kit);
        self.check_end()
    }

    /// Has the next drop sent in time, where there is one.
    fn plan_drip(&self, bytes_per_s: u64, kit: &mut Kit) {
        if self.trickled.bytes() > 0 {
            let drops_per_s = bytes_per_s.clamp(1, DROPS_PER_S);
            kit.delays.add(1_000_000_000 / drops_per_s, Due::Drip(self.token));
        }
    }

    /// Puts a reply where it leaves from: at once, or in drops.
    fn queue(&mut self, reply: Outbox, kit: &mut Kit) {
        let Some(bytes_per_s) = kit.service.shared.faults.trickle_bytes_per_s else {
            return self.outbox.append(reply);
        };
        kit.service.counters.fault(FaultKind::Trickle);
        let is_dry = self.trickled.bytes() == 0;
        self.delayed_bytes += reply.bytes();
        self.trickled.append(reply);
        if is_dry {
            self.plan_drip(bytes_per_s, kit);
        }
    }

    /// Notes that time has passed: a connection that is idle for long may be closed by plan, and
    /// one that leaves a record half sent or replies unread is closed.
    pub(crate) fn look_after(&mut self, service: &Service) -> Result<(), Closed> {
        let Signs { called, sent, .. } = self.signs;
        let waits = self.unsent() || self.delayed_bytes > 0;
        let half = self.phase == Phase::Open && self.has_room() && self.begun();
        let stuck = (half && !called) || (self.unsent() && !sent && !called);
        let idle = !(called || waits || self.phase == Phase::Hung);
        self.signs = Signs {
            called: false,
            sent: false,
            idle_sweeps: if idle { self.signs.idle_sweeps + 1 } else { 0 },
            stuck_sweeps: if stuck { self.signs.stuck_sweeps + 1 } else { 0 },
        };
        let shared = &service.shared;
        let lasted_ns = |sweeps: u32| u64::from(sweeps) * shared.sweep_ns();
        if lasted_ns(self.signs.stuck_sweeps) >= shared.partial_record_timeout_ns {
            service.counters.stalled_records.add(1);
            return Err(Closed);
        }
        if shared
            .faults
            .close_idle_after_ns
            .is_some_and(|ns| lasted_ns(self.signs.idle_sweeps) >= ns)
        {
            service.counters.fault(FaultKind::CloseIdle);
            return Err(Closed);
        }
        Ok(())
    }

    /// Whether a record, or a handshake, is half through.
    fn begun(&self) -> bool {
        let half = self.raw.as_ref().map_or(self.session.is_partial(), |raw| raw.is_partial());
        half || self.channel.is_handshaking()
    }

    /// Borrows the warm outbox, where nothing waits in the own one.
    fn borrow(&mut self, kit: &mut Kit) {
        if self.outbox.bytes() == 0 {
            kit.lend_outbox(&mut self.outbox);
        }
    }

    /// Gives buffers back that are not needed until the next turn.
    fn give_back(&mut self, kit: &mut Kit) {
        if self.outbox.bytes() == 0 {
            kit.take_back_outbox(&mut self.outbox);
        }
        if let Some(buffer) = self.session.release_buffer(INPUT_KEEP_BYTES) {
            kit.take_back(buffer);
        }
    }

    fn wants_input(&self) -> bool {
        self.phase == Phase::Open && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.outbox.bytes() + self.delayed_bytes < OUTBOX_BYTES_MAX
    }

    fn unsent(&self) -> bool {
        self.outbox.bytes() > 0 || self.channel.has_output()
    }

    fn check_end(&self) -> Result<(), Closed> {
        let idle = !self.unsent() && self.delayed_bytes == 0;
        if self.phase == Phase::Ending && idle { Err(Closed) } else { Ok(()) }
    }

    /// Receives once; true where the socket may hold more.
    fn receive(&mut self, kit: &mut Kit) -> Result<bool, Closed> {
        if let Some(raw) = &mut self.raw {
            let space = raw.space();
            let space_bytes = space.len();
            let received = self.channel.receive(space, &kit.service.counters);
            if let Ok(count) = received {
                raw.filled(count);
            }
            return self.received(received, space_bytes);
        }
        if self.session.capacity() < INPUT_BYTES_START {
            let mut buffer = kit.buffer();
            self.session.adopt_buffer(&mut buffer);
            kit.take_back(buffer);
        }
        let space = self.session.free_space(RECEIVE_BYTES_MIN);
        let space_bytes = space.len();
        let received = self.channel.receive(space, &kit.service.counters);
        if let Ok(count @ 1..) = received {
            let is_raw = self.is_new && self.origin.transport == Transport::Tcp;
            self.is_new = false;
            if is_raw && Frame::begins(&space[..count]) {
                self.raw = Some(Box::new(Raw::begun(&space[..count])));
            } else {
                self.session.mark_filled(count);
            }
        }
        self.received(received, space_bytes)
    }

    /// Says whether the socket may hold more after a receive.
    fn received(
        &mut self,
        received: Result<usize, Errno>,
        space_bytes: usize,
    ) -> Result<bool, Closed> {
        match received {
            Ok(0) => {
                // The peer may still read what it asked for.
                self.phase = Phase::Ending;
                Ok(false)
            }
            Ok(count) => Ok(count == space_bytes),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(Closed),
        }
    }

    /// Answers what was received and sends, until input or room runs out.
    fn work(&mut self, kit: &mut Kit) -> Result<(), Closed> {
        loop {
            let all_answered = self.answer_received(kit)?;
            self.flush(&kit.service)?;
            if all_answered || !self.has_room() {
                return Ok(());
            }
        }
    }

    /// Answers requests as long as there is room; true where none is left.
    fn answer_received(&mut self, kit: &mut Kit) -> Result<bool, Closed> {
        if let Some(raw) = &mut self.raw {
            self.signs.called = true;
            return raw.answer(&mut self.outbox).map_err(|_| {
                kit.service.counters.broken_streams.add(1);
                Closed
            });
        }
        while self.phase == Phase::Open {
            if self.outbox.bytes() + self.delayed_bytes >= OUTBOX_BYTES_MAX {
                return Ok(false);
            }
            let request = match self.session.next_request(self.outbox.head()) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(true),
                Err(_) => {
                    kit.service.counters.broken_streams.add(1);
                    return Err(Closed);
                }
            };
            self.signs.called = true;
            if asks_for_tls(&request, &kit.service, self.origin.transport) {
                encode_starttls_reply(self.outbox.head(), request.xid);
                self.outbox.seal();
                self.phase = Phase::Securing;
            } else if self.faults.is_none() {
                kit.service.answer(&request, &self.origin, &mut self.outbox);
                self.outbox.seal();
            } else {
                self.outbox.seal();
                let handled = handle(&mut kit.service, &mut self.faults, &request, &self.origin);
                self.take(handled, kit);
            }
        }
        Ok(true)
    }

    /// Does with a reply what the planned faults say.
    fn take(&mut self, handled: Handled, kit: &mut Kit) {
        let (reply, hold_ns, twice) = match handled {
            Handled::Reply { reply, hold_ns, twice, closes } => {
                if closes {
                    self.phase = Phase::Ending;
                }
                (reply, hold_ns, twice)
            }
            Handled::Silence => return,
            Handled::Hang => return self.phase = Phase::Hung,
            Handled::Close => return self.phase = Phase::Ending,
        };
        for reply in twice.then(|| reply.clone()).into_iter().chain([reply]) {
            if hold_ns > 0 {
                self.delayed_bytes += reply.bytes();
                let addressee = Addressee::Connection(self.token);
                kit.delays.add(hold_ns, Due::Reply(addressee, reply));
            } else {
                self.queue(reply, kit);
            }
        }
    }

    /// Sends until the queue is empty or the socket takes no more.
    fn flush(&mut self, service: &Service) -> Result<(), Closed> {
        while self.unsent() {
            let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
            let count = self.outbox.vectors(&mut vectors);
            match self.channel.send(&vectors[..count], &service.counters) {
                Ok(sent) => {
                    self.signs.sent = true;
                    self.outbox.consume(sent);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Closed),
            }
        }
        if self.phase == Phase::Securing { self.secure(service) } else { Ok(()) }
    }

    /// Begins TLS: the answer that promises it has left.
    fn secure(&mut self, service: &Service) -> Result<(), Closed> {
        // Bytes that came before the answer was there belong to no handshake.
        if self.session.is_partial() {
            service.counters.tls_failures.add(1);
            return Err(Closed);
        }
        let tls = service.shared.tls.as_ref().ok_or(Closed)?;
        self.channel.secure(tls).map_err(|_| Closed)?;
        self.origin.transport = Transport::Tls;
        self.phase = Phase::Open;
        Ok(())
    }
}

/// Whether a request is the probe that begins TLS. **Source:** RFC 9289 section 4.1.
fn asks_for_tls(request: &Request<'_>, service: &Service, transport: Transport) -> bool {
    let probe = request.credential == Credential::Other { flavor: AUTH_TLS };
    let null = || request.body.is_ok_and(|call| call.procedure_id().procedure == 0);
    probe && service.shared.tls.is_some() && transport == Transport::Tcp && null()
}
