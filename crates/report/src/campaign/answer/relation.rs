//! How one figure lies to another: above, below, level with it, or not known.
//!
//! [`relation`] decides it by the intervals of the two medians. Figures of fewer trials than an
//! interval needs are not compared.

use stats::criteria::TRIALS_MIN;

use super::group::{Figure, Group};

/// How one figure lies to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Relation {
    /// The intervals are apart, and it is so many times the other.
    Above(f64),
    /// The intervals are apart, and the other is so many times it.
    Below(f64),
    /// The intervals overlap.
    Level,
    /// Too few trials to know.
    Unknown,
}

/// Returns the figures of a group that do not differ measurably from one of them, which is
/// included.
pub(super) fn level_with<'a>(group: &Group<'a>, figure: &Figure<'a>) -> Vec<Figure<'a>> {
    let mut level = group.measured();
    level.retain(|other| relation(other, figure) == Relation::Level);
    level
}

/// Compares two figures.
pub(super) fn relation(one: &Figure<'_>, other: &Figure<'_>) -> Relation {
    // Two 95 % intervals of medians that don't overlap are a stricter test than the 5 % level of
    // a rank test: what is called a difference here is one there, too.
    let (a, b) = (&one.rate, &other.rate);
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
