//! Statistics: what the trials of a campaign mean, and how reliable they are.
//!
//! [`summary`] condenses the results of several trials: median, spread and a confidence interval.
//! [`judge::pass`] applies it to one pass of a run, sets invalid and disturbed trials aside,
//! collects the caveats and returns the verdict. The thresholds are in [`criteria`], each with its
//! reason. [`compare()`] compares two sets of trials, [`effects()`] finds the dominant factor, and
//! [`size_sweep()`] the sizes at which a rate drops.
//!
//! The crate is pure: the same trials give the same results on every machine. Only results derived
//! from logarithms, such as effects and the intervals of three or four trials, may differ in the
//! last digit between systems, because libm does.
#![warn(unreachable_pub)]

pub mod bisect;
pub mod breaking;
mod compare;
pub mod criteria;
pub mod curve;
pub mod dependence;
pub mod durability;
pub mod effects;
mod fairness;
pub mod host_balance;
pub mod interference;
mod io500;
pub mod judge;
pub mod ladder;
mod level_drop;
mod load_search;
mod multiple_comparisons;
mod outlier;
mod rank;
mod ranks;
mod rate;
mod ratio;
mod regression;
pub mod size_sweep;
pub mod soak;
mod steady;
mod summary;
mod training;
mod trend;

pub use compare::{BootstrapDraws, Comparison, ExcludedOutcomes, Outcome, TRIALS_MAX, compare};
pub use effects::{Effects, Observation, effects};
pub use fairness::{ClientShare, Fairness};
pub use host_balance::{HostShare, HostsCompared, StartSkew, WorstTimes};
pub use io500::Io500Score;
pub use judge::{
    CaveatExtent, Cpu, CpuUnit, DisturbedTrial, Failure, Judged, JudgedCaveat, KindShare, Point,
    WireUse,
};
pub use level_drop::{LevelDrop, RateInterval, level_drop};
pub use load_search::{LoadRange, LoadSearch, Spacing};
pub use multiple_comparisons::holm;
pub use outlier::{Score, discarded, modified_z_scores, outliers};
pub use rank::rank_test;
pub use ranks::{RankStraggler, RanksCompared};
pub use rate::Rate;
pub use ratio::{PartSum, SumRatio, ratio_of_sums};
pub use size_sweep::{RateDrop, SizePoint, SizeSweep, size_sweep};
pub use summary::{Summary, median, summary};
pub use training::TrainingJudged;
pub use trend::{Trend, trend};
