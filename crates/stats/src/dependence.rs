//! Tests whether trials depend on previous ones, so that neighbors are more or less alike than by
//! chance.
//!
//! [`neighbours`] adds up the squared differences of neighbors (von Neumann) and compares the sum
//! with those of random permutations. Waves make it small, and alternating trials make it large.
//! The test assumes no distribution: if the order is irrelevant, all permutations are equally
//! probable.
//!
//! **Source:** von Neumann, "Distribution of the ratio of the mean square successive difference to
//! the variance", Annals of Mathematical Statistics 12 (1941); Bartels, "The rank version of von
//! Neumann's ratio test for randomness", JASA 77 (1982), for its use on any distribution.

use model::random::{below, draw};

/// Number of random permutations.
const ORDERS: u64 = 9_999;

/// Fixed seed of the permutations, so that reports are reproducible.
const SEED: u64 = 0x7265_7065_6174_6564;

/// Maximum correlation to assume; with few values, a larger one cannot be distinguished.
const CORRELATION_MAX: f64 = 0.95;

/// How values depend on previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    /// Neighbors are alike: a state lasts for several trials.
    Waves,
    /// Neighbors differ: a trial leaves something behind that affects the next one.
    Turns,
}

/// Result of comparing neighbors with random permutations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// Direction of the dependence.
    pub(crate) dependence: Dependence,
    /// Probability of such a dependence by chance, 0 to 1, for both directions together.
    pub probability: f64,
    /// Autocorrelation at lag 1, -1 to 1, derived from the ratio of squared differences to the
    /// variance, which is 2 for independent values.
    pub(crate) correlation: f64,
}

impl Neighbours {
    /// Returns the factor by which to widen an interval that assumed independent values.
    ///
    /// Values in waves are redundant: a number of them is only worth `(1 - r) / (1 + r)` times as
    /// many independent ones. Alternating values are worth more, but an interval must not rely on
    /// that, so the factor is 1.
    ///
    /// **Source:** Bartlett, "On the theoretical specification and sampling properties of
    /// autocorrelated time-series", Supplement to JRSS 8 (1946), for a process of first order.
    pub(crate) fn interval_factor(&self) -> f64 {
        let correlation = self.correlation.clamp(0.0, CORRELATION_MAX);
        ((1.0 + correlation) / (1.0 - correlation)).sqrt()
    }
}

/// Compares neighbors with random permutations. Returns `None` for fewer than three values.
pub fn neighbours(figures: &[f64]) -> Option<Neighbours> {
    if figures.len() < 3 {
        return None;
    }
    let found = sum_of_squares(figures);
    let mut shuffled = figures.to_vec();
    let mut at_most = 0_u64;
    let mut at_least = 0_u64;
    let mut drawn = 0;
    for _ in 0..ORDERS {
        // Fisher and Yates: all permutations are equally probable.
        for last in (1..shuffled.len()).rev() {
            let other = below(draw(SEED, drawn), last as u64 + 1) as usize;
            drawn += 1;
            shuffled.swap(last, other);
        }
        let sum = sum_of_squares(&shuffled);
        at_most += u64::from(sum <= found);
        at_least += u64::from(sum >= found);
    }
    // Counting the observed order as one of the permutations keeps false alarms below the limit.
    // Twice the smaller tail accounts for both directions.
    let waves = (at_most + 1) as f64 / (ORDERS + 1) as f64;
    let turns = (at_least + 1) as f64 / (ORDERS + 1) as f64;
    let dependence = if waves <= turns { Dependence::Waves } else { Dependence::Turns };
    let probability = (2.0 * waves.min(turns)).min(1.0);
    let correlation = (1.0 - found / (2.0 * sum_of_deviations(figures))).clamp(-1.0, 1.0);
    Some(Neighbours { dependence, probability, correlation })
}

/// Returns the sum of squared deviations from the mean; tiny but not zero if all values are equal.
fn sum_of_deviations(figures: &[f64]) -> f64 {
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    let mut sum = 0.0;
    for figure in figures {
        sum += (figure - mean).powi(2);
    }
    sum.max(f64::MIN_POSITIVE)
}

fn sum_of_squares(figures: &[f64]) -> f64 {
    let mut sum = 0.0;
    for pair in figures.windows(2) {
        sum += (pair[1] - pair[0]).powi(2);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_waves_from_turns() {
        let waves = [50.0, 49.0, 44.0, 30.0, 12.0, 6.0, 8.0, 20.0, 35.0, 47.0];
        let found = neighbours(&waves).unwrap();
        assert_eq!(found.dependence, Dependence::Waves);
        assert!(found.probability <= 0.01, "{found:?}");
        assert!((0.5..0.95).contains(&found.correlation), "{found:?}");
        assert!((1.7..6.3).contains(&found.interval_factor()), "{found:?}");
        let turns = [44.0, 5.5, 43.0, 6.0, 45.0, 5.0, 44.5, 5.2, 42.0, 6.1, 43.5, 5.8];
        let found = neighbours(&turns).unwrap();
        assert_eq!(found.dependence, Dependence::Turns);
        assert!(found.probability <= 0.01, "{found:?}");
        assert!(found.correlation < -0.8 && found.interval_factor() <= 1.0, "{found:?}");
        let mixed = [10.0, 12.0, 11.0, 9.0, 10.5, 12.5, 9.5, 11.5];
        assert!(neighbours(&mixed).unwrap().probability > 0.05);
        assert_eq!(neighbours(&[1.0, 2.0]), None);
    }
}
