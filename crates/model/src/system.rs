//! Recipes of systems: how a distributed file system is started, mounted, emptied and ended.
//!
//! Principal type: [`Recipe`], the data of one file below `systems/`. A recipe with the values of
//! its settings and the names of a run's places ([`Places`]) is filled in by [`Recipe::fill_in`];
//! what comes out are commands and texts without variables. Nothing here acts on a host.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::invalidation::Invalidation;

mod settings;
mod template;
#[cfg(test)]
mod tests;
mod validate;

pub use settings::{RecipeSetting, SettingKind, Variable};
use template::Template;
pub use validate::may_leave;

/// Most copies that `count` makes of something: `{n}` is one digit.
pub const COUNT_MAX: u64 = 9;

/// Folder that has a folder of each system that was set up on a host.
pub const SYSTEMS_DIR: &str = "/run/dfsbench/systems";

/// End of the name of a system's folder on a client.
pub const CLIENT_DIR_END: &str = "-client";

/// How long a step may take where a recipe says nothing, in seconds.
const STEP_LIMIT_S: u64 = 60;
/// How long programs are given to end by themselves where a recipe says nothing, in seconds.
const STOP_LIMIT_S: u64 = 10;

/// A system that dfsbench can set up, as its file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the system in plans and tables.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// On which hosts, and with which version, the recipe was tried; or that it wasn't.
    pub tried: String,
    /// Promise of the system's documentation about data that was written.
    pub durability: String,
    /// How many copies of written data lie on different servers; empty for 1.
    #[serde(default)]
    pub copies: String,
    /// Programs that the server's host needs.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Packages that have the programs, by the ID of the distribution in os-release(5).
    #[serde(default)]
    pub packages: BTreeMap<String, Vec<String>>,
    /// Settings by name; each may be a factor of a plan.
    #[serde(default)]
    pub settings: BTreeMap<String, RecipeSetting>,
    /// Texts that follow from settings, or are repeated.
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    /// Whether files are still there when it is ended and started again; otherwise no invalidation
    /// restarts it.
    #[serde(default)]
    pub restarts: bool,
    /// Whether files lie below `{storage}`, a file system that the plan makes or names.
    #[serde(default = "yes")]
    pub storage: bool,
    /// TCP ports that must be free on the server.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Folders that are made first, below `{dir}` or `{storage}`.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Files that are written then, below `{dir}`.
    #[serde(default, rename = "file")]
    pub files: Vec<RecipeFile>,
    /// Steps of the start on the server, in this order.
    #[serde(rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// Longest time for the programs to end after SIGTERM, in seconds; then they are killed.
    #[serde(default = "stop_limit")]
    pub stop_within_s: u64,
    /// Files and folders outside of `{dir}` that the programs make; what wasn't there before is
    /// removed.
    #[serde(default)]
    pub leaves: Vec<String>,
    /// Command that prints the version.
    #[serde(default)]
    pub version: Vec<String>,
    /// How caches are emptied.
    pub caches: Caches,
    /// When nothing goes on in the background any more.
    #[serde(default)]
    pub quiet: Option<Quiet>,
    /// How clients reach it.
    pub access: AccessWays,
}

/// A file of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeFile {
    /// Path of the file, below `{dir}`.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// How many there are, as a number or a variable: `{n}` counts them.
    #[serde(default)]
    pub count: String,
}

/// One step of the start: exactly one of `start`, `run`, `ready` and `port`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeStep {
    /// Command that goes on running.
    #[serde(default)]
    pub start: Vec<String>,
    /// Command that ends by itself, with 0 where all is well.
    #[serde(default)]
    pub run: Vec<String>,
    /// Command that is tried again until it ends with 0.
    #[serde(default)]
    pub ready: Vec<String>,
    /// TCP port of the loopback that is waited for.
    #[serde(default)]
    pub port: String,
    /// How often the step is made, as a number or a variable: `{n}` counts.
    #[serde(default)]
    pub count: String,
    /// Longest time, in seconds.
    #[serde(default = "step_limit")]
    pub within_s: u64,
}

/// How caches are emptied, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// The least invalidation that empties those of clients and servers.
    pub cold: Invalidation,
    /// The counter that proves it.
    pub proof: String,
}

impl Default for Caches {
    fn default() -> Self {
        Self { cold: Invalidation::Remount, proof: String::new() }
    }
}

/// A command that tells whether something goes on in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quiet {
    /// Command on the server that ends with 0 and prints nothing of `busy` where nothing goes on.
    pub run: Vec<String>,
    /// Text that it prints while something goes on; empty where its exit code tells.
    #[serde(default)]
    pub busy: String,
    /// Longest time to wait for it, in seconds.
    pub within_s: u64,
}

/// The ways by which clients reach a system; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessWays {
    /// By NFS: with dfsbench's own client, or mounted by a kernel.
    #[serde(default)]
    pub nfs: Option<NfsAccess>,
    /// By a mount of the kernel.
    #[serde(default)]
    pub mount: Option<MountAccess>,
    /// By a program that mounts it with FUSE.
    #[serde(default)]
    pub fuse: Option<FuseAccess>,
}

/// Access by NFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsAccess {
    /// Port of NFS.
    pub port: u16,
    /// Port of MOUNT, for v2 and v3; that of NFS where it is left out.
    #[serde(default)]
    pub mount_port: u16,
    /// Path of the export: an absolute one, or `{storage}`.
    pub export: String,
    /// Versions that are served, such as `3` and `4.1`; empty for all.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// Access by a mount of the kernel: what mount(8) is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountAccess {
    /// Type of the file system.
    #[serde(rename = "type")]
    pub kind: String,
    /// The source, such as `{address}:/`.
    pub source: String,
    /// Options of the type.
    #[serde(default)]
    pub options: Vec<String>,
}

/// Access by a program that mounts it on `{point}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuseAccess {
    /// The command; `{point}` is the mount point. It may end once it has mounted, or go on.
    pub run: Vec<String>,
    /// Longest time until it is mounted, in seconds.
    #[serde(default = "step_limit")]
    pub within_s: u64,
    /// Packages that have the program, by the ID of the distribution.
    #[serde(default)]
    pub packages: BTreeMap<String, Vec<String>>,
    /// Files and folders outside of `{dir}` that the program makes on the client.
    #[serde(default)]
    pub leaves: Vec<String>,
}

const fn yes() -> bool {
    true
}

const fn step_limit() -> u64 {
    STEP_LIMIT_S
}

const fn stop_limit() -> u64 {
    STOP_LIMIT_S
}

/// A mistake of a recipe, or of the values of its settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} (hint: {hint})")]
pub struct RecipeError {
    /// The problem, with key and value.
    pub what: String,
    /// The hint: what to write instead.
    pub hint: String,
}

impl RecipeError {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    /// Names the key at fault.
    fn of_key(self, key: &str) -> Self {
        Self { what: format!("{key}: {}", self.what), hint: self.hint }
    }
}

/// The places of a run that a recipe's texts name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Folder of the system's own files on a host: `{dir}`.
    pub dir: String,
    /// Directory that the server keeps files in: `{storage}`.
    pub storage: String,
    /// Address of the server as its clients reach it: `{address}`.
    pub address: String,
    /// Addresses of the clients, with a blank between several: `{clients}`.
    pub clients: String,
    /// Mount point on a client: `{point}`.
    pub point: String,
}

/// A recipe with every variable filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledRecipe {
    /// Folders that are made first.
    pub folders: Vec<String>,
    /// Files: path and text.
    pub files: Vec<FilledFile>,
    /// Steps of the start.
    pub steps: Vec<FilledStep>,
    /// Files and folders that the programs make elsewhere.
    pub leaves: Vec<String>,
    /// Command that prints the version.
    pub version: Vec<String>,
    /// When it is quiet.
    pub quiet: Option<Quiet>,
    /// The mount of a kernel.
    pub mount: Option<MountAccess>,
    /// The program that mounts.
    pub fuse: Option<FuseAccess>,
}

/// A file whose text is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilledFile {
    /// Path of the file.
    pub path: String,
    /// Text of the file.
    pub text: String,
}

/// A step of the start whose words are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilledStep {
    /// Starts a program that goes on running.
    Start(Vec<String>),
    /// Runs a program to its end within so many seconds.
    Run(Vec<String>, u64),
    /// Runs a program again until it ends with 0, for so many seconds.
    Ready(Vec<String>, u64),
    /// Waits for a TCP port of the loopback, for so many seconds.
    Port(u16, u64),
}

/// The values of a recipe's variables at one place.
type Values = BTreeMap<String, String>;

impl Recipe {
    /// Folder of the system's own files on every host.
    pub fn dir(&self) -> String {
        format!("{SYSTEMS_DIR}/{}", self.name)
    }

    /// Folder of its own files on a client: it may be the same host.
    pub fn client_dir(&self) -> String {
        format!("{}{CLIENT_DIR_END}", self.dir())
    }

    /// Fills in every text, with these settings; those that aren't given have their defaults.
    ///
    /// # Errors
    /// Where a setting is none of the recipe's or out of its range, or a variable doesn't exist.
    pub fn fill_in(
        &self,
        given: &[(String, String)],
        places: &Places,
    ) -> Result<FilledRecipe, RecipeError> {
        let values = self.values(given, places)?;
        let server = Template { values: &values };
        let mut filled = FilledRecipe {
            folders: Vec::new(),
            files: Vec::new(),
            steps: Vec::new(),
            leaves: server.texts("leaves", &self.leaves)?,
            version: server.words("version", &self.version)?,
            ..FilledRecipe::default()
        };
        for folder in &self.folders {
            // A folder with `{n}` is one for each copy: as many as its recipe counts.
            filled.folders.extend(self.fill_in_folder(folder, &values)?);
        }
        for file in &self.files {
            for values in copies(&values, "file.count", &file.count)? {
                let template = Template { values: &values };
                let path = template.text("file.path", &file.path)?;
                let text = template.text("file.text", &file.text)?;
                filled.files.push(FilledFile { path, text });
            }
        }
        for step in &self.steps {
            for values in copies(&values, "step.count", &step.count)? {
                filled.steps.push(fill_in_step(step, &Template { values: &values })?);
            }
        }
        if let Some(quiet) = &self.quiet {
            let run = server.words("quiet.run", &quiet.run)?;
            filled.quiet = Some(Quiet { run, ..quiet.clone() });
        }
        self.fill_in_access(values, places, &mut filled)?;
        Ok(filled)
    }

    /// Says how many copies of written data lie on different servers, with these settings.
    ///
    /// # Errors
    /// As [`Recipe::fill_in`].
    pub fn copies(&self, given: &[(String, String)]) -> Result<String, RecipeError> {
        if self.copies.is_empty() {
            return Ok("1".to_owned());
        }
        let values = self.values(given, &Places::default())?;
        Template { values: &values }.text("copies", &self.copies)
    }

    /// Fills in the ways of access, whose texts also name the mount point.
    fn fill_in_access(
        &self,
        mut values: Values,
        places: &Places,
        filled: &mut FilledRecipe,
    ) -> Result<(), RecipeError> {
        values.insert("point".to_owned(), places.point.clone());
        values.insert("dir".to_owned(), self.client_dir());
        let client = Template { values: &values };
        if let Some(mount) = &self.access.mount {
            filled.mount = Some(MountAccess {
                kind: client.text("access.mount.type", &mount.kind)?,
                source: client.text("access.mount.source", &mount.source)?,
                options: client.words("access.mount.options", &mount.options)?,
            });
        }
        if let Some(fuse) = &self.access.fuse {
            filled.fuse = Some(FuseAccess {
                run: client.words("access.fuse.run", &fuse.run)?,
                leaves: client.texts("access.fuse.leaves", &fuse.leaves)?,
                ..fuse.clone()
            });
        }
        Ok(())
    }

    /// Returns a folder, or one for each copy of the largest `count` where it names `{n}`.
    fn fill_in_folder(&self, folder: &str, values: &Values) -> Result<Vec<String>, RecipeError> {
        if !folder.contains("{n}") {
            return Ok(vec![Template { values }.text("folders", folder)?]);
        }
        let mut most = Vec::new();
        let counts = self.files.iter().map(|file| &file.count);
        let counts = counts.chain(self.steps.iter().map(|step| &step.count));
        for count in counts.chain(self.variables.values().map(|variable| &variable.count)) {
            let made = copies(values, "count", count)?;
            if !count.is_empty() && made.len() > most.len() {
                most = made;
            }
        }
        let mut folders = Vec::new();
        for values in most {
            folders.push(Template { values: &values }.text("folders", folder)?);
        }
        Ok(folders)
    }

    /// Computes the values of all variables but `{n}` and `{point}`.
    fn values(&self, given: &[(String, String)], places: &Places) -> Result<Values, RecipeError> {
        let mut values = self.setting_values(given)?;
        let known = [
            ("dir", &places.dir),
            ("storage", &places.storage),
            ("address", &places.address),
            ("clients", &places.clients),
        ];
        for (name, value) in known {
            values.insert(name.to_owned(), value.clone());
        }
        // A text that follows from a setting may be repeated by another variable, and so comes
        // first.
        let mut later = Vec::new();
        for (name, variable) in &self.variables {
            let key = format!("variables.{name}");
            if variable.by.is_empty() {
                later.push((name, variable));
                continue;
            }
            let chosen = values.get(&variable.by).cloned().unwrap_or_default();
            let Some(text) = variable.values.get(&chosen) else {
                let what = format!("{key}: has no value for {} `{chosen}`", variable.by);
                return Err(RecipeError::new(what, "one value for each choice of the setting"));
            };
            let text = Template { values: &values }.text(&key, text)?;
            values.insert(name.clone(), text);
        }
        for (name, variable) in later {
            let key = format!("variables.{name}");
            let mut joined = String::new();
            for copy in copies(&values, &key, &variable.count)? {
                if !joined.is_empty() {
                    joined.push_str(&variable.separator);
                }
                joined.push_str(&Template { values: &copy }.text(&key, &variable.repeat)?);
            }
            values.insert(name.clone(), joined);
        }
        Ok(values)
    }

    /// Describes values of settings as a plan writes them: `layout=replica+bricks=3`.
    pub fn show_settings(given: &[(String, String)]) -> String {
        let mut text = String::new();
        for (name, value) in given {
            let separator = if text.is_empty() { "" } else { "+" };
            // Writing to a String can't fail.
            let _ = write!(text, "{separator}{name}={value}");
        }
        text
    }
}

/// Returns the values of each copy: with `{n}` from 1, or once without it where nothing counts.
fn copies(values: &Values, key: &str, count: &str) -> Result<Vec<Values>, RecipeError> {
    if count.is_empty() {
        return Ok(vec![values.clone()]);
    }
    let text = Template { values }.text(key, count)?;
    let number = match text.parse::<u64>() {
        Ok(number) if (1..=COUNT_MAX).contains(&number) => number,
        _ => {
            let what = format!("{key}: `{text}` is no count");
            return Err(RecipeError::new(what, format!("a number of 1 to {COUNT_MAX}")));
        }
    };
    let mut copies = Vec::new();
    for n in 1..=number {
        let mut copy = values.clone();
        copy.insert("n".to_owned(), n.to_string());
        copies.push(copy);
    }
    Ok(copies)
}

fn fill_in_step(step: &RecipeStep, template: &Template<'_>) -> Result<FilledStep, RecipeError> {
    let within_s = step.within_s;
    if !step.start.is_empty() {
        return Ok(FilledStep::Start(template.words("step.start", &step.start)?));
    }
    if !step.run.is_empty() {
        return Ok(FilledStep::Run(template.words("step.run", &step.run)?, within_s));
    }
    if !step.ready.is_empty() {
        return Ok(FilledStep::Ready(template.words("step.ready", &step.ready)?, within_s));
    }
    let text = template.text("step.port", &step.port)?;
    let Ok(port) = text.parse() else {
        let what = format!("step.port: `{text}` is no port");
        return Err(RecipeError::new(what, "a number of 1 to 65535, such as \"2049\""));
    };
    Ok(FilledStep::Port(port, within_s))
}
