//! Two sets of trials, before and after: by how much do they differ, and is that more than noise?
//!
//! [`compare`] is the way in, [`Comparison`] what comes out. The ratio is that of the medians; its
//! interval is a percentile bootstrap in which both sides are drawn anew, and a rank test says
//! independently how probable such a difference is without a cause. A difference counts only
//! where both agree and it is larger than the smallest effect that somebody cares for.
//!
//! **Source:** Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13;
//! Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013 (effect sizes with
//! intervals).

use model::random::SplitMix64;

use crate::criteria::{CONFIDENCE, RESAMPLES};
use crate::rank::{rank_test, smallest_probability};
use crate::summary::{draw_median, median, sorted};

/// How a comparison ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The figure rose by more than the smallest effect, and noise alone would not have done it.
    Higher,
    /// It fell so.
    Lower,
    /// Whatever the difference is, it is smaller than the smallest effect.
    Same,
    /// The trials can't tell.
    Unclear,
}

impl Outcome {
    /// Names it as tables and exports do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }
}

/// Two sets of trials, compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median after, divided by median before.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio.
    pub interval: (f64, f64),
    /// How probable such a difference is where there is no cause: 0 to 1.
    pub probability: f64,
    /// The same for the whole family of comparisons, see [`crate::holm`]; equal to `probability`
    /// in a family of one.
    pub adjusted: f64,
    /// How many comparisons `adjusted` makes up for.
    pub family: usize,
    /// Trials before and after.
    pub trials: (usize, usize),
    /// The smallest effect that counts, as a share: 0.05 is 5 %.
    pub effect: f64,
}

impl Comparison {
    /// Says what the comparison came to.
    pub fn outcome(&self) -> Outcome {
        let (lo, hi) = self.interval;
        let smallest = (1.0 / (1.0 + self.effect), 1.0 + self.effect);
        let improbable = self.adjusted <= 1.0 - CONFIDENCE;
        if improbable && lo > 1.0 && self.ratio >= smallest.1 {
            Outcome::Higher
        } else if improbable && hi < 1.0 && self.ratio <= smallest.0 {
            Outcome::Lower
        } else if lo >= smallest.0 && hi <= smallest.1 {
            Outcome::Same
        } else {
            Outcome::Unclear
        }
    }

    /// Says whether so few trials can show no difference at all, however large it is.
    pub fn is_blind(&self) -> bool {
        let smallest = smallest_probability(self.trials.0, self.trials.1);
        smallest * self.family as f64 > 1.0 - CONFIDENCE
    }
}

/// Compares figures; `None` where a side has none, or one that is not above 0.
///
/// The same figures, in any order, and the same seed give the same comparison.
pub fn compare(before: &[f64], after: &[f64], effect: f64, seed: u64) -> Option<Comparison> {
    if before.iter().chain(after).any(|figure| *figure <= 0.0) {
        return None;
    }
    let (before, after) = (sorted(before)?, sorted(after)?);
    let probability = rank_test(&before, &after);
    Some(Comparison {
        ratio: median(&after)? / median(&before)?,
        interval: interval(&before, &after, seed),
        probability,
        adjusted: probability,
        family: 1,
        trials: (before.len(), after.len()),
        effect,
    })
}

fn interval(before: &[f64], after: &[f64], seed: u64) -> (f64, f64) {
    let mut random = SplitMix64::new(seed);
    let mut counts = vec![0_u32; before.len().max(after.len())];
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let below = draw_median(before, &mut random, &mut counts);
            draw_median(after, &mut random, &mut counts) / below
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let cut = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLES as f64) as usize;
    (ratios[cut], ratios[RESAMPLES - 1 - cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::criteria::BOOTSTRAP_SEED;

    fn of(before: &[f64], after: &[f64]) -> Comparison {
        compare(before, after, 0.05, BOOTSTRAP_SEED).unwrap()
    }

    /// A figure around 100 with a deviation of 2, near enough to normal (sum of twelve draws).
    fn noisy(random: &mut SplitMix64, factor: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum();
        factor * (100.0 + 2.0 * (sum - 6.0))
    }

    fn seven(random: &mut SplitMix64, factor: f64) -> Vec<f64> {
        (0..7).map(|_| noisy(random, factor)).collect()
    }

    #[test]
    fn a_clear_difference_is_told_in_its_direction() {
        let (slow, fast) = ([100.0, 101.0, 99.0, 100.5, 99.5], [120.0, 121.0, 119.0, 122.0, 118.0]);
        let up = of(&slow, &fast);
        assert!((up.ratio - 1.2).abs() < 1e-12);
        assert_eq!((up.outcome(), of(&fast, &slow).outcome()), (Outcome::Higher, Outcome::Lower));
        assert_eq!(of(&slow, &slow).outcome(), Outcome::Same);
    }

    #[test]
    fn three_trials_can_show_nothing_and_say_so() {
        let blind = of(&[100.0, 101.0, 99.0], &[200.0, 201.0, 199.0]);
        assert!(blind.is_blind());
        assert_eq!(blind.outcome(), Outcome::Unclear);
        assert!(!of(&[1.0; 5], &[2.0; 5]).is_blind());
    }

    #[test]
    fn a_difference_smaller_than_anybody_cares_for_is_none() {
        let before: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 0.01).collect();
        let after: Vec<f64> = before.iter().map(|figure| figure * 1.02).collect();
        let found = of(&before, &after);
        assert!(found.probability < 0.001 && found.interval.0 > 1.0);
        assert_eq!(found.outcome(), Outcome::Same);
    }

    #[test]
    fn equal_sources_are_seldom_called_different_and_the_interval_covers() {
        // 7 trials a side, 400 times, from seed 5. The rank test alone errs at most in 5 %.
        let mut random = SplitMix64::new(5);
        let (mut wrong, mut covered) = (0, 0);
        for _ in 0..400 {
            let (before, after) = (seven(&mut random, 1.0), seven(&mut random, 1.1));
            let found = of(&before, &after);
            covered += u32::from(found.interval.0 <= 1.1 && 1.1 <= found.interval.1);
            let same = of(&before, &seven(&mut random, 1.0)).outcome();
            wrong += u32::from(matches!(same, Outcome::Higher | Outcome::Lower));
        }
        assert!(wrong <= 20, "{wrong} of 400");
        assert!(covered >= 370, "{covered} of 400");
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        assert!(compare(&[], &[1.0], 0.05, 1).is_none());
        assert!(compare(&[1.0], &[0.0], 0.05, 1).is_none());
        assert!(compare(&[1.0], &[f64::NAN], 0.05, 1).is_none());
    }
}
