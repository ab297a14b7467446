//! Test programs that `cargo xtask` has built: those of the checks, and others that checks run.
//!
//! A check must not call cargo: it could rebuild outdated programs, including the `dfsbench` that
//! other checks are running at the moment. So `cargo xtask` lists the programs it has built in a
//! file, and a check takes a program from there ([`find_test_program`]).
//!
//! **Source:** nextest's book, "Machine-readable output": `cargo nextest list --list-type
//! binaries-only`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Environment variable with the path of the list.
pub const LIST_VARIABLE: &str = "DFSBENCH_TEST_PROGRAMS";
/// The integration tests run by checks; they write pages, or fill a disk created by a check.
pub const RUN_BY_CHECKS: [&str; 2] = ["reports", "fleet"];

/// A test program, and the directory where cargo would run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProgram {
    /// Folder of its package.
    pub package: PathBuf,
    /// Path of the program.
    pub executable: PathBuf,
}

impl TestProgram {
    /// Returns a command that runs it like `cargo test`, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.stdin(Stdio::null());
        command
    }
}

/// Finds an integration test of a package, given by its directory.
///
/// # Errors
/// If there is no list, because the check was not started by `cargo xtask`, or the list has no such
/// program.
pub fn find_test_program(package: &str, name: &str) -> Result<TestProgram> {
    let path = env::var_os(LIST_VARIABLE)
        .with_context(|| format!("{LIST_VARIABLE} isn't set: run `cargo xtask real`"))?;
    find_in_list(Path::new(&path), package, name)
}

/// Finds an integration test in this list.
///
/// # Errors
/// If there is no list, or no such program in it.
pub fn find_in_list(path: &Path, package: &str, name: &str) -> Result<TestProgram> {
    let list = fs::read(path).with_context(|| path.display().to_string())?;
    let list: Value = serde_json::from_slice(&list)?;
    for program in list["rust-binaries"].as_object().into_iter().flat_map(|all| all.values()) {
        // Such as `path+file:///home/me/dfsbench/crates/report#dfsbench-report@0.1.0`.
        let id = program["package-id"].as_str().unwrap_or_default();
        let folder = id.trim_start_matches("path+file://").split('#').next().unwrap_or_default();
        if program["binary-name"] == name
            && program["kind"] == "test"
            && Path::new(folder).ends_with(package)
        {
            let executable = program["binary-path"].as_str().context("a program has no path")?;
            return Ok(TestProgram { package: folder.into(), executable: executable.into() });
        }
    }
    bail!("no test program {name} of {package} is built")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn no_check_calls_cargo() {
        let mut folders = vec![repo::root().join("checks/tests")];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let source = fs::read_to_string(&path).unwrap();
                let is_called = source.contains("\"cargo\"") || source.contains("cargo()");
                assert!(!is_called, "{}", path.display());
                count += 1;
            }
        }
        assert!(count > 10, "{count} sources");
    }

    #[test]
    fn finds_program_by_package_and_name() {
        let program = |package: &str, name: &str, kind: &str| {
            let id = format!("path+file:///w/crates/{package}#dfsbench-{package}@0.1.0");
            let path = format!("/w/target/{package}-{name}-{kind}");
            serde_json::json!({"package-id": id, "binary-name": name, "kind": kind,
                "binary-path": path})
        };
        let list = serde_json::json!({"rust-binaries": {
            "1": program("plan", "many", "test"), "2": program("report", "many", "lib"),
            "3": program("report", "many", "test"),
        }});
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        fs::write(&path, list.to_string()).unwrap();
        let many = TestProgram {
            package: "/w/crates/report".into(),
            executable: "/w/target/report-many-test".into(),
        };
        assert_eq!(find_in_list(&path, "report", "many").unwrap(), many);
        let error = find_in_list(&path, "report", "few").unwrap_err().to_string();
        assert_eq!(error, "no test program few of report is built");
    }
}
