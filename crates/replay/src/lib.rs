//! Replay of a trace on an NFS server or in a directory.
//!
//! [`ReplayPlan`] is made of a trace before the start: the tree that the trace takes for granted,
//! and a [`Step`] for each operation with its client, its instant and what it waits for.
//! [`Replayer`] builds the tree and executes the steps, each client of the trace over a connection
//! of its own, and [`Outcome`] is what it found. [`DirectoryReplayer`] does the same by system
//! calls on a directory of this host.
//!
//! Invariants: a step starts at its instant, unless what it depends on has not ended; the steps of
//! a client start in the order of the trace; each step is accounted for once. While steps are
//! issued nothing is allocated, locked or logged. Must not print, and reads only the clock that it
//! is given.

mod action;
mod directory;
mod division;
mod exchange;
mod executor;
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
mod step;
mod target_kind;
mod tree;
mod window;

pub use action::{Action, Counterpart};
pub use directory::{DirectoryReplayer, DirectoryTree, TRANSFER_BYTES};
pub use division::Division;
pub use exchange::{Exchange, NoticeSender, OpenExchange, StepEnd};
pub use executor::Course;
pub use lanes::Pace;
pub use limit::{Judgement, LimitSearch};
pub use operation::{Files, KnownHandle};
pub use outcome::{
    Behind, HostOutcome, HostShare, KindOutcome, Outcome, Problem, Record, ShareRecord, SlowKind,
    TimeSlice, Verdict,
};
pub use plan::{InitialObject, PlanError, ReplayPlan};
pub use planner::PlanSettings;
pub use prepare::Fill;
pub use recorder::PartSums;
pub use replayer::{Clients, ReplayError, ReplaySettings, Replayer};
pub use step::{Batch, Step};
pub use target_kind::TargetKind;
pub use window::{Moment, Window};
