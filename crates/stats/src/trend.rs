//! Test for a monotonic trend: whether values rise or fall in their order.
//!
//! [`trend`] counts how many pairs rise and how many fall (Mann and Kendall), and returns the
//! probability of such an uneven count in random order. For up to [`EXACT_MAX`] values, the
//! distribution is enumerated; beyond, it uses the normal approximation with the correction for
//! continuity. The size of the trend is Sen's slope: the median of the slopes of all pairs.
//!
//! **Source:** Mann, "Nonparametric tests against trend", Econometrica 13 (1945); Kendall, "Rank
//! Correlation Methods" (1948); Sen, "Estimates of the regression coefficient based on Kendall's
//! tau", Journal of the American Statistical Association 63 (1968).

use statrs::function::erf::erfc;

use crate::summary::median;

/// Maximum number of values for the exact distribution.
const EXACT_MAX: usize = 50;

/// How values change in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Probability of such a trend by chance, 0 to 1.
    pub probability: f64,
    /// Change from the first to the last value as a share of the median; negative if they fall.
    pub change: f64,
}

/// Tests for a trend. Returns `None` for fewer than three values, or if the median is not positive.
pub fn trend(figures: &[f64]) -> Option<Trend> {
    // `median` rejects values that are not finite.
    let middle = median(figures)?;
    if figures.len() < 3 || middle <= 0.0 {
        return None;
    }
    let mut score = 0_i64;
    let mut slopes = Vec::new();
    for (later, b) in figures.iter().enumerate() {
        for (earlier, a) in figures[..later].iter().enumerate() {
            score += i64::from(b > a) - i64::from(b < a);
            slopes.push((b - a) / (later - earlier) as f64);
        }
    }
    let slope = median(&slopes)?;
    Some(Trend {
        probability: probability(figures.len(), score.unsigned_abs()),
        change: slope * (figures.len() - 1) as f64 / middle,
    })
}

/// Returns the probability that rising and falling pairs of `n` values differ by `score` or more.
fn probability(n: usize, score: u64) -> f64 {
    if score == 0 {
        return 1.0;
    }
    if n > EXACT_MAX {
        let n = n as f64;
        let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
        return erfc((score as f64 - 1.0) / (2.0 * variance).sqrt());
    }
    // The share of all orders of n values with a given number of falling pairs, built up value by
    // value: the largest one comes before 0 to n - 1 of the others, which makes as many falling
    // pairs.
    let pairs = n * (n - 1) / 2;
    let mut shares = vec![1.0_f64];
    for figure in 2..=n {
        let mut next = vec![0.0; shares.len() + figure - 1];
        for (falling, share) in shares.iter().enumerate() {
            for more in 0..figure {
                next[falling + more] += share / figure as f64;
            }
        }
        shares = next;
    }
    let mut far: f64 = 0.0;
    for (falling, share) in shares.iter().enumerate() {
        if pairs.abs_diff(2 * falling) as u64 >= score {
            far += share;
        }
    }
    far.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn chances_are_those_of_kendalls_table() {
        // Kendall (1948), appendix table 1, both tails: S = 10 of 5, 8 of 5, 15 of 6, 25 of 10.
        assert!(close(probability(5, 10), 2.0 / 120.0));
        assert!(close(probability(5, 8), 10.0 / 120.0));
        assert!(close(probability(6, 15), 2.0 / 720.0));
        assert!((probability(10, 25) - 0.028).abs() < 0.001, "{}", probability(10, 25));
        assert!(close(probability(7, 0), 1.0));
        // The two methods agree where they meet.
        let n = EXACT_MAX;
        let score = 241;
        let variance = (n * (n - 1) * (2 * n + 5)) as f64 / 18.0;
        let normal = erfc((score as f64 - 1.0) / (2.0 * variance).sqrt());
        assert!((probability(n, score) - normal).abs() < 0.002);
    }

    #[test]
    fn finds_trend_of_falling_figures() {
        let found = trend(&[120.0, 115.0, 110.0, 105.0, 100.0]).unwrap();
        assert!(close(found.probability, 2.0 / 120.0) && close(found.change, -20.0 / 110.0));
        let one_off = trend(&[100.0, 101.0, 102.0, 60.0, 103.0, 104.0]).unwrap();
        assert!(close(one_off.change, 0.75 * 5.0 / 101.5), "{one_off:?}");
    }

    #[test]
    fn an_order_of_chance_has_none() {
        let found = trend(&[100.0, 120.0, 95.0, 118.0, 101.0]).unwrap();
        assert!(found.probability > 0.5, "{found:?}");
        let same = trend(&[5.0; 60]).unwrap();
        assert!(close(same.probability, 1.0) && close(same.change, 0.0));
        assert_eq!(trend(&[1.0, 2.0]), None);
        assert_eq!(trend(&[0.0; 9]), None);
        assert_eq!(trend(&[1.0, f64::NAN, 2.0]), None);
    }
}
