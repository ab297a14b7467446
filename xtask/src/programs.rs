//! Runs the test programs against real peers, whose tests share servers and machines.
//!
//! Several programs run at once, so the output of each is printed in one piece when it has ended,
//! with its time; one that exceeds [`PROGRAM_MAX`] is killed, and its last lines show which test it
//! was. A few failed tests are repeated by name; those that pass then are reported as flaky. If
//! many fail, they have one cause, and repeating does not help.

use std::fs::{self, File};
use std::time::{Duration, Instant};
use std::{path::Path, thread};

use anyhow::Result;
use checks::test_programs::{self, TestProgram};
use tempfile::TempDir;

use crate::nextest;
use crate::proc::Background;
use crate::steps::{Count, Failure};

/// Pauses before failed tests are repeated: whatever disturbed the machine may last for a while.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_secs(20)];
/// Maximum number of tests of a program to repeat; if more failed, they may have a common cause.
const REPEATED_MAX: usize = 8;
/// Exit code of a test program with failed tests.
const FAILED: i32 = 101;
/// Time limit of a program; its tests have their own, lower limits.
const PROGRAM_MAX: Duration = Duration::from_secs(40 * 60);

/// Runs the tests of a group whose name contains `filter`, and repeats those that failed.
///
/// Those marked `#[ignore]` take minutes, and run only `with_ignored`.
///
/// # Errors
/// If the group wasn't built, or can't be started.
pub fn run_group(group: &str, filter: Option<&str>, with_ignored: bool) -> Result<Count> {
    let program = test_programs::find_in_list(&nextest::list_path(), "checks", group)?;
    let ignored = with_ignored.then_some("--include-ignored");
    let arguments: Vec<&str> = ignored.into_iter().chain(filter).collect();
    let mut count = run(group, &program, &arguments)?;
    for pause in PAUSES {
        let names: Vec<String> = count.failures.iter().map(|test| test.name.clone()).collect();
        if !(1..=REPEATED_MAX).contains(&names.len()) {
            break;
        }
        thread::sleep(pause);
        println!("==> repeated: {}", names.join(", "));
        let mut arguments = vec!["--include-ignored", "--exact"];
        arguments.extend(names.iter().map(String::as_str));
        count = merge_repetition(count, &run(group, &program, &arguments)?);
    }
    Ok(count)
}

/// Runs a program with these arguments, and prints its output.
fn run(group: &str, program: &TestProgram, arguments: &[&str]) -> Result<Count> {
    let begin = Instant::now();
    let folder = TempDir::with_prefix("dfsbench-tests-")?;
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let mut command = program.command();
    command.env(test_programs::LIST_VARIABLE, nextest::list_path());
    command.args(["--test-threads", "1"]).args(arguments);
    command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let ended = Background::start(&mut command)?.await_end(PROGRAM_MAX);
    let has_passed = matches!(ended, Ok(Some(0)));
    let end = match ended {
        Ok(Some(0 | FAILED)) => String::new(),
        Ok(code) => format!("it ended with {code:?}\n"),
        Err(error) => format!("{error:#}\n"),
    };
    let output = read_lossy(&stdout)? + &read_lossy(&stderr)? + &end;
    // In one piece, because other programs print at the same time.
    let seconds = begin.elapsed().as_secs_f64();
    println!("--> tests of {group}, {seconds:.1} s\n{}", output.trim_start());
    Ok(judge_output(group, &output, has_passed))
}

fn read_lossy(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Judges the output of a test program: the failed tests, or the program itself if it died.
fn judge_output(group: &str, output: &str, has_passed: bool) -> Count {
    let (_, result) = output.rsplit_once("\ntest result: ").unwrap_or_default();
    let (passed, _) = result.split_once(" passed").unwrap_or_default();
    let passed = passed.rsplit(' ').next().and_then(|number| number.parse().ok());
    let mut count = Count { passed: passed.unwrap_or(0), ..Count::default() };
    // The second list of this heading has only names; the first one has their output.
    if let Some((_, names)) = output.rsplit_once("\nfailures:\n") {
        for name in names.lines().map_while(|line| line.strip_prefix("    ")) {
            let output = output_of(name, output).to_owned();
            count.failures.push(Failure { name: name.to_owned(), output });
        }
    }
    if passed.is_none() || has_passed != count.failures.is_empty() {
        return Count::failed(Failure { name: group.to_owned(), output: output.to_owned() });
    }
    count
}

/// Returns the output of a failed test: `---- NAME stdout ----` and all lines up to the next such
/// heading, or to the list of failures.
fn output_of<'a>(name: &str, output: &'a str) -> &'a str {
    let Some((_, rest)) = output.split_once(&format!("---- {name} stdout ----\n")) else {
        return "";
    };
    let ends = ["\n---- ", "\nfailures:\n"].iter().filter_map(|next| rest.find(next));
    &rest[..ends.min().unwrap_or(rest.len())]
}

/// Counts as flaky those tests that failed first and passed when repeated.
///
/// A repetition that ran fewer tests than requested proves nothing.
fn merge_repetition(first: Count, second: &Count) -> Count {
    let mut merged = Count { passed: first.passed, flaky: first.flaky.clone(), ..Count::default() };
    for failure in &first.failures {
        match second.failures.iter().find(|again| again.name == failure.name) {
            Some(again) => merged.failures.push(again.clone()),
            None => merged.add(Count::flaky(failure.name.clone())),
        }
    }
    let has_run_all = second.passed + merged.failures.len() == first.failures.len();
    if has_run_all { merged } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of a test program with two failed tests.
    const TWO_FAILED: &str = "running 3 tests\ntest a::b ... (1.0 s) FAILED\ntest c ... ok\n\
        test d ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nleft: 1\nright: 2\n\n\
        ---- d stdout ----\nno server\n\n\nfailures:\n    a::b\n    d\n\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";

    fn count(passed: usize, failed: &[&str], flaky: &[&str]) -> Count {
        let failures = failed
            .iter()
            .map(|&name| Failure { name: name.to_owned(), output: String::new() })
            .collect();
        Count { passed, failures, flaky: flaky.iter().map(|&name| name.to_owned()).collect() }
    }

    #[test]
    fn reports_repeated_pass_as_flaky() {
        let merged = |again| merge_repetition(count(10, &["a", "b"], &["c"]), &again);
        assert_eq!(merged(count(2, &[], &[])), count(12, &[], &["c", "a", "b"]));
        assert_eq!(merged(count(1, &["b"], &[])), count(11, &["b"], &["c", "a"]));
        // Nothing was run, or the program died.
        let unchanged = count(10, &["a", "b"], &["c"]);
        assert_eq!(merged(count(0, &[], &[])), unchanged);
        assert_eq!(merged(count(0, &["group"], &[])), unchanged);
    }

    #[test]
    fn collects_output_of_failed_tests() {
        let judged = judge_output("t", TWO_FAILED, false);
        assert_eq!(judged.passed, 1);
        let [first, second] = judged.failures.as_slice() else { panic!("{judged:?}") };
        assert_eq!((&*first.name, first.output.trim()), ("a::b", "left: 1\nright: 2"));
        assert_eq!((&*second.name, second.output.trim()), ("d", "no server"));
    }

    #[test]
    fn counts_passed_tests() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... (12.3 s) ok\n\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n";
        assert_eq!(judge_output("t", output, true), count(2, &[], &[]));
    }

    #[test]
    fn counts_crashed_program_as_failure() {
        let died = judge_output("t", "running 3 tests\nkilled\n", false);
        assert_eq!((died.passed, died.failures.len()), (0, 1));
        assert_eq!(died.failures[0].name, "t");
        assert_eq!(died.failures[0].output, "running 3 tests\nkilled\n");
        let late = "\ntest result: ok. 3 passed; 0 failed\n";
        assert_eq!(judge_output("t", late, false).failures[0].name, "t");
    }
}
