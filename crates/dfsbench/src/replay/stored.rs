//! Replays as they are stored.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use replay::Outcome;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::input_file;

/// A replay as it is stored: with `--format json`, for `dfsbench compare`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stored {
    /// Says that this is a replay, and in which format.
    pub dfsbench_replay: u32,
    /// Name and version of the program that made it.
    pub made_by: String,
    /// When it was made, in milliseconds since 1970 UTC; `None` in those of earlier releases.
    #[serde(default)]
    pub made_unix_ms: Option<u64>,
    /// Name of the trace.
    pub trace: String,
    /// Target as it was named.
    pub target: String,
    /// Version of NFS that was spoken; `directory` where it is one.
    pub version: String,
    /// Files and directories that were made before.
    pub tree_objects: usize,
    /// Operations of the trace by version and kind that can't be replayed.
    pub without_counterpart: BTreeMap<String, u64>,
    /// Operations of the trace that the client does by itself.
    pub by_client: BTreeMap<String, u64>,
    /// Operations that the origin put off or refused for the state of its server.
    pub put_off: u64,
    /// Operations whose arguments the capture did not see.
    pub incomplete: u64,
    /// The traffic that the capture did not see, which is no part of the load; none if it saw all.
    #[serde(default)]
    pub trace_gaps: Option<String>,
    /// Transfers that are larger than the target's and were made in several calls.
    pub split: u64,
    /// The answer of a search, where one was made.
    #[serde(default)]
    pub found: Option<String>,
    /// A replay for each speed.
    pub outcomes: Vec<Outcome>,
}

/// The version of a directory.
pub const DIRECTORY: &str = "directory";

/// The format of [`Stored`].
pub(super) const FORMAT: u32 = 1;

/// Tells whether an argument of `dfsbench compare` names a stored replay.
pub fn is_document(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// Reads a stored replay.
///
/// # Errors
/// When it is none, or of a newer release.
pub(super) fn read_document(name: &str) -> Result<Stored, Failure> {
    let source = input_file::open_stream(Path::new(name), "replay")?;
    let stored: Stored = serde_json::from_reader(BufReader::new(source)).map_err(|error| {
        Failure::Usage(format!(
            "`{name}` is no replay: {error} (hint: `dfsbench replay ... --format json -o \
                 FILE.json` makes one)"
        ))
    })?;
    if stored.dfsbench_replay > FORMAT {
        return Err(Failure::Usage(format!(
            "`{name}` has format {}; this release reads up to {FORMAT} (hint: use a newer \
             dfsbench)",
            stored.dfsbench_replay
        )));
    }
    Ok(stored)
}
