//! What a replay records while steps are issued.
//!
//! [`Recorder`] has counts and histograms for each kind of operation, and slices of time. All
//! tables are made before; recording allocates nothing.

use model::Histogram;
use nfs_client::proto::client::OperationKind;

use crate::lanes::Start;
use crate::step::Step;
use crate::tree::NONE;

/// The most kinds of failures that are kept apart.
const PROBLEMS_MAX: usize = 32;
/// Slices of the time line.
const SLICES: u64 = 100;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this status of NFS.
    Status(u32),
    /// Without a reply that could be understood.
    Failed,
}

/// Instants of a step that had a reply, in nanoseconds of the clock.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub scheduled_ns: u64,
    pub started_ns: u64,
    pub done_ns: u64,
}

/// The record of a kind of operation.
#[derive(Debug)]
pub struct KindRecord {
    /// Steps of this kind.
    pub steps: u64,
    /// Those whose reply was there.
    pub ended: u64,
    /// Those that were not issued: they lack a handle or the client refuses them.
    pub skipped: u64,
    /// Failures that the trace has, too.
    pub expected_errors: u64,
    /// Failures that the trace does not have.
    pub unexpected_errors: u64,
    /// Failures of the trace that were none in the replay.
    pub missing_errors: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// Times from the scheduled start to the reply.
    pub response: Histogram,
    /// Times from the start to the reply.
    pub service: Histogram,
    /// Response times of the same steps at the origin.
    pub origin: Histogram,
}

/// Failures of one kind and status that were not expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemCount {
    pub kind: OperationKind,
    /// The status at the origin; `NONE` unknown.
    pub origin: u32,
    pub ended: Ended,
    pub count: u64,
}

/// A part of the time of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slice {
    pub scheduled: u64,
    pub ended: u64,
    pub response_ns: u64,
    pub origin_ns: u64,
    pub origin_count: u64,
    pub start_wait_max_ns: u64,
}

/// Records a replay.
#[derive(Debug)]
pub struct Recorder {
    /// A record for each kind, in the order of [`OperationKind::ALL`].
    pub kinds: Vec<KindRecord>,
    /// Steps that were issued.
    pub issued: u64,
    /// Steps that have ended, by a reply or without.
    pub accounted: u64,
    /// How late steps started by our own fault, in nanoseconds.
    pub own_lateness: Histogram,
    /// How late steps started because they waited for replies, in nanoseconds.
    pub start_wait: Histogram,
    pub problems: Vec<ProblemCount>,
    pub slices: Vec<Slice>,
    pub slice_ns: u64,
    /// When the first step was scheduled.
    pub begin_ns: u64,
    /// When the last reply was there.
    pub end_ns: u64,
}

impl Recorder {
    /// Makes the records of a replay that is to take so long.
    pub fn new(duration_ns: u64) -> Self {
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
            });
        }
        Self {
            kinds,
            issued: 0,
            accounted: 0,
            own_lateness: Histogram::new(),
            start_wait: Histogram::new(),
            problems: Vec::with_capacity(PROBLEMS_MAX),
            slices: vec![Slice::default(); SLICES as usize],
            slice_ns: duration_ns / SLICES + 1,
            begin_ns: 0,
            end_ns: 0,
        }
    }

    /// Notes that a step starts.
    pub fn start(&mut self, start: &Start, now_ns: u64) {
        let start_wait_ns = start.ready_ns - start.scheduled_ns;
        self.own_lateness.record(now_ns.saturating_sub(start.ready_ns));
        self.start_wait.record(start_wait_ns);
        let slice = self.slice_mut(start.scheduled_ns);
        slice.scheduled += 1;
        slice.start_wait_max_ns = slice.start_wait_max_ns.max(start_wait_ns);
    }

    /// Notes that a step was issued.
    pub fn issue(&mut self, step: &Step) {
        self.issued += 1;
        self.kinds[step.action.kind() as usize].steps += 1;
    }

    /// Notes that a step can't be issued.
    pub fn skip(&mut self, step: &Step) {
        let kind = &mut self.kinds[step.action.kind() as usize];
        kind.steps += 1;
        kind.skipped += 1;
    }

    /// Notes how a step has ended.
    pub fn end(&mut self, step: &Step, times: &Times, ended: Ended, bytes: u32) {
        let Times { scheduled_ns, started_ns, done_ns } = *times;
        self.accounted += 1;
        self.end_ns = self.end_ns.max(done_ns);
        let response_ns = done_ns.saturating_sub(scheduled_ns);
        let kind = &mut self.kinds[step.action.kind() as usize];
        kind.ended += 1;
        kind.bytes += u64::from(bytes);
        kind.response.record(response_ns);
        kind.service.record(done_ns.saturating_sub(started_ns));
        if step.origin_ns != u64::MAX {
            kind.origin.record(step.origin_ns);
        }
        match (step.status, ended) {
            (NONE | 0, Ended::Status(0)) => {}
            (origin, Ended::Status(status)) if origin == status => kind.expected_errors += 1,
            (_, Ended::Status(0)) => kind.missing_errors += 1,
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
    }

    fn note_problem(&mut self, kind: OperationKind, origin: u32, ended: Ended) {
        for problem in &mut self.problems {
            if (problem.kind, problem.origin, problem.ended) == (kind, origin, ended) {
                problem.count += 1;
                return;
            }
        }
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(ProblemCount { kind, origin, ended, count: 1 });
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
    fn errors_of_the_trace_are_expected_and_others_are_not() {
        let mut recorder = Recorder::new(1_000_000);
        let times = Times { scheduled_ns: 10, started_ns: 20, done_ns: 50 };
        let (noent, exist) = (2, 17);
        for (origin, ended) in [
            (0, Ended::Status(0)),
            (NONE, Ended::Status(0)),
            (noent, Ended::Status(noent)),
            (noent, Ended::Status(0)),
            (0, Ended::Status(noent)),
            (noent, Ended::Status(exist)),
            (0, Ended::Failed),
            (0, Ended::Status(noent)),
        ] {
            let step = Step { status: origin, origin_ns: 30, ..Step::of(Action::Lookup) };
            recorder.issue(&step);
            recorder.end(&step, &times, ended, 0);
        }
        let kind = &recorder.kinds[OperationKind::Lookup as usize];
        assert_eq!((kind.expected_errors, kind.missing_errors, kind.unexpected_errors), (1, 1, 4));
        assert_eq!((recorder.issued, recorder.accounted), (8, 8));
        let counts: Vec<u64> = recorder.problems.iter().map(|problem| problem.count).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert_eq!((kind.response.max(), kind.service.max(), kind.origin.max()), (40, 30, 30));
    }
}
