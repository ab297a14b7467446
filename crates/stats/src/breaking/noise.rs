//! Tests of searches on noisy servers: the rate of false alarms and of detections.
//!
//! Rates are log-normally distributed, and response times vary six times as much. Everything is
//! drawn from seeds, so that a failing search can be repeated.

use model::random::SplitMix64;

use super::*;

const SEARCHES: u64 = 400;

/// The heaviest load, so that at least ten loads are tried.
const MAX: u32 = 500;

/// Returns an approximately normal variate with deviation 1 (sum of twelve draws).
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// Searches a server with these rates and noise. Also returns the number of trials.
fn searched(seed: u64, scatter: f64, rate: impl Fn(u32) -> f64) -> (BreakingPoint, usize) {
    let mut random = SplitMix64::new(seed);
    let mut search = Search::new(SearchLimits {
        first: 1,
        max: MAX,
        recovery_ms: 5_000,
        slow_factor: 10,
        accuracy_permille: 0,
    });
    let mut tried = 0;
    while let Some(load) = search.next() {
        tried += 1;
        assert!(tried < 500, "seed {seed}");
        let figure = LoadFigure {
            per_s: rate(load) * (scatter * normal(&mut random)).exp(),
            p99_ns: (2e6 * (6.0 * scatter * normal(&mut random)).exp()) as u64,
            offered_share: None,
            accelerators: None,
        };
        search.handle_outcome(TrialOutcome::Figures(vec![Some(figure)]), tried * 1_000);
    }
    (search.breaking_point(), tried as usize)
}

/// Returns how many searches of a server with a constant rate report a failure, and the number of
/// trials per search.
fn false_alarms(scatter: f64) -> (usize, usize) {
    let all: Vec<_> = (0..SEARCHES).map(|seed| searched(seed, scatter, |_| 1_000.0)).collect();
    let wrong = all.iter().filter(|(found, _)| found.lightest_bad.is_some()).count();
    (wrong, all.iter().map(|(_, tried)| tried).sum::<usize>() / all.len())
}

/// Returns how many searches find the exact load at which the rate drops by a factor, and how many
/// are above it by more than 10 %.
fn found(scatter: f64, share: f64) -> (usize, usize) {
    let mut right = 0;
    let mut above = 0;
    for seed in 0..SEARCHES {
        let from = 20 + (seed % 200) as u32;
        let rate = |load| if load < from { 1_000.0 } else { 1_000.0 * share };
        let at = searched(seed, scatter, rate).0.lightest_bad.map_or(u32::MAX, |(load, _)| load);
        right += usize::from(at == from);
        above += usize::from(at > from + from / 10);
    }
    (right, above)
}

#[test]
fn limits_false_alarms_of_noise() {
    for scatter in [0.02, 0.1, 0.2, 0.3] {
        let (wrong, trials) = false_alarms(scatter);
        assert!(wrong * 20 <= SEARCHES as usize, "scatter {scatter}: {wrong} of {SEARCHES}");
        assert!(trials <= 60, "scatter {scatter}: {trials} trials");
    }
}

#[test]
fn real_falls_are_found() {
    for (scatter, share) in [(0.02, 0.7), (0.05, 0.6), (0.1, 0.5), (0.2, 0.4)] {
        let (right, above) = found(scatter, share);
        let summary = format!("scatter {scatter}, falls to {share}: {right} right, {above} above");
        assert!(right * 100 >= SEARCHES as usize * 95, "{summary}");
        assert!(above * 100 <= SEARCHES as usize * 2, "{summary}");
    }
}
