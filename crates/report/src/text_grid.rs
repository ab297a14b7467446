//! Plain text table: aligned columns, multi-line cells, and lines below a row.
//!
//! [`Grid`] is the main type. It does not depend on the terminal. Control characters in names
//! are replaced, so that a table cannot move the cursor.

use std::borrow::Cow;
use std::fmt::Write as _;

use model::printable;
use unicode_width::UnicodeWidthStr;

/// Space between two columns.
pub(crate) const GAP: &str = "  ";

/// Signs that mark a best or worst number.
const SIGNS: [char; 2] = ['▲', '▼'];

/// Units that are kept on the same line as their number.
const UNITS: [&str; 37] = [
    "%",
    "B",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "B/s",
    "kB/s",
    "MB/s",
    "GB/s",
    "MiB/s",
    "op/s",
    "kop/s",
    "Mop/s",
    "entries/s",
    "kentries/s",
    "Mentries/s",
    "op",
    "ops",
    "ns",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "s/GiB",
    "µs/op",
    "bit/s",
    "kbit/s",
    "Mbit/s",
    "Gbit/s",
    "kHz",
    "MHz",
    "GHz",
    "µs/command",
    "ms/command",
    "s/command",
];

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// One or more lines of the table.
enum Line {
    /// One cell per column.
    Cells(Vec<String>),
    /// The first cells, followed by a text that spans all other columns.
    Reason(Vec<String>, String),
    /// Text below a row, starting at the second column.
    Text(String),
    /// Text above several rows.
    Title(String),
}

/// Table that is built line by line.
pub(crate) struct Grid {
    header: Vec<String>,
    align: Vec<Align>,
    lines: Vec<Line>,
}

impl Grid {
    pub(crate) fn new(columns: &[(impl AsRef<str>, Align)]) -> Self {
        let mut grid = Self { header: Vec::new(), align: Vec::new(), lines: Vec::new() };
        for (name, align) in columns {
            grid.header.push(name.as_ref().to_owned());
            grid.align.push(*align);
        }
        grid
    }

    /// Adds a row with one cell per column. `\n` starts a new line within a cell.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.lines.push(Line::Cells(clean_all(cells)));
    }

    /// Adds a row with a wrapped text in place of its results.
    pub(crate) fn reason(&mut self, leading: &[String], text: &str) {
        self.lines.push(Line::Reason(clean_all(leading), clean(text)));
    }

    /// Adds a wrapped line below a row.
    pub(crate) fn text(&mut self, text: &str) {
        self.lines.push(Line::Text(clean(text)));
    }

    /// Adds a wrapped line above rows.
    pub(crate) fn title(&mut self, text: &str) {
        self.lines.push(Line::Title(clean(text)));
    }

    /// Width of the cells; texts adapt to it.
    pub(crate) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    /// Renders the table, with texts wrapped at `width_max` columns.
    pub(crate) fn render(&self, width_max: usize) -> String {
        let widths = self.widths();
        let mut out = String::new();
        push_cells(&mut out, &self.header, &self.align, &widths);
        let mut rule = String::new();
        for width in &widths {
            rule.extend([&"─".repeat(*width), GAP]);
        }
        push_line(&mut out, &rule);
        for line in &self.lines {
            match line {
                Line::Cells(cells) => push_cells(&mut out, cells, &self.align, &widths),
                Line::Reason(leading, text) => {
                    // The text spans all remaining columns, so it does not count as a cell when
                    // computing widths.
                    let mut indent = leading.len() * GAP.len();
                    indent += widths[..leading.len()].iter().sum::<usize>();
                    let wrapped = wrap(text, width_max.saturating_sub(indent).max(20));
                    let cells = [&leading[..], &[wrapped.join("\n")]].concat();
                    let align = [&self.align[..leading.len()], &[Align::Left]].concat();
                    push_cells(&mut out, &cells, &align, &widths);
                }
                Line::Title(text) => {
                    for part in wrap(text, width_max) {
                        push_line(&mut out, &part);
                    }
                }
                Line::Text(text) => {
                    let indent = widths.first().map_or(0, |width| width + GAP.len());
                    write_below(&mut out, text, indent, width_max);
                }
            }
        }
        out
    }

    /// Width of each column in characters.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> =
            self.header.iter().map(|name| name.lines().map(width).max().unwrap_or(0)).collect();
        for line in &self.lines {
            // A reason only has the first cells and does not widen the other columns.
            if let Line::Cells(cells) | Line::Reason(cells, _) = line {
                for (column, cell) in cells.iter().enumerate() {
                    for part in cell.lines() {
                        widths[column] = widths[column].max(text_width(part));
                    }
                }
            }
        }
        widths
    }
}

fn push_cells(out: &mut String, cells: &[String], align: &[Align], widths: &[usize]) {
    // A row is as tall as its tallest cell; other cells are padded with blank lines.
    let mut height = 1;
    for cell in cells {
        height = height.max(cell.lines().count());
    }
    for number in 0..height {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let part = cell.lines().nth(number).unwrap_or("");
            let space = " ".repeat(widths[column].saturating_sub(width(part)));
            match align[column] {
                Align::Left => line.extend([part, &space]),
                Align::Right => {
                    // Only a sign can make a number wider than its column. It hangs into the gap,
                    // so that the digits stay aligned.
                    if width(part) > widths[column] && line.ends_with(GAP) {
                        line.pop();
                    }
                    line.extend([space.as_str(), part]);
                }
            }
            line.push_str(GAP);
        }
        push_line(out, &line);
    }
}

/// Writes a text below a row, or into the row's last line if that is blank up to there.
fn write_below(out: &mut String, text: &str, indent: usize, width_max: usize) {
    // A cell with a second line on the right leaves the left of that line blank. If the text fits
    // there, the table does not get longer.
    let start = out.trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
    let blank = out[start..].len() - out[start..].trim_start_matches(' ').len();
    let end = indent + width(text);
    if end + GAP.len() <= blank {
        out.replace_range(start + indent..start + end, text);
        return;
    }
    for part in wrap(text, width_max.saturating_sub(indent).max(20)) {
        push_line(out, &format!("{}{part}", " ".repeat(indent)));
    }
}

/// Wraps a text at spaces into lines of at most `width_max` columns. A longer word gets its own
/// line. Words joined by a no-break space stay together, as do a number and its unit.
pub fn wrap(text: &str, width_max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut words = text.split_ascii_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = Cow::Borrowed(word);
        if ends_in_number(&word)
            && let Some(unit) =
                words.next_if(|next| is_unit(next) && width(&word) + 1 + width(next) <= width_max)
        {
            word.to_mut().extend([" ", unit]);
        }
        let word = word.as_ref();
        if line.is_empty() {
            line.push_str(word);
        } else if width(&line) + 1 + width(word) <= width_max {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(std::mem::replace(&mut line, word.to_owned()));
        }
    }
    lines.push(line);
    lines
}

/// Width of the longest word of a text, counting a number and its unit as one word.
pub(crate) fn longest_word(text: &str) -> usize {
    let mut longest = 0;
    let mut before = "";
    for word in text.split_ascii_whitespace() {
        let mut length = width(word);
        if ends_in_number(before) && is_unit(word) {
            length += width(before) + 1;
        }
        longest = longest.max(length);
        before = word;
    }
    longest
}

/// Returns true if a unit may follow the word.
fn ends_in_number(word: &str) -> bool {
    word.ends_with(|c: char| c.is_ascii_digit())
}

/// Returns true if the word is a unit, with or without trailing punctuation.
fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches(['.', ',', ';', ':', ')', ']']);
    UNITS.contains(&bare)
}

fn clean_all(cells: &[String]) -> Vec<String> {
    cells.iter().map(|cell| clean(cell)).collect()
}

/// Replaces control sequences, and also tabs, whose width depends on the column.
pub(crate) fn clean(text: &str) -> String {
    printable::to_printable(text).replace('\t', "\u{fffd}")
}

/// Width of a text on a terminal: two columns for each wide character, none for combining marks.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Width that a line of a cell needs. A sign before a number hangs into the gap and does not count.
fn text_width(text: &str) -> usize {
    width(text.strip_prefix(SIGNS).unwrap_or(text))
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Pads the cells of each column to the same width; all rows have as many cells as the first. Line
/// breaks in cells are replaced, because a name must not add rows.
pub fn align_columns(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (width, cell) in std::iter::zip(&mut widths, row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in std::iter::zip(&widths, row) {
            let width = *width;
            // Writing to a `String` never fails.
            let _ = write!(line, "{:<width$}  ", printable::to_printable_line(cell));
        }
        // Don't end the line in blanks if its last cell is narrower than the column.
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_align_and_texts_wrap() {
        let mut grid = Grid::new(&[("name", Align::Left), ("rate", Align::Right)]);
        grid.row(&["a".into(), "12 MB/s\n3 op/s".into()]);
        grid.text("! cached");
        grid.row(&["b".into(), "1234567 MB/s\n3 op/s".into()]);
        grid.text("! a");
        grid.reason(&["long name".into()], "the server does not speak NFS version 2 any more");
        assert_eq!(grid.width(), 23);
        let expected = "\
name               rate
─────────  ────────────
a               12 MB/s
                 3 op/s
           ! cached
b          1234567 MB/s
           ! a   3 op/s
long name  the server does not
           speak NFS version 2
           any more
";
        assert_eq!(grid.render(31), expected);
    }

    #[test]
    fn keeps_number_and_unit_together() {
        let text = "mixed up to 105 kop/s on uring (±7 %); 4 times";
        assert_eq!(wrap(text, 15), ["mixed up to", "105 kop/s on", "uring (±7 %); 4", "times"]);
        // If both are too wide for one line, they are separated.
        assert_eq!(wrap("105 kop/s", 6), ["105", "kop/s"]);
    }

    #[test]
    fn aligns_numbers_despite_signs() {
        let mut grid = Grid::new(&[("name", Align::Left), ("rate", Align::Right)]);
        grid.row(&["a".into(), "▲1074 MB/s".into()]);
        grid.row(&["b".into(), "▼99 MB/s".into()]);
        let expected = "\
name       rate
────  ─────────
a    ▲1074 MB/s
b      ▼99 MB/s
";
        assert_eq!(grid.render(80), expected);
        assert_eq!(grid.width(), 15);
    }

    #[test]
    fn counts_columns_of_wide_characters() {
        let mut grid = Grid::new(&[("name", Align::Left), ("rate", Align::Right)]);
        grid.row(&["存储".into(), "1".into()]);
        grid.row(&["e\u{301}".into(), "2".into()]);
        let expected = "\
name  rate
────  ────
存储     1
e\u{301}        2
";
        assert_eq!(grid.render(80), expected);
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        let mut grid = Grid::new(&[("name", Align::Left)]);
        grid.row(&["\u{1b}[2Jgone\r".into()]);
        assert!(grid.render(80).contains("\u{fffd}[2Jgone\u{fffd}\n"));
    }
}
