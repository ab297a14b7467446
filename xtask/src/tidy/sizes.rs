//! Rule: files are short, lines fit, and every file starts with a description of its purpose.
//!
//! Before the hard limits there are soft ones: warnings come at 500 lines per file and 70 per
//! function, errors at 700 and 100. A function is counted from its `fn` to its closing brace; a
//! file's lines include its tests.

use super::Finding;
use super::files::SourceFile;
use super::source::end_of_block;

const FILE_LINES: Limits = Limits { warning: 500, error: 700 };
const FUNCTION_LINES: Limits = Limits { warning: 70, error: 100 };
const LINE_COLUMNS: usize = 100;
const HEADER_LINES: std::ops::RangeInclusive<usize> = 3..=12;

struct Limits {
    warning: usize,
    error: usize,
}

impl Limits {
    fn judge(&self, place: String, what: &str, lines: usize) -> Option<Finding> {
        let message = format!("{what} has {lines} lines, the limit is {}", self.warning);
        if lines > self.error {
            Some(Finding::error(place, message))
        } else if lines > self.warning {
            Some(Finding::warning(place, message))
        } else {
            None
        }
    }
}

/// Checks one file.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(FILE_LINES.judge(file.path.clone(), "the file", file.source.lines.len()));
    findings.extend(check_functions(file));
    findings.extend(check_columns(file));
    findings.extend(check_header(file));
    findings
}

fn check_functions(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, text) in file.source.code.iter().enumerate() {
        let Some((column, name)) = function_at(text) else { continue };
        let Some(end) = end_of_block(&file.source.code, number, column) else { continue };
        let place = format!("{}:{}", file.path, number + 1);
        let what = format!("`{name}`");
        findings.extend(FUNCTION_LINES.judge(place, &what, end - number + 1));
    }
    findings
}

/// Finds a `fn name` in a line of code: its column in characters and the name.
fn function_at(code: &str) -> Option<(usize, &str)> {
    let at = if code.starts_with("fn ") { 0 } else { code.find(" fn ")? + 1 };
    let name = code[at + 3..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let column = code[..at].chars().count();
    if name.is_empty() { None } else { Some((column, name)) }
}

fn check_columns(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.source.lines.iter().enumerate() {
        let width = line.chars().count();
        if width <= LINE_COLUMNS || line.contains("://") {
            continue;
        }
        let place = format!("{}:{}", file.path, number + 1);
        let message = format!("{width} columns, the limit is {LINE_COLUMNS}");
        // rustfmt leaves a line with a long string alone, so this is a warning, not an error.
        let holds_text = file.source.code[number].contains('"');
        let judge = if holds_text { Finding::warning } else { Finding::error };
        findings.push(judge(place, message));
    }
    findings
}

fn check_header(file: &SourceFile) -> Option<Finding> {
    let mut length = 0;
    for line in &file.source.lines {
        let line = line.trim();
        if line.starts_with("//!") {
            length += 1;
        } else if length > 0 {
            break;
        } else if !line.is_empty() && !line.starts_with("#!") {
            return Some(Finding::error(&file.path, "has no module header (`//!`) at its top"));
        }
    }
    if length == 0 {
        return Some(Finding::error(&file.path, "is empty"));
    }
    let message = format!("the module header has {length} lines, not 3 to 12");
    let fits = HEADER_LINES.contains(&length) || (file.is_test && length < 3);
    if fits { None } else { Some(Finding::warning(&file.path, message)) }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    const HEADER: &str = "//! What.\n//! More.\n//! And.\n";

    fn found(body: &str) -> Vec<Finding> {
        check(&SourceFile::new("crates/x/src/a.rs", &format!("{HEADER}{body}")))
    }

    #[test]
    fn a_long_function_is_found_with_its_line_and_name() {
        for (lines, level) in [(70, None), (71, Some(Level::Warning)), (101, Some(Level::Error))] {
            let body = format!("    pub fn long() {{\n{}    }}\n", "x;\n".repeat(lines - 2));
            let findings = found(&body);
            assert_eq!(findings.first().map(|finding| finding.level), level, "{lines}");
            if let Some(finding) = findings.first() {
                assert_eq!(finding.place, "crates/x/src/a.rs:4");
                assert!(finding.message.contains("`long`"));
            }
        }
    }

    #[test]
    fn a_long_file_is_found() {
        assert!(found(&"x\n".repeat(497)).is_empty());
        assert_eq!(found(&"x\n".repeat(498))[0].level, Level::Warning);
        assert_eq!(found(&"x\n".repeat(700))[0].level, Level::Error);
    }

    #[test]
    fn wide_code_is_an_error_wide_text_a_warning_and_an_address_is_fine() {
        let wide = "x".repeat(101);
        assert_eq!(found(&wide)[0].level, Level::Error);
        assert_eq!(found(&format!("let a = \"{wide}\";"))[0].level, Level::Warning);
        assert!(found(&format!("// https://{wide}")).is_empty());
        assert!(found(&"é".repeat(100)).is_empty());
    }

    #[test]
    fn a_file_without_header_is_found() {
        let file = SourceFile::new("crates/x/src/a.rs", "use std::fs;\n//! late\n");
        assert_eq!(check(&file)[0].level, Level::Error);
        let file = SourceFile::new("crates/x/src/a.rs", "//! Short.\nfn a() {}\n");
        assert_eq!(check(&file)[0].level, Level::Warning);
    }
}
