//! Rule: every crate from outside is weighed on `docs/design/dependencies.md`, and no other is.
//!
//! "From outside" is what the root manifest lists without a path, and what a member draws in past
//! it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::Finding;
use super::metadata::Member;
use crate::doctable;

const COLUMNS: [&str; 2] = ["crate", "what it saves us"];
const PAGE: &str = "docs/design/dependencies.md";

/// Compares the root manifest and the members with the page.
///
/// # Errors
/// Where the manifest is no TOML or the page has no table.
pub fn check(manifest: &str, page: &str, members: &[Member]) -> Result<Vec<Finding>> {
    let mut used = roots(manifest)?;
    used.extend(members.iter().flat_map(|member| member.outside.iter().cloned()));
    let listed = listed(page)?;
    let missing = used
        .difference(&listed)
        .map(|name| Finding::error(name, format!("is a dependency without a line in {PAGE}")));
    let stale = listed.difference(&used).map(|name| {
        Finding::error(name, format!("has a line in {PAGE} but is no dependency any more"))
    });
    Ok(missing.chain(stale).collect())
}

fn roots(manifest: &str) -> Result<BTreeSet<String>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let dependencies = manifest.get("workspace").and_then(|table| table.get("dependencies"));
    let dependencies = dependencies.and_then(toml::Value::as_table);
    let dependencies = dependencies.context("Cargo.toml has no [workspace.dependencies]")?;
    let outside = dependencies.iter().filter(|(_, value)| value.get("path").is_none());
    Ok(outside.map(|(name, _)| name.clone()).collect())
}

/// Names of all tables of the page that have the columns, one row a crate.
fn listed(page: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for section in page.split("\n## ") {
        let rows = doctable::find(section, &COLUMNS).unwrap_or_default();
        names.extend(rows.into_iter().filter_map(|row| row.into_iter().next()));
    }
    anyhow::ensure!(!names.is_empty(), "{PAGE} has no table with the columns {COLUMNS:?}");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\nmodel = { path = \"m\" }\nserde = \"1\"\n";
    const TABLE: &str = "## A\n| crate | what it saves us |\n|---|---|\n";

    #[test]
    fn a_dependency_without_a_line_is_found_and_a_line_without_a_dependency_too() {
        let page = format!("{TABLE}| `gone` | x |\n");
        let found: Vec<String> =
            check(MANIFEST, &page, &[]).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("serde: is a dependency without a line"));
        assert!(found[1].contains("gone: has a line"));
    }

    #[test]
    fn all_tables_of_the_page_count_and_so_do_private_dependencies() {
        let page = format!("{TABLE}| `serde` | x |\n\n{TABLE}| `rand` | x |\n");
        let outside = vec!["rand".to_owned()];
        let member = Member { name: "stats".to_owned(), uses: Vec::new(), outside };
        assert_eq!(check(MANIFEST, &page, &[member]).unwrap(), Vec::new());
    }
}
