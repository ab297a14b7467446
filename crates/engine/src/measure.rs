//! Runs one pass on a site and puts together what its workers recorded.
//!
//! Every worker opens its backend first; when all are open they start together, at an instant that
//! others may start at, too. The calling thread watches meanwhile and passes on a wish to stop.
//! Windows: `window_ns` spans from the first start to the last end, `common_window_ns` from the
//! last start to the first end.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};

use model::{
    Caveat, ClientResult, CoursePoint, KindResult, Offered, Pass, PassResult, ProcessorWait,
    RunSpec, Scope, Share, Span, Stalls, WarmedUp, Work, panicked,
};
use workload::journal::Safety;
use workload::{Mismatches, OpStream};

use crate::backend::{Calls, Lost, Recovered, Tally};
use crate::beat::{Beat, Beats};
use crate::clock::Clock;
use crate::limits::{AWAKE_NS, VAIN_TIMEOUTS_MAX};
use crate::pace::{Booked, Pace, Timing};
use crate::recorder::Recorder;
use crate::site::{Opened, Site, SiteError};
use crate::thread_io::ThreadIo;
use crate::thread_wait::ThreadTimes;
use crate::touched::Touched;
use crate::watch::{Monitor, Watch, Watched};
use crate::worker::{Ending, Progress, Shared, Worker, WorkerEnd};

/// A measured pass.
pub struct Measured {
    /// Its figures; accounting against the target is left to the caller.
    pub result: PassResult,
    /// How it ended: the worst of the workers' endings.
    pub ending: Ending,
    /// Counts that the backends, or the kernel for them, made.
    pub tally: Tally,
    /// When the workers started and ended.
    pub span: Span,
    /// Progress curve of the workers, where others work at the same moment.
    pub course: Vec<CoursePoint>,
}

struct WorkerReport {
    end: WorkerEnd,
    start_ns: u64,
    end_ns: u64,
    due_span_ns: u64,
    /// Time that it waited for a processor, where the kernel says.
    wait: Option<ProcessorWait>,
    slots: u32,
    tally: Tally,
    clients: Vec<ClientResult>,
    caveats: Vec<Caveat>,
}

/// Runs one pass of some of its workers.
///
/// # Errors
/// When a backend can't be opened, or the gate stays shut; nothing was measured then. When a worker
/// panics, the others stop, and what was measured is no result.
pub fn measure(
    site: &Site,
    spec: &RunSpec,
    pass: Pass,
    share: Share,
    seed: u64,
    monitor: &mut Monitor<'_>,
) -> Result<Measured, SiteError> {
    let shared = Shared::new(share.count);
    let progress: Vec<Progress> = share.workers().map(|_| Progress::default()).collect();
    let is_booked = spec.soak.is_some() && site.journal().is_some();
    let beats: Vec<Arc<Beat>> =
        share.workers().filter(|_| is_booked).map(|_| Arc::default()).collect();
    let (done, reports) = mpsc::channel();
    let (ready, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        // Where this thread panics, workers that go on for hours would be waited for.
        let _stops = StopsAtPanic(&shared);
        let mut gates = Vec::with_capacity(progress.len());
        for (index, (worker, progress)) in share.workers().zip(&progress).enumerate() {
            let beat = beats.get(index).cloned();
            let (gate, start) = mpsc::channel::<u64>();
            let shared = &shared;
            let (done, ready) = (done.clone(), ready.clone());
            let work = move || {
                let opened = guarded(worker, shared, || {
                    let opened = Ready::new(site, spec, pass, worker, seed)?;
                    Ok(opened.booking(site, spec, worker, beat))
                });
                // Whoever can't be told is gone, and then the gate is closed too.
                let _ = ready.send(opened.is_ok());
                drop(ready);
                let begun_ns = start.recv().ok();
                let report = guarded(worker, shared, || {
                    let ready = opened?;
                    let begun_ns = begun_ns.ok_or(SiteError::Stopped)?;
                    let part = Part { clock: site.clock().as_ref(), spec, pass, shared, progress };
                    Ok(ready.run(&part, begun_ns))
                });
                let _ = done.send(report);
            };
            // Gates that are dropped let nobody pass: those that did start go home.
            std::thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn_scoped(scope, work)
                .map_err(|error| SiteError::Threads(share.count, error.to_string()))?;
            gates.push(gate);
        }
        drop((done, ready));
        let all_opened = arrivals.iter().filter(|opened| *opened).count() == gates.len();
        (monitor.opened)();
        let start_ns = if all_opened { (monitor.gate)() } else { None };
        let clock = site.clock().as_ref();
        let begun_ns = clock.now_ns().max(start_ns.unwrap_or(0));
        let follows = share.count < spec.workers;
        let beats = is_booked.then(|| Beats::new(beats, site.journal().cloned()));
        let watch = Watch::new(clock, &progress, spec, begun_ns, monitor).with_beats(beats);
        let watch = if follows { watch.with_course() } else { watch };
        if start_ns.is_some() {
            for gate in &gates {
                let _ = gate.send(begun_ns);
            }
        }
        drop(gates);
        let (reports, watched) = collect(&reports, progress.len(), watch, monitor, &shared);
        assemble(reports, spec, pass, watched)
    })
}

/// Does a worker's part. A panic of it is its error, and the other workers of the pass stop: none
/// of them waits for one that is gone.
fn guarded<T>(
    worker: u32,
    shared: &Shared,
    part: impl FnOnce() -> Result<T, SiteError>,
) -> Result<T, SiteError> {
    panicked::catch(part).unwrap_or_else(|panicked| {
        shared.stop.store(true, Relaxed);
        Err(SiteError::Panicked { worker, panicked })
    })
}

/// Has all workers stop when the thread that watches them unwinds.
struct StopsAtPanic<'a>(&'a Shared);

impl Drop for StopsAtPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Relaxed);
        }
    }
}

/// The parts from which a worker makes its part of a pass.
struct Part<'a> {
    clock: &'a dyn Clock,
    spec: &'a RunSpec,
    pass: Pass,
    /// State that all workers of the pass share.
    shared: &'a Shared,
    /// Counter in which this one stores what it has done.
    progress: &'a Progress,
}

/// A worker that has all it needs and waits for the start.
struct Ready {
    opened: Opened,
    recorder: Recorder,
    stream: OpStream,
    pace: Option<Pace>,
    touched: Option<Touched>,
}

impl Ready {
    fn new(
        site: &Site,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        seed: u64,
    ) -> Result<Self, SiteError> {
        let opened = site.open(spec, pass, worker)?;
        let recorder = Recorder::new(pass.kinds());
        let stream = OpStream::new(spec, pass, worker, seed).scheduled_by(site.schedule_seed());
        let pace = Pace::new(spec, &stream, opened.queue_depth);
        let touched = Touched::new(spec, pass, seed);
        Ok(Self { opened, recorder, stream, pace, touched })
    }

    /// Has what a soak acknowledges booked, and what it does lately counted.
    fn booking(self, site: &Site, spec: &RunSpec, worker: u32, beat: Option<Arc<Beat>>) -> Self {
        let Some((journal, beat)) = site.journal().cloned().zip(beat) else { return self };
        let safety = if spec.answers_safe() { Safety::OnStorage } else { Safety::Uncommitted };
        let booked = Booked { journal, beat, safety, worker, workers: spec.workers };
        Self { pace: Some(Pace::booking(self.pace, booked, self.opened.queue_depth)), ..self }
    }

    /// Does the worker's part of the pass from `begun_ns` on.
    fn run(self, part: &Part<'_>, begun_ns: u64) -> WorkerReport {
        let Part { clock, spec, pass, shared, progress } = *part;
        let Opened { mut backend, caveats, queue_depth, kernel_counts, .. } = self.opened;
        // Not before: what it and its group waited for until all were ready is no part of the pass.
        let times_before = ThreadTimes::now();
        // Reading those is itself counted by what follows, which stays next to the ops.
        let io_before = kernel_counts.then(ThreadIo::now).flatten();
        let is_early = clock.now_ns() < begun_ns;
        if self.pace.is_some() || is_early {
            // Sleeps end when they should, not up to 50 us later; where refused, they don't.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        if is_early {
            wait_until(clock, begun_ns);
        }
        let started_ns = clock.now_ns();
        let timing = Timing::of(spec, pass, started_ns).counting_as_one(begun_ns);
        let worker = Worker {
            stream: self.stream,
            backend: backend.as_mut(),
            recorder: self
                .recorder
                .counting_from(timing.counts_since())
                .in_time_before(timing.deadline_ns),
            shared,
            progress,
            timing,
            clock,
            pace: self.pace,
            touched: self.touched,
            queue_depth,
            vain_max_ns: spec.timeout_ms.saturating_mul(1_000_000 * u64::from(VAIN_TIMEOUTS_MAX)),
        };
        let mut end = worker.run();
        if end.ending == Ending::Complete
            && spec.closes_in_time()
            && let Err(Lost(reason)) = backend.close(&shared.stop)
        {
            let is_stopped = shared.stop.load(Relaxed);
            end.ending = if is_stopped { Ending::Stopped } else { Ending::Lost(reason) };
        }
        let end_ns = clock.now_ns();
        // A pass that warmed up and never got further has a window of nothing.
        let start_ns = timing.counts_ns.min(end_ns);
        let mut tally = backend.tally();
        if let Some((before, after)) = io_before.zip(ThreadIo::now()) {
            let (read_bytes, write_bytes) = after.since(before);
            (tally.read_bytes, tally.write_bytes) = (Some(read_bytes), Some(write_bytes));
        }
        let of_ns = end_ns - started_ns;
        let times = times_before.zip(ThreadTimes::now());
        let due_span_ns = timing.due_span_ns(end.recorder.due().1);
        WorkerReport {
            end,
            start_ns,
            end_ns,
            due_span_ns,
            wait: times.map(|(before, after)| after.kept_since(before, of_ns)),
            slots: queue_depth as u32,
            tally,
            clients: backend.clients(),
            caveats,
        }
    }
}

/// Waits for an instant: asleep, and awake for the last of it.
fn wait_until(clock: &dyn Clock, instant_ns: u64) {
    while clock.now_ns().saturating_add(AWAKE_NS) < instant_ns {
        clock.sleep_until(instant_ns - AWAKE_NS);
    }
    while clock.now_ns() < instant_ns {
        std::hint::spin_loop();
    }
}

type Reports = Vec<Result<WorkerReport, SiteError>>;

/// Collects the workers' reports, and watches until all have reported.
fn collect(
    incoming: &mpsc::Receiver<Result<WorkerReport, SiteError>>,
    workers: usize,
    mut watch: Watch<'_>,
    monitor: &mut Monitor<'_>,
    shared: &Shared,
) -> (Reports, Watched) {
    let mut reports = Vec::with_capacity(workers);
    while reports.len() < workers {
        match incoming.recv_timeout(watch.until_next()) {
            Ok(report) => reports.push(report),
            Err(RecvTimeoutError::Timeout) => watch.look(monitor),
            // A worker that panics reports that, so this is not to be; the scope says what was.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if monitor.stop.is_set() {
            shared.stop.store(true, Relaxed);
        }
    }
    (reports, watch.end(monitor))
}

/// Summarizes the facts of every pass, before the workers' parts are added.
fn scope(rate_per_s: u64, reports: &[WorkerReport], stalls: Option<Stalls>) -> Scope {
    let all_waits_known = reports.iter().all(|report| report.wait.is_some());
    Scope {
        offered: (rate_per_s > 0).then(|| Offered { rate_per_s, ..Offered::default() }),
        stalls,
        common: Some(Work::default()),
        processor_wait: all_waits_known.then(ProcessorWait::default),
        ..Scope::default()
    }
}

fn assemble(
    reports: Reports,
    spec: &RunSpec,
    pass: Pass,
    watched: Watched,
) -> Result<Measured, SiteError> {
    let (good, bad): (Vec<_>, Vec<_>) = reports.into_iter().partition(Result::is_ok);
    let mut errors = bad.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    // What went wrong first says more than what was stopped for it, and a bug says most.
    errors.sort_by_key(|error| match error {
        SiteError::Panicked { .. } => 0,
        SiteError::Stopped => 2,
        _ => 1,
    });
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let reports: Vec<WorkerReport> = good.into_iter().filter_map(Result::ok).collect();
    let first_start = reports.iter().map(|r| r.start_ns).min().unwrap_or(0);
    let last_start = reports.iter().map(|r| r.start_ns).max().unwrap_or(0);
    let first_end = reports.iter().map(|r| r.end_ns).min().unwrap_or(0);
    let last_end = reports.iter().map(|r| r.end_ns).max().unwrap_or(0);
    let mut measured = Measured {
        result: PassResult {
            window_ns: last_end - first_start,
            common_window_ns: first_end.saturating_sub(last_start),
            first_done_ns: first_end - first_start,
            start_skew_ns: last_start - first_start,
            client_cpu_ns: watched.client_cpu_ns,
            samples: watched.samples,
            pulses: watched.pulses,
            scope: scope(spec.load.rate_per_s, &reports, watched.stalls),
            ..PassResult::new(pass)
        },
        ending: Ending::Complete,
        tally: Tally::default(),
        span: Span {
            first_start_ns: first_start,
            last_start_ns: last_start,
            first_end_ns: first_end,
            last_end_ns: last_end,
        },
        course: watched.course,
    };
    measured.tally = Tally {
        ops: reports.iter().map(|report| report.tally.ops).sum(),
        read_bytes: reports.iter().map(|report| report.tally.read_bytes).sum(),
        write_bytes: reports.iter().map(|report| report.tally.write_bytes).sum(),
        recovered: Recovered::default(),
        mismatches: Mismatches::default(),
        calls: reports.first().and_then(|report| report.tally.calls).map(|_| Calls::default()),
    };
    let mut touched: Option<Touched> = None;
    for mut report in reports {
        match (&mut touched, report.end.touched.take()) {
            (Some(all), Some(more)) => all.merge(&more),
            (all, more) => *all = all.take().or(more),
        }
        if let Some((sum, calls)) = measured.tally.calls.as_mut().zip(report.tally.calls) {
            sum.add(&calls);
        }
        measured.tally.recovered.add(&report.tally.recovered);
        measured.tally.mismatches.merge(&report.tally.mismatches);
        measured.add(report);
    }
    measured.result.scope.working_set = touched.map(|touched| touched.working_set());
    measured.result.clients.sort_by_key(|client| client.client);
    Ok(measured)
}

impl Measured {
    fn add(&mut self, report: WorkerReport) {
        self.result.first_done_ops += report.end.first_done.ops;
        self.result.first_done_bytes += report.end.first_done.bytes;
        let scope = &mut self.result.scope;
        scope.slots += report.slots;
        if let Some(common) = &mut scope.common {
            common.add(report.end.common);
        }
        if let Some((all, wait)) = scope.processor_wait.as_mut().zip(report.wait) {
            all.add(wait);
        }
        if let Some(offered) = &mut scope.offered {
            offered.due_ops += report.end.recorder.due().0 + report.end.unanswered;
            offered.late_ops += report.end.recorder.late();
            offered.unanswered_ops += report.end.unanswered;
            offered.span_ns = offered.span_ns.max(report.due_span_ns);
        }
        WarmedUp::merge_all(&mut scope.warmup, &report.end.recorder.warmup());
        KindResult::merge_all(&mut self.result.kinds, report.end.recorder.finish());
        self.result.clients.extend(report.clients);
        for caveat in report.caveats {
            if !self.result.caveats.contains(&caveat) {
                self.result.caveats.push(caveat);
            }
        }
        if severity(&report.end.ending) > severity(&self.ending) {
            self.ending = report.end.ending;
        }
    }
}

const fn severity(ending: &Ending) -> u8 {
    match ending {
        Ending::Complete => 0,
        Ending::Stopped => 1,
        Ending::TooManyErrors => 2,
        Ending::Lost(_) => 3,
    }
}
