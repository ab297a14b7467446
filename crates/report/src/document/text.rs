//! A document as text for a terminal, at most 100 columns wide.
//!
//! Control characters in names are replaced, so that a report can't move the cursor of its reader.
//! A terminal has no room for columns of verdicts and caveats: a line below the row says them. Of
//! pictures it shows nothing.

use model::{Severity, Verdict};

use super::{Block, Cell, Column, Document, Part, Role, Section, Table, TableRow, Term};
use crate::grid::{Align, Grid, clean, width, wrap};

/// The width that mails, logs and small terminals show without breaking lines.
pub const WIDTH_MAX: usize = 100;

/// Writes the document.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    match document.about.as_slice() {
        [only] => push(&mut out, "", &format!("{}: {only}", document.title)),
        lines => {
            push(&mut out, "", &document.title);
            for line in lines {
                push(&mut out, "", line);
            }
        }
    }
    for part in &document.parts {
        if let Part::Section(section) = part {
            out.push('\n');
            push_section(&mut out, section);
        }
    }
    out
}

/// Whether a table is no wider than a terminal of so many columns.
pub fn fits(table: &Table, width_max: usize) -> bool {
    table_grid(table).width() <= width_max
}

fn push_section(out: &mut String, section: &Section) {
    let indent = if section.heading.is_empty() { "" } else { "  " };
    if !section.heading.is_empty() {
        push(out, "", &section.heading);
    }
    // A table has an empty line on either side, unless it begins or ends the section.
    let mut is_first = true;
    let mut follows_table = false;
    for block in &section.blocks {
        if matches!(block, Block::Pictures(_) | Block::Page(_)) {
            continue;
        }
        let is_table = matches!(block, Block::Table(_));
        if !is_first && (is_table || follows_table) {
            out.push('\n');
        }
        push_block(out, block, indent);
        (is_first, follows_table) = (false, is_table);
    }
}

fn push_block(out: &mut String, block: &Block, indent: &str) {
    match block {
        Block::Paragraph(text) => push(out, indent, text),
        Block::Lead(lines) | Block::List(lines) => {
            for line in lines {
                push(out, indent, line);
            }
        }
        Block::Terms(_, terms) => {
            for term in terms {
                push_term(out, indent, term);
            }
        }
        Block::Table(table) => push_table(out, table),
        Block::Pictures(_) | Block::Page(_) => {}
    }
}

fn push_term(out: &mut String, indent: &str, term: &Term) {
    let Some((first, others)) = term.lines.split_first() else { return };
    push(out, indent, &format!("{}: {first}", term.name));
    for line in others {
        push(out, &format!("{indent}  "), line);
    }
}

fn push_table(out: &mut String, table: &Table) {
    if !table.caption.is_empty() && !table.has_page_caption {
        push(out, "", &table.caption);
    }
    out.push_str(&table_grid(table).render(WIDTH_MAX));
    table.reading.iter().for_each(|line| push(out, "  ", line));
}

fn table_grid(table: &Table) -> Grid {
    let shown: Vec<&Column> = table.columns.iter().filter(|column| has_column(column)).collect();
    let mut heads = Vec::new();
    for column in &shown {
        let align = if column.role.is_number() { Align::Right } else { Align::Left };
        heads.push((column.name.as_str(), align));
    }
    let mut grid = Grid::new(&heads);
    let mut rows = table.rows.iter().peekable();
    while let Some(row) = rows.next() {
        if !row.title.is_empty() {
            grid.title(&row.title);
        }
        let mut cells = cells_of(table, row);
        while table.stacks_groups
            && let Some(next) = rows.next_if(|next| next.continues)
        {
            // The name of the group stands once, before its rows.
            for (cell, more) in cells.iter_mut().zip(cells_of(table, next)).skip(1) {
                cell.extend(["\n", &more]);
            }
        }
        match row_reason(row) {
            Some(why) => grid.reason(&cells, why),
            None => grid.row(&cells),
        }
        if let Some(line) = line_below(row) {
            grid.text(&line);
        }
    }
    grid
}

/// Verdicts and caveats stand below the row.
fn has_column(column: &Column) -> bool {
    !matches!(column.role, Role::Verdict | Role::Caveats)
}

/// The cells of a row up to a reason, which takes all others' room.
fn cells_of(table: &Table, row: &TableRow) -> Vec<String> {
    let mut texts = Vec::new();
    for (cell, column) in row.cells.iter().zip(&table.columns) {
        match cell {
            Cell::Reason(..) => break,
            Cell::Lines(lines) => {
                let lines = lines.iter().map(|line| {
                    let text = line.signed().replace('\n', " ");
                    break_text(&text, column.width_max)
                });
                texts.push(lines.collect::<Vec<_>>().join("\n"));
            }
            Cell::Verdict(_) | Cell::Caveats(_) => {}
        }
    }
    texts
}

fn row_reason(row: &TableRow) -> Option<&str> {
    row.cells.iter().find_map(|cell| match cell {
        Cell::Reason(why, _) => Some(why.as_str()),
        _ => None,
    })
}

/// The codes of a row. `x` marks what must not be used, `!` a caveat, `i` what only says how to
/// read the figure.
fn line_below(row: &TableRow) -> Option<String> {
    let mut verdict = None;
    let mut codes = None;
    for cell in &row.cells {
        match cell {
            Cell::Verdict(known) => verdict = Some(*known),
            Cell::Caveats(links) if !links.is_empty() => codes = Some((links, cell.one_line())),
            _ => {}
        }
    }
    // A row without a caveat has no line: most rows of a good campaign.
    let (links, codes) = codes?;
    let is_doubted = links.iter().any(|link| link.code.severity() > Severity::Note);
    let mark = match verdict {
        Some(Verdict::Invalid) => "x invalid:",
        None => "!",
        Some(_) if is_doubted => "!",
        Some(_) => "i",
    };
    Some(format!("{mark} {codes}"))
}

/// Breaks a text at spaces, and words that are too long anywhere, into lines of at most
/// `width_max`, or it would leave no room for the figures.
fn break_text(text: &str, width_max: usize) -> String {
    if width_max == 0 {
        return text.to_owned();
    }
    let mut parts = Vec::new();
    for line in wrap(text, width_max) {
        let mut part = String::new();
        for letter in line.chars() {
            part.push(letter);
            if width(&part) > width_max {
                part.pop();
                parts.push(std::mem::replace(&mut part, letter.to_string()));
            }
        }
        parts.push(part);
    }
    parts.join("\n")
}

/// Adds a text, wrapped; continued lines are indented by two more columns.
pub fn push(out: &mut String, indent: &str, text: &str) {
    for (number, line) in wrap(&clean(text), WIDTH_MAX - indent.len() - 2).iter().enumerate() {
        let more = if number > 0 { "  " } else { "" };
        out.extend([indent, more, line, "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(break_text("a long name of a target", 10), "a long\nname of a\ntarget");
        assert_eq!(break_text("<script>alert(1)</script>", 16), "<script>alert(1)\n</script>");
        assert_eq!(break_text("left as it is", 0), "left as it is");
    }
}
