//! Relation of two results: above, below, level or unknown.
//!
//! [`compare_rows`] decides by the intervals of the two medians. Results with too few trials for an
//! interval are not compared.

use stats::criteria::TRIALS_MIN;

use super::group::{Group, UsableRow};

/// How one result relates to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Relation {
    /// Intervals do not overlap, and the result is this many times the other.
    Above(f64),
    /// Intervals do not overlap, and the other is this many times the result.
    Below(f64),
    /// Intervals overlap.
    Level,
    /// Too few trials to tell.
    Unknown,
}

/// Returns the results of a group that do not differ measurably from the given one, including
/// itself.
pub(super) fn level_with<'a>(group: &Group<'a>, figure: &UsableRow<'a>) -> Vec<UsableRow<'a>> {
    let mut level = group.measured();
    level.retain(|other| compare_rows(other, figure) == Relation::Level);
    level
}

pub(super) fn compare_rows(one: &UsableRow<'_>, other: &UsableRow<'_>) -> Relation {
    // Requiring that two 95 % intervals of medians do not overlap is stricter than a rank test at
    // the 5 % level, so every difference reported here would be one there, too.
    let a = &one.rate;
    let b = &other.rate;
    if a.n < TRIALS_MIN || b.n < TRIALS_MIN {
        Relation::Unknown
    } else if a.overlaps(b) {
        Relation::Level
    } else if a.median > b.median {
        Relation::Above(a.median / b.median)
    } else {
        Relation::Below(b.median / a.median)
    }
}
