//! Qualifies a comparison whose intervals do not overlap but whose sides are not alike: one side
//! read from memory, did not wait for stable storage, or shared its host with the server.
//!
//! Qualifications of one pass follow its comparison; those of a whole target are stated once.

use model::{CaveatCode, Pass};

use super::group::{Group, UsableRow};
use crate::humanize::listed;

/// Maximum number of results of a target to name; more are only counted.
const NAMED_MAX: usize = 2;

pub(super) fn is_qualified(group: &Group<'_>) -> bool {
    !qualify_group(group).is_empty()
}

/// Adds the qualifications to a finding and ends the sentence.
pub(super) fn with_notes(group: &Group<'_>, finding: &str) -> String {
    let notes = qualify_group(group);
    if notes.is_empty() {
        return format!("{finding}.");
    }
    format!("{finding}. Note that {}.", notes.join("; "))
}

fn qualify_group(group: &Group<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let cached = figures_with_caveat(group, CaveatCode::Cached);
    if cached.len() == group.figures.len() {
        notes.push("all of it was read from this host's memory (cached)".to_owned());
    } else if !cached.is_empty() {
        notes.push(format!(
            "{} read from this host's memory (cached)",
            name_figures(group, &cached)
        ));
    }
    let unsafe_ones = figures_with_caveat(group, CaveatCode::NotDurable);
    if !unsafe_ones.is_empty() && unsafe_ones.len() < group.figures.len() {
        let who = name_figures(group, &unsafe_ones);
        notes.push(format!("{who} did not wait for stable storage (not-durable)"));
    }
    let fallback = figures_with_caveat(group, CaveatCode::BackendFallback);
    if !fallback.is_empty() {
        let who = name_figures(group, &fallback);
        notes.push(format!("{who} used another backend than requested (backend-fallback)"));
    }
    notes.extend(created_differently(group));
    notes
}

/// NFS and local directories create files with different durability.
fn created_differently(group: &Group<'_>) -> Option<String> {
    let mut nfs = Vec::new();
    let mut directories = Vec::new();
    for figure in &group.figures {
        let target = &figure.row.run.spec.target;
        if target.nfs().is_some() {
            nfs.push(figure.target().to_owned());
        }
        if target.is_local() {
            directories.push(figure.target().to_owned());
        }
    }
    if group.pass != Pass::Create || nfs.is_empty() || directories.is_empty() {
        return None;
    }
    // Results are grouped by target, so duplicates are always adjacent.
    nfs.dedup();
    directories.dedup();
    let nfs = listed(&nfs);
    let directories = listed(&directories);
    Some(format!("{nfs} wrote with FILE_SYNC, while on {directories}, files were only closed"))
}

fn figures_with_caveat<'a>(group: &Group<'a>, code: CaveatCode) -> Vec<UsableRow<'a>> {
    let mut figures = group.figures.clone();
    figures.retain(|figure| has_caveat(figure, code));
    figures
}

fn shares_host(figure: &UsableRow<'_>) -> bool {
    has_caveat(figure, CaveatCode::SharedHost)
}

/// Returns true if several agents produced the result.
fn is_from_several_agents(figure: &UsableRow<'_>) -> bool {
    figure.row.run.spec.agents() > 1
}

fn has_caveat(figure: &UsableRow<'_>, code: CaveatCode) -> bool {
    figure.row.judged.caveats.iter().any(|caveat| caveat.code == code)
}

/// Names results: by target if all of its results are included, otherwise one by one or by count.
fn name_figures<'a>(group: &Group<'a>, figures: &[UsableRow<'a>]) -> String {
    let mut names = Vec::new();
    for target in group.targets() {
        let some: Vec<_> = figures.iter().filter(|figure| figure.target() == target).collect();
        match (some.len(), group.figures_of(target).len()) {
            (0, _) => {}
            (count, all) if count == all => names.push(target.to_owned()),
            (1..=NAMED_MAX, _) => names.extend(some.iter().map(|figure| group.place(figure))),
            (count, all) => names.push(format!("{target} ({count} of {all})")),
        }
    }
    listed(&names)
}

/// Describes what distinguishes the compared targets in every pass.
pub(super) fn remark(groups: &[Group<'_>]) -> Option<String> {
    let mut figures = Vec::new();
    for group in groups {
        if group.targets().len() > 1 {
            figures.extend(&group.figures);
        }
    }
    let mut parts = Vec::new();
    if let Some((names, is)) = names_apart(&figures, in_memory) {
        parts.push(format!("{names} {is} a server in memory, not storage"));
    }
    if let Some((names, _)) =
        names_apart(&figures, |f| shares_host(f) && !is_from_several_agents(f))
    {
        parts.push(format!("{names} shared the host's CPUs with its server (shared-host)"));
    }
    if let Some((names, is)) =
        names_apart(&figures, |f| shares_host(f) && is_from_several_agents(f))
    {
        parts.push(format!("{names} {is} from several hosts on one machine (shared-host)"));
    }
    if let Some((names, is)) = names_apart(&figures, |f| f.row.run.spec.target.keeps_nothing()) {
        parts.push(format!("{names} {is} the tool alone"));
    }
    if parts.is_empty() {
        return None;
    }
    Some(format!("Not directly comparable: {}.", parts.join("; ")))
}

/// Names the targets of the results that have a property, with the verb (`is` or `are`). `None` if
/// all or none of the results have it, because it then distinguishes no target.
fn names_apart(
    figures: &[&UsableRow<'_>],
    has_property: fn(&UsableRow<'_>) -> bool,
) -> Option<(String, &'static str)> {
    let mut names = Vec::new();
    let mut all = true;
    for figure in figures {
        let name = &figure.row.run.spec.target_name;
        if !has_property(figure) {
            all = false;
        } else if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() || all {
        return None;
    }
    Some((listed(&names), if names.len() == 1 { "is" } else { "are" }))
}

fn in_memory(figure: &UsableRow<'_>) -> bool {
    figure.row.run.spec.target.nfs().is_some_and(|nfs| nfs.embedded)
}
