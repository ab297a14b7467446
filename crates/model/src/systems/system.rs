//! Recipes of systems: how to start, mount, flush and stop a distributed file system.
//!
//! A [`Recipe`] holds the contents of one file in `systems/`. [`Recipe::fill_in`] combines it with
//! the values of its settings and the [`Places`] of a run, which results in commands and text
//! without variables. Nothing here acts on a host.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::words::words;

mod access;
mod fill;
mod roles;
mod secrets;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod validate;
mod write_back;

pub use access::{AccessWay, AccessWays, FuseAccess, MountAccess, NfsAccess};
pub use fill::{FilledFile, FilledHost, FilledRecipe, FilledStep, PlacedStep};
pub use roles::{CLIENT_ROLE, Places, Role};
pub use secrets::{SECRET_MAX, SECRET_MIN, SecretSource, Secrets, has_secret};
pub use settings::{RecipeSetting, SettingKind, Variable};
pub use validate::{check_recipe_name, may_leave};
pub use write_back::{Drain, Evict, FilledDrain, FilledEvict, ObjectCheck, PlacedCommands};

/// Maximum number of copies created by `count`, so that `{n}` is one digit.
pub const COUNT_MAX: u64 = 9;

/// Directory with a subdirectory for each system set up on a host.
pub const SYSTEMS_DIR: &str = "/run/dfsbench/systems";

/// Suffix of a system's directory on a client.
pub const CLIENT_DIR_END: &str = "-client";

/// Counters that servers may have: bytes that clients read and wrote, and files they created.
pub const COUNTER_NAMES: [&str; 3] = ["read_bytes", "written_bytes", "creates"];

/// Default time limit for a step, in seconds.
const STEP_LIMIT_S: u64 = 60;
/// Default time limit for programs to stop on their own, in seconds.
const STOP_LIMIT_S: u64 = 10;

/// A system that dfsbench can set up, as described by its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the system in plans and tables.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// Hosts and version with which the recipe was tested; empty if it was not.
    #[serde(default)]
    pub tried: String,
    /// Why its authors have never tried the recipe; empty if they have.
    #[serde(default)]
    pub not_tried: String,
    /// What the system's documentation promises about the durability of written data.
    pub durability: String,
    /// Number of copies of written data on different servers; empty for 1.
    #[serde(default)]
    pub copies: String,
    /// Servers that may have hosts of their own, by role name.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
    /// Programs that must be installed on the server host.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Folders in which programs are found besides PATH, absolute or below `~`.
    #[serde(default)]
    pub path: Vec<String>,
    /// Packages that provide the programs, by distribution ID in os-release(5).
    #[serde(default)]
    pub packages: BTreeMap<String, Vec<String>>,
    /// Settings by name; each may be a factor of a plan.
    #[serde(default)]
    pub settings: BTreeMap<String, RecipeSetting>,
    /// Text that depends on settings or is used repeatedly.
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    /// Values that are never shown or stored, by name; used in files and the environment.
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretSource>,
    /// Environment variables of its commands.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How its servers restart on existing files.
    #[serde(default)]
    pub restart: Restart,
    /// Removed files keep their space for longer than a trial, as in a trash folder.
    #[serde(default)]
    pub keeps_removed: bool,
    /// Its servers are kernel threads, so there is no process to kill.
    #[serde(default)]
    pub serves_in_kernel: bool,
    /// Server files are below `{storage}`, a file system created or named by the plan.
    #[serde(default = "yes")]
    pub storage: bool,
    /// TCP ports that must be free on the server.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Directories to create first on every host, below `{dir}`, or below `{storage}` if the files
    /// are there.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Files to write next on every host, below `{dir}`.
    #[serde(default, rename = "file")]
    pub files: Vec<RecipeFile>,
    /// Start-up steps in order.
    #[serde(rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// Time limit for the programs to stop after SIGTERM, in seconds. After that, they are killed.
    #[serde(default = "stop_limit")]
    pub stop_within_s: u64,
    /// Files and directories outside of `{dir}` that the programs create. They are removed unless
    /// they existed before.
    #[serde(default)]
    pub leaves: Vec<String>,
    /// Command that prints the version.
    #[serde(default)]
    pub version: Vec<String>,
    /// How caches are dropped.
    pub caches: Caches,
    /// How to tell that background activity has ended.
    #[serde(default)]
    pub quiet: Option<Quiet>,
    /// How to wait until written data has reached its final place.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// How to empty the system's own caches.
    #[serde(default)]
    pub evict: Option<Evict>,
    /// How to tell that a file is in the object store.
    #[serde(default)]
    pub object: Option<ObjectCheck>,
    /// How much clients have read and written according to the servers.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// How clients access the system.
    pub access: AccessWays,
}

/// A configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeFile {
    /// Path of the file, below `{dir}`.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// Number of copies, as a number or a variable; `{n}` is the index.
    #[serde(default)]
    pub count: String,
}

/// A start-up step, with exactly one of `start`, `run`, `ready` and `port`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeStep {
    /// Command that keeps running.
    #[serde(default)]
    pub start: Vec<String>,
    /// Command that terminates, with 0 on success.
    #[serde(default)]
    pub run: Vec<String>,
    /// Repeat `run` when the servers are restarted after a crash or a power loss.
    #[serde(default)]
    pub again: bool,
    /// Command that is retried until it exits with 0.
    #[serde(default)]
    pub ready: Vec<String>,
    /// TCP port on loopback to wait for.
    #[serde(default)]
    pub port: String,
    /// Role on whose hosts the step runs, or `all` servers; empty for the main server.
    #[serde(default)]
    pub on: String,
    /// Only run the step for this kind of access, for example to start a gateway.
    #[serde(default)]
    pub access: Option<AccessWay>,
    /// How often to run the step, as a number or a variable; `{n}` is the index.
    #[serde(default)]
    pub count: String,
    /// Time limit in seconds.
    #[serde(default = "step_limit")]
    pub within_s: u64,
}

/// How servers restart on existing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Not possible after a power loss or an invalidation, because what they need is gone and their
    /// steps create a new system.
    #[default]
    Never,
    /// By running all steps.
    AllSteps,
    /// After a power loss, by the steps that don't create the system, because all they need is
    /// below `{storage}` and `{state}`. Invalidations don't stop them.
    OnState,
}

words! {
    /// What to do before a pass reads, so that data comes from the intended source. Each level
    /// includes the previous ones.
    Invalidation {
        None = "none",
        /// Drop the files from the page cache of the host that reads.
        Files = "files",
        /// Drop the whole page cache of that host and of the server.
        Caches = "caches",
        /// Remount on the client.
        Remount = "remount",
        /// Also remount the file system on the server.
        ServerRemount = "server-remount",
        /// Also restart the server.
        ServerRestart = "server-restart",
    }
}

/// How caches are dropped, and what proves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// The minimum invalidation that drops the caches of clients and servers.
    pub cold: Invalidation,
    /// The counter that proves it.
    pub proof: String,
}

impl Default for Caches {
    fn default() -> Self {
        Self { cold: Invalidation::Remount, proof: String::new() }
    }
}

/// A command that reports whether there is background activity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quiet {
    /// Command on the server. The system is idle if it exits with 0 and doesn't print `busy`.
    pub run: Vec<String>,
    /// Text that the command prints while the system is busy; empty if the exit code shows it.
    #[serde(default)]
    pub busy: String,
    /// Time limit for waiting, in seconds.
    pub within_s: u64,
}

/// A command that prints the servers' counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Role on whose hosts the command runs, or `all` servers; empty for the main server. Their
    /// counts are added.
    #[serde(default)]
    pub on: String,
    /// Command that prints lines with a name from [`COUNTER_NAMES`], a blank and a number.
    pub run: Vec<String>,
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

/// An error in a recipe or in the values of its settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{what} (hint: {hint})", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct RecipeError {
    /// Key with the problem, such as `settings.parts.default` or `step 2.start`; empty if it isn't
    /// in the text of the recipe.
    pub key: String,
    /// The problem, with the value.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl RecipeError {
    pub(super) fn new(
        key: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), what: what.into(), hint: hint.into() }
    }

    /// Prefixes the key with that of the table that contains it.
    fn of_key(mut self, key: &str) -> Self {
        self.key = if self.key.is_empty() { key.to_owned() } else { format!("{key}.{}", self.key) };
        self
    }
}

impl Recipe {
    /// Returns the directory for the system's own files on every host.
    pub fn dir(&self) -> String {
        format!("{SYSTEMS_DIR}/{}", self.name)
    }

    /// Returns the directory for its own files on a client, which may be the same host.
    pub fn client_dir(&self) -> String {
        format!("{}{CLIENT_DIR_END}", self.dir())
    }

    /// Formats settings as in a plan: `layout=replica+bricks=3`.
    pub fn show_settings(given: &[(String, String)]) -> String {
        let mut text = String::new();
        for (name, value) in given {
            let separator = if text.is_empty() { "" } else { "+" };
            // Writing to a String never fails.
            let _ = write!(text, "{separator}{name}={value}");
        }
        text
    }
}
