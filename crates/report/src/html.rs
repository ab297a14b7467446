//! The report as one self-contained page: answer, pictures, table, doubts, conditions, trials.
//!
//! Every name goes through `maud`, which escapes it. The page loads nothing, and runs nothing but
//! the script in it that sorts and filters its tables; a content security policy in its head says
//! so to the browser too. Colours follow the reader's light or dark mode and never carry a meaning
//! alone.

mod asked;
mod conditions;
mod curves;
mod ends;
mod factors;
pub mod files;
mod frame;
mod heat;
mod levels;
mod load;
mod quantiles;
mod rates;
mod series;
mod table;
mod times;
mod trials;
mod watched;

use maud::{Markup, html};
use model::Verdict;

use crate::answer::answer;
use crate::found::{self, Found, FoundTable};
use crate::notes;
use crate::picture::figures;
use crate::sheet::Sheet;
use crate::show;

pub use frame::Frame;

/// Writes the page.
pub fn render(sheet: &Sheet<'_>) -> String {
    let body = html! {
        a.skip href="#figures" { "To the table of figures" }
        main { (sections(sheet)) }
        footer { "Written by dfsbench " (sheet.campaign.tool_version)
            " from the results file; the same results give the same page." }
    };
    Frame { title: &sheet.campaign.name, served: None }.around(&body)
}

/// What stands on the page.
pub fn sections(sheet: &Sheet<'_>) -> Markup {
    html! {
        (header(sheet))
        (asked::section(sheet))
        (found_out(sheet))
        (answers(sheet))
        (rates::section(sheet))
        (curves::section(sheet))
        (heat::section(sheet))
        (factors::section(sheet))
        (table::section(sheet))
        (times::section(sheet))
        (load::section(sheet))
        (quantiles::section(sheet))
        (series::section(sheet))
        (caveats(sheet))
        (watched::section(sheet))
        (conditions::section(sheet))
        (trials::section(sheet))
        (conditions::repeat(sheet.campaign))
    }
}

fn header(sheet: &Sheet<'_>) -> Markup {
    let campaign = sheet.campaign;
    html! {
        header {
            p.overline { "dfsbench report" }
            h1 { (campaign.name) }
            p.meta { (notes::title(campaign)) }
        }
    }
}

/// The answer to the campaign's question, where one was asked.
fn found_out(sheet: &Sheet<'_>) -> Markup {
    let Some(Found { title, sentences, tables, pictures, .. }) = found::of(sheet) else {
        return html! {};
    };
    html! {
        section.answer aria-labelledby="found" {
            h2 #found { (title) }
            @for sentence in &sentences { p { (sentence) } }
            (figures(&pictures))
            @for table in &tables { (found_table(table)) }
        }
    }
}

/// A table of an answer.
pub fn found_table(table: &FoundTable) -> Markup {
    html! {
        div.scroll role="region" aria-label=(table.caption) tabindex="0" {
            table {
                caption { (table.caption) }
                thead { tr {
                    @for (name, number) in &table.columns {
                        th scope="col" .number[*number] { (name) }
                    }
                } }
                tbody { @for row in &table.rows { tr {
                    @for (cell, (_, number)) in row.iter().zip(&table.columns) {
                        td.number[*number] { (cell) }
                    }
                } } }
            }
        }
        ul.reading { @for line in &table.reading { li { (line) } } }
    }
}

fn answers(sheet: &Sheet<'_>) -> Markup {
    let count = |verdict, with_figure: bool| {
        let rows = sheet.rows.iter();
        rows.filter(|row| row.judged.verdict == verdict && row.judged.rate.is_some() == with_figure)
            .count()
    };
    let tally = [
        ("valid", "✓", count(Verdict::Valid, true), "valid"),
        ("degraded", "!", count(Verdict::Degraded, true), "in doubt"),
        ("invalid", "✕", count(Verdict::Invalid, true), "not to be used"),
        ("invalid", "✕", count(Verdict::Invalid, false), "without a figure"),
    ];
    let answer = answer(sheet);
    html! {
        section.answer aria-labelledby="answer" {
            h2 #answer { "The answer" }
            ol.lead { @for sentence in &answer.lead { li { (sentence) } } }
            @if !answer.passes.is_empty() {
                dl.passes {
                    @for pass in &answer.passes {
                        dt { (pass.pass) }
                        dd {
                            p { (pass.figures) }
                            @if let Some(finding) = &pass.finding { p.finding { (finding) } }
                        }
                    }
                }
            }
            @for remark in &answer.remarks { p { (remark) } }
            p.tally {
                @for (class, mark, count, what) in tally {
                    @if count > 0 {
                        span.verdict.(class) {
                            span aria-hidden="true" { (mark) } " " (count) " " (what)
                        }
                        " "
                    }
                }
            }
        }
    }
}

fn caveats(sheet: &Sheet<'_>) -> Markup {
    html! {
        @if !sheet.caveats.is_empty() {
            section aria-labelledby="caveats" {
                h2 #caveats { "Caveats" }
                p { "What speaks against a figure, once for each code, with its worst case." }
                dl.caveats {
                    @for caveat in &sheet.caveats {
                        dt #{"caveat-" (caveat.code)} {
                            code { (caveat.code) } " "
                            (severity(caveat.code.severity()))
                        }
                        dd {
                            p { (caveat.code.sentence()) }
                            p.evidence {
                                strong { (caveat.place) ":" } " " (caveat.evidence)
                                (notes::others(caveat.rows))
                            }
                            p.advice { (caveat.code.advice()) }
                        }
                    }
                }
            }
        }
        @let loads = notes::load::lines(sheet);
        @if !loads.is_empty() {
            section aria-labelledby="loads" {
                h2 #loads { (notes::load::LOADS) }
                ul { @for load in &loads { li { (load) } } }
            }
        }
        @let clients = notes::clients(sheet);
        @if !clients.is_empty() {
            section aria-labelledby="clients" {
                h2 #clients { (notes::CLIENTS) }
                ul { @for client in &clients { li { (client) } } }
            }
        }
        @let hosts = notes::hosts::lines(sheet);
        @if !hosts.is_empty() {
            section aria-labelledby="hosts" {
                h2 #hosts { (notes::hosts::HOSTS) }
                ul { @for host in &hosts { li { (host) } } }
            }
        }
        @let failures = notes::partial_failures(sheet);
        @if !failures.is_empty() {
            section aria-labelledby="failures" {
                h2 #failures { "Trials without a result" }
                ul { @for failure in &failures { li { (failure) } } }
            }
        }
    }
}

fn severity(severity: model::Severity) -> Markup {
    let (class, name) = match severity {
        model::Severity::Note => ("note", "note"),
        model::Severity::Degraded => ("degraded", "degrades"),
        model::Severity::Invalid => ("invalid", "invalidates"),
    };
    html! { span.verdict.(class) { (name) } }
}

/// A verdict as a word and a mark, never as a colour alone.
fn verdict(verdict: Verdict) -> Markup {
    let mark = match verdict {
        Verdict::Valid => "✓",
        Verdict::Degraded => "!",
        Verdict::Invalid => "✕",
    };
    html! {
        span.verdict.(verdict.name()) { span aria-hidden="true" { (mark) } " " (verdict.name()) }
    }
}

/// Median, 99th percentile and maximum as cells.
fn time_cells(histogram: &model::Histogram) -> Markup {
    html! { @for time in show::times(histogram) { td.number { (time) } } }
}
