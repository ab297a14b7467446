//! Results of a replay, as printed and stored.
//!
//! [`Outcome`] is computed from the record at the end. Its fields are those of the JSON file, so a
//! new field needs a default to keep older files readable.

use model::Histogram;
use nfs_client::proto::Status;
use nfs_client::proto::client::{OperationKind, ProtocolVersion};
use serde::{Deserialize, Serialize};
use trace::Quantiles;

use crate::lanes::Pace;
use crate::plan::ReplayPlan;
use crate::recorder::{PartSums, Recorder, Slice, StepOutcome};
use crate::target_kind::TargetKind;
use crate::tree::NONE;

/// A slice is behind if its mean response time exceeds ten times that of the origin by more than
/// this.
const BEHIND_NS: u64 = 100_000_000;
/// Factor for the origin's mean response time.
const BEHIND_TIMES: u64 = 10;
/// A replay is slower than the trace if its mean response time, or the median of a kind, is more
/// than this multiple of the trace's. Less can be the network between the server and a capture on
/// it.
const SLOW_TIMES: u64 = 2;
/// Minimum number of operations of a kind for a meaningful median.
const MEDIAN_OPS_MIN: u64 = 10;

/// How a replay went; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was stopped before all operations were started.
    Interrupted,
    /// Operations failed that did not fail in the trace, had no reply, or could not be issued.
    Failed,
    /// This client was late itself, so the replay says nothing about the server.
    ClientLate,
    /// The server fell behind for good.
    FellBehind,
    /// It was closed, so there was no schedule to keep up with.
    Done,
    /// The server kept the schedule, with response times far above those of the trace.
    Slower,
    /// The server kept the schedule, with response times like those of the trace or shorter.
    KeptUp,
}

impl Verdict {
    /// Returns true if the replay measured the target under the load of the trace.
    pub const fn is_valid(self) -> bool {
        !matches!(self, Self::Interrupted | Self::Failed | Self::ClientLate)
    }
}

/// A kind of operation that is much slower than in the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowKind<'a> {
    /// Name of the operation.
    pub name: &'a str,
    /// Its median response time, without the lateness of this client, over that of the trace.
    pub ratio: f64,
}

/// A replay at one speed. Times are in nanoseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
pub struct Outcome {
    /// Speed relative to the trace; `None` for a closed replay.
    pub speed: Option<f64>,
    /// Whether a closed replay included the think times of the trace.
    #[serde(default)]
    pub has_think_times: bool,
    /// How often the trace was replayed, each time on a new tree.
    #[serde(default = "once")]
    pub rounds: u64,
    /// Number of emulated clients.
    pub clients: u64,
    /// Operations of the plan.
    pub ops: u64,
    /// Operations that were issued.
    pub issued: u64,
    /// Operations that ended with a reply or a connection failure.
    pub accounted: u64,
    /// Operations that could not be issued, because a file's handle could not be obtained or the
    /// target's version cannot express them.
    pub skipped: u64,
    /// Operations that had not started when the replay was stopped.
    pub not_started: u64,
    /// Calls sent by the client's RPC layer, including its own.
    pub calls_sent: u64,
    /// The client's own calls: closing what it created, confirming opens, renewing leases.
    pub own_calls: u64,
    /// Calls that were sent again.
    pub retransmissions: u64,
    /// Connections that were reopened.
    pub reconnects: u64,
    /// How long it should have taken, according to the trace and the speed.
    pub planned_ns: u64,
    /// Time from the first scheduled start to the last reply.
    pub took_ns: u64,
    /// Since when the server was permanently behind.
    pub behind: Option<BehindPeriod>,
    /// How late operations started because this program was busy.
    pub own_lateness: Quantiles,
    /// How late operations started because they waited for replies.
    pub start_wait: Quantiles,
    /// Response times of all operations.
    #[serde(default)]
    pub response: Quantiles,
    /// Kinds of operations, most frequent first.
    pub kinds: Vec<KindOutcome>,
    /// Failures that were not in the trace.
    pub problems: Vec<Problem>,
    /// Response times over time, by scheduled start.
    pub timeline: Vec<TimeSlice>,
    /// The hosts that shared the replay; empty if this host did it on its own.
    #[serde(default)]
    pub hosts: Vec<HostOutcome>,
}

/// The part of one of several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOutcome {
    /// Name of the host.
    pub name: String,
    /// Number of clients it emulated.
    pub clients: u64,
    /// Operations it issued.
    pub issued: u64,
    /// Notices of ended operations it sent to hosts that waited for them.
    pub notices: u64,
    /// How late operations started because this host, or the connection between hosts, was slow.
    pub own_lateness: Quantiles,
    /// Error bound of its start time, in nanoseconds.
    pub clock_error_ns: u64,
}

/// When a replay fell behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BehindPeriod {
    /// Time in the replay since when it was behind.
    pub from_ns: u64,
    /// Whether this program was late rather than the server. If so, it says nothing about the
    /// server.
    #[serde(default)]
    pub is_own_fault: bool,
}

const fn once() -> u64 {
    1
}

/// Operations of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindOutcome {
    /// Name of the operation.
    pub kind: String,
    /// Operations of this kind.
    pub ops: u64,
    /// Operations that got a reply.
    pub ended: u64,
    /// Operations that could not be issued.
    pub skipped: u64,
    /// Failures that also occurred in the trace.
    pub expected_errors: u64,
    /// Failures that did not occur in the trace.
    pub unexpected_errors: u64,
    /// Failures in the trace that succeeded here.
    pub missing_errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Times from scheduled start to reply.
    pub response: Quantiles,
    /// Times from actual start to reply.
    pub service: Quantiles,
    /// Response times of the same operations in the trace.
    pub origin: Quantiles,
    /// Sums for each twentieth of the trace, round after round.
    #[serde(default)]
    pub parts: Vec<PartSums>,
}

/// Unexpected failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Name of the operation.
    pub kind: String,
    /// Its result at the origin.
    pub origin: String,
    /// Its result in the replay.
    pub ended: String,
    /// Number of such failures.
    pub count: u64,
}

/// A part of a replay's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSlice {
    /// Start of the slice.
    pub from_ns: u64,
    /// Operations scheduled in this slice that were started.
    pub started: u64,
    /// Their mean response time.
    pub response_ns: u64,
    /// Their mean response time at the origin.
    pub origin_ns: u64,
    /// Longest time that a start had to wait for replies.
    pub start_wait_max_ns: u64,
    /// Mean delay of starts because this program was busy.
    #[serde(default)]
    pub(crate) own_late_ns: u64,
    /// Operations that ended in this slice, regardless of when they were scheduled.
    #[serde(default)]
    pub done: u64,
}

/// A finished replay, to which rounds can be added.
#[derive(Debug)]
pub struct Record {
    recorder: Recorder,
    planned: PlannedValues,
    wire: Wire,
    hosts: Vec<HostRecord>,
}

/// The part of one of several hosts.
#[derive(Debug)]
struct HostRecord {
    name: String,
    clients: u64,
    issued: u64,
    notices: u64,
    own_lateness: Histogram,
    clock_error_ns: u64,
}

impl Record {
    pub(crate) const fn new(recorder: Recorder, planned: PlannedValues, wire: Wire) -> Self {
        Self { recorder, planned, wire, hosts: Vec::new() }
    }

    /// Creates the record of a replay shared by several hosts. Returns `None` if there are no
    /// hosts.
    pub fn from_shares(
        plan: &ReplayPlan,
        pace: Pace,
        target: TargetKind,
        shares: Vec<HostShare>,
    ) -> Option<Self> {
        let mut joined: Option<Self> = None;
        for HostShare { name, clock_error_ns, share } in shares {
            let ShareRecord { recorder, wire, notices } = share;
            let host = HostRecord {
                name,
                clients: wire.clients,
                issued: recorder.issued,
                notices,
                own_lateness: recorder.own_lateness.clone(),
                clock_error_ns,
            };
            if let Some(joined) = &mut joined {
                joined.recorder.join(&recorder);
                joined.wire.add(wire);
                joined.wire.clients += wire.clients;
            }
            let first = || Self::new(recorder, PlannedValues::from_plan(plan, pace, target), wire);
            joined.get_or_insert_with(first).hosts.push(host);
        }
        joined
    }

    /// Adds another round of the same plan at the same pace.
    pub fn append(&mut self, other: Self) {
        self.recorder.append(other.recorder);
        self.planned.rounds += other.planned.rounds;
        self.planned.ops += other.planned.ops;
        self.planned.duration_ns += other.planned.duration_ns;
        self.wire.add(other.wire);
        for (host, more) in std::iter::zip(&mut self.hosts, other.hosts) {
            host.issued += more.issued;
            host.notices += more.notices;
            host.own_lateness.merge(&more.own_lateness);
            host.clock_error_ns = host.clock_error_ns.max(more.clock_error_ns);
        }
    }

    /// Returns the results.
    pub fn outcome(&self) -> Outcome {
        let mut hosts = Vec::with_capacity(self.hosts.len());
        for host in &self.hosts {
            hosts.push(HostOutcome {
                name: host.name.clone(),
                clients: host.clients,
                issued: host.issued,
                notices: host.notices,
                own_lateness: Quantiles::from_histogram(&host.own_lateness),
                clock_error_ns: host.clock_error_ns,
            });
        }
        Outcome { hosts, ..Outcome::new(&self.recorder, &self.planned, self.wire) }
    }
}

/// One host's record in a replay shared by several.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShareRecord {
    pub(crate) recorder: Recorder,
    pub(crate) wire: Wire,
    /// Number of notices it sent to other hosts.
    pub(crate) notices: u64,
}

/// The record of one host, with its name.
#[derive(Debug)]
pub struct HostShare {
    /// Name of the host.
    pub name: String,
    /// Error bound of its start time, in nanoseconds.
    pub clock_error_ns: u64,
    /// The record of its part.
    pub share: ShareRecord,
}

/// Counts of connections.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Wire {
    pub calls_sent: u64,
    pub retransmissions: u64,
    pub reconnects: u64,
    pub clients: u64,
}

impl Wire {
    /// Adds the counts of other connections, or of the same ones at a later time, but not the
    /// number of clients.
    fn add(&mut self, other: Self) {
        self.calls_sent += other.calls_sent;
        self.retransmissions += other.retransmissions;
        self.reconnects += other.reconnects;
    }
}

/// The plan that an outcome refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedValues {
    pub pace: Pace,
    pub rounds: u64,
    pub ops: u64,
    pub duration_ns: u64,
    pub target: TargetKind,
}

impl PlannedValues {
    /// Returns the values for one round of a plan on a target.
    pub(crate) fn from_plan(plan: &ReplayPlan, pace: Pace, target: TargetKind) -> Self {
        let duration_ns = pace.instant_ns(0, plan.duration_ns);
        Self { pace, rounds: 1, ops: plan.batch.ops() as u64, duration_ns, target }
    }
}

impl Outcome {
    fn new(recorder: &Recorder, planned: &PlannedValues, wire: Wire) -> Self {
        let mut kinds = Vec::new();
        let mut skipped = 0;
        let mut response = Histogram::new();
        for (kind, record) in OperationKind::ALL.iter().zip(&recorder.kinds) {
            if record.steps == 0 {
                continue;
            }
            skipped += record.skipped;
            response.merge(&record.response);
            kinds.push(KindOutcome {
                kind: kind.name().to_owned(),
                ops: record.steps,
                ended: record.ended,
                skipped: record.skipped,
                expected_errors: record.expected_errors,
                unexpected_errors: record.unexpected_errors,
                missing_errors: record.missing_errors,
                bytes: record.bytes,
                response: Quantiles::from_histogram(&record.response),
                service: Quantiles::from_histogram(&record.service),
                origin: Quantiles::from_histogram(&record.origin),
                parts: record.parts.clone(),
            });
        }
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.ops));
        let mut problems = Vec::new();
        for problem in &recorder.problems {
            problems.push(Problem {
                kind: name_of_kind(problem.kind).to_owned(),
                origin: status_name(problem.origin, planned.target.status_version()),
                ended: match problem.ended {
                    StepOutcome::Status(status) => {
                        status_name(status, planned.target.status_version())
                    }
                    StepOutcome::Failed => "no reply".to_owned(),
                },
                count: problem.count,
            });
        }
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.count));
        let speed = match planned.pace {
            Pace::Open { speed } => Some(speed),
            Pace::Closed | Pace::Thinking => None,
        };
        let timeline = timeline_of(&recorder.slices, recorder.slice_ns);
        Self {
            speed,
            has_think_times: planned.pace == Pace::Thinking,
            rounds: planned.rounds,
            clients: wire.clients,
            ops: planned.ops,
            issued: recorder.issued,
            accounted: recorder.accounted,
            skipped,
            not_started: planned.ops - recorder.issued - skipped,
            calls_sent: wire.calls_sent,
            own_calls: wire.calls_sent.saturating_sub(recorder.accounted),
            retransmissions: wire.retransmissions,
            reconnects: wire.reconnects,
            planned_ns: planned.duration_ns,
            took_ns: recorder.end_ns.saturating_sub(recorder.begin_ns),
            behind: if speed.is_some() { find_behind_period(&timeline) } else { None },
            own_lateness: Quantiles::from_histogram(&recorder.own_lateness),
            start_wait: Quantiles::from_histogram(&recorder.start_wait),
            response: Quantiles::from_histogram(&response),
            kinds,
            problems,
            timeline,
            hosts: Vec::new(),
        }
    }

    /// Returns true if every operation was issued and ended as in the trace.
    pub fn is_faithful(&self) -> bool {
        self.accounted == self.ops && self.not_started == 0 && self.unexpected_errors() == 0
    }

    /// Returns the number of operations that failed and did not fail in the trace.
    pub fn unexpected_errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.unexpected_errors).sum()
    }

    /// Returns how the replay went.
    pub fn verdict(&self) -> Verdict {
        match self.behind {
            _ if self.not_started > 0 => Verdict::Interrupted,
            _ if !self.is_faithful() => Verdict::Failed,
            Some(behind) if behind.is_own_fault => Verdict::ClientLate,
            Some(_) => Verdict::FellBehind,
            None if self.speed.is_none() => Verdict::Done,
            None if self.is_slow() => Verdict::Slower,
            None => Verdict::KeptUp,
        }
    }

    fn is_slow(&self) -> bool {
        let mut here_ns = 0_u64;
        let mut origin_ns = 0_u64;
        for part in self.kinds.iter().flat_map(|kind| &kind.parts) {
            here_ns = here_ns.saturating_add(part.paired_ns);
            origin_ns = origin_ns.saturating_add(part.origin_ns);
        }
        here_ns > origin_ns.saturating_mul(SLOW_TIMES) || self.slowest_kind().is_some()
    }

    /// Returns the kind whose median grew most, if that is far above the median of the trace.
    pub fn slowest_kind(&self) -> Option<SlowKind<'_>> {
        let mut slowest: Option<SlowKind<'_>> = None;
        for kind in &self.kinds {
            let origin_ns = kind.origin.p50;
            if kind.origin.count < MEDIAN_OPS_MIN || origin_ns == 0 {
                continue;
            }
            let here_ns = kind.response.p50.saturating_sub(self.own_lateness.p50);
            let ratio = here_ns as f64 / origin_ns as f64;
            if ratio > SLOW_TIMES as f64 && slowest.is_none_or(|known| ratio > known.ratio) {
                slowest = Some(SlowKind { name: &kind.kind, ratio });
            }
        }
        slowest
    }
}

/// Returns the name of a kind of operation, given its index.
pub(crate) fn name_of_kind(place: u16) -> &'static str {
    OperationKind::ALL.get(usize::from(place)).map_or("unknown", |kind| kind.name())
}

fn status_name(status: u32, version: ProtocolVersion) -> String {
    match status {
        NONE => "unknown".to_owned(),
        0 => "success".to_owned(),
        number => Status::from_number(number).name_in(version).to_owned(),
    }
}

fn timeline_of(slices: &[Slice], slice_ns: u64) -> Vec<TimeSlice> {
    let mut timeline = Vec::new();
    for (number, slice) in slices.iter().enumerate() {
        if slice.scheduled + slice.done > 0 {
            timeline.push(TimeSlice {
                from_ns: number as u64 * slice_ns,
                started: slice.scheduled,
                response_ns: slice.response_ns.checked_div(slice.ended).unwrap_or(0),
                origin_ns: slice.origin_ns.checked_div(slice.origin_count).unwrap_or(0),
                start_wait_max_ns: slice.start_wait_max_ns,
                own_late_ns: slice.own_late_ns.checked_div(slice.scheduled).unwrap_or(0),
                done: slice.done,
            });
        }
    }
    timeline
}

/// Returns since when the replay was behind: the first of the slices up to the end that are all
/// behind, if there are at least two. It is the server's fault if the slices would be behind even
/// without our own delays.
fn find_behind_period(timeline: &[TimeSlice]) -> Option<BehindPeriod> {
    let mut behind: Option<BehindPeriod> = None;
    let mut slices = 0;
    for slice in timeline.iter().rev() {
        if slice.started == 0 {
            continue;
        }
        let limit_ns = BEHIND_NS + BEHIND_TIMES * slice.origin_ns;
        if slice.response_ns <= limit_ns {
            break;
        }
        let is_own_fault = slice.response_ns.saturating_sub(slice.own_late_ns) <= limit_ns;
        let was_own_fault = behind.is_none_or(|behind| behind.is_own_fault);
        behind = Some(BehindPeriod {
            from_ns: slice.from_ns,
            is_own_fault: is_own_fault && was_own_fault,
        });
        slices += 1;
    }
    behind.filter(|_| slices > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(responses_ms: &[u64]) -> Vec<TimeSlice> {
        let mut timeline = Vec::new();
        for (number, response_ms) in responses_ms.iter().enumerate() {
            timeline.push(TimeSlice {
                from_ns: number as u64,
                started: 1,
                response_ns: response_ms * 1_000_000,
                origin_ns: 1_000_000,
                start_wait_max_ns: 0,
                own_late_ns: 0,
                done: 1,
            });
        }
        timeline
    }

    #[test]
    fn finds_start_of_permanent_lag() {
        let behind = BehindPeriod { from_ns: 2, is_own_fault: false };
        assert_eq!(find_behind_period(&timeline(&[1, 2, 300, 500])), Some(behind));
        // A temporary stall doesn't count, nor does a slow server that isn't getting slower.
        assert_eq!(find_behind_period(&timeline(&[1, 900, 2, 1])), None);
        assert_eq!(find_behind_period(&timeline(&[100, 110, 105])), None);
        // One slice shows no trend.
        assert_eq!(find_behind_period(&timeline(&[1, 2, 300])), None);
        assert_eq!(find_behind_period(&[]), None);
    }
    #[test]
    fn blames_no_server_for_late_client() {
        let mut late = timeline(&[1, 2, 300, 500]);
        for slice in &mut late[2..] {
            slice.own_late_ns = slice.response_ns - 5_000_000;
        }
        assert_eq!(
            find_behind_period(&late),
            Some(BehindPeriod { from_ns: 2, is_own_fault: true })
        );
        // In one of the parts, the server would be behind on its own.
        late[3].own_late_ns = 1_000_000;
        assert_eq!(
            find_behind_period(&late),
            Some(BehindPeriod { from_ns: 2, is_own_fault: false })
        );
    }
}
