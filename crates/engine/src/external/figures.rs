//! Results of a pass run by another program, and their conversion to our own results.
//!
//! [`Figures`] contain the minimum that every tool reports: ops, bytes and time. Times of single
//! workers and latencies of single ops are included if a tool reports them; otherwise, histograms
//! are empty.

use model::{
    Caveat, Durability, Fact, Histogram, IntervalSample, KindResult, OpError, OpKind, Pass,
    PassResult, ProgramUse, Scope, Span, Workload,
};

use super::process::{FinishedProgram, ProgramEnd, Usage};
use super::{ExternalPass, RunReads};
use crate::backend::BackendCounts;
use crate::measure::MeasuredPass;
use crate::target::TargetError;
use crate::worker::Ending;

/// The results of one pass of a tool that runs all its passes at once.
#[derive(Debug)]
pub(super) struct PassFigures {
    pub pass: Pass,
    pub figures: Figures,
}

/// A tool's report on one pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Results for each kind of op.
    pub kinds: Vec<Kind>,
    /// Duration of the pass.
    pub window_ns: u64,
    /// Duration of its fastest worker; `None` if the tool doesn't report it, which counts as the
    /// duration of the pass.
    pub first_done_ns: Option<u64>,
    /// CPU time, if reported by the program or the kernel.
    pub cpu_ns: u64,
    /// Resources used by a user's command.
    pub program: Option<ProgramUse>,
    /// Bytes read from storage, if the kernel counted them for this pass only.
    pub storage_read_bytes: Option<u64>,
    /// Reads of the whole run, if the program runs all passes at once. In that case, neither the
    /// program nor the kernel reports which pass read from storage.
    pub whole_run: Option<RunReads>,
    /// Additional facts.
    pub facts: Vec<Fact>,
    /// Caveats raised by the program itself.
    pub caveats: Vec<Caveat>,
}

/// A tool's report on one kind of op.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub kind: OpKind,
    pub ops: u64,
    pub bytes: u64,
    /// Empty if the program doesn't report latencies of single ops.
    pub times: Histogram,
}

impl Kind {
    /// Returns the syncs within the window that a tool was configured to make.
    pub(crate) fn syncs(durability: Durability, pass: Pass, files: u32) -> Option<Self> {
        let makes = durability == Durability::Sync && pass.writes();
        makes.then(|| Self::counted(OpKind::Sync, files.into(), 0))
    }

    /// Creates a report with only a number of ops and bytes.
    pub(crate) fn counted(kind: OpKind, ops: u64, bytes: u64) -> Self {
        Self { kind, ops, bytes, times: Histogram::new() }
    }
}

/// A pass without a usable result.
pub(super) enum FailedPass {
    /// There is no result at all.
    NotRun(TargetError),
    /// The program ran but failed.
    Ended {
        /// How it failed, with its last lines of output.
        why: String,
        how: ProgramEnd,
        wall_ns: u64,
        usage: Usage,
    },
}

impl From<TargetError> for FailedPass {
    fn from(error: TargetError) -> Self {
        Self::NotRun(error)
    }
}

impl FailedPass {
    /// Creates the failure of a tool.
    pub(crate) fn tool(tool: &str, why: &str, ended: &FinishedProgram) -> Self {
        let FinishedProgram { how, wall_ns, usage, .. } = *ended;
        Self::Ended { why: format!("{tool}: {why}"), how, wall_ns, usage }
    }

    /// Creates the error for a pass that the program doesn't support.
    pub(crate) fn no_such_pass(workload: Workload, pass: Pass) -> Self {
        Self::NotRun(TargetError::Program(format!("{workload} has no pass {pass}")))
    }

    /// Creates the error for output that cannot be parsed.
    pub(crate) fn unread(tool: &str, what: &str) -> Self {
        Self::NotRun(TargetError::Program(format!("cannot parse the output of {tool}: {what}")))
    }

    /// Converts the failed pass to our own kind of result.
    pub(crate) fn into_external_pass(self, pass: Pass) -> Result<ExternalPass, TargetError> {
        let (why, how, wall_ns, usage) = match self {
            Self::NotRun(error) => return Err(error),
            Self::Ended { why, how, wall_ns, usage } => (why, how, wall_ns, usage),
        };
        let kind = pass.kinds().first().copied().unwrap_or(OpKind::Execute);
        let cpu_ns = usage.user_ns + usage.system_ns;
        let figures = Figures { window_ns: wall_ns, cpu_ns, ..Figures::default() };
        let mut outside = figures.into_external_pass(pass);
        let failed = KindResult {
            errors: vec![(OpError::PROGRAM, 1)],
            issued: 1,
            ..kind_result(Kind::counted(kind, 0, 0))
        };
        outside.measured.result.kinds = vec![failed];
        outside.measured.ending = match how {
            ProgramEnd::Stopped => Ending::Stopped,
            _ => Ending::Lost(why),
        };
        Ok(outside)
    }
}

impl Figures {
    /// Converts the pass to our own kind of result.
    pub(crate) fn into_external_pass(self, pass: Pass) -> ExternalPass {
        let rated = self.kinds.iter().filter(|kind| kind.kind != OpKind::Sync);
        let ops = rated.map(|kind| kind.ops).sum();
        let bytes = self.kinds.iter().map(|kind| kind.bytes).sum();
        let first_done_ns = self.first_done_ns.unwrap_or(self.window_ns);
        // If a program doesn't report how far it was when its first worker finished, assume a
        // constant rate.
        let share = |all: u64| {
            let part = u128::from(all) * u128::from(first_done_ns);
            (part / u128::from(self.window_ns.max(1))) as u64
        };
        let result = PassResult {
            window_ns: self.window_ns,
            common_window_ns: first_done_ns,
            first_done_ops: share(ops),
            first_done_bytes: share(bytes),
            first_done_ns,
            client_cpu_ns: self.cpu_ns,
            storage_read_bytes: self.storage_read_bytes,
            samples: vec![IntervalSample { at_ns: self.window_ns, ops, bytes }],
            kinds: self.kinds.into_iter().map(kind_result).collect(),
            scope: Scope { program: self.program, ..Scope::default() },
            caveats: self.caveats,
            ..PassResult::new(pass)
        };
        let measured = MeasuredPass {
            result,
            ending: Ending::Complete,
            tally: BackendCounts::default(),
            span: Span::default(),
            timeline: Vec::new(),
            ops_each: None,
        };
        ExternalPass { measured, facts: self.facts, whole_run: self.whole_run }
    }
}

fn kind_result(kind: Kind) -> KindResult {
    KindResult {
        kind: kind.kind,
        issued: kind.ops,
        done: kind.ops,
        bytes: kind.bytes,
        errors: Vec::new(),
        service_time: kind.times.clone(),
        response_time: kind.times,
    }
}
