//! How the workers of a run are shared out over hosts, and what each host made of its share.
//!
//! Workers are numbered over all hosts together, so which op comes next never depends on who
//! executes it. [`Share`] says which workers one agent executes, [`TimelinePoint`] and [`Span`]
//! what it tells of their way through a pass, and [`HostResult`] what is kept of it. Numbers of
//! files belong to workers as everywhere: number `n` to worker `n` modulo all workers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::client::ClientTimes;
use crate::sampling::Work;
use crate::spec::RunSpec;
use crate::work::Sharing;

/// Some of the workers of a run that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// The number of the first one.
    pub first: u32,
    /// How many they are.
    pub count: u32,
}

impl Share {
    /// All workers, however many they are.
    pub const ALL: Self = Self { first: 0, count: u32::MAX };

    /// All workers of a run.
    pub const fn whole(workers: u32) -> Self {
        Self { first: 0, count: workers }
    }

    /// The share of agent `index` of `agents` that share `workers` evenly; the first ones take one
    /// more where they don't divide.
    pub const fn of(index: u32, agents: u32, workers: u32) -> Self {
        let agents = if agents == 0 { 1 } else { agents };
        let (each, more) = (workers / agents, workers % agents);
        let before = if index < more { index } else { more };
        Self { first: index * each + before, count: each + (index < more) as u32 }
    }

    /// The numbers of its workers.
    pub const fn workers(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Says whether what has this number belongs to one of them, of `workers` of the run.
    pub fn owns(self, number: u32, workers: u32) -> bool {
        self.workers().contains(&(number % workers.max(1)))
    }

    /// How many of the numbers below `end` belong to them, of `workers` of the run.
    pub fn owned_below(self, end: u32, workers: u32) -> u32 {
        let workers = workers.max(1);
        let (rounds, rest) = (end / workers, end % workers);
        rounds * self.count.min(workers) + rest.clamp(self.first, self.workers().end) - self.first
    }
}

/// When the workers of a share started and ended, on the clock of their host in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When the first one began to count.
    pub first_start_ns: u64,
    /// When the last one did.
    pub last_start_ns: u64,
    /// When the first one ended.
    pub first_end_ns: u64,
    /// When the last one did.
    pub last_end_ns: u64,
}

/// The cumulative work of a share's workers at some instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// The instant, on the clock of their host in nanoseconds.
    pub at_ns: u64,
    /// The work done since counting began.
    pub done: Work,
}

/// The results of one host in a pass that several hosts made together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostResult {
    /// The name of the host.
    pub host: String,
    /// Number of its workers.
    pub workers: u32,
    /// Ops that ended well, syncs not counted.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
    /// The part of its work that was done while all workers of all hosts were busy.
    pub common: Work,
    /// When its first worker began to count, in nanoseconds from the instant at which all were to.
    pub start_ns: i64,
    /// When its last worker ended, in nanoseconds from that instant.
    pub end_ns: i64,
    /// How wrong both may be, since its clock is another, in nanoseconds.
    pub error_ns: u64,
    /// Processor time of its agent, in nanoseconds.
    pub cpu_ns: u64,
    /// Sent to done.
    pub times: ClientTimes,
    /// Scheduled to done.
    pub response_times: ClientTimes,
}

impl HostResult {
    /// How long it worked, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).try_into().unwrap_or(0)
    }
}

impl RunSpec {
    /// Returns the part of a run that the executor of a share is given: so many workers, their
    /// files, and their part of the offered load. Only to judge by: which op comes next follows
    /// from the whole.
    #[must_use]
    pub fn part(&self, share: Share) -> Self {
        if share.count >= self.workers {
            return self.clone();
        }
        let mut part = self.clone();
        part.workers = share.count;
        // Files of their own are dealt out to workers in turn; shared ones are used by all hosts.
        if self.layout.sharing == Sharing::Own {
            part.files = share.owned_below(self.files, self.workers);
        }
        // Rounded up, so that a small rate is none that counts as a closed loop.
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
    fn workers_are_shared_out_evenly_and_in_their_order() {
        let shares: Vec<_> = (0..3).map(|index| Share::of(index, 3, 8).workers()).collect();
        assert_eq!(shares, [0..3, 3..6, 6..8]);
        assert_eq!(Share::of(0, 1, 8), Share::whole(8));
        assert_eq!(Share::of(3, 4, 8), Share { first: 6, count: 2 });
    }

    proptest! {
        #[test]
        fn each_number_belongs_to_one_share_and_is_counted_there(
            workers in 1_u32..20,
            agents in 1_u32..6,
            end in 0_u32..200,
        ) {
            let shares: Vec<_> = (0..agents).map(|i| Share::of(i, agents, workers)).collect();
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
