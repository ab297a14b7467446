//! Wraps and cuts lines between words; terminals break them anywhere.

use report::document::text::wrap;
use unicode_width::UnicodeWidthStr as _;

/// Extra indentation of the second and later lines.
const HANG: usize = 2;

/// Wraps a line that is wider than the terminal. A word that is too long for any line is not
/// broken, so that paths and addresses can be copied.
pub(crate) fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    if line.width() <= columns {
        return vec![line.to_owned()];
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut lines = Vec::new();
    for part in wrap(line, columns.saturating_sub(indent + HANG).max(1)) {
        let indent = if lines.is_empty() { indent } else { indent + HANG };
        lines.push(format!("{:indent$}{part}", ""));
    }
    lines
}

/// Cuts a line between words and appends an ellipsis.
pub(crate) fn cut_line(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut cut = String::new();
    for word in line.split(' ') {
        let gap = usize::from(!cut.is_empty());
        // The ellipsis takes a column, and so does the space before it.
        if cut.width() + gap + word.width() + 2 > columns {
            break;
        }
        if gap > 0 {
            cut.push(' ');
        }
        cut.push_str(word);
    }
    if !cut.is_empty() {
        cut.push(' ');
    }
    if columns > 0 { cut + "…" } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_lines_between_words() {
        let line = "! cached: 54.5 MiB were read from storage (nfs stream read)";
        let lines = wrap_line(line, 30);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.width() <= 30), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "{lines:?}");
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        assert!(words.eq(line.split_whitespace()), "{lines:?}");
    }

    #[test]
    fn cuts_between_words() {
        assert_eq!(cut_line("nfs stream write", 16), "nfs stream write");
        assert_eq!(cut_line("nfs stream write", 15), "nfs stream …");
        assert_eq!(cut_line("nfs stream write", 2), "…");
        assert_eq!(cut_line("nfs", 0), "");
    }

    #[test]
    fn keeps_fitting_lines_and_long_words() {
        assert_eq!(wrap_line("  a   b", 7), ["  a   b"]);
        let url = "http://127.0.0.1:49152/metrics-of-a-campaign";
        assert_eq!(
            wrap_line(&format!("  metrics: {url}"), 20),
            ["  metrics:", &format!("    {url}")]
        );
        assert_eq!(wrap_line("日本語 日本語", 8), ["日本語", "  日本語"]);
    }
}
