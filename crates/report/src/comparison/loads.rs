//! What loads cost each other: each load beside others, compared with the same load alone.
//!
//! [`LoadCosts::from_sheet`] compares rates and 99th percentiles by the rules of all comparisons;
//! the probabilities are adjusted for their number. A load that the others left alone for part of
//! its window can show a cost, but not that there is none.

use model::{CaveatCode, NamedLoad};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{BootstrapDraws, Outcome, criteria};

use super::measure::{Change, ComparedFigure, Measure};
use super::rows::{KeyedRow, row_settings};
use super::table::name_blind_rows;
use super::{ComparisonRules, RowPair, adjust_probabilities, bars};
use crate::chart::Picture;
use crate::document::{Block, Cell, Column, Form, Role, Section, Table, TableRow};
use crate::humanize;
use crate::table::{Row, Sheet};

/// Explanation below the table.
const READING: &str = "ratio: beside the others to alone, with its 95 % interval; trials alone \
                       and beside the others are interleaved. A cost below 5 % is none.";

/// Settings that differ between a load alone and beside others.
const DIFFERING: [&str; 2] = [NamedLoad::BESIDE, "run"];

/// What loads cost each other.
pub(crate) struct LoadCosts {
    pairs: Vec<RowPair>,
    /// Load and company of each pair.
    names: Vec<[String; 2]>,
    /// Rows that could not be compared, with the reason.
    left_out: Vec<String>,
}

impl LoadCosts {
    /// Compares each load beside others with the same load alone. Nothing is compared if the runs
    /// are of one load each.
    pub(crate) fn from_sheet(sheet: &Sheet<'_>) -> Self {
        let mut costs = Self { pairs: Vec::new(), names: Vec::new(), left_out: Vec::new() };
        let mut draws = BootstrapDraws::new(criteria::BOOTSTRAP_SEED);
        let rules = ComparisonRules { adjust: true, ..ComparisonRules::default() };
        for row in &sheet.rows {
            let Some(load) = &row.run.spec.named_load else { continue };
            if load.beside.is_empty() {
                continue;
            }
            let omitted = [NamedLoad::NAME, NamedLoad::BESIDE];
            let keyed = |row| KeyedRow::new(sheet, row, &omitted);
            let compared = match find_alone(sheet, row) {
                Some(alone) => keyed(alone).compare_with(&keyed(row), &rules, &mut draws),
                None => Err("it was not measured alone".to_owned()),
            };
            match compared {
                Ok(mut pair) => {
                    pair.figures.retain(|figure| {
                        matches!(figure.measure, Measure::Rate | Measure::ResponseP99)
                    });
                    let factors = sheet.factors_without(row, &omitted);
                    let comma = if factors.is_empty() { "" } else { ", " };
                    pair.name = format!("{} beside {}{comma}{factors}", load.name, load.company());
                    costs.names.push([load.name.clone(), load.company()]);
                    costs.pairs.push(pair);
                }
                Err(why) => {
                    costs.left_out.push(format!("{} beside {}: {why}", load.name, load.company()));
                }
            }
        }
        adjust_probabilities(&mut costs.pairs);
        costs
    }

    fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.left_out.is_empty()
    }

    /// Returns one sentence for each load that others slow down, or one that none does.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let mut are_all_free = !self.pairs.is_empty() && self.left_out.is_empty();
        for pair in &self.pairs {
            are_all_free &= pair.figures.iter().all(|figure| verdict(pair, figure) == FREE);
            let worse =
                pair.figures.iter().filter(|it| it.change_for_sure() == Some(Change::Worse));
            let changes: Vec<String> = worse.map(ComparedFigure::change).collect();
            if !changes.is_empty() {
                sentences.push(format!("{}: {}.", pair.name, humanize::listed(&changes)));
            }
        }
        if sentences.is_empty() && !self.is_empty() {
            sentences.push(if are_all_free {
                "The loads cost each other nothing: all rates and 99th percentiles stay within 5 \
                 % of those alone."
                    .to_owned()
            } else {
                "No load is shown to cost another one anything; some ratios are undecided."
                    .to_owned()
            });
        }
        sentences.extend(name_blind_rows(&self.pairs));
        sentences
    }

    /// Builds the section with the table and, on a page, the pictures.
    pub(crate) fn section(&self, form: Form) -> Option<Section> {
        if self.is_empty() {
            return None;
        }
        let mut blocks = Vec::new();
        if form == Form::Html {
            blocks.push(Block::Pictures(self.pictures()));
        }
        if !self.pairs.is_empty() {
            blocks.push(Block::Table(self.table()));
        }
        if !self.left_out.is_empty() {
            blocks.push(Block::List(self.left_out.clone()));
        }
        let heading = "What the loads cost each other".to_owned();
        Some(Section { id: "loads", heading, blocks, ..Section::default() })
    }

    fn table(&self) -> Table {
        let columns = Column::all(&[
            ("load", Role::Words),
            ("measure", Role::Words),
            ("alone", Role::Number),
            ("beside", Role::Number),
            ("ratio", Role::Number),
            ("95 % interval", Role::Number),
            ("cost", Role::Words),
        ]);
        let mut rows = Vec::new();
        for pair in &self.pairs {
            for (number, figure) in pair.figures.iter().enumerate() {
                let (lo, hi) = figure.comparison.possible_ratios();
                let cells = [
                    if number == 0 { pair.name.clone() } else { String::new() },
                    figure.measure.name().to_owned(),
                    figure.shown(0),
                    figure.shown(1),
                    format!("{:.3}", figure.comparison.ratio),
                    format!("{lo:.3} to {hi:.3}"),
                    verdict(pair, figure).to_owned(),
                ];
                let cells = cells.into_iter().map(Cell::text).collect();
                rows.push(TableRow { cells, continues: number > 0, ..TableRow::default() });
            }
        }
        Table {
            id: "loads".to_owned(),
            columns,
            rows,
            reading: vec![READING.to_owned()],
            ..Table::default()
        }
    }

    fn pictures(&self) -> Vec<Picture> {
        bars::pictures_of(&self.pairs, ["beside the others", "alone"])
    }
}

const FREE: &str = "none";

/// Describes a cost in a word.
fn verdict(pair: &RowPair, figure: &ComparedFigure) -> &'static str {
    match figure.change_for_sure() {
        Some(Change::Worse) => "slower",
        Some(Change::Better) => "faster",
        None if figure.comparison.outcome() != Outcome::Same => "undecided",
        // The others may cost something while they run.
        None if pair.caveats.contains(&CaveatCode::PartlyAlone) => "undecided",
        None => FREE,
    }
}

/// Finds the row of the same load alone with the same settings.
fn find_alone<'s, 'a>(sheet: &'s Sheet<'a>, row: &Row<'_>) -> Option<&'s Row<'a>> {
    let settings = |row: &Row<'_>| {
        let mut settings = row_settings(row);
        settings.retain(|(name, _)| !DIFFERING.contains(name));
        settings
    };
    let wanted = settings(row);
    sheet.rows.iter().find(|other| {
        let load = other.run.spec.named_load.as_ref();
        load.is_some_and(|load| load.beside.is_empty()) && settings(other) == wanted
    })
}

/// What others cost a load, in JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadCost")]
pub(crate) struct LoadCostPart {
    load: String,
    /// The loads that ran at the same time, joined by `+`.
    beside: String,
    /// Load, company and the factors of the plan.
    row: String,
    #[schemars(extend("enum" = ["rate", "p99"]))]
    measure: &'static str,
    /// Median over the trials alone, in bytes or ops per second, or nanoseconds.
    alone: f64,
    /// The same beside the others.
    together: f64,
    /// `together` divided by `alone`.
    ratio: f64,
    /// 95 % confidence interval of the ratio.
    ratio_lo: f64,
    ratio_hi: f64,
    /// Probability of such a difference by chance, adjusted for the number of comparisons.
    probability: f64,
    #[schemars(extend("enum" = ["slower", "faster", "none", "undecided"]))]
    cost: &'static str,
}

impl LoadCostPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let costs = LoadCosts::from_sheet(sheet);
        let mut parts = Vec::new();
        for (pair, [load, beside]) in costs.pairs.iter().zip(&costs.names) {
            for figure in &pair.figures {
                let (ratio_lo, ratio_hi) = figure.comparison.possible_ratios();
                parts.push(Self {
                    load: load.clone(),
                    beside: beside.clone(),
                    row: pair.name.clone(),
                    measure: figure.measure.name(),
                    alone: figure.medians[0],
                    together: figure.medians[1],
                    ratio: figure.comparison.ratio,
                    ratio_lo,
                    ratio_hi,
                    probability: figure.comparison.adjusted,
                    cost: verdict(pair, figure),
                });
            }
        }
        parts
    }
}
