//! Orders and reports: all messages between controller and agents.
//!
//! One order is in progress at a time, and each has one answer; only [`Order::Go`] is answered by
//! several reports. A pass is [`Order::Prepare`], [`Order::Arm`], [`Order::Go`] and
//! [`Order::Account`], and all agents of a run have answered one before the next is given. An
//! order that can't be carried out is answered by [`Report::Failed`] with a sentence, which names
//! no host: the controller knows to which one it sent the order.

use std::path::PathBuf;

use model::{
    Action, BusyDevice, EffectiveSettings, Fact, IntervalSample, Invalidation, OpKind, Pass,
    PassResult, RunSpec, Share, Span, Telemetry, TimelinePoint,
};
use serde::{Deserialize, Serialize};

use crate::json;

/// Name of the fact by which an agent reports the identity of its host's kernel.
pub const KERNEL_FACT: &str = "kernel identity";

/// One trial, as it is handed to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Every setting of the run; its workers are those of all agents together.
    #[serde(with = "json")]
    pub spec: RunSpec,
    /// Seed of the campaign.
    pub seed: u64,
    /// Seed of the scheduled instants of an open loop: each trial has a schedule of its own.
    pub schedule_seed: u64,
    /// Name of the working directory.
    pub work_name: String,
    /// Leave the working directory behind.
    pub keep: bool,
    /// The share of the workers that is this agent's.
    pub share: Share,
    /// The working directory may be there already: then another agent made it, and removes it.
    pub joins: bool,
    /// The journal in which a soak notes what was acknowledged.
    pub journal: JournalLocation,
}

/// The place of an agent's acknowledgement journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalLocation {
    /// In its memory.
    #[default]
    InMemory,
    /// In a file of its host, which outlives it.
    InFile,
    /// In a file that an agent left when it was killed; its files of data are there, too.
    Inherited,
}

/// The facts that an agent needs before it changes its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Name of the campaign in the undo log, and in the names of its working directories.
    pub campaign: String,
    /// Devices that may be formatted: those that the command line repeats.
    pub allow_destroy: Vec<PathBuf>,
    /// Its working directories are left behind.
    pub keep: bool,
    /// The host has lost its power within the campaign: file systems on devices stay.
    pub after_power_loss: bool,
}

/// An order of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Make a fresh target for a trial.
    Begin(Box<Assignment>),
    /// Make what a pass expects to find, as far as it belongs to this agent's share.
    Prepare(Pass),
    /// Have the workers of a share open what they need, and wait for [`Order::Go`].
    Arm {
        /// The pass to be made.
        pass: Pass,
        /// The share whose workers it executes: its own, or another one whose files it reads.
        share: Share,
    },
    /// Start the workers.
    Go {
        /// When, by the agent's own clock in nanoseconds; 0, or what has passed, is at once.
        start_ns: u64,
    },
    /// End the waiting workers instead.
    Disarm,
    /// Count what the pass left, now that all agents have ended it, and report its result.
    Account {
        /// The work of all other agents, for the agent that counts for all; else empty.
        others: Vec<Done>,
    },
    /// Remove the target's working directory.
    End {
        /// Also where another agent made it, which is lost.
        inherits: bool,
    },
    /// Report the settings of the host.
    Facts,
    /// Report a reading of the clocks.
    Clock,
    /// Make ready to change the host.
    Open(Opening),
    /// Change the host, on top of what was applied before.
    Apply(#[serde(with = "json")] Box<Action>),
    /// Undo what was applied last.
    UndoLast,
    /// Undo all that was applied, the last first.
    UndoAll,
    /// Hold nothing open below the target until the next pass, so that it can be remounted.
    Release,
    /// Drop from this host's memory what the next pass is to read from elsewhere.
    Invalidate {
        /// How much is to be forgotten.
        how: Invalidation,
        /// The directory that this host serves, if it serves any.
        directory: Option<PathBuf>,
    },
    /// Wait until disks and networks of the host are quiet.
    AwaitQuiet {
        /// So long at most, in milliseconds.
        within_ms: u64,
    },
    /// Watch the host from now on.
    Watch,
    /// End watching it, and report what was seen.
    Unwatch,
    /// Restore what campaigns that were killed left changed.
    Clean {
        /// Drops what can't be restored from the undo log.
        forget: bool,
    },
    /// Change the host for a while, also while workers work; not answered in their stead.
    Disturb(#[serde(with = "json")] Box<Action>),
    /// Revert the fault.
    EndDisturbance,
    /// Crash: the process kills itself and restores nothing. Not answered.
    Crash,
}

impl Order {
    /// Names the order, for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "Begin",
            Self::Prepare(_) => "Prepare",
            Self::Arm { .. } => "Arm",
            Self::Go { .. } => "Go",
            Self::Disarm => "Disarm",
            Self::Account { .. } => "Account",
            Self::End { .. } => "End",
            Self::Facts => "Facts",
            Self::Clock => "Clock",
            Self::Open(_) => "Open",
            Self::Apply(_) => "Apply",
            Self::UndoLast => "UndoLast",
            Self::UndoAll => "UndoAll",
            Self::Release => "Release",
            Self::Invalidate { .. } => "Invalidate",
            Self::AwaitQuiet { .. } => "AwaitQuiet",
            Self::Watch => "Watch",
            Self::Unwatch => "Unwatch",
            Self::Clean { .. } => "Clean",
            Self::Disturb(_) => "Disturb",
            Self::EndDisturbance => "EndDisturbance",
            Self::Crash => "Crash",
        }
    }
}

/// The findings of an agent at the target of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Effective settings of the target.
    pub facts: Vec<Fact>,
    /// It made a working directory on a file system of its host, and did not find that of the
    /// agent before it.
    pub made_directory: bool,
}

/// An answer of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The target is ready; with its effective settings.
    Begun(Begun),
    /// The files of the share are there.
    Prepared,
    /// All is open, and the workers wait.
    Armed,
    /// The waiting workers have ended.
    Disarmed,
    /// A pass is running.
    Progress(IntervalSample),
    /// The workers have ended.
    Worked {
        /// The work that they did.
        done: Vec<Done>,
        /// The trial can't go on, so no other agent need.
        is_broken: bool,
    },
    /// How the pass went.
    Ran(Box<PassEnd>),
    /// The working directory is removed.
    Ended,
    /// The order could not be obeyed; the reason is a sentence.
    Failed(String),
    /// Nothing is held open.
    Released,
    /// Settings, each with its source; also what was in memory before and after an invalidation.
    Facts(Vec<Fact>),
    /// A reading of the clocks.
    Clock(ClockReading),
    /// The host may be changed.
    Opened,
    /// An action was applied; with what is effective now.
    Applied(EffectiveSettings),
    /// The change to the host is reverted.
    Undone,
    /// The host was waited for until it was quiet, or for as long as was requested.
    Quiet(QuietWait),
    /// The host is being watched.
    Watching,
    /// Telemetry of the host since it is watched.
    Watched(Box<Telemetry>),
    /// Changes that were found and restored; empty where nothing was left changed.
    Cleaned(Vec<RestoredChange>),
    /// The fault that is now effective, nothing where it was reverted; or why it can't be done.
    Disturbed(Result<EffectiveSettings, String>),
}

impl Report {
    /// Names the report, for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begun(_) => "Begun",
            Self::Prepared => "Prepared",
            Self::Armed => "Armed",
            Self::Disarmed => "Disarmed",
            Self::Progress(_) => "Progress",
            Self::Worked { .. } => "Worked",
            Self::Ran(_) => "Ran",
            Self::Ended => "Ended",
            Self::Failed(_) => "Failed",
            Self::Released => "Released",
            Self::Facts(_) => "Facts",
            Self::Clock(_) => "Clock",
            Self::Opened => "Opened",
            Self::Applied(_) => "Applied",
            Self::Undone => "Undone",
            Self::Quiet(_) => "Quiet",
            Self::Watching => "Watching",
            Self::Watched(_) => "Watched",
            Self::Cleaned(_) => "Cleaned",
            Self::Disturbed(_) => "Disturbed",
        }
    }
}

/// A wait for a quiet host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietWait {
    /// How long it took, in milliseconds.
    pub waited_ms: u64,
    /// Disks and networks that were still at work at its end.
    pub busy: Vec<BusyDevice>,
}

/// One change that was left behind, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredChange {
    /// The campaign that made it.
    pub campaign: String,
    /// The change that was made.
    pub what: String,
    /// Why it can't be restored; `None` where it was.
    pub refused: Option<String>,
    /// What stays on the host, a sentence each, because the change was dropped from the undo log.
    #[serde(default)]
    pub stays: Vec<String>,
}

/// The readings of a host's clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The clock that ops are timed by, in nanoseconds since whenever.
    pub mono_ns: u64,
    /// The calendar, in nanoseconds since 1970 UTC.
    pub wall_ns: u64,
}

/// Ops of one kind, the warm-up included: the part that cross-checks see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The kind of op.
    pub kind: OpKind,
    /// Ops that ended well.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassEnd {
    /// Its figures and caveats.
    pub result: PassResult,
    /// Further facts that were learned while it ran.
    pub facts: Vec<Fact>,
    /// Why the trial can't go on, where it can't.
    pub broken: Option<Broken>,
    /// When its workers started and ended.
    pub span: Span,
    /// The progress curve of the workers, in its order; only where there are other agents.
    pub timeline: Vec<TimelinePoint>,
}

/// Why a trial can't go on after a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broken {
    /// A stop was requested.
    Stopped,
    /// Ops failed or the target went away; the reason is a sentence.
    Failed(String),
}
