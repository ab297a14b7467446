//! A plain text table: columns of equal width, cells of several lines, lines below a row.
//!
//! [`Grid`] is the principal type. Nothing depends on the terminal; control characters in names
//! are replaced, so that a table can't move the cursor of the reader's terminal.

use std::borrow::Cow;

use model::printable;
use unicode_width::UnicodeWidthStr;

/// Space between two columns.
pub(crate) const GAP: &str = "  ";

/// The signs that mark a best or worst number.
const SIGNS: [char; 2] = ['▲', '▼'];

/// The units that stay in the line of their number.
const UNITS: [&str; 34] = [
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

/// To which side a column's cells are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Left alignment, for words.
    Left,
    /// Right alignment, for numbers.
    Right,
}

/// A line or lines of the table.
enum Line {
    /// A cell for each column.
    Cells(Vec<String>),
    /// The first cells, then a text over all other columns.
    Reason(Vec<String>, String),
    /// A text below a row, from the second column on.
    Text(String),
    /// A text above several rows.
    Title(String),
}

/// A table that is filled line by line.
pub(crate) struct Grid {
    header: Vec<String>,
    align: Vec<Align>,
    lines: Vec<Line>,
}

impl Grid {
    /// Starts a table with these columns.
    pub(crate) fn new(columns: &[(impl AsRef<str>, Align)]) -> Self {
        let mut grid = Self { header: Vec::new(), align: Vec::new(), lines: Vec::new() };
        for (name, align) in columns {
            grid.header.push(name.as_ref().to_owned());
            grid.align.push(*align);
        }
        grid
    }

    /// Adds a row with a cell for each column; `\n` starts a new line in the cell.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.lines.push(Line::Cells(clean_all(cells)));
    }

    /// Adds a row whose figures are replaced by a text, which is wrapped.
    pub(crate) fn reason(&mut self, leading: &[String], text: &str) {
        self.lines.push(Line::Reason(clean_all(leading), clean(text)));
    }

    /// Adds a line below a row, which is wrapped.
    pub(crate) fn text(&mut self, text: &str) {
        self.lines.push(Line::Text(clean(text)));
    }

    /// Adds a line above rows, which is wrapped.
    pub(crate) fn title(&mut self, text: &str) {
        self.lines.push(Line::Title(clean(text)));
    }

    /// Columns that the cells alone take; texts adapt themselves.
    pub(crate) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    /// Writes the table; texts are wrapped at `width_max` columns.
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
                    // The text takes the space of all columns that follow, so it is no cell whose
                    // width counts.
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

    /// Columns of characters that each column takes.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::with_capacity(self.header.len());
        for name in &self.header {
            widths.push(name.lines().map(width).max().unwrap_or(0));
        }
        for line in &self.lines {
            // A reason has the first cells only; the other columns stay as wide as they are.
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
    // A row is as high as its highest cell; the other cells are blank in the lines below.
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
                    // Only a sign makes a number wider than its column: it hangs in the gap, so
                    // that the digits stay aligned.
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

/// Writes a text below a row; into the row's last line where that is blank so far to the right.
fn write_below(out: &mut String, text: &str, indent: usize, width_max: usize) {
    // A second line of a cell to the right leaves its row blank on the left: the text fits there,
    // and the table gets no longer by it.
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

/// Breaks a text at spaces into lines of at most `width_max`; a longer word stands alone, and
/// words joined by a no-break space are kept together, as are a number and its unit.
pub fn wrap(text: &str, width_max: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
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

/// Columns that the longest word of a text takes, a number together with its unit.
pub(crate) fn longest_word(text: &str) -> usize {
    let (mut longest, mut before) = (0, "");
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

/// Whether a unit may follow a word.
fn ends_in_number(word: &str) -> bool {
    word.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether a word is a unit, with or without the punctuation of a sentence.
fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches(['.', ',', ';', ':', ')', ']']);
    UNITS.contains(&bare)
}

fn clean_all(cells: &[String]) -> Vec<String> {
    let mut cleaned = Vec::with_capacity(cells.len());
    for cell in cells {
        cleaned.push(clean(cell));
    }
    cleaned
}

/// Replaces what steers a terminal, and tabs, whose width depends on the column.
pub(crate) fn clean(text: &str) -> String {
    printable::to_printable(text).replace('\t', "\u{fffd}")
}

/// Columns that a text takes on a terminal: two for each wide character, none for marks.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Columns that a line of a cell needs; a sign before a number hangs in the space before it.
fn text_width(text: &str) -> usize {
    width(text.strip_prefix(SIGNS).unwrap_or(text))
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
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
        // Where both together are too wide, they are parted.
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
