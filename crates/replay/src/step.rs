//! A step of a replay, and batches of them.
//!
//! [`Step`] is an operation with its client, its instant and the numbers of what it works on.
//! [`Batch`] has the steps of a replay, or of the preparation of its tree, with what they wait for.
//! Neither changes while it is executed.

use crate::action::Action;
use crate::order::{Graph, Order};
use crate::tree::NONE;

/// A step of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The action of the step.
    pub action: Action,
    /// Number of its client; `NONE` where that is another host's.
    pub client: u32,
    /// Number of the file or directory.
    pub file: u32,
    /// Number of another one: of the new name (RENAME, LINK), of the source (COPY).
    pub other: u32,
    /// Number of the file that the reply returns.
    pub result: u32,
    /// Number of the name.
    pub name: u32,
    /// Number of the new name.
    pub other_name: u32,
    /// Number of the open that it makes or works under, or of the listing that it goes on with.
    pub slot: u32,
    /// Calls of its client that were in flight when it started, itself included.
    pub depth: u32,
    /// The status at the origin; `NONE` where it is unknown.
    pub status: u32,
    /// When it started, in nanoseconds from the beginning of the window.
    pub scheduled_ns: u64,
    /// Time from the last reply to its client until it started, in nanoseconds.
    pub think_ns: u64,
    /// Response time at the origin, in nanoseconds; `u64::MAX` where it is unknown.
    pub origin_ns: u64,
}

impl Step {
    /// A step without file and name.
    pub const fn of(action: Action) -> Self {
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

/// Steps, and in which order they may be started.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The steps in the order of their starts.
    pub steps: Vec<Step>,
    /// The order in which they may be started.
    pub graph: Graph,
    /// Numbers of the steps of each client.
    pub clients: Vec<Vec<u32>>,
}

impl Batch {
    /// Makes a batch of steps whose accesses are in `order`.
    pub fn new(steps: Vec<Step>, order: Order, clients: usize) -> Self {
        let mut lists = vec![Vec::new(); clients];
        for (number, step) in steps.iter().enumerate() {
            lists[step.client as usize].push(number as u32);
        }
        let graph = order.finish(steps.len() as u32);
        Self { steps, graph, clients: lists }
    }

    /// Returns how many steps these clients have.
    pub fn ops(&self) -> usize {
        let mut ops = 0;
        for steps in &self.clients {
            ops += steps.len();
        }
        ops
    }

    /// Keeps some clients, which get new numbers; all other steps stay as what these wait for, and
    /// have no client.
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

    /// Returns the largest payload that is written, in bytes.
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
