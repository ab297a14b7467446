//! Recipes with all variables filled in.
//!
//! [`Recipe::fill_in`] creates a [`FilledRecipe`] from the values of settings and the [`Places`] of
//! a run. Anything with a `count`, or `on` several hosts, is repeated, with `{n}` counting from 1.

use serde::{Deserialize, Serialize};

use super::roles::{Places, SERVER};
use super::template::{Template, Values};
use super::{
    AccessWay, Counters, FilledDrain, FilledEvict, FuseAccess, MountAccess, ObjectCheck,
    PlacedCommands, Quiet, Recipe, RecipeError, RecipeStep,
};

/// A recipe with all variables filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledRecipe {
    /// What to prepare on each host, in the order of [`Places::hosts`].
    pub hosts: Vec<FilledHost>,
    /// Start-up steps.
    pub steps: Vec<PlacedStep>,
    /// Files and directories that the programs create elsewhere.
    pub leaves: Vec<String>,
    /// Command that prints the version.
    pub version: Vec<String>,
    /// How to tell that the system is idle.
    pub quiet: Option<Quiet>,
    /// Commands that print counters.
    pub counters: PlacedCommands,
    /// How to wait until written data has reached its final place.
    pub drain: Option<FilledDrain>,
    /// How to empty the system's own caches.
    pub evict: Option<FilledEvict>,
    /// How to tell that a file is in the object store; `{file}` is its path.
    pub object: Option<ObjectCheck>,
    /// The kernel mount.
    pub mount: Option<MountAccess>,
    /// The program that mounts the system.
    pub fuse: Option<FuseAccess>,
    /// Environment variables of commands on clients.
    pub client_environment: Vec<(String, String)>,
}

/// What to prepare on a host before anything is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledHost {
    /// Files are below `{storage}`.
    pub has_storage: bool,
    /// Programs that must be installed.
    pub programs: Vec<String>,
    /// TCP ports that must be free.
    pub ports: Vec<u16>,
    /// Directories to create first.
    pub folders: Vec<String>,
    /// Files to write.
    pub files: Vec<FilledFile>,
    /// Environment variables of commands.
    pub environment: Vec<(String, String)>,
}

/// A step and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedStep {
    /// Index of the host.
    pub host: usize,
    pub step: FilledStep,
}

/// A file with its final text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilledFile {
    pub path: String,
    pub text: String,
}

/// A start-up step with its final command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilledStep {
    /// Starts a program that keeps running.
    Start(Vec<String>),
    /// Runs a program to completion.
    Run {
        /// The command.
        words: Vec<String>,
        /// Time limit in seconds.
        within_s: u64,
        /// Also run it when the servers are restarted on existing data; otherwise it creates the
        /// system.
        again: bool,
    },
    /// Retries a program until it exits with 0, up to the given number of seconds.
    Ready(Vec<String>, u64),
    /// Waits for a TCP port on loopback, up to the given number of seconds.
    Port(u16, u64),
}

impl Recipe {
    /// Fills in all text using the given settings; others have their defaults.
    ///
    /// # Errors
    /// If a setting is unknown or out of range, or a variable doesn't exist.
    ///
    /// # Panics
    /// If there are no hosts.
    pub fn fill_in(
        &self,
        given: &[(String, String)],
        places: &Places,
    ) -> Result<FilledRecipe, RecipeError> {
        let mut errors = Vec::new();
        let filled = self.try_fill_in(given, places, &mut errors);
        errors.into_iter().next().map_or(Ok(filled), Err)
    }

    /// Fills in all text that can be filled in, and adds an error for each key that can't.
    pub(super) fn try_fill_in(
        &self,
        given: &[(String, String)],
        places: &Places,
        errors: &mut Vec<RecipeError>,
    ) -> FilledRecipe {
        let mut filled = FilledRecipe::default();
        let values = match self.values(given, places) {
            Ok(values) => values,
            Err(error) => {
                errors.push(error);
                return filled;
            }
        };
        let server = Template { values: &values };
        filled.leaves = part(server.texts("leaves", &self.leaves), errors);
        filled.version = part(server.words("version", &self.version), errors);
        for host in 0..places.hosts.len() {
            filled.hosts.push(self.fill_in_host(host, &values, places, errors));
        }
        for (index, step) in self.steps.iter().enumerate() {
            if step.access.is_some() && step.access != places.way {
                continue;
            }
            let key = format!("step {}", index + 1);
            let placed = fill_in_copies(step, &values, places);
            filled.steps.extend(part(placed.map_err(|error| error.of_key(&key)), errors));
        }
        if let Some(counters) = &self.counters {
            let Counters { on, run } = counters;
            filled.counters =
                Self::place_command("counters.run", (on, run), &values, places, errors);
        }
        filled.drain = self.fill_in_drain(&values, places, errors);
        filled.evict = self.fill_in_evict(&values, places, errors);
        filled.object = self.fill_in_object(&values, errors);
        if let Some(quiet) = &self.quiet {
            let run = part(server.words("quiet.run", &quiet.run), errors);
            filled.quiet = Some(Quiet { run, ..quiet.clone() });
        }
        self.fill_in_access(values, places, &mut filled, errors);
        filled
    }

    /// Returns how many copies of written data exist on different servers with these settings.
    pub fn copies(&self, given: &[(String, String)]) -> Result<String, RecipeError> {
        if self.copies.is_empty() {
            return Ok("1".to_owned());
        }
        let places = Places { hosts: vec![String::new()], servers: 1, ..Places::default() };
        let values = self.values(given, &places)?;
        Template { values: &values }.text("copies", &self.copies)
    }

    /// Fills in the ways of access, whose text may also contain the mount point.
    fn fill_in_access(
        &self,
        mut values: Values,
        places: &Places,
        filled: &mut FilledRecipe,
        errors: &mut Vec<RecipeError>,
    ) {
        values.insert("point".to_owned(), places.point.clone());
        values.insert("dir".to_owned(), self.client_dir());
        let client = Template { values: &values };
        if let Some(mount) = &self.access.mount {
            filled.mount = Some(MountAccess {
                kind: part(client.text("access.mount.type", &mount.kind), errors),
                source: part(client.text("access.mount.source", &mount.source), errors),
                options: part(client.words("access.mount.options", &mount.options), errors),
            });
        }
        filled.client_environment = self.fill_in_environment(&client, errors);
        if let Some(fuse) = &self.access.fuse {
            filled.fuse = Some(FuseAccess {
                run: part(client.words("access.fuse.run", &fuse.run), errors),
                leaves: part(client.texts("access.fuse.leaves", &fuse.leaves), errors),
                ..fuse.clone()
            });
        }
    }

    /// Fills in what to prepare on a host before anything is started.
    fn fill_in_host(
        &self,
        number: usize,
        values: &Values,
        places: &Places,
        errors: &mut Vec<RecipeError>,
    ) -> FilledHost {
        let values = places.values_on(number, values);
        let roles = self.roles_on(number, places);
        let mut host = FilledHost::default();
        if number == SERVER {
            host.has_storage = self.storage;
            host.programs.clone_from(&self.programs);
            host.ports.clone_from(&self.ports);
            if let Some(nfs) = &self.access.nfs
                && places.way == Some(AccessWay::Nfs)
            {
                host.programs.extend(nfs.programs.iter().cloned());
                host.ports.push(nfs.port);
            }
        }
        for role in roles {
            host.has_storage |= role.storage;
            for program in &role.programs {
                if !host.programs.contains(program) {
                    host.programs.push(program.clone());
                }
            }
            host.ports.extend(&role.ports);
        }
        host.ports.sort_unstable();
        host.ports.dedup();
        host.environment = self.fill_in_environment(&Template { values: &values }, errors);
        let state = values["state"].clone();
        for folder in &self.folders {
            // A directory with `{n}` is repeated for each copy.
            for folder in part(self.fill_in_folder(folder, &values, places), errors) {
                if !host.has_storage && folder.starts_with(&places.storage) {
                    continue;
                }
                // The parent directory is created and removed along with it.
                if folder.starts_with(&state) && !host.folders.contains(&state) {
                    host.folders.push(state.clone());
                }
                host.folders.push(folder);
            }
        }
        for (index, file) in self.files.iter().enumerate() {
            let key = |name: &str| format!("file {}.{name}", index + 1);
            for copy in part(places.copies(&values, &key("count"), "", &file.count), errors) {
                let values = places.values_on(number, &copy.values);
                let template = Template { values: &values };
                let path = template.text(&key("path"), &file.path);
                let text = template.text_with_secrets(&key("text"), &file.text);
                let text = part(text, errors);
                match path {
                    Ok(path) => host.files.push(FilledFile { path, text }),
                    Err(error) => errors.push(error),
                }
            }
        }
        host
    }

    fn fill_in_environment(
        &self,
        template: &Template<'_>,
        errors: &mut Vec<RecipeError>,
    ) -> Vec<(String, String)> {
        let mut environment = Vec::new();
        for (name, text) in &self.environment {
            let value = template.text_with_secrets(&format!("environment.{name}"), text);
            environment.push((name.clone(), part(value, errors)));
        }
        environment
    }

    /// Returns a directory, or one for each copy of the largest `count` if it contains `{n}`.
    fn fill_in_folder(
        &self,
        folder: &str,
        values: &Values,
        places: &Places,
    ) -> Result<Vec<String>, RecipeError> {
        if !folder.contains("{n}") {
            return Ok(vec![Template { values }.text("folders", folder)?]);
        }
        let mut most = Vec::new();
        let counts = self.files.iter().map(|file| &file.count);
        let counts = counts.chain(self.steps.iter().map(|step| &step.count));
        for count in counts.chain(self.variables.values().map(|variable| &variable.count)) {
            let made = places.copies(values, "count", "", count)?;
            if !count.is_empty() && made.len() > most.len() {
                most = made;
            }
        }
        most.into_iter()
            .map(|copy| Template { values: &copy.values }.text("folders", folder))
            .collect()
    }

    /// Computes all variables except `{n}` and `{point}`.
    fn values(&self, given: &[(String, String)], places: &Places) -> Result<Values, RecipeError> {
        let mut values = self.setting_values(given)?;
        for (name, source) in &self.secrets {
            values.insert(name.clone(), source.marker());
        }
        let server = &places.hosts[SERVER];
        let roles = self.roles_on(SERVER, places);
        let has_storage = self.storage || roles.iter().any(|role| role.storage);
        let state = format!("{}/state", if has_storage { &places.storage } else { &places.dir });
        let known = [
            ("dir", &places.dir),
            ("storage", &places.storage),
            ("state", &state),
            ("address", server),
            ("host", server),
            ("clients", &places.clients),
        ];
        values.extend(known.into_iter().map(|(name, value)| (name.to_owned(), value.clone())));
        // A text that depends on a setting may be used by another variable, so compute it first.
        let mut later = Vec::new();
        for (name, variable) in &self.variables {
            let key = format!("variables.{name}");
            if variable.by.is_empty() {
                later.push((name, variable));
                continue;
            }
            let chosen = values.get(&variable.by).cloned().unwrap_or_default();
            let Some(text) = variable.values.get(&chosen) else {
                let what = format!("has no value for {} `{chosen}`", variable.by);
                return Err(RecipeError::new(
                    key,
                    what,
                    "one value for each choice of the setting",
                ));
            };
            let text = Template { values: &values }.text(&key, text)?;
            values.insert(name.clone(), text);
        }
        for (name, variable) in later {
            let key = format!("variables.{name}");
            let mut joined = String::new();
            for copy in places.copies(&values, &key, &variable.on, &variable.count)? {
                if !joined.is_empty() {
                    joined.push_str(&variable.separator);
                }
                joined.push_str(&Template { values: &copy.values }.text(&key, &variable.repeat)?);
            }
            values.insert(name.clone(), joined);
        }
        Ok(values)
    }
}

/// Returns what could be filled in, or else nothing and records the error.
fn part<T: Default>(filled: Result<T, RecipeError>, errors: &mut Vec<RecipeError>) -> T {
    match filled {
        Ok(filled) => filled,
        Err(error) => {
            errors.push(error);
            T::default()
        }
    }
}

/// Fills in a step once for each of its copies.
fn fill_in_copies(
    step: &RecipeStep,
    values: &Values,
    places: &Places,
) -> Result<Vec<PlacedStep>, RecipeError> {
    let mut placed = Vec::new();
    for copy in places.copies(values, "count", &step.on, &step.count)? {
        let step = fill_in_step(step, &Template { values: &copy.values })?;
        placed.push(PlacedStep { host: copy.host, step });
    }
    Ok(placed)
}

fn fill_in_step(step: &RecipeStep, template: &Template<'_>) -> Result<FilledStep, RecipeError> {
    let within_s = step.within_s;
    if !step.start.is_empty() {
        return Ok(FilledStep::Start(template.words("start", &step.start)?));
    }
    if !step.run.is_empty() {
        let words = template.words("run", &step.run)?;
        return Ok(FilledStep::Run { words, within_s, again: step.again });
    }
    if !step.ready.is_empty() {
        return Ok(FilledStep::Ready(template.words("ready", &step.ready)?, within_s));
    }
    let text = template.text("port", &step.port)?;
    let Some(port) = text.parse().ok().filter(|port| *port != 0) else {
        let what = format!("`{text}` is not a port");
        return Err(RecipeError::new("port", what, "a number of 1 to 65535, such as \"2049\""));
    };
    Ok(FilledStep::Port(port, within_s))
}
