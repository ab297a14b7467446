//! Comparison as a document: a row for each measure of each pair, and sentences below.
//!
//! The sentences also list what could not be compared, and why; nothing is left out. If there are
//! too many rows to read, a page only shows those that changed most.

use std::collections::BTreeMap;

use stats::Outcome;

use super::curves::CurvePair;
use super::{CampaignComparison, ComparedFigure, ComparisonSide, Measure, RowPair, bars, verdict};
use crate::document::terminal::Screen;
use crate::document::{
    Block, CaveatLink, Cell, Column, Document, DocumentPart, Form, Role, Section,
};
use crate::document::{Table, TableRow};
use crate::humanize;
use crate::table::title;

/// Width at which row names are wrapped in a terminal to leave room for the numbers.
const NAME_WIDTH_MAX: usize = 28;

/// Maximum number of rows on a page; JSON has all of them.
const PAIRS_MAX: usize = 2_000;

/// Maximum number of differences to show with their values.
const DIFFERENCES_MAX: usize = 8;

/// Number of comparisons from which false alarms by chance are worth a sentence.
const FAMILY_MIN: usize = 10;

const COLUMNS: [(&str, Role); 9] = [
    ("run", Role::Words),
    ("figure", Role::Factor),
    ("before", Role::Number),
    ("after", Role::Number),
    ("ratio", Role::Rate),
    ("95 %", Role::Number),
    ("p", Role::Number),
    ("outcome", Role::Factor),
    ("caveats", Role::Caveats),
];

/// Columns to drop, in this order, if the terminal is too narrow.
const LEAVING: [&str; 4] = ["p", "95 %", "before", "after"];

/// Builds the document of a comparison.
pub(super) fn document(compared: &CampaignComparison, form: Form) -> Document {
    document_for(compared, form, Screen::default())
}

/// Builds the document of a comparison for a screen.
pub(super) fn document_for(compared: &CampaignComparison, form: Form, screen: Screen) -> Document {
    let mut parts = vec![DocumentPart::Section(verdict_section(compared, form))];
    if compared.curves.is_empty() {
        parts.push(DocumentPart::Section(figure_section(compared, form, screen)));
    }
    let unpaired = list_unpaired(compared);
    if form == Form::Html && !unpaired.is_empty() {
        let heading = "Not compared".to_owned();
        let blocks = vec![Block::List(unpaired)];
        parts.push(DocumentPart::Section(Section {
            id: "unpaired",
            heading,
            blocks,
            ..Section::default()
        }));
    }
    Document {
        tool: "dfsbench compare",
        title: match form {
            Form::Html => page_title(&compared.sides),
            Form::Text | Form::Markdown => "Before and after".to_owned(),
        },
        about: about_sides(compared),
        parts,
    }
}

/// Title of a page: targets and dates of both sides.
fn page_title(sides: &[ComparisonSide; 2]) -> String {
    let mut targets: Vec<&str> = Vec::new();
    let mut dates: Vec<String> = Vec::new();
    for side in sides {
        targets.extend(side.targets.iter().map(String::as_str));
        dates.push(humanize::utc_minute(side.started_unix_ms));
    }
    dates.dedup();
    title::page_title("Before and after", &targets, &humanize::listed(&dates))
}

/// Lines that identify both sides and list what changed between them.
fn about_sides(compared: &CampaignComparison) -> Vec<String> {
    let [before, after] = compared.sides.each_ref().map(ComparisonSide::describe);
    let mut lines = vec![format!("before: {before}"), format!("after: {after}")];
    let (named, others) =
        compared.differences.split_at(compared.differences.len().min(DIFFERENCES_MAX));
    if named.is_empty() {
        lines.push("changed: no settings or recorded facts of hosts and targets".to_owned());
    }
    lines.extend(named.iter().map(|difference| format!("changed: {}", difference.line())));
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
        lines.push(format!("also changed (values in JSON): {}", names.join(", ")));
    }
    lines
}

/// Builds the section with the verdict and its pictures. For curves, it contains everything.
fn verdict_section(compared: &CampaignComparison, form: Form) -> Section {
    let mut blocks = Vec::new();
    for curve in &compared.curves {
        blocks.push(Block::Paragraph(curve.sentence()));
        blocks.push(Block::Pictures(curve.pictures()));
        blocks.push(Block::Table(curve.table()));
    }
    let mut id = "figures";
    if compared.curves.is_empty() {
        id = "verdict";
        blocks.push(Block::Paragraph(verdict::sentence(compared)));
        blocks.push(Block::Pictures(bars::pictures(compared)));
    } else {
        blocks.push(Block::List(conclude(compared, form)));
    }
    // Other formats start with the sentence and need no heading.
    let heading = if form == Form::Html { "Verdict" } else { "" };
    Section { id, heading: heading.to_owned(), is_answer: true, blocks }
}

/// Builds the section with the rows and the sentences below them.
fn figure_section(compared: &CampaignComparison, form: Form, screen: Screen) -> Section {
    let mut blocks = Vec::new();
    if !compared.pairs.is_empty() {
        let pairs: Vec<&RowPair> = match form {
            Form::Html => most_changed(&compared.pairs),
            Form::Text | Form::Markdown => compared.pairs.iter().collect(),
        };
        if pairs.len() < compared.pairs.len() {
            blocks.push(Block::Paragraph(format!(
                "The {PAIRS_MAX} of {} rows that changed most, with regressions and certain \
                 changes first; dfsbench compare --format json has all rows.",
                compared.pairs.len()
            )));
        }
        blocks.push(Block::Table(figure_table(&pairs, screen)));
    }
    blocks.push(Block::List(conclude(compared, form)));
    let heading = if form == Form::Html { "Figures" } else { "" };
    Section { id: "figures", heading: heading.to_owned(), blocks, ..Section::default() }
}

/// Lists the rows that could not be compared, and the commands that would pair some of them.
fn list_unpaired(compared: &CampaignComparison) -> Vec<String> {
    let mut sentences: Vec<_> = compared
        .left_out
        .iter()
        .map(|row| format!("Not compared: {}: {}.", row.name, row.why))
        .collect();
    for command in compared.pairing_commands() {
        sentences.push(format!("To pair such rows: {command}"));
    }
    sentences
}

fn figure_table(pairs: &[&RowPair], screen: Screen) -> Table {
    let mut columns = Column::all(&COLUMNS);
    Column::leave_in_order(&mut columns, &LEAVING);
    // A third of a narrow terminal leaves room for the numbers.
    columns[0].width_max = NAME_WIDTH_MAX.min(screen.columns() / 3);
    let mut rows = Vec::new();
    for pair in pairs {
        for (number, figure) in pair.figures.iter().enumerate() {
            let mut cells = vec![Cell::text(&pair.name)];
            cells.extend(figure_cells(figure).map(Cell::text));
            cells.push(caveat_cell(pair));
            rows.push(TableRow { continues: number > 0, cells, ..TableRow::default() });
        }
    }
    Table {
        id: "comparison".to_owned(),
        caption: "Rates and times of the rows that are in both campaigns.".to_owned(),
        has_page_caption: true,
        columns,
        rows,
        stacks_groups: true,
        ..Table::default()
    }
}

/// Lists the caveats of either side; their evidence is in the reports of the campaigns.
fn caveat_cell(pair: &RowPair) -> Cell {
    let links: Vec<_> = pair
        .caveats
        .iter()
        .map(|code| CaveatLink { code: *code, text: code.to_string(), evidence: String::new() })
        .collect();
    Cell::Caveats(links)
}

/// All rows in order or, if there are very many, those that changed most.
fn most_changed(pairs: &[RowPair]) -> Vec<&RowPair> {
    if pairs.len() <= PAIRS_MAX {
        return pairs.iter().collect();
    }
    let mut weighed: Vec<(Weight, &RowPair)> =
        pairs.iter().map(|pair| (Weight::from_pair(pair), pair)).collect();
    // Stable sort, so that rows of equal weight stay in campaign order.
    weighed.sort_by(|(one, _), (other, _)| other.order(one));
    weighed.truncate(PAIRS_MAX);
    weighed.into_iter().map(|(_, pair)| pair).collect()
}

/// Importance of a row.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// It got worse by more than its bound.
    is_regression: bool,
    /// The change is certain.
    is_sure: bool,
    /// Size of the change, as the logarithm of the ratio.
    change: f64,
}

impl Weight {
    fn from_pair(pair: &RowPair) -> Self {
        let mut weight = Self::default();
        for figure in &pair.figures {
            let outcome = figure.comparison.outcome();
            weight.is_regression |= figure.is_regression();
            weight.is_sure |= matches!(outcome, Outcome::Higher | Outcome::Lower);
            weight.change = weight.change.max(figure.comparison.ratio.ln().abs());
        }
        weight
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        (self.is_regression, self.is_sure)
            .cmp(&(other.is_regression, other.is_sure))
            .then(self.change.total_cmp(&other.change))
    }
}

/// Cells for measure, before, after, ratio, interval, probability and outcome.
fn figure_cells(figure: &ComparedFigure) -> [String; 7] {
    let comparison = &figure.comparison;
    let (lo, hi) = comparison.interval;
    [
        figure.measure.name().to_owned(),
        figure.shown(0),
        figure.shown(1),
        format!("{:.3}", comparison.ratio),
        format!("{lo:.3} to {hi:.3}"),
        format_probability(comparison.adjusted),
        comparison.outcome().name().to_owned(),
    ]
}

fn format_probability(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// Says how many rows have too few trials to show any difference, and how many they need.
pub(super) fn name_blind_rows(pairs: &[RowPair]) -> Option<String> {
    let needed = pairs.iter().filter_map(|pair| {
        let blind = pair.figures.iter().filter(|figure| figure.comparison.is_blind());
        blind.map(|figure| figure.comparison.trials_min()).max()
    });
    let needed: Vec<usize> = needed.collect();
    let most = needed.iter().max()?;
    let rows = if needed.len() == 1 { "1 row has" } else { &format!("{} rows have", needed.len()) };
    Some(format!("{rows} too few trials to show any difference: use --trials {most} or more."))
}

/// Summarizes the comparison in sentences, except for those that curves print themselves.
fn conclude(compared: &CampaignComparison, form: Form) -> Vec<String> {
    let mut sentences: Vec<String> = compared.curves.iter().flat_map(CurvePair::remarks).collect();
    if compared.curves.is_empty() {
        sentences.extend([count_outcomes(compared), explain_threshold(compared)]);
        sentences.extend(chance_of_false_alarms(compared));
    }
    if compared.were_apart {
        sentences.push(
            "The sides were measured one after the other, so a change of other load in between \
             counts as a difference. Alternating trials in one campaign avoid that."
                .to_owned(),
        );
    }
    sentences.extend(name_blind_rows(&compared.pairs));
    sentences.extend(explain_reservations(compared));
    for pair in &compared.pairs {
        for measure in compared.missing_measures(pair) {
            sentences.push(format!("Not timed: {}: no {}.", pair.name, measure.name()));
        }
    }
    // A page has a separate section for these.
    if form != Form::Html {
        sentences.extend(list_unpaired(compared));
    }
    for curve in &compared.curves {
        for check in curve.checks() {
            if check.is_regression {
                sentences.push(format!("Regression: {}: {}.", curve.name, check.why));
            }
        }
    }
    for (pair, figure) in compared.figures() {
        if !figure.is_undecidable() {
            continue;
        }
        let change = figure.change();
        let limit = figure.limit();
        let remedy = pair.remedy(figure);
        sentences.push(format!("Inconclusive: {}: {change}; {limit}: {remedy}.", pair.name));
    }
    for (pair, figure) in compared.regressions() {
        let change = figure.change();
        let limit = figure.limit();
        sentences.push(format!("Regression: {}: {change}; {limit}.", pair.name));
    }
    sentences
}

/// Names the rows whose caveats leave an outcome open, grouped by reason.
fn explain_reservations(compared: &CampaignComparison) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pair in &compared.pairs {
        let is_open = |figure: &ComparedFigure| figure.comparison.outcome() == Outcome::Unclear;
        if let Some(reason) = pair.reservations.reason()
            && pair.figures.iter().any(is_open)
        {
            reasons.entry(reason).or_default().push(&pair.name);
        }
    }
    let mut sentences = Vec::new();
    for (reason, names) in reasons {
        let rows = match names.as_slice() {
            [one] => (*one).to_owned(),
            [first, rest @ ..] => {
                format!("{first} and {} more", humanize::counted(rest.len(), "row"))
            }
            [] => continue,
        };
        sentences.push(format!("Unclear because of caveats: {rows}: {reason}."));
    }
    sentences
}

fn count_outcomes(compared: &CampaignComparison) -> String {
    let mut rates = Vec::new();
    let mut times = Vec::new();
    for (_, figure) in compared.figures() {
        let outcomes = if figure.measure == Measure::Rate { &mut rates } else { &mut times };
        outcomes.push(figure.comparison.outcome());
    }
    let mut text = format!("{} compared. Rates: ", humanize::counted(rates.len(), "row"));
    text.push_str(&list_outcomes(&rates));
    if !times.is_empty() {
        text = format!("{text}; times: {}", list_outcomes(&times));
    }
    text + "."
}

fn list_outcomes(outcomes: &[Outcome]) -> String {
    let mut counts = Vec::new();
    for outcome in [Outcome::Lower, Outcome::Higher, Outcome::Same, Outcome::Unclear] {
        let count = outcomes.iter().filter(|other| **other == outcome).count();
        counts.push(format!("{count} {}", outcome.name()));
    }
    humanize::listed(&counts)
}

fn explain_threshold(compared: &CampaignComparison) -> String {
    format!(
        "A difference counts if it is at least {}, its interval excludes 1, and the rank test \
         gives p of 5 % or less. p50 and p99 are response times: medians over the trials.",
        humanize::percent(compared.rules.effect),
    )
}

/// Explains the chance of false alarms among many comparisons.
fn chance_of_false_alarms(compared: &CampaignComparison) -> Option<String> {
    // Each comparison reports a nonexistent difference in 5 of 100 cases, so among many comparisons
    // some will. Holm's procedure bounds the chance that any of them does.
    let family = compared.figures().count();
    if compared.rules.adjust {
        return Some(format!(
            "p is adjusted for {} (Holm).",
            humanize::counted(family, "comparison")
        ));
    }
    if family < FAMILY_MIN {
        return None;
    }
    Some(format!(
        "Of {family} comparisons, up to {} reach p of 5 % or less by chance alone; --adjust holm \
         corrects for it.",
        (family as f64 * 0.05).round().max(1.0)
    ))
}
