//! Programs from crates.io used by commands.
//!
//! We use the one on PATH, or else install one with cargo below the target directory.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::{proc, repo};

/// A program, the version to install if it is missing, and further arguments for cargo.
pub struct Tool {
    /// Name of the program and of its crate.
    pub name: &'static str,
    /// Version of the crate.
    pub version: &'static str,
    /// Arguments for `cargo install`, such as features.
    pub flags: &'static [&'static str],
}

impl Tool {
    /// Returns the program; if necessary cargo builds it once below the target directory, which
    /// takes minutes.
    ///
    /// # Errors
    /// If there is none and it can't be built.
    pub fn find(&self) -> Result<PathBuf> {
        if proc::on_path(self.name) {
            return Ok(self.name.into());
        }
        let root = repo::target_folder().join("tools");
        let program = root.join("bin").join(self.name);
        if !program.is_file() {
            println!("{}: is installed below {}", self.name, root.display());
            let mut cargo = repo::cargo();
            cargo.args(["install", self.name, "--version", self.version, "--locked", "--debug"]);
            cargo.args(self.flags).args(["--quiet", "--root"]).arg(&root);
            proc::run_command(&mut cargo).with_context(|| {
                format!(
                    "{} can't be installed; put one on PATH, or make the registry reachable",
                    self.name
                )
            })?;
        }
        Ok(program)
    }
}
