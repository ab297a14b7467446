//! The verdict on a soak: when faults were noticed, how long they held up, and what was lost.
//!
//! [`soaked`] takes the trials of a soak, its segments, in their order. Everything is derived from
//! intervals, so an instant is known to an interval: [`Effect`] gives the latest that it can be.
//! An unknown is `None`, and the verdict says so rather than guess.

use model::soak::{BlockState, FaultKind, Finding, Recovery};
use model::{
    CaveatCode, FaultEvent, IntervalStats, Kept, OpError, OpKind, Pass, PassResult, Soak, Trial,
    TrialState,
};

use crate::median;

/// A disturbance is over once so much of the throughput before is back.
pub const RECOVERED_SHARE: f64 = 0.9;
/// An interval with less than this share of the throughput before it is disturbed: arrivals at
/// random vary by a tenth or two, never by half.
const HELD_UP_SHARE: f64 = 0.5;
/// An interval is disturbed, too, in which an op took this many times as long as the longest
/// usually did.
const LATE_TIMES: f64 = 10.0;
/// Intervals before a disturbance without which it is unknown what is usual.
const BEFORE_MIN: usize = 5;
/// A disturbance explains nothing that begins later than this after it is over, in nanoseconds.
const NOTICED_WITHIN_NS: u64 = 1_000_000_000;
/// Intervals in a row that have to be as before.
const RECOVERED_INTERVALS: usize = 2;
/// Intervals without which nothing is reported of memory.
const MEMORY_MIN: usize = 40;
/// Segments without which nothing is reported of memory: each of the first four takes what is kept
/// for those after it, and the second quarter of them has to lie behind these.
const MEMORY_SEGMENTS_MIN: usize = 16;
/// More growth than this share, and than so many bytes, is no noise of an allocator.
const GROWTH_SHARE_MAX: f64 = 0.03;
const GROWTH_BYTES_MAX: u64 = 4 << 20;

/// The result of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Soaked {
    /// The verdict on the server.
    pub verdict: Verdict,
    /// Segments that were to be made, made, and read back from the first block to the last.
    pub segments: (u64, u64, u64),
    /// State of what the server had acknowledged as safe.
    pub data: Data,
    /// Bytes and files that were read back after the load, in all segments together.
    pub read_back: (u64, u64),
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
    pub errors: Vec<(OpKind, OpError, u64)>,
    /// Failed ops for a file handle that the server no longer knew.
    pub stale: u64,
    /// Failed ops for an open, a lock, a lease or a session that it no longer knew.
    pub state: u64,
    /// Recovery work of the client.
    pub recovery: Recovery,
    /// Counts of the blocks that were read back, by what became of them.
    pub kept: Kept,
    /// Findings, each with the number of its segment, from 0.
    pub findings: Vec<(u64, Finding)>,
    /// Reason why the last segment failed, where it did.
    pub failure: Option<String>,
    /// Memory of this program; `None` where too little was seen.
    pub memory: Option<Memory>,
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

/// The effect of a disturbance on the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The disturbance; its instants are from the start of the segment.
    pub event: FaultEvent,
    /// Its segment, from 0.
    pub segment: u64,
    /// When it began, in nanoseconds of measured time from the start of the soak.
    pub begun_ns: u64,
    /// Throughput before, in ops per second: the median of the intervals; `None` where there are
    /// too few.
    pub before_per_s: Option<f64>,
    /// How long until the first interval ended in which ops failed, were late, or were few, in
    /// nanoseconds; `None` where there was none.
    pub detect_ns: Option<u64>,
    /// The longest time in which no op ended, in nanoseconds, in whole intervals.
    pub stall_ns: u64,
    /// How long until the throughput was back, in nanoseconds; `None` where it was not before the
    /// segment ended, or it is unknown what it was.
    pub recover_ns: Option<u64>,
    /// Ops that failed from its begin until it was over.
    pub errors: u64,
    /// The longest that an op took meanwhile, in nanoseconds.
    pub longest_ns: u64,
    /// Blocks that were acknowledged and not safe when it began.
    pub uncommitted: u64,
    /// How far a clock was set forward, in milliseconds; 0 where that was not what was done.
    pub by_ms: i64,
    /// Says whether a host saw its clock step while it worked.
    pub saw_step: bool,
    /// How long until an agent that was killed was seen to be gone, in nanoseconds.
    pub noticed_ns: Option<u64>,
    /// Reads of another agent in the place of one that was killed, of what that one had written.
    pub read_back_ops: Option<u64>,
    /// Length of an interval, in nanoseconds: no instant is known better.
    pub interval_ns: u64,
}

/// Memory of this program over the soak, in bytes: medians of the second and the last quarter of
/// all intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Median once the program is warm.
    pub early_bytes: u64,
    /// Median at the end.
    pub late_bytes: u64,
    /// Ops that were done between the middles of both.
    pub ops: u64,
}

impl Memory {
    /// Says whether it did not grow beyond what an allocator does.
    pub fn is_steady(self) -> bool {
        let grown = self.late_bytes.saturating_sub(self.early_bytes);
        grown <= GROWTH_BYTES_MAX || (grown as f64) <= self.early_bytes as f64 * GROWTH_SHARE_MAX
    }
}

/// Judges a soak by its segments.
pub fn soaked(soak: &Soak, trials: &[Trial]) -> Soaked {
    let mut soaked = Soaked {
        verdict: Verdict::CantTell,
        segments: (soak.segments(), 0, 0),
        data: Data::Unverified,
        read_back: (0, 0),
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
        self.segments.1 += u64::from(trial.state == TrialState::Done);
        let back = find_pass(trial, Pass::Read);
        if let Some(back) = back {
            self.segments.2 += u64::from(is_whole(back));
            self.read_back.0 += back.bytes();
            self.read_back.1 += back.scope.working_set.map_or(0, |set| set.files);
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
                self.findings.push((segment, finding.clone()));
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
            if (known.0, known.1) == (kind, error) {
                known.2 += count;
                return;
            }
        }
        self.errors.push((kind, error, count));
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
        for (_, error, count) in &self.errors {
            sum += if is_counted(*error) { *count } else { 0 };
        }
        sum
    }

    fn judge_data(&self) -> Data {
        let (wanted, made, read_back) = self.segments;
        if self.kept.lost > 0 || self.mismatched() > 0 {
            Data::Lost
        } else if made == wanted && read_back == wanted {
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

/// A segment, and when it began within the soak.
#[derive(Clone, Copy)]
struct Segment {
    number: u64,
    start_ns: u64,
}

impl Effect {
    /// Adds what a segment says of the host that was disturbed.
    fn add_host(mut self, soak: &Soak, load: &PassResult, trial: &Trial) -> Self {
        let event = &self.event;
        for (at_ns, disturbance) in soak.within(self.segment) {
            if (at_ns, disturbance.fault) == (event.planned_ns, event.fault) {
                self.by_ms = disturbance.by_ms;
                break;
            }
        }
        let saw_step = load.caveats.iter().any(|caveat| caveat.code == CaveatCode::Clock);
        self.saw_step = self.by_ms != 0 && saw_step;
        if event.fault != FaultKind::ClientKill {
            return self;
        }
        if let (Some(ended_ns), None) = (event.ended_ns, &event.failed) {
            self.noticed_ns = Some(ended_ns.saturating_sub(event.begun_ns));
        }
        if let Some(read) = find_pass(trial, Pass::Read) {
            let own = read.hosts.iter().find(|host| host.host == event.host);
            self.read_back_ops = own.map(|host| host.ops);
        }
        self
    }

    /// Returns when it was undone, in nanoseconds of measured time from the start of the soak.
    pub fn ended_ns(&self) -> Option<u64> {
        let since_begun_ns = self.event.ended_ns?.saturating_sub(self.event.begun_ns);
        Some(self.begun_ns.saturating_add(since_begun_ns))
    }

    /// Finds out what a disturbance did until the next one began.
    fn of(event: &FaultEvent, samples: &[IntervalStats], segment: Segment, until_ns: u64) -> Self {
        let intervals = Intervals { samples };
        let interval_ns = samples.first().map_or(0, |first| first.at_ns);
        // Intervals are in the order of time: those before the disturbance come first.
        let count_before =
            samples.iter().take_while(|sample| sample.at_ns <= event.begun_ns).count();
        let usual = Usual::of(&intervals, count_before);
        let mut effect = Self {
            event: event.clone(),
            segment: segment.number,
            begun_ns: segment.start_ns.saturating_add(event.begun_ns),
            before_per_s: usual.per_s,
            detect_ns: None,
            stall_ns: 0,
            recover_ns: None,
            errors: 0,
            longest_ns: 0,
            uncommitted: samples[..count_before].last().map_or(0, |last| last.uncommitted),
            by_ms: 0,
            saw_step: false,
            noticed_ns: None,
            read_back_ops: None,
            interval_ns,
        };
        if event.failed.is_some() {
            return effect;
        }
        let mut after = Vec::new();
        for index in count_before..samples.len() {
            // The remainder at the end of a segment may be too short for a rate.
            let is_long = intervals.length_ns(index) >= interval_ns / 2;
            if is_long && intervals.begins_ns(index) < until_ns {
                after.push(index);
            }
        }
        effect.add_aftermath(&intervals, &usual, &after);
        effect
    }

    /// Adds when the disturbance was noticed, how long it held up, and when all was as before;
    /// `after` are the intervals that followed it.
    fn add_aftermath(&mut self, intervals: &Intervals<'_>, usual: &Usual, after: &[usize]) {
        let begun_ns = self.event.begun_ns;
        let over_ns = self.event.ended_ns.unwrap_or(begun_ns).saturating_add(NOTICED_WITHIN_NS);
        let is_disturbed = |index: &usize| usual.is_disturbed(intervals, *index);
        let Some(first) = after.iter().position(is_disturbed) else { return };
        if intervals.begins_ns(after[first]) > over_ns {
            return;
        }
        let disturbed = &after[first..];
        self.detect_ns = Some(intervals.samples[disturbed[0]].at_ns.saturating_sub(begun_ns));
        // One good interval may be what a stalled server hands out at once: more must follow.
        let mut runs = disturbed.windows(RECOVERED_INTERVALS);
        let back = runs.position(|run| run.iter().all(|index| usual.is_back(intervals, *index)));
        if let Some(at) = back {
            self.recover_ns = Some(intervals.begins_ns(disturbed[at]).saturating_sub(begun_ns));
        }
        // The first interval that is as before may still end what was held up.
        let held_up = &disturbed[..back.map_or(disturbed.len(), |at| at + 1)];
        let mut stands_ns = 0;
        for index in held_up {
            let sample = &intervals.samples[*index];
            stands_ns = if sample.ops == 0 { stands_ns + intervals.length_ns(*index) } else { 0 };
            self.stall_ns = self.stall_ns.max(stands_ns);
            self.errors += sample.errors;
            self.longest_ns = self.longest_ns.max(sample.max_ns);
        }
    }
}

/// The intervals of a pass, by their numbers.
struct Intervals<'a> {
    samples: &'a [IntervalStats],
}

impl Intervals<'_> {
    /// Returns the instant at which an interval begins: where the one before it ends.
    fn begins_ns(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.samples[index - 1].at_ns }
    }

    /// Returns how long it is, at least 1 ns.
    fn length_ns(&self, index: usize) -> u64 {
        self.samples[index].at_ns.saturating_sub(self.begins_ns(index)).max(1)
    }

    fn per_s(&self, index: usize) -> f64 {
        self.samples[index].ops as f64 * 1e9 / self.length_ns(index) as f64
    }
}

/// The usual figures before a disturbance; `None` where too few intervals were seen.
struct Usual {
    per_s: Option<f64>,
    /// The longest op of an interval, in nanoseconds.
    longest_ns: Option<f64>,
}

impl Usual {
    /// Takes the medians over the first `count` intervals.
    fn of(intervals: &Intervals<'_>, count: usize) -> Self {
        if count < BEFORE_MIN {
            return Self { per_s: None, longest_ns: None };
        }
        let mut rates = Vec::with_capacity(count);
        let mut longest = Vec::with_capacity(count);
        for (index, sample) in intervals.samples[..count].iter().enumerate() {
            rates.push(intervals.per_s(index));
            longest.push(sample.max_ns as f64);
        }
        Self { per_s: median(&rates), longest_ns: median(&longest) }
    }

    /// Says whether an interval is as good as before.
    fn is_back(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let Some(before) = self.per_s else { return false };
        intervals.samples[index].errors == 0 && intervals.per_s(index) >= before * RECOVERED_SHARE
    }

    /// Says whether an interval has errors, no ops, far fewer than before, or a very late one.
    fn is_disturbed(&self, intervals: &Intervals<'_>, index: usize) -> bool {
        let sample = &intervals.samples[index];
        let is_few =
            self.per_s.is_some_and(|before| intervals.per_s(index) < before * HELD_UP_SHARE);
        let is_late =
            self.longest_ns.is_some_and(|usual| sample.max_ns as f64 > usual * LATE_TIMES);
        // Without usual figures only what is wrong in itself counts.
        sample.errors > 0 || sample.ops == 0 || is_few || is_late
    }
}

/// Compares the memory of this program early in a soak with that at its end.
///
/// The first quarter of the intervals is left out: caches and allocators fill up in it.
fn measure_memory(trials: &[Trial]) -> Option<Memory> {
    let mut segments = 0;
    let mut samples: Vec<&IntervalStats> = Vec::new();
    for load in trials.iter().filter_map(|trial| find_pass(trial, Pass::Mix)) {
        segments += 1;
        samples.extend(load.intervals.iter().filter(|sample| sample.rss_bytes > 0));
    }
    if samples.len() < MEMORY_MIN || segments < MEMORY_SEGMENTS_MIN {
        return None;
    }
    let quarter = samples.len() / 4;
    let (early, late) = (quarter..2 * quarter, samples.len() - quarter..samples.len());
    let between = early.start + quarter / 2..late.start + quarter / 2;
    Some(Memory {
        early_bytes: median_rss(&samples[early]),
        late_bytes: median_rss(&samples[late]),
        ops: samples[between].iter().map(|sample| sample.ops).sum(),
    })
}

fn median_rss(samples: &[&IntervalStats]) -> u64 {
    let bytes: Vec<f64> = samples.iter().map(|sample| sample.rss_bytes as f64).collect();
    median(&bytes).unwrap_or(0.0) as u64
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
