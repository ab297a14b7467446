//! Rule: every external crate has a row in `docs/design/dependencies.md`, and there are no other
//! rows.
//!
//! An external crate is one that a member depends on. Crates in the root manifest that no member
//! uses are an error, too.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::Finding;
use super::metadata::Member;
use crate::doctable;

const COLUMNS: [&str; 2] = ["crate", "what it saves"];
const PAGE: &str = "docs/design/dependencies.md";

/// Compares the root manifest and the members with the page.
///
/// # Errors
/// If the manifest is not valid TOML or the page has no table.
pub fn check(manifest: &str, page: &str, members: &[Member]) -> Result<Vec<Finding>> {
    let used: BTreeSet<_> =
        members.iter().flat_map(|member| member.outside.iter().cloned()).collect();
    let in_manifest = read_manifest(manifest)?;
    let on_page = read_page(page)?;
    let mut findings: Vec<_> = used
        .difference(&on_page)
        .map(|name| Finding::new(name, format!("is a dependency without a line in {PAGE}")))
        .collect();
    for name in on_page.difference(&used) {
        findings.push(Finding::new(name, format!("has a line in {PAGE} but no crate uses it")));
    }
    for name in in_manifest.difference(&used) {
        findings.push(Finding::new(name, "is listed in Cargo.toml but no crate uses it"));
    }
    Ok(findings)
}

fn read_manifest(manifest: &str) -> Result<BTreeSet<String>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let workspace = manifest.get("workspace").context("Cargo.toml has no [workspace]")?;
    let dependencies = workspace.get("dependencies").and_then(toml::Value::as_table);
    Ok(dependencies
        .context("Cargo.toml has no [workspace.dependencies]")?
        .into_iter()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.clone())
        .collect())
}

/// Returns the names in all tables of the page with these columns, one row per crate.
fn read_page(page: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for section in page.split("\n## ") {
        let rows = doctable::find_table(section, &COLUMNS).unwrap_or_default();
        names.extend(rows.into_iter().filter_map(|row| row.into_iter().next()));
    }
    anyhow::ensure!(!names.is_empty(), "{PAGE} has no table with the columns {COLUMNS:?}");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\nmodel = { path = \"m\" }\nserde = \"1\"\n";
    const TABLE: &str = "## A\n| crate | what it saves |\n|---|---|\n";

    fn found(page: &str, outside: &[&str]) -> Vec<String> {
        let outside = outside.iter().map(|name| (*name).to_owned()).collect();
        let member = Member { name: "stats".to_owned(), uses: Vec::new(), outside };
        let findings = check(MANIFEST, page, &[member]).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn compares_dependencies_with_page() {
        let found = found(&format!("{TABLE}| `gone` | x |\n"), &["serde"]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("serde: is a dependency without a line"));
        assert!(found[1].contains("gone: has a line"));
    }

    #[test]
    fn finds_unused_workspace_dependency() {
        let found = found(&format!("{TABLE}| `rand` | x |\n"), &["rand"]);
        assert_eq!(found, ["error: serde: is listed in Cargo.toml but no crate uses it"]);
    }

    #[test]
    fn all_tables_of_the_page_count() {
        let page = format!("{TABLE}| `serde` | x |\n\n{TABLE}| `rand` | x |\n");
        assert_eq!(found(&page, &["serde", "rand"]), Vec::<String>::new());
    }
}
