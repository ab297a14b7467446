//! Reads `cargo metadata`: the members of the workspace and the licenses of all dependencies.
//!
//! Main types: [`Member`] and [`Package`]. Only this file uses the raw JSON.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{proc, repo};

/// The purpose of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Listed under `[dependencies]`.
    Normal,
    /// Listed under `[dev-dependencies]`.
    Dev,
    /// Listed under `[build-dependencies]`.
    Build,
}

/// One crate of the workspace.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the crate.
    pub name: String,
    /// The crates of the workspace that it uses.
    pub uses: Vec<(String, Kind)>,
    /// The external crates that it uses.
    pub outside: Vec<String>,
}

/// One package of the whole graph, with its license.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// The SPDX expression, if it declares one.
    pub license: Option<String>,
    source: Option<String>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Returns the members of the workspace.
///
/// # Errors
/// If cargo fails or its JSON has changed.
pub fn members() -> Result<Vec<Member>> {
    Ok(metadata(&["--no-deps"])?.into_iter().map(Member::from).collect())
}

/// Returns every external package that the workspace depends on, directly or not, each version
/// once.
///
/// # Errors
/// Same as [`members`].
pub fn graph() -> Result<Vec<Package>> {
    let mut packages = metadata(&[])?;
    packages.retain(|package| package.source.is_some());
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup_by(|a, b| (&a.name, &a.version) == (&b.name, &b.version));
    Ok(packages)
}

fn metadata(extra: &[&str]) -> Result<Vec<Package>> {
    let mut command = repo::cargo();
    command.args(["metadata", "--format-version", "1"]).args(extra);
    let json = proc::capture_stdout(&mut command)?;
    let metadata: Metadata = serde_json::from_slice(&json).context("cargo metadata's JSON")?;
    Ok(metadata.packages)
}

/// Returns the name of one of our crates in the sources; it is published with a prefix.
fn short_name(name: &str) -> String {
    name.strip_prefix("dfsbench-").unwrap_or(name).to_owned()
}

impl From<Package> for Member {
    fn from(package: Package) -> Self {
        let mut member =
            Self { name: short_name(&package.name), uses: Vec::new(), outside: Vec::new() };
        for dependency in package.dependencies {
            // A dependency with a source is not a crate of the workspace.
            if dependency.source.is_some() {
                member.outside.push(dependency.name);
                continue;
            }
            let kind = match dependency.kind.as_deref() {
                Some("dev") => Kind::Dev,
                Some("build") => Kind::Build,
                _ => Kind::Normal,
            };
            member.uses.push((short_name(&dependency.name), kind));
        }
        member
    }
}

impl Package {
    /// Creates a package for the tests of the rules.
    #[cfg(test)]
    pub fn for_test(name: &str, license: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: Some("registry".to_owned()),
            dependencies: Vec::new(),
        }
    }
}
