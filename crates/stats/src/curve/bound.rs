//! Searches for the heaviest load under a bound, with fewer load points than a curve.
//!
//! The lightest load comes first, because a bound that it exceeds can never be satisfied. Then the
//! gap between the heaviest good load and the lightest bad one is halved, down to one step. The
//! search measures nothing itself.

/// Number of steps up to the heaviest load: the result is within 2.5 % of it, after seven load
/// points.
const STEPS: u64 = 40;

/// The lightest load in steps: 10 % of the heaviest, like the first load point of a curve.
const FIRST: u64 = STEPS / 10;

/// A search for the heaviest load under a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSearch {
    max_per_s: u64,
    /// The highest number of steps within the bound; 0 for none.
    kept: u64,
    /// The lowest number of steps beyond it, or one more than the maximum.
    broken: u64,
}

impl BoundSearch {
    /// Starts a search up to a load in ops per second, which is raised to the number of steps if
    /// lower.
    pub fn new(max_per_s: u64) -> Self {
        Self { max_per_s: max_per_s.max(STEPS), kept: 0, broken: STEPS + 1 }
    }

    /// Returns the load to try next in ops per second, or `None` if the search is finished.
    pub fn next(&self) -> Option<u64> {
        Some(self.steps_to_load(self.next_steps()?))
    }

    /// Records that the requested load was within the bound.
    pub fn note_kept(&mut self) {
        if let Some(steps) = self.next_steps() {
            self.kept = steps;
        }
    }

    /// Records that the requested load exceeded the bound.
    pub fn note_broken(&mut self) {
        if let Some(steps) = self.next_steps() {
            self.broken = steps;
        }
    }

    /// Halves the gap between good and bad steps, or returns `None` if they are adjacent.
    const fn next_steps(&self) -> Option<u64> {
        match (self.kept, self.broken) {
            (0, broken) if broken <= FIRST => None,
            (0, _) => Some(FIRST),
            (kept, broken) if broken - kept <= 1 => None,
            (kept, broken) => Some(kept + (broken - kept) / 2),
        }
    }

    const fn steps_to_load(&self, steps: u64) -> u64 {
        (self.max_per_s as u128 * steps as u128 / STEPS as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the heaviest good load and the number of tries.
    fn searched(max: u64, keeps: impl Fn(u64) -> bool) -> (Option<u64>, usize) {
        let mut search = BoundSearch::new(max);
        let (mut best, mut tried) = (None, 0);
        while let Some(load) = search.next() {
            tried += 1;
            assert!(tried < 100 && load <= max);
            if keeps(load) {
                search.note_kept();
            } else {
                search.note_broken();
            }
            best = if keeps(load) { best.max(Some(load)) } else { best };
        }
        (best, tried)
    }

    #[test]
    fn every_load_is_found_within_a_step_and_in_fewer_points_than_a_curve_has() {
        for most in 100..=1_000 {
            let (best, tried) = searched(1_000, |load| load <= most);
            let best = best.unwrap();
            assert!(best <= most && most - best < 25 && tried <= 7, "{most}: {best}, {tried}");
        }
    }

    #[test]
    fn a_bound_that_is_never_kept_takes_one_load_point() {
        assert_eq!(searched(1_000, |_| false), (None, 1));
        assert_eq!(searched(1_000, |_| true), (Some(1_000), 7));
        assert_eq!(searched(40, |load| load < 9).0, Some(8));
    }
}
