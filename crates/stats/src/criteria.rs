//! All thresholds for doubting a result, with their reasons.
//!
//! A change here can affect verdicts and intervals, but never a rate. It must be listed in the
//! "Measurement" section of the change log.

/// Confidence level of the interval of a median.
///
/// **Source:** the usual level of the field; Georges, Buytaert and Eeckhout, "Statistically
/// rigorous Java performance evaluation", OOPSLA 2007, 3.2.
pub const CONFIDENCE: f64 = 0.95;

/// Number of bootstrap samples for an interval.
///
/// **Source:** Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), 12.3 and 14.3: at
/// least 1000 for percentile intervals; ten times that makes their own noise negligible.
pub const RESAMPLES: usize = 10_000;

/// Seed of the bootstrap. It is fixed, so that reports are reproducible byte for byte.
pub const BOOTSTRAP_SEED: u64 = 0x6466_7362_656e_6368;

/// Minimum number of trials for a spread. With two, each is equally far from the median.
pub const TRIALS_MIN: usize = 3;

/// Minimum number of trials before an interval may end a run. With fewer, the interval assumes a
/// distribution, and trials may be close together by chance.
pub const SETTLED_TRIALS_MIN: usize = 5;

/// Maximum half-width of an interval as a share of the median. Beyond it, two targets that differ
/// by less than 20 % could not be distinguished.
pub const HALF_WIDTH_SHARE_MAX: f64 = 0.10;

/// Maximum number of trials to advise for a narrower interval. A target that varies this much needs
/// a different remedy.
pub(crate) const ADVISED_TRIALS_MAX: u32 = 100;

/// Number of trials to advise if fewer have an outlier.
pub(crate) const ADVISED_AGAINST_OUTLIERS: u32 = 10;

/// Modified z-score that the farthest of 5, 6, 7 ... 30 trials exceeds in one of 200 series of
/// normally distributed noise. The usual 3.5 is meant for large samples. With five valid trials, it
/// would reject one in every fifth series, because their median deviation is based on only two
/// distances.
///
/// **Source:** simulation, 400,000 samples for each number; a test repeats it with fewer.
pub const OUTLIER_SCORES_MAX: [f64; 26] = [
    26.3, 13.0, 13.7, 9.7, 10.0, 8.2, 8.4, 7.4, 7.5, 6.7, 6.8, 6.3, 6.4, 6.0, 6.1, 5.8, 5.9, 5.6,
    5.7, 5.5, 5.6, 5.4, 5.4, 5.3, 5.3, 5.2,
];

/// Minimum number of trials for detecting outliers. With fewer, two trials that agree by chance
/// would make an outlier of a valid third one, regardless of the limit.
pub const OUTLIER_TRIALS_MIN: usize = 5;

/// Minimum number of trials for excluding outliers; with fewer, too much information would be lost.
pub const OUTLIER_DISCARD_TRIALS_MIN: usize = 7;

/// Maximum share of trials excluded as outliers. More are not an accident but a second mode of the
/// target, and then none is excluded.
pub const OUTLIER_DISCARD_SHARE_MAX: f64 = 0.25;

/// Minimum distance from the median, as a share of it, for an outlier. Otherwise, five trials
/// within 0.1 % would reject one that is off by 1 %, which misleads nobody.
pub const OUTLIER_SHARE_MIN: f64 = 0.05;

/// Minimum share of the variance that an interaction of two factors must explain to be mentioned.
pub const INTERACTION_SHARE_MIN: f64 = 0.01;

/// Maximum probability of an interaction by chance. Stricter than [`CONFIDENCE`], because five
/// factors have ten pairs.
pub const INTERACTION_PROBABILITY_MAX: f64 = 0.01;

/// Smallest difference between two campaigns to mention, unless configured otherwise. Half of what
/// makes a single interval too wide ([`HALF_WIDTH_SHARE_MAX`]). A smaller difference could rarely
/// be shown with the number of trials that people are willing to wait for.
pub const EFFECT_MIN: f64 = 0.05;

/// Maximum share of the workers' time that the hypervisor may take from a trial, and maximum share
/// of the CPUs that other programs may use. The trial loses about the same share of its rate, so
/// the limit is the smallest effect worth mentioning. In three campaigns on a virtual machine that
/// varied by 17 to 41 %, the trials below this limit varied by 3 to 10 %.
pub(crate) const INTERFERENCE_SHARE_MAX: f64 = EFFECT_MIN;

/// Maximum share of the time that tasks may wait for memory, and of the CPU time for which CPUs may
/// be throttled. Same reason as [`INTERFERENCE_SHARE_MAX`].
pub(crate) const PRESSURE_SHARE_MAX: f64 = EFFECT_MIN;

/// Maximum bytes per second that other programs may transfer to and from storage during a trial: a
/// tenth of what a hard disk achieves, and ten times what counts as idle.
pub(crate) const INTERFERENCE_DISK_BYTES_MAX: u64 = 10 * model::BusyDevice::QUIET_BYTES_PER_S;

/// Maximum probability that rates correlate with interference by chance, for all sources together.
/// A correlation beyond that is reported as the cause of a wide interval.
pub(crate) const COVARIATE_PROBABILITY_MAX: f64 = 0.01;

/// Minimum number of trials to look for a correlation. With four, even a perfect order is common.
pub(crate) const COVARIATE_TRIALS_MIN: usize = 5;

/// Number of rounds that a pass is divided into to check whether it is steady.
///
/// **Source:** SNIA, SSS Performance Test Specification 2.0.2, 2.1.24: five rounds.
pub const ROUNDS: usize = 5;

/// Maximum range of the rates of the rounds, as a share of their mean.
///
/// **Source:** as [`ROUNDS`], (a).
pub(crate) const STEADY_RANGE_MAX: f64 = 0.20;

/// Maximum rise or fall of their line of best fit, as a share of their mean.
///
/// **Source:** as [`ROUNDS`], (b).
pub(crate) const STEADY_SLOPE_MAX: f64 = 0.10;

/// Minimum length of a round in nanoseconds; a shorter one shows the scheduler rather than the
/// target. It is 0.9 s to allow for an interval of one second that ends early.
pub(crate) const ROUND_NS_MIN: u64 = 900_000_000;

/// Minimum number of ops in a round. With fewer, a single op would be more than 1 %.
pub(crate) const ROUND_OPS_MIN: u64 = 100;

/// Minimum number of ops in a round of an open loop. Chance changes a round by one over the square
/// root of its ops, which is 4.5 % for 500, and five rounds rarely have a range of more than 4.5
/// times that, which is [`STEADY_RANGE_MAX`].
pub(crate) const ROUND_OPS_OPEN_MIN: u64 = 500;

/// Maximum share of a round taken by one sync. A sync transfers no data, and if each worker has
/// several, a round may have one more or less. This keeps the effect below half of
/// [`STEADY_RANGE_MAX`].
pub(crate) const ROUND_SYNC_SHARE_MAX: f64 = 0.1;

/// Minimum factor between two levels of a rate to name them: the limits of steadiness allow less
/// than half of that, and a longer pass changes the result by as much as other factors would.
pub const LEVEL_RATIO_MIN: f64 = 1.5;

/// Minimum number of intervals of each level, and its minimum length in nanoseconds. Shorter ones
/// are warm-up or the end of the pass. Slightly less than two seconds, as [`ROUND_NS_MIN`].
pub(crate) const LEVEL_INTERVALS_MIN: usize = 3;
pub(crate) const LEVEL_NS_MIN: u64 = 2 * ROUND_NS_MIN;

/// Maximum share of the intervals of a level that may be on the other side, such as stalls. With
/// more, the rate did not stay there.
pub(crate) const LEVEL_ASTRAY_MAX: f64 = 0.1;

/// Maximum probability of two levels by chance, over all positions. At most one in a thousand
/// passes without a drop is reported, even if its neighbors are alike.
pub const LEVEL_PROBABILITY_MAX: f64 = 0.001;

/// Maximum deviations from two levels as a share of those from a steady decline. A decline deviates
/// from two levels by a quarter of its variance, and two levels do so from a decline.
pub(crate) const LEVEL_RAMP_MAX: f64 = 0.5;

/// Results written to the same file system mark a row if they exceed this share of the data
/// transferred by the pass. They are written between trials, and less than 1 % takes neither space
/// nor cache worth mentioning.
pub(crate) const RESULTS_SHARE_MAX: f64 = 0.01;

/// Minimum number of trials for detecting a drift. Four in order are common, at one in twelve.
pub const DRIFT_TRIALS_MIN: usize = 5;

/// Maximum probability by chance of a drift in five trials. Five that all fall or all rise are
/// below this, at one in sixty, and no other order of five is.
pub const DRIFT_PROBABILITY_MAX: f64 = 0.02;

/// Maximum probability by chance of a drift in more trials: one in 200 series, as for outliers.
pub const DRIFT_PROBABILITY_MANY_MAX: f64 = 0.005;

/// Returns the maximum probability by chance of a drift in this number of trials.
pub const fn drift_probability_max(trials: usize) -> f64 {
    if trials > DRIFT_TRIALS_MIN { DRIFT_PROBABILITY_MANY_MAX } else { DRIFT_PROBABILITY_MAX }
}

/// Minimum number of trials for detecting a dependence on previous trials. With six, no order is as
/// rare as [`INTERACT_PROBABILITY_MAX`] (two of 720 are the most regular); with seven, two of 5,040
/// are.
pub(crate) const INTERACT_TRIALS_MIN: usize = 7;

/// Maximum probability by chance of a dependence on previous trials. A campaign has several rows
/// about names, so one in a thousand rows is one in a few hundred campaigns.
pub const INTERACT_PROBABILITY_MAX: f64 = 0.001;

/// Minimum range of rates as a share of their median. Smaller ranges mislead nobody in any order,
/// because half of it is within [`EFFECT_MIN`].
pub(crate) const INTERACT_RANGE_MIN: f64 = 2.0 * EFFECT_MIN;

/// Minimum drift from the first trial to the last as a share of the median. A smaller drift
/// misleads nobody, because it is within [`EFFECT_MIN`].
pub const DRIFT_SHARE_MIN: f64 = EFFECT_MIN;
