//! Renders a document as part of a page.
//!
//! All texts are escaped by `maud`. Tables with an identifier are sorted and filtered by the page's
//! script, which relies on the classes and `data` attributes set here. Browsers cannot lay out more
//! than a few hundred rows quickly, so for longer tables the document only contains the first rows,
//! plus all of them as compact data for the script to page through.

use maud::{Markup, PreEscaped, html};
use model::{Severity, Verdict};

use super::page_frame::Frame;
use super::{
    Block, CaveatLink, Cell, Column, Document, DocumentPart, Extreme, Line, Role, Section, Table,
};
use super::{TableRow, Term, TermKind, table_data};
use crate::chart::figures;

/// Maximum number of rows to lay out in full.
const ROWS_WHOLE_MAX: usize = 500;
/// Number of rows of a longer table to lay out, for readers without scripts.
const ROWS_FIRST: usize = 100;
/// Maximum number of rows to embed as data. At about 100 bytes each, they take 3 of the 5 MB that a
/// page may have.
const ROWS_DATA_MAX: usize = 30_000;
/// Number of characters from which a name gets extra room, because other columns would squeeze it.
const NAME_LONG: usize = 16;
/// Minimum number of sections for a table of contents.
const HEADINGS_MIN: usize = 4;

/// Renders a self-contained page.
pub(crate) fn render(document: &Document) -> String {
    page(
        document,
        "Written by dfsbench from the results file; the same results always give the same page.",
    )
}

/// Renders a page with the given footer.
pub(crate) fn page(document: &Document, footer: &str) -> String {
    let page = html! {
        @if let Some(id) = first_to_read(document) { a.skip href={ "#" (id) } { "Skip to content" } }
        main { (body(document)) }
        footer { (footer) }
    };
    Frame { title: &document.title, served: None }.render_page(&page)
}

/// Section that keyboard users skip to: the results or, without any, the answer.
fn first_to_read(document: &Document) -> Option<&'static str> {
    let mut answer = None;
    for part in &document.parts {
        let DocumentPart::Section(section) = part else { continue };
        if section.id == "figures" {
            return Some(section.id);
        }
        if section.is_answer {
            answer = answer.or(Some(section.id));
        }
    }
    answer
}

/// Renders title, contents and parts.
pub(crate) fn body(document: &Document) -> Markup {
    let parts = html! {
        @for part in &document.parts {
            @match part {
                DocumentPart::Section(part) => (render_section(part)),
                DocumentPart::Page(markup) => (markup),
            }
        }
    };
    html! {
        header {
            p.overline { (document.tool) }
            h1 { (document.title) }
            @for line in &document.about { p.meta { (line) } }
        }
        (render_contents(&parts.0))
        (parts)
    }
}

/// Lists the sections of a page as links, on one line that stays visible.
///
/// Texts from results are escaped, so every `<h2 id=` is one of the page's own headings, and its
/// text is already escaped.
fn render_contents(parts: &str) -> Markup {
    let mut headings = Vec::new();
    for rest in parts.split("<h2 id=\"").skip(1) {
        if let Some((id, rest)) = rest.split_once("\">")
            && let Some((heading, _)) = rest.split_once("</h2>")
        {
            headings.push((id, PreEscaped(heading)));
        }
    }
    html! {
        @if headings.len() >= HEADINGS_MIN {
            nav.contents aria-label="Contents" {
                ul { @for (id, heading) in &headings { li { a href={ "#" (PreEscaped(id)) } { (heading) } } } }
            }
        }
    }
}

fn render_section(section: &Section) -> Markup {
    html! {
        section.answer[section.is_answer] aria-labelledby=(section.id) {
            h2 #(section.id) { (section.heading) }
            @for part in &section.blocks { (render_block(&section.heading, part)) }
        }
    }
}

/// Renders a block of the section with this heading.
fn render_block(heading: &str, block: &Block) -> Markup {
    html! {
        @match block {
            Block::Paragraph(text) => { p { (text) } },
            Block::Lead(sentences) => {
                ol.lead { @for sentence in sentences { li { (sentence) } } }
            },
            Block::List(items) => { ul { @for item in items { li { (item) } } } },
            Block::Terms(kind, all) => (render_terms(*kind, all)),
            Block::Table(one) => (named_table(one, &format!("{heading}: {}", one.caption))),
            Block::Pictures(pictures) => (figures(pictures)),
            Block::Page(markup) => (markup),
        }
    }
}

fn render_terms(kind: TermKind, terms: &[Term]) -> Markup {
    let class = match kind {
        TermKind::Passes => "passes",
        TermKind::Caveats => "caveats",
        TermKind::Conditions => "conditions",
    };
    html! {
        dl.(class) {
            @for term in terms {
                @if let Some((code, severity)) = term.code {
                    // Only rows with this severity link here.
                    @let prefix = if severity < code.severity() { "note" } else { "caveat" };
                    dt #{(prefix) "-" (code)} {
                        code { (term.name) } " " (render_severity(severity))
                    }
                } @else {
                    dt { (term.name) }
                }
                dd { @for line in &term.lines { p { (line) } } }
            }
        }
    }
}

/// Renders the effect of a caveat on the verdict.
fn render_severity(severity: Severity) -> Markup {
    let (class, name) = match severity {
        Severity::Note => ("note", "note"),
        Severity::Degraded => ("degraded", "degrades"),
        Severity::Invalid => ("invalid", "invalidates"),
    };
    html! { span.verdict.(class) { (name) } }
}

/// Renders a table with its explanations.
pub(crate) fn table(table: &Table) -> Markup {
    named_table(table, &table.caption)
}

/// Renders a table whose region has its own name, because sections may have tables with equal
/// captions.
fn named_table(table: &Table, name: &str) -> Markup {
    let sortable = (!table.id.is_empty()).then_some(table.id.as_str());
    html! {
        div {
            (missing_rows(table.rows.len()))
            div.scroll.sortable[sortable.is_some()] id=[sortable] role="region"
                aria-label=(name) tabindex="0" {
                (laid_out(table))
                @if table.rows.len() > ROWS_WHOLE_MAX {
                    (table_data::data(&table.rows[..table.rows.len().min(ROWS_DATA_MAX)]))
                }
            }
            @if !table.reading.is_empty() {
                ul.reading { @for line in &table.reading { li { (line) } } }
            }
        }
    }
}

/// States which rows are missing.
fn missing_rows(rows: usize) -> Markup {
    html! {
        @if rows > ROWS_DATA_MAX {
            p.legend {
                "The first " (ROWS_DATA_MAX) " of " (rows) " rows; CSV and JSON have all of them."
            }
        }
        @if rows > ROWS_WHOLE_MAX {
            p.legend.without-script {
                "The first " (ROWS_FIRST)
                    " rows; with scripts enabled, and in CSV and JSON, there are more."
            }
        }
    }
}

fn laid_out(table: &Table) -> Markup {
    let rows = match table.rows.len() {
        few if few <= ROWS_WHOLE_MAX => few,
        _ => ROWS_FIRST,
    };
    html! {
        table {
            caption { (table.caption) }
            thead { tr { @for column in &table.columns { (render_head(column)) } } }
            tbody { @for row in &table.rows[..rows] { (render_row(table, row)) } }
        }
    }
}

/// Renders the heading of a column, from which the script learns the kind of its cells.
fn render_head(column: &Column) -> Markup {
    let kind = match column.role {
        Role::Rate => Some("rate"),
        Role::Verdict => Some("verdict"),
        Role::Caveats => Some("codes"),
        _ => None,
    };
    html! {
        th.number[column.role.is_number()] scope="col" data-factor[column.role.is_factor()]
            data-kind=[kind] { (column.name) }
    }
}

fn render_row(table: &Table, row: &TableRow) -> Markup {
    let columns = columns_of(table, row);
    html! {
        tr.first[!row.continues] {
            @for (number, cell) in row.cells.iter().enumerate() {
                @match cell {
                    Cell::Lines(lines) if number == 0 => (head_cell(lines, &table.columns[0])),
                    Cell::Lines(lines) => (text_cell(lines, columns[number])),
                    Cell::Reason(why, span) => { td.reason colspan=(span) { (why) } },
                    Cell::Verdict(known) => { td { (render_verdict(*known)) } },
                    Cell::Caveats(links) => { td.codes { (render_caveats(links)) } },
                }
            }
        }
    }
}

/// Column of each cell of a row; a reason spans several columns.
fn columns_of<'t>(table: &'t Table, row: &TableRow) -> Vec<&'t Column> {
    let mut columns = Vec::new();
    let mut place = 0;
    for cell in &row.cells {
        columns.extend(table.columns.get(place));
        place += cell.span();
    }
    columns
}

/// Cell that names the row.
fn head_cell(lines: &[Line], column: &Column) -> Markup {
    let is_long = lines.iter().any(|line| line.text.chars().count() >= NAME_LONG);
    html! {
        th.number[column.role.is_number()].name[is_long] scope="row" { (render_lines(lines)) }
    }
}

fn text_cell(lines: &[Line], column: &Column) -> Markup {
    html! {
        td.number[column.role.is_number()].rate[column.role == Role::Rate]
            .pass[column.role == Role::Factor].prose[column.role == Role::Prose] {
                (render_lines(lines))
            }
    }
}

fn render_lines(lines: &[Line]) -> Markup {
    html! {
        @for (number, line) in lines.iter().enumerate() {
            @if number > 0 { br; small { (render_mark(line.mark)) (line.text) } }
            @else { (render_mark(line.mark)) (line.text) }
        }
    }
}

/// Mark of the best and worst, next to the rate it is based on.
fn render_mark(mark: Option<Extreme>) -> Markup {
    html! {
        @if let Some(place) = mark { span.mark title=(place.words()) { (place.sign()) } " " }
    }
}

/// Renders a verdict as a word and a sign, never only as a color.
fn render_verdict(verdict: Verdict) -> Markup {
    let mark = match verdict {
        Verdict::Valid => "✓",
        Verdict::Degraded => "!",
        Verdict::Invalid => "✕",
    };
    html! {
        span.verdict.(verdict.name()) { span aria-hidden="true" { (mark) } " " (verdict.name()) }
    }
}

fn render_caveats(links: &[CaveatLink]) -> Markup {
    html! {
        @for (number, link) in links.iter().enumerate() {
            @if link.evidence.is_empty() {
                @if number > 0 { ", " }
                (link.text)
            } @else {
                a href={"#caveat-" (link.code)} title=(link.evidence) { (link.code) } " "
            }
        }
    }
}
