//! Counts and histograms of one worker. All memory is allocated before the start.
//!
//! In a closed loop an op is scheduled when it is sent (`scheduled_ns` is 0), so response time
//! equals service time and is recorded only once. Ops scheduled or sent before the counting starts
//! are counted separately and their latencies are not recorded, but their failures count.

use std::sync::Arc;

use model::{Completion, Histogram, KindResult, Op, OpError, OpKind, Outcome, Pass, WarmedUp};

use crate::limits::ERROR_KINDS_MAX;
use crate::live_times::LiveTimes;

/// What one worker has recorded.
pub struct Recorder {
    kinds: [Option<Box<Kind>>; OpKind::ALL.len()],
    ops: u64,
    bytes: u64,
    errors: u64,
    counts_ns: u64,
    scheduled: u64,
    last_scheduled_ns: u64,
    deadline_ns: u64,
    late: u64,
    carried_over: u64,
    /// How long after its scheduled start an op is late, in nanoseconds; `u64::MAX` if never.
    late_after_ns: u64,
    /// Ops that were late, and by how much the worst of them.
    overdue: u64,
    worst_lateness_ns: u64,
    /// Ops are directories, which count as many times as they have entries.
    counts_entries: bool,
}

struct Kind {
    issued: u64,
    done: u64,
    bytes: u64,
    warm_done: u64,
    warm_bytes: u64,
    errors: [(OpError, u64); ERROR_KINDS_MAX],
    service_time: Times,
    /// Used only if ops are scheduled in advance; `None` in a closed loop.
    response_time: Option<Times>,
    /// Response times of ops that were never started.
    unstarted: Histogram,
}

/// Times of one kind of op, whose counts the watcher may read.
struct Times {
    counts: Arc<LiveTimes>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: Arc::default(), sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Times {
    #[inline]
    fn record_n(&mut self, value_ns: u64, times: u64) {
        self.counts.count(value_ns, times);
        self.sum_ns += u128::from(value_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    fn histogram(&self) -> Histogram {
        self.counts.histogram(self.sum_ns, self.min_ns..=self.max_ns)
    }
}

impl Recorder {
    /// Allocates memory for the kinds of ops that a pass may contain.
    pub fn new(kinds: &[OpKind]) -> Self {
        let mut recorder = Self {
            kinds: [const { None }; OpKind::ALL.len()],
            ops: 0,
            bytes: 0,
            errors: 0,
            counts_ns: 0,
            scheduled: 0,
            last_scheduled_ns: 0,
            deadline_ns: u64::MAX,
            late: 0,
            carried_over: 0,
            late_after_ns: u64::MAX,
            overdue: 0,
            worst_lateness_ns: 0,
            counts_entries: kinds.iter().all(|kind| kind.counts_entries()),
        };
        for kind in kinds {
            recorder.kinds[*kind as usize] = Some(Box::new(Kind {
                issued: 0,
                done: 0,
                bytes: 0,
                warm_done: 0,
                warm_bytes: 0,
                errors: [(OpError(0), 0); ERROR_KINDS_MAX],
                service_time: Times::default(),
                response_time: Some(Times::default()),
                unstarted: Histogram::sparse(),
            }));
        }
        recorder
    }

    /// Counts ops separately if they are scheduled or sent before this instant.
    #[must_use]
    pub const fn counting_from(mut self, instant_ns: u64) -> Self {
        self.counts_ns = instant_ns;
        self
    }

    /// Frees the memory that only ops scheduled in advance need.
    #[must_use]
    pub(crate) fn of_closed_loop(mut self) -> Self {
        for kind in self.kinds.iter_mut().flatten() {
            kind.response_time = None;
        }
        self
    }

    /// Counts ops of an open loop as late if they start at or after this instant.
    #[must_use]
    pub const fn in_time_before(mut self, instant_ns: u64) -> Self {
        self.deadline_ns = instant_ns;
        self
    }

    /// Counts ops of an open loop as overdue if they are done later than this after their scheduled
    /// start, in nanoseconds.
    #[must_use]
    pub const fn overdue_after(mut self, late_after_ns: u64) -> Self {
        self.late_after_ns = late_after_ns;
        self
    }

    /// Returns the number of ops that were done or given up after their time, and how late the
    /// latest was, in nanoseconds. Ops that failed don't count.
    pub const fn overdue(&self) -> (u64, u64) {
        (self.overdue, self.worst_lateness_ns)
    }

    /// Returns the number of ops that were done but started after the deadline.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of ops that were scheduled before the counting started and done in time
    /// after that.
    pub const fn carried_over(&self) -> u64 {
        self.carried_over
    }

    /// Records that a scheduled op was never started. `waited_ns` is how long it had been waiting
    /// when we gave up, a lower bound of its response time.
    pub(crate) fn record_unstarted(&mut self, kind: OpKind, waited_ns: u64) {
        self.kind_mut(kind).unstarted.record_n(waited_ns, 1);
    }

    /// Counts ops with this response time that are overdue.
    #[cold]
    fn record_overdue(&mut self, response_ns: u64, times: u64) {
        self.overdue += times;
        let lateness_ns = response_ns - self.late_after_ns;
        self.worst_lateness_ns = self.worst_lateness_ns.max(lateness_ns);
    }

    /// Returns the counts of times that the watcher reads: response times if ops are scheduled in
    /// advance, and service times otherwise. Only kinds whose times are those of the pass count,
    /// and syncs don't.
    pub(crate) fn live_times(&self, pass: Pass) -> Vec<Arc<LiveTimes>> {
        let mut live = Vec::new();
        for (kind, recorded) in OpKind::ALL.iter().zip(&self.kinds) {
            if let Some(recorded) = recorded
                && *kind != OpKind::Sync
                && pass.timed_kind().is_none_or(|only| only == *kind)
            {
                let times = recorded.response_time.as_ref().unwrap_or(&recorded.service_time);
                live.push(Arc::clone(&times.counts));
            }
        }
        live
    }

    /// Counts a scheduled op of an open loop, regardless of when it starts.
    #[inline]
    pub(crate) const fn count_scheduled(&mut self, scheduled_ns: u64) {
        if scheduled_ns >= self.counts_ns && scheduled_ns > 0 {
            self.scheduled += 1;
            self.last_scheduled_ns = scheduled_ns;
        }
    }

    /// Returns the number of ops scheduled since the counting started, and the time of the last
    /// one.
    pub const fn scheduled(&self) -> (u64, u64) {
        (self.scheduled, self.last_scheduled_ns)
    }

    /// Returns the ops done before the counting started, by kind.
    pub fn warmup(&self) -> Vec<WarmedUp> {
        let mut warm = Vec::new();
        for (kind, recorded) in OpKind::ALL.iter().zip(&self.kinds) {
            if let Some(recorded) = recorded
                && recorded.warm_done > 0
            {
                let Kind { warm_done: done, warm_bytes: bytes, .. } = **recorded;
                warm.push(WarmedUp { kind: *kind, done, bytes });
            }
        }
        warm
    }

    /// Counts ops that the backend accepted.
    ///
    /// # Panics
    /// If the pass wasn't supposed to contain one of their kinds, which is a bug.
    #[inline]
    pub(crate) fn record_issued(&mut self, ops: &[Op]) {
        if self.counts_entries {
            for op in ops {
                self.kind_mut(op.kind).issued += u64::from(op.len_bytes);
            }
            return;
        }
        // At depth 1, there is no need to look for runs of the same kind.
        if let [op] = ops {
            self.kind_mut(op.kind).issued += 1;
            return;
        }
        // Ops of a batch are mostly of the same kind, so add only once per run.
        for alike in ops.chunk_by(|one, next| one.kind == next.kind) {
            self.kind_mut(alike[0].kind).issued += alike.len() as u64;
        }
    }

    /// Records completed ops. Consecutive ones that are identical in everything that is recorded
    /// are added together, because backends read the clock only once for a whole batch.
    ///
    /// # Panics
    /// If the pass wasn't supposed to contain one of their kinds, which is a bug.
    #[inline]
    pub(crate) fn record_ended(&mut self, completions: &[Completion]) {
        if self.counts_entries {
            return completions.iter().for_each(|completion| self.record_directory(completion));
        }
        // For a single op, the count is known at compile time, which saves the multiplications.
        if let [completion] = completions {
            self.record_alike(completion, 1);
            return;
        }
        for alike in completions.chunk_by(are_alike) {
            self.record_alike(&alike[0], alike.len() as u64);
        }
    }

    /// Records a directory: its entries count as ops, and its time counts once. If it could not be
    /// listed, all the entries that it should have count as failed.
    fn record_directory(&mut self, completion: &Completion) {
        let is_warmup = completion.sent_ns < self.counts_ns;
        let kind = self.kind_mut(completion.op.kind);
        match completion.outcome {
            Outcome::Done(entries) if is_warmup => kind.warm_done += u64::from(entries),
            Outcome::Done(entries) => {
                kind.done += u64::from(entries);
                kind.service_time.record_n(completion.service_time_ns(), 1);
                self.ops += u64::from(entries);
            }
            Outcome::Failed(error) => {
                let missing = u64::from(completion.op.len_bytes).max(1);
                kind.add_error(error, missing);
                self.errors += missing;
            }
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that the count of a single op is a constant")]
    fn record_alike(&mut self, completion: &Completion, times: u64) {
        // What counts is when the op should have started: a late op of the warm-up is still part of
        // it.
        let kind_of = completion.op.kind;
        let scheduled_ns = completion.op.scheduled_ns;
        let at_ns = if scheduled_ns == 0 { completion.sent_ns } else { scheduled_ns };
        let is_warmup = at_ns < self.counts_ns;
        let is_in_window =
            completion.done_ns >= self.counts_ns && completion.sent_ns < self.deadline_ns;
        if is_warmup && scheduled_ns != 0 && is_in_window && kind_of != OpKind::Sync {
            self.carried_over += times;
        }
        let kind = self.kind_mut(kind_of);
        match completion.outcome {
            Outcome::Done(bytes) if is_warmup => {
                kind.warm_done += times;
                kind.warm_bytes += u64::from(bytes) * times;
            }
            Outcome::Done(bytes) => {
                let bytes = u64::from(bytes) * times;
                kind.done += times;
                kind.bytes += bytes;
                // Both histograms are log-linear with 64 buckets per octave. Counting takes a
                // leading-zeros instruction for the index and one addition, regardless of the value
                // (`model::histogram`).
                kind.service_time.record_n(completion.service_time_ns(), times);
                if scheduled_ns != 0 {
                    if let Some(response_time) = &mut kind.response_time {
                        response_time.record_n(completion.response_time_ns(), times);
                    }
                    if completion.sent_ns >= self.deadline_ns {
                        self.late += times;
                    }
                    if completion.response_time_ns() > self.late_after_ns {
                        self.record_overdue(completion.response_time_ns(), times);
                    }
                }
                if kind_of != OpKind::Sync {
                    self.ops += times;
                    self.bytes += bytes;
                }
            }
            Outcome::Failed(error) => {
                kind.add_error(error, times);
                self.errors += times;
            }
        }
    }

    /// Counts the ops that were in flight when the target disappeared as failed.
    pub(crate) fn fail_in_flight(&mut self) {
        for kind in self.kinds.iter_mut().flatten() {
            let mut ended = kind.done + kind.warm_done;
            ended += kind.errors.iter().map(|(_, count)| count).sum::<u64>();
            let missing = kind.issued - ended;
            if missing > 0 {
                kind.add_error(OpError::LOST, missing);
                self.errors += missing;
            }
        }
    }

    /// Returns the number of ops done so far, without syncs.
    #[inline]
    pub const fn ops(&self) -> u64 {
        self.ops
    }

    /// Returns the number of bytes transferred so far.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the entries of directories count as ops.
    #[inline]
    pub(crate) const fn counts_entries(&self) -> bool {
        self.counts_entries
    }

    /// Returns the ops done and bytes transferred including the warm-up, without syncs.
    pub(crate) fn with_warmup(&self) -> (u64, u64) {
        let mut ops = self.ops;
        let mut bytes = self.bytes;
        for kind in self.kinds.iter().flatten() {
            ops += kind.warm_done;
            bytes += kind.warm_bytes;
        }
        (ops, bytes)
    }

    /// Returns the number of ops failed so far.
    #[inline]
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the results for each kind of op that was issued.
    pub fn finish(self) -> Vec<KindResult> {
        let mut results = Vec::new();
        for (kind, recorded) in OpKind::ALL.iter().zip(self.kinds) {
            if let Some(recorded) = recorded
                && recorded.issued > recorded.warm_done
            {
                results.push(recorded.finish(*kind));
            }
        }
        results
    }

    #[inline]
    fn kind_mut(&mut self, kind: OpKind) -> &mut Kind {
        self.kinds[kind as usize].as_deref_mut().expect("the pass lists its kinds of op")
    }
}

impl Kind {
    fn finish(self, kind: OpKind) -> KindResult {
        let mut errors = self.errors.to_vec();
        errors.retain(|(_, count)| *count > 0);
        // In a closed loop nothing is scheduled in advance, so response time equals service time.
        let service_time = self.service_time.histogram();
        let mut response_time = self.unstarted;
        if let Some(started) = &self.response_time {
            response_time.merge(&started.histogram());
        }
        if response_time.count() == 0 {
            response_time = service_time.clone();
        }
        KindResult {
            kind,
            issued: self.issued - self.warm_done,
            done: self.done,
            bytes: self.bytes,
            errors,
            response_time,
            service_time,
        }
    }

    #[cold]
    fn add_error(&mut self, error: OpError, count: u64) {
        // The table is filled from the start, so the search ends at the first free entry. If it is
        // full, further errors are added to its last entry.
        let mut at = 0;
        while at < ERROR_KINDS_MAX - 1 && self.errors[at].1 > 0 && self.errors[at].0 != error {
            at += 1;
        }
        if self.errors[at].1 == 0 {
            self.errors[at].0 = error;
        }
        self.errors[at].1 += count;
    }
}

/// Returns true if two completed ops are identical in everything that is recorded.
#[inline]
fn are_alike(one: &Completion, other: &Completion) -> bool {
    one.done_ns == other.done_ns
        && one.sent_ns == other.sent_ns
        && one.op.scheduled_ns == other.op.scheduled_ns
        && one.op.kind == other.op.kind
        && one.outcome == other.outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        Recorder::new(&[OpKind::Read, OpKind::Write, OpKind::Sync]).counting_from(1_000)
    }

    #[test]
    fn counts_batch_like_single_ops() {
        let failed = Outcome::Failed(OpError(5));
        let done = Outcome::Done(4096);
        let read = OpKind::Read;
        let write = OpKind::Write;
        let ended = |kind, scheduled_ns, sent_ns, done_ns, outcome| {
            let op = Op { scheduled_ns, offset_bytes: done_ns, len_bytes: 4096, file: 0, kind };
            Completion { op, sent_ns, done_ns, outcome }
        };
        let batch = [
            ended(read, 0, 900, 2_000, done),
            ended(read, 0, 900, 2_000, done),
            ended(read, 0, 1_500, 2_000, done),
            ended(read, 0, 1_500, 2_000, done),
            ended(write, 0, 1_500, 2_000, done),
            ended(write, 0, 1_500, 2_500, done),
            ended(write, 0, 1_500, 2_500, Outcome::Done(1)),
            ended(read, 1_200, 1_500, 2_500, done),
            ended(read, 1_300, 1_500, 2_500, done),
            ended(read, 1_300, 1_500, 2_500, failed),
            ended(read, 1_300, 1_500, 2_500, failed),
            ended(OpKind::Sync, 0, 1_500, 2_500, Outcome::Done(0)),
        ];
        let mut one = recorder();
        let mut all = recorder();
        let ops = batch.map(|completion| completion.op);
        all.record_issued(&ops);
        all.record_ended(&batch);
        for (op, completion) in ops.iter().zip(&batch) {
            one.record_issued(std::slice::from_ref(op));
            one.record_ended(std::slice::from_ref(completion));
        }
        assert_eq!((all.ops(), all.bytes(), all.errors()), (7, 6 * 4096 + 1, 2));
        assert_eq!((one.ops(), one.bytes(), one.errors()), (7, 6 * 4096 + 1, 2));
        assert_eq!(all.warmup(), [WarmedUp { kind: read, done: 2, bytes: 8192 }]);
        assert_eq!(all.warmup(), one.warmup());
        let kinds = all.finish();
        assert_eq!(kinds, one.finish());
        let times = |kind: &KindResult| (kind.service_time.count(), kind.response_time.count());
        assert_eq!(kinds.iter().map(times).collect::<Vec<_>>(), [(4, 2), (3, 3), (1, 1)]);
    }
}
