//! The hosts that execute a run.
//!
//! The hosts of a job are only known from the surroundings. A target must have at least as many
//! agents as `client_hosts` requests, and the setup of a run's hosts must match them.

use model::setting::{Setting, Value};
use model::{Host, RunSpec};

use crate::resolve::checks::WrittenSettings;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::hosts::UsedFrom;
use crate::syntax::raw::RawTarget;

impl UsedFrom {
    /// The hosts, one entry per agent; empty if this process does the work.
    pub(crate) fn agents<'a>(&'a self, around: &'a Surroundings) -> &'a [Host] {
        match self {
            Self::One => &[],
            Self::Hosts(hosts) => hosts,
            Self::Job => around.job.as_deref().unwrap_or_default(),
        }
    }
}

impl RawTarget {
    /// All agents that may use the target, each as a host; empty if this process does the work.
    pub fn agents<'a>(&'a self, around: &'a Surroundings) -> &'a [Host] {
        self.used_from.agents(around)
    }
}

/// Refuses a target with unknown hosts, and levels of `client_hosts` and `agents_per_host` beyond
/// what it has.
pub(crate) fn check(
    target: &RawTarget,
    around: &Surroundings,
    written: &WrittenSettings<'_>,
) -> Result<(), PlanError> {
    let name = &target.name.value;
    if target.used_from == UsedFrom::Job && around.job.is_none() {
        let what = format!("`{name}` is used from the hosts of a job, but this is not a job");
        let hint = "start it with a launcher; `dfsbench run --help` lists them";
        return Err(Fault::new(what).hint(hint).of_key("hosts", target.name.place));
    }
    let agents = target.used_from.agents(around);
    if agents.is_empty() {
        return Ok(());
    }
    let hosts = u64::from(Host::count_distinct(agents));
    for level in written.written(Setting::ClientHosts).unwrap_or_default() {
        if let Value::Number(requested) = level.value
            && requested > hosts
        {
            let plural = if hosts == 1 { "" } else { "s" };
            let what = format!("`{name}` has {hosts} host{plural}, not {requested}");
            let hint = "name more hosts; agents_per_host sets how many agents work on each";
            let fault = Fault::new(what).hint(hint);
            return Err(fault.of_key(Setting::ClientHosts.key(), level.place));
        }
    }
    let mut slots = 1;
    for agent in agents {
        slots = slots.max(agent.name_and_slot().1);
    }
    for level in written.written(Setting::AgentsPerHost).unwrap_or_default() {
        if let Value::Number(requested) = level.value
            && requested > slots.into()
        {
            let what = format!("no host of `{name}` has more than {slots}");
            let hint = if target.used_from == UsedFrom::Job {
                "make the launcher start more on each with --agents-per-node"
            } else {
                "raise `slots` in their [[host]]"
            };
            let fault = Fault::new(format!("{what}, but {requested} are requested")).hint(hint);
            return Err(fault.of_key(Setting::AgentsPerHost.key(), level.place));
        }
    }
    Ok(())
}

/// Updates everything that follows from the path of the data and the number of client hosts.
pub(crate) fn derive_fields(run: &mut RunSpec) {
    if let Some(most) = run.placement.agents_per_host {
        run.placement.hosts.retain(|host| host.name_and_slot().1 <= most);
    }
    let Some(lab) = run.lab.as_deref_mut() else { return };
    if !lab.leaves_server() {
        // The server runs the workload itself.
        run.placement.hosts.clear();
    }
    let hosts = &run.placement.hosts;
    let mut first_agents = hosts.iter().filter(|host| host.name_and_slot().1 == 1).cloned();
    if let Some(first) = first_agents.next() {
        lab.client = first;
    }
    lab.more_clients = first_agents.collect();
}
