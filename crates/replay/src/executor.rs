//! Executes a batch of steps on open connections, one per client.
//!
//! A single thread drives all connections with epoll. While a batch is running, nothing is
//! allocated, locked or logged: handles, opens and cursors are in tables created in advance. Calls
//! that only the protocol requires, such as the CLOSE after a v4 CREATE, are made before the
//! client's next step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use engine::Clock;
use engine::sockets::{Sockets, WatchedSocket};
use nfs_client::proto::client::{Event as Reply, File, Operation, Outcome as Done};
use nfs_client::proto::nfs4::Segment;
use nfs_client::proto::{CallError, Status};
use nfs_client::{Connection, ConnectionError, Scratch};
use rustix::io::Errno;

use crate::action::Action;
use crate::exchange::{Exchange, StepEnd};
use crate::lanes::{Lanes, Pace, Start};
use crate::operation::{Files, OperationInputs, operation_of};
use crate::outcome::Wire;
use crate::recorder::{Recorder, StepOutcome, Times};
use crate::step::{Batch, Step};
use crate::tree::NONE;

/// How often we check timers and whether the user wants to stop.
const TICK_NS: u64 = 100_000_000;
/// First tag of LOOKUPs for existing objects that prevented a preparation from creating them.
const LOOKUP_TAG: u32 = 1 << 30;
/// Tag of a CLOSE that only the protocol requires.
const CLOSE_TAG: u32 = u32::MAX - 1;

/// Number of the descriptor that signals notices from other hosts.
const NOTICES: u32 = u32::MAX;

/// The purpose of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To build the tree, using whatever already exists.
    Prepare,
    /// To replay a trace.
    Replay,
}

/// A call that only the protocol requires.
#[derive(Debug, Clone, Copy)]
enum ProtocolCall {
    Close(File),
    /// Looks up the existing object that was in the way of this step.
    Find(u32),
}

/// Why an execution was aborted.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// A connection failed permanently.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The sockets cannot be registered with epoll.
    #[error("epoll: {0}")]
    Watch(#[from] Errno),
}

struct Link {
    connection: Connection,
    watched: WatchedSocket,
}

/// Executes batches of steps.
pub(crate) struct Executor<'a> {
    links: Vec<Link>,
    sockets: Sockets,
    scratch: Scratch,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    timeout_ns: u64,
    pool: Arc<Vec<u8>>,
    ticked_ns: u64,
}

/// The context of a batch.
pub(crate) struct BatchWork<'a> {
    pub batch: &'a Batch,
    pub names: &'a [String],
    pub purpose: Purpose,
    pub files: &'a mut Files,
    pub recorder: &'a mut Recorder,
}

/// When a batch is executed, and with which other hosts.
#[derive(Debug, Clone, Copy)]
pub struct BatchSchedule<'a> {
    /// How its steps are scheduled.
    pub pace: Pace,
    /// When it begins, according to this host's clock; `None` means now.
    pub begin_ns: Option<u64>,
    /// Exchange with other hosts that execute steps of the same plan.
    pub exchange: Option<&'a Exchange>,
    /// For each step, whether another host waits for it; empty if there are no other hosts.
    pub awaited: &'a [bool],
}

impl BatchSchedule<'_> {
    /// Returns a course that begins immediately, without other hosts.
    pub const fn immediate(pace: Pace) -> Self {
        Self { pace, begin_ns: None, exchange: None, awaited: &[] }
    }
}

/// State of a batch during its execution, except for connections.
struct Progress<'a> {
    work: BatchWork<'a>,
    lanes: Lanes<'a>,
    course: BatchSchedule<'a>,
    begin_ns: u64,
    extras: Vec<VecDeque<ProtocolCall>>,
    /// Extra calls that are waiting or in flight.
    extras_left: usize,
    /// Clients that got extra calls since they were last driven.
    with_extras: Vec<u32>,
    is_stateful: bool,
    /// Number of notices sent to other hosts.
    notices: u64,
}

impl<'a> Executor<'a> {
    /// Creates an executor for open connections.
    ///
    /// # Errors
    /// If the sockets cannot be registered with epoll.
    pub(crate) fn new(
        connections: Vec<Connection>,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
        timeout_ns: u64,
        pool: Arc<Vec<u8>>,
    ) -> Result<Self, ExecuteError> {
        let links: Vec<_> = connections
            .into_iter()
            .map(|connection| Link { connection, watched: WatchedSocket::default() })
            .collect();
        let mut executor = Self {
            links,
            sockets: Sockets::new()?,
            scratch: Scratch::new(),
            clock,
            stop,
            timeout_ns,
            pool,
            ticked_ns: 0,
        };
        for number in 0..executor.links.len() {
            executor.register_events(number)?;
        }
        Ok(executor)
    }

    /// Executes a batch. Returns early if the user wants to stop. Returns the number of notices
    /// sent to other hosts.
    ///
    /// # Errors
    /// [`ExecuteError`]: the server no longer answers.
    pub(crate) fn run(
        &mut self,
        work: BatchWork<'_>,
        course: BatchSchedule<'_>,
    ) -> Result<u64, ExecuteError> {
        let begin_ns = course.begin_ns.unwrap_or_else(|| self.clock.now_ns());
        if let Some(exchange) = course.exchange {
            self.sockets.watch_wakeup(&exchange.wakeup, NOTICES)?;
        }
        let mut extras = Vec::with_capacity(self.links.len());
        let mut slots = 0;
        for link in &self.links {
            let free = link.connection.free_slots();
            extras.push(VecDeque::with_capacity(free));
            slots += free;
        }
        let is_stateful =
            self.links.first().is_some_and(|link| link.connection.version().is_stateful());
        work.recorder.begin_ns = begin_ns;
        let mut progress = Progress {
            lanes: Lanes::new(work.batch, course.pace, begin_ns),
            work,
            course,
            begin_ns,
            extras,
            extras_left: 0,
            with_extras: Vec::with_capacity(slots),
            is_stateful,
            notices: 0,
        };
        while progress.lanes.left() > 0 || progress.extras_left > 0 {
            if self.stop.load(Relaxed) {
                break;
            }
            self.start_ready(&mut progress)?;
            let now_ns = self.clock.now_ns();
            let tick_ns = self.ticked_ns + TICK_NS;
            let until_ns = progress.lanes.next_instant_ns().unwrap_or(u64::MAX).min(tick_ns);
            let wait_ns = until_ns.saturating_sub(now_ns).min(TICK_NS);
            self.sockets.wait(Duration::from_nanos(wait_ns))?;
            for at in 0..self.sockets.ready().len() {
                match self.sockets.ready()[at] {
                    NOTICES => progress.take_notices(),
                    number => self.receive(number as usize, &mut progress)?,
                }
            }
            self.check_timers(&mut progress)?;
        }
        Ok(progress.notices)
    }

    /// Returns the counts of all connections.
    pub(crate) fn wire(&self) -> Wire {
        let mut wire = Wire { clients: self.links.len() as u64, ..Wire::default() };
        for link in &self.links {
            let counters = link.connection.counters();
            wire.calls_sent += counters.calls_sent;
            wire.retransmissions += counters.retransmissions + counters.replays;
            wire.reconnects += counters.reconnects;
        }
        wire
    }

    /// Starts all steps that may start now.
    fn start_ready(&mut self, progress: &mut Progress<'_>) -> Result<(), ExecuteError> {
        loop {
            let client = match progress.with_extras.pop() {
                Some(client) => client,
                None => match progress.lanes.pop_ready(self.clock.now_ns()) {
                    Some(client) => client,
                    None => return Ok(()),
                },
            };
            self.drive(client, progress)?;
        }
    }

    fn drive(&mut self, client: u32, progress: &mut Progress<'_>) -> Result<(), ExecuteError> {
        let clock = self.clock;
        let link = &mut self.links[client as usize];
        let connection = &mut link.connection;
        while connection.free_slots() > 0
            && let Some(extra) = progress.extras[client as usize].pop_front()
        {
            progress.start_extra(extra, connection, clock.now_ns());
        }
        loop {
            let now_ns = clock.now_ns();
            let has_place = connection.free_slots() > 0;
            let Some(start) = progress.lanes.next_step(client, now_ns, has_place) else { break };
            progress.start_step(&start, connection, &self.pool, now_ns);
        }
        connection.flush(&|| clock.now_ns())?;
        self.register_events(client as usize)?;
        Ok(())
    }

    fn receive(&mut self, number: usize, progress: &mut Progress<'_>) -> Result<(), ExecuteError> {
        let Self { links, scratch, clock, .. } = self;
        let connection = &mut links[number].connection;
        let client = number as u32;
        connection.receive(scratch, &|| clock.now_ns(), &mut |reply| {
            progress.end_call(client, reply);
        })?;
        // The socket may have accepted only part of the previous data.
        connection.flush(&|| clock.now_ns())?;
        self.register_events(number)?;
        Ok(())
    }

    fn check_timers(&mut self, progress: &mut Progress<'_>) -> Result<(), ExecuteError> {
        let now_ns = self.clock.now_ns();
        if now_ns < self.ticked_ns + TICK_NS {
            return Ok(());
        }
        self.ticked_ns = now_ns;
        for number in 0..self.links.len() {
            let clock = self.clock;
            let connection = &mut self.links[number].connection;
            if connection.next_timeout_ns().is_some_and(|timer_ns| timer_ns <= now_ns) {
                connection.handle_timeout(&|| clock.now_ns())?;
                self.receive(number, progress)?;
            }
            self.links[number].connection.check_timeout(now_ns, self.timeout_ns)?;
        }
        Ok(())
    }

    /// Updates the events that a connection waits for, if they have changed.
    fn register_events(&mut self, number: usize) -> Result<(), Errno> {
        let Link { connection, watched } = &mut self.links[number];
        self.sockets.watch(connection, watched, number)
    }
}

impl Progress<'_> {
    fn start_step(&mut self, start: &Start, connection: &mut Connection, pool: &[u8], now_ns: u64) {
        let step = &self.work.batch.steps[start.step as usize];
        let files = &*self.work.files;
        // The tree already contains this file as it should be.
        let is_done = self.work.purpose == Purpose::Prepare
            && matches!(
                step.action,
                Action::SetSize(_) | Action::Write { .. } | Action::Commit { .. }
            )
            && files.is_ready[step.file as usize];
        let material = OperationInputs { files, names: self.work.names, pool };
        let started = match operation_of(step, start.step, &material) {
            Some(operation) if !is_done => connection.start(now_ns, start.step, &operation).is_ok(),
            _ => false,
        };
        if started {
            self.work.recorder.start(start, now_ns);
            self.work.recorder.record_issue(step);
        } else {
            if !is_done {
                self.work.recorder.skip(step);
            }
            self.end_step(start.step, None, now_ns);
        }
    }

    /// Records that a step has ended, and sends a notice if other hosts wait for it.
    fn end_step(&mut self, number: u32, file: Option<&File>, now_ns: u64) {
        self.lanes.end_step(number, now_ns);
        if let Some(exchange) = self.course.exchange
            && self.course.awaited.get(number as usize) == Some(&true)
        {
            let after_ns = now_ns.saturating_sub(self.begin_ns);
            let handle = file.map(|file| file.handle);
            self.notices += 1;
            // If nobody transports it, the replay is over.
            let _ = exchange.outgoing.send(StepEnd { step: number, after_ns, handle });
        }
    }

    /// Processes notices from other hosts.
    fn take_notices(&mut self) {
        let Some(exchange) = self.course.exchange else { return };
        exchange.clear_wakeup();
        while let Ok(StepEnd { step, after_ns, handle }) = exchange.incoming.try_recv() {
            let Some(found) = self.work.batch.steps.get(step as usize) else { continue };
            if let Some(handle) = handle {
                self.work.files.note_handle(found, handle.into());
            }
            self.lanes.end_elsewhere(step, self.begin_ns.saturating_add(after_ns));
        }
    }

    fn start_extra(&mut self, extra: ProtocolCall, connection: &mut Connection, now_ns: u64) {
        let started = match extra {
            ProtocolCall::Close(file) => {
                connection.start(now_ns, CLOSE_TAG, &Operation::Close { file: &file }).is_ok()
            }
            ProtocolCall::Find(number) => {
                let step = &self.work.batch.steps[number as usize];
                let name = self.work.names[step.name as usize].as_bytes();
                match &self.work.files.objects[step.file as usize] {
                    Some(dir) => {
                        let lookup = Operation::Lookup { dir, name };
                        connection.start(now_ns, LOOKUP_TAG + number, &lookup).is_ok()
                    }
                    None => false,
                }
            }
        };
        if !started {
            self.extras_left -= 1;
            if let ProtocolCall::Find(number) = extra {
                self.end_step(number, None, now_ns);
            }
        }
    }

    fn end_call(&mut self, client: u32, reply: &Reply<'_>) {
        if reply.tag == CLOSE_TAG {
            self.extras_left -= 1;
            return self.lanes.free_place(client, reply.done_ns);
        }
        let is_found = reply.tag & LOOKUP_TAG != 0;
        let number = reply.tag & !LOOKUP_TAG;
        let step = &self.work.batch.steps[number as usize];
        let ended = ended_of(&reply.result);
        if is_found {
            self.extras_left -= 1;
        } else if self.work.purpose == Purpose::Prepare
            && step.action.makes_object()
            && ended == StepOutcome::Status(Status::Exist.number())
        {
            self.extras_left += 1;
            self.extras[client as usize].push_back(ProtocolCall::Find(number));
            return self.with_extras.push(client);
        }
        self.note_result(client, step, reply);
        let bytes = moved_bytes(step.action, reply);
        let pace = self.course.pace;
        let scheduled_ns = match pace {
            Pace::Open { .. } => pace.instant_ns(self.begin_ns, step.scheduled_ns),
            Pace::Closed | Pace::Thinking => reply.started_ns,
        };
        let times = Times { scheduled_ns, started_ns: reply.started_ns, done_ns: reply.done_ns };
        self.work.recorder.end(number, step, &times, ended, bytes);
        let file = if reply.result.is_ok() { reply.file } else { None };
        self.end_step(number, file, reply.done_ns);
    }

    /// Saves whatever later steps need: handles, opens, positions of listings.
    fn note_result(&mut self, client: u32, step: &Step, reply: &Reply<'_>) {
        let files = &mut *self.work.files;
        match reply.result {
            Ok(Done::Object { attributes }) => {
                let Some(file) = reply.file else { return };
                let is_new = files.note_handle(step, file.handle.into());
                if is_new && self.work.purpose == Purpose::Prepare {
                    let wanted = files.wanted_bytes[step.result as usize];
                    files.is_ready[step.result as usize] =
                        attributes.is_some_and(|found| found.size == wanted);
                }
                if step.slot != NONE {
                    files.slots[step.slot as usize].open = Some(*file);
                } else if self.is_stateful && matches!(step.action, Action::Create { .. }) {
                    // A v3 trace contains no CLOSE, and the server would keep the open forever.
                    self.extras_left += 1;
                    self.extras[client as usize].push_back(ProtocolCall::Close(*file));
                    self.with_extras.push(client);
                }
            }
            Ok(Done::Listing) if step.slot != NONE => {
                let Ok(page) = reply.listing() else { return };
                let cursor = &mut files.slots[step.slot as usize].cursor;
                for entry in &page {
                    cursor.cookie = entry.cookie;
                }
                cursor.verifier = page.verifier;
            }
            _ => {}
        }
    }
}

/// Returns the number of bytes read or written by a reply, including holes.
fn moved_bytes(action: Action, reply: &Reply<'_>) -> u32 {
    match (action, &reply.result) {
        (_, Ok(Done::Read { count, .. } | Done::Written { count, .. })) => *count,
        (Action::ReadPlus { count, .. }, Ok(Done::Segments { .. })) => {
            let Ok(segments) = reply.segments() else { return 0 };
            let mut bytes = 0_u64;
            for segment in segments {
                bytes = bytes.saturating_add(match segment {
                    Segment::Data(_, data) => data.len() as u64,
                    Segment::Hole(_, len) => len,
                });
            }
            // A hole may extend beyond the requested range.
            bytes.min(count.into()) as u32
        }
        _ => 0,
    }
}

fn ended_of(result: &Result<Done, CallError>) -> StepOutcome {
    match result {
        Ok(_) => StepOutcome::Status(0),
        Err(error) => match error.status() {
            Some(status) => StepOutcome::Status(status.number()),
            None => StepOutcome::Failed,
        },
    }
}
