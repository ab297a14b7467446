//! Tests of trials that were disturbed by something outside of the run.

use model::random::SplitMix64;
use model::{Interference, InterferenceRule, InterferenceSource};

use super::*;

/// Returns writes with the given rates in megabytes per second and steal in thousandths.
fn stolen(trials: &[(u64, u64)]) -> Run {
    let rates: Vec<u64> = trials.iter().map(|(rate, _)| *rate).collect();
    let mut run = writes(&rates);
    for (trial, (_, steal)) in run.trials.iter_mut().zip(trials) {
        trial.passes[0].scope.interference =
            Interference::default().with(InterferenceSource::Steal, Some(*steal));
    }
    run
}

#[test]
fn disturbed_trials_are_set_aside() {
    let mut run = stolen(&[(1_000, 10), (610, 390), (1_010, 0), (1_005, 50), (800, 51)]);
    let contention = CaveatCode::ProcessorContention.because("the hypervisor took 39 %");
    add_caveat(&mut run, 1, contention);
    let judged = pass(&run, Pass::Write);
    let rate = judged.rate.unwrap();
    assert_eq!((rate.n, rate.min, judged.trials_made, judged.trials_used), (3, 1e9, 5, 3));
    let indexes: Vec<u32> = judged.set_aside.iter().map(|it| it.trial_index).collect();
    assert_eq!((indexes, disturbed_trials(&run)), (vec![1, 4], 2));
    insta::assert_snapshot!(
        judged.set_aside[0].disturbance.describe(),
        @"the hypervisor took 39.0 % of the workers' time (limit 5.00 %)"
    );
    // They are still listed as points, but their caveats don't count, either.
    let unused: Vec<u32> =
        judged.points.iter().filter(|it| !it.used).map(|it| it.trial_index).collect();
    assert_eq!((judged.points.len(), unused), (5, vec![1, 4]));
    assert_eq!((judged.verdict, codes(&judged)), (Verdict::Valid, vec![]));
}

#[test]
fn counts_all_if_most_are_disturbed() {
    let run = stolen(&[(1_000, 200), (990, 210), (1_010, 0), (1_005, 190)]);
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.trials_used, judged.set_aside.len(), disturbed_trials(&run)), (4, 0, 0));
    assert_eq!((judged.verdict, codes(&judged)), (Verdict::Valid, vec!["interference"]));
    let caveat = &judged.caveats[0];
    assert_eq!(caveat.extent, CaveatExtent::Trials { seen: 3, made: 4 });
    let data = caveat.data.as_ref().unwrap();
    assert_eq!((data.found, data.limit), (21.0, 5.0));
}

#[test]
fn lets_plan_count_disturbed_trials() {
    let mut run = stolen(&[(1_000, 0), (990, 0), (1_010, 0), (610, 390)]);
    run.spec.repetition.interference = InterferenceRule::Keep;
    let judged = pass(&run, Pass::Write);
    assert_eq!((judged.trials_used, judged.set_aside.len(), disturbed_trials(&run)), (4, 0, 0));
}

#[test]
fn two_speeds_are_not_hidden() {
    // A target that is either fast or slow, on a machine with a little interference all the time.
    let both = [1_000, 500, 510, 990, 505, 1_010, 495, 1_000, 1_005, 500];
    let mut random = SplitMix64::new(44);
    let trials = both.map(|rate| (rate, random.next() % 50));
    let judged = pass(&stolen(&trials), Pass::Write);
    assert_eq!((judged.trials_used, judged.set_aside.len()), (10, 0));
    let rate = judged.rate.unwrap();
    assert_eq!((rate.min, rate.max), (495e6, 1_010e6));
    assert_eq!(codes(&judged), ["wide-interval"]);
    insta::assert_snapshot!(judged.caveats[0].evidence);
    // Some trials are disturbed, fast and slow ones alike, so both speeds remain.
    let mut disturbed = trials;
    for at in [3, 4, 5, 6] {
        disturbed[at].1 = 200;
    }
    let judged = pass(&stolen(&disturbed), Pass::Write);
    assert_eq!((judged.trials_used, judged.set_aside.len()), (6, 4));
    let rate = judged.rate.unwrap();
    assert_eq!((rate.min, rate.max), (500e6, 1_005e6));
}

#[test]
fn wide_interval_names_what_rates_follow() {
    // Most trials are disturbed, so all of them count.
    let trials = [
        (1_000, 10),
        (610, 390),
        (700, 310),
        (930, 65),
        (890, 120),
        (1_010, 0),
        (750, 230),
        (940, 60),
        (800, 190),
        (985, 20),
    ];
    let judged = pass(&stolen(&trials), Pass::Write);
    assert_eq!(codes(&judged), ["wide-interval", "interference"]);
    insta::assert_snapshot!(judged.caveats[0].evidence);
    // With four trials, any correlation may be chance.
    let few = pass(&stolen(&trials[..4]), Pass::Write);
    assert!(!few.caveats[0].evidence.contains("rates follow"), "{few:?}");
}
