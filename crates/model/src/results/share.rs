//! How the workers of a run are divided among hosts, and the results of each host.
//!
//! Workers are numbered across all hosts, so the sequence of ops doesn't depend on who executes it.
//! A [`Share`] is the range of workers that an agent runs, [`TimelinePoint`] and [`Span`] describe
//! their progress through a pass, and [`HostResult`] is what is stored. Files belong to workers by
//! number, as everywhere: file `n` to worker `n` modulo the number of workers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::results::client::ClientTimes;
use crate::runs::sampling::Work;
use crate::runs::spec::RunSpec;
use crate::runs::work::Sharing;

/// A range of consecutive workers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// Number of the first worker.
    pub first: u32,
    /// Number of workers.
    pub count: u32,
}

impl Share {
    /// All workers, whatever their number.
    pub const ALL: Self = Self { first: 0, count: u32::MAX };

    /// Returns a share with all workers of a run.
    pub const fn whole(workers: u32) -> Self {
        Self { first: 0, count: workers }
    }

    /// Returns the share of agent `index` out of `agents`. If the workers cannot be divided evenly,
    /// the first agents get one more.
    pub const fn for_agent(index: u32, agents: u32, workers: u32) -> Self {
        let agents = if agents == 0 { 1 } else { agents };
        let each = workers / agents;
        let more = workers % agents;
        let before = if index < more { index } else { more };
        Self { first: index * each + before, count: each + (index < more) as u32 }
    }

    /// Returns the numbers of the workers in this share.
    pub const fn workers(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns true if item `number` belongs to one of these workers, given `workers` in the run.
    pub fn owns(self, number: u32, workers: u32) -> bool {
        self.workers().contains(&(number % workers.max(1)))
    }

    /// Returns the numbers below `end` that belong to these workers, worker by worker, given
    /// `workers` in the run.
    pub fn owned_numbers(self, end: u32, workers: u32) -> impl Iterator<Item = u32> {
        let workers = workers.max(1);
        let own = self.first..self.workers().end.min(workers);
        own.flat_map(move |worker| (worker..end).step_by(workers as usize))
    }

    /// Returns how many of the numbers below `end` belong to these workers, given `workers` in the
    /// run.
    pub fn owned_below(self, end: u32, workers: u32) -> u32 {
        let workers = workers.max(1);
        let rounds = end / workers;
        let rest = end % workers;
        rounds * self.count.min(workers) + rest.clamp(self.first, self.workers().end) - self.first
    }
}

/// When the workers of a share started and finished, on their host's clock in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When the first worker started to count.
    pub first_start_ns: u64,
    /// When the last worker started to count.
    pub last_start_ns: u64,
    /// When the first worker finished.
    pub first_end_ns: u64,
    /// When the last worker finished.
    pub last_end_ns: u64,
}

/// Cumulative work of a share's workers at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Time on their host's clock, in nanoseconds.
    pub at_ns: u64,
    /// Work since counting began.
    pub done: Work,
}

/// Results of one host in a pass that ran on several hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostResult {
    pub host: String,
    pub workers: u32,
    /// Ops that succeeded, not counting syncs.
    pub ops: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
    /// Work done while all workers of all hosts were busy.
    pub common: Work,
    /// When its first worker started to count, in nanoseconds from the common planned start.
    pub start_ns: i64,
    /// When its last worker finished, in nanoseconds from the same instant.
    pub end_ns: i64,
    /// Error bound of both times due to the different clock, in nanoseconds.
    pub error_ns: u64,
    /// CPU time of its agent, in nanoseconds.
    pub cpu_ns: u64,
    /// Times from sending to completion.
    pub times: ClientTimes,
    /// Times from the scheduled start to completion.
    pub response_times: ClientTimes,
}

impl HostResult {
    /// Returns how long the host was busy, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).try_into().unwrap_or(0)
    }
}

impl RunSpec {
    /// Returns the part of a run that belongs to a share: its workers, their files, and their part
    /// of the offered load. Use it only to judge results; the sequence of ops is determined by the
    /// whole run.
    #[must_use]
    pub fn part(&self, share: Share) -> Self {
        if share.count >= self.workers {
            return self.clone();
        }
        let mut part = self.clone();
        part.workers = share.count;
        // Private files are distributed to workers in turn; shared files are used by all hosts.
        if self.layout.sharing == Sharing::Own {
            part.files = share.owned_below(self.files, self.workers);
        }
        // Round up, because a rate of 0 would mean a closed loop.
        let of_all = u128::from(self.load.rate_per_s) * u128::from(share.count);
        part.load.rate_per_s = of_all.div_ceil(u128::from(self.workers)) as u64;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distributes_workers_evenly() {
        let shares: Vec<_> = (0..3).map(|index| Share::for_agent(index, 3, 8).workers()).collect();
        assert_eq!(shares, [0..3, 3..6, 6..8]);
        assert_eq!(Share::for_agent(0, 1, 8), Share::whole(8));
        assert_eq!(Share::for_agent(3, 4, 8), Share { first: 6, count: 2 });
    }

    proptest! {
        #[test]
        fn assigns_each_number_to_one_share(
            workers in 1_u32..20,
            agents in 1_u32..6,
            end in 0_u32..200,
        ) {
            let shares: Vec<_> =
                (0..agents).map(|i| Share::for_agent(i, agents, workers)).collect();
            for number in 0..end {
                prop_assert_eq!(shares.iter().filter(|s| s.owns(number, workers)).count(), 1);
            }
            for share in shares.iter().chain([&Share::ALL]) {
                let owned = (0..end).filter(|number| share.owns(*number, workers)).count();
                prop_assert_eq!(share.owned_below(end, workers) as usize, owned);
            }
        }
    }
}
