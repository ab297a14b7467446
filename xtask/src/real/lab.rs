//! What the lab does to a host, on this very machine: each check in a namespace of its own.
//!
//! The checks are the ignored tests of `crates/lab/tests/real`, which link the lab. Each runs in a
//! fresh mount and network namespace, so that nothing that fails outlives it but a loop device.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Checks;
use crate::{proc, repo};

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(tests) = checks.get("the tests are built", build) else { return };
    let Some(names) = checks.get("and listed", || names(&tests)) else { return };
    for name in names {
        checks.run(&name.replace('_', " "), || {
            let mut unshare = Command::new("unshare");
            unshare.args(["--mount", "--net", "--"]).arg(&tests);
            let said = proc::text(unshare.args(["--ignored", "--exact", &name]))?;
            ensure!(said.contains("1 passed"), "it didn't run:\n{said}");
            Ok(())
        });
    }
}

/// Builds the tests and returns their program.
pub fn build() -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--package", "lab", "--test", "real", "--no-run", "--quiet"]);
    cargo.args(["--message-format", "json"]).current_dir(repo::root());
    let said = proc::text(&mut cargo)?;
    let program = said.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == "real";
        Some(PathBuf::from(message["executable"].as_str().filter(|_| is_it)?))
    });
    program.context("cargo named no program of the lab's tests")
}

/// Names of the tests that need a host, without those for virtual machines and the one that is
/// only there to be killed.
fn names(tests: &PathBuf) -> Result<Vec<String>> {
    let said = proc::text(Command::new(tests).args(["--list", "--ignored"]))?;
    let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
    let here = names.filter(|name| !name.starts_with("kernel::") && !name.contains("child_that"));
    let here: Vec<String> = here.map(str::to_owned).collect();
    ensure!(here.len() >= 15, "only {} tests were found", here.len());
    Ok(here)
}
