//! `cargo xtask tidy`: checks the project rules that no compiler enforces.
//!
//! Main type: [`Finding`]. Each rule is a function from text or metadata to findings, so that the
//! tests can plant a violation and check that it is found. Errors fail the command, warnings are
//! printed.
//!
//! Not checked here: spelling. A spell checker that understands code takes longer to build than the
//! workspace, and a handmade list of wrong words finds nothing.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};

use crate::repo;

mod architecture;
mod ceilings;
mod circles;
mod dependencies;
mod embedded;
mod files;
mod licences;
mod links;
mod metadata;
mod oldest_rust;
mod pages;
mod parameters;
mod purity;
mod signature;
mod sizes;
mod source;
mod streams;
mod tables;
mod unfinished;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Printed, but not counted as a failure.
    Warning,
    /// Printed, and fails the command.
    Error,
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    level: Level,
    place: String,
    message: String,
}

impl Finding {
    fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Error, place: place.into(), message: message.into() }
    }

    fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Warning => "warning",
            Level::Error => "error",
        };
        write!(out, "{level}: {}: {}", self.place, self.message)
    }
}

/// Runs every rule on the repository and prints the findings; returns `true` if there are no
/// errors.
///
/// # Errors
/// If a page or the metadata can't be read.
pub fn run() -> Result<bool> {
    let findings = find_all()?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    println!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    Ok(errors == 0)
}

fn find_all() -> Result<Vec<Finding>> {
    let architecture =
        architecture::Architecture::parse(&read_page("docs/design/architecture.md")?)?;
    let members = metadata::members()?;
    let mut findings = dependencies::check(&architecture, &members);

    let manifest = read_page("Cargo.toml")?;
    let listed = read_page("docs/design/dependencies.md")?;
    findings.extend(pages::check(&manifest, &listed, &members)?);
    let graph = metadata::graph()?;
    findings.extend(licences::check(&graph));
    let mut pages = Vec::new();
    for path in oldest_rust::PAGES {
        pages.push((path, read_page(path)?));
    }
    findings.extend(oldest_rust::check(&manifest, &graph, &pages)?);

    let files = files::sources(&repo::root())?;
    for file in &files {
        findings.extend(sizes::check(file));
        findings.extend(streams::check(file));
        findings.extend(unfinished::check(file));
        findings.extend(embedded::check(file));
        findings.extend(oldest_rust::check_syntax(file));
        if architecture.is_pure(&file.krate) {
            findings.extend(purity::check(file));
        }
    }
    for (krate, files) in files::product_code_by_crate(&files) {
        findings.extend(parameters::check(krate, &files));
        findings.extend(circles::check(krate, &files));
    }
    findings.extend(check_pages()?);
    findings.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.place.cmp(&b.place)));
    Ok(findings)
}

/// Checks the links and tables of all pages.
fn check_pages() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let pages = files::pages(&repo::root())?;
    for path in &pages {
        let text = read_page(path)?;
        findings.extend(links::check(&repo::root(), path, &text));
        findings.extend(tables::check(path, &text));
    }
    for path in links::FURTHER_PAGES {
        findings.extend(links::check(&repo::root(), path, &read_page(path)?));
    }
    findings.extend(links::check_contents(&read_page("docs/SUMMARY.md")?, &pages));
    Ok(findings)
}

fn read_page(path: &str) -> Result<String> {
    fs::read_to_string(repo::root().join(path)).with_context(|| format!("cannot read {path}"))
}
