//! The table of figures of the page.
//!
//! The same rows as the terminal's table, with the verdict as a word and each caveat as a link to
//! its explanation.

use maud::{Markup, html};

use crate::sheet::{Row, Sheet, Table};
use crate::show;

/// The section with the table and how to read it.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    html! {
        section aria-labelledby="figures" {
            h2 #figures { "Figures" }
            @if sheet.rows.is_empty() {
                p { "No run was made." }
            } @else {
                @for of_kind in sheet.tables() {
                    div.scroll role="region" aria-labelledby="figures" tabindex="0" {
                        (table(sheet, &of_kind))
                    }
                    ul.reading { @for line in of_kind.reading { li { (line) } } }
                }
            }
        }
    }
}

fn table(sheet: &Sheet<'_>, table: &Table<'_, '_>) -> Markup {
    html! {
        table {
            caption { "Every run and pass, with its doubts beside the figure." }
            thead {
                tr {
                    th scope="col" { "target" }
                    th scope="col" { "pass" }
                    @for name in &sheet.columns { th.number scope="col" { (name) } }
                    @for name in table.figures {
                        th.number scope="col" { (name) }
                    }
                    th scope="col" { "verdict" }
                    th scope="col" { "caveats" }
                }
            }
            tbody {
                @for (number, row) in table.rows.iter().enumerate() {
                    @let first = number == 0 || table.rows[number - 1].run.index != row.run.index;
                    (line(row, first))
                }
            }
        }
    }
}

fn line(row: &Row<'_>, first_of_run: bool) -> Markup {
    let judged = &row.judged;
    html! {
        tr.first[first_of_run] {
            th scope="row" { (row.run.spec.target_name) }
            td.pass { (row.pass_name()) }
            @for value in &row.values { td.number { (value) } }
            @if let Some(rate) = judged.rate.as_ref().filter(|_| row.is_program()) {
                @for (number, cell) in show::program(judged, rate).iter().enumerate() {
                    td.number.rate[number == 0] { (cell) }
                }
            } @else if let Some(rate) = &judged.rate {
                td.number.rate {
                    (judged.shown(rate.median))
                    @if let Some(second) = show::second_rate(judged) { br; small { (second) } }
                }
                td.number { (show::spread(rate)) }
                (super::time_cells(&judged.response_time))
                td.number {
                    (show::cpu(judged))
                    @if let Some(server) = show::server_cpu(judged) { br; small { (server) } }
                }
            } @else {
                td.reason colspan="6" { (judged.reason().unwrap_or("no figure")) }
            }
            td.number { (show::trials(judged)) }
            td { (super::verdict(judged.verdict)) }
            td.codes {
                @for caveat in &judged.caveats {
                    a href={"#caveat-" (caveat.code)} title=(caveat.evidence_line()) {
                        (caveat.code)
                    }
                    " "
                }
            }
        }
    }
}
