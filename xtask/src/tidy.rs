//! `cargo xtask tidy`: checks the project rules that no compiler enforces.
//!
//! Principal type: [`Finding`]. Each rule is a function from text or metadata to findings, so that
//! the tests can plant a violation and see it found.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};

use crate::repo;

mod architecture;
mod contents;
mod cycles;
mod dependencies;
mod embedded;
mod files;
mod metadata;
mod pages;
mod purity;
mod rust_version;
mod sizes;
mod source;
mod streams;
mod tables;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    place: String,
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "error: {}: {}", self.place, self.message)
    }
}

/// Runs every rule over the repository and prints what was found; `true` if nothing was.
pub fn run() -> Result<bool> {
    let findings = find_all()?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} errors", findings.len());
    Ok(findings.is_empty())
}

fn find_all() -> Result<Vec<Finding>> {
    let architecture =
        architecture::Architecture::parse(&read_page("docs/design/architecture.md")?)?;
    let members = metadata::members()?;
    let mut findings = dependencies::check(&architecture, &members);

    let manifest = read_page("Cargo.toml")?;
    let listed = read_page("docs/design/dependencies.md")?;
    findings.extend(pages::check(&manifest, &listed, &members)?);
    let mut pages = Vec::new();
    for path in rust_version::PAGES {
        pages.push((path, read_page(path)?));
    }
    findings.extend(rust_version::check(&manifest, &pages)?);

    let files = files::sources(&repo::root())?;
    for file in &files {
        findings.extend(sizes::check(file));
        findings.extend(streams::check(file));
        findings.extend(embedded::check(file));
        if architecture.is_pure(&file.krate) {
            findings.extend(purity::check(file));
        }
    }
    for (krate, files) in files::product_code_by_crate(&files) {
        findings.extend(cycles::check(krate, &files));
    }
    findings.extend(check_pages()?);
    findings.sort();
    Ok(findings)
}

/// Checks the tables of all pages, and which pages there are.
fn check_pages() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let pages = files::pages(&repo::root())?;
    for path in &pages {
        let text = read_page(path)?;
        findings.extend(tables::check(path, &text));
    }
    findings.extend(contents::check_pages(&read_page("docs/SUMMARY.md")?, &pages));
    let recipes = "CONTRIBUTING.md";
    findings.extend(contents::check_paths(&repo::root(), recipes, &read_page(recipes)?));
    Ok(findings)
}

fn read_page(path: &str) -> Result<String> {
    fs::read_to_string(repo::root().join(path)).with_context(|| format!("cannot read {path}"))
}
