//! One thread's loop over its sockets.
//!
//! The first loop also listens and deals connections out, round robin, through each loop's
//! [`Mailbox`]. A loop waits in `epoll_wait` and nowhere else; requests are answered where they
//! are found, without a task or a lock of their own.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nfs_proto::program::Offered;
use nfs_proto::server::Session;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::clock::monotonic_ns;
use crate::connection::{Closed, Connection};
use crate::delay::Delays;
use crate::limits::EVENTS_MAX;
use crate::service::{Origin, Service, Transport};

const TOKEN_WAKE: u64 = 0;
const TOKEN_TIMER: u64 = 1;
/// Listeners follow from here, then connections from `TOKEN_CONNECTION`.
const TOKEN_LISTENER: u64 = 2;
const TOKEN_CONNECTION: u64 = 16;

/// A connection on its way to its loop.
#[derive(Debug)]
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    offered: Offered,
    number: u64,
}

/// Where a loop gets connections and the order to stop.
#[derive(Debug)]
pub(crate) struct Mailbox {
    wake: OwnedFd,
    stop: AtomicBool,
    arrivals: Mutex<Vec<Arrival>>,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { wake, stop: AtomicBool::new(false), arrivals: Mutex::default() })
    }

    /// Orders the loop to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    fn send(&self, arrival: Arrival) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        self.wake();
    }

    fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake(&self) {
        // Fails only where the counter is full, and then the loop is awake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// A listening socket and the programs answered behind it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) offered: Offered,
}

/// What the loops know of each other.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) clients_max: usize,
    pub(crate) open: AtomicUsize,
    pub(crate) accepted: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EventLoop {
    index: usize,
    epoll: OwnedFd,
    fleet: Arc<Fleet>,
    listeners: Vec<Listener>,
    connections: HashMap<u64, Connection>,
    next_token: u64,
    service: Service,
    delays: Option<Delays>,
    /// Given up for a moment where descriptors run out, to turn a caller away.
    spare: Option<OwnedFd>,
}

impl EventLoop {
    /// Prepares loop `index`; only the first gets listeners.
    pub(crate) fn new(
        index: usize,
        fleet: Arc<Fleet>,
        listeners: Vec<Listener>,
        service: Service,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let add = |fd: &dyn AsFd, token| {
            epoll::add(&epoll, fd.as_fd(), EventData::new_u64(token), EventFlags::IN)
        };
        add(&fleet.mailboxes[index].wake, TOKEN_WAKE)?;
        for (token, listener) in (TOKEN_LISTENER..).zip(&listeners) {
            add(&listener.socket, token)?;
        }
        let delays = Delays::new()?;
        add(delays.timer(), TOKEN_TIMER)?;
        let delays = Some(delays);
        Ok(Self {
            index,
            epoll,
            fleet,
            listeners,
            connections: HashMap::new(),
            next_token: TOKEN_CONNECTION,
            service,
            delays,
            spare: spare(),
        })
    }

    /// Runs until told to stop, or until the system refuses to wait.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mailbox = Arc::clone(&self.fleet.mailboxes[self.index]);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !mailbox.stop.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.service.now = (self.service.shared.clock)();
            for event in &events {
                match { event.data }.u64() {
                    TOKEN_WAKE => self.take_arrivals(&mailbox),
                    TOKEN_TIMER => self.deliver_due(),
                    token if token < TOKEN_CONNECTION => self.accept(token),
                    token => {
                        let ready = event.flags;
                        self.with(token, |it, service, delays| it.turn(ready, service, delays));
                    }
                }
            }
            if let Some(delays) = &mut self.delays {
                delays.arm()?;
            }
        }
        Ok(())
    }

    /// Lets a connection do something, then follows what it wants, or closes it.
    fn with(
        &mut self,
        token: u64,
        act: impl FnOnce(&mut Connection, &mut Service, &mut Option<Delays>) -> Result<(), Closed>,
    ) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let mut outcome = act(connection, &mut self.service, &mut self.delays);
        let wanted = connection.wanted();
        if outcome.is_ok() && wanted != connection.interest {
            connection.interest = wanted;
            let data = EventData::new_u64(token);
            outcome =
                epoll::modify(&self.epoll, &connection.stream, data, wanted).map_err(|_| Closed);
        }
        if outcome.is_err() {
            // Closing the socket takes it out of the epoll set.
            self.connections.remove(&token);
            self.service.counters.connections_closed.add(1);
            self.fleet.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn deliver_due(&mut self) {
        let Some(delays) = &mut self.delays else { return };
        delays.acknowledge();
        let now_ns = monotonic_ns();
        while let Some(due) = self.delays.as_mut().and_then(|delays| delays.pop_due(now_ns)) {
            let reply = due.reply;
            self.with(due.token, |it, service, delays| it.deliver(reply, service, delays));
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
            self.service.counters.connections_turned_away.add(1);
        }
        self.spare = spare();
    }

    fn deal_out(&mut self, stream: TcpStream, peer: SocketAddr, offered: Offered) {
        if !self.service.shared.allowed.admits(peer.ip()) {
            return self.service.counters.peers_refused.add(1);
        }
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let open = self.fleet.open.fetch_add(1, Ordering::Relaxed);
        if ready.is_err() || open >= self.fleet.clients_max {
            self.fleet.open.fetch_sub(1, Ordering::Relaxed);
            self.service.counters.connections_turned_away.add(1);
            return;
        }
        let number = self.fleet.accepted.fetch_add(1, Ordering::Relaxed);
        let arrival = Arrival { stream, peer, offered, number };
        let target = (number % self.fleet.mailboxes.len() as u64) as usize;
        if target == self.index {
            self.take_in(arrival);
        } else {
            self.fleet.mailboxes[target].send(arrival);
        }
    }

    fn take_arrivals(&mut self, mailbox: &Mailbox) {
        let mut count = [0; 8];
        // An empty counter is no failure: somebody woke this loop twice.
        let _ = rustix::io::read(&mailbox.wake, &mut count);
        for arrival in mailbox.take() {
            self.take_in(arrival);
        }
    }

    fn take_in(&mut self, arrival: Arrival) {
        let token = self.next_token;
        self.next_token += 1;
        let shared = &self.service.shared;
        let session = Session::with_record_limit(arrival.offered, shared.record_bytes_max);
        let faults = shared.faults.start(arrival.number);
        let origin =
            Origin { peer: arrival.peer, transport: Transport::Tcp, connection: arrival.number };
        let socket = (arrival.stream, origin);
        let mut connection = Connection::new(token, socket, session, faults);
        connection.interest = connection.wanted();
        let data = EventData::new_u64(token);
        self.service.counters.connections_accepted.add(1);
        if epoll::add(&self.epoll, &connection.stream, data, connection.interest).is_ok() {
            self.connections.insert(token, connection);
        } else {
            self.service.counters.connections_closed.add(1);
            self.fleet.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A descriptor with no other use than to be closed.
fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
