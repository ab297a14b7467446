//! Terminal that a report is written for: its width, how much to show, and colors.
//!
//! [`Screen`] is the main type. Width and extent are arguments, so that the same campaign and
//! screen always give the same bytes. [`paint`] adds colors to the finished text. They take no
//! columns, and callers that write to a pipe leave them out.

use super::text::WIDTH_MAX;

/// Minimum width; narrower terminals are treated as if they had this width.
const COLUMNS_MIN: usize = 40;

/// Terminal that a report is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Maximum number of characters per line.
    columns: usize,
    /// Rows and notes to show.
    pub extent: ReportDetail,
}

/// How much of a report to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportDetail {
    /// The answer, the main rows, and one line per caveat.
    Main,
    /// All rows, with evidence, explanations and conditions.
    Whole,
}

impl Screen {
    pub fn new(columns: usize, extent: ReportDetail) -> Self {
        Self { columns: columns.max(COLUMNS_MIN), extent }
    }

    /// Maximum number of characters per line.
    pub const fn columns(self) -> usize {
        self.columns
    }

    /// Returns true if all rows and notes are shown.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self.extent, ReportDetail::Whole)
    }
}

impl Default for Screen {
    /// Width for mail and logs, and everything shown.
    fn default() -> Self {
        Self::new(WIDTH_MAX, ReportDetail::Whole)
    }
}

const RESET: &str = "\u{1b}[0m";
const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";

/// Prefixes of lines about invalid results and regressions.
const BAD: [&str; 3] = ["x invalid:", "failed: ", "Regression: "];

/// Prefixes of lines about uncertain results.
const DOUBTFUL: [&str; 2] = ["! ", "Inconclusive: "];

/// Colors a report for a terminal: best and worst rates, verdicts, the title.
///
/// Names in a report contain no control characters, so the only escape sequences are those added
/// here. Signs and words carry the same information as the colors.
pub fn paint(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        // Lines below a row start with the sign of its verdict, see `document::text`.
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

/// Colors the marked rates, including the unit, up to the gap before the next column.
fn paint_marks(painted: &mut String, line: &str) {
    let mut rest = line;
    while let Some(start) = rest.find(['▲', '▼']) {
        let end = match rest[start..].find("  ") {
            Some(length) => start + length,
            None => rest.len(),
        };
        let marked = &rest[start..end];
        let colour = if marked.starts_with('▲') { GREEN } else { RED };
        // In sentences, the signs are followed by a space.
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
