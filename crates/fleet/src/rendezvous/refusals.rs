//! Summary of the connections refused while waiting for agents.
//!
//! Users need to know about refused agents (wrong token, different version, duplicate rank), so
//! each is listed. Strangers, such as port scanners, may number in the thousands. They are
//! summarized in one line with their count, so that they don't hide the agents.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Maximum number of refused agents to list, and of strangers' addresses to name.
const LISTED_MAX: usize = 8;

/// Why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedConnection {
    /// The reason as a sentence.
    pub(super) why: String,
    /// The peer never sent an agent's greeting.
    pub(super) is_stranger: bool,
}

impl RefusedConnection {
    /// Refuses a connection that could be anyone's.
    pub(super) fn from_stranger(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_stranger: true }
    }

    /// Refuses an agent.
    pub(super) fn agent(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_stranger: false }
    }
}

/// Agents refused at the same address for the same reason.
#[derive(Debug)]
struct RefusedAgent {
    from: IpAddr,
    why: String,
    count: u64,
}

/// All refused connections.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    agents: Vec<RefusedAgent>,
    /// Number of agents beyond those listed.
    more_agents: u64,
    strangers: u64,
    /// Reason for the first stranger.
    first_reason: String,
    /// Whether other strangers were refused for another reason.
    has_other_reasons: bool,
    /// Addresses of strangers. Holds one more than we name, to show that there are others.
    addresses: BTreeSet<IpAddr>,
}

impl Refusals {
    /// Records a refused connection.
    pub(super) fn note(&mut self, from: IpAddr, refused: RefusedConnection) {
        let RefusedConnection { why, is_stranger } = refused;
        if !is_stranger {
            for agent in &mut self.agents {
                if agent.from == from && agent.why == why {
                    agent.count += 1;
                    return;
                }
            }
            if self.agents.len() < LISTED_MAX {
                self.agents.push(RefusedAgent { from, why, count: 1 });
            } else {
                self.more_agents += 1;
            }
            return;
        }
        if self.strangers == 0 {
            self.first_reason = why;
        } else {
            self.has_other_reasons |= self.first_reason != why;
        }
        self.strangers += 1;
        if self.addresses.len() <= LISTED_MAX {
            self.addresses.insert(from);
        }
    }

    /// Lists the refused connections, agents first, one sentence each.
    pub(super) fn list(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for RefusedAgent { from, why, count } in &self.agents {
            let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
            sentences.push(format!("{from}: {why}{times}"));
        }
        if self.more_agents > 0 {
            sentences.push(format!("{} more agents", self.more_agents));
        }
        if self.strangers > 0 {
            sentences.push(self.describe_strangers());
        }
        sentences
    }

    fn describe_strangers(&self) -> String {
        let names: Vec<_> =
            self.addresses.iter().take(LISTED_MAX).map(ToString::to_string).collect();
        let others = if self.addresses.len() > LISTED_MAX { " and others" } else { "" };
        let from = names.join(", ") + others;
        let why = &self.first_reason;
        match self.strangers {
            1 => format!("{from}: {why}"),
            count if self.has_other_reasons => {
                format!("{from}: {count} connections not made by agents; the first: {why}")
            }
            count => format!("{from}: {why} ({count} times)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn summarizes_strangers_in_one_line() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.list(), [""; 0]);
        for number in 0..1_000 {
            let why = if number == 0 { "not an agent" } else { "it left" };
            refusals.note(address((number % 20) as u8), RefusedConnection::from_stranger(why));
        }
        refusals.note(address(7), RefusedConnection::agent("it has the wrong token"));
        refusals.note(address(7), RefusedConnection::agent("it has the wrong token"));
        refusals.note(address(8), RefusedConnection::agent("rank 0 is there already"));
        insta::assert_snapshot!(refusals.list().join("\n"));
        for number in 0..30 {
            refusals.note(address(number), RefusedConnection::agent("it has the wrong token"));
        }
        let list = refusals.list();
        assert_eq!(list.len(), LISTED_MAX + 2);
        assert_eq!(list[LISTED_MAX], "23 more agents");
    }
}
