//! The checks of the crate `lab`, as a program that runs here or on a virtual machine.
//!
//! Its sources are `crates/lab/examples/lab_real`, which links the lab. The program lists its
//! checks by group (`here`, `kernel`) and runs one by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::proc;
use crate::repo::{self, Profile};

/// Builds the program and returns its path.
///
/// # Errors
/// Where it can't be built.
pub fn build() -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    // With the whole workspace, or external crates have other features and are built again.
    cargo.args(["build", "--workspace", "--example", "lab_real", "--quiet"]);
    proc::run_command(cargo.current_dir(repo::root()))?;
    Ok(repo::example_path(Profile::Debug, "lab_real"))
}

/// Runs a check in a fresh mount and network namespace, so that nothing that fails outlives it but
/// a loop device.
///
/// # Errors
/// Where the check fails.
pub fn run_here(program: &Path, name: &str) -> Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--"]).arg(program).arg(name);
    // Only its last lines are reported: the message, then.
    unshare.env("RUST_BACKTRACE", "0");
    proc::capture_stdout(&mut unshare).map(drop)
}

/// Makes sure that the tests of a group are those that the program has.
///
/// # Errors
/// Where a check has no test here, or a test has no check.
pub fn compare_names(program: &Path, group: &str, expected: &[&str]) -> Result<()> {
    let listed = proc::capture_text(Command::new(program).args(["list", group]))?;
    let mut listed: Vec<&str> = listed.lines().collect();
    let mut expected = expected.to_vec();
    listed.sort_unstable();
    expected.sort_unstable();
    ensure!(listed == expected, "the group {group} has {listed:?}, tested are {expected:?}");
    Ok(())
}
