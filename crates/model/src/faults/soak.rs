//! Specification of a soak, and its results beyond those of its passes.
//!
//! A soak consists of segments, each a trial of its own: a mix at a steady load that stamps and
//! journals every block, followed by a pass that reads everything back. [`Soak`] is the request,
//! [`FaultEvent`] a fault that was injected, [`IntervalStats`] the statistics of one interval, and
//! [`DataCheck`] the state of the data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::units::Nanos;
use crate::text::words::words;

words! {
    /// Kinds of fault that a soak injects.
    FaultKind {
        /// The server forgets all connections, clients and sessions, and restarts.
        ServerRestart = "server-restart",
        /// The server is running but doesn't respond.
        ServerStall = "server-stall",
        /// The kernel's server is stopped and restarted.
        NfsdStop = "nfsd-stop",
        /// All traffic to and from the server is dropped.
        NetworkCut = "network-cut",
        /// The server's file system is full.
        DiskFull = "disk-full",
        /// The agent on a client host is killed without warning.
        ClientKill = "client-kill",
        /// The wall clock of a host is stepped forward or back.
        ClockStep = "clock-step",
    }
}

impl FaultKind {
    /// Returns true if the fault lasts until it is reverted; the others are instantaneous.
    pub const fn is_lasting(self) -> bool {
        !matches!(self, Self::ServerRestart | Self::ClientKill)
    }
}

/// A fault to inject during a soak and revert afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Disturbance {
    /// The fault to inject.
    pub fault: FaultKind,
    /// Name of the host; `None` if there is only one possible host.
    #[serde(default)]
    pub host: Option<String>,
    /// When it begins, in milliseconds of measured time from the start of the soak.
    pub at_ms: u64,
    /// Duration in milliseconds; 0 for instantaneous faults.
    pub lasts_ms: u64,
    /// Offset of a clock step in milliseconds; negative means back.
    #[serde(default)]
    pub by_ms: i64,
}

impl fmt::Display for Disturbance {
    /// Formats it like `clock-step on one at 10.0 s for 5.00 s by -5.00 s`.
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
    /// Measured time, in milliseconds.
    pub duration_ms: u64,
    /// Measured time of one segment, in milliseconds.
    pub segment_ms: u64,
    /// Number of ops after which a worker commits one of its files; 0 if every write is durable.
    pub commit_every_ops: u32,
    /// Faults to inject, in order of time.
    pub disturbances: Vec<Disturbance>,
}

impl Soak {
    /// Returns the number of segments.
    pub const fn segments(&self) -> u64 {
        let segment_ms = if self.segment_ms == 0 { 1 } else { self.segment_ms };
        self.duration_ms.div_ceil(segment_ms)
    }

    /// Returns the faults of one segment, counted from 0, each with its time in nanoseconds from
    /// the start of the segment.
    pub fn within(&self, segment: u64) -> impl Iterator<Item = (u64, &Disturbance)> {
        let from_ms = segment * self.segment_ms;
        let to_ms = (segment + 1) * self.segment_ms;
        let here = move |one: &&Disturbance| (from_ms..to_ms).contains(&one.at_ms);
        let disturbances = self.disturbances.iter().filter(here);
        disturbances.map(move |one| ((one.at_ms - from_ms).saturating_mul(1_000_000), one))
    }
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEvent {
    /// The injected fault.
    pub fault: FaultKind,
    /// Name of the host; empty for this process.
    pub host: String,
    /// When it was planned to begin, in nanoseconds from the start of its segment.
    pub planned_ns: u64,
    /// When it had been injected.
    pub begun_ns: u64,
    /// When it had been reverted, or ended on its own.
    pub ended_ns: Option<u64>,
    /// Why it could not be injected or reverted, as a sentence.
    pub failed: Option<String>,
}

/// Statistics over all workers in one interval of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalStats {
    /// End of the interval, in nanoseconds from the start of the segment.
    pub at_ns: u64,
    /// Ops that succeeded, not counting syncs.
    pub ops: u64,
    /// Ops that failed.
    pub errors: u64,
    /// Median response time of the successful ops, in nanoseconds.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Blocks that were acknowledged but not yet durable.
    pub uncommitted: u64,
    /// Resident memory of this process, in bytes.
    pub rss_bytes: u64,
}

impl IntervalStats {
    /// Adds the statistics of another host for the same interval. Quantiles cannot be added, so the
    /// worst host counts.
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

/// Recovery work of a client after failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Calls retransmitted because no reply arrived in time.
    pub retransmissions: u64,
    pub reconnects: u64,
    /// Calls resent over a new connection.
    pub replays: u64,
    /// Replies asking to retry later, such as during a grace period.
    pub delays: u64,
    /// Data written more than once, in bytes.
    pub resent_bytes: u64,
}

impl Recovery {
    /// Returns true if a server may have seen something twice.
    pub const fn repeats(&self) -> bool {
        self.retransmissions + self.replays + self.resent_bytes > 0
    }

    /// Adds the recovery work of another client.
    pub const fn add(&mut self, other: Self) {
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
        self.reconnects = self.reconnects.saturating_add(other.reconnects);
        self.replays = self.replays.saturating_add(other.replays);
        self.delays = self.delays.saturating_add(other.delays);
        self.resent_bytes = self.resent_bytes.saturating_add(other.resent_bytes);
    }
}

words! {
    /// State of a block after verification.
    BlockState {
        /// The block was acknowledged as durable but is gone.
        Lost = "lost",
        /// The block was acknowledged but not yet durable, and has its previous content. A restart
        /// may cause that.
        RolledBack = "rolled-back",
        /// The write was never acknowledged, and the block has neither its old nor its new content.
        /// A crash may cause that.
        Torn = "torn",
    }
}

/// Generations of a block according to the journal: `safe` <= `acknowledged` <= `newest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    /// The latest generation acknowledged as durable.
    pub safe: u32,
    /// The latest acknowledged generation.
    pub acknowledged: u32,
    /// The latest generation submitted.
    pub newest: u32,
}

impl BlockState {
    /// Judges a block by the generation found, which is `None` for anything but a complete block.
    /// Returns `None` if the block is as expected.
    pub const fn judge(known: Generations, found: Option<u32>) -> Option<Self> {
        let Generations { safe, acknowledged, newest } = known;
        // Below `safe`, a committed write is gone; above `newest`, the block contains something
        // never written: both are losses. From `safe` up to `acknowledged`, a restart may have
        // rolled it back. From `acknowledged` on, everything is fine, since a write in flight may
        // or may not have arrived. A block without a complete stamp may be torn, but only if a
        // write to it was in flight.
        match found {
            Some(found) if found < safe || found > newest => Some(Self::Lost),
            Some(found) if found < acknowledged => Some(Self::RolledBack),
            Some(_) => None,
            None if newest > acknowledged => Some(Self::Torn),
            None => Some(Self::Lost),
        }
    }
}

/// A block that doesn't have its latest content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub state: BlockState,
    /// Name of the file.
    pub file: String,
    /// Offset of the block, in bytes.
    pub offset_bytes: u64,
    /// The generation found; `None` if there is no complete block of ours.
    pub found: Option<u32>,
    /// The latest generation acknowledged as durable by the end of the segment. It may have been
    /// written after the block was read.
    pub safe: u32,
    /// The latest generation acknowledged by the end of the segment.
    pub acknowledged: u32,
}

/// Maximum number of findings stored per state. All of them are counted.
pub(crate) const FINDINGS_MAX: usize = 16;

/// The verified state of a soak's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataCheck {
    /// Blocks in the acknowledgement journal.
    pub blocks: u64,
    /// Blocks written since they were created.
    pub written: u64,
    /// Blocks that were acknowledged but not durable at the end.
    pub uncommitted: u64,
    /// Blocks that were acknowledged as durable and are gone.
    pub lost: u64,
    /// Blocks that were acknowledged, but not as durable, and are gone.
    pub rolled_back: u64,
    /// Blocks torn by an unacknowledged write.
    pub torn: u64,
    /// The first findings of each state.
    pub findings: Vec<Finding>,
}

impl DataCheck {
    /// Adds the state of other blocks.
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

    /// Stores a finding unless there are already enough with its state.
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
    fn assigns_disturbance_to_segment() {
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
    fn parses_disturbance_text() {
        let step = Disturbance {
            fault: FaultKind::ClockStep,
            host: Some("one".to_owned()),
            at_ms: 10_000,
            lasts_ms: 5_000,
            by_ms: -2_500,
        };
        insta::assert_snapshot!(step, @"clock-step on one at 10.0 s for 5.00 s by -2.50 s");
        let restart = serde_json::json!({"fault": "server-restart", "at_ms": 5000, "lasts_ms": 0});
        let restart: Disturbance = serde_json::from_value(restart).unwrap();
        assert_eq!(restart.to_string(), "server-restart at 5.00 s");
    }

    #[test]
    fn limits_kept_findings_per_state() {
        let finding = |state, offset_bytes| Finding {
            state,
            file: "f".to_owned(),
            offset_bytes,
            found: None,
            safe: 1,
            acknowledged: 1,
        };
        let lost = (0..40).map(|at| finding(BlockState::Lost, at)).collect();
        let many = DataCheck { lost: 40, findings: lost, ..DataCheck::default() };
        let torn = DataCheck {
            torn: 1,
            findings: vec![finding(BlockState::Torn, 7)],
            ..DataCheck::default()
        };
        let mut all = DataCheck::default();
        all.add(&many);
        all.add(&torn);
        assert_eq!((all.lost, all.torn, all.findings.len()), (40, 1, FINDINGS_MAX + 1));
    }
}
