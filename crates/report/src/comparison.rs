//! Two campaigns, or two selections of one, laid side by side run by run.
//!
//! [`CampaignComparison::new`] matches rows that do the same work (see `rows`) and compares their
//! rates and times under some [`ComparisonRules`]. [`CampaignComparison::render`] writes it. A row
//! without a figure that counts, or without a partner, is named and never silently left out; where
//! a bound is given, what could not be decided is no pass.

mod bars;
mod caveats;
mod curves;
mod json;
mod junit;
mod measure;
mod rows;
mod sides;
mod table;
mod verdict;

use std::collections::{BTreeSet, HashSet};

use model::{Campaign, CaveatCode, Fact};
use stats::{criteria, holm};

use crate::Format;
use crate::document::terminal::Screen;
use crate::document::{self, Document, Form};

pub(crate) use caveats::Reservations;
pub use curves::CurvePair;
pub use measure::{Bound, ComparedFigure, Measure};
pub use rows::is_same;
pub use sides::{ComparisonSide, Difference};

/// The part of a campaign on one side of a comparison.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// The selected campaign.
    pub campaign: &'a Campaign,
    /// Settings that its runs must have, as (name, shown value); `pass` is one of them.
    pub only: &'a [(String, String)],
}

/// The rules for what counts as a difference, and as too large a one.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRules {
    /// The smallest effect that counts, as a share: 0.05 is 5 %.
    pub effect: f64,
    /// Make up for the number of figures that are compared, see [`stats::holm`].
    pub adjust: bool,
    /// By how much a measure may get worse.
    pub bounds: Vec<Bound>,
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

/// Two selections, compared.
pub struct CampaignComparison {
    /// The campaign on each side.
    pub sides: [ComparisonSide; 2],
    /// Settings and recorded facts that are not the same on both sides.
    pub differences: Vec<Difference>,
    /// Curves that both sides have, where both campaigns drew some: then there are no other rows.
    pub curves: Vec<CurvePair>,
    /// Rows that both sides have, in the order of the first.
    pub pairs: Vec<RowPair>,
    /// Rows that could not be compared, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The rules of the comparison.
    pub rules: ComparisonRules,
    /// The command that compares the two, without selections: advice begins with it.
    pub command: String,
    /// One side was measured before the other was begun.
    were_apart: bool,
}

/// One row of each side.
pub struct RowPair {
    /// Target, workload, pass and factors.
    pub name: String,
    /// Its measures; the rate is the first.
    pub figures: Vec<ComparedFigure>,
    /// Caveats of either side, each code once.
    pub caveats: Vec<CaveatCode>,
    /// What these caveats leave of the comparison.
    pub(crate) reservations: Reservations,
}

impl RowPair {
    /// Says what would decide a figure whose bound may or may not be kept.
    fn remedy(&self, figure: &ComparedFigure) -> String {
        match (self.reservations.reason(), self.reservations.remedy()) {
            (Some(reason), Some(remedy)) => format!("{reason} (hint: {remedy})"),
            _ => figure.remedy(),
        }
    }
}

/// A row that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Target, workload, pass and factors.
    pub name: String,
    /// Why, in a sentence's words.
    pub why: String,
    /// It may hide a loss. What is new does not, nor what was never possible.
    pub matters: bool,
    /// The other side has such a row, too.
    pub matched: bool,
    /// The settings of this row and of the nearest row of the other side in which they differ, as
    /// `--where` takes them: selected by these, the two are a pair.
    pub pairing: Option<[String; 2]>,
}

impl CampaignComparison {
    /// Matches and compares.
    pub fn new(before: Selection<'_>, after: Selection<'_>, rules: ComparisonRules) -> Self {
        let sides = [before, after].map(ComparisonSide::from_selection);
        let differences = sides::differences([before, after]);
        let command = format!("dfsbench compare {} {}", before.campaign.id, after.campaign.id);
        let were_apart = were_apart(before.campaign, after.campaign);
        let (mut pairs, mut curves) = (Vec::new(), Vec::new());
        let left_out;
        if let Some((drawn, others)) = curves::pair_curves([before, after], &rules) {
            (curves, left_out) = (drawn, others);
        } else {
            (pairs, left_out) = rows::pair_rows([before, after], &rules);
        }
        if rules.adjust {
            adjust_probabilities(&mut pairs);
        }
        Self { sides, differences, curves, pairs, left_out, rules, command, were_apart }
    }

    /// Names the results file of each side.
    pub fn name_files(&mut self, files: [String; 2]) {
        for (side, file) in self.sides.iter_mut().zip(files) {
            side.file = Some(file);
        }
    }

    /// Every figure with the row that it is of.
    pub fn figures(&self) -> impl Iterator<Item = (&RowPair, &ComparedFigure)> {
        self.pairs.iter().flat_map(|pair| pair.figures.iter().map(move |figure| (pair, figure)))
    }

    /// Figures that got worse by more than their bound, noise alone aside.
    pub fn regressions(&self) -> impl Iterator<Item = (&RowPair, &ComparedFigure)> {
        self.figures().filter(|(_, figure)| figure.is_regression())
    }

    /// Says whether a row or a curve got worse by more than its bound.
    pub fn has_lost(&self) -> bool {
        let is_worse = |curve: &CurvePair| !curve.regressions().is_empty();
        self.regressions().next().is_some() || self.curves.iter().any(is_worse)
    }

    /// Says whether there are bounds of which the figures don't show whether they are kept.
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
        // What could not be compared was not held to its bound, be it a row or everything.
        let has_none = self.pairs.is_empty() && self.curves.is_empty();
        has_none || self.left_out.iter().any(|row| row.matters)
    }

    /// The commands that would pair rows which differ in a few settings, each once.
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

    /// Measures that have a bound and that a row does not have.
    fn missing_measures(&self, pair: &RowPair) -> Vec<Measure> {
        let mut missing = Vec::new();
        for bound in &self.rules.bounds {
            if !pair.figures.iter().any(|figure| figure.measure == bound.measure) {
                missing.push(bound.measure);
            }
        }
        missing
    }

    /// The comparison as a document.
    pub(crate) fn document(&self, form: Form) -> Document {
        table::document(self, form)
    }

    /// Writes it for a terminal; the text ends with a newline.
    pub fn render_screen(&self, screen: Screen) -> String {
        document::text::render(&table::document_for(self, Form::Text, screen), screen.columns())
    }

    /// Writes it in one of the forms of [`Format::COMPARE`]; the text ends with a newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::render(self),
            Format::Junit => junit::render(self),
            _ => self.document(format.form()).render(format.form()),
        }
    }
}

/// Returns true if all trials of one campaign started before those of the other. Then whatever
/// changed on the machines in between looks like a difference.
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

/// Settings as `--where` takes them: `nfsvers=3,proto=tcp`.
fn where_values(settings: &[(String, String)]) -> String {
    let mut values = Vec::new();
    for (name, value) in settings {
        values.push(format!("{name}={}", value.replace(' ', "")));
    }
    values.join(",")
}

/// An argument of a shell.
fn quote(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "=,._-/:+%".contains(letter);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

/// Makes up for the number of figures that are compared.
fn adjust_probabilities(pairs: &mut [RowPair]) {
    let mut probabilities = Vec::new();
    for pair in &*pairs {
        for figure in &pair.figures {
            probabilities.push(figure.comparison.probability);
        }
    }
    let family = probabilities.len();
    // Holm's procedure looks at all of them at once and answers in the same order.
    let mut adjusted = holm(&probabilities).into_iter();
    for pair in pairs {
        for figure in &mut pair.figures {
            figure.comparison.family = family;
            figure.comparison.adjusted = adjusted.next().expect("as many as were handed over");
        }
    }
}

/// The names of all settings that runs of a campaign have, `pass` among them.
pub fn setting_names(campaign: &Campaign) -> Vec<&'static str> {
    let mut names = BTreeSet::new();
    for (name, _) in rows::all_settings(campaign) {
        names.insert(name);
    }
    names.into_iter().collect()
}

/// The values of a label (`label.dram`) of a campaign's hosts, each once; empty where no host has
/// it. A campaign has one plan, so that its labels are those of all of its runs.
pub fn label_values(campaign: &Campaign, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    for fact in list_labels(campaign) {
        if fact.name == name && !values.contains(&fact.value) {
            values.push(fact.value.clone());
        }
    }
    values
}

/// Names the labels of a campaign's hosts, as `label.dram`.
pub fn label_names(campaign: &Campaign) -> Vec<String> {
    let mut names = BTreeSet::new();
    for fact in list_labels(campaign) {
        names.insert(fact.name.clone());
    }
    names.into_iter().collect()
}

fn list_labels(campaign: &Campaign) -> impl Iterator<Item = &Fact> {
    let trials = campaign.runs.iter().flat_map(|run| &run.trials);
    let of_trials = trials.flat_map(|trial| &trial.facts);
    campaign.facts.iter().chain(of_trials).filter(|fact| fact.name.starts_with("label."))
}

/// The values that a setting has in a campaign, as tables show them, in order of appearance.
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
