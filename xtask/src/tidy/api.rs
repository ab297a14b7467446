//! Rule: the interface of a crate that others use is the one that was written down, and names no
//! type that they can't.
//!
//! **Source:** The Cargo book, "SemVer Compatibility".

use std::collections::BTreeSet;

use super::Finding;

/// Lines that are printed of a difference.
const SHOWN_LINES: usize = 3;

/// Compares a listing that was written, at its path, with that of the sources.
pub fn check(path: &str, written: &str, listed: &str) -> Vec<Finding> {
    if written == listed {
        return Vec::new();
    }
    let (gone, new) = (lines_missing(written, listed), lines_missing(listed, written));
    let message = format!(
        "the interface has changed{}{}; where that is meant, run `cargo xtask api` and say so in \
         CHANGELOG.md",
        show(", without", &gone),
        show(", with", &new)
    );
    vec![Finding::error(path, message)]
}

/// Reports types of other crates of ours, such as `model::Proto`, that an interface names.
pub fn check_strangers(path: &str, strangers: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in strangers {
        let message = format!("`{name}` is named, and users of the crate needn't know its crate");
        findings.push(Finding::error(path, message));
    }
    findings
}

/// Returns the lines of a text that another hasn't.
fn lines_missing<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let known: BTreeSet<&str> = other.lines().collect();
    let mut missing = Vec::new();
    for line in text.lines() {
        if !known.contains(line) {
            missing.push(line.trim());
        }
    }
    missing
}

fn show(what: &str, lines: &[&str]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let first = &lines[..lines.len().min(SHOWN_LINES)];
    let more = if lines.len() > first.len() { " ..." } else { "" };
    format!("{what} `{}`{more}", first.join("` `"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_gone_and_one_that_is_new_are_named() {
        let (before, after) = ("pub fn a() {}\npub fn b() {}\n", "pub fn a() {}\npub fn c() {}\n");
        assert_eq!(check("api.rs", before, before), []);
        let found = check("api.rs", before, after)[0].to_string();
        assert!(found.contains("without `pub fn b() {}`, with `pub fn c() {}`;"), "{found}");
        // The same lines in another order are another interface, too: of a trait object, say.
        let swapped = "pub fn b() {}\npub fn a() {}\n";
        assert_eq!(check("api.rs", before, swapped).len(), 1);
    }

    #[test]
    fn a_type_of_a_crate_that_users_need_not_know_is_an_error() {
        let found = check_strangers("api.rs", &BTreeSet::from(["model::Proto".to_owned()]));
        assert!(found[0].to_string().contains("error: api.rs: `model::Proto`"), "{found:?}");
    }
}
