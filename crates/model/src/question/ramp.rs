//! The question of `dfsbench ramp`: under how much load a server fails.
//!
//! [`RampRequest`] is the principal type. With it and the trials in their order the search can be
//! replayed.

use serde::{Deserialize, Serialize};

use crate::lab::Host;
use crate::spec::RunSpec;

/// A requested ramp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RampRequest {
    /// The setting that is raised.
    pub setting: String,
    /// The first load of the search.
    pub first: u32,
    /// The largest load of the search.
    pub max: u32,
    /// How long the server is given to recover, in milliseconds.
    pub recovery_ms: u64,
    /// A 99th percentile that is so many times what it was has exploded.
    pub slow_factor: u32,
    /// The answer is known when the load that is too much is at most so much above one that isn't,
    /// in thousandths; 0 is the very next load.
    pub accuracy_permille: u32,
}

impl Default for RampRequest {
    fn default() -> Self {
        Self {
            setting: "clients".to_owned(),
            first: 1,
            max: 1_000,
            recovery_ms: 30_000,
            slow_factor: 10,
            accuracy_permille: 0,
        }
    }
}

impl RampRequest {
    /// The load of a run, in the setting that is raised.
    pub fn load_of(&self, spec: &RunSpec) -> u32 {
        match self.setting.as_str() {
            "rate" => u32::try_from(spec.load.rate_per_s).unwrap_or(u32::MAX),
            "client_hosts" => Host::count_distinct(spec.client_hosts()).max(1),
            _ => spec.clients(),
        }
    }

    /// Says whether the offered load is raised, and not a number of clients.
    pub fn is_of_rate(&self) -> bool {
        self.setting == "rate"
    }

    /// A load in words: `40 clients`.
    pub fn describe_load(&self, load: u32) -> String {
        match (self.setting.as_str(), load) {
            ("rate", load) => format!("{load} op/s"),
            ("client_hosts", 1) => "1 client host".to_owned(),
            ("client_hosts", load) => format!("{load} client hosts"),
            (_, 1) => "1 client".to_owned(),
            (_, load) => format!("{load} clients"),
        }
    }
}
