//! Runs named steps sequentially, prints each with its time, and counts.
//!
//! Main type: [`Steps`]. A step counts as one check, unless it counts its own (as tests do). After
//! the first failure nothing more is run, but the closing line is still printed. Failed checks are
//! listed at the end with their output, since a CI log is often viewed from its end. A check that
//! failed and passed when repeated counts as passed, and is listed, too: it is an intermittent bug
//! of the check or the product, and has to be fixed.

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use anyhow::{Result, bail};

/// Maximum number of lines of a failed check's output that are printed again at the end.
const LAST_LINES: usize = 20;
/// Maximum length of such a line, in characters.
const LINE_MAX: usize = 2000;

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the check.
    pub name: String,
    /// Output of the check.
    pub output: String,
}

/// Number of passed checks, and the failed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failures: Vec<Failure>,
    /// Names of checks that passed only when repeated.
    pub flaky: Vec<String>,
}

impl Count {
    /// One passed check.
    pub const PASSED: Self = Self { passed: 1, failures: Vec::new(), flaky: Vec::new() };

    /// Counts one failed check.
    pub fn failed(failure: Failure) -> Self {
        Self { failures: vec![failure], ..Self::default() }
    }

    /// Counts one check that failed and then passed.
    pub fn flaky(name: String) -> Self {
        Self { flaky: vec![name], ..Self::PASSED }
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
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
    /// Starts without any steps.
    pub fn new() -> Self {
        Self { total: Count::default(), stopped: false, started: Instant::now() }
    }

    /// Runs a step that is one check; an error or a panic counts as a failure.
    pub fn one(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.many(name, || step().map(|()| Count::PASSED));
    }

    /// Runs a step that is one check, even if an earlier one has failed.
    pub fn one_always(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.run(name, || step().map(|()| Count::PASSED));
    }

    /// Runs a step that counts its own checks; an error or a panic counts as one failure.
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
                Count::failed(Failure { name: name.to_owned(), output: format!("{error:#}") })
            }
        };
        let outcome = if count.failures.is_empty() { "ok" } else { "FAILED" };
        println!("==> {name}: {outcome}, {:.1} s", begin.elapsed().as_secs_f64());
        self.stopped |= !count.failures.is_empty();
        self.total.add(count);
    }

    /// Prints the closing line, on a line by itself; returns `true` if something ran and nothing
    /// failed.
    pub fn finish(self) -> bool {
        let Count { passed, failures, flaky } = self.total;
        println!("==> total: {:.1} s", self.started.elapsed().as_secs_f64());
        for failure in &failures {
            println!("FAILED: {}", failure.name);
            for line in last_lines(&failure.output, LAST_LINES) {
                println!("    {}", shorten(line));
            }
        }
        for name in flaky {
            println!("FLAKY: {name} failed, but passed when repeated");
        }
        println!("{passed} passed, {} failed", failures.len());
        failures.is_empty() && passed > 0
    }
}

/// Returns the last nonblank lines of an output.
pub fn last_lines(output: &str, most: usize) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].to_vec()
}

/// Returns the start of a line.
fn shorten(line: &str) -> &str {
    line.char_indices().nth(LINE_MAX).map_or(line, |(end, _)| &line[..end])
}

/// Converts a panic of a step to an error, so that the closing line is always printed.
///
/// The panic's message has been printed where it occurred.
fn catch_panic(step: impl FnOnce() -> Result<Count>) -> Result<Count> {
    // A step that panicked is never used again, and the count belongs to the step.
    match panic::catch_unwind(AssertUnwindSafe(step)) {
        Ok(outcome) => outcome,
        Err(_) => bail!("this step panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, LAST_LINES, LINE_MAX, Steps, last_lines, shorten};

    #[test]
    fn counts_panicking_step_as_failed() {
        let mut steps = Steps::new();
        steps.many("panicking", || panic!("planted"));
        assert_eq!(steps.total.failures.len(), 1);
        assert_eq!(steps.total.failures[0].name, "panicking");
        assert!(!steps.finish());
    }

    #[test]
    fn stops_at_first_failure() {
        let mut steps = Steps::new();
        steps.many("three", || Ok(Count { passed: 3, ..Count::default() }));
        steps.one("broken", || anyhow::bail!("planted"));
        steps.one("never run", || panic!("must not run"));
        assert_eq!((steps.total.passed, steps.total.failures.len()), (3, 1));
        assert_eq!(steps.total.failures[0].output, "planted");
        assert!(!steps.finish());
    }

    #[test]
    fn runs_unconditional_steps_after_failure() {
        let mut steps = Steps::new();
        steps.one("broken", || anyhow::bail!("planted"));
        let mut ran = false;
        steps.one_always("in any case", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        assert_eq!((steps.total.passed, steps.total.failures.len()), (1, 1));
    }

    #[test]
    fn repeats_end_of_output() {
        let long: Vec<String> = (0..2 * LAST_LINES).map(|n| format!("line {n}\n\n")).collect();
        let lines = long.concat();
        let last = last_lines(&lines, LAST_LINES);
        assert_eq!((last.len(), last.last()), (LAST_LINES, Some(&"line 39")));
        assert_eq!(last_lines("one", LAST_LINES), ["one"]);
        assert_eq!(shorten(&"\u{e9}".repeat(LINE_MAX + 1)), "\u{e9}".repeat(LINE_MAX));
        assert_eq!(shorten("short"), "short");
    }
}
