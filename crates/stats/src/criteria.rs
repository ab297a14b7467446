//! The thresholds that decide whether a figure is doubted, in one place and with their reasons.
//!
//! A change here can move verdicts and intervals, but never a rate: it belongs in the
//! "Measurement" section of the change log.

/// Confidence of the interval of a median.
///
/// **Source:** the usual level of the field; Georges, Buytaert and Eeckhout, "Statistically
/// rigorous Java performance evaluation", OOPSLA 2007, 3.2.
pub const CONFIDENCE: f64 = 0.95;

/// Bootstrap samples behind an interval.
///
/// **Source:** Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), 12.3 and 14.3:
/// at least 1000 for percentile intervals; ten times that makes their own noise negligible.
pub const RESAMPLES: usize = 10_000;

/// Up to so many figures, more than 2.5 % of the bootstrap medians are the smallest figure (5.8 %
/// of five, 0.9 % of six), so the interval is the whole range and nothing need be drawn.
pub const RANGE_FIGURES_MAX: usize = 5;

/// Seed of the bootstrap. It is fixed, so that a report is repeatable byte for byte.
pub const BOOTSTRAP_SEED: u64 = 0x6466_7362_656e_6368;

/// Fewer trials than this say nothing about the spread: with two, each lies as far from the
/// median as the other.
pub const TRIALS_MIN: usize = 3;

/// Trials from which an interval may end a run: up to [`RANGE_FIGURES_MAX`] it is their range, and
/// ranges of few trials are narrow by chance.
pub const SETTLED_TRIALS_MIN: usize = RANGE_FIGURES_MAX;

/// Half the interval may be this share of the median before the figure is called uncertain:
/// two targets that differ by less than 20 % could not be told apart then.
pub const HALF_WIDTH_SHARE_MAX: f64 = 0.10;

/// Modified z-score from which a trial is an outlier.
///
/// **Source:** Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993), ASQC Basic
/// References in Quality Control 16; NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17.
pub const OUTLIER_SCORE_MAX: f64 = 3.5;

/// Trials from which outliers are looked for: below, the median deviation rests on one or two
/// distances, and two trials that agree by chance make an outlier of a sound third.
pub const OUTLIER_TRIALS_MIN: usize = 5;

/// A trial nearer to the median than this share of it is never called an outlier: five trials
/// within 0.1 % would else condemn one that is 1 % off, which misleads nobody.
pub const OUTLIER_SHARE_MIN: f64 = 0.05;

/// An interaction of two factors that governs less of the variance than this is not worth a
/// sentence.
pub const INTERACTION_SHARE_MIN: f64 = 0.01;

/// How probable an interaction may be by chance: stricter than [`CONFIDENCE`], since ten pairs are
/// looked at where there are five factors.
pub const INTERACTION_PROBABILITY_MAX: f64 = 0.01;

/// The smallest difference between two campaigns that is worth a sentence, where nobody says.
/// Half of what makes a single interval too wide ([`HALF_WIDTH_SHARE_MAX`]): a smaller difference
/// could seldom be shown with the trials that people have the patience for.
pub const EFFECT_MIN: f64 = 0.05;
