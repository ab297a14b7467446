//! `cargo xtask test`: the one command that checks everything, the same that CI runs.
//!
//! The cheapest steps come first, and steps that build share the results: clippy and doc only
//! check, the tests' build makes the debug binary and the examples, and the checks against real
//! peers use those.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use checks::test_programs::RUN_BY_CHECKS;

use crate::real::Selection;
use crate::steps::Steps;
use crate::{nextest, proc, real, repo, setup, tidy, tools, vm};

/// Time limit of one step other than the tests: format, clippy or documentation. Two busy cores
/// need a third of it from a clean clone.
const STEP_MAX: Duration = Duration::from_secs(30 * 60);

/// Timeout for the images of virtual machines, which are made in parallel with the earlier steps.
const IMAGES_MAX: Duration = Duration::from_secs(60 * 60);

/// The pure crates with integration tests.
const PURE: [&str; 4] = ["nfs-proto", "plan", "report", "stats"];

/// Runs the checks used while making a change: no root, no peers.
pub fn quick() -> bool {
    let mut steps = Steps::new();
    steps.one("tools", tools::install_missing);
    check_sources(&mut steps);
    steps.many("unit tests, and tests of pure crates", || {
        // A group of checks has the name of one of these tests.
        let mut targets = words(&["--lib", "--bins", "--features", "checks/real"]);
        for name in find_pure_tests()? {
            targets.extend(["--test".to_owned(), name]);
        }
        nextest::build(&targets)?;
        nextest::run("quick", &targets)
    });
    steps.finish()
}

/// Runs everything that needs neither root nor packages.
pub fn without_real() -> bool {
    let mut steps = Steps::new();
    steps.one("tools", tools::install_missing);
    check_sources(&mut steps);
    steps.one("doc", check_documentation);
    run_plain_tests(&mut steps, &[]);
    steps.finish()
}

/// Runs all checks.
pub fn everything() -> bool {
    let mut steps = Steps::new();
    let mut images = None;
    steps.one("setup", || {
        setup::install_missing()?;
        tools::install_missing()?;
        images = Some(vm::start_making_images()?);
        Ok(())
    });
    check_sources(&mut steps);
    steps.one("doc", check_documentation);
    run_plain_tests(&mut steps, &words(&["--features", "checks/real"]));
    // Even after a failure: a partly built image has this machine's directories mounted in it.
    if let Some(mut images) = images {
        steps.one_always("images of virtual machines", || {
            let status = images.await_end(IMAGES_MAX)?;
            ensure!(status == Some(0), "no image can be built: run `cargo xtask vm image`");
            Ok(())
        });
    }
    steps.many("real peers, browser and fuzz targets", || real::run(Selection::default()));
    steps.finish()
}

/// Runs the selected tests against real peers and a browser.
pub fn real_only(selection: Selection<'_>) -> bool {
    let mut steps = Steps::new();
    steps.one("setup", || {
        setup::install_missing()?;
        tools::install_missing()
    });
    steps.many("real peers and browser", || {
        // They run the binary and the examples.
        run_to_end(cargo(&["build", "--workspace", "--bins", "--examples", "--quiet"]))?;
        let mut targets = words(&["--features", "checks/real"]);
        for name in real::list_programs().into_iter().chain(RUN_BY_CHECKS) {
            targets.extend(words(&["--test", name]));
        }
        nextest::build(&targets)?;
        real::run(selection)
    });
    steps.finish()
}

/// Builds all tests, and runs those that need no peers.
fn run_plain_tests(steps: &mut Steps, targets: &[String]) {
    steps.one("build of the tests", || nextest::build(targets));
    steps.many("tests", || nextest::run("default", targets));
    steps.one("tests in documentation", || {
        run_to_end(cargo(&["test", "--workspace", "--doc", "--quiet"]))
    });
}

/// Finds the names of the integration tests of pure crates.
fn find_pure_tests() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for krate in PURE {
        for entry in fs::read_dir(repo::root().join("crates").join(krate).join("tests"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").exists() {
                names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
    }
    Ok(names)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
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
    steps.one("licenses and sources of dependencies", tools::check_dependencies);
    steps.one("links", tools::check_links);
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
