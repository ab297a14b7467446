//! Runs the lab's actions on this very machine: each check in a namespace of its own.
//!
//! The checks are those of `crates/lab/examples/lab_real`, which links the lab. Each runs in a
//! fresh mount and network namespace, so that nothing that fails outlives it but a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::Checks;
use crate::repo::Profile;
use crate::{proc, repo};

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(program) = checks.get("the checks are built", build) else { return };
    let Some(names) = checks.get("and listed", || names(&program, "here")) else { return };
    for name in names {
        checks.run(&name.replace('_', " "), || {
            let mut unshare = Command::new("unshare");
            unshare.args(["--mount", "--net", "--"]).arg(&program).arg(&name);
            proc::capture(&mut unshare).map(drop)
        });
    }
}

/// Builds the program of the checks and returns its path.
pub fn build() -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    // With the whole workspace, or crates from outside have other features and are built anew.
    cargo.args(["build", "--workspace", "--example", "lab_real", "--quiet"]);
    proc::run(cargo.current_dir(repo::root()))?;
    Ok(repo::example(Profile::Debug, "lab_real"))
}

/// Names of the checks of a group.
pub fn names(program: &Path, group: &str) -> Result<Vec<String>> {
    let said = proc::text(Command::new(program).args(["list", group]))?;
    let names: Vec<String> = said.lines().map(str::to_owned).collect();
    ensure!(names.len() > 3, "there are hardly any checks of the group {group}");
    Ok(names)
}
