//! Suggests the next step for a campaign: finish it, fix a failure, settle the most frequent
//! caveat, or open its page.
//!
//! [`NextStep`] is the main type. It is computed from the stored campaign, so `run` and
//! `report` suggest the same step. If nothing fits, nothing is suggested.

use std::collections::BTreeMap;

use model::units::parse_time_ns;
use model::{Campaign, CampaignState, CaveatCode, Question, Severity, Target, TrialState, Verdict};

use super::answer::count_codes;
use crate::table::{Row, Sheet};

/// Suggested next step after a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Finish the missing runs.
    Resume,
    /// Start again, because an interrupted search cannot be resumed.
    Repeat,
    /// Repeat with a flag that settles the most frequent caveat.
    Settle {
        /// Flag with its value.
        flag: String,
        /// Caveat that the flag settles.
        caveat: CaveatCode,
        /// Number of results in which the flag settles the caveat.
        settled: usize,
        /// Number of results with the caveat.
        having: usize,
    },
    /// Open the page, which has pictures of the factors.
    View,
    /// Measure something of the user's own, since only built-in targets were measured so far.
    Explore,
    /// Follow the hint given for the failed trials.
    Repair(String),
    /// Probe the server at this address to see what it offers.
    Probe(String),
}

/// Name of the campaign that runs if no command is given.
const QUICK: &str = "quick";

impl NextStep {
    /// Chooses the step for a campaign; `None` if nothing fits.
    pub fn from_campaign(campaign: &Campaign) -> Option<Self> {
        // A durability test has no runs to advise on.
        if campaign.question == Question::Durability {
            return Some(Self::View);
        }
        match campaign.state {
            CampaignState::Complete => {}
            // `resume` refuses a campaign that another process is still running.
            CampaignState::Running => return Some(Self::View),
            CampaignState::Interrupted if campaign.question.is_search() => {
                return Some(Self::Repeat);
            }
            CampaignState::Interrupted => return Some(Self::Resume),
        }
        let sheet = Sheet::from_campaign(campaign);
        let has_figures = sheet.rows.iter().any(|row| row.judged.trials_used > 0);
        // Curves, ladders, ramps and soaks choose trials and times by their own rules, and their
        // answers already recommend flags. The page has the pictures.
        if campaign.question != Question::Figures && has_figures {
            return Some(Self::View);
        }
        if sheet.rows.iter().any(has_failed) {
            // After a failure, neither the page nor another target would help.
            let settle = || Self::settle(campaign, &sheet);
            return Self::after_failure(campaign).or_else(settle);
        }
        if let Some(settle) = Self::settle(campaign, &sheet) {
            return Some(settle);
        }
        let has_own = campaign.runs.iter().any(|run| run.spec.target.outlives_process());
        let is_ours = !has_own || campaign.name == QUICK;
        Some(if is_ours && sheet.columns.is_empty() { Self::Explore } else { Self::View })
    }

    /// Chooses a step that removes the cause of the first failure with a known cause.
    fn after_failure(campaign: &Campaign) -> Option<Self> {
        let mut probe = None;
        for run in &campaign.runs {
            for trial in &run.trials {
                let TrialState::Failed(reason) = &trial.state else { continue };
                if let Some(hint) = hint_of(reason) {
                    return Some(Self::Repair(hint.to_owned()));
                }
                if let Target::Nfs(nfs) = &run.spec.target
                    && !nfs.embedded
                {
                    probe.get_or_insert_with(|| Self::Probe(nfs.to_string()));
                }
            }
        }
        probe
    }

    fn settle(campaign: &Campaign, sheet: &Sheet<'_>) -> Option<Self> {
        let (caveat, remedy) = most_frequent(sheet)?;
        let flag = remedy.flag(campaign);
        let having = count_having(sheet, caveat);
        Some(Self::Settle { flag, caveat, settled: remedy.results, having })
    }
}

/// Returns true if a row has no result or an invalid one. Combinations ruled out by the protocols
/// do not count, since they were never tried.
fn has_failed(row: &Row<'_>) -> bool {
    let is_unusable = row.judged.trials_used == 0 || row.judged.verdict == Verdict::Invalid;
    is_unusable && row.run.spec.impossible().is_none()
}

/// Extracts the hint from a reason: `fewer --files` from `no space (hint: fewer --files)`.
fn hint_of(reason: &str) -> Option<&str> {
    let (_, rest) = reason.split_once("(hint: ")?;
    let mut depth = 1;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            // Hints that ask a question or warn of data loss are not steps.
            let is_step = |hint: &&str| !hint.contains(" may be ") && !hint.ends_with('?');
            return Some(&rest[..at]).filter(is_step);
        }
    }
    None
}

/// Way to settle a caveat in some results.
struct Remedy {
    /// Number of results whose caveat it settles.
    results: usize,
    means: RemedyKind,
}

#[derive(Clone, Copy)]
enum RemedyKind {
    /// Another value of a setting.
    Flag(&'static str),
    /// More trials.
    Trials {
        /// Number of trials that the most demanding result needs.
        needed: u32,
        /// Same, as a multiple of the trials that result has.
        times: f64,
    },
}

impl Remedy {
    /// Formats the remedy as flags of `dfsbench run`.
    fn flag(&self, campaign: &Campaign) -> String {
        match self.means {
            RemedyKind::Flag(flag) => flag.to_owned(),
            // A campaign stops when its budget is spent, so that must grow with the trials.
            RemedyKind::Trials { needed, times } => match budget_ns(campaign) {
                None => format!("--trials {needed}"),
                Some(budget_ns) => {
                    let minutes = (budget_ns as f64 / 60e9 * times).ceil();
                    format!("--trials {needed} --budget {minutes}m")
                }
            },
        }
    }
}

/// Returns the most frequent caveat that a flag can settle.
///
/// Notes do not count, since they only explain a result, and no flag helps against faults of the
/// target or other programs on the machine.
fn most_frequent(sheet: &Sheet<'_>) -> Option<(CaveatCode, Remedy)> {
    // By flag as well, since results of another workload need another one.
    let mut remedies: BTreeMap<(CaveatCode, &str), Remedy> = BTreeMap::new();
    for row in &sheet.rows {
        for caveat in &row.judged.caveats {
            if caveat.severity < Severity::Degraded {
                continue;
            }
            let Some(means) = remedy_for(row, caveat.code) else { continue };
            let flag = match means {
                RemedyKind::Flag(flag) => flag,
                RemedyKind::Trials { .. } => "",
            };
            let remedy = remedies.entry((caveat.code, flag));
            let remedy = remedy.or_insert(Remedy { results: 0, means });
            remedy.results += 1;
            if let (RemedyKind::Trials { needed: known, .. }, RemedyKind::Trials { needed, .. }) =
                (remedy.means, means)
                && needed > known
            {
                remedy.means = means;
            }
        }
    }
    let mut largest: Option<(CaveatCode, Remedy)> = None;
    for ((caveat, _), remedy) in remedies {
        // Ties go to the first code, because codes are ordered by importance.
        if largest.as_ref().is_none_or(|(_, known)| remedy.results > known.results) {
            largest = Some((caveat, remedy));
        }
    }
    largest
}

/// Counts the results that are degraded or invalid because of a caveat.
fn count_having(sheet: &Sheet<'_>, code: CaveatCode) -> usize {
    let rows: Vec<&Row<'_>> = sheet.rows.iter().collect();
    for (name, count) in count_codes(&rows, Severity::Degraded) {
        if name == code.code() {
            return count;
        }
    }
    0
}

/// Returns the remedy for a caveat of a row; `None` if the run accepts no flag that would help.
fn remedy_for(row: &Row<'_>, caveat: CaveatCode) -> Option<RemedyKind> {
    if caveat.needs_trials() {
        let needed = row.judged.trials_to_settle(caveat)?;
        let times = f64::from(needed) / f64::from(row.judged.trials_made.max(1));
        return Some(RemedyKind::Trials { needed, times });
    }
    caveat.flag_for(&row.run.spec, row.judged.pass).map(RemedyKind::Flag)
}

/// Reads the budget from the top-level keys of a campaign's plan; `None` if it has none.
fn budget_ns(campaign: &Campaign) -> Option<u64> {
    for line in campaign.plan_toml.lines() {
        if line.starts_with('[') {
            break;
        }
        if let Some(value) = line.strip_prefix("budget = ") {
            return parse_time_ns(value.trim_matches('"')).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::hint_of;

    #[test]
    fn finds_hint_of_reason() {
        assert_eq!(hint_of("no space (hint: fewer --files)"), Some("fewer --files"));
        let nested = "host a: no (really) (hint: try 0 (all) or 1); give up (hint: other)";
        assert_eq!(hint_of(nested), Some("try 0 (all) or 1"));
        assert_eq!(hint_of("close: no space (hint: what was written may be lost)"), None);
        assert_eq!(hint_of("refused (hint: is the server running?)"), None);
        assert_eq!(hint_of("exit code 7: broken"), None);
        assert_eq!(hint_of("cut (hint: in the mid"), None);
    }
}
