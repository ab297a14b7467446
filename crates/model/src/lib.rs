//! The vocabulary of dfsbench as types: units, ops, specs, histograms, samples, facts and caveats.
//!
//! This is layer 0: all other crates use these types, and none of them depends on a clock, socket,
//! file or thread. Integers hold nanoseconds and bytes; floats are only used for display. The terms
//! are explained in `docs/design/architecture.md`.

#![warn(unreachable_pub)]

mod faults;
mod judgments;
pub mod panicked;
pub mod permute;
pub mod question;
pub mod random;
mod results;
mod runs;
pub mod setting;
mod systems;
mod targets;
#[doc(hidden)]
pub mod testing;
mod text;

pub use faults::interference::{Interference, InterferenceRule, InterferenceSource};
pub use faults::soak::{DataCheck, FaultEvent, IntervalStats, Soak};
pub use faults::{server_fault, soak};
pub use judgments::caveat::{Caveat, CaveatCode, Evidence, Severity, Verdict};
pub use judgments::conclusion::{Conclusion, Expectation};
pub use judgments::contender;
pub use judgments::requirement::{Limit, LimitError, LimitMetric, LimitRelation, Requirement};
pub use panicked::Panicked;
pub use question::Question;
pub use results::campaign::{
    Campaign, CampaignLine, CampaignState, Ceiling, CrossCheck, IntervalSample, IntervalTimes,
    KindResult, PassResult, Run, Trial, TrialState,
};
pub use results::client::{ClientRecord, ClientResult, ClientTimes};
pub use results::held_ops::HeldOps;
pub use results::histogram::Histogram;
pub use results::path::{PathWork, PnfsWork};
pub use results::scope::{
    FrameDelivery, ListingCalls, ListingWork, OfferedLoad, ProgramUse, Scope, TrainingWork,
    WarmedUp, WireBytes, WorkerTime, WorkingSet,
};
pub use results::share::{HostResult, Share, Span, TimelinePoint};
pub use results::telemetry::{BusyDevice, Metric, MetricKind, Telemetry};
pub use results::{client, durability, histogram, telemetry};
pub use runs::checkpoint;
pub use runs::checkpoint::{Checkpoint, CheckpointModel};
pub use runs::file_sizes;
pub use runs::file_sizes::{FileSizes, SizeDistribution, SizeDistributionError};
pub use runs::fio_option::{FioOptionRole, fio_option_name, fio_option_role};
pub use runs::impossible::Impossible;
pub use runs::io500::{self, Io500Part};
pub use runs::kv_cache;
pub use runs::kv_cache::KvCache;
pub use runs::media;
pub use runs::media::Media;
pub use runs::named_load::NamedLoad;
pub use runs::op::{Completion, Op, OpError, OpKind, Outcome, PLACE};
pub use runs::pass::{Opens, Pass};
pub use runs::placement::Placement;
pub use runs::repetition::{Discard, Order, Repetition};
pub use runs::sampling::{ProcessorWait, Sampling, Stall, Stalls, Work};
pub use runs::spec::{Durability, RunSpec};
pub use runs::training;
pub use runs::training::{Shuffle, TrainedModel, Training};
pub use runs::work;
pub use runs::work::{
    Arrivals, Command, DataSettings, Database, Fill, Io500Files, Layout, Load, OpMix, Sharing,
    Transactions, Tree, VmBoot,
};
pub use runs::workload::{Executor, Workload};
pub use systems::action::{
    Action, Device, Difference, EffectiveSettings, LabStep, Peer, RemotePort,
};
pub use systems::fact::Fact;
pub use systems::lab::{
    DataPath, FileSystem, Fresh, Host, Invalidation, LabSpec, MountSec, NfsdIo, Protocol, Raid,
    ServerKind, ServerThreads, Serving, SiteMount, Storage, System, Tuning, TunnelForwards,
};
pub use systems::{action, lab, options, system};
pub use targets::nfs::{
    ConnectionPolicy, Family, Identity, NfsSettings, NfsTarget, NfsVersion, Pnfs, Proto, Sec,
    Stable, TlsOptions, UdpWindow, XprtSec,
};
pub use targets::target::{Ability, BackendKind, KeptData, Target, TcpTarget};
pub use targets::{nfs, server_memory, target};
pub use text::{csv, printable, units};
