//! Whether a load is served worse than a lighter one, or a single trial only looked like it.
//!
//! The best of many trials is good by chance, too, and one trial is slow for many reasons. So both
//! loads are tried anew, in turns, and [`Turns`] compares what came of them by ranks, which know no
//! shape of noise. The trials that raised the suspicion don't count: they were picked by how they
//! look. Where the turns end without an answer, nobody can tell.

use crate::rank::rank_test;
use crate::summary::median;

/// Fewer turns can't show anything: three and three that lie wholly apart have a chance of 1 in 20.
pub const TURNS_MIN: usize = 3;

/// After so many turns nobody can tell. They show a fall to half in 98 of 100 where trials scatter
/// by a fifth, and to 70 % in 7 of 10 where they scatter by a tenth.
pub const TURNS_MAX: usize = 6;

/// After so many turns that all went well, no more are made.
const TURNS_CLEAR: usize = 2;

/// How probable what was seen may be, by chance, in an answer.
const CHANCE_MAX: f64 = 1.0 - crate::criteria::CONFIDENCE;

/// What a load looks worse in than a lighter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The rate is lower.
    Rate,
    /// The 99th percentile of the response times is longer.
    Time,
}

/// What the turns say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another turn is needed.
    Open,
    /// It is worse.
    Worse,
    /// It is not.
    Held,
    /// Nobody can tell.
    Unclear,
}

/// A load and a lighter one, tried in turns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turns {
    /// The load that looks worse.
    pub load: u32,
    /// Than this.
    pub reference: u32,
    /// In which pass.
    pub pass: usize,
    /// In what.
    pub way: Way,
    /// What the lighter load allows in each turn; negative times, so that less is worse. `None`
    /// where a trial has no figure.
    allowed: Vec<Option<f64>>,
    /// What the heavier one came to.
    was: Vec<Option<f64>>,
}

impl Turns {
    pub fn new(load: u32, reference: u32, pass: usize, way: Way) -> Self {
        Self { load, reference, pass, way, allowed: Vec::new(), was: Vec::new() }
    }

    /// Says whether the lighter load is to be tried next, as at first.
    pub const fn is_light(&self) -> bool {
        self.allowed.len() == self.was.len()
    }

    /// The load to try next.
    pub const fn next(&self) -> u32 {
        if self.is_light() { self.reference } else { self.load }
    }

    /// How many turns were made.
    pub const fn made(&self) -> usize {
        self.was.len()
    }

    /// Hears what the lighter load allows, then what the heavier one came to. More is better.
    pub fn hear(&mut self, figure: Option<f64>) {
        if self.is_light() { self.allowed.push(figure) } else { self.was.push(figure) }
    }

    /// What the turns say so far.
    pub fn verdict(&self) -> Verdict {
        let pairs = self.allowed.iter().zip(&self.was);
        let known = pairs.filter_map(|(allowed, was)| Some(((*allowed)?, (*was)?)));
        let (allowed, was): (Vec<f64>, Vec<f64>) = known.unzip();
        let (Some(middle), Some(was_middle)) = (median(&allowed), median(&was)) else {
            return self.otherwise(Verdict::Unclear);
        };
        if was.len() >= TURNS_CLEAR && allowed.iter().zip(&was).all(|(allowed, was)| was >= allowed)
        {
            return Verdict::Held;
        }
        // Of the two sides of the test, only one was asked.
        let told = was.len() >= TURNS_MIN && rank_test(&allowed, &was) / 2.0 <= CHANCE_MAX;
        match was_middle < middle {
            true if told => Verdict::Worse,
            true => self.otherwise(Verdict::Unclear),
            false if told => Verdict::Held,
            false => self.otherwise(Verdict::Held),
        }
    }

    /// Another turn, or this verdict after the last one.
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
            turns.hear(*allowed);
            assert_eq!((turns.verdict(), turns.next()), (Verdict::Open, 8));
            turns.hear(*was);
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
