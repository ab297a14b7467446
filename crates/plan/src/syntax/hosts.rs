//! The hosts from which a target is used, as written.
//!
//! [`UsedFrom`] lists the possible hosts; how many of them a run takes is a setting. Agents are
//! distributed over hosts in turn, so that a few agents use as many hosts as possible.

use model::Host;

/// The word for the hosts of a job whose agents are started by others.
pub(crate) const JOB: &str = "job";

/// A host and its maximum number of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedHost {
    pub host: Host,
    pub slots: u32,
}

/// The hosts from which a target is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UsedFrom {
    /// This process, or the one host that mounts it.
    #[default]
    One,
    /// One agent on each of these, in this order; additional agents on a host count as hosts of
    /// their own, see [`Host::for_agent`].
    Hosts(Vec<Host>),
    /// The hosts of the job that this process belongs to: see [`crate::Surroundings::job`].
    Job,
}

impl UsedFrom {
    /// Creates one agent for each slot of each host.
    pub(crate) fn slots_of(hosts: &[PlannedHost]) -> Self {
        let mut agents = Vec::new();
        let mut slot = 1;
        // The first slots of all hosts come before any second slot, so that a few agents are spread
        // over as many hosts as possible.
        loop {
            let before = agents.len();
            for PlannedHost { host, slots } in hosts {
                if *slots >= slot {
                    agents.push(if slot == 1 { host.clone() } else { host.for_agent(slot) });
                }
            }
            if agents.len() == before {
                return Self::Hosts(agents);
            }
            slot += 1;
        }
    }
}
