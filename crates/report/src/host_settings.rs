//! The effective settings of the hosts that a campaign set up, as they were read back there.
//!
//! A host's facts are those of the trials whose scope is its name. A setting that varied between
//! runs has several values, which stand side by side; the runs are told apart by their columns.

use std::collections::HashSet;

use model::{Campaign, Fact, LabSpec};

/// So many values of a setting are shown; counters that never repeat have as many as trials.
const VALUES_MAX: usize = 4;

/// The effective settings of one host.
pub struct HostFacts<'a> {
    /// The name of the host.
    pub host: &'a str,
    /// Its settings, in the order in which they were first read.
    pub settings: Vec<EffectiveSetting<'a>>,
}

/// One setting of a host with the values that it had.
pub struct EffectiveSetting<'a> {
    /// The name of the setting.
    pub name: &'a str,
    /// The source of the reading, such as a file or a command.
    pub source: &'a str,
    /// Different values, in order of appearance.
    values: Vec<&'a str>,
}

impl EffectiveSetting<'_> {
    /// Its values on one line.
    pub fn shown(&self) -> String {
        let first = self.values[..self.values.len().min(VALUES_MAX)].join(" | ");
        match self.values.len().saturating_sub(VALUES_MAX) {
            0 => first,
            more => format!("{first} | and {more} more"),
        }
    }
}

/// The hosts of a campaign in the order of their first use; none where nothing was set up.
pub fn effective(campaign: &Campaign) -> Vec<HostFacts<'_>> {
    let of = |host| HostFacts { host, settings: Vec::new() };
    let mut hosts: Vec<HostFacts<'_>> = names(campaign).into_iter().map(of).collect();
    for fact in campaign.runs.iter().flat_map(|run| &run.trials).flat_map(|trial| &trial.facts) {
        if let Some(host) = hosts.iter_mut().find(|host| host.host == fact.scope) {
            host.add(fact);
        }
    }
    hosts.retain(|host| !host.settings.is_empty());
    hosts
}

/// Names of the hosts that were set up or worked: facts of that scope are theirs, and not the
/// target's.
pub fn names(campaign: &Campaign) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for spec in campaign.runs.iter().map(|run| &run.spec) {
        let of_lab = spec.lab.iter().flat_map(|lab| [&lab.server, &lab.client]);
        let hosts = of_lab.chain(&spec.placement.hosts).map(|host| host.name.as_str());
        names.extend(hosts.filter(|name| seen.insert(*name)));
    }
    names
}

/// Formats the location of a target on hosts: `server:/srv (network, client and 9 more)`.
pub fn place(lab: &LabSpec) -> String {
    let place = format!("{}:{} ({}", lab.server.name, lab.storage.place().display(), lab.path);
    let client = &lab.client.name;
    match lab.more_clients.len() {
        _ if !lab.leaves_server() => place + ")",
        0 => format!("{place}, {client})"),
        more => format!("{place}, {client} and {more} more)"),
    }
}

impl<'a> HostFacts<'a> {
    fn add(&mut self, fact: &'a Fact) {
        let same = |known: &&mut EffectiveSetting<'_>| {
            (known.name, known.source) == (&fact.name, &fact.source)
        };
        match self.settings.iter_mut().find(same) {
            Some(known) if known.values.contains(&fact.value.as_str()) => {}
            Some(known) => known.values.push(&fact.value),
            None => {
                let (name, source) = (&fact.name, &fact.source);
                self.settings.push(EffectiveSetting { name, source, values: vec![&fact.value] });
            }
        }
    }

    /// Its settings on one line: `nfsd threads 8; mtu 1500 | 9000`.
    pub fn line(&self) -> String {
        let settings = self.settings.iter().map(|set| format!("{} {}", set.name, set.shown()));
        settings.collect::<Vec<_>>().join("; ")
    }
}
