//! Tests of what the order of trials and their timelines show: drift, steadiness, the common
//! window, and the estimate of what a closed loop omitted.

use model::{IntervalSample, Work};

use super::*;

fn evidence_of(judged: &Judged, code: CaveatCode) -> Option<String> {
    let found = judged.caveats.iter().find(|caveat| caveat.code == code)?;
    Some(found.evidence_line())
}

#[test]
fn reports_only_perfect_order_as_drift() {
    let drift = |rates: &[u64]| evidence_of(&pass(&writes(rates), Pass::Write), CaveatCode::Drift);
    let evidence = [[100, 99, 97, 96, 94], [94, 96, 97, 99, 100]];
    let evidence = evidence.map(|rates| drift(&rates).unwrap());
    insta::assert_snapshot!(evidence.join("\n"));
    // As regular, but within 5 %; larger, but not in order; too few.
    assert_eq!(drift(&[1_000, 1_010, 1_020, 1_030, 1_040]), None);
    assert_eq!(drift(&[100, 110, 105, 115, 90]), None);
    assert_eq!(drift(&[100, 110, 120, 130]), None);
}

#[test]
fn finds_drift_in_trial_order() {
    let mut run = writes(&[100, 99, 97, 96, 94]);
    for (trial, position) in run.trials.iter_mut().zip([7, 30, 11, 2, 19]) {
        trial.position = position;
    }
    assert_eq!(evidence_of(&pass(&run, Pass::Write), CaveatCode::Drift), None);
}

/// Returns a mix with one sample per second.
fn mixes(trials: &[&[u64]]) -> Run {
    let made = trials.iter().enumerate().map(|(index, ops)| {
        let window_ns = ops.len() as u64 * SECOND;
        let sample = |(number, ops): (usize, &u64)| IntervalSample {
            at_ns: (number as u64 + 1) * SECOND,
            ops: *ops,
            bytes: 0,
        };
        let mix = PassResult {
            window_ns,
            first_done_ns: window_ns,
            samples: ops.iter().enumerate().map(sample).collect(),
            ..result(Pass::Mix, OpKind::Read, ops.iter().sum::<u64>() * MB)
        };
        trial(index as u32, TrialState::Done, vec![mix])
    });
    Run { index: 0, spec: spec(Workload::Mixed), trials: made.collect() }
}

#[test]
fn counts_unsettled_trials() {
    let even: &[u64] = &[1_000; 6];
    let judged = pass(&mixes(&[even, even, even]), Pass::Mix);
    assert_eq!(evidence_of(&judged, CaveatCode::NotSteady), None);
    let rising: &[u64] = &[600, 800, 1_000, 1_200, 1_400];
    let judged = pass(&mixes(&[even, rising, rising]), Pass::Mix);
    insta::assert_snapshot!(evidence_of(&judged, CaveatCode::NotSteady).unwrap());
    assert_eq!(judged.verdict, Verdict::Degraded);
}

#[test]
fn names_burst_instead_of_unsteadiness() {
    let burst = |at: usize| [vec![2_000; at], vec![500; 20 - at]].concat();
    let even: &[u64] = &[1_000; 20];
    let rising: &[u64] = &[600, 800, 1_000, 1_200, 1_400];
    let judged = pass(&mixes(&[&burst(8), &burst(10), even]), Pass::Mix);
    insta::assert_snapshot!(evidence_of(&judged, CaveatCode::Burst).unwrap());
    assert_eq!(evidence_of(&judged, CaveatCode::NotSteady), None);
    assert_eq!(judged.verdict, Verdict::Degraded);
    // The other trial is not steady for another reason.
    let judged = pass(&mixes(&[&burst(8), rising]), Pass::Mix);
    assert!(evidence_of(&judged, CaveatCode::NotSteady).unwrap().contains("1 of 2"));
    let judged = pass(&mixes(&[even, rising]), Pass::Mix);
    assert_eq!(evidence_of(&judged, CaveatCode::Burst), None);
}

#[test]
fn computes_rate_of_common_window() {
    let mut run = writes(&[90, 100, 110]);
    assert!(pass(&run, Pass::Write).common.is_none());
    for trial in &mut run.trials {
        let result = &mut trial.passes[0];
        result.common_window_ns = SECOND / 2;
        result.scope.common = Some(Work { ops: 1, bytes: 80 * MB });
    }
    let judged = pass(&run, Pass::Write);
    assert_eq!(judged.common.map(|common| common.median), Some(160e6));
}

#[test]
fn estimates_open_loop_only_from_closed() {
    // 900 ops of 1 ms and a stall of 100 ms in one slot: one second at 1.11 ms each.
    let mut run = writes(&[901]);
    let kind = &mut run.trials[0].passes[0].kinds[0];
    kind.service_time = Histogram::new();
    kind.service_time.record_n(MB, 900);
    kind.service_time.record(100 * MB);
    assert!(pass(&run, Pass::Write).estimated_response_time.is_none(), "slots are not known");
    run.trials[0].passes[0].scope.slots = 1;
    let judged = pass(&run, Pass::Write);
    let estimate = judged.estimated_response_time.unwrap();
    // Once every 1.11 ms in 100 ms, minus the one that was measured and the last one.
    assert_eq!(estimate.count(), 901 + 89);
    assert!(estimate.quantile(0.99) > 80 * MB && judged.service_time.quantile(0.99) < 2 * MB);
    run.spec.load.rate_per_s = 10;
    assert!(pass(&run, Pass::Write).estimated_response_time.is_none());
}

/// Returns a run on names with the given numbers of stats per second.
fn stats_of(rates: &[u64]) -> Run {
    let mut trials = Vec::new();
    for (index, rate) in rates.iter().enumerate() {
        let pass = result(Pass::Stat, OpKind::Stat, rate * MB);
        trials.push(trial(index as u32, TrialState::Done, vec![pass]));
    }
    Run { index: 0, spec: spec(Workload::Metadata), trials }
}

#[test]
fn reports_dependent_trials() {
    let evidence = |rates: &[u64]| {
        evidence_of(&pass(&stats_of(rates), Pass::Stat), CaveatCode::TrialsInteract)
    };
    // As on ext4 without a journal: a state lasts for several trials, or one trial pays for the
    // last one.
    let waves = [500, 490, 440, 300, 120, 60, 80, 200, 350, 470, 495, 460];
    let found = evidence(&waves).unwrap();
    assert!(found.starts_with("12 trials come in waves"), "{found}");
    let turns = [440, 55, 430, 60, 450, 50, 445, 52, 420, 61, 435, 58, 428, 54];
    assert!(evidence(&turns).unwrap().starts_with("14 trials alternate"));
    // Five show nothing, and a range of 10 % misleads nobody.
    assert_eq!(evidence(&turns[..5]), None);
    assert_eq!(evidence(&turns.map(|rate| 10_000 + rate)), None);
    // A rate that falls all the way is a drift, which is more informative.
    let falling = pass(&stats_of(&[500, 450, 400, 350, 300, 250, 200]), Pass::Stat);
    assert_eq!(evidence_of(&falling, CaveatCode::TrialsInteract), None);
    assert!(evidence_of(&falling, CaveatCode::Drift).is_some());
}

#[test]
fn notes_harmless_waves() {
    let severity = |rates: &[u64]| {
        let judged = pass(&stats_of(rates), Pass::Stat);
        let found = judged.caveats.iter().find(|c| c.code == CaveatCode::TrialsInteract);
        found.map(|caveat| (caveat.severity, caveat.evidence.clone()))
    };
    // Most trials agree within 1 %, so even a third of them would; only the end is low.
    let mut mostly = vec![1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006, 1_007, 1_008, 1_009];
    mostly.extend([1_010, 1_011, 1_012, 1_008, 1_004, 1_000, 980, 930, 890, 900]);
    let (level, evidence) = severity(&mostly).unwrap();
    assert_eq!(level, Severity::Note, "{evidence}");
    assert!(evidence.contains("off by ±"), "{evidence}");
    // The same waves at ten times the amplitude mark the result.
    let high: Vec<u64> = mostly.iter().map(|rate| 10 * rate - 8_900 + 100).collect();
    let (level, evidence) = severity(&high).unwrap();
    assert_eq!(level, Severity::Degraded, "{evidence}");
}
