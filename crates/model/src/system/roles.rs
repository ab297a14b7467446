//! Roles of a recipe: servers of a system that may have hosts of their own.
//!
//! A plan gives hosts to roles; a role without any is on the target's `server`, and so is whatever
//! names no role. The role [`CLIENT_ROLE`] is on the hosts that mount the system, which a plan
//! names anyway. [`Places`] has the hosts of one run by their numbers: 0 is the `server`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::template::{Template, Values};
use super::{AccessWay, COUNT_MAX, Recipe, RecipeError};

/// Stands in `on` for every host of the system.
pub(super) const EVERY_HOST: &str = "all";

/// Name of the role whose hosts are those that mount the system.
pub const CLIENT_ROLE: &str = "client";

/// Number of the target's `server` among the hosts of a run.
pub(super) const SERVER: usize = 0;

/// Servers of a system that may have hosts of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its part in the system, for people.
    pub meaning: String,
    /// Most hosts that it can have.
    #[serde(default = "hosts_max")]
    pub hosts_max: u64,
    /// Whether its files lie below `{storage}`.
    #[serde(default)]
    pub storage: bool,
    /// Programs that its hosts need.
    #[serde(default)]
    pub programs: Vec<String>,
    /// TCP ports that must be free on them.
    #[serde(default)]
    pub ports: Vec<u16>,
}

const fn hosts_max() -> u64 {
    COUNT_MAX
}

/// The places of a run that a recipe's texts name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Folder of the system's own files on a host: `{dir}`.
    pub dir: String,
    /// Directory that servers keep files in: `{storage}`.
    pub storage: String,
    /// Addresses of the hosts that have a part of the system: first that of the `server`, which is
    /// `{address}`, then others that serve, then clients.
    pub hosts: Vec<String>,
    /// How many of them serve.
    pub servers: usize,
    /// Hosts of each role, by their numbers; a role that is missing is on the `server`, but that of
    /// clients, which is on no host then.
    pub roles: BTreeMap<String, Vec<usize>>,
    /// The way that clients take.
    pub way: Option<AccessWay>,
    /// Addresses of the clients, with a blank between several: `{clients}`.
    pub clients: String,
    /// Mount point on a client: `{point}`.
    pub point: String,
}

/// One of several copies of a step or a text: the host that it is on, and its variables.
pub(super) struct Copy {
    pub host: usize,
    pub values: Values,
}

impl Places {
    /// Returns the hosts of what a recipe says it is `on`.
    pub(super) fn hosts_of(&self, on: &str) -> Vec<usize> {
        match self.roles.get(on) {
            _ if on == EVERY_HOST => (0..self.servers).collect(),
            Some(hosts) if !hosts.is_empty() => hosts.clone(),
            _ if on == CLIENT_ROLE => Vec::new(),
            _ => vec![SERVER],
        }
    }

    /// Returns the variables of what is on a host.
    pub(super) fn values_on(&self, host: usize, values: &Values) -> Values {
        let mut values = values.clone();
        values.insert("host".to_owned(), self.hosts[host].clone());
        values
    }

    /// Returns each copy of what stands in a recipe once. With a `count` there are so many, on the
    /// hosts in turn; without, but with `on`, one on each host. Both have their `{n}`, from 1.
    pub(super) fn copies(
        &self,
        values: &Values,
        key: &str,
        on: &str,
        count: &str,
    ) -> Result<Vec<Copy>, RecipeError> {
        let hosts = self.hosts_of(on);
        if count.is_empty() && on.is_empty() {
            return Ok(vec![Copy { host: SERVER, values: self.values_on(SERVER, values) }]);
        }
        let number = match count {
            _ if hosts.is_empty() => 0,
            "" => hosts.len(),
            count => parse_count(values, key, count)?,
        };
        let mut copies = Vec::with_capacity(number);
        for index in 0..number {
            let host = hosts[index % hosts.len()];
            let mut values = self.values_on(host, values);
            values.insert("n".to_owned(), (index + 1).to_string());
            copies.push(Copy { host, values });
        }
        Ok(copies)
    }
}

fn parse_count(values: &Values, key: &str, count: &str) -> Result<usize, RecipeError> {
    let text = Template { values }.text(key, count)?;
    match text.parse::<u64>() {
        Ok(number) if (1..=COUNT_MAX).contains(&number) => Ok(number as usize),
        _ => {
            let what = format!("{key}: `{text}` is no count");
            Err(RecipeError::new(what, format!("a number of 1 to {COUNT_MAX}")))
        }
    }
}

impl Recipe {
    /// Says whether files lie below `{storage}` on any host.
    pub fn has_storage(&self) -> bool {
        self.storage || self.roles.values().any(|role| role.storage)
    }

    /// Says whether the hosts that mount it keep the files themselves, on a disk that they share.
    pub fn is_kept_by_clients(&self) -> bool {
        self.serves_in_kernel && self.roles.contains_key(CLIENT_ROLE) && !self.has_storage()
    }

    /// Returns the roles that are on a host.
    pub(super) fn roles_on(&self, host: usize, places: &Places) -> Vec<&Role> {
        let mut roles = Vec::new();
        for (name, role) in &self.roles {
            if places.hosts_of(name).contains(&host) {
                roles.push(role);
            }
        }
        roles
    }

    /// Checks the hosts that a plan gives to a role.
    ///
    /// # Errors
    /// Where the recipe has no such role, or it can't have as many.
    pub fn check_role(&self, name: &str, hosts: usize) -> Result<(), RecipeError> {
        if name == CLIENT_ROLE {
            let what = format!("{}: the hosts of `{name}` are those that mount it", self.name);
            return Err(RecipeError::new(what, "name them by `client` or `clients` of the target"));
        }
        let Some(role) = self.roles.get(name) else {
            let names = self.roles.keys().map(String::as_str);
            let names: Vec<&str> = names.filter(|name| *name != CLIENT_ROLE).collect();
            let hint = match names.as_slice() {
                [] => "all its servers are on `server`".to_owned(),
                names => names.join(", "),
            };
            return Err(RecipeError::new(format!("{} has no role `{name}`", self.name), hint));
        };
        if hosts as u64 > role.hosts_max {
            let what = format!("{}: {name} can't be on {hosts} hosts", self.name);
            return Err(RecipeError::new(what, format!("at most {}", role.hosts_max)));
        }
        Ok(())
    }
}
