//! The test for trials that depend on the one before: neighbours in the order are more alike, or
//! less alike, than chance makes them.
//!
//! [`neighbours`] adds up the squared differences of neighbours (von Neumann) and compares the sum
//! with those of the same figures in random orders. Waves make it small, and trials that take
//! turns make it large. It rests on no distribution: where order means nothing, every order of the
//! figures is as probable as any other.
//!
//! **Source:** von Neumann, "Distribution of the ratio of the mean square successive difference to
//! the variance", Annals of Mathematical Statistics 12 (1941); Bartels, "The rank version of von
//! Neumann's ratio test for randomness", JASA 77 (1982), for its use on any distribution.

use model::random::{below, draw};

/// Random orders that the figures are compared in.
const ORDERS: u64 = 9_999;

/// Seed of the orders, so that a report is the same every time.
const SEED: u64 = 0x7265_7065_6174_6564;

/// The largest correlation that is assumed: few figures can't tell a larger one from it.
const CORRELATION_MAX: f64 = 0.95;

/// How figures depend on the ones before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// Neighbours are alike: a state lasts for some trials.
    Waves,
    /// Neighbours differ: one trial leaves what the next one suffers from.
    Turns,
}

/// Neighbours compared with random orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// In which direction they differ from a random order.
    pub dependence: Dependence,
    /// How probable as clear a dependence is by chance, 0 to 1, of both directions together.
    pub probability: f64,
    /// How like its predecessor a figure is, -1 to 1: the autocorrelation at lag 1, by the ratio
    /// of the squared differences to the variance, which is 2 of independent figures.
    pub correlation: f64,
}

impl Neighbours {
    /// Returns by how much an interval must be widened that took the figures for independent.
    ///
    /// Figures in waves say the same thing several times: so many of them are worth only
    /// `(1 - r) / (1 + r)` times as many independent ones. Figures that take turns are worth more,
    /// which no interval may rely on: then it is 1.
    ///
    /// **Source:** Bartlett, "On the theoretical specification and sampling properties of
    /// autocorrelated time-series", Supplement to JRSS 8 (1946), for a process of first order.
    pub fn interval_factor(&self) -> f64 {
        let correlation = self.correlation.clamp(0.0, CORRELATION_MAX);
        ((1.0 + correlation) / (1.0 - correlation)).sqrt()
    }
}

/// Compares neighbours with random orders; `None` for fewer than three figures.
pub fn neighbours(figures: &[f64]) -> Option<Neighbours> {
    if figures.len() < 3 {
        return None;
    }
    let found = sum_of_squares(figures);
    let mut shuffled = figures.to_vec();
    let (mut at_most, mut at_least) = (0_u64, 0_u64);
    let mut drawn = 0;
    for _ in 0..ORDERS {
        // Fisher and Yates: every order is as probable as any other.
        for last in (1..shuffled.len()).rev() {
            let other = below(draw(SEED, drawn), last as u64 + 1) as usize;
            drawn += 1;
            shuffled.swap(last, other);
        }
        let sum = sum_of_squares(&shuffled);
        at_most += u64::from(sum <= found);
        at_least += u64::from(sum >= found);
    }
    // The order that was found is one of those that chance may make, which keeps the share of false
    // alarms below the bound. Twice the smaller tail counts both directions.
    let waves = (at_most + 1) as f64 / (ORDERS + 1) as f64;
    let turns = (at_least + 1) as f64 / (ORDERS + 1) as f64;
    let dependence = if waves <= turns { Dependence::Waves } else { Dependence::Turns };
    let probability = (2.0 * waves.min(turns)).min(1.0);
    let correlation = (1.0 - found / (2.0 * sum_of_deviations(figures))).clamp(-1.0, 1.0);
    Some(Neighbours { dependence, probability, correlation })
}

/// Returns the sum of squared deviations from the mean; tiny, not zero, where all are equal.
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
    fn waves_turns_and_other_orders_are_distinguished() {
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
