//! Where the programs of a recipe are found, and how they are run from there.
//!
//! Our own commands use fixed folders. A recipe's programs are often built by hand, so they are
//! also looked for in the folders that the recipe names and in the PATH of the ssh session.

use std::fs;
use std::path::{Path, PathBuf};

use super::{FOLDERS, find};
use crate::error::LabError;

/// Command name in recipes that stands for this program, wherever it is installed.
const OURS: &str = "dfsbench";

/// Folders of programs, and this program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramSearch {
    /// Path of this program.
    ours: PathBuf,
    /// Folders before the usual ones.
    folders: Vec<PathBuf>,
}

impl ProgramSearch {
    /// Looks up the folders: those of the recipe, then those of the session.
    ///
    /// # Errors
    /// If the path of this program is not known.
    pub(crate) fn of_recipe(path: &[String]) -> Result<Self, LabError> {
        let ours = find_ours()?;
        let mut folders = Vec::new();
        let home = variable_at_start("HOME").unwrap_or_default();
        for folder in path {
            folders.push(match folder.strip_prefix("~/") {
                Some(rest) => Path::new(&home).join(rest),
                None => folder.into(),
            });
        }
        let session = variable_at_start("PATH").unwrap_or_default();
        folders.extend(session.split(':').filter(|part| part.starts_with('/')).map(PathBuf::from));
        folders.retain(|folder| !FOLDERS.iter().any(|usual| Path::new(usual) == folder));
        Ok(Self { ours, folders })
    }

    /// Returns the search assumed by a dry run.
    pub(crate) fn assumed() -> Self {
        Self { ours: OURS.into(), folders: Vec::new() }
    }

    /// Finds a program by name.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        if program == OURS || program.contains('/') {
            return find(&self.name_ours(program));
        }
        let found = self.folders.iter().map(|folder| folder.join(program));
        found.into_iter().find(|path| path.is_file()).or_else(|| find(program))
    }

    /// Returns the command that runs words of a recipe, so that it and its children find programs
    /// in all folders. **Source:** env(1).
    pub(crate) fn command(&self, words: &[String]) -> Vec<String> {
        let mut argv = words.to_vec();
        if let Some(first) = argv.first_mut() {
            *first = self.name_ours(first);
        }
        if self.folders.is_empty() || argv.is_empty() {
            return argv;
        }
        argv.splice(..0, ["env".to_owned(), format!("PATH={}", self.folder_list())]);
        argv
    }

    /// Returns all folders, separated by colons.
    pub(crate) fn folder_list(&self) -> String {
        let own = self.folders.iter().map(|folder| folder.display().to_string());
        own.chain(FOLDERS.map(str::to_owned)).collect::<Vec<_>>().join(":")
    }

    /// Replaces the placeholder for this program with its path.
    fn name_ours(&self, program: &str) -> String {
        if program == OURS { self.ours.display().to_string() } else { program.to_owned() }
    }
}

/// Returns the path of this program, whether installed or copied by a controller.
pub(crate) fn find_ours() -> Result<PathBuf, LabError> {
    std::env::current_exe().map_err(|error| LabError::file("find", Path::new(OURS), error))
}

/// Returns a variable of the environment that this process was started with, which is that of the
/// ssh session. **Source:** proc_pid_environ(5).
fn variable_at_start(name: &str) -> Option<String> {
    let environment = fs::read("/proc/self/environ").ok()?;
    let lead = format!("{name}=");
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(lead.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::commands::{Runner, SOON, show};

    #[test]
    fn finds_programs_of_recipe() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("dfsbench-test-program");
        fs::write(&program, "#!/bin/sh\necho found\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let path = [folder.path().display().to_string()];
        let search = ProgramSearch::of_recipe(&path).unwrap();
        assert_eq!(search.find("dfsbench-test-program"), Some(program));
        assert!(search.find("sh").is_some() && search.find("dfsbench").is_some());
        let elsewhere = ProgramSearch::of_recipe(&[]).unwrap();
        assert_eq!(elsewhere.find("dfsbench-test-program"), None);
        // A shell of the recipe finds it as well.
        for command in [words("dfsbench-test-program"), words("sh -c dfsbench-test-program")] {
            let argv = search.command(&command);
            assert_eq!(Runner::default().run(&argv, SOON).unwrap(), "found\n");
            assert_eq!(show(&argv), show(&command));
        }
        assert_eq!(
            ProgramSearch::assumed().command(&words("dfsbench serve")),
            words("dfsbench serve")
        );
    }
}
