//! Many clients on one thread, each with its own connections and its own ops in flight.
//!
//! Every client is a closed loop: it gets its next op when one of its own has completed. Sockets
//! are polled with epoll. Timers (retransmissions, delayed calls, reconnects) are checked every
//! tick. All tables are allocated before the start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::{ClientResult, Completion, ConnectionPolicy, Op, PathWork};
use nfs_client::proto::client::Event as Ended;
use nfs_client::{Connection, Scratch};
use rustix::io::Errno;

use super::closing::{self, Closing};
use super::set::{NfsFiles, WorkerState};
use super::transfers::{Opens, Transfers};
use super::{add_counters, depth_on, tally_of, wire_bytes};
use crate::backend::{Backend, BackendCounts, LostTarget, wait_time};
use crate::clock::Clock;
use crate::limits::{REAP_ROUNDS_MAX, RETURN_WITHIN_NS, TICK};
use crate::sockets::{Sockets, WatchedSocket};

/// A backend that executes ops as the calls of many clients.
pub struct Many {
    entries: Vec<Entry>,
    sockets: Sockets,
    /// One ticket for each op that may be accepted, naming the entry that gets it, or its client.
    tickets: VecDeque<u32>,
    choice: Choice,
    /// Entries that got ops since they were last driven.
    to_drive: Vec<u32>,
    scratch: Scratch,
    clock: Arc<dyn Clock>,
    common: WorkerState,
    /// Records of each of the server's addresses; empty unless there are several.
    paths: Vec<PathWork>,
    ticked_ns: u64,
}

/// How a client chooses one of its connections for an op.
struct Choice {
    policy: ConnectionPolicy,
    /// Number of consecutive connections of each client.
    of_client: usize,
    /// The connection of each client that is next in turn.
    turns: Vec<usize>,
}

impl Choice {
    /// Returns the entry that gets an op.
    #[inline]
    fn choose(&mut self, ticket: u32, op: &Op, entries: &[Entry]) -> usize {
        if self.policy == ConnectionPolicy::Share {
            return ticket as usize;
        }
        let first = ticket as usize * self.of_client;
        let turn = self.turns[ticket as usize];
        let chosen = match self.policy {
            ConnectionPolicy::PerFile => op.file as usize % self.of_client,
            ConnectionPolicy::LeastInFlight => {
                // Equal ones take turns.
                let in_turn = (turn..self.of_client).chain(0..turn);
                let in_flight = |number: &usize| entries[first + number].transfers.in_flight();
                in_turn.min_by_key(in_flight).unwrap_or(turn)
            }
            ConnectionPolicy::RoundRobin | ConnectionPolicy::Share => turn,
        };
        self.turns[ticket as usize] = (chosen + 1) % self.of_client;
        first + chosen
    }

    /// Returns the ticket for another op after one of an entry is done.
    #[inline]
    fn ticket_of(&self, entry: usize) -> u32 {
        match self.policy {
            ConnectionPolicy::Share => entry as u32,
            _ => (entry / self.of_client) as u32,
        }
    }
}

/// A client's connection and the state of its socket's registration.
struct Entry {
    connection: Connection,
    transfers: Transfers,
    watched: WatchedSocket,
    /// It is in `to_drive`.
    is_queued: bool,
}

impl Many {
    /// Creates a backend for open connections. Each has at most `depth` ops in flight, or fewer if
    /// its server grants fewer slots and each connection has its own share of them.
    ///
    /// # Errors
    /// If the sockets cannot be registered with epoll.
    pub fn new(
        connections: Vec<Connection>,
        depth: usize,
        set: NfsFiles,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let count = connections.len();
        let mut depths = Vec::with_capacity(count);
        let mut entries = Vec::with_capacity(count);
        let of_client = set.connections_per_client.max(1);
        let turns = vec![0; count.div_ceil(of_client)];
        let choice = Choice { policy: set.policy, of_client, turns };
        let mut common = WorkerState::new(set);
        for (number, mut connection) in connections.into_iter().enumerate() {
            connection.begin_tcp_counters();
            // Opens belong to the client that made them, which is the first one.
            common.wire_before.add(wire_bytes(&connection));
            let opens = if number < common.set.own { Opens::Own } else { Opens::OfAnother };
            let depth = match choice.policy {
                ConnectionPolicy::Share => depth_on(&connection, depth),
                // Without a free slot, ops wait at the connection that was chosen.
                _ => depth,
            };
            depths.push(depth);
            entries.push(Entry {
                transfers: Transfers::new(depth, connection.free_slots(), opens)
                    .with_listings(&common.set),
                connection,
                watched: WatchedSocket::default(),
                is_queued: false,
            });
        }
        let mut many = Self {
            entries,
            sockets: Sockets::new()?,
            tickets: match choice.policy {
                ConnectionPolicy::Share => make_tickets(&depths),
                _ => make_tickets(&vec![depth; choice.turns.len()]),
            },
            choice,
            to_drive: Vec::with_capacity(count),
            scratch: Scratch::new(),
            clock,
            paths: std::mem::take(&mut common.set.paths),
            common,
            ticked_ns: 0,
        };
        for number in 0..count {
            many.register_events(number)?;
            if let Some(wakeup) = many.entries[number].connection.wakeup() {
                many.sockets.watch_wakeup(wakeup, number as u32)?;
            }
        }
        Ok(many)
    }

    /// Updates the events that an entry waits for, if they have changed.
    fn register_events(&mut self, number: usize) -> Result<(), Errno> {
        let Entry { connection, watched, .. } = &mut self.entries[number];
        self.sockets.watch(connection, watched, number)
    }

    /// Starts and sends an entry's pending calls and collects its completed ops.
    fn drive_entry(&mut self, number: usize, out: &mut Vec<Completion>) -> Result<(), LostTarget> {
        let clock = &self.clock;
        let Entry { connection, transfers, is_queued, .. } = &mut self.entries[number];
        *is_queued = false;
        transfers.start_calls(connection, clock.now_ns(), &mut self.common);
        connection.flush(&|| clock.now_ns()).map_err(|error| LostTarget(error.to_string()))?;
        let before = out.len();
        transfers.drain_into(out);
        self.common.set.clients.record_ended(number, &out[before..]);
        if let Some(path) = self.paths.get_mut(connection.path()) {
            for completion in &out[before..] {
                path.ended(completion);
            }
        }
        // Each completed op entitles its client to another one.
        for _ in before..out.len() {
            self.tickets.push_back(self.choice.ticket_of(number));
        }
        self.register_events(number).map_err(|errno| LostTarget(format!("epoll: {errno}")))
    }

    /// Receives whatever has arrived on an entry's socket.
    fn receive_replies(&mut self, number: usize) -> Result<(), LostTarget> {
        let Self { entries, scratch, clock, common, .. } = self;
        let Entry { connection, transfers, .. } = &mut entries[number];
        let mut end_call = |event: &Ended<'_>| transfers.end_call(event, common);
        match connection.receive(scratch, &|| clock.now_ns(), &mut end_call) {
            Ok(_) => Ok(()),
            Err(error) => Err(LostTarget(error.to_string())),
        }
    }

    /// Drives the entries that got ops.
    fn drive_queued(&mut self, out: &mut Vec<Completion>) -> Result<(), LostTarget> {
        while let Some(number) = self.to_drive.pop() {
            self.drive_entry(number as usize, out)?;
        }
        Ok(())
    }

    /// Checks all timers. Does so only once per tick, since it visits all entries.
    fn check_timers(&mut self, out: &mut Vec<Completion>) -> Result<(), LostTarget> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.ticked_ns) < TICK.as_nanos() as u64 {
            return Ok(());
        }
        self.ticked_ns = now_ns;
        let timeout_ns = self.common.set.timeout_ns;
        for number in 0..self.entries.len() {
            let clock = &self.clock;
            let connection = &mut self.entries[number].connection;
            let timer_ns = connection.next_timeout_ns().unwrap_or(u64::MAX);
            let has_expired = timer_ns <= now_ns;
            if has_expired {
                let handled = connection.handle_timeout(&|| clock.now_ns());
                handled.map_err(|error| LostTarget(error.to_string()))?;
                self.receive_replies(number)?;
            }
            // Half of the time is left for another address to answer.
            let entry = &mut self.entries[number];
            let left = entry.connection.leave_silent_path(now_ns, timeout_ns / 2);
            left.map_err(|error| LostTarget(error.to_string()))?;
            // A server that doesn't answer within the timeout is gone.
            let checked = entry.connection.check_timeout(now_ns, timeout_ns);
            checked.map_err(|error| LostTarget(error.to_string()))?;
            // No event will wake up calls that found no free slot, or that wait for another client
            // to rewrite lost data. So drive them here.
            if has_expired || entry.transfers.is_waiting() {
                self.drive_entry(number, out)?;
            }
        }
        Ok(())
    }

    /// Waits until a socket is ready, at most until `until_ns`.
    fn wait_ready(&mut self, until_ns: u64) -> Result<(), LostTarget> {
        let wait = wait_time(self.clock.as_ref(), until_ns);
        self.sockets.wait(wait).map_err(|errno| LostTarget(format!("epoll: {errno}")))
    }

    /// Queues an entry that has something to start.
    fn queue_entry(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        if !entry.is_queued {
            entry.is_queued = true;
            self.to_drive.push(number);
        }
    }
}

/// Creates a ticket for each op that each entry may have in flight. Entries take turns, so that a
/// small batch isn't given to the first of them only.
fn make_tickets(depths: &[usize]) -> VecDeque<u32> {
    let mut tickets = VecDeque::with_capacity(depths.iter().sum());
    for round in 0..depths.iter().copied().max().unwrap_or(0) {
        for (number, depth) in depths.iter().enumerate() {
            if round < *depth {
                tickets.push_back(number as u32);
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
            let Some(ticket) = self.tickets.pop_front() else { break };
            let number = self.choice.choose(ticket, op, &self.entries);
            let transfers = &mut self.entries[number].transfers;
            accepted += transfers.accept(std::slice::from_ref(op), now_ns, &self.common);
            self.queue_entry(number as u32);
        }
        accepted
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let wanted = out.len() + min;
        self.drive_queued(out)?;
        let mut rounds = 0;
        // An op may need several rounds of calls. The limit lets the worker make its own checks in
        // between.
        while out.len() < wanted && rounds < REAP_ROUNDS_MAX {
            rounds += 1;
            self.wait_ready(until_ns)?;
            for at in 0..self.sockets.ready().len() {
                let number = self.sockets.ready()[at] as usize;
                self.receive_replies(number)?;
                self.drive_entry(number, out)?;
            }
            self.check_timers(out)?;
            if self.sockets.ready().is_empty() || self.common.rewrites_in_vain() {
                break;
            }
        }
        if self.common.rewrites_in_vain() {
            return self.common.give_up_rewriting();
        }
        Ok(())
    }

    fn close(&mut self, stop: &AtomicBool) -> Result<(), LostTarget> {
        closing::close_files(self, stop)
    }

    fn end(&mut self) {
        let Self { entries, scratch, clock, .. } = self;
        let until_ns = clock.now_ns().saturating_add(RETURN_WITHIN_NS);
        for entry in entries {
            entry.connection.return_delegations(scratch, &|| clock.now_ns(), until_ns);
            entry.connection.finish_copies(scratch, &|| clock.now_ns(), until_ns);
        }
    }

    fn entries_in_progress(&self) -> u64 {
        self.entries.iter().map(|entry| entry.transfers.entries_in_progress()).sum()
    }

    fn tally(&self) -> BackendCounts {
        tally_of(self.entries.iter().map(|entry| &entry.connection), &self.common)
    }

    fn paths(&self) -> Vec<PathWork> {
        let mut paths = self.paths.clone();
        for (number, path) in paths.iter_mut().enumerate() {
            for entry in &self.entries {
                add_counters(path, &entry.connection.path_counters(number));
            }
        }
        paths
    }

    fn clients(&self) -> Vec<ClientResult> {
        self.common.set.clients.results()
    }
}

impl Closing for Many {
    fn first(&mut self) -> (&mut Transfers, &mut WorkerState) {
        (&mut self.entries[0].transfers, &mut self.common)
    }

    fn start_calls(&mut self) {
        self.queue_entry(0);
    }
}
