//! Rank test of two samples: could two sets of trials have come from the same source?
//!
//! [`rank_test`] is the two-sided test of Mann and Whitney (Wilcoxon's rank-sum test). Its
//! distribution is enumerated exactly, including ties, as long as that is cheap. Beyond that, it
//! uses the normal approximation with corrections for ties and continuity.
//!
//! **Source:** Mann and Whitney, "On a test of whether one of two random variables is
//! stochastically larger than the other", Annals of Mathematical Statistics 18 (1947); Lehmann,
//! "Nonparametrics" (1975), 1.4 (ties). The exact count is the permutation distribution of the
//! midranks, as in R's `coin::wilcox_test(distribution = "exact")`.

use std::cmp::Ordering;

use statrs::function::erf::erfc;

use crate::summary::{sort_finite, squared_distances};

/// Maximum number of values in both samples for the exact distribution.
const EXACT_MAX: usize = 50;

/// Returns the probability, 0 to 1, that two samples from one source differ at least this much.
///
/// Returns 1 if a sample is empty or a value is not finite, because then there is no evidence
/// against a common source.
pub fn rank_test(a: &[f64], b: &[f64]) -> f64 {
    let (Some(_), Some(_)) = (sort_finite(a), sort_finite(b)) else { return 1.0 };
    // Doubled midranks are integers, so sums can be counted exactly.
    let ranks = doubled_ranks(a, b);
    if ranks.len() <= EXACT_MAX {
        exact_probability(&ranks, a.len())
    } else {
        approximate_probability(&ranks, a.len())
    }
}

/// Returns the smallest probability that [`rank_test`] can return for these sample sizes without
/// ties, which is for completely separated samples.
pub(crate) fn smallest_probability(a: usize, b: usize) -> f64 {
    let below: Vec<f64> = (0..a).map(|figure| figure as f64).collect();
    let above: Vec<f64> = (a..a + b).map(|figure| figure as f64).collect();
    rank_test(&below, &above)
}

/// Returns twice the midrank of each value, those of `a` first. These are integers even with ties.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all = [a, b].concat();
    let mut ranks = Vec::with_capacity(all.len());
    for figure in &all {
        let mut below = 0;
        let mut same = 0;
        for other in &all {
            match other.total_cmp(figure) {
                Ordering::Less => below += 1,
                Ordering::Equal => same += 1,
                Ordering::Greater => {}
            }
        }
        // Ranks below + 1 ..= below + same; twice their mean.
        ranks.push(2 * below + same + 1);
    }
    ranks
}

/// Returns the share of choices of `n` ranks whose sum is at least as far from the middle as that
/// of the first `n`.
fn exact_probability(ranks: &[usize], n: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s]: how many choices of k ranks add up to s.
    let mut ways = vec![vec![0.0_f64; total + 1]; n + 1];
    ways[0][0] = 1.0;
    // Add ranks one by one, from the largest k down, so that none is used twice.
    for (seen, rank) in ranks.iter().enumerate() {
        for k in (1..=n.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for sum in *rank..=total {
                more[0][sum] += fewer[k - 1][sum - rank];
            }
        }
    }
    // Compare sums with their mean, `total * n / count`, both multiplied by `count`. They are
    // integers, so equal distances compare as equal.
    let middle = total * n;
    let first: usize = ranks[..n].iter().sum();
    let found = (first * ranks.len()).abs_diff(middle);
    let mut all = 0.0;
    let mut far = 0.0;
    for (sum, count) in ways[n].iter().enumerate() {
        all += count;
        if (sum * ranks.len()).abs_diff(middle) >= found {
            far += count;
        }
    }
    f64::min(far / all, 1.0)
}

/// Approximates the rank sum by a normal distribution, corrected for ties and continuity.
fn approximate_probability(ranks: &[usize], n: usize) -> f64 {
    let count = ranks.len() as f64;
    let n = n as f64;
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0 / count;
    let midranks: Vec<_> = ranks.iter().map(|doubled| *doubled as f64 / 2.0).collect();
    let squares = squared_distances(&midranks, mean);
    // The variance of a sum of n values drawn without replacement; ties are included in `squares`.
    let variance = n * (count - n) / (count * (count - 1.0)) * squares;
    let sum: f64 = midranks[..n as usize].iter().sum();
    let distance = ((sum - n * mean).abs() - 0.5).max(0.0);
    if variance > 0.0 { erfc(distance / (2.0 * variance).sqrt()) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_rank_test_of_r() {
        // R, example(wilcox.test), Hollander and Wolfe (1973), 69f.: permeability constants of the
        // human chorioamnion; there W = 35 and one-sided p = 0.1272, two-sided 0.2544 (exact).
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert!((rank_test(&x, &y) - 0.2544).abs() < 5e-5, "{}", rank_test(&x, &y));
    }

    #[test]
    fn computes_probability_of_full_separation() {
        // Two of C(2n, n) orders: 2/20, 2/252.
        assert!((rank_test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 0.1).abs() < 1e-12);
        assert!((smallest_probability(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((smallest_probability(3, 3) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn ties_are_counted_as_they_are() {
        // All of 1 1 2 | 2 2 2: of the 20 choices of three, those with both 1 have the lowest sum
        // (4 ways), those with none the highest (4 ways); the rest is closer to the middle.
        assert!((rank_test(&[1.0, 1.0, 2.0], &[2.0, 2.0, 2.0]) - 0.4).abs() < 1e-12);
        assert!((rank_test(&[3.0; 4], &[3.0; 4]) - 1.0).abs() < 1e-12);
        assert!((rank_test(&[], &[1.0]) - 1.0).abs() < 1e-12);
        assert!((rank_test(&[f64::NAN], &[1.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_approximation_meets_the_exact_count() {
        let a: Vec<f64> = (0..25).map(|i| f64::from(i) * 1.1).collect();
        let b: Vec<f64> = (0..25).map(|i| f64::from(i) * 1.1 + 5.6).collect();
        let ranks = doubled_ranks(&a, &b);
        let exact = exact_probability(&ranks, 25);
        let near = approximate_probability(&ranks, 25);
        assert!((exact - near).abs() < 0.002, "{exact} {near}");
    }

    #[test]
    fn approximation_is_corrected_for_continuity() {
        // The rank sum of the even numbers is 13 from its mean, with a standard deviation of 54.64:
        // R, wilcox.test(seq(0, 50, 2), seq(1, 51, 2), exact = FALSE) gives p = 0.8191.
        let even: Vec<f64> = (0..26).map(|i| f64::from(2 * i)).collect();
        let odd: Vec<f64> = (0..26).map(|i| f64::from(2 * i + 1)).collect();
        assert!((rank_test(&even, &odd) - 0.819_05).abs() < 1e-5, "{}", rank_test(&even, &odd));
    }
}
