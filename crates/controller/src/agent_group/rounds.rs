//! Whom to listen to next while many agents work.
//!
//! A thousand agents answer at about the same moment, and to look at each of them for each answer
//! would take a million looks. So only those are listened to whose wakeup has notified; now and
//! then it is everybody's turn, since an agent that is lost notifies of nothing, and some have no
//! wakeup.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::AgentGroup;
use crate::Walk;

/// How often all agents are looked at, whether they have notified or not, in nanoseconds.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// Whom to listen to, round by round: those that rang, and all of them now and then.
pub(super) struct Rounds {
    who: Range<usize>,
    /// The agents by the numbers under which they ring.
    by_number: BTreeMap<u32, usize>,
    /// When all were listened to last; `None` before that.
    all_ns: Option<u64>,
    /// The caller has waited since the last round.
    has_waited: bool,
}

/// A round: one order to several agents, and their answers.
pub(super) struct Round {
    /// Their places in the group.
    pub(super) who: Vec<usize>,
    /// It is everybody's turn.
    pub(super) is_of_all: bool,
}

impl Rounds {
    /// Rounds over some agents of a group; the first one is of all of them.
    pub(super) fn of(group: &AgentGroup<'_>, walk: &mut Walk<'_>, who: Range<usize>) -> Self {
        let mut by_number = BTreeMap::new();
        for index in who.clone() {
            let number = match &group.members[index].host {
                Some(host) => walk.hosts.number_of(host),
                None => 0,
            };
            by_number.insert(number, index);
        }
        Self { who, by_number, all_ns: None, has_waited: false }
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self, walk: &Walk<'_>) -> Round {
        let rang: BTreeSet<u32> = walk.hosts.wakeup().take_notified();
        let now_ns = walk.hosts.now_ns();
        let is_overdue = match self.all_ns {
            Some(all_ns) => now_ns.saturating_sub(all_ns) >= LOOK_EVERY_NS,
            None => true,
        };
        // Where no agent has notified for as long as one waits, there may be some that never do.
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

    /// Waits until an agent notifies, for a while at most.
    pub(super) fn wait(&mut self, walk: &Walk<'_>) {
        (walk.wait)(walk.hosts.wakeup());
        self.has_waited = true;
    }
}
