//! Finds everything the program is linked with: crates, SQLite, the C library, Rust's standard
//! library.
//!
//! Main type: [`LinkedCode`]. `cargo tree` lists the crates, because only it considers the features
//! of this very build; `cargo metadata` has their source directories and licenses. Crates that only
//! run during the build (macros, build scripts) are not included.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{portable, proc, repo};

/// Everything that the program is linked with.
#[derive(Default)]
pub struct LinkedCode {
    /// External crates, sorted by name and version.
    pub crates: Vec<Crate>,
    /// Libraries that are not crates.
    pub native: Vec<Native>,
    /// Crates used directly by ours, as in [`Crate::uses`].
    pub direct: BTreeSet<String>,
}

/// One external crate.
#[derive(Clone, Debug, Default)]
pub struct Crate {
    /// Name of the crate.
    pub name: String,
    /// Version of the crate.
    pub version: String,
    /// SPDX expression of its license; empty if it declares none.
    pub license: String,
    /// Names of its authors.
    pub authors: Vec<String>,
    /// Directory of its sources.
    pub folder: PathBuf,
    /// SHA-256 of its archive, from the lock file.
    pub sha256: String,
    /// Crates that it uses, each as its [`Crate::key`].
    pub uses: BTreeSet<String>,
}

impl Crate {
    /// Returns name and version as in package URLs.
    pub fn key(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Something linked that is not a crate.
pub struct Native {
    /// Name of the library.
    pub name: &'static str,
    /// Version of the library.
    pub version: String,
    /// SPDX expression of its license.
    pub license: &'static str,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<DependencyUse>,
}

#[derive(Deserialize)]
struct DependencyUse {
    pkg: String,
    dep_kinds: Vec<UseKind>,
}

#[derive(Deserialize)]
struct UseKind {
    /// `None` for a normal dependency.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Finds everything that the program built from these sources is linked with.
///
/// # Errors
/// If cargo fails, or a crate is not in the lock file.
pub fn find(sources: &Path) -> Result<LinkedCode> {
    let listed = list_crates(sources)?;
    let metadata = read_metadata(sources)?;
    let sums = read_sums(sources)?;
    let by_id: BTreeMap<_, _> =
        metadata.packages.into_iter().map(|package| (package.id.clone(), package)).collect();
    let mut linked = LinkedCode::default();
    for node in &metadata.resolve.nodes {
        let package = by_id.get(&node.id).context("a node of the graph has no package")?;
        let key = format!("{}@{}", package.name, package.version);
        let uses = uses_of(node, &by_id, &listed);
        if package.source.is_none() {
            linked.direct.extend(uses);
        } else if listed.contains(&key) {
            let sha256 = sums.get(&key).with_context(|| format!("Cargo.lock has no {key}"))?;
            linked.crates.push(Crate {
                name: package.name.clone(),
                version: package.version.clone(),
                license: package.license.clone().unwrap_or_default().replace('/', " OR "),
                authors: package.authors.clone(),
                folder: package.manifest_path.parent().context("a manifest")?.to_owned(),
                sha256: sha256.clone(),
                uses,
            });
        }
    }
    ensure!(linked.crates.len() == listed.len(), "cargo's tree and its metadata don't agree");
    linked.crates.sort_by_key(Crate::key);
    linked.native = find_native(&linked.crates)?;
    Ok(linked)
}

/// Lists the linked external crates, each as its [`Crate::key`].
fn list_crates(sources: &Path) -> Result<BTreeSet<String>> {
    let mut tree = repo::cargo();
    tree.args(["tree", "--package", "dfsbench", "--features", "parquet", "--locked"]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--target", &portable::target()]).current_dir(sources);
    let mut listed = BTreeSet::new();
    for line in proc::capture_text(&mut tree)?.lines() {
        // `serde v1.0.229`, followed by a directory if it is ours; `(*)` if it was listed before.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, version, rest @ ..] = words.as_slice() else { continue };
        if !rest.first().is_some_and(|word| word.starts_with("(/")) {
            listed.insert(format!("{name}@{}", version.trim_start_matches('v')));
        }
    }
    ensure!(!listed.is_empty(), "`cargo tree` lists no crate");
    Ok(listed)
}

fn read_metadata(sources: &Path) -> Result<Metadata> {
    let mut command = repo::cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    command.args(["--manifest-path", "crates/dfsbench/Cargo.toml", "--features", "parquet"]);
    command.args(["--filter-platform", &portable::target()]).current_dir(sources);
    let json = proc::capture_stdout(&mut command)?;
    serde_json::from_slice(&json).context("cargo metadata's JSON")
}

fn read_sums(sources: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(sources.join("Cargo.lock")).context("Cargo.lock")?;
    let lock: Lock = toml::from_str(&text).context("Cargo.lock")?;
    let mut sums = BTreeMap::new();
    for locked in lock.package {
        if let Some(checksum) = locked.checksum {
            sums.insert(format!("{}@{}", locked.name, locked.version), checksum);
        }
    }
    Ok(sums)
}

/// Returns the linked external crates that a node of the graph uses.
fn uses_of(
    node: &Node,
    by_id: &BTreeMap<String, Package>,
    listed: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut uses = BTreeSet::new();
    for used in &node.deps {
        let is_linked = used.dep_kinds.iter().any(|it| it.kind.is_none());
        if let Some(package) = by_id.get(&used.pkg) {
            let key = format!("{}@{}", package.name, package.version);
            if is_linked && listed.contains(&key) {
                uses.insert(key);
            }
        }
    }
    uses
}

/// Finds the versions of linked libraries that are not crates.
fn find_native(crates: &[Crate]) -> Result<Vec<Native>> {
    let glibc = proc::capture_text(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let rustc = proc::capture_text(Command::new("rustc").arg("--version"))?;
    let sqlite = crates.iter().find(|it| it.name == "libsqlite3-sys").context("no SQLite")?;
    let header = fs::read_to_string(sqlite.folder.join("sqlite3/sqlite3.h"))?;
    let version = header.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    let native = |name, version: Option<&str>, license| -> Result<Native> {
        let version = version.with_context(|| format!("{name} has no version"))?;
        Ok(Native { name, version: version.trim().trim_matches('"').to_owned(), license })
    };
    Ok(vec![
        native("glibc", glibc.split_whitespace().nth(1), "LGPL-2.1-or-later")?,
        native("rust-std", rustc.split_whitespace().nth(1), "Apache-2.0 OR MIT")?,
        native("sqlite", version, "blessing")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::notices;

    #[test]
    fn finds_licenses_of_linked_crates() {
        let linked = find(&repo::root()).unwrap();
        let names: Vec<&str> = linked.crates.iter().map(|it| it.name.as_str()).collect();
        for name in ["rustls", "ring", "libsqlite3-sys", "parquet", "clap_builder"] {
            assert!(names.contains(&name), "{name} is missing among {names:?}");
        }
        // From tests, macros, build scripts, and ours.
        for name in ["proptest", "serde_derive", "cc", "model", "dfsbench"] {
            assert!(!names.contains(&name), "{name} is not linked");
        }
        let text = notices::render(&linked, &repo::root()).unwrap();
        for it in &linked.crates {
            assert!(text.contains(&format!("{} {}", it.name, it.version)), "{}", it.name);
            assert_eq!(it.sha256.len(), 64, "{}", it.name);
        }
        let native: Vec<&str> = linked.native.iter().map(|it| it.name).collect();
        assert_eq!(native, ["glibc", "rust-std", "sqlite"]);
    }
}
