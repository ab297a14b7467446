//! Nested factors, and the baseline of each level.
//!
//! A factor is nested in another one if each of its levels occurs with only one level of the other,
//! such as the backends of two targets. Then not all levels can be told apart: the levels of the
//! inner factor are compared with each other under each level of the outer one, and the outer
//! factor's ratio is an average over them. If two factors always change together, the later one
//! counts as nested.
//!
//! **Source:** Montgomery, "Design and Analysis of Experiments", chapter 14 (nested designs).

use super::Observation;

/// The level of one factor with which each level of another occurs, or `None` if any of them occurs
/// with several. A level that was never measured has none.
type DeterminedLevels = Option<Vec<Option<usize>>>;

/// How the factors are nested.
pub(crate) struct Nesting {
    /// For each factor, the factors that it is nested in.
    pub outer: Vec<Vec<usize>>,
    /// For each level of each factor, its baseline level, which may be itself.
    pub against: Vec<Vec<usize>>,
}

impl Nesting {
    /// Determines the nesting from observations. `levels` contains the number of levels of each
    /// factor.
    pub(crate) fn from_observations(levels: &[usize], observations: &[Observation]) -> Self {
        let mut decided: Vec<Vec<DeterminedLevels>> = Vec::with_capacity(levels.len());
        for (inner, count) in levels.iter().enumerate() {
            let by_outer: Vec<_> = (0..levels.len())
                .map(|outer| determined_by(inner, outer, *count, observations))
                .collect();
            decided.push(by_outer);
        }
        let mut outer: Vec<Vec<usize>> = vec![Vec::new(); levels.len()];
        for (inner, by_outer) in decided.iter().enumerate() {
            for (other, levels) in by_outer.iter().enumerate() {
                // If two factors determine each other, because they always change together, only
                // the later one is nested. Otherwise, each would be nested in the other.
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
                // The first level of the same group is the baseline.
                let first = groups.iter().position(|known| *known == group);
                compared.push(first.unwrap_or(level));
                groups.push(group);
            }
            against.push(compared);
        }
        Self { outer, against }
    }

    /// Returns the factors nested in this one.
    pub(crate) fn inner_factors(&self, factor: usize) -> Vec<usize> {
        self.outer
            .iter()
            .enumerate()
            .filter(|(_, outer)| outer.contains(&factor))
            .map(|(number, _)| number)
            .collect()
    }

    /// Returns true if one of the two is nested in the other.
    pub(crate) fn are_nested(&self, one: usize, other: usize) -> bool {
        self.outer[one].contains(&other) || self.outer[other].contains(&one)
    }

    /// Returns true if a level is nested and has no other level to be compared with.
    pub(crate) fn is_alone(&self, factor: usize, level: usize) -> bool {
        let against = &self.against[factor];
        let compared = against.iter().filter(|baseline| **baseline == against[level]).count();
        !self.outer[factor].is_empty() && compared == 1
    }
}

/// Returns true if a factor had more than one level in the observations.
fn varies(factor: usize, observations: &[Observation]) -> bool {
    observations.windows(2).any(|two| two[0].levels[factor] != two[1].levels[factor])
}

/// Returns the levels of the outer factors with which a level occurs. Levels with the same ones are
/// compared with each other.
fn group_of(decided: &[DeterminedLevels], outer: &[usize], level: usize) -> Vec<Option<usize>> {
    outer.iter().map(|factor| decided[*factor].as_ref().and_then(|levels| levels[level])).collect()
}

/// Returns the level of one factor with which each level of another occurs.
fn determined_by(
    inner: usize,
    outer: usize,
    levels: usize,
    observations: &[Observation],
) -> DeterminedLevels {
    let mut found = vec![None; levels];
    for observation in observations {
        let level = observation.levels[outer];
        if *found[observation.levels[inner]].get_or_insert(level) != level {
            return None;
        }
    }
    Some(found)
}
