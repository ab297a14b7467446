//! Median, spread and confidence interval of a few figures, one per trial.
//!
//! [`summary`] is the way in. The interval is the percentile bootstrap of the median: no shape of
//! the distribution is assumed, which matters for rates that have a ceiling and a long tail of
//! slow trials. With up to five trials it is simply the range from the smallest to the largest,
//! and its true coverage is then at most `1 - 2/2^n` (93.8 % for five).
//!
//! **Source:** Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.

use crate::criteria::{CONFIDENCE, RANGE_FIGURES_MAX, RESAMPLES};
use model::random::{SplitMix64, below};

/// Several figures, condensed. Every number has the unit of the figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many figures there are; never 0.
    pub n: usize,
    /// The middle figure, or the mean of the two in the middle.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The mean without the smallest and the largest figure; `None` below three.
    pub trimmed_mean: Option<f64>,
    /// Of the sample (divisor `n - 1`); 0 for one figure.
    pub standard_deviation: f64,
    /// The smallest figure.
    pub min: f64,
    /// The largest figure.
    pub max: f64,
    /// Lower and upper end of the 95 % confidence interval of the median; one figure has none,
    /// and both ends are then the figure itself.
    pub interval: (f64, f64),
}

impl Summary {
    /// Half the interval as a share of the median; `None` for one figure or a median of 0.
    pub fn half_width_share(&self) -> Option<f64> {
        let (lo, hi) = self.interval;
        (self.n > 1 && self.median > 0.0).then(|| (hi - lo) / 2.0 / self.median)
    }

    /// Says whether the two intervals have a value in common: the medians can't be told apart.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.interval.0 <= other.interval.1 && other.interval.0 <= self.interval.1
    }
}

/// Condenses figures; `None` when there are none or one of them is not finite.
///
/// The same figures, in any order, and the same seed give the same summary.
pub fn summary(figures: &[f64], seed: u64) -> Option<Summary> {
    let sorted = sorted(figures)?;
    let (n, min, max) = (sorted.len(), sorted[0], sorted[sorted.len() - 1]);
    let mean = mean_of(&sorted);
    let squares: f64 = sorted.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some(Summary {
        n,
        median: middle(&sorted),
        mean,
        trimmed_mean: (n >= 3).then(|| mean_of(&sorted[1..n - 1])),
        standard_deviation: if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 },
        min,
        max,
        interval: if n <= RANGE_FIGURES_MAX { (min, max) } else { bootstrap(&sorted, seed) },
    })
}

/// The median; `None` when there are no figures or one of them is not finite.
pub fn median(figures: &[f64]) -> Option<f64> {
    sorted(figures).map(|sorted| middle(&sorted))
}

/// The figures in ascending order; `None` when there are none or one of them is not finite.
pub(crate) fn sorted(figures: &[f64]) -> Option<Vec<f64>> {
    if figures.is_empty() || figures.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Sums distances from the first figure, so that large figures close together lose no digits.
fn mean_of(figures: &[f64]) -> f64 {
    let origin = figures[0];
    origin + figures.iter().map(|x| x - origin).sum::<f64>() / figures.len() as f64
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// Percentile bootstrap: draws `n` of the figures with repetition, [`RESAMPLES`] times, and cuts
/// the same share from both ends of the medians.
fn bootstrap(sorted: &[f64], seed: u64) -> (f64, f64) {
    let mut random = SplitMix64::new(seed);
    let mut counts = vec![0_u32; sorted.len()];
    let mut medians: Vec<f64> =
        (0..RESAMPLES).map(|_| draw_median(sorted, &mut random, &mut counts)).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let cut = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLES as f64) as usize;
    (medians[cut], medians[RESAMPLES - 1 - cut])
}

/// Which of some sorted figures are in the middle of a sample: the same one twice, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Middle {
    lower: usize,
    upper: usize,
}

impl Middle {
    /// The median of the sample.
    pub fn of(self, sorted: &[f64]) -> f64 {
        f64::midpoint(sorted[self.lower], sorted[self.upper])
    }
}

/// The median of as many figures as there are, drawn from them with repetition.
///
/// `counts` is room for as many numbers at least; what it holds does not matter.
pub(crate) fn draw_median(sorted: &[f64], random: &mut SplitMix64, counts: &mut [u32]) -> f64 {
    draw_middle(sorted.len(), random, counts).of(sorted)
}

/// Which figures are in the middle of such a sample, of so many that are sorted.
pub(crate) fn draw_middle(figures: usize, random: &mut SplitMix64, counts: &mut [u32]) -> Middle {
    let drawn = &mut counts[..figures];
    drawn.fill(0);
    for _ in 0..figures {
        drawn[below(random.next(), figures as u64) as usize] += 1;
    }
    middle_of_drawn(drawn)
}

/// The middle of a sample given as how often each figure was drawn: counting saves sorting.
fn middle_of_drawn(drawn: &[u32]) -> Middle {
    let n = drawn.len();
    let (mut seen, mut lower) = (0_usize, None);
    for (place, &times) in drawn.iter().enumerate() {
        seen += times as usize;
        if lower.is_none() && seen > (n - 1) / 2 {
            lower = Some(place);
        }
        if seen > n / 2 {
            return Middle { lower: lower.unwrap_or(place), upper: place };
        }
    }
    unreachable!("as many figures are drawn as there are")
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(figures: &[f64]) -> Summary {
        summary(figures, 1).unwrap()
    }

    #[test]
    fn means_and_deviations_are_those_certified_by_nist() {
        // NIST StRD, univariate summary statistics: NumAcc1 and NumAcc3.
        let one = of(&[10_000_001.0, 10_000_003.0, 10_000_002.0]);
        assert_eq!(
            (one.mean, one.standard_deviation, one.median),
            (10_000_002.0, 1.0, 10_000_002.0)
        );
        let mut figures = vec![1_000_000.2];
        for _ in 0..500 {
            figures.extend([1_000_000.1, 1_000_000.3]);
        }
        let three = of(&figures);
        assert!((three.mean - 1_000_000.2).abs() < 1e-8, "{}", three.mean);
        assert!((three.standard_deviation - 0.1).abs() < 1e-9, "{}", three.standard_deviation);
    }

    #[test]
    fn medians_and_trimmed_means_are_those_of_the_r_manual() {
        // R: example(median) says 2.5 and 3; example(mean) says 8.75 and, trimmed, 5.5.
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), Some(2.5));
        assert_eq!(median(&[1.0, 2.0, 3.0, 100.0, 1_000.0]), Some(3.0));
        let x: Vec<f64> = (0..=10).map(f64::from).chain([50.0]).collect();
        assert_eq!((of(&x).mean, of(&x).trimmed_mean), (8.75, Some(5.5)));
    }

    #[test]
    fn the_interval_is_that_of_the_exact_bootstrap() {
        // Control group of the mouse data, Efron and Tibshirani (1993), table 2.1. The exact
        // distribution of its bootstrap median is P(median* <= x(k)) = P(Binomial(9, k/9) >= 5):
        // 0.0014 and 0.0304 for k = 1 and 2, 0.9696 and 0.9986 for k = 7 and 8.
        let mice = [52.0, 104.0, 146.0, 10.0, 51.0, 30.0, 40.0, 27.0, 46.0];
        assert_eq!(of(&mice).median, 46.0);
        for seed in 0..20 {
            assert_eq!(summary(&mice, seed).unwrap().interval, (27.0, 104.0), "seed {seed}");
        }
    }

    #[test]
    fn five_trials_have_their_range_as_interval() {
        let five = of(&[4.0, 1.0, 3.0, 5.0, 2.0]);
        assert_eq!((five.interval, five.half_width_share()), ((1.0, 5.0), Some(2.0 / 3.0)));
    }

    #[test]
    fn few_figures_have_the_interval_that_the_bootstrap_would_give() {
        let figures = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        for n in 2..=RANGE_FIGURES_MAX {
            assert_eq!(bootstrap(&figures[..n], 7), of(&figures[..n]).interval, "{n} figures");
        }
        assert_ne!(bootstrap(&figures, 7), (1.0, 6.0));
    }

    #[test]
    fn one_figure_has_no_spread_and_none_has_no_summary() {
        let one = of(&[7.0]);
        assert_eq!((one.n, one.median, one.interval), (1, 7.0, (7.0, 7.0)));
        assert_eq!((one.trimmed_mean, one.half_width_share()), (None, None));
        assert_eq!(summary(&[], 1), None);
        assert_eq!(summary(&[1.0, f64::NAN], 1), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median_and_lies_within_the_range(
            figures in prop::collection::vec(0.0_f64..1e12, 1..40),
            seed in any::<u64>(),
        ) {
            let s = summary(&figures, seed).unwrap();
            let (lo, hi) = s.interval;
            prop_assert!(s.min <= lo && lo <= s.median && s.median <= hi && hi <= s.max);
            prop_assert!(s.min <= s.mean * (1.0 + 1e-12) && s.mean <= s.max * (1.0 + 1e-12));
            let mut turned = figures.clone();
            turned.reverse();
            prop_assert_eq!(summary(&turned, seed), Some(s));
        }
    }
}
