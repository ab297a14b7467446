//! The checks of the crate `lab`, as a program that runs here or on a virtual machine.
//!
//! Its sources are in `crates/lab/examples/lab_real`, which links the lab. The program lists its
//! checks by group (`here`, `kernel`) and runs one by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::proc;
use crate::repo::{self, Profile};

/// Returns the path of the program, which `cargo xtask` has built.
pub fn find() -> Result<PathBuf> {
    let path = repo::example_path(Profile::Debug, "lab_real");
    ensure!(path.is_file(), "{} isn't built: run `cargo xtask real`", path.display());
    Ok(path)
}

/// Runs a check in a new mount and network namespace, so that after a failure at most a loop device
/// is left.
pub fn run_here(program: &Path, name: &str) -> Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--"]).arg(program).arg(name);
    // Only its last lines are reported: then that is the message.
    unshare.env("RUST_BACKTRACE", "0");
    proc::capture_stdout(&mut unshare).map(drop)
}

/// Makes sure that the tests of a group match the program's checks.
///
/// # Errors
/// If a check has no test here, or a test has no check.
pub fn compare_names(program: &Path, group: &str, expected: &[&str]) -> Result<()> {
    let listed = proc::capture_text(Command::new(program).args(["list", group]))?;
    let mut listed: Vec<&str> = listed.lines().collect();
    let mut expected = expected.to_vec();
    listed.sort_unstable();
    expected.sort_unstable();
    ensure!(listed == expected, "the group {group} has {listed:?}, tested are {expected:?}");
    Ok(())
}
