//! How a pass is sampled while it runs, and the samples.
//!
//! A separate thread reads the workers' counters; the measured loop is not involved. Times count
//! from the start of the measurement, after ramp and warm-up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a pass is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// Sampling interval in milliseconds.
    pub interval_ms: u64,
    /// Time without completions, in milliseconds, after which a worker with ops in flight counts as
    /// stalled; 0 disables stall detection.
    pub stall_ms: u64,
}

impl Sampling {
    /// Returns the sampling interval in nanoseconds.
    pub const fn interval_ns(self) -> u64 {
        self.interval_ms.saturating_mul(1_000_000)
    }

    /// Returns the minimum length of a stall in nanoseconds; 0 if stalls are not detected.
    pub const fn stall_ns(self) -> u64 {
        self.stall_ms.saturating_mul(1_000_000)
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self { interval_ms: 1_000, stall_ms: 1_000 }
    }
}

/// Periods in which workers had ops in flight but completed none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stalls {
    /// Number of stalls; overlapping stalls of several workers count as one.
    pub count: u32,
    /// The longest of them.
    pub longest: Stall,
}

impl Stalls {
    /// Adds a stall.
    pub fn add(&mut self, stall: Stall) {
        self.count = self.count.saturating_add(1);
        if stall.lasts_ns > self.longest.lasts_ns {
            self.longest = stall;
        }
    }
}

/// A period in which at least one worker had ops in flight but completed none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stall {
    /// Start of the stall, in nanoseconds.
    pub at_ns: u64,
    /// Minimum duration in nanoseconds: up to a tenth of a second may be missing at either end.
    pub lasts_ns: u64,
    /// Maximum number of workers that were stalled at the same time.
    pub workers: u32,
}

/// Successful ops, without syncs, and the bytes that they transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Work {
    /// Number of ops.
    pub ops: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// How long runnable threads waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessorWait {
    /// Waiting time of all workers together, in nanoseconds.
    pub waited_ns: u64,
    /// The part of it in which a quota throttled their control group.
    pub held_ns: u64,
    /// Time from their starts to their ends, in nanoseconds.
    pub of_ns: u64,
}

impl Work {
    /// Adds the work of another worker.
    pub const fn add(&mut self, more: Self) {
        self.ops = self.ops.saturating_add(more.ops);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

impl ProcessorWait {
    /// Adds the waits of another worker.
    pub const fn add(&mut self, more: Self) {
        self.waited_ns = self.waited_ns.saturating_add(more.waited_ns);
        self.held_ns = self.held_ns.saturating_add(more.held_ns);
        self.of_ns = self.of_ns.saturating_add(more.of_ns);
    }

    /// Returns the share of time spent waiting, 0 to 1.
    pub fn share(self) -> f64 {
        self.waited_ns as f64 / self.of_ns.max(1) as f64
    }

    /// Returns the share of time in which a quota throttled the workers, 0 to 1.
    pub fn throttled_share(self) -> f64 {
        self.held_ns as f64 / self.of_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_longest_stall_and_count() {
        let stall = |at_ns, lasts_ns| Stall { at_ns, lasts_ns, workers: 1 };
        let mut stalls = Stalls::default();
        for found in [stall(1, 5), stall(10, 9), stall(30, 9), stall(50, 2)] {
            stalls.add(found);
        }
        assert_eq!((stalls.count, stalls.longest), (4, stall(10, 9)));
    }

    #[test]
    fn computes_wait_share() {
        let wait = ProcessorWait { waited_ns: 250, held_ns: 200, of_ns: 1_000 };
        assert!((wait.share() - 0.25).abs() < 1e-12);
        assert!((wait.throttled_share() - 0.2).abs() < 1e-12);
        assert!(ProcessorWait::default().share().abs() < 1e-12);
    }
}
