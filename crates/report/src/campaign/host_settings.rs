//! Effective settings of the hosts that a campaign set up, as read back from them.
//!
//! The facts of a host are those of the trials whose scope is its name. A setting that varied
//! between runs is shown with all of its values; columns of the report tell the runs apart.

use std::collections::{HashMap, HashSet};

use model::{Campaign, LabSpec, System};

/// Maximum number of values of a setting to show. A counter that never repeats has a different
/// value in each trial.
const VALUES_MAX: usize = 4;

/// Effective settings of one host.
pub(crate) struct HostFacts<'a> {
    pub host: &'a str,
    /// Settings in the order in which they were first read.
    pub settings: Vec<EffectiveSetting<'a>>,
}

/// Setting of a host with all values it had.
pub(crate) struct EffectiveSetting<'a> {
    pub name: &'a str,
    /// Source of the reading, such as a file or a command.
    pub source: &'a str,
    /// Distinct values, in order of appearance.
    values: Vec<&'a str>,
}

impl EffectiveSetting<'_> {
    /// Formats the values on one line.
    pub(crate) fn shown(&self) -> String {
        let first = self.values[..self.values.len().min(VALUES_MAX)].join(" | ");
        match self.values.len().saturating_sub(VALUES_MAX) {
            0 => first,
            more => format!("{first} | and {more} more"),
        }
    }
}

/// Hosts of a campaign in order of first use; empty if none was set up.
pub(crate) fn effective(campaign: &Campaign) -> Vec<HostFacts<'_>> {
    let mut hosts = Vec::new();
    let mut numbers = HashMap::new();
    for host in names(campaign) {
        numbers.insert(host, hosts.len());
        hosts.push(HostFacts { host, settings: Vec::new() });
    }
    // Index of each setting, and the values already seen: a host may have tens of thousands of
    // facts. The same name from another source is a separate setting.
    let mut places: HashMap<(usize, &str, &str), usize> = HashMap::new();
    let mut seen: HashSet<(usize, usize, &str)> = HashSet::new();
    // Facts of a trial are read back from the host after its settings were applied, so they show
    // what was effective, whatever the plan requested.
    for trial in campaign.runs.iter().flat_map(|run| &run.trials) {
        for fact in &trial.facts {
            let Some(&number) = numbers.get(fact.scope.as_str()) else { continue };
            let settings = &mut hosts[number].settings;
            let name = fact.name.as_str();
            let source = &*fact.source;
            let place = *places.entry((number, name, source)).or_insert_with(|| {
                settings.push(EffectiveSetting { name, source, values: Vec::new() });
                settings.len() - 1
            });
            if seen.insert((number, place, &fact.value)) {
                settings[place].values.push(&fact.value);
            }
        }
    }
    hosts.retain(|host| !host.settings.is_empty());
    hosts
}

/// Names of the hosts that were set up or ran the work. Facts with one of these scopes describe the
/// host, not the target.
pub(crate) fn names(campaign: &Campaign) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for run in &campaign.runs {
        let mut hosts = Vec::new();
        if let Some(lab) = &run.spec.lab {
            hosts.extend(lab.servers());
            hosts.push(&lab.client);
        }
        hosts.extend(&run.spec.placement.hosts);
        for host in hosts {
            if seen.insert(&host.name) {
                names.push(&host.name);
            }
        }
    }
    names
}

/// Formats the location of a target on hosts, with at most `clients_max` clients: `server:/srv
/// (network, client and 9 more)`.
pub(crate) fn place(lab: &LabSpec, clients_max: usize) -> String {
    let clients: Vec<&str> =
        lab.clients().take(clients_max).map(|client| client.name.as_str()).collect();
    let is_kept_by_clients = |system: &System| system.recipe.is_kept_by_clients();
    if lab.system.as_deref().is_some_and(is_kept_by_clients) {
        return format!("a disk of {}", clients.join(", "));
    }
    let servers = match lab.servers().len() {
        1 => lab.server.name.clone(),
        all => format!("{} and {} more", lab.server.name, all - 1),
    };
    let has_storage = |system: &System| system.recipe.has_storage();
    let place = if lab.system.as_deref().is_none_or(has_storage) {
        format!("{servers}:{} ({}", lab.storage.place().display(), lab.path)
    } else {
        format!("{servers} ({}", lab.path)
    };
    match clients.as_slice() {
        _ if !lab.leaves_server() => place + ")",
        [] => place + ")",
        [client] => format!("{place}, {client})"),
        [client, more @ ..] => format!("{place}, {client} and {} more)", more.len()),
    }
}

impl HostFacts<'_> {
    /// Formats all settings on one line: `nfsd threads 8; mtu 1500 | 9000`.
    pub(crate) fn line(&self) -> String {
        let mut settings = Vec::new();
        for setting in &self.settings {
            settings.push(format!("{} {}", setting.name, setting.shown()));
        }
        settings.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use model::system::{CLIENT_ROLE, Recipe, Role};
    use model::{Host, System};

    use super::*;

    #[test]
    fn locates_target_by_its_files() {
        let place = |lab: &LabSpec| place(lab, usize::MAX);
        let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
        lab.storage.directory = "/srv".into();
        assert_eq!(place(&lab), "s:/srv (network, c)");
        let system = |recipe| Some(Box::new(System { recipe, ..System::default() }));
        let keeps_none = Recipe::default();
        lab.system = system(Recipe { storage: true, ..keeps_none.clone() });
        assert_eq!(place(&lab), "s:/srv (network, c)");
        lab.system = system(keeps_none.clone());
        assert_eq!(place(&lab), "s (network, c)");
        let roles = [(CLIENT_ROLE.to_owned(), Role::default())].into();
        lab.system = system(Recipe { serves_in_kernel: true, roles, ..keeps_none });
        lab.more_clients.push(Host::local("d"));
        assert_eq!(place(&lab), "a disk of c, d");
    }
}
