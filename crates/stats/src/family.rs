//! Many comparisons at once: how improbable each must be, so that chance alone makes none of them.
//!
//! [`holm`] is the only function. Of twenty comparisons without a cause one comes out at 5 %; who
//! fails a build on any of them wants 5 % for all of them together.
//!
//! **Source:** S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
//! Journal of Statistics 6 (1979), 65-70.

/// Adjusts probabilities for their number, in their order: the smallest is multiplied by how many
/// there are, the next one by one less, and so on; none becomes smaller than one before it, or
/// larger than 1.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![0.0; probabilities.len()];
    let mut reached: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        // Adjusted probabilities keep the order of those that they are made from.
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
