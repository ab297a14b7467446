//! The two sides of a comparison: which campaigns they are, and what changed between them.
//!
//! [`ComparisonSide`] identifies a campaign by its file, date, hosts and version. A [`Difference`]
//! is a setting or recorded fact (kernel, server, mount options) whose values changed. A fact that
//! one side lacks is unknown there rather than changed. Counters and facts that vary between the
//! trials of a run are not conditions of the measurement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use model::{Fact, Question, Run};
use serde::Serialize;

use super::rows::{is_same, selected_names};
use super::{Selection, format_where};
use crate::campaign::host_settings;
use crate::campaign::notes;
use crate::chart::cut;
use crate::humanize::{listed, utc};
use crate::table::joined_campaigns::{LEADING, are_nearly_equal, is_noise};
use crate::table::setting_number::quantity;

/// Facts to list first, since they explain most changes. They are followed by settings and then by
/// other facts.
const FIRST: [&str; 4] = ["kernel", "distribution", "server", "mount options"];

/// Prefixes of facts that are results of a trial or that only identify the host.
const RESULTS: [&str; 10] = [
    "wall time",
    "user time",
    "system time",
    "largest memory",
    "slowest op",
    "waited until quiet",
    "clock rate",
    "kernel identity",
    "host name",
    "command",
];

/// Maximum number of values of a setting, or of hosts with a fact, to name.
const NAMES_MAX: usize = 4;

/// Maximum length of a value in a line.
const VALUE_MAX: usize = 60;

/// Campaign on one side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparisonSide {
    /// Results file of the campaign; `None` if unknown.
    pub file: Option<String>,
    /// Key in that file.
    pub campaign: i64,
    /// Name of its plan.
    pub name: String,
    /// Start time, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Hosts that it ran on.
    pub hosts: Vec<String>,
    /// Locations of its targets.
    pub targets: Vec<String>,
    /// Version of dfsbench that measured it.
    pub tool_version: String,
    /// Selection of its rows as an argument of `--where`; empty if all are compared.
    pub selected: String,
}

impl ComparisonSide {
    pub(super) fn from_selection(selection: Selection<'_>) -> Self {
        let Selection { campaign, only } = selection;
        let mut hosts: Vec<String> =
            host_settings::names(campaign).into_iter().map(str::to_owned).collect();
        if hosts.is_empty() {
            let is_name = |fact: &&Fact| fact.scope == "host" && fact.name == "host name";
            hosts.extend(campaign.facts.iter().find(is_name).map(|fact| fact.value.clone()));
        }
        Self {
            file: None,
            campaign: campaign.id,
            name: campaign.name.clone(),
            started_unix_ms: campaign.started_unix_ms,
            hosts,
            targets: notes::targets(campaign).into_iter().map(|(_, place)| place).collect(),
            tool_version: campaign.tool_version.clone(),
            selected: format_where(only),
        }
    }

    /// Identifies the side on one line: file, campaign, date, hosts, version and selection.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.file.clone());
        parts.push(format!("campaign {} ({})", self.campaign, self.name));
        parts.push(utc(self.started_unix_ms));
        match self.hosts.as_slice() {
            [] => {}
            [host] => parts.push(format!("host {host}")),
            hosts => parts.push(format!("hosts {}", name_few(hosts))),
        }
        parts.push(format!("dfsbench {}", self.tool_version));
        if !self.selected.is_empty() {
            parts.push(format!("only {}", self.selected));
        }
        parts.join(", ")
    }
}

impl Display for ComparisonSide {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "campaign {}", self.campaign)?;
        if let Some(file) = &self.file {
            write!(f, " of {file}")?;
        }
        write!(f, " ({}, {})", self.name, self.tool_version)?;
        if self.selected.is_empty() { Ok(()) } else { write!(f, ", {}", self.selected) }
    }
}

/// Setting or fact whose values changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name, with the hosts or targets it was read from: `kernel of server`.
    pub name: String,
    pub before: String,
    pub after: String,
}

impl Difference {
    /// Formats the difference on one line. For lists of options, only those that differ are shown.
    pub fn line(&self) -> String {
        let (before, after) = differing_options(&self.before, &self.after);
        format!("{}: {} → {}", self.name, cut(&before, VALUE_MAX), cut(&after, VALUE_MAX))
    }
}

/// Where a fact was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FactOrigin<'a> {
    /// The host that dfsbench ran on, or the only target.
    Only,
    /// Another host, or one of several targets.
    Named(&'a str),
}

/// Origin and name of a fact.
type FactKey<'a> = (FactOrigin<'a>, &'a str);

/// Finds settings and facts whose values changed, most relevant first.
pub(super) fn differences(sides: [Selection<'_>; 2]) -> Vec<Difference> {
    let runs = sides.map(chosen_runs);
    let has_one_target = runs.iter().all(|runs| {
        let names: BTreeSet<&str> = runs.iter().map(|run| run.spec.target_name.as_str()).collect();
        names.len() <= 1
    });
    let [before, after] = [0, 1].map(|side| read_facts(sides[side], &runs[side], has_one_target));
    // The same change on many hosts is one difference.
    let mut places: BTreeMap<(&str, String, String), Vec<String>> = BTreeMap::new();
    for ((place, name), before) in &before {
        let Some(after) = after.get(&(*place, *name)) else { continue };
        let (Some(before), Some(after)) = (before, after) else { continue };
        if before == after {
            continue;
        }
        let all: Vec<_> = before.iter().chain(after).map(|one| Some((*one).to_owned())).collect();
        // A number without a unit may be a version, and no two versions are nearly equal.
        let have_units = before.iter().chain(after).all(|value| value.contains(' '));
        if have_units && are_nearly_equal(name, &all) {
            continue;
        }
        let [before, after] = [before, after].map(|values| join_values(values.iter().copied()));
        let places = places.entry((*name, before, after)).or_default();
        if let FactOrigin::Named(place) = place {
            places.push((*place).to_owned());
        }
    }
    let mut found = differing_settings(sides, &runs);
    for ((name, before, after), places) in places {
        let rank = FIRST.iter().position(|first| *first == name).unwrap_or_else(|| {
            let leading = LEADING.iter().position(|leading| name.starts_with(leading));
            SETTINGS_RANK + 1 + leading.unwrap_or(LEADING.len())
        });
        let at =
            if places.is_empty() { String::new() } else { format!(" of {}", name_few(&places)) };
        found.push((rank, Difference { name: format!("{name}{at}"), before, after }));
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, difference)| difference).collect()
}

/// Rank of settings among the differences.
const SETTINGS_RANK: usize = FIRST.len();

/// Settings whose values changed, except those the sides are selected by.
fn differing_settings(
    sides: [Selection<'_>; 2],
    runs: &[Vec<&Run>; 2],
) -> Vec<(usize, Difference)> {
    let selected = selected_names(&sides);
    // A search chooses its loads depending on earlier results, so differences in them mean nothing.
    let is_search = sides.iter().any(|side| side.campaign.question != Question::Figures);
    let [before, after] = [0, 1].map(|side| read_settings(&runs[side]));
    let mut found = Vec::new();
    for (name, before) in before {
        let Some(after) = after.get(name) else { continue };
        let varies = before.len() > 1 || after.len() > 1;
        if before == *after || selected.contains(&name) || (is_search && varies) {
            continue;
        }
        let [before, after] = [&before, after].map(|values| {
            let mut values: Vec<&String> = values.iter().collect();
            values.sort_by(|a, b| {
                let [a, b] = [a, b].map(|value| quantity(name, value).unwrap_or_default());
                a.total_cmp(&b)
            });
            join_values(values.into_iter())
        });
        found.push((SETTINGS_RANK, Difference { name: name.to_owned(), before, after }));
    }
    found
}

/// Runs of a selection. If a pass is selected as well, this includes all runs that may have it.
fn chosen_runs(selection: Selection<'_>) -> Vec<&Run> {
    let mut runs: Vec<&Run> = selection.campaign.runs.iter().collect();
    runs.retain(|run| {
        let settings = run.spec.settings();
        selection.only.iter().filter(|(name, _)| name != "pass").all(|(name, value)| {
            settings.iter().any(|(known, shown)| known == name && is_same(shown, value))
        })
    });
    runs
}

fn read_settings(runs: &[&Run]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut settings: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for run in runs {
        for (name, value) in run.spec.settings() {
            settings.entry(name).or_default().insert(value);
        }
    }
    settings
}

/// Values of each fact in a campaign's runs; `None` if the trials of a run disagree.
fn read_facts<'a>(
    side: Selection<'a>,
    runs: &[&'a Run],
    has_one_target: bool,
) -> BTreeMap<FactKey<'a>, Option<BTreeSet<&'a str>>> {
    let hosts: BTreeSet<&str> = host_settings::names(side.campaign).into_iter().collect();
    let mut values: BTreeMap<FactKey<'_>, Option<BTreeSet<&str>>> = BTreeMap::new();
    let mut add = |key: FactKey<'a>, value: Option<&'a str>| {
        let known = values.entry(key).or_insert_with(|| Some(BTreeSet::new()));
        match (known.as_mut(), value) {
            (Some(known), Some(value)) => _ = known.insert(value),
            _ => *known = None,
        }
    };
    for fact in side.campaign.facts.iter().filter(|fact| is_condition(&fact.name)) {
        add((FactOrigin::Only, &fact.name), Some(&fact.value));
    }
    for run in runs {
        let mut of_run: BTreeMap<FactKey<'_>, Option<&str>> = BTreeMap::new();
        for fact in run.trials.iter().flat_map(|trial| &trial.facts) {
            // An embedded server gets a different free port each time.
            let is_own_port = fact.name == "server" && run.spec.target.is_embedded();
            if !is_condition(&fact.name) || is_own_port {
                continue;
            }
            let place = match fact.scope.as_str() {
                scope if hosts.contains(scope) => FactOrigin::Named(scope),
                _ if has_one_target => FactOrigin::Only,
                _ => FactOrigin::Named(&run.spec.target_name),
            };
            let known = of_run.entry((place, &fact.name)).or_insert(Some(&fact.value));
            if *known != Some(&fact.value) {
                *known = None;
            }
        }
        for (key, value) in of_run {
            add(key, value);
        }
    }
    values
}

/// Returns true if a fact describes the conditions of a measurement rather than its result.
fn is_condition(name: &str) -> bool {
    // Counters of a pass are prefixed with its name: `write: delegations`.
    !name.contains(": ") && !is_noise(name) && !RESULTS.iter().any(|begin| name.starts_with(begin))
}

fn join_values(values: impl Iterator<Item = impl ToString>) -> String {
    name_few(&values.map(|value| value.to_string()).collect::<Vec<_>>())
}

/// Names the first few, and counts the others.
fn name_few(names: &[String]) -> String {
    if names.len() <= NAMES_MAX {
        return listed(names);
    }
    let first = names[..NAMES_MAX - 1].join(", ");
    format!("{first} and {} more", names.len() + 1 - NAMES_MAX)
}

/// Removes the options that both lists have in common. Texts that are not lists are kept unchanged.
fn differing_options(before: &str, after: &str) -> (String, String) {
    let is_list = |text: &str| text.contains(',') && !text.contains(' ');
    if !is_list(before) || !is_list(after) {
        return (before.to_owned(), after.to_owned());
    }
    let missing_in = |other: &str, text: &str| {
        let others: BTreeSet<&str> = other.split(',').collect();
        let own: Vec<&str> = text.split(',').filter(|option| !others.contains(option)).collect();
        if own.is_empty() { "none".to_owned() } else { own.join(",") }
    };
    (missing_in(after, before), missing_in(before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(before: &str, after: &str) -> String {
        let [before, after] = [before, after].map(str::to_owned);
        Difference { name: "options".to_owned(), before, after }.line()
    }

    #[test]
    fn shows_only_options_that_differ() {
        assert_eq!(line("rw,vers=3,hard", "rw,vers=4.1,hard"), "options: vers=3 → vers=4.1");
        assert_eq!(line("rw,hard", "rw,hard,nconnect=4"), "options: none → nconnect=4");
        assert_eq!(
            line("Linux 6.1, built", "Linux 6.12"),
            "options: Linux 6.1, built → Linux 6.12"
        );
    }

    #[test]
    fn tells_conditions_from_results() {
        for name in ["kernel", "server", "mount options", "rsize"] {
            assert!(is_condition(name), "{name}");
        }
        for name in ["load at start", "write: delegations", "wall time", "kernel identity"] {
            assert!(!is_condition(name), "{name}");
        }
    }

    #[test]
    fn counts_names_beyond_the_first() {
        let names: Vec<String> = (1..=6).map(|number: u8| number.to_string()).collect();
        assert_eq!(name_few(&names), "1, 2, 3 and 3 more");
        assert_eq!(name_few(&names[..4]), "1, 2, 3 and 4");
    }
}
