//! Rule: every page of `docs/` is listed in `docs/SUMMARY.md`, from which the book is made, and the
//! files that the recipes of `CONTRIBUTING.md` name exist.
//!
//! Lychee checks the links.

use std::path::Path;

use super::Finding;

/// Contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Folders of the repository that a page may name files of.
const FOLDERS: [&str; 6] = ["checks", "crates", "docs", "fuzz", "systems", "xtask"];

/// Finds paths in code spans of a page that don't exist. One with capitals is a pattern.
pub fn check_paths(root: &Path, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let folder = span.split_once('/').map_or("", |(folder, _)| folder);
            let is_other = |sign: char| sign.is_ascii_uppercase() || sign.is_whitespace();
            if FOLDERS.contains(&folder) && !span.contains(is_other) && !root.join(span).exists() {
                let place = format!("{path}:{}", number + 1);
                findings.push(Finding::new(place, format!("`{span}` doesn't exist")));
            }
        }
    }
    findings
}

/// Finds pages of the book that are missing in its table of contents.
pub fn check_pages(summary: &str, pages: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in pages {
        let Some(name) = path.strip_prefix("docs/") else { continue };
        if path != SUMMARY && !summary.contains(&format!("({name})")) {
            findings.push(Finding::new(path, format!("is not listed in {SUMMARY}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn finds_missing_path() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        let text =
            "`docs/` `docs/NAME.md` `cat docs/x`\n`mut` and `docs/gone.md`, `other/gone.md`\n";
        let found = check_paths(root.path(), "PAGE.md", text);
        assert_eq!(found, [Finding::new("PAGE.md:2", "`docs/gone.md` doesn't exist")]);
    }

    #[test]
    fn finds_unlisted_page() {
        let pages = ["docs/SUMMARY.md", "docs/a.md", "docs/b/c.md", "README.md"].map(str::to_owned);
        let found = check_pages("- [A](a.md)\n", &pages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("docs/b/c.md: is not listed"));
    }
}
