//! A system started by its recipe: folders and files first, then commands in order.
//!
//! Every process gets the environment variable [`processes::MARK`] set to the system's folder, and
//! passes it on to its children unless they clear their environment. That is how we find and stop
//! them. For files that programs leave elsewhere, we compare with what was there before. Needs
//! root.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::{AwaitQuiet, Service, SystemSteps};
use model::lab::NFS_PORT;
use model::options::check_path;
use model::system::{FilledStep, may_leave};

use super::accept::{accept, check_point};
use super::{LabAction, Layer, folder_undo};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::search::ProgramSearch;
use crate::commands::{self, SOON, filled_lines, is_root, packages};
use crate::error::LabError;
use crate::host::{additions, processes, servers};
use crate::undo::Undo;

impl LabAction for Service {
    programs_of_recipe!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.dir)?;
        for path in &self.folders {
            accept("folders", check_path(path))?;
            check_inside(self, path)?;
        }
        for file in &self.files {
            accept("file", check_path(file.path.as_ref()))?;
            check_inside(self, file.path.as_ref())?;
        }
        check_leaves(&self.leaves)
    }

    fn steps(&self, _search: &ProgramSearch) -> Vec<Step> {
        let mut steps = vec![Step::Folder(self.dir.clone())];
        steps.extend(self.folders.iter().map(|folder| Step::Folder(folder.clone())));
        for file in &self.files {
            steps.push(Step::File { path: file.path.clone().into(), text: file.text.clone() });
        }
        steps
    }

    /// Stops all processes and removes their files, including those on our storage unless they are
    /// needed for the next start. Fails if a port is in use, a program is missing, or we aren't
    /// root.
    fn undo(&self, search: &ProgramSearch, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_root(&self.system)?;
        check_programs(search, &self.programs, &self.packages)?;
        for port in &self.ports {
            if servers::answers(*port) {
                let holder = match processes::listener(*port) {
                    Some(holder) => format!(" ({holder})"),
                    // No process is listening there.
                    None if *port == NFS_PORT => {
                        " (the kernel's NFS server; `rpc.nfsd 0` stops it)".to_owned()
                    }
                    None => String::new(),
                };
                return Err(LabError::Refused(format!(
                    "cannot start {}: its port {port} is already in use{holder}",
                    self.system
                )));
            }
        }
        let mut undo = undo_of_programs(&self.dir, &self.leaves)?;
        undo.extend(removal_of_storage(self));
        undo.push(Undo::EndMarked { mark: self.dir.clone(), within_s: self.stop_within_s });
        Ok(undo)
    }

    fn check(&self, search: &ProgramSearch) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        findings.fact("system", &self.system, "the recipe");
        if !self.settings.is_empty() {
            findings.fact("system settings", &self.settings, "the recipe");
        }
        findings.fact("system durability", &self.durability, "the recipe");
        if !self.version.is_empty() {
            let command = commands::show(&self.version);
            let version = find_version(search, &self.version);
            let version = version.unwrap_or_else(|why| format!("unknown ({why})"));
            findings.fact("system version", version, command);
        }
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

impl LabAction for SystemSteps {
    programs_of_recipe!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.dir)
    }

    fn steps(&self, search: &ProgramSearch) -> Vec<Step> {
        start_steps(self, search)
    }

    /// Nothing to undo: the processes carry the system's mark, and [`Service`] stops them.
    fn undo(&self, _search: &ProgramSearch, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_root(&self.system)?;
        Ok(Vec::new())
    }

    fn check(&self, _search: &ProgramSearch) -> Result<EffectiveSettings, LabError> {
        Ok(Findings::new("server").finish())
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

/// Returns the first line that a command prints.
///
/// # Errors
/// If it can't be run, or prints nothing but an error; the error is one line.
fn find_version(search: &ProgramSearch, command: &[String]) -> Result<String, String> {
    let output = search.output(command, SOON).map_err(|error| error.to_string())?;
    let lines = filled_lines(&output.stdout);
    let errors = filled_lines(&output.stderr);
    match (lines.first(), errors.as_slice()) {
        (Some(first), _) => Ok((*first).to_owned()),
        // Some programs print their version to stderr.
        (None, [first, ..]) if output.status.success() => Ok((*first).to_owned()),
        (None, []) => Err(format!("the command printed nothing, {}", output.status)),
        (None, [.., last]) => Err(format!("{last}, {}", output.status)),
    }
}

/// Returns the steps that start a system according to its recipe.
fn start_steps(action: &SystemSteps, search: &ProgramSearch) -> Vec<Step> {
    let dir = action.dir.as_path();
    let mut has_program = action.has_program;
    let mut steps = Vec::new();
    for (index, step) in action.steps.iter().enumerate() {
        steps.push(match step {
            FilledStep::Start(words) => {
                has_program = true;
                let number = action.first + index + 1;
                Step::Launch {
                    argv: processes::command_of_step(dir, number, &search.command(words)),
                    stderr: servers::stderr_of_step(dir, number),
                }
            }
            FilledStep::Run { words, within_s, again: _ } => Step::with_time_limit(
                Duration::from_secs(*within_s),
                processes::marked_command(dir, &search.command(words)),
            ),
            FilledStep::Ready(words, within_s) => Step::AwaitCommand {
                argv: search.command(words),
                limit: Duration::from_secs(*within_s),
                mark: dir.to_owned(),
                has_program,
            },
            FilledStep::Port(port, within_s) => Step::AwaitService {
                port: *port,
                limit: Duration::from_secs(*within_s),
                mark: dir.to_owned(),
                has_program,
            },
        });
    }
    steps
}

/// Rejects a path outside the system's own folder and its storage.
fn check_inside(service: &Service, path: &Path) -> Result<(), LabError> {
    let in_storage = service.storage.as_ref().is_some_and(|storage| path.starts_with(storage));
    if in_storage || path.starts_with(&service.dir) {
        return Ok(());
    }
    let system = &service.system;
    let path = path.display();
    Err(LabError::Refused(format!(
        "{system}: {path} is outside of the system's folder and its storage"
    )))
}

impl LabAction for AwaitQuiet {
    programs_of_recipe!();

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn steps(&self, search: &ProgramSearch) -> Vec<Step> {
        vec![Step::AwaitQuiet {
            argv: search.command(&self.run),
            busy: self.busy.clone(),
            limit: Duration::from_secs(self.within_s),
        }]
    }

    fn undo(&self, _search: &ProgramSearch, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        Ok(Vec::new())
    }

    fn check(&self, _search: &ProgramSearch) -> Result<EffectiveSettings, LabError> {
        Ok(Findings::new("server").finish())
    }

    /// Runs on the server but counts as the clients' part, so it is redone before clients mount
    /// again.
    fn layer(&self) -> Layer {
        Layer::Client
    }
}

/// Rejects paths from which nothing may be removed.
pub(super) fn check_leaves(leaves: &[PathBuf]) -> Result<(), LabError> {
    for path in leaves {
        if !may_leave(&path.to_string_lossy()) {
            let path = path.display();
            return Err(LabError::Refused(format!("leaves: files in {path} cannot be removed")));
        }
    }
    Ok(())
}

/// Recipes start programs that need root, and only root can find root's processes by their mark.
pub(super) fn check_root(system: &str) -> Result<(), LabError> {
    if is_root() { Ok(()) } else { Err(LabError::NotRoot { command: format!("recipe {system}") }) }
}

/// Checks that all programs are installed. The error names this distribution's package.
pub(super) fn check_programs(
    search: &ProgramSearch,
    programs: &[String],
    of_recipe: &[(String, String)],
) -> Result<(), LabError> {
    for program in programs {
        if search.find(program).is_some() {
            continue;
        }
        let distribution = packages::distribution();
        let named = of_recipe.iter().find(|(known, _)| *known == distribution);
        let package = named.map(|(_, named)| packages::not_installed(named)).unwrap_or_default();
        return Err(if package.is_empty() {
            packages::missing_in(program, &search.folder_list())
        } else {
            LabError::Missing { program: program.clone(), package }
        });
    }
    Ok(())
}

/// Returns how to remove the files of programs: their own folder, and what they add elsewhere.
pub(super) fn undo_of_programs(dir: &Path, leaves: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
    let mut undo = dir.parent().map(folder_undo).unwrap_or_default();
    undo.push(Undo::Tree { path: dir.to_owned() });
    for path in leaves {
        undo.push(Undo::Additions { path: path.clone(), before: additions::list(path)? });
    }
    Ok(undo)
}

/// Returns how to remove the folders that a system created on storage. The file system itself may
/// be kept for the next run, which starts with empty folders unless the system can continue with
/// their contents.
fn removal_of_storage(service: &Service) -> Vec<Undo> {
    let mut removal = Vec::new();
    if service.keeps_storage {
        return removal;
    }
    for folder in &service.folders {
        if !folder.starts_with(&service.dir) {
            removal.push(Undo::Tree { path: folder.clone() });
        }
    }
    removal
}

#[cfg(test)]
mod tests {
    use model::action::CommandContext;

    use super::*;

    #[test]
    fn finds_version_or_reason() {
        if !is_root() {
            return;
        }
        let find = |script: &str| {
            let search = ProgramSearch::assumed(&CommandContext::default());
            find_version(&search, &["sh", "-c", script].map(str::to_owned))
        };
        let unknown = |script: &str| find(script).unwrap_err();
        assert_eq!(find("echo; echo 1.2 of today; echo more; exit 9").unwrap(), "1.2 of today");
        assert_eq!(find("echo 1.2 >&2").unwrap(), "1.2");
        assert_eq!(unknown("true"), "the command printed nothing, exit status: 0");
        assert_eq!(unknown("echo 'x: not found' >&2; exit 127"), "x: not found, exit status: 127");
        let missing = find_version(
            &ProgramSearch::assumed(&CommandContext::default()),
            &["dfsbench-no-such-program".to_owned()],
        );
        assert!(missing.unwrap_err().contains("dfsbench-no-such-program"));
    }

    #[test]
    fn finds_folders_after_restart() {
        let mut service = Service {
            system: "plain".to_owned(),
            settings: String::new(),
            dir: "/run/dfsbench/systems/plain".into(),
            storage: Some("/run/dfsbench/storage".into()),
            context: CommandContext::default(),
            programs: Vec::new(),
            packages: Vec::new(),
            ports: Vec::new(),
            folders: vec![
                "/run/dfsbench/systems/plain/log".into(),
                "/run/dfsbench/storage/data".into(),
            ],
            keeps_storage: true,
            files: Vec::new(),
            stop_within_s: 10,
            leaves: Vec::new(),
            version: Vec::new(),
            durability: String::new(),
        };
        assert_eq!(removal_of_storage(&service), []);
        service.keeps_storage = false;
        let path = "/run/dfsbench/storage/data".into();
        assert_eq!(removal_of_storage(&service), [Undo::Tree { path }]);
    }
}
