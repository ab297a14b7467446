//! Runs the workspace's tests: builds the test programs once, and runs several of them at once.
//!
//! `cargo test` runs one program after the other, and most of ours wait for servers, rates and
//! timeouts, so the processors would idle. Each program's output is shown whole when it has ended,
//! with its time. Tests that failed are repeated by name, alone; those that pass then are counted
//! as passed and named as flaky. Tests in documentation are left to `cargo test --doc`.
//!
//! Principal function: [`run`].

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::proc;
use crate::repo;
use crate::steps::Count;

/// How many tests of a program run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// The pause before tests are repeated a second time.
const PAUSE: Duration = Duration::from_secs(20);
/// Programs that take longest; they start first, so that none of them ends alone.
const LONGEST: [&str; 2] = ["command", "survival"];

/// The tests that are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those within the sources of crates.
    Unit,
    /// These, the integration tests and those in documentation.
    All,
}

/// Builds the tests, runs them and repeats those that failed.
///
/// # Errors
/// Where they can't be built or started.
pub fn run(which: Which) -> Result<Count> {
    let programs = build(which)?;
    let mut count = run_programs(&programs)?;
    if which == Which::All {
        count.add(run_cargo(&["test", "--workspace", "--doc", "--no-fail-fast"])?);
    }
    Ok(count)
}

/// A test program, and where cargo would run it.
struct Program {
    package: PathBuf,
    name: String,
    executable: PathBuf,
}

/// The outcome of one run of a test program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    count: Count,
    /// Names of the tests that failed.
    failed: Vec<String>,
}

fn build(which: Which) -> Result<Vec<Program>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--no-run", "--quiet", "--message-format=json"]);
    if which == Which::Unit {
        cargo.args(["--lib", "--bins"]);
    }
    let messages = proc::text(cargo.current_dir(repo::root()).stderr(Stdio::inherit()))?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        programs.extend(read_artifact(line));
    }
    ensure!(!programs.is_empty(), "cargo has built no test program");
    programs.sort_by_key(|it| (!LONGEST.contains(&it.name.as_str()), it.executable.clone()));
    Ok(programs)
}

/// Reads one message of cargo; `None` where it is not about a test program.
fn read_artifact(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let name = message["target"]["name"].as_str()?.to_owned();
    Some(Program { package, name, executable: message["executable"].as_str()?.into() })
}

/// Runs all programs, as many at once as there are processors, and then what failed, alone.
fn run_programs(programs: &[Program]) -> Result<Count> {
    let waiting = Mutex::new(programs.iter());
    let failures = Mutex::new(Vec::new());
    let count = Mutex::new(Count::default());
    let next = || waiting.lock().expect("no panic").next();
    let worker = || -> Result<()> {
        while let Some(program) = next() {
            let outcome = program.run(&[])?;
            if outcome.count.failed == 0 {
                count.lock().expect("no panic").add(outcome.count);
            } else {
                failures.lock().expect("no panic").push((program, outcome));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let mut count = count.into_inner().expect("no panic");
    for (program, first) in failures.into_inner().expect("no panic") {
        count.add(program.repeat(first)?);
    }
    Ok(count)
}

impl Program {
    /// Runs the tests with these names, or all where there are none, and prints what they say.
    fn run(&self, names: &[String]) -> Result<Outcome> {
        let begin = Instant::now();
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        if std::env::var_os(THREADS).is_none() {
            // The long ones wait for servers and rates: there is work for others meanwhile.
            let processors = thread::available_parallelism().map_or(1, usize::from);
            command.env(THREADS, (processors + 1).to_string());
        }
        if !names.is_empty() {
            command.arg("--exact").args(names);
        }
        let output = proc::output(&mut command)?;
        let mut outcome = Outcome::default();
        let said = String::from_utf8_lossy(&output.stdout);
        for line in said.lines() {
            outcome.read_line(line);
        }
        if !output.status.success() && outcome.count.failed == 0 {
            // It died without a result line.
            outcome.count = Count::FAILED;
        }
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        let seconds = begin.elapsed().as_secs_f64();
        // In one piece, for other programs print at the same time.
        println!(
            "--> tests of {package}, {}, {seconds:.1} s\n{}{}",
            self.name,
            said.trim_start(),
            String::from_utf8_lossy(&output.stderr),
        );
        Ok(outcome)
    }

    /// Runs those tests again that failed.
    fn repeat(&self, first: Outcome) -> Result<Count> {
        if first.failed.len() != first.count.failed {
            // Not all that failed has a name, so there is nothing to ask for.
            return Ok(first.count);
        }
        println!("==> repeated: {}", first.failed.join(", "));
        let mut second = self.run(&first.failed)?;
        if second.count.failed > 0 {
            // What disturbed the machine may last for a while.
            thread::sleep(PAUSE);
            second = self.run(&first.failed)?;
        }
        Ok(merge(first, &second))
    }
}

impl Outcome {
    /// Counts what a line of a test program says.
    fn read_line(&mut self, line: &str) {
        self.count.add(read_result_line(line));
        self.failed.extend(read_failed_name(line));
    }
}

/// Counts as flaky those tests that failed first and passed when they were repeated.
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

/// Runs cargo, shows its output as it comes and adds up the result lines of tests.
fn run_cargo(args: &[&str]) -> Result<Count> {
    let mut cargo = Command::new("cargo");
    cargo.args(args).current_dir(repo::root()).stdout(Stdio::piped());
    let mut child = cargo.spawn().context("cannot start cargo")?;
    let stdout: Box<dyn Read> = Box::new(child.stdout.take().context("stdout is a pipe")?);
    let mut outcome = Outcome::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("output of cargo")?;
        println!("{line}");
        outcome.read_line(&line);
    }
    if !child.wait()?.success() && outcome.count.failed == 0 {
        outcome.count = Count::FAILED;
    }
    Ok(outcome.count)
}

/// Reads `test result: ok. 12 passed; 0 failed; ...`; anything else counts nothing.
fn read_result_line(line: &str) -> Count {
    let Some(rest) = line.strip_prefix("test result: ") else { return Count::default() };
    let number = |word: &str| {
        let before = rest.split(word).next().filter(|before| before.len() < rest.len());
        let last = before.and_then(|before| before.split_whitespace().last());
        last.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Count { passed: number(" passed"), failed: number(" failed"), flaky: Vec::new() }
}

/// Reads the name in `test NAME ... FAILED`.
fn read_failed_name(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    // Tests that should panic say so after their name.
    Some(name.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Count, Outcome, merge, read_artifact, read_failed_name, read_result_line};

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
    fn lines_of_a_test_program_are_read() {
        let result =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!(read_result_line(result), count(12, 3, &[]));
        assert_eq!(read_result_line("test result: ok"), Count::default());
        assert_eq!(read_result_line("running 12 tests"), Count::default());
        let failed = "test plan::reads - should panic ... FAILED";
        assert_eq!(read_failed_name(failed).as_deref(), Some("plan::reads"));
        assert_eq!(read_failed_name("test plan::reads ... ok"), None);
    }

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_built() {
        let message = |test: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml",
                "target":{{"name":"t"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let program = read_artifact(&message("true", r#""/w/target/t-1""#)).unwrap();
        assert_eq!((program.package.to_str(), program.name.as_str()), (Some("/w/a"), "t"));
        assert!(read_artifact(&message("false", r#""/w/target/t""#)).is_none());
        assert!(read_artifact(&message("true", "null")).is_none());
        assert!(read_artifact("no JSON").is_none());
    }
}
