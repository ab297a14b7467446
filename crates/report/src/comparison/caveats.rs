//! Determines how caveats restrict the comparison of two rows.
//!
//! [`Reservations`] is the main type. Two kinds of caveats restrict a verdict. Some mean that
//! the trials are not independent samples around one median, so only a large difference counts, see
//! [`Comparison::is_doubted`]. Others mean that a side measured a cache instead of the target, so
//! that side cannot come out ahead. Rows with an invalid caveat never get here.

use model::CaveatCode;
use stats::{Comparison, ExcludedOutcomes};

use super::Measure;
use crate::humanize;

/// Caveats of trials that vary, change together, or were slowed down by something else.
const DOUBTS: [CaveatCode; 9] = [
    CaveatCode::ProcessorContention,
    CaveatCode::NotSteady,
    CaveatCode::TooFewTrials,
    CaveatCode::WideInterval,
    CaveatCode::MixedTrials,
    CaveatCode::Outlier,
    CaveatCode::Drift,
    CaveatCode::TrialsInteract,
    CaveatCode::NotQuiet,
];

/// Restrictions that caveats put on the comparison of a pair of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    /// Caveats of either side that make intervals and rank tests unreliable.
    pub doubts: Vec<CaveatCode>,
    /// For each side, the caveat that its results come from a cache.
    pub cached: [Option<CaveatCode>; 2],
}

impl Reservations {
    /// Collects the restrictions from the caveats of both sides.
    pub(crate) fn new(before: &[CaveatCode], after: &[CaveatCode]) -> Self {
        let doubts: Vec<_> = DOUBTS
            .into_iter()
            .filter(|code| before.contains(code) || after.contains(code))
            .collect();
        Self { doubts, cached: [cached(before, after), cached(after, before)] }
    }

    /// Applies the restrictions to the comparison of one measure.
    pub(crate) fn apply(&self, measure: Measure, comparison: &mut Comparison) {
        comparison.is_doubted = !self.doubts.is_empty();
        let [before, after] = self.cached.map(|code| code.is_some());
        comparison.barred = if measure.is_gain() {
            ExcludedOutcomes { higher: after, lower: before }
        } else {
            ExcludedOutcomes { higher: before, lower: after }
        };
    }

    /// Returns true if the second side may only be as fast as the first because of a cache.
    pub(crate) const fn flatters_after(&self) -> bool {
        self.cached[1].is_some() && self.cached[0].is_none()
    }

    /// Describes what prevents a verdict, as part of a sentence; `None` if nothing does.
    pub(crate) fn reason(&self) -> Option<String> {
        let mut parts = Vec::new();
        let names = ["before", "after"];
        for (code, name) in self.cached.iter().zip(names) {
            if let Some(code) = code {
                parts.push(format!(
                    "the results {name} are `{code}`, so they can't count as better"
                ));
            }
        }
        if !self.doubts.is_empty() {
            let codes: Vec<String> = self.doubts.iter().map(|code| format!("`{code}`")).collect();
            parts.push(format!(
                "with {}, the difference must exceed the width of both intervals",
                humanize::listed(&codes)
            ));
        }
        if parts.is_empty() { None } else { Some(parts.join("; ")) }
    }

    /// Describes what would help beyond more trials; `None` if more trials are enough.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        if self.cached.iter().any(Option::is_some) {
            return Some("empty the caches before each trial (--invalidation)");
        }
        if self.doubts.is_empty() {
            return None;
        }
        Some(
            "measure both sides in one campaign, where trials alternate, on a quiet machine and \
             with longer trials",
        )
    }
}

/// Returns the caveat that a side's results come from a cache.
fn cached(own: &[CaveatCode], other: &[CaveatCode]) -> Option<CaveatCode> {
    for code in [CaveatCode::Cached, CaveatCode::MixedTrials] {
        if own.contains(&code) {
            return Some(code);
        }
    }
    // The server's memory is part of the server, so this does not matter if both sides use it.
    let code = CaveatCode::ServerCached;
    if own.contains(&code) && !other.contains(&code) { Some(code) } else { None }
}
