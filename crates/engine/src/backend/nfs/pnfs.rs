//! Our client with pNFS: READs and WRITEs go to the data servers of each file's layout.
//!
//! A worker has a connection to the metadata server and one to each data server, all polled
//! together. An op is split at stripe boundaries; a WRITE goes to all mirrors, a READ to the
//! preferred one. A sync commits at the data servers with unstable data, or at the metadata server
//! if the layout says so, and then publishes the file's size with LAYOUTCOMMIT. What a data server
//! refuses, or can't be reached for, goes through the metadata server, and so does all further data
//! of the file, whose layout is returned, until there is a new one. [`state`] has the ops and
//! calls; this module the sockets.
//!
//! Unlike [`super::Nfs`], this backend does not open files again after a restart of the metadata
//! server, and does not write data again that a data server has lost: the sync fails.
//!
//! **Source:** RFC 8881 chapters 12 and 13, RFC 8435.

mod background;
mod calls;
mod losses;
mod recalls;
mod reports;
mod stages;
mod state;
#[cfg(test)]
mod tests;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use model::{ClientResult, Completion, Op, Outcome, PnfsWork};
use nfs_client::pnfs::{FileLayout, KnownDevices};
use nfs_client::{Connection, ConnectionError, Scratch};

use super::set::{NfsFiles, WorkerState};
use super::{add_counters, tally_of, wire_bytes};
use crate::backend::{Backend, BackendCounts, LostTarget, wait_time};
use crate::clock::Clock;
use crate::limits::{REAP_ROUNDS_MAX, RETURN_WITHIN_NS, TICK};
use crate::sockets::{Sockets, WatchedSocket};
pub(crate) use background::LayoutReports;
pub(crate) use recalls::{PnfsTally, RecallBoard};
use stages::{METADATA, Task};
use state::{ServerLimits, State};

/// What a worker needs for pNFS, besides its files.
pub(crate) struct PnfsParts {
    /// The connection to the metadata server.
    pub(crate) metadata: Connection,
    /// Connections to data servers, with the largest READ and WRITE of each.
    pub(crate) data: Vec<(Connection, u32, u32)>,
    /// The layouts of the set's files, whose servers are indices into `data`.
    pub(crate) layouts: Vec<Option<FileLayout>>,
    /// The devices that these refer to, and for each of their data servers its index into `data`
    /// plus 1, or 0 if there is no connection to it.
    pub(crate) devices: (KnownDevices, Vec<u32>),
    /// Recalls seen by any worker.
    pub(crate) board: Arc<RecallBoard>,
    /// Where reports to the metadata server are counted.
    pub(crate) tally: Arc<PnfsTally>,
}

/// Executes ops with pNFS.
pub struct Pnfs {
    /// Connections, the first to the metadata server; `None` if one was lost.
    links: Vec<Option<Link>>,
    addresses: Vec<SocketAddr>,
    state: State,
    sockets: Sockets,
    scratch: Scratch,
    clock: Arc<dyn Clock>,
    board: Arc<RecallBoard>,
    seen_recalls: usize,
    tally: Arc<PnfsTally>,
    ticked_ns: u64,
}

struct Link {
    connection: Connection,
    watched: WatchedSocket,
}

impl Pnfs {
    /// Creates a backend for open connections.
    ///
    /// # Errors
    /// If the sockets cannot be registered with epoll.
    pub(crate) fn new(
        parts: PnfsParts,
        set: NfsFiles,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let PnfsParts { metadata, data, layouts, devices, board, tally } = parts;
        let slots = metadata.free_slots();
        let mut links = Vec::with_capacity(data.len() + 1);
        let mut servers = Vec::with_capacity(data.len() + 1);
        let metadata = (metadata, set.rsize, set.wsize);
        let mut common = WorkerState::new(set);
        for (mut connection, rsize, wsize) in std::iter::once(metadata).chain(data) {
            connection.begin_tcp_counters();
            common.wire_before.add(wire_bytes(&connection));
            servers.push(ServerLimits { address: connection.server(), rsize, wsize });
            links.push(Some(Link { connection, watched: WatchedSocket::default() }));
        }
        let mut pnfs = Self {
            state: State::new(common, layouts, &servers, slots),
            links,
            addresses: servers.iter().map(|server| server.address).collect(),
            sockets: Sockets::new()?,
            scratch: Scratch::new(),
            clock,
            seen_recalls: board.count(),
            board,
            tally,
            ticked_ns: 0,
        };
        (pnfs.state.devices, pnfs.state.numbers) = devices;
        pnfs.state.share_layouts(Arc::clone(&pnfs.board));
        for number in 0..pnfs.links.len() {
            pnfs.register_events(number)?;
        }
        Ok(pnfs)
    }

    fn register_events(&mut self, number: usize) -> std::io::Result<()> {
        let Some(Link { connection, watched }) = &mut self.links[number] else { return Ok(()) };
        Ok(self.sockets.watch(connection, watched, number)?)
    }

    /// Starts and sends pending calls to all servers.
    fn drive(&mut self) -> Result<(), LostTarget> {
        // A call that can't be sent may go to the metadata server, whose number is the lowest; one
        // more round sends it.
        for _ in 0..2 {
            self.state.start_waiting(self.clock.now_ns());
            for number in (0..self.links.len()).rev() {
                self.drive_link(number)?;
            }
            if !self.state.has_work() {
                break;
            }
        }
        Ok(())
    }

    fn drive_link(&mut self, number: usize) -> Result<(), LostTarget> {
        let Self { links, state, clock, .. } = self;
        let Some(Link { connection, .. }) = &mut links[number] else { return Ok(()) };
        state.start_calls(number, connection, clock.now_ns());
        let sent = connection.flush(&|| clock.now_ns());
        self.check_link(number, sent)?;
        self.register_events(number).map_err(|error| LostTarget(format!("epoll: {error}")))
    }

    fn receive(&mut self, number: usize) -> Result<(), LostTarget> {
        let Self { links, state, scratch, clock, .. } = self;
        let Some(Link { connection, .. }) = &mut links[number] else { return Ok(()) };
        let received =
            connection.receive(scratch, &|| clock.now_ns(), &mut |event| state.end_call(event));
        if number == METADATA {
            while let Some(recall) = connection.take_layout_recall() {
                self.board.post(recall);
            }
        }
        self.check_link(number, received.map(drop))
    }

    /// Gives up a data server that can't be reached; without the metadata server, the target is
    /// gone.
    fn check_link(
        &mut self,
        number: usize,
        result: Result<(), ConnectionError>,
    ) -> Result<(), LostTarget> {
        let Err(error) = result else { return Ok(()) };
        if number == METADATA {
            return Err(LostTarget(error.to_string()));
        }
        if self.links[number].take().is_some() {
            self.state.lose_server(number, self.clock.now_ns());
        }
        Ok(())
    }

    /// Checks all timers, once per tick.
    fn check_timers(&mut self) -> Result<(), LostTarget> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.ticked_ns) < TICK.as_nanos() as u64 {
            return Ok(());
        }
        self.ticked_ns = now_ns;
        let timeout_ns = self.state.common.set.timeout_ns;
        for number in 0..self.links.len() {
            let clock = &self.clock;
            let Some(Link { connection, .. }) = &mut self.links[number] else { continue };
            let timer_ns = connection.next_timeout_ns().unwrap_or(u64::MAX);
            let mut checked = Ok(());
            if timer_ns <= now_ns {
                checked = connection.handle_timeout(&|| clock.now_ns());
            }
            let checked = checked.and_then(|()| connection.check_timeout(now_ns, timeout_ns));
            self.check_link(number, checked)?;
            if timer_ns <= now_ns {
                self.receive(number)?;
            }
        }
        Ok(())
    }

    /// Handles recalls that this or another worker has received.
    fn take_recalls(&mut self) {
        if self.board.count() != self.seen_recalls {
            let state = &mut self.state;
            self.seen_recalls =
                self.board.read(self.seen_recalls, |recall| state.note_recall(recall));
        }
    }

    /// Waits for the sockets once, and handles what happened.
    fn turn(&mut self, until_ns: u64) -> Result<(), LostTarget> {
        let wait = wait_time(self.clock.as_ref(), until_ns);
        self.sockets.wait(wait).map_err(|errno| LostTarget(format!("epoll: {errno}")))?;
        for at in 0..self.sockets.ready().len() {
            let number = self.sockets.ready()[at] as usize;
            self.receive(number)?;
        }
        self.check_timers()?;
        self.take_recalls();
        self.drive()
    }

    /// Runs a task for each file, as many at a time as there is room for, until all are done; the
    /// first failure does not stop the others.
    fn run_tasks(
        &mut self,
        task: Task,
        until_ns: u64,
        stop: Option<&AtomicBool>,
    ) -> Result<(), LostTarget> {
        let mut next = 0;
        let mut ended = Vec::new();
        let mut result = Ok(());
        loop {
            // A layout that is on its way is returned with the others, and none twice.
            if next > 0 || !self.state.changes_layouts() {
                next = self.state.accept_tasks(task, next);
            }
            if next == self.state.files() && self.state.is_idle() {
                break;
            }
            if stop.is_some_and(|stop| stop.load(Relaxed)) {
                return Err(LostTarget("interrupted while closing files".to_owned()));
            }
            if self.clock.now_ns() > until_ns {
                return Err(LostTarget("layouts could not be returned in time".to_owned()));
            }
            self.drive()?;
            self.state.drain_into(&mut ended);
            if !self.state.is_idle() {
                self.turn(until_ns)?;
                self.state.drain_into(&mut ended);
            }
            for completion in ended.drain(..) {
                if let Outcome::Failed(error) = completion.outcome
                    && result.is_ok()
                {
                    let hint = "(hint: data written to it may be lost)";
                    let message = format!("a file could not be closed: {error} {hint}");
                    result = Err(LostTarget(message));
                }
            }
        }
        result
    }
}

impl Backend for Pnfs {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.state.accept(batch, self.clock.now_ns())
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let before = out.len();
        let wanted = before + min;
        self.take_recalls();
        self.drive()?;
        self.state.drain_into(out);
        let mut rounds = 0;
        while out.len() < wanted && rounds < REAP_ROUNDS_MAX {
            rounds += 1;
            self.turn(until_ns)?;
            let is_quiet = self.sockets.ready().is_empty();
            self.state.drain_into(out);
            if is_quiet {
                break;
            }
        }
        self.state.common.set.clients.record_ended(0, &out[before..]);
        Ok(())
    }

    fn close(&mut self, stop: &AtomicBool) -> Result<(), LostTarget> {
        let clients = std::mem::take(&mut self.state.common.set.clients);
        let until_ns = u64::MAX;
        self.state.background.end();
        // All data is safe before any file is closed.
        let mut closed = self.run_tasks(Task::Sync, until_ns, Some(stop));
        if self.state.common.set.closable && closed.is_ok() {
            closed = self.run_tasks(Task::Return, until_ns, Some(stop));
            closed = closed.and_then(|()| self.run_tasks(Task::Close, until_ns, Some(stop)));
        }
        self.state.common.set.clients = clients;
        closed
    }

    fn end(&mut self) {
        let until_ns = self.clock.now_ns().saturating_add(RETURN_WITHIN_NS);
        self.state.background.end();
        // A layout that is not returned is dropped by the server with the lease.
        let _ = self.run_tasks(Task::Publish, until_ns, None);
        self.tally.add(&self.state.layout_reports());
    }

    fn tally(&self) -> BackendCounts {
        let connections = self.links.iter().flatten().map(|link| &link.connection);
        let mut counts = tally_of(connections, &self.state.common);
        self.state.complete_counts(&mut counts);
        counts
    }

    fn pnfs_work(&self) -> Option<PnfsWork> {
        let metadata_bytes = self.state.work_of(METADATA).bytes;
        let mut data_servers = Vec::with_capacity(self.addresses.len() - 1);
        for (number, address) in self.addresses.iter().enumerate().filter(|(at, _)| *at != METADATA)
        {
            let mut work = self.state.work_of(number);
            work.address = address.to_string();
            if let Some(link) = &self.links[number] {
                add_counters(&mut work, &link.connection.path_counters(0));
            }
            data_servers.push(work);
        }
        Some(PnfsWork { data_servers, metadata_bytes })
    }

    fn clients(&self) -> Vec<ClientResult> {
        self.state.common.set.clients.results()
    }
}
