//! `cargo xtask crates`: packages the crates for crates.io, and installs the program from only
//! those packages.
//!
//! The packaged crates and their external dependencies become a registry in a directory, and cargo
//! installs `dfsbench` from there, with its own home: everything a crate embeds must be within its
//! package, and everything it uses must be a packaged version. (`cargo xtask tidy` checks the
//! former without a build.) This is a complete build, so it is not part of `cargo xtask test`.
//!
//! **Source:** The Cargo book, "Source Replacement", directory sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::dist::sha256;
use crate::steps::Steps;
use crate::{proc, repo};

/// Packages, installs and tries the program, and counts.
pub fn run() -> Result<bool> {
    let scratch = TempDir::with_prefix("dfsbench-crates-")?;
    let packed = scratch.path().join("packed");
    let registry = scratch.path().join("registry");
    let mut steps = Steps::new();
    steps.one("packages", || pack(&packed));
    steps.one("registry", || fill_registry(&packed.join("package"), &registry));
    steps.one("install", || install(scratch.path(), &registry));
    steps.one("use", || try_program(scratch.path()));
    Ok(steps.finish())
}

/// Packages every published crate; the installation builds all of them.
fn pack(folder: &Path) -> Result<()> {
    let mut cargo = repo::cargo();
    cargo.args(["package", "--workspace", "--exclude", "xtask", "--exclude", "checks"]);
    cargo.args(["--exclude", "fuzz"]);
    cargo.args(["--no-verify", "--allow-dirty", "--locked", "--quiet", "--target-dir"]);
    proc::run_command(cargo.arg(folder))
}

/// Puts the external crates and the packaged ones into a directory, each with its hash.
fn fill_registry(packed: &Path, registry: &Path) -> Result<()> {
    let mut vendor = repo::cargo();
    vendor.args(["vendor", "--locked", "--versioned-dirs", "--quiet"]).arg(registry);
    proc::capture_stdout(&mut vendor)?;
    let mut count = 0;
    for entry in fs::read_dir(packed)? {
        let path = entry?.path();
        if path.extension() != Some("crate".as_ref()) {
            continue;
        }
        let bytes = fs::read(&path)?;
        let name = path.file_stem().context("a crate has no name")?.to_owned();
        tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice())).unpack(registry)?;
        let sums = json!({ "files": {}, "package": sha256(&bytes) }).to_string();
        fs::write(registry.join(name).join(".cargo-checksum.json"), sums)?;
        count += 1;
    }
    let crates = fs::read_dir(repo::root().join("crates"))?.count();
    ensure!(count == crates, "{count} of {crates} crates were packed");
    Ok(())
}

/// Returns the command that installs the program only from a registry directory.
fn cargo_install(scratch: &Path, registry: &Path) -> Command {
    let mut cargo = repo::cargo();
    cargo.args(["install", "dfsbench", "--locked", "--offline", "--debug", "--quiet"]);
    cargo.args(["--features", "parquet", "--config", "source.crates-io.replace-with=\"packed\""]);
    let folder = format!("source.packed.directory=\"{}\"", registry.display());
    cargo.arg("--config").arg(folder).arg("--root").arg(scratch.join("installed"));
    cargo.arg("--target-dir").arg(scratch.join("build"));
    // Uses neither this machine's installed crates nor the settings of the repository.
    cargo.env("CARGO_HOME", scratch.join("home")).current_dir(scratch);
    cargo
}

fn install(scratch: &Path, registry: &Path) -> Result<()> {
    proc::run_command(&mut cargo_install(scratch, registry))
}

/// Tries the installed program: an embedded plan and recipe, and a columns file.
fn try_program(scratch: &Path) -> Result<()> {
    let program = scratch.join("installed/bin/dfsbench");
    let run = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).current_dir(scratch).env("XDG_CONFIG_HOME", scratch.join("none"));
        proc::capture_text(&mut command)
    };
    let report = run(&["run", "quick", "--scale", "1%", "--trials", "2"])?;
    ensure!(report.contains("quick: complete"), "the quick campaign printed:\n{report}");
    let recipe = run(&["systems", "show", "ganesha"])?;
    ensure!(recipe.contains("ganesha"), "the recipe is:\n{recipe}");
    run(&["export", "columns", "--format", "parquet"])?;
    Ok(())
}
