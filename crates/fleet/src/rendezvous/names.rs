//! Names of agents, and lists of those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::handshake::Hello;

/// Ranges of ranks that are listed, at most.
const RANGES_MAX: usize = 8;

/// Names agents by their hosts; those that share a host by their ranks, too.
///
/// Where a host is called as an agent of another one would be, all are named by their ranks.
pub(super) fn agent_names(hellos: &[&Hello]) -> Vec<String> {
    let mut on_host: BTreeMap<&str, usize> = BTreeMap::new();
    for hello in hellos {
        *on_host.entry(&hello.host).or_default() += 1;
    }
    let (mut names, mut full_names) = (Vec::new(), Vec::new());
    for hello in hellos {
        let full_name = format!("{}-{}", hello.host, hello.rank);
        let is_alone = on_host[hello.host.as_str()] == 1;
        names.push(if is_alone { hello.host.clone() } else { full_name.clone() });
        full_names.push(full_name);
    }
    // A host `a-1` beside two agents of host `a` would share the name of the second one.
    let distinct: BTreeSet<&String> = names.iter().collect();
    if distinct.len() == names.len() { names } else { full_names }
}

/// Lists ranks that are missing, as in `ranks 1, 4 to 7`.
pub(super) fn list_missing(has_connected: impl Fn(u32) -> bool, count: u32) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut ranks = 0_u32;
    for rank in 0..count {
        if has_connected(rank) {
            continue;
        }
        ranks += 1;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let mut text = (if ranks == 1 { "rank" } else { "ranks" }).to_owned();
    for (index, (first, last)) in ranges.iter().take(RANGES_MAX).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string never fails.
        let _ = match last - first {
            0 => write!(text, "{comma} {first}"),
            1 => write!(text, "{comma} {first}, {last}"),
            _ => write!(text, "{comma} {first} to {last}"),
        };
    }
    if ranges.len() > RANGES_MAX {
        text.push_str(" and others");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(agents: &[(&str, u32)]) -> Vec<String> {
        let size = agents.len() as u32;
        let hello = |(host, rank): &(&str, u32)| Hello { rank: *rank, size, host: (*host).into() };
        let hellos: Vec<Hello> = agents.iter().map(hello).collect();
        agent_names(&hellos.iter().collect::<Vec<_>>())
    }

    #[test]
    fn hosts_name_their_agents_and_ranks_those_that_share_one() {
        assert_eq!(named(&[("a", 0), ("b", 1)]), ["a", "b"]);
        assert_eq!(named(&[("a", 0), ("a", 1), ("b", 2)]), ["a-0", "a-1", "b"]);
        // A host may be called as an agent would be.
        let names = named(&[("a", 0), ("a", 1), ("a-1", 2)]);
        assert_eq!(names, ["a-0", "a-1", "a-1-2"]);
    }

    #[test]
    fn missing_ranks_are_listed_in_ranges_and_not_endlessly() {
        assert_eq!(list_missing(|rank| rank < 2, 3), "rank 2");
        assert_eq!(list_missing(|rank| [0, 3].contains(&rank), 8), "ranks 1, 2, 4 to 7");
        let listed = list_missing(|rank| rank % 2 == 0, 100);
        assert_eq!(listed, "ranks 1, 3, 5, 7, 9, 11, 13, 15 and others");
        assert_eq!(list_missing(|_| false, 65_536), "ranks 0 to 65535");
    }
}
