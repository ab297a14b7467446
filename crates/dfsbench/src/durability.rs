//! `dfsbench durability`: what a server or file system keeps of what it acknowledged.
//!
//! For each event that was named: a client process writes under each promise and reports what is
//! acknowledged, the event is made and undone, a fresh client process reads everything back, and
//! [`stats::durability`] judges. The journal of acknowledgements is in this process, which no event
//! touches. The findings go to stdout and into the results file.

mod client;
mod events;
mod files;
mod keep;
mod protocol;
mod request;
mod set_up;
mod writer;

use std::collections::BTreeSet;
use std::ops::RangeFrom;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use model::durability::{
    AckedOp, CrashEvent, DurabilityReport, FoundFile, MeasuredEvent, TestFile,
};
use model::work::directory_name;
use model::{Campaign, CampaignState, Durability, Target};
use report::Format;
use stats::durability::{EventFacts, judge_event, last_writer, tiers};

use crate::agents::HostProgram;
use crate::args::DurabilityArgs;
use crate::calendar::token;
use crate::embedded::{self, Embedded};
use crate::exit::{End, Failure};
use crate::output::Printable;
use crate::{campaign, foreign_folder, leftovers, output, render, signals};

pub use client::run as run_client;

use events::{Arranged, Means, SystemMeans, run_shell};
use keep::Keeper;
use protocol::{Client, Job, Message, Task, now_ns};
use request::{Request, access_to};
use set_up::Found;

/// How long a message is waited for before the stop flag is checked.
const TICK: Duration = Duration::from_millis(50);

/// How long the last messages of a client that was killed may take.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// Rounds while the event is made, for each one before it: a writer that is never stopped does not
/// fill its target.
const ROUNDS_DURING_EVENT: u32 = 20;

/// Reading one file back may take so many times the limit of one call.
const READ_BACK_CALLS: u32 = 10;

/// Measures what the arguments name.
///
/// # Errors
/// When it can't be measured as was requested.
pub fn run(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    let mut request = Request::read(args)?;
    request.plan.check_destroy(&args.allow_destroy)?;
    let mut keeper = Keeper::find(args, &request)?;
    let stop = signals::stop_flag()?;
    // Each is kept as soon as it is there: one of the next may hang, and be given up.
    let mut keep = |found: &Found| match &found.report {
        // What was interrupted before any event says nothing of the contender.
        Ok(report) if !report.events.is_empty() => keeper.store(&found.contender, report),
        _ => Ok(()),
    };
    let found = if request.sets_up() {
        set_up::measure_all(args, &request, &stop, &mut keep)?
    } else {
        let contender = args.contender.clone().unwrap_or_default();
        let report = Ok(measure_one(args, &mut request, &stop)?);
        let found = Found { contender, report };
        keep(&found)?;
        vec![found]
    };
    let mut reports = Vec::new();
    let mut is_complete = found.len() == request.subjects.len() && !stop.load(Relaxed);
    for Found { report, .. } in found {
        let Ok(report) = report else {
            is_complete = false;
            continue;
        };
        is_complete &= report.events.len() == request.events.len() && report.is_clean();
        reports.push(report);
    }
    let is_stopped = stop.load(Relaxed);
    let state = if is_stopped { CampaignState::Interrupted } else { CampaignState::Complete };
    let stored = keeper.finish(state, args.format)?;
    print_findings(args, &reports, stored.as_ref())?;
    if is_stopped {
        output::message("interrupted: the table contains only what was measured");
    }
    Ok(if is_complete { End::Ok } else { End::Invalid }.into())
}

/// Prints the findings, and where they are stored.
fn print_findings(
    args: &DurabilityArgs,
    reports: &[DurabilityReport],
    stored: Option<&Campaign>,
) -> Result<(), Failure> {
    let text = match stored {
        Some(campaign) if args.format == Format::Html => report::render(campaign, Format::Html),
        _ => {
            let screen = output::screen(report::Extent::Whole);
            report::render_durability(reports, args.format, screen)
        }
    };
    output::print(&Printable::report(&text, args.format))?;
    // A campaign that was named has its outputs already.
    let Some(campaign) = stored.filter(|_| args.campaign.is_none()) else { return Ok(()) };
    let (results, page) = (&args.results, campaign::page_path(&args.results));
    campaign::write_page(&page, results, campaign)?;
    let summary = format!("results: {}\npage:    {}", results.display(), page.display());
    if args.format == Format::Table {
        let next = render::next_line(campaign, results);
        output::text(&format!("\n{summary}\n{next}"))?;
    } else if !args.quiet {
        output::message(&summary);
    }
    Ok(())
}

/// Measures the one target that was named.
fn measure_one(
    args: &DurabilityArgs,
    request: &mut Request,
    stop: &AtomicBool,
) -> Result<DurabilityReport, Failure> {
    let embedded = embedded::start(&request.plan)?;
    if let Some(embedded) = &embedded {
        embedded.set_addresses(&mut request.plan);
        request.subjects[0].spec = request.plan.runs[0].clone();
    }
    let token = token();
    let campaign = controller::campaign_name(token);
    foreign_folder::warn_beside(&args.results);
    foreign_folder::warn_of_targets(&request.plan.runs);
    leftovers::warn(&args.results, &request.plan.runs);
    let _record = leftovers::Record::begin(&args.results, &campaign, &request.plan.runs, None)?
        .map(|record| record.with_index(&args.results));
    let target = &request.subjects[0].spec.target;
    let measurement = Measurement {
        request,
        target,
        program: &HostProgram::Here,
        embedded: embedded.as_ref(),
        system: None,
        stop,
        token,
        campaign,
    };
    let events = measurement.measure_events()?;
    Ok(report_of(request, target.to_string(), target, events))
}

/// Puts the findings about a target together.
fn report_of(
    request: &Request,
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
struct Measurement<'a> {
    request: &'a Request,
    target: &'a Target,
    /// The program on the host of the clients.
    program: &'a HostProgram<'a>,
    embedded: Option<&'a Embedded>,
    /// The means of the system, where the plan has set it up.
    system: Option<SystemMeans<'a>>,
    stop: &'a AtomicBool,
    token: u64,
    campaign: String,
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
    fn note(&mut self, message: Message) {
        match message {
            Message::Opened { identity } => self.identity = identity,
            Message::Sent(op) => self.ops.push(AckedOp { op, acked_ns: None }),
            Message::Acked { ops, at_ns } => {
                for id in ops {
                    if let Some(acked) = self.ops.get_mut(id) {
                        acked.acked_ns = Some(at_ns);
                    }
                }
            }
            Message::Ready => self.is_ready = true,
            Message::Done => self.is_done = true,
            Message::Failed(why) => self.failed = Some(why),
            Message::Found(_) => {}
        }
    }

    /// Notes all that a client has sent until now.
    fn note_sent(&mut self, client: &Client) {
        while let Ok(Some(message)) = client.receive(Duration::ZERO) {
            self.note(message);
        }
    }

    /// Notes what a client has sent that was killed; one that hangs in the kernel has no end.
    fn note_last(&mut self, client: &Client) {
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
    fn measure_events(&self) -> Result<Vec<MeasuredEvent>, Failure> {
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
        arranged: &Arranged,
        folders: &mut RangeFrom<usize>,
        events: &mut Vec<MeasuredEvent>,
    ) -> Result<bool, Failure> {
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
            if self.stop.load(Relaxed) {
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
        arranged: &Arranged,
        number: usize,
        last: Option<Durability>,
    ) -> Result<Option<MeasuredEvent>, Failure> {
        let folder = directory_name(&self.campaign, number);
        let promises = self.request.promise_names();
        let ending = match last {
            Some(promise) => format!(", the last write under {promise}"),
            None => String::new(),
        };
        self.report(&format!("{}: writing under {promises}{ending}", arranged.event));
        signals::note_directory(&folder, self.target);
        let measured = self.measure_in(&folder, arranged, last);
        // A working directory that can't be removed is named; whatever happened before goes first.
        let removed = self.remove(&folder);
        let is_gone = matches!(&measured, Ok(Some(event)) if event.unverified.is_some());
        let why = match removed {
            Ok(()) if is_gone => "the target is not back".to_owned(),
            Ok(()) => {
                signals::forget_directory();
                return measured;
            }
            Err(why) => why,
        };
        let target = self.target;
        output::message(&format!(
            "warning: the working directory `{folder}` may be left in {target}: {why}"
        ));
        measured
    }

    fn measure_in(
        &self,
        folder: &str,
        arranged: &Arranged,
        last: Option<Durability>,
    ) -> Result<Option<MeasuredEvent>, Failure> {
        let mut load = Load::default();
        let mut client = Client::start(&self.job(folder, self.write_task(last)), self.program)?;
        if !self.await_load(&client, &mut load)? {
            return Ok(None);
        }
        let begun_ns = now_ns();
        let means = Means { embedded: self.embedded, system: self.system };
        let made = arranged.make(means, &mut || client.kill());
        // One that still writes goes on at a server that is back; its work ends here.
        client.kill();
        load.note_last(&client);
        drop(client);
        let made_ns = made.map_err(|why| Failure::Lab(format!("{}: {why}", arranged.event)))?;
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
        let Request { promises, rounds, idle, .. } = self.request;
        let during = if idle.is_some() || last.is_some() { 0 } else { ROUNDS_DURING_EVENT };
        let mut promises = promises.clone();
        if let Some(last) = last {
            promises.retain(|promise| *promise != last);
            promises.push(last);
        }
        Task::Write { promises, rounds: rounds.saturating_mul(1 + during), event_after: *rounds }
    }

    /// Waits until so much was written that the event may be made; returns whether it may.
    fn await_load(&self, client: &Client, load: &mut Load) -> Result<bool, Failure> {
        while !load.is_ready && !load.is_done {
            if self.stop.load(Relaxed) {
                return Ok(false);
            }
            match client.receive(TICK) {
                Ok(Some(message)) => load.note(message),
                Ok(None) => {}
                Err(_) => return Err(Failure::Lab("the client process exited early".to_owned())),
            }
            if let Some(why) = &load.failed {
                let target = self.target;
                return Err(Failure::Lab(format!("{target}: {why}")));
            }
        }
        if let Some(idle) = self.request.idle {
            let until = Instant::now() + idle;
            while Instant::now() < until {
                if self.stop.load(Relaxed) {
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
                Ok(_) => "the verifying client exited early".to_owned(),
                Err(why) => why,
            };
            if self.stop.load(Relaxed) {
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
    fn mount_again(&self, system: &SystemMeans<'_>, deadline: Instant) -> Result<(), String> {
        loop {
            let Err(why) = (system.mount_again)() else { return Ok(()) };
            if self.stop.load(Relaxed) {
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
    fn run_client(&self, job: &Job, deadline: Instant) -> Result<Vec<FoundFile>, String> {
        let client = Client::start(job, self.program).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        // Reading a file has a limit of its own: it begins when the target has begun to answer.
        let file_limit = self.request.timeout * READ_BACK_CALLS;
        let mut deadline = deadline.max(Instant::now() + file_limit);
        loop {
            match client.receive(TICK) {
                Ok(Some(Message::Found(file))) => {
                    found.push(file);
                    deadline = deadline.max(Instant::now() + file_limit);
                }
                Ok(Some(Message::Failed(why))) => return Err(why),
                Ok(Some(Message::Done)) | Err(_) => return Ok(found),
                Ok(_) if Instant::now() >= deadline => {
                    return Err("the target does not answer".to_owned());
                }
                Ok(_) => {}
            }
        }
    }

    fn job(&self, folder: &str, task: Task) -> Job {
        Job {
            target: self.target.clone(),
            folder: folder.to_owned(),
            campaign: self.token,
            campaign_name: self.campaign.clone(),
            timeout_ms: self.request.timeout.as_millis() as u64,
            task,
        }
    }

    fn report(&self, line: &str) {
        if !self.request.is_quiet {
            output::message(line);
        }
    }
}
