//! Programs of crates.io that commands use.
//!
//! The one on PATH is taken, else cargo installs one below the target directory.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::{proc, repo};

/// A program, the version that is installed where there is none, and further words for cargo.
pub struct Tool {
    /// Name of the program and of its crate.
    pub name: &'static str,
    /// Version of the crate.
    pub version: &'static str,
    /// Words for `cargo install`, such as features.
    pub flags: &'static [&'static str],
}

impl Tool {
    /// Returns the program; cargo builds it below the target folder, which takes minutes, once.
    ///
    /// # Errors
    /// Where there is none and it can't be built.
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
