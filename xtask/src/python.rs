//! `cargo xtask python`: tests the Python package and executes its notebook.
//!
//! Everything is installed into an environment below the target directory, with the versions in
//! `python/requirements.txt`. It needs a Python package index, so it is not part of `cargo xtask
//! test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps::Steps;
use crate::{proc, repo};

/// Runs everything, and counts.
pub fn run() -> bool {
    let mut steps = Steps::new();
    let environment = repo::target_folder().join("python");
    let python = environment.join("bin/python");
    steps.one("environment", || install(&environment));
    steps.one("dfsbench with Parquet", || {
        build_program()?;
        Ok(())
    });
    let folder = repo::root().join("python");
    steps.one("types", || run_python(&python, &folder, &["-m", "mypy"]));
    steps.one("tests of the package", || run_python(&python, &folder, &["-m", "pytest", "-q"]));
    let program = repo::dfsbench_path(repo::Profile::Debug);
    let program = program.to_string_lossy();
    steps.one("notebook", || {
        run_python(&python, &folder, &["examples/execute.py", program.as_ref()])
    });
    steps.finish()
}

/// Creates the environment, with the package as a user would install it.
fn install(environment: &Path) -> Result<()> {
    make_environment(environment, &repo::root().join("python/requirements.txt"))?;
    // A copy: pip leaves a directory `build` in the one that it installs from.
    let copy = environment.join("package");
    if copy.exists() {
        std::fs::remove_dir_all(&copy)?;
    }
    proc::run_command(Command::new("cp").arg("-r").arg(repo::root().join("python")).arg(&copy))?;
    let mut own = Command::new(environment.join("bin/pip"));
    own.args(["install", "--quiet", "--disable-pip-version-check", "--force-reinstall"]);
    own.arg("--no-deps");
    proc::run_command(own.arg(&copy))
}

/// Creates an environment with the packages of a list, or completes it.
///
/// # Errors
/// If Python or a package is not available.
pub fn make_environment(environment: &Path, requirements: &Path) -> Result<()> {
    let pip = environment.join("bin/pip");
    if !pip.exists() {
        proc::run_command(Command::new("python3").args(["-m", "venv"]).arg(environment))
            .context("python3 with venv is needed (Debian: apt install python3-venv)")?;
    }
    let mut all = Command::new(&pip);
    all.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    proc::run_command(all.arg(requirements))
        .with_context(|| format!("the packages of {} can't be installed", requirements.display()))
}

/// Builds the program with the features of a release, in the debug profile, and returns its path.
pub fn build_program() -> Result<PathBuf> {
    let mut cargo = repo::cargo();
    cargo.args(["build", "--package", "dfsbench", "--features", "parquet", "--quiet"]);
    proc::run_command(&mut cargo)?;
    Ok(repo::dfsbench_path(repo::Profile::Debug))
}

fn run_python(python: &Path, folder: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    command
        .args(args)
        .current_dir(folder)
        .env("DFSBENCH_PROGRAM", repo::dfsbench_path(repo::Profile::Debug));
    // No caches next to the sources.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTEST_ADDOPTS", "-p no:cacheprovider");
    proc::run_command(&mut command)
}
