//! Results of a campaign, in the form in which they are stored, judged and reported.
//!
//! Each trial is stored completely, with the histograms of each kind of op. Medians, intervals and
//! verdicts are computed by `stats` every time and never stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::faults::soak::{FaultEvent, IntervalStats};
use crate::judgments::caveat::{Caveat, CaveatCode, Evidence};
use crate::question::Question;
use crate::results::client::ClientResult;
use crate::results::durability::StoredDurability;
use crate::results::histogram::Histogram;
use crate::results::scope::Scope;
use crate::results::share::HostResult;
use crate::results::telemetry::Telemetry;
use crate::runs::op::{OpError, OpKind};
use crate::runs::pass::Pass;
use crate::runs::spec::RunSpec;
use crate::systems::fact::Fact;
use crate::text::units::Nanos;

/// Minimum share of the window in which all workers must be busy. Below it, the rate is that of
/// fewer workers.
pub(crate) const COMMON_SHARE_MIN: f64 = 0.9;

/// The state of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CampaignState {
    /// It runs, or it was killed.
    Running,
    /// All planned trials are done.
    Complete,
    /// The user stopped it.
    Interrupted,
}

impl CampaignState {
    /// Name of the state in results files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
        }
    }

    /// Finds the state with the given name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Running, Self::Complete, Self::Interrupted];
        all.into_iter().find(|state| state.name() == name)
    }
}

/// Summary of a campaign for lists: its header, size and tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CampaignLine {
    /// Key in the results file.
    pub id: i64,
    /// UUID, which is the same in all files that contain the campaign.
    pub uuid: String,
    /// Name of the plan.
    pub name: String,
    pub state: CampaignState,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Runs stored so far.
    pub runs: u32,
    /// Trials stored so far.
    pub trials: u32,
    /// Number of failed trials among them.
    pub trials_failed: u32,
    /// Tags assigned by users, in alphabetical order.
    pub tags: Vec<String>,
}

/// All runs of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Key in the results file.
    pub id: i64,
    /// Name of the plan: `quick`, a file name or `run`.
    pub name: String,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Version of dfsbench that measured it.
    pub tool_version: String,
    /// The command line.
    pub command: String,
    /// The question that the campaign answers.
    pub question: Question,
    /// The complete plan as TOML, with all defaults filled in.
    pub plan_toml: String,
    /// Seed for all random choices.
    pub seed: u64,
    pub state: CampaignState,
    /// Settings of the host, captured once.
    pub facts: Vec<Fact>,
    /// The tool's own upper limit on this host.
    pub ceiling: Option<Ceiling>,
    /// Durability measurements of its contenders, the latest last.
    pub durability: Vec<StoredDurability>,
    /// Runs, in the order of the matrix.
    pub runs: Vec<Run>,
}

/// The tool's own upper limit: the null backend, measured in the same campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// Ops per second of one worker.
    pub ops_per_s: u64,
    /// Median service time of an op that does nothing, as the recorder measures it.
    pub service_time_p50_ns: u64,
}

/// One point of the matrix and its trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position in the matrix, from 0.
    pub index: u32,
    /// All settings of the run, fully resolved.
    pub spec: RunSpec,
    /// Trials in the order in which they ran.
    pub trials: Vec<Trial>,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum TrialState {
    /// All passes were completed.
    Done,
    /// The trial could not start or finish; contains the reason as a sentence.
    Failed(String),
    /// The user stopped it.
    Interrupted,
}

/// One repetition of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Number within the run, from 0.
    pub index: u32,
    /// Position in the campaign's order, from 0.
    pub position: u32,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// How it ended.
    pub state: TrialState,
    /// The passes that were measured.
    pub passes: Vec<PassResult>,
    /// Effective settings of the target.
    pub facts: Vec<Fact>,
}

/// A count at the target, taken independently of the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// The count that follows from the recorder's reports.
    pub expected: u64,
    /// The count found at the target.
    pub found: u64,
    /// Description of the count, and its source.
    pub source: String,
}

/// One pass of one trial, merged over all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassResult {
    /// The kind of pass.
    pub pass: Pass,
    /// From the first worker's start to the last worker's end.
    pub window_ns: u64,
    /// From the last worker's start to the first worker's end, while all were busy.
    pub common_window_ns: u64,
    /// Ops completed when the first worker finished (`first_done`), not counting `Sync`.
    pub first_done_ops: u64,
    /// Bytes transferred when the first worker finished (`first_done`).
    pub first_done_bytes: u64,
    /// From the first worker's start to the first worker's end.
    pub first_done_ns: u64,
    /// Between the first and the last worker's start.
    pub start_skew_ns: u64,
    /// CPU time of the client, summed over all workers.
    pub client_cpu_ns: u64,
    /// CPU time of the server, if it is ours and on this host.
    pub server_cpu_ns: Option<u64>,
    /// Bytes that storage read for this process, if the kernel counts them.
    pub storage_read_bytes: Option<u64>,
    /// Independent counts at the target.
    pub cross_checks: Vec<CrossCheck>,
    pub samples: Vec<IntervalSample>,
    /// Response times in each interval; fewer and longer intervals than `samples` in a long pass.
    #[serde(default)]
    pub interval_times: Vec<IntervalTimes>,
    /// Statistics of each interval of a soak.
    #[serde(default)]
    pub intervals: Vec<IntervalStats>,
    /// Faults that were injected during the pass of a soak.
    #[serde(default)]
    pub fault_events: Vec<FaultEvent>,
    /// Results for each kind of op.
    pub kinds: Vec<KindResult>,
    /// Results of each emulated client by number; empty unless requested.
    pub clients: Vec<ClientResult>,
    /// Results of each host, in the order of their workers; empty if there was only one host.
    #[serde(default)]
    pub hosts: Vec<HostResult>,
    /// The offered load, and the part of the file set that the pass touched.
    pub scope: Scope,
    /// Telemetry during the pass, one entry per watched host.
    pub telemetry: Vec<Telemetry>,
    /// Caveats raised during the measurement.
    pub caveats: Vec<Caveat>,
}

impl PassResult {
    /// Metric of the server's telemetry: how long it took from the end of the pass until what it
    /// wrote had drained.
    pub const DRAIN_METRIC: &str = "system.drain_ns";

    /// Returns how long it took from the end of the pass until what it wrote had drained, if the
    /// system's recipe has a check for that.
    pub fn drain_ns(&self) -> Option<u64> {
        let mut metrics = self.telemetry.iter().filter_map(|seen| seen.metric(Self::DRAIN_METRIC));
        metrics.find_map(|metric| metric.values.last().copied())
    }

    /// Returns an empty pass.
    pub fn new(pass: Pass) -> Self {
        Self {
            pass,
            window_ns: 0,
            common_window_ns: 0,
            first_done_ops: 0,
            first_done_bytes: 0,
            first_done_ns: 0,
            start_skew_ns: 0,
            client_cpu_ns: 0,
            server_cpu_ns: None,
            storage_read_bytes: None,
            cross_checks: Vec::new(),
            samples: Vec::new(),
            interval_times: Vec::new(),
            intervals: Vec::new(),
            fault_events: Vec::new(),
            kinds: Vec::new(),
            clients: Vec::new(),
            hosts: Vec::new(),
            scope: Scope::default(),
            telemetry: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Returns the number of ops that count for the rate: all except `Sync`.
    ///
    /// All sums here saturate, because an agent or a file may report arbitrary numbers.
    pub fn ops(&self) -> u64 {
        self.rated().fold(0, |sum, kind| sum.saturating_add(kind.done))
    }

    /// Returns how many ops of an open loop the target completed in the measured window, but no
    /// more than were scheduled there. Returns `None` for a closed loop.
    ///
    /// Ops started only after the end of the window don't count. Ops scheduled before the window
    /// but completed in it do, because the target worked on them instead.
    pub fn carried_ops(&self) -> Option<u64> {
        let offered = self.scope.offered.filter(|offered| offered.scheduled_ops > 0)?;
        // A backlog from the warm-up displaces ops of the window. What is left at the end of the
        // window is completed later and doesn't count.
        let in_time = self.ops().saturating_sub(self.scope.overdue_ops());
        Some(in_time.saturating_add(offered.carried_over_ops).min(offered.scheduled_ops))
    }

    /// Returns the time in which the ops of an open loop were completed, in nanoseconds: the length
    /// of the schedule, or the whole window if the target fell behind a pass that ends with its
    /// files. Such a pass completes all ops, however long that takes.
    pub fn carried_in_ns(&self) -> Option<u64> {
        let offered = self.scope.offered?;
        let was_cut = self.pass.is_timed() || offered.late_ops > 0 || offered.unanswered_ops > 0;
        // The last op may take as long as any other after the end of the schedule, and start late
        // by chance.
        let after_ns = self.service_time().max().saturating_mul(2);
        if was_cut || self.window_ns <= offered.span_ns.saturating_add(after_ns) {
            return Some(offered.span_ns);
        }
        Some(self.window_ns)
    }

    /// Adds the statistics of each interval from another host's part of the pass.
    pub fn add_intervals(&mut self, other: &Self) {
        for (index, interval) in other.intervals.iter().enumerate() {
            match self.intervals.get_mut(index) {
                None => self.intervals.push(*interval),
                Some(known) => known.add(interval),
            }
        }
    }

    /// Returns the bytes transferred by ops.
    pub fn bytes(&self) -> u64 {
        self.rated().fold(0, |sum, kind| sum.saturating_add(kind.bytes))
    }

    /// Returns how many ops the target answered with an error.
    pub fn answered_errors(&self) -> u64 {
        let mut answered = 0_u64;
        for (error, count) in self.kinds.iter().flat_map(|kind| &kind.errors) {
            if *error != OpError::LOST {
                answered = answered.saturating_add(*count);
            }
        }
        answered
    }

    /// Returns the number of failed ops, including `Sync`.
    pub fn errors(&self) -> u64 {
        let mut failed = 0_u64;
        for (_, count) in self.kinds.iter().flat_map(|kind| &kind.errors) {
            failed = failed.saturating_add(*count);
        }
        failed
    }

    /// Returns a caveat if the workers were not all busy for most of the window.
    pub fn unsynchronised(&self, workers: u32) -> Option<Caveat> {
        // Before some workers have started or after they have finished, the target has less to do
        // than planned, so the rate is that of fewer workers.
        let share = self.common_window_ns as f64 / self.window_ns.max(1) as f64;
        // The time of the slowest rank is the result, so others that wait for it belong to it.
        if workers <= 1 || share >= COMMON_SHARE_MIN || self.pass.is_timed_by_rank() {
            return None;
        }
        let evidence = format!(
            "all {workers} workers were busy for {} of {} ({:.0} %); start skew {}",
            Nanos(self.common_window_ns),
            Nanos(self.window_ns),
            share * 100.0,
            Nanos(self.start_skew_ns),
        );
        let source = "start and end times of the workers";
        let data = Evidence::shares(share, COMMON_SHARE_MIN, source);
        Some(CaveatCode::Unsynchronised.because(evidence).with_data(data))
    }

    /// Returns the merged response times of all ops that count for the rate, or those of the
    /// pass's [`Pass::timed_kind`].
    pub fn response_time(&self) -> Histogram {
        self.merged(|kind| &kind.response_time)
    }

    /// Returns the merged service times of the same ops.
    pub fn service_time(&self) -> Histogram {
        self.merged(|kind| &kind.service_time)
    }

    fn merged(&self, times: fn(&KindResult) -> &Histogram) -> Histogram {
        // Quantiles must come from merged counts; averaging the quantiles of several kinds would be
        // wrong.
        let mut merged = Histogram::sparse();
        for kind in self.timed() {
            merged.merge(times(kind));
        }
        merged
    }

    /// Returns the number of ops whose times are those of the pass.
    pub fn timed_ops(&self) -> u64 {
        self.timed().fold(0, |sum, kind| sum.saturating_add(kind.done))
    }

    fn timed(&self) -> impl Iterator<Item = &KindResult> {
        let only = self.pass.timed_kind();
        self.rated().filter(move |kind| only.is_none_or(|only| only == kind.kind))
    }

    fn rated(&self) -> impl Iterator<Item = &KindResult> {
        self.kinds.iter().filter(|kind| kind.kind != OpKind::Sync)
    }
}

/// Results for one kind of op in one pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindResult {
    /// The kind of op.
    pub kind: OpKind,
    /// Ops that the workload passed to the backend.
    pub issued: u64,
    /// Ops that succeeded.
    pub done: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
    /// Number of failed ops by error.
    pub errors: Vec<(OpError, u64)>,
    /// Time from sending to completion.
    pub service_time: Histogram,
    /// Time from the scheduled start to completion.
    pub response_time: Histogram,
}

impl KindResult {
    /// Merges the results of others by kind, as if everything had been recorded together.
    pub fn merge_all(all: &mut Vec<Self>, more: Vec<Self>) {
        for result in more {
            match all.iter_mut().find(|known| known.kind == result.kind) {
                None => all.push(result),
                Some(known) => known.merge(result),
            }
        }
        all.sort_by_key(|result| result.kind);
    }

    fn merge(&mut self, more: Self) {
        self.issued = self.issued.saturating_add(more.issued);
        self.done = self.done.saturating_add(more.done);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.service_time.merge(&more.service_time);
        self.response_time.merge(&more.response_time);
        for (error, count) in more.errors {
            match self.errors.iter_mut().find(|(seen, _)| *seen == error) {
                Some((_, total)) => *total = total.saturating_add(count),
                None => self.errors.push((error, count)),
            }
        }
    }
}

/// The work of all workers together within one interval of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalSample {
    /// End of the interval, from the start of the pass.
    pub at_ns: u64,
    /// Ops done in it.
    pub ops: u64,
    /// Bytes transferred in it.
    pub bytes: u64,
}

/// Response times of the ops that completed within one interval of a pass, not counting syncs, as a
/// coarse histogram. Without scheduled ops, they are service times.
///
/// Intervals end at multiples of a step, except for the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalTimes {
    /// End of the interval, from the start of the pass.
    pub at_ns: u64,
    /// Times of all workers.
    pub times: Histogram,
}

impl IntervalTimes {
    /// Merges the intervals of another host. If they differ in length, the longer ones are used;
    /// their lengths are the same except for a power of two.
    pub fn merge_all(all: &mut Vec<Self>, more: Vec<Self>) {
        let step_ns = Self::step_ns(all).max(Self::step_ns(&more));
        let mut merged = std::mem::take(all);
        merged.extend(more);
        merged.sort_by_key(|interval| interval.at_ns);
        Self::widen(&mut merged, step_ns);
        *all = merged;
    }

    /// Merges the intervals within each multiple of a step.
    pub fn widen(intervals: &mut Vec<Self>, step_ns: u64) {
        let step_ns = step_ns.max(1);
        let mut wide: Vec<Self> = Vec::new();
        for interval in intervals.drain(..) {
            match wide.last_mut() {
                Some(last) if last.at_ns.div_ceil(step_ns) == interval.at_ns.div_ceil(step_ns) => {
                    last.at_ns = last.at_ns.max(interval.at_ns);
                    last.times.merge(&interval.times);
                }
                _ => wide.push(interval),
            }
        }
        for interval in &mut wide {
            interval.times = interval.times.packed();
        }
        *intervals = wide;
    }

    /// Returns the usual length of intervals, or 0 if there is only one: that of the shortest
    /// except for the last, which is a rest. Some are longer, because their end was noticed late.
    fn step_ns(intervals: &[Self]) -> u64 {
        let mut begins_ns = 0;
        let mut shortest_ns = u64::MAX;
        for interval in intervals.split_last().map_or(&[][..], |(_, whole)| whole) {
            shortest_ns = shortest_ns.min(interval.at_ns.saturating_sub(begins_ns));
            begins_ns = interval.at_ns;
        }
        if shortest_ns == u64::MAX { 0 } else { shortest_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(ends: &[u64]) -> Vec<IntervalTimes> {
        let interval = |at_ns: &u64| {
            let mut times = Histogram::sparse();
            times.record(*at_ns);
            IntervalTimes { at_ns: *at_ns, times }
        };
        ends.iter().map(interval).collect()
    }

    fn merged(one: &[u64], other: &[u64]) -> Vec<(u64, u64)> {
        let mut all = intervals(one);
        IntervalTimes::merge_all(&mut all, intervals(other));
        all.iter().map(|interval| (interval.at_ns, interval.times.count())).collect()
    }

    #[test]
    fn merges_intervals_of_different_lengths() {
        assert_eq!(merged(&[10, 20, 30, 33], &[20, 30, 34]), [(10, 1), (20, 2), (30, 2), (34, 2)]);
        // One host already merged its intervals; the rests at the end have any length.
        let long = [20, 40, 60, 61];
        assert_eq!(merged(&long, &[10, 20, 30, 40, 50]), [(20, 3), (40, 3), (60, 2), (61, 1)]);
        // The end of the third interval was noticed too late.
        assert_eq!(merged(&[10, 20, 40], &[10, 20, 30]), [(10, 2), (20, 2), (30, 1), (40, 1)]);
        assert_eq!(merged(&[7], &[]), [(7, 1)]);
        assert_eq!(merged(&[], &[]), []);
    }
}
