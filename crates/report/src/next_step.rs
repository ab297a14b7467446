//! The step that fits a campaign: finish it, settle its largest caveat, or look at its page.
//!
//! [`NextStep`] is the principal type. It is computed from the stored campaign, so that `run` and
//! `report` suggest the same.

use std::collections::BTreeMap;

use model::{Campaign, CampaignState, CaveatCode, Severity};

use crate::sheet::Sheet;

/// A suggestion for what to do after a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Make the runs that are missing.
    Resume,
    /// Repeat it with a flag that settles its most frequent caveat.
    Settle {
        /// The flag with its value.
        flag: &'static str,
        /// The caveat that it settles.
        caveat: CaveatCode,
        /// Results that have the caveat, and all results.
        results: [usize; 2],
    },
    /// Open the page: it has pictures of the factors.
    View,
    /// Measure something of the user's own.
    Explore,
}

impl NextStep {
    /// Chooses the step for a campaign.
    pub fn of(campaign: &Campaign) -> Self {
        if campaign.state != CampaignState::Complete {
            return Self::Resume;
        }
        let sheet = Sheet::of(campaign);
        let mut counts: BTreeMap<CaveatCode, usize> = BTreeMap::new();
        let mut has_timed = false;
        for row in &sheet.rows {
            has_timed |= row.judged.pass.is_timed();
            for caveat in &row.judged.caveats {
                let has_flag = flag(caveat.code, false).is_some();
                if caveat.code.severity() >= Severity::Degraded && has_flag {
                    *counts.entry(caveat.code).or_default() += 1;
                }
            }
        }
        let mut largest: Option<(CaveatCode, usize)> = None;
        for (code, count) in counts {
            // Of equally frequent ones the first in the order of codes, which is that of weight.
            if largest.is_none_or(|(_, known)| count > known) {
                largest = Some((code, count));
            }
        }
        if let Some((caveat, count)) = largest
            && let Some(flag) = flag(caveat, has_timed)
        {
            return Self::Settle { flag, caveat, results: [count, sheet.rows.len()] };
        }
        if sheet.columns.is_empty() { Self::Explore } else { Self::View }
    }
}

/// The flag of `dfsbench run` that settles a caveat; `None` where none does. Time or the size of the
/// files ends a pass, so that decides what makes it longer.
const fn flag(code: CaveatCode, is_timed: bool) -> Option<&'static str> {
    match code {
        CaveatCode::TooFewTrials => Some("--trials 5"),
        CaveatCode::WideInterval | CaveatCode::Outlier => Some("--trials 10"),
        CaveatCode::TooShort if is_timed => Some("--duration 30s"),
        CaveatCode::TooShort => Some("--file-size 1GiB"),
        CaveatCode::NotSteady => Some("--warmup 10s --duration 60s"),
        CaveatCode::Unsynchronised | CaveatCode::MixShares => Some("--duration 60s"),
        CaveatCode::Cached => Some("--direct true"),
        CaveatCode::MixedTrials => Some("--discard cached"),
        CaveatCode::Compressible => Some("--data random"),
        CaveatCode::BackendFallback => Some("--backend posix"),
        CaveatCode::SlotsLimited => Some("--nconnect 2"),
        CaveatCode::Retransmits => Some("--proto tcp"),
        _ => None,
    }
}
