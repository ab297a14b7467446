//! Rule: files are short enough to read in one go, lines fit, and each file has a header.
//!
//! Clippy counts the lines of functions (`too_many_lines`).

use super::Finding;
use super::files::SourceFile;

const FILE_LINES: usize = 700;
const LINE_COLUMNS: usize = 100;

pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.source.lines.len();
    if lines > FILE_LINES {
        let message = format!("has {lines} lines, the limit is {FILE_LINES}");
        findings.push(Finding::new(&file.path, message));
    }
    findings.extend(check_columns(file));
    if !has_header(file) {
        findings.push(Finding::new(&file.path, "has no module header (`//!`) at its top"));
    }
    findings
}

fn check_columns(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.source.lines.iter().enumerate() {
        let width = line.chars().count();
        // rustfmt leaves a line alone if it contains a long string.
        let has_string = file.source.code[number].contains('"');
        if width <= LINE_COLUMNS || has_string || line.contains("://") {
            continue;
        }
        let place = format!("{}:{}", file.path, number + 1);
        let message = format!("{width} columns, the limit is {LINE_COLUMNS}");
        findings.push(Finding::new(place, message));
    }
    findings
}

/// Returns true if nothing but attributes of the file precedes its header.
fn has_header(file: &SourceFile) -> bool {
    let mut lines = file.source.lines.iter().map(|line| line.trim());
    let first = lines.find(|line| !line.is_empty() && !line.starts_with("#!"));
    first.is_some_and(|line| line.starts_with("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "//! What.\n";

    fn count(text: &str) -> usize {
        check(&SourceFile::new("crates/x/src/a.rs", text)).len()
    }

    #[test]
    fn long_file_is_found() {
        assert_eq!(count(&format!("{HEADER}{}", "x\n".repeat(699))), 0);
        assert_eq!(count(&format!("{HEADER}{}", "x\n".repeat(700))), 1);
    }

    #[test]
    fn finds_wide_lines_without_strings() {
        let wide = "x".repeat(101);
        assert_eq!(count(&format!("{HEADER}{wide}")), 1);
        assert_eq!(count(&format!("{HEADER}let a = \"{wide}\";")), 0);
        assert_eq!(count(&format!("{HEADER}// https://{wide}")), 0);
        assert_eq!(count(&format!("{HEADER}{}", "é".repeat(100))), 0);
    }

    #[test]
    fn file_without_header_is_found() {
        assert_eq!(count("use std::fs;\n//! late\n"), 1);
        assert_eq!(count(""), 1);
        assert_eq!(count("#![allow(x)]\n\n//! Short.\nfn a() {}\n"), 0);
    }
}
