//! A comparison as a page: of its own, or as a part of those that `dfsbench view` serves.

use maud::{Markup, html};

use stats::Outcome;

use super::{Compared, Pair};
use crate::html::{self, Frame};
use crate::picture;

/// More rows of a comparison are for JSON.
const PAIRS_MAX: usize = 2_000;

/// Writes a page of its own.
pub fn render(compared: &Compared) -> String {
    let body = html! {
        a.skip href="#figures" { "To the figures" }
        main {
            header {
                p.overline { "dfsbench compare" }
                h1 { "Before and after" }
                @for (when, side) in ["before", "after"].iter().zip(&compared.sides) {
                    p.meta { (when) ": " (side) }
                }
            }
            (figures(compared))
        }
        footer { "Written by dfsbench from the results file; the same results give the same page." }
    };
    Frame { title: "compare", served: None }.around(&body)
}

/// What was compared, and what it comes to.
pub fn figures(compared: &Compared) -> Markup {
    let curves = &compared.curves;
    html! {
        section.answer[!curves.is_empty()] aria-labelledby="figures" {
            h2 #figures { @if curves.is_empty() { "Figures" } @else { "Curves" } }
            @for curve in curves {
                p { (curve.sentence()) }
                (picture::figures(&curve.pictures()))
                (html::found_table(&curve.table()))
            }
            @if !compared.pairs.is_empty() {
                (comparison(compared))
            } @else if curves.is_empty() {
                p { "They have no row in common that could be compared." }
            }
            ul.reading { @for line in compared.sentences().iter().skip(curves.len()) {
                li { (line) }
            } }
        }
    }
}

/// All rows in their order, or of very many those that changed most.
fn shown(pairs: &[Pair]) -> Vec<&Pair> {
    let mut shown: Vec<&Pair> = pairs.iter().collect();
    if pairs.len() > PAIRS_MAX {
        let weights = pairs.iter().map(weight).collect::<Vec<_>>();
        let mut places: Vec<usize> = (0..pairs.len()).collect();
        places.sort_by(|a, b| {
            let (one, other) = (weights[*a], weights[*b]);
            (other.0, other.1).cmp(&(one.0, one.1)).then(other.2.total_cmp(&one.2))
        });
        shown = places.into_iter().take(PAIRS_MAX).map(|place| &pairs[place]).collect();
    }
    shown
}

/// What a row is shown for: that it got worse than it may, that its change is sure, and how large
/// it is, as the logarithm of the ratio.
fn weight(pair: &Pair) -> (bool, bool, f64) {
    let weights = pair.figures.iter().map(|figure| {
        let outcome = figure.comparison.outcome();
        let is_sure = matches!(outcome, Outcome::Higher | Outcome::Lower);
        (figure.is_regression(), is_sure, figure.comparison.ratio.ln().abs())
    });
    weights.fold((false, false, 0.0), |(lost, sure, most), (is_lost, is_sure, change)| {
        (lost | is_lost, sure | is_sure, f64::max(most, change))
    })
}

fn comparison(compared: &Compared) -> Markup {
    html! {
        @if compared.pairs.len() > PAIRS_MAX {
            p.legend {
                "The " (PAIRS_MAX) " of " (compared.pairs.len()) " rows that changed most, what got "
                "worse than it may and what is sure in front; dfsbench compare --format json has "
                "them all."
            }
        }
        div.scroll.sortable #comparison role="region" aria-labelledby="figures" tabindex="0" {
            table {
                caption { "Rates and times of rows that both campaigns have." }
                thead {
                    tr {
                        th scope="col" { "run" }
                        th scope="col" data-factor { "figure" }
                        @for name in ["before", "after", "ratio", "95 %", "p"] {
                            th.number scope="col" { (name) }
                        }
                        th scope="col" data-factor { "outcome" }
                        th scope="col" { "caveats" }
                    }
                }
                tbody {
                    @for pair in shown(&compared.pairs) {
                        @for (number, cells) in pair.cells().enumerate() {
                            tr.first[number == 0] {
                                th scope="row" { (pair.name) }
                                @for (column, cell) in cells.iter().enumerate() {
                                    td.number[(1..6).contains(&column)] { (cell) }
                                }
                                td.codes { (pair.caveats.join(", ")) }
                            }
                        }
                    }
                }
            }
        }
    }
}
