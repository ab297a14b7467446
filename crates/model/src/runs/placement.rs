//! Which hosts a run works on, and who reads whose files.
//!
//! A [`Placement`] lists the client hosts of a run in order, with one agent each. The sequence of
//! ops depends on a worker's number among all workers, not on its host. A host that runs several
//! agents is listed several times; see [`Host::for_agent`].

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::systems::lab::Host;

/// The hosts that a run works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// Client hosts in order, with one agent each; empty for the default host, see
    /// [`crate::RunSpec::client_hosts`].
    pub hosts: Vec<Host>,
    /// Maximum number of agents per host; `None` for no limit. Kept consistent with
    /// [`Placement::hosts`].
    pub agents_per_host: Option<u32>,
    /// The hosts belong to a batch job whose agents connect to us.
    pub of_job: bool,
    /// In passes that read, each agent reads the files written by the agent this many positions
    /// later, which defeats client caches; 0 reads its own files.
    pub neighbour: u32,
    /// All hosts must work in the same directory, which is checked. If `false`, each may have its
    /// own.
    pub shared: bool,
    /// How long to wait for a lost host, in milliseconds; `None` continues without it at once.
    pub lost_wait_ms: Option<u64>,
}

impl Default for Placement {
    /// Returns the placement on the default host.
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            agents_per_host: None,
            of_job: false,
            neighbour: 0,
            shared: true,
            lost_wait_ms: None,
        }
    }
}

impl Host {
    /// Separates a host's name from the number of a further agent on it; not allowed in plans.
    pub const FURTHER: char = ':';

    /// Returns the same host for its agent `number`, counted from 2 on.
    #[must_use]
    pub fn for_agent(&self, number: u32) -> Self {
        Self { name: format!("{}{}{number}", self.name, Self::FURTHER), ..self.clone() }
    }

    /// Counts the hosts in a list that has an entry for each agent.
    pub fn count_distinct(agents: &[Self]) -> u32 {
        agents.iter().map(|host| host.name_and_slot().0).collect::<HashSet<_>>().len() as u32
    }

    /// Returns the host name without the agent's number, and this number, from 1 on.
    pub fn name_and_slot(&self) -> (&str, u32) {
        let further = self.name.rsplit_once(Self::FURTHER);
        let numbered = further.and_then(|(name, number)| Some((name, number.parse().ok()?)));
        numbered.unwrap_or((&self.name, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::workload::Workload;
    use crate::systems::lab::LabSpec;
    use crate::testing::RunBuilder;

    #[test]
    fn prefers_named_client_hosts() {
        let mut run = RunBuilder::new(Workload::Stream).workers(3).build();
        assert_eq!((run.client_hosts(), run.agents(), run.all_workers()), (&[][..], 1, 3));
        let lab = LabSpec::new(Host::local("s"), Host::local("c"));
        run.lab = Some(Box::new(lab));
        assert_eq!(run.client_hosts(), [Host::local("c")]);
        run.placement.hosts = vec![Host::local("c"), Host::local("d")];
        assert_eq!((run.client_hosts().len(), run.agents(), run.all_workers()), (2, 2, 6));
        assert_eq!((run.for_agents().all_workers(), run.clients()), (6, 6));
    }

    #[test]
    fn names_several_clients_on_host() {
        let host = Host { address: Some("10.0.0.1".into()), ..Host::local("c.1") };
        let third = host.for_agent(3);
        assert_eq!((third.name.as_str(), third.reachable_address()), ("c.1:3", Some("10.0.0.1")));
        assert_eq!((third.name_and_slot(), host.name_and_slot()), (("c.1", 3), ("c.1", 1)));
    }
}
