//! The answer of a search: under which load a server gave in, how, and whether it recovered.
//!
//! Principal type: [`Found`]. It is what [`super::Search::found`] knows after each trial; loads are
//! clients, or ops per second, as the search was set to vary.

/// The way in which a server gave in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// Throughput fell, as turns have shown: see [`super::DEGRADED_SHARE`].
    Degraded {
        /// The pass, by its place in the run.
        pass: usize,
        /// The smaller load with the best rate.
        best_at: u32,
        /// Number of trials of each that were made in turns.
        turns: usize,
    },
    /// Less than [`super::BEHIND_SHARE`] of what was offered was done, twice in a row.
    Behind {
        /// The pass, by its place in the run.
        pass: usize,
        /// The share that was done.
        share: f64,
    },
    /// The 99th percentile of the response times exploded, as turns have shown. In a closed loop it
    /// may rise as much as the load and count as borne: requests wait for each other there.
    ///
    /// **Source:** Little's law.
    Slow {
        /// The pass, by its place in the run.
        pass: usize,
        /// The percentile under the lighter load, in nanoseconds.
        from_ns: u64,
        /// The percentile under the load that was not borne, in nanoseconds.
        to_ns: u64,
        /// Number of trials of each that were made in turns.
        turns: usize,
    },
    /// A trial failed, or ops did, twice in all.
    Broken,
}

/// The state of the server after the load went away; times count from the first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The lightest load is served as before.
    Back {
        /// The last look that found it not recovered, in milliseconds.
        from_ms: u64,
        /// The first look that found it recovered, in milliseconds.
        to_ms: u64,
    },
    /// It is served, but not as before.
    Impaired {
        /// Time until the last look, in milliseconds: it lasts at least as long.
        for_ms: u64,
    },
    /// It is not served.
    Never {
        /// Time until the last look, in milliseconds: it lasts at least as long.
        for_ms: u64,
    },
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The largest load that was borne below the one that was not.
    pub borne: Option<u32>,
    /// The smallest load under which the server gave in, and how.
    pub gave_in: Option<(u32, How)>,
    /// Whether it recovered; `None` where there was no lighter load, or no trial to tell by.
    pub recovery: Option<Recovery>,
    /// From which load on each pass gained nothing.
    pub saturated_from: Vec<Option<u32>>,
    /// The smallest load with figures that say nothing of the server.
    pub unsure_from: Option<u32>,
    /// Loads that broke it once, and were borne when tried again.
    pub once: Vec<u32>,
    /// Loads that count as borne although it is unknown whether they were served worse.
    pub unclear: Vec<u32>,
}
