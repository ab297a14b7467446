//! A comparison as a table: for a terminal, and for GitHub.
//!
//! What could not be compared, and why, stands below it in sentences; nothing is left out.

use std::fmt::Write as _;

use stats::Outcome;

use super::{Compared, Pair};
use crate::grid::{Align, Grid, wrap};
use crate::markdown::{escaped, line};
use crate::show;

const WIDTH_MAX: usize = 100;

const HEADER: [(&str, Align); 7] = [
    ("run", Align::Left),
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
            let [name, figures @ ..] = cells(pair);
            let name = wrap(&name, WIDTH_MAX - 64).join("\n");
            grid.row(&[vec![name], figures.to_vec()].concat());
            if !pair.caveats.is_empty() {
                grid.text(&format!("! {}", pair.caveats.join(", ")));
            }
        }
        let _ = writeln!(out, "\n{}", grid.render(WIDTH_MAX).trim_end());
    }
    out.push('\n');
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
    line(&mut out, HEADER.iter().map(|(name, _)| (*name).to_owned()));
    line(&mut out, HEADER.iter().map(|(_, align)| rule(*align).to_owned()));
    for pair in &compared.pairs {
        line(&mut out, cells(pair).iter().map(|cell| escaped(cell)));
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

fn cells(pair: &Pair) -> [String; 7] {
    let comparison = &pair.comparison;
    let (lo, hi) = comparison.interval;
    [
        pair.name.clone(),
        pair.rates[0].to_string(),
        pair.rates[1].to_string(),
        format!("{:.3}", comparison.ratio),
        format!("{lo:.3} to {hi:.3}"),
        probability(comparison.probability),
        comparison.outcome().name().to_owned(),
    ]
}

fn probability(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// What it all comes to, in sentences.
fn conclusion(compared: &Compared) -> Vec<String> {
    let count = |outcome: Outcome| {
        compared.pairs.iter().filter(|pair| pair.comparison.outcome() == outcome).count()
    };
    let counts = [Outcome::Lower, Outcome::Higher, Outcome::Same, Outcome::Unclear]
        .map(|outcome| format!("{} {}", count(outcome), outcome.name()));
    let mut sentences = vec![format!(
        "{} compared: {}. A difference counts from {} on, where its interval leaves out 1 and the \
         rank test gives 5 % or less.",
        show::counted(compared.pairs.len(), "row"),
        show::listed(&counts),
        show::percent(compared.effect),
    )];
    let blind = compared.pairs.iter().filter(|pair| pair.comparison.is_blind()).count();
    if blind > 0 {
        sentences.push(format!(
            "{} so few trials that no difference could be shown: use --trials 5 or more.",
            if blind == 1 { "1 row has".to_owned() } else { format!("{blind} rows have") }
        ));
    }
    for (name, why) in &compared.left_out {
        sentences.push(format!("Not compared: {name}: {why}."));
    }
    sentences
}
