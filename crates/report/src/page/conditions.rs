//! Parts of the page that show the conditions of the measurement and how to repeat it.
//!
//! Host settings as read back, the plan and the command. All of it is text from the results and
//! escaped by maud.

use std::collections::{BTreeMap, HashSet};

use maud::{Markup, html};
use model::{Campaign, Fact};

use crate::campaign::host_settings;

/// Lists the settings of this host, the targets and the hosts of a lab, with their sources.
pub(crate) fn facts(campaign: &Campaign) -> Markup {
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

/// Collapses the settings that are the same for all runs or follow from others.
pub(crate) fn settings(stated: &[(&str, String)]) -> Markup {
    html! {
        @if !stated.is_empty() {
            details {
                summary { "Other settings (" (stated.len()) ")" }
                dl.conditions { @for (name, value) in stated { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// Maximum number of facts to list per target; JSON has those that vary between trials.
const FACTS_MAX: usize = 200;

/// Distinct facts of each target, in order of appearance.
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

/// Renders settings with their values and sources.
fn settings_table<'a>(
    title: &str,
    rows: impl Iterator<Item = (&'a str, String, &'a str)>,
) -> Markup {
    let mut rows = rows.peekable();
    html! {
        @if rows.peek().is_some() {
            details {
                summary { (title) }
                div.scroll role="region" aria-label=(title) tabindex="0" {
                    table.facts {
                        caption { "Settings as read, with their source." }
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
}

/// Renders the plan and the command that repeats the campaign.
pub(super) fn repeat(campaign: &Campaign) -> Markup {
    html! {
        details {
            summary { "The whole plan, with every default" }
            pre tabindex="0" role="region" aria-label="Plan" { code { (campaign.plan_toml) } }
        }
        h3 #repeat { "How to repeat it" }
        p { "The command, of dfsbench " (campaign.tool_version) ", with seed "
            code { (campaign.seed) } ":" }
        pre tabindex="0" role="region" aria-label="Command" { code { (campaign.command) } }
    }
}
