//! Systems that replace an NFS server, and mounts of systems set up by a site.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Host, LabSpec};
use crate::systems::system::{AccessWay, CLIENT_ROLE, NfsAccess, Recipe, SecretSource};

/// A system named in a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct System {
    /// Name, or path of its file, as in the plan.
    pub source: String,
    /// The system's recipe.
    pub recipe: Recipe,
    /// How clients access it; `None` for the recipe's default.
    #[serde(default)]
    pub access: Option<AccessWay>,
    /// Hosts for its roles. Roles without hosts run on the server.
    #[serde(default)]
    pub roles: BTreeMap<String, Vec<Host>>,
    /// Sources of secrets that differ from the recipe's; the recipe here has them already.
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretSource>,
    /// Addresses that may mount it besides the clients of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admits: Vec<String>,
}

/// A file system that others have set up and clients mount.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteMount {
    /// Type for mount(8).
    pub kind: String,
    /// Source for mount(8).
    pub source: String,
    /// Mount options.
    pub options: Vec<String>,
}

impl System {
    /// Returns how clients mount it.
    pub fn mounted_by(&self) -> AccessWay {
        self.access.unwrap_or_else(|| self.usual_way())
    }

    /// Returns the default access, which is also used by a server that re-exports the system.
    pub fn usual_way(&self) -> AccessWay {
        let ways = &self.recipe.access;
        if ways.fuse.is_some() {
            AccessWay::Fuse
        } else if ways.mount.is_some() {
            AccessWay::Mount
        } else {
            AccessWay::Nfs
        }
    }
}

/// Appends the hosts from `more` that are not in the list yet.
pub(super) fn each_once<'h>(
    mut hosts: Vec<&'h Host>,
    more: impl IntoIterator<Item = &'h Host>,
) -> Vec<&'h Host> {
    for host in more {
        if !hosts.iter().any(|known| known.name == host.name) {
            hosts.push(host);
        }
    }
    hosts
}

impl LabSpec {
    /// Returns the distinct hosts that serve, the main server first.
    pub fn servers(&self) -> Vec<&Host> {
        let of_roles = self.system.iter().flat_map(|system| system.roles.values().flatten());
        each_once(vec![&self.server], of_roles)
    }

    /// Returns the hosts that mount the system, if its recipe has a role for clients.
    pub fn hosts_of_client_role(&self) -> Vec<&Host> {
        let Some(system) = &self.system else { return Vec::new() };
        if !system.recipe.roles.contains_key(CLIENT_ROLE) {
            return Vec::new();
        }
        if self.is_re_exported() {
            return vec![&self.server];
        }
        if self.own_client { Vec::new() } else { self.clients().collect() }
    }

    /// Returns the distinct hosts with a role in the system: servers first, then clients.
    pub fn system_hosts(&self) -> Vec<&Host> {
        each_once(self.servers(), self.hosts_of_client_role())
    }

    /// Returns true if the host serves.
    pub fn is_server(&self, name: &str) -> bool {
        self.servers().iter().any(|host| host.name == name)
    }

    /// Returns the distinct hosts whose files are on [`Self::storage`].
    pub fn storage_hosts(&self) -> Vec<&Host> {
        let Some(system) = &self.system else {
            return if self.has_storage() { vec![&self.server] } else { Vec::new() };
        };
        let recipe = &system.recipe;
        let mut keeps_files = BTreeMap::from([(self.server.name.as_str(), recipe.storage)]);
        for (name, role) in &recipe.roles {
            let server = std::slice::from_ref(&self.server);
            for host in system.roles.get(name).map_or(server, Vec::as_slice) {
                *keeps_files.entry(host.name.as_str()).or_default() |= role.storage;
            }
        }
        let mut hosts = self.servers();
        hosts.retain(|host| keeps_files.get(host.name.as_str()) == Some(&true));
        hosts
    }

    /// Returns how the system is accessed by clients, or by the server that re-exports it.
    pub fn system_way(&self) -> Option<AccessWay> {
        let system = self.system.as_ref()?;
        Some(match system.mounted_by() {
            AccessWay::ReExport => system.usual_way(),
            _ if self.own_client => AccessWay::Nfs,
            way => way,
        })
    }

    /// Returns true if clients mount the system with a program of its own.
    pub fn is_by_fuse(&self) -> bool {
        !self.is_re_exported() && self.system_way() == Some(AccessWay::Fuse)
    }

    /// Returns true if the kernel's server re-exports a mount of the system.
    pub fn is_re_exported(&self) -> bool {
        self.system.as_ref().is_some_and(|system| system.access == Some(AccessWay::ReExport))
    }

    /// Returns the export of a system's own NFS server, if it is used. Our own client always uses
    /// it; mounts use it if the access is through NFS.
    pub fn system_nfs(&self) -> Option<&NfsAccess> {
        if self.is_re_exported() || self.system_way() != Some(AccessWay::Nfs) {
            return None;
        }
        self.system.as_ref()?.recipe.access.nfs.as_ref()
    }
}
