//! Tests of all judging rules with made-up runs.
//!
//! Results are exact: rates, counts and codes that can be derived by hand.

use model::testing::RunBuilder;
use model::{
    BackendKind, Caveat, CaveatCode, Discard, Evidence, Histogram, KindResult, NfsTarget,
    OfferedLoad, OpError, OpKind, Pass, PassResult, Repetition, Run, RunSpec, Target, Trial,
    TrialState, Verdict, Workload,
};

use super::*;

mod accuracy;
mod interference;
mod timeline;

const MB: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn spec(workload: Workload) -> RunSpec {
    RunBuilder::new(workload)
        .target_name("dir".into())
        .target(Target::Directory { path: "/srv".into() })
        .backend(BackendKind::Posix)
        .io_size_bytes(1 << 20)
        .file_size_bytes(64 << 20)
        .files(8)
        .workers(2)
        .read_percent(70)
        .duration_ms(1_000)
        .invalidate(true)
        .timeout_ms(30_000)
        .build()
}

/// Returns a pass of one second that transferred `bytes` with ops of 1 MB and 100 µs.
pub(crate) fn result(pass: Pass, kind: OpKind, bytes: u64) -> PassResult {
    let ops = bytes / MB;
    let mut time = Histogram::new();
    time.record_n(100_000, ops);
    PassResult {
        window_ns: SECOND,
        common_window_ns: SECOND * 9 / 10,
        first_done_ops: ops / 2,
        first_done_bytes: bytes / 2,
        first_done_ns: SECOND / 2,
        start_skew_ns: 1_000,
        client_cpu_ns: SECOND / 2,
        kinds: vec![KindResult {
            kind,
            issued: ops,
            done: ops,
            bytes,
            errors: Vec::new(),
            service_time: time.clone(),
            response_time: time,
        }],
        ..PassResult::new(pass)
    }
}

fn trial(index: u32, state: TrialState, passes: Vec<PassResult>) -> Trial {
    Trial { index, position: index, started_unix_ms: 0, state, passes, facts: Vec::new() }
}

/// Returns a stream run with the given write rates in megabytes per second.
fn writes(rates: &[u64]) -> Run {
    let made = rates.iter().enumerate().map(|(index, rate)| {
        let passes = vec![result(Pass::Write, OpKind::Write, rate * MB)];
        trial(index as u32, TrialState::Done, passes)
    });
    Run { index: 0, spec: spec(Workload::Stream), trials: made.collect() }
}

/// Returns a mix of `ops` ops in a second, out of `scheduled_ops` scheduled and 1000 requested.
fn offered(ops: u64, scheduled_ops: u64) -> PassResult {
    let mut made = result(Pass::Mix, OpKind::Read, ops * MB);
    let span_ns = made.window_ns;
    made.scope.offered =
        Some(OfferedLoad { rate_per_s: 1_000, scheduled_ops, span_ns, ..OfferedLoad::default() });
    made
}

#[test]
fn rates_files_by_time_they_took() {
    let mut writes = result(Pass::Write, OpKind::Write, 1_000 * MB);
    let window_ns = writes.window_ns;
    let offered = OfferedLoad {
        rate_per_s: 10_000,
        scheduled_ops: writes.ops(),
        span_ns: window_ns / 10,
        ..OfferedLoad::default()
    };
    writes.scope.offered = Some(offered);
    assert_eq!(op_rate(&writes), Some(writes.ops() as f64 * 1e9 / window_ns as f64));
    // The last op may take its time,
    let ahead_ns = 2 * writes.service_time().max();
    writes.scope.offered = Some(OfferedLoad { span_ns: window_ns - ahead_ns, ..offered });
    let in_schedule = writes.ops() as f64 * 1e9 / (window_ns - ahead_ns) as f64;
    assert_eq!(op_rate(&writes), Some(in_schedule));
    // and ops that are given up are no work of the rest of the window.
    writes.scope.offered = Some(OfferedLoad { late_ops: 1, ..offered });
    assert_eq!(op_rate(&writes), Some((writes.ops() - 1) as f64 * 1e10 / window_ns as f64));
}

#[test]
fn open_loop_reports_the_achieved_rate() {
    // More or fewer ops were scheduled than requested, and all were completed.
    for scheduled in [950, 1_000, 1_040] {
        let all_done = offered(scheduled, scheduled);
        assert_eq!(op_rate(&all_done), Some(scheduled as f64));
        assert_eq!(byte_rate(&all_done), Some(scheduled as f64 * 1e6));
        // Random arrivals must not count as a difference between trials.
        let comparable = comparable_rate(Pass::Mix)(&all_done).unwrap();
        assert!((comparable - 1_000.0).abs() < 1e-6, "{comparable}");
    }
    // Ops scheduled in the warm-up are completed in the window, too.
    assert_eq!(op_rate(&offered(1_010, 1_000)), Some(1_000.0));
    // Half of the load was completed.
    assert_eq!(op_rate(&offered(480, 960)), Some(480.0));
    let comparable = comparable_rate(Pass::Mix)(&offered(480, 960)).unwrap();
    assert!((comparable - 500.0).abs() < 1e-6, "{comparable}");
    // Ops completed only because the client waited for them don't count,
    let mut late = offered(1_000, 1_000);
    late.scope.offered.as_mut().unwrap().late_ops = 300;
    assert_eq!(op_rate(&late), Some(700.0));
    // except for the few that are always in flight.
    late.scope.slots = 100;
    assert_eq!(op_rate(&late), Some(800.0));
    late.scope.slots = 300;
    assert_eq!(op_rate(&late), Some(1_000.0));
    // A closed loop has its own pace.
    assert_eq!(op_rate(&result(Pass::Mix, OpKind::Read, 950 * MB)), Some(950.0));
}

#[test]
fn computes_interval_of_open_loop() {
    let trials = [905, 1_000, 1_100, 955, 1_050]
        .iter()
        .enumerate()
        .map(|(index, ops)| trial(index as u32, TrialState::Done, vec![offered(*ops, *ops)]));
    let run = Run { index: 0, spec: spec(Workload::Mixed), trials: trials.collect() };
    let judged = pass(&run, Pass::Mix);
    let rate = judged.rate.unwrap();
    assert_eq!((rate.median, rate.interval), (1_000.0, (905.0, 1_100.0)));
    assert_eq!(judged.offered_per_s, Some(1_000.0));
    assert_eq!(judged.points[0].per_s, 905.0);
    assert_eq!(codes(&judged), Vec::<&str>::new());
}

fn codes(judged: &Judged) -> Vec<&'static str> {
    judged.caveats.iter().map(|caveat| caveat.code.code()).collect()
}

fn add_caveat(run: &mut Run, trial: usize, caveat: Caveat) {
    run.trials[trial].passes[0].caveats.push(caveat);
}

#[test]
fn sound_trials_give_a_valid_figure() {
    let judged = pass(&writes(&[100, 102, 101, 99, 103]), Pass::Write);
    let rate = judged.rate.unwrap();
    assert_eq!((rate.n, rate.median, rate.interval), (5, 101e6, (99e6, 103e6)));
    assert_eq!(judged.ops_per_s.unwrap().median, 101.0);
    assert_eq!(judged.first_done.unwrap().median, 101e6);
    assert_eq!(judged.common_window_share, Some(0.9));
    assert_eq!((judged.verdict, judged.caveats.len()), (Verdict::Valid, 0));
    assert_eq!((judged.trials_made, judged.trials_used, judged.reason()), (5, 5, None));
    assert_eq!((judged.response_time.count(), judged.response_time.max()), (505, 100_000));
    assert_eq!(judged.service_time, judged.response_time);
}

#[test]
fn reports_shares_of_op_kinds() {
    let mut run = writes(&[100, 100, 100]);
    for (trial, reads) in run.trials.iter_mut().zip([100, 300, 200]) {
        let reads = result(Pass::Mix, OpKind::Read, reads * MB).kinds;
        trial.passes[0].kinds.extend(reads);
        trial.passes[0].pass = Pass::Mix;
    }
    let judged = pass(&run, Pass::Mix);
    let shares = judged.kinds.iter().map(|k| (k.kind, k.percent.round() as u64, k.ops_per_s));
    // 300 writes and 600 reads out of 900 ops.
    let expected = [(OpKind::Write, 33, 100.0), (OpKind::Read, 67, 200.0)];
    assert_eq!(shares.collect::<Vec<_>>(), expected);
    assert_eq!(judged.kinds[1].bytes_per_s, 200e6);
    assert!(pass(&writes(&[100]), Pass::Write).kinds.is_empty());
    // Half a second in one.
    assert_eq!(judged.cpu_percent, Some(50.0));
}

#[test]
fn ignores_cpu_share_of_short_window() {
    let mut run = writes(&[100, 100]);
    for trial in &mut run.trials {
        trial.passes[0].window_ns = SECOND / 1_000;
    }
    assert_eq!(pass(&run, Pass::Write).cpu_percent, None);
}

#[test]
fn divides_cpu_time_by_ops() {
    let mut run = writes(&[1_024, 1_024]);
    for trial in &mut run.trials {
        trial.passes[0].kinds[0].bytes = 1 << 30;
        trial.passes[0].server_cpu_ns = Some(SECOND / 4);
    }
    let cpu = pass(&run, Pass::Write).cpu.unwrap();
    assert_eq!(cpu, Cpu { unit: CpuUnit::SecondsPerGib, client: 0.5, server: Some(0.25) });
    run.trials[1].passes[0].server_cpu_ns = None;
    assert_eq!(pass(&run, Pass::Write).cpu.unwrap().server, None);

    let stats = vec![result(Pass::Stat, OpKind::Stat, 1_000 * MB)];
    let spec = spec(Workload::Metadata);
    let run = Run { index: 0, spec, trials: vec![trial(0, TrialState::Done, stats)] };
    let judged = pass(&run, Pass::Stat);
    let cpu = judged.cpu.unwrap();
    assert_eq!((cpu.unit, cpu.client, cpu.server), (CpuUnit::MicrosPerOp, 500.0, None));
    assert_eq!((judged.rate.unwrap().median, judged.bytes_per_s), (1_000.0, None));
}

#[test]
fn commands_cost_processor_time_each() {
    let command = result(Pass::App, OpKind::Execute, MB);
    let command = vec![PassResult { client_cpu_ns: 30_344_000, ..command }];
    let trials = vec![trial(0, TrialState::Done, command)];
    let run = Run { index: 0, spec: spec(Workload::App), trials };
    let cpu = pass(&run, Pass::App).cpu.unwrap();
    assert_eq!((cpu.unit, cpu.client), (CpuUnit::MillisPerCommand, 30.344));
    assert_eq!(cpu.unit.shown(cpu.client), "30.3 ms/command");
    assert_eq!(cpu.unit.shown(2_100.0), "2.10 s/command");
}

#[test]
fn reports_invalid_trial_set_aside() {
    let mut run = writes(&[100, 101, 102, 103, 900]);
    add_caveat(&mut run, 4, CaveatCode::Accounting.because("issued 9, done 8"));
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.rate.unwrap().max, judged.trials_used), (103e6, 4));
    assert_eq!((judged.verdict, codes(&judged)), (Verdict::Degraded, vec!["accounting"]));
    assert_eq!(judged.caveats[0].evidence_line(), "1 of 5 trials: issued 9, done 8");
    assert_eq!(judged.points.len(), 5);
    assert!(judged.points[0].used && !judged.points[4].used);
}

#[test]
fn shows_figure_of_invalid_row() {
    let mut run = writes(&[100, 200]);
    for index in 0..2 {
        add_caveat(&mut run, index, CaveatCode::Errors.because("3 × EIO"));
    }
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.verdict, judged.rate.unwrap().median), (Verdict::Invalid, 150e6));
    assert_eq!(codes(&judged), ["errors"]);
    assert_eq!(judged.caveats[0].evidence_line(), "2 of 2 trials: 3 × EIO");
    assert!(judged.points.iter().all(|point| point.used));
}

#[test]
fn keeps_finished_passes_of_failed_trial() {
    let reason = "the server went away".to_owned();
    let mut run = writes(&[100, 101, 102]);
    for trial in &mut run.trials {
        trial.state = TrialState::Failed(reason.clone());
    }
    let write = pass(&run, Pass::Write);
    assert_eq!((write.verdict, write.trials_used), (Verdict::Valid, 3));
    let read = pass(&run, Pass::Read);
    assert_eq!((read.verdict, read.reason()), (Verdict::Invalid, Some(reason.as_str())));
    assert_eq!(read.failures, [Failure { reason, trials: 3 }]);
    assert!(read.rate.is_none() && read.cpu.is_none());
}

#[test]
fn an_interrupted_trial_is_set_aside() {
    let mut run = writes(&[100, 101, 102, 5]);
    run.trials[3].state = TrialState::Interrupted;
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.rate.unwrap().min, codes(&judged)), (100e6, vec!["interrupted"]));
    assert_eq!(judged.verdict, Verdict::Degraded);
    let read = pass(&run, Pass::Read);
    insta::assert_snapshot!(read.reason().unwrap(), @"the trial does not have this pass");
}

#[test]
fn a_run_without_trials_says_so() {
    let judged = pass(&writes(&[]), Pass::Write);
    assert_eq!((judged.verdict, judged.reason()), (Verdict::Invalid, Some("no trial was run")));
}

#[test]
fn two_trials_are_too_few() {
    let judged = pass(&writes(&[100, 300]), Pass::Write);
    assert_eq!((judged.verdict, codes(&judged)), (Verdict::Degraded, vec!["too-few-trials"]));
    assert_eq!(judged.caveats[0].evidence_line(), "2 valid trials (at least 3)");
}

#[test]
fn reports_wide_interval_with_numbers() {
    let judged = pass(&writes(&[100, 130, 115, 120, 90]), Pass::Write);
    assert_eq!(codes(&judged), ["wide-interval"]);
    insta::assert_snapshot!(
        judged.caveats[0].evidence,
        @"the interval from 90.0 MB/s to 130 MB/s is ±17 % of the median 115 MB/s (limit ±10 %)"
    );
    assert_eq!(codes(&pass(&writes(&[95, 103, 100, 97, 105]), Pass::Write)), Vec::<&str>::new());
}

#[test]
fn names_only_distant_outliers() {
    let judged = pass(&writes(&[1_000, 1_001, 1_002, 1_003, 900]), Pass::Write);
    assert_eq!(codes(&judged), ["outlier"]);
    insta::assert_snapshot!(judged.caveats[0].evidence);
    // As far in terms of deviations, but within 5 % of the median, so it misleads nobody.
    let near = pass(&writes(&[1_000, 1_001, 1_002, 1_003, 990]), Pass::Write);
    assert_eq!((near.verdict, near.caveats.len()), (Verdict::Valid, 0));
    // Four trials are too few to tell.
    assert!(pass(&writes(&[1_000, 1_001, 1_002, 900]), Pass::Write).caveats.is_empty());
}

#[test]
fn sorts_and_counts_caveats() {
    let mut run = writes(&[100, 101, 102, 103, 104]);
    for index in 0..3 {
        add_caveat(&mut run, index, CaveatCode::NotDurable.because("durability none"));
        add_caveat(&mut run, index, CaveatCode::Cached.because(format!("{index}")));
        add_caveat(&mut run, index, CaveatCode::Cached.because("again in the same trial"));
    }
    let judged = pass(&run, Pass::Write);
    assert_eq!(codes(&judged), ["cached", "mixed-trials", "not-durable"]);
    assert_eq!(judged.caveats[0].evidence_line(), "3 of 5 trials: 0");
    assert_eq!(judged.verdict, Verdict::Degraded);
}

#[test]
fn distinguishes_own_from_other_server() {
    let mut run = writes(&[100, 101, 102]);
    add_caveat(&mut run, 0, CaveatCode::SharedHost.because("the server is 127.0.0.1"));
    add_caveat(&mut run, 0, CaveatCode::ClientSaturated.because("99 %"));
    let extents = |run: &Run| {
        let judged = pass(run, Pass::Write);
        judged.caveats.iter().map(|caveat| (caveat.code, caveat.extent)).collect::<Vec<_>>()
    };
    let once = CaveatExtent::Trials { seen: 1, made: 3 };
    let found = [(CaveatCode::ClientSaturated, once), (CaveatCode::SharedHost, once)];
    assert_eq!(extents(&run), found);
    let nfs = NfsTarget { embedded: true, ..NfsTarget::new("127.0.0.1", "/export") };
    run.spec.target = Target::Nfs(nfs);
    let arranged =
        [(CaveatCode::ClientSaturated, once), (CaveatCode::SharedHost, CaveatExtent::Arrangement)];
    assert_eq!(extents(&run), arranged);
}

#[test]
fn large_results_mark_the_row() {
    let extent = |written_bytes| {
        let mut run = writes(&[100, 101, 102]);
        let data = Evidence::bytes(written_bytes, 0, "wchar");
        add_caveat(&mut run, 1, CaveatCode::ResultsOnTarget.because("r.db").with_data(data));
        let judged = pass(&run, Pass::Write);
        assert_eq!(judged.verdict, Verdict::Valid);
        judged.caveats[0].extent
    };
    // One percent of 101 MB.
    assert_eq!(extent(1_010_000), CaveatExtent::Arrangement);
    assert_eq!(extent(1_010_001), CaveatExtent::Trials { seen: 1, made: 3 });
}

#[test]
fn excludes_cached_trials_by_rule() {
    let mut run = writes(&[100, 900, 101, 905, 102]);
    assert!(!codes(&pass(&run, Pass::Write)).contains(&"mixed-trials"));
    for index in [1, 3] {
        add_caveat(&mut run, index, CaveatCode::Cached.because("from memory"));
    }
    let judged = pass(&run, Pass::Write);
    let mixed = judged.caveats.iter().find(|caveat| caveat.code == CaveatCode::MixedTrials);
    let evidence = &mixed.expect("mixed-trials").evidence;
    insta::assert_snapshot!(
        evidence,
        @"2 cached trials reached 902 MB/s, 3 others 101 MB/s (medians)"
    );
    run.spec.repetition.discard = Discard::Cached;
    let judged = pass(&run, Pass::Write);
    let rate = judged.rate.unwrap();
    assert_eq!((rate.median, rate.n), (101e6, 3));
    assert!(rate.interval.1 < 200e6, "{:?}", rate.interval);
    assert!(codes(&judged).iter().all(|code| !["mixed-trials", "cached"].contains(code)));
    assert_eq!(judged.points.iter().filter(|point| !point.used).count(), 2);
    // All trials are of one kind, so there is nothing else to keep.
    for index in [0, 2, 4] {
        add_caveat(&mut run, index, CaveatCode::Cached.because("from memory"));
    }
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.rate.unwrap().n, codes(&judged).contains(&"mixed-trials")), (5, false));
}

#[test]
fn excludes_sync_from_rate_and_times() {
    let mut run = writes(&[100, 100, 100]);
    for trial in &mut run.trials {
        let mut sync = trial.passes[0].kinds[0].clone();
        sync.kind = OpKind::Sync;
        sync.bytes = 0;
        sync.response_time.record(SECOND);
        sync.errors = vec![(OpError(5), 0)];
        trial.passes[0].kinds.push(sync);
    }
    let judged = pass(&run, Pass::Write);
    assert_eq!(judged.ops_per_s.unwrap().median, 100.0);
    assert_eq!((judged.response_time.max(), judged.service_time.count()), (100_000, 300));
}

#[test]
fn has_no_rate_without_time() {
    let mut run = writes(&[100]);
    run.trials[0].passes[0].window_ns = 0;
    let judged = pass(&run, Pass::Write);
    assert!(judged.rate.is_none() && judged.points.is_empty());
    assert_eq!(judged.reason(), Some("no trial finished this pass"));
}

/// Like [`writes`], with a rule for what counts.
fn repeated(rates: &[u64], repetition: Repetition) -> Run {
    let mut run = writes(rates);
    run.spec.repetition = repetition;
    run
}

#[test]
fn shows_excluded_extremes_as_points() {
    let rule = Repetition { discard: Discard::Extremes, ..Repetition::default() };
    let judged = pass(&repeated(&[100, 900, 104, 102, 5, 101, 103], rule), Pass::Write);
    let rate = judged.rate.unwrap();
    assert_eq!((rate.n, rate.min, rate.max, rate.mean), (5, 100e6, 104e6, 102e6));
    assert_eq!((judged.trials_used, judged.trials_made, judged.points.len()), (5, 7, 7));
    // They are trimmed only once: the mean of five, not of three.
    assert_eq!(rate.trimmed_mean, Some(102e6));
    let whole = pass(&writes(&[100, 900, 104, 102, 5, 101, 103]), Pass::Write).rate.unwrap();
    assert_eq!(whole.trimmed_mean, Some(102e6));
    assert_eq!(
        pass(&writes(&[100, 103, 104]), Pass::Write).rate.unwrap().trimmed_mean,
        Some(103e6)
    );
    let unused: Vec<u32> =
        judged.points.iter().filter(|p| !p.used).map(|point| point.trial_index).collect();
    assert_eq!(unused, [1, 4]);
    // Excluded trials still widen the interval: keeping only those that agree adds no information.
    assert_eq!((rate.interval, codes(&judged)), (whole.interval, vec!["wide-interval"]));
}

#[test]
fn outliers_are_left_out_by_rule() {
    let rule = Repetition { discard: Discard::Outliers, ..Repetition::default() };
    let judged = pass(&repeated(&[100, 101, 300, 99, 100, 102, 101], rule), Pass::Write);
    assert_eq!((judged.rate.unwrap().max, judged.trials_used), (102e6, 6));
    let few = pass(&repeated(&[100, 101, 300, 99, 100, 102], rule), Pass::Write);
    assert_eq!((few.rate.unwrap().max, few.trials_used), (300e6, 6));
}

#[test]
fn trials_that_warm_up_never_count() {
    let rule = Repetition { warmup_trials: 2, ..Repetition::default() };
    let mut run = repeated(&[5, 7, 100, 101, 102], rule);
    add_caveat(&mut run, 0, CaveatCode::Errors.because("1 of 5 ops failed"));
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.rate.unwrap().min, judged.trials_made, judged.points.len()), (100e6, 3, 3));
    assert_eq!(judged.verdict, Verdict::Valid);
}

#[test]
fn settles_run_once_passes_are_narrow() {
    let rule = |until_permille| Repetition { until_permille, ..Repetition::default() };
    let narrow = [1_000, 1_001, 1_002, 1_003, 1_004];
    let settled = |rates: &[u64], until| {
        let mut run = repeated(rates, rule(until));
        run.spec.passes = vec![Pass::Write];
        is_settled(&run)
    };
    assert!(settled(&narrow, 3));
    assert!(!settled(&narrow, 1));
    assert!(!settled(&narrow[..4], 3));
    assert!(!settled(&narrow, 0));
    let mut two_passes = repeated(&narrow, rule(3));
    two_passes.spec.passes = vec![Pass::Write, Pass::Read];
    assert!(!is_settled(&two_passes));
}

#[test]
fn counts_commits_and_their_times() {
    let of_trial = |(index, appends): (usize, u64)| {
        let mut made = result(Pass::Oltp, OpKind::Read, 7_000 * MB);
        let mut log = result(Pass::Oltp, OpKind::LogAppend, appends * MB).kinds.remove(0);
        log.response_time = Histogram::new();
        log.response_time.record_n(5_000_000, appends);
        log.service_time = log.response_time.clone();
        made.kinds.push(log);
        trial(index as u32, TrialState::Done, vec![made])
    };
    let trials = [990, 1_000, 1_010].into_iter().enumerate().map(of_trial);
    let mut run = Run { index: 0, spec: spec(Workload::Database), trials: trials.collect() };
    let judged = pass(&run, Pass::Oltp);
    let one = judged.commits_per_s.unwrap();
    assert_eq!((one.n, one.median), (3, 1_000.0));
    assert_eq!(judged.rate.unwrap().median, 8_000.0);
    // The reads took 100 µs each, but users wait for commits.
    assert_eq!((judged.response_time.count(), judged.service_time.count()), (3_000, 3_000));
    assert!(judged.response_time.quantile(0.01) > 4_900_000);
    run.spec.database.group_commit = 8;
    let grouped = pass(&run, Pass::Oltp).commits_per_s.unwrap();
    assert_eq!(grouped.median, 8_000.0);
    assert_eq!(grouped.interval, (8.0 * one.interval.0, 8.0 * one.interval.1));
    assert_eq!(pass(&writes(&[1, 2, 3]), Pass::Write).commits_per_s, None);
}
