//! The checks of the crate `lab`, as a program that runs here or on a virtual machine.
//!
//! Its sources are `crates/lab/examples/lab_real`, which links the lab. The program lists its
//! checks by group (`here`, `kernel`) and runs one by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::proc;
use crate::repo::{self, Profile};

/// Returns the path of the program, which `cargo xtask` has built.
///
/// # Errors
/// Where it isn't built.
pub fn find() -> Result<PathBuf> {
    let path = repo::example_path(Profile::Debug, "lab_real");
    ensure!(path.is_file(), "{} isn't built: run `cargo xtask real`", path.display());
    Ok(path)
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
