//! One connection: bytes in, requests answered, replies out.
//!
//! It belongs to one event loop and is only touched when its socket is ready or a reply held back
//! is due. Memory is bounded: input by the record limit of the session, output by
//! `OUTBOX_BYTES_MAX` plus one reply; past that, requests stay unread until the peer has taken
//! what it asked for.

use std::io::IoSlice;
use std::net::TcpStream;

use nfs_proto::server::Session;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::delay::{Delayed, Delays};
use crate::dispatch::{Handled, handle};
use crate::fault::FaultState;
use crate::limits::{OUTBOX_BYTES_MAX, RECEIVE_BYTES_MIN, RECEIVES_PER_TURN, VECTORS_MAX};
use crate::outbox::Outbox;
use crate::service::{Origin, Service};

/// The connection is over; its owner drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are read and answered.
    Open,
    /// What is queued is sent, then the connection is closed.
    Ending,
    /// Nothing is read or answered any more, by plan.
    Hung,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Events that the kernel was asked for.
    pub(crate) interest: EventFlags,
    token: u64,
    origin: Origin,
    session: Session,
    outbox: Outbox,
    faults: Option<Box<FaultState>>,
    delayed_bytes: usize,
    phase: Phase,
}

impl Connection {
    /// Takes over an accepted socket.
    pub(crate) fn new(
        token: u64,
        (stream, origin): (TcpStream, Origin),
        session: Session,
        faults: Option<Box<FaultState>>,
    ) -> Self {
        Self {
            stream,
            interest: EventFlags::empty(),
            token,
            origin,
            session,
            outbox: Outbox::default(),
            faults,
            delayed_bytes: 0,
            phase: Phase::Open,
        }
    }

    /// The events to wait for as things stand.
    pub(crate) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.wants_input());
        wanted.set(EventFlags::OUT, self.outbox.bytes() > 0);
        // A silent connection reads nothing, so only this tells that its peer has left.
        wanted.set(EventFlags::RDHUP, self.phase == Phase::Hung);
        wanted
    }

    /// Does what the socket is ready for.
    pub(crate) fn turn(
        &mut self,
        ready: EventFlags,
        service: &mut Service,
        delays: &mut Option<Delays>,
    ) -> Result<(), Closed> {
        if ready.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            return Err(Closed);
        }
        if ready.contains(EventFlags::OUT) {
            self.flush(service)?;
            self.work(service, delays)?;
        }
        if ready.contains(EventFlags::IN) {
            for _ in 0..RECEIVES_PER_TURN {
                if !self.wants_input() || !self.receive(service)? {
                    break;
                }
                self.work(service, delays)?;
            }
        }
        self.check_end()
    }

    /// Takes a reply that was held back.
    pub(crate) fn deliver(
        &mut self,
        reply: Outbox,
        service: &mut Service,
        delays: &mut Option<Delays>,
    ) -> Result<(), Closed> {
        self.delayed_bytes -= reply.bytes();
        self.outbox.append(reply);
        self.flush(service)?;
        self.work(service, delays)?;
        self.check_end()
    }

    fn wants_input(&self) -> bool {
        self.phase == Phase::Open && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.outbox.bytes() + self.delayed_bytes < OUTBOX_BYTES_MAX
    }

    fn check_end(&self) -> Result<(), Closed> {
        let idle = self.outbox.bytes() + self.delayed_bytes == 0;
        if self.phase == Phase::Ending && idle { Err(Closed) } else { Ok(()) }
    }

    /// Receives once; false where nothing came.
    fn receive(&mut self, service: &Service) -> Result<bool, Closed> {
        match rustix::io::read(&self.stream, self.session.space(RECEIVE_BYTES_MIN)) {
            Ok(0) => {
                // The peer may still read what it asked for.
                self.phase = Phase::Ending;
                Ok(false)
            }
            Ok(count) => {
                service.counters.wire_in_bytes.add(count as u64);
                self.session.filled(count);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(Closed),
        }
    }

    /// Answers what was received and sends, until input or room runs out.
    fn work(&mut self, service: &mut Service, delays: &mut Option<Delays>) -> Result<(), Closed> {
        loop {
            let all_answered = self.answer_received(service, delays)?;
            self.flush(service)?;
            if all_answered || !self.has_room() {
                return Ok(());
            }
        }
    }

    /// Answers requests as long as there is room; true where none is left.
    fn answer_received(
        &mut self,
        service: &mut Service,
        delays: &mut Option<Delays>,
    ) -> Result<bool, Closed> {
        while self.phase == Phase::Open {
            if self.outbox.bytes() + self.delayed_bytes >= OUTBOX_BYTES_MAX {
                return Ok(false);
            }
            let request = match self.session.next_request(self.outbox.head()) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(true),
                Err(_) => {
                    service.counters.broken_streams.add(1);
                    return Err(Closed);
                }
            };
            if self.faults.is_none() {
                service.answer(&request, &self.origin, &mut self.outbox);
                self.outbox.seal();
                continue;
            }
            self.outbox.seal();
            let handled = handle(service, &mut self.faults, &request, &self.origin);
            self.take(handled, delays);
        }
        Ok(true)
    }

    /// Does with a reply what the planned faults say.
    fn take(&mut self, handled: Handled, delays: &mut Option<Delays>) {
        let (reply, hold_ns, twice) = match handled {
            Handled::Reply { reply, hold_ns, twice } => (reply, hold_ns, twice),
            Handled::Silence => return,
            Handled::Hang => return self.phase = Phase::Hung,
            Handled::Close => return self.phase = Phase::Ending,
        };
        for reply in twice.then(|| reply.clone()).into_iter().chain([reply]) {
            match delays.as_mut() {
                Some(delays) if hold_ns > 0 => {
                    self.delayed_bytes += reply.bytes();
                    delays.add(hold_ns, Delayed { token: self.token, reply });
                }
                _ => self.outbox.append(reply),
            }
        }
    }

    /// Sends until the queue is empty or the socket takes no more.
    fn flush(&mut self, service: &Service) -> Result<(), Closed> {
        while self.outbox.bytes() > 0 {
            let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
            let count = self.outbox.vectors(&mut vectors);
            let mut control = SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL;
            match sendmsg(&self.stream, &vectors[..count], &mut control, flags) {
                Ok(sent) => {
                    service.counters.wire_out_bytes.add(sent as u64);
                    self.outbox.consume(sent);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Closed),
            }
        }
        Ok(())
    }
}
