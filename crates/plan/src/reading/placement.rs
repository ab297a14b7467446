//! The hosts that a target is used from.
//!
//! [`UsedFrom`] is what a target says of them; how many of them a run takes is a setting. The
//! agents are dealt out to hosts in turn, so that a few of them are on as many hosts.

use std::collections::HashSet;

use model::setting::{Setting, Value};
use model::{Host, RunSpec};

use crate::meaning::checks::Written;
use crate::meaning::surroundings::Surroundings;
use crate::reading::document::Field;
use crate::reading::target::TargetArg;
use crate::written::error::{Fault, PlanError, Spot};
use crate::written::near::unknown_word;
use crate::written::raw::RawTarget;

/// The word for the hosts of a job that others start.
pub(crate) const JOB: &str = "job";

/// A host, and how many agents there may be on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedHost {
    /// The host.
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
    /// The hosts of the job that this process is part of: see [`Surroundings::job`].
    Job,
}

impl UsedFrom {
    /// An agent in each slot of each host.
    pub(crate) fn slots_of(hosts: &[PlannedHost]) -> Self {
        let most = hosts.iter().map(|planned| planned.slots).max().unwrap_or(0);
        let of_slot = |slot: u32| {
            let having = hosts.iter().filter(move |planned| planned.slots >= slot);
            having.map(move |PlannedHost { host, .. }| match slot {
                1 => host.clone(),
                further => host.further(further),
            })
        };
        Self::Hosts((1..=most).flat_map(of_slot).collect())
    }

    /// The hosts, each agent apart; none where this process works.
    pub(crate) fn agents<'a>(&'a self, around: &'a Surroundings) -> &'a [Host] {
        match self {
            Self::One => &[],
            Self::Hosts(hosts) => hosts,
            Self::Job => around.job.as_deref().unwrap_or_default(),
        }
    }
}

/// Reads the hosts of a list, none of which stands twice.
pub(crate) fn read_list(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<PlannedHost>, PlanError> {
    let mut listed: Vec<PlannedHost> = Vec::new();
    let mut seen = HashSet::new();
    for item in field.items()? {
        let planned = known_host(&item, hosts)?;
        if !seen.insert(planned.host.name.clone()) {
            let what = format!("`{}` stands in the list twice", planned.host.name);
            let hint = "name it once; `slots` in its [[host]] lets it play several clients";
            return Err(item.error(Fault::new(what).hint(hint)));
        }
        listed.push(planned);
    }
    Ok(listed)
}

/// Finds the host that a field names.
pub(crate) fn known_host(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<PlannedHost, PlanError> {
    let name = field.text("\"server\"")?.value;
    let found = hosts.iter().find(|planned| planned.host.name == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = hosts.iter().map(|planned| planned.host.name.as_str()).collect();
        let fault = unknown_word("host", name, &known);
        let fault = if known.is_empty() {
            fault.hint(format!("begin with [[host]] and `name = \"{name}\"`"))
        } else {
            fault
        };
        field.error(fault)
    })
}

/// Reads the `hosts` of a target that is not set up.
pub(crate) fn read_hosts(
    field: &Field<'_>,
    what: &TargetArg,
    hosts: &[PlannedHost],
) -> Result<UsedFrom, PlanError> {
    let refused = |what: &str, hint: &str| Err(field.error(Fault::new(what).hint(hint)));
    match what {
        TargetArg::Lab(_) => return refused("is for targets without `server`", "write `clients`"),
        TargetArg::Temporary => {
            let hint = "write the `path` of a directory that all hosts have";
            return refused("a temporary folder is of one host only", hint);
        }
        TargetArg::Directory(path) if path.is_relative() => {
            let what = format!("`{}` starts where nobody is on other hosts", path.display());
            return refused(&what, "write the whole path, from `/` on");
        }
        TargetArg::Directories(paths) if paths.iter().any(|path| path.is_relative()) => {
            let hint = "write whole paths, from `/` on";
            return refused("relative paths start where nobody is on other hosts", hint);
        }
        _ => {}
    }
    let is_embedded = match what {
        TargetArg::Tcp(tcp) => tcp.embedded,
        what => matches!(what, TargetArg::Embedded(_)),
    };
    if field.as_text() == Some(JOB) {
        let job = UsedFrom::Job;
        return if is_embedded { refused(ELSEWHERE, ELSEWHERE_HINT) } else { Ok(job) };
    }
    let listed = read_list(field, hosts)?;
    if is_embedded && listed.iter().any(|planned| planned.host.ssh.is_some()) {
        return refused(ELSEWHERE, ELSEWHERE_HINT);
    }
    Ok(UsedFrom::slots_of(&listed))
}

const ELSEWHERE: &str = "the in-memory server listens on this host's loopback only";
const ELSEWHERE_HINT: &str = "`dfsbench serve` on one host, and its `url` here";

/// Refuses a target whose hosts nobody knows, and levels of `client_hosts` beyond what it has.
pub(crate) fn check(
    target: &RawTarget,
    around: &Surroundings,
    written: &Written<'_>,
) -> Result<(), PlanError> {
    let name = &target.name.value;
    if target.used_from == UsedFrom::Job && around.job.is_none() {
        let what = format!("`{name}` is used from the hosts of a job, and this is none");
        let hint = "start it by a launcher; `dfsbench run --help` names them";
        return Err(Fault::new(what).hint(hint).of("hosts", target.name.place));
    }
    let agents = target.used_from.agents(around);
    if agents.is_empty() {
        return Ok(());
    }
    let levels = written.written(Setting::ClientHosts).unwrap_or_default();
    let beyond = |spot: &&Spot<Value>| match spot.value {
        Value::Number(number) => number > agents.len() as u64,
        _ => false,
    };
    let Some(Spot { value: Value::Number(asked), place }) = levels.iter().find(beyond) else {
        return Ok(());
    };
    let hosts = agents.iter().filter(|host| host.name_and_slot().1 == 1).count();
    let has = agents.len();
    let what = format!("`{name}` has {has} on {hosts} hosts, and not {asked}");
    let hint = "name more hosts, or raise `slots` in their [[host]]";
    Err(Fault::new(what).hint(hint).of(Setting::ClientHosts.key(), *place))
}

/// Brings in step what follows from where data travels, and from how many hosts work.
pub(crate) fn aim(run: &mut RunSpec) {
    let Some(lab) = run.lab.as_deref_mut() else { return };
    if !lab.leaves_server() {
        // The server works alone.
        run.placement.hosts.clear();
    }
    let hosts = &run.placement.hosts;
    let mut first_agents = hosts.iter().filter(|host| host.name_and_slot().1 == 1).cloned();
    if let Some(first) = first_agents.next() {
        lab.client = first;
    }
    lab.more_clients = first_agents.collect();
}
