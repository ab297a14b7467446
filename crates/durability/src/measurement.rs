//! The measurement of one target: writes under each promise, makes the events and reads everything
//! back.
//!
//! [`Measurement`] is the principal type. [`Load`] is the journal of what the clients reported.

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

/// How long a message is waited for before the stop flag is checked.
const TICK: Duration = Duration::from_millis(50);

/// How long the last messages of a client that was killed may take.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// Rounds while the event is made, for each one before it: a writer that is never stopped does not
/// fill its target.
const ROUNDS_DURING_EVENT: u32 = 20;

/// Reading one file back may take so many times the limit of one call.
const READ_BACK_CALLS: u32 = 10;

/// Measures the one target of a request that sets up nothing.
pub fn measure_one(
    request: &DurabilityRequest,
    context: &DurabilityContext<'_>,
) -> Result<ContenderFindings, DurabilityError> {
    let target = &request.subjects[0].spec.target;
    let program = (context.program_on)(&Host::here("this host"));
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

/// Puts the findings about a target together.
pub fn report_of(
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

/// The parts that all events of a measurement share.
pub struct Measurement<'a> {
    pub request: &'a DurabilityRequest,
    pub context: &'a DurabilityContext<'a>,
    pub target: &'a Target,
    /// The program on the host of the clients.
    pub program: &'a ClientProgram,
    /// Controls the system, where the plan has set it up.
    pub system: Option<SystemControl<'a>>,
    /// Name with which the names of the working directories begin.
    pub campaign: String,
}

/// The acknowledgements of one load, in the order in which the ops were sent.
#[derive(Default)]
struct Load {
    ops: Vec<AckedOp>,
    /// The reason why the writer gave up, where it did.
    failed: Option<String>,
    /// The identity of the target, which tells it from others.
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

    /// Notes all that a client has sent until now.
    fn note_sent(&mut self, client: &ClientProcess) {
        while let Ok(Some(message)) = client.receive(Duration::ZERO) {
            self.note(message);
        }
    }

    /// Notes what a client has sent that was killed; one that hangs in the kernel has no end.
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

    /// Returns the latest acknowledgement up to an instant.
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
        let mut files = BTreeSet::new();
        for acked in &self.ops {
            files.insert(acked.op.file);
        }
        Vec::from_iter(files)
    }
}

impl Measurement<'_> {
    /// Makes each event, until the target is gone or it is to stop.
    pub fn measure_events(&self) -> Result<Vec<MeasuredEvent>, DurabilityError> {
        let mut events = Vec::new();
        let mut folders = 0..;
        for arranged in &self.request.events {
            if !self.repeat_event(arranged, &mut folders, &mut events)? {
                break;
            }
        }
        Ok(events)
    }

    /// Makes an event as often as is needed, and adds its findings; returns whether to go on.
    ///
    /// A crash takes the last write only of the promise that it was made under. So the first one is
    /// made while ops are in flight under all promises, and the others when everything was
    /// acknowledged, the last write under one promise after the other.
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
                // What was found before stands for itself.
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

    /// Returns the promise that the last write before the next crash is made under: of those that
    /// lost nothing, the one that had the fewest; `None` if all had enough.
    fn next_last(&self, measured: Option<&MeasuredEvent>) -> Option<Durability> {
        let mut next: Option<(u32, Durability)> = None;
        // The strongest promises are the last ones of the list, and tell most.
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

    /// Makes a load and one event, and judges what is there afterwards; `None` where it is to stop
    /// before the event.
    fn measure(
        &self,
        arranged: &ArrangedEvent,
        number: usize,
        last: Option<Durability>,
    ) -> Result<Option<MeasuredEvent>, DurabilityError> {
        let folder = directory_name(&self.campaign, number);
        let promises = self.request.promise_names();
        let ending = match last {
            Some(promise) => format!(", the last write under {promise}"),
            None => String::new(),
        };
        self.report(&format!("{}: writing under {promises}{ending}", arranged.event));
        let begun = DurabilityEvent::DirectoryBegun { name: &folder, target: self.target };
        (self.context.observe)(begun);
        let measured = self.measure_in(&folder, arranged, last);
        // A working directory that can't be removed is named; whatever happened before goes first.
        let removed = self.remove(&folder);
        let is_gone = matches!(&measured, Ok(Some(event)) if event.unverified.is_some());
        let why = match removed {
            Ok(()) if is_gone => "the target is not back".to_owned(),
            Ok(()) => {
                (self.context.observe)(DurabilityEvent::DirectoryRemoved);
                return measured;
            }
            Err(why) => why,
        };
        let target = self.target;
        (self.context.observe)(DurabilityEvent::Warning(&format!(
            "the working directory `{folder}` may be left in {target}: {why}"
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
        // One that still writes goes on at a server that is back; its work ends here.
        client.kill();
        load.note_last(&client);
        drop(client);
        let made_ns =
            made.map_err(|why| DurabilityError::Unusable(format!("{}: {why}", arranged.event)))?;
        let facts = EventFacts {
            event: arranged.event,
            // A command takes its time: what was acknowledged before it was done was so before
            // the event. What is acknowledged while it is undone was so after it.
            at_ns: begun_ns.max(load.last_acked_ns(made_ns)),
            access: access_to(self.target),
        };
        self.report(&format!("{}: done; reading back", arranged.event));
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

    /// The work of the writer; with everything acknowledged before the event if a promise is to
    /// have the last write.
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

    /// Waits until so much was written that the event may be made; returns whether it may.
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
                        "the client process ended early".to_owned(),
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

    /// Reads all files back by a fresh client, again until the target is back.
    ///
    /// # Errors
    /// Why it could not be done in time, in a sentence.
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
        // A system that was set up here is mounted by the plan, and no other one is there.
        let identity = if self.system.is_some() { None } else { Some(load.identity.clone()) };
        let count = files.len();
        let task = Task::ReadBack { files, identity, accepts_unreadable: false };
        let mut job = self.job(folder, task);
        // Why not all could be read while there was time.
        let mut unreadable = None;
        loop {
            let why = match self.run_client(&job, deadline) {
                Ok(found) if found.len() == count => {
                    // Where nothing could be read it is the target that is not back; but a server
                    // that is lost for good may have had all.
                    let is_back = found.iter().any(|file| file.size_bytes.is_some());
                    return match unreadable {
                        Some(why) if !is_back && event != CrashEvent::LoseServer => Err(why),
                        _ => Ok(found),
                    };
                }
                Ok(_) => "the client that reads back ended early".to_owned(),
                Err(why) => why,
            };
            if self.context.stop.load(Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= deadline {
                if unreadable.is_some() {
                    return Err(why);
                }
                // All had their time to come back or to take over. What is unreadable now is lost.
                unreadable = Some(why);
                if let Task::ReadBack { accepts_unreadable, .. } = &mut job.task {
                    *accepts_unreadable = true;
                }
            } else {
                thread::sleep(TICK);
            }
        }
    }

    /// Mounts again, so that nothing is read from what the client's host had in memory: a server
    /// that is not back yet, or a writer that waits for it, is waited for.
    ///
    /// # Errors
    /// Why it could not be done in time, in a sentence.
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

    /// Has a client do a job to its end; returns what it found.
    fn run_client(&self, job: &ClientJob, deadline: Instant) -> Result<Vec<FoundFile>, String> {
        let client = ClientProcess::start(job, self.program).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        // Reading a file has a limit of its own: it begins when the target has begun to answer.
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
