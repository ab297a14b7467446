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

/// Seed of the bootstrap. It is fixed, so that a report is repeatable byte for byte.
pub const BOOTSTRAP_SEED: u64 = 0x6466_7362_656e_6368;

/// Fewer trials than this say nothing about the spread: with two, each lies as far from the
/// median as the other.
pub const TRIALS_MIN: usize = 3;

/// Trials from which an interval may end a run: fewer have an interval that assumes a shape, and
/// are close together by chance.
pub const SETTLED_TRIALS_MIN: usize = 5;

/// Half the interval may be this share of the median before the figure is called uncertain:
/// two targets that differ by less than 20 % could not be distinguished then.
pub const HALF_WIDTH_SHARE_MAX: f64 = 0.10;

/// More trials than this are not advised for a narrower interval: a target that varies so much
/// needs another remedy.
pub const ADVISED_TRIALS_MAX: u32 = 100;

/// Trials that are advised where fewer have an outlier.
pub const ADVISED_AGAINST_OUTLIERS: u32 = 10;

/// Modified z-score that the farthest of 5, 6, 7 ... 30 trials exceeds in one of 200 rows of
/// normally distributed noise. The usual 3.5 is meant for large samples: of five sound trials it
/// would condemn one in every fifth row, since their median deviation rests on two distances.
///
/// **Source:** simulation, 400,000 samples for each number; a test repeats it with fewer.
pub const OUTLIER_SCORES_MAX: [f64; 26] = [
    26.3, 13.0, 13.7, 9.7, 10.0, 8.2, 8.4, 7.4, 7.5, 6.7, 6.8, 6.3, 6.4, 6.0, 6.1, 5.8, 5.9, 5.6,
    5.7, 5.5, 5.6, 5.4, 5.4, 5.3, 5.3, 5.2,
];

/// Trials from which outliers are looked for: below, two trials that agree by chance would make
/// an outlier of a sound third, whatever the limit.
pub const OUTLIER_TRIALS_MIN: usize = 5;

/// Trials from which a rule may leave outliers out: of fewer, too much of what is known would go.
pub const OUTLIER_DISCARD_TRIALS_MIN: usize = 7;

/// The largest share of trials that a rule leaves out as outliers: more are no accident, but
/// another way in which the target behaves, and then none is left out.
pub const OUTLIER_DISCARD_SHARE_MAX: f64 = 0.25;

/// A trial nearer to the median than this share of it is never called an outlier: five trials
/// within 0.1 % would else condemn one that is 1 % off, which misleads no reader.
pub const OUTLIER_SHARE_MIN: f64 = 0.05;

/// An interaction of two factors that explains less of the variance than this is not worth a
/// sentence.
pub const INTERACTION_SHARE_MIN: f64 = 0.01;

/// How probable an interaction may be by chance: stricter than [`CONFIDENCE`], since ten pairs are
/// looked at where there are five factors.
pub const INTERACTION_PROBABILITY_MAX: f64 = 0.01;

/// The smallest difference between two campaigns that is worth a sentence, unless set otherwise.
/// Half of what makes a single interval too wide ([`HALF_WIDTH_SHARE_MAX`]): a smaller difference
/// could seldom be shown with the trials that people have the patience for.
pub const EFFECT_MIN: f64 = 0.05;

/// Share of the workers' time that the hypervisor may take from a trial that counts, and share of
/// the processors that other programs may use. A trial then loses about as much of its rate, which
/// is the smallest effect that is worth a sentence; where three campaigns on a virtual machine
/// varied by 17 to 41 %, their trials below this share varied by 3 to 10 %.
pub const INTERFERENCE_SHARE_MAX: f64 = EFFECT_MIN;

/// Share of the time in which tasks may wait for memory, and of the processor time in which
/// processors may be throttled: as [`INTERFERENCE_SHARE_MAX`].
pub const PRESSURE_SHARE_MAX: f64 = EFFECT_MIN;

/// Bytes per second that other programs may move to and from storage during a trial that counts:
/// a tenth of what a disk with one spindle does, and ten times what counts as quiet.
pub const INTERFERENCE_DISK_BYTES_MAX: u64 = 10 * model::BusyDevice::QUIET_BYTES_PER_S;

/// How probable a correlation of rates with interference may be by chance, all sources together,
/// before it is given as the reason for a wide interval.
pub const COVARIATE_PROBABILITY_MAX: f64 = 0.01;

/// Trials from which a correlation is looked for: of four, even a perfect order is no rarity.
pub const COVARIATE_TRIALS_MIN: usize = 5;

/// Rounds that a pass is cut into to see whether it had settled.
///
/// **Source:** SNIA, SSS Performance Test Specification 2.0.2, 2.1.24: five rounds.
pub const ROUNDS: usize = 5;

/// The rates of the rounds may range over this share of their mean.
///
/// **Source:** as [`ROUNDS`], (a).
pub const STEADY_RANGE_MAX: f64 = 0.20;

/// Their line of best fit may rise or fall by this share of their mean.
///
/// **Source:** as [`ROUNDS`], (b).
pub const STEADY_SLOPE_MAX: f64 = 0.10;

/// A shorter round, in nanoseconds, shows the scheduler and not the target; nine tenths of a
/// second, for an interval of one second that ends early.
pub const ROUND_NS_MIN: u64 = 900_000_000;

/// Fewer ops in a round are too coarse: one more or less would be over a hundredth.
pub const ROUND_OPS_MIN: u64 = 100;

/// Fewer ops in a round of an open loop are too coarse: by chance a round moves by one part in
/// the root of its ops, at 500 by 4.5 %,
/// and five rounds seldom range over more than four and a half times that, which is
/// [`STEADY_RANGE_MAX`].
pub const ROUND_OPS_OPEN_MIN: u64 = 500;

/// A sync moves no data: where each worker has several, they shift a round by one more or one less.
/// This share of a round may be one sync, which keeps that below half of [`STEADY_RANGE_MAX`].
pub const ROUND_SYNC_SHARE_MAX: f64 = 0.1;

/// Above this share of what a pass moved, results on the same file system mark its row: they are
/// written between trials, and less than a hundredth takes neither space nor cache worth a mark.
pub const RESULTS_SHARE_MAX: f64 = 0.01;

/// Trials from which a drift is looked for: four in order are no rarity, with one in twelve.
pub const DRIFT_TRIALS_MIN: usize = 5;

/// How probable a drift of five trials may be by chance: five that fall or rise one after the other
/// are less than that, at one in sixty, and no other order of five is.
pub const DRIFT_PROBABILITY_MAX: f64 = 0.02;

/// How probable a drift of more trials may be by chance: in one of 200 rows, as an outlier.
pub const DRIFT_PROBABILITY_MANY_MAX: f64 = 0.005;

/// Returns how probable a drift of so many trials may be by chance.
pub const fn drift_probability_max(trials: usize) -> f64 {
    if trials > DRIFT_TRIALS_MIN { DRIFT_PROBABILITY_MANY_MAX } else { DRIFT_PROBABILITY_MAX }
}

/// Trials from which a dependence on the trials before is looked for: of six, no order is as
/// rare as [`INTERACT_PROBABILITY_MAX`] (two of 720 are most alike), and of seven two of 5,040 are.
pub const INTERACT_TRIALS_MIN: usize = 7;

/// How probable a dependence on the trials before may be by chance. A campaign has several rows of
/// names, so that one in a thousand rows is one in some hundred campaigns.
pub const INTERACT_PROBABILITY_MAX: f64 = 0.001;

/// Rates that range over less than this share of their median mislead no reader, whatever their
/// order: half of it is within [`EFFECT_MIN`].
pub const INTERACT_RANGE_MIN: f64 = 2.0 * EFFECT_MIN;

/// A drift of less than this share of the median, from the first trial to the last, misleads
/// no reader: it is within [`EFFECT_MIN`].
pub const DRIFT_SHARE_MIN: f64 = EFFECT_MIN;
