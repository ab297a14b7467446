//! Properties of intervals and outliers, checked with noise around a known true value.
//!
//! Each count comes from a fixed seed, so a test gives the same result each time.

use model::random::SplitMix64;
use model::{Discard, Interference, InterferenceSource};
use stats::criteria::{DRIFT_SHARE_MIN, INTERACT_PROBABILITY_MAX, drift_probability_max};
use stats::dependence::neighbours;
use stats::interference::{disturbance, sets_aside};
use stats::{discarded, outliers, summary, trend};

/// Noise of trials with a known median.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normally distributed, with a standard deviation of 5 %.
    Normal,
    /// Lognormally distributed, with a standard deviation of 30 % of the logarithm.
    Lognormal,
    /// Two modes: seven in ten trials, and the others slower by a fifth.
    Bimodal,
}

impl Noise {
    const ALL: [Self; 3] = [Self::Normal, Self::Lognormal, Self::Bimodal];

    fn draw(self, random: &mut SplitMix64) -> f64 {
        let z = normal(random);
        match self {
            Self::Normal => 100.0 * (1.0 + 0.05 * z),
            Self::Lognormal => 100.0 * (0.3 * z).exp(),
            Self::Bimodal if unit(random) < 0.7 => 100.0 + 2.0 * z,
            Self::Bimodal => 80.0 + 2.0 * z,
        }
    }

    /// Returns the median. For bimodal noise, it is the 2/7 quantile of the faster mode, z =
    /// -0.565949.
    const fn median(self) -> f64 {
        match self {
            Self::Normal | Self::Lognormal => 100.0,
            Self::Bimodal => 100.0 - 2.0 * 0.565_949,
        }
    }
}

/// Returns a number between 0 and 1, excluding both.
fn unit(random: &mut SplitMix64) -> f64 {
    ((random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Returns a normal variate (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = unit(random);
    let angle = unit(random);
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn sample(noise: Noise, n: usize, random: &mut SplitMix64) -> Vec<f64> {
    (0..n).map(|_| noise.draw(random)).collect()
}

/// The share of samples of `n` trials, some of which a rule leaves out, with an interval that
/// contains the true median.
fn coverage(noise: Noise, n: usize, rule: Discard) -> f64 {
    const SAMPLES: u32 = 4_000;
    let mut random = SplitMix64::new(n as u64);
    let mut covered = 0;
    for _ in 0..SAMPLES {
        let all = sample(noise, n, &mut random);
        let is_out = discarded(rule, &all);
        let kept: Vec<f64> =
            all.iter().zip(&is_out).filter(|(_, out)| !**out).map(|(x, _)| *x).collect();
        let summary = summary(&kept).unwrap().with_interval_of_all(&all);
        let (lo, hi) = summary.interval;
        assert!(lo <= summary.median && summary.median <= hi, "{noise:?} {n} {rule:?}: {all:?}");
        covered += u32::from(lo <= noise.median() && noise.median() <= hi);
    }
    f64::from(covered) / f64::from(SAMPLES)
}

#[test]
fn covers_true_median_as_claimed() {
    for noise in Noise::ALL {
        for n in 3..=30 {
            for rule in [Discard::None, Discard::Extremes, Discard::Outliers] {
                let covered = coverage(noise, n, rule);
                let wanted = 0.93..=0.97;
                assert!(wanted.contains(&covered), "{noise:?}, {n} trials, {rule:?}: {covered}");
            }
        }
    }
}

/// A trial on a machine whose hypervisor takes 10 % to 40 % of one trial in four, and less than 1 %
/// of the others. Returns its rate, and whether it is excluded unless most trials are.
fn disturbed_trial(noise: Noise, random: &mut SplitMix64) -> (f64, bool) {
    let stolen = if unit(random) < 0.25 { 0.1 + 0.3 * unit(random) } else { 0.01 * unit(random) };
    let permille = (stolen * 1e3).round() as u64;
    let recorded = Interference::default().with(InterferenceSource::Steal, Some(permille));
    (noise.draw(random) * (1.0 - stolen), disturbance(&recorded).is_some())
}

#[test]
fn kept_trials_cover_the_undisturbed_median() {
    const SAMPLES: u32 = 2_000;
    for noise in Noise::ALL {
        for n in [5_usize, 8, 12] {
            let mut random = SplitMix64::new(400 + n as u64);
            let mut judged = 0;
            let mut covered = 0;
            let mut covered_by_all = 0;
            for _ in 0..SAMPLES {
                let mut trials = Vec::new();
                // Repeat as many trials as were disturbed, but at most half of those planned.
                let disturbed = |trials: &[(f64, bool)]| trials.iter().filter(|it| it.1).count();
                while trials.len() < n + disturbed(&trials).min(n.div_ceil(2)) {
                    trials.push(disturbed_trial(noise, &mut random));
                }
                if !sets_aside(disturbed(&trials), trials.len()) && disturbed(&trials) > 0 {
                    // Most were disturbed, and a caveat reports that.
                    continue;
                }
                judged += 1;
                let holds = |rates: &[f64]| {
                    let (lo, hi) = summary(rates).unwrap().interval;
                    u32::from(lo <= noise.median() && noise.median() <= hi)
                };
                let kept: Vec<f64> = trials.iter().filter(|it| !it.1).map(|it| it.0).collect();
                covered += holds(&kept);
                covered_by_all += holds(&trials.iter().map(|it| it.0).collect::<Vec<_>>());
            }
            let share = f64::from(covered) / f64::from(judged);
            assert!((0.92..=0.98).contains(&share), "{noise:?}, {n} trials: {share}");
            assert!(judged > SAMPLES * 9 / 10, "{n} trials: {judged} of {SAMPLES} samples");
            assert!(covered_by_all < covered, "{noise:?}, {n} trials");
        }
    }
}

#[test]
fn two_trials_have_no_interval() {
    let two = summary(&[1.0, 2.0]).unwrap();
    assert_eq!((two.confidence_interval(), two.half_width_share()), (None, None));
    assert!(summary(&[1.0, 2.0, 3.0]).unwrap().confidence_interval().is_some());
}

#[test]
fn rarely_finds_outliers_in_noise() {
    const ROWS: u32 = 4_000;
    for n in 3..=30 {
        let mut random = SplitMix64::new(100 + n as u64);
        let mut accused = 0;
        for _ in 0..ROWS {
            // A standard deviation of 20 %, so that no value is excused for being close to the
            // median.
            let row: Vec<f64> = (0..n).map(|_| 100.0 + 20.0 * normal(&mut random)).collect();
            accused += u32::from(outliers(&row).contains(&true));
        }
        assert!(accused <= ROWS / 100, "{n} trials: {accused} of {ROWS} rows");
    }
}

#[test]
fn reports_disturbed_trial_as_outlier() {
    for n in 5..=30 {
        let mut random = SplitMix64::new(n as u64);
        let mut found = 0;
        for _ in 0..200 {
            let mut row: Vec<f64> = (0..n).map(|_| 100.0 + normal(&mut random)).collect();
            row[0] = 50.0;
            found += u32::from(outliers(&row)[0]);
        }
        assert!(found >= 150, "{n} trials: {found} of 200 rows");
    }
}

#[test]
fn rarely_finds_drift_in_random_order() {
    const ROWS: u32 = 2_000;
    for noise in Noise::ALL {
        for n in [5, 6, 7, 8, 10, 15, 20, 25, 30] {
            let mut random = SplitMix64::new(300 + n as u64);
            let mut accused = 0;
            for _ in 0..ROWS {
                let found = trend(&sample(noise, n, &mut random)).unwrap();
                let is_drift = found.probability <= drift_probability_max(n)
                    && found.change.abs() >= DRIFT_SHARE_MIN;
                accused += u32::from(is_drift);
            }
            // With five trials, the one order in sixty that counts as a drift also occurs by
            // chance.
            let most = if n > 5 { ROWS / 100 } else { ROWS / 40 };
            assert!(accused <= most, "{n} trials, {noise:?}: {accused} of {ROWS} rows");
        }
    }
}

#[test]
fn reports_fall_of_fifth_as_drift() {
    for n in [6, 8, 10, 20, 30] {
        let mut random = SplitMix64::new(n as u64);
        let mut found = 0;
        for _ in 0..200 {
            let mut row = Vec::with_capacity(n);
            for at in 0..n {
                let share = 1.0 - 0.2 * at as f64 / (n - 1) as f64;
                row.push(100.0 * share + normal(&mut random));
            }
            let trend = trend(&row).unwrap();
            found += u32::from(trend.probability <= drift_probability_max(n));
        }
        assert!(found >= 180, "{n} trials: {found} of 200 rows");
    }
}

#[test]
fn rarely_finds_interaction_by_chance() {
    const ROWS: u32 = 1_000;
    for noise in Noise::ALL {
        for n in [7, 10, 20] {
            let mut random = SplitMix64::new(200 + n as u64);
            let mut accused = 0;
            for _ in 0..ROWS {
                let found = neighbours(&sample(noise, n, &mut random)).unwrap();
                accused += u32::from(found.probability <= INTERACT_PROBABILITY_MAX);
            }
            // One in a thousand is expected, and more than five occur in one of 1,700 simulations.
            assert!(accused <= 5, "{n} trials, {noise:?}: {accused} of {ROWS} rows");
        }
    }
}
