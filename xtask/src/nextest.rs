//! Builds the tests and runs those that need no real peers, by cargo-nextest.
//!
//! `.config/nextest.toml` says which tests belong to which profile, which start first, and how long
//! they may take. A test that fails is repeated; the report for build servers (JUnit) has the
//! outcomes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use roxmltree::{Document, Node};

use crate::steps::{Count, Failure};
use crate::{proc, repo, tools};

/// Number of tests per CPU to run at once: most of them wait for servers and timeouts.
const TESTS_PER_PROCESSOR: usize = 4;
/// Time limit of a build.
const BUILD_MAX: Duration = Duration::from_secs(30 * 60);
/// Time limit of all tests: nextest has a lower one.
const RUN_MAX: Duration = Duration::from_secs(3 * 60 * 60);

/// Returns the path of the list of test programs, for the checks that run some of them.
pub fn list_path() -> PathBuf {
    repo::target_folder().join("test-programs.json")
}

/// Builds these tests of the workspace, and lists their programs.
pub fn build(targets: &[String]) -> Result<()> {
    let mut list = tools::command(&["cargo", "nextest", "list"]);
    list.args(["--list-type", "binaries-only", "--message-format", "json", "--cargo-quiet"]);
    // Always the whole workspace: otherwise external crates have other features and are rebuilt.
    list.arg("--workspace").args(targets).stdout(File::create(list_path())?);
    proc::run_within(BUILD_MAX, &mut list)
}

/// Runs the tests of a profile, and repeats those that fail.
pub fn run(profile: &str, targets: &[String]) -> Result<Count> {
    let report = repo::root().join("target/nextest").join(profile).join("junit.xml");
    if report.exists() {
        fs::remove_file(&report)?;
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut run = tools::command(&["cargo", "nextest", "run"]);
    run.args(["--profile", profile, "--cargo-quiet", "--workspace"]).args(targets);
    run.args(["--test-threads", &(processors * TESTS_PER_PROCESSOR).to_string()]);
    let ended = proc::run_within(RUN_MAX, &mut run);
    let Ok(report) = fs::read_to_string(report) else {
        ended?;
        bail!("nextest wrote no report");
    };
    let count = read_report(&report)?;
    if count.failures.is_empty() {
        ended?;
    }
    Ok(count)
}

/// Counts the tests of a report.
fn read_report(xml: &str) -> Result<Count> {
    let document = Document::parse(xml).context("nextest's report")?;
    let mut count = Count::default();
    for test in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let attribute = |name| test.attribute(name).unwrap_or_default();
        let name = format!("{} {}", attribute("classname"), attribute("name"));
        let child = |tag| test.children().find(|node: &Node<'_, '_>| node.has_tag_name(tag));
        if let Some(failure) = child("failure").or_else(|| child("error")) {
            let output = failure.text().or_else(|| failure.attribute("type")).unwrap_or_default();
            let output = output.split("\nstack backtrace:").next().unwrap_or_default().to_owned();
            count.add(Count::failed(Failure { name, output }));
        } else if child("flakyFailure").is_some() {
            count.add(Count::flaky(name));
        } else {
            count.add(Count::PASSED);
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_tests_of_report() {
        let count = read_report(
            r#"<testsuites><testsuite name="a">
            <testcase name="fine" classname="a"/>
            <testcase name="late" classname="a"><failure type="test timeout"/></testcase>
            <testcase name="b::c" classname="a"><flakyFailure>left: 1</flakyFailure></testcase>
            </testsuite><testsuite name="d::e"><testcase name="f" classname="d::e">
            <failure type="exit code 101">left: 1&#10;right: 2&#10;stack backtrace:&#10; 0: std
            </failure><rerunFailure>left: 3</rerunFailure></testcase></testsuite></testsuites>"#,
        )
        .unwrap();
        assert_eq!((count.passed, count.flaky), (2, vec!["a b::c".to_owned()]));
        let [late, failed] = &count.failures[..] else { panic!("{:?}", count.failures) };
        assert_eq!((&*late.name, &*late.output), ("a late", "test timeout"));
        assert_eq!((&*failed.name, &*failed.output), ("d::e f", "left: 1\nright: 2"));
    }
}
