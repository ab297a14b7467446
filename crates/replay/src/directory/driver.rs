//! Executes the steps of a plan with system calls on a directory.
//!
//! One thread manages the schedule and the names and hands each step to a thread that makes the
//! call. If no thread is free, the step waits. This counts as the file system's fault, just as a
//! full connection counts as the server's. Nothing is allocated while steps are issued: jobs, paths
//! and slots for open files are passed back and forth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use engine::Clock;
use nfs_client::proto::Status;

use super::call::{Caller, Handle, Job, JobDone, status_of};
use super::places::{Places, is_plain};
use crate::action::Action;
use crate::lanes::{Lanes, Pace, Start};
use crate::recorder::{Recorder, StepOutcome, Times};
use crate::step::{Batch, Step};
use crate::tree::{DirectoryEntry, NONE};

/// How often we check whether the user wants to stop.
const TICK_NS: u64 = 100_000_000;

/// The open files and listings of a replay.
#[derive(Debug)]
pub(crate) struct Opens {
    /// The open file of each object.
    pub objects: Vec<Option<Handle>>,
    /// The open file of each slot.
    pub slots: Vec<Option<Handle>>,
    /// Position at which to continue each listing.
    pub cookies: Vec<u64>,
    /// Free slots for open files.
    pub free: Vec<Handle>,
    /// Files to close.
    pub surplus: Vec<Handle>,
}

impl Opens {
    /// Creates the tables with `places` slots for open files.
    pub(crate) fn new(objects: usize, slots: usize, places: usize) -> Self {
        let free: Vec<_> = (0..places).map(|_| Arc::new(None)).collect();
        Self {
            objects: vec![None; objects],
            slots: vec![None; slots],
            cookies: vec![0; slots],
            free,
            surplus: Vec::with_capacity(places),
        }
    }

    fn of_step(&self, step: &Step) -> Option<&Handle> {
        let of_slot = self.slots.get(step.slot as usize).and_then(Option::as_ref);
        of_slot.or_else(|| self.objects.get(step.file as usize)?.as_ref())
    }
}

/// A thread that waits for work.
#[derive(Debug)]
pub(crate) struct IdleWorker {
    pub worker: usize,
    pub job: Box<Job>,
}

/// The schedule, names and threads of a replay.
pub(crate) struct Driver<'a> {
    pub batch: &'a Batch,
    pub names: &'a [String],
    pub pace: Pace,
    pub clock: &'a dyn Clock,
    pub stop: &'a AtomicBool,
    pub places: &'a mut Places,
    pub opens: &'a mut Opens,
    pub recorder: &'a mut Recorder,
    /// Channel to each thread.
    pub workers: Vec<SyncSender<Box<Job>>>,
    pub idle: Vec<IdleWorker>,
    /// Clients that wait for a thread.
    pub held: Vec<u32>,
    pub is_held: Vec<bool>,
    pub in_flight: usize,
    /// Number of renames started plus number of renames finished.
    pub renames: u64,
    pub(crate) renames_in_flight: usize,
    /// Number of system calls made.
    pub calls: u64,
}

/// Why a step makes no system call.
enum StepRefusal {
    /// Its file is gone.
    Gone,
    /// Its file was never found, or its name is too long or leads out of its directory.
    Impossible,
}

impl Driver<'_> {
    /// Executes the batch. Returns early if the user wants to stop.
    pub(crate) fn run(&mut self, done: &Receiver<JobDone>) {
        let begin_ns = self.clock.now_ns();
        self.recorder.begin_ns = begin_ns;
        let batch = self.batch;
        let mut lanes = Lanes::new(batch, self.pace, begin_ns);
        while lanes.left() > 0 || self.in_flight > 0 {
            if !self.stop.load(Relaxed) {
                self.start_ready(&mut lanes);
                self.close_surplus();
            } else if self.in_flight == 0 {
                return;
            }
            let until_ns = lanes.next_instant_ns().unwrap_or(u64::MAX);
            let wait_ns = until_ns.saturating_sub(self.clock.now_ns()).min(TICK_NS);
            let mut ended = match done.recv_timeout(Duration::from_nanos(wait_ns)) {
                Ok(ended) => Some(ended),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(job) = ended {
                self.end_job(job, &mut lanes);
                ended = done.try_recv().ok();
            }
        }
    }

    fn start_ready(&mut self, lanes: &mut Lanes<'_>) {
        while !self.idle.is_empty()
            && let Some(client) = lanes.pop_ready(self.clock.now_ns())
        {
            loop {
                let now_ns = self.clock.now_ns();
                let Some(start) = lanes.next_step(client, now_ns, !self.idle.is_empty()) else {
                    break;
                };
                self.start_step(start, now_ns, lanes);
            }
            if self.idle.is_empty() && !self.is_held[client as usize] {
                self.is_held[client as usize] = true;
                self.held.push(client);
            }
        }
    }

    fn start_step(&mut self, start: Start, now_ns: u64, lanes: &mut Lanes<'_>) {
        let step = self.batch.steps[start.step as usize];
        let Some(mut idle) = self.idle.pop() else { return };
        idle.job.start = Some(start);
        match self.fill(&mut idle.job, &step) {
            Ok(()) => {
                self.recorder.record_issue(&step);
                self.send(idle);
            }
            Err(refusal) => {
                self.idle.push(idle);
                if matches!(refusal, StepRefusal::Gone) {
                    self.recorder.record_issue(&step);
                    self.recorder.start(&start, now_ns);
                    let Start { scheduled_ns, .. } = start;
                    let times = Times { scheduled_ns, started_ns: now_ns, done_ns: now_ns };
                    let ended = StepOutcome::Status(Status::Stale.number());
                    self.recorder.end(start.step, &step, &times, ended, 0);
                } else {
                    self.recorder.skip(&step);
                }
                lanes.end_step(start.step, now_ns);
            }
        }
    }

    fn send(&mut self, mut idle: IdleWorker) {
        self.in_flight += 1;
        idle.job.renames = self.renames;
        if idle.job.action == Action::Rename {
            self.renames += 1;
            self.renames_in_flight += 1;
        }
        // The thread receives jobs until this side hangs up.
        let _ = self.workers[idle.worker].send(idle.job);
    }

    /// Hands files that are no longer needed to idle threads for closing.
    fn close_surplus(&mut self) {
        while !self.idle.is_empty()
            && let Some(handle) = self.opens.surplus.pop()
            && let Some(mut idle) = self.idle.pop()
        {
            idle.job.start = None;
            idle.job.action = Action::Close;
            idle.job.close = Some(handle);
            self.send(idle);
        }
    }

    fn fill(&mut self, job: &mut Job, step: &Step) -> Result<(), StepRefusal> {
        job.action = step.action;
        let open = if step.action.uses_data() { self.opens.of_step(step) } else { None };
        job.open = open.cloned();
        if job.open.is_none() {
            self.write_paths(job, step)?;
        }
        if let Action::Copy { .. } | Action::Clone { .. } = step.action {
            let written = self.places.write_path(&mut job.other, step.other, None, self.names);
            written.ok_or(StepRefusal::Impossible)?;
        }
        if step.action.opens_file() || (step.action.uses_data() && job.open.is_none()) {
            job.fresh = self.opens.free.pop();
        }
        let slot = step.slot as usize;
        match step.action {
            Action::Close => job.close = self.opens.slots.get_mut(slot).and_then(Option::take),
            Action::Readdir { is_first, .. } | Action::ReaddirPlus { is_first, .. } => {
                let known = self.opens.cookies.get(slot).copied();
                job.cookie = if is_first { 0 } else { known.unwrap_or(0) };
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the paths that a step works on.
    fn write_paths(&self, job: &mut Job, step: &Step) -> Result<(), StepRefusal> {
        if step.action == Action::Close {
            return Ok(());
        }
        if !self.places.is_named(step.file) {
            let is_gone = self.places.is_gone(step.file);
            return Err(if is_gone { StepRefusal::Gone } else { StepRefusal::Impossible });
        }
        let Step { action, file, other, .. } = *step;
        let name = self.names.get(step.name as usize).map(String::as_str);
        let (in_file, in_other) = match action {
            Action::Link => (None, name),
            Action::Rename => (name, self.names.get(step.other_name as usize).map(String::as_str)),
            // A directory is accessible under these two names without a lookup.
            Action::Lookup if matches!(name, Some("." | "..")) => (None, None),
            Action::Getxattr | Action::Setxattr { .. } | Action::Removexattr => {
                let attribute = name.filter(|name| !name.contains('\0'));
                attribute
                    .and_then(|name| job.set_attribute(name))
                    .ok_or(StepRefusal::Impossible)?;
                (None, None)
            }
            _ if action.takes_name() => (name, None),
            _ => (None, None),
        };
        let needs_name = action.takes_name() && !matches!(name, Some("." | ".."));
        let is_unnamed = needs_name && action != Action::Link && in_file.is_none();
        for name in [in_file, in_other].into_iter().flatten() {
            if !is_plain(name) {
                return Err(StepRefusal::Impossible);
            }
        }
        if is_unnamed {
            return Err(StepRefusal::Impossible);
        }
        let places = &*self.places;
        places
            .write_path(&mut job.path, file, in_file, self.names)
            .ok_or(StepRefusal::Impossible)?;
        if matches!(action, Action::Link | Action::Rename) {
            in_other
                .and_then(|name| places.write_path(&mut job.other, other, Some(name), self.names))
                .ok_or(StepRefusal::Impossible)?;
        }
        Ok(())
    }

    fn end_job(&mut self, ended: JobDone, lanes: &mut Lanes<'_>) {
        let JobDone { worker, mut job, started_ns, done_ns, status, bytes, calls } = ended;
        self.in_flight -= 1;
        self.calls += calls;
        if job.action == Action::Rename {
            self.renames += 1;
            self.renames_in_flight -= 1;
        }
        if status == Status::NoEnt.number() && self.may_have_moved(&job) {
            return self.repeat(IdleWorker { worker, job }, lanes, done_ns);
        }
        self.opens.free.extend(job.close.take());
        let fresh = job.fresh.take();
        let start = job.start.take();
        if let Some(start) = start {
            let step = self.batch.steps[start.step as usize];
            if status == 0 {
                self.note_names(&step);
                if let Some(cookie) = self.opens.cookies.get_mut(step.slot as usize) {
                    *cookie = job.cookie;
                }
            }
            self.note_open(&step, fresh);
            self.recorder.start(&start, started_ns);
            let scheduled_ns = match self.pace {
                Pace::Open { .. } => start.scheduled_ns,
                Pace::Closed | Pace::Thinking => started_ns,
            };
            let times = Times { scheduled_ns, started_ns, done_ns };
            self.recorder.end(start.step, &step, &times, StepOutcome::Status(status), bytes);
        }
        self.idle.push(IdleWorker { worker, job });
        if let Some(start) = start {
            lanes.end_step(start.step, done_ns);
        }
        if let Some(client) = self.held.pop() {
            self.is_held[client as usize] = false;
            lanes.free_place(client, done_ns);
        }
    }

    /// Returns true if a step failed to find its file because a directory above it was renamed in
    /// the meantime. In the trace, the file's handle was still valid.
    fn may_have_moved(&self, job: &Job) -> bool {
        let Some(start) = job.start else { return false };
        let is_expected = self.batch.steps[start.step as usize].status == Status::NoEnt.number();
        let was_renamed = self.renames_in_flight > 0 || self.renames != job.renames;
        was_renamed && !is_expected && job.action != Action::Rename
    }

    /// Starts a step again with the current names.
    fn repeat(&mut self, mut idle: IdleWorker, lanes: &mut Lanes<'_>, now_ns: u64) {
        let Some(start) = idle.job.start else { return };
        self.opens.free.extend(idle.job.fresh.take());
        let step = self.batch.steps[start.step as usize];
        if self.fill(&mut idle.job, &step).is_ok() {
            return self.send(idle);
        }
        self.idle.push(idle);
        self.recorder.start(&start, now_ns);
        let Start { scheduled_ns, .. } = start;
        let times = Times { scheduled_ns, started_ns: now_ns, done_ns: now_ns };
        let ended = StepOutcome::Status(Status::NoEnt.number());
        self.recorder.end(start.step, &step, &times, ended, 0);
        lanes.end_step(start.step, now_ns);
    }

    /// Keeps the file that a step has opened, or returns its slot.
    fn note_open(&mut self, step: &Step, fresh: Option<Handle>) {
        let Some(fresh) = fresh else { return };
        if fresh.is_none() {
            return self.opens.free.push(fresh);
        }
        let opens_file = step.action.opens_file();
        let has_result = opens_file && !matches!(step.action, Action::OpenHandle(_));
        let object = if has_result { step.result } else { step.file };
        let place = match self.opens.slots.get_mut(step.slot as usize) {
            Some(place) if opens_file => Some(place),
            _ => self.opens.objects.get_mut(object as usize),
        };
        match place {
            // Two steps may have opened it at the same time. If the file was created again, the old
            // one is a different file.
            Some(place) => self.opens.surplus.extend(place.replace(fresh)),
            None => self.opens.surplus.push(fresh),
        }
    }

    /// Updates the names that a step has created, moved or removed.
    fn note_names(&mut self, step: &Step) {
        let Step { action, file, other, result, name, other_name, .. } = *step;
        let place = DirectoryEntry { dir: file, name };
        let is_plain_name = self.names.get(name as usize).is_some_and(|name| is_plain(name));
        let gone = match action {
            Action::Remove | Action::Rmdir => self.places.unbind(place),
            Action::Rename => {
                self.places.rename(place, DirectoryEntry { dir: other, name: other_name })
            }
            Action::Link if is_plain_name => {
                self.places.bind(DirectoryEntry { dir: other, name }, file);
                None
            }
            Action::Lookup | Action::Open(_) if result != NONE && is_plain_name => {
                self.places.bind(place, result);
                None
            }
            _ if action.makes_object() && result != NONE => {
                self.places.bind(place, result);
                None
            }
            _ => None,
        };
        let Some(object) = gone else { return };
        if let Some(open) = self.opens.objects.get_mut(object as usize)
            && open.as_ref().is_some_and(|open| Arc::strong_count(open) == 1)
        {
            self.opens.surplus.extend(open.take());
        }
    }
}

/// Executes jobs until the driver hangs up.
pub(crate) fn serve(
    worker: usize,
    mut caller: Caller<'_>,
    clock: &dyn Clock,
    jobs: &Receiver<Box<Job>>,
    done: &SyncSender<JobDone>,
) {
    for mut job in jobs {
        let calls_before = caller.calls;
        let started_ns = clock.now_ns();
        let result = caller.perform(&mut job);
        if let Some(place) = job.close.as_mut().and_then(Arc::get_mut) {
            *place = None;
        }
        let done_ns = clock.now_ns();
        job.open = None;
        let (status, bytes) = match result {
            Ok(bytes) => (0, bytes),
            Err(error) => (status_of(error), 0),
        };
        let calls = caller.calls - calls_before;
        let ended = JobDone { worker, job, started_ns, done_ns, status, bytes, calls };
        if done.send(ended).is_err() {
            return;
        }
    }
}
