//! Many clients on one thread: each has its own connection, and its own ops in flight.
//!
//! Every client is a closed loop: it gets its next op when one of its own has ended. Sockets are
//! watched by epoll; timers (datagrams to send again, calls that were put off, connections to
//! reopen) are checked every tick. All tables are made before the start.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::{ClientResult, Completion, Op};
use nfs_client::proto::client::Event as Ended;
use nfs_client::{Connection, Scratch};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::closing::{self, Closing};
use super::set::{Common, NfsFiles};
use super::transfers::{Opens, Transfers};
use super::{depth_on, tally_of};
use crate::backend::{Backend, Lost, Tally, patience};
use crate::clock::Clock;
use crate::limits::{REAP_ROUNDS_MAX, TICK};

/// Sockets that one wait reports at most.
const EVENTS_MAX: usize = 256;

/// A backend that executes ops as the calls of many clients.
pub struct Many {
    members: Vec<Member>,
    epoll: OwnedFd,
    /// Members whose sockets are ready.
    ready: Vec<u32>,
    /// One entry for each op that may be accepted: the member it goes to.
    tickets: VecDeque<u32>,
    /// Members that were given ops since they were last seen to.
    working_set: Vec<u32>,
    scratch: Scratch,
    clock: Arc<dyn Clock>,
    common: Common,
    ticked_ns: u64,
    /// The kernel can't wait for parts of a millisecond.
    is_coarse: bool,
}

/// One connection of a client, and the events that the kernel watches its socket for.
struct Member {
    connection: Connection,
    transfers: Transfers,
    watched: RawFd,
    interest: EventFlags,
    is_touched: bool,
}

impl Many {
    /// Makes a backend on open connections, each with `depth` ops in flight at most, fewer where
    /// its server grants fewer slots.
    ///
    /// # Errors
    /// When the kernel refuses to watch the sockets.
    pub fn new(
        connections: Vec<Connection>,
        depth: usize,
        set: NfsFiles,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let count = connections.len();
        let depths: Vec<usize> =
            connections.iter().map(|connection| depth_on(connection, depth)).collect();
        // Opens belong to the client that made them: the first one.
        let opens_of = |number: usize| if number < set.own { Opens::Own } else { Opens::OfAnother };
        let members = (0..).zip(connections).map(|(number, connection)| Member {
            transfers: Transfers::new(depths[number], connection.free_slots(), opens_of(number)),
            connection,
            watched: -1,
            interest: EventFlags::empty(),
            is_touched: false,
        });
        let mut many = Self {
            members: members.collect(),
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(EVENTS_MAX),
            tickets: make_tickets(&depths),
            working_set: Vec::with_capacity(count),
            scratch: Scratch::new(),
            clock,
            common: Common::new(set),
            ticked_ns: 0,
            is_coarse: false,
        };
        for number in 0..count {
            many.register_events(number)?;
        }
        Ok(many)
    }

    /// Registers the events that a member waits for, where they have changed.
    fn register_events(&mut self, number: usize) -> Result<(), Errno> {
        let member = &mut self.members[number];
        let connection = &member.connection;
        let mut wanted = EventFlags::IN;
        wanted.set(EventFlags::OUT, connection.wants_write());
        let (fd, data) = (connection.as_fd().as_raw_fd(), EventData::new_u64(number as u64));
        if connection.is_down() || (fd == member.watched && wanted == member.interest) {
            return Ok(());
        }
        // A descriptor that was closed is watched no more; its number may be in use again.
        let known = fd == member.watched
            && epoll::modify(&self.epoll, connection, data, wanted) != Err(Errno::NOENT);
        if !known {
            epoll::add(&self.epoll, connection, data, wanted)?;
        }
        (member.watched, member.interest) = (fd, wanted);
        Ok(())
    }

    /// Starts and sends what a member has to, and hands over what has ended.
    fn drive_member(&mut self, number: usize, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let clock = &self.clock;
        let now = || clock.now_ns();
        let Member { connection, transfers, is_touched, .. } = &mut self.members[number];
        *is_touched = false;
        transfers.pump(connection, now(), &mut self.common);
        connection.flush(&now).map_err(|error| Lost(error.to_string()))?;
        let before = out.len();
        transfers.drain_into(out);
        self.common.set.clients.record_ended(number, &out[before..]);
        // Each op that ended lets its client have another one: a ticket for each.
        self.tickets.extend((before..out.len()).map(|_| number as u32));
        self.register_events(number).map_err(|errno| Lost(format!("epoll: {errno}")))
    }

    /// Takes what a member's socket has.
    fn receive(&mut self, number: usize) -> Result<(), Lost> {
        let Self { members, scratch, clock, common, .. } = self;
        let Member { connection, transfers, .. } = &mut members[number];
        let now = || clock.now_ns();
        let mut ended = |event: &Ended<'_>| transfers.ended(event, common);
        let received = connection.receive(scratch, &now, &mut ended);
        received.map(drop).map_err(|error| Lost(error.to_string()))
    }

    /// Drives the members that were given ops, or wait for others to write their data again.
    fn drive_touched(&mut self, out: &mut Vec<Completion>) -> Result<(), Lost> {
        while let Some(number) = self.working_set.pop() {
            self.drive_member(number as usize, out)?;
        }
        Ok(())
    }

    /// Checks all timers, now and then only: it walks all members.
    fn check_timers(&mut self, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.ticked_ns) < TICK.as_nanos() as u64 {
            return Ok(());
        }
        self.ticked_ns = now_ns;
        let timeout_ns = self.common.set.timeout_ns;
        for number in 0..self.members.len() {
            let clock = &self.clock;
            let connection = &mut self.members[number].connection;
            let is_due =
                connection.next_timeout_ns().is_some_and(|scheduled_ns| scheduled_ns <= now_ns);
            if is_due {
                let handled = connection.handle_timeout(&|| clock.now_ns());
                handled.map_err(|error| Lost(error.to_string()))?;
                self.receive(number)?;
            }
            // A server that answers nothing for the whole timeout is gone.
            let member = &self.members[number];
            let checked = member.connection.check_timeout(now_ns, timeout_ns);
            checked.map_err(|error| Lost(error.to_string()))?;
            if is_due || member.transfers.is_waiting() {
                self.drive_member(number, out)?;
            }
        }
        Ok(())
    }

    /// Waits until a socket is ready, but no longer than until an instant, and notes whose are.
    fn wait_ready(&mut self, until_ns: u64) -> Result<(), Lost> {
        let mut patience = patience(self.clock.as_ref(), until_ns);
        if self.is_coarse {
            patience = Duration::from_millis(patience.as_millis() as u64);
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        self.ready.clear();
        match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => {
                self.ready.extend(events.iter().map(|event| { event.data }.u64() as u32));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            // Kernels before 5.11 wait for whole milliseconds only.
            Err(Errno::NOSYS) if !self.is_coarse => {
                self.is_coarse = true;
                Ok(())
            }
            Err(errno) => Err(Lost(format!("epoll: {errno}"))),
        }
    }
}

/// Makes a ticket for each op that each member may have in flight. Members take turns as long as
/// they have some left, so that a short batch doesn't go to the first of them alone.
fn make_tickets(depths: &[usize]) -> VecDeque<u32> {
    let mut tickets = VecDeque::with_capacity(depths.iter().sum());
    for round in 0..depths.iter().copied().max().unwrap_or(0) {
        for (number, depth) in (0..).zip(depths) {
            if round < *depth {
                tickets.push_back(number);
            }
        }
    }
    tickets
}

impl Backend for Many {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let now_ns = self.clock.now_ns();
        let mut accepted = 0;
        for op in batch {
            let Some(number) = self.tickets.pop_front() else { break };
            let member = &mut self.members[number as usize];
            accepted += member.transfers.accept(std::slice::from_ref(op), now_ns, &self.common);
            if !member.is_touched {
                member.is_touched = true;
                self.working_set.push(number);
            }
        }
        accepted
    }

    fn reap(&mut self, min: usize, until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let wanted = out.len() + min;
        self.drive_touched(out)?;
        let mut rounds = 0;
        // Calls of one op may need several rounds; the bound keeps the worker's own checks alive.
        while out.len() < wanted && rounds < REAP_ROUNDS_MAX {
            rounds += 1;
            self.wait_ready(until_ns)?;
            for at in 0..self.ready.len() {
                let number = self.ready[at] as usize;
                self.receive(number)?;
                self.drive_member(number, out)?;
            }
            self.check_timers(out)?;
            if self.ready.is_empty() || self.common.rewrites_in_vain() {
                break;
            }
        }
        if self.common.rewrites_in_vain() {
            return self.common.give_up_rewriting();
        }
        Ok(())
    }

    fn close(&mut self, stop: &AtomicBool) -> Result<(), Lost> {
        closing::close_files(self, stop)
    }

    fn tally(&self) -> Tally {
        let connections = self.members.iter().map(|member| &member.connection);
        tally_of(connections, &self.common)
    }

    fn clients(&self) -> Vec<ClientResult> {
        self.common.set.clients.results()
    }
}

impl Closing for Many {
    fn first(&mut self) -> (&mut Transfers, &mut Common) {
        (&mut self.members[0].transfers, &mut self.common)
    }

    fn begin(&mut self) {
        if !self.members[0].is_touched {
            self.members[0].is_touched = true;
            self.working_set.push(0);
        }
    }
}
