//! Streams of frames: how often each stream needs one, and how early it asks for it.

use serde::{Deserialize, Serialize};

/// Time of playback in the frames of a stream, in seconds, unless the plan says how many there are.
pub const SECONDS_PER_STREAM: u64 = 5;

/// Size of a frame in bytes: 4096 x 3112 pixels of 10 bits per color, as in a DPX file, rounded to
/// MiB.
pub const FRAME_BYTES: u64 = 48 << 20;

/// The schedule of the frames of each stream; every worker is a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    /// Frames per second of each stream.
    pub frame_rate: u32,
    /// Number of frames that a stream buffers: it asks for a frame this many frame times before it
    /// needs it.
    pub frame_buffer: u32,
}

impl Default for Media {
    fn default() -> Self {
        Self { frame_rate: 24, frame_buffer: 2 }
    }
}

impl Media {
    /// Returns how long a frame may take from the time it is asked for until it is late, in
    /// nanoseconds.
    pub fn time_per_frame_ns(&self) -> u64 {
        u64::from(self.frame_buffer) * 1_000_000_000 / u64::from(self.frame_rate.max(1))
    }
}
