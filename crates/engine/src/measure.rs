//! Runs a pass on a target and combines what its workers recorded.
//!
//! All workers open their backends before they start together, possibly at a time at which other
//! hosts start, too. The calling thread watches them and forwards a stop request. `window_ns` is
//! the time from the first start to the last end, `common_window_ns` the time from the last start
//! to the first end.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};

use model::{
    Caveat, ClientResult, FrameDelivery, KindResult, OfferedLoad, Pass, PassResult, PathWork,
    PnfsWork, ProcessorWait, RunSpec, Scope, Share, Span, Stalls, TimelinePoint, WarmedUp, Work,
    WorkerTime, panicked,
};
use workload::OpStream;
use workload::journal::AckedDurability;

use crate::accelerators::{Accelerators, Reader};
use crate::admission::{Admission, Timing, WorkerJournal};
use crate::backend::{BackendCounts, LostTarget};
use crate::clock::Clock;
use crate::cpus::Cpus;
use crate::intervals::{IntervalCounts, IntervalWatch};
use crate::limits::{AWAKE_NS, VAIN_TIMEOUTS_MAX};
use crate::live_times::LiveTimes;
use crate::recorder::Recorder;
use crate::stonewall::PassState;
use crate::target::{OpenedBackend, TargetError, TrialTarget};
use crate::thread_io::ThreadIo;
use crate::thread_wait::ThreadTimes;
use crate::watch::{Monitor, PassRecords, Watch};
use crate::worker::{Ending, Progress, Worker, WorkerEnd};
use crate::working_set::WorkingSetTracker;

pub struct MeasuredPass {
    /// Its results. Checking them against the target is up to the caller.
    pub result: PassResult,
    /// How it ended, which is the worst ending of any worker.
    pub ending: Ending,
    /// Counts made by the backends, or by the kernel on their behalf.
    pub tally: BackendCounts,
    /// When the workers started and finished.
    pub span: Span,
    /// Progress of the workers over time, if other hosts work at the same time.
    pub timeline: Vec<TimelinePoint>,
    /// Number of ops that each worker did if the pass wore out; some may have had fewer to do.
    pub ops_each: Option<u64>,
}

struct WorkerReport {
    worker: u32,
    end: WorkerEnd,
    start_ns: u64,
    end_ns: u64,
    schedule_span_ns: u64,
    /// Time it waited for a CPU, if the kernel reports it.
    wait: Option<ProcessorWait>,
    slots: u32,
    tally: BackendCounts,
    clients: Vec<ClientResult>,
    paths: Vec<PathWork>,
    pnfs: Option<PnfsWork>,
    caveats: Vec<Caveat>,
}

/// Runs one pass with a share of its workers.
///
/// # Errors
/// If a backend cannot be opened or the start is called off; nothing was measured in that case. If
/// a worker panics, the others stop, and there is no result.
pub fn measure(
    target: &TrialTarget,
    spec: &RunSpec,
    pass: Pass,
    share: Share,
    seed: u64,
    monitor: &mut Monitor<'_>,
) -> Result<MeasuredPass, TargetError> {
    let shared = PassState::new(share.count);
    let mut progress: Vec<Progress> = Vec::new();
    progress.resize_with(share.workers().count(), Progress::default);
    let is_journaled = spec.soak.is_some() && target.journal().is_some();
    let mut intervals: Vec<Arc<IntervalCounts>> = Vec::new();
    if is_journaled {
        intervals.resize_with(progress.len(), Arc::default);
    }
    let accelerators = Accelerators::new(spec, pass, share);
    let (done, reports) = mpsc::channel();
    let (ready, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        // Unwinding joins the workers first, which could run for hours, so make them stop.
        let _stops = StopsAtPanic(&shared);
        let mut gates = Vec::with_capacity(progress.len());
        let cpus = spec.cpus.map(Cpus::last).transpose()?;
        for (index, (worker, progress)) in share.workers().zip(&progress).enumerate() {
            let counts = intervals.get(index).cloned();
            let (gate, start) = mpsc::channel::<u64>();
            let shared = &shared;
            let read_for = accelerators.clone();
            let done = done.clone();
            let ready = ready.clone();
            let work = move || {
                let opened = catch_panic(worker, shared, || {
                    // First of all, so that every thread and ring of the backend inherits it.
                    cpus.map_or(Ok(()), |cpus| cpus.confine_this_thread())?;
                    let shifts = pass == Pass::Restore || spec.layout.uses_next;
                    let files_of = if shifts { next_worker(share, worker) } else { worker };
                    let opened = Ready::new(target, spec, pass, worker, files_of, seed)?;
                    let opened = opened.with_reader(read_for, index);
                    Ok(opened.with_journal(target, spec, worker, counts))
                });
                // If the receiver is gone, the gate was closed, too.
                let times = opened.as_ref().ok().map(|ready| ready.recorder.live_times(pass));
                let _ = ready.send(times);
                drop(ready);
                // Wait even after a failure, so that all workers report after the start has been
                // decided.
                let begun_ns = start.recv().ok();
                let report = catch_panic(worker, shared, || {
                    let ready = opened?;
                    let begun_ns = begun_ns.ok_or(TargetError::Stopped)?;
                    let part = WorkerContext {
                        clock: target.clock().as_ref(),
                        spec,
                        pass,
                        shared,
                        progress,
                    };
                    Ok(WorkerReport { worker, ..ready.run_part(&part, begun_ns) })
                });
                let _ = done.send(report);
            };
            // If its gate is dropped unused, the worker knows that there is no start.
            let thread = std::thread::Builder::new().name(format!("worker-{worker}"));
            if let Err(error) = thread.spawn_scoped(scope, work) {
                return Err(TargetError::Threads(share.count, error.to_string()));
            }
            gates.push(gate);
        }
        // Drop our own senders, so that the receivers notice when all workers have dropped theirs.
        drop((done, ready));
        let opened: Vec<Vec<Arc<LiveTimes>>> = arrivals.into_iter().flatten().collect();
        let all_opened = opened.len() == gates.len();
        // The start gate: all backends are open and all workers are waiting for their channels.
        // From here on, whatever the caller counts (its own facts, the server's counters) belongs
        // to the pass.
        (monitor.opened)();
        let start_ns = if all_opened { (monitor.gate)() } else { None };
        let clock = target.clock().as_ref();
        let begun_ns = clock.now_ns().max(start_ns.unwrap_or(0));
        let follows = share.count < spec.workers;
        let times = opened.into_iter().flatten().collect();
        let mut watch = Watch::new(clock, &progress, times, spec, begun_ns, monitor);
        if is_journaled {
            watch = watch.with_intervals(IntervalWatch::new(intervals, target.journal().cloned()));
        }
        // Other hosts work at the same time, and their timelines will be combined with this one.
        if follows {
            watch = watch.with_timeline();
        }
        if start_ns.is_some() {
            for gate in &gates {
                let _ = gate.send(begun_ns);
            }
        }
        drop(gates);
        let (reports, watched) = collect_reports(&reports, progress.len(), watch, monitor, &shared);
        let reports = sort_reports(reports)?;
        let mut measured = assemble_pass(reports, spec.load.rate_per_s, pass, watched);
        let first_start_ns = measured.span.first_start_ns;
        measured.result.scope.training =
            accelerators.and_then(|accelerators| accelerators.work(first_start_ns));
        if spec.load.wears_out {
            measured.ops_each = shared.wear_out_level();
        }
        Ok(measured)
    })
}

/// Returns the next worker of a share, whose files are used if a checkpoint is restored. Another
/// host's share is rotated by the controller.
fn next_worker(share: Share, worker: u32) -> u32 {
    share.first + (worker - share.first + 1) % share.workers().len().max(1) as u32
}

/// Runs a worker's part and turns a panic into its error. It then stops the other workers of the
/// pass, because they must not wait for one that is gone.
fn catch_panic<T>(
    worker: u32,
    shared: &PassState,
    part: impl FnOnce() -> Result<T, TargetError>,
) -> Result<T, TargetError> {
    match panicked::catch(part) {
        Ok(result) => result,
        Err(panicked) => {
            shared.stop.store(true, Relaxed);
            Err(TargetError::Panicked { worker, panicked })
        }
    }
}

/// Stops all workers if the thread that watches them unwinds.
struct StopsAtPanic<'a>(&'a PassState);

impl Drop for StopsAtPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Relaxed);
        }
    }
}

/// What a worker needs to run its part of a pass.
struct WorkerContext<'a> {
    clock: &'a dyn Clock,
    spec: &'a RunSpec,
    pass: Pass,
    /// State shared by all workers of the pass.
    shared: &'a PassState,
    /// Counter in which this worker stores its progress.
    progress: &'a Progress,
}

/// A worker that has everything it needs and waits for the start.
struct Ready {
    opened: OpenedBackend,
    recorder: Recorder,
    stream: OpStream,
    admission: Option<Admission>,
    working_set: Option<WorkingSetTracker>,
}

impl Ready {
    fn new(
        target: &TrialTarget,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        files_of: u32,
        seed: u64,
    ) -> Result<Self, TargetError> {
        let opened = target.open_files_of(spec, pass, worker, files_of)?;
        let mut recorder = Recorder::new(pass.kinds());
        let stream = OpStream::new(spec, pass, files_of, seed).scheduled_by(target.schedule_seed());
        if !stream.is_open_loop() {
            recorder = recorder.of_closed_loop();
        }
        if let Some(late_after_ns) = spec.late_after_ns(pass) {
            recorder = recorder.overdue_after(late_after_ns);
        }
        let mut admission = Admission::new(spec, &stream, opened.queue_depth);
        if let Some(rewrites) = target.rewrites()
            && pass.is_mix()
        {
            admission = Some(Admission::with_rewrites(admission, Arc::clone(rewrites)));
        }
        let working_set = WorkingSetTracker::new(spec, pass);
        Ok(Self { opened, recorder, stream, admission, working_set })
    }

    /// Adds the accelerators of a training, for which the worker with this index reads.
    fn with_reader(self, accelerators: Option<Arc<Accelerators>>, index: usize) -> Self {
        let Some(accelerators) = accelerators else { return self };
        let reader = Reader::new(accelerators, index);
        Self { admission: Some(Admission::with_reader(self.admission, reader)), ..self }
    }

    /// Adds a soak's journal and interval counts.
    fn with_journal(
        self,
        target: &TrialTarget,
        spec: &RunSpec,
        worker: u32,
        counts: Option<Arc<IntervalCounts>>,
    ) -> Self {
        let (Some(journal), Some(counts)) = (target.journal(), counts) else { return self };
        let journal = Arc::clone(journal);
        let safety = if spec.answers_safe() {
            AckedDurability::OnStorage
        } else {
            AckedDurability::Uncommitted
        };
        let journaled = WorkerJournal { journal, counts, safety, worker, workers: spec.workers };
        Self {
            admission: Some(Admission::with_journal(
                self.admission,
                journaled,
                self.opened.queue_depth,
            )),
            ..self
        }
    }

    /// Runs the worker's part of the pass, starting at `begun_ns`.
    fn run_part(self, part: &WorkerContext<'_>, begun_ns: u64) -> WorkerReport {
        let WorkerContext { clock, spec, pass, shared, progress } = *part;
        let OpenedBackend { mut backend, caveats, queue_depth, kernel_counts, .. } = self.opened;
        // Read these only now, since waiting for others to become ready isn't part of the pass.
        let times_before = ThreadTimes::now();
        // Reading the other counters affects these, so read them last, right before the ops.
        let io_before = if kernel_counts { ThreadIo::now() } else { None };
        let is_early = clock.now_ns() < begun_ns;
        if let Some(reader) = self.admission.as_ref().and_then(Admission::reader) {
            reader.register_thread();
        }
        if self.admission.is_some() || is_early {
            // Makes sleeps end on time rather than up to 50 us later. If it fails, they don't.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        if is_early {
            wait_until(clock, begun_ns);
        }
        let started_ns = clock.now_ns();
        let timing = Timing::new(spec, pass, started_ns).counting_as_one(begun_ns);
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
            admission: self.admission,
            working_set: self.working_set,
            queue_depth,
            vain_max_ns: spec.timeout_ms.saturating_mul(1_000_000 * u64::from(VAIN_TIMEOUTS_MAX)),
            wears_out: spec.load.wears_out,
        };
        let mut end = worker.run();
        if end.ending == Ending::Complete
            && spec.closes_in_time()
            && let Err(LostTarget(reason)) = backend.close(&shared.stop)
        {
            let is_stopped = shared.stop.load(Relaxed);
            end.ending = if is_stopped { Ending::Stopped } else { Ending::Lost(reason) };
        }
        let end_ns = clock.now_ns();
        // A pass that did not get beyond the warm-up has an empty window.
        let start_ns = timing.counts_ns.min(end_ns);
        let mut tally = backend.tally();
        if let (Some(before), Some(after)) = (io_before, ThreadIo::now()) {
            let (read_bytes, write_bytes) = after.since(before);
            // The kernel counts a copy as read and written (`vfs_copy_file_range`).
            let copied_bytes = tally.ranges.copied_bytes;
            tally.read_bytes = Some(read_bytes.saturating_sub(copied_bytes));
            tally.write_bytes = Some(write_bytes.saturating_sub(copied_bytes));
        }
        let of_ns = end_ns - started_ns;
        let wait = match (times_before, ThreadTimes::now()) {
            (Some(before), Some(after)) => Some(after.waited_since(before, of_ns)),
            _ => None,
        };
        let schedule_span_ns = timing.schedule_span_ns(end.recorder.scheduled().1);
        if matches!(end.ending, Ending::Complete | Ending::Stopped) {
            backend.end();
        }
        WorkerReport {
            worker: 0,
            end,
            start_ns,
            end_ns,
            schedule_span_ns,
            wait,
            slots: queue_depth as u32,
            tally,
            clients: backend.clients(),
            paths: backend.paths(),
            pnfs: backend.pnfs_work(),
            caveats,
        }
    }
}

/// Waits until an instant: sleeps until shortly before it, since a sleep may end late, and spins
/// for the rest.
fn wait_until(clock: &dyn Clock, instant_ns: u64) {
    while clock.now_ns().saturating_add(AWAKE_NS) < instant_ns {
        clock.sleep_until(instant_ns - AWAKE_NS);
    }
    while clock.now_ns() < instant_ns {
        std::hint::spin_loop();
    }
}

type Reports = Vec<Result<WorkerReport, TargetError>>;

/// Collects the workers' reports while watching them.
fn collect_reports(
    incoming: &mpsc::Receiver<Result<WorkerReport, TargetError>>,
    workers: usize,
    mut watch: Watch<'_>,
    monitor: &mut Monitor<'_>,
    shared: &PassState,
) -> (Reports, PassRecords) {
    let mut reports = Vec::with_capacity(workers);
    while reports.len() < workers {
        match incoming.recv_timeout(watch.until_next()) {
            Ok(report) => reports.push(report),
            Err(RecvTimeoutError::Timeout) => watch.check(monitor),
            // Can't happen: a worker that panics reports it, and the scope propagates anything
            // else.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if monitor.stop.is_set() {
            shared.stop.store(true, Relaxed);
        }
    }
    (reports, watch.end(monitor))
}

/// Returns the scope of a pass before the workers' parts are added.
fn initial_scope(rate_per_s: u64, reports: &[WorkerReport], stalls: Option<Stalls>) -> Scope {
    let mut scope = Scope { stalls, common: Some(Work::default()), ..Scope::default() };
    if rate_per_s > 0 {
        scope.offered = Some(OfferedLoad { rate_per_s, ..OfferedLoad::default() });
    }
    // A total over only some of the workers would be misleading.
    let knows_wait = !reports.iter().any(|report| report.wait.is_none());
    if knows_wait {
        scope.processor_wait = Some(ProcessorWait::default());
    }
    scope
}

/// Returns the reports of all workers, or else the most informative error. The original failure
/// says more than workers that were stopped because of it, and a panic, which is a bug, says most.
fn sort_reports(reports: Reports) -> Result<Vec<WorkerReport>, TargetError> {
    let mut good = Vec::with_capacity(reports.len());
    let mut worst: Option<TargetError> = None;
    for report in reports {
        match report {
            Ok(report) => good.push(report),
            Err(error) => match &worst {
                Some(known) if error_rank(&error) <= error_rank(known) => {}
                _ => worst = Some(error),
            },
        }
    }
    match worst {
        Some(error) => Err(error),
        None => Ok(good),
    }
}

const fn error_rank(error: &TargetError) -> u8 {
    match error {
        TargetError::Panicked { .. } => 2,
        TargetError::Stopped => 0,
        _ => 1,
    }
}

/// Combines the reports of all workers. A rate of 0 means a closed loop.
fn assemble_pass(
    reports: Vec<WorkerReport>,
    rate_per_s: u64,
    pass: Pass,
    watched: PassRecords,
) -> MeasuredPass {
    let mut first_start = u64::MAX;
    let mut first_end = u64::MAX;
    let mut last_start = 0;
    let mut last_end = 0;
    for report in &reports {
        first_start = first_start.min(report.start_ns);
        last_start = last_start.max(report.start_ns);
        first_end = first_end.min(report.end_ns);
        last_end = last_end.max(report.end_ns);
    }
    if reports.is_empty() {
        first_start = 0;
        first_end = 0;
    }
    let mut rank_times: Vec<(u32, u64)> = Vec::new();
    if pass.is_timed_by_rank() {
        rank_times.extend(reports.iter().map(|it| (it.worker, it.end_ns - first_start)));
        rank_times.sort_unstable();
    }
    let mut measured = MeasuredPass {
        result: PassResult {
            window_ns: last_end - first_start,
            common_window_ns: first_end.saturating_sub(last_start),
            first_done_ns: first_end - first_start,
            start_skew_ns: last_start - first_start,
            client_cpu_ns: watched.client_cpu_ns,
            samples: watched.samples,
            interval_times: watched.interval_times,
            intervals: watched.intervals,
            scope: initial_scope(rate_per_s, &reports, watched.stalls),
            ..PassResult::new(pass)
        },
        ending: Ending::Complete,
        tally: BackendCounts::default(),
        span: Span {
            first_start_ns: first_start,
            last_start_ns: last_start,
            first_end_ns: first_end,
            last_end_ns: last_end,
        },
        timeline: watched.timeline,
        ops_each: None,
    };
    let mut working_set: Option<WorkingSetTracker> = None;
    for (index, mut report) in reports.into_iter().enumerate() {
        if index == 0 {
            measured.tally = std::mem::take(&mut report.tally);
        } else {
            measured.add_tally(&report.tally);
        }
        match (&mut working_set, report.end.working_set.take()) {
            (Some(all), Some(more)) => all.merge(&more),
            (all, more) => *all = all.take().or(more),
        }
        measured.add_report(report);
    }
    measured.result.scope.rank_times_ns = rank_times.into_iter().map(|(_, ns)| ns).collect();
    if let Some(working_set) = working_set {
        measured.result.scope.working_set = Some(working_set.working_set());
    }
    measured.result.clients.sort_by_key(|client| client.client);
    measured
}

impl MeasuredPass {
    /// Adds the counts of a worker's backend. The total number of bytes counted by the kernel is
    /// known only if it is known for every worker.
    fn add_tally(&mut self, tally: &BackendCounts) {
        let all = &mut self.tally;
        all.ops = add_known(all.ops, tally.ops);
        all.read_bytes = add_known(all.read_bytes, tally.read_bytes);
        all.write_bytes = add_known(all.write_bytes, tally.write_bytes);
        if let (Some(sum), Some(calls)) = (&mut all.calls, &tally.calls) {
            sum.add(calls);
        }
        all.recovered.add(tally.recovered);
        all.short_transfers.add(&tally.short_transfers);
        all.mismatches.merge(&tally.mismatches);
        all.syncs_without_commit += tally.syncs_without_commit;
        all.delegated_opens += tally.delegated_opens;
        if let (Some(all), Some(listed)) = (&mut all.listed, &tally.listed) {
            all.add(listed);
        }
        all.bad_reply = all.bad_reply.or(tally.bad_reply);
        all.tcp.add(&tally.tcp);
        all.ranges.add(&tally.ranges);
        if let (Some(sum), Some(wire)) = (&mut all.wire, tally.wire) {
            sum.add(wire);
        }
        if let Some(pnfs) = &tally.pnfs {
            all.pnfs.get_or_insert_default().add(pnfs);
        }
    }

    fn add_report(&mut self, report: WorkerReport) {
        self.result.first_done_ops += report.end.first_done.ops;
        self.result.first_done_bytes += report.end.first_done.bytes;
        let scope = &mut self.result.scope;
        scope.slots += report.slots;
        if let Some(common) = &mut scope.common {
            common.add(report.end.common);
        }
        if let (Some(all), Some(wait)) = (&mut scope.processor_wait, report.wait) {
            all.add(wait);
        }
        if let Some(offered) = &mut scope.offered {
            offered.scheduled_ops += report.end.recorder.scheduled().0 + report.end.unanswered;
            offered.late_ops += report.end.recorder.late();
            offered.unanswered_ops += report.end.unanswered;
            offered.carried_over_ops += report.end.recorder.carried_over();
            offered.span_ns = offered.span_ns.max(report.schedule_span_ns);
        }
        if self.result.pass.moves_frames() {
            let all = scope.frames.get_or_insert_default();
            all.add(frames_of_stream(&report.end));
        }
        WarmedUp::merge_all(&mut scope.warmup, &report.end.recorder.warmup());
        let kinds = report.end.recorder.finish();
        if self.result.pass == Pass::Serve {
            WorkerTime::merge_slowest(&mut scope.worst_p95, &p95_of_kinds(&kinds));
        }
        KindResult::merge_all(&mut self.result.kinds, kinds);
        PathWork::merge_all(&mut scope.paths, &report.paths);
        if let Some(work) = &report.pnfs {
            scope.pnfs.get_or_insert_default().add(work);
        }
        self.result.clients.extend(report.clients);
        for caveat in report.caveats {
            if !self.result.caveats.contains(&caveat) {
                self.result.caveats.push(caveat);
            }
        }
        if ending_rank(&report.end.ending) > ending_rank(&self.ending) {
            self.ending = report.end.ending;
        }
    }
}

/// Returns a worker's 95th percentiles of response times.
fn p95_of_kinds(kinds: &[KindResult]) -> Vec<WorkerTime> {
    let p95 =
        |one: &KindResult| WorkerTime { kind: one.kind, time_ns: one.response_time.quantile(0.95) };
    kinds.iter().filter(|one| one.done > 0).map(p95).collect()
}

/// Returns how a worker's frames met their deadlines. Those that failed or were never started are
/// late, too.
fn frames_of_stream(end: &WorkerEnd) -> FrameDelivery {
    let recorder = &end.recorder;
    let (overdue, worst_lateness_ns) = recorder.overdue();
    let late_frames = overdue + recorder.errors() + end.unanswered;
    FrameDelivery {
        frames: recorder.ops() + recorder.errors() + end.unanswered,
        late_frames,
        streams: 1,
        late_streams: u32::from(late_frames > 0),
        worst_lateness_ns,
    }
}

fn add_known(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

/// Ranks endings: that of a pass is its workers' worst one.
const fn ending_rank(ending: &Ending) -> u8 {
    match ending {
        Ending::Complete => 0,
        Ending::Stopped => 1,
        Ending::TooManyErrors => 2,
        Ending::Lost(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_shards_of_next_rank() {
        let owners = |first, count| {
            let share = Share { first, count };
            share.workers().map(|worker| next_worker(share, worker)).collect::<Vec<_>>()
        };
        assert_eq!(owners(0, 4), [1, 2, 3, 0]);
        // On one of several hosts, the share is that of another host already.
        assert_eq!(owners(4, 2), [5, 4]);
        assert_eq!(owners(3, 1), [3]);
    }
}
