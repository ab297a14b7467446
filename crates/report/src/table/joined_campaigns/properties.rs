//! Finds what differs between campaigns: host facts, labels, tags, names.
//!
//! A fact is a property of a campaign if all of its trials agree on it. A fact that varies between
//! trials is noise or follows from a setting. Facts of targets follow from settings as well, and
//! are properties only on request.

use std::collections::{BTreeMap, BTreeSet};

use model::{Campaign, Fact};

use super::{CampaignSource, Property, UnknownProperty};
use crate::table::setting_number::quantity;

/// Prefixes of facts that vary from day to day on the same host.
const NOISE: [&str; 10] = [
    "load",
    "uptime",
    "page cache",
    "files cached",
    "clock offset",
    "clock drift",
    "boot",
    "free",
    "temperature",
    "processor frequency",
];

/// Facts by which people distinguish machines, in this order. If several change together, the first
/// one represents all of them.
pub(crate) const LEADING: [&str; 10] = [
    "kernel",
    "distribution",
    "processor",
    "disk",
    "memory",
    "dram",
    "cores",
    "nic",
    "link",
    "file system",
];

/// Scope of the facts about the controller's own host.
const OWN_HOST: &str = "host";

/// Scopes of facts that follow from the settings of a run.
const FOLLOWING: [&str; 2] = ["target", "server"];

/// Prefix of labels, in facts and in factors.
const LABEL: &str = "label.";

/// Ratio below which two numbers count as equal, such as the memory minus what the kernel reserves.
const RATIO_MIN: f64 = 1.02;

/// Properties of a set of campaigns.
pub(super) struct ChosenProperties {
    pub factors: Vec<Property>,
    pub others: Vec<Property>,
}

/// Fact that is not named yet: `kernel` of host `server`.
struct Candidate {
    scope: String,
    base: String,
    values: Vec<Option<String>>,
    is_found: bool,
}

/// Chooses the properties in `by` or, if it is empty, those that differ.
pub(super) fn choose(
    sources: &[CampaignSource],
    by: &[String],
) -> Result<ChosenProperties, UnknownProperty> {
    // A single campaign differs from no other, and its facts may be those of a hundred thousand
    // trials.
    if sources.len() == 1 && by.is_empty() {
        return Ok(ChosenProperties { factors: Vec::new(), others: Vec::new() });
    }
    let candidates = list_candidates(sources);
    let mut all = name_candidates(&candidates);
    all.extend(identity(sources));
    let mut chosen = ChosenProperties { factors: Vec::new(), others: Vec::new() };
    if by.is_empty() {
        for (property, is_found) in all {
            if is_found && count_levels(&property) > 1 {
                chosen.factors.push(property);
            }
        }
        sort_properties(&mut chosen.factors);
        return Ok(chosen);
    }
    for name in by {
        check_requested(name, &all)?;
    }
    for (property, is_found) in all {
        if count_levels(&property) < 2 {
            continue;
        }
        if by.iter().any(|name| is_meant(name, &property.name)) {
            chosen.factors.push(property);
        } else if is_found {
            chosen.others.push(property);
        }
    }
    sort_properties(&mut chosen.factors);
    Ok(chosen)
}

/// Rejects a name unless a property with several values has it.
fn check_requested(name: &str, all: &[(Property, bool)]) -> Result<(), UnknownProperty> {
    let mut only_value = None;
    let mut known = Vec::new();
    for (property, _) in all {
        let levels = count_levels(property);
        if is_meant(name, &property.name) {
            if levels > 1 {
                return Ok(());
            }
            only_value = property.values.iter().flatten().next().cloned();
        }
        if levels > 1 {
            known.push(property.name.clone());
        }
    }
    Err(UnknownProperty { name: name.to_owned(), only_value, known })
}

/// Returns true if a name refers to a property, on any host: `kernel` refers to `fact.kernel` and
/// to `fact.kernel@server`.
fn is_meant(name: &str, property: &str) -> bool {
    let name = name.trim().replace(' ', "_");
    let (base, _) = property.split_once('@').unwrap_or((property, ""));
    [property, base].iter().any(|known| {
        *known == name
            || known.strip_prefix("fact.") == Some(&name)
            || known.strip_prefix(LABEL) == Some(&name)
    })
}

fn count_levels(property: &Property) -> usize {
    let mut levels: Vec<&String> = Vec::new();
    for value in property.values.iter().flatten() {
        if !levels.contains(&value) {
            levels.push(value);
        }
    }
    levels.len()
}

/// Puts properties with few values first, since one with more values would hide them, then those by
/// which people distinguish machines.
fn sort_properties(properties: &mut [Property]) {
    properties.sort_by_key(|property| (count_levels(property), rank(&property.name)));
}

fn rank(name: &str) -> usize {
    if name.starts_with(LABEL) {
        return 0;
    }
    if let Some(fact) = name.strip_prefix("fact.") {
        let place = LEADING.iter().position(|begin| fact.starts_with(&begin.replace(' ', "_")));
        return 1 + place.unwrap_or(LEADING.len());
    }
    // Tags and names come last, because they do not say what differs.
    2 + LEADING.len() + usize::from(name == "campaign")
}

/// Tags, versions and names of the campaigns, if there are several.
fn identity(sources: &[CampaignSource]) -> Vec<(Property, bool)> {
    if sources.len() < 2 {
        return Vec::new();
    }
    let mut tags = Vec::new();
    let mut versions = Vec::new();
    let mut names = Vec::new();
    let mut are_names_unique = true;
    for (number, source) in sources.iter().enumerate() {
        for other in &sources[number + 1..] {
            are_names_unique &= other.campaign.name != source.campaign.name;
        }
    }
    for source in sources {
        let tag = if source.tags.is_empty() { "none".to_owned() } else { source.tags.join(" ") };
        let name = if are_names_unique { &source.campaign.name } else { &source.label };
        for _ in &source.campaign.runs {
            tags.push(Some(tag.clone()));
            versions.push(Some(source.campaign.tool_version.clone()));
            names.push(Some(name.clone()));
        }
    }
    [("tags", tags), ("dfsbench_version", versions), ("campaign", names)]
        .into_iter()
        .map(|(name, values)| (Property { name: name.to_owned(), values }, true))
        .collect()
}

/// Lists every fact of every scope with its value in each run.
fn list_candidates(sources: &[CampaignSource]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut numbers: BTreeMap<FactKey, usize> = BTreeMap::new();
    let mut runs = 0;
    for source in sources {
        let campaign = &source.campaign;
        for (key, mut found) in facts_by_run(campaign) {
            let number = *numbers.entry(key.clone()).or_insert(candidates.len());
            if number == candidates.len() {
                let (scope, base) = key;
                let is_found = !FOLLOWING.contains(&scope.as_str()) && !is_noise(&base);
                candidates.push(Candidate { scope, base, values: Vec::new(), is_found });
            }
            let candidate = &mut candidates[number];
            // A fact that varies within a campaign follows from its settings or is noise.
            candidate.is_found &= found.fill_constant();
            candidate.values.resize(runs, None);
            candidate.values.extend(found.values);
        }
        runs += campaign.runs.len();
    }
    for candidate in &mut candidates {
        candidate.values.resize(runs, None);
        candidate.is_found &= !are_nearly_equal(&candidate.base, &candidate.values);
    }
    candidates
}

/// Scope and name of a fact.
type FactKey = (String, String);

/// Values of a fact in the runs of a campaign.
struct FactValues {
    values: Vec<Option<String>>,
    /// True if the trials of each run agree on it.
    is_steady: bool,
}

impl FactValues {
    fn new(campaign: &Campaign) -> Self {
        Self { values: vec![None; campaign.runs.len()], is_steady: true }
    }

    /// If all runs with a value agree, gives the same value to those without one, such as runs that
    /// failed. Returns false if they do not agree.
    fn fill_constant(&mut self) -> bool {
        let first = self.values.iter().flatten().next().cloned();
        let is_constant = self.values.iter().flatten().all(|value| Some(value) == first.as_ref());
        if self.is_steady && is_constant {
            self.values.fill(first);
        }
        self.is_steady && is_constant
    }
}

/// Facts of a campaign by scope and name, with their values in each run. If the trials of a run
/// disagree on a fact, it has no value there.
fn facts_by_run(campaign: &Campaign) -> BTreeMap<FactKey, FactValues> {
    let mut found: BTreeMap<FactKey, FactValues> = BTreeMap::new();
    let key = |fact: &Fact| (fact.scope.clone(), fact.name.clone());
    for fact in &campaign.facts {
        let one = found.entry(key(fact)).or_insert_with(|| FactValues::new(campaign));
        one.values.fill(Some(fact.value.clone()));
    }
    for (number, run) in campaign.runs.iter().enumerate() {
        let mut of_run: BTreeMap<FactKey, Option<String>> = BTreeMap::new();
        for fact in run.trials.iter().flat_map(|trial| &trial.facts) {
            let known = of_run.entry(key(fact)).or_insert_with(|| Some(fact.value.clone()));
            if known.as_ref() != Some(&fact.value) {
                *known = None;
            }
        }
        for (key, value) in of_run {
            let one = found.entry(key).or_insert_with(|| FactValues::new(campaign));
            one.is_steady &= value.is_some();
            one.values[number] = value;
        }
    }
    found
}

pub(crate) fn is_noise(name: &str) -> bool {
    NOISE.iter().any(|begin| name.starts_with(begin))
}

/// Returns true if all values are numbers so close that the difference cannot matter.
pub(crate) fn are_nearly_equal(name: &str, values: &[Option<String>]) -> bool {
    let mut least = f64::INFINITY;
    let mut most = 0.0_f64;
    for value in values.iter().flatten() {
        let Some(number) = quantity(name, value) else { return false };
        least = least.min(number);
        most = most.max(number);
    }
    most < least * RATIO_MIN
}

/// Names each fact, including its host if hosts have different values.
fn name_candidates(candidates: &[Candidate]) -> Vec<(Property, bool)> {
    let mut by_base: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        by_base.entry(&candidate.base).or_default().push(candidate);
    }
    let mut named: Vec<(Property, bool)> = Vec::new();
    for (base, of_hosts) in by_base {
        let base = if base.starts_with(LABEL) {
            base.to_owned()
        } else {
            format!("fact.{}", base.replace(' ', "_"))
        };
        let are_several = of_hosts.iter().any(|other| other.values != of_hosts[0].values);
        let mut known: BTreeSet<&[Option<String>]> = BTreeSet::new();
        for candidate in of_hosts {
            // Hosts that agree in every run are one factor, named after the first of them.
            if !known.insert(&candidate.values) {
                continue;
            }
            let name = if are_several && candidate.scope != OWN_HOST {
                format!("{base}@{}", candidate.scope)
            } else {
                base.clone()
            };
            let values = candidate.values.clone();
            named.push((Property { name, values }, candidate.is_found));
        }
    }
    named
}
