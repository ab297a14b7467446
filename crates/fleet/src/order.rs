//! Orders and reports: all messages between the controller and its agents.
//!
//! Only one order is in progress at a time. Each has exactly one answer, except [`Order::Go`],
//! which produces several reports. A pass consists of [`Order::Prepare`], [`Order::Arm`],
//! [`Order::Go`] and [`Order::Account`]; all agents of a run must have answered one step before the
//! next one is sent. An order that cannot be carried out is answered with [`Report::Failed`] and a
//! sentence. The sentence contains no host name, since the controller knows where it sent the
//! order.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use model::system::Secrets;
use model::{
    Action, BusyDevice, EffectiveSettings, Fact, IntervalSample, Invalidation, OpKind, Pass,
    PassResult, RunSpec, Share, Span, Target, Telemetry, TimelinePoint,
};
use serde::{Deserialize, Serialize};

use crate::json;

/// Name of the fact that identifies a host's running kernel.
pub const KERNEL_FACT: &str = "kernel identity";

/// Name of the file that [`Order::WriteProbe`] writes.
pub const PROBE_FILE: &str = "probe";

/// Everything an agent needs to run one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// All settings of the run. The number of workers is the total over all agents.
    #[serde(with = "json")]
    pub spec: RunSpec,
    /// Seed of the campaign.
    pub seed: u64,
    /// Seed for the arrival times of an open loop. Each trial gets its own schedule.
    pub schedule_seed: u64,
    /// Name of the working directory.
    pub work_name: String,
    /// Keep the working directory after the trial.
    pub keep: bool,
    /// This agent's share of the workers.
    pub share: Share,
    /// The working directory may already exist, because another agent creates and removes it.
    pub joins: bool,
    /// Location of the journal in which a soak records acknowledged writes.
    pub journal: JournalLocation,
}

/// Where an agent keeps its acknowledgement journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalLocation {
    /// In the agent's memory.
    #[default]
    InMemory,
    /// In a file on its host, which outlives the agent.
    InFile,
    /// In the file left behind by a killed agent, along with its data files.
    Inherited,
}

/// What an agent needs to know before it may change its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPermissions {
    /// Name of the campaign, used in the undo log and in names of working directories.
    pub campaign: String,
    /// Devices that may be formatted, as confirmed on the command line.
    pub allow_destroy: Vec<PathBuf>,
    /// Keep the working directories.
    pub keep: bool,
    /// The host lost power during the campaign, so existing file systems on devices must be kept.
    pub after_power_loss: bool,
    /// Values of the secrets of the campaign's systems.
    pub secrets: Secrets,
}

/// An order from the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Create a fresh target for a trial.
    Begin(Box<Assignment>),
    /// Create this agent's share of what the pass expects to find.
    Prepare(Pass),
    /// Let the workers of a share open their files and wait for [`Order::Go`].
    Arm {
        pass: Pass,
        /// The share whose workers to run: the agent's own, or the one whose files it reads.
        share: Share,
    },
    /// Start the workers.
    Go {
        /// When to start, in nanoseconds of the agent's own clock. 0 or a time in the past means
        /// now.
        start_ns: u64,
    },
    /// Stop the waiting workers instead of starting them.
    Disarm,
    /// Account for what the pass left behind and report its result. Sent after all agents have
    /// finished the pass.
    Account {
        /// The work done by all other agents, if this agent does the accounting for all; otherwise
        /// empty.
        others: Vec<KindTotals>,
    },
    /// Remove the target's working directory.
    End {
        /// Also remove it if it was created by another agent that is now lost.
        inherits: bool,
    },
    /// Report the host's settings.
    Facts,
    /// Report a reading of the clocks.
    Clock,
    /// Prepare to change the host.
    Open(HostPermissions),
    /// Change the host, on top of the changes applied so far.
    Apply(#[serde(with = "json")] Box<Action>),
    /// Undo the last change.
    UndoLast,
    /// Undo all changes in reverse order.
    UndoAll,
    /// Close everything below the target until the next pass, so that it can be remounted.
    Release,
    /// Drop cached data that the next pass will read from another host.
    Invalidate {
        /// What to drop.
        how: Invalidation,
        /// The directory exported by this host, if it is a server.
        directory: Option<PathBuf>,
    },
    /// Wait until the host's disks and networks are idle.
    AwaitQuiet {
        /// Maximum time to wait, in milliseconds.
        within_ms: u64,
    },
    /// Write and sync a small file in a new folder of a target.
    WriteProbe {
        #[serde(with = "json")]
        target: Box<Target>,
        folder: String,
    },
    /// Remove such a folder.
    RemoveProbe {
        #[serde(with = "json")]
        target: Box<Target>,
        folder: String,
    },
    /// Start collecting telemetry of the host.
    Watch,
    /// Stop collecting telemetry and report it.
    Unwatch,
    /// Restore changes left behind by killed campaigns.
    Clean {
        /// Drop entries that cannot be restored from the undo log.
        forget: bool,
    },
    /// Inject a temporary fault. May arrive while workers are running; its report doesn't replace
    /// theirs.
    Disturb(#[serde(with = "json")] Box<Action>),
    /// End the injected fault.
    EndDisturbance,
    /// Crash: the agent kills its own process without restoring anything. There is no answer.
    Crash,
}

impl Order {
    /// Returns the name of the order, for messages.
    pub fn name(&self) -> String {
        variant_name(self)
    }
}

/// What an agent found when it set up a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSetup {
    /// Effective settings of the target.
    pub facts: Vec<Fact>,
    /// The agent created a new working directory on its host's file system instead of finding the
    /// one of its predecessor.
    pub made_directory: bool,
}

/// An answer from an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The target is ready.
    Begun(TrialSetup),
    /// The files of the share exist.
    Prepared,
    /// Everything is open and the workers are waiting.
    Armed,
    /// The waiting workers were stopped.
    Disarmed,
    /// Progress of a running pass.
    Progress(IntervalSample),
    /// The workers have finished.
    Worked {
        done: Vec<KindTotals>,
        /// The trial cannot continue, so the other agents can stop, too.
        is_broken: bool,
    },
    /// The result of the pass.
    Ran(Box<PassEnd>),
    /// The working directory was removed.
    Ended,
    /// The order could not be carried out; contains the reason as a sentence.
    Failed(String),
    /// Nothing is open anymore.
    Released,
    /// Settings with their sources. After an invalidation: what was cached before and after it.
    Facts(Vec<Fact>),
    Clock(ClockReading),
    /// The host may be changed.
    Opened,
    /// An action was applied. Contains the settings now in effect.
    Applied(EffectiveSettings),
    /// The change to the host was reverted.
    Undone,
    /// The host is idle, or the time limit has passed.
    Quiet(QuietWait),
    /// The probe file is written and synced, or removed.
    Probed,
    /// Telemetry collection has started.
    Watching,
    /// Telemetry collected since the start.
    Watched(Box<Telemetry>),
    /// The changes that were found and restored. Empty if nothing was left behind.
    Cleaned(Vec<RestoredChange>),
    /// The fault that is now active (empty if it was reverted), or the reason why it cannot be
    /// injected.
    Disturbed(Result<EffectiveSettings, String>),
}

impl Report {
    /// Returns the name of the report, for messages.
    pub fn name(&self) -> String {
        variant_name(self)
    }
}

/// The outcome of waiting for an idle host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietWait {
    /// How long the wait took, in milliseconds.
    pub waited_ms: u64,
    /// Disks and networks that were still busy at the end.
    pub busy: Vec<BusyDevice>,
}

/// A change left behind by a campaign, and whether it could be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredChange {
    /// The campaign that made the change.
    pub campaign: String,
    /// The change.
    pub what: String,
    /// Why it cannot be restored, or `None` if it was.
    pub refused: Option<String>,
    /// What remains on the host because the change was dropped from the undo log, one sentence
    /// each.
    #[serde(default)]
    pub stays: Vec<String>,
}

/// Readings of a host's clocks taken at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Monotonic clock that ops are timed with, in nanoseconds since an arbitrary point.
    pub mono_ns: u64,
    /// Wall clock, in nanoseconds since 1970 UTC.
    pub wall_ns: u64,
}

/// Totals for ops of one kind, including the warm-up. This is what cross-checks compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindTotals {
    pub kind: OpKind,
    /// Ops that succeeded.
    pub ops: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassEnd {
    /// Results and caveats.
    pub result: PassResult,
    /// Facts discovered while the pass was running.
    pub facts: Vec<Fact>,
    /// Why the trial cannot continue; `None` if it can.
    pub broken: Option<TrialAbort>,
    /// When its workers started and finished.
    pub span: Span,
    /// Progress of the workers over time. Only filled in if there are other agents.
    pub timeline: Vec<TimelinePoint>,
}

/// Why a trial cannot continue after a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrialAbort {
    /// A stop was requested.
    Stopped,
    /// Ops failed or the target disappeared; contains the reason as a sentence.
    Failed(String),
}

/// Returns the name of a variant: the first word of what `Debug` prints.
fn variant_name(value: &impl fmt::Debug) -> String {
    struct FirstWord(String);

    impl fmt::Write for FirstWord {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find(|letter: char| !letter.is_alphanumeric());
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            // An error, so that the contents, which may be long, are not formatted.
            if end.is_none() { Ok(()) } else { Err(fmt::Error) }
        }
    }

    let mut name = FirstWord(String::new());
    let _ = write!(name, "{value:?}");
    name.0
}
