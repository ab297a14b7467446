//! The question of `dfsbench ramp`: at which load a server breaks.
//!
//! [`RampRequest`], together with the trials in order, is enough to replay the search.

use serde::{Deserialize, Serialize};

use crate::runs::spec::RunSpec;
use crate::systems::lab::Host;

/// A requested ramp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RampRequest {
    /// The setting that is increased; workers of media are streams.
    pub setting: String,
    /// The first load of the search.
    pub first: u32,
    /// The highest load of the search.
    pub max: u32,
    /// How long the server may take to recover, in milliseconds.
    pub recovery_ms: u64,
    /// Factor by which the 99th percentile must grow to count as exploded.
    pub slow_factor: u32,
    /// The search ends when the lowest load that breaks the server is at most this far above the
    /// highest one that doesn't, in thousandths; 0 means that they are adjacent.
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
    /// Returns the load of a run, in units of the increased setting.
    pub fn load_of(&self, spec: &RunSpec) -> u32 {
        match self.setting.as_str() {
            "rate" => u32::try_from(spec.load.rate_per_s).unwrap_or(u32::MAX),
            "workers" | "streams" | "streams_per_host" => spec.workers,
            "accelerators" => spec.training.accelerators,
            "client_hosts" => Host::count_distinct(spec.client_hosts()).max(1),
            _ => spec.clients(),
        }
    }

    /// Returns true if the offered load is increased rather than the number of clients.
    pub fn is_of_rate(&self) -> bool {
        self.setting == "rate"
    }

    /// Describes a load, such as `40 clients`.
    pub fn describe_load(&self, load: u32) -> String {
        match (self.setting.as_str(), load) {
            ("rate", load) => format!("{load} op/s"),
            ("workers", 1) => "1 worker".to_owned(),
            ("workers", load) => format!("{load} workers"),
            ("streams", 1) => "1 stream".to_owned(),
            ("streams", load) => format!("{load} streams"),
            ("streams_per_host", 1) => "1 stream on each client host".to_owned(),
            ("streams_per_host", load) => format!("{load} streams on each client host"),
            ("client_hosts", 1) => "1 client host".to_owned(),
            ("client_hosts", load) => format!("{load} client hosts"),
            ("accelerators", 1) => "1 accelerator per host".to_owned(),
            ("accelerators", load) => format!("{load} accelerators per host"),
            (_, 1) => "1 client".to_owned(),
            (_, load) => format!("{load} clients"),
        }
    }
}
