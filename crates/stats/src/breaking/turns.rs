//! Checks whether a load is really served worse than a lighter one by alternating them.
//!
//! The best of many trials is partly luck, and a single trial may be slow for many reasons. So both
//! loads are repeated in turns, and [`AlternatedLoads`] compares the outcomes with a rank test,
//! which makes no assumption about the distribution of the noise. The trials that raised the
//! suspicion don't count, because they were selected by their results. If the turns don't settle
//! the question, it stays open.

use crate::rank::rank_test;
use crate::summary::median;

/// Minimum number of turns that can show anything: if three and three are completely separated, the
/// probability is 1 in 20.
pub(crate) const TURNS_MIN: usize = 3;

/// Maximum number of turns, after which the result is unknown. They detect a drop by half in 98 of
/// 100 cases if trials vary by 20 %, and a drop to 70 % in 7 of 10 if they vary by 10 %.
pub const TURNS_MAX: usize = 6;

/// Number of turns after which no more are run if all went well.
const TURNS_CLEAR: usize = 2;

/// Maximum probability that a result is due to chance.
const CHANCE_MAX: f64 = 1.0 - crate::criteria::CONFIDENCE;

/// In which way a load looks worse than a lighter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorseMeasure {
    Rate,
    /// The 99th percentile of response times is higher.
    Time,
}

/// Result of the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another turn is needed.
    Open,
    /// The load is served worse.
    Worse,
    /// The load is served as well.
    Held,
    /// The turns ended without a result.
    Unclear,
}

/// A load alternated with a lighter one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AlternatedLoads {
    /// The load that looks worse.
    pub load: u32,
    /// The lighter load.
    pub reference: u32,
    /// Index of the pass in the run.
    pub pass: usize,
    /// In which way it looks worse.
    pub way: WorseMeasure,
    /// Limits derived from the lighter load in each turn. Times are negative, so that less is
    /// worse. `None` if a trial has no result.
    allowed: Vec<Option<f64>>,
    /// Results of the heavier load.
    reached: Vec<Option<f64>>,
}

impl AlternatedLoads {
    pub(crate) fn new(load: u32, reference: u32, pass: usize, way: WorseMeasure) -> Self {
        Self { load, reference, pass, way, allowed: Vec::new(), reached: Vec::new() }
    }

    /// Returns true if the lighter load is next, as at the start.
    pub(crate) const fn is_light(&self) -> bool {
        self.allowed.len() == self.reached.len()
    }

    /// Returns the load to try next.
    pub(crate) const fn next(&self) -> u32 {
        if self.is_light() { self.reference } else { self.load }
    }

    /// Returns the number of finished turns.
    pub(crate) const fn finished_turns(&self) -> usize {
        self.reached.len()
    }

    /// Records the limit from the lighter load, then the result of the heavier one. More is better.
    pub(crate) fn record(&mut self, figure: Option<f64>) {
        let list = if self.is_light() { &mut self.allowed } else { &mut self.reached };
        list.push(figure);
    }

    /// Judges the turns so far.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut allowed = Vec::new();
        let mut reached = Vec::new();
        let mut all_good = true;
        for pair in self.allowed.iter().zip(&self.reached) {
            if let (Some(limit), Some(figure)) = pair {
                allowed.push(*limit);
                reached.push(*figure);
                all_good &= figure >= limit;
            }
        }
        let (Some(limit), Some(middle)) = (median(&allowed), median(&reached)) else {
            return self.otherwise(Verdict::Unclear);
        };
        if reached.len() >= TURNS_CLEAR && all_good {
            return Verdict::Held;
        }
        // Only one side of the two-sided test matters, so halve its probability.
        let is_shown =
            reached.len() >= TURNS_MIN && rank_test(&allowed, &reached) / 2.0 <= CHANCE_MAX;
        match (middle < limit, is_shown) {
            (true, true) => Verdict::Worse,
            (true, false) => self.otherwise(Verdict::Unclear),
            (false, true) => Verdict::Held,
            (false, false) => self.otherwise(Verdict::Held),
        }
    }

    /// Requests another turn, or returns this verdict after the last one.
    const fn otherwise(&self, last: Verdict) -> Verdict {
        if self.finished_turns() < TURNS_MAX { Verdict::Open } else { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdict for pairs of results, and the number of turns it took.
    fn judge_pairs(pairs: &[(Option<f64>, Option<f64>)]) -> (Verdict, usize) {
        let mut turns = AlternatedLoads::new(8, 4, 0, WorseMeasure::Rate);
        for (allowed, was) in pairs {
            assert_eq!((turns.verdict(), turns.next()), (Verdict::Open, 4));
            turns.record(*allowed);
            assert_eq!((turns.verdict(), turns.next()), (Verdict::Open, 8));
            turns.record(*was);
        }
        (turns.verdict(), turns.finished_turns())
    }

    fn pairs(was: &[f64]) -> Vec<(Option<f64>, Option<f64>)> {
        was.iter().map(|was| (Some(80.0), Some(*was))).collect()
    }

    #[test]
    fn decides_after_three_turns() {
        assert_eq!(judge_pairs(&pairs(&[50.0, 51.0, 52.0])), (Verdict::Worse, 3));
        assert_eq!(judge_pairs(&pairs(&[81.0, 82.0])), (Verdict::Held, 2));
    }

    #[test]
    fn reports_unproven_loss_as_unclear() {
        let mixed = [79.0, 82.0, 79.0, 82.0, 79.0, 79.0];
        assert_eq!(judge_pairs(&pairs(&mixed)), (Verdict::Unclear, 6));
        let better = [79.0, 82.0, 79.0, 82.0, 82.0, 82.0];
        assert_eq!(judge_pairs(&pairs(&better)), (Verdict::Held, 6));
    }

    #[test]
    fn ends_turns_without_figures() {
        assert_eq!(judge_pairs(&[(None, Some(1.0)); 6]), (Verdict::Unclear, 6));
        assert_eq!(judge_pairs(&[(Some(80.0), None); 6]), (Verdict::Unclear, 6));
    }
}
