//! Compares the ranks of a pass that is done when the slowest of them is.
//!
//! A job that saves or restores its state waits for its last rank, so the time of the slowest one
//! is the result. [`RanksCompared`] shows how much faster the others were, and whether it was the
//! same rank each time. Some rank is always the slowest, so one is only named if it was slow more
//! often than chance explains.

use model::units::three_digits;
use model::{Evidence, Pass, PassResult, Run};

use crate::host_balance::{BUSY_MIN_NS, STRAGGLER_SHARE_MAX};
use crate::summary::{Summary, median};

/// Time of a rank, relative to the median rank, above which it is slow.
const RATIO_MIN: f64 = 1.0 / STRAGGLER_SHARE_MAX;

/// How probable it may be that chance makes some rank as slow as the one that is named.
const CHANCE_MAX: f64 = 0.05;

/// The ranks of a pass, over all trials that count.
#[derive(Clone, Debug, PartialEq)]
pub struct RanksCompared {
    /// What they are called: [`Pass::rank_noun`].
    pub noun: &'static str,
    /// Number of ranks.
    pub count: u32,
    /// Time until the slowest rank was done, in seconds.
    pub seconds: Summary,
    /// Time of the slowest rank relative to the median rank, as the median over the trials.
    pub slowest_ratio: f64,
    /// A rank that held the others up again and again.
    pub straggler: Option<RankStraggler>,
    /// How long saves stall the job per hour, in seconds; only for saves.
    pub stall_s_per_hour: Option<f64>,
    pub trials: u32,
}

/// A rank that was slower than the others in too many trials to be chance.
#[derive(Clone, Debug, PartialEq)]
pub struct RankStraggler {
    /// Its number, from 0.
    pub rank: u32,
    /// The client host that it runs on; `None` if there was only one.
    pub host: Option<String>,
    /// Its time relative to the median rank, as the median over the trials.
    pub ratio: f64,
    /// Trials in which it was slow.
    pub slow_trials: u32,
}

impl RanksCompared {
    /// Compares the ranks of a run's passes of the same kind. Returns `None` if their times are
    /// unknown.
    pub(crate) fn from_passes(
        run: &Run,
        passes: &[&PassResult],
        seconds: Option<Summary>,
    ) -> Option<Self> {
        let seconds = seconds?;
        let count = passes.first()?.scope.rank_times_ns.len();
        let mut ratios: Vec<Vec<f64>> = Vec::with_capacity(passes.len());
        let mut slow_trials = vec![0_u32; count];
        for pass in passes {
            let times: Vec<f64> = pass.scope.rank_times_ns.iter().map(|ns| *ns as f64).collect();
            if times.len() != count {
                return None;
            }
            let middle = median(&times)?.max(1.0);
            for (ns, slow) in times.iter().zip(&mut slow_trials) {
                *slow += u32::from(is_slow(*ns, middle));
            }
            ratios.push(times.iter().map(|ns| ns / middle).collect());
        }
        let slowest: Vec<f64> =
            ratios.iter().map(|trial| trial.iter().copied().fold(0.0, f64::max)).collect();
        let hosts: Vec<(&str, u32)> =
            passes[0].hosts.iter().map(|host| (host.host.as_str(), host.workers)).collect();
        let is_save = passes[0].pass == Pass::Save;
        Some(Self {
            noun: passes[0].pass.rank_noun(),
            count: count as u32,
            seconds,
            slowest_ratio: median(&slowest)?,
            straggler: find_straggler(&ratios, &slow_trials, &hosts),
            stall_s_per_hour: is_save.then(|| {
                seconds.median * 3_600_000.0 / run.spec.checkpoint.save_every_ms.max(1) as f64
            }),
            trials: passes.len() as u32,
        })
    }

    /// Describes the rank that held the others up: `rank 3 took 2.40 times as long as the median of
    /// 8 ranks in 3 of 3 trials`.
    pub(crate) fn describe_straggler(&self) -> Option<String> {
        let RankStraggler { rank, host, ratio, slow_trials } = self.straggler.as_ref()?;
        let place = host.as_ref().map(|host| format!(" on host {host}")).unwrap_or_default();
        let noun = self.noun;
        Some(format!(
            "{noun} {rank}{place} took {} times as long as the median of {} {noun}s, and was slow \
             in {slow_trials} of {} trials",
            three_digits(*ratio),
            self.count,
            self.trials,
        ))
    }

    /// Returns the speed of the named rank relative to the median rank.
    pub(crate) fn straggler_share(&self) -> Option<Evidence> {
        let share = 1.0 / self.straggler.as_ref()?.ratio.max(1.0);
        let source = "time of the median rank relative to the slowest rank";
        Some(Evidence::shares(share, STRAGGLER_SHARE_MAX, source))
    }
}

/// Returns true if a rank took much longer than the median rank. A smaller difference may only show
/// the order in which threads were scheduled.
fn is_slow(ns: f64, middle_ns: f64) -> bool {
    ns > middle_ns * RATIO_MIN && ns - middle_ns >= BUSY_MIN_NS as f64
}

/// Finds the rank that was slow most often, if that was more often than chance explains, given how
/// often other ranks were slow.
fn find_straggler(
    ratios: &[Vec<f64>],
    slow: &[u32],
    hosts: &[(&str, u32)],
) -> Option<RankStraggler> {
    let ranks = slow.len();
    // The median of two is between them, so neither would be compared with others.
    if ranks < 3 {
        return None;
    }
    let worst = (0..ranks).max_by_key(|rank| (slow[*rank], std::cmp::Reverse(*rank)))?;
    let trials = ratios.len() as u32;
    let others: u32 = slow.iter().sum::<u32>() - slow[worst];
    let of_others = (ranks - 1) as f64 * f64::from(trials);
    // The estimate of how often a rank is slow by chance; never 0, since few trials show little.
    let often = (f64::from(others) + 1.0) / (of_others + 2.0);
    let chance = at_least(slow[worst], trials, often) * ranks as f64;
    let own: Vec<f64> = ratios.iter().map(|trial| trial[worst]).collect();
    let ratio = median(&own)?;
    if chance > CHANCE_MAX || ratio <= RATIO_MIN {
        return None;
    }
    let rank = worst as u32;
    Some(RankStraggler { rank, host: host_of(rank, hosts), ratio, slow_trials: slow[worst] })
}

/// Returns the host of a rank, given the hosts in order with the number of their ranks.
fn host_of(rank: u32, hosts: &[(&str, u32)]) -> Option<String> {
    let mut end = 0;
    for (host, ranks) in hosts {
        end += ranks;
        if rank < end {
            return Some((*host).to_owned());
        }
    }
    None
}

/// Returns the probability of at least `least` successes in `tries` independent tries.
fn at_least(least: u32, tries: u32, probability: f64) -> f64 {
    // The probability of no success at all, then of one more each time.
    let mut exactly = (1.0 - probability).powf(f64::from(tries));
    let mut below = 0.0;
    for count in 0..least {
        below += exactly;
        let left = f64::from(tries - count);
        exactly *= left / f64::from(count + 1) * probability / (1.0 - probability);
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use model::testing::RunBuilder;
    use model::{HostResult, Workload};

    use super::*;
    use crate::summary::summary;

    const MS: u64 = 1_000_000;

    fn compared(pass: Pass, trials: &[&[u64]]) -> RanksCompared {
        let run = RunBuilder::new(Workload::Checkpoint).build();
        let run = Run { index: 0, spec: run, trials: Vec::new() };
        let mut passes = Vec::new();
        let mut seconds = Vec::new();
        for times in trials {
            let mut result = PassResult::new(pass);
            result.scope.rank_times_ns = times.iter().map(|ms| ms * MS).collect();
            for host in ["a", "b"] {
                let workers = times.len() as u32 / 2;
                let host = host.to_owned();
                result.hosts.push(HostResult { host, workers, ..HostResult::default() });
            }
            seconds.push(*times.iter().max().unwrap() as f64 / 1e3);
            passes.push(result);
        }
        let passes: Vec<&PassResult> = passes.iter().collect();
        RanksCompared::from_passes(&run, &passes, summary(&seconds)).unwrap()
    }

    #[test]
    fn names_rank_that_is_always_slow() {
        let slow: &[u64] = &[1_000, 1_010, 990, 2_400, 1_000, 1_020];
        let found = compared(Pass::Save, &[slow, slow, slow]);
        let straggler = found.straggler.clone().unwrap();
        assert_eq!((straggler.rank, straggler.slow_trials), (3, 3));
        assert_eq!(straggler.host.as_deref(), Some("b"));
        insta::assert_snapshot!(found.describe_straggler().unwrap(), @"rank 3 on host b took 2.39 times as long as the median of 6 ranks, and was slow in 3 of 3 trials");
        let share = found.straggler_share().unwrap();
        assert!((share.found - 41.875).abs() < 0.001 && share.limit > share.found, "{share:?}");
        // 2.4 s every ten minutes.
        assert!((found.stall_s_per_hour.unwrap() - 14.4).abs() < 1e-9);
        assert!((found.seconds.median - 2.4).abs() < 1e-9);
    }

    #[test]
    fn some_rank_is_always_slowest() {
        // A different one each time, and one that is hardly slower than the others.
        let turns: [&[u64]; 3] = [
            &[1_000, 2_000, 1_000, 1_000],
            &[2_000, 1_000, 1_000, 1_000],
            &[1_000, 1_000, 1_000, 2_000],
        ];
        let found = compared(Pass::Restore, &turns);
        assert_eq!((found.straggler, found.slowest_ratio), (None, 2.0));
        assert_eq!(found.stall_s_per_hour, None);
        let even: &[u64] = &[1_000, 1_100, 1_000, 1_000];
        assert_eq!(compared(Pass::Save, &[even, even, even]).straggler, None);
        // A single trial shows which rank was slow, not that it always is.
        assert_eq!(compared(Pass::Save, &[&[1_000, 2_400, 1_000, 1_000]]).straggler, None);
    }

    #[test]
    fn short_passes_show_no_straggler() {
        let short: &[u64] = &[1, 5, 1, 1, 1];
        let found = compared(Pass::Save, &[short, short, short]);
        assert_eq!((found.straggler, found.slowest_ratio), (None, 5.0));
    }

    #[test]
    fn adds_up_binomial_tail() {
        assert!((at_least(2, 2, 0.1) - 0.01).abs() < 1e-12);
        assert!((at_least(1, 3, 0.5) - 0.875).abs() < 1e-12);
        assert!((at_least(0, 3, 0.5) - 1.0).abs() < 1e-12);
    }
}
