//! Rule: the line of dashes below the header of a table is a line by itself.
//!
//! Tools that wrap lines turn a table into text, which no other tool reports.
//!
//! **Source:** GitHub Flavored Markdown 0.29, "Tables (extension)".

use super::Finding;

/// Finds tables of a page whose rows were joined into one line.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        let is_dashes = line.trim().chars().all(|sign| matches!(sign, '|' | '-' | ':' | ' '));
        if !in_code && line.contains("|---") && !is_dashes {
            let place = format!("{path}:{}", number + 1);
            findings.push(Finding::new(place, "several rows of a table are on one line"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_broken_table() {
        let good = "- item\n\n  | a | b |\n  |---|--:|\n  | 1 | 2 |\n\n```\nx |---| y\n```\n";
        assert_eq!(check("docs/a.md", good), []);
        let found = check("docs/a.md", "x\n  | a | b | |---|---| | 1 | 2 |\n");
        assert_eq!(
            found[0].to_string(),
            "error: docs/a.md:2: several rows of a table are on one line"
        );
    }
}
