//! Systems that serve in the place of an NFS server, and mounts of what a site has set up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Host, LabSpec};
use crate::system::{AccessWay, CLIENT_ROLE, NfsAccess, Recipe};

/// A system that a plan names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct System {
    /// Its name or the path of its file, as the plan has it.
    pub source: String,
    /// The recipe of it.
    pub recipe: Recipe,
    /// The way that clients shall take; `None` for the usual one of the recipe.
    #[serde(default)]
    pub access: Option<AccessWay>,
    /// Hosts of its roles; a role that is missing is on the server.
    #[serde(default)]
    pub roles: BTreeMap<String, Vec<Host>>,
}

/// A file system that others have set up, and that clients mount.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteMount {
    /// Type of the file system, as mount(8) takes it.
    pub kind: String,
    /// The source, as mount(8) takes it.
    pub source: String,
    /// Options of the mount.
    pub options: Vec<String>,
}

impl System {
    /// The way that clients take who mount it.
    pub fn mounted_by(&self) -> AccessWay {
        self.access.unwrap_or_else(|| self.usual_way())
    }

    /// The way that is taken where a plan names none, and by the server that exports it again.
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

/// Adds those of more hosts that aren't among the first.
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
    /// The hosts that serve, each once, the server first.
    pub fn servers(&self) -> Vec<&Host> {
        let of_roles = self.system.iter().flat_map(|system| system.roles.values().flatten());
        each_once(vec![&self.server], of_roles)
    }

    /// The hosts that mount the system, where its recipe has a part for them.
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

    /// The hosts that have a part of the system, each once: those that serve, then clients.
    pub fn system_hosts(&self) -> Vec<&Host> {
        each_once(self.servers(), self.hosts_of_client_role())
    }

    /// Says whether a host serves.
    pub fn is_server(&self, name: &str) -> bool {
        self.servers().iter().any(|host| host.name == name)
    }

    /// The hosts whose files lie on [`Self::storage`], each once.
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

    /// The way by which a system is reached: by clients, or by the server that exports it again.
    pub fn system_way(&self) -> Option<AccessWay> {
        let system = self.system.as_ref()?;
        Some(match system.mounted_by() {
            AccessWay::ReExport => system.usual_way(),
            _ if self.own_client => AccessWay::Nfs,
            way => way,
        })
    }

    /// Says whether a program of the system mounts it on clients.
    pub fn is_by_fuse(&self) -> bool {
        !self.is_re_exported() && self.system_way() == Some(AccessWay::Fuse)
    }

    /// Says whether the kernel's server exports a mount of the system.
    pub fn is_re_exported(&self) -> bool {
        self.system.as_ref().is_some_and(|system| system.access == Some(AccessWay::ReExport))
    }

    /// The export of a system's own server that is used by NFS: always by our own client, by a
    /// mount where that is the way.
    pub fn system_nfs(&self) -> Option<&NfsAccess> {
        if self.is_re_exported() || self.system_way() != Some(AccessWay::Nfs) {
            return None;
        }
        self.system.as_ref()?.recipe.access.nfs.as_ref()
    }
}
