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

mod access;
mod fill;
mod restart;
mod roles;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod validate;

pub use access::{AccessWay, AccessWays, FuseAccess, MountAccess, NfsAccess};
pub use fill::{FilledFile, FilledHost, FilledRecipe, FilledStep, PlacedStep};
pub use restart::Restart;
pub use roles::{CLIENT_ROLE, Places, Role};
pub use settings::{RecipeSetting, SettingKind, Variable};
pub use validate::may_leave;

/// Most copies that `count` makes of something: `{n}` is one digit.
pub const COUNT_MAX: u64 = 9;

/// Folder that has a folder of each system that was set up on a host.
pub const SYSTEMS_DIR: &str = "/run/dfsbench/systems";

/// End of the name of a system's folder on a client.
pub const CLIENT_DIR_END: &str = "-client";

/// Counters that servers may have: bytes that clients read and wrote, and files that they created.
pub const COUNTER_NAMES: [&str; 3] = ["read_bytes", "written_bytes", "creates"];

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
    /// Servers that may have hosts of their own, by the names of their roles.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
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
    /// How its servers start again on the files that they have kept.
    #[serde(default)]
    pub restart: Restart,
    /// Whether removed files keep their space for longer than a trial lasts, as in a trash.
    #[serde(default)]
    pub keeps_removed: bool,
    /// Whether its servers are threads of the kernel, so that no process of it can be killed.
    #[serde(default)]
    pub serves_in_kernel: bool,
    /// Whether files of the server lie below `{storage}`, a file system that the plan makes or
    /// names.
    #[serde(default = "yes")]
    pub storage: bool,
    /// TCP ports that must be free on the server.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Folders that are made first on every host, below `{dir}` or, where its files lie there,
    /// `{storage}`.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Files that are written then on every host, below `{dir}`.
    #[serde(default, rename = "file")]
    pub files: Vec<RecipeFile>,
    /// Steps of the start, in this order.
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
    /// How much clients have read and written, as its servers count it.
    #[serde(default)]
    pub counters: Option<Counters>,
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
    /// Whether `run` is repeated where the system's servers are started again after a crash, or a
    /// loss of power.
    #[serde(default)]
    pub again: bool,
    /// Command that is tried again until it ends with 0.
    #[serde(default)]
    pub ready: Vec<String>,
    /// TCP port of the loopback that is waited for.
    #[serde(default)]
    pub port: String,
    /// The role whose hosts it is made on, or `all` that serve; empty for the server.
    #[serde(default)]
    pub on: String,
    /// The way of clients for which alone it is made, such as the start of a gateway.
    #[serde(default)]
    pub access: Option<AccessWay>,
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

/// A command that prints what servers have counted since they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The role whose hosts it is run on, or `all` that serve; empty for the server. Their counts
    /// are added.
    #[serde(default)]
    pub on: String,
    /// Command that prints lines of a name of [`COUNTER_NAMES`], a blank and a number.
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

impl Recipe {
    /// Folder of the system's own files on every host.
    pub fn dir(&self) -> String {
        format!("{SYSTEMS_DIR}/{}", self.name)
    }

    /// Folder of its own files on a client: it may be the same host.
    pub fn client_dir(&self) -> String {
        format!("{}{CLIENT_DIR_END}", self.dir())
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
