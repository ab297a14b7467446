//! Orders and reports: all that controller and agents say to each other.
//!
//! One order is under way at a time, and each has one answer; only [`Order::Go`] is answered by
//! several reports. A pass is [`Order::Prepare`], [`Order::Arm`], [`Order::Go`] and
//! [`Order::Account`], and all agents of a run have answered one before the next is given. Whatever
//! can't be obeyed is answered by [`Report::Failed`] with a sentence, which names no host: the
//! controller knows whom it asked.

use std::path::PathBuf;

use model::{
    Action, CoursePoint, Fact, InForce, IntervalSample, Invalidation, OpKind, Pass, PassResult,
    RunSpec, Share, Span, Telemetry,
};
use serde::{Deserialize, Serialize};

use crate::json;

/// One trial, as it is handed to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Every setting of the run; its workers are those of all agents together.
    #[serde(with = "json")]
    pub spec: RunSpec,
    /// Seed of the campaign.
    pub seed: u64,
    /// Seed of the due instants of an open loop: each trial has a schedule of its own.
    pub schedule_seed: u64,
    /// Name of the working directory.
    pub work_name: String,
    /// Leave the working directory behind.
    pub keep: bool,
    /// Which of the workers are this agent's.
    pub share: Share,
    /// The working directory may be there already: then another agent made it, and removes it.
    pub joins: bool,
    /// Where a soak books what was acknowledged.
    pub books: Books,
}

/// Where an agent books what was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Books {
    /// In its memory.
    #[default]
    InMemory,
    /// In a file of its host, which outlives it.
    InFile,
    /// In such a file, which an agent that was killed left; what that one made is there.
    Left,
}

/// What an agent needs to know before it changes its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Name of the campaign in the undo log, and in the names of its working directories.
    pub campaign: String,
    /// Devices that may be formatted: those that the command line repeats.
    pub allow_destroy: Vec<PathBuf>,
    /// Its working directories are left behind.
    pub keep: bool,
}

/// What the controller wants done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Make a fresh site for a trial.
    Begin(Box<Assignment>),
    /// Make what a pass expects to find, as far as it belongs to this agent's share.
    Prepare(Pass),
    /// Have the workers of a share open what they need, and wait for [`Order::Go`].
    Arm {
        /// The pass.
        pass: Pass,
        /// Whose workers it executes: its own, or those of another whose files it reads.
        share: Share,
    },
    /// Let the workers start.
    Go {
        /// When, by the agent's own clock in nanoseconds; 0, or what has passed, is at once.
        start_ns: u64,
    },
    /// Let them go home instead.
    Disarm,
    /// Count what the pass left, now that all agents have ended it, and tell how it went.
    Account {
        /// What all other agents did, for one that counts for all; else nothing.
        others: Vec<Done>,
    },
    /// Remove the site.
    End {
        /// Also where another agent made it, which is lost.
        inherits: bool,
    },
    /// Tell the settings of the host.
    Facts,
    /// Tell what the clocks show.
    Clock,
    /// Make ready to change the host.
    Open(Opening),
    /// Change the host, on top of what was applied before.
    Apply(#[serde(with = "json")] Box<Action>),
    /// Undo what was applied last.
    UndoLast,
    /// Undo all that was applied, the last first.
    UndoAll,
    /// Hold nothing open below the site until the next pass, so that it can be mounted anew.
    LetGo,
    /// Drop from this host's memory what the next pass is to read from elsewhere.
    Invalidate {
        /// How much is to be forgotten.
        how: Invalidation,
        /// What this host serves, where it serves.
        directory: Option<PathBuf>,
    },
    /// Watch the host from now on.
    Watch,
    /// Watch it no longer, and tell what was seen.
    Unwatch,
    /// Put back what campaigns that were killed left changed.
    Clean,
    /// Change the host for a while, also while workers work; not answered in their stead.
    Disturb(#[serde(with = "json")] Box<Action>),
    /// Undo that.
    Calm,
    /// Be killed, without a chance to tell anybody or to put anything back. Not answered.
    Perish,
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
            Self::LetGo => "LetGo",
            Self::Invalidate { .. } => "Invalidate",
            Self::Watch => "Watch",
            Self::Unwatch => "Unwatch",
            Self::Clean => "Clean",
            Self::Disturb(_) => "Disturb",
            Self::Calm => "Calm",
            Self::Perish => "Perish",
        }
    }
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The site is there; with the settings in force.
    Begun(Vec<Fact>),
    /// What belongs to the share is there.
    Prepared,
    /// All is open, and the workers wait.
    Armed,
    /// They went home.
    Disarmed,
    /// A pass is running.
    Progress(IntervalSample),
    /// The workers have ended.
    Worked {
        /// What they did.
        done: Vec<Done>,
        /// The trial can't go on, so nobody else need.
        is_broken: bool,
    },
    /// How the pass went.
    Ran(Box<PassEnd>),
    /// The site is gone.
    Ended,
    /// The order could not be obeyed; the reason is a sentence.
    Failed(String),
    /// Nothing is held open.
    Released,
    /// Settings, each with its source; also what was in memory before and after an invalidation.
    Facts(Vec<Fact>),
    /// What the clocks show.
    Clock(Reading),
    /// The host may be changed.
    Opened,
    /// An action was applied; with what is in force now.
    InForce(InForce),
    /// What was to be undone is undone.
    Undone,
    /// The host is being watched.
    Watching,
    /// What the host did since it is watched.
    Watched(Box<Telemetry>),
    /// What was found changed; nothing where nothing was left so.
    Cleaned(Vec<Putting>),
    /// What a disturbance put into force, nothing where it was undone; or why it can't be done.
    Disturbed(Result<InForce, String>),
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
            Self::InForce(_) => "InForce",
            Self::Undone => "Undone",
            Self::Watching => "Watching",
            Self::Watched(_) => "Watched",
            Self::Cleaned(_) => "Cleaned",
            Self::Disturbed(_) => "Disturbed",
        }
    }
}

/// One change that was left behind, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Putting {
    /// The campaign that made it.
    pub campaign: String,
    /// What was done.
    pub what: String,
    /// Why it can't be put back; `None` where it was.
    pub refused: Option<String>,
}

/// What the clocks of a host show at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The clock that ops are timed by, in nanoseconds since whenever.
    pub mono_ns: u64,
    /// The calendar, in nanoseconds since 1970 UTC.
    pub wall_ns: u64,
}

/// What was done of one kind, the warm-up included: what witnesses see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Which kind.
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
    /// What else was learned while it ran.
    pub facts: Vec<Fact>,
    /// Why the trial can't go on, where it can't.
    pub broken: Option<Broken>,
    /// When its workers started and ended.
    pub span: Span,
    /// What they had done from time to time, in its order; only where there are other agents.
    pub course: Vec<CoursePoint>,
}

/// Why a trial can't go on after a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broken {
    /// Somebody asked to stop.
    Stopped,
    /// Ops failed or the target went away; the reason is a sentence.
    Failed(String),
}
