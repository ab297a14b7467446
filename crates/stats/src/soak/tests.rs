//! Tests with made-up timelines.
//!
//! Each has one fault whose detection, stall and recovery are known to the interval.

use super::*;
use model::soak::{Disturbance, FaultKind};
use model::{
    CaveatCode, FaultEvent, Histogram, HostResult, IntervalSample, IntervalStats, KindResult,
};

const MS: u64 = 1_000_000;

/// Returns intervals of 100 ms with the given ops, none of which takes longer than 1 ms.
fn samples(ops: &[u64]) -> Vec<IntervalStats> {
    let each = (1..).zip(ops).map(|(number, ops)| IntervalStats {
        at_ns: number * 100 * MS,
        ops: *ops,
        max_ns: if *ops == 0 { 0 } else { MS },
        uncommitted: number,
        rss_bytes: 50 << 20,
        ..IntervalStats::default()
    });
    each.collect()
}

fn event(begun_ns: u64) -> FaultEvent {
    FaultEvent {
        fault: FaultKind::ServerStall,
        host: String::new(),
        planned_ns: begun_ns,
        begun_ns,
        ended_ns: Some(begun_ns + 300 * MS),
        failed: None,
    }
}

fn effect(samples: &[IntervalStats], begun_ns: u64) -> Effect {
    Effect::from_intervals(&event(begun_ns), samples, Segment { number: 0, start_ns: 0 }, u64::MAX)
}

#[test]
fn notices_stall_with_start_and_end() {
    let mut seen = samples(&[50, 50, 50, 50, 50, 50, 20, 0, 0, 90, 60, 50, 50]);
    // Delayed ops complete at once, late.
    seen[9].max_ns = 320 * MS;
    let effect = effect(&seen, 620 * MS);
    assert_eq!(effect.before_per_s, Some(500.0));
    assert_eq!(effect.detect_ns, Some(80 * MS));
    assert_eq!(effect.stall_ns, 200 * MS);
    assert_eq!(effect.recover_ns, Some(280 * MS));
    assert_eq!((effect.longest_ns, effect.uncommitted, effect.errors), (320 * MS, 6, 0));
}

#[test]
fn ignores_effect_without_difference() {
    let effect = effect(&samples(&[50, 51, 49, 50, 50, 50, 48, 52, 50]), 520 * MS);
    assert_eq!((effect.detect_ns, effect.recover_ns, effect.stall_ns), (None, None, 0));
    // Nor does a fault explain an event long after its end.
    let mut late = samples(&[50; 30]);
    late[25].errors = 1;
    assert_eq!(self::effect(&late, 520 * MS).detect_ns, None);
    assert!(self::effect(&late, 2_000 * MS).detect_ns.is_some());
}

#[test]
fn notices_failed_ops_at_steady_rate() {
    let mut seen = samples(&[50; 12]);
    seen[7].max_ns = 11 * MS;
    seen[8].errors = 3;
    let effect = effect(&seen, 650 * MS);
    assert_eq!(effect.detect_ns, Some(150 * MS));
    // The late interval was otherwise good, but the next one was not.
    assert_eq!(effect.recover_ns, Some(250 * MS));
    assert_eq!((effect.errors, effect.longest_ns), (3, 11 * MS));
}

#[test]
fn reports_missing_recovery_or_baseline() {
    let gone = effect(&samples(&[50, 50, 50, 50, 50, 50, 0, 0, 0, 0]), 600 * MS);
    assert_eq!((gone.recover_ns, gone.stall_ns), (None, 400 * MS));
    let early = effect(&samples(&[50, 50, 0, 50, 50, 50]), 210 * MS);
    assert_eq!((early.before_per_s, early.recover_ns), (None, None));
    assert_eq!(early.detect_ns, Some(90 * MS));
}

fn kind(kind: OpKind, done: u64, errors: &[(OpError, u64)]) -> KindResult {
    KindResult {
        kind,
        issued: done,
        done,
        bytes: done * 4096,
        errors: errors.to_vec(),
        service_time: Histogram::sparse(),
        response_time: Histogram::sparse(),
    }
}

fn segment(index: u32, fault_events: Vec<FaultEvent>) -> Trial {
    let mut load = PassResult::new(Pass::Mix);
    load.window_ns = 1_300 * MS;
    load.intervals = samples(&[50, 50, 50, 50, 50, 50, 0, 0, 60, 50, 50, 50, 50]);
    load.fault_events = fault_events;
    load.kinds = vec![kind(OpKind::Read, 300, &[]), kind(OpKind::Write, 300, &[])];
    let mut back = PassResult::new(Pass::Read);
    back.kinds = vec![kind(OpKind::Read, 64, &[])];
    back.scope.kept = Some(DataCheck { blocks: 64, written: 40, ..DataCheck::default() });
    Trial {
        index,
        position: index,
        started_unix_ms: 0,
        state: TrialState::Done,
        passes: vec![load, back],
        facts: Vec::new(),
    }
}

fn requested_soak() -> Soak {
    let one = Disturbance {
        fault: FaultKind::ServerStall,
        host: None,
        at_ms: 600,
        lasts_ms: 300,
        by_ms: 0,
    };
    Soak { duration_ms: 2_600, segment_ms: 1_300, commit_every_ops: 64, disturbances: vec![one] }
}

fn two() -> Vec<Trial> {
    vec![segment(0, vec![event(600 * MS)]), segment(1, Vec::new())]
}

fn verdict(trials: &[Trial]) -> Verdict {
    judge_soak(&requested_soak(), trials).verdict
}

#[test]
fn survives_without_loss_or_failure() {
    let soaked = judge_soak(&requested_soak(), &two());
    assert_eq!((soaked.verdict, soaked.data), (Verdict::Survives, DataState::Verified));
    assert_eq!(soaked.read_back, ReadBack { bytes: 2 * 64 * 4096, files: 0 });
    assert_eq!(soaked.segments, SegmentCounts { planned: 2, made: 2, read_back: 2 });
    assert_eq!((soaked.ops, soaked.kept.blocks), (1_200, 128));
    assert_eq!(soaked.verified_bytes, 2 * 364 * 4096);
    let effect = &soaked.effects[0];
    assert_eq!((effect.begun_ns, effect.recover_ns), (600 * MS, Some(200 * MS)));
}

#[test]
fn measures_effects_from_soak_start() {
    let trials = vec![segment(0, Vec::new()), segment(1, vec![event(600 * MS)])];
    let effect = &judge_soak(&requested_soak(), &trials).effects[0];
    assert_eq!((effect.begun_ns, effect.ended_ns()), (1_900 * MS, Some(2_200 * MS)));
}

#[test]
fn takes_worst_finding_as_verdict() {
    let mut failed = two();
    let stale = [(OpError(70), 2), (OpError(10_052), 3), (OpError(28), 4)];
    failed[1].passes[0].kinds[1] = kind(OpKind::Write, 300, &stale);
    let fails = judge_soak(&requested_soak(), &failed);
    assert_eq!((fails.verdict, fails.failed()), (Verdict::FailsOps, 9));
    assert_eq!((fails.stale, fails.state, fails.data), (2, 3, DataState::Verified));

    let mut gone = failed.clone();
    gone[0].passes[0].intervals.truncate(8);
    assert_eq!(verdict(&gone), Verdict::NeverRecovers);
    gone[1].passes[1].scope.kept = Some(DataCheck { lost: 1, ..DataCheck::default() });
    assert_eq!(verdict(&gone), Verdict::LosesData);

    let mut wrong = two();
    wrong[0].passes[0].kinds[0] = kind(OpKind::Read, 300, &[(OpError::MISMATCH, 1)]);
    assert_eq!(verdict(&wrong), Verdict::LosesData);
}

#[test]
fn what_was_not_done_is_unknown() {
    assert_eq!(verdict(&two()[..1]), Verdict::CantTell);
    let mut unread = two();
    unread[1].passes.truncate(1);
    assert_eq!(verdict(&unread), Verdict::CantTell);
    let mut unmade = two();
    unmade[0].passes[0].fault_events[0].failed = Some("not allowed".to_owned());
    assert_eq!(verdict(&unmade), Verdict::CantTell);
    // Without a fault, a server is not reported as never recovering.
    let mut failed = vec![segment(0, Vec::new()), segment(1, Vec::new())];
    failed[1].state = TrialState::Failed("no space".to_owned());
    assert_eq!(verdict(&failed), Verdict::CantTell);
    failed[0] = segment(0, vec![event(600 * MS)]);
    assert_eq!(verdict(&failed), Verdict::NeverRecovers);
}

/// The server is gone, hangs, or was replaced by another one, so nothing can be read back.
#[test]
fn counts_unread_data_as_unknown() {
    let mut gone = two();
    gone[1].passes.truncate(1);
    gone[1].passes[0].kinds[1] = kind(OpKind::Write, 300, &[(OpError::LOST, 64)]);
    gone[1].state = TrialState::Failed("the server does not answer".to_owned());
    let result = judge_soak(&requested_soak(), &gone);
    // A client that gave up did not recover, whether or not a fault was planned.
    assert_eq!((result.verdict, result.data), (Verdict::NeverRecovers, DataState::Unverified));
    let quiet = [segment(0, Vec::new()), gone[1].clone()];
    assert_eq!(verdict(&quiet), Verdict::NeverRecovers);

    // Each read of the written data failed, or only one of them did.
    for (done, errors) in [(0, 64), (63, 1)] {
        let mut hung = two();
        hung[1].passes[1].kinds = vec![kind(OpKind::Read, done, &[(OpError::LOST, errors)])];
        let result = judge_soak(&requested_soak(), &hung);
        assert_eq!((result.verdict, result.data), (Verdict::FailsOps, DataState::Unverified));
        assert_eq!(result.segments, SegmentCounts { planned: 2, made: 2, read_back: 1 });
    }
}

#[test]
fn memory_grows_or_not() {
    let with = |grow: u64| {
        let mut trials: Vec<Trial> = (0..16).map(|index| segment(index, Vec::new())).collect();
        let all = trials.iter_mut().flat_map(|trial| &mut trial.passes[0].intervals);
        for (number, sample) in all.enumerate() {
            sample.rss_bytes += number as u64 * grow;
        }
        judge_soak(&requested_soak(), &trials).memory.unwrap()
    };
    let steady = with(0);
    assert_eq!((steady.early_bytes, steady.late_bytes), (50 << 20, 50 << 20));
    assert!(steady.is_steady() && steady.ops > 0);
    assert!(with(1 << 10).is_steady() && !with(1 << 20).is_steady());
    assert_eq!(judge_soak(&requested_soak(), &two()).memory, None);
}

/// Looks for a burst in segments of 1.3 s with these ops in each interval of 100 ms.
fn burst(segments: &[Vec<u64>], segment_ms: u64, faults: &[FaultEvent]) -> Option<LevelDrop> {
    let mut trials = Vec::new();
    for (index, ops) in (0..).zip(segments) {
        let mut trial = segment(index, faults.to_vec());
        let load = &mut trial.passes[0];
        load.intervals = samples(ops);
        for one in &load.intervals {
            load.samples.push(IntervalSample { at_ns: one.at_ns, ops: one.ops, bytes: 0 });
        }
        trials.push(trial);
    }
    judge_soak(&Soak { segment_ms, ..requested_soak() }, &trials).burst
}

#[test]
fn finds_burst_over_segments() {
    let found = |rates: [u64; 4]| burst(&rates.map(|rate| vec![rate; 13]), 1_300, &[]);
    let drop = found([50, 50, 20, 20]).unwrap();
    assert!(drop.at_ns.abs_diff(2_600 * MS) <= 100 * MS, "{drop:?}");
    assert_eq!((drop.before_per_s.round(), drop.after_per_s.round()), (500.0, 200.0));
    assert!(drop.amount.abs_diff(26 * 50) <= 50, "{drop:?}");
    for other in [[50; 4], [20, 50, 50, 50], [50, 20, 50, 20]] {
        assert_eq!(found(other), None, "{other:?}");
    }
}

#[test]
fn blames_fault_rather_than_burst() {
    let ops = [vec![50; 26], vec![20; 26]].concat();
    let found = |faults: &[FaultEvent]| burst(std::slice::from_ref(&ops), 5_200, faults);
    assert!(found(&[]).is_some());
    assert_eq!(found(&[event(2_500 * MS)]), None);
}

#[test]
fn blames_no_server_for_killed_client() {
    let kill = FaultEvent {
        fault: FaultKind::ClientKill,
        host: "two".to_owned(),
        ended_ns: Some(625 * MS),
        ..event(600 * MS)
    };
    let steady = samples(&[50; 13]);
    let mut trials = vec![segment(0, vec![kill.clone()]), segment(1, Vec::new())];
    trials[0].passes[0].intervals.clone_from(&steady);
    let read_by =
        |host: &str, ops| HostResult { host: host.to_owned(), ops, ..HostResult::default() };
    trials[0].passes[1].hosts = vec![read_by("one", 32), read_by("two", 40)];
    let result = judge_soak(&requested_soak(), &trials);
    assert_eq!(result.verdict, Verdict::Survives);
    let effect = &result.effects[0];
    assert_eq!((effect.noticed_ns, effect.read_back_ops), (Some(25 * MS), Some(40)));
    assert_eq!((effect.detect_ns, effect.stall_ns), (None, 0), "the others went on");
    trials[0].passes[0].fault_events[0].failed =
        Some("its workers had already finished".to_owned());
    let unmade = judge_soak(&requested_soak(), &trials);
    assert_eq!((unmade.verdict, unmade.effects[0].noticed_ns), (Verdict::CantTell, None));
}

#[test]
fn reports_clock_step_and_detection() {
    let one = Disturbance {
        fault: FaultKind::ClockStep,
        host: Some("one".to_owned()),
        at_ms: 600,
        lasts_ms: 300,
        by_ms: -5_000,
    };
    let soak = Soak { disturbances: vec![one], ..requested_soak() };
    let step =
        FaultEvent { fault: FaultKind::ClockStep, host: "one".to_owned(), ..event(640 * MS) };
    let step = FaultEvent { planned_ns: 600 * MS, ..step };
    let mut trials = vec![segment(0, vec![step]), segment(1, Vec::new())];
    trials[0].passes[0].intervals = samples(&[50; 13]);
    let effect = judge_soak(&soak, &trials).effects.remove(0);
    assert_eq!((effect.by_ms, effect.saw_step, effect.detect_ns), (-5_000, false, None));
    trials[0].passes[0].caveats.push(CaveatCode::Clock.because("it stepped"));
    assert!(judge_soak(&soak, &trials).effects[0].saw_step);
}
