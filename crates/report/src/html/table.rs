//! The table of figures of the page.
//!
//! The same rows as the terminal's table, with the verdict as a word and each caveat as a link to
//! its explanation. A browser lays out some hundred rows at once and no more: of more, the first
//! ones stand in the document, and all of them as compact data beside it, for the page's script to
//! show page by page.

use std::collections::HashMap;

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::sheet::{Row, Sheet, Table};
use crate::show;

/// So many rows are laid out whole.
const ROWS_WHOLE_MAX: usize = 500;
/// So many of more than that, for readers without scripts.
const ROWS_FIRST: usize = 100;
/// So many are kept as data: some 100 bytes each, of the 5 MB that a page may have.
const ROWS_DATA_MAX: usize = 30_000;

/// The section with the table and how to read it.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    html! {
        section aria-labelledby="figures" {
            h2 #figures { "Figures" }
            @if sheet.rows.is_empty() {
                p { "No run was made." }
            } @else {
                @for (number, of_kind) in sheet.tables().iter().enumerate() {
                    div {
                        (few(of_kind.rows.len()))
                        div.scroll.sortable #{"figures-" (number)} role="region"
                            aria-labelledby="figures" tabindex="0" {
                            (table(sheet, of_kind))
                            @if of_kind.rows.len() > ROWS_WHOLE_MAX { (data(of_kind)) }
                        }
                        ul.reading { @for line in &of_kind.reading { li { (line) } } }
                    }
                }
            }
        }
    }
}

/// Says which rows are not there.
fn few(rows: usize) -> Markup {
    html! {
        @if rows > ROWS_DATA_MAX {
            p.legend { "The first " (ROWS_DATA_MAX) " of " (rows) " rows; CSV has them all." }
        }
        @if rows > ROWS_WHOLE_MAX {
            p.legend.without-script {
                "The first " (ROWS_FIRST) " rows; where scripts are allowed, and in CSV, there are \
                 more."
            }
        }
    }
}

fn table(sheet: &Sheet<'_>, table: &Table<'_, '_>) -> Markup {
    let whole = table.rows.len() <= ROWS_WHOLE_MAX;
    let rows = &table.rows[..if whole { table.rows.len() } else { ROWS_FIRST }];
    html! {
        table {
            caption { "Every run and pass, with its doubts beside the figure." }
            thead { (head(sheet, table.figures)) }
            tbody {
                @for (number, row) in rows.iter().enumerate() {
                    @let first = number == 0 || rows[number - 1].run.index != row.run.index;
                    (line(row, first))
                }
            }
        }
    }
}

/// The heads of the columns; the script is told which of them are factors.
fn head(sheet: &Sheet<'_>, figures: [&'static str; 7]) -> Markup {
    html! {
        tr {
            th scope="col" data-factor { "target" }
            th scope="col" data-factor { "pass" }
            @for name in &sheet.columns { th.number scope="col" data-factor { (name) } }
            @for (number, name) in figures.iter().enumerate() {
                th.number scope="col" data-kind=[(number == 0).then_some("rate")] { (name) }
            }
            th scope="col" data-factor data-kind="verdict" { "verdict" }
            th scope="col" data-kind="codes" { "caveats" }
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
                    td.number.rate[number == 0] { @if number == 0 { (sign(row, false)) } (cell) }
                }
            } @else if let Some(rate) = &judged.rate {
                td.number.rate {
                    (sign(row, false)) (judged.shown(rate.median))
                    @if let Some(second) = show::second_rate(judged) {
                        br; small { (sign(row, true)) (second) }
                    }
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

/// The mark of the best and the worst, beside the rate that it goes by.
fn sign(row: &Row<'_>, by_bytes: bool) -> Markup {
    html! {
        @if let Some(mark) = row.mark.filter(|mark| mark.by_bytes == by_bytes) {
            span.mark title=(mark.place.words()) { (mark.place.sign()) } " "
        }
    }
}

/// The cells of a row as texts, one for each column.
fn texts(row: &Row<'_>) -> Vec<String> {
    let judged = &row.judged;
    let figures = match &judged.rate {
        Some(rate) if row.is_program() => show::program(judged, rate).to_vec(),
        Some(rate) => {
            let (first, second) = row.rates(rate.median);
            let second = second.map_or_else(String::new, |s| format!(" · {s}"));
            let server = show::server_cpu(judged).map_or_else(String::new, |s| format!(" {s}"));
            let shown = format!("{first}{second}");
            let cpu = format!("{}{server}", show::cpu(judged));
            let [p50, p99, max] = show::times(&judged.response_time);
            vec![shown, show::spread(rate), p50, p99, max, cpu]
        }
        None => {
            let reason = judged.reason().unwrap_or("no figure").to_owned();
            [vec![reason], vec![String::new(); 5]].concat()
        }
    };
    let codes: Vec<&str> = judged.caveats.iter().map(|caveat| caveat.code.code()).collect();
    let names = [row.run.spec.target_name.clone(), row.pass_name()];
    let ends = [show::trials(judged), judged.verdict.name().to_owned(), codes.join(", ")];
    [&names[..], &row.values, &figures, &ends].concat()
}

/// The rows as data. A text that comes up again and again is kept once and goes by its number.
fn data(table: &Table<'_, '_>) -> Markup {
    let rows: Vec<Vec<String>> =
        table.rows.iter().take(ROWS_DATA_MAX).map(|row| texts(row)).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let words: Vec<Words<'_>> =
        (0..columns).map(|column| Words::of(rows.iter().map(|row| row[column].as_str()))).collect();
    let cells = |row: &Vec<String>| -> Value {
        row.iter().zip(&words).map(|(text, words)| words.number(text)).collect()
    };
    let kept: Vec<Value> = words.iter().map(Words::listed).collect();
    let rows: Vec<Value> = rows.iter().map(cells).collect();
    // No text may end the element that it stands in.
    let text = json!({ "words": kept, "rows": rows }).to_string().replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}

/// The texts of one column, where they are worth to be numbered.
struct Words<'a> {
    order: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Words<'a> {
    fn of(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut words = Self { order: Vec::new(), numbers: HashMap::new() };
        let mut seen = 0;
        for text in texts {
            seen += 1;
            words.numbers.entry(text).or_insert_with(|| {
                words.order.push(text);
                words.order.len() - 1
            });
        }
        if words.order.len() * 2 > seen { Self { numbers: HashMap::new(), ..words } } else { words }
    }

    fn listed(&self) -> Value {
        if self.numbers.is_empty() { Value::Null } else { json!(self.order) }
    }

    fn number(&self, text: &str) -> Value {
        self.numbers.get(text).map_or_else(|| json!(text), |number| json!(number))
    }
}
