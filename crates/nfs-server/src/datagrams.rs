//! UDP: calls in datagrams, each answered by a datagram.
//!
//! Each thread has its own socket on the shared port; the kernel always hands a given peer to the
//! same one. Replies gather from the store as on a stream, without the record mark. Replies that
//! the system does not accept at once wait in a bounded queue, and no call is read meanwhile.
//!
//! On a wildcard address of a host with several addresses, the system chooses the source address of
//! a reply. **Source:** RFC 5531 section 10, RFC 768.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::program::OfferedPrograms;
use nfs_proto::server::{decode_request, encode_refusal};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr};

use crate::delay::{ReplyTarget, Task};
use crate::dispatch::{RequestOutcome, handle_request};
use crate::fault::FaultState;
use crate::fs::Charge;
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAMS_PER_TURN, OUTBOX_BYTES_MAX, VECTORS_MAX};
use crate::memory::Memory;
use crate::origin::{Origin, Transport};
use crate::outbox::Outbox;
use crate::resources::Resources;
use crate::service::Service;

/// One thread's socket; see the module.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    /// Events registered with epoll.
    pub(crate) interest: EventFlags,
    token: u64,
    offered: OfferedPrograms,
    faults: Option<Box<FaultState>>,
    buffer: Vec<u8>,
    queue: VecDeque<(SocketAddr, Outbox)>,
    queued_bytes: usize,
    delayed_bytes: usize,
    /// Memory of queued and held-back replies; their payload belongs to the store.
    waiting_heads: usize,
    charge: Charge,
}

impl Datagrams {
    /// Takes over a bound socket.
    pub(crate) fn new(
        socket: UdpSocket,
        offered: OfferedPrograms,
        token: u64,
        memory: &Memory,
        faults: Option<Box<FaultState>>,
    ) -> Self {
        Self {
            socket,
            interest: EventFlags::IN,
            token,
            offered,
            faults,
            // One byte more than a datagram can have, so that truncation is noticed.
            buffer: vec![0; DATAGRAM_BYTES_MAX + 1],
            queue: VecDeque::new(),
            queued_bytes: 0,
            delayed_bytes: 0,
            waiting_heads: 0,
            charge: Charge::force(&memory.buffers, 0),
        }
    }

    /// Returns the events to wait for in the current state.
    pub(crate) fn wanted_events(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.has_room());
        wanted.set(EventFlags::OUT, !self.queue.is_empty());
        wanted
    }

    /// Sends waiting replies, then answers some datagrams.
    pub(crate) fn handle_ready(&mut self, resources: &mut Resources) {
        self.flush_queue(&resources.service);
        // The rest stays in the socket's buffer. The kernel drops whatever does not fit there, as
        // UDP may, and clients retransmit.
        for _ in 0..DATAGRAMS_PER_TURN {
            if !self.has_room() {
                return;
            }
            match self.socket.recv_from(&mut self.buffer) {
                Ok((bytes, peer)) => self.answer_datagram(bytes, peer, resources),
                // Other errors concern an earlier datagram (ICMP): the next one is unaffected.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => return,
                Err(_) => {}
            }
        }
    }

    /// Sends a reply that was held back.
    pub(crate) fn deliver_reply(&mut self, peer: SocketAddr, reply: Outbox, resources: &Resources) {
        self.delayed_bytes -= reply.bytes();
        self.uncharge(reply.head_capacity());
        self.send_reply(peer, reply, &resources.service);
    }

    /// Drops everything that is queued or held back.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
        self.delayed_bytes = 0;
        self.uncharge(self.waiting_heads);
    }

    /// Charges a reply that has to wait; returns false if there is no room for it.
    fn charge_reply(&mut self, reply: &Outbox) -> bool {
        let heads = self.waiting_heads + reply.head_capacity();
        let most_bytes = self.charge.budget().limit_bytes();
        let has_room = self.charge.resize_in_turn(heads as u64, most_bytes).is_ok();
        if has_room {
            self.waiting_heads = heads;
        }
        has_room
    }

    fn uncharge(&mut self, head_bytes: usize) {
        self.waiting_heads -= head_bytes;
        self.charge.force_to(self.waiting_heads as u64);
    }

    fn has_room(&self) -> bool {
        self.queued_bytes + self.delayed_bytes < OUTBOX_BYTES_MAX
    }

    fn answer_datagram(&mut self, bytes: usize, peer: SocketAddr, resources: &mut Resources) {
        let counters = &resources.service.counters;
        if !resources.service.shared.allowed.admits(peer.ip()) {
            return counters.peers_refused.add(1);
        }
        counters.datagrams_in.add(1);
        counters.wire_in_bytes.add(bytes as u64);
        let Ok(request) = decode_request(&self.buffer[..bytes], self.offered) else {
            return counters.datagrams_broken.add(1);
        };
        let origin = Origin { peer, transport: Transport::Udp, local_ip: None, line: None };
        let mut reply = Outbox::default();
        resources.lend_outbox(&mut reply);
        if let Err(refusal) = request.body {
            encode_refusal(reply.head(), request.xid, refusal);
            reply.seal();
        }
        let mut hold_ns = 0;
        let mut twice = false;
        if self.faults.is_none() {
            resources.service.answer(&request, &origin, &mut reply);
        } else if let RequestOutcome::Reply { reply: answer, hold_ns: hold, twice: again, .. } =
            handle_request(&mut resources.service, &mut self.faults, &request, &origin)
        {
            reply.append(answer);
            hold_ns = hold;
            twice = again;
        }
        if twice {
            self.send_or_hold(peer, reply.clone(), hold_ns, resources);
        }
        self.send_or_hold(peer, reply, hold_ns, resources);
    }

    fn send_or_hold(
        &mut self,
        peer: SocketAddr,
        mut reply: Outbox,
        hold_ns: u64,
        resources: &mut Resources,
    ) {
        if reply.bytes() == 0 {
            return resources.return_outbox(&mut reply);
        }
        if hold_ns > 0 {
            if !self.charge_reply(&reply) {
                return resources.service.counters.datagrams_unsent.add(1);
            }
            self.delayed_bytes += reply.bytes();
            return resources
                .delays
                .add_after(hold_ns, Task::Reply(ReplyTarget::Peer(self.token, peer), reply));
        }
        if let Some(mut sent) = self.send_reply(peer, reply, &resources.service) {
            resources.return_outbox(&mut sent);
        }
    }

    /// Sends a framed reply without its mark, or queues it; returns the empty outbox.
    fn send_reply(
        &mut self,
        peer: SocketAddr,
        mut reply: Outbox,
        service: &Service,
    ) -> Option<Outbox> {
        // Replies are built as records for streams; a datagram is its own frame and has no mark
        // (RFC 5531 section 10).
        reply.consume(MARK_BYTES);
        if self.queue.is_empty() && send_datagram(&self.socket, peer, &mut reply, service) {
            return Some(reply);
        }
        // A datagram may be lost; its client will send the call again.
        if !self.charge_reply(&reply) {
            service.counters.datagrams_unsent.add(1);
            return None;
        }
        self.queued_bytes += reply.bytes();
        self.queue.push_back((peer, reply));
        None
    }

    fn flush_queue(&mut self, service: &Service) {
        while let Some((peer, reply)) = self.queue.front_mut() {
            let bytes = reply.bytes();
            let head_bytes = reply.head_capacity();
            if !send_datagram(&self.socket, *peer, reply, service) {
                return;
            }
            self.queued_bytes -= bytes;
            self.queue.pop_front();
            self.uncharge(head_bytes);
        }
    }
}

/// Sends one datagram and empties its outbox; returns false if it has to wait. If the system
/// refuses a datagram, it is lost, as datagrams may be.
fn send_datagram(
    socket: &UdpSocket,
    peer: SocketAddr,
    reply: &mut Outbox,
    service: &Service,
) -> bool {
    let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
    let count = reply.vectors(&mut vectors);
    let mut control = SendAncillaryBuffer::default();
    let flags = SendFlags::NOSIGNAL;
    let sent = loop {
        match sendmsg_addr(socket, &peer, &vectors[..count], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            sent => break sent,
        }
    };
    let counters = &service.counters;
    match sent {
        Ok(bytes) => {
            counters.datagrams_out.add(1);
            counters.wire_out_bytes.add(bytes as u64);
        }
        Err(_) => counters.datagrams_unsent.add(1),
    }
    reply.consume(reply.bytes());
    true
}
