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
        let mut counts: BTreeMap<CaveatCode, (usize, &'static str)> = BTreeMap::new();
        for row in &sheet.rows {
            for caveat in &row.judged.caveats {
                if caveat.code.severity() >= Severity::Degraded
                    && let Some(flag) = caveat.code.flag_for(&row.run.spec, row.judged.pass)
                {
                    counts.entry(caveat.code).or_insert((0, flag)).0 += 1;
                }
            }
        }
        let mut largest = None;
        for (caveat, (count, flag)) in counts {
            // Of equally frequent ones the first in the order of codes, which is that of weight.
            if largest.is_none_or(|(_, known, _)| count > known) {
                largest = Some((caveat, count, flag));
            }
        }
        if let Some((caveat, count, flag)) = largest {
            return Self::Settle { flag, caveat, results: [count, sheet.rows.len()] };
        }
        if sheet.columns.is_empty() { Self::Explore } else { Self::View }
    }
}
