//! Records results while steps are issued.
//!
//! [`Recorder`] has counts and histograms for each kind of operation, and time slices. All tables
//! are created in advance, so recording allocates nothing.

use model::Histogram;
use nfs_client::proto::client::OperationKind;
use serde::{Deserialize, Serialize};

use crate::lanes::Start;
use crate::step::Step;
use crate::tree::NONE;

/// Maximum number of different failures to distinguish.
const PROBLEMS_MAX: usize = 32;
/// Number of time slices in which operations are scheduled.
const SLICES: u64 = 100;
/// Number of slices in which operations end. A server may take four times as long as planned;
/// anything later goes into the last slice.
const SLICES_OF_ENDS: u64 = 4 * SLICES;
/// Number of parts of a trace used for intervals: enough for a spread, with many operations in
/// each.
const PARTS: u64 = 20;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StepOutcome {
    /// With this NFS status.
    Status(u32),
    /// Without a usable reply.
    Failed,
}

/// Times of a step that got a reply, in nanoseconds of the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub scheduled_ns: u64,
    pub started_ns: u64,
    pub done_ns: u64,
}

/// The record of one kind of operation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KindRecord {
    /// Steps of this kind.
    pub steps: u64,
    /// Steps that got a reply.
    pub ended: u64,
    /// Steps not issued because a handle is missing or the client cannot express them.
    pub skipped: u64,
    /// Failures that also occurred in the trace.
    pub expected_errors: u64,
    /// Failures that did not occur in the trace.
    pub unexpected_errors: u64,
    /// Failures in the trace that succeeded in the replay.
    pub missing_errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Times from scheduled start to reply.
    pub response: Histogram,
    /// Times from actual start to reply.
    pub service: Histogram,
    /// Response times of the same steps at the origin.
    pub origin: Histogram,
    /// Sums for each part of the trace.
    pub parts: Vec<PartSums>,
}

/// Sums over the operations of one kind in a part of the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSums {
    /// Operations that ended.
    pub ops: u64,
    /// Sum of their response times in nanoseconds, excluding this program's own delays.
    pub response_ns: u64,
    /// Operations whose response time at the origin is also known.
    pub paired_ops: u64,
    /// Sum of their response times here, excluding this program's own delays.
    pub paired_ns: u64,
    /// Sum of their response times at the origin.
    pub origin_ns: u64,
}

impl PartSums {
    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.response_ns += other.response_ns;
        self.paired_ops += other.paired_ops;
        self.paired_ns += other.paired_ns;
        self.origin_ns += other.origin_ns;
    }
}

/// Unexpected failures with the same kind and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProblemCount {
    /// Index of the kind in [`OperationKind::ALL`].
    pub kind: u16,
    /// Status at the origin; `NONE` if unknown.
    pub origin: u32,
    pub ended: StepOutcome,
    pub count: u64,
}

/// A part of a replay's time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Slice {
    pub scheduled: u64,
    pub ended: u64,
    pub response_ns: u64,
    pub origin_ns: u64,
    pub(crate) origin_count: u64,
    pub start_wait_max_ns: u64,
    /// Total delay of starts because this program was busy.
    pub(crate) own_late_ns: u64,
    pub(crate) own_late_max_ns: u64,
    /// Steps that ended in this slice, regardless of when they were scheduled.
    pub done: u64,
}

impl Slice {
    fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.ended += other.ended;
        self.response_ns += other.response_ns;
        self.origin_ns += other.origin_ns;
        self.origin_count += other.origin_count;
        self.start_wait_max_ns = self.start_wait_max_ns.max(other.start_wait_max_ns);
        self.own_late_ns += other.own_late_ns;
        self.own_late_max_ns = self.own_late_max_ns.max(other.own_late_max_ns);
        self.done += other.done;
    }
}

/// Records a replay.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recorder {
    /// A record for each kind, in the order of [`OperationKind::ALL`].
    pub kinds: Vec<KindRecord>,
    /// Steps that were issued.
    pub issued: u64,
    /// Steps that have ended, with or without a reply.
    pub accounted: u64,
    /// How late steps started because this program was busy, in nanoseconds.
    pub own_lateness: Histogram,
    /// How late steps started because they waited for replies, in nanoseconds.
    pub start_wait: Histogram,
    /// Each step's delay because this program was busy, by its number.
    #[serde(skip)]
    own_late_ns: Vec<u32>,
    pub problems: Vec<ProblemCount>,
    pub slices: Vec<Slice>,
    pub slice_ns: u64,
    /// Length of a part of the trace, in nanoseconds of the trace.
    part_ns: u64,
    /// When the first step was scheduled.
    pub begin_ns: u64,
    /// When the last reply arrived.
    pub end_ns: u64,
}

impl Recorder {
    /// Creates the records for a replay planned to take `duration_ns`, of a trace that takes
    /// `trace_ns` and has `steps` steps.
    pub(crate) fn new(duration_ns: u64, trace_ns: u64, steps: usize) -> Self {
        let mut kinds = Vec::new();
        for _ in OperationKind::ALL {
            kinds.push(KindRecord {
                steps: 0,
                ended: 0,
                skipped: 0,
                expected_errors: 0,
                unexpected_errors: 0,
                missing_errors: 0,
                bytes: 0,
                response: Histogram::new(),
                service: Histogram::new(),
                origin: Histogram::new(),
                parts: vec![PartSums::default(); PARTS as usize],
            });
        }
        Self {
            kinds,
            issued: 0,
            accounted: 0,
            own_lateness: Histogram::new(),
            start_wait: Histogram::new(),
            own_late_ns: vec![0; steps],
            problems: Vec::with_capacity(PROBLEMS_MAX),
            slices: vec![Slice::default(); SLICES_OF_ENDS as usize],
            slice_ns: duration_ns / SLICES + 1,
            part_ns: trace_ns / PARTS + 1,
            begin_ns: 0,
            end_ns: 0,
        }
    }

    /// Records that a step starts.
    pub(crate) fn start(&mut self, start: &Start, now_ns: u64) {
        let start_wait_ns = start.ready_ns - start.scheduled_ns;
        let own_late_ns = now_ns.saturating_sub(start.ready_ns);
        self.own_lateness.record(own_late_ns);
        if let Some(known) = self.own_late_ns.get_mut(start.step as usize) {
            *known = u32::try_from(own_late_ns).unwrap_or(u32::MAX);
        }
        self.start_wait.record(start_wait_ns);
        let slice = self.slice_mut(start.scheduled_ns);
        slice.scheduled += 1;
        slice.start_wait_max_ns = slice.start_wait_max_ns.max(start_wait_ns);
        slice.own_late_ns += own_late_ns;
        slice.own_late_max_ns = slice.own_late_max_ns.max(own_late_ns);
    }

    /// Records that a step was issued.
    pub(crate) fn record_issue(&mut self, step: &Step) {
        self.issued += 1;
        self.kinds[step.action.kind() as usize].steps += 1;
    }

    /// Records that a step cannot be issued.
    pub(crate) fn skip(&mut self, step: &Step) {
        let kind = &mut self.kinds[step.action.kind() as usize];
        kind.steps += 1;
        kind.skipped += 1;
    }

    /// Records how the step with this number has ended.
    pub(crate) fn end(
        &mut self,
        number: u32,
        step: &Step,
        times: &Times,
        ended: StepOutcome,
        bytes: u32,
    ) {
        let Times { scheduled_ns, started_ns, done_ns } = *times;
        self.accounted += 1;
        self.end_ns = self.end_ns.max(done_ns);
        let response_ns = done_ns.saturating_sub(scheduled_ns);
        let kind = &mut self.kinds[step.action.kind() as usize];
        kind.ended += 1;
        kind.bytes += u64::from(bytes);
        kind.response.record(response_ns);
        kind.service.record(done_ns.saturating_sub(started_ns));
        let part = (step.scheduled_ns / self.part_ns).min(PARTS - 1) as usize;
        let sums = &mut kind.parts[part];
        // The target isn't responsible for this program's own delay.
        let own_late_ns = self.own_late_ns.get(number as usize).copied().unwrap_or(0);
        let target_ns = response_ns.saturating_sub(u64::from(own_late_ns));
        sums.ops += 1;
        sums.response_ns += target_ns;
        if step.origin_ns != u64::MAX {
            kind.origin.record(step.origin_ns);
            sums.paired_ops += 1;
            sums.paired_ns += target_ns;
            sums.origin_ns += step.origin_ns;
        }
        match (step.status, ended) {
            (NONE | 0, StepOutcome::Status(0)) => {}
            (origin, StepOutcome::Status(status)) if origin == status => kind.expected_errors += 1,
            (_, StepOutcome::Status(0)) => kind.missing_errors += 1,
            (origin, ended) => {
                kind.unexpected_errors += 1;
                self.note_problem(step.action.kind(), origin, ended);
            }
        }
        let slice = self.slice_mut(scheduled_ns);
        slice.ended += 1;
        slice.response_ns += response_ns;
        if step.origin_ns != u64::MAX {
            slice.origin_ns += step.origin_ns;
            slice.origin_count += 1;
        }
        let at = done_ns.saturating_sub(self.begin_ns) / self.slice_ns;
        self.slices[at.min(SLICES_OF_ENDS - 1) as usize].done += 1;
    }

    /// Adds another round of the same replay, which follows this one.
    pub(crate) fn append(&mut self, other: Self) {
        for (kind, more) in std::iter::zip(&mut self.kinds, &other.kinds) {
            kind.parts.extend(&more.parts);
        }
        self.add_counts(&other);
        // On the timeline, a round begins where the previous one ended.
        while self.slices.last().is_some_and(|slice| slice.scheduled + slice.done == 0) {
            self.slices.pop();
        }
        self.slices.extend(other.slices);
        self.end_ns += other.end_ns.saturating_sub(other.begin_ns);
    }

    /// Adds what another host did in the same replay at the same time.
    pub(crate) fn join(&mut self, other: &Self) {
        for (kind, more) in std::iter::zip(&mut self.kinds, &other.kinds) {
            for (part, more) in std::iter::zip(&mut kind.parts, &more.parts) {
                part.add(more);
            }
        }
        self.add_counts(other);
        for (slice, more) in std::iter::zip(&mut self.slices, &other.slices) {
            slice.add(more);
        }
        // Each host has its own clock, but all started at the same time.
        let took_ns = other.end_ns.saturating_sub(other.begin_ns);
        self.end_ns = self.end_ns.max(self.begin_ns.saturating_add(took_ns));
    }

    fn add_counts(&mut self, other: &Self) {
        for (kind, more) in std::iter::zip(&mut self.kinds, &other.kinds) {
            kind.steps += more.steps;
            kind.ended += more.ended;
            kind.skipped += more.skipped;
            kind.expected_errors += more.expected_errors;
            kind.unexpected_errors += more.unexpected_errors;
            kind.missing_errors += more.missing_errors;
            kind.bytes += more.bytes;
            kind.response.merge(&more.response);
            kind.service.merge(&more.service);
            kind.origin.merge(&more.origin);
        }
        self.issued += other.issued;
        self.accounted += other.accounted;
        self.own_lateness.merge(&other.own_lateness);
        self.start_wait.merge(&other.start_wait);
        for problem in &other.problems {
            self.add_problem(*problem);
        }
    }

    fn note_problem(&mut self, kind: OperationKind, origin: u32, ended: StepOutcome) {
        self.add_problem(ProblemCount { kind: kind as u16, origin, ended, count: 1 });
    }

    fn add_problem(&mut self, more: ProblemCount) {
        for problem in &mut self.problems {
            if (ProblemCount { count: more.count, ..*problem }) == more {
                problem.count += more.count;
                return;
            }
        }
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(more);
        }
    }

    fn slice_mut(&mut self, instant_ns: u64) -> &mut Slice {
        let at = instant_ns.saturating_sub(self.begin_ns) / self.slice_ns;
        &mut self.slices[at.min(SLICES - 1) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[test]
    fn expects_only_errors_of_trace() {
        let mut recorder = Recorder::new(1_000_000, 1_000_000, 1);
        let times = Times { scheduled_ns: 10, started_ns: 20, done_ns: 50 };
        let noent = 2;
        let exist = 17;
        for (origin, ended) in [
            (0, StepOutcome::Status(0)),
            (NONE, StepOutcome::Status(0)),
            (noent, StepOutcome::Status(noent)),
            (noent, StepOutcome::Status(0)),
            (0, StepOutcome::Status(noent)),
            (noent, StepOutcome::Status(exist)),
            (0, StepOutcome::Failed),
            (0, StepOutcome::Status(noent)),
        ] {
            let step = Step { status: origin, origin_ns: 30, ..Step::new(Action::Lookup) };
            recorder.record_issue(&step);
            recorder.end(0, &step, &times, ended, 0);
        }
        let kind = &recorder.kinds[OperationKind::Lookup as usize];
        assert_eq!((kind.expected_errors, kind.missing_errors, kind.unexpected_errors), (1, 1, 4));
        assert_eq!((recorder.issued, recorder.accounted), (8, 8));
        let counts: Vec<u64> = recorder.problems.iter().map(|problem| problem.count).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert_eq!((kind.response.max(), kind.service.max(), kind.origin.max()), (40, 30, 30));
    }
    #[test]
    fn merges_hosts_despite_clocks() {
        let mut hosts = Vec::new();
        for begin_ns in [1_000_000, 77_000_000_000] {
            let mut recorder = Recorder::new(1000, 1000, 1);
            recorder.begin_ns = begin_ns;
            let step = Step { scheduled_ns: 990, origin_ns: 20, ..Step::new(Action::Getattr) };
            let scheduled_ns = begin_ns + 990;
            recorder.record_issue(&step);
            recorder.start(&Start { step: 0, scheduled_ns, ready_ns: scheduled_ns }, scheduled_ns);
            let done_ns = scheduled_ns + 100;
            let times = Times { scheduled_ns, started_ns: scheduled_ns, done_ns };
            recorder.end(0, &step, &times, StepOutcome::Failed, 512);
            hosts.push(recorder);
        }
        let other = hosts.remove(1);
        let mut both = hosts.remove(0);
        both.join(&other);
        assert_eq!((both.issued, both.accounted, both.end_ns - both.begin_ns), (2, 2, 1090));
        let kind = &both.kinds[OperationKind::Getattr as usize];
        assert_eq!((kind.ended, kind.bytes, kind.response.count()), (2, 1024, 2));
        assert_eq!((kind.parts.len(), kind.parts[19].ops), (PARTS as usize, 2));
        assert_eq!((both.problems.len(), both.problems[0].count), (1, 2));
        let mut done = Vec::new();
        for (number, slice) in both.slices.iter().enumerate() {
            if slice.done + slice.scheduled > 0 {
                done.push((number, slice.scheduled, slice.done));
            }
        }
        assert_eq!(done, [(90, 2, 0), (99, 0, 2)]);
    }

    #[test]
    fn excludes_own_delay_from_sums() {
        let mut recorder = Recorder::new(1_000_000, 1_000_000, 2);
        for (number, ready_ns, started_ns) in [(0, 100, 130), (1, 150, 150)] {
            let step = Step { origin_ns: 20, ..Step::new(Action::Getattr) };
            let start = Start { step: number, scheduled_ns: 100, ready_ns };
            recorder.start(&start, started_ns);
            let times = Times { scheduled_ns: 100, started_ns, done_ns: 200 };
            recorder.end(number, &step, &times, StepOutcome::Status(0), 0);
        }
        let kind = &recorder.kinds[OperationKind::Getattr as usize];
        // The first one was 30 ns late because we were busy, the second one waited 50 ns for
        // replies.
        let sums = PartSums {
            ops: 2,
            response_ns: 70 + 100,
            paired_ops: 2,
            paired_ns: 70 + 100,
            origin_ns: 40,
        };
        assert_eq!(kind.parts[0], sums);
        assert_eq!((kind.response.max(), recorder.own_lateness.max()), (100, 30));
    }
}
