//! Detects outliers by their distance from the median.
//!
//! Unlike the standard deviation, the median absolute deviation is not affected by the outlier
//! itself: of five values, one can be arbitrarily wrong and is still detected. The limit depends on
//! the number of values; see [`score_max`].
//!
//! **Source:** Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993); NIST/SEMATECH
//! e-Handbook of Statistical Methods, 1.3.5.17.

use model::Discard;

use crate::criteria::{
    OUTLIER_DISCARD_SHARE_MAX, OUTLIER_DISCARD_TRIALS_MIN, OUTLIER_SCORES_MAX, OUTLIER_SHARE_MIN,
    OUTLIER_TRIALS_MIN,
};
use crate::summary::median;

/// Third quartile of the normal distribution, which makes the deviation comparable with a standard
/// deviation. **Source:** as the module.
const NORMAL_QUARTILE: f64 = 0.6745;

/// `sqrt(pi / 2)`, which scales the mean absolute deviation if the median one is 0.
/// **Source:** IBM SPSS Modeler, "Anomaly detection", modified z-score.
const NORMAL_MEAN_DEVIATION: f64 = 1.253_314;

/// Distance of a value from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Distance from the median, in units of the values.
    pub distance: f64,
    /// Modified z-score; negative below the median.
    pub z: f64,
}

/// Returns the score of every value in order. All scores are 0 if all values are equal.
///
/// Empty if there are no values or any of them is not finite.
pub fn modified_z_scores(figures: &[f64]) -> Vec<Score> {
    let Some(centre) = median(figures) else {
        return Vec::new();
    };
    let distances: Vec<_> = figures.iter().map(|figure| (figure - centre).abs()).collect();
    let deviation = median(&distances).unwrap_or(0.0);
    let mean_deviation = distances.iter().sum::<f64>() / distances.len() as f64;
    // If more than half of the values are equal, the median deviation is 0.
    let scale = if deviation > 0.0 {
        NORMAL_QUARTILE / deviation
    } else if mean_deviation > 0.0 {
        1.0 / (NORMAL_MEAN_DEVIATION * mean_deviation)
    } else {
        0.0
    };
    figures
        .iter()
        .zip(distances)
        .map(|(figure, distance)| Score { distance, z: (figure - centre) * scale })
        .collect()
}

/// Returns for every value in order whether the rule excludes it.
///
/// Of equal highest or lowest values, the first one is excluded. With fewer than three values,
/// nothing is excluded, because there would be nothing left to judge by.
pub fn discarded(rule: Discard, figures: &[f64]) -> Vec<bool> {
    let mut out = vec![false; figures.len()];
    match rule {
        _ if figures.len() < 3 => {}
        // Rates don't show which trials were cached.
        Discard::None | Discard::Cached => {}
        Discard::Extremes => {
            let (highest, lowest) = extremes(figures);
            out[highest] = true;
            out[lowest] = true;
        }
        Discard::Outliers if figures.len() < OUTLIER_DISCARD_TRIALS_MIN => {}
        Discard::Outliers => {
            let far = outliers(figures);
            let count = far.iter().filter(|is_far| **is_far).count();
            if count as f64 <= OUTLIER_DISCARD_SHARE_MAX * figures.len() as f64 {
                out = far;
            }
        }
    }
    out
}

/// Returns the index of the highest value, and of the lowest among the others; of equal ones the
/// first. There must be at least two values.
fn extremes(figures: &[f64]) -> (usize, usize) {
    let mut highest = 0;
    for (at, figure) in figures.iter().enumerate() {
        if figure.total_cmp(&figures[highest]).is_gt() {
            highest = at;
        }
    }
    // If all values are equal, the two extremes must still be different.
    let mut lowest = usize::from(highest == 0);
    for (at, figure) in figures.iter().enumerate() {
        if at != highest && figure.total_cmp(&figures[lowest]).is_lt() {
            lowest = at;
        }
    }
    (highest, lowest)
}

/// Returns for every value in order whether it is an outlier.
pub fn outliers(figures: &[f64]) -> Vec<bool> {
    let Some(limit) = score_max(figures.len()) else { return vec![false; figures.len()] };
    let centre = median(figures).unwrap_or(0.0);
    modified_z_scores(figures)
        .into_iter()
        .map(|score| score.z.abs() > limit && score.distance > OUTLIER_SHARE_MIN * centre)
        .collect()
}

/// Returns the modified z-score above which one of this many values is an outlier, or `None` if
/// there are too few.
pub(crate) fn score_max(figures: usize) -> Option<f64> {
    let place = figures.checked_sub(OUTLIER_TRIALS_MIN)?;
    Some(OUTLIER_SCORES_MAX[place.min(OUTLIER_SCORES_MAX.len() - 1)])
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;
    use crate::summary::summary;

    /// Uranium isotope data of Tietjen and Moore (1972), as printed in NIST/SEMATECH 1.3.5.17.
    const URANIUM: [f64; 8] = [199.31, 199.53, 200.19, 200.82, 201.92, 201.95, 202.18, 245.57];

    #[test]
    fn finds_outlier_of_uranium_data() {
        let scores = modified_z_scores(&URANIUM);
        let last = [false, false, false, false, false, false, false, true];
        assert_eq!(outliers(&URANIUM), last);
        // Median 201.37, deviation 0.995: 0.6745 * 44.2 / 0.995.
        assert!((scores[7].z - 29.9627).abs() < 1e-3, "{}", scores[7].z);
        // Grubbs' statistic on the same page, from our mean and deviation: 2.468765.
        let s = summary(&URANIUM).unwrap();
        assert!(((s.max - s.mean) / s.standard_deviation - 2.468_765).abs() < 1e-6);
    }

    #[test]
    fn finds_single_outlier_of_equal_figures() {
        assert!(modified_z_scores(&[5.0; 6]).iter().all(|score| score.z == 0.0));
        let scores = modified_z_scores(&[5.0, 5.0, 5.0, 5.0, 5.0, 9.0]);
        assert!(scores[5].z > 4.0, "{scores:?}");
        assert!(modified_z_scores(&[]).is_empty());
    }

    #[test]
    fn removes_one_highest_and_lowest() {
        let of = |figures: &[f64]| discarded(Discard::Extremes, figures);
        assert_eq!(of(&[3.0, 9.0, 1.0, 9.0, 2.0]), [false, true, true, false, false]);
        assert_eq!(of(&[5.0, 5.0, 5.0]), [true, true, false]);
        assert_eq!(of(&[1.0, 9.0]), [false, false]);
        assert_eq!(discarded(Discard::None, &[1.0, 2.0, 99.0]), [false; 3]);
    }

    #[test]
    fn removes_only_misleading_outliers() {
        let of = |figures: &[f64]| discarded(Discard::Outliers, figures);
        assert_eq!(of(&URANIUM).iter().filter(|out| **out).count(), 1);
        // Far in terms of deviations, but within 5 %.
        assert_eq!(of(&[100.0, 100.1, 99.9, 100.0, 100.1, 99.8, 102.0]), [false; 7]);
        // Of six trials, none is excluded; of ten, not four that agree with each other.
        assert_eq!(of(&[100.0, 101.0, 99.0, 100.0, 102.0, 10.0]), [false; 6]);
        let two_ways = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 50.0, 51.0, 49.0, 50.0];
        assert_eq!(of(&two_ways), [false; 10]);
    }
}
