//! Rule: no unfinished code and no disabled test is committed.
//!
//! Looks for unfinished-code macros outside tests, for notes that something must be fixed, and for
//! disabled tests. Later work is an issue, not a mark in the text. A test may leave itself to
//! `cargo xtask real`, which runs it if its reason says so.

use super::Finding;
use super::files::SourceFile;

/// Macros for missing code. Spelled in two parts: this file is checked, too.
const MACROS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const SWITCHED_OFF: &str = concat!("#[ign", "ore");
/// Prefix of a reason with the command that still runs the test.
const RUN_BY: &str = "`cargo xtask real ";

/// Checks one file.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.source.lines.iter().enumerate() {
        let code = &file.source.code[number];
        let mut marks = Vec::new();
        if !file.is_test && !file.source.in_tests(number) {
            for word in MACROS {
                if code.contains(word) {
                    marks.push((word, "code to come is an issue, not a macro"));
                }
            }
            for word in NOTES {
                if line.contains(word) {
                    marks.push((word, "open an issue and remove the note"));
                }
            }
        }
        if code.contains(SWITCHED_OFF) && !line.contains(RUN_BY) {
            marks.push((SWITCHED_OFF, "a test that doesn't run tests nothing"));
        }
        for (word, why) in marks {
            let place = format!("{}:{}", file.path, number + 1);
            findings.push(Finding::error(place, format!("`{word}`: {why}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = SourceFile::new("crates/x/src/a.rs", text);
        check(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn planted_marks_are_found_with_their_line() {
        let text = format!("fn a() {{\n    {})\n}}\n// {} later\n", MACROS[0], NOTES[0]);
        let found = found(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("error: crates/x/src/a.rs:2: "));
        assert!(found[1].starts_with("error: crates/x/src/a.rs:4: "));
    }

    #[test]
    fn words_in_strings_and_in_tests_are_left_alone_but_no_test_may_be_off() {
        let text = format!(
            "let a = \"{})\";\n#[cfg(test)]\nmod tests {{\n {})\n}}\n",
            MACROS[0], MACROS[1]
        );
        assert_eq!(found(&text), Vec::<String>::new());
        let text =
            format!("#[cfg(test)]\nmod tests {{\n    {SWITCHED_OFF}]\n    fn a() {{}}\n}}\n");
        assert_eq!(found(&text).len(), 1);
        let run = format!("{SWITCHED_OFF} = \"{RUN_BY}disk` runs it\"]");
        assert_eq!(found(&text.replace(&format!("{SWITCHED_OFF}]"), &run)), Vec::<String>::new());
    }
}
