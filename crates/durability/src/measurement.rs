//! The measurement of one target: writes files under each promise, triggers the events and reads
//! everything back.
//!
//! [`Measurement`] is the main type. [`Load`] is the journal of what the clients reported.

use std::collections::BTreeSet;
use std::ops::RangeFrom;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use model::durability::{
    AckedOp, CrashEvent, DurabilityReport, FoundFile, MeasuredEvent, TestFile,
};
use model::work::directory_name;
use model::{Durability, Host, Target};
use stats::durability::{EventFacts, judge_event, last_writer, tiers};

use crate::events::{ArrangedEvent, SystemControl, run_shell};
use crate::protocol::{ClientJob, ClientMessage, ClientProcess, ClientProgram, Task, now_ns};
use crate::request::{DurabilityRequest, access_to};
use crate::{ContenderFindings, DurabilityContext, DurabilityError, DurabilityEvent};

/// How long to wait for a message before checking the stop flag.
const TICK: Duration = Duration::from_millis(50);

/// How long to wait for the last messages of a client that was killed.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// Rounds written during the event, per round before it. The limit keeps a writer that is never
/// stopped from filling its target.
const ROUNDS_DURING_EVENT: u32 = 20;

/// Time limit for reading back one file, as a multiple of the limit of a single call.
const READ_BACK_CALLS: u32 = 10;

/// Measures the only target of a request that sets up no systems.
pub(crate) fn measure_one(
    request: &DurabilityRequest,
    context: &DurabilityContext<'_>,
) -> Result<ContenderFindings, DurabilityError> {
    let target = &request.subjects[0].spec.target;
    let program = (context.program_on)(&Host::local("this host"));
    let measurement = Measurement {
        request,
        context,
        target,
        program: &program.map_err(DurabilityError::Unusable)?,
        system: None,
        campaign: context.campaign.clone(),
    };
    let events = measurement.measure_events()?;
    let report = Ok(report_of(request, target.to_string(), target, events));
    Ok(ContenderFindings { contender: request.contender.clone().unwrap_or_default(), report })
}

pub(crate) fn report_of(
    request: &DurabilityRequest,
    named: String,
    target: &Target,
    events: Vec<MeasuredEvent>,
) -> DurabilityReport {
    DurabilityReport {
        schema: 1,
        target: named,
        promises: request.describe_promises(target),
        tiers: tiers(&request.promises, &events),
        events,
    }
}

/// Everything that all events of a measurement share.
pub(crate) struct Measurement<'a> {
    pub request: &'a DurabilityRequest,
    pub context: &'a DurabilityContext<'a>,
    pub target: &'a Target,
    /// The program on the clients' host.
    pub program: &'a ClientProgram,
    /// Controls the system, if the plan has set it up.
    pub system: Option<SystemControl<'a>>,
    /// Prefix of the names of working directories.
    pub campaign: String,
}

/// Acknowledgements of one load, in the order in which the ops were sent.
#[derive(Default)]
struct Load {
    ops: Vec<AckedOp>,
    /// Why the writer gave up, if it did.
    failed: Option<String>,
    /// Identifies the target's file system.
    identity: String,
    is_ready: bool,
    is_done: bool,
}

impl Load {
    fn note(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Opened { identity } => self.identity = identity,
            ClientMessage::Sent(op) => self.ops.push(AckedOp { op, acked_ns: None }),
            ClientMessage::Acked { ops, at_ns } => {
                for id in ops {
                    if let Some(acked) = self.ops.get_mut(id) {
                        acked.acked_ns = Some(at_ns);
                    }
                }
            }
            ClientMessage::Ready => self.is_ready = true,
            ClientMessage::Done => self.is_done = true,
            ClientMessage::Failed(why) => self.failed = Some(why),
            ClientMessage::Found(_) => {}
        }
    }

    /// Records all messages that the client has sent so far.
    fn note_sent(&mut self, client: &ClientProcess) {
        while let Ok(Some(message)) = client.receive(Duration::ZERO) {
            self.note(message);
        }
    }

    /// Records the last messages of a killed client. A client that hangs in the kernel never closes
    /// its pipe, hence the time limit.
    fn note_last(&mut self, client: &ClientProcess) {
        let deadline = Instant::now() + LAST_WITHIN;
        while Instant::now() < deadline {
            match client.receive(TICK) {
                Ok(Some(message)) => self.note(message),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the time of the latest acknowledgement up to `until_ns`.
    fn last_acked_ns(&self, until_ns: u64) -> u64 {
        let mut last = 0;
        for acked in &self.ops {
            if let Some(at_ns) = acked.acked_ns
                && at_ns <= until_ns
            {
                last = last.max(at_ns);
            }
        }
        last
    }

    fn files(&self) -> Vec<TestFile> {
        let files: BTreeSet<_> = self.ops.iter().map(|acked| acked.op.file).collect();
        Vec::from_iter(files)
    }
}

impl Measurement<'_> {
    /// Measures all events, until the target is gone or the stop flag is set.
    pub(crate) fn measure_events(&self) -> Result<Vec<MeasuredEvent>, DurabilityError> {
        let mut events = Vec::new();
        let mut folders = 0..;
        for arranged in &self.request.events {
            if !self.repeat_event(arranged, &mut folders, &mut events)? {
                break;
            }
        }
        Ok(events)
    }

    /// Triggers an event as often as needed and adds the findings. Returns whether to continue.
    ///
    /// Each crash only tests the last write of a single promise. So unless an idle time was
    /// requested, the first crash happens while ops are in flight under all promises. Before each
    /// further crash, everything is acknowledged, and the promises take turns having the last
    /// write.
    fn repeat_event(
        &self,
        arranged: &ArrangedEvent,
        folders: &mut RangeFrom<usize>,
        events: &mut Vec<MeasuredEvent>,
    ) -> Result<bool, DurabilityError> {
        let mut next = if self.request.idle.is_some() && arranged.can_be_repeated() {
            self.next_last(None)
        } else {
            None
        };
        let first = events.len();
        for number in folders {
            let Some(measured) = self.measure(arranged, number, next)? else { return Ok(false) };
            if measured.unverified.is_some() {
                // Earlier findings remain valid.
                events.push(measured);
                return Ok(false);
            }
            match events.get_mut(first) {
                Some(known) => known.add(&measured),
                None => events.push(measured),
            }
            if self.context.stop.load(Relaxed) {
                return Ok(false);
            }
            next = self.next_last(events.get(first));
            if next.is_none() || !arranged.can_be_repeated() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Returns the promise that gets the last write before the next crash: among those that lost
    /// nothing yet, the one with the fewest crashes. `None` if all have had enough.
    fn next_last(&self, measured: Option<&MeasuredEvent>) -> Option<Durability> {
        let mut next: Option<(u32, Durability)> = None;
        // Start with the strongest promises, which come last: they are the most informative.
        for promise in self.request.promises.iter().rev() {
            let (crashes, has_lost) = match measured {
                Some(event) => (event.last_writes_of(*promise).crashes, event.has_lost(*promise)),
                None => (0, false),
            };
            let is_fewer = next.is_none_or(|(fewest, _)| crashes < fewest);
            if !has_lost && crashes < self.request.crashes && is_fewer {
                next = Some((crashes, *promise));
            }
        }
        next.map(|(_, promise)| promise)
    }

    /// Applies a load, triggers one event and evaluates what is left. Returns `None` if the stop
    /// flag is set before the event.
    fn measure(
        &self,
        arranged: &ArrangedEvent,
        number: usize,
        last: Option<Durability>,
    ) -> Result<Option<MeasuredEvent>, DurabilityError> {
        let folder = directory_name(&self.campaign, number);
        let promises = self.request.promise_names();
        let ending = match last {
            Some(promise) => format!("; last write with {promise}"),
            None => String::new(),
        };
        self.report(&format!("{}: writing with promises {promises}{ending}", arranged.event));
        let begun = DurabilityEvent::DirectoryBegun { name: &folder, target: self.target };
        (self.context.observe)(begun);
        let measured = self.measure_in(&folder, arranged, last);
        // Report a working directory that can't be removed, but an earlier error takes precedence.
        let removed = self.remove(&folder);
        let is_gone = matches!(&measured, Ok(Some(event)) if event.unverified.is_some());
        let why = match removed {
            Ok(()) if is_gone => "the target has not come back".to_owned(),
            Ok(()) => {
                (self.context.observe)(DurabilityEvent::DirectoryRemoved);
                return measured;
            }
            Err(why) => why,
        };
        let target = self.target;
        (self.context.observe)(DurabilityEvent::Warning(&format!(
            "the working directory `{folder}` may still be in {target}: {why}"
        )));
        measured
    }

    fn measure_in(
        &self,
        folder: &str,
        arranged: &ArrangedEvent,
        last: Option<Durability>,
    ) -> Result<Option<MeasuredEvent>, DurabilityError> {
        let mut load = Load::default();
        let mut client =
            ClientProcess::start(&self.job(folder, self.write_task(last)), self.program)?;
        if !self.await_load(&client, &mut load)? {
            return Ok(None);
        }
        let begun_ns = now_ns();
        let inject_fault = self.context.inject_fault;
        let made = arranged.make(inject_fault, self.system, &mut || client.kill());
        // A client that is still writing would continue once the server is back. Stop it here.
        client.kill();
        load.note_last(&client);
        drop(client);
        let made_ns =
            made.map_err(|why| DurabilityError::Unusable(format!("{}: {why}", arranged.event)))?;
        let facts = EventFacts {
            event: arranged.event,
            // A command takes time. Everything acknowledged before it finished counts as before the
            // event; everything acknowledged while it is being undone counts as after it.
            at_ns: begun_ns.max(load.last_acked_ns(made_ns)),
            access: access_to(self.target),
        };
        self.report(&format!("{}: done, reading back", arranged.event));
        let (found, unverified) = match self.read_back(folder, &load, arranged.event) {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        let last_writes_wanted = if arranged.can_be_repeated() { self.request.crashes } else { 0 };
        let mut measured = MeasuredEvent {
            last_writes_wanted,
            back_ns: now_ns().saturating_sub(facts.at_ns),
            unverified,
            nothing_at_risk: arranged.nothing_at_risk(),
            rows: judge_event(facts, &load.ops, found.as_deref()),
            ..MeasuredEvent::new(arranged.event, arranged.describe())
        };
        if let Some(promise) = last_writer(&load.ops) {
            measured.count_last_writes(promise, 1);
        }
        Ok(Some(measured))
    }

    /// Builds the writer's task. If an idle time was requested or `last` is to have the last write,
    /// nothing is written during the event, so that everything is acknowledged before it.
    fn write_task(&self, last: Option<Durability>) -> Task {
        let DurabilityRequest { promises, rounds, idle, .. } = self.request;
        let during = if idle.is_some() || last.is_some() { 0 } else { ROUNDS_DURING_EVENT };
        let mut promises = promises.clone();
        if let Some(last) = last {
            promises.retain(|promise| *promise != last);
            promises.push(last);
        }
        Task::Write { promises, rounds: rounds.saturating_mul(1 + during), event_after: *rounds }
    }

    /// Waits until enough was written to trigger the event. Returns false if it shouldn't happen.
    fn await_load(&self, client: &ClientProcess, load: &mut Load) -> Result<bool, DurabilityError> {
        while !load.is_ready && !load.is_done {
            if self.context.stop.load(Relaxed) {
                return Ok(false);
            }
            match client.receive(TICK) {
                Ok(Some(message)) => load.note(message),
                Ok(None) => {}
                Err(_) => {
                    return Err(DurabilityError::Unusable(
                        "the client process exited early".to_owned(),
                    ));
                }
            }
            if let Some(why) = &load.failed {
                let target = self.target;
                return Err(DurabilityError::Unusable(format!("{target}: {why}")));
            }
        }
        if let Some(idle) = self.request.idle {
            let until = Instant::now() + idle;
            while Instant::now() < until {
                if self.context.stop.load(Relaxed) {
                    return Ok(false);
                }
                thread::sleep(TICK.min(until.saturating_duration_since(Instant::now())));
            }
        }
        load.note_sent(client);
        Ok(true)
    }

    /// Reads all files back with a fresh client, and retries until the target is back.
    ///
    /// # Errors
    /// If that doesn't succeed in time; the message is a full sentence.
    fn read_back(
        &self,
        folder: &str,
        load: &Load,
        event: CrashEvent,
    ) -> Result<Vec<FoundFile>, String> {
        if let Some(command) = &self.request.before_reading {
            run_shell(command)?;
        }
        let deadline = Instant::now() + self.request.back_within;
        if let Some(system) = self.system {
            self.mount_again(&system, deadline)?;
        }
        let files = load.files();
        // A system that was set up here is mounted by the plan, so it can't be a different one.
        let identity = if self.system.is_some() { None } else { Some(load.identity.clone()) };
        let count = files.len();
        let task = Task::ReadBack { files, identity, accepts_unreadable: false };
        let mut job = self.job(folder, task);
        // Why some files could not be read before the deadline.
        let mut unreadable = None;
        loop {
            let why = match self.run_client(&job, deadline) {
                Ok(found) if found.len() == count => {
                    // If nothing could be read, the target isn't back. The exception is a server
                    // that is lost for good: it may have held all files.
                    let is_back = found.iter().any(|file| file.size_bytes.is_some());
                    return match unreadable {
                        Some(why) if !is_back && event != CrashEvent::LoseServer => Err(why),
                        _ => Ok(found),
                    };
                }
                Ok(_) => "the client process exited while reading back".to_owned(),
                Err(why) => why,
            };
            if self.context.stop.load(Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= deadline {
                if unreadable.is_some() {
                    return Err(why);
                }
                // The servers had time to come back or fail over. Whatever is unreadable now is
                // lost.
                unreadable = Some(why);
                if let Task::ReadBack { accepts_unreadable, .. } = &mut job.task {
                    *accepts_unreadable = true;
                }
            } else {
                thread::sleep(TICK);
            }
        }
    }

    /// Remounts, so that nothing is read from the cache of the client's host. Retries while the
    /// server is not back yet or a writer is still waiting for it.
    ///
    /// # Errors
    /// If that doesn't succeed in time; the message is a full sentence.
    fn mount_again(&self, system: &SystemControl<'_>, deadline: Instant) -> Result<(), String> {
        loop {
            let Err(why) = (system.mount_again)() else { return Ok(()) };
            if self.context.stop.load(Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= deadline {
                return Err(why);
            }
            thread::sleep(TICK);
        }
    }

    fn remove(&self, folder: &str) -> Result<(), String> {
        let deadline = Instant::now() + self.request.timeout;
        self.run_client(&self.job(folder, Task::Remove), deadline).map(drop)
    }

    /// Runs a client job to completion and returns the files it found.
    fn run_client(&self, job: &ClientJob, deadline: Instant) -> Result<Vec<FoundFile>, String> {
        let client = ClientProcess::start(job, self.program).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        // Reading a file has its own time limit, which starts when the target begins to answer.
        let file_limit = self.request.timeout * READ_BACK_CALLS;
        let mut deadline = deadline.max(Instant::now() + file_limit);
        loop {
            match client.receive(TICK) {
                Ok(Some(ClientMessage::Found(file))) => {
                    found.push(file);
                    deadline = deadline.max(Instant::now() + file_limit);
                }
                Ok(Some(ClientMessage::Failed(why))) => return Err(why),
                Ok(Some(ClientMessage::Done)) | Err(_) => return Ok(found),
                Ok(_) if Instant::now() >= deadline => {
                    return Err("the target does not answer".to_owned());
                }
                Ok(_) => {}
            }
        }
    }

    fn job(&self, folder: &str, task: Task) -> ClientJob {
        ClientJob {
            target: self.target.clone(),
            folder: folder.to_owned(),
            campaign: self.context.token,
            campaign_name: self.campaign.clone(),
            timeout_ms: self.request.timeout.as_millis() as u64,
            task,
        }
    }

    fn report(&self, line: &str) {
        (self.context.observe)(DurabilityEvent::Progress(line));
    }
}
