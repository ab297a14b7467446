//! Offered loads, think times, caps and warm-ups, with scripted backends.

use std::ops::Range;
use std::time::Duration;

use engine::admission::{Admission, Timing};
use engine::backend::{Backend, LostTarget};
use engine::recorder::Recorder;
use engine::stonewall::PassState;
use engine::testing::target_config;
use engine::worker::{Ending, Progress, Worker, WorkerEnd};
use engine::working_set::WorkingSetTracker;
use engine::{Clock, MeasuredPass, Monitor, Stop, SystemClock, TargetConfig, TrialTarget, measure};
use model::testing::{RunBuilder, nfs_target};
use model::{
    Arrivals, BackendKind, Completion, Histogram, Load, NfsSettings, Op, OpKind, Outcome, Pass,
    PassResult, RunSpec, Share, Target, WorkingSet, Workload,
};
use nfs_server::{Server, ServerConfig};
use workload::OpStream;

fn mixed(duration_ms: u64, load: Load) -> RunSpec {
    RunBuilder::new(Workload::Mixed)
        .load(load)
        .duration_ms(duration_ms)
        .read_percent(50)
        .file_size_bytes(1 << 20)
        .files(4)
        .workers(2)
        .build()
}

fn measured(spec: &RunSpec, pass: Pass) -> PassResult {
    let MeasuredPass { result, tally, .. } = run(spec, pass);
    let warm: u64 = result.scope.warmup.iter().map(|warm| warm.done).sum();
    let issued: u64 = result.kinds.iter().map(|kind| kind.issued).sum();
    assert_eq!(tally.ops, Some(issued + warm), "issued = accounted");
    result
}

fn run(spec: &RunSpec, pass: Pass) -> MeasuredPass {
    let config = TargetConfig { seed: 42, ..target_config(".dfsbench-admission") };
    let target = TrialTarget::create(spec, config).unwrap();
    let stop = Stop::default();
    let client_cpu_ns = || 0;
    let mut monitor = Monitor {
        stop: &stop,
        opened: &|| (),
        gate: &mut || Some(0),
        observe: &mut |_| (),
        client_cpu_ns: &client_cpu_ns,
    };
    target.prepare(spec, pass).unwrap();
    let measured =
        measure(&target, spec, pass, Share::whole(spec.workers), 42, &mut monitor).unwrap();
    assert_eq!(measured.ending, Ending::Complete);
    measured
}

/// Executes one op at a time, each taking this long, or all given ops at once.
struct Slow {
    clock: SystemClock,
    takes: Duration,
    room: usize,
    queue: Vec<Op>,
    /// Number of ops submitted for a file that was already in flight.
    overlaps: usize,
    /// It does nothing between these times of its clock.
    still_ns: Range<u64>,
}

impl Slow {
    fn new(takes: Duration, room: usize) -> Self {
        let clock = SystemClock::new();
        Self { clock, takes, room, queue: Vec::new(), overlaps: 0, still_ns: 0..0 }
    }

    /// A target that answers immediately, except for a period given in milliseconds from now.
    fn standing_still(milliseconds: Range<u64>) -> Self {
        let mut slow = Self::new(Duration::ZERO, 1);
        let now_ns = slow.clock.now_ns();
        let at = |ms: u64| now_ns + ms * 1_000_000;
        slow.still_ns = at(milliseconds.start)..at(milliseconds.end);
        slow
    }
}

impl Backend for Slow {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.room - self.queue.len());
        for op in &batch[..accepted] {
            self.overlaps += usize::from(self.queue.iter().any(|other| other.file == op.file));
            self.queue.push(*op);
        }
        accepted
    }

    fn reap(&mut self, _: usize, _: u64, out: &mut Vec<Completion>) -> Result<(), LostTarget> {
        // The last one first, so a worker that needs an order must ensure it itself.
        let Some(op) = self.queue.pop() else { return Ok(()) };
        let sent_ns = self.clock.now_ns();
        self.clock.sleep_until(sent_ns + self.takes.as_nanos() as u64);
        if self.still_ns.contains(&sent_ns) {
            self.clock.sleep_until(self.still_ns.end);
        }
        let done_ns = self.clock.now_ns();
        out.push(Completion { op, sent_ns, done_ns, outcome: Outcome::Done(op.len_bytes) });
        Ok(())
    }
}

fn work(spec: &RunSpec, pass: Pass, backend: &mut Slow) -> WorkerEnd {
    let shared = PassState::default();
    let progress = Progress::default();
    let clock = backend.clock;
    let stream = OpStream::new(spec, pass, 0, 42);
    let timing = Timing::new(spec, pass, clock.now_ns());
    let queue_depth = spec.queue_depth as usize;
    let worker = Worker {
        admission: Admission::new(spec, &stream, queue_depth),
        vain_max_ns: u64::MAX,
        wears_out: false,
        stream,
        backend,
        recorder: Recorder::new(pass.kinds())
            .counting_from(timing.counts_since())
            .in_time_before(timing.deadline_ns),
        shared: &shared,
        progress: &progress,
        timing,
        clock: &clock,
        working_set: WorkingSetTracker::new(spec, pass),
        queue_depth,
    };
    let end = worker.run();
    assert_eq!(end.ending, Ending::Complete);
    end
}

/// A busy machine delays workers at random, so it is enough to see once what an idle one does each
/// time.
fn is_seen(attempt: impl Fn() -> bool) -> bool {
    (0..10).any(|_| attempt())
}

#[test]
fn starts_no_op_before_its_time() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let load = Load { rate_per_s: 2000, arrivals, ..Load::default() };
        assert!(is_seen(|| is_offered_and_met(load)), "{arrivals}");
    }
}

/// Returns true if 2,000 ops per second are reached; the offered rate must be right in any case.
fn is_offered_and_met(load: Load) -> bool {
    let result = measured(&mixed(300, load), Pass::Mix);
    let offered = result.scope.offered.unwrap();
    assert_eq!((offered.rate_per_s, offered.span_ns), (2000, 300_000_000));
    // Scheduled before the end: a Poisson count has a deviation of 24.
    let deviation = if load.arrivals == Arrivals::Constant { 1 } else { 98 };
    assert!(offered.scheduled_ops.abs_diff(600) <= deviation, "{}", offered.scheduled_ops);
    assert!(result.window_ns >= 300_000_000, "{}", result.window_ns);
    for kind in &result.kinds {
        assert_eq!(kind.response_time.count(), kind.service_time.count());
        assert!(kind.response_time.max() >= kind.service_time.max());
    }
    // All except the ops that are scheduled while the last ones are executed.
    offered.scheduled_ops - result.ops() < offered.scheduled_ops / 20
}

#[test]
fn reports_unmet_load_with_waiting() {
    let load = Load { rate_per_s: 5000, arrivals: Arrivals::Constant, ..Load::default() };
    let spec = RunBuilder::from(mixed(100, load)).workers(1).build();
    let end = work(&spec, Pass::Mix, &mut Slow::new(Duration::from_millis(1), 1));
    let done = end.recorder.ops();
    let late = end.recorder.late();
    // Scheduled ops are awaited as long as the window lasted, and no longer.
    assert!((1..=101).contains(&(done - late)) && done <= 202, "{done} done, {late} of them late");
    // 5000/s for 100 ms, not counting the one at the deadline.
    assert_eq!(end.recorder.scheduled().0 + end.unanswered, 499);
    let times = response_times(end);
    // Ops that were never started are included in the response times.
    assert_eq!(times.count(), 499);
    assert!(times.max() > 100_000_000 && times.quantile(0.5) > 50_000_000, "{}", times.max());
}

fn response_times(end: WorkerEnd) -> Histogram {
    let mut times = Histogram::new();
    for kind in end.recorder.finish().iter().filter(|kind| kind.kind != OpKind::Sync) {
        times.merge(&kind.response_time);
    }
    times
}

#[test]
fn counts_stall_equally_anywhere() {
    let load = Load { rate_per_s: 1000, arrivals: Arrivals::Constant, ..Load::default() };
    let spec = RunBuilder::from(mixed(300, load)).workers(1).build();
    for still in [50..150, 250..350] {
        let ends_late = still.end > 300;
        let end = work(&spec, Pass::Mix, &mut Slow::standing_still(still));
        assert_eq!(end.recorder.scheduled().0 + end.unanswered, 299);
        if ends_late {
            // From 250 to 300 ms, minus the one that was in service.
            let waited = end.recorder.late() + end.unanswered;
            assert!(waited >= 45, "{waited}");
        }
        let times = response_times(end);
        assert_eq!(times.count(), 299);
        // The first op scheduled in the stall waited for nearly all of it; a tenth of all ops
        // waited for at least half of it.
        assert!(times.max() > 90_000_000, "{}", times.max());
        assert!(times.quantile(0.9) > 45_000_000, "{}", times.quantile(0.9));
    }
}

#[test]
fn offers_scheduled_load() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(ServerConfig::default()).unwrap();
    let nfs = nfs_target(server.address().port(), NfsSettings::default());
    for (target, backend) in [
        (Target::Directory { path: folder.path().to_owned() }, BackendKind::Posix),
        (Target::Nfs(nfs), BackendKind::Nfs),
    ] {
        let load = Load { rate_per_s: 400, ..Load::default() };
        let spec = RunBuilder::from(mixed(500, load))
            .target(target)
            .backend(backend)
            .timeout_ms(20_000)
            .build();
        let result = run(&spec, Pass::Mix).result;
        let scheduled: usize = (0..spec.workers)
            .map(|worker| {
                let mut stream = OpStream::new(&spec, Pass::Mix, worker, 42);
                let ops = std::iter::from_fn(|| stream.next_op());
                ops.take_while(|op| op.scheduled_ns < 500_000_000).count()
            })
            .sum();
        let offered = result.scope.offered.unwrap();
        assert_eq!(offered.scheduled_ops, scheduled as u64, "{backend:?}");
        let ops = result.kinds.iter().filter(|kind| kind.kind != OpKind::Sync);
        let mut done = 0;
        for kind in ops {
            done += kind.done;
            assert_eq!((kind.errors.len(), kind.response_time.count()), (0, kind.done));
            for share in [0.0, 0.1, 0.5, 0.9, 1.0] {
                let response = kind.response_time.quantile(share);
                assert!(response >= kind.service_time.quantile(share), "{backend:?} {share}");
            }
        }
        // Ops that could not be started in time were still scheduled.
        assert!(done > 0 && done <= offered.scheduled_ops, "{backend:?}: {done} of {scheduled}");
    }
}

#[test]
fn think_time_follows_each_op() {
    let load = Load { think_time_ns: 2_000_000, ..Load::default() };
    let spec = RunBuilder::from(mixed(100, load)).queue_depth(4).build();
    assert!(is_seen(|| {
        let result = measured(&spec, Pass::Mix);
        assert!(result.scope.offered.is_none());
        // Two workers with four slots each start immediately, and then every 2 ms.
        assert!(result.ops() <= 8 * 51, "{}", result.ops());
        result.ops() >= 80
    }));
}

#[test]
fn a_cap_is_not_exceeded() {
    let load = Load { bytes_per_s: 40_960_000, ..Load::default() };
    assert!(is_seen(|| {
        let result = measured(&mixed(300, load), Pass::Mix);
        // 10,000 ops of 4 KiB per second for 0.3 s, plus 10 ms that each worker may catch up.
        assert!(result.ops() <= 3000 + 2 * 51, "{}", result.ops());
        assert!(result.kinds.iter().all(|kind| kind.response_time == kind.service_time));
        result.ops() > 2500
    }));
}

#[test]
fn excludes_warmup_from_figures() {
    let load = Load {
        rate_per_s: 1000,
        arrivals: Arrivals::Constant,
        ramp_ms: 100,
        warmup_ms: 100,
        ..Load::default()
    };
    assert!(is_seen(|| {
        let open = measured(&mixed(100, load), Pass::Mix);
        let scheduled = open.scope.offered.unwrap().scheduled_ops;
        assert!(scheduled.abs_diff(100) <= 2 && open.ops() <= scheduled, "{scheduled}");
        assert!(open.window_ns >= 100_000_000, "{}", open.window_ns);
        let warm: u64 = open.scope.warmup.iter().map(|warm| warm.done).sum();
        // Half of the ramp's 100, plus those of the warm-up.
        open.ops() > 0 && warm.abs_diff(150) <= 2
    }));
    assert!(is_seen(|| {
        let closed = measured(&mixed(20, Load { warmup_ms: 20, ..Load::default() }), Pass::Mix);
        let (ops, bytes) = closed.scope.warmed_up(OpKind::Read);
        assert_eq!((closed.ops(), ops * 4096), (closed.response_time().count(), bytes));
        ops > 0 && closed.ops() > 0
    }));
}

#[test]
fn ends_any_pass_by_time() {
    let load = Load { time_max_ms: 30, ..Load::default() };
    let spec = RunBuilder::new(Workload::Stream).load(load).file_size_bytes(1 << 40).build();
    assert!(is_seen(|| {
        let result = measured(&spec, Pass::BackwardRead);
        let working_set = WorkingSet { files: 1, bytes: result.bytes(), unit_bytes: 0 };
        assert_eq!(result.scope.working_set, Some(working_set));
        result.ops() > 100 && result.window_ns < 1_000_000_000
    }));
}

#[test]
fn merges_working_sets_of_workers() {
    let load = Load { ops_max: 20_000, ..Load::default() };
    let result = measured(&mixed(0, load), Pass::Mix);
    assert_eq!(result.ops(), 20_000);
    // Each of 1024 blocks is drawn about 20 times.
    let whole = WorkingSet { files: 4, bytes: 4 << 20, unit_bytes: 4096 };
    assert_eq!(result.scope.working_set, Some(whole));
}

#[test]
fn orders_ops_on_one_file() {
    let spec = RunBuilder::new(Workload::Metadata).files(3).queue_depth(8).build();
    let mut backend = Slow::new(Duration::ZERO, 8);
    assert_eq!(work(&spec, Pass::Rename, &mut backend).recorder.ops(), 6);
    assert_eq!(backend.overlaps, 0);
    let spec = RunBuilder::new(Workload::Transactions).files(5).queue_depth(8).build();
    let mut backend = Slow::new(Duration::ZERO, 8);
    assert_eq!(work(&spec, Pass::Transactions, &mut backend).recorder.ops(), 1000);
    assert_eq!(backend.overlaps, 0);
}
