//! Causes planted during a pass: a server that stops answering, CPUs that others use, a worker that
//! lags, a clock that is set; and a clean pass, which has no caveat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use agent::caveats::{self, about_calendar};
use engine::{Clock, SystemClock};
use model::{
    BackendKind, CaveatCode, Durability, InterferenceSource, Load, Pass, PassResult, ProcessorWait,
    Run, RunSpec, Sampling, Scope, Severity, Target, Trial, TrialState, Workload,
};
use nfs_server::{BandwidthCap, CappedBytes, FaultPlan, Server, ServerConfig, ServiceTime};
use stats::{Judged, JudgedCaveat, judge};

use crate::driven_agent::{BusyProcesses, DrivenAgent, codes, evidence, nfs, server, stream};
use crate::figures::result;

const SECOND: u64 = 1_000_000_000;

/// A mix of small reads with a time limit; the load sets its pace, and the server could do more.
fn mix(on: RunSpec, duration_ms: u64, load: Load) -> RunSpec {
    RunSpec {
        workload: Workload::Mixed,
        read_percent: 100,
        io_size_bytes: 4096,
        file_size_bytes: 1 << 20,
        duration_ms,
        load,
        ..on
    }
}

/// Waits until a pass reads, after its preparations have written.
fn await_reads(server: &Server) {
    let reads = || server.counters().payload_read_bytes > 0;
    let waited = (0..12_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(5));
        reads()
    });
    assert!(waited, "no reader");
}

/// A mix over NFS, during which the server stops answering for a time, half a second after its
/// start.
fn mixed(spec: &RunSpec, server: &Server, stall: Option<Duration>) -> PassResult {
    let mut agent = DrivenAgent::new();
    agent.begin(spec);
    std::thread::scope(|scope| {
        if let Some(lasts) = stall {
            scope.spawn(move || {
                await_reads(server);
                std::thread::park_timeout(Duration::from_millis(500));
                server.stall_now(lasts);
            });
        }
        let end = agent.run(Pass::Mix);
        assert_eq!((end.broken, end.result.errors()), (None, 0));
        end.result
    })
}

fn judged(spec: &RunSpec, result: PassResult) -> Judged {
    let trial = Trial {
        index: 0,
        position: 0,
        started_unix_ms: 0,
        state: TrialState::Done,
        passes: vec![result],
        facts: Vec::new(),
    };
    let pass = trial.passes[0].pass;
    judge::pass(&Run { index: 0, spec: spec.clone(), trials: vec![trial] }, pass)
}

#[test]
fn reports_stalled_server() {
    let server = server(ServerConfig::default());
    // 500 ops per second, which any machine can do.
    let load = Load { bytes_per_s: 500 * 4096, ..Load::default() };
    let spec = RunSpec { workers: 2, ..mix(nfs(&server), 6_300, load) };
    let found = mixed(&spec, &server, Some(Duration::from_millis(1_800)));
    let stated = evidence(&found.caveats, CaveatCode::Stalled).expect("stalled");
    assert!(stated.starts_with("no op completed "), "{stated}");
    assert!(stated.contains(" on 2 of 2 workers"), "{stated}");
    let longest = found.scope.stalls.unwrap().longest;
    assert!((SECOND..5 * SECOND / 2).contains(&longest.lasts_ns), "{longest:?}");
    assert!(longest.at_ns < 4 * SECOND, "{longest:?}");
    // The samples contain all ops exactly once.
    assert_eq!(found.samples.iter().map(|sample| sample.ops).sum::<u64>(), found.ops());
    assert!(found.samples.len() >= 6, "{:?}", found.samples);
    let judged = judged(&spec, found);
    let not_steady = judged.caveats.iter().find(|caveat| caveat.code == CaveatCode::NotSteady);
    assert!(not_steady.is_some(), "{:?}", judged.caveats);
}

#[test]
fn accepts_steady_pass() {
    let server = server(ServerConfig::default());
    let load = Load { bytes_per_s: 500 * 4096, ..Load::default() };
    let spec = RunSpec { workers: 2, ..mix(nfs(&server), 6_300, load) };
    // A machine that stops for a second stalls the workers, so one attempt proves nothing.
    let is_even = |_| {
        let found = mixed(&spec, &server, None);
        let has_stalls = evidence(&found.caveats, CaveatCode::Stalled).is_some();
        assert_eq!(found.scope.stalls.is_some_and(|stalls| stalls.count > 0), has_stalls);
        let judged = judged(&spec, found);
        !has_stalls && judged.caveats.iter().all(|caveat| caveat.code != CaveatCode::NotSteady)
    };
    assert!((0..10).any(is_even));
}

/// Writes a stream that is synced at the end. The server accepts `burst_bytes` at any rate, and
/// then 2 MB a second.
fn written_beyond(burst_bytes: u64) -> Judged {
    let cap = BandwidthCap { bytes_per_s: 2_000_000, counts: CappedBytes::Payload, burst_bytes };
    let faults = FaultPlan { bandwidth: Some(cap), ..FaultPlan::default() };
    let server = server(ServerConfig { faults, ..ServerConfig::default() });
    // 4 MB a second, which any machine can do.
    let load = Load { bytes_per_s: 4_000_000, ..Load::default() };
    let spec = RunSpec {
        workers: 2,
        files: 2,
        io_size_bytes: 16 << 10,
        file_size_bytes: 750 * (16 << 10),
        load,
        ..nfs(&server)
    };
    assert_eq!(spec.durability, Durability::Sync);
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let end = agent.run(Pass::Write);
    assert_eq!((end.broken, end.result.errors()), (None, 0));
    assert_eq!(end.result.bytes(), 1500 * (16 << 10));
    // Every op has its time in one of the intervals.
    let timed: u64 = end.result.interval_times.iter().map(|one| one.times.count()).sum();
    assert_eq!(timed, end.result.ops());
    judged(&spec, end.result)
}

fn found_in(judged: &Judged, code: CaveatCode) -> Option<&JudgedCaveat> {
    judged.caveats.iter().find(|caveat| caveat.code == code)
}

#[test]
fn names_burst_credits_that_run_out() {
    // The credit lasts for four of about eight seconds. Another program may disturb one attempt.
    let is_named = |_| {
        let judged = written_beyond(16_000_000);
        let Some(burst) = found_in(&judged, CaveatCode::Burst) else { return false };
        let ratio = burst.data.as_ref().unwrap().found;
        (1.7..2.3).contains(&ratio) && found_in(&judged, CaveatCode::NotSteady).is_none()
    };
    assert!((0..5).any(is_named));
}

#[test]
fn accepts_writes_within_burst_credits() {
    // On a busy machine, the pace may not be even each time.
    let is_even = |_| {
        let judged = written_beyond(1 << 30);
        [CaveatCode::Burst, CaveatCode::NotSteady]
            .iter()
            .all(|code| found_in(&judged, *code).is_none())
    };
    assert!((0..5).any(is_even));
}

#[test]
fn ignores_idle_and_syncing_workers() {
    let server = server(ServerConfig::default());
    let sampling = Sampling { stall_ms: 300, ..Sampling::default() };
    let load = Load { rate_per_s: 1, ..Load::default() };
    let spec = RunSpec { sampling, ..mix(nfs(&server), 2_000, load) };
    let found = mixed(&spec, &server, None);
    assert_eq!(found.scope.stalls.map(|stalls| stalls.count), Some(0));
    let off = Sampling { stall_ms: 0, ..sampling };
    let spec = RunSpec { sampling: off, duration_ms: 100, ..spec };
    assert_eq!(mixed(&spec, &server, None).scope.stalls, None);
}

#[test]
fn estimates_open_loop_from_closed() {
    let faults = FaultPlan {
        service_time: Some(ServiceTime::Fixed { time_ns: 2_000_000 }),
        ..FaultPlan::default()
    };
    let config = ServerConfig { faults, ..ServerConfig::default() };
    // A busy machine stalls both, at different times.
    assert!((0..5).any(|_| estimate_is_near_the_planted_value(&config)));
}

fn estimate_is_near_the_planted_value(config: &ServerConfig) -> bool {
    let [closed_server, open_server] = [server(config.clone()), server(config.clone())];
    let stall = Some(Duration::from_secs(1));
    let think = Load { think_time_ns: 20_000_000, ..Load::default() };
    let closed_spec = RunSpec { queue_depth: 4, ..mix(nfs(&closed_server), 3_000, think) };
    let closed = judged(&closed_spec, mixed(&closed_spec, &closed_server, stall));
    let rate_per_s = closed.ops_per_s.unwrap().median as u64;
    let open_load = Load { rate_per_s, ..Load::default() };
    let open_spec = RunSpec { queue_depth: 64, ..mix(nfs(&open_server), 3_000, open_load) };
    let open = judged(&open_spec, mixed(&open_spec, &open_server, stall));
    let cross_check = open.response_time.quantile(0.95) as f64;
    let estimate = closed.estimated_response_time.unwrap();
    let estimated = estimate.quantile(0.95) as f64;
    let served = closed.service_time.quantile(0.95) as f64;
    assert!(open.estimated_response_time.is_none());
    // The server's own time hides the cross-check.
    (0.6..1.5).contains(&(estimated / cross_check)) && served < cross_check / 3.0
}

#[test]
fn excludes_lagging_worker_from_window() {
    // In memory, since a sync takes no time there.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut spec = RunSpec { workers: 2, files: 3, ..stream(directory.path()) };
    spec.file_size_bytes = 4 << 20;
    // Each worker may move 8 MiB per second: one finishes after half a second, the other after one.
    spec.load.bytes_per_s = 16 << 20;
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let found = agent.run(Pass::Write).result;
    assert!(evidence(&found.caveats, CaveatCode::Unsynchronised).is_some());
    let common = found.scope.common.unwrap();
    assert_eq!(found.bytes(), 12 << 20);
    // At the first end one file is done, and about as much of the other worker's two.
    let until_first = found.first_done_bytes;
    assert!((5 << 20..=10 << 20).contains(&until_first), "{until_first}");
    assert!(common.bytes <= until_first && common.bytes >= until_first / 2, "{common:?}");
    assert!(found.common_window_ns <= found.first_done_ns);
    assert!(found.first_done_ns < found.window_ns * 4 / 5);
    let per_s = |bytes: u64, ns: u64| bytes as f64 * 1e9 / ns as f64;
    let while_busy = per_s(common.bytes, found.common_window_ns);
    let last_done = per_s(found.bytes(), found.window_ns);
    assert!(while_busy > last_done * 1.1, "{while_busy} and {last_done}");
}

#[test]
fn excludes_warmup_from_samples() {
    let server = server(ServerConfig::default());
    let load = Load { warmup_ms: 400, bytes_per_s: 4 << 20, ..Load::default() };
    let mut spec = RunSpec { workers: 2, ..mix(nfs(&server), 600, load) };
    spec.sampling.interval_ms = 100;
    let found = mixed(&spec, &server, None);
    assert!(found.scope.warmup[0].done > 0);
    assert_eq!(found.start_skew_ns, 0);
    let last = found.samples.last().unwrap();
    assert_eq!(found.samples.iter().map(|sample| sample.ops).sum::<u64>(), found.ops());
    assert!(last.at_ns < found.window_ns + SECOND / 2, "{last:?} of {}", found.window_ns);
    assert!(found.samples[0].ops > 0, "{:?}", found.samples);
    assert!(found.samples.len() >= 4, "{:?}", found.samples);
}

#[test]
fn processors_that_others_take_are_missed() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let on_directory = stream(directory.path());
    let server = server(ServerConfig::default());
    let memory = RunSpec {
        target: Target::Memory,
        backend: BackendKind::Memory,
        ..RunSpec::null(Workload::Stream)
    };
    let null = RunSpec::null(Workload::Stream);
    let mut agent = DrivenAgent::new();
    let confined = RunSpec { cpus: Some(1), ..nfs(&server) };
    for target in [on_directory.clone(), nfs(&server), confined, memory, null] {
        let spec = mix(target, 1_000, Load::default());
        agent.begin(&spec);
        let hogs = BusyProcesses::start();
        let PassResult { caveats, scope, .. } = agent.run(Pass::Mix).result;
        drop(hogs);
        agent.end();
        let target = &spec.target;
        // Such a trial is excluded, if most others are not disturbed.
        let disturbed = stats::interference::disturbance(&scope.interference);
        let source = disturbed.map(|disturbance| disturbance.source);
        let sources = [InterferenceSource::Programs, InterferenceSource::Steal];
        assert!(source.is_some_and(|source| sources.contains(&source)), "{target}: {scope:?}");
        let taken = scope.interference.get(InterferenceSource::Programs).unwrap_or(0);
        assert!(taken > 100, "{target}: {scope:?}");
        let stated = evidence(&caveats, CaveatCode::ProcessorContention)
            .unwrap_or_else(|| panic!("{target}: {caveats:?}"));
        let begins = "workers were runnable but not running ";
        assert!(stated.starts_with(begins), "{target}: {stated}");
        // Names the other programs; on a busy machine those may not be ours.
        assert!(stated.contains(" other processes ") && stated.contains(" % ("), "{stated}");
        assert!(stated.contains("(/proc/stat)"), "{stated}");
        assert!(evidence(&caveats, CaveatCode::ClientSaturated).is_none(), "{caveats:?}");
    }
    // A thread that pauses gets a CPU when it requests one, but not always on a machine that is
    // busy anyway.
    let load = Load { think_time_ns: 50_000_000, ..Load::default() };
    let quiet = mix(on_directory, 300, load);
    let is_silent = |_| {
        agent.begin(&quiet);
        let caveats = agent.run(Pass::Mix).result.caveats;
        evidence(&caveats, CaveatCode::ProcessorContention).is_none()
    };
    assert!((0..20).any(is_silent));
}

#[test]
fn allows_waits_up_to_tenth() {
    let caveated = |waited_ns| {
        let processor_wait = Some(ProcessorWait { waited_ns, held_ns: 0, of_ns: SECOND });
        let result = PassResult { scope: Scope { processor_wait, ..Scope::default() }, ..result() };
        let caveats = caveats::about_figures(&stream(Path::new("/")), &result, None, None);
        evidence(&caveats, CaveatCode::ProcessorContention).is_some()
    };
    assert!(caveated(101_000_000) && !caveated(100_000_000));
}

/// A system clock with a wrong time of day.
struct Shifted {
    clock: SystemClock,
    ahead_ns: AtomicI64,
}

impl Clock for Shifted {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn calendar_ns(&self) -> u64 {
        self.clock.calendar_ns().saturating_add_signed(self.ahead_ns.load(Relaxed))
    }

    fn sleep_until(&self, instant_ns: u64) {
        self.clock.sleep_until(instant_ns);
    }
}

#[test]
fn notes_clock_step_once() {
    const HOUR: i64 = 3_600_000_000_000;
    let clock = Arc::new(Shifted { clock: SystemClock::new(), ahead_ns: AtomicI64::new(0) });
    let directory = tempfile::tempdir().unwrap();
    let spec = RunSpec { file_size_bytes: 1 << 20, ..stream(directory.path()) };
    let mut agent = DrivenAgent::on(Arc::clone(&clock) as Arc<dyn Clock>);
    agent.begin(&spec);
    let mut stated = |ahead_ns| {
        clock.ahead_ns.store(ahead_ns, Relaxed);
        let caveats = agent.run(Pass::Write).result.caveats;
        evidence(&caveats, CaveatCode::Clock).map(str::to_owned)
    };
    assert_eq!(stated(0), None);
    let ahead = stated(HOUR).unwrap();
    assert!(ahead.contains(" ahead in "), "{ahead}");
    assert_eq!(stated(HOUR), None);
    assert!(stated(0).unwrap().contains(" back in "));
}

#[test]
fn ignores_slewed_clock() {
    let second = i128::from(SECOND);
    assert_eq!(about_calendar(second + 128_000_000, SECOND), None);
    assert!(about_calendar(second + 130_000_000, SECOND).is_some());
    assert!(about_calendar(second - 130_000_000, SECOND).is_some());
    // 500 ppm of an hour are 1.8 s.
    assert_eq!(about_calendar(3_601 * second + 900_000_000, 3_600 * SECOND), None);
    assert!(about_calendar(3_602 * second, 3_600 * SECOND).is_some());
    assert!(about_calendar(-second, 5).is_some());
}

#[test]
fn a_clean_pass_raises_no_caveat() {
    let server = server(ServerConfig::default());
    let load = Load { bytes_per_s: 100 * 4096, ..Load::default() };
    let spec = RunSpec { workers: 2, ..mix(nfs(&server), 1_000, load) };
    // A machine that is busy anyway may take its CPUs from it.
    let is_clean = |_| {
        let caveats = mixed(&spec, &server, None).caveats;
        caveats.iter().all(|caveat| caveat.code.severity() == Severity::Note)
    };
    assert!((0..5).any(is_clean), "{:?}", mixed(&spec, &server, None).caveats);
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    assert!(codes(&agent.run(Pass::Mix)).contains(&CaveatCode::SharedHost));
}
