//! One connection: bytes in, requests answered, replies out.
//!
//! It belongs to one event loop and runs only when its socket is ready, a held-back reply is due,
//! or the loop checks time-outs. Memory is bounded: input by the record limit of the session,
//! output by `OUTBOX_BYTES_MAX` plus one reply; past that, requests stay unread until the peer has
//! received its replies. Buffers are borrowed from the loop's resources and returned; whatever the
//! connection keeps is charged ([`HeldMemory`]).

use std::io::{IoSlice, IoSliceMut};

use nfs_proto::limits::{INPUT_BYTES_START, MARK_BYTES};
use nfs_proto::raw::Frame;
use nfs_proto::record::Mark;
use nfs_proto::rpc::{AUTH_TLS, Credential};
use nfs_proto::server::{Message, Request, Session, encode_starttls_reply};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::callback_line::CallbackLine;
use crate::channel::Channel;
use crate::delay::{ReplyTarget, Task};
use crate::dispatch::{RequestOutcome, handle_request};
use crate::fault::{FaultKind, FaultState};
use crate::fs::Payload;
use crate::held_memory::HeldMemory;
use crate::limits::{
    CONNECTION_BYTES, IDLE_CALL_NS_MAX, INPUT_KEEP_BYTES, NEXT_CALL_BYTES, PAYLOAD_VECTORS_MAX,
    RECEIVE_BYTES_MIN, RECEIVES_PER_TURN, TLS_UNSENT_BYTES, VECTORS_MAX,
};
use crate::origin::{Origin, Transport};
use crate::outbox::Outbox;
use crate::reflect::Raw;
use crate::resources::Resources;
use crate::service::{Service, Shared};

/// The connection is over; its owner drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionClosed;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are read and answered.
    Open,
    /// Replies in the queue are sent, then TLS begins.
    Securing,
    /// Replies in the queue are sent, then the connection is closed.
    Ending,
    /// Nothing is read or answered any more: a planned fault.
    Hung,
}

/// Activity since the last check, and the number of checks without any.
#[derive(Debug, Default)]
struct Activity {
    called: bool,
    sent: bool,
    received: bool,
    idle_sweeps: u32,
    stuck_sweeps: u32,
    /// Checks during which it held room that others were waiting for, and received nothing.
    hoarding_sweeps: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    /// Events registered with epoll.
    pub(crate) interest: EventFlags,
    token: u64,
    origin: Origin,
    session: Session,
    /// Frames instead of RPC, if the peer started that way.
    raw: Option<Box<Raw>>,
    /// Whether nothing has arrived yet.
    is_new: bool,
    /// Payload of the call that is arriving, if it is received into the store's memory.
    payload: Option<Box<Payload>>,
    /// Whether the last call had one.
    had_payload: bool,
    outbox: Outbox,
    memory: HeldMemory,
    faults: Option<Box<FaultState>>,
    delayed_bytes: usize,
    /// Memory of the held-back replies; their payload belongs to the store.
    delayed_heads: usize,
    /// Replies that are trickled out, by a planned fault; their bytes count as delayed.
    trickled: Outbox,
    phase: Phase,
    activity: Activity,
}

// The amount charged for a connection covers it, its callback line and its entries in tables.
const _: () =
    assert!(size_of::<Connection>() + size_of::<CallbackLine>() + 64 <= CONNECTION_BYTES as usize);

/// Chunks per second of a trickled reply; each has at least one byte.
const DROPS_PER_S: u64 = 10;

impl Connection {
    /// Takes over an accepted socket.
    pub(crate) fn new(
        token: u64,
        channel: Channel,
        origin: Origin,
        session: Session,
        memory: HeldMemory,
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
            payload: None,
            had_payload: false,
            outbox: Outbox::default(),
            memory,
            faults,
            delayed_bytes: 0,
            delayed_heads: 0,
            trickled: Outbox::default(),
            phase: Phase::Open,
            activity: Activity::default(),
        }
    }

    /// Makes the connection go silent.
    pub(crate) fn stop_answering(&mut self) {
        self.phase = Phase::Hung;
    }

    /// Returns the events to wait for in the current state.
    pub(crate) fn wanted_events(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.wants_input());
        wanted.set(EventFlags::OUT, self.has_unsent());
        // A silent connection reads nothing, so this is the only way to notice that its peer has
        // left.
        wanted.set(EventFlags::RDHUP, self.phase == Phase::Hung);
        wanted
    }

    /// Does what the socket is ready for.
    pub(crate) fn handle_ready(
        &mut self,
        ready: EventFlags,
        resources: &mut Resources,
    ) -> Result<(), ConnectionClosed> {
        if ready.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            return Err(ConnectionClosed);
        }
        // Output first: it frees room in the outbox, and without room no input is read.
        self.borrow_outbox(resources);
        if ready.contains(EventFlags::OUT) {
            self.flush_outbox(&resources.service)?;
            self.answer_and_send(resources)?;
        }
        // Data that TLS has already decrypted does not make the socket ready.
        if ready.contains(EventFlags::IN) || self.channel.has_input() {
            // RECEIVES_PER_TURN bounds how long one busy connection keeps the others of its thread
            // waiting. Decrypted input is an exception: nothing would report it again.
            let mut receives = 0;
            while receives < RECEIVES_PER_TURN || self.channel.has_input() {
                if !self.wants_input() || !self.reserve_input(resources) {
                    break;
                }
                let filled = self.receive_bytes(resources)?;
                self.answer_and_send(resources)?;
                // Asking the socket again just to learn that it is empty would be one in three
                // system calls of a turn; in the middle of a record, more data is likely.
                if !filled && !self.is_mid_record() && !self.channel.has_input() {
                    break;
                }
                receives += 1;
            }
        }
        self.return_buffers(resources)?;
        self.check_end()
    }

    /// Continues if there is now room for the long call it is waiting with; returns whether there
    /// is.
    pub(crate) fn resume(&mut self, resources: &mut Resources) -> Result<bool, ConnectionClosed> {
        if !self.memory.is_waiting() {
            return Ok(true);
        }
        let needed = self.input_needed(&resources.service);
        if !self.memory.reserve(needed) {
            return Ok(false);
        }
        self.handle_ready(EventFlags::IN, resources)?;
        Ok(true)
    }

    /// The token under which the loop finds it.
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Whether replies are held back for it.
    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed_bytes > 0
    }

    /// Takes a reply that was held back.
    pub(crate) fn deliver_reply(
        &mut self,
        reply: Outbox,
        resources: &mut Resources,
    ) -> Result<(), ConnectionClosed> {
        self.delayed_bytes -= reply.bytes();
        self.delayed_heads -= reply.head_capacity();
        self.borrow_outbox(resources);
        self.queue_reply(reply, resources);
        self.flush_outbox(&resources.service)?;
        self.answer_and_send(resources)?;
        self.return_buffers(resources)?;
        self.check_end()
    }

    /// Sends a framed call to the client, behind the queued replies. A connection that is about to
    /// end, or that was silenced by a planned fault, sends none any more.
    pub(crate) fn send_call(
        &mut self,
        call: &[u8],
        resources: &mut Resources,
    ) -> Result<(), ConnectionClosed> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        self.borrow_outbox(resources);
        self.outbox.head().extend_from_slice(call);
        self.outbox.seal();
        self.flush_outbox(&resources.service)?;
        self.return_buffers(resources)?;
        self.check_end()
    }

    /// Sends the next chunk of the trickled replies.
    pub(crate) fn send_trickle(
        &mut self,
        resources: &mut Resources,
    ) -> Result<(), ConnectionClosed> {
        let Some(bytes_per_s) = resources.service.shared.faults.trickle_bytes_per_s else {
            return Ok(());
        };
        self.borrow_outbox(resources);
        let before = self.trickled.bytes();
        self.trickled.move_front((bytes_per_s / DROPS_PER_S).max(1) as usize, &mut self.outbox);
        self.delayed_bytes -= before - self.trickled.bytes();
        self.schedule_trickle(bytes_per_s, resources);
        self.flush_outbox(&resources.service)?;
        self.answer_and_send(resources)?;
        self.return_buffers(resources)?;
        self.check_end()
    }

    /// Schedules the next chunk, if there is one.
    fn schedule_trickle(&self, bytes_per_s: u64, resources: &mut Resources) {
        if self.trickled.bytes() > 0 {
            let drops_per_s = bytes_per_s.clamp(1, DROPS_PER_S);
            resources.delays.add_after(1_000_000_000 / drops_per_s, Task::Trickle(self.token));
        }
    }

    /// Queues a reply to be sent at once, or trickled.
    fn queue_reply(&mut self, reply: Outbox, resources: &mut Resources) {
        let Some(bytes_per_s) = resources.service.shared.faults.trickle_bytes_per_s else {
            return self.outbox.append(reply);
        };
        resources.service.counters.fault(FaultKind::Trickle);
        let is_dry = self.trickled.bytes() == 0;
        self.delayed_bytes += reply.bytes();
        self.trickled.append(reply);
        if is_dry {
            self.schedule_trickle(bytes_per_s, resources);
        }
    }

    /// Handles the passing of time: a connection that has been idle for long may be closed by a
    /// planned fault, and one that leaves a record half sent or replies unread is closed.
    pub(crate) fn check_timeouts(&mut self, service: &Service) -> Result<(), ConnectionClosed> {
        let Activity { called, sent, .. } = self.activity;
        // Two things end a connection that holds memory for a passive peer: a record that was
        // started and is not continued, and replies that are not received. A peer that does either
        // is alive, however slow, so any sign of life restarts the count.
        let waits = self.has_unsent() || self.delayed_bytes > 0;
        let is_begun = self.is_mid_record() || self.memory.is_waiting();
        let half = self.phase == Phase::Open && self.has_room() && is_begun;
        let stuck = (half && !called) || (self.has_unsent() && !sent && !called);
        let idle = !(called || waits || self.phase == Phase::Hung);
        // A call that makes no progress must not keep other clients' calls from being received.
        // Bytes below the low-water mark may have arrived unseen; from now on, they are seen.
        let received = self.activity.received || self.channel.reset_low_water();
        let others_wait = self.memory.has_reserved() && self.memory.server().has_waiting();
        let hoards = others_wait && !received;
        self.activity = Activity {
            idle_sweeps: if idle { self.activity.idle_sweeps + 1 } else { 0 },
            stuck_sweeps: if stuck { self.activity.stuck_sweeps + 1 } else { 0 },
            hoarding_sweeps: if hoards { self.activity.hoarding_sweeps + 1 } else { 0 },
            ..Activity::default()
        };
        let shared = &service.shared;
        let lasted_ns = |sweeps: u32| u64::from(sweeps) * shared.sweep_ns();
        if lasted_ns(self.activity.hoarding_sweeps) >= IDLE_CALL_NS_MAX {
            return Err(refuse_memory(service));
        }
        if lasted_ns(self.activity.stuck_sweeps) >= shared.partial_record_timeout_ns {
            if self.memory.is_waiting() {
                return Err(refuse_memory(service));
            }
            service.counters.stalled_records.add(1);
            return Err(ConnectionClosed);
        }
        let idle_max_ns = shared.faults.close_idle_after_ns.unwrap_or(u64::MAX);
        if lasted_ns(self.activity.idle_sweeps) >= idle_max_ns {
            service.counters.fault(FaultKind::CloseIdle);
            return Err(ConnectionClosed);
        }
        Ok(())
    }

    /// Whether a record, or a handshake, is incomplete.
    fn is_mid_record(&self) -> bool {
        let raw = self.raw.as_ref();
        let is_partial = raw.map_or(self.session.is_partial(), |raw| raw.is_partial());
        is_partial || self.channel.is_handshaking()
    }

    /// Borrows the loop's warm outbox if nothing is waiting in our own.
    fn borrow_outbox(&mut self, resources: &mut Resources) {
        if self.outbox.bytes() == 0 {
            resources.lend_outbox(&mut self.outbox);
        }
    }

    /// Returns buffers that are not needed until the next turn, and charges what is kept.
    fn return_buffers(&mut self, resources: &mut Resources) -> Result<(), ConnectionClosed> {
        if self.outbox.bytes() == 0 {
            resources.return_outbox(&mut self.outbox);
        }
        let raw = self.raw.as_mut().and_then(|raw| raw.release_buffer(INPUT_KEEP_BYTES));
        for buffer in [self.session.release_buffer(INPUT_KEEP_BYTES), raw].into_iter().flatten() {
            resources.return_buffer(buffer);
        }
        let input = self.raw.as_ref().map_or(self.session.capacity(), |raw| raw.capacity());
        if self.outbox.bytes() > 0 && self.memory.server().is_tight() {
            self.outbox.shrink();
        }
        let encrypted = if self.channel.has_output() { TLS_UNSENT_BYTES } else { 0 };
        let heads = self.outbox.head_capacity() + self.trickled.head_capacity();
        let others = heads + self.delayed_heads + encrypted;
        if !self.session.is_partial() {
            self.memory.release_call();
        }
        let payload = self.payload.as_ref().map_or(0, |payload| payload.len_bytes());
        let settled = self.memory.settle(input + payload, others);
        settled.map_err(|_| refuse_memory(&resources.service))
    }

    /// Reserves room for the call that is arriving, if it is long. Returns false if the connection
    /// has to wait for room.
    fn reserve_input(&mut self, resources: &mut Resources) -> bool {
        let needed = self.input_needed(&resources.service);
        let is_short = needed <= self.memory.unreserved_max(INPUT_BYTES_START);
        if is_short || !self.memory.yield_room() && self.memory.reserve(needed) {
            return true;
        }
        resources.waiting.push_back(self.token);
        false
    }

    /// Bytes of buffer needed for the call that is arriving.
    fn input_needed(&self, service: &Service) -> usize {
        let needed = self.session.bytes_needed();
        if needed > 0 || !self.memory.server().is_tight() {
            return needed;
        }
        // If memory is tight, a waiting connection must not hold even the first bytes of its call:
        // with many connections that would add up. So we peek at the call's mark in the socket.
        let Some(mark) = self.channel.peek_mark() else { return 0 };
        let record_bytes_max = service.shared.record_bytes_max;
        match mark {
            // It will be refused once it is received.
            Mark { len, .. } if len > record_bytes_max => 0,
            Mark { len, last: true } => MARK_BYTES + len,
            Mark { .. } => record_bytes_max,
        }
    }

    fn wants_input(&self) -> bool {
        self.phase == Phase::Open && self.has_room() && !self.memory.is_waiting()
    }

    fn has_room(&self) -> bool {
        self.outbox.bytes() + self.delayed_bytes < self.memory.server().outbox_bytes_max()
    }

    fn has_unsent(&self) -> bool {
        self.outbox.bytes() > 0 || self.channel.has_output()
    }

    fn check_end(&self) -> Result<(), ConnectionClosed> {
        let idle = !self.has_unsent() && self.delayed_bytes == 0;
        if self.phase == Phase::Ending && idle { Err(ConnectionClosed) } else { Ok(()) }
    }

    /// Receives once; returns true if the socket may hold more.
    fn receive_bytes(&mut self, resources: &mut Resources) -> Result<bool, ConnectionClosed> {
        if let Some(raw) = &mut self.raw {
            if raw.needs_buffer() {
                raw.adopt_buffer(resources.lend_buffer());
            }
            let space = raw.input_space();
            let space_bytes = space.len();
            let received = self.channel.receive(space, &resources.service.counters);
            if let Ok(count) = received {
                raw.note_received(count);
            }
            return self.note_received(received, space_bytes);
        }
        // An idle connection owns no buffer. The session keeps a borrowed one only while a record
        // is half received (`return_buffers`).
        if self.session.capacity() < INPUT_BYTES_START {
            let mut buffer = resources.lend_buffer();
            self.session.adopt_buffer(&mut buffer);
            resources.return_buffer(buffer);
        }
        self.detach_payload(&resources.service);
        if self.awaits_payload() {
            return self.receive_payload(resources);
        }
        let mut space = self.session.free_space(RECEIVE_BYTES_MIN);
        if !self.memory.has_reserved() {
            // Bytes of a long call that arrive before room is reserved have to be kept meanwhile.
            let mut most = self.memory.unreserved_max(space.len()).min(space.len());
            // Another WRITE is likely, and only its payload needs more.
            if self.had_payload {
                most = most.min(NEXT_CALL_BYTES);
            }
            space = &mut space[..most];
        }
        let space_bytes = space.len();
        let received = self.channel.receive(space, &resources.service.counters);
        if let Ok(count @ 1..) = received {
            // A stream of frames differs from RPC in its very first bytes, which cannot be a record
            // mark of a sane length; after that the connection keeps its kind.
            let is_raw = self.is_new && self.origin.transport == Transport::Tcp;
            self.is_new = false;
            if is_raw && Frame::begins(&space[..count]) {
                self.raw = Some(Box::new(Raw::starting_with(&space[..count])));
            } else {
                self.session.mark_filled(count);
            }
        }
        self.note_received(received, space_bytes)
    }

    /// Takes the payload of a long WRITE out of the call that is arriving, so that the rest is
    /// received where it will stay. Room for the call is reserved, which covers the payload until
    /// it is part of a file.
    fn detach_payload(&mut self, service: &Service) {
        if self.payload.is_some() || !self.memory.has_reserved() || !self.channel.is_plain() {
            return;
        }
        let Shared { fs, pnfs, .. } = &*service.shared;
        // The data servers want it in one piece.
        if pnfs.is_some() {
            return;
        }
        self.payload = self.session.detach_payload(|write, arrived| {
            let mut payload = fs.prepare_payload(write.offset, write.len)?;
            payload.push(arrived);
            Some(Box::new(payload))
        });
    }

    /// Whether bytes of a payload are missing that was taken out of its call.
    fn awaits_payload(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| payload.missing_bytes() > 0)
    }

    /// Receives once into a payload and, behind it, into the session.
    fn receive_payload(&mut self, resources: &mut Resources) -> Result<bool, ConnectionClosed> {
        let Some(payload) = &mut self.payload else { return Ok(false) };
        let counters = &resources.service.counters;
        let missing = payload.missing_bytes();
        if payload.is_dropped() {
            let space = &mut resources.dropped[..missing];
            let received = self.channel.drop_bytes(space, counters);
            if let Ok(count) = received {
                payload.mark_filled(count);
                self.channel.await_bulk(count, payload.missing_bytes());
            }
            return self.note_received(received, missing);
        }
        let next = self.session.free_space(NEXT_CALL_BYTES);
        let next_len = next.len().min(NEXT_CALL_BYTES);
        let mut slices: [_; PAYLOAD_VECTORS_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let count = payload.free_space(&mut slices[..PAYLOAD_VECTORS_MAX - 1]);
        slices[count] = IoSliceMut::new(&mut next[..next_len]);
        let received = self.channel.receive_scattered(&mut slices[..=count], counters);
        if let Ok(received) = received {
            let of_payload = received.min(missing);
            payload.mark_filled(of_payload);
            self.session.mark_filled(received - of_payload);
        }
        self.note_received(received, missing + next_len)
    }

    /// Returns whether the socket may hold more after a receive.
    fn note_received(
        &mut self,
        received: Result<usize, Errno>,
        space_bytes: usize,
    ) -> Result<bool, ConnectionClosed> {
        match received {
            Ok(0) => {
                // A half-closed peer still reads: send its replies before closing the socket.
                self.phase = Phase::Ending;
                Ok(false)
            }
            Ok(count) => {
                self.activity.received = true;
                Ok(count == space_bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(ConnectionClosed),
        }
    }

    /// Answers received requests and sends, until input or room runs out.
    fn answer_and_send(&mut self, resources: &mut Resources) -> Result<(), ConnectionClosed> {
        loop {
            let all_answered = self.answer_received(resources)?;
            self.flush_outbox(&resources.service)?;
            if all_answered || !self.has_room() {
                return Ok(());
            }
        }
    }

    /// Answers requests while there is room; returns true if none is left.
    fn answer_received(&mut self, resources: &mut Resources) -> Result<bool, ConnectionClosed> {
        if let Some(raw) = &mut self.raw {
            self.activity.called = true;
            let Ok(all_answered) = raw.answer_frames(&mut self.outbox) else {
                resources.service.counters.broken_streams.add(1);
                return Err(ConnectionClosed);
            };
            return Ok(all_answered);
        }
        // The call is complete but for its payload, and would be taken for one without any.
        if self.awaits_payload() {
            return Ok(true);
        }
        // Requests are taken one by one until the outbox is full. The rest stays in the input
        // buffer: reading on would let a client that sends and never receives grow the queue
        // without bound.
        while self.phase == Phase::Open {
            if !self.has_room() {
                return Ok(false);
            }
            let request = match self.session.next_message(self.outbox.head()) {
                Ok(Some(Message::Request(request))) => {
                    self.memory.note_call();
                    self.had_payload = self.payload.is_some();
                    resources.service.received = self.payload.take();
                    request
                }
                Ok(Some(Message::Reply(reply)))
                    if resources.service.note_callback_reply(&self.origin, reply) =>
                {
                    self.activity.called = true;
                    continue;
                }
                Ok(None) => return Ok(true),
                // Not RPC at all, or a reply to a call that was never made.
                Ok(Some(Message::Reply(_))) | Err(_) => {
                    resources.service.counters.broken_streams.add(1);
                    return Err(ConnectionClosed);
                }
            };
            self.activity.called = true;
            if asks_for_tls(&request, &resources.service, self.origin.transport) {
                encode_starttls_reply(self.outbox.head(), request.xid);
                self.outbox.seal();
                self.phase = Phase::Securing;
            } else if self.faults.is_none() {
                resources.service.answer(&request, &self.origin, &mut self.outbox);
                self.outbox.seal();
            } else {
                // The reply gets an outbox of its own, since it may be held, duplicated or cut;
                // whatever `next_request` wrote (a refusal) is sealed before it to keep the order.
                self.outbox.seal();
                let handled = handle_request(
                    &mut resources.service,
                    &mut self.faults,
                    &request,
                    &self.origin,
                );
                self.queue_handled(handled, resources);
            }
            // Whatever was not written, because of an error, goes back to the store.
            resources.service.received = None;
        }
        Ok(true)
    }

    /// Applies planned faults to a reply and queues it.
    fn queue_handled(&mut self, handled: RequestOutcome, resources: &mut Resources) {
        let (reply, hold_ns, twice) = match handled {
            RequestOutcome::Reply { reply, hold_ns, twice, closes } => {
                if closes {
                    self.phase = Phase::Ending;
                }
                (reply, hold_ns, twice)
            }
            RequestOutcome::Silence => return,
            RequestOutcome::Hang => return self.phase = Phase::Hung,
            RequestOutcome::Close => return self.phase = Phase::Ending,
        };
        if twice {
            self.hold_or_queue(reply.clone(), hold_ns, resources);
        }
        self.hold_or_queue(reply, hold_ns, resources);
    }

    fn hold_or_queue(&mut self, reply: Outbox, hold_ns: u64, resources: &mut Resources) {
        if hold_ns > 0 {
            // Held-back replies count against the outbox's limit, or a long delay would be a way
            // around it.
            self.delayed_bytes += reply.bytes();
            self.delayed_heads += reply.head_capacity();
            let target = ReplyTarget::Connection(self.token);
            resources.delays.add_after(hold_ns, Task::Reply(target, reply));
        } else {
            self.queue_reply(reply, resources);
        }
    }

    /// Sends until the queue is empty or the socket takes no more.
    fn flush_outbox(&mut self, service: &Service) -> Result<(), ConnectionClosed> {
        while self.has_unsent() {
            let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
            let count = self.outbox.vectors(&mut vectors);
            match self.channel.send(&vectors[..count], &service.counters) {
                Ok(sent) => {
                    self.activity.sent = true;
                    self.outbox.consume(sent);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(ConnectionClosed),
            }
        }
        if self.phase == Phase::Securing { self.begin_tls(service) } else { Ok(()) }
    }

    /// Starts TLS, now that the reply that promises it has been sent.
    fn begin_tls(&mut self, service: &Service) -> Result<(), ConnectionClosed> {
        // Bytes sent before the reply to the probe belong to no handshake (RFC 9289 section 4.1).
        if self.session.is_partial() {
            service.counters.tls_failures.add(1);
            return Err(ConnectionClosed);
        }
        let Some(tls) = &service.shared.tls else { return Err(ConnectionClosed) };
        self.memory.add_tls().map_err(|_| refuse_memory(service))?;
        self.channel.begin_tls(tls).map_err(|_| ConnectionClosed)?;
        self.origin.transport = Transport::Tls;
        self.phase = Phase::Open;
        Ok(())
    }
}

/// Counts a connection that is closed because memory ran out.
fn refuse_memory(service: &Service) -> ConnectionClosed {
    service.counters.connections_out_of_memory.add(1);
    ConnectionClosed
}

/// Returns true if a request is the probe that starts TLS. **Source:** RFC 9289 section 4.1.
fn asks_for_tls(request: &Request<'_>, service: &Service, transport: Transport) -> bool {
    // Checked for every call, so the cheapest test comes first: few credentials are of this flavor.
    if request.credential != (Credential::Other { flavor: AUTH_TLS }) {
        return false;
    }
    let is_null = matches!(&request.body, Ok(call) if call.procedure_id().procedure == 0);
    is_null && service.shared.tls.is_some() && transport == Transport::Tcp
}
