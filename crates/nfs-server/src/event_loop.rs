//! One thread's loop over its sockets.
//!
//! The first loop also listens and deals connections out, round robin, through each loop's
//! `Mailbox`; each has its own datagram sockets. A loop waits in `epoll_wait` and, stalled by
//! plan, for orders; requests are answered where they are found, without a task or a lock of
//! their own.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::program::Offered;
use nfs_proto::server::Session;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::clock::{monotonic_ns, timespec};
use crate::connection::{Closed, Connection};
use crate::datagrams::Datagrams;
use crate::delay::{Addressee, Due};
use crate::fault::FaultKind;
use crate::kit::Kit;
use crate::limits::{EVENTS_MAX, LISTENERS_MAX};
use crate::mailbox::{Arrival, Fleet, Mailbox, Order};
use crate::outbox::Outbox;
use crate::service::{Origin, Service, Transport};
use crate::slots::Slots;

const TOKEN_WAKE: u64 = 0;
const TOKEN_TIMER: u64 = 1;
/// Listeners follow from here, then datagram sockets, then connections.
const TOKEN_LISTENER: u64 = 2;
const TOKEN_DATAGRAMS: u64 = TOKEN_LISTENER + LISTENERS_MAX as u64;
const TOKEN_CONNECTION: u64 = TOKEN_DATAGRAMS + LISTENERS_MAX as u64;

/// A listening socket and the programs answered behind it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) offered: Offered,
}

/// The sockets that a loop starts with.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) datagrams: Vec<(UdpSocket, Offered)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EventLoop {
    index: usize,
    epoll: OwnedFd,
    fleet: Arc<Fleet>,
    listeners: Vec<Listener>,
    datagrams: Vec<Datagrams>,
    connections: Slots<Connection>,
    kit: Kit,
    /// Until when a planned stall lasts, on the monotonic clock.
    stalled_until_ns: Option<u64>,
    sweep_ns: u64,
    sweeping: bool,
    /// Given up for a moment where descriptors run out, to turn a caller away.
    spare: Option<OwnedFd>,
}

impl EventLoop {
    /// Prepares loop `index`; only the first gets listeners.
    pub(crate) fn new(
        index: usize,
        fleet: Arc<Fleet>,
        sockets: Sockets,
        service: Service,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let add = |fd: &dyn AsFd, token| {
            epoll::add(&epoll, fd.as_fd(), EventData::new_u64(token), EventFlags::IN)
        };
        add(fleet.mailboxes[index].descriptor(), TOKEN_WAKE)?;
        for (token, listener) in (TOKEN_LISTENER..).zip(&sockets.listeners) {
            add(&listener.socket, token)?;
        }
        let mut datagrams = Vec::new();
        for (token, (socket, offered)) in (TOKEN_DATAGRAMS..).zip(sockets.datagrams) {
            add(&socket, token)?;
            // Connections are numbered from below, sockets from above.
            let number = u64::MAX - (index * LISTENERS_MAX + datagrams.len()) as u64;
            let faults = service.shared.faults.start(number);
            datagrams.push(Datagrams::new(socket, offered, token, faults));
        }
        let sweep_ns = service.shared.sweep_ns();
        let kit = Kit::new(service)?;
        add(kit.delays.timer(), TOKEN_TIMER)?;
        Ok(Self {
            index,
            epoll,
            fleet,
            listeners: sockets.listeners,
            datagrams,
            connections: Slots::new(TOKEN_CONNECTION),
            kit,
            stalled_until_ns: None,
            sweep_ns,
            sweeping: false,
            spare: spare(),
        })
    }

    /// Runs until told to stop, or until the system refuses to wait.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mailbox = Arc::clone(&self.fleet.mailboxes[self.index]);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !mailbox.is_stopped() {
            if let Some(until_ns) = self.stalled_until_ns {
                self.wait_out_stall(&mailbox, until_ns)?;
                continue;
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.kit.service.now = (self.kit.service.shared.clock)();
            for event in &events {
                self.react({ event.data }.u64(), event.flags, &mailbox);
            }
            self.kit.delays.arm()?;
        }
        Ok(())
    }

    fn react(&mut self, token: u64, ready: EventFlags, mailbox: &Mailbox) {
        match token {
            TOKEN_CONNECTION.. => self.with(token, |it, kit| it.turn(ready, kit)),
            TOKEN_WAKE => self.take_orders(mailbox),
            TOKEN_TIMER => self.do_due(),
            TOKEN_DATAGRAMS.. => self.with_datagrams(token, Datagrams::turn),
            _ => self.accept(token),
        }
    }

    /// Lets a connection do something, then follows what it wants, or closes it.
    fn with(
        &mut self,
        token: u64,
        act: impl FnOnce(&mut Connection, &mut Kit) -> Result<(), Closed>,
    ) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut outcome = act(connection, &mut self.kit);
        let wanted = connection.wanted();
        if outcome.is_ok() && wanted != connection.interest {
            connection.interest = wanted;
            let data = EventData::new_u64(token);
            outcome =
                epoll::modify(&self.epoll, &connection.channel, data, wanted).map_err(|_| Closed);
        }
        if outcome.is_err() {
            // Closing the socket takes it out of the epoll set.
            self.connections.remove(token);
            self.count_closed(1);
        }
    }

    /// Lets a datagram socket do something, then follows what it wants.
    fn with_datagrams(&mut self, token: u64, act: impl FnOnce(&mut Datagrams, &mut Kit)) {
        let datagrams = &mut self.datagrams[(token - TOKEN_DATAGRAMS) as usize];
        act(datagrams, &mut self.kit);
        let wanted = datagrams.wanted();
        let data = EventData::new_u64(token);
        // Should the system refuse, the old interest stays, and this is tried again.
        if wanted != datagrams.interest
            && epoll::modify(&self.epoll, &datagrams.socket, data, wanted).is_ok()
        {
            datagrams.interest = wanted;
        }
    }

    fn count_closed(&self, count: usize) {
        self.kit.service.counters.connections_closed.add(count as u64);
        self.fleet.open.fetch_sub(count, Ordering::Relaxed);
    }

    fn do_due(&mut self) {
        self.kit.delays.acknowledge();
        let now_ns = monotonic_ns();
        while let Some(due) = self.kit.delays.pop_due(now_ns) {
            match due {
                Due::Reply(addressee, reply) => self.deliver(addressee, reply),
                Due::Drip(token) => self.with(token, Connection::drip),
                Due::Sweep => self.sweep(),
            }
        }
    }

    fn deliver(&mut self, addressee: Addressee, reply: Outbox) {
        match addressee {
            Addressee::Connection(token) => self.with(token, |it, kit| it.deliver(reply, kit)),
            Addressee::Peer(token, peer) => {
                self.with_datagrams(token, |it, kit| it.deliver(peer, reply, kit));
            }
        }
    }

    /// Closes connections that are idle or stuck for too long.
    fn sweep(&mut self) {
        let (connections, kit) = (&mut self.connections, &mut self.kit);
        let closed = connections.retain(|connection| connection.look_after(&kit.service).is_ok());
        self.count_closed(closed);
        self.sweeping = false;
        self.plan_sweep();
    }

    fn plan_sweep(&mut self) {
        if !self.sweeping && self.connections.len() > 0 {
            self.kit.delays.add(self.sweep_ns, Due::Sweep);
            self.sweeping = true;
        }
    }

    fn accept(&mut self, token: u64) {
        let which = (token - TOKEN_LISTENER) as usize;
        loop {
            let Listener { socket, offered } = &self.listeners[which];
            match socket.accept() {
                Ok((stream, peer)) => {
                    let offered = *offered;
                    self.deal_out(stream, peer, offered);
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    Some(Errno::MFILE | Errno::NFILE) => return self.turn_away(which),
                    _ => return,
                },
            }
        }
    }

    /// Closes one caller for want of descriptors. The kernel reports that want even where nobody
    /// is left waiting, so only `epoll_wait` can tell whether to accept again.
    fn turn_away(&mut self, which: usize) {
        self.spare = None;
        if self.listeners[which].socket.accept().is_ok() {
            self.kit.service.counters.connections_turned_away.add(1);
        }
        self.spare = spare();
    }

    fn deal_out(&mut self, stream: TcpStream, peer: SocketAddr, offered: Offered) {
        let Service { shared, counters, .. } = &self.kit.service;
        if !shared.allowed.admits(peer.ip()) {
            return counters.peers_refused.add(1);
        }
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let open = self.fleet.open.fetch_add(1, Ordering::Relaxed);
        if ready.is_err() || open >= self.fleet.clients_max {
            self.fleet.open.fetch_sub(1, Ordering::Relaxed);
            return counters.connections_turned_away.add(1);
        }
        let number = self.fleet.accepted.fetch_add(1, Ordering::Relaxed);
        let hung = shared.faults.hang_from_clients.is_some_and(|clients| open >= clients);
        let arrival = Arrival { stream, peer, offered, number, hung };
        let target = (number % self.fleet.mailboxes.len() as u64) as usize;
        if target == self.index {
            self.take_in(arrival);
        } else {
            self.fleet.mailboxes[target].send(Order::Take(arrival));
        }
    }

    fn take_orders(&mut self, mailbox: &Mailbox) {
        for order in mailbox.take() {
            match order {
                Order::Take(arrival) => self.take_in(arrival),
                Order::StallUntil(until_ns) => {
                    self.stalled_until_ns = Some(until_ns);
                    self.count_event(FaultKind::Stall);
                }
                Order::Restart(closed, released) => {
                    self.close_all();
                    self.count_event(FaultKind::Restart);
                    drop(closed);
                    // Ends when the one who restarts drops the other half.
                    let _ = released.recv();
                }
            }
        }
    }

    /// Counts what happens to the whole server, in one of its loops.
    fn count_event(&self, kind: FaultKind) {
        if self.index == 0 {
            self.kit.service.counters.fault(kind);
        }
    }

    fn close_all(&mut self) {
        let count = self.connections.retain(|_| false);
        self.count_closed(count);
        self.kit.delays.drop_replies();
        self.datagrams.iter_mut().for_each(Datagrams::clear);
    }

    /// Waits for the end of a stall, or for orders.
    fn wait_out_stall(&mut self, mailbox: &Mailbox, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            self.stalled_until_ns = None;
            return Ok(());
        }
        let mut wake = [PollFd::new(mailbox.descriptor(), PollFlags::IN)];
        match poll(&mut wake, Some(&timespec(left_ns))) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => {
                self.take_orders(mailbox);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn take_in(&mut self, arrival: Arrival) {
        let token = self.connections.next_token();
        let Service { shared, counters, .. } = &self.kit.service;
        let session = Session::with_record_limit(arrival.offered, shared.record_bytes_max);
        let faults = shared.faults.start(arrival.number);
        let origin = Origin { peer: arrival.peer, transport: Transport::Tcp };
        let channel = Channel::new(arrival.stream);
        let mut connection = Connection::new(token, channel, origin, session, faults);
        if arrival.hung {
            connection.hang();
            counters.fault(FaultKind::Hang);
        }
        connection.interest = connection.wanted();
        let data = EventData::new_u64(token);
        counters.connections_accepted.add(1);
        if epoll::add(&self.epoll, &connection.channel, data, connection.interest).is_ok() {
            self.connections.insert(connection);
            self.plan_sweep();
        } else {
            self.count_closed(1);
        }
    }
}

/// A descriptor with no other use than to be closed.
fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
