//! Checks that the page on statistics states the actual values of all constants.

use stats::criteria;

#[test]
fn documents_every_constant() {
    let page = include_str!("../../../../docs/design/statistics.md");
    for (name, value) in [
        ("CONFIDENCE", criteria::CONFIDENCE),
        ("RESAMPLES", criteria::RESAMPLES as f64),
        ("TRIALS_MIN", criteria::TRIALS_MIN as f64),
        ("SETTLED_TRIALS_MIN", criteria::SETTLED_TRIALS_MIN as f64),
        ("HALF_WIDTH_SHARE_MAX", criteria::HALF_WIDTH_SHARE_MAX),
        ("OUTLIER_SCORES_MAX", criteria::OUTLIER_SCORES_MAX[0]),
        ("OUTLIER_TRIALS_MIN", criteria::OUTLIER_TRIALS_MIN as f64),
        ("OUTLIER_DISCARD_TRIALS_MIN", criteria::OUTLIER_DISCARD_TRIALS_MIN as f64),
        ("OUTLIER_DISCARD_SHARE_MAX", criteria::OUTLIER_DISCARD_SHARE_MAX),
        ("OUTLIER_SHARE_MIN", criteria::OUTLIER_SHARE_MIN),
        ("INTERACTION_SHARE_MIN", criteria::INTERACTION_SHARE_MIN),
        ("INTERACTION_PROBABILITY_MAX", criteria::INTERACTION_PROBABILITY_MAX),
        ("EFFECT_MIN", criteria::EFFECT_MIN),
        ("DRIFT_SHARE_MIN", criteria::DRIFT_SHARE_MIN),
        ("DRIFT_TRIALS_MIN", criteria::DRIFT_TRIALS_MIN as f64),
        ("DRIFT_PROBABILITY_MAX", criteria::DRIFT_PROBABILITY_MAX),
        ("DRIFT_PROBABILITY_MANY_MAX", criteria::DRIFT_PROBABILITY_MANY_MAX),
        ("LEVEL_RATIO_MIN", criteria::LEVEL_RATIO_MIN),
        ("LEVEL_PROBABILITY_MAX", criteria::LEVEL_PROBABILITY_MAX),
    ] {
        let line = format!("| `{name}` | {value} |");
        assert!(page.contains(&line), "docs/design/statistics.md lacks {line}");
    }
}
