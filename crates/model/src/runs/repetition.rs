//! How often a run is repeated, which trials count, and in which order they run.
//!
//! The rules of a plan are stored with each run, so that results can later be judged as the plan
//! requested.

use serde::{Deserialize, Serialize};

use crate::faults::interference::InterferenceRule;
use crate::text::words::words;

words! {
    /// Which valid trials are excluded from the results.
    Discard {
        /// None.
        None = "none",
        /// The highest and the lowest.
        Extremes = "extremes",
        /// Outliers.
        Outliers = "outliers",
        /// Trials that read from a cache, if others did not.
        Cached = "cached",
    }
}

words! {
    /// The order in which the trials of a campaign run.
    Order {
        /// One trial of every run in shuffled order, then the next trial of every run, so that
        /// drift affects all runs equally.
        Blocks = "blocks",
        /// All trials of all runs in shuffled order.
        Random = "random",
        /// All trials of one run, then those of the next.
        Sequential = "sequential",
        /// Runs with the same host setup are grouped, with blocks as above within each group. The
        /// groups are ordered to minimize changes of the setup.
        Grouped = "grouped",
    }
}

/// How a run is repeated. The defaults reproduce the behavior before these settings existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Repetition {
    /// Which trials are excluded.
    pub discard: Discard,
    /// Stop repeating once half the interval of every pass is at most this share of its median, in
    /// thousandths; 0 runs all planned trials.
    pub until_permille: u32,
    /// Number of trials that run first and never count.
    pub warmup_trials: u32,
    /// How to treat trials that were disturbed from outside. Results of earlier releases have no
    /// record of that, so all their trials count.
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
    /// Returns the share at which the interval is narrow enough, in the notation of plans; `0%` if
    /// not set.
    pub fn until(&self) -> String {
        format!("{}%", f64::from(self.until_permille) / 10.0)
    }
}
