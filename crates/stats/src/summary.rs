//! Median, spread and confidence interval of a few figures, one per trial.
//!
//! [`summary`] is the way in; how the interval is made stands in `interval`. The samples drawn with
//! repetition that other modules need are drawn here, too.

mod interval;

use model::random::{SplitMix64, below};

use crate::criteria::TRIALS_MIN;

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
    /// Standard deviation of the sample (divisor `n - 1`); 0 for one figure.
    pub standard_deviation: f64,
    /// The smallest figure.
    pub min: f64,
    /// The largest figure.
    pub max: f64,
    /// Lower and upper end of the 95 % confidence interval of the median; below three figures there
    /// can be none, and these are the smallest and the largest: see [`Self::confidence_interval`].
    pub interval: (f64, f64),
}

impl Summary {
    /// Returns both ends of the 95 % confidence interval of the median; `None` below three
    /// figures, which say nothing about it.
    pub fn confidence_interval(&self) -> Option<(f64, f64)> {
        if self.n >= TRIALS_MIN { Some(self.interval) } else { None }
    }

    /// Returns half the interval as a share of the median; `None` where there is no interval, or
    /// a median of 0.
    pub fn half_width_share(&self) -> Option<f64> {
        let (lo, hi) = self.confidence_interval()?;
        if self.median > 0.0 { Some((hi - lo) / 2.0 / self.median) } else { None }
    }

    /// Takes the interval of all figures where some of them were left out of this summary by a
    /// rule: an interval of those that the rule kept would be too narrow, since the rule keeps
    /// those that agree. `all` holds the figures of this summary, too.
    #[must_use]
    pub fn with_interval_of_all(self, all: &[f64]) -> Self {
        match sorted(all) {
            Some(sorted) => Self { interval: interval::of_median(&sorted), ..self },
            None => self,
        }
    }

    /// Says whether the two intervals have a value in common: the medians can't be distinguished.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.interval.0 <= other.interval.1 && other.interval.0 <= self.interval.1
    }
}

/// Condenses figures; `None` when there are none or one of them is not finite.
///
/// The same figures, in any order, give the same summary.
pub fn summary(figures: &[f64]) -> Option<Summary> {
    let sorted = sorted(figures)?;
    let (n, min, max) = (sorted.len(), sorted[0], sorted[sorted.len() - 1]);
    let mean = mean_of(&sorted);
    let squares = squared_distances(&sorted, mean);
    Some(Summary {
        n,
        median: middle_of(&sorted),
        mean,
        trimmed_mean: if n >= 3 { Some(mean_of(&sorted[1..n - 1])) } else { None },
        standard_deviation: if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 },
        min,
        max,
        interval: interval::of_median(&sorted),
    })
}

/// Returns the median; `None` when there are no figures or one of them is not finite.
pub fn median(figures: &[f64]) -> Option<f64> {
    Some(middle_of(&sorted(figures)?))
}

/// Sorts figures in ascending order; `None` when there are none or one of them is not finite.
pub(crate) fn sorted(figures: &[f64]) -> Option<Vec<f64>> {
    if figures.is_empty() {
        return None;
    }
    for figure in figures {
        if !figure.is_finite() {
            return None;
        }
    }
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Sums the squares of the distances of figures from a value.
pub(crate) fn squared_distances(figures: &[f64], from: f64) -> f64 {
    let mut sum = 0.0;
    for figure in figures {
        sum += (figure - from) * (figure - from);
    }
    sum
}

/// Sums distances from the first figure, so that large figures close together lose no digits.
fn mean_of(figures: &[f64]) -> f64 {
    let origin = figures[0];
    let mut distances = 0.0;
    for figure in figures {
        distances += figure - origin;
    }
    origin + distances / figures.len() as f64
}

fn middle_of(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// The places of the sorted figures in the middle of a sample: the same one twice, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Middle {
    lower: usize,
    upper: usize,
}

impl Middle {
    /// Returns the median of the sample.
    pub fn of(self, sorted: &[f64]) -> f64 {
        f64::midpoint(sorted[self.lower], sorted[self.upper])
    }
}

/// Draws as many figures as there are, with repetition, and returns their median.
///
/// `counts` is scratch memory for at least as many numbers; what it holds does not matter.
pub(crate) fn draw_median(sorted: &[f64], random: &mut SplitMix64, counts: &mut [u32]) -> f64 {
    draw_middle(sorted.len(), random, counts).of(sorted)
}

/// Draws such a sample of so many sorted figures and returns the places in its middle.
pub(crate) fn draw_middle(figures: usize, random: &mut SplitMix64, counts: &mut [u32]) -> Middle {
    let drawn = &mut counts[..figures];
    drawn.fill(0);
    for _ in 0..figures {
        drawn[below(random.next(), figures as u64) as usize] += 1;
    }
    middle_of_drawn(drawn)
}

/// Finds the middle of a sample given as how often each figure was drawn: counting saves sorting.
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
        summary(figures).unwrap()
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
    fn an_interval_of_kept_figures_is_that_of_all() {
        let all = [96.0, 97.0, 98.0, 99.0, 100.0, 101.0, 60.0];
        let kept = of(&all[..6]).with_interval_of_all(&all);
        assert_eq!((kept.n, kept.median, kept.interval), (6, 98.5, of(&all).interval));
        assert!(kept.interval.0 < of(&all[..6]).interval.0);
    }

    #[test]
    fn one_figure_has_no_spread_and_none_has_no_summary() {
        let one = of(&[7.0]);
        assert_eq!((one.n, one.median, one.interval), (1, 7.0, (7.0, 7.0)));
        assert_eq!((one.trimmed_mean, one.half_width_share()), (None, None));
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(
            figures in prop::collection::vec(0.0_f64..1e12, 1..40),
        ) {
            let s = summary(&figures).unwrap();
            let (lo, hi) = s.interval;
            prop_assert!(lo <= s.median && s.median <= hi);
            // Only of three or four figures does it reach beyond them.
            prop_assert!([3, 4].contains(&s.n) || (s.min <= lo && hi <= s.max));
            prop_assert!(s.min <= s.mean * (1.0 + 1e-12) && s.mean <= s.max * (1.0 + 1e-12));
            let mut turned = figures.clone();
            turned.reverse();
            prop_assert_eq!(summary(&turned), Some(s));
        }
    }
}
