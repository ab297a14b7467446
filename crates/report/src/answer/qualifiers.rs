//! Qualifies a comparison whose intervals are apart but whose sides are not alike: one side read
//! from memory, one did not wait for stable storage, or one shared its host with the server.
//!
//! What concerns one pass stands beside it; what concerns a target as such is said once.

use model::{CaveatCode, Pass, Target};

use super::group::{Figure, Group};
use crate::show::listed;

/// So many figures of a target are named; more are counted.
const NAMED_MAX: usize = 2;

/// Reports whether anything qualifies a finding.
pub fn is_qualified(group: &Group<'_>) -> bool {
    !qualify_group(group).is_empty()
}

/// Adds the qualifications to a finding, and ends the sentence.
pub fn with_notes(group: &Group<'_>, finding: &str) -> String {
    let notes = qualify_group(group);
    if notes.is_empty() {
        return format!("{finding}.");
    }
    format!("{finding}. Mind that {}.", notes.join("; "))
}

fn qualify_group(group: &Group<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let cached = figures_with_caveat(group, CaveatCode::Cached);
    if cached.len() == group.figures.len() {
        notes.push("all of it came from this host's memory (cached)".to_owned());
    } else if !cached.is_empty() {
        notes.push(format!(
            "{} came from this host's memory (cached)",
            name_figures(group, &cached)
        ));
    }
    let unsafe_ones = figures_with_caveat(group, CaveatCode::NotDurable);
    if !unsafe_ones.is_empty() && unsafe_ones.len() < group.figures.len() {
        let who = name_figures(group, &unsafe_ones);
        notes.push(format!("for {who} nobody waited until the data was safe (not-durable)"));
    }
    let fallback = figures_with_caveat(group, CaveatCode::BackendFallback);
    if !fallback.is_empty() {
        let who = name_figures(group, &fallback);
        notes.push(format!("{who} used another backend than asked for (backend-fallback)"));
    }
    notes.extend(created_differently(group));
    notes
}

/// Files are created with different promises on NFS and in a directory.
fn created_differently(group: &Group<'_>) -> Option<String> {
    let named = |wanted: fn(&Target) -> bool| {
        let figures = group.figures.iter();
        let names = figures.filter(|figure| wanted(&figure.row.run.spec.target));
        let mut names: Vec<String> = names.map(|figure| figure.target().to_owned()).collect();
        names.dedup();
        listed(&names)
    };
    let nfs = named(|target| target.nfs().is_some());
    let directories = named(Target::is_local);
    (group.pass == Pass::Create && !nfs.is_empty() && !directories.is_empty())
        .then(|| format!("{nfs} wrote with FILE_SYNC, on {directories} files were only closed"))
}

/// The figures that have a caveat.
fn figures_with_caveat<'a>(group: &Group<'a>, code: CaveatCode) -> Vec<Figure<'a>> {
    let has = |figure: &&Figure<'a>| figure.row.judged.caveats.iter().any(|c| c.code == code);
    group.figures.iter().filter(has).copied().collect()
}

/// Names figures: by their target where they are all of it, else one by one or by their number.
fn name_figures<'a>(group: &Group<'a>, figures: &[Figure<'a>]) -> String {
    let mut names = Vec::new();
    for target in group.targets() {
        let some: Vec<_> = figures.iter().filter(|figure| figure.target() == target).collect();
        match (some.len(), group.of(target).len()) {
            (0, _) => {}
            (count, all) if count == all => names.push(target.to_owned()),
            (1..=NAMED_MAX, _) => names.extend(some.iter().map(|figure| group.place(figure))),
            (count, all) => names.push(format!("{target} ({count} of {all})")),
        }
    }
    listed(&names)
}

/// Says of targets that were compared what sets them apart in every pass.
pub fn remark(groups: &[Group<'_>]) -> Option<String> {
    let figures: Vec<_> = groups.iter().filter(|g| g.targets().len() > 1).collect();
    let figures: Vec<_> = figures.iter().flat_map(|group| &group.figures).collect();
    let some = |wanted: &dyn Fn(&Figure<'_>) -> bool| {
        let mut names: Vec<String> = Vec::new();
        for figure in figures.iter().filter(|figure| wanted(figure)) {
            if !names.contains(&figure.row.run.spec.target_name) {
                names.push(figure.row.run.spec.target_name.clone());
            }
        }
        let is_some = !names.is_empty() && figures.iter().any(|figure| !wanted(figure));
        is_some.then_some(names)
    };
    let is = |names: &[String]| if names.len() == 1 { "is" } else { "are" };
    let mut parts = Vec::new();
    if let Some(names) = some(&|figure| in_memory(&figure.row.run.spec.target)) {
        parts.push(format!("{} {} a server in memory, not storage", listed(&names), is(&names)));
    }
    let shared = |figure: &Figure<'_>| {
        figure.row.judged.caveats.iter().any(|caveat| caveat.code == CaveatCode::SharedHost)
    };
    if let Some(names) = some(&shared) {
        let names = listed(&names);
        parts.push(format!("{names} shared the host's processors with its server (shared-host)"));
    }
    if let Some(names) = some(&|figure| figure.row.run.spec.target.keeps_nothing()) {
        parts.push(format!("{} {} the tool alone", listed(&names), is(&names)));
    }
    (!parts.is_empty()).then(|| format!("Not like with like: {}.", parts.join("; ")))
}

fn in_memory(target: &Target) -> bool {
    target.nfs().is_some_and(|nfs| nfs.embedded)
}
