//! `cargo xtask test`: the one command that checks everything, the same that CI runs.
//!
//! The order is cheapest first, and steps that build share what they build: clippy and doc only
//! check, the tests' build makes the debug binary and the examples, and the checks against real
//! peers use those.

use std::process::Command;

use anyhow::Result;

use crate::steps::Steps;
use crate::suites::{self, Which};
use crate::{proc, real, repo, setup, tidy};

/// Runs what a change is checked with while it is made: no root, no peers.
pub fn quick() -> bool {
    let mut steps = Steps::new();
    check_sources(&mut steps);
    steps.many("unit tests", || suites::run(Which::Unit));
    steps.finish()
}

/// Runs everything that needs neither root nor packages.
pub fn without_real() -> bool {
    let mut steps = Steps::new();
    check_sources(&mut steps);
    steps.one("doc", doc);
    steps.one("tests of fuzz", test_fuzz);
    steps.many("tests", || suites::run(Which::All));
    steps.finish()
}

/// Runs all checks.
pub fn everything() -> bool {
    let mut steps = Steps::new();
    steps.one("setup", || setup::install_missing().map(|()| true));
    check_sources(&mut steps);
    steps.one("doc", doc);
    steps.one("tests of fuzz", test_fuzz);
    steps.many("tests", || suites::run(Which::All));
    steps.many("real peers, browser and fuzz targets", || Ok(real::run(None)));
    steps.finish()
}

/// The binary that is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// The one that is built first.
    Rebuilt,
    /// The one that is there.
    AsItIs,
}

/// Runs the groups of checks against real peers and a browser whose name contains `group`.
pub fn real_only(group: Option<&str>, binary: Binary) -> bool {
    let mut steps = Steps::new();
    steps.one("setup", || setup::install_missing().map(|()| true));
    if binary == Binary::Rebuilt {
        steps.one("build", build);
    }
    steps.many("real peers and browser", || Ok(real::run(group)));
    steps.finish()
}

/// Checks all sources without running them: format, lints, and the project's own rules.
fn check_sources(steps: &mut Steps) {
    steps.one("format", || done(cargo(&["fmt", "--all", "--check"])));
    steps.one("clippy", || {
        let flags = ["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        done(cargo(&["clippy"]).args(flags))
    });
    // The fuzz targets are a workspace of their own, with the same rules.
    steps.one("format of fuzz", || {
        done(cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
    });
    steps.one("clippy of fuzz", || {
        let flags = ["--manifest-path", "fuzz/Cargo.toml", "--all-targets", "--quiet"];
        let mut clippy = cargo(&["clippy"]);
        clippy.args(flags).env("CARGO_TARGET_DIR", repo::target()).args(["--", "-D", "warnings"]);
        done(clippy)
    });
    steps.one("tidy", tidy::run);
}

/// Runs the unit tests of the fuzz targets, which are not among those of the workspace.
fn test_fuzz() -> Result<bool> {
    let mut test = cargo(&["test", "--manifest-path", "fuzz/Cargo.toml", "--lib", "--quiet"]);
    test.env("CARGO_TARGET_DIR", repo::target());
    done(test)
}

fn doc() -> Result<bool> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    done(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds what the checks against real peers run, as `cargo test` would.
fn build() -> Result<bool> {
    done(cargo(&["build", "--workspace", "--bins", "--examples", "--quiet"]))
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(repo::root());
    command
}

fn done(mut command: impl std::borrow::BorrowMut<Command>) -> Result<bool> {
    proc::run(command.borrow_mut()).map(|()| true)
}
