//! The step that fits a campaign: finish it, settle its largest caveat, or look at its page.
//!
//! [`NextStep`] is the principal type. It is computed from the stored campaign, so that `run` and
//! `report` suggest the same.

use std::collections::BTreeMap;

use model::units::parse_time_ns;
use model::{Campaign, CampaignState, CaveatCode, Question, Severity};

use crate::answer::count_codes;
use crate::sheet::{Row, Sheet};

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
    /// Measure something of the user's own.
    Explore,
    /// Remove what made every trial fail: the reasons stand in the table.
    Repair,
}

impl NextStep {
    /// Chooses the step for a campaign.
    pub fn of(campaign: &Campaign) -> Self {
        match campaign.state {
            CampaignState::Complete => {}
            // `resume` refuses a campaign that a process is still making.
            CampaignState::Running => return Self::View,
            CampaignState::Interrupted if campaign.question.is_search() => return Self::Repeat,
            CampaignState::Interrupted => return Self::Resume,
        }
        // A curve, ladder, ramp or soak chooses trials and times by rules of its own, and its
        // answer says which of its flags would help. Its page has the pictures.
        if campaign.question != Question::Figures {
            return Self::View;
        }
        let sheet = Sheet::of(campaign);
        if sheet.rows.iter().all(|row| row.judged.trials_used == 0) {
            return Self::Repair;
        }
        if let Some((caveat, remedy)) = most_frequent(&sheet) {
            let flag = remedy.flag(campaign);
            let having = count_having(&sheet, caveat);
            return Self::Settle { flag, caveat, settled: remedy.results, having };
        }
        if sheet.columns.is_empty() { Self::Explore } else { Self::View }
    }
}

/// A way to settle a caveat in some results.
struct Remedy {
    /// The results that have the caveat and that it settles.
    results: usize,
    means: Means,
}

/// The kind of a remedy.
#[derive(Clone, Copy)]
enum Means {
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
            Means::Flag(flag) => flag.to_owned(),
            // Trials of a campaign with a budget end when that is spent, so it must grow, too.
            Means::Trials { needed, times } => match budget_ns(campaign) {
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
            if let (Means::Trials { needed: known, .. }, Means::Trials { needed, .. }) =
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
fn means_for(row: &Row<'_>, caveat: CaveatCode) -> Option<Means> {
    if caveat.needs_trials() {
        let needed = row.judged.trials_to_settle(caveat)?;
        let times = f64::from(needed) / f64::from(row.judged.trials_made.max(1));
        return Some(Means::Trials { needed, times });
    }
    caveat.flag_for(&row.run.spec, row.judged.pass).map(Means::Flag)
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
