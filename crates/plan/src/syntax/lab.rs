//! A target on hosts that we set up, as written.
//!
//! [`LabArg`] names the hosts and the storage of the server's files; the setup for each run follows
//! later from its settings.

use std::path::PathBuf;

use model::system::{AccessWay, Recipe, SecretSource};
use model::{Host, SiteMount};

use crate::syntax::error::Located;
use crate::syntax::settings::Settings;

/// A directory of a server; a setting selects the path over which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabArg {
    /// The host that serves.
    pub server: Host,
    /// The host that mounts, the first one of several; `None` if only the server takes part.
    pub client: Option<Host>,
    /// Devices of the server, or backing files for loop devices.
    pub devices: Option<Located<Vec<PathBuf>>>,
    /// Size in bytes of backing files to create; 0 uses the devices as they are.
    pub loop_bytes: u64,
    /// Existing directories of the server; each is exported separately.
    pub directories: Option<Located<Vec<PathBuf>>>,
    /// Whether each device has a file system of its own and all are used at once.
    pub is_spread: bool,
    /// Maximum size of a tmpfs in bytes; 0 uses the kernel's default.
    pub tmpfs_bytes: u64,
    /// The system that serves the files instead of an NFS server.
    pub system: Option<SystemArg>,
    /// A file system set up by the site, which clients mount.
    pub site_mount: Option<SiteMount>,
    /// NFS settings that are part of the target.
    pub settings: Settings,
}

/// A system named by a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemArg {
    /// Its name, or the path of its recipe.
    pub source: Located<String>,
    /// The recipe; `None` until the file is read: see [`crate::RawPlan::read_systems`].
    pub recipe: Option<Recipe>,
    /// The access way that clients must use.
    pub access: Option<Located<AccessWay>>,
    /// Roles with hosts of their own.
    pub roles: Vec<RoleArg>,
    /// Secrets with other sources than the recipe's.
    pub secrets: Vec<(Located<String>, SecretSource)>,
}

/// A role of a system and its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleArg {
    /// Name of the role.
    pub name: Located<String>,
    /// The hosts, without duplicates.
    pub hosts: Vec<Host>,
}
