//! The verdict on a soak: when faults were noticed, how long they held up, and what was lost.
//!
//! [`soaked`] takes the trials of a soak, its segments, in their order. Everything is derived from
//! intervals, so an instant is known to an interval: [`Effect`] gives the latest that it can be.
//! An unknown is `None`, and the verdict says so rather than guess.

mod effect;
mod memory;

use model::soak::{BlockState, Finding, Recovery};
use model::{Kept, OpError, OpKind, Pass, PassResult, Soak, Trial, TrialState};

use effect::Segment;
use memory::measure_memory;

pub use effect::Effect;
pub use memory::Memory;

/// A block that isn't what it should be, and where in a soak that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentFinding {
    /// The number of the segment, from 0.
    pub segment: u64,
    /// The state of the block.
    pub finding: Finding,
}

/// The result of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Soaked {
    /// The verdict on the server.
    pub verdict: Verdict,
    /// Counts of its segments.
    pub segments: SegmentCounts,
    /// State of what the server had acknowledged as safe.
    pub data: Data,
    /// The data that was read back after the load, in all segments together.
    pub read_back: ReadBack,
    /// A client gave up: its load ended for want of answers.
    pub gave_up: bool,
    /// Time that was measured, in nanoseconds.
    pub measured_ns: u64,
    /// Ops of the load that ended well.
    pub ops: u64,
    /// Bytes that were read and verified.
    pub verified_bytes: u64,
    /// The effect of each disturbance.
    pub effects: Vec<Effect>,
    /// Ops that failed, by kind and error; those that found lost data among them.
    pub errors: Vec<FailedOps>,
    /// Failed ops for a file handle that the server no longer knew.
    pub stale: u64,
    /// Failed ops for an open, a lock, a lease or a session that it no longer knew.
    pub state: u64,
    /// Recovery work of the client.
    pub recovery: Recovery,
    /// Counts of the blocks that were read back, by what became of them.
    pub kept: Kept,
    /// Findings of all segments, in their order.
    pub findings: Vec<SegmentFinding>,
    /// Reason why the last segment failed, where it did.
    pub failure: Option<String>,
    /// Memory of this program; `None` where too little was seen.
    pub memory: Option<Memory>,
}

/// Counts of the segments of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Those that were to be made.
    pub planned: u64,
    /// Those that were made to their end.
    pub made: u64,
    /// Those that were read back from the first block to the last.
    pub read_back: u64,
}

/// The amount of data that was read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

/// Ops of one kind that failed with one error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedOps {
    /// The kind of the ops.
    pub kind: OpKind,
    /// The error of all of them.
    pub error: OpError,
    /// Number of ops.
    pub count: u64,
}

/// The state of data that was acknowledged as safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All of it was read back after every segment, and is there.
    Verified,
    /// Some of it is gone, or other bytes are in its place.
    Lost,
    /// Not all of it could be read back, so it is unknown.
    Unverified,
}

impl Data {
    /// Returns its name, as exports spell it.
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
    /// It lost what it had acknowledged as safe, or altered data.
    LosesData,
    /// It did not come back.
    NeverRecovers,
    /// Ops failed; [`Soaked::data`] says what became of the data.
    FailsOps,
    /// Not all was done that was to be.
    CantTell,
}

impl Verdict {
    /// Returns its name, as exports spell it.
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
pub fn soaked(soak: &Soak, trials: &[Trial]) -> Soaked {
    let mut soaked = Soaked {
        verdict: Verdict::CantTell,
        segments: SegmentCounts { planned: soak.segments(), made: 0, read_back: 0 },
        data: Data::Unverified,
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
        kept: Kept::default(),
        findings: Vec::new(),
        failure: None,
        memory: measure_memory(trials),
    };
    for trial in trials {
        soaked.add_segment(soak, trial);
    }
    soaked.data = soaked.judge_data();
    soaked.verdict = soaked.judge_server();
    soaked
}

/// Returns the result of a pass of a segment.
fn find_pass(trial: &Trial, pass: Pass) -> Option<&PassResult> {
    trial.passes.iter().find(|result| result.pass == pass)
}

impl Soaked {
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
        // A load that failed, and data that was not even read back: the client gave up waiting.
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
        // Only the last pass that counted blocks enters: it looked at all of them.
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
                let effect = Effect::of(event, &load.intervals, here, until_ns);
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

    /// Adds the recovery work that a pass recorded.
    fn add_recovery(&mut self, pass: &PassResult) {
        if let Some(recovery) = pass.scope.recovery {
            self.recovery.add(recovery);
        }
    }

    /// Counts the ops that failed otherwise than by bringing the wrong bytes.
    pub fn failed(&self) -> u64 {
        self.count_errors(|error| error != OpError::MISMATCH)
    }

    /// Counts the ops that brought other bytes than may stand there.
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

    fn judge_data(&self) -> Data {
        let SegmentCounts { planned, made, read_back } = self.segments;
        if self.kept.lost > 0 || self.mismatched() > 0 {
            Data::Lost
        } else if made == planned && read_back == planned {
            Data::Verified
        } else {
            Data::Unverified
        }
    }

    /// Judges the server; the worst that was seen decides.
    fn judge_server(&self) -> Verdict {
        let (mut made, mut unmade, mut unrecovered) = (false, false, false);
        for effect in &self.effects {
            unmade |= effect.event.failed.is_some();
            made |= effect.event.failed.is_none();
            unrecovered |= effect.before_per_s.is_some()
                && effect.detect_ns.is_some()
                && effect.recover_ns.is_none();
        }
        // Lost data outweighs everything; a server that never recovered, single failed ops.
        if self.data == Data::Lost {
            Verdict::LosesData
        } else if self.gave_up || unrecovered || (self.failure.is_some() && made) {
            Verdict::NeverRecovers
        } else if self.failed() > 0 {
            Verdict::FailsOps
        } else if self.failure.is_some() || self.data == Data::Unverified || unmade {
            Verdict::CantTell
        } else {
            Verdict::Survives
        }
    }
}

/// Counts the ops that failed without bringing any bytes. Wrong bytes, or too few of them, are an
/// answer: the acknowledgement journal of the soak says whether they may be so.
fn count_unanswered(pass: &PassResult) -> u64 {
    let mut unanswered = 0;
    for (error, count) in pass.kinds.iter().flat_map(|kind| &kind.errors) {
        if ![OpError::MISMATCH, OpError::SHORT].contains(error) {
            unanswered += count;
        }
    }
    unanswered
}

/// Says whether a pass read all that there is to read: blocks that failed to be read are unknown.
fn is_whole(back: &PassResult) -> bool {
    back.ops() > 0 && count_unanswered(back) == 0
}

/// Says whether a server no longer knew a file handle.
///
/// **Source:** RFC 1813, 2.6 (NFS3ERR_STALE, NFS3ERR_BADHANDLE); errno(3) (ESTALE).
const fn is_stale(error: OpError) -> bool {
    matches!(error.0, 70 | 116 | 10_001)
}

/// Says whether a server no longer knew an open, a lock, a lease or a session.
///
/// **Source:** RFC 7530, 13.1.5 (EXPIRED, STALE_CLIENTID, STALE_STATEID, OLD_STATEID, BAD_STATEID,
/// GRACE); RFC 8881, 15.1.10 and 15.1.11 (ADMIN_REVOKED, BADSESSION, DEADSESSION).
const fn is_of_state(error: OpError) -> bool {
    matches!(
        error.0,
        10_011 | 10_013 | 10_022 | 10_023 | 10_024 | 10_025 | 10_047 | 10_052 | 10_078
    )
}

/// Says whether what became of a block is a loss.
pub const fn is_loss(finding: &Finding) -> bool {
    matches!(finding.state, BlockState::Lost)
}

#[cfg(test)]
mod tests;
