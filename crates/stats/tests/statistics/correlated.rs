//! Effect of intermittent load on intervals and comparisons, which assume that trials are
//! independent: the numbers in `docs/design/statistics.md`, "Simulations".
//!
//! The rate is that of a target on a machine with other work to do. The amount of other work
//! follows an autoregressive process from trial to trial, so that neighboring trials are alike.
//! Each number comes from a fixed seed.

use model::random::SplitMix64;
use stats::criteria::{BOOTSTRAP_SEED, DRIFT_SHARE_MIN, EFFECT_MIN, HALF_WIDTH_SHARE_MAX};
use stats::criteria::{INTERACT_PROBABILITY_MAX, drift_probability_max};
use stats::dependence::neighbours;
use stats::{BootstrapDraws, Outcome, summary, trend};

/// Number of pairs of equal campaigns to compare for each result.
const PAIRS: usize = 600;

/// Number of trials on each side.
const TRIALS: usize = 7;

/// Machine with other work to do.
struct BusyMachine {
    /// How much the load of a trial resembles the previous one: from 0 for not at all to just below
    /// 1.
    memory: f64,
    /// Standard deviation of the logarithm of the rate.
    deviation: f64,
    load: f64,
    random: SplitMix64,
}

impl BusyMachine {
    fn new(memory: f64, deviation: f64) -> Self {
        let mut random = SplitMix64::new(11);
        let load = normal(&mut random);
        Self { memory, deviation, load, random }
    }

    /// Runs a trial; the median of all trials is 100.
    fn trial(&mut self) -> f64 {
        let innovation = (1.0 - self.memory * self.memory).sqrt();
        self.load = self.memory * self.load + innovation * normal(&mut self.random);
        100.0 * (self.deviation * self.load).exp()
    }

    /// Makes two equal sides, one after the other or with alternating trials.
    fn sides(&mut self, in_turns: bool) -> [Vec<f64>; 2] {
        // Other pairs are measured on other days, so they are independent.
        self.load = normal(&mut self.random);
        let trials: Vec<f64> = (0..2 * TRIALS).map(|_| self.trial()).collect();
        if !in_turns {
            return [trials[..TRIALS].to_vec(), trials[TRIALS..].to_vec()];
        }
        let mut sides = [Vec::new(), Vec::new()];
        for (number, pair) in trials.chunks_exact(2).enumerate() {
            // The order within a block alternates, so that neither side is always first.
            let first = number % 2;
            sides[first].push(pair[0]);
            sides[1 - first].push(pair[1]);
        }
        sides
    }
}

/// Returns a normal variate (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let mut unit = || ((random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let radius = unit();
    let angle = unit();
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Returns true if a row of these trials has a caveat about their spread.
fn has_caveat(trials: &[f64]) -> bool {
    let is_wide = summary(trials)
        .and_then(|summary| summary.half_width_share())
        .is_some_and(|share| share > HALF_WIDTH_SHARE_MAX);
    let drifts = trend(trials).is_some_and(|found| {
        found.probability <= drift_probability_max(trials.len())
            && found.change.abs() >= DRIFT_SHARE_MIN
    });
    let interacts =
        neighbours(trials).is_some_and(|found| found.probability <= INTERACT_PROBABILITY_MAX);
    is_wide || drifts || interacts
}

/// Shares of pairs of equal sides, in percent.
#[derive(Debug)]
struct CoverageShares {
    /// Intervals of the first side that contain the median.
    covered: f64,
    /// Pairs reported as different if caveats are ignored.
    alarms: f64,
    /// Pairs reported as different by the rule of `compare`.
    alarms_left: f64,
}

fn count(memory: f64, deviation: f64, in_turns: bool) -> CoverageShares {
    let mut busy = BusyMachine::new(memory, deviation);
    let mut draws = BootstrapDraws::new(BOOTSTRAP_SEED);
    let mut covered = 0;
    let mut alarms = 0;
    let mut left = 0;
    for _ in 0..PAIRS {
        let [before, after] = busy.sides(in_turns);
        let (lo, hi) = summary(&before).unwrap().interval;
        covered += usize::from(lo <= 100.0 && 100.0 <= hi);
        let mut compared = draws.compare(&before, &after, EFFECT_MIN).unwrap();
        let is_alarm = |outcome| matches!(outcome, Outcome::Higher | Outcome::Lower);
        alarms += usize::from(is_alarm(compared.outcome()));
        compared.is_doubted = has_caveat(&before) || has_caveat(&after);
        left += usize::from(is_alarm(compared.outcome()));
    }
    let share = |count: usize| 100.0 * count as f64 / PAIRS as f64;
    CoverageShares { covered: share(covered), alarms: share(alarms), alarms_left: share(left) }
}

#[test]
fn independent_trials_keep_what_intervals_promise() {
    for deviation in [0.05, 0.3] {
        let found = count(0.0, deviation, false);
        assert!((93.0..=97.0).contains(&found.covered), "{deviation}: {found:?}");
        assert!(found.alarms <= 5.0 && found.alarms_left <= found.alarms, "{deviation}: {found:?}");
    }
}

#[test]
fn shows_error_of_correlated_load() {
    let found = count(0.8, 0.15, false);
    assert!((45.0..=55.0).contains(&found.covered), "{found:?}");
    assert!((30.0..=41.0).contains(&found.alarms), "{found:?}");
    // Caveats catch half of these. The others cannot be detected from the two sides.
    assert!((14.0..=24.0).contains(&found.alarms_left), "{found:?}");
}

#[test]
fn rarely_separates_wide_equal_sides() {
    for memory in [0.5, 0.8] {
        let found = count(memory, 0.3, false);
        assert!(found.alarms >= 12.0 && found.alarms_left <= 1.5, "{memory}: {found:?}");
    }
}

#[test]
fn trials_in_turns_stand_correlated_load() {
    let found = count(0.8, 0.15, true);
    assert!(found.alarms_left <= 1.0, "{found:?}");
}

#[test]
fn caveats_leave_large_differences() {
    // Half the rate, on a machine whose load makes every row wide.
    let mut busy = BusyMachine::new(0.5, 0.12);
    let mut draws = BootstrapDraws::new(BOOTSTRAP_SEED);
    let mut doubted = 0;
    let mut found = 0;
    for _ in 0..PAIRS {
        let [before, after] = busy.sides(true);
        let after: Vec<f64> = after.iter().map(|rate| rate / 2.0).collect();
        let mut compared = draws.compare(&before, &after, EFFECT_MIN).unwrap();
        compared.is_doubted = has_caveat(&before) || has_caveat(&after);
        doubted += usize::from(compared.is_doubted);
        found += usize::from(compared.outcome() == Outcome::Lower);
    }
    assert!(doubted > PAIRS / 4, "{doubted} of {PAIRS} rows have a caveat");
    assert!(found > PAIRS / 2, "{found} of {PAIRS} losses are found");
}
