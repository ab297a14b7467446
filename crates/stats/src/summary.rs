//! Median, spread and confidence interval of a few values, one per trial.
//!
//! [`summary`] is the entry point, and `interval` computes the interval. Bootstrap samples for
//! other modules are drawn here, too.

mod interval;

use model::random::{SplitMix64, below};

use crate::criteria::TRIALS_MIN;

/// Summary of several values. All fields have the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values; never 0.
    pub n: usize,
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The mean without the smallest and the largest value; `None` for fewer than three.
    pub trimmed_mean: Option<f64>,
    /// Standard deviation of the sample (divisor `n - 1`); 0 for one value.
    pub standard_deviation: f64,
    pub min: f64,
    pub max: f64,
    /// The 95 % confidence interval of the median. For fewer than three values there is none, and
    /// this contains the smallest and largest value; see [`Self::confidence_interval`].
    pub interval: (f64, f64),
}

impl Summary {
    /// Returns the 95 % confidence interval of the median, or `None` for fewer than three values.
    pub fn confidence_interval(&self) -> Option<(f64, f64)> {
        if self.n >= TRIALS_MIN { Some(self.interval) } else { None }
    }

    /// Returns half the interval as a share of the median, or `None` if there is no interval or the
    /// median is 0.
    pub fn half_width_share(&self) -> Option<f64> {
        let (lo, hi) = self.confidence_interval()?;
        if self.median > 0.0 { Some((hi - lo) / 2.0 / self.median) } else { None }
    }

    /// Uses the interval of all values if a rule excluded some of them from this summary. An
    /// interval of the remaining ones would be too narrow, because the rule keeps those that agree.
    /// `all` also contains the values of this summary.
    #[must_use]
    pub fn with_interval_of_all(self, all: &[f64]) -> Self {
        match sort_finite(all) {
            Some(sorted) => Self { interval: interval::of_median(&sorted), ..self },
            None => self,
        }
    }

    /// Returns the summary of the same values times a positive factor.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            n: self.n,
            median: self.median * factor,
            mean: self.mean * factor,
            trimmed_mean: self.trimmed_mean.map(|mean| mean * factor),
            standard_deviation: self.standard_deviation * factor,
            min: self.min * factor,
            max: self.max * factor,
            interval: (self.interval.0 * factor, self.interval.1 * factor),
        }
    }

    /// Returns true if the intervals overlap, so the medians cannot be distinguished.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.interval.0 <= other.interval.1 && other.interval.0 <= self.interval.1
    }
}

/// Summarizes values, or returns `None` if there are none or any is not finite.
///
/// The same values in any order give the same summary.
pub fn summary(figures: &[f64]) -> Option<Summary> {
    let sorted = sort_finite(figures)?;
    let n = sorted.len();
    let min = sorted[0];
    let max = sorted[sorted.len() - 1];
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

/// Returns the median, or `None` if there are no values or any is not finite.
pub fn median(figures: &[f64]) -> Option<f64> {
    Some(middle_of(&sort_finite(figures)?))
}

/// Sorts values in ascending order, or returns `None` if there are none or any is not finite.
pub(crate) fn sort_finite(figures: &[f64]) -> Option<Vec<f64>> {
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

/// Returns the sum of squared distances of values from a value.
pub(crate) fn squared_distances(figures: &[f64], from: f64) -> f64 {
    let mut sum = 0.0;
    for figure in figures {
        sum += (figure - from) * (figure - from);
    }
    sum
}

/// Adds up distances from the first value, so that large values close together lose no digits.
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

/// Indices of the middle of a sample in the sorted values: the same one twice, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MedianIndices {
    lower: usize,
    upper: usize,
}

impl MedianIndices {
    /// Returns the median of the sample.
    pub(crate) fn median(self, sorted: &[f64]) -> f64 {
        f64::midpoint(sorted[self.lower], sorted[self.upper])
    }
}

/// Draws as many values as there are, with replacement, and returns their median.
///
/// `counts` is scratch memory for at least this many numbers; its contents don't matter.
pub(crate) fn draw_median(sorted: &[f64], random: &mut SplitMix64, counts: &mut [u32]) -> f64 {
    draw_middle(sorted.len(), random, counts).median(sorted)
}

/// Draws a sample of the sorted values with replacement, and returns the indices of its middle.
pub(crate) fn draw_middle(
    figures: usize,
    random: &mut SplitMix64,
    counts: &mut [u32],
) -> MedianIndices {
    let drawn = &mut counts[..figures];
    drawn.fill(0);
    for _ in 0..figures {
        drawn[below(random.next(), figures as u64) as usize] += 1;
    }
    middle_of_drawn(drawn)
}

/// Returns the middle of a sample given by how often each value was drawn; counting avoids sorting.
fn middle_of_drawn(drawn: &[u32]) -> MedianIndices {
    let n = drawn.len();
    let mut seen = 0_usize;
    let mut lower = None;
    for (place, &times) in drawn.iter().enumerate() {
        seen += times as usize;
        if lower.is_none() && seen > (n - 1) / 2 {
            lower = Some(place);
        }
        if seen > n / 2 {
            return MedianIndices { lower: lower.unwrap_or(place), upper: place };
        }
    }
    unreachable!("as many figures are drawn as there are")
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summarize_all(figures: &[f64]) -> Summary {
        summary(figures).unwrap()
    }

    #[test]
    fn matches_nist_means_and_deviations() {
        // NIST StRD, univariate summary statistics: NumAcc1 and NumAcc3.
        let one = summarize_all(&[10_000_001.0, 10_000_003.0, 10_000_002.0]);
        assert_eq!(
            (one.mean, one.standard_deviation, one.median),
            (10_000_002.0, 1.0, 10_000_002.0)
        );
        let mut figures = vec![1_000_000.2];
        figures.extend((0..500).flat_map(|_| [1_000_000.1, 1_000_000.3]));
        let three = summarize_all(&figures);
        assert!((three.mean - 1_000_000.2).abs() < 1e-8, "{}", three.mean);
        assert!((three.standard_deviation - 0.1).abs() < 1e-9, "{}", three.standard_deviation);
    }

    #[test]
    fn matches_medians_of_r() {
        // R: example(median) gives 2.5 and 3; example(mean) gives 8.75 and, trimmed, 5.5.
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), Some(2.5));
        assert_eq!(median(&[1.0, 2.0, 3.0, 100.0, 1_000.0]), Some(3.0));
        let x: Vec<f64> = (0..=10).map(f64::from).chain([50.0]).collect();
        assert_eq!((summarize_all(&x).mean, summarize_all(&x).trimmed_mean), (8.75, Some(5.5)));
    }

    #[test]
    fn uses_interval_of_all_figures() {
        let all = [96.0, 97.0, 98.0, 99.0, 100.0, 101.0, 60.0];
        let kept = summarize_all(&all[..6]).with_interval_of_all(&all);
        assert_eq!((kept.n, kept.median, kept.interval), (6, 98.5, summarize_all(&all).interval));
        assert!(kept.interval.0 < summarize_all(&all[..6]).interval.0);
    }

    #[test]
    fn has_no_spread_for_one_figure() {
        let one = summarize_all(&[7.0]);
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
            // Only for three or four values does the interval exceed them.
            prop_assert!([3, 4].contains(&s.n) || (s.min <= lo && hi <= s.max));
            prop_assert!(s.min <= s.mean * (1.0 + 1e-12) && s.mean <= s.max * (1.0 + 1e-12));
            let mut turned = figures.clone();
            turned.reverse();
            prop_assert_eq!(summary(&turned), Some(s));
        }
    }
}
