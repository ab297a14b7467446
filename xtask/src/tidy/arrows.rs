//! Rule: dependencies between the crates of the house are those of the table of floors.
//!
//! An arrow must be named in the table, and must not point up whatever the table says; an arrow
//! that stays on its floor is allowed where it is named. Dev-dependencies are free, but the house
//! must form no circle with them.

use std::collections::BTreeMap;

use super::Finding;
use super::house::House;
use super::metadata::{Kind, Member};

/// The crate that stands beside the house and uses none of it.
const BESIDE: &str = "xtask";
/// The crate that stands beside the house and may use all of it.
const OUTSIDE: &str = "fuzz";

/// Checks every member of the workspace against the table.
pub fn check(house: &House, members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        if member.name == BESIDE {
            findings.extend(beside(house, member));
        } else if house.rooms.contains_key(&member.name) {
            findings.extend(room(house, member));
        } else if member.name != OUTSIDE {
            let message = "is in the workspace but not in the table of floors of house.md";
            findings.push(Finding::error(&member.name, message));
        }
    }
    findings.extend(circles(members));
    findings
}

fn beside(house: &House, member: &Member) -> Vec<Finding> {
    let uses = member.uses.iter().filter(|(name, _)| house.rooms.contains_key(name));
    uses.map(|(name, _)| Finding::error(BESIDE, format!("uses `{name}` of the house"))).collect()
}

fn room(house: &House, member: &Member) -> Vec<Finding> {
    let mut findings = Vec::new();
    let here = &house.rooms[&member.name];
    for (name, kind) in &member.uses {
        let Some(there) = house.rooms.get(name) else { continue };
        if *kind == Kind::Dev {
            continue;
        }
        let arrow = format!("arrow {} -> {name}", member.name);
        if there.floor > here.floor {
            let message = format!("points up, from floor {} to floor {}", here.floor, there.floor);
            findings.push(Finding::error(arrow, message));
        } else if !here.uses.allow(name) {
            let way = if there.floor == here.floor { "points sideways and " } else { "" };
            findings.push(Finding::error(arrow, format!("{way}is not in the table of house.md")));
        }
    }
    findings
}

/// Finds circles among the members, dev-dependencies included.
///
/// A crate may use itself in its tests.
fn circles(members: &[Member]) -> Vec<Finding> {
    let edges: BTreeMap<&str, Vec<&str>> = members
        .iter()
        .map(|member| {
            let others = member.uses.iter().map(|(name, _)| name.as_str());
            (member.name.as_str(), others.filter(|name| *name != member.name).collect())
        })
        .collect();
    let mut left: Vec<&str> = edges.keys().copied().collect();
    loop {
        let before = left.len();
        let now = left.clone();
        left.retain(|name| edges[name].iter().any(|used| now.contains(used)));
        if left.is_empty() {
            return Vec::new();
        }
        if left.len() == before {
            let message = "crates use each other in a circle (dev-dependencies included)";
            return vec![Finding::error(left.join(", "), message)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| floor | crate | what it is | may use |\n|---|---|---|---|\n\
        | 4 | `dfsbench` (bin) | x | all |\n| 2 | `engine` | x | nfs-client, model |\n\
        | 2 | `nfs-client` | x | model |\n| 2 | `lab` | x | model, engine |\n\
        | 0 | `model` (pure) | x | none |\n";

    fn member(name: &str, uses: &[(&str, Kind)]) -> Member {
        let uses = uses.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Member { name: name.to_owned(), uses, outside: Vec::new() }
    }

    fn messages(members: &[Member]) -> Vec<String> {
        let house = House::parse(PAGE).unwrap();
        check(&house, members).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_of_the_table_pass_sideways_ones_that_are_named_too() {
        let engine = member("engine", &[("nfs-client", Kind::Normal), ("model", Kind::Normal)]);
        let bin = member("dfsbench", &[("engine", Kind::Normal), ("lab", Kind::Build)]);
        assert_eq!(messages(&[engine, bin]), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_up_is_found() {
        let found = messages(&[member("model", &[("engine", Kind::Normal)])]);
        assert_eq!(found, ["error: arrow model -> engine: points up, from floor 0 to floor 2"]);
    }

    #[test]
    fn an_arrow_sideways_that_is_not_named_is_found() {
        let found = messages(&[member("nfs-client", &[("engine", Kind::Normal)])]);
        let want = "error: arrow nfs-client -> engine: \
                    points sideways and is not in the table of house.md";
        assert_eq!(found, [want]);
    }

    #[test]
    fn tests_may_look_up_but_not_in_a_circle() {
        let lab = member("lab", &[("dfsbench", Kind::Dev)]);
        assert!(messages(&[lab.clone(), member("dfsbench", &[])]).is_empty());
        let found = messages(&[lab, member("dfsbench", &[("lab", Kind::Normal)])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("dfsbench, lab: crates use each other"), "{found:?}");
    }

    #[test]
    fn a_crate_that_the_page_does_not_know_is_found() {
        assert!(messages(&[member("shed", &[])])[0].contains("not in the table"));
        assert!(
            messages(&[member("xtask", &[("model", Kind::Normal)])])[0].contains("uses `model`")
        );
    }
}
