//! Dependencies between steps.
//!
//! Two steps are ordered if one got its reply before the other started, and they need the same
//! thing (a file, a name, the entries of a directory, an open) in conflicting ways. Steps that were
//! in flight at the same time in the trace may be so again.
//!
//! [`DependencyBuilder`] takes the accesses in the order in which steps started. Accesses to a
//! thing form epochs of a single class, whose accesses don't conflict. When the class changes, the
//! next epoch waits for all accesses of the previous one that have ended by then. This is
//! represented by an additional node, a join, so that a thousand readers followed by a thousand
//! writers take two thousand edges instead of a million. The result is a [`Graph`].

use std::collections::HashMap;

/// Something that steps need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A file or directory.
    File(u32),
    /// A name in a directory.
    Name(u32, u32),
    /// All entries of a directory.
    Entries(u32),
    /// The state of an open, or the position of a listing.
    Slot(u32),
}

/// How something is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// It must exist; any number can go together.
    Read,
    /// Its content is changed; any number can go together, but not with `Read`.
    Change,
    /// It is created, removed or truncated; nothing can go together with this.
    Exclusive,
}

/// When a step of the trace was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it started, in nanoseconds.
    pub start_ns: u64,
    /// When its reply arrived, in nanoseconds.
    pub end_ns: u64,
}

/// Joins are numbered from here until the number of steps is known.
const JOINS_FROM: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Access {
    node: u32,
    end_ns: u64,
}

#[derive(Debug)]
struct Epochs {
    class: AccessKind,
    /// The node that accesses of this epoch wait for.
    join: Option<u32>,
    /// Accesses of this epoch.
    current: Vec<Access>,
    /// Accesses of earlier epochs that had not ended when this one began.
    earlier: Vec<Access>,
}

/// Collects accesses.
#[derive(Debug, Default)]
pub struct DependencyBuilder {
    things: HashMap<Resource, Epochs>,
    edges: Vec<Edge>,
    joins: u32,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
}

impl DependencyBuilder {
    /// Adds an access of a step. Steps must be added in the order in which they started.
    pub fn access(&mut self, step: u32, span: Span, thing: Resource, class: AccessKind) {
        let epochs = self.things.entry(thing).or_insert_with(|| Epochs {
            class,
            join: None,
            current: Vec::new(),
            earlier: Vec::new(),
        });
        // A step may need something in two roles, but it must not wait for itself.
        if epochs.current.last().is_some_and(|access| access.node == step) {
            return;
        }
        let mut ended = Vec::new();
        if class == AccessKind::Exclusive || class != epochs.class {
            epochs.earlier.append(&mut epochs.current);
            epochs.class = class;
        }
        epochs.earlier.retain(|access| {
            let is_over = access.end_ns <= span.start_ns;
            if is_over {
                ended.push(access.node);
            }
            !is_over
        });
        if !ended.is_empty() {
            ended.extend(epochs.join);
            epochs.join = Some(if let [only] = ended[..] {
                only
            } else {
                let join = JOINS_FROM + self.joins;
                self.joins += 1;
                for from in ended {
                    self.edges.push(Edge { from, to: join });
                }
                join
            });
        }
        if let Some(join) = epochs.join {
            self.edges.push(Edge { from: join, to: step });
        }
        epochs.current.push(Access { node: step, end_ns: span.end_ns });
    }

    /// Builds the graph for `steps` steps.
    pub fn finish(self, steps: u32) -> Graph {
        let place = |node: u32| {
            (if node >= JOINS_FROM { node - JOINS_FROM + steps } else { node }) as usize
        };
        let nodes = steps as usize + self.joins as usize;
        let mut waits = vec![0_u32; nodes];
        let mut begins = vec![0_u32; nodes + 1];
        for edge in &self.edges {
            waits[place(edge.to)] += 1;
            begins[place(edge.from) + 1] += 1;
        }
        for node in 0..nodes {
            begins[node + 1] += begins[node];
        }
        let mut filled = begins.clone();
        let mut successors = vec![0_u32; self.edges.len()];
        for edge in &self.edges {
            let from = &mut filled[place(edge.from)];
            successors[*from as usize] = place(edge.to) as u32;
            *from += 1;
        }
        Graph { steps, waits, begins, successors }
    }
}

/// Nodes that wait for others: first the steps, then the joins.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Number of steps; nodes below this number are steps.
    pub steps: u32,
    /// Number of nodes that each node waits for.
    pub waits: Vec<u32>,
    begins: Vec<u32>,
    successors: Vec<u32>,
}

impl Graph {
    /// Returns the nodes that wait for a node.
    pub(crate) fn successors(&self, node: u32) -> &[u32] {
        let begin = self.begins[node as usize];
        let end = self.begins[node as usize + 1];
        &self.successors[begin as usize..end as usize]
    }

    /// Returns the number of joins.
    pub(crate) fn join_count(&self) -> usize {
        self.waits.len() - self.steps as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Resource = Resource::File(0);

    /// Takes accesses to one file with their start and end. Returns what each step waits for, with
    /// joins resolved.
    fn waits(accesses: &[(AccessKind, u64, u64)]) -> Vec<Vec<u32>> {
        let mut order = DependencyBuilder::default();
        for (step, (class, start_ns, end_ns)) in accesses.iter().enumerate() {
            let span = Span { start_ns: *start_ns, end_ns: *end_ns };
            order.access(step as u32, span, FILE, *class);
        }
        let graph = order.finish(accesses.len() as u32);
        let mut found = vec![Vec::new(); accesses.len()];
        for step in 0..accesses.len() as u32 {
            let mut nodes = graph.successors(step).to_vec();
            while let Some(node) = nodes.pop() {
                if node >= graph.steps {
                    nodes.extend(graph.successors(node));
                } else if !found[node as usize].contains(&step) {
                    found[node as usize].push(step);
                }
            }
        }
        found
    }

    #[test]
    fn orders_writer_after_readers() {
        use AccessKind::{Change, Exclusive, Read};
        let none: Vec<u32> = Vec::new();
        let found = waits(&[
            (Exclusive, 0, 10),
            (Read, 10, 20),
            (Read, 11, 40),
            // The first reader has ended, the second is in flight.
            (Change, 30, 60),
            (Change, 50, 70),
            (Read, 80, 90),
        ]);
        assert_eq!(found, [none, vec![0], vec![0], vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 3, 4]]);
    }

    #[test]
    fn does_not_order_concurrent_steps() {
        use AccessKind::Exclusive;
        let found = waits(&[(Exclusive, 0, 100), (Exclusive, 50, 60), (Exclusive, 70, 80)]);
        assert_eq!(found, [vec![], vec![], vec![1_u32]]);
    }

    #[test]
    fn bounds_edges_between_readers_and_writers() {
        let mut order = DependencyBuilder::default();
        for step in 0..2000_u32 {
            let class = if step < 1000 { AccessKind::Read } else { AccessKind::Change };
            let span = Span { start_ns: u64::from(step), end_ns: u64::from(step) };
            order.access(step, span, FILE, class);
        }
        let graph = order.finish(2000);
        assert_eq!((graph.join_count(), graph.successors.len()), (1, 2000));
        assert_eq!(graph.waits[2000], 1000);
    }
}
