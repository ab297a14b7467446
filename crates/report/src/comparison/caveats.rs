//! Determines how caveats restrict the comparison of two rows.
//!
//! [`Reservations`] is the main type. Two kinds of caveats restrict a verdict. Some mean that
//! the trials are not independent samples around one median, so only a large difference counts, see
//! [`Comparison::is_doubted`]. Others mean that a side measured something other than the target,
//! such as a cache, so that side cannot come out ahead. Rows with an invalid caveat never get here.

use model::CaveatCode;
use stats::{Comparison, ExcludedOutcomes};

use super::Measure;
use crate::humanize;

/// Caveats of trials that vary, change together, or were slowed down by something else.
const DOUBTS: [CaveatCode; 10] = [
    CaveatCode::ProcessorContention,
    CaveatCode::NotSteady,
    CaveatCode::Burst,
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
    /// For each side, the caveat that its results are better than what the target can do.
    pub flattered: [Option<CaveatCode>; 2],
}

impl Reservations {
    /// Collects the restrictions from the caveats of both sides.
    pub(crate) fn new(before: &[CaveatCode], after: &[CaveatCode]) -> Self {
        let doubts: Vec<_> = DOUBTS
            .into_iter()
            .filter(|code| before.contains(code) || after.contains(code))
            .collect();
        Self { doubts, flattered: [flattered(before, after), flattered(after, before)] }
    }

    /// Applies the restrictions to the comparison of one measure.
    pub(crate) fn apply(&self, measure: Measure, comparison: &mut Comparison) {
        comparison.is_doubted = !self.doubts.is_empty();
        let [before, after] = self.flattered.map(|code| code.is_some());
        comparison.barred = if measure.is_gain() {
            ExcludedOutcomes { higher: after, lower: before }
        } else {
            ExcludedOutcomes { higher: before, lower: after }
        };
    }

    /// Returns true if the second side may only be as fast as the first because it did not measure
    /// the target.
    pub(crate) const fn flatters_after(&self) -> bool {
        self.flattered[1].is_some() && self.flattered[0].is_none()
    }

    /// Describes what prevents a verdict, as part of a sentence; `None` if nothing does.
    pub(crate) fn reason(&self) -> Option<String> {
        let mut parts = Vec::new();
        let names = ["before", "after"];
        for (code, name) in self.flattered.iter().zip(names) {
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
        match self.flattered.iter().flatten().next() {
            Some(CaveatCode::Localio) => {
                return Some("measure both sides with the same setting of LOCALIO (--localio)");
            }
            Some(_) => return Some("empty the caches before each trial (--invalidation)"),
            None => {}
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

/// Returns the caveat that a side's results are better than what the target can do.
fn flattered(own: &[CaveatCode], other: &[CaveatCode]) -> Option<CaveatCode> {
    for code in [CaveatCode::Cached, CaveatCode::NotEvicted, CaveatCode::MixedTrials] {
        if own.contains(&code) {
            return Some(code);
        }
    }
    // The server's memory is part of the server, and so are its files if both sides access them
    // without NFS.
    let shared = [CaveatCode::Localio, CaveatCode::ServerCached];
    shared.into_iter().find(|code| own.contains(code) && !other.contains(code))
}
