//! What another program says of a pass, and the shape of our own results that it takes.
//!
//! [`Figures`] hold what all tools can say at least: ops, bytes and the time they took. Windows of
//! single workers and times of single ops are filled in where a tool gives them; a histogram is
//! empty where it doesn't.

use model::{
    Caveat, Durability, Fact, Histogram, IntervalSample, KindResult, OpError, OpKind, Pass,
    PassResult, ProgramUse, Scope, Span, Workload,
};

use super::process::{Finished, How, Usage};
use super::{Outside, RunReads};
use crate::backend::Tally;
use crate::measure::Measured;
use crate::target::TargetError;
use crate::worker::Ending;

/// The figures of one pass of a tool that makes all its passes in one go.
#[derive(Debug)]
pub(super) struct PassFigures {
    /// The pass that it made.
    pub pass: Pass,
    /// The figures of that pass.
    pub figures: Figures,
}

/// The report of a tool on one pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Figures of each kind of op.
    pub kinds: Vec<Kind>,
    /// How long the pass took.
    pub window_ns: u64,
    /// How long its fastest worker took; as long as the pass, where the tool doesn't report it.
    pub first_done_ns: Option<u64>,
    /// Processor time, where the program or the kernel says it.
    pub cpu_ns: u64,
    /// Resources that a command of the user's used.
    pub program: Option<ProgramUse>,
    /// Bytes that storage read, where the kernel counted them for this pass alone.
    pub storage_read_bytes: Option<u64>,
    /// Reads of the whole run, where the program makes all passes in one go: neither it nor the
    /// kernel reports which of them storage served.
    pub whole_run: Option<RunReads>,
    /// Facts that were reported beyond that.
    pub facts: Vec<Fact>,
    /// Caveats that the program itself raised.
    pub caveats: Vec<Caveat>,
}

/// The report of a tool on one kind of op.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub kind: OpKind,
    pub ops: u64,
    pub bytes: u64,
    /// Empty where the program reports no times of single ops.
    pub times: Histogram,
}

impl Kind {
    /// Syncs inside the window, which a tool was configured to make.
    pub fn syncs(durability: Durability, pass: Pass, files: u32) -> Option<Self> {
        let makes = durability == Durability::Sync && pass.writes();
        makes.then(|| Self::counted(OpKind::Sync, files.into(), 0))
    }

    /// Ops of which nothing is known but their number and their bytes.
    pub fn counted(kind: OpKind, ops: u64, bytes: u64) -> Self {
        Self { kind, ops, bytes, times: Histogram::new() }
    }
}

/// A pass that did not come about.
pub(super) enum Failed {
    /// There is no figure at all.
    NotRun(TargetError),
    /// The program ran and ended badly.
    Ended {
        /// How, and its last words.
        why: String,
        how: How,
        wall_ns: u64,
        usage: Usage,
    },
}

impl From<TargetError> for Failed {
    fn from(error: TargetError) -> Self {
        Self::NotRun(error)
    }
}

impl Failed {
    /// A program that ended badly.
    pub fn tool(tool: &str, why: &str, ended: &Finished) -> Self {
        let Finished { how, wall_ns, usage, .. } = *ended;
        Self::Ended { why: format!("{tool}: {why}"), how, wall_ns, usage }
    }

    /// A pass that the program can't make.
    pub fn no_such_pass(workload: Workload, pass: Pass) -> Self {
        Self::NotRun(TargetError::Program(format!("{workload} has no pass {pass}")))
    }

    /// Output that can't be read.
    pub fn unread(tool: &str, what: &str) -> Self {
        Self::NotRun(TargetError::Program(format!("can't read what {tool} printed: {what}")))
    }

    /// The failed pass in the shape of our own results.
    ///
    /// # Errors
    /// When there is no figure at all.
    pub fn outside(self, pass: Pass) -> Result<Outside, TargetError> {
        let (why, how, wall_ns, usage) = match self {
            Self::NotRun(error) => return Err(error),
            Self::Ended { why, how, wall_ns, usage } => (why, how, wall_ns, usage),
        };
        let kind = pass.kinds().first().copied().unwrap_or(OpKind::Execute);
        let cpu_ns = usage.user_ns + usage.system_ns;
        let figures = Figures { window_ns: wall_ns, cpu_ns, ..Figures::default() };
        let mut outside = figures.outside(pass);
        let failed = KindResult {
            errors: vec![(OpError::PROGRAM, 1)],
            issued: 1,
            ..kind_result(Kind::counted(kind, 0, 0))
        };
        outside.measured.result.kinds = vec![failed];
        outside.measured.ending = match how {
            How::Stopped => Ending::Stopped,
            _ => Ending::Lost(why),
        };
        Ok(outside)
    }
}

impl Figures {
    /// The pass in the shape of our own results.
    pub fn outside(self, pass: Pass) -> Outside {
        let rated = self.kinds.iter().filter(|kind| kind.kind != OpKind::Sync);
        let ops = rated.map(|kind| kind.ops).sum();
        let bytes = self.kinds.iter().map(|kind| kind.bytes).sum();
        let first_done_ns = self.first_done_ns.unwrap_or(self.window_ns);
        // At the window's even rate, where a program doesn't say how far it was when its first
        // worker ended.
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
        let measured = Measured {
            result,
            ending: Ending::Complete,
            tally: Tally::default(),
            span: Span::default(),
            timeline: Vec::new(),
        };
        Outside { measured, facts: self.facts, whole_run: self.whole_run }
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
