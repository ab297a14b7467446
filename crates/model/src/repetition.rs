//! How often a run is repeated, which trials count, and in which order they are made.
//!
//! A plan's rule is stored with each of its runs, so that results are judged
//! later as the plan requested.

use serde::{Deserialize, Serialize};

use crate::interference::InterferenceRule;
use crate::words::words;

words! {
    /// The rule that leaves sound trials out of the figures.
    Discard {
        /// Keeps all sound trials.
        None = "none",
        /// The highest and the lowest.
        Extremes = "extremes",
        /// Those that lie far from the others.
        Outliers = "outliers",
        /// Those whose data was read from a cache, where others' was not.
        Cached = "cached",
    }
}

words! {
    /// In which order the trials of a campaign are made.
    Order {
        /// One trial of every run, shuffled, then the next one of every run: drift falls on all
        /// alike.
        Blocks = "blocks",
        /// All trials of all runs, shuffled.
        Random = "random",
        /// All trials of one run, then those of the next.
        Sequential = "sequential",
        /// Runs that share how hosts are set up stand together, in blocks as above; those groups
        /// follow each other so that as little as possible is set up again.
        Grouped = "grouped",
    }
}

/// How a run is repeated. The defaults are what there was before there was a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Repetition {
    /// The rule by which trials are left out.
    pub discard: Discard,
    /// No more trials once half the interval of every pass is at most this share of its median, in
    /// thousandths; 0 makes all that are planned.
    pub until_permille: u32,
    /// Trials that are made first and never count.
    pub warmup_trials: u32,
    /// What to do about trials that were disturbed from outside. Results of earlier releases have
    /// no record of that, so that all their trials count.
    pub interference: InterferenceRule,
}

impl Default for Repetition {
    fn default() -> Self {
        Self {
            discard: Discard::None,
            until_permille: 0,
            warmup_trials: 0,
            interference: InterferenceRule::Repeat,
        }
    }
}

impl Repetition {
    /// The share at which the interval is narrow enough, as plans write it; `0%` where it is not
    /// set.
    pub fn until(&self) -> String {
        format!("{}%", f64::from(self.until_permille) / 10.0)
    }
}
