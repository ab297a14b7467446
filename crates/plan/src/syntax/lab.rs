//! A target whose hosts are set up by us, as it was written.
//!
//! [`LabArg`] names the hosts and what the server's files lie on; what a run wants of them follows
//! from its settings, later.

use std::path::PathBuf;

use model::system::{AccessWay, Recipe};
use model::{Host, SiteMount};

use crate::syntax::error::Located;
use crate::syntax::settings::Settings;

/// A directory of a server that is reached by whichever way a setting says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabArg {
    /// The host that serves.
    pub server: Host,
    /// The host that mounts, the first of several; `None` where the server alone takes part.
    pub client: Option<Host>,
    /// Devices of the server, or files that loop devices are made of.
    pub devices: Option<Located<Vec<PathBuf>>>,
    /// Make the devices as files of so many bytes; 0 takes them as they are.
    pub loop_bytes: u64,
    /// Directories of the server that exist already; several are exported each on its own.
    pub directories: Option<Located<Vec<PathBuf>>>,
    /// Each device has a file system of its own, and all are used at once.
    pub is_spread: bool,
    /// Most bytes of a tmpfs; 0 leaves it to the kernel.
    pub tmpfs_bytes: u64,
    /// The system that serves, in the place of an NFS server.
    pub system: Option<SystemArg>,
    /// A file system that the site has set up, and clients mount.
    pub site_mount: Option<SiteMount>,
    /// How NFS is spoken, as far as the target contains it.
    pub settings: Settings,
}

/// A system that a target names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemArg {
    /// Its name, or the path of its recipe.
    pub source: Located<String>,
    /// The recipe; `None` until the file is read: see [`crate::RawPlan::read_systems`].
    pub recipe: Option<Recipe>,
    /// The way that clients shall take.
    pub access: Option<Located<AccessWay>>,
    /// Roles that have hosts of their own.
    pub roles: Vec<RoleArg>,
}

/// A role of a system, and the hosts that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleArg {
    /// Name of the role.
    pub name: Located<String>,
    /// The hosts, each once.
    pub hosts: Vec<Host>,
}
