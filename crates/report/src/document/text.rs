//! Renders a document as text for a terminal of a given width, 100 columns by default.
//!
//! Control characters in names are replaced, so that a report cannot move the cursor. Terminals
//! have no room for columns of verdicts and caveats, so these are on a line below each row.
//! Pictures are left out.

use model::{Severity, Verdict};

use super::{Block, Cell, Column, Document, DocumentPart, Role, Section, Table, TableRow, Term};
use crate::text_grid::{Align, GAP, Grid, clean, longest_word, width};

pub use crate::text_grid::wrap;

/// Width that mail, logs and small terminals show without wrapping.
pub(crate) const WIDTH_MAX: usize = 100;

/// Minimum width of a text next to a label.
const TEXT_MIN: usize = 20;

/// Renders the document for a terminal of the given width.
pub fn render(document: &Document, width_max: usize) -> String {
    let mut out = String::new();
    match document.about.as_slice() {
        [only] => push(&mut out, "", &format!("{}: {only}", document.title), width_max),
        lines => {
            push(&mut out, "", &document.title, width_max);
            for line in lines {
                push(&mut out, "", line, width_max);
            }
        }
    }
    for part in &document.parts {
        if let DocumentPart::Section(section) = part {
            out.push('\n');
            push_section(&mut out, section, width_max);
        }
    }
    out
}

/// Returns true if the table fits into the given width.
pub fn fits(table: &Table, width_max: usize) -> bool {
    table_grid(table).width() <= width_max
}

/// Removes columns, in their specified order, until a table fits. Returns the number removed. If
/// the remaining columns are still too wide, the table stays too wide.
pub fn narrow(table: &mut Table, width_max: usize) -> usize {
    // The width of a column does not depend on the others, so measure all of them only once: a
    // table may have a hundred thousand rows.
    let mut widths = Vec::new();
    let mut shown = table_grid(table).widths().into_iter();
    widths.extend(
        table.columns.iter().map(|column| if has_column(column) { shown.next() } else { None }),
    );
    let mut removed = 0;
    loop {
        let mut width = 0;
        for column in widths.iter().flatten() {
            // The first column has no gap before it.
            width += if width > 0 { GAP.len() + column } else { *column };
        }
        let mut first: Option<(usize, u8)> = None;
        for (number, column) in table.columns.iter().enumerate() {
            let is_earlier = first.is_none_or(|(_, leaves)| column.leaves < leaves);
            if column.leaves > 0 && widths[number].is_some() && is_earlier {
                first = Some((number, column.leaves));
            }
        }
        match first {
            Some((number, _)) if width > width_max => {
                widths.remove(number);
                remove_column(table, number);
                removed += 1;
            }
            _ => return removed,
        }
    }
}

/// Removes a column with its cells, shortening a reason that spans it.
fn remove_column(table: &mut Table, number: usize) {
    // A reason spans several columns, so count positions in columns, not cells.
    table.columns.remove(number);
    for row in &mut table.rows {
        let mut start = 0;
        for place in 0..row.cells.len() {
            let span = row.cells[place].span();
            if number < start + span {
                match &mut row.cells[place] {
                    Cell::Reason(_, span) if *span > 1 => *span -= 1,
                    _ => _ = row.cells.remove(place),
                }
                break;
            }
            start += span;
        }
    }
}

fn push_section(out: &mut String, section: &Section, width_max: usize) {
    let indent = if section.heading.is_empty() { "" } else { "  " };
    if !section.heading.is_empty() {
        push(out, "", &section.heading, width_max);
    }
    // Tables are surrounded by empty lines, except at the beginning and end of a section.
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
        push_block(out, block, indent, width_max);
        is_first = false;
        follows_table = is_table;
    }
}

fn push_block(out: &mut String, block: &Block, indent: &str, width_max: usize) {
    match block {
        Block::Paragraph(text) => push(out, indent, text, width_max),
        Block::Lead(lines) | Block::List(lines) => {
            for line in lines {
                push(out, indent, line, width_max);
            }
        }
        Block::Terms(_, terms) => {
            for term in terms {
                push_term(out, indent, term, width_max);
            }
        }
        Block::Table(table) => push_table(out, table, width_max),
        Block::Pictures(_) | Block::Page(_) => {}
    }
}

fn push_term(out: &mut String, indent: &str, term: &Term, width_max: usize) {
    let Some((first, others)) = term.lines.split_first() else { return };
    push(out, indent, &format!("{}: {first}", term.name), width_max);
    for line in others {
        push(out, &format!("{indent}  "), line, width_max);
    }
}

/// Adds a table. If it is too wide, columns are dropped and words wrapped.
pub fn push_table(out: &mut String, table: &Table, width_max: usize) {
    if !table.caption.is_empty() && !table.has_page_caption {
        push(out, "", &table.caption, width_max);
    }
    if fits(table, width_max) {
        out.push_str(&table_grid(table).render(width_max));
    } else {
        let mut narrowed = table.clone();
        narrow(&mut narrowed, width_max);
        break_words(&mut narrowed, width_max);
        out.push_str(&table_grid(&narrowed).render(width_max));
    }
    for line in &table.reading {
        push(out, "  ", line, width_max);
    }
}

/// Wraps headings and cells of the widest columns at spaces until the table fits or every word is
/// on its own line.
fn break_words(table: &mut Table, width_max: usize) {
    let longest = longest_words(table);
    loop {
        let grid = table_grid(table);
        let excess = grid.width().saturating_sub(width_max);
        let Some((number, width)) = widest_to_break(table, &grid, &longest) else { return };
        if excess == 0 {
            return;
        }
        // In small steps, so that several wide columns shrink evenly.
        let step = excess.min((width / 4).max(1));
        table.columns[number].width_max = (width - step).max(longest[number]);
    }
}

/// Width of the longest word of each column, in its heading or cells.
fn longest_words(table: &Table) -> Vec<usize> {
    let mut longest: Vec<_> =
        table.columns.iter().map(|column| longest_word(&column.name)).collect();
    for row in &table.rows {
        for (known, cell) in longest.iter_mut().zip(&row.cells) {
            match cell {
                Cell::Reason(..) => break,
                Cell::Lines(lines) => {
                    for line in lines {
                        *known = (*known).max(longest_word(&line.signed()));
                    }
                }
                Cell::Verdict(_) | Cell::Caveats(_) => {}
            }
        }
    }
    longest
}

/// Next column to wrap, and its width. Words are wrapped before numbers; among equals, the widest
/// column is first.
fn widest_to_break(table: &Table, grid: &Grid, longest: &[usize]) -> Option<(usize, usize)> {
    let mut shown = grid.widths().into_iter();
    let mut chosen: Option<((bool, usize), usize)> = None;
    for (number, column) in table.columns.iter().enumerate() {
        let Some(width) = has_column(column).then(|| shown.next()).flatten() else { continue };
        // A numeric column whose heading is its widest part can be wrapped without loss.
        let is_figure = column.role.is_number() && head_width(column) < width;
        let weight = (!is_figure, width);
        if width > longest[number] && chosen.is_none_or(|(known, _)| weight > known) {
            chosen = Some((weight, number));
        }
    }
    chosen.map(|((_, width), number)| (number, width))
}

fn table_grid(table: &Table) -> Grid {
    let mut heads = Vec::new();
    for column in &table.columns {
        if !has_column(column) {
            continue;
        }
        let align = if column.role.is_number() { Align::Right } else { Align::Left };
        heads.push((break_text(&column.name, column.width_max), align));
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
            // Show the name of a group only once, before its rows.
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

fn head_width(column: &Column) -> usize {
    let mut widest = 0;
    for line in break_text(&column.name, column.width_max).lines() {
        widest = widest.max(width(line));
    }
    widest
}

/// Verdicts and caveats are shown below the row instead.
fn has_column(column: &Column) -> bool {
    !matches!(column.role, Role::Verdict | Role::Caveats)
}

/// Cells of a row up to a reason, which takes the rest of the row.
fn cells_of(table: &Table, row: &TableRow) -> Vec<String> {
    let mut texts = Vec::new();
    for (cell, column) in row.cells.iter().zip(&table.columns) {
        match cell {
            Cell::Reason(..) => break,
            Cell::Lines(lines) => {
                let mut parts = Vec::new();
                for line in lines {
                    let text = line.signed().replace('\n', " ");
                    parts.push(break_text(&text, column.width_max));
                }
                texts.push(parts.join("\n"));
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

/// Caveat codes of a row. `x` marks an invalid result, `!` a caveat, and `i` a note on how to read
/// the result.
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
    // No line for a row without caveats, which is the most common case.
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

/// Wraps a text into lines of at most `width_max` at spaces, and overlong words anywhere, to leave
/// room for the results.
pub(crate) fn break_text(text: &str, width_max: usize) -> String {
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

/// Adds a wrapped text. Continuation lines are indented by two more columns.
///
/// Lines longer than [`WIDTH_MAX`] are hard to read, so sentences do not use the full width of a
/// wide terminal. Only tables do.
pub(crate) fn push(out: &mut String, indent: &str, text: &str, width_max: usize) {
    let width = width_max.min(WIDTH_MAX) - indent.len() - 2;
    for (number, line) in wrap(&clean(text), width).iter().enumerate() {
        let more = if number > 0 { "  " } else { "" };
        out.extend([indent, more, line, "\n"]);
    }
}

/// Adds a label padded to `indent` columns, followed by a wrapped text.
pub fn push_beside(out: &mut String, head: &str, indent: usize, text: &str, width_max: usize) {
    let room = width_max.min(WIDTH_MAX).saturating_sub(indent).max(TEXT_MIN);
    for (number, line) in wrap(&clean(text), room).iter().enumerate() {
        let head = if number == 0 { head } else { "" };
        let space = " ".repeat(indent.saturating_sub(width(head)));
        out.extend([head, &space, line, "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_words_in_wide_tables() {
        let mut columns = Column::all(&[("contender", Role::Factor), ("ratio", Role::Rate)]);
        columns.push(Column::new("documented promise", Role::Prose));
        let promise = "data is on stable storage when the call returns";
        let cells = vec![Cell::text("knfsd"), Cell::text("1.25"), Cell::text(promise)];
        let rows = vec![TableRow { cells, ..TableRow::default() }];
        let table = Table { columns, rows, ..Table::default() };
        for columns in [40, 60, 80] {
            let mut out = String::new();
            push_table(&mut out, &table, columns);
            assert!(out.lines().all(|line| width(line) <= columns), "{out}");
            assert!(out.contains("1.25") && out.contains("knfsd"), "{out}");
            let words = out.split_whitespace().filter(|word| promise.contains(word)).count();
            assert!(words >= promise.split(' ').count(), "{out}");
        }
        // No word is broken, although the headings are longer than the cells.
        let mut heads = Table { columns: Column::all(&[("count A", Role::Number); 9]), ..table };
        heads.rows = Vec::new();
        let mut out = String::new();
        push_table(&mut out, &heads, 62);
        assert!(out.starts_with("count  count  count"), "{out}");
        assert!(out.lines().nth(1).unwrap().ends_with('A'), "{out}");
    }

    #[test]
    fn breaks_names_at_spaces() {
        assert_eq!(break_text("a long name of a target", 10), "a long\nname of a\ntarget");
        assert_eq!(break_text("<script>alert(1)</script>", 16), "<script>alert(1)\n</script>");
        assert_eq!(break_text("left as it is", 0), "left as it is");
    }
}
