//! `cargo xtask test`: the one command that checks everything, the same that CI runs.
//!
//! The cheapest steps come first, and steps that build share the results: clippy and doc only
//! check, the tests' build makes the debug binary and the examples, and the checks against real
//! peers use those.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::programs::{self, TestSelection};
use crate::real::Selection;
use crate::steps::Steps;
use crate::{proc, real, repo, setup, tidy, vm};

/// Time limit of one step before the tests: format, clippy or documentation. Two busy cores need a
/// third of it from a clean clone.
const STEP_MAX: Duration = Duration::from_secs(30 * 60);

/// Timeout for the images of virtual machines, which are made in parallel with the earlier steps.
const IMAGES_MAX: Duration = Duration::from_secs(60 * 60);

/// Runs the checks used while making a change: no root, no peers.
pub fn quick() -> bool {
    let mut steps = Steps::new();
    check_sources(&mut steps);
    steps.many("unit tests", || {
        programs::run_programs(&programs::build(TestSelection::Unit)?.plain)
    });
    steps.finish()
}

/// Runs everything that needs neither root nor packages.
pub fn without_real() -> bool {
    let mut steps = Steps::new();
    check_sources(&mut steps);
    steps.one("doc", check_documentation);
    run_plain_tests(&mut steps, TestSelection::WithoutReal);
    steps.finish()
}

/// Runs all checks.
pub fn everything() -> bool {
    let mut steps = Steps::new();
    let mut images = None;
    steps.one("setup", || {
        setup::install_missing()?;
        images = Some(vm::start_making_images()?);
        Ok(())
    });
    check_sources(&mut steps);
    steps.one("doc", check_documentation);
    let built = run_plain_tests(&mut steps, TestSelection::All);
    // Even after a failure: a partly built image has this machine's directories mounted in it.
    if let Some(mut images) = images {
        steps.one_always("images of virtual machines", || {
            let status = images.await_end(IMAGES_MAX)?;
            ensure!(status == Some(0), "no image can be built: run `cargo xtask vm image`");
            Ok(())
        });
    }
    if let Some(built) = built {
        steps.many("real peers, browser and fuzz targets", || {
            real::run(&built.real, Selection::default())
        });
    }
    steps.finish()
}

/// Runs the selected tests against real peers and a browser.
pub fn real_only(selection: Selection<'_>) -> bool {
    let mut steps = Steps::new();
    steps.one("setup", setup::install_missing);
    steps.many("real peers and browser", || {
        real::run(&programs::build(TestSelection::Real)?.real, selection)
    });
    steps.finish()
}

/// Builds tests and runs those that need no peers; returns everything that was built.
fn run_plain_tests(steps: &mut Steps, which: TestSelection) -> Option<programs::Programs> {
    let mut built = None;
    steps.one("build of the tests", || {
        built = Some(programs::build(which)?);
        Ok(())
    });
    let built = built?;
    steps.many("tests", || {
        let mut count = programs::run_programs(&built.plain)?;
        count.add(programs::run_documentation()?);
        Ok(count)
    });
    Some(built)
}

/// Checks all sources without running them: format, lints, and the project's own rules.
fn check_sources(steps: &mut Steps) {
    steps.one("format", || run_to_end(cargo(&["fmt", "--all", "--check"])));
    steps.one("clippy", || {
        let flags = ["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        run_to_end(cargo(&["clippy"]).args(flags))
    });
    steps.one("tidy", || {
        ensure!(tidy::run()?, "the sources break a rule of the project");
        Ok(())
    });
}

fn check_documentation() -> Result<()> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    run_to_end(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn cargo(args: &[&str]) -> Command {
    let mut command = repo::cargo();
    command.args(args);
    command
}

fn run_to_end(mut command: impl std::borrow::BorrowMut<Command>) -> Result<()> {
    proc::run_within(STEP_MAX, command.borrow_mut())
}
