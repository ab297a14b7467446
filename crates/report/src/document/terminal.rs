//! The terminal that a report is written for: its width, how much it shows, and its colours.
//!
//! [`Screen`] is the principal type. Width and extent are arguments, so that the same campaign and
//! the same screen give the same bytes. Colours are added to the finished text by [`paint`]: they
//! take no columns, and a caller that writes to a pipe leaves them out.

use super::text::WIDTH_MAX;

/// A narrower terminal is written for as if it had so many columns.
const COLUMNS_MIN: usize = 40;

/// The terminal that a report is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The characters that a line may have.
    columns: usize,
    /// The rows and notes that are shown.
    pub extent: Extent,
}

/// The part of a report that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The answer, the main rows, and a line for each caveat.
    Main,
    /// All rows, with evidence, explanations and conditions.
    Whole,
}

impl Screen {
    /// A terminal of so many columns.
    pub fn new(columns: usize, extent: Extent) -> Self {
        Self { columns: columns.max(COLUMNS_MIN), extent }
    }

    /// The characters that a line may have.
    pub const fn columns(self) -> usize {
        self.columns
    }

    /// Whether all rows and notes are shown.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self.extent, Extent::Whole)
    }
}

impl Default for Screen {
    /// The width of mails and logs, and all there is.
    fn default() -> Self {
        Self::new(WIDTH_MAX, Extent::Whole)
    }
}

const RESET: &str = "\u{1b}[0m";
const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";

/// Beginnings of lines about what must not be used, or got worse than it may.
const BAD: [&str; 3] = ["x invalid:", "failed: ", "Regression: "];

/// Beginnings of lines about what is uncertain.
const DOUBTFUL: [&str; 2] = ["! ", "Inconclusive: "];

/// Adds colours to a report for a terminal: best and worst rates, verdicts, the title.
///
/// Names in a report have no control characters, so whatever is added here is the only sequence
/// in it. Signs and words say the same as the colours.
pub fn paint(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        // The lines below a row begin with the sign of its verdict, see `document::text`.
        let start = line.trim_start();
        if number == 0 {
            painted.extend([BOLD, line, RESET]);
        } else if BAD.iter().any(|begin| start.starts_with(begin)) {
            painted.extend([RED, line, RESET]);
        } else if DOUBTFUL.iter().any(|begin| start.starts_with(begin)) {
            painted.extend([YELLOW, line, RESET]);
        } else {
            paint_marks(&mut painted, line);
        }
        painted.push('\n');
    }
    painted
}

/// Colours the rates that have a mark, each with its unit, up to the gap before the next column.
fn paint_marks(painted: &mut String, line: &str) {
    let mut rest = line;
    while let Some(start) = rest.find(['▲', '▼']) {
        let end = match rest[start..].find("  ") {
            Some(length) => start + length,
            None => rest.len(),
        };
        let marked = &rest[start..end];
        let colour = if marked.starts_with('▲') { GREEN } else { RED };
        // In a sentence the signs stand alone, with a space behind them.
        let is_rate = marked.chars().nth(1).is_some_and(|letter| letter.is_ascii_digit());
        painted.push_str(&rest[..start]);
        if is_rate {
            painted.extend([colour, marked, RESET]);
        } else {
            painted.push_str(marked);
        }
        rest = &rest[end..];
    }
    painted.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_only_marks_and_verdicts() {
        let compared = paint("Before and after\nRegression: a\nInconclusive: b\n");
        assert!(compared.contains("\u{1b}[31mRegression: a\u{1b}[0m\n"), "{compared:?}");
        assert!(compared.contains("\u{1b}[33mInconclusive: b\u{1b}[0m\n"), "{compared:?}");
        let text = "title\nnfs  ▲12 MB/s  3 %\n  ! cached\n  x invalid: errors\n▲ ▼: best, worst\n";
        let painted = paint(text);
        assert!(painted.contains("\u{1b}[32m▲12 MB/s\u{1b}[0m  3 %"), "{painted:?}");
        assert!(painted.contains("\u{1b}[33m  ! cached\u{1b}[0m\n"), "{painted:?}");
        assert!(painted.contains("\u{1b}[31m  x invalid: errors\u{1b}[0m\n"), "{painted:?}");
        assert!(painted.ends_with("\n▲ ▼: best, worst\n"), "{painted:?}");
    }
}
