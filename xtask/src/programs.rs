//! Runs the repository's tests: builds the test programs once, and runs several of them at once.
//!
//! `cargo test` runs one program after the other, and most of ours wait for servers, rates and
//! timeouts, so the CPUs would be idle. Each program's output is printed in one piece when it has
//! ended, with its time; one that exceeds [`PROGRAM_MAX`] is killed, and its last lines show which
//! test it was. A few failed tests are repeated by name, by themselves; those that pass then are
//! counted as passed and reported as flaky. If many fail, they have one cause, and repeating does
//! not help. Documentation tests are left to `cargo test --doc`.
//!
//! Main types: [`Programs`], what was built, and [`Program`].

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use checks::test_programs::{self, TestProgram};
use serde_json::Value;
use tempfile::TempDir;

use crate::proc::{self, Background};
use crate::repo;
use crate::steps::{Count, Failure};

/// The variable that limits how many tests of a program run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// Number of programs per CPU to run at once: most of them wait for servers and timeouts.
const PROGRAMS_PER_PROCESSOR: usize = 2;
/// Number of tests per CPU that a program runs at once, for the same reason.
const TESTS_PER_PROCESSOR: usize = 4;
/// Pause before tests are repeated a second time.
const PAUSE: Duration = Duration::from_secs(20);
/// Maximum number of tests of a program to repeat; if more failed, they may have a common cause.
const REPEATED_MAX: usize = 8;
/// Time limit of a program; tests in `checks` have their own, lower limits.
const PROGRAM_MAX: Duration = Duration::from_secs(40 * 60);
/// Time limit of a build.
const BUILD_MAX: Duration = Duration::from_secs(30 * 60);
/// The longest programs, which start first, so that none of them runs last by itself.
const LONGEST: [&str; 2] = ["command", "survival"];
/// The package whose integration tests need real peers.
const CHECKS: &str = "checks";

/// The tests to build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TestSelection {
    /// Those in the sources of crates.
    Unit,
    /// Unit and integration tests, except those against real peers.
    WithoutReal,
    /// All of them.
    All,
    /// Only those against real peers.
    Real,
}

/// The test programs that were built.
pub struct Programs {
    /// Those that need neither root nor packages.
    pub plain: Vec<Program>,
    /// Those against real peers, one per group.
    pub real: Vec<Program>,
}

/// A test program that was built.
pub struct Program {
    built: TestProgram,
    is_real: bool,
}

/// The outcome of one run of a test program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// How many tests passed.
    passed: usize,
    /// The failed tests; the program itself if it died.
    failures: Vec<Failure>,
    /// Whether all failures are tests, which can be repeated by name.
    is_repeatable: bool,
}

/// Builds the tests, and all binaries and examples that they run.
///
/// # Errors
/// If cargo fails.
pub fn build(which: TestSelection) -> Result<Programs> {
    let mut cargo = repo::cargo();
    // Compiler errors are printed, everything else is parsed.
    cargo.args(["test", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    // Always the whole workspace: otherwise external crates have other features and are rebuilt.
    cargo.arg("--workspace");
    match which {
        TestSelection::Unit => cargo.args(["--lib", "--bins"]),
        TestSelection::WithoutReal => &mut cargo,
        TestSelection::All => cargo.args(["--features", "checks/real"]),
        TestSelection::Real => {
            // They run the binary and the examples.
            let mut build = repo::cargo();
            build.args(["build", "--workspace", "--bins", "--examples", "--quiet"]);
            proc::run_within(BUILD_MAX, &mut build)?;
            for group in read_groups()? {
                cargo.args(["--test", &group]);
            }
            for name in test_programs::RUN_BY_CHECKS {
                cargo.args(["--test", name]);
            }
            cargo.args(["--features", "checks/real"])
        }
    };
    let folder = TempDir::with_prefix("dfsbench-build-")?;
    let messages = folder.path().join("messages");
    cargo.stdout(File::create(&messages)?);
    proc::run_within(BUILD_MAX, &mut cargo)?;
    let messages = read_lossy(&messages)?;
    let mut programs = Programs { plain: Vec::new(), real: Vec::new() };
    for line in messages.lines() {
        if let Some(program) = read_artifact(line) {
            let list = if program.is_real { &mut programs.real } else { &mut programs.plain };
            list.push(program);
        }
    }
    ensure!(!programs.plain.is_empty() || !programs.real.is_empty(), "cargo built no test program");
    programs.plain.sort_by_key(|it| (!LONGEST.contains(&it.name()), it.built.executable.clone()));
    let plain: Vec<&TestProgram> = programs.plain.iter().map(|program| &program.built).collect();
    test_programs::write_list(&list_path(), &plain)?;
    Ok(programs)
}

/// Returns the path of the list of test programs, for the checks that run some of them.
fn list_path() -> PathBuf {
    repo::target_folder().join("test-programs.json")
}

/// Returns the names of the test programs against real peers.
fn read_groups() -> Result<Vec<String>> {
    let manifest = fs::read_to_string(repo::root().join("checks/Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().context("checks/Cargo.toml")?;
    let mut names = Vec::new();
    for test in manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten() {
        let name = test.get("name").and_then(toml::Value::as_str);
        names.push(name.context("checks/Cargo.toml: a test has no name")?.to_owned());
    }
    Ok(names)
}

/// Parses one cargo message; `None` if it is not about a test program.
fn read_artifact(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    // `--bins` also builds the fuzz targets, which are not tests and never end.
    if message["target"]["test"] == false {
        return None;
    }
    let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let name = message["target"]["name"].as_str()?.to_owned();
    let is_integration = message["target"]["kind"][0] == "test";
    let is_real = is_integration && package.ends_with(CHECKS);
    let executable = message["executable"].as_str()?.into();
    Some(Program { built: TestProgram { package, name, executable }, is_real })
}

/// Runs several programs at once, and then repeats failed tests by themselves.
///
/// # Errors
/// If one can't be started.
pub fn run_programs(programs: &[Program]) -> Result<Count> {
    let waiting = Mutex::new(programs.iter());
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..count_processors() * PROGRAMS_PER_PROCESSOR)
            .map(|_| scope.spawn(|| run_waiting(&waiting, &ended)))
            .collect();
        for worker in workers {
            worker.join().expect("a worker returns its errors")?;
        }
        Ok(())
    })?;
    let mut count = Count::default();
    for (program, outcome) in ended.into_inner().expect("no panic") {
        count.add(program.repeat_failed(outcome)?);
    }
    Ok(count)
}

/// Runs one program after the other until none is left.
fn run_waiting<'a>(
    waiting: &Mutex<std::slice::Iter<'a, Program>>,
    ended: &Mutex<Vec<(&'a Program, Outcome)>>,
) -> Result<()> {
    loop {
        // The lock is released before the program runs.
        let next = waiting.lock().expect("no panic").next();
        let Some(program) = next else { return Ok(()) };
        let outcome = program.run(&[])?;
        ended.lock().expect("no panic").push((program, outcome));
    }
}

fn count_processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the documentation tests.
///
/// # Errors
/// If cargo can't be started.
pub fn run_documentation() -> Result<Count> {
    let mut cargo = repo::cargo();
    cargo.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    let folder = TempDir::with_prefix("dfsbench-tests-")?;
    let stdout = folder.path().join("stdout");
    cargo.stdout(File::create(&stdout)?);
    let ended = Background::start(&mut cargo)?.await_end(PROGRAM_MAX);
    let output = read_lossy(&stdout)?;
    print!("{output}");
    let outcome = judge_output("tests in documentation", &output, "", &ended);
    if let Err(error) = ended {
        println!("{error:#}");
    }
    Ok(outcome.count())
}

impl Program {
    /// Returns the name of the test target.
    pub fn name(&self) -> &str {
        &self.built.name
    }

    /// Runs the tests whose name contains `filter`, and repeats those that failed.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn run_with_repeats(&self, filter: Option<&str>) -> Result<Count> {
        let arguments: Vec<&str> = filter.into_iter().collect();
        self.repeat_failed(self.run(&arguments)?)
    }

    /// Runs the program with these arguments, and prints its output.
    fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        let begin = Instant::now();
        let folder = TempDir::with_prefix("dfsbench-tests-")?;
        let stdout = folder.path().join("stdout");
        let stderr = folder.path().join("stderr");
        let mut command = self.built.command();
        if self.is_real {
            // They share servers and machines.
            command.env(THREADS, "1").env(test_programs::LIST_VARIABLE, list_path());
        } else if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, (count_processors() * TESTS_PER_PROCESSOR).to_string());
        }
        command.args(arguments).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let ended = Background::start(&mut command)?.await_end(PROGRAM_MAX);
        let output = read_lossy(&stdout)?;
        let errors = read_lossy(&stderr)?;
        let outcome = judge_output(self.name(), &output, &errors, &ended);
        let package = self.built.package.file_name().unwrap_or_default().to_string_lossy();
        let seconds = begin.elapsed().as_secs_f64();
        // In one piece, because other programs print at the same time.
        println!(
            "--> tests of {package}, {}, {seconds:.1} s\n{}{errors}{}",
            self.name(),
            output.trim_start(),
            ended.map_or_else(|error| format!("{error:#}\n"), |_| String::new())
        );
        Ok(outcome)
    }

    /// Repeats the failed tests.
    fn repeat_failed(&self, first: Outcome) -> Result<Count> {
        if first.failures.is_empty() || !first.is_repeatable {
            return Ok(first.count());
        }
        if first.failures.len() > REPEATED_MAX {
            println!("==> not repeated: {} tests failed, look for one cause", first.failures.len());
            return Ok(first.count());
        }
        let names: Vec<&str> = first.failures.iter().map(|test| test.name.as_str()).collect();
        println!("==> repeated: {}", names.join(", "));
        let arguments = [vec!["--exact"], names].concat();
        let mut second = self.run(&arguments)?;
        if !second.failures.is_empty() {
            // Whatever disturbed the machine may last for a while.
            thread::sleep(PAUSE);
            second = self.run(&arguments)?;
        }
        Ok(merge_outcomes(first, &second))
    }
}

fn read_lossy(path: &std::path::Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

impl Outcome {
    fn count(self) -> Count {
        Count { passed: self.passed, failures: self.failures, flaky: Vec::new() }
    }
}

/// Judges the output of a test program that ended with an exit code, by a signal, or exceeded its
/// limit.
fn judge_output(program: &str, output: &str, errors: &str, ended: &Result<Option<i32>>) -> Outcome {
    let mut outcome = Outcome { is_repeatable: true, ..Outcome::default() };
    let mut failed = 0;
    for line in output.lines() {
        if let Some(counts) = read_result_line(line) {
            outcome.passed += counts.0;
            failed += counts.1;
        }
        if let Some(name) = read_failed_name(line) {
            let output = read_output_of(&name, output).to_owned();
            outcome.failures.push(Failure { name, output });
        }
    }
    let has_passed = matches!(ended, Ok(Some(0)));
    let has_died = !has_passed && failed == 0;
    if has_died || failed != outcome.failures.len() {
        let output = match ended {
            Err(error) => format!("{output}{errors}{error:#}"),
            Ok(code) => format!("{output}{errors}it ended with {code:?}"),
        };
        outcome.failures = vec![Failure { name: program.to_owned(), output }];
        outcome.is_repeatable = false;
    }
    outcome
}

/// Counts as flaky those tests that failed first and passed when repeated.
///
/// A repetition that ran fewer tests than requested proves nothing.
fn merge_outcomes(first: Outcome, second: &Outcome) -> Count {
    let repeated = second.passed + second.failures.len();
    if repeated < first.failures.len() || !second.is_repeatable {
        return first.count();
    }
    let mut count = Count { passed: first.passed, ..Count::default() };
    for failure in first.failures {
        match second.failures.iter().find(|again| again.name == failure.name) {
            Some(again) => count.add(Count::failed(again.clone())),
            None => count.add(Count::flaky(failure.name)),
        }
    }
    count
}

/// Parses `test result: ok. 12 passed; 0 failed; ...`: number of passed and failed tests.
fn read_result_line(line: &str) -> Option<(usize, usize)> {
    let rest = line.strip_prefix("test result: ")?;
    Some((read_number_before(rest, " passed"), read_number_before(rest, " failed")))
}

/// Returns the output of a failed test: `---- NAME stdout ----` and all lines up to the next such
/// heading, or to the list of failures.
fn read_output_of<'a>(name: &str, output: &'a str) -> &'a str {
    let heading = format!("---- {name} stdout ----\n");
    let Some((_, rest)) = output.split_once(&heading) else { return "" };
    let ends = ["\n---- ", "\nfailures:\n"].iter().filter_map(|next| rest.find(next));
    &rest[..ends.min().unwrap_or(rest.len())]
}

/// Returns the number before a word; 0 without one.
fn read_number_before(text: &str, word: &str) -> usize {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    let last = before.split_whitespace().last().unwrap_or_default();
    last.parse().unwrap_or(0)
}

/// Parses the name in `test NAME ... FAILED`; checks print their time before the last word.
fn read_failed_name(line: &str) -> Option<String> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    if !outcome.ends_with("FAILED") {
        return None;
    }
    // Tests that should panic have that after their name.
    Some(name.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::{
        Count, Failure, Outcome, REPEATED_MAX, judge_output, merge_outcomes, read_artifact,
        read_failed_name, read_result_line,
    };

    /// Output of a test program with two failed tests.
    const FAILED: &str = "running 3 tests\ntest a::b ... (1.0 s) FAILED\ntest c ... ok\n\
        test d ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nleft: 1\nright: 2\n\n\
        ---- d stdout ----\nno server\n\n\nfailures:\n    a::b\n    d\n\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";

    fn failures(names: &[&str]) -> Vec<Failure> {
        names
            .iter()
            .map(|name| Failure { name: (*name).to_owned(), output: String::new() })
            .collect()
    }

    fn count(passed: usize, failed: &[&str], flaky: &[&str]) -> Count {
        let flaky = flaky.iter().map(|&name| name.to_owned()).collect();
        Count { passed, failures: failures(failed), flaky }
    }

    fn outcome(passed: usize, failed: &[&str]) -> Outcome {
        Outcome { passed, failures: failures(failed), is_repeatable: true }
    }

    #[test]
    fn reports_repeated_pass_as_flaky() {
        let first = || outcome(10, &["a::b", "c::d"]);
        assert_eq!(merge_outcomes(first(), &outcome(2, &[])), count(12, &[], &["a::b", "c::d"]));
        assert_eq!(
            merge_outcomes(first(), &outcome(1, &["c::d"])),
            count(11, &["c::d"], &["a::b"])
        );
        assert_eq!(merge_outcomes(first(), &outcome(0, &[])), count(10, &["a::b", "c::d"], &[]));
    }

    #[test]
    fn does_not_repeat_many_failures() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml",
            "target":{"name":"t","kind":["test"]},"profile":{"test":true},
            "executable":"/is/not/there"}"#;
        let program = read_artifact(message).unwrap();
        let names: Vec<String> = (0..=REPEATED_MAX).map(|n| format!("t{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let many = program.repeat_failed(outcome(3, &names)).unwrap();
        assert_eq!(many, count(3, &names, &[]));
        // These would be repeated, but their program can't be started.
        assert!(program.repeat_failed(outcome(3, &names[1..])).is_err());
    }

    #[test]
    fn collects_output_of_failed_tests() {
        let judged = judge_output("t", FAILED, "", &Ok(Some(101)));
        assert_eq!((judged.passed, judged.is_repeatable), (1, true));
        let [first, second] = judged.failures.as_slice() else { panic!("{judged:?}") };
        assert_eq!((&*first.name, first.output.trim()), ("a::b", "left: 1\nright: 2"));
        assert_eq!((&*second.name, second.output.trim()), ("d", "no server"));
    }

    #[test]
    fn counts_crashed_program_as_failure() {
        let died = judge_output("t", "running 3 tests\n", "killed\n", &Ok(None));
        assert_eq!((died.failures.len(), died.is_repeatable), (1, false));
        assert_eq!(died.failures[0].name, "t");
        assert_eq!(died.failures[0].output, "running 3 tests\nkilled\nit ended with None");
        let unnamed = FAILED.replace("test d ... FAILED\n", "");
        let unnamed = judge_output("t", &unnamed, "", &Ok(Some(101)));
        assert_eq!((unnamed.failures.len(), unnamed.is_repeatable), (1, false));
    }

    #[test]
    fn parses_lines_of_test_program() {
        let result =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!(read_result_line(result), Some((12, 3)));
        assert_eq!(read_result_line("test result: ok"), Some((0, 0)));
        assert_eq!(read_result_line("running 12 tests"), None);
        let failed = "test plan::reads - should panic ... FAILED";
        assert_eq!(read_failed_name(failed).as_deref(), Some("plan::reads"));
        assert_eq!(read_failed_name("test plan::reads ... ok"), None);
        let timed = "test kernel_mounts_v3 ... (12.3 s) FAILED";
        assert_eq!(read_failed_name(timed).as_deref(), Some("kernel_mounts_v3"));
    }

    #[test]
    fn selects_only_test_programs() {
        let message = |test: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml",
                "target":{{"name":"t","kind":["test"]}},"profile":{{"test":{test}}},
                "executable":{executable}}}"#
            )
        };
        let program = read_artifact(&message("true", r#""/w/target/t-1""#)).unwrap();
        assert_eq!((program.built.package.to_str(), program.name()), (Some("/w/a"), "t"));
        assert!(!program.is_real);
        let real = message("true", r#""/w/target/t-1""#).replace("/w/a/", "/w/checks/");
        assert!(read_artifact(&real).unwrap().is_real);
        assert!(read_artifact(&message("false", r#""/w/target/t""#)).is_none());
        assert!(read_artifact(&message("true", "null")).is_none());
        let fuzz_target =
            message("true", r#""/w/target/f-1""#).replace(r#"["test"]"#, r#"["bin"],"test":false"#);
        assert!(fuzz_target.contains(r#""test":false"#) && read_artifact(&fuzz_target).is_none());
        assert!(read_artifact("no JSON").is_none());
    }
}
