//! Steps of a replay, and batches of them.
//!
//! A [`Step`] is an operation with its client, its time and the numbers of the objects it works on.
//! A [`Batch`] contains the steps of a replay, or of preparing its tree, with their dependencies.
//! Neither changes during the execution.

use crate::action::Action;
use crate::order::{DependencyBuilder, Graph};
use crate::tree::NONE;

/// A step of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub action: Action,
    /// Number of its client; `NONE` if that is on another host.
    pub client: u32,
    /// Number of the file or directory.
    pub file: u32,
    /// Number of a second one: the directory of the new name (RENAME, LINK) or the source (COPY).
    pub other: u32,
    /// Number of the file returned by the reply.
    pub result: u32,
    /// Number of the name.
    pub name: u32,
    /// Number of the new name.
    pub other_name: u32,
    /// Number of the open that it creates or uses, or of the listing that it continues.
    pub slot: u32,
    /// Number of the client's calls in flight when it started, including itself.
    pub depth: u32,
    /// Status at the origin; `NONE` if unknown.
    pub status: u32,
    /// When it started, in nanoseconds since the start of the window.
    pub scheduled_ns: u64,
    /// Time between the last reply to its client and its start, in nanoseconds.
    pub(crate) think_ns: u64,
    /// Response time at the origin in nanoseconds; `u64::MAX` if unknown.
    pub origin_ns: u64,
}

impl Step {
    /// Creates a step without file and name.
    pub const fn new(action: Action) -> Self {
        Self {
            action,
            client: 0,
            file: NONE,
            other: NONE,
            result: NONE,
            name: NONE,
            other_name: NONE,
            slot: NONE,
            depth: 1,
            status: 0,
            scheduled_ns: 0,
            think_ns: 0,
            origin_ns: u64::MAX,
        }
    }
}

/// Steps and the order in which they may be started.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The steps, sorted by start time.
    pub steps: Vec<Step>,
    /// The order in which they may be started.
    pub graph: Graph,
    /// Numbers of the steps of each client.
    pub clients: Vec<Vec<u32>>,
}

impl Batch {
    /// Creates a batch of steps whose accesses are in `order`.
    pub fn new(steps: Vec<Step>, order: DependencyBuilder, clients: usize) -> Self {
        let mut lists = vec![Vec::new(); clients];
        for (number, step) in steps.iter().enumerate() {
            lists[step.client as usize].push(number as u32);
        }
        let graph = order.finish(steps.len() as u32);
        Self { steps, graph, clients: lists }
    }

    /// Returns the total number of steps of these clients.
    pub fn ops(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// Keeps only some clients, which get new numbers. All other steps remain as dependencies,
    /// without a client.
    pub fn keep(&mut self, clients: &[u32]) {
        let mut lists = Vec::with_capacity(clients.len());
        for step in &mut self.steps {
            step.client = NONE;
        }
        for (number, client) in clients.iter().enumerate() {
            let list = std::mem::take(&mut self.clients[*client as usize]);
            for step in &list {
                self.steps[*step as usize].client = number as u32;
            }
            lists.push(list);
        }
        self.clients = lists;
    }

    /// Returns the maximum payload of a write, in bytes.
    pub fn write_bytes_max(&self) -> u32 {
        let mut max = 0;
        for step in &self.steps {
            if let Action::Write { count, .. } = step.action {
                max = max.max(count);
            }
        }
        max
    }
}
