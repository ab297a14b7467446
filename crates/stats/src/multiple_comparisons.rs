//! Adjusts probabilities of many comparisons for chance findings.
//!
//! Without any real difference, one in twenty comparisons is significant at 5 %. If a build fails
//! because of any of them, the probability should be 5 % for all of them together; see [`holm`].
//!
//! **Source:** S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
//! Journal of Statistics 6 (1979), 65-70.

/// Adjusts probabilities for their number, keeping their order. The smallest is multiplied by their
/// number, the next by one less, and so on. None becomes smaller than a previous one or larger than
/// 1.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![0.0; probabilities.len()];
    let mut reached: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        // Adjusted probabilities must stay in the same order.
        reached = reached.max(probabilities[at] * factor).min(1.0);
        adjusted[at] = reached;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_probabilities_are_those_of_statsmodels() {
        // statsmodels 0.15.0, multipletests(p, method="holm"), which is R's p.adjust(p, "holm").
        let all = [
            (vec![0.04, 0.001, 0.9, 0.012, 0.012], vec![0.08, 0.005, 0.9, 0.048, 0.048]),
            (vec![0.01, 0.04, 0.03, 0.005], vec![0.03, 0.06, 0.06, 0.02]),
        ];
        for (p, expected) in all {
            for (found, expected) in holm(&p).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
        }
        assert!(holm(&[]).is_empty());
        assert!((holm(&[0.03])[0] - 0.03).abs() < 1e-15);
    }
}
