//! Replay of a trace on an NFS server or in a directory.
//!
//! A [`ReplayPlan`] is created from a trace before the start. It contains the tree that the trace
//! requires and a [`Step`] for each operation, with its client, its time and its dependencies.
//! [`Replayer`] builds the tree and executes the steps, with a separate connection for each client
//! of the trace. [`DirectoryReplayer`] does the same with system calls on a local directory. The
//! result is an [`Outcome`]. A [`ReplaySession`] repeats that at several speeds, and [`ShareHosts`]
//! divides the clients of the trace among hosts.
//!
//! Invariants: a step starts on time unless its dependencies haven't ended; the steps of a client
//! start in the order of the trace; each step is accounted for exactly once. While steps are
//! issued, nothing is allocated, locked or logged. This crate must not print, and reads only the
//! clock that is passed to it.
#![warn(unreachable_pub)]

mod action;
mod directory;
mod division;
mod exchange;
mod executor;
mod hosts;
mod lanes;
mod limit;
mod operation;
mod order;
mod outcome;
mod plan;
mod planner;
mod prepare;
mod recorder;
mod replayer;
mod session;
mod share;
mod step;
mod stored;
mod target;
mod target_kind;
mod tree;
mod window;

pub use self::plan::{InitialObject, PlanError, ReplayPlan};
pub use action::Action;
pub use directory::{DirectoryReplayer, DirectoryTree, TRANSFER_BYTES};
pub use division::Division;
pub use exchange::{Exchange, NoticeSender, StepEnd};
pub use executor::BatchSchedule;
pub use hosts::{ShareHosts, ShareRemote, SharedTrace};
pub use lanes::Pace;
pub use limit::{SPEEDS_MAX, SearchResult, SearchedSpeeds, find_limit};
pub use operation::Files;
pub use outcome::{
    BehindPeriod, HostOutcome, HostShare, KindOutcome, Outcome, Problem, Record, ShareRecord,
    SlowKind, TimeSlice, Verdict,
};
pub use planner::PlanSettings;
pub use prepare::Fill;
pub use recorder::PartSums;
pub use replayer::{Clients, ReplayError, ReplaySettings, Replayer};
pub use session::{ReplayEvent, ReplaySession, ReplaySessionError, Rounds, TreeUse};
pub use share::serve_share;
pub use step::{Batch, Step};
pub use stored::StoredReplay;
pub use target::{NamedTarget, NamedTargetError, OpenTarget};
pub use target_kind::TargetKind;
pub use window::{TracePoint, Window};
