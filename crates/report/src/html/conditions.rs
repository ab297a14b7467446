//! The parts of the page that show the request, and under what conditions was measured.
//!
//! Targets, workloads and factors, settings of hosts as they were read, the plan, and how to
//! repeat the campaign; all of it text from the results, escaped by maud.

use std::collections::{BTreeMap, HashSet};

use maud::{Markup, html};
use model::{Campaign, Fact};

use crate::experiment::Experiment;
use crate::host_settings;
use crate::sheet::Sheet;

/// Writes the request, before any answer; nothing where no run was stored.
pub fn experiment(sheet: &Sheet<'_>) -> Markup {
    let experiment = Experiment::of(sheet);
    html! {
        @if !sheet.campaign.runs.is_empty() {
            section aria-labelledby="requested" {
                h2 #requested { "Requested" }
                dl.conditions {
                    @for (name, sentence) in &experiment.work {
                        dt { "workload " (name) }
                        dd { (sentence) }
                    }
                    @for (name, place) in &experiment.targets {
                        dt { "target " (name) }
                        dd { (place) }
                    }
                    @for (name, levels) in &experiment.factors {
                        dt { "varied: " (name) }
                        dd { (levels) }
                    }
                    dt { "altogether" }
                    dd { (experiment.extent) }
                }
            }
        }
    }
}

/// Lists the settings of this host, the targets and the hosts of a lab, each with its source.
pub fn facts(campaign: &Campaign) -> Markup {
    html! {
        (facts_table("The host", &campaign.facts.iter().collect::<Vec<_>>()))
        @for (target, effective) in facts_of_targets(campaign) {
            (facts_table(&format!("Effective at {target}"), &effective))
        }
        @for host in host_settings::effective(campaign) {
            (settings_table(
                &format!("Effective on host {}", host.host),
                host.settings.iter().map(|set| (set.name, set.shown(), set.source)),
            ))
        }
    }
}

/// So many facts of a target are listed; what differs from trial to trial is in JSON.
const FACTS_MAX: usize = 200;

/// The facts of each target, every distinct one once, in order of appearance.
fn facts_of_targets(campaign: &Campaign) -> BTreeMap<&str, Vec<&Fact>> {
    let hosts: HashSet<&str> = host_settings::names(campaign).into_iter().collect();
    let mut targets: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
    for run in &campaign.runs {
        let known = targets.entry(&run.spec.target_name).or_default();
        for fact in run.trials.iter().flat_map(|trial| &trial.facts) {
            if known.len() < FACTS_MAX
                && !known.contains(&fact)
                && !hosts.contains(&fact.scope.as_str())
            {
                known.push(fact);
            }
        }
    }
    targets
}

fn facts_table(title: &str, facts: &[&Fact]) -> Markup {
    let rows = facts.iter().map(|fact| (fact.name.as_str(), fact.value.clone(), &*fact.source));
    settings_table(title, rows)
}

/// Settings with their values and sources.
fn settings_table<'a>(
    title: &str,
    rows: impl Iterator<Item = (&'a str, String, &'a str)>,
) -> Markup {
    let mut rows = rows.peekable();
    html! {
        @if rows.peek().is_some() {
            h3 { (title) }
            div.scroll role="region" aria-label=(title) tabindex="0" {
                table.facts {
                    caption { "Settings as they were read, with their source." }
                    thead {
                        tr {
                            th scope="col" { "setting" }
                            th scope="col" { "value" }
                            th scope="col" { "source" }
                        }
                    }
                    tbody {
                        @for (name, value, source) in rows {
                            tr {
                                th scope="row" { (name) }
                                td { (value) }
                                td.source { (source) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The section on how to repeat the campaign.
pub fn repeat(campaign: &Campaign) -> Markup {
    html! {
        section aria-labelledby="repeat" {
            h2 #repeat { "How to repeat it" }
            p { "The command, of dfsbench " (campaign.tool_version) ", with seed "
                code { (campaign.seed) } ":" }
            pre tabindex="0" role="region" aria-label="Command" { code { (campaign.command) } }
            details {
                summary { "The whole plan, every default written out" }
                pre tabindex="0" role="region" aria-label="Plan" { code { (campaign.plan_toml) } }
            }
        }
    }
}
