//! Compares two campaigns, or two selections of one, run by run.
//!
//! [`CampaignComparison::new`] matches rows that do the same work (see `rows`) and compares their
//! rates and times under the given [`ComparisonRules`]. [`CampaignComparison::render`] writes the
//! result. A row without a usable result or without a partner is always named, never silently left
//! out. If there is a bound, anything that could not be decided counts as not passed.

mod bars;
mod bisect;
mod caveats;
mod curves;
mod json;
mod junit;
pub(crate) mod loads;
mod measure;
mod rows;
mod sides;
mod table;
pub(crate) mod tools;
mod verdict;

use std::collections::{BTreeSet, HashSet};

use model::{Campaign, CaveatCode, Fact};
use stats::{criteria, holm};

use crate::Format;
use crate::document::terminal::Screen;
use crate::document::{self, Document, Form};

pub use bisect::{BisectJudgment, BisectMetric, BisectRequest};
pub(crate) use caveats::Reservations;
pub use curves::CurvePair;
pub use measure::{ComparedFigure, ComparisonBound, Measure};
pub use rows::is_same;
pub use sides::{ComparisonSide, Difference};

/// Part of a campaign on one side of a comparison.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    pub campaign: &'a Campaign,
    /// Settings its runs must have, as (name, displayed value), including `pass`.
    pub only: &'a [(String, String)],
}

/// Rules for what counts as a difference and what as a regression.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRules {
    /// Smallest effect that counts, as a share: 0.05 is 5 %.
    pub effect: f64,
    /// Adjust for the number of comparisons, see [`stats::holm`].
    pub adjust: bool,
    /// How much each measure may get worse.
    pub bounds: Vec<ComparisonBound>,
}

impl Default for ComparisonRules {
    fn default() -> Self {
        Self { effect: criteria::EFFECT_MIN, adjust: false, bounds: Vec::new() }
    }
}

impl ComparisonRules {
    fn bound(&self, measure: Measure) -> Option<f64> {
        let bound = self.bounds.iter().find(|bound| bound.measure == measure)?;
        Some(bound.share)
    }
}

/// Comparison of two selections.
pub struct CampaignComparison {
    /// Campaign on each side.
    pub sides: [ComparisonSide; 2],
    /// Settings and recorded facts that differ between the sides.
    pub differences: Vec<Difference>,
    /// Curves on both sides, if both campaigns measured curves. In that case, there are no rows.
    pub curves: Vec<CurvePair>,
    /// Rows on both sides, in the order of the first.
    pub pairs: Vec<RowPair>,
    /// Rows that could not be compared, with the reason.
    pub left_out: Vec<LeftOut>,
    pub rules: ComparisonRules,
    /// Command that compares the two without selections; the basis of commands in advice.
    pub command: String,
    /// True if one side was measured entirely before the other.
    were_apart: bool,
}

/// Row that exists on both sides.
pub struct RowPair {
    /// Target, workload, pass and factors.
    pub name: String,
    /// Compared measures, starting with the rate.
    pub figures: Vec<ComparedFigure>,
    /// Caveats of either side, each code once.
    pub caveats: Vec<CaveatCode>,
    /// Restrictions that these caveats put on the comparison.
    pub(crate) reservations: Reservations,
}

impl RowPair {
    /// What would decide a measure whose bound is undecided.
    fn remedy(&self, figure: &ComparedFigure) -> String {
        match (self.reservations.reason(), self.reservations.remedy()) {
            (Some(reason), Some(remedy)) => format!("{reason} (hint: {remedy})"),
            _ => figure.remedy(),
        }
    }
}

/// Row that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Target, workload, pass and factors.
    pub name: String,
    /// Reason, worded to fit into a sentence.
    pub why: String,
    /// True if it may hide a regression. New rows and combinations that were never possible do not.
    pub matters: bool,
    /// True if the other side has such a row, too.
    pub matched: bool,
    /// Settings in which this row differs from the nearest row of the other side, as `--where`
    /// arguments. Selecting by them makes the two a pair.
    pub pairing: Option<[String; 2]>,
}

impl CampaignComparison {
    /// Matches the rows and compares them.
    pub fn new(before: Selection<'_>, after: Selection<'_>, rules: ComparisonRules) -> Self {
        let sides = [before, after].map(ComparisonSide::from_selection);
        let differences = sides::differences([before, after]);
        let command = format!("dfsbench compare {} {}", before.campaign.id, after.campaign.id);
        let were_apart = were_apart(before.campaign, after.campaign);
        let mut pairs = Vec::new();
        let mut curves = Vec::new();
        let left_out;
        if let Some((drawn, others)) = curves::pair_curves([before, after], &rules) {
            curves = drawn;
            left_out = others;
        } else {
            (pairs, left_out) = rows::pair_rows([before, after], &rules);
        }
        if rules.adjust {
            adjust_probabilities(&mut pairs);
        }
        Self { sides, differences, curves, pairs, left_out, rules, command, were_apart }
    }

    /// Sets the name of the results file of each side.
    pub fn name_files(&mut self, files: [String; 2]) {
        for (side, file) in self.sides.iter_mut().zip(files) {
            side.file = Some(file);
        }
    }

    /// All compared measures with their rows.
    pub fn figures(&self) -> impl Iterator<Item = (&RowPair, &ComparedFigure)> {
        self.pairs.iter().flat_map(|pair| pair.figures.iter().map(move |figure| (pair, figure)))
    }

    /// Measures that certainly got worse by more than their bound.
    pub fn regressions(&self) -> impl Iterator<Item = (&RowPair, &ComparedFigure)> {
        self.figures().filter(|(_, figure)| figure.is_regression())
    }

    /// Returns true if a row or curve got worse by more than its bound.
    pub fn has_lost(&self) -> bool {
        let is_worse = |curve: &CurvePair| !curve.regressions().is_empty();
        self.regressions().next().is_some() || self.curves.iter().any(is_worse)
    }

    /// Returns true if there are bounds and the data cannot tell whether all of them are met.
    pub fn is_undecided(&self) -> bool {
        if self.rules.bounds.is_empty() {
            return false;
        }
        for curve in &self.curves {
            if curve.checks().iter().any(|check| check.is_undecidable) {
                return true;
            }
        }
        for pair in &self.pairs {
            let is_open = pair.figures.iter().any(ComparedFigure::is_undecidable);
            if is_open || !self.missing_measures(pair).is_empty() {
                return true;
            }
        }
        // Anything that could not be compared was not checked against its bound, whether a row or
        // the whole campaign.
        let has_none = self.pairs.is_empty() && self.curves.is_empty();
        has_none || self.left_out.iter().any(|row| row.matters)
    }

    /// Commands that would pair rows that differ in only a few settings, each once.
    pub fn pairing_commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        for row in &self.left_out {
            let Some(pairing) = &row.pairing else { continue };
            let mut command = self.command.clone();
            for (ComparisonSide { selected, .. }, own) in self.sides.iter().zip(pairing) {
                let comma = if selected.is_empty() { "" } else { "," };
                command =
                    format!("{command} --where {}", quote(&format!("{selected}{comma}{own}")));
            }
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    /// Measures that have a bound but are missing from a row.
    fn missing_measures(&self, pair: &RowPair) -> Vec<Measure> {
        self.rules
            .bounds
            .iter()
            .filter(|bound| !pair.figures.iter().any(|figure| figure.measure == bound.measure))
            .map(|bound| bound.measure)
            .collect()
    }

    pub(crate) fn document(&self, form: Form) -> Document {
        table::document(self, form)
    }

    /// Renders the comparison for a terminal. The text ends with a newline.
    pub fn render_screen(&self, screen: Screen) -> String {
        document::text::render(&table::document_for(self, Form::Text, screen), screen.columns())
    }

    /// Renders the comparison in one of the formats in [`Format::COMPARE`]. The text ends with a
    /// newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::render(self),
            Format::Junit => junit::render(self),
            _ => self.document(format.form()).render(format.form()),
        }
    }
}

/// Returns true if all trials of one campaign started before those of the other. In that case,
/// anything that changed on the machines in between looks like a difference.
fn were_apart(before: &Campaign, after: &Campaign) -> bool {
    let starts = |campaign: &Campaign| {
        let trials = campaign.runs.iter().flat_map(|run| &run.trials);
        let starts: Vec<u64> = trials.map(|trial| trial.started_unix_ms).collect();
        Some((*starts.iter().min()?, *starts.iter().max()?))
    };
    match (starts(before), starts(after)) {
        (Some(one), Some(other)) => one.1 < other.0 || other.1 < one.0,
        _ => false,
    }
}

/// Formats settings as an argument of `--where`: `nfsvers=3,proto=tcp`.
fn format_where(settings: &[(String, String)]) -> String {
    let values: Vec<_> =
        settings.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', ""))).collect();
    values.join(",")
}

/// Quotes a shell argument if necessary.
fn quote(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "=,._-/:+%".contains(letter);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

/// Adjusts the probabilities for the number of comparisons.
fn adjust_probabilities(pairs: &mut [RowPair]) {
    let mut probabilities = Vec::new();
    for pair in &*pairs {
        probabilities.extend(pair.figures.iter().map(|figure| figure.comparison.probability));
    }
    let family = probabilities.len();
    // Holm's procedure needs all of them at once and keeps their order.
    let mut adjusted = holm(&probabilities).into_iter();
    for pair in pairs {
        for figure in &mut pair.figures {
            figure.comparison.family = family;
            figure.comparison.adjusted = adjusted.next().expect("one for each pair");
        }
    }
}

/// Names of all settings of a campaign's runs, including `pass`.
pub fn setting_names(campaign: &Campaign) -> Vec<&'static str> {
    let names: BTreeSet<_> =
        rows::all_settings(campaign).into_iter().map(|(name, _)| name).collect();
    names.into_iter().collect()
}

/// Distinct values of a label (`label.dram`) of a campaign's hosts; empty if no host has it. A
/// campaign has one plan, so its labels apply to all of its runs.
pub fn label_values(campaign: &Campaign, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    for fact in list_labels(campaign) {
        if fact.name == name && !values.contains(&fact.value) {
            values.push(fact.value.clone());
        }
    }
    values
}

/// Labels of a campaign's hosts, such as `label.dram`.
pub fn label_names(campaign: &Campaign) -> Vec<String> {
    let names: BTreeSet<_> = list_labels(campaign).map(|fact| fact.name.clone()).collect();
    names.into_iter().collect()
}

fn list_labels(campaign: &Campaign) -> impl Iterator<Item = &Fact> {
    let trials = campaign.runs.iter().flat_map(|run| &run.trials);
    let of_trials = trials.flat_map(|trial| &trial.facts);
    campaign.facts.iter().chain(of_trials).filter(|fact| fact.name.starts_with("label."))
}

/// Values of a setting in a campaign, as displayed in tables, in order of appearance.
pub fn setting_values(campaign: &Campaign, name: &str) -> Vec<String> {
    let mut known = HashSet::new();
    let mut values = Vec::new();
    for (setting, value) in rows::all_settings(campaign) {
        if setting == name && known.insert(value.clone()) {
            values.push(value);
        }
    }
    values
}
