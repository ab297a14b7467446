//! A comparison as a table: for a terminal, and for GitHub.
//!
//! What could not be compared, and why, stands below it in sentences; nothing is left out.

use std::fmt::Write as _;

use stats::Outcome;

use super::{Compared, CurvePair, Figure, Measure, Pair};
use crate::grid::{Align, Grid, wrap};
use crate::markdown::{self, escaped, line};
use crate::show;
use crate::table::found_table;

const WIDTH_MAX: usize = 100;

/// What the columns beside the name may take.
const FIGURES_WIDTH: usize = 72;

/// From so many comparisons on, those that chance alone makes are worth a sentence.
const FAMILY_MIN: usize = 10;

const HEADER: [(&str, Align); 8] = [
    ("run", Align::Left),
    ("figure", Align::Left),
    ("before", Align::Right),
    ("after", Align::Right),
    ("ratio", Align::Right),
    ("95 %", Align::Right),
    ("p", Align::Right),
    ("outcome", Align::Left),
];

/// Writes the table for a terminal.
pub fn plain(compared: &Compared) -> String {
    let [before, after] = &compared.sides;
    let mut out = format!("before: {before}\nafter:  {after}\n");
    if !compared.pairs.is_empty() {
        let mut grid = Grid::new(&HEADER);
        for pair in &compared.pairs {
            let figures: Vec<[String; 7]> = pair.figures.iter().map(cells).collect();
            let column = |n: usize| {
                figures.iter().map(|cells| cells[n].as_str()).collect::<Vec<_>>().join("\n")
            };
            let name = wrap(&pair.name, WIDTH_MAX - FIGURES_WIDTH).join("\n");
            let columns: Vec<String> = (0..7).map(column).collect();
            grid.row(&[vec![name], columns].concat());
            if !pair.caveats.is_empty() {
                grid.text(&format!("! {}", pair.caveats.join(", ")));
            }
        }
        let _ = writeln!(out, "\n{}", grid.render(WIDTH_MAX).trim_end());
    }
    out.push('\n');
    compared.curves.iter().for_each(|curve| found_table(&mut out, &curve.table()));
    for sentence in conclusion(compared) {
        for part in wrap(&sentence, WIDTH_MAX) {
            let _ = writeln!(out, "{part}");
        }
    }
    out
}

/// Writes the table for GitHub.
pub fn markdown(compared: &Compared) -> String {
    let mut out = String::new();
    for (when, side) in ["before", "after"].iter().zip(&compared.sides) {
        let _ = writeln!(out, "- {when}: {}", escaped(side));
    }
    out.push('\n');
    compared.curves.iter().for_each(|curve| markdown::found_table(&mut out, &curve.table()));
    if compared.curves.is_empty() {
        line(&mut out, HEADER.iter().map(|(name, _)| (*name).to_owned()));
        line(&mut out, HEADER.iter().map(|(_, align)| rule(*align).to_owned()));
    }
    for (pair, figure) in compared.figures() {
        let is_first = figure.measure == Measure::Rate;
        let name = if is_first { escaped(&pair.name) } else { String::new() };
        line(&mut out, std::iter::once(name).chain(cells(figure).map(|cell| escaped(&cell))));
    }
    out.push('\n');
    for sentence in conclusion(compared) {
        let _ = writeln!(out, "{}\n", escaped(&sentence));
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

const fn rule(align: Align) -> &'static str {
    match align {
        Align::Left => "---",
        Align::Right => "---:",
    }
}

/// What, before, after, ratio, interval, probability and outcome.
pub fn cells(figure: &Figure) -> [String; 7] {
    let comparison = &figure.comparison;
    let (lo, hi) = comparison.interval;
    [
        figure.measure.name().to_owned(),
        figure.shown(0),
        figure.shown(1),
        format!("{:.3}", comparison.ratio),
        format!("{lo:.3} to {hi:.3}"),
        probability(comparison.adjusted),
        comparison.outcome().name().to_owned(),
    ]
}

fn probability(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// What it all comes to, in sentences.
pub fn conclusion(compared: &Compared) -> Vec<String> {
    let mut sentences: Vec<String> = compared.curves.iter().map(CurvePair::sentence).collect();
    sentences.extend(compared.curves.iter().flat_map(CurvePair::remarks));
    if sentences.is_empty() {
        sentences.extend([counts(compared), meaning(compared)]);
        sentences.extend(chance(compared));
    }
    let blind = |pair: &&Pair| pair.figures.iter().any(|figure| figure.comparison.is_blind());
    let blind = compared.pairs.iter().filter(blind).count();
    if blind > 0 {
        sentences.push(format!(
            "{} so few trials that no difference could be shown: use --trials 5 or more.",
            if blind == 1 { "1 row has".to_owned() } else { format!("{blind} rows have") }
        ));
    }
    for pair in &compared.pairs {
        for measure in compared.untold(pair) {
            sentences.push(format!("Not timed: {}: no {}.", pair.name, measure.name()));
        }
    }
    for row in &compared.left_out {
        sentences.push(format!("Not compared: {}: {}.", row.name, row.why));
    }
    for curve in &compared.curves {
        let lost = curve.checks().filter(|check| check.is_regression);
        sentences.extend(lost.map(|check| format!("Regression: {}: {}.", curve.name, check.why)));
    }
    for (pair, figure) in compared.regressions() {
        let (change, limit) = (figure.change(), figure.limit());
        sentences.push(format!("Regression: {}: {change}; {limit}.", pair.name));
    }
    sentences
}

fn counts(compared: &Compared) -> String {
    let of = |is_rate: bool| {
        let figures: Vec<&Figure> = compared
            .figures()
            .map(|(_, figure)| figure)
            .filter(|figure| (figure.measure == Measure::Rate) == is_rate)
            .collect();
        let count = |outcome: Outcome| {
            figures.iter().filter(|figure| figure.comparison.outcome() == outcome).count()
        };
        let counts = [Outcome::Lower, Outcome::Higher, Outcome::Same, Outcome::Unclear]
            .map(|outcome| format!("{} {}", count(outcome), outcome.name()));
        (figures.len(), show::listed(&counts))
    };
    let ((rows, rates), (times, of_times)) = (of(true), of(false));
    let rows = show::counted(rows, "row");
    let times = if times == 0 { String::new() } else { format!("; times: {of_times}") };
    format!("{rows} compared. Rates: {rates}{times}.")
}

fn meaning(compared: &Compared) -> String {
    format!(
        "A difference counts from {} on, where its interval leaves out 1 and the rank test gives \
         5 % or less. p50 and p99 are response times, each the median of what the trials had.",
        show::percent(compared.rules.effect),
    )
}

/// What so many comparisons do to their probabilities.
fn chance(compared: &Compared) -> Option<String> {
    let family = compared.figures().count();
    if compared.rules.adjust {
        return Some(format!("p is adjusted for {} (Holm).", show::counted(family, "comparison")));
    }
    (family >= FAMILY_MIN).then(|| {
        format!(
            "Of {family} comparisons chance alone brings about up to {} to 5 % or less; --adjust \
             holm makes up for it.",
            (family as f64 * 0.05).round().max(1.0)
        )
    })
}
