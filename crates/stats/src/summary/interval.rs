//! The 95 % confidence interval of a median of few figures.
//!
//! From five figures on it is made of order statistics: the median lies between the k-th smallest
//! and the k-th largest figure with a probability that follows from the binomial distribution
//! alone, whatever the distribution of the figures. Between the two k that are nearest to 95 % it
//! is interpolated; of five figures it is the whole range (93.8 %). Three or four figures don't
//! reach so far (75 % and 87.5 %), so there a shape must be assumed: Student's interval of the mean
//! of the logarithms, which holds for normal and lognormal figures alike. A bootstrap would hold
//! the median in 75 % of cases with three figures and in 88 % with seven.
//!
//! **Source:** Hettmansperger and Sheather, "Confidence intervals based on interpolated order
//! statistics", Statistics and Probability Letters 4 (1986); Nyblom, ibid. 14 (1992).

use super::squared_distances;
use crate::criteria::CONFIDENCE;

/// Student's t for 2.5 % at each end, of 2 and of 3 degrees of freedom.
///
/// **Source:** NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
const STUDENT_T: [f64; 2] = [4.302_653, 3.182_446];

/// Returns both ends of the interval; the smallest and the largest figure where there are fewer
/// than three, which say nothing about it. `sorted` holds at least one figure.
pub(super) fn of_median(sorted: &[f64]) -> (f64, f64) {
    match sorted.len() {
        1 | 2 => (sorted[0], sorted[sorted.len() - 1]),
        3 | 4 => by_student(sorted),
        _ => by_order_statistics(sorted),
    }
}

/// Makes Student's interval of the mean of the logarithms, and takes it back to figures; of the
/// figures themselves where one of them has no logarithm.
fn by_student(sorted: &[f64]) -> (f64, f64) {
    if sorted[0] >= sorted[sorted.len() - 1] {
        return (sorted[0], sorted[0]);
    }
    let has_logarithms = sorted[0] > 0.0;
    let mut figures = sorted.to_vec();
    if has_logarithms {
        for figure in &mut figures {
            *figure = figure.ln();
        }
    }
    let n = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / n;
    let deviation = (squared_distances(&figures, mean) / (n - 1.0)).sqrt();
    let half = STUDENT_T[figures.len() - 3] * deviation / n.sqrt();
    if has_logarithms {
        // Rounding must not leave out the median where the figures are almost equal.
        let (lo, hi) = ((mean - half).exp(), (mean + half).exp());
        (lo.min(sorted[1]), hi.max(sorted[sorted.len() - 2]))
    } else {
        (mean - half, mean + half)
    }
}

/// Makes the interval of interpolated order statistics.
fn by_order_statistics(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    // How probably the median lies between the k-th smallest and the k-th largest figure: 1 less
    // twice the probability that fewer than k of n figures lie below it. The terms of that sum
    // are kept as logarithms, since 2^-n is no float where there are a thousand figures.
    let mut term_ln = -(n as f64) * std::f64::consts::LN_2;
    let mut k = 1;
    let mut wide = 1.0 - 2.0 * term_ln.exp();
    if wide <= CONFIDENCE {
        return (sorted[0], sorted[n - 1]);
    }
    let narrow = loop {
        term_ln += ((n - k + 1) as f64 / k as f64).ln();
        let narrower = wide - 2.0 * term_ln.exp();
        if narrower < CONFIDENCE {
            break narrower;
        }
        (k, wide) = (k + 1, narrower);
    };
    // The share of the way from the wide interval to the narrow one. The way is not straight:
    // this form is exact for two distributions far apart, and good for those between.
    let excess = (wide - CONFIDENCE) / (wide - narrow);
    let inner = (n - k) as f64 * excess / (k as f64 + (n - 2 * k) as f64 * excess);
    let lo = sorted[k - 1] + inner * (sorted[k] - sorted[k - 1]);
    let hi = sorted[n - k] - inner * (sorted[n - k] - sorted[n - k - 1]);
    (lo, hi)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;

    #[test]
    fn five_figures_have_their_range_and_fewer_reach_beyond_it() {
        assert_eq!(of_median(&[1.0, 2.0, 3.0, 4.0, 5.0]), (1.0, 5.0));
        let (lo, hi) = of_median(&[99.0, 100.0, 101.0]);
        // 100 times e to the power of ± 4.302653 x 0.0100002 / sqrt(3).
        assert!((lo - 97.543_1).abs() < 1e-3 && (hi - 102.511_9).abs() < 1e-3, "{lo} to {hi}");
        assert_eq!(of_median(&[5.0, 5.0, 5.0]), (5.0, 5.0));
        let (lo, hi) = of_median(&[0.0, 1.0, 2.0]);
        assert!(lo < 0.0 && hi > 2.0, "{lo} to {hi}");
    }

    #[test]
    fn order_statistics_are_interpolated_between_the_nearest_two() {
        // The mice of Efron and Tibshirani (1993), table 2.1: nine figures, of which the second
        // smallest and largest hold the median with 0.9609, the third with 0.8203.
        let mice = [10.0, 27.0, 30.0, 40.0, 46.0, 51.0, 52.0, 104.0, 146.0];
        let (lo, hi) = of_median(&mice);
        assert!((lo - 27.684).abs() < 0.01 && (hi - 92.14).abs() < 0.1, "{lo} to {hi}");
        // A thousand figures: the interval of the normal approximation, 500 ± 31.
        let many: Vec<f64> = (0..1_000).map(f64::from).collect();
        let (lo, hi) = of_median(&many);
        assert!((lo - 468.5).abs() < 1.0 && (hi - 530.5).abs() < 1.0, "{lo} to {hi}");
    }
}
