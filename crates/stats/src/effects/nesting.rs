//! Which factors lie within which, and what each level is compared with.
//!
//! A factor lies within another where each of its levels comes with one level of that alone, such
//! as the backends of two targets. The levels of the two can't all be told apart then: those of
//! the inner one are compared with each other under each level of the outer one, and the outer
//! one's ratio is a mean over them. Of two that always change together the later one lies within.
//!
//! **Source:** Montgomery, "Design and Analysis of Experiments", chapter 14 (nested designs).

use super::Observation;

/// The level of one factor that each level of another comes with; `None` where one of them comes
/// with several. A level that was never measured comes with none.
type Decided = Option<Vec<Option<usize>>>;

/// How the factors lie within each other.
pub struct Nesting {
    /// For each factor, those that it lies within.
    pub outer: Vec<Vec<usize>>,
    /// For each level of each factor, the level that it is compared with; itself where that is it.
    pub against: Vec<Vec<usize>>,
}

impl Nesting {
    /// Finds it in what was observed; `levels` says how many each factor has.
    pub fn of(levels: &[usize], observations: &[Observation]) -> Self {
        let decided: Vec<Vec<Decided>> = (0..levels.len())
            .map(|inner| {
                let by = |outer| decided_by(inner, outer, levels[inner], observations);
                (0..levels.len()).map(by).collect()
            })
            .collect();
        let varies = |factor: usize| {
            observations.windows(2).any(|two| two[0].levels[factor] != two[1].levels[factor])
        };
        let lies_within = |inner: usize, outer: usize| {
            inner != outer
                && varies(outer)
                && decided[inner][outer].is_some()
                && (decided[outer][inner].is_none() || inner > outer)
        };
        let outer: Vec<Vec<usize>> = (0..levels.len())
            .map(|inner| (0..levels.len()).filter(|outer| lies_within(inner, *outer)).collect())
            .collect();
        let group = |factor: usize, level: usize| -> Vec<Option<usize>> {
            let level_of =
                |outer: &usize| decided[factor][*outer].as_ref().and_then(|of| of[level]);
            outer[factor].iter().map(level_of).collect()
        };
        let against = |factor: usize| -> Vec<usize> {
            let first = |level| (0..=level).find(|one| group(factor, *one) == group(factor, level));
            (0..levels[factor]).map(|level| first(level).unwrap_or(level)).collect()
        };
        Self { against: (0..levels.len()).map(against).collect(), outer }
    }

    /// The factors that lie within this one.
    pub fn inner(&self, factor: usize) -> impl Iterator<Item = usize> {
        let lie = self.outer.iter().enumerate().filter(move |(_, outer)| outer.contains(&factor));
        lie.map(|(inner, _)| inner)
    }

    /// Says whether one of two lies within the other.
    pub fn are_nested(&self, one: usize, other: usize) -> bool {
        self.outer[one].contains(&other) || self.outer[other].contains(&one)
    }

    /// Says whether a level has others to be compared with.
    pub fn is_alone(&self, factor: usize, level: usize) -> bool {
        let all = self.against[factor].iter().enumerate();
        !self.outer[factor].is_empty()
            && all
                .filter(|(one, against)| *one != level && **against == self.against[factor][level])
                .count()
                == 0
    }
}

/// Finds what the levels of one factor say of another's.
fn decided_by(inner: usize, outer: usize, levels: usize, observations: &[Observation]) -> Decided {
    let mut found = vec![None; levels];
    for observation in observations {
        let level = observation.levels[outer];
        if *found[observation.levels[inner]].get_or_insert(level) != level {
            return None;
        }
    }
    Some(found)
}
