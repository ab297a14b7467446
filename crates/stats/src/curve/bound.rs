//! Searches for the heaviest load under a bound, with fewer load points than a curve.
//!
//! The lightest load comes first, because a bound that it exceeds can never be satisfied. The
//! heaviest load is about what the system can do, so the rest is bisected at once, in steps.

use crate::load_search::{LoadRange, LoadSearch};

/// Number of steps up to the heaviest load: the result is within 2.5 % of it, after seven load
/// points.
const STEPS: u32 = 40;

/// The lightest load in steps: 10 % of the heaviest, like the first load point of a curve.
const FIRST: u32 = STEPS / 10;

/// Starts a search whose loads are steps; see [`steps_to_load`].
pub fn bound_search() -> LoadSearch {
    let mut search = LoadSearch::new(LoadRange::whole(FIRST, STEPS));
    search.note_bad(f64::from(STEPS + 1));
    search
}

/// Converts steps to a load in ops per second. The heaviest load is raised to the number of steps
/// if lower.
pub fn steps_to_load(steps: f64, max_per_s: u64) -> u64 {
    let max_per_s = u128::from(max_per_s.max(STEPS.into()));
    (max_per_s * steps as u128 / u128::from(STEPS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the heaviest good load and the number of tries.
    fn searched(max: u64, keeps: impl Fn(u64) -> bool) -> (Option<u64>, usize) {
        let mut search = bound_search();
        let mut best = None;
        let mut tried = 0;
        while let Some(steps) = search.next() {
            let load = steps_to_load(steps, max);
            tried += 1;
            assert!(tried < 100 && load <= max);
            if keeps(load) {
                search.note_good(steps);
            } else {
                search.note_bad(steps);
            }
            best = if keeps(load) { best.max(Some(load)) } else { best };
        }
        (best, tried)
    }

    #[test]
    fn finds_any_bound_within_step() {
        for most in 100..=1_000 {
            let (best, tried) = searched(1_000, |load| load <= most);
            let best = best.unwrap();
            assert!(best <= most && most - best < 25 && tried <= 7, "{most}: {best}, {tried}");
        }
    }

    #[test]
    fn ends_after_one_point_above_bound() {
        assert_eq!(searched(1_000, |_| false), (None, 1));
        assert_eq!(searched(1_000, |_| true), (Some(1_000), 7));
        assert_eq!(searched(40, |load| load < 9).0, Some(8));
    }
}
