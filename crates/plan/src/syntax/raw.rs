//! The plan as written: no defaults, every value with its line.
//!
//! [`RawPlan`] connects the text (`parse`), the flags (`overrides`) and the meaning (`resolve`).
//! Each value has been checked against its own limits; combinations are checked later.

use std::collections::{BTreeMap, HashSet};

use model::contender::Fairness;
use model::soak::Disturbance;
use model::{BackendKind, Command, Conclusion, Host, NfsVersion, OpMix, Requirement, Workload};

use crate::syntax::cluster::ClusterPlan;
use crate::syntax::error::{Located, PlanPosition};
use crate::syntax::fault::PlannedFault;
use crate::syntax::hosts::UsedFrom;
use crate::syntax::repetition::RawRepetition;
use crate::syntax::settings::Settings;
use crate::syntax::target::TargetArg;

/// A plan as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPlan {
    /// Name of the text in messages: a file name, or the name of a preset.
    pub source_name: String,
    /// Name of the campaign.
    pub name: String,
    /// How runs are repeated.
    pub repetition: RawRepetition,
    /// Seed of every random choice.
    pub seed: Option<Located<u64>>,
    /// The rule for contenders that differ in more than the system.
    pub fair: Option<Located<Fairness>>,
    /// Maximum time to wait for idle hosts before a trial, in milliseconds.
    pub quiet_ms: Option<Located<u64>>,
    /// The in-memory server.
    pub server: RawServer,
    /// Hosts that take part in addition to the local one.
    pub hosts: Vec<Host>,
    /// Labels of the local host, if no host is named.
    pub labels: BTreeMap<String, String>,
    /// The targets that are measured.
    pub targets: Vec<RawTarget>,
    /// Settings for all workloads.
    pub factors: Settings,
    /// The workloads to run on the targets.
    pub workloads: Vec<RawWorkload>,
    /// Disturbances of hosts, each with the place of its kind.
    pub disturbances: Vec<Located<Disturbance>>,
    /// The conclusions that the report tests.
    pub conclusions: Vec<Conclusion>,
    /// The limits that results must keep.
    pub requirements: Vec<Located<Requirement>>,
    /// The factor of `--scale`, set once the plan's sizes, times and counts are scaled.
    pub scale: Option<Scale>,
    /// Sizes of ops, in bytes, that were dropped because they exceed the scaled files.
    pub large_ops: Vec<u64>,
}

/// The factor by which a plan is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// In millionths, so that all arithmetic uses integers.
    millionths: u64,
}

impl Scale {
    /// One in millionths.
    const ONE: u64 = 1_000_000;

    /// Maximum number of runs of a matrix that is never thinned.
    const RUNS_WHOLE: usize = 100;

    pub(crate) fn from_millionths(millionths: u64) -> Self {
        Self { millionths }
    }

    /// Scales a number.
    pub(crate) fn apply(self, number: u64) -> u64 {
        (u128::from(number) * u128::from(self.millionths) / u128::from(Self::ONE)) as u64
    }

    /// Returns how many runs of a matrix to keep, apart from those needed to cover each pair of
    /// levels: all runs of a small matrix or at a scale of 1 and above, otherwise the scaled share.
    pub(crate) fn runs_kept(self, runs: usize) -> usize {
        let share = self.apply(runs as u64) as usize;
        share.max(Self::RUNS_WHOLE).min(runs)
    }
}

/// Settings of the in-memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawServer {
    /// Its memory, in bytes.
    pub memory_bytes: Option<Located<u64>>,
    pub threads: Option<Located<u32>>,
    /// Whether to discard written data.
    pub discard: Option<Located<bool>>,
    /// Whether to enforce mode bits and owners.
    pub permissions: Option<Located<bool>>,
    /// Whether to grant read delegations to clients of v4.1 and later.
    pub delegations: Option<Located<bool>>,
    /// Versions of NFS that it offers.
    pub versions: Option<Vec<NfsVersion>>,
    /// Its data servers.
    pub cluster: Option<ClusterPlan>,
    /// The faults that it plans.
    pub faults: RawFaults,
}

/// Planned faults as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawFaults {
    /// Seed of random choices.
    pub seed: Option<u64>,
    pub planned: Vec<PlannedFault>,
}

/// A target and its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget {
    /// Name of the target in tables.
    pub name: Located<String>,
    /// The target itself.
    pub what: TargetArg,
    /// The hosts from which it is used.
    pub used_from: UsedFrom,
    /// How to execute ops; empty if flags request only backends that don't fit.
    pub backends: Vec<BackendKind>,
}

/// What makes a workload one of several loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLoad {
    pub name: Located<String>,
    /// Names of hosts of the target; `None` means all.
    pub hosts: Option<Vec<Located<String>>>,
    /// When it starts within the window in which the loads run together.
    pub start_ms: Option<Located<u64>>,
    /// When it ends there, if not by its duration.
    pub end_ms: Option<Located<u64>>,
}

/// A workload with its own settings and restrictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawWorkload {
    pub kind: Located<Workload>,
    /// Names of targets; `None` means all.
    pub targets: Option<Vec<Located<String>>>,
    /// Backends; `None` means all those of the targets.
    pub backends: Option<Vec<Located<BackendKind>>>,
    /// Settings that take precedence over the plan's factors.
    pub settings: Settings,
    /// The command to run, for external tools.
    pub command: Command,
    /// Shares of a custom mix; otherwise the default one.
    pub mix: OpMix,
    /// The file with the shares of the mix, until it is read: see [`RawPlan::read_mixes`].
    pub mix_from: Option<Located<String>>,
    /// The file with the counters taken before those of `mix_from`.
    pub mix_since: Option<Located<String>>,
    /// Set for all workloads of a plan that runs them alone and together, or for none.
    pub load: Option<RawLoad>,
}

impl RawTarget {
    /// Creates a target with its usual name and backend.
    pub fn with_defaults(what: TargetArg) -> Self {
        let name = Located::unwritten(what.row().usual_name.to_owned());
        let backends = what.backends()[..1].to_vec();
        Self { name, what, used_from: UsedFrom::One, backends }
    }
}

impl RawWorkload {
    /// Creates a workload with its defaults on every target.
    pub fn with_defaults(kind: Workload, place: PlanPosition) -> Self {
        Self {
            kind: Located { value: kind, place },
            targets: None,
            backends: None,
            settings: Settings::default(),
            command: Command::default(),
            mix: OpMix::default(),
            mix_from: None,
            mix_since: None,
            load: None,
        }
    }
}

impl RawPlan {
    /// Returns each pair of a target and a backend for a workload.
    pub(crate) fn places(&self, workload: &RawWorkload) -> Vec<(&RawTarget, BackendKind)> {
        let mut places = Vec::new();
        let names: Option<HashSet<&str>> = workload
            .targets
            .as_ref()
            .map(|names| names.iter().map(|name| name.value.as_str()).collect());
        for target in &self.targets {
            // An omitted list means all.
            if names.as_ref().is_some_and(|names| !names.contains(target.name.value.as_str())) {
                continue;
            }
            places.extend(target.backends.iter().filter_map(|backend| {
                (is_named(*backend, workload.backends.as_deref())).then_some((target, *backend))
            }));
        }
        places
    }

    /// Replaces all targets by one, on which every workload runs.
    pub fn replace_targets(&mut self, what: TargetArg) {
        self.targets = vec![RawTarget::with_defaults(what)];
        for workload in &mut self.workloads {
            workload.targets = None;
            workload.backends = None;
        }
    }

    /// Replaces all targets by these, on each of which every workload runs. Those without an
    /// address are the plan's own targets of that name.
    pub fn choose_targets(&mut self, chosen: Vec<(String, Option<TargetArg>)>) {
        let mut targets = Vec::with_capacity(chosen.len());
        let are_own = chosen.iter().all(|(_, what)| what.is_none());
        for (name, what) in chosen {
            match what {
                Some(what) => {
                    let name = Located::unwritten(name);
                    targets.push(RawTarget { name, ..RawTarget::with_defaults(what) });
                }
                None => {
                    targets.extend(self.targets.iter().find(|it| it.name.value == name).cloned());
                }
            }
        }
        self.targets = targets;
        for workload in &mut self.workloads {
            workload.targets = None;
            if !are_own {
                workload.backends = None;
            }
        }
    }

    /// Creates a plan of every workload with its defaults on one target: the starting point for a
    /// command line without a plan.
    pub fn for_target(what: TargetArg) -> Self {
        let kinds = [Workload::Stream, Workload::Mixed, Workload::Metadata];
        Self {
            source_name: "command line".to_owned(),
            name: "run".to_owned(),
            repetition: RawRepetition::default(),
            seed: None,
            server: RawServer::default(),
            hosts: Vec::new(),
            labels: BTreeMap::new(),
            targets: vec![RawTarget::with_defaults(what)],
            factors: Settings::default(),
            workloads: kinds
                .map(|kind| RawWorkload::with_defaults(kind, PlanPosition::Whole))
                .to_vec(),
            disturbances: Vec::new(),
            conclusions: Vec::new(),
            requirements: Vec::new(),
            fair: None,
            quiet_ms: None,
            scale: None,
            large_ops: Vec::new(),
        }
    }
}

/// Returns true if a list contains a backend; an omitted list contains all.
fn is_named(one: BackendKind, list: Option<&[Located<BackendKind>]>) -> bool {
    let Some(list) = list else { return true };
    list.iter().any(|named| named.value == one)
}
