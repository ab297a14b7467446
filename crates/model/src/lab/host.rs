//! Hosts of a campaign, and how others reach them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// A host that takes part in a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// Name of the host in plans and tables.
    pub name: String,
    /// Destination by which `ssh` finds it, such as `root@10.0.0.1` or a name of the user's
    /// configuration; `None` is this very host.
    pub ssh: Option<String>,
    /// Configuration file for `ssh -F`; `None` is the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Address or name by which the other hosts reach it; `None` is `ssh` without its user.
    pub address: Option<String>,
    /// Interface of the network that is measured, such as `eth0`; `None` is that of `address`.
    pub interface: Option<String>,
    /// Words about the host that no program can read there, by their names: its facts, see
    /// [`Host::label_facts`].
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Host {
    /// This very host, under a name.
    pub fn here(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ssh: None,
            ssh_config: None,
            address: None,
            interface: None,
            labels: BTreeMap::new(),
        }
    }

    /// Returns its labels as facts `label.NAME`.
    pub fn label_facts(&self) -> Vec<Fact> {
        label_facts(&self.name, &self.labels)
    }

    /// The address or name by which the other hosts reach it; `None` where the plan has none.
    pub fn reached_at(&self) -> Option<&str> {
        let ssh = || self.ssh.as_deref().map(|ssh| ssh.rsplit_once('@').map_or(ssh, |at| at.1));
        self.address.as_deref().or_else(ssh)
    }
}

/// Returns labels as facts `label.NAME` of a scope: a host, or `host` for this very one.
pub fn label_facts(scope: &str, labels: &BTreeMap<String, String>) -> Vec<Fact> {
    let mut facts = Vec::with_capacity(labels.len());
    for (name, value) in labels {
        facts.push(Fact::new(scope, format!("label.{name}"), value, "the plan"));
    }
    facts
}

/// Puts an address of IPv6 into brackets, before a path or a port. **Source:** nfs(5).
pub fn bracketed(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}
