//! Divides the clients of a trace among hosts.
//!
//! Clients whose steps wait for each other are kept on the same host as far as the load permits, so
//! that few notices have to be sent between hosts. Every host creates the same plan from the same
//! trace and executes the steps of its own clients. The other steps remain in the plan as nodes
//! that end when a notice arrives.

use serde::{Deserialize, Serialize};

use crate::order::Graph;
use crate::step::Batch;

/// A group of clients is kept together if its load is at most this multiple of a host's fair share.
const GROUP_MAX: f64 = 1.25;

/// The host of each client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Division {
    host_of: Vec<u32>,
}

/// Clients that stay together.
struct Group {
    clients: Vec<u32>,
    ops: usize,
}

impl Division {
    /// Divides the clients of a batch among `hosts` hosts with roughly equal numbers of steps.
    pub fn new(batch: &Batch, hosts: u32) -> Self {
        let fair_ops = batch.steps.len() as f64 / f64::from(hosts.max(1));
        let mut groups = Vec::new();
        for group in groups_of(batch) {
            if group.ops as f64 <= fair_ops * GROUP_MAX {
                groups.push(group);
                continue;
            }
            for client in group.clients {
                let ops = batch.clients[client as usize].len();
                groups.push(Group { clients: vec![client], ops });
            }
        }
        // Assign large groups first, so that small ones even out the differences.
        groups.sort_by_key(|group| std::cmp::Reverse(group.ops));
        let mut ops_of_hosts = vec![0; hosts.max(1) as usize];
        let mut host_of = vec![0; batch.clients.len()];
        for group in groups {
            let mut lightest = 0;
            for (host, ops) in ops_of_hosts.iter().enumerate() {
                if *ops < ops_of_hosts[lightest] {
                    lightest = host;
                }
            }
            ops_of_hosts[lightest] += group.ops;
            for client in group.clients {
                host_of[client as usize] = lightest as u32;
            }
        }
        Self { host_of }
    }

    /// Returns the clients of a host, by their numbers in the trace.
    pub fn clients_of(&self, host: u32) -> Vec<u32> {
        self.host_of
            .iter()
            .enumerate()
            .filter_map(|(client, its_host)| (*its_host == host).then_some(client as u32))
            .collect()
    }

    pub(crate) fn host_of(&self, client: u32) -> u32 {
        self.host_of[client as usize]
    }

    /// Adds to `hosts` the other hosts with steps that wait for this one.
    pub fn hosts_waiting_for(&self, batch: &Batch, step: u32, hosts: &mut Vec<u32>) {
        let own = self.host_of(batch.steps[step as usize].client);
        let mut nodes = batch.graph.successors(step).to_vec();
        while let Some(node) = nodes.pop() {
            let Some(client) = client_of(batch, node) else {
                nodes.extend(batch.graph.successors(node));
                continue;
            };
            let host = self.host_of(client);
            if host != own && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }

    /// Returns for each step whether a step of another host waits for it.
    pub(crate) fn awaited(&self, batch: &Batch) -> Vec<bool> {
        // Go from the last node to the first: joins come after all steps, and a join can only wait
        // for one created before it.
        let joins = batch.graph.join_count();
        let steps = batch.steps.len();
        let mut hosts_behind = vec![WaitingHosts::None; joins];
        for join in (0..joins).rev() {
            for successor in batch.graph.successors((steps + join) as u32) {
                let behind = self.waiting_at(batch, *successor, &hosts_behind);
                hosts_behind[join] = hosts_behind[join].and(behind);
            }
        }
        let mut awaited = Vec::with_capacity(steps);
        for (number, step) in batch.steps.iter().enumerate() {
            let own = self.host_of(step.client);
            let mut waiting = WaitingHosts::None;
            for successor in batch.graph.successors(number as u32) {
                waiting = waiting.and(self.waiting_at(batch, *successor, &hosts_behind));
            }
            awaited.push(waiting != WaitingHosts::None && waiting != WaitingHosts::Host(own));
        }
        awaited
    }

    fn waiting_at(&self, batch: &Batch, node: u32, hosts_behind: &[WaitingHosts]) -> WaitingHosts {
        match client_of(batch, node) {
            Some(client) => WaitingHosts::Host(self.host_of(client)),
            None => hosts_behind[(node - batch.graph.steps) as usize],
        }
    }
}

/// The hosts that wait for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingHosts {
    None,
    Host(u32),
    Several,
}

impl WaitingHosts {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, other) => other,
            (one, Self::None) => one,
            (one, other) if one == other => one,
            _ => Self::Several,
        }
    }
}

/// Returns the client of a node, or `None` if it is a join.
fn client_of(batch: &Batch, node: u32) -> Option<u32> {
    batch.steps.get(node as usize).map(|step| step.client)
}

/// Groups clients whose steps wait for each other.
fn groups_of(batch: &Batch) -> Vec<Group> {
    let clients = batch.clients.len();
    let mut sets = Sets::new(clients + batch.graph.join_count());
    let Graph { steps, .. } = batch.graph;
    let set_of = |node: u32| match client_of(batch, node) {
        Some(client) => client as usize,
        None => clients + (node - steps) as usize,
    };
    for node in 0..batch.graph.waits.len() as u32 {
        for successor in batch.graph.successors(node) {
            sets.unite(set_of(node), set_of(*successor));
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of = vec![None; clients + batch.graph.join_count()];
    for client in 0..clients {
        let root = sets.root(client);
        let at = *group_of[root].get_or_insert_with(|| {
            groups.push(Group { clients: Vec::new(), ops: 0 });
            groups.len() - 1
        });
        groups[at].clients.push(client as u32);
        groups[at].ops += batch.clients[client].len();
    }
    groups
}

/// Disjoint sets of numbers.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self { parents: (0..count).collect() }
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            // Path halving speeds up the next search.
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn unite(&mut self, one: usize, other: usize) {
        let one = self.root(one);
        let other = self.root(other);
        self.parents[one.max(other)] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::order::{AccessKind, DependencyBuilder, Resource, Span};
    use crate::step::Step;

    /// Returns a batch in which clients create or read files, one after the other.
    fn batch(accesses: &[(u32, u32, AccessKind)], clients: usize) -> Batch {
        let mut order = DependencyBuilder::default();
        let mut steps = Vec::new();
        for (number, (client, file, class)) in accesses.iter().enumerate() {
            let instant = number as u64 * 10;
            let span = Span { start_ns: instant, end_ns: instant + 5 };
            order.access(number as u32, span, Resource::File(*file), *class);
            steps.push(Step { client: *client, ..Step::new(Action::Getattr) });
        }
        Batch::new(steps, order, clients)
    }

    #[test]
    fn keeps_dependent_clients_together() {
        use AccessKind::{Exclusive, Read};
        // Clients 0 and 2 share a file, 1 and 3 another one.
        let batch = batch(
            &[
                (0, 0, Exclusive),
                (1, 1, Exclusive),
                (2, 0, Read),
                (3, 1, Read),
                (0, 0, Exclusive),
                (1, 1, Exclusive),
            ],
            4,
        );
        let division = Division::new(&batch, 2);
        assert_eq!(division.clients_of(0), [0, 2]);
        assert_eq!(division.clients_of(1), [1, 3]);
        assert_eq!(division.awaited(&batch), [false; 6]);
    }

    #[test]
    fn divides_large_group_across_hosts() {
        use AccessKind::{Change, Exclusive, Read};
        // All share one file; the last client waits for the first three through a join.
        let batch = batch(
            &[(0, 0, Read), (1, 0, Read), (2, 0, Read), (3, 0, Change), (3, 9, Exclusive)],
            4,
        );
        assert_eq!(batch.graph.join_count(), 1);
        let division = Division::new(&batch, 2);
        assert_eq!(division.clients_of(0), [2, 3]);
        assert_eq!(division.awaited(&batch), [true, true, false, false, false]);
        for (step, waiting) in [(0, vec![0]), (1, vec![0]), (2, vec![]), (3, vec![])] {
            let mut hosts = Vec::new();
            division.hosts_waiting_for(&batch, step, &mut hosts);
            assert_eq!(hosts, waiting, "step {step}");
        }
    }

    #[test]
    fn loads_are_even() {
        let mut accesses = Vec::new();
        for client in 0..10_u32 {
            accesses.extend((0..=client).map(|_| (client, client, AccessKind::Read)));
        }
        let batch = batch(&accesses, 10);
        let division = Division::new(&batch, 3);
        for host in 0..3 {
            let ops: usize = division
                .clients_of(host)
                .into_iter()
                .map(|client| batch.clients[client as usize].len())
                .sum();
            assert!((17..=20).contains(&ops), "host {host}: {ops} of 55");
        }
        // If there are more hosts than clients, some have no work.
        assert_eq!(Division::new(&batch, 20).clients_of(19), [] as [u32; 0]);
    }
}
