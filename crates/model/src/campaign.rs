//! The results of a campaign, in the shape in which they are stored, judged and reported.
//!
//! Every trial is kept whole, with the histograms of each op kind; medians, intervals and
//! verdicts are computed from it by `stats` each time, never stored in its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caveat::{Caveat, CaveatCode, Evidence};
use crate::client::ClientResult;
use crate::durability::StoredDurability;
use crate::fact::Fact;
use crate::histogram::Histogram;
use crate::op::{OpError, OpKind};
use crate::pass::Pass;
use crate::question::Question;
use crate::scope::Scope;
use crate::share::HostResult;
use crate::soak::{FaultEvent, IntervalStats};
use crate::spec::RunSpec;
use crate::telemetry::Telemetry;
use crate::units::Nanos;

/// Below this share of the window with all workers busy, the rate is that of fewer workers.
pub const COMMON_SHARE_MIN: f64 = 0.9;

/// How a campaign stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CampaignState {
    /// It runs, or it was killed.
    Running,
    /// Every trial that was planned has been made.
    Complete,
    /// The user stopped it.
    Interrupted,
}

/// A campaign as lists have it: what stands in its header, how much of it there is, and its tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CampaignLine {
    /// Key in the results file.
    pub id: i64,
    /// The campaign's UUID, which is the same in every file that it is stored in.
    pub uuid: String,
    /// Name of its plan.
    pub name: String,
    /// How it stands.
    pub state: CampaignState,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Runs stored so far.
    pub runs: u32,
    /// Trials stored so far.
    pub trials: u32,
    /// Those of them that failed.
    pub trials_failed: u32,
    /// Words by which people find it again, in the order of the alphabet.
    pub tags: Vec<String>,
}

/// All runs of one plan.
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
    /// The question that the campaign was made to answer.
    pub question: Question,
    /// The whole plan as TOML, every default written out.
    pub plan_toml: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// How it stands.
    pub state: CampaignState,
    /// Settings of the host, captured once.
    pub facts: Vec<Fact>,
    /// The tool's own ceiling on this host.
    pub ceiling: Option<Ceiling>,
    /// Measurements of what its contenders keep, the latest last.
    pub durability: Vec<StoredDurability>,
    /// Its runs, in the order of the matrix.
    pub runs: Vec<Run>,
}

/// The tool's own ceiling: the null backend, measured in the same campaign.
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
    /// The settings of the run, all resolved.
    pub spec: RunSpec,
    /// Its trials, in the order they were made.
    pub trials: Vec<Trial>,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum TrialState {
    /// All passes were made.
    Done,
    /// It could not be made or finished; the reason is a sentence.
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
    /// Settings of the target that were effective.
    pub facts: Vec<Fact>,
}

/// A count at the target, taken independently of the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// The count that follows from what the recorder reports.
    pub expected: u64,
    /// The count found at the target.
    pub found: u64,
    /// The description of the count, and where it was read.
    pub source: String,
}

/// One pass of one trial, all workers merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassResult {
    /// The kind of pass.
    pub pass: Pass,
    /// From the first worker's start to the last worker's end.
    pub window_ns: u64,
    /// From the last worker's start to the first worker's end: all were busy.
    pub common_window_ns: u64,
    /// Ops done when the first worker ended (`first_done`), `Sync` not counted.
    pub first_done_ops: u64,
    /// Bytes moved when the first worker ended (`first_done`).
    pub first_done_bytes: u64,
    /// From the first worker's start to the first worker's end.
    pub first_done_ns: u64,
    /// Between the first and the last worker's start.
    pub start_skew_ns: u64,
    /// Processor time of the client, all workers together.
    pub client_cpu_ns: u64,
    /// Processor time of the server where it is ours and on this host.
    pub server_cpu_ns: Option<u64>,
    /// Bytes that storage read for this process, where the kernel counts them.
    pub storage_read_bytes: Option<u64>,
    /// Independent counts at the target.
    pub cross_checks: Vec<CrossCheck>,
    /// The samples of each interval.
    pub samples: Vec<IntervalSample>,
    /// How each interval of a soak looked.
    #[serde(default)]
    pub intervals: Vec<IntervalStats>,
    /// The fault events on the hosts of a soak during the pass.
    #[serde(default)]
    pub fault_events: Vec<FaultEvent>,
    /// Figures for each kind of op.
    pub kinds: Vec<KindResult>,
    /// The results of each emulated client, in the order of their numbers; empty where that was not
    /// requested.
    pub clients: Vec<ClientResult>,
    /// The results of each host, in the order of their workers; empty where one host did
    /// everything.
    #[serde(default)]
    pub hosts: Vec<HostResult>,
    /// The offered load, and the part of the file set that the pass touched.
    pub scope: Scope,
    /// The telemetry of the pass, one for each host that was watched.
    pub telemetry: Vec<Telemetry>,
    /// Caveats raised while it was measured.
    pub caveats: Vec<Caveat>,
}

impl PassResult {
    /// An empty pass: what others are made from.
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

    /// Ops that count for the rate: all but `Sync`.
    ///
    /// Sums saturate, here and below: an agent or a file may report any numbers.
    pub fn ops(&self) -> u64 {
        self.rated().fold(0, |sum, kind| sum.saturating_add(kind.done))
    }

    /// Returns how many ops of an open loop the target carried in the measured window, and no more
    /// than were scheduled there; `None` for a closed loop.
    ///
    /// Ops that were started only after the window had ended are not carried. Those that were
    /// scheduled before it and were done in it are: the target worked on them instead.
    pub fn carried_ops(&self) -> Option<u64> {
        let offered = self.scope.offered.filter(|offered| offered.scheduled_ops > 0)?;
        // A queue that the warm-up left takes the place of ops of the window; what the window
        // leaves is done after it, and is none of its own.
        let in_time = self.ops().saturating_sub(self.scope.overdue_ops());
        Some(in_time.saturating_add(offered.carried_over_ops).min(offered.scheduled_ops))
    }

    /// Adds the statistics of each interval of another host's part of the pass.
    pub fn add_intervals(&mut self, other: &Self) {
        for (index, interval) in other.intervals.iter().enumerate() {
            match self.intervals.get_mut(index) {
                None => self.intervals.push(*interval),
                Some(known) => known.add(interval),
            }
        }
    }

    /// Bytes that ops moved.
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

    /// Ops that failed, `Sync` included.
    pub fn errors(&self) -> u64 {
        let mut failed = 0_u64;
        for (_, count) in self.kinds.iter().flat_map(|kind| &kind.errors) {
            failed = failed.saturating_add(*count);
        }
        failed
    }

    /// The caveat that `workers` were not all busy for most of the window, where they were not.
    pub fn unsynchronised(&self, workers: u32) -> Option<Caveat> {
        // While some workers have not begun or have ended, the target has less to do than the plan
        // says: the rate is then that of fewer workers.
        let share = self.common_window_ns as f64 / self.window_ns.max(1) as f64;
        if workers <= 1 || share >= COMMON_SHARE_MIN {
            return None;
        }
        let evidence = format!(
            "all {workers} workers were busy for {} of {} ({:.0} %); start skew {}",
            Nanos(self.common_window_ns),
            Nanos(self.window_ns),
            share * 100.0,
            Nanos(self.start_skew_ns),
        );
        let source = "instants of the workers' starts and ends";
        let data = Evidence::shares(share, COMMON_SHARE_MIN, source);
        Some(CaveatCode::Unsynchronised.because(evidence).with_data(data))
    }

    /// Response times of the ops that count for the rate, merged.
    pub fn response_time(&self) -> Histogram {
        self.merged(|kind| &kind.response_time)
    }

    /// Service times of the ops that count for the rate, merged.
    pub fn service_time(&self) -> Histogram {
        self.merged(|kind| &kind.service_time)
    }

    fn merged(&self, times: fn(&KindResult) -> &Histogram) -> Histogram {
        // Quantiles come from merged counts: the mean of quantiles of kinds is none of the whole.
        let mut merged = Histogram::sparse();
        for kind in self.rated() {
            merged.merge(times(kind));
        }
        merged
    }

    fn rated(&self) -> impl Iterator<Item = &KindResult> {
        self.kinds.iter().filter(|kind| kind.kind != OpKind::Sync)
    }
}

/// Figures for one kind of op in one pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindResult {
    /// The kind of op.
    pub kind: OpKind,
    /// Ops that the workload handed to the backend.
    pub issued: u64,
    /// Ops that ended well.
    pub done: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many ops failed, by error.
    pub errors: Vec<(OpError, u64)>,
    /// Sent to done.
    pub service_time: Histogram,
    /// Scheduled to done.
    pub response_time: Histogram,
}

impl KindResult {
    /// Adds what others recorded: as if all had been recorded together, kind by kind.
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
    /// Bytes moved in it.
    pub bytes: u64,
}
