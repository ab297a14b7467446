//! Result of a search: at which load a server failed, how, and whether it recovered.
//!
//! [`super::Search::breaking_point`] returns a [`BreakingPoint`] after each trial. Loads are
//! numbers of clients or ops per second, depending on what the search varies.

use super::trial_outcome::AcceleratorUse;

/// How a server failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerFailure {
    /// Throughput dropped, as shown by alternating trials; see [`super::DEGRADED_SHARE`].
    Degraded {
        /// Index of the pass in the run.
        pass: usize,
        /// The lighter load with the best rate.
        best_at: u32,
        /// Number of alternating trials of each load.
        turns: usize,
    },
    /// Less than [`super::BEHIND_SHARE`] of the offered load was completed, twice in a row.
    Behind {
        /// Index of the pass in the run.
        pass: usize,
        /// The share that was completed.
        share: f64,
    },
    /// Accelerators compute for less of the time than required, twice in a row.
    Starved {
        /// Index of the pass in the run.
        pass: usize,
        /// How much they compute.
        accelerators: AcceleratorUse,
    },
    /// The 99th percentile of response times exploded, as shown by alternating trials. In a closed
    /// loop, it may grow in proportion to the load, because requests wait for each other.
    ///
    /// **Source:** Little's law.
    Slow {
        /// Index of the pass in the run.
        pass: usize,
        /// The percentile at the lighter load, in nanoseconds.
        from_ns: u64,
        /// The percentile at the bad load, in nanoseconds.
        to_ns: u64,
        /// Number of alternating trials of each load.
        turns: usize,
    },
    /// A trial or ops failed, twice in total.
    Broken,
}

/// State of the server after the load was removed. Times count from the first check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The lightest load is served as before.
    Back {
        /// The last check before recovery, in milliseconds.
        from_ms: u64,
        /// The first check after recovery, in milliseconds.
        to_ms: u64,
    },
    /// It is served, but not as before.
    Impaired {
        /// Time until the last check, in milliseconds; a lower bound.
        for_ms: u64,
    },
    /// It is not served.
    Never {
        /// Time until the last check, in milliseconds; a lower bound.
        for_ms: u64,
    },
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakingPoint {
    /// The heaviest good load below the bad one.
    pub heaviest_good: Option<u32>,
    /// The lightest bad load, and how the server failed.
    pub lightest_bad: Option<(u32, ServerFailure)>,
    /// Whether the server recovered; `None` if there was no lighter load or no trial to check with.
    pub recovery: Option<Recovery>,
    /// For each pass, the load beyond which more load gained nothing.
    pub saturated_from: Vec<Option<u32>>,
    /// The lightest load whose results don't describe the server.
    pub unsure_from: Option<u32>,
    /// Loads that broke the server once but were good when repeated.
    pub once: Vec<u32>,
    /// Loads that count as good although it is unknown whether they were served worse.
    pub unclear: Vec<u32>,
}
