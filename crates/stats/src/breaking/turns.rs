//! The check whether a load is served worse than a lighter one, or a single trial looked like it.
//!
//! The best of many trials is good by chance, too, and one trial is slow for many reasons. So both
//! loads are tried again, in turns, and [`Turns`] compares their outcomes by ranks, which know
//! no shape of noise. The trials that raised the question don't count: they were picked by how
//! they look. Where the turns end without an answer, it remains unknown.

use crate::rank::rank_test;
use crate::summary::median;

/// Fewer turns can't show anything: three and three that lie wholly apart have a chance of 1 in 20.
pub const TURNS_MIN: usize = 3;

/// After so many turns the answer remains unknown. They show a fall to half in 98 of 100 where
/// trials scatter by a fifth, and to 70 % in 7 of 10 where they scatter by a tenth.
pub const TURNS_MAX: usize = 6;

/// After so many turns that all went well, no more are made.
const TURNS_CLEAR: usize = 2;

/// How probable what was seen may be, by chance, in an answer.
const CHANCE_MAX: f64 = 1.0 - crate::criteria::CONFIDENCE;

/// The figure in which a load looks worse than a lighter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The rate is lower.
    Rate,
    /// The 99th percentile of the response times is longer.
    Time,
}

/// The verdict of the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another turn is needed.
    Open,
    /// The load is served worse.
    Worse,
    /// The load is served as well.
    Held,
    /// The turns ended without an answer.
    Unclear,
}

/// A load and a lighter one, tried in turns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turns {
    /// The load that looks worse.
    pub load: u32,
    /// The lighter load that it is compared with.
    pub reference: u32,
    /// The pass, by its place in the run.
    pub pass: usize,
    /// The figure that looks worse.
    pub way: Way,
    /// Figures that the lighter load allows in each turn; negative times, so that less is worse.
    /// `None` where a trial has no figure.
    allowed: Vec<Option<f64>>,
    /// Figures of the heavier load.
    reached: Vec<Option<f64>>,
}

impl Turns {
    pub fn new(load: u32, reference: u32, pass: usize, way: Way) -> Self {
        Self { load, reference, pass, way, allowed: Vec::new(), reached: Vec::new() }
    }

    /// Says whether the lighter load is to be tried next, as at first.
    pub const fn is_light(&self) -> bool {
        self.allowed.len() == self.reached.len()
    }

    /// Returns the load to try next.
    pub const fn next(&self) -> u32 {
        if self.is_light() { self.reference } else { self.load }
    }

    /// Returns how many turns were made.
    pub const fn made(&self) -> usize {
        self.reached.len()
    }

    /// Records what the lighter load allows, then what the heavier one reached. More is better.
    pub fn record(&mut self, figure: Option<f64>) {
        let list = if self.is_light() { &mut self.allowed } else { &mut self.reached };
        list.push(figure);
    }

    /// Judges the turns that were made so far.
    pub fn verdict(&self) -> Verdict {
        let (mut allowed, mut reached) = (Vec::new(), Vec::new());
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
        // The test has two sides, and only one of them is in question: half its probability.
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
        if self.made() < TURNS_MAX { Verdict::Open } else { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What turns say of pairs, and after how many.
    fn of(pairs: &[(Option<f64>, Option<f64>)]) -> (Verdict, usize) {
        let mut turns = Turns::new(8, 4, 0, Way::Rate);
        for (allowed, was) in pairs {
            assert_eq!((turns.verdict(), turns.next()), (Verdict::Open, 4));
            turns.record(*allowed);
            assert_eq!((turns.verdict(), turns.next()), (Verdict::Open, 8));
            turns.record(*was);
        }
        (turns.verdict(), turns.made())
    }

    fn pairs(was: &[f64]) -> Vec<(Option<f64>, Option<f64>)> {
        was.iter().map(|was| (Some(80.0), Some(*was))).collect()
    }

    #[test]
    fn three_turns_that_lie_apart_tell_and_two_good_ones_clear() {
        assert_eq!(of(&pairs(&[50.0, 51.0, 52.0])), (Verdict::Worse, 3));
        assert_eq!(of(&pairs(&[81.0, 82.0])), (Verdict::Held, 2));
    }

    #[test]
    fn what_looks_worse_and_can_not_be_shown_is_unclear() {
        let mixed = [79.0, 82.0, 79.0, 82.0, 79.0, 79.0];
        assert_eq!(of(&pairs(&mixed)), (Verdict::Unclear, 6));
        let better = [79.0, 82.0, 79.0, 82.0, 82.0, 82.0];
        assert_eq!(of(&pairs(&better)), (Verdict::Held, 6));
    }

    #[test]
    fn turns_without_figures_say_nothing_and_end() {
        assert_eq!(of(&[(None, Some(1.0)); 6]), (Verdict::Unclear, 6));
        assert_eq!(of(&[(Some(80.0), None); 6]), (Verdict::Unclear, 6));
    }
}
