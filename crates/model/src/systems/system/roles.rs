//! Roles of a recipe: servers of a system that may have hosts of their own.
//!
//! A plan assigns hosts to roles. A role without hosts runs on the target's `server`, as does
//! anything without a role. The role [`CLIENT_ROLE`] runs on the hosts that mount the system, which
//! a plan lists anyway. [`Places`] contains the hosts of one run by index; 0 is the `server`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::template::{Template, Values};
use super::{AccessWay, COUNT_MAX, Recipe, RecipeError};

/// Value of `on` for every host of the system.
pub(super) const EVERY_HOST: &str = "all";

/// Name of the role for hosts that mount the system.
pub const CLIENT_ROLE: &str = "client";

/// Index of the target's `server` among the hosts of a run.
pub(super) const SERVER: usize = 0;

/// A kind of server in a system, which may have hosts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Explains the role to users.
    pub meaning: String,
    /// Maximum number of hosts.
    #[serde(default = "hosts_max")]
    pub hosts_max: u64,
    /// Its files are below `{storage}`.
    #[serde(default)]
    pub storage: bool,
    /// Programs that must be installed on its hosts.
    #[serde(default)]
    pub programs: Vec<String>,
    /// TCP ports that must be free on its hosts.
    #[serde(default)]
    pub ports: Vec<u16>,
}

const fn hosts_max() -> u64 {
    COUNT_MAX
}

/// Hosts and paths of a run for use in a recipe's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Directory for the system's own files on a host: `{dir}`.
    pub dir: String,
    /// Directory in which servers keep files: `{storage}`.
    pub storage: String,
    /// Addresses of the hosts in the system: first the `server`, which is `{address}`, then other
    /// servers, then clients.
    pub hosts: Vec<String>,
    /// Number of servers among them.
    pub servers: usize,
    /// Hosts of each role, by index. A missing role runs on the `server`, except for the client
    /// role, which then has no hosts.
    pub roles: BTreeMap<String, Vec<usize>>,
    /// How clients access the system.
    pub way: Option<AccessWay>,
    /// Addresses of the clients, separated by blanks: `{clients}`.
    pub clients: String,
    /// Mount point on a client: `{point}`.
    pub point: String,
}

/// One of several copies of a step or text, with its host and variables.
pub(super) struct Copy {
    pub host: usize,
    pub values: Values,
}

impl Places {
    /// Returns the hosts for the value of `on` in a recipe.
    pub(super) fn hosts_of(&self, on: &str) -> Vec<usize> {
        match self.roles.get(on) {
            _ if on == EVERY_HOST => (0..self.servers).collect(),
            Some(hosts) if !hosts.is_empty() => hosts.clone(),
            _ if on == CLIENT_ROLE => Vec::new(),
            _ => vec![SERVER],
        }
    }

    /// Returns the variables for something on a host.
    pub(super) fn values_on(&self, host: usize, values: &Values) -> Values {
        let mut values = values.clone();
        values.insert("host".to_owned(), self.hosts[host].clone());
        values
    }

    /// Returns the copies of an item in a recipe. With a `count`, there are that many, assigned to
    /// the hosts in turn; with only `on`, one on each host. `{n}` counts from 1.
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
            let what = format!("`{text}` is not a count");
            Err(RecipeError::new(key, what, format!("a number of 1 to {COUNT_MAX}")))
        }
    }
}

impl Recipe {
    /// Returns true if files are below `{storage}` on any host.
    pub fn has_storage(&self) -> bool {
        self.storage || self.roles.values().any(|role| role.storage)
    }

    /// Returns true if the hosts that mount the system keep the files themselves, on a shared disk.
    pub fn is_kept_by_clients(&self) -> bool {
        self.serves_in_kernel && self.roles.contains_key(CLIENT_ROLE) && !self.has_storage()
    }

    pub(super) fn roles_on(&self, host: usize, places: &Places) -> Vec<&Role> {
        let mut roles = Vec::new();
        for (name, role) in &self.roles {
            if places.hosts_of(name).contains(&host) {
                roles.push(role);
            }
        }
        roles
    }

    /// Checks the hosts that a plan assigns to a role.
    ///
    /// # Errors
    /// If the recipe has no such role, or too many hosts are assigned to it.
    pub fn check_role(&self, name: &str, hosts: usize) -> Result<(), RecipeError> {
        if name == CLIENT_ROLE {
            let what =
                format!("{}: the hosts of `{name}` are those that mount the target", self.name);
            return Err(RecipeError::new(
                "",
                what,
                "name them with `client` or `clients` of the target",
            ));
        }
        let Some(role) = self.roles.get(name) else {
            let names = self.roles.keys().map(String::as_str);
            let names: Vec<&str> = names.filter(|name| *name != CLIENT_ROLE).collect();
            let hint = match names.as_slice() {
                [] => "all its servers are on `server`".to_owned(),
                names => names.join(", "),
            };
            return Err(RecipeError::new("", format!("{} has no role `{name}`", self.name), hint));
        };
        if hosts as u64 > role.hosts_max {
            let what = format!("{}: {name} can't be on {hosts} hosts", self.name);
            return Err(RecipeError::new("", what, format!("at most {}", role.hosts_max)));
        }
        Ok(())
    }
}
