//! Format of stored replays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// A stored replay, from `--format json`, for `dfsbench compare`.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredReplay {
    /// Identifies a replay, and the version of this format.
    pub dfsbench_replay: u32,
    /// Name and version of the program that wrote it.
    pub made_by: String,
    /// When it was made, in milliseconds since 1970 UTC.
    pub made_unix_ms: u64,
    /// Name of the trace.
    pub trace: String,
    /// Target as given by the user.
    pub target: String,
    /// NFS version used, or `directory`.
    pub version: String,
    /// Files and directories that were created before.
    pub tree_objects: usize,
    /// Operations of the trace by version and kind that can't be replayed.
    pub without_counterpart: BTreeMap<String, u64>,
    /// Operations of the trace that the client executes on its own.
    pub by_client: BTreeMap<String, u64>,
    /// Operations that the original server deferred, or refused because of its state.
    pub put_off: u64,
    /// Operations whose arguments were not captured.
    pub incomplete: u64,
    /// The traffic that the capture missed, which is not part of the load; empty if it saw
    /// everything.
    #[serde(default)]
    pub trace_gaps: Option<String>,
    /// Transfers larger than the target's maximum, which took several calls.
    pub split: u64,
    /// The result of a search, if there was one.
    #[serde(default)]
    pub found: Option<String>,
    /// A replay for each speed.
    pub outcomes: Vec<Outcome>,
}

impl StoredReplay {
    /// The version used for directories.
    pub const DIRECTORY: &str = "directory";

    /// Version of the format that this release writes, and the newest that it reads.
    pub const FORMAT: u32 = 1;
}
