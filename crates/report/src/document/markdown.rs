//! Renders a document as GitHub Markdown, for issues, wikis and mail.
//!
//! All texts go through `escape_markdown`, so that markup and pipes in names stay as they are.
//! Pictures are left out.
//!
//! **Source:** GitHub Flavored Markdown specification, 4.10 (tables) and 2.4 (escapes).

use std::fmt::Write as _;

use model::printable::is_steering;

use super::{Block, Cell, Document, DocumentPart, Table, TableRow, Term};

pub(crate) fn render(document: &Document) -> String {
    let mut out = format!("# dfsbench: {}\n\n", escape_markdown(&document.title));
    match document.about.as_slice() {
        [only] => push_paragraph(&mut out, only),
        lines => push_items(&mut out, lines),
    }
    for part in &document.parts {
        let DocumentPart::Section(section) = part else { continue };
        if !section.heading.is_empty() {
            let _ = writeln!(out, "## {}\n", escape_markdown(&section.heading));
        }
        for block in &section.blocks {
            push_block(&mut out, block);
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn push_block(out: &mut String, block: &Block) {
    match block {
        Block::Paragraph(text) => push_paragraph(out, text),
        Block::Lead(sentences) => {
            for sentence in sentences {
                let _ = writeln!(out, "> {}", escape_markdown(sentence));
            }
            out.push('\n');
        }
        Block::List(items) => push_items(out, items),
        Block::Terms(_, terms) => {
            let lines: Vec<String> = terms.iter().map(term_line).collect();
            push_items(out, &lines);
        }
        Block::Table(table) => push_table(out, table),
        Block::Pictures(_) | Block::Page(_) => {}
    }
}

/// Formats a term and its description as sentences on one line.
fn term_line(term: &Term) -> String {
    let mut line = format!("{}:", term.name);
    for (number, sentence) in term.lines.iter().enumerate() {
        if number > 0 && !line.ends_with('.') {
            line.push('.');
        }
        line.extend([" ", sentence]);
    }
    line
}

fn push_table(out: &mut String, table: &Table) {
    if !table.caption.is_empty() && !table.has_page_caption {
        push_paragraph(out, &table.caption);
    }
    let mut heads = Vec::new();
    let mut rules = Vec::new();
    for column in &table.columns {
        heads.push(escape_markdown(&column.name));
        rules.push((if column.role.is_number() { "---:" } else { "---" }).to_owned());
    }
    push_cells(out, &heads);
    push_cells(out, &rules);
    for row in &table.rows {
        push_cells(out, &cells_of(table, row));
    }
    out.push('\n');
    push_items(out, &table.reading);
}

/// Cells of a row. In stacked groups, only the first row has the name.
fn cells_of(table: &Table, row: &TableRow) -> Vec<String> {
    let mut cells = Vec::new();
    for cell in &row.cells {
        let is_repeated = table.stacks_groups && row.continues && cells.is_empty();
        cells.push(if is_repeated { String::new() } else { escape_markdown(&cell.one_line()) });
        if let Cell::Reason(_, span) = cell {
            cells.resize(cells.len() + span - 1, "–".to_owned());
        }
    }
    cells
}

fn push_cells(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn push_paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}\n", escape_markdown(text));
}

fn push_items(out: &mut String, items: &[String]) {
    if items.is_empty() {
        return;
    }
    for item in items {
        let _ = writeln!(out, "- {}", escape_markdown(item));
    }
    out.push('\n');
}

/// Puts a backslash before everything that Markdown or HTML would interpret. An underscore within a
/// word is kept, as GitHub does not interpret it.
fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut last = ' ';
    while let Some(c) = letters.next() {
        let within = last.is_alphanumeric() && letters.peek().is_some_and(|c| c.is_alphanumeric());
        match c {
            '_' if within => out.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' => {
                out.extend(['\\', c]);
            }
            c if c.is_control() || is_steering(c) => out.push(' '),
            c => out.push(c),
        }
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escape_markdown("<i>|a_b`\n_[x]"), "\\<i\\>\\|a_b\\` \\_\\[x\\]");
    }
}
