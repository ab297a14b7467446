//! The specification of a soak, and its observations beyond the figures of its passes.
//!
//! A soak is a run in segments, each a trial of its own: a mix at a steady load, in which every
//! block is stamped and journaled, and a pass that reads all of it back. [`Soak`] is the request,
//! [`FaultEvent`] what was done to the hosts meanwhile, [`IntervalStats`] what one interval looked
//! like, and [`Kept`] what became of the data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;
use crate::words::words;

words! {
    /// The kinds of fault that a soak injects on its hosts.
    FaultKind {
        /// The server forgets all connections, clients and sessions, and restarts.
        ServerRestart = "server-restart",
        /// The server is there and answers nothing.
        ServerStall = "server-stall",
        /// The kernel's server is stopped, and started again.
        NfsdStop = "nfsd-stop",
        /// Nothing passes between the server and anybody.
        NetworkCut = "network-cut",
        /// The server's file system has no room left.
        DiskFull = "disk-full",
        /// The program that works on a client host is killed, without a chance to tell anybody.
        ClientKill = "client-kill",
        /// The calendar of a host is set forward or back.
        ClockStep = "clock-step",
    }
}

impl FaultKind {
    /// Says whether it lasts, until it is undone; the others are over at once.
    pub const fn lasts(self) -> bool {
        !matches!(self, Self::ServerRestart | Self::ClientKill)
    }
}

/// Something that is to be done to a host while a soak runs, and undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Disturbance {
    /// The fault to inject.
    pub fault: FaultKind,
    /// To which host, by its name; `None` where there is but one that it can be done to.
    #[serde(default)]
    pub host: Option<String>,
    /// When it begins, in milliseconds of measured time from the start of the soak.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds; 0 for what is over at once.
    pub lasts_ms: u64,
    /// How far a clock is set forward, in milliseconds; back, where that is negative.
    #[serde(default)]
    pub by_ms: i64,
}

impl fmt::Display for Disturbance {
    /// Writes it as people do: `clock-step on one at 10.0 s for 5.00 s by -5.00 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: u64| Nanos(ms.saturating_mul(1_000_000));
        write!(f, "{}", self.fault)?;
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        write!(f, " at {}", time(self.at_ms))?;
        if self.lasts_ms > 0 {
            write!(f, " for {}", time(self.lasts_ms))?;
        }
        if self.by_ms != 0 {
            let sign = if self.by_ms < 0 { "-" } else { "" };
            write!(f, " by {sign}{}", time(self.by_ms.unsigned_abs()))?;
        }
        Ok(())
    }
}

/// The specification of a soak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Soak {
    /// How long it measures, in milliseconds.
    pub duration_ms: u64,
    /// How long one segment of it measures, in milliseconds.
    pub segment_ms: u64,
    /// After so many ops a worker has one of its files made safe; 0 where every write is.
    pub commit_every_ops: u32,
    /// The faults to inject on the hosts, in the order of time.
    pub disturbances: Vec<Disturbance>,
}

impl Soak {
    /// How many segments there are.
    pub const fn segments(&self) -> u64 {
        let segment_ms = if self.segment_ms == 0 { 1 } else { self.segment_ms };
        self.duration_ms.div_ceil(segment_ms)
    }

    /// Returns the disturbances of one segment, counted from 0: with its instant in nanoseconds
    /// from the start of that segment.
    pub fn within(&self, segment: u64) -> impl Iterator<Item = (u64, &Disturbance)> {
        let (from_ms, to_ms) = (segment * self.segment_ms, (segment + 1) * self.segment_ms);
        let here = move |one: &&Disturbance| (from_ms..to_ms).contains(&one.at_ms);
        let disturbances = self.disturbances.iter().filter(here);
        disturbances.map(move |one| ((one.at_ms - from_ms).saturating_mul(1_000_000), one))
    }
}

/// Something that was done to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEvent {
    /// The injected fault.
    pub fault: FaultKind,
    /// To which host; empty for what is in this process.
    pub host: String,
    /// When it was to begin, in nanoseconds from the start of its segment.
    pub planned_ns: u64,
    /// When it had been done.
    pub begun_ns: u64,
    /// When it had been undone, or was over by itself.
    pub ended_ns: Option<u64>,
    /// Why it could not be done, or undone; in a sentence.
    pub failed: Option<String>,
}

/// The statistics of all workers together within one interval of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalStats {
    /// End of the interval, in nanoseconds from the start of the segment.
    pub at_ns: u64,
    /// Ops that ended well in it, syncs not counted.
    pub ops: u64,
    /// Ops that failed in it.
    pub errors: u64,
    /// Half of the ops that ended well took at most so long from scheduled to done, in nanoseconds.
    pub p50_ns: u64,
    /// 95 % of them.
    pub p95_ns: u64,
    /// 99 % of them.
    pub p99_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// Blocks that were acknowledged and not safe yet.
    pub uncommitted: u64,
    /// Memory of this process that is resident, in bytes.
    pub rss_bytes: u64,
}

impl IntervalStats {
    /// Adds what another host did in the same interval. Quantiles don't add up: the worst host
    /// stands for all.
    pub fn add(&mut self, other: &Self) {
        self.at_ns = self.at_ns.max(other.at_ns);
        self.ops = self.ops.saturating_add(other.ops);
        self.errors = self.errors.saturating_add(other.errors);
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p95_ns = self.p95_ns.max(other.p95_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.uncommitted = self.uncommitted.saturating_add(other.uncommitted);
        self.rss_bytes = self.rss_bytes.saturating_add(other.rss_bytes);
    }
}

/// The recovery work of a client after failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Calls sent again because no answer arrived in time.
    pub retransmissions: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// Calls sent again over a new connection.
    pub replays: u64,
    /// Answers of "later", such as in a grace period, after which a call was made again.
    pub delays: u64,
    /// Data written more than once, in bytes.
    pub resent_bytes: u64,
}

impl Recovery {
    /// Adds what another client had to do.
    pub const fn add(&mut self, other: Self) {
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
        self.reconnects = self.reconnects.saturating_add(other.reconnects);
        self.replays = self.replays.saturating_add(other.replays);
        self.delays = self.delays.saturating_add(other.delays);
        self.resent_bytes = self.resent_bytes.saturating_add(other.resent_bytes);
    }
}

words! {
    /// The verified state of a block.
    BlockState {
        /// It was acknowledged as safe and isn't there.
        Lost = "lost",
        /// It was acknowledged, not yet as safe, and is as it was before: a restart may do that.
        RolledBack = "rolled-back",
        /// Its write was never acknowledged, and it is neither old nor new: a crash may do that.
        Torn = "torn",
    }
}

/// The generations of a block that a journal knows: `safe` <= `acknowledged` <= `newest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    /// The latest one that was acknowledged as safe.
    pub safe: u32,
    /// The latest one that was acknowledged.
    pub acknowledged: u32,
    /// The latest one that was handed on.
    pub newest: u32,
}

impl BlockState {
    /// Judges a block by the generation that was found, `None` for anything but a whole block;
    /// returns `None` where it is as it should be.
    pub const fn judge(known: Generations, found: Option<u32>) -> Option<Self> {
        let Generations { safe, acknowledged, newest } = known;
        // Below safe a committed write is gone, above newest stands what was never written: both
        // are losses. From safe up to acknowledged a restart may have rolled back. From
        // acknowledged on all is well, for a write in flight may have arrived or not. A block
        // without a whole stamp may be torn only while a write to it was in flight.
        match found {
            Some(found) if found < safe || found > newest => Some(Self::Lost),
            Some(found) if found < acknowledged => Some(Self::RolledBack),
            Some(_) => None,
            None if newest > acknowledged => Some(Self::Torn),
            None => Some(Self::Lost),
        }
    }
}

/// A block that was not found as it was written last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The verified state of the block.
    pub state: BlockState,
    /// Name of the file.
    pub file: String,
    /// The offset of the block, in bytes.
    pub offset_bytes: u64,
    /// The generation that was found; `None` where nothing whole of ours is there.
    pub found: Option<u32>,
    /// The latest generation that was acknowledged as safe when the segment ended: it may have been
    /// written after the block was found so.
    pub safe: u32,
    /// The latest generation that was acknowledged, then, too.
    pub acknowledged: u32,
}

/// Findings of one state that are kept in full; all are counted.
pub const FINDINGS_MAX: usize = 16;

/// The verified state of a soak's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Blocks in the acknowledgement journal.
    pub blocks: u64,
    /// Those that were written since they were made.
    pub written: u64,
    /// Those that were acknowledged and not safe at the end.
    pub uncommitted: u64,
    /// Those that were acknowledged as safe, and gone.
    pub lost: u64,
    /// Those that were acknowledged, not as safe, and gone.
    pub rolled_back: u64,
    /// Those whose unacknowledged write was torn.
    pub torn: u64,
    /// The first of each state.
    pub findings: Vec<Finding>,
}

impl Kept {
    /// Adds what became of other blocks.
    pub fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.written = self.written.saturating_add(other.written);
        self.uncommitted = self.uncommitted.saturating_add(other.uncommitted);
        self.lost = self.lost.saturating_add(other.lost);
        self.rolled_back = self.rolled_back.saturating_add(other.rolled_back);
        self.torn = self.torn.saturating_add(other.torn);
        for finding in &other.findings {
            self.note(finding);
        }
    }

    /// Keeps a finding where there is room for one more of its state.
    pub fn note(&mut self, finding: &Finding) {
        let same = self.findings.iter().filter(|known| known.state == finding.state).count();
        if same < FINDINGS_MAX {
            self.findings.push(finding.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_falls_into_the_segment_of_its_instant() {
        let fault = FaultKind::ServerStall;
        let at = |at_ms| Disturbance { fault, host: None, at_ms, lasts_ms: 1, by_ms: 0 };
        let soak = Soak {
            duration_ms: 25_000,
            segment_ms: 10_000,
            commit_every_ops: 0,
            disturbances: vec![at(0), at(9_999), at(10_000), at(24_000)],
        };
        assert_eq!(soak.segments(), 3);
        let instants = |segment| soak.within(segment).map(|(ns, _)| ns).collect::<Vec<_>>();
        assert_eq!(instants(0), [0, 9_999_000_000]);
        assert_eq!(instants(1), [0]);
        assert_eq!(instants(2), [4_000_000_000]);
    }

    #[test]
    fn a_disturbance_is_written_as_people_write_it() {
        let step = Disturbance {
            fault: FaultKind::ClockStep,
            host: Some("one".to_owned()),
            at_ms: 10_000,
            lasts_ms: 5_000,
            by_ms: -2_500,
        };
        assert_eq!(step.to_string(), "clock-step on one at 10.0 s for 5.00 s by -2.50 s");
        let restart = serde_json::json!({"fault": "server-restart", "at_ms": 5000, "lasts_ms": 0});
        let restart: Disturbance = serde_json::from_value(restart).unwrap();
        assert_eq!(restart.to_string(), "server-restart at 5.00 s");
    }

    #[test]
    fn all_findings_are_counted_and_some_of_each_state_are_kept() {
        let finding = |state, offset_bytes| Finding {
            state,
            file: "f".to_owned(),
            offset_bytes,
            found: None,
            safe: 1,
            acknowledged: 1,
        };
        let lost = (0..40).map(|at| finding(BlockState::Lost, at)).collect();
        let many = Kept { lost: 40, findings: lost, ..Kept::default() };
        let torn =
            Kept { torn: 1, findings: vec![finding(BlockState::Torn, 7)], ..Kept::default() };
        let mut all = Kept::default();
        all.add(&many);
        all.add(&torn);
        assert_eq!((all.lost, all.torn, all.findings.len()), (40, 1, FINDINGS_MAX + 1));
    }
}
