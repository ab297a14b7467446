//! Hosts of a campaign and how others reach them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::systems::fact::Fact;

/// A host that takes part in a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// Name in plans and tables.
    pub name: String,
    /// Destination for `ssh`, such as `root@10.0.0.1` or a name from the user's configuration;
    /// `None` for this host.
    pub ssh: Option<String>,
    /// Configuration file for `ssh -F`, or `None` for the user's.
    pub ssh_config: Option<PathBuf>,
    /// Address or name by which other hosts reach it; `None` for that of `ssh`, without the user.
    pub address: Option<String>,
    /// Further addresses of the same host, which clients may use at the same time (trunking).
    #[serde(default)]
    pub more_addresses: Vec<String>,
    /// Network interface under test, such as `eth0`; `None` for the one that has `address`.
    pub interface: Option<String>,
    /// Information about the host that no program can read from it, by name. Reported as facts; see
    /// [`Host::label_facts`].
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Host {
    /// Returns this host under the given name.
    pub fn local(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ssh: None,
            ssh_config: None,
            address: None,
            more_addresses: Vec::new(),
            interface: None,
            labels: BTreeMap::new(),
        }
    }

    /// Returns the labels as facts named `label.NAME`.
    pub fn label_facts(&self) -> Vec<Fact> {
        label_facts(&self.name, &self.labels)
    }

    /// Returns the address or name by which other hosts reach it, or `None` if the plan has none.
    pub fn reachable_address(&self) -> Option<&str> {
        let ssh = || self.ssh.as_deref().map(|ssh| ssh.rsplit_once('@').map_or(ssh, |at| at.1));
        self.address.as_deref().or_else(ssh)
    }
}

/// Returns labels as facts named `label.NAME` in a scope: a host name, or `host` for this host.
pub fn label_facts(scope: &str, labels: &BTreeMap<String, String>) -> Vec<Fact> {
    labels
        .iter()
        .map(|(name, value)| Fact::new(scope, format!("label.{name}"), value, "the plan"))
        .collect()
}

/// Puts an IPv6 address into brackets, as needed before a path or port. **Source:** nfs(5).
pub fn bracket_ipv6(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}
