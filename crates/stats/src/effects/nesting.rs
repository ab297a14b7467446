//! Nested factors: those that lie within others, and what each level is compared with.
//!
//! A factor lies within another where each of its levels comes with one level of that alone, such
//! as the backends of two targets. The levels of the two can't all be distinguished then: those of
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
        let mut decided: Vec<Vec<Decided>> = Vec::with_capacity(levels.len());
        for (inner, count) in levels.iter().enumerate() {
            let mut by_outer = Vec::with_capacity(levels.len());
            for outer in 0..levels.len() {
                by_outer.push(decided_by(inner, outer, *count, observations));
            }
            decided.push(by_outer);
        }
        let mut outer: Vec<Vec<usize>> = vec![Vec::new(); levels.len()];
        for (inner, by_outer) in decided.iter().enumerate() {
            for (other, levels) in by_outer.iter().enumerate() {
                // Of two that decide each other, that is, that always change together, the later
                // one lies within: else each would lie within the other.
                if inner != other
                    && varies(other, observations)
                    && levels.is_some()
                    && (decided[other][inner].is_none() || inner > other)
                {
                    outer[inner].push(other);
                }
            }
        }
        let mut against = Vec::with_capacity(levels.len());
        for (factor, count) in levels.iter().enumerate() {
            let mut groups: Vec<Vec<Option<usize>>> = Vec::with_capacity(*count);
            let mut compared = Vec::with_capacity(*count);
            for level in 0..*count {
                let group = group_of(&decided[factor], &outer[factor], level);
                // The first level of the same group is its baseline.
                let first = groups.iter().position(|known| *known == group);
                compared.push(first.unwrap_or(level));
                groups.push(group);
            }
            against.push(compared);
        }
        Self { outer, against }
    }

    /// Returns the factors that lie within this one.
    pub fn inner_factors(&self, factor: usize) -> Vec<usize> {
        let mut inner = Vec::new();
        for (number, outer) in self.outer.iter().enumerate() {
            if outer.contains(&factor) {
                inner.push(number);
            }
        }
        inner
    }

    /// Says whether one of two lies within the other.
    pub fn are_nested(&self, one: usize, other: usize) -> bool {
        self.outer[one].contains(&other) || self.outer[other].contains(&one)
    }

    /// Says whether a level lies within another factor and has no other to be compared with.
    pub fn is_alone(&self, factor: usize, level: usize) -> bool {
        let against = &self.against[factor];
        let mut compared = 0;
        for baseline in against {
            compared += usize::from(*baseline == against[level]);
        }
        !self.outer[factor].is_empty() && compared == 1
    }
}

/// Says whether a factor had more than one level in what was observed.
fn varies(factor: usize, observations: &[Observation]) -> bool {
    observations.windows(2).any(|two| two[0].levels[factor] != two[1].levels[factor])
}

/// Returns the levels of the outer factors that a level comes with: levels with the same ones are
/// compared with each other.
fn group_of(decided: &[Decided], outer: &[usize], level: usize) -> Vec<Option<usize>> {
    let mut group = Vec::with_capacity(outer.len());
    for factor in outer {
        group.push(match &decided[*factor] {
            Some(levels) => levels[level],
            None => None,
        });
    }
    group
}

/// Finds the level of one factor that each level of another comes with.
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
