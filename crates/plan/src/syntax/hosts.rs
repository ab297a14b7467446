//! The hosts that a target is used from, as they were written.
//!
//! [`UsedFrom`] is what a target says of them; how many of them a run takes is a setting. Agents
//! are dealt out to hosts in turn, so that a few of them are on as many hosts.

use model::Host;

/// The word for the hosts of a job that others start.
pub(crate) const JOB: &str = "job";

/// A host, and how many agents there may be on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedHost {
    /// The host itself.
    pub host: Host,
    /// Agents on it at most.
    pub slots: u32,
}

/// From where a target is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UsedFrom {
    /// This process, or the one host that mounts it.
    #[default]
    One,
    /// An agent on each of these, in their order; further agents of a host are hosts of their own,
    /// see [`Host::further`].
    Hosts(Vec<Host>),
    /// The hosts of the job that this process is part of: see [`crate::Surroundings::job`].
    Job,
}

impl UsedFrom {
    /// An agent in each slot of each host.
    pub(crate) fn slots_of(hosts: &[PlannedHost]) -> Self {
        let mut agents = Vec::new();
        let mut slot = 1;
        // The first slots of all hosts come before any second one, so that a few agents are
        // spread over as many hosts as there are.
        loop {
            let before = agents.len();
            for PlannedHost { host, slots } in hosts {
                if *slots >= slot {
                    agents.push(if slot == 1 { host.clone() } else { host.further(slot) });
                }
            }
            if agents.len() == before {
                return Self::Hosts(agents);
            }
            slot += 1;
        }
    }
}
