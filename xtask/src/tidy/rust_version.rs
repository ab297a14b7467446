//! Rule: the pages for users name the oldest Rust that builds the workspace.
//!
//! `rust-version` in `Cargo.toml` has it, and a workflow builds with that very Rust.

use anyhow::{Context, Result};

use super::Finding;

/// The pages.
pub const PAGES: [&str; 2] = ["README.md", "docs/install.md"];

/// Compares the manifest with the pages, each with its path.
///
/// # Errors
/// If the manifest has no `rust-version`.
pub fn check(manifest: &str, pages: &[(&str, String)]) -> Result<Vec<Finding>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let package = manifest.get("workspace").and_then(|table| table.get("package"));
    let stated = package.and_then(|table| table.get("rust-version")).and_then(toml::Value::as_str);
    let wanted = format!("{} or newer", stated.context("Cargo.toml has no rust-version")?);
    let outdated = pages.iter().filter(|(_, text)| !text.contains(&wanted));
    let message = format!("does not state that Rust must be `{wanted}`");
    Ok(outdated.map(|(path, _)| Finding::new(*path, &message)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_page_with_other_version() {
        let manifest = "[workspace.package]\nrust-version = \"1.89\"\n";
        for (named, count) in [("1.89", 0), ("1.88", 1)] {
            let pages = [("README.md", format!("Rust ({named} or newer)"))];
            assert_eq!(check(manifest, &pages).unwrap().len(), count, "{named}");
        }
        assert!(check("[workspace.package]\n", &[]).is_err());
    }
}
