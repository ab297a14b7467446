//! Where the programs of a recipe are found, and how they are run from there.
//!
//! Our own commands use fixed folders. A recipe's programs are often built by hand, so they are
//! also looked for in the folders that the recipe names and in the PATH of the ssh session.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::action::CommandContext;
use model::system::Secrets;

use super::{FOLDERS, Output, Runner, find};
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
    /// Environment variables of the programs.
    environment: Vec<(String, String)>,
    /// Values of secrets, for commands that are run by [`ProgramSearch::output`].
    pub(crate) secrets: Secrets,
}

impl ProgramSearch {
    /// Looks up the folders: those of the recipe, then those of the session.
    ///
    /// # Errors
    /// If the path of this program is not known.
    pub(crate) fn of_recipe(context: &CommandContext) -> Result<Self, LabError> {
        let ours = find_ours()?;
        let mut folders = Vec::new();
        let home = variable_at_start("HOME").unwrap_or_default();
        for folder in &context.path {
            folders.push(match folder.strip_prefix("~/") {
                Some(rest) => Path::new(&home).join(rest),
                None => folder.into(),
            });
        }
        let session = variable_at_start("PATH").unwrap_or_default();
        folders.extend(session.split(':').filter(|part| part.starts_with('/')).map(PathBuf::from));
        folders.retain(|folder| !FOLDERS.iter().any(|usual| Path::new(usual) == folder));
        let environment = context.environment.clone();
        Ok(Self { ours, folders, environment, secrets: Secrets::default() })
    }

    /// Returns the search assumed by a dry run.
    pub(crate) fn assumed(context: &CommandContext) -> Self {
        let environment = context.environment.clone();
        Self { ours: OURS.into(), folders: Vec::new(), environment, secrets: Secrets::default() }
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
        if argv.is_empty() || (self.folders.is_empty() && self.environment.is_empty()) {
            return argv;
        }
        let mut lead = vec!["env".to_owned(), format!("PATH={}", self.folder_list())];
        lead.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        argv.splice(..0, lead);
        argv
    }

    /// Runs words of a recipe to their end and returns the output, regardless of the exit code.
    ///
    /// # Errors
    /// Same as [`Runner::output`].
    pub(crate) fn output(&self, words: &[String], limit: Duration) -> Result<Output, LabError> {
        Runner::with_secrets(self.secrets.clone()).output(&self.command(words), limit)
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
        fs::write(&program, "#!/bin/sh\necho found $MODE\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let path = vec![folder.path().display().to_string()];
        let environment = vec![("MODE".to_owned(), "a b".to_owned())];
        let context = CommandContext { path, environment };
        let search = ProgramSearch::of_recipe(&context).unwrap();
        assert_eq!(search.find("dfsbench-test-program"), Some(program));
        assert!(search.find("sh").is_some() && search.find("dfsbench").is_some());
        let elsewhere = ProgramSearch::of_recipe(&CommandContext::default()).unwrap();
        assert_eq!(elsewhere.find("dfsbench-test-program"), None);
        // A shell of the recipe finds it as well.
        for command in [words("dfsbench-test-program"), words("sh -c dfsbench-test-program")] {
            let argv = search.command(&command);
            assert_eq!(Runner::default().run(&argv, SOON).unwrap(), "found a b\n");
            assert_eq!(show(&argv), show(&command));
        }
        assert_eq!(
            ProgramSearch::assumed(&CommandContext::default()).command(&words("dfsbench serve")),
            words("dfsbench serve")
        );
    }
}
