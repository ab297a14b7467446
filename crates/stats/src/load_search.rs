//! The search for the heaviest load that is still good.
//!
//! [`LoadSearch`] proposes the next load from the outcomes so far; it measures nothing and doesn't
//! judge. Loads are doubled as long as all goes well. Then the limit is narrowed down between the
//! heaviest good load and the lightest bad one. A load can be a number of clients, a rate, a share
//! of a rate, or a multiple of the load of a trace.

/// The loads of a search, and how close it gets to the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadRange {
    /// The load to start with, more than 0.
    pub first: f64,
    /// The lightest load to try if the first one is bad, more than 0.
    pub min: f64,
    /// The heaviest load to try.
    pub max: f64,
    /// The search ends when the lightest bad load is at most this far above the heaviest good one,
    /// in thousandths of the latter; 0 means that there is no load between them.
    pub accuracy_permille: u32,
    pub spacing: Spacing,
}

/// Which loads may be tried, and which one is in the middle of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    Whole,
    /// Numbers with three digits, so that people can read and type them. The middle is the
    /// geometric mean, which needs the fewest loads for a relative accuracy.
    ThreeDigits,
}

impl LoadRange {
    /// Creates the range of whole numbers from the first load, which is the lightest, to the
    /// maximum.
    pub fn whole(first: u32, max: u32) -> Self {
        let first = f64::from(first);
        Self { first, min: first, max: max.into(), accuracy_permille: 0, spacing: Spacing::Whole }
    }
}

/// A search for the limit of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadSearch {
    range: LoadRange,
    good: Option<f64>,
    bad: Option<f64>,
}

impl LoadSearch {
    /// Starts a search.
    pub fn new(range: LoadRange) -> Self {
        let round = |load| range.spacing.round(load);
        // A maximum that can't be tried would never be reached.
        let [first, min, max] = [range.first, range.min, range.max].map(round);
        let range = LoadRange { first, min, max: max.max(first), ..range };
        Self { range, good: None, bad: None }
    }

    /// Returns the heaviest good load so far.
    pub const fn heaviest_good(&self) -> Option<f64> {
        self.good
    }

    /// Returns the lightest bad load so far.
    pub const fn lightest_bad(&self) -> Option<f64> {
        self.bad
    }

    /// Returns the load to try next, or `None` if the search is finished.
    pub fn next(&self) -> Option<f64> {
        let LoadRange { first, min, max, spacing, .. } = self.range;
        match (self.good, self.bad) {
            (None, Some(bad)) if bad <= first => {
                let lighter = bad / 2.0;
                (lighter >= min).then(|| spacing.round(lighter))
            }
            (None, _) => Some(first),
            (Some(good), None) => (good < max).then(|| spacing.round(good * 2.0).min(max)),
            (Some(good), Some(bad)) => self.between(good, bad),
        }
    }

    /// Returns the load in the middle of a good and a bad one, or `None` if they are close enough.
    fn between(&self, good: f64, bad: f64) -> Option<f64> {
        let accuracy = f64::from(1_000 + self.range.accuracy_permille);
        if bad * 1_000.0 <= good * accuracy {
            return None;
        }
        let middle = self.range.spacing.middle(good, bad);
        (middle > good && middle < bad).then_some(middle)
    }

    /// Records that a load is good. If it was bad before, the load was not the cause.
    pub fn note_good(&mut self, load: f64) {
        self.good = Some(load);
        self.bad = self.bad.filter(|bad| *bad > load);
    }

    /// Records that a load is bad. A search between two known loads starts with noting both.
    pub const fn note_bad(&mut self, load: f64) {
        self.bad = Some(load);
    }
}

impl Spacing {
    fn middle(self, good: f64, bad: f64) -> f64 {
        match self {
            Self::Whole => f64::midpoint(good, bad).floor(),
            Self::ThreeDigits => self.round((good * bad).sqrt()),
        }
    }

    fn round(self, load: f64) -> f64 {
        let mut scale = 1.0;
        if self == Self::ThreeDigits {
            // A logarithm would be shorter, but its last digit differs between systems.
            while load * scale < 100.0 {
                scale *= 10.0;
            }
        }
        (load * scale).round() / scale
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches a system that is good below a limit. Returns the search and the loads tried.
    fn searched(range: LoadRange, limit: f64) -> (LoadSearch, Vec<f64>) {
        let mut search = LoadSearch::new(range);
        let mut tried = Vec::new();
        while let Some(load) = search.next() {
            tried.push(load);
            assert!(tried.len() < 100, "{tried:?}");
            if load < limit {
                search.note_good(load);
            } else {
                search.note_bad(load);
            }
        }
        (search, tried)
    }

    fn multiples(max: f64) -> LoadRange {
        LoadRange {
            first: 1.0,
            min: 1.0 / 64.0,
            max,
            accuracy_permille: 100,
            spacing: Spacing::ThreeDigits,
        }
    }

    #[test]
    fn doubles_then_bisects() {
        let (search, tried) = searched(LoadRange::whole(1, 50), 20.0);
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 24.0, 20.0, 18.0, 19.0]);
        assert_eq!((search.heaviest_good(), search.lightest_bad()), (Some(19.0), Some(20.0)));
        let (_, tried) = searched(LoadRange::whole(3, 50), f64::INFINITY);
        assert_eq!(tried, [3.0, 6.0, 12.0, 24.0, 48.0, 50.0]);
        assert_eq!(searched(LoadRange::whole(3, 50), 0.0).1, [3.0]);
    }

    #[test]
    fn finds_multiples_within_a_tenth() {
        let (_, tried) = searched(multiples(1000.0), 5.3);
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 5.66, 4.76, 5.19]);
        let (_, tried) = searched(multiples(1000.0), 0.3);
        assert_eq!(tried, [1.0, 0.5, 0.25, 0.354, 0.297, 0.324]);
        let (_, tried) = searched(multiples(10.0), f64::INFINITY);
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 10.0]);
        let (dead, tried) = searched(multiples(10.0), 0.0);
        assert_eq!((dead.heaviest_good(), tried.last()), (None, Some(&0.0157)));
    }

    #[test]
    fn ends_at_maximum_with_more_digits() {
        let (search, tried) = searched(multiples(8.1234), f64::INFINITY);
        assert_eq!((search.heaviest_good(), tried.len()), (Some(8.12), 5));
    }

    #[test]
    fn good_load_clears_earlier_break() {
        let mut search = LoadSearch::new(LoadRange::whole(1, 64));
        search.note_good(15.0);
        search.note_bad(16.0);
        assert_eq!(search.next(), None);
        search.note_good(16.0);
        assert_eq!((search.lightest_bad(), search.next()), (None, Some(32.0)));
    }

    proptest! {
        #[test]
        fn finds_every_limit(
            (first, max) in (1_u32..1_000, 1_u32..1_000_000),
            limit in 0.01..2_000_000.0_f64,
            accuracy_permille in 0_u32..200,
            is_whole: bool,
        ) {
            let range = LoadRange { accuracy_permille, ..LoadRange::whole(first, max) };
            let range = if is_whole {
                range
            } else {
                // Speeds of a replay are 0.001 to 1000 times that of the trace.
                let [first, max] = [first, max].map(|load| f64::from(load) / 1_000.0);
                let min = first / 64.0;
                LoadRange { first, min, max, spacing: Spacing::ThreeDigits, ..range }
            };
            let limit = if is_whole { limit } else { limit / 1_000.0 };
            let (search, tried) = searched(range, limit);
            let max = search.range.max;
            prop_assert!(tried.iter().all(|load| (search.range.min..=max).contains(load)));
            let mut distinct = tried.clone();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            prop_assert_eq!(distinct.len(), tried.len());
            prop_assert!(search.heaviest_good().is_none_or(|good| good < limit));
            prop_assert!(search.lightest_bad().is_none_or(|bad| bad >= limit));
            match (search.heaviest_good(), search.lightest_bad()) {
                (Some(good), None) => prop_assert_eq!(good, max),
                (None, Some(bad)) => prop_assert!(bad / 2.0 < search.range.min),
                (Some(good), Some(bad)) => {
                    let gap = (bad - good) * 1_000.0 / good;
                    let is_adjacent = search.range.spacing.middle(good, bad) <= good
                        || search.range.spacing.middle(good, bad) >= bad;
                    prop_assert!(is_adjacent || gap <= f64::from(accuracy_permille) + 1e-6);
                }
                (None, None) => prop_assert!(false, "nothing was tried"),
            }
        }
    }
}
