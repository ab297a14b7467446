//! Tests of searches on simulated servers: the results, and which loads are tried.
//!
//! A clock advances by one second with each trial, as for short trials.

use super::*;

/// Searches a server simulated by a function. Also returns the loads that were tried.
fn searched(max: u32, mut server: impl FnMut(u32) -> TrialOutcome) -> (BreakingPoint, Vec<u32>) {
    let mut search = Search::new(SearchLimits {
        first: 1,
        max,
        recovery_ms: 5_000,
        slow_factor: 10,
        accuracy_permille: 0,
    });
    let mut tried = Vec::new();
    while let Some(load) = search.next() {
        tried.push(load);
        search.handle_outcome(server(load), tried.len() as u64 * 1_000);
        assert!(tried.len() < 100, "{tried:?}");
    }
    (search.breaking_point(), tried)
}

fn figure(per_s: f64) -> LoadFigure {
    LoadFigure { per_s, p99_ns: 2_000_000, offered_share: None, accelerators: None }
}

fn rates(one: f64) -> TrialOutcome {
    TrialOutcome::Figures(vec![Some(figure(one))])
}

fn broken() -> TrialOutcome {
    TrialOutcome::Broken(TrialFailure {
        hangs: true,
        is_late: false,
        reason: "no answer".to_owned(),
    })
}

const AT_ONCE: Option<Recovery> = Some(Recovery::Back { from_ms: 0, to_ms: 0 });

#[test]
fn finds_breaking_load_exactly() {
    for limit in 2..200 {
        let (found, tried) = searched(1_000, |load| match load {
            load if load >= limit => broken(),
            load => rates(f64::from(load)),
        });
        let broken = Some((limit, ServerFailure::Broken));
        assert_eq!(
            (found.heaviest_good, found.lightest_bad),
            (Some(limit - 1), broken),
            "{tried:?}"
        );
        assert_eq!(found.recovery, AT_ONCE);
        assert!(tried.len() < 32, "{tried:?}");
    }
}

#[test]
fn stops_loading_unrecovered_server() {
    let mut is_dead = false;
    let (found, tried) = searched(1_000, |load| {
        is_dead |= load >= 40;
        if is_dead { broken() } else { rates(1.0) }
    });
    // Recovery is checked for five seconds.
    assert_eq!(tried, [1, 2, 4, 8, 16, 32, 64, 1, 1, 1, 1, 1, 1]);
    assert_eq!(
        (found.heaviest_good, found.lightest_bad),
        (Some(32), Some((64, ServerFailure::Broken)))
    );
    assert_eq!(found.recovery, Some(Recovery::Never { for_ms: 5_000 }));
    // If the lightest load breaks the server, there is no lighter one.
    let (found, tried) = searched(9, |_| broken());
    let at_once = Some((1, ServerFailure::Broken));
    assert_eq!((found.heaviest_good, found.lightest_bad, tried), (None, at_once, vec![1]));
    assert_eq!(found.recovery, None);
}

#[test]
fn reports_recovery_time() {
    // Dead for three trials after each break.
    let mut dead = 0;
    let (found, tried) = searched(16, |load| {
        dead = if load >= 3 { 3 } else { dead };
        let is_dead = dead > 0;
        dead -= u32::from(is_dead);
        if is_dead { broken() } else { rates(1.0) }
    });
    assert_eq!(tried, [1, 2, 4, 1, 1, 1, 3, 1, 1, 1, 3, 1, 1, 1]);
    assert_eq!(
        (found.heaviest_good, found.lightest_bad),
        (Some(2), Some((3, ServerFailure::Broken)))
    );
    assert_eq!(found.recovery, Some(Recovery::Back { from_ms: 1_000, to_ms: 2_000 }));
    // A server that keeps working, but not as before.
    let mut is_ill = false;
    let (found, _) = searched(16, |load| {
        is_ill |= load >= 3;
        if load >= 3 { broken() } else { rates(if is_ill { 10.0 } else { 100.0 }) }
    });
    assert_eq!(found.lightest_bad, Some((3, ServerFailure::Broken)));
    assert_eq!(found.recovery, Some(Recovery::Impaired { for_ms: 5_000 }));
}

#[test]
fn detects_exploding_response_times() {
    let at = |p99_ns| TrialOutcome::Figures(vec![Some(LoadFigure { p99_ns, ..figure(100.0) })]);
    // In a closed loop, response times may grow with the number of clients.
    let (found, _) = searched(64, |load| at(u64::from(load) * 15_000_000));
    assert_eq!(found.lightest_bad, None);
    let far = |load: u32| if load < 20 { 2_000_000 } else { 900_000_000 };
    let (found, _) = searched(64, |load| at(far(load)));
    let slow = ServerFailure::Slow { pass: 0, from_ns: 2_000_000, to_ns: 900_000_000, turns: 3 };
    assert_eq!((found.heaviest_good, found.lightest_bad), (Some(19), Some((20, slow))));
    // A tenth of a millisecond is too short as a reference.
    let (found, _) = searched(64, |load| at(if load < 20 { 10_000 } else { 9_000_000 }));
    assert_eq!(found.lightest_bad, None);
}

#[test]
fn narrows_rate_to_two_percent() {
    for limit in [157, 9_999, 12_801, 333_333] {
        let request = RampRequest {
            first: 100,
            max: 1_000_000,
            accuracy_permille: RATE_ACCURACY_PERMILLE,
            ..RampRequest::default()
        };
        let mut search = Search::new((&request).into());
        let mut trials = 0;
        while let Some(load) = search.next() {
            let per_s = f64::from(load.min(limit));
            let share = Some(per_s / f64::from(load));
            let figure = LoadFigure { offered_share: share, ..figure(per_s) };
            trials += 1;
            search.handle_outcome(TrialOutcome::Figures(vec![Some(figure)]), trials * 1_000);
        }
        let found = search.breaking_point();
        let Some((lightest_bad, ServerFailure::Behind { .. })) = found.lightest_bad else {
            panic!("{found:?}")
        };
        let heaviest_good = found.heaviest_good.unwrap();
        assert!(lightest_bad - heaviest_good <= heaviest_good / 50, "{limit}: {found:?}");
        // It completes 95 % of slightly more than its capacity.
        assert!(heaviest_good <= limit * 106 / 100 && lightest_bad >= limit, "{limit}: {found:?}");
        assert_eq!(found.saturated_from, [None]);
        assert!(trials < 35, "{limit}: {trials} trials");
    }
}

#[test]
fn does_not_sustain_unmet_load() {
    let (found, tried) = searched(1_000, |load| {
        let per_s = f64::from(load.min(300));
        let share = Some(per_s / f64::from(load));
        TrialOutcome::Figures(vec![Some(LoadFigure { offered_share: share, ..figure(per_s) })])
    });
    // 300 of 315 are 95.2 %, 300 of 316 are less than 95 %.
    assert_eq!(found.heaviest_good, Some(315), "{tried:?}");
    assert!(
        matches!(found.lightest_bad, Some((316, ServerFailure::Behind { pass: 0, .. }))),
        "{found:?}"
    );
}

#[test]
fn reports_loss_of_fifth_as_degraded() {
    // The reads of seed 000: aggregate KB/s of 1, 2, 5 and 10 clients, with steps in between.
    let read = |load| [24_799.0, 19_542.0, 19_000.0, 15_000.0, 12_183.0][load as usize - 1];
    let (found, tried) = searched(5, |load| {
        TrialOutcome::Figures(vec![Some(figure(20_000.0)), Some(figure(read(load)))])
    });
    let how = ServerFailure::Degraded { pass: 1, best_at: 1, turns: 3 };
    assert_eq!((found.heaviest_good, found.lightest_bad), (Some(1), Some((2, how))));
    assert_eq!(tried, [1, 2, 1, 2, 1, 2, 1, 2, 1]);
    let (found, _) = searched(64, |load| rates(if load < 23 { 100.0 } else { 79.0 }));
    assert!(
        matches!(found.lightest_bad, Some((23, ServerFailure::Degraded { pass: 0, .. }))),
        "{found:?}"
    );
}

#[test]
fn one_slow_trial_is_no_degradation() {
    let mut calls = 0;
    let (found, tried) = searched(8, |_| {
        calls += 1;
        rates(if calls == 3 { 10.0 } else { 100.0 })
    });
    assert_eq!((found.heaviest_good, found.lightest_bad), (Some(8), None));
    // The lighter load comes first; two good rounds clear the heavier one.
    assert_eq!(tried, [1, 2, 4, 2, 4, 2, 4, 8]);
}

#[test]
fn continues_beyond_saturation_to_limit() {
    let (found, tried) = searched(50, |load| rates(f64::from(load.min(7))));
    assert_eq!((found.heaviest_good, found.lightest_bad), (Some(50), None));
    assert_eq!(found.saturated_from, [Some(8)]);
    assert_eq!(tried, [1, 2, 4, 8, 16, 32, 50]);
    // A rate that still rises, or was not tried with twice the load, is not saturated.
    assert_eq!(searched(50, |load| rates(f64::from(load))).0.saturated_from, [None]);
    assert_eq!(searched(1, |_| rates(5.0)).0.saturated_from, [None]);
}

#[test]
fn blames_no_server_for_client_limit() {
    let (found, _) = searched(64, |load| match load {
        40.. => broken(),
        8.. => TrialOutcome::Figures(vec![None]),
        _ => rates(f64::from(load)),
    });
    assert_eq!(found.lightest_bad, Some((40, ServerFailure::Broken)));
    assert_eq!((found.heaviest_good, found.unsure_from), (Some(39), Some(8)));
    assert_eq!(found.saturated_from, [None]);
}

#[test]
fn repeats_load_until_client_can_tell() {
    // The server completes 100 op/s. Each trial with results is followed by some in which the
    // client is at its own limit.
    let found = |limited: u32| {
        let mut trials: BTreeMap<u32, u32> = BTreeMap::new();
        searched(400, |load| {
            let per_s = f64::from(load.min(100));
            let offered_share = Some(per_s / f64::from(load));
            let made = trials.entry(load).or_default();
            let is_free = load <= 100 || made.is_multiple_of(limited + 1);
            *made += 1;
            TrialOutcome::Figures(vec![
                is_free.then(|| LoadFigure { offered_share, ..figure(per_s) }),
            ])
        })
        .0
    };
    for limited in 0..3 {
        let found = found(limited);
        let at = found.lightest_bad.map(|(at, _)| at);
        // Less than 95 % of 106 are completed.
        assert_eq!((at, found.heaviest_good), (Some(106), Some(105)), "{limited}: {found:?}");
    }
    // If the client is always at its limit, the result is unknown and reported as such.
    let found = found(3);
    assert_eq!((found.lightest_bad, found.unsure_from), (None, Some(128)), "{found:?}");
}

#[test]
fn counts_breaks_below_first() {
    // Slow from 20 on, dead from 40 on: it failed at 20.
    let (found, _) = searched(64, |load| match load {
        40.. => broken(),
        20.. => rates(50.0),
        _ => rates(100.0),
    });
    assert_eq!(found.heaviest_good, Some(19));
    assert!(
        matches!(found.lightest_bad, Some((20, ServerFailure::Degraded { pass: 0, .. }))),
        "{found:?}"
    );
}

#[test]
fn dismisses_break_that_does_not_repeat() {
    let mut calls = 0;
    let (found, tried) = searched(64, |load| {
        calls += 1;
        if calls == 5 { broken() } else { rates(f64::from(load)) }
    });
    assert_eq!(tried, [1, 2, 4, 8, 16, 1, 12, 14, 15, 16, 32, 64]);
    assert_eq!((found.heaviest_good, found.lightest_bad, found.recovery), (Some(64), None, None));
    assert_eq!(found.once, [16]);
}
