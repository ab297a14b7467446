//! The placement of a run: which hosts it works on, and who reads whose files.
//!
//! A [`Placement`] names the client hosts of one run in their order, an agent on each; which op
//! comes next depends on the number of a worker over all of them, never on where it works. A host
//! that plays several clients stands there several times, see [`Host::further`].

use serde::{Deserialize, Serialize};

use crate::lab::Host;

/// The hosts that a run works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// The client hosts in their order, an agent on each; empty for the one that works anyway:
    /// see [`crate::RunSpec::client_hosts`].
    pub hosts: Vec<Host>,
    /// Agents on each of them at most; `None` is as many as it has. [`Placement::hosts`] is in step
    /// with it.
    pub agents_per_host: Option<u32>,
    /// The hosts are those of a job that others start: their agents come by themselves.
    pub of_job: bool,
    /// In passes that read, each agent reads the files written by the agent N places on, which
    /// defeats the caches of clients; 0 is its own.
    pub neighbour: u32,
    /// All hosts work in one directory, which is refused where theirs turn out to be different
    /// ones. Where it is `false`, each may have its own.
    pub shared: bool,
    /// How long a lost host is waited for, in milliseconds; `None` goes on without it at once.
    pub lost_wait_ms: Option<u64>,
}

impl Default for Placement {
    /// The one host that works anyway.
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
    /// Stands before the number of a further agent on one host; no name in a plan has it.
    const FURTHER: char = ':';

    /// The same host again, for its agent `number`, from 2 on.
    #[must_use]
    pub fn further(&self, number: u32) -> Self {
        Self { name: format!("{}{}{number}", self.name, Self::FURTHER), ..self.clone() }
    }

    /// Counts the hosts in a list that names each agent on them.
    pub fn count_distinct(agents: &[Self]) -> u32 {
        agents.iter().filter(|host| host.name_and_slot().1 == 1).count() as u32
    }

    /// The name of the host, whichever of its agents is meant, and the agent's number on it, from
    /// 1 on.
    pub fn name_and_slot(&self) -> (&str, u32) {
        let further = self.name.rsplit_once(Self::FURTHER);
        let numbered = further.and_then(|(name, number)| Some((name, number.parse().ok()?)));
        numbered.unwrap_or((&self.name, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::LabSpec;
    use crate::testing::RunBuilder;
    use crate::workload::Workload;

    #[test]
    fn the_hosts_that_work_are_those_named_or_the_one_that_mounts() {
        let mut run = RunBuilder::new(Workload::Stream).workers(3).build();
        assert_eq!((run.client_hosts(), run.agents(), run.all_workers()), (&[][..], 1, 3));
        let lab = LabSpec::new(Host::here("s"), Host::here("c"));
        run.lab = Some(Box::new(lab));
        assert_eq!(run.client_hosts(), [Host::here("c")]);
        run.placement.hosts = vec![Host::here("c"), Host::here("d")];
        assert_eq!((run.client_hosts().len(), run.agents(), run.all_workers()), (2, 2, 6));
        assert_eq!((run.for_agents().all_workers(), run.clients()), (6, 6));
    }

    #[test]
    fn a_host_that_plays_several_clients_has_a_name_for_each() {
        let host = Host { address: Some("10.0.0.1".into()), ..Host::here("c.1") };
        let third = host.further(3);
        assert_eq!((third.name.as_str(), third.reached_at()), ("c.1:3", Some("10.0.0.1")));
        assert_eq!((third.name_and_slot(), host.name_and_slot()), (("c.1", 3), ("c.1", 1)));
    }
}
