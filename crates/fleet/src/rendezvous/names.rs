//! Names of agents, and lists of missing ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use model::Host;

use super::handshake::Hello;

/// Maximum number of ranges of ranks to list.
const RANGES_MAX: usize = 8;

/// An agent's name and rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankedName {
    /// Host name of the agent, with a number from the second agent on a host on.
    pub(super) name: String,
    pub(super) rank: u32,
}

/// Names the agents and orders them so that the first n are spread over as many hosts as possible.
/// `hellos` must be sorted by rank.
///
/// Agents are on the same host if both host name and kernel match. Hosts that share a name, such as
/// `localhost`, get their first agent's rank as a suffix. If a suffixed name would clash with a
/// real host name, all hosts get one.
pub(super) fn seat_agents(hellos: &[&Hello]) -> Vec<RankedName> {
    let mut on_host: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    let mut named_so: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for hello in hellos {
        on_host.entry((&hello.host, &hello.kernel)).or_default().push(hello.rank);
        named_so.entry(&hello.host).or_default().insert(&hello.kernel);
    }
    let mut plain_names = BTreeMap::new();
    let mut full_names = BTreeMap::new();
    for (&(host, kernel), ranks) in &on_host {
        let full_name = format!("{host}-{}", ranks[0]);
        let is_alone = named_so[host].len() == 1;
        plain_names
            .insert((host, kernel), if is_alone { host.to_owned() } else { full_name.clone() });
        full_names.insert((host, kernel), full_name);
    }
    // Next to two hosts named `a`, a host named `a-1` could clash with the second of them.
    let distinct: BTreeSet<&String> = plain_names.values().collect();
    let names = if distinct.len() == on_host.len() { plain_names } else { full_names };
    let mut slots = Vec::with_capacity(hellos.len());
    for (key, ranks) in &on_host {
        for (slot, rank) in (1..).zip(ranks) {
            // Order hosts by the rank of their first agents.
            slots.push((slot, ranks[0], *rank, &names[key]));
        }
    }
    slots.sort_unstable();
    let mut seats = Vec::with_capacity(slots.len());
    for (slot, _, rank, host) in slots {
        let name = if slot == 1 { host.clone() } else { Host::local(host).for_agent(slot).name };
        seats.push(RankedName { name, rank });
    }
    seats
}

/// Lists the missing ranks, as in `ranks 1, 4 to 7`.
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

    fn seated(agents: &[(&str, &str)]) -> Vec<String> {
        let size = agents.len() as u32;
        let mut hellos = Vec::new();
        for (rank, (host, kernel)) in (0..).zip(agents) {
            hellos.push(Hello { rank, size, host: (*host).into(), kernel: (*kernel).into() });
        }
        seat_agents(&hellos.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|RankedName { name, rank }| format!("{name} {rank}"))
            .collect()
    }

    #[test]
    fn spreads_first_agents_over_hosts() {
        assert_eq!(seated(&[("a", "k"), ("b", "l")]), ["a 0", "b 1"]);
        // Ranks as assigned by a launcher that fills one host after the other.
        let filled = [("b", "k"), ("b", "k"), ("b", "k"), ("a", "l"), ("a", "l")];
        assert_eq!(seated(&filled), ["b 0", "a 3", "b:2 1", "a:2 4", "b:3 2"]);
    }

    #[test]
    fn distinguishes_hosts_by_kernel() {
        let same = [("localhost", "k"), ("localhost", "l"), ("localhost", "k"), ("c", "m")];
        assert_eq!(seated(&same), ["localhost-0 0", "localhost-1 1", "c 3", "localhost-0:2 2"]);
        // A real host name may equal a suffixed one.
        let named = [("a", "k"), ("a", "l"), ("a-1", "m")];
        assert_eq!(seated(&named), ["a-0 0", "a-1 1", "a-1-2 2"]);
        // Containers share a kernel but have their own names, so they count as separate hosts.
        assert_eq!(seated(&[("a", "k"), ("b", "k")]), ["a 0", "b 1"]);
    }

    #[test]
    fn lists_missing_ranks_in_ranges() {
        assert_eq!(list_missing(|rank| rank < 2, 3), "rank 2");
        assert_eq!(list_missing(|rank| [0, 3].contains(&rank), 8), "ranks 1, 2, 4 to 7");
        let listed = list_missing(|rank| rank % 2 == 0, 100);
        assert_eq!(listed, "ranks 1, 3, 5, 7, 9, 11, 13, 15 and others");
        assert_eq!(list_missing(|_| false, 65_536), "ranks 0 to 65535");
    }
}
