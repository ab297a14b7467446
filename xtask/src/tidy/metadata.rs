//! Reads `cargo metadata`: the members of the workspace.
//!
//! Main type: [`Member`]. Only this file uses the raw JSON.

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

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
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
    let mut command = repo::cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let json = proc::capture_stdout(&mut command)?;
    let metadata: Metadata = serde_json::from_slice(&json).context("cargo metadata's JSON")?;
    Ok(metadata.packages.into_iter().map(Member::from).collect())
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
