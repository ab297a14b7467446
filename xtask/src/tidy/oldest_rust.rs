//! Rule: `rust-version` is the oldest Rust that builds the workspace, and pages state the same.
//!
//! No external crate may need a newer one. Clippy (`incompatible_msrv`) finds newer functions of
//! the standard library, but not newer syntax; of the syntax stabilized since, guards with `let` in
//! a `match` are the most likely to be written inadvertently. A workflow builds with that very
//! Rust.
//!
//! **Source:** The Cargo book, "The rust-version field"; release notes of Rust 1.95.

use anyhow::{Context, Result};

use super::Finding;
use super::files::SourceFile;
use super::metadata::Package;

/// Pages that state the oldest Rust, for people who build from source.
pub const PAGES: [&str; 2] = ["README.md", "docs/install.md"];

/// A version such as 1.89: its major and its minor number.
type Version = (u32, u32);

/// Compares the manifest with the external crates, and with the pages, each given with its path.
///
/// # Errors
/// If the manifest has no `rust-version`.
pub fn check(
    manifest: &str,
    packages: &[Package],
    pages: &[(&str, String)],
) -> Result<Vec<Finding>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let package = manifest.get("workspace").and_then(|table| table.get("package"));
    let stated = package.and_then(|table| table.get("rust-version")).and_then(toml::Value::as_str);
    let stated = stated.context("Cargo.toml has no rust-version")?;
    let ours = parse(stated).with_context(|| format!("rust-version = \"{stated}\""))?;
    let mut findings = Vec::new();
    for package in packages {
        let Some(needed) = &package.rust_version else { continue };
        if parse(needed).is_none_or(|needed| needed > ours) {
            let place = format!("{} {}", package.name, package.version);
            let message = format!("needs Rust {needed}, and Cargo.toml says {stated}");
            findings.push(Finding::error(place, message));
        }
    }
    for (path, text) in pages {
        let is_named = text.contains(&format!("{stated} or newer"));
        if !is_named {
            let message = format!("doesn't say that Rust is to be `{stated} or newer`");
            findings.push(Finding::error(*path, message));
        }
    }
    Ok(findings)
}

/// Finds guards with `let` in one file.
pub fn check_syntax(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.source.code.iter().enumerate() {
        let Some((pattern, rest)) = line.split_once(" if let ") else { continue };
        // `x = if let` and `(if let` are expressions, and `else if let` is a branch.
        let is_arm = !pattern.trim().is_empty()
            && !pattern.ends_with(['=', '(', '|', ':', ','])
            && !pattern.ends_with("else")
            && !pattern.ends_with("return")
            && !pattern.ends_with("=>");
        if is_arm && rest.contains("=>") {
            let place = format!("{}:{}", file.path, number + 1);
            let message = "a guard with `let` needs Rust 1.95; decide inside or before the `match`";
            findings.push(Finding::error(place, message));
        }
    }
    findings
}

fn parse(version: &str) -> Option<Version> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.package]\nrust-version = \"1.89\"\n";

    #[test]
    fn a_crate_that_needs_a_newer_rust_and_a_page_that_names_another_are_found() {
        let mut package = Package::for_test("new", Some("MIT"));
        let good = vec![("README.md", "Rust (1.89 or newer)".to_owned())];
        for (needed, count) in [("1.89.0", 0), ("1.9", 0), ("1.90", 1), ("2.0.0", 1), ("odd", 1)] {
            package.rust_version = Some(needed.to_owned());
            let found = check(MANIFEST, std::slice::from_ref(&package), &good).unwrap();
            assert_eq!(found.len(), count, "{needed}: {found:?}");
        }
        let old = vec![("README.md", "Rust (1.88 or newer)".to_owned())];
        assert_eq!(check(MANIFEST, &[], &old).unwrap().len(), 1);
        assert!(check("[workspace.package]\n", &[], &good).is_err());
    }

    #[test]
    fn guards_with_let_are_found_and_other_uses_are_not() {
        let count = |line: &str| {
            check_syntax(&SourceFile::new("crates/x/src/a.rs", &format!("    {line}\n"))).len()
        };
        assert_eq!(count("_ if let Some(nfs) = self.nfs() => {"), 1);
        assert_eq!(count("Some(x) if let Ok(y) = x.get() => y,"), 1);
        for line in [
            "if let Some(x) = y {",
            "} else if let Some(x) = y {",
            "let z = if let Some(x) = y { x } else { 0 };",
            "Kind::A => if let Some(x) = y { x } else { match y { _ => 0 } },",
            "Some(x) if x > 3 => x,",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }
}
