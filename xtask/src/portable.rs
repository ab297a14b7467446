//! `cargo xtask static`: a `dfsbench` that needs no library of the machine it runs on.
//!
//! The virtual machines of the tests are Debian of three ages, and none has the C library of the
//! machine that built the program. The build has a folder of its own below the target folder,
//! because its flags would make cargo build everything else again.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{proc, repo};

/// Architecture of the virtual machines. To name a target keeps the flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Line tables would be most of what is copied into a machine.
const FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols";

/// Builds the program, in the debug profile, and returns its path.
///
/// # Errors
/// Where it doesn't build.
pub fn build_dfsbench() -> Result<PathBuf> {
    let folder = repo::target_folder().join("static");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--package", "dfsbench", "--quiet", "--target", TARGET]);
    cargo.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS).current_dir(repo::root());
    proc::run_command(&mut cargo)?;
    Ok(folder.join(TARGET).join("debug/dfsbench"))
}

/// Builds the program and prints its path.
///
/// # Errors
/// Where it doesn't build.
pub fn build_and_print() -> Result<bool> {
    println!("{}", build_dfsbench()?.display());
    Ok(true)
}
