//! The verdict on a soak: when faults were noticed, how long they delayed ops, and what was lost.
//!
//! [`judge_soak`] processes the trials of a soak, which are its segments, in order. Everything is
//! derived from intervals, so times have the resolution of an interval; [`Effect`] contains the
//! latest possible time. Unknown values are `None` and lead to an inconclusive verdict instead of a
//! guess.

mod burst;
mod effect;
mod memory;

use model::soak::{Finding, Recovery};
use model::{DataCheck, OpError, OpKind, Pass, PassResult, Soak, Trial, TrialState};

use crate::level_drop::LevelDrop;

use burst::find_burst;
use effect::Segment;
use memory::measure_memory;

pub use effect::Effect;
pub use memory::Memory;

/// A block in an unexpected state, and where in the soak it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentFinding {
    /// Number of the segment, from 0.
    pub segment: u64,
    pub finding: Finding,
}

/// Result of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct SoakResult {
    /// The verdict on the server.
    pub verdict: Verdict,
    pub segments: SegmentCounts,
    /// State of the data that the server acknowledged as durable.
    pub data: DataState,
    /// Data read back after the load, over all segments.
    pub read_back: ReadBack,
    /// A client gave up: its load ended because there were no replies.
    pub(crate) gave_up: bool,
    /// Measured time in nanoseconds.
    pub measured_ns: u64,
    /// Ops of the load that succeeded.
    pub ops: u64,
    /// Bytes that were read and verified.
    pub verified_bytes: u64,
    /// The effect of each fault.
    pub effects: Vec<Effect>,
    /// Failed ops by kind and error, including those that found lost data.
    pub errors: Vec<FailedOps>,
    /// Ops that failed because the server no longer recognized a file handle.
    pub stale: u64,
    /// Ops that failed because the server no longer recognized an open, lock, lease or session.
    pub state: u64,
    /// Recovery work of the client.
    pub recovery: Recovery,
    /// Number of blocks read back, by state.
    pub kept: DataCheck,
    /// Findings of all segments in order.
    pub findings: Vec<SegmentFinding>,
    /// Why the last segment failed, if it did.
    pub failure: Option<String>,
    /// The rate fell to a lower level for good, apart from the effects of faults.
    pub burst: Option<LevelDrop>,
    /// Memory of this program; `None` if there is too little data.
    pub memory: Option<Memory>,
}

/// Counts of the segments of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Planned segments.
    pub planned: u64,
    /// Completed segments.
    pub made: u64,
    /// Segments that were read back completely.
    pub read_back: u64,
}

/// Amount of data read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Total size of the files.
    pub bytes: u64,
    pub files: u64,
}

/// Ops of one kind that failed with the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedOps {
    pub kind: OpKind,
    pub error: OpError,
    /// Number of ops.
    pub count: u64,
}

/// State of data that was acknowledged as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataState {
    /// All of it was read back after every segment and is intact.
    Verified,
    /// Some of it is gone or was replaced by other bytes.
    Lost,
    /// Not all of it could be read back, so its state is unknown.
    Unverified,
}

impl DataState {
    /// Returns the name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Lost => "lost",
            Self::Unverified => "unverified",
        }
    }
}

/// The verdict on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was lost and no op failed.
    Survives,
    /// It lost data that it had acknowledged as durable, or altered data.
    LosesData,
    /// It did not come back.
    NeverRecovers,
    /// Ops failed; [`SoakResult::data`] is the state of the data.
    FailsOps,
    /// The soak was not completed.
    CantTell,
}

impl Verdict {
    /// Returns the name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Survives => "survives",
            Self::LosesData => "loses-data",
            Self::NeverRecovers => "never-recovers",
            Self::FailsOps => "fails-ops",
            Self::CantTell => "cant-tell",
        }
    }
}

/// Judges a soak by its segments.
pub fn judge_soak(soak: &Soak, trials: &[Trial]) -> SoakResult {
    let mut soaked = SoakResult {
        verdict: Verdict::CantTell,
        segments: SegmentCounts { planned: soak.segments(), made: 0, read_back: 0 },
        data: DataState::Unverified,
        read_back: ReadBack::default(),
        gave_up: false,
        measured_ns: 0,
        ops: 0,
        verified_bytes: 0,
        effects: Vec::new(),
        errors: Vec::new(),
        stale: 0,
        state: 0,
        recovery: Recovery::default(),
        kept: DataCheck::default(),
        findings: Vec::new(),
        failure: None,
        burst: None,
        memory: measure_memory(trials),
    };
    for trial in trials {
        soaked.add_segment(soak, trial);
    }
    soaked.burst = find_burst(soak, trials, &soaked.effects);
    soaked.data = soaked.judge_data();
    soaked.verdict = soaked.judge_server();
    soaked
}

/// Returns the result of a pass of a segment.
fn find_pass(trial: &Trial, pass: Pass) -> Option<&PassResult> {
    trial.passes.iter().find(|result| result.pass == pass)
}

impl SoakResult {
    fn add_segment(&mut self, soak: &Soak, trial: &Trial) {
        let segment = u64::from(trial.index);
        if let TrialState::Failed(why) = &trial.state {
            self.failure = Some(why.clone());
        }
        self.segments.made += u64::from(trial.state == TrialState::Done);
        let back = find_pass(trial, Pass::Read);
        if let Some(back) = back {
            self.segments.read_back += u64::from(is_whole(back));
            self.read_back.bytes += back.bytes();
            self.read_back.files += back.scope.working_set.map_or(0, |set| set.files);
        }
        let load = find_pass(trial, Pass::Mix);
        // If the load failed and data was not even read back, the client gave up waiting.
        if let Some(load) = load
            && matches!(trial.state, TrialState::Failed(_))
            && back.is_none()
            && count_unanswered(load) > 0
        {
            self.gave_up = true;
        }
        let mut kept = None;
        for pass in &trial.passes {
            self.add_pass(pass);
            self.add_recovery(pass);
            kept = pass.scope.kept.as_ref().or(kept);
        }
        // Only use the last pass that counted blocks, because it looked at all of them.
        if let Some(kept) = kept {
            self.kept.add(kept);
            for finding in &kept.findings {
                self.findings.push(SegmentFinding { segment, finding: finding.clone() });
            }
        }
        if let Some(load) = load {
            self.measured_ns += load.window_ns;
            self.ops += load.ops();
            let start_ns = segment.saturating_mul(soak.segment_ms).saturating_mul(1_000_000);
            let here = Segment { number: segment, start_ns };
            for (number, event) in load.fault_events.iter().enumerate() {
                let next = load.fault_events.get(number + 1);
                let until_ns = next.map_or(u64::MAX, |next| next.begun_ns);
                let effect = Effect::from_intervals(event, &load.intervals, here, until_ns);
                self.effects.push(effect.add_host(soak, load, trial));
            }
        }
    }

    fn add_pass(&mut self, pass: &PassResult) {
        for kind in &pass.kinds {
            if kind.kind == OpKind::Read {
                self.verified_bytes += kind.bytes;
            }
            for (error, count) in &kind.errors {
                self.stale += if is_stale(*error) { *count } else { 0 };
                self.state += if is_of_state(*error) { *count } else { 0 };
                self.add_errors(kind.kind, *error, *count);
            }
        }
    }

    fn add_errors(&mut self, kind: OpKind, error: OpError, count: u64) {
        for known in &mut self.errors {
            if known.kind == kind && known.error == error {
                known.count += count;
                return;
            }
        }
        self.errors.push(FailedOps { kind, error, count });
    }

    /// Adds the recovery work recorded by a pass.
    fn add_recovery(&mut self, pass: &PassResult) {
        if let Some(recovery) = pass.scope.recovery {
            self.recovery.add(recovery);
        }
    }

    /// Returns how many ops failed for reasons other than wrong data.
    pub fn failed(&self) -> u64 {
        self.count_errors(|error| error != OpError::MISMATCH)
    }

    /// Returns how many ops returned wrong data.
    pub fn mismatched(&self) -> u64 {
        self.count_errors(|error| error == OpError::MISMATCH)
    }

    fn count_errors(&self, is_counted: impl Fn(OpError) -> bool) -> u64 {
        let mut sum = 0;
        for failed in &self.errors {
            sum += if is_counted(failed.error) { failed.count } else { 0 };
        }
        sum
    }

    fn judge_data(&self) -> DataState {
        let SegmentCounts { planned, made, read_back } = self.segments;
        if self.kept.lost > 0 || self.mismatched() > 0 {
            DataState::Lost
        } else if made == planned && read_back == planned {
            DataState::Verified
        } else {
            DataState::Unverified
        }
    }

    /// Returns the verdict on the server, based on the worst observation.
    fn judge_server(&self) -> Verdict {
        let mut made = false;
        let mut unmade = false;
        let mut unrecovered = false;
        for effect in &self.effects {
            unmade |= effect.event.failed.is_some();
            made |= effect.event.failed.is_none();
            unrecovered |= effect.before_per_s.is_some()
                && effect.detect_ns.is_some()
                && effect.recover_ns.is_none();
        }
        // Lost data takes precedence over everything, and a missing recovery over failed ops.
        if self.data == DataState::Lost {
            Verdict::LosesData
        } else if self.gave_up || unrecovered || (self.failure.is_some() && made) {
            Verdict::NeverRecovers
        } else if self.failed() > 0 {
            Verdict::FailsOps
        } else if self.failure.is_some() || self.data == DataState::Unverified || unmade {
            Verdict::CantTell
        } else {
            Verdict::Survives
        }
    }
}

/// Counts the ops that failed without returning data. Wrong data, or too little of it, is an answer
/// that the acknowledgement journal evaluates.
fn count_unanswered(pass: &PassResult) -> u64 {
    pass.kinds
        .iter()
        .flat_map(|kind| &kind.errors)
        .filter(|(error, _)| ![OpError::MISMATCH, OpError::SHORT].contains(error))
        .map(|(_, count)| count)
        .sum()
}

/// Returns true if a pass read everything; blocks that could not be read are unknown.
fn is_whole(back: &PassResult) -> bool {
    back.ops() > 0 && count_unanswered(back) == 0
}

/// Returns true if the server no longer recognized a file handle.
///
/// **Source:** RFC 1813, 2.6 (NFS3ERR_STALE, NFS3ERR_BADHANDLE); errno(3) (ESTALE).
const fn is_stale(error: OpError) -> bool {
    matches!(error.0, 70 | 116 | 10_001)
}

/// Returns true if the server no longer recognized an open, lock, lease or session.
///
/// **Source:** RFC 7530, 13.1.5 (EXPIRED, STALE_CLIENTID, STALE_STATEID, OLD_STATEID, BAD_STATEID,
/// GRACE); RFC 8881, 15.1.10 and 15.1.11 (ADMIN_REVOKED, BADSESSION, DEADSESSION).
const fn is_of_state(error: OpError) -> bool {
    matches!(
        error.0,
        10_011 | 10_013 | 10_022 | 10_023 | 10_024 | 10_025 | 10_047 | 10_052 | 10_078
    )
}

#[cfg(test)]
mod tests;
