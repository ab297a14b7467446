//! Runs named steps one after the other, prints each with its time, and counts.
//!
//! Principal type: [`Steps`]. A step counts as one check, unless it counts its own (tests do).
//! After the first failure nothing more is run; the closing line is printed all the same.
//! A check that failed and then passed when it was repeated counts as passed, and is named at the
//! end: it is a fault of the check or of the product that shows by chance, and is to be fixed.

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use anyhow::{Result, bail};

/// How many checks passed and failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Names of those that passed, but only when they were repeated.
    pub flaky: Vec<String>,
}

impl Count {
    /// One check that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, flaky: Vec::new() };
    /// One check that failed.
    pub const FAILED: Self = Self { passed: 0, failed: 1, flaky: Vec::new() };

    /// Counts one check that failed and then passed.
    pub fn flaky(name: String) -> Self {
        Self { passed: 1, failed: 0, flaky: vec![name] }
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.flaky.extend(other.flaky);
    }
}

/// The steps so far.
pub struct Steps {
    total: Count,
    stopped: bool,
    started: Instant,
}

impl Steps {
    /// Starts with nothing done.
    pub fn new() -> Self {
        Self { total: Count::default(), stopped: false, started: Instant::now() }
    }

    /// Runs a step that is one check; an error or a panic counts as one that failed.
    pub fn one(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.many(name, || step().map(|()| Count::PASSED));
    }

    /// Runs a step that is one check, also where one before it has failed.
    pub fn one_always(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.run(name, || step().map(|()| Count::PASSED));
    }

    /// Runs a step that counts its own checks; an error or a panic counts as one that failed.
    pub fn many(&mut self, name: &str, step: impl FnOnce() -> Result<Count>) {
        if !self.stopped {
            self.run(name, step);
        }
    }

    fn run(&mut self, name: &str, step: impl FnOnce() -> Result<Count>) {
        println!("==> {name}");
        let begin = Instant::now();
        let count = match catch_panic(step) {
            Ok(count) => count,
            Err(error) => {
                println!("{error:#}");
                Count::FAILED
            }
        };
        let outcome = if count.failed == 0 { "ok" } else { "FAILED" };
        println!("==> {name}: {outcome}, {:.1} s", begin.elapsed().as_secs_f64());
        self.stopped |= count.failed > 0;
        self.total.add(count);
    }

    /// Prints the closing line, alone on its line; `true` where nothing failed and something ran.
    pub fn finish(self) -> bool {
        let Count { passed, failed, flaky } = self.total;
        println!("==> total: {:.1} s", self.started.elapsed().as_secs_f64());
        for name in flaky {
            println!("FLAKY: {name} failed, and passed when it was repeated");
        }
        println!("{passed} passed, {failed} failed");
        failed == 0 && passed > 0
    }
}

/// Turns a panic of a step into an error, so that the closing line is printed in any case.
///
/// The panic's message has been printed where it occurred.
fn catch_panic(step: impl FnOnce() -> Result<Count>) -> Result<Count> {
    // A step that panicked is never used again, and the count is the step's own.
    match panic::catch_unwind(AssertUnwindSafe(step)) {
        Ok(outcome) => outcome,
        Err(_) => bail!("this step panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Steps};

    #[test]
    fn a_step_that_panics_counts_as_failed() {
        let mut steps = Steps::new();
        steps.many("panicking", || panic!("planted"));
        assert_eq!(steps.total, Count::FAILED);
        assert!(!steps.finish());
    }

    #[test]
    fn the_first_failure_stops_and_an_error_is_one() {
        let mut steps = Steps::new();
        steps.many("three", || Ok(Count { passed: 3, ..Count::default() }));
        steps.one("broken", || anyhow::bail!("planted"));
        steps.one("never run", || panic!("must not run"));
        assert_eq!(steps.total, Count { passed: 3, failed: 1, flaky: Vec::new() });
        assert!(!steps.finish());
    }

    #[test]
    fn what_runs_in_any_case_runs_after_a_failure_and_counts() {
        let mut steps = Steps::new();
        steps.one("broken", || anyhow::bail!("planted"));
        let mut ran = false;
        steps.one_always("in any case", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        assert_eq!(steps.total, Count { passed: 1, failed: 1, flaky: Vec::new() });
    }
}
