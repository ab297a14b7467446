//! How many violations each crate may still have: a ratchet.
//!
//! Main type: [`Ceilings`]. A crate that isn't in the table has a ceiling of 0. A count above its
//! ceiling is an error, and so is a count below it: the ceiling is lowered with the count, in the
//! same commit, and never raised.

use super::Finding;

/// Maximum numbers of remaining violations in a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Groups of modules that depend on each other cyclically.
    pub module_circles: usize,
}

/// The crates that aren't at 0 yet.
const LEFT: [(&str, Ceilings); 0] = [];
/// Returns the ceilings of a crate.
pub fn of_crate(krate: &str) -> Ceilings {
    for (name, ceilings) in LEFT {
        if name == krate {
            return ceilings;
        }
    }
    Ceilings::default()
}

/// Compares the findings of a crate with its ceiling; `what` is plural.
///
/// Above the ceiling all of `found` is returned, because it is unknown which one is new.
pub fn judge(krate: &str, what: &str, ceiling: usize, found: Vec<Finding>) -> Vec<Finding> {
    if found.len() > ceiling {
        return found;
    }
    if found.len() < ceiling {
        let message = format!(
            "{} {what} are left of {ceiling}: lower the ceiling in xtask/src/tidy/ceilings.rs",
            found.len()
        );
        return vec![Finding::error(krate, message)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(count: usize) -> Vec<String> {
        let found = (0..count).map(|number| Finding::error(number.to_string(), "x")).collect();
        judge("shed", "spades", 2, found).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_count_above_its_ceiling_is_refused_and_one_below_lowers_it() {
        assert_eq!(judged(2), Vec::<String>::new());
        assert_eq!(judged(3), ["error: 0: x", "error: 1: x", "error: 2: x"]);
        let below = judged(1);
        assert_eq!(below.len(), 1);
        assert!(below[0].starts_with("error: shed: 1 spades are left of 2: lower"), "{below:?}");
    }

    #[test]
    fn a_crate_outside_the_table_may_have_none() {
        assert_eq!(of_crate("shed"), Ceilings::default());
        assert!(LEFT.iter().all(|(_, left)| *left != Ceilings::default()), "a row of zeros");
    }
}
