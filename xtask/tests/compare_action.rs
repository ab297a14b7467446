//! The action `dfsbench-compare`: its reaction to each outcome of the program.
//!
//! A script simulates the program: it records its arguments, prints a comparison and ends with a
//! given exit code. Nothing is measured.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const PROGRAM: &str = r#"#!/bin/sh
echo "$*" >> "$FOLDER/calls"
if [ "$1" = run ]; then cp "$2" "$FOLDER/plan.toml"; exit "$RUN_CODE"; fi
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then echo "$COMPARISON" > "$2"; fi
  shift
done
exit "$COMPARE_CODE"
"#;

/// The end of the action.
struct End {
    code: i32,
    output: String,
    folder: TempDir,
}

impl End {
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn run_action(settings: &[(&str, &str)]) -> End {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("dfsbench");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut action = Command::new(root.join(".github/actions/dfsbench-compare/compare.sh"));
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    action.env_clear().env("PATH", path).env("FOLDER", folder.path());
    action.env("RUNNER_TEMP", folder.path()).env("GITHUB_OUTPUT", folder.path().join("output"));
    for (name, value) in [("RUN_CODE", "0"), ("COMPARE_CODE", "0"), ("COMPARISON", "2 rows")] {
        action.env(name, value);
    }
    let output = action.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    End { code: output.status.code().unwrap(), output: text, folder }
}

#[test]
fn measures_both_sides_together() {
    let end = run_action(&[
        ("BEFORE", "nfs://127.0.0.1:3001/export"),
        ("AFTER", "/mnt/new"),
        ("WORKLOADS", "stream metadata"),
        ("ARGUMENTS", "--file-size 4MiB"),
        ("MAX_LOSS", "10%"),
        ("MAX_SLOWDOWN", "p99=20%"),
    ]);
    assert_eq!(end.code, 0, "{}", end.output);
    let plan = end.file("plan.toml");
    for part in [
        "trials = 10\n",
        "name = \"before\"\nurl = \"nfs://127.0.0.1:3001/export\"\n",
        "name = \"after\"\npath = \"/mnt/new\"\n",
        "kind = \"stream\"\n",
        "kind = \"metadata\"\n",
    ] {
        assert!(plan.contains(part), "{part} is missing in:\n{plan}");
    }
    let calls = end.file("calls");
    assert!(calls.lines().next().unwrap().ends_with("--file-size 4MiB"), "{calls}");
    let bounds = "--max-loss 10% --inconclusive fail --max-slowdown p99=20%";
    assert!(calls.contains(bounds), "{calls}");
    assert!(end.file("output").starts_with("outcome=kept\n"), "{}", end.file("output"));
}

#[test]
fn fails_on_slowdown_only() {
    let sides = [("BEFORE", "/a"), ("AFTER", "/b")];
    let with = |more: &[(&'static str, &'static str)]| run_action(&[&sides[..], more].concat());
    let slower = with(&[("COMPARE_CODE", "1")]);
    assert_eq!(slower.code, 1);
    assert!(slower.output.contains("::error::it became slower by more than 5%"));
    let unclear = with(&[("COMPARE_CODE", "4")]);
    assert_eq!(unclear.code, 0);
    assert!(unclear.output.contains("::warning::"), "{}", unclear.output);
    assert!(unclear.file("output").starts_with("outcome=inconclusive\n"));
    assert_eq!(with(&[("COMPARE_CODE", "4"), ("INCONCLUSIVE", "fail")]).code, 4);
    // Rows with invalid trials are judged by the comparison.
    assert_eq!(with(&[("RUN_CODE", "4")]).code, 0);
}

#[test]
fn what_was_not_measured_fails() {
    let sides = [("BEFORE", "/a"), ("AFTER", "/b")];
    let with = |more: &[(&'static str, &'static str)]| run_action(&[&sides[..], more].concat());
    let missing = "Not compared: before stream write: after: failed";
    assert_eq!(with(&[("COMPARE_CODE", "4"), ("COMPARISON", missing)]).code, 4);
    assert_eq!(with(&[("RUN_CODE", "3")]).code, 3);
    assert_eq!(with(&[("COMPARE_CODE", "2")]).code, 2);
    assert_eq!(run_action(&[("AFTER", "/b")]).code, 2);
}
