//! The one step that fits a campaign: finish it, remove what failed, settle its largest caveat, or
//! look at its page.
//!
//! [`NextStep`] is the principal type. It is computed from the stored campaign, so that `run` and
//! `report` suggest the same. If no step fits, none is suggested.

use std::collections::BTreeMap;

use model::units::parse_time_ns;
use model::{Campaign, CampaignState, CaveatCode, Question, Severity, Target, TrialState, Verdict};

use super::answer::count_codes;
use crate::table::{Row, Sheet};

/// A suggestion for what to do after a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Make the runs that are missing.
    Resume,
    /// Start again: a search that was stopped cannot be continued.
    Repeat,
    /// Repeat it with a flag that settles its most frequent caveat.
    Settle {
        /// The flag with its value.
        flag: String,
        /// The caveat that it settles.
        caveat: CaveatCode,
        /// Results in which it settles the caveat.
        settled: usize,
        /// Results that have the caveat.
        having: usize,
    },
    /// Open the page: it has pictures of the factors.
    View,
    /// Measure something of the user's own: so far it was only what comes with dfsbench.
    Explore,
    /// Do what the reason of the failed trials advises.
    Repair(String),
    /// See what the server offers for which trials failed; with its address.
    Probe(String),
}

/// The name of the campaign that runs when no command is given.
const QUICK: &str = "quick";

impl NextStep {
    /// Chooses the step for a campaign; `None` if no step fits.
    pub fn from_campaign(campaign: &Campaign) -> Option<Self> {
        // What crashes left has no runs to advise on.
        if campaign.question == Question::Durability {
            return Some(Self::View);
        }
        match campaign.state {
            CampaignState::Complete => {}
            // `resume` refuses a campaign that a process is still making.
            CampaignState::Running => return Some(Self::View),
            CampaignState::Interrupted if campaign.question.is_search() => {
                return Some(Self::Repeat);
            }
            CampaignState::Interrupted => return Some(Self::Resume),
        }
        let sheet = Sheet::from_campaign(campaign);
        let has_figures = sheet.rows.iter().any(|row| row.judged.trials_used > 0);
        // A curve, ladder, ramp or soak chooses trials and times by rules of its own, and its
        // answer says which of its flags would help. Its page has the pictures.
        if campaign.question != Question::Figures && has_figures {
            return Some(Self::View);
        }
        if sheet.rows.iter().any(has_failed) {
            // A page or another target don't help against a failure.
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

    /// Chooses a step that removes the cause of the first failure that has a known one.
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

/// Returns true if a row has no figure, or one that must not be used. What the protocols rule out
/// was never tried.
fn has_failed(row: &Row<'_>) -> bool {
    let is_unusable = row.judged.trials_used == 0 || row.judged.verdict == Verdict::Invalid;
    is_unusable && row.run.spec.impossible().is_none()
}

/// Returns the step that a reason hints at: `no space (hint: fewer --files)` has `fewer --files`.
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
            // Some hints ask, or warn of what may be lost or left behind, and are no step.
            let is_step = |hint: &&str| !hint.contains(" may be ") && !hint.ends_with('?');
            return Some(&rest[..at]).filter(is_step);
        }
    }
    None
}

/// A way to settle a caveat in some results.
struct Remedy {
    /// The results that have the caveat and that it settles.
    results: usize,
    means: RemedyKind,
}

/// The kind of a remedy.
#[derive(Clone, Copy)]
enum RemedyKind {
    /// Another value of a setting.
    Flag(&'static str),
    /// More trials: as many as the result with the greatest need has to have, and how many times
    /// those are of what it has.
    Trials {
        /// The number of trials of each run.
        needed: u32,
        /// The same as a multiple of the trials made.
        times: f64,
    },
}

impl Remedy {
    /// Writes the remedy as flags of `dfsbench run`.
    fn flag(&self, campaign: &Campaign) -> String {
        match self.means {
            RemedyKind::Flag(flag) => flag.to_owned(),
            // Trials of a campaign with a budget end when that is spent, so it must grow, too.
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

/// Returns the most frequent caveat that a flag settles, with the flag.
///
/// Only caveats that take from a result count: notes say how to read it, and no flag helps
/// against a fault of the target or against other programs on the machine.
fn most_frequent(sheet: &Sheet<'_>) -> Option<(CaveatCode, Remedy)> {
    let mut remedies: BTreeMap<CaveatCode, Remedy> = BTreeMap::new();
    for row in &sheet.rows {
        for caveat in &row.judged.caveats {
            if caveat.severity < Severity::Degraded {
                continue;
            }
            let Some(means) = means_for(row, caveat.code) else { continue };
            let remedy = remedies.entry(caveat.code).or_insert(Remedy { results: 0, means });
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
    for (caveat, remedy) in remedies {
        // Of equally frequent ones the first in the order of codes, which is that of weight.
        if largest.as_ref().is_none_or(|(_, known)| remedy.results > known.results) {
            largest = Some((caveat, remedy));
        }
    }
    largest
}

/// Counts the results from which a caveat takes.
fn count_having(sheet: &Sheet<'_>, code: CaveatCode) -> usize {
    let rows: Vec<&Row<'_>> = sheet.rows.iter().collect();
    for (name, count) in count_codes(&rows, Severity::Degraded) {
        if name == code.code() {
            return count;
        }
    }
    0
}

/// Returns what settles a caveat of a row; `None` where nothing does that the run accepts.
fn means_for(row: &Row<'_>, caveat: CaveatCode) -> Option<RemedyKind> {
    if caveat.needs_trials() {
        let needed = row.judged.trials_to_settle(caveat)?;
        let times = f64::from(needed) / f64::from(row.judged.trials_made.max(1));
        return Some(RemedyKind::Trials { needed, times });
    }
    caveat.flag_for(&row.run.spec, row.judged.pass).map(RemedyKind::Flag)
}

/// Returns the budget of a campaign's plan, which stands at the head of it; `None` without one.
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
