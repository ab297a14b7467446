//! The first line of each item's documentation says what the item is or does, in its first words.
//!
//! [`flaw`] judges one line. A line that begins with "What", "Where" or the like makes the reader
//! wait for the noun, and one of two words only repeats the name.

use super::Finding;
use super::files::SourceFile;

/// Words that documentation shouldn't begin with.
const RELATIVE: [&str; 5] = ["Of", "As", "What", "Where", "Which"];
/// Words that the first line has at least.
const WORDS_MIN: usize = 3;

/// A flaw of the first line of an item's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It begins with a word that points at something still to come.
    Relative,
    /// It has one or two words.
    Short,
}

/// Finds the flaw of the first line of an item's documentation, without its slashes.
pub fn flaw(text: &str) -> Option<Flaw> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first()?;
    if RELATIVE.contains(first) {
        Some(Flaw::Relative)
    } else if words.len() < WORDS_MIN {
        Some(Flaw::Short)
    } else {
        None
    }
}

/// Returns the numbers and texts of the first lines of documentation, without those of tests.
pub fn first_lines(file: &SourceFile) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_documented = false;
    for (number, line) in file.source.lines.iter().enumerate() {
        if file.source.in_tests(number) {
            continue;
        }
        let documentation = line.trim().strip_prefix("///");
        if let Some(first) = documentation.filter(|_| !is_documented) {
            found.push((number, first));
        }
        is_documented = documentation.is_some();
    }
    found
}

/// Finds the flaws in the documentation of some files.
pub fn check(files: &[&SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in first_lines(file) {
            let message = match flaw(line) {
                Some(Flaw::Relative) => "the documentation doesn't say first what the item is",
                Some(Flaw::Short) => "the documentation has fewer than three words",
                None => continue,
            };
            let place = format!("{}:{}", file.path, number + 1);
            findings.push(Finding::error(place, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_that_says_nothing_first_is_found_with_its_line() {
        let text = "\
//! Header.

/// What it is for.
struct A;

/// Digs a hole.
/// Of further lines nothing is required.
fn dig() {}

/// Its name.
struct B;
";
        let found = check(&[&SourceFile::new("crates/shed/src/a.rs", text)]);
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["crates/shed/src/a.rs:3", "crates/shed/src/a.rs:10"]);
        assert_eq!(
            (flaw(" Whatever it is."), flaw(" Which one it is")),
            (None, Some(Flaw::Relative))
        );
    }
}
