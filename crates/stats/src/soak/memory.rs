//! Memory of this program during a soak: does it keep growing?
//!
//! [`Memory`] compares the beginning of a soak, after a warm-up, with its end.

use model::{IntervalStats, Pass, Trial};

use super::find_pass;
use crate::median;

/// Minimum number of intervals for reporting on memory.
const MEMORY_MIN: usize = 40;
/// Minimum number of segments for reporting on memory. The first four allocate what is kept for
/// later ones, and the second quarter must come after these.
const MEMORY_SEGMENTS_MIN: usize = 16;
/// Growth beyond both this share and this number of bytes is not allocator noise.
const GROWTH_SHARE_MAX: f64 = 0.03;
const GROWTH_BYTES_MAX: u64 = 4 << 20;

/// Memory of this program during the soak in bytes, as medians of the second and the last quarter
/// of all intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Median once the program is warmed up.
    pub early_bytes: u64,
    /// Median at the end.
    pub late_bytes: u64,
    /// Ops completed between the middles of both quarters.
    pub ops: u64,
}

impl Memory {
    /// Returns true if the growth can be explained by the allocator.
    pub fn is_steady(self) -> bool {
        let grown = self.late_bytes.saturating_sub(self.early_bytes);
        grown <= GROWTH_BYTES_MAX || (grown as f64) <= self.early_bytes as f64 * GROWTH_SHARE_MAX
    }
}

/// Compares the memory of this program early in a soak with that at its end.
///
/// The first quarter of the intervals is ignored, because caches and allocators fill up.
pub(super) fn measure_memory(trials: &[Trial]) -> Option<Memory> {
    let mut segments = 0;
    let mut samples: Vec<&IntervalStats> = Vec::new();
    for load in trials.iter().filter_map(|trial| find_pass(trial, Pass::Mix)) {
        segments += 1;
        samples.extend(load.intervals.iter().filter(|sample| sample.rss_bytes > 0));
    }
    if samples.len() < MEMORY_MIN || segments < MEMORY_SEGMENTS_MIN {
        return None;
    }
    let quarter = samples.len() / 4;
    let early = quarter..2 * quarter;
    let late = samples.len() - quarter..samples.len();
    let between = early.start + quarter / 2..late.start + quarter / 2;
    Some(Memory {
        early_bytes: median_rss(&samples[early]),
        late_bytes: median_rss(&samples[late]),
        ops: samples[between].iter().map(|sample| sample.ops).sum(),
    })
}

fn median_rss(samples: &[&IntervalStats]) -> u64 {
    let bytes: Vec<f64> = samples.iter().map(|sample| sample.rss_bytes as f64).collect();
    median(&bytes).unwrap_or(0.0) as u64
}
