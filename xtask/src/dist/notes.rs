//! The notes of a release: its section of the changelog.
//!
//! A version without a section gets the unreleased section, so that artifacts can be made before
//! the changelog is updated.

use anyhow::{Result, bail};

/// Returns the section of a version, or the unreleased section if it has none.
pub fn find(changelog: &str, version: &str) -> Result<String> {
    for title in [version, "Unreleased"] {
        let section = section(changelog, title);
        if !section.is_empty() {
            return Ok(format!("{section}\n"));
        }
    }
    bail!("CHANGELOG.md has neither a section for {version} nor an Unreleased section")
}

/// Returns the lines below a second-level heading, up to the next one.
fn section(changelog: &str, title: &str) -> String {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in changelog.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            // The version may be followed by a date.
            is_inside = heading.split_whitespace().next() == Some(title);
        } else if is_inside {
            lines.push(line);
        }
    }
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::find;

    const PAGE: &str = "# Changelog\n\n## Unreleased\n\n### Names\n- new\n\n\
                        ## 0.2.0 (2026-12-01)\n\n- two\n\n## 0.1.0\n\n- one\n";

    #[test]
    fn takes_section_of_version() {
        assert_eq!(find(PAGE, "0.2.0").unwrap(), "- two\n");
        assert_eq!(find(PAGE, "0.1.0").unwrap(), "- one\n");
        assert_eq!(find(PAGE, "0.3.0").unwrap(), "### Names\n- new\n");
        assert!(find("# Changelog\n", "0.3.0").is_err());
    }
}
