//! The vocabulary of dfsbench as types: units, ops, specs, histograms, samples, facts and caveats.
//!
//! This is layer 0: all other crates use these types, and none of them depends on a clock, socket,
//! file or thread. Integers hold nanoseconds and bytes; floats are only used for display. The terms
//! are explained in `docs/design/architecture.md`.

pub mod action;
mod advice;
pub mod campaign;
pub mod caveat;
pub mod client;
pub mod conclusion;
pub mod contender;
pub mod csv;
pub mod durability;
pub mod fact;
mod held_ops;
pub mod histogram;
pub mod impossible;
pub mod interference;
mod invalidation;
pub mod lab;
pub mod nfs;
pub mod op;
pub mod options;
pub mod panicked;
pub mod pass;
mod placement;
pub mod printable;
pub mod question;
pub mod random;
pub mod repetition;
pub mod sampling;
pub mod scope;
pub mod server_fault;
pub mod server_memory;
pub mod setting;
pub mod share;
pub mod soak;
pub mod spec;
pub mod system;
pub mod target;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod units;
mod words;
pub mod work;
pub mod workload;

pub use action::{Action, Device, Difference, EffectiveSettings, LabStep, Peer, RemotePort};
pub use campaign::{
    Campaign, CampaignLine, CampaignState, Ceiling, CrossCheck, IntervalSample, KindResult,
    PassResult, Run, Trial, TrialState,
};
pub use caveat::{Caveat, CaveatCode, Evidence, Severity, Verdict};
pub use client::{ClientRecord, ClientResult, ClientTimes};
pub use conclusion::{Conclusion, Expectation};
pub use fact::Fact;
pub use held_ops::HeldOps;
pub use histogram::Histogram;
pub use impossible::Impossible;
pub use interference::{Interference, InterferenceRule, InterferenceSource};
pub use lab::{
    DataPath, FileSystem, Fresh, Host, Invalidation, LabSpec, Mounting, Protocol, Raid, ServerKind,
    Serving, SiteMount, Storage, System, Tuning, TunnelForwards, Tunnelling,
};
pub use nfs::{
    Family, Identity, NfsSettings, NfsTarget, NfsVersion, Proto, Sec, Stable, TlsOptions,
    UdpWindow, XprtSec,
};
pub use op::{Completion, Op, OpError, OpKind, Outcome};
pub use panicked::Panicked;
pub use pass::{Opens, Pass};
pub use placement::Placement;
pub use question::Question;
pub use repetition::{Discard, Order, Repetition};
pub use sampling::{ProcessorWait, Sampling, Stall, Stalls, Work};
pub use scope::{Offered, ProgramUse, Scope, WarmedUp, WorkingSet};
pub use share::{HostResult, Share, Span, TimelinePoint};
pub use soak::{FaultEvent, IntervalStats, Kept, Soak};
pub use spec::{Durability, RunSpec};
pub use target::{Ability, BackendKind, BackendRow, Keeps, Target, TargetRow, TcpTarget};
pub use telemetry::{BusyDevice, Metric, MetricKind, Telemetry};
pub use work::{
    Arrivals, Command, DataSettings, Fill, Layout, Load, OpMix, Sharing, Transactions, Tree,
};
pub use workload::{Executor, SettingGroup, Workload, WorkloadRow};
