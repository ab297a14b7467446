//! Tests with planted drops, and counts of false alarms over many seeds of noise.

use model::random::SplitMix64;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Returns intervals of a second with these amounts.
fn intervals(amounts: &[f64]) -> Vec<RateInterval> {
    let interval = |(number, amount): (usize, &f64)| RateInterval {
        begins_ns: number as u64 * SECOND,
        ends_ns: (number as u64 + 1) * SECOND,
        amount: *amount as u64,
    };
    amounts.iter().enumerate().map(interval).collect()
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

/// Rates without a drop.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Independent, with a standard deviation of 5 % or 50 % of the logarithm.
    Small,
    Large,
    /// Neighbors are alike: a correlation of 0.7, and a standard deviation of 20 %.
    Dependent,
    /// One of ten intervals has a stall, and is slower by any factor.
    Stalls,
    /// A steady decline to a quarter.
    Ramp,
    /// Fast and slow by turns, three seconds each.
    Turns,
    /// A drop for a third of the time, and back.
    Dip,
}

impl Noise {
    const ALL: [Self; 7] = [
        Self::Small,
        Self::Large,
        Self::Dependent,
        Self::Stalls,
        Self::Ramp,
        Self::Turns,
        Self::Dip,
    ];

    fn draw(self, n: usize, random: &mut SplitMix64) -> Vec<f64> {
        let mut rates = Vec::with_capacity(n);
        let mut last = normal(random);
        for number in 0..n {
            let z = normal(random);
            last = 0.7 * last + (1.0 - 0.49_f64).sqrt() * z;
            let share = number as f64 / n as f64;
            let even = (0.05 * z).exp();
            let rate = match self {
                Self::Stalls if unit(random) < 0.1 => unit(random),
                Self::Small | Self::Stalls => even,
                Self::Large => (0.5 * z).exp(),
                Self::Dependent => (0.2 * last).exp(),
                Self::Ramp => (1.0 - 0.75 * share) * even,
                Self::Turns => f64::from(1 + u8::from(number / 3 % 2 == 0)) * even,
                Self::Dip => f64::from(2 - u8::from((0.3..0.6).contains(&share))) * even,
            };
            rates.push(1e6 * rate);
        }
        rates
    }
}

/// Rates that fall by a factor after `at` seconds, with noise of this standard deviation.
fn falling(n: usize, at: f64, factor: f64, deviation: f64, random: &mut SplitMix64) -> Vec<f64> {
    let share = |number: usize| (at - number as f64).clamp(0.0, 1.0);
    (0..n)
        .map(|number| 1.0 + (factor - 1.0) * share(number))
        .map(|rate| 4e8 * rate * (deviation * normal(random)).exp())
        .collect()
}

#[test]
fn finds_planted_change_exactly() {
    let mut random = SplitMix64::new(1);
    let drop = level_drop(&intervals(&falling(40, 12.4, 4.8, 0.0, &mut random))).unwrap();
    assert!(drop.at_ns.abs_diff(12_400_000_000) < 1_000_000, "{drop:?}");
    assert_eq!(drop.range_ns, (12 * SECOND, 13 * SECOND));
    assert!((drop.before_per_s - 1.92e9).abs() < 1.0 && (drop.after_per_s - 4e8).abs() < 1.0);
    assert!(drop.amount.abs_diff(23_808_000_000) < 2_000_000, "{drop:?}");
    assert!(drop.ratio.0 <= 4.8 && 4.8 <= drop.ratio.1 && drop.ratio.1 < 4.85, "{drop:?}");
}

#[test]
fn finds_planted_change_in_noise() {
    let mut random = SplitMix64::new(2);
    let [mut found, mut near, mut in_range, mut in_ratio] = [0; 4];
    for _ in 0..1_000 {
        let at = 20.0 + 20.0 * unit(&mut random);
        let rates = falling(60, at, 2.0, 0.1, &mut random);
        let Some(drop) = level_drop(&intervals(&rates)) else { continue };
        let at_ns = (at * 1e9) as u64;
        found += 1;
        near += i32::from(drop.at_ns.abs_diff(at_ns) <= SECOND);
        in_range += i32::from((drop.range_ns.0..=drop.range_ns.1).contains(&at_ns));
        in_ratio += i32::from((drop.ratio.0..=drop.ratio.1).contains(&2.0));
    }
    assert!(found == 1_000 && near >= 990, "{found} found, {near} within an interval");
    // Both intervals are stated with 95 %; that of the time is in whole intervals, so it is wider.
    assert!(in_range >= 950 && in_ratio >= 940, "{in_range}, {in_ratio}");
}

#[test]
fn finds_change_despite_stalls() {
    let mut random = SplitMix64::new(3);
    let mut rates = falling(40, 20.0, 3.0, 0.05, &mut random);
    rates[7] = 0.0;
    rates[30] *= 9.0;
    let drop = level_drop(&intervals(&rates)).unwrap();
    assert!(drop.at_ns.abs_diff(20 * SECOND) <= SECOND, "{drop:?}");
}

#[test]
fn ignores_small_short_and_rising_steps() {
    let steps = |before: &[f64], after: &[f64]| level_drop(&intervals(&[before, after].concat()));
    assert!(steps(&[151e6; 5], &[100e6; 5]).is_some());
    assert!(steps(&[149e6; 5], &[100e6; 5]).is_none());
    assert!(steps(&[100e6; 5], &[300e6; 5]).is_none());
    assert!(steps(&[300e6; 3], &[100e6; 4]).is_some());
    assert!(steps(&[300e6; 2], &[100e6; 9]).is_none());
    assert!(steps(&[300e6; 9], &[100e6; 2]).is_none());
    assert!(steps(&[0.0; 9], &[0.0; 9]).is_none() && steps(&[], &[]).is_none());
    // Nothing at all is done at the end, which is a hang rather than a level.
    assert!(steps(&[300e6; 9], &[0.0; 9]).is_none());
    // Three intervals of 100 ms are too short.
    let quick = |one: RateInterval| RateInterval {
        begins_ns: one.begins_ns / 10,
        ends_ns: one.ends_ns / 10,
        ..one
    };
    let rates = [[300e6; 9], [100e6; 9]].concat();
    let short: Vec<_> = intervals(&rates).into_iter().map(quick).collect();
    assert!(level_drop(&short).is_none() && level_drop(&intervals(&rates)).is_some());
}

#[test]
fn false_alarms_are_rare() {
    for noise in Noise::ALL {
        for n in [7, 10, 20, 60, 300] {
            let mut random = SplitMix64::new(n as u64);
            let series = if n > 100 { 2_000 } else { 10_000 };
            let alarms = (0..series)
                .filter(|_| level_drop(&intervals(&noise.draw(n, &mut random))).is_some())
                .count();
            let per_mille = match noise {
                Noise::Small | Noise::Ramp | Noise::Turns | Noise::Dip => 0,
                Noise::Large | Noise::Stalls => 2,
                // A rate that wanders by 20 % may well stay lower for the rest of a pass.
                Noise::Dependent => 10,
            };
            assert!(alarms * 1_000 <= series * per_mille, "{alarms} of {series}: {noise:?}, {n}");
        }
    }
}
