//! The step that fits a campaign: finish it, settle its largest caveat, or look at its page.
//!
//! [`NextStep`] is the principal type. It is computed from the stored campaign, so that `run` and
//! `report` suggest the same.

use std::collections::BTreeMap;

use model::{Campaign, CampaignState, CaveatCode, Question, Severity};

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
        // A curve, ladder, ramp or soak chooses trials and times by rules of its own, and its
        // answer says which of its flags would help. Its page has the pictures.
        if campaign.question != Question::Figures {
            return Self::View;
        }
        // Only caveats that take from a result count: notes say how to read it, and no flag helps
        // against a fault of the target or against other programs on the machine.
        let sheet = Sheet::of(campaign);
        let mut counts: BTreeMap<CaveatCode, usize> = BTreeMap::new();
        let mut ended_by = EndedBy::Size;
        for row in &sheet.rows {
            if row.judged.pass.is_timed() {
                ended_by = EndedBy::Time;
            }
            for caveat in &row.judged.caveats {
                let has_flag = flag(caveat.code, EndedBy::Size).is_some();
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
            && let Some(flag) = flag(caveat, ended_by)
        {
            return Self::Settle { flag, caveat, results: [count, sheet.rows.len()] };
        }
        if sheet.columns.is_empty() { Self::Explore } else { Self::View }
    }
}

/// The limit that ends a pass, which decides what makes it longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    /// The pass ends when all files are done.
    Size,
    /// The pass ends when its time is over.
    Time,
}

/// The flag of `dfsbench run` that settles a caveat; `None` where none does.
const fn flag(code: CaveatCode, ended_by: EndedBy) -> Option<&'static str> {
    match code {
        CaveatCode::TooFewTrials => Some("--trials 5"),
        CaveatCode::WideInterval | CaveatCode::Outlier => Some("--trials 10"),
        CaveatCode::TooShort if matches!(ended_by, EndedBy::Time) => Some("--duration 30s"),
        CaveatCode::TooShort => Some("--file-size 1GiB"),
        CaveatCode::NotSteady => Some("--warmup 10s --duration 60s"),
        CaveatCode::Unsynchronised | CaveatCode::MixShares => Some("--duration 60s"),
        CaveatCode::Cached => Some("--direct"),
        CaveatCode::MixedTrials => Some("--discard cached"),
        CaveatCode::Compressible => Some("--data random"),
        CaveatCode::BackendFallback => Some("--backend posix"),
        CaveatCode::SlotsLimited => Some("--nconnect 2"),
        CaveatCode::Retransmits => Some("--proto tcp"),
        _ => None,
    }
}
