//! One thread's loop over its sockets.
//!
//! The first loop also listens and deals connections out, round robin, through each loop's
//! `Mailbox`; every loop has its own datagram sockets. A loop waits in `epoll_wait`, or only for
//! orders while a planned stall lasts; requests are answered on the spot, without a task or a lock
//! of their own.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::program::OfferedPrograms;
use nfs_proto::server::Session;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::callback_line::CallbackLine;
use crate::channel::Channel;
use crate::clock::{monotonic_ns, timespec};
use crate::connection::{Connection, ConnectionClosed};
use crate::datagrams::Datagrams;
use crate::delay::{ReplyTarget, Task};
use crate::fault::FaultKind;
use crate::held_memory::HeldMemory;
use crate::limits::{EVENTS_MAX, LISTENERS_MAX, ROOM_RETRY_NS};
use crate::mailbox::{EventLoops, LoopOrder, Mailbox, NewConnection};
use crate::origin::{Origin, Transport};
use crate::outbox::Outbox;
use crate::resources::Resources;
use crate::service::Service;
use crate::slots::Slots;

const TOKEN_WAKE: u64 = 0;
const TOKEN_TIMER: u64 = 1;
/// Token of the first listener; those of datagram sockets follow, then those of connections.
const TOKEN_LISTENER: u64 = 2;
const TOKEN_DATAGRAMS: u64 = TOKEN_LISTENER + LISTENERS_MAX as u64;
const TOKEN_CONNECTION: u64 = TOKEN_DATAGRAMS + LISTENERS_MAX as u64;

/// A listening socket and the programs answered behind it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) offered: OfferedPrograms,
}

/// The sockets a loop starts with.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) datagrams: Vec<(UdpSocket, OfferedPrograms)>,
}

/// Which of the connections waiting for memory get to try again.
#[derive(Clone, Copy, Debug)]
enum RetriedConnections {
    /// The first ones, until one finds no memory.
    Front,
    All,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EventLoop {
    index: usize,
    epoll: OwnedFd,
    loops: Arc<EventLoops>,
    listeners: Vec<Listener>,
    datagrams: Vec<Datagrams>,
    connections: Slots<Connection>,
    resources: Resources,
    /// End of a planned stall, on the monotonic clock.
    stalled_until_ns: Option<u64>,
    sweep_ns: u64,
    sweeping: bool,
    finding_room: bool,
    /// Released for a moment when descriptors run out, to turn a caller away.
    spare: Option<OwnedFd>,
}

impl EventLoop {
    /// Prepares loop `index`; only the first gets listeners.
    pub(crate) fn new(
        index: usize,
        loops: Arc<EventLoops>,
        sockets: Sockets,
        service: Service,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let add = |fd: &dyn AsFd, token| {
            epoll::add(&epoll, fd.as_fd(), EventData::new_u64(token), EventFlags::IN)
        };
        add(loops.mailboxes[index].descriptor(), TOKEN_WAKE)?;
        for (token, listener) in (TOKEN_LISTENER..).zip(&sockets.listeners) {
            add(&listener.socket, token)?;
        }
        let mut datagrams = Vec::new();
        for (token, (socket, offered)) in (TOKEN_DATAGRAMS..).zip(sockets.datagrams) {
            add(&socket, token)?;
            // Connections are numbered from the bottom, sockets from the top.
            let number = u64::MAX - (index * LISTENERS_MAX + datagrams.len()) as u64;
            let faults = service.shared.faults.start_on(number);
            let memory = &service.shared.memory;
            datagrams.push(Datagrams::new(socket, offered, token, memory, faults));
        }
        let sweep_ns = service.shared.sweep_ns();
        let resources = Resources::new(service)?;
        add(resources.delays.timer(), TOKEN_TIMER)?;
        Ok(Self {
            index,
            epoll,
            loops,
            listeners: sockets.listeners,
            datagrams,
            connections: Slots::new(TOKEN_CONNECTION),
            resources,
            stalled_until_ns: None,
            sweep_ns,
            sweeping: false,
            finding_room: false,
            spare: reserve_descriptor(),
        })
    }

    /// Runs until it is stopped, or until the system refuses to wait.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mailbox = Arc::clone(&self.loops.mailboxes[self.index]);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        // The wait has no time-out unless data is being copied: orders come through the mailbox's
        // descriptor and delayed work through the timer's, so anything there is to do makes a
        // descriptor ready.
        while !mailbox.is_stopped() {
            if let Some(until_ns) = self.stalled_until_ns {
                self.wait_out_stall(&mailbox, until_ns)?;
                continue;
            }
            events.clear();
            // A copy in the background continues between the events.
            let timeout = (!self.resources.service.copies.is_empty()).then(|| timespec(0));
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // One reading of the clock for all calls of a turn: at most EVENTS_MAX events with
            // RECEIVES_PER_TURN receives each. Two changes of one file still get different ctimes.
            self.resources.service.now = (self.resources.service.shared.clock)();
            for event in &events {
                self.handle_event({ event.data }.u64(), event.flags, &mailbox);
            }
            self.find_room(RetriedConnections::Front);
            self.resources.service.continue_copies();
            // Any of the events may have added tasks, so the timer is set once, after all of them.
            self.resources.delays.arm_timer()?;
        }
        Ok(())
    }

    fn handle_event(&mut self, token: u64, ready: EventFlags, mailbox: &Mailbox) {
        match token {
            TOKEN_CONNECTION.. => {
                self.run_connection(token, |it, resources| it.handle_ready(ready, resources));
            }
            TOKEN_WAKE => self.handle_orders(mailbox),
            TOKEN_TIMER => self.run_tasks(),
            TOKEN_DATAGRAMS.. => self.run_datagrams(token, Datagrams::handle_ready),
            _ => self.accept_connections(token),
        }
    }

    /// Runs `act` on a connection, then updates its interest or closes it.
    fn run_connection(
        &mut self,
        token: u64,
        act: impl FnOnce(&mut Connection, &mut Resources) -> Result<(), ConnectionClosed>,
    ) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut outcome = act(connection, &mut self.resources);
        // Level-triggered: input left for fairness is reported again, and a full outbox stops the
        // reports by removing IN from the interest.
        let wanted = connection.wanted_events();
        if outcome.is_ok() && wanted != connection.interest {
            connection.interest = wanted;
            let data = EventData::new_u64(token);
            outcome = epoll::modify(&self.epoll, &connection.channel, data, wanted)
                .map_err(|_| ConnectionClosed);
        }
        if outcome.is_err() {
            if connection.has_delayed() {
                self.resources.delays.drop_replies_to(token);
            }
            // Closing the socket removes it from the epoll set.
            self.connections.remove(token);
            self.count_closed(1);
        }
    }

    /// Lets connections that wait for memory continue, as far as there is any: those at the front
    /// after each turn, and all of them now and then, since short calls need not wait for long
    /// ones.
    fn find_room(&mut self, asked: RetriedConnections) {
        for _ in 0..self.resources.waiting.len() {
            let Some(token) = self.resources.waiting.pop_front() else { break };
            let mut is_there = true;
            self.run_connection(token, |it, resources| {
                is_there = it.resume(resources)?;
                Ok(())
            });
            match (is_there, asked) {
                (true, _) => {}
                (false, RetriedConnections::All) => self.resources.waiting.push_back(token),
                (false, RetriedConnections::Front) => {
                    self.resources.waiting.push_front(token);
                    break;
                }
            }
        }
        if !self.resources.waiting.is_empty() && !self.finding_room {
            self.resources.delays.add_after(ROOM_RETRY_NS, Task::FindRoom);
            self.finding_room = true;
        }
    }

    /// Runs `act` on a datagram socket, then updates its interest.
    fn run_datagrams(&mut self, token: u64, act: impl FnOnce(&mut Datagrams, &mut Resources)) {
        let index = (token - TOKEN_DATAGRAMS) as usize;
        let Some(datagrams) = self.datagrams.get_mut(index) else { return };
        act(datagrams, &mut self.resources);
        let wanted = datagrams.wanted_events();
        let data = EventData::new_u64(token);
        // If the system refuses, the old interest stays and we try again later.
        if wanted != datagrams.interest
            && epoll::modify(&self.epoll, &datagrams.socket, data, wanted).is_ok()
        {
            datagrams.interest = wanted;
        }
    }

    fn count_closed(&self, count: usize) {
        self.resources.service.counters.connections_closed.add(count as u64);
        self.loops.open.fetch_sub(count, Ordering::Relaxed);
    }

    fn run_tasks(&mut self) {
        // Cleared before the tasks are taken: a task that becomes ready meanwhile sets it again.
        self.resources.delays.clear_timer();
        let now_ns = monotonic_ns();
        while let Some(task) = self.resources.delays.pop_ready(now_ns) {
            match task {
                Task::Reply(target, reply) => self.deliver_reply(target, reply),
                Task::Trickle(token) => self.run_connection(token, Connection::send_trickle),
                Task::Sweep => self.close_timed_out(),
                Task::FindRoom => {
                    self.finding_room = false;
                    self.find_room(RetriedConnections::All);
                }
            }
        }
    }

    fn deliver_reply(&mut self, target: ReplyTarget, reply: Outbox) {
        match target {
            ReplyTarget::Connection(token) => {
                self.run_connection(token, |it, resources| it.deliver_reply(reply, resources));
            }
            ReplyTarget::Peer(token, peer) => {
                self.run_datagrams(token, |it, resources| it.deliver_reply(peer, reply, resources));
            }
        }
    }

    /// Closes connections that are idle or stuck for too long.
    fn close_timed_out(&mut self) {
        let Resources { service, delays, .. } = &mut self.resources;
        let closed = self.connections.retain(|connection| {
            let is_over = connection.check_timeouts(service).is_err();
            if is_over && connection.has_delayed() {
                delays.drop_replies_to(connection.token());
            }
            !is_over
        });
        self.count_closed(closed);
        self.sweeping = false;
        self.plan_sweep();
    }

    fn plan_sweep(&mut self) {
        if !self.sweeping && self.connections.len() > 0 {
            self.resources.delays.add_after(self.sweep_ns, Task::Sweep);
            self.sweeping = true;
        }
    }

    fn accept_connections(&mut self, token: u64) {
        let which = (token - TOKEN_LISTENER) as usize;
        // Accept everything that is waiting; the backlog bounds how many.
        loop {
            let Some(Listener { socket, offered }) = self.listeners.get(which) else { return };
            match socket.accept() {
                Ok((stream, peer)) => {
                    let offered = *offered;
                    self.assign_connection(stream, peer, offered);
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    Some(Errno::MFILE | Errno::NFILE) => return self.reject_connection(which),
                    _ => return,
                },
            }
        }
    }

    /// Closes one new connection because descriptors ran out. The kernel reports that even if no
    /// connection is waiting, so only `epoll_wait` can tell whether to accept again.
    fn reject_connection(&mut self, which: usize) {
        self.spare = None;
        if self.listeners[which].socket.accept().is_ok() {
            self.resources.service.counters.connections_turned_away.add(1);
        }
        self.spare = reserve_descriptor();
    }

    fn assign_connection(&mut self, stream: TcpStream, peer: SocketAddr, offered: OfferedPrograms) {
        let Service { shared, counters, .. } = &self.resources.service;
        if !shared.allowed.admits(peer.ip()) {
            return counters.peers_refused.add(1);
        }
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        // Counted before the check, as several loops close connections at the same time; a refused
        // one is subtracted again. Only this loop accepts, so the limit is never exceeded.
        let open = self.loops.open.fetch_add(1, Ordering::Relaxed);
        if ready.is_err() || open >= self.loops.clients_max {
            self.loops.open.fetch_sub(1, Ordering::Relaxed);
            return counters.connections_turned_away.add(1);
        }
        // The number picks the loop, round robin, and seeds the planned faults: connections
        // arriving in the same order meet the same faults, whatever the number of threads.
        let number = self.loops.accepted.fetch_add(1, Ordering::Relaxed);
        let hung = shared.faults.hang_from_clients.is_some_and(|clients| open >= clients);
        let connection = NewConnection { stream, peer, offered, number, hung };
        let target = (number % self.loops.mailboxes.len() as u64) as usize;
        if target == self.index {
            self.add_connection(connection);
        } else {
            self.loops.mailboxes[target].send(LoopOrder::Serve(connection));
        }
    }

    fn handle_orders(&mut self, mailbox: &Mailbox) {
        for order in mailbox.take() {
            match order {
                LoopOrder::Serve(connection) => self.add_connection(connection),
                LoopOrder::CallBack(token, call) => {
                    self.run_connection(token, |it, resources| it.send_call(&call, resources));
                }
                LoopOrder::StallUntil(until_ns) => {
                    self.stalled_until_ns = Some(until_ns);
                    self.count_event(FaultKind::Stall);
                }
                LoopOrder::Die => {
                    // Closing the sockets removes them from the epoll set.
                    self.close_all();
                    self.listeners.clear();
                    self.datagrams.clear();
                    self.count_event(FaultKind::Die);
                }
                LoopOrder::CountFault(kind) => self.count_event(kind),
                LoopOrder::Restart(closed, released) => {
                    self.close_all();
                    self.count_event(FaultKind::Restart);
                    drop(closed);
                    // Blocks this loop until the state is forgotten: it must not accept or answer
                    // anything before that. Returns when `Controls::restart` drops the other half.
                    let _ = released.recv();
                }
            }
        }
    }

    /// Counts a server-wide event once, in the first loop.
    fn count_event(&self, kind: FaultKind) {
        if self.index == 0 {
            self.resources.service.counters.fault(kind);
        }
    }

    fn close_all(&mut self) {
        let count = self.connections.retain(|_| false);
        self.count_closed(count);
        self.resources.delays.drop_replies();
        self.resources.service.copies.clear();
        self.datagrams.iter_mut().for_each(Datagrams::clear);
    }

    /// Waits for the end of a stall, or for orders.
    fn wait_out_stall(&mut self, mailbox: &Mailbox, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            self.stalled_until_ns = None;
            return Ok(());
        }
        // Sockets are not even looked at during a stall, so clients see what a hung host would show
        // them: connections stay open and the kernel's buffers fill. Only orders get through, or a
        // stalled server could not be stopped.
        let mut wake = [PollFd::new(mailbox.descriptor(), PollFlags::IN)];
        match poll(&mut wake, Some(&timespec(left_ns))) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => {
                self.handle_orders(mailbox);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn add_connection(&mut self, accepted: NewConnection) {
        let token = self.connections.next_token();
        let Service { shared, counters, .. } = &self.resources.service;
        let Ok(memory) = HeldMemory::take(&shared.memory) else {
            counters.connections_out_of_memory.add(1);
            self.loops.open.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let session = Session::with_record_limit(accepted.offered, shared.record_bytes_max);
        let faults = shared.faults.start_on(accepted.number);
        let mailbox = Arc::clone(&self.loops.mailboxes[self.index]);
        let line = Some(Arc::new(CallbackLine::new(mailbox, token)));
        let local_ip = match &shared.pnfs {
            Some(_) => accepted.stream.local_addr().ok().map(|address| address.ip()),
            None => None,
        };
        let origin = Origin { peer: accepted.peer, transport: Transport::Tcp, local_ip, line };
        let channel = Channel::new(accepted.stream);
        let mut connection = Connection::new(token, channel, origin, session, memory, faults);
        if accepted.hung {
            connection.stop_answering();
            counters.fault(FaultKind::Hang);
        }
        connection.interest = connection.wanted_events();
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

/// Opens a descriptor that exists only to be closed later.
fn reserve_descriptor() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
