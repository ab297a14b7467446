//! `cargo xtask deny`: licenses, bans, sources and advisories of all dependencies, with cargo-deny.
//!
//! The rules are in `deny.toml`. Advisories need the RustSec database: if it is not available, they
//! are skipped with a message. A rule without findings may be one that is never read, so a
//! violation of each is planted first. Not part of `cargo xtask test`, because cargo-deny takes
//! minutes to build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

use crate::steps::Steps;
use crate::tools::Tool;
use crate::{proc, repo};

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", flags: &[] };

/// Directory of the database: its name, and a hash of its usual URL.
const DATABASE: &str = "advisory-db-3157b0e258782691";

/// Lines of `deny.toml`, each with a violation of its rule, the check for the rule, and the
/// expected message.
const PLANTED: [[&str; 4]; 4] = [
    ["    \"MIT\",\n", "", "licenses", "failed to satisfy license requirements"],
    [
        "    { crate = \"openssl-sys\" },\n",
        "    { crate = \"serde\" },\n",
        "bans",
        "is explicitly banned",
    ],
    ["idna_adapter@>1.0.0", "idna_adapter@>=1.0.0", "bans", "--precise 1.0.0"],
    [
        "unknown-registry = \"deny\"\n",
        "unknown-registry = \"deny\"\nallow-registry = []\n",
        "sources",
        "source not explicitly allowed",
    ],
];

/// Options of `cargo xtask deny`.
#[derive(Args)]
pub struct Options {
    /// Reads advisories from this copy of `rustsec/advisory-db`, a git repository.
    #[arg(long, value_name = "FOLDER")]
    database: Option<PathBuf>,
}

/// Runs all checks, and counts.
///
/// # Errors
/// If the rules can't be read, or cargo-deny is not available.
pub fn run(options: &Options) -> Result<bool> {
    let program = CARGO_DENY.find()?;
    let rules = fs::read_to_string(repo::root().join("deny.toml"))?;
    let scratch = tempfile::tempdir()?;
    let mut steps = Steps::new();
    for [line, breach, check, message] in PLANTED {
        steps.one(&format!("a breach of {check}"), || {
            ensure!(rules.contains(line), "deny.toml has no line `{}`", line.trim());
            let config = scratch.path().join("planted.toml");
            fs::write(&config, rules.replace(line, breach))?;
            let output = proc::capture_output(deny(&program, &config).args(["check", check]))?;
            let text = String::from_utf8_lossy(&output.stderr);
            let is_found = !output.status.success() && text.contains(message);
            ensure!(is_found, "cargo-deny doesn't find it:\n{text}");
            Ok(())
        });
    }
    let config = scratch.path().join("deny.toml");
    let folder = scratch.path().join("advisories");
    let at = format!("[advisories]\ndb-path = \"{}\"\n", folder.display());
    fs::write(&config, rules.replace("[advisories]\n", &at))?;
    steps.one("licences, bans and sources", || {
        let mut check = deny(&program, &config);
        check.args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
        proc::run_command(&mut check)
    });
    let fetched = match &options.database {
        Some(database) => copy_database(database, &folder),
        None => proc::capture_stdout(deny(&program, &config).args(["fetch", "db"])).map(drop),
    };
    match fetched {
        Ok(()) => steps.one("advisories", || {
            let mut check = deny(&program, &config);
            check.args(["--offline", "check", "--hide-inclusion-graph", "advisories"]);
            proc::run_command(&mut check)
        }),
        Err(error) => println!("==> advisories: left out, the database can't be had: {error:#}"),
    }
    Ok(steps.finish())
}

fn deny(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--color", "never", "--config"]).arg(config).current_dir(repo::root());
    command
}

/// Copies a database to where cargo-deny looks for it, as if it had fetched it.
fn copy_database(database: &Path, folder: &Path) -> Result<()> {
    let copy = folder.join(DATABASE);
    let mut clone = Command::new("git");
    proc::capture_stdout(clone.args(["clone", "--quiet"]).arg(database).arg(&copy))?;
    // cargo-deny takes the age of the database from this.
    let mut fetch = Command::new("git");
    proc::capture_stdout(fetch.args(["fetch", "--quiet", "origin"]).current_dir(&copy))?;
    Ok(())
}
