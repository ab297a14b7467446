//! Replays a trace on one target: at several speeds, in rounds, each on a new tree.
//!
//! [`ReplaySession`] builds the tree, replays on this host or on those that share it, and removes
//! the tree.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::PeerGone;

use crate::hosts::ShareHosts;
use crate::lanes::Pace;
use crate::limit::{SearchResult, SearchedSpeeds, find_limit};
use crate::outcome::{Outcome, Record};
use crate::plan::ReplayPlan;
use crate::replayer::{ReplayError, ReplaySettings};
use crate::target::{OpenTarget, Tree};

/// State shared by all replays of a trace.
pub struct ReplaySession<'a, 't> {
    pub target: &'a mut OpenTarget<'t>,
    /// The hosts that share it; `None` if this host replays everything.
    pub hosts: Option<ShareHosts>,
    pub plan: &'a mut ReplayPlan,
    pub settings: ReplaySettings,
    /// How often a trace is replayed at each speed.
    pub rounds: Rounds,
    /// What to do with the tree.
    pub tree_use: TreeUse,
    /// Set by the caller to end the session.
    pub stop: &'a AtomicBool,
    pub observe: &'a dyn Fn(ReplayEvent<'_>),
}

/// How often a trace is replayed at each speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// Number of replays.
    Count(u64),
    /// Time in nanoseconds after which no further round begins.
    Time(u64),
}

/// What to do with the tree of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeUse {
    /// It is replayed on, and removed.
    Temporary,
    /// It is replayed on, and kept.
    Kept,
    /// It is built and kept, and nothing is replayed.
    OnlyBuilt,
}

/// Progress of a session.
#[derive(Debug)]
pub enum ReplayEvent<'a> {
    /// The tree is being built.
    TreeBegun {
        objects: usize,
        /// Name of its directory.
        directory: &'a str,
    },
    /// A replay begins.
    ReplayBegun { ops: usize, pace: Pace },
    /// The tree can't be removed.
    TreeLeft(&'a ReplayError),
}

/// Why a session ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplaySessionError {
    /// The target can't be used.
    #[error(transparent)]
    Target(#[from] ReplayError),
    /// A host that shares the replay is lost or can't continue.
    #[error(transparent)]
    Host(#[from] PeerGone),
}

impl Rounds {
    /// Returns true if there is another round.
    const fn has_next(self, made: u64, took_ns: u64) -> bool {
        match self {
            Self::Count(count) => made < count,
            Self::Time(time_ns) => took_ns < time_ns,
        }
    }
}

impl ReplaySession<'_, '_> {
    /// Returns true if a stop was requested.
    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Replays at each speed.
    pub fn replay_all(&mut self, paces: &[Pace]) -> Result<Vec<Outcome>, ReplaySessionError> {
        let mut outcomes = Vec::new();
        for pace in paces {
            match self.replay_rounds(*pace)? {
                Some(outcome) => outcomes.push(outcome),
                None => break,
            }
        }
        Ok(outcomes)
    }

    /// Searches for the speed that breaks the target, up to `max`, and for a curve replays at
    /// evenly spaced speeds below it as well.
    pub fn find_limit(
        &mut self,
        max: f64,
        points: Option<u32>,
    ) -> Result<SearchResult, ReplaySessionError> {
        let speeds = SearchedSpeeds { max, trace_ns: self.plan.duration_ns, points };
        find_limit(speeds, |speed| {
            let outcome = self.replay_rounds(Pace::Open { speed })?;
            Ok(outcome.filter(|_| !self.is_stopped()))
        })
    }

    /// Replays as often as requested, each round on a new tree. Returns `None` if there is nothing
    /// to replay or a stop was requested.
    fn replay_rounds(&mut self, pace: Pace) -> Result<Option<Outcome>, ReplaySessionError> {
        let mut all: Option<Record> = None;
        let mut made = 0;
        let mut took_ns = 0;
        while made == 0 || (self.rounds.has_next(made, took_ns) && !self.is_stopped()) {
            let Some(record) = self.replay_once(pace)? else { break };
            took_ns += record.outcome().took_ns;
            made += 1;
            match &mut all {
                Some(all) => all.append(record),
                None => all = Some(record),
            }
        }
        Ok(all.map(|record| record.outcome()))
    }

    /// Builds the tree, replays, and removes the tree.
    fn replay_once(&mut self, pace: Pace) -> Result<Option<Record>, ReplaySessionError> {
        let objects = self.plan.initial.len();
        let directory = &self.settings.directory;
        (self.observe)(ReplayEvent::TreeBegun { objects, directory });
        let replayed = match self.target.prepare(self.plan, &self.settings) {
            Ok(_) if self.tree_use == TreeUse::OnlyBuilt || self.is_stopped() => None,
            Ok(tree) => {
                let ops = self.plan.batch.steps.len();
                (self.observe)(ReplayEvent::ReplayBegun { ops, pace });
                Some(self.replay_tree(tree, pace))
            }
            Err(error) => Some(Err(error.into())),
        };
        if self.tree_use == TreeUse::Temporary
            && let Err(error) = self.target.remove(&self.settings.directory)
        {
            // The result, and earlier errors, matter more than leftovers of the tree.
            (self.observe)(ReplayEvent::TreeLeft(&error));
        }
        replayed.transpose()
    }

    /// Replays on an existing tree, on the hosts that share it or on this one.
    fn replay_tree(&mut self, tree: Tree, pace: Pace) -> Result<Record, ReplaySessionError> {
        match (&mut self.hosts, tree) {
            (Some(hosts), Tree::Handles(files)) => {
                Ok(hosts.replay(self.plan, &files, pace, self.target.kind())?)
            }
            (_, tree) => Ok(self.target.replay(self.plan, tree, pace)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_by_count_or_time() {
        assert!(Rounds::Count(2).has_next(1, 0) && !Rounds::Count(2).has_next(2, 0));
        assert!(Rounds::Time(10).has_next(7, 9) && !Rounds::Time(10).has_next(1, 10));
    }
}
