//! The answer: what was measured in each pass, what differs, and how far to trust it.
//!
//! [`answer`] is the entry point. A ratio is stated only if the 95 % intervals of two results do
//! not overlap; if they do, there is no measurable difference. Results with fewer than three
//! trials, invalid results, and results that differ in more than one setting are not compared at
//! all. Caveats that qualify a comparison are named next to it.

mod cache;
mod caveats;
mod commits;
mod compare;
mod findings;
mod frames;
mod group;
mod lead;
mod qualifiers;
mod ranks;
mod relation;
mod tools;
mod training;
mod trend;

use crate::campaign::notes::io500;
use crate::factor_effects::FactorEffects;
use crate::table::Sheet;
pub(crate) use cache::hit_share;
pub(crate) use caveats::count_codes;
use findings::Finding;
use group::Group;

/// The findings of a campaign, in plain sentences without markup.
pub(crate) struct CampaignAnswer {
    /// Main sentences: times of checkpoints and loads, use of accelerators, commits, streams in
    /// time, the highest rates, the largest difference, and how far to trust both.
    pub lead: Vec<String>,
    /// One entry for each kind of pass with a usable result.
    pub passes: Vec<PassFindings>,
    /// Sentences that apply to all passes; at most three.
    pub remarks: Vec<String>,
}

/// The findings in one kind of pass.
pub(crate) struct PassFindings {
    /// Name of the pass, such as `stream read`.
    pub pass: String,
    /// Results, such as `nfs 6478 MB/s; dir 1819 (posix), 2020 MB/s (uring)`.
    pub figures: String,
    /// The difference found and its qualifications; `None` if there is only one result.
    pub finding: Option<String>,
}

/// Counts the results without caveats and names the caveats of the others.
pub(crate) fn trust(sheet: &Sheet<'_>) -> Option<String> {
    caveats::remark(sheet)
}

/// Summarizes the results. `effects` must have been computed from `sheet`.
pub(crate) fn answer(sheet: &Sheet<'_>, effects: &FactorEffects) -> CampaignAnswer {
    let groups = Group::all(sheet);
    let mut findings: Vec<Option<Finding>> = Vec::with_capacity(groups.len());
    for group in &groups {
        let factors = effects.passes.iter().find(|pass| pass.name == group.name);
        findings.push(compare::finding(group, factors));
    }
    let mut has_finding = false;
    let mut by_intervals = false;
    for finding in findings.iter().flatten() {
        has_finding = true;
        by_intervals |= finding.by_intervals;
    }
    let mut remarks = Vec::new();
    if !groups.is_empty() && !has_finding {
        remarks.push("Nothing to compare: no test has two results.".to_owned());
    } else if by_intervals {
        remarks.push(
            "Ratios are given only if the 95 % intervals don't overlap; otherwise there is no \
             measurable difference."
                .to_owned(),
        );
    }
    remarks.extend(qualifiers::remark(&groups));
    // What users of checkpoints, accelerators, databases, streams and tools ask for comes before
    // rates.
    let mut lead = ranks::headlines(sheet);
    lead.extend(frames::headlines(sheet));
    lead.extend(cache::headlines(sheet));
    lead.extend(commits::headlines(sheet));
    lead.extend(tools::headlines(sheet));
    lead.extend(io500::headlines(sheet));
    lead.extend(training::headlines(sheet));
    lead.extend(lead::lead(sheet, effects, &groups, &findings));
    let mut passes = Vec::with_capacity(groups.len());
    for (group, finding) in groups.iter().zip(findings) {
        let finding = finding.map(|finding| qualifiers::with_notes(group, &finding.sentence));
        passes.push(PassFindings { pass: group.name.clone(), figures: group.figures(), finding });
    }
    CampaignAnswer { lead, passes, remarks }
}
