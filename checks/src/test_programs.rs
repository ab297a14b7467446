//! Test programs of the crates, which `cargo xtask` builds and some checks run.
//!
//! A check must not call cargo: it could rebuild outdated programs, including the `dfsbench` that
//! other checks are running at the moment. So `cargo xtask` lists the programs it has built in a
//! file ([`write_list`]), and a check takes a program from there ([`find_test_program`]).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Environment variable with the path of the list.
pub const LIST_VARIABLE: &str = "DFSBENCH_TEST_PROGRAMS";
/// The integration tests run by checks; they write pages, or fill a disk created by a check.
pub const RUN_BY_CHECKS: [&str; 7] =
    ["report", "many", "question_pages", "compared", "contenders", "durability", "fleet"];

/// A test program, and the directory where cargo would run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProgram {
    /// Folder of its package.
    pub package: PathBuf,
    /// Name of the test target.
    pub name: String,
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

/// Lists programs in a file.
///
/// # Errors
/// If the file can't be written.
pub fn write_list(path: &Path, programs: &[&TestProgram]) -> Result<()> {
    fs::write(path, serde_json::to_vec(programs)?).with_context(|| path.display().to_string())
}

/// Finds an integration test of a package, given by its directory.
///
/// # Errors
/// If there is no list, because the check was not started by `cargo xtask`, or the list has no such
/// program.
pub fn find_test_program(package: &str, name: &str) -> Result<TestProgram> {
    let path = env::var_os(LIST_VARIABLE)
        .with_context(|| format!("{LIST_VARIABLE} isn't set: run `cargo xtask real`"))?;
    let list = fs::read(&path).with_context(|| Path::new(&path).display().to_string())?;
    find_in_list(&list, package, name)
}

fn find_in_list(list: &[u8], package: &str, name: &str) -> Result<TestProgram> {
    let programs: Vec<TestProgram> = serde_json::from_slice(list)?;
    for program in programs {
        if program.name == name && program.package.ends_with(package) {
            return Ok(program);
        }
    }
    anyhow::bail!("no test program {name} of {package} is built")
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
        let program = |package: &str, name: &str| TestProgram {
            package: PathBuf::from("/w/crates").join(package),
            name: name.to_owned(),
            executable: format!("/w/target/{package}-{name}").into(),
        };
        let many = program("report", "many");
        let other = program("plan", "many");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        write_list(&path, &[&other, &many]).unwrap();
        let list = fs::read(path).unwrap();
        assert_eq!(find_in_list(&list, "report", "many").unwrap(), many);
        let error = find_in_list(&list, "report", "few").unwrap_err().to_string();
        assert_eq!(error, "no test program few of report is built");
    }
}
