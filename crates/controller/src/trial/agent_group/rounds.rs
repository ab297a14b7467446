//! Decides which agents to poll next while many of them are working.
//!
//! A thousand agents answer at about the same time, and polling all of them for each answer would
//! take a million calls. So only agents whose wakeup was signaled are polled. All of them are
//! polled now and then, because a lost agent signals nothing and some have no wakeup.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::AgentGroup;
use crate::hosts::Hosts;

/// How often all agents are polled regardless of signals, in nanoseconds.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// Selects the agents to poll in each round: those that signaled, and all of them now and then.
pub(super) struct Rounds {
    who: Range<usize>,
    /// Agent index by the number under which the agent's wakeup signals.
    by_number: BTreeMap<u32, usize>,
    /// When all agents were last polled; `None` if never.
    all_ns: Option<u64>,
    has_waited: bool,
}

/// One round of polling.
pub(super) struct Round {
    /// Indices of the agents to poll.
    pub(super) who: Vec<usize>,
    /// The round covers all agents.
    pub(super) is_of_all: bool,
}

impl Rounds {
    /// Creates rounds over some agents of a group. The first round covers all of them.
    pub(super) fn new(group: &AgentGroup<'_>, hosts: &mut Hosts<'_>, who: Range<usize>) -> Self {
        let mut by_number = BTreeMap::new();
        for index in who.clone() {
            let number = group.members[index].host.as_ref().map_or(0, |host| hosts.number_of(host));
            by_number.insert(number, index);
        }
        Self { who, by_number, all_ns: None, has_waited: false }
    }

    /// Returns the agents to poll now.
    pub(super) fn next(&mut self, hosts: &Hosts<'_>) -> Round {
        let rang: BTreeSet<u32> = hosts.wakeup().take_notified();
        let now_ns = hosts.now_ns();
        let is_overdue =
            self.all_ns.is_none_or(|all_ns| now_ns.saturating_sub(all_ns) >= LOOK_EVERY_NS);
        // If waiting brought no signal, there may be agents that never signal.
        let is_in_vain = std::mem::take(&mut self.has_waited) && rang.is_empty();
        let is_of_all = is_in_vain || is_overdue;
        if !is_of_all {
            let mut who = Vec::with_capacity(rang.len());
            for number in &rang {
                who.extend(self.by_number.get(number));
            }
            return Round { who, is_of_all };
        }
        self.all_ns = Some(now_ns);
        Round { who: self.who.clone().collect(), is_of_all }
    }

    /// Waits until an agent signals, up to a limit.
    pub(super) fn wait(&mut self, hosts: &Hosts<'_>) {
        hosts.wait();
        self.has_waited = true;
    }
}
