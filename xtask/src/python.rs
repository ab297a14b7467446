//! `cargo xtask python`: tests the Python package and executes its notebook.
//!
//! Everything is installed into an environment of its own below the target folder, with the
//! versions of `python/requirements.txt`. It needs a package index of Python, so that it is no part
//! of `cargo xtask test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps::Steps;
use crate::{proc, repo};

/// Runs all of it, and counts.
pub fn run() -> bool {
    let mut steps = Steps::new();
    let environment = repo::target_folder().join("python");
    let python = environment.join("bin/python");
    steps.one("environment", || install(&environment).map(|()| true));
    steps.one("dfsbench with Parquet", || build_program().map(|()| true));
    let folder = repo::root().join("python");
    steps.one("types", || run_python(&python, &folder, &["-m", "mypy"]));
    steps.one("tests of the package", || run_python(&python, &folder, &["-m", "pytest", "-q"]));
    let program = program();
    let program = program.to_string_lossy();
    steps.one("notebook", || {
        run_python(&python, &folder, &["examples/execute.py", program.as_ref()])
    });
    steps.finish()
}

/// Makes the environment, with the package as a user would install it.
fn install(environment: &Path) -> Result<()> {
    let pip = environment.join("bin/pip");
    if !pip.exists() {
        proc::run_command(Command::new("python3").args(["-m", "venv"]).arg(environment))
            .context("python3 with venv is needed (Debian: apt install python3-venv)")?;
    }
    let requirements = repo::root().join("python/requirements.txt");
    let mut all = Command::new(&pip);
    all.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    proc::run_command(all.arg(requirements))
        .context("the packages of python/requirements.txt can't be installed")?;
    // A copy: pip leaves a folder `build` in the one that it installs from.
    let copy = environment.join("package");
    if copy.exists() {
        std::fs::remove_dir_all(&copy)?;
    }
    proc::run_command(Command::new("cp").arg("-r").arg(repo::root().join("python")).arg(&copy))?;
    let mut own = Command::new(&pip);
    own.args(["install", "--quiet", "--disable-pip-version-check", "--force-reinstall"]);
    own.arg("--no-deps");
    proc::run_command(own.arg(&copy))
}

/// Folder of a build of its own: another set of features would make cargo build all again.
fn build_folder() -> PathBuf {
    repo::target_folder().join("python-program")
}

fn program() -> PathBuf {
    build_folder().join("debug/dfsbench")
}

fn build_program() -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--package", "dfsbench", "--features", "parquet", "--quiet"]);
    cargo.arg("--target-dir").arg(build_folder()).current_dir(repo::root());
    proc::run_command(&mut cargo)
}

fn run_python(python: &Path, folder: &Path, args: &[&str]) -> Result<bool> {
    let mut command = Command::new(python);
    command.args(args).current_dir(folder).env("DFSBENCH_PROGRAM", program());
    // No caches beside the sources.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTEST_ADDOPTS", "-p no:cacheprovider");
    proc::run_command(&mut command).map(|()| true)
}
