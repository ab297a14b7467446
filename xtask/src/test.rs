//! `cargo xtask test` and `check`: the one command that checks everything, the same that CI runs.
//!
//! The order is cheapest first, and steps that build share what they build: clippy and doc only
//! check, `cargo test` builds the debug binary and the examples, and the checks against real peers
//! use those.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};

use crate::steps::{Count, Steps};
use crate::{fuzz, proc, real, repo, setup, tidy};

/// How many tests of a binary run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs the quick part: no root, no peers.
pub fn check() -> bool {
    let mut steps = Steps::new();
    quick(&mut steps);
    steps.many("cargo test (unit)", || tests(&["--workspace", "--lib", "--bins"]));
    steps.finish()
}

/// Runs everything.
pub fn everything() -> bool {
    let mut steps = Steps::new();
    steps.one("setup", || setup::install_missing().map(|()| true));
    quick(&mut steps);
    steps.one("doc", doc);
    steps.many("cargo test", || tests(&["--workspace"]));
    steps.many("real peers and browser", || Ok(real::run(None)));
    steps.many("fuzz", fuzz::everything);
    steps.finish()
}

/// Which binary is checked.
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

fn quick(steps: &mut Steps) {
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

/// Runs `cargo test`, and repeats by name the tests that failed, once.
fn tests(args: &[&str]) -> Result<Count> {
    let first = cargo_test(args, &[])?;
    if first.count.failed == 0 || first.failed.len() != first.count.failed {
        return Ok(first.count);
    }
    println!("==> repeated: {}", first.failed.join(", "));
    let second = cargo_test(args, &first.failed)?;
    Ok(merge(first, &second))
}

/// What a run of `cargo test` came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    count: Count,
    /// Names of the tests that failed.
    failed: Vec<String>,
}

/// Counts as flaky those tests that failed first and were not among the failures when repeated.
///
/// A repetition that ran fewer tests than were to be repeated proves nothing.
fn merge(first: Outcome, second: &Outcome) -> Count {
    let repeated = second.count.passed + second.count.failed;
    if repeated < first.failed.len() || second.failed.len() != second.count.failed {
        return first.count;
    }
    let mut count = Count { passed: first.count.passed, ..Count::default() };
    for name in first.failed {
        if second.failed.contains(&name) {
            count.add(Count::FAILED);
        } else {
            count.add(Count::flaky(name));
        }
    }
    count
}

/// Runs `cargo test`, of all tests or of those with these names, shows its output as it comes and
/// adds up its result lines.
fn cargo_test(args: &[&str], names: &[String]) -> Result<Outcome> {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(args).stdout(Stdio::piped());
    if !names.is_empty() {
        command.args(["--", "--exact"]).args(names);
    }
    if std::env::var_os(THREADS).is_none() {
        // The long ones wait for servers and rates: there is work for others meanwhile.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (processors + 1).to_string());
    }
    let mut child = command.spawn().context("cannot start `cargo test`")?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let mut outcome = Outcome::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("output of `cargo test`")?;
        println!("{line}");
        outcome.count.add(result_line(&line));
        outcome.failed.extend(name_of_failed(&line));
    }
    let status = child.wait()?;
    if !status.success() && outcome.count.failed == 0 {
        // It didn't build, or a test binary died without a result line.
        outcome.count.failed = 1;
    }
    Ok(outcome)
}

/// Reads the name in `test NAME ... FAILED`, also of a test of documentation.
fn name_of_failed(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    // Tests that should panic say so after their name.
    Some(name.trim_end_matches(" - should panic").to_owned())
}

/// Reads `test result: ok. 12 passed; 0 failed; ...`; anything else counts nothing.
fn result_line(line: &str) -> Count {
    let Some(rest) = line.strip_prefix("test result: ") else { return Count::default() };
    let number = |word: &str| {
        let before = rest.split(word).next().filter(|before| before.len() < rest.len());
        let last = before.and_then(|before| before.split_whitespace().last());
        last.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Count { passed: number(" passed"), failed: number(" failed"), flaky: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::{Count, Outcome, merge, name_of_failed, result_line};

    fn count(passed: usize, failed: usize, flaky: &[&str]) -> Count {
        Count { passed, failed, flaky: flaky.iter().map(|&name| name.to_owned()).collect() }
    }

    fn outcome(passed: usize, failed: &[&str]) -> Outcome {
        let failed: Vec<String> = failed.iter().map(|&name| name.to_owned()).collect();
        Outcome { count: count(passed, failed.len(), &[]), failed }
    }

    #[test]
    fn a_test_that_passes_when_repeated_is_flaky_and_one_that_fails_again_has_failed() {
        let first = || outcome(10, &["a::b", "c::d"]);
        assert_eq!(merge(first(), &outcome(2, &[])), count(12, 0, &["a::b", "c::d"]));
        assert_eq!(merge(first(), &outcome(1, &["c::d"])), count(11, 1, &["a::b"]));
        assert_eq!(merge(first(), &outcome(0, &[])), count(10, 2, &[]));
    }

    #[test]
    fn names_of_failed_tests_are_read() {
        let read = |line: &str| name_of_failed(line);
        assert_eq!(read("test plan::reads ... FAILED").as_deref(), Some("plan::reads"));
        let doc = "test crates/a/src/b.rs - c (line 7) ... FAILED";
        assert_eq!(read(doc).as_deref(), Some("crates/a/src/b.rs - c (line 7)"));
        assert_eq!(read("test plan::reads ... ok"), None);
    }

    #[test]
    fn result_lines_of_cargo_test_are_read() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!(result_line(line), count(12, 3, &[]));
        assert_eq!(result_line("test result: ok"), Count::default());
        assert_eq!(result_line("running 12 tests"), Count::default());
    }
}
