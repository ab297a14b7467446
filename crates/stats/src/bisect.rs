//! Decides whether a build is slower than a good one, from as few trials as possible.
//!
//! A search such as `git bisect` believes every answer, so a wrong one sends it to the wrong
//! commit. [`BisectRule`] is asked again and again while trials arrive, and answers only if the
//! probability of a wrong answer is at most [`ERROR_MAX`], however often it was asked. The
//! threshold is half the difference that is searched for: both a build without it and one with all
//! of it are equally far away.
//!
//! Trials of both builds that alternate are compared in pairs, by two tests of which either is
//! enough: Wilcoxon's signed-rank test needs the fewest trials if noise is even, and the sign test
//! if other work disturbs many trials a lot. The order within a pair is random, so both are exact
//! whatever the noise and the drift are. Trials
//! that were stored earlier can't be paired. They are compared by the rank test, and since nothing
//! shows how much the machine has changed since then, an answer has to be further away from the
//! threshold ([`STORED_SHARES`]).
//!
//! **Source:** Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945);
//! Lehmann, "Nonparametrics" (1975), 3.2 (randomization of pairs); Bonferroni's inequality for the
//! looks and tests, as in Pocock, "Group sequential methods", Biometrika 64 (1977), section 1.

use crate::rank::rank_test;
use crate::summary::median;

/// Maximum probability of a wrong answer. A search takes ten steps in a thousand commits, so it
/// ends at the wrong one in at most 1 of 100 cases.
pub const ERROR_MAX: f64 = 0.001;

/// Factor between the numbers of trials at which the rule looks at them.
const LOOK_FACTOR: f64 = 1.25;

/// Shares of the difference that a build must be shown to be below to be good, and above to be bad,
/// if it is compared with stored trials. A wrong answer then takes a change of the machine by three
/// quarters of the difference.
pub const STORED_SHARES: (f64, f64) = (0.25, 0.75);

/// Share of the difference at which pairs are divided into good and bad.
const PAIRED_SHARE: f64 = 0.5;

/// Standard errors between the threshold and a build that is usually decided: the quantiles of the
/// normal distribution for about a tenth of [`ERROR_MAX`] and for 90 % of the cases.
const DECISIVE_ERRORS: f64 = 3.7 + 1.3;

/// Whether a build has the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BisectVerdict {
    /// It is slower by less than the threshold.
    Good,
    /// It is slower by more than the threshold.
    Bad,
    /// The trials don't decide it.
    Open,
}

/// Number of tests that share the probability of a wrong answer.
const TESTS: usize = 2;

/// A number of trials at which the rule looks at them.
#[derive(Clone, Copy, Debug)]
struct Look {
    trials: usize,
    bad: DecisiveSums,
    good: DecisiveSums,
}

/// What decides at a look; either is enough.
#[derive(Clone, Copy, Debug)]
struct DecisiveSums {
    /// Smallest sum of the ranks of positive values.
    ranks: usize,
    /// Smallest number of positive values.
    signs: usize,
}

impl DecisiveSums {
    /// Returns true if positive values dominate.
    fn are_reached(self, values: &[f64]) -> bool {
        let positive = values.iter().filter(|value| **value > 0.0 && value.is_finite()).count();
        positive >= self.signs || positive_rank_sum(values) >= self.ranks
    }
}

/// When a build is good or bad.
#[derive(Clone, Debug)]
pub struct BisectRule {
    looks: Vec<Look>,
    /// Maximum probability of each wrong answer at one look.
    bad_chance: f64,
    good_chance: f64,
}

impl BisectRule {
    /// Creates the rule for at most this many trials of each build. `rows` is the number of results
    /// of which any may be bad; all of them must be good.
    ///
    /// # Errors
    /// If no answer is possible with so few trials; contains how many it takes.
    pub fn new(trials_max: usize, rows: usize) -> Result<Self, usize> {
        let mut first = 1;
        // The probability that all of the first pairs agree by chance.
        let mut chance = 0.5;
        let numbers = loop {
            let numbers = look_numbers(first, trials_max.max(first));
            if chance <= ERROR_MAX / (numbers.len() * rows.max(1) * TESTS) as f64 {
                break numbers;
            }
            first += 1;
            chance /= 2.0;
        };
        if first > trials_max {
            return Err(first);
        }
        let good_chance = ERROR_MAX / numbers.len() as f64;
        let bad_chance = good_chance / rows.max(1) as f64;
        let look = |trials| {
            let chances = [bad_chance, good_chance].map(|chance| chance / TESTS as f64);
            let ranks = smallest_sums(trials, |rank| rank, chances);
            let signs = smallest_sums(trials, |_| 1, chances);
            let [bad, good] =
                [0, 1].map(|side| DecisiveSums { ranks: ranks[side], signs: signs[side] });
            Look { trials, bad, good }
        };
        Ok(Self { looks: numbers.into_iter().map(look).collect(), bad_chance, good_chance })
    }

    /// Creates the rule for trials that are all stored, so that they are looked at only once.
    pub fn for_stored(rows: usize) -> Self {
        let bad_chance = ERROR_MAX / rows.max(1) as f64;
        Self { looks: Vec::new(), bad_chance, good_chance: ERROR_MAX }
    }

    /// Returns the next number of trials after this one at which they are looked at.
    pub fn next_look(&self, trials: usize) -> Option<usize> {
        self.looks.iter().map(|look| look.trials).find(|look| *look > trials)
    }

    /// Judges pairs of trials. Each value is the logarithm of the cost of a trial divided by that
    /// of the good trial beside it, and `size` the logarithm of the difference.
    pub fn judge_pairs(&self, slowdowns: &[f64], size: f64) -> BisectVerdict {
        // Only the trials that a look was planned for count, or there would be more looks.
        let Some(look) = self.looks.iter().rev().find(|look| look.trials <= slowdowns.len()) else {
            return BisectVerdict::Open;
        };
        let beyond: Vec<f64> =
            slowdowns[..look.trials].iter().map(|one| one - size * PAIRED_SHARE).collect();
        let within: Vec<f64> = beyond.iter().map(|one| -one).collect();
        if look.bad.are_reached(&beyond) {
            BisectVerdict::Bad
        } else if look.good.are_reached(&within) {
            BisectVerdict::Good
        } else {
            BisectVerdict::Open
        }
    }

    /// Judges trials against those of a good build that were stored earlier. All values are
    /// logarithms of costs.
    pub fn judge_stored(&self, good: &[f64], now: &[f64], size: f64) -> BisectVerdict {
        let look = self.looks.iter().rev().find(|look| look.trials <= now.len());
        let now = look.map_or(now, |look| &now[..look.trials]);
        let (Some(usual), Some(here)) = (median(good), median(now)) else {
            return BisectVerdict::Open;
        };
        let (good_share, bad_share) = STORED_SHARES;
        let chance_of = |share: f64| {
            let limits: Vec<f64> = good.iter().map(|cost| cost + size * share).collect();
            rank_test(&limits, now)
        };
        // The test is two-sided, which doubles the caution.
        if here > usual + size * bad_share && chance_of(bad_share) <= self.bad_chance {
            BisectVerdict::Bad
        } else if here < usual + size * good_share && chance_of(good_share) <= self.good_chance {
            BisectVerdict::Good
        } else {
            BisectVerdict::Open
        }
    }
}

/// Estimates how many pairs would decide, if they vary like these; `None` if the median is at the
/// threshold.
pub fn pairs_to_decide(slowdowns: &[f64], size: f64) -> Option<usize> {
    let distance = (median(slowdowns)? - size * PAIRED_SHARE).abs();
    let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
    let squares: f64 = slowdowns.iter().map(|one| (one - mean).powi(2)).sum();
    let variance = squares / (slowdowns.len() as f64 - 1.0).max(1.0);
    let pairs = (DECISIVE_ERRORS.powi(2) * variance / distance.powi(2)).ceil();
    pairs.is_finite().then_some(pairs as usize)
}

/// Returns the numbers of trials to look at, from the first to the last.
fn look_numbers(first: usize, last: usize) -> Vec<usize> {
    let mut numbers = vec![first];
    let mut next = first;
    while next < last {
        next = last.min((next as f64 * LOOK_FACTOR).ceil() as usize);
        numbers.push(next);
    }
    numbers
}

/// Returns the smallest sums of the weights of positive values among `count` that are as improbable
/// as each of `chances`, if either sign is equally probable. An impossible sum if there is none.
/// `weight` returns the weight of a rank.
fn smallest_sums(count: usize, weight: impl Fn(usize) -> usize, chances: [f64; 2]) -> [usize; 2] {
    let total = (1..=count).map(&weight).sum();
    let mut shares = vec![0.0; total + 1];
    shares[0] = 1.0;
    for rank in 1..=count {
        let weight = weight(rank);
        // From the largest sum down, so that no rank is used twice.
        for sum in (0..=total).rev() {
            let with = if sum >= weight { shares[sum - weight] } else { 0.0 };
            shares[sum] = f64::midpoint(shares[sum], with);
        }
    }
    chances.map(|chance| {
        let mut tail = 0.0;
        let mut smallest = total + 1;
        while smallest > 0 {
            tail += shares[smallest - 1];
            if tail > chance {
                break;
            }
            smallest -= 1;
        }
        smallest
    })
}

/// Returns the sum of the ranks of positive values by size, the lowest one possible if some have
/// the same size. Values that are not finite count as negative.
fn positive_rank_sum(values: &[f64]) -> usize {
    let mut sorted: Vec<(f64, bool)> =
        values.iter().map(|value| (value.abs(), *value > 0.0 && value.is_finite())).collect();
    // Positive values come first among equals, so that ties never help.
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    (1..).zip(sorted).filter(|(_, (_, is_positive))| *is_positive).map(|(rank, _)| rank).sum()
}

#[cfg(test)]
mod tests;
