//! The 95 % confidence interval of the median of a few values.
//!
//! From five values on, it is based on order statistics: the median is between the k-th smallest
//! and the k-th largest value with a probability that depends only on the binomial distribution,
//! whatever the distribution of the values. It is interpolated between the two k closest to 95 %;
//! for five values, it is the whole range (93.8 %). Three or four values don't reach that far (75 %
//! and 87.5 %), so a distribution must be assumed: Student's interval of the mean of the
//! logarithms, which is valid for normal and lognormal values. A bootstrap interval would contain
//! the median in only 75 % of cases for three values and 88 % for seven.
//!
//! **Source:** Hettmansperger and Sheather, "Confidence intervals based on interpolated order
//! statistics", Statistics and Probability Letters 4 (1986); Nyblom, ibid. 14 (1992).

use super::squared_distances;
use crate::criteria::CONFIDENCE;

/// Student's t for 2.5 % at each end, for 2 and 3 degrees of freedom.
///
/// **Source:** NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
const STUDENT_T: [f64; 2] = [4.302_653, 3.182_446];

/// Returns both ends of the interval, or the smallest and largest value if there are fewer than
/// three. `sorted` must not be empty.
pub(super) fn of_median(sorted: &[f64]) -> (f64, f64) {
    match sorted.len() {
        1 | 2 => (sorted[0], sorted[sorted.len() - 1]),
        3 | 4 => by_student(sorted),
        _ => by_order_statistics(sorted),
    }
}

/// Computes Student's interval of the mean of the logarithms and converts it back to values. Uses
/// the values themselves if any has no logarithm.
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
        // Rounding must not exclude the median if the values are almost equal.
        let lo = (mean - half).exp();
        let hi = (mean + half).exp();
        (lo.min(sorted[1]), hi.max(sorted[sorted.len() - 2]))
    } else {
        (mean - half, mean + half)
    }
}

/// Computes the interval from interpolated order statistics.
fn by_order_statistics(sorted: &[f64]) -> (f64, f64) {
    let n = sorted.len();
    // Probability that the median is between the k-th smallest and the k-th largest value: 1 minus
    // twice the probability that fewer than k of n values are below it. The terms of this sum are
    // kept as logarithms, because 2^-n underflows for a thousand values.
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
        k += 1;
        wide = narrower;
    };
    // Position between the wide and the narrow interval. It is not linear: this form is exact for
    // two very different distributions and good for those in between.
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
    fn uses_range_of_five_figures() {
        assert_eq!(of_median(&[1.0, 2.0, 3.0, 4.0, 5.0]), (1.0, 5.0));
        let (lo, hi) = of_median(&[99.0, 100.0, 101.0]);
        // 100 times e to the power of ± 4.302653 x 0.0100002 / sqrt(3).
        assert!((lo - 97.543_1).abs() < 1e-3 && (hi - 102.511_9).abs() < 1e-3, "{lo} to {hi}");
        assert_eq!(of_median(&[5.0, 5.0, 5.0]), (5.0, 5.0));
        let (lo, hi) = of_median(&[0.0, 1.0, 2.0]);
        assert!(lo < 0.0 && hi > 2.0, "{lo} to {hi}");
    }

    #[test]
    fn interpolates_order_statistics() {
        // The mice of Efron and Tibshirani (1993), table 2.1: nine values. The second smallest and
        // largest contain the median with 0.9609, the third with 0.8203.
        let mice = [10.0, 27.0, 30.0, 40.0, 46.0, 51.0, 52.0, 104.0, 146.0];
        let (lo, hi) = of_median(&mice);
        assert!((lo - 27.684).abs() < 0.01 && (hi - 92.14).abs() < 0.1, "{lo} to {hi}");
        // A thousand values: the interval of the normal approximation, 500 ± 31.
        let many: Vec<f64> = (0..1_000).map(f64::from).collect();
        let (lo, hi) = of_median(&many);
        assert!((lo - 468.5).abs() < 1.0 && (hi - 530.5).abs() < 1.0, "{lo} to {hi}");
    }
}
