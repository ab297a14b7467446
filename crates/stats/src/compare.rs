//! Compares two sets of trials: by how much do they differ, and is that more than noise?
//!
//! [`compare`] returns a [`Comparison`]; [`BootstrapDraws`] saves work over many of them. The ratio
//! is that of the medians. Its interval is a percentile bootstrap in which both sides are
//! resampled, and a rank test independently gives the probability of such a difference by chance. A
//! difference only counts if both agree and it exceeds the smallest relevant effect. Both assume
//! that trials are independent draws. If a caveat contradicts that ([`Comparison::is_doubted`]),
//! the distance between the two sets must also exceed the spread within each of them.
//!
//! **Source:** Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13;
//! Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013 (effect sizes with
//! intervals).

use std::collections::{BTreeMap, HashMap};

use model::random::SplitMix64;

use crate::criteria::{CONFIDENCE, RESAMPLES};
use crate::rank::{rank_test, smallest_probability};
use crate::summary::{MedianIndices, draw_middle, median, sort_finite};

/// Maximum number of trials to advise.
pub const TRIALS_MAX: usize = 200;

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An increase by more than the smallest effect that noise doesn't explain.
    Higher,
    /// A decrease by more than the smallest effect that noise doesn't explain.
    Lower,
    /// Any difference is smaller than the smallest effect.
    Same,
    /// The trials don't decide it.
    Unclear,
}

impl Outcome {
    /// Returns the name used in tables and exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }
}

/// Comparison of two sets of trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median after divided by median before.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio.
    pub interval: (f64, f64),
    /// Probability of such a difference by chance, 0 to 1.
    pub probability: f64,
    /// The same, adjusted for the whole family of comparisons; see [`crate::holm`]. Equal to
    /// `probability` in a family of one.
    pub adjusted: f64,
    /// Number of comparisons that `adjusted` accounts for.
    pub family: usize,
    /// Number of trials before and after.
    pub trials: (usize, usize),
    /// The smallest relevant effect as a share: 0.05 is 5 %.
    pub effect: f64,
    /// Lowest and highest ratio between any trial after and any trial before.
    pub reach: (f64, f64),
    /// Highest trial divided by lowest, for the side with the larger spread.
    pub spread: f64,
    /// A caveat shows that the trials of a side are not independent draws around one median, so
    /// that neither the interval nor the rank test is reliable. Set by the caller.
    pub is_doubted: bool,
    /// Results that are ruled out because the side that would be better did not measure the target.
    /// Set by the caller.
    pub barred: ExcludedOutcomes,
}

/// Results that a comparison must not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExcludedOutcomes {
    /// [`Outcome::Higher`].
    pub higher: bool,
    /// [`Outcome::Lower`].
    pub lower: bool,
}

impl Comparison {
    /// Returns the result of the comparison.
    pub fn outcome(&self) -> Outcome {
        let (lo, hi) = self.possible_ratios();
        let smallest = (1.0 / (1.0 + self.effect), 1.0 + self.effect);
        let improbable = self.adjusted <= 1.0 - CONFIDENCE;
        // A load that comes and goes affects several trials in a row. The spread of one side shows
        // by how much, so only a larger distance between the sides counts.
        let distance = if self.is_doubted { self.spread } else { 1.0 };
        // The effect is a factor: 5 % up is 1.05, and the same amount down is 1 / 1.05.
        if improbable && lo > distance && self.ratio >= smallest.1 {
            if self.barred.higher { Outcome::Unclear } else { Outcome::Higher }
        } else if improbable && hi * distance < 1.0 && self.ratio <= smallest.0 {
            if self.barred.lower { Outcome::Unclear } else { Outcome::Lower }
        } else if lo >= smallest.0 && hi <= smallest.1 {
            Outcome::Same
        } else {
            Outcome::Unclear
        }
    }

    /// Returns the range of ratios that the trials allow: the interval, or the range over all
    /// individual trials if the interval is doubted.
    pub const fn possible_ratios(&self) -> (f64, f64) {
        if self.is_doubted { self.reach } else { self.interval }
    }

    /// Returns true if there are too few trials to show any difference, however large.
    pub fn is_blind(&self) -> bool {
        is_blind(self.trials.0, self.trials.1, self.family)
    }

    /// Returns the number of trials per side from which on a difference can be shown.
    pub fn trials_min(&self) -> usize {
        (2..TRIALS_MAX).find(|&trials| !is_blind(trials, trials, self.family)).unwrap_or(TRIALS_MAX)
    }

    /// Returns how many trials per side would exclude `limit` from the interval if they vary like
    /// these, or `None` if more than [`TRIALS_MAX`] would be needed.
    ///
    /// The width of an interval is inversely proportional to the square root of the number of
    /// trials. The calculation uses the logarithm of the ratio, for which the interval is
    /// symmetric.
    pub fn trials_to_exclude(&self, limit: f64) -> Option<usize> {
        let (lo, hi) = self.interval;
        let end = if limit < self.ratio { lo } else { hi };
        let width = (end.ln() - self.ratio.ln()).abs();
        let distance = (limit.ln() - self.ratio.ln()).abs();
        let now = self.trials.0.min(self.trials.1);
        let mut wanted = now.max((now as f64 * (width / distance).powi(2)).ceil() as usize);
        // Very few trials may be unable to show anything, however narrow the interval.
        while wanted <= TRIALS_MAX && is_blind(wanted, wanted, self.family) {
            wanted += 1;
        }
        if wanted > TRIALS_MAX { None } else { Some(wanted) }
    }
}

fn is_blind(before: usize, after: usize, family: usize) -> bool {
    smallest_probability(before, after) * family as f64 > 1.0 - CONFIDENCE
}

/// Compares results. Returns `None` if a side has none, or any that are not positive.
///
/// The same results in any order with the same seed give the same comparison.
pub fn compare(before: &[f64], after: &[f64], effect: f64, seed: u64) -> Option<Comparison> {
    BootstrapDraws::new(seed).compare(before, after, effect)
}

/// Bootstrap draws of a seed, by number of results before and after.
///
/// The drawn positions in the sorted results don't depend on their values. So they are drawn only
/// once for each pair of counts. A hundred thousand comparisons of five trials with five then only
/// need to look up which 25 ratios are possible and how often each of them is drawn.
#[derive(Debug)]
pub struct BootstrapDraws {
    seed: u64,
    known: HashMap<(usize, usize), Vec<DrawnMedians>>,
}

/// A pair of medians, before and after, and how often it was drawn.
type DrawnMedians = ((MedianIndices, MedianIndices), usize);

impl BootstrapDraws {
    /// Starts without any draws.
    pub fn new(seed: u64) -> Self {
        Self { seed, known: HashMap::new() }
    }

    /// Compares results with the draws of this seed; see [`compare`].
    pub fn compare(&mut self, before: &[f64], after: &[f64], effect: f64) -> Option<Comparison> {
        if before.iter().chain(after).any(|figure| *figure <= 0.0) {
            return None;
        }
        let before = sort_finite(before)?;
        let after = sort_finite(after)?;
        let probability = rank_test(&before, &after);
        let first = ends(&before)?;
        let second = ends(&after)?;
        Some(Comparison {
            ratio: median(&after)? / median(&before)?,
            interval: bootstrap_interval(&before, &after, self),
            probability,
            adjusted: probability,
            family: 1,
            trials: (before.len(), after.len()),
            effect,
            reach: (second.0 / first.1, second.1 / first.0),
            spread: (first.1 / first.0).max(second.1 / second.0),
            is_doubted: false,
            barred: ExcludedOutcomes::default(),
        })
    }

    /// Returns the draws for these numbers of results.
    fn draws_for(&mut self, before: usize, after: usize) -> &[DrawnMedians] {
        let seed = self.seed;
        self.known.entry((before, after)).or_insert_with(|| draw_medians(before, after, seed))
    }
}

/// Returns the lowest and the highest of sorted results.
fn ends(sorted: &[f64]) -> Option<(f64, f64)> {
    Some((*sorted.first()?, *sorted.last()?))
}

/// Returns the percentile interval of the ratio of medians.
fn bootstrap_interval(before: &[f64], after: &[f64], draws: &mut BootstrapDraws) -> (f64, f64) {
    let drawn = draws.draws_for(before.len(), after.len());
    let mut ratios: Vec<_> = drawn
        .iter()
        .map(|((below, above), times)| (above.median(after) / below.median(before), *times))
        .collect();
    ratios.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // Ratios are weighted by how often they were drawn, so positions count draws.
    let cut = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLES as f64) as usize;
    (ranked(&ratios, cut), ranked(&ratios, RESAMPLES - 1 - cut))
}

/// Returns the value at a position, counted from 0, with each value repeated as given.
fn ranked(sorted: &[(f64, usize)], place: usize) -> f64 {
    let mut seen = 0;
    for (figure, times) in sorted {
        seen += times;
        if seen > place {
            return *figure;
        }
    }
    unreachable!("there are as many as were drawn")
}

/// Draws both medians [`RESAMPLES`] times, and counts how often each pair occurs.
fn draw_medians(before: usize, after: usize, seed: u64) -> Vec<DrawnMedians> {
    let mut random = SplitMix64::new(seed);
    let mut counts = vec![0_u32; before.max(after)];
    let mut found = BTreeMap::new();
    for _ in 0..RESAMPLES {
        // Both sides are drawn in each resample, because their errors are independent.
        let below = draw_middle(before, &mut random, &mut counts);
        let above = draw_middle(after, &mut random, &mut counts);
        *found.entry((below, above)).or_default() += 1;
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::criteria::BOOTSTRAP_SEED;
    use crate::summary::draw_median;

    fn compare_all(before: &[f64], after: &[f64]) -> Comparison {
        compare(before, after, 0.05, BOOTSTRAP_SEED).unwrap()
    }

    #[test]
    fn estimates_trials_by_square() {
        let close = Comparison { interval: (0.9, 1.0 / 0.9), ..compare_all(&[1.0; 5], &[1.0; 5]) };
        // Half the width of the interval needs four times as many trials.
        assert_eq!(close.trials_to_exclude(0.9_f64.sqrt()), Some(20));
        // It is already excluded, but three trials per side can show nothing.
        let few = Comparison { trials: (3, 3), ..close };
        assert_eq!((close.trials_to_exclude(0.8), few.trials_to_exclude(0.8)), (Some(5), Some(4)));
        // No number of trials can distinguish a ratio from itself.
        assert_eq!((close.trials_to_exclude(1.0), close.trials_to_exclude(0.995)), (None, None));
    }

    /// Returns an approximately normal variate around 100 with deviation 2 (sum of twelve draws).
    fn noisy(random: &mut SplitMix64, factor: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum();
        factor * (100.0 + 2.0 * (sum - 6.0))
    }

    fn seven(random: &mut SplitMix64, factor: f64) -> Vec<f64> {
        (0..7).map(|_| noisy(random, factor)).collect()
    }

    #[test]
    fn reports_clear_difference_with_direction() {
        let slow = [100.0, 101.0, 99.0, 100.5, 99.5];
        let fast = [120.0, 121.0, 119.0, 122.0, 118.0];
        let up = compare_all(&slow, &fast);
        assert!((up.ratio - 1.2).abs() < 1e-12);
        assert_eq!(
            (up.outcome(), compare_all(&fast, &slow).outcome()),
            (Outcome::Higher, Outcome::Lower)
        );
        assert_eq!(compare_all(&slow, &slow).outcome(), Outcome::Same);
    }

    #[test]
    fn reuses_draws_for_equal_counts() {
        let mut random = SplitMix64::new(3);
        let mut draws = BootstrapDraws::new(BOOTSTRAP_SEED);
        for (n, m) in [(5, 5), (4, 7), (5, 5), (1, 3), (8, 8), (4, 7)] {
            let mut figures = |count| {
                let figures: Vec<f64> = (0..count).map(|_| noisy(&mut random, 1.0)).collect();
                sort_finite(&figures).unwrap()
            };
            let before = figures(n);
            let after = figures(m);
            // The bootstrap as in textbooks: list all ratios and sort them.
            let mut drawn = SplitMix64::new(BOOTSTRAP_SEED);
            let mut counts = vec![0; n.max(m)];
            let mut ratio = || {
                let below = draw_median(&before, &mut drawn, &mut counts);
                draw_median(&after, &mut drawn, &mut counts) / below
            };
            let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| ratio()).collect();
            ratios.sort_unstable_by(f64::total_cmp);
            let compared = draws.compare(&before, &after, 0.05).unwrap();
            assert_eq!(compared.interval, (ratios[250], ratios[9_749]), "{n} and {m}");
            assert_eq!(compared, compare_all(&before, &after));
        }
    }

    #[test]
    fn requires_gap_beyond_doubtful_spread() {
        // Each side has a spread of 20 %. The second is above the first by 10 %, then by 30 %.
        let before = [100.0, 120.0, 105.0, 110.0, 115.0];
        let above = |factor: f64| before.map(|figure| figure * 1.2 * factor);
        for (factor, outcome) in [(1.1, Outcome::Unclear), (1.3, Outcome::Higher)] {
            let sound = compare_all(&before, &above(factor));
            assert_eq!(sound.outcome(), Outcome::Higher, "{factor}");
            let doubted = Comparison { is_doubted: true, ..sound };
            assert_eq!(doubted.outcome(), outcome, "{factor}");
            let back = Comparison { is_doubted: true, ..compare_all(&above(factor), &before) };
            assert_eq!(back.outcome() == Outcome::Lower, outcome == Outcome::Higher, "{factor}");
        }
        // Equal medians are not enough, either.
        let equal = compare_all(&before, &before);
        let doubted = Comparison { is_doubted: true, ..equal };
        assert_eq!(
            (doubted.outcome(), doubted.possible_ratios()),
            (Outcome::Unclear, (1.0 / 1.2, 1.2))
        );
    }

    #[test]
    fn barred_side_never_wins() {
        let faster =
            compare_all(&[100.0, 101.0, 99.0, 100.5, 99.5], &[200.0, 202.0, 198.0, 201.0, 199.0]);
        let barred =
            |higher, lower| Comparison { barred: ExcludedOutcomes { higher, lower }, ..faster };
        assert_eq!(barred(true, false).outcome(), Outcome::Unclear);
        assert_eq!(barred(false, true).outcome(), Outcome::Higher);
    }

    #[test]
    fn cannot_decide_by_three_trials() {
        let blind = compare_all(&[100.0, 101.0, 99.0], &[200.0, 201.0, 199.0]);
        assert!(blind.is_blind());
        assert_eq!(blind.outcome(), Outcome::Unclear);
        assert!(!compare_all(&[1.0; 5], &[2.0; 5]).is_blind());
    }

    #[test]
    fn ignores_negligible_difference() {
        let before: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 0.01).collect();
        let after: Vec<f64> = before.iter().map(|figure| figure * 1.02).collect();
        let found = compare_all(&before, &after);
        assert!(found.probability < 0.001 && found.interval.0 > 1.0);
        assert_eq!(found.outcome(), Outcome::Same);
    }

    #[test]
    fn rarely_separates_equal_sources() {
        // 7 trials per side, 400 times, from seed 5. The rank test by itself is wrong in at most 5
        // %.
        let mut random = SplitMix64::new(5);
        let mut wrong = 0;
        let mut covered = 0;
        for _ in 0..400 {
            let before = seven(&mut random, 1.0);
            let after = seven(&mut random, 1.1);
            let found = compare_all(&before, &after);
            covered += u32::from(found.interval.0 <= 1.1 && 1.1 <= found.interval.1);
            let same = compare_all(&before, &seven(&mut random, 1.0)).outcome();
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
