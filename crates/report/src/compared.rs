//! Two campaigns, or two selections of one, laid side by side run by run.
//!
//! [`Compared::of`] matches rows that do the same work (see `rows`) and compares their rates and
//! times under some [`Rules`]. [`Compared::render`] writes it. A row without a figure that counts,
//! or without a partner, is named and never silently left out; where a bound is given, what could
//! not be decided is no pass.

mod curves;
mod json;
mod junit;
mod measure;
mod rows;
mod table;

use std::collections::{BTreeSet, HashSet};

use model::{Campaign, CaveatCode};
use stats::{criteria, holm};

use crate::Format;
use crate::document::{Document, Form};

pub use curves::CurvePair;
pub use measure::{Bound, Figure, Measure};
pub use rows::is_same;

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
pub struct Rules {
    /// The smallest effect that counts, as a share: 0.05 is 5 %.
    pub effect: f64,
    /// Make up for the number of figures that are compared, see [`stats::holm`].
    pub adjust: bool,
    /// By how much a measure may get worse.
    pub bounds: Vec<Bound>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { effect: criteria::EFFECT_MIN, adjust: false, bounds: Vec::new() }
    }
}

impl Rules {
    fn bound(&self, measure: Measure) -> Option<f64> {
        self.bounds.iter().find(|bound| bound.measure == measure).map(|bound| bound.share)
    }
}

/// Two selections, compared.
pub struct Compared {
    /// The description of each side, in a line.
    pub sides: [String; 2],
    /// Curves that both sides have, where both campaigns drew some: then there are no other rows.
    pub curves: Vec<CurvePair>,
    /// Rows that both sides have, in the order of the first.
    pub pairs: Vec<Pair>,
    /// Rows that could not be compared, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The rules of the comparison.
    pub rules: Rules,
}

/// One row of each side.
pub struct Pair {
    /// Target, workload, pass and factors.
    pub name: String,
    /// Its measures; the rate is the first.
    pub figures: Vec<Figure>,
    /// Doubts of either side, each code once.
    pub caveats: Vec<CaveatCode>,
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
}

impl Compared {
    /// Matches and compares.
    pub fn of(before: Selection<'_>, after: Selection<'_>, rules: Rules) -> Self {
        let sides = [side_name(before), side_name(after)];
        if let Some((curves, left_out)) = curves::paired([before, after], &rules) {
            return Self { sides, curves, pairs: Vec::new(), left_out, rules };
        }
        let (mut pairs, left_out) = rows::paired([before, after], &rules);
        if rules.adjust {
            adjust_probabilities(&mut pairs);
        }
        Self { sides, curves: Vec::new(), pairs, left_out, rules }
    }

    /// Every figure with the row that it is of.
    pub fn figures(&self) -> impl Iterator<Item = (&Pair, &Figure)> {
        self.pairs.iter().flat_map(|pair| pair.figures.iter().map(move |figure| (pair, figure)))
    }

    /// Figures that got worse by more than their bound, noise alone aside.
    pub fn regressions(&self) -> impl Iterator<Item = (&Pair, &Figure)> {
        self.figures().filter(|(_, figure)| figure.is_regression())
    }

    /// Says whether a row or a curve got worse by more than its bound.
    pub fn has_lost(&self) -> bool {
        self.regressions().next().is_some()
            || self.curves.iter().any(|curve| curve.checks().any(|check| check.is_regression))
    }

    /// Says whether there are bounds of which nobody can tell whether they are kept.
    pub fn is_undecided(&self) -> bool {
        let undecided = |curve: &CurvePair| curve.checks().any(|check| check.is_undecidable);
        !self.rules.bounds.is_empty()
            && ((self.pairs.is_empty() && self.curves.is_empty())
                || self.curves.iter().any(undecided)
                || self.left_out.iter().any(|row| row.matters)
                || self.figures().any(|(_, figure)| figure.is_undecidable())
                || self.pairs.iter().any(|pair| self.untold(pair).next().is_some()))
    }

    /// Measures that have a bound and that a row does not tell.
    fn untold(&self, pair: &Pair) -> impl Iterator<Item = Measure> {
        let bounded = self.rules.bounds.iter().map(|bound| bound.measure);
        bounded.filter(|measure| pair.figures.iter().all(|figure| figure.measure != *measure))
    }

    /// The comparison as a document.
    pub(crate) fn document(&self, form: Form) -> Document {
        table::document(self, form)
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

/// Makes up for the number of figures that are compared.
fn adjust_probabilities(pairs: &mut [Pair]) {
    let figures = pairs.iter().flat_map(|pair| &pair.figures);
    let adjusted = holm(&figures.map(|figure| figure.comparison.probability).collect::<Vec<_>>());
    let family = adjusted.len();
    let figures = pairs.iter_mut().flat_map(|pair| &mut pair.figures);
    for (figure, adjusted) in figures.zip(adjusted) {
        (figure.comparison.adjusted, figure.comparison.family) = (adjusted, family);
    }
}

/// The names of all settings that runs of a campaign have, `pass` among them.
pub fn setting_names(campaign: &Campaign) -> Vec<&'static str> {
    let names: BTreeSet<_> = rows::all_settings(campaign).map(|(name, _)| name).collect();
    names.into_iter().collect()
}

/// The values that a setting has in a campaign, as tables show them, in order of appearance.
pub fn setting_values(campaign: &Campaign, name: &str) -> Vec<String> {
    let mut known = HashSet::new();
    let values = rows::all_settings(campaign).filter(|(known, _)| *known == name);
    values.map(|(_, value)| value).filter(|value| known.insert(value.clone())).collect()
}

fn side_name(selection: Selection<'_>) -> String {
    let Selection { campaign, only } = selection;
    let name = format!("campaign {} ({}, {})", campaign.id, campaign.name, campaign.tool_version);
    only.iter().fold(name, |side, (setting, value)| format!("{side}, {setting} {value}"))
}
