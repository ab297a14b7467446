//! Rule: dependencies between the crates are those of the layers table.
//!
//! A dependency must be listed in the table, and must not go to a higher layer even if listed; one
//! within a layer is allowed if it is listed. Dev-dependencies are not restricted, but the crates
//! must not form a cycle with them.

use std::collections::BTreeMap;

use super::Finding;
use super::architecture::Architecture;
use super::metadata::{Kind, Member};

/// Crates outside the layers that use none of their crates.
const INDEPENDENT: [&str; 2] = ["xtask", "checks"];
/// The crate outside the layers that may use all of them.
const FUZZ: &str = "fuzz";

/// Checks every member of the workspace against the table.
pub fn check(architecture: &Architecture, members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        if INDEPENDENT.contains(&member.name.as_str()) {
            findings.extend(check_independent(architecture, member));
        } else if architecture.crates.contains_key(&member.name) {
            findings.extend(check_layer(architecture, member));
        } else if member.name != FUZZ {
            let message = "is in the workspace but not in the table of layers of architecture.md";
            findings.push(Finding::new(&member.name, message));
        }
    }
    findings.extend(find_cycle(members));
    findings
}

fn check_independent(architecture: &Architecture, member: &Member) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, _) in &member.uses {
        if architecture.crates.contains_key(name) {
            let message = format!("uses `{name}`, but it must use no crate of the layers");
            findings.push(Finding::new(&member.name, message));
        }
    }
    findings
}

fn check_layer(architecture: &Architecture, member: &Member) -> Vec<Finding> {
    let mut findings = Vec::new();
    let here = &architecture.crates[&member.name];
    for (name, kind) in &member.uses {
        let Some(there) = architecture.crates.get(name) else { continue };
        if *kind == Kind::Dev {
            continue;
        }
        let dependency = format!("dependency {} -> {name}", member.name);
        if there.layer > here.layer {
            let message =
                format!("leads upwards, from layer {} to layer {}", here.layer, there.layer);
            findings.push(Finding::new(dependency, message));
        } else if !here.uses.contains(name) {
            let within = if there.layer == here.layer { "is within its layer and " } else { "" };
            let message = format!("{within}is not in the table of architecture.md");
            findings.push(Finding::new(dependency, message));
        }
    }
    findings
}

/// Finds a cycle among the members, including dev-dependencies.
///
/// A crate may use itself in its tests. Crates that use none of the remaining ones are removed
/// until no more can be: the rest is on a cycle or depends on one.
fn find_cycle(members: &[Member]) -> Option<Finding> {
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in members {
        let others = uses.entry(member.name.as_str()).or_default();
        for (name, _) in &member.uses {
            if *name != member.name {
                others.push(name);
            }
        }
    }
    let mut left: Vec<&str> = uses.keys().copied().collect();
    loop {
        let before = left.clone();
        left.retain(|name| uses[name].iter().any(|used| before.contains(used)));
        if left.is_empty() {
            return None;
        }
        if left.len() == before.len() {
            let message = "crates use each other in a cycle (dev-dependencies included)";
            return Some(Finding::new(left.join(", "), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| layer | crate | what it is | may use |\n|---|---|---|---|\n\
        | 4 | `dfsbench` (bin) | x | engine, lab |\n| 2 | `engine` | x | nfs-client, model |\n\
        | 2 | `nfs-client` | x | model |\n| 2 | `lab` | x | model, engine |\n\
        | 0 | `model` (pure) | x | none |\n";

    fn member(name: &str, uses: &[(&str, Kind)]) -> Member {
        let uses = uses.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Member { name: name.to_owned(), uses, outside: Vec::new() }
    }

    fn messages(members: &[Member]) -> Vec<String> {
        let architecture = Architecture::parse(PAGE).unwrap();
        check(&architecture, members).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn accepts_listed_dependencies() {
        let engine = member("engine", &[("nfs-client", Kind::Normal), ("model", Kind::Normal)]);
        let bin = member("dfsbench", &[("engine", Kind::Normal), ("lab", Kind::Build)]);
        assert_eq!(messages(&[engine, bin]), Vec::<String>::new());
    }

    #[test]
    fn finds_dependency_on_higher_layer() {
        let found = messages(&[member("model", &[("engine", Kind::Normal)])]);
        let want = "error: dependency model -> engine: leads upwards, from layer 0 to layer 2";
        assert_eq!(found, [want]);
    }

    #[test]
    fn finds_unlisted_dependency_within_layer() {
        let found = messages(&[member("nfs-client", &[("engine", Kind::Normal)])]);
        let want = "error: dependency nfs-client -> engine: \
                    is within its layer and is not in the table of architecture.md";
        assert_eq!(found, [want]);
    }

    #[test]
    fn allows_test_dependencies_without_cycle() {
        let lab = member("lab", &[("dfsbench", Kind::Dev)]);
        assert!(messages(&[lab.clone(), member("dfsbench", &[])]).is_empty());
        let found = messages(&[lab, member("dfsbench", &[("lab", Kind::Normal)])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("dfsbench, lab: crates use each other"), "{found:?}");
    }

    #[test]
    fn finds_crate_without_row() {
        assert!(messages(&[member("shed", &[])])[0].contains("not in the table"));
        let found = messages(&[member("xtask", &[("model", Kind::Normal)])]);
        assert!(found[0].contains("uses `model`"), "{found:?}");
    }
}
