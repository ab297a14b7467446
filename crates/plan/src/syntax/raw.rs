//! The plan as it was written: nothing filled in, every value with its line.
//!
//! [`RawPlan`] stands between the text (`parse`), the flags (`overrides`) and the meaning
//! (`resolve`). Each value alone is within its limits; how values go together is judged later.

use std::collections::{BTreeMap, HashSet};

use model::contender::Fairness;
use model::soak::Disturbance;
use model::{BackendKind, Command, Conclusion, Host, NfsVersion, OpMix, Workload};

use crate::syntax::error::{Located, Place};
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
    /// How long a trial waits at most until its hosts are quiet, in milliseconds.
    pub quiet_ms: Option<Located<u64>>,
    /// The in-memory server.
    pub server: RawServer,
    /// Hosts that take part beside this one.
    pub hosts: Vec<Host>,
    /// Labels of this very host, where no host is named.
    pub labels: BTreeMap<String, String>,
    /// The targets that are measured.
    pub targets: Vec<RawTarget>,
    /// Settings of all workloads.
    pub factors: Settings,
    /// The workloads that the targets get.
    pub workloads: Vec<RawWorkload>,
    /// Disturbances of hosts meanwhile, each with the place of its kind.
    pub disturbances: Vec<Located<Disturbance>>,
    /// The sentences that the report judges.
    pub conclusions: Vec<Conclusion>,
    /// The factor of `--scale`, once its sizes, times and counts are scaled.
    pub scale: Option<Scale>,
    /// Sizes of ops, in bytes, that are larger than the scaled files, and are left out.
    pub large_ops: Vec<u64>,
}

/// The factor by which a plan is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// In millionths, so that all is computed in integers.
    millionths: u64,
}

impl Scale {
    /// One in millionths.
    const ONE: u64 = 1_000_000;

    /// A matrix with so many runs is kept whole.
    const RUNS_WHOLE: usize = 100;

    /// Makes it of a number of millionths.
    pub(crate) fn of_millionths(millionths: u64) -> Self {
        Self { millionths }
    }

    /// Scales a number.
    pub(crate) fn of(self, number: u64) -> u64 {
        (u128::from(number) * u128::from(self.millionths) / u128::from(Self::ONE)) as u64
    }

    /// Returns how many runs of a matrix are made, beside those that each pair of levels needs:
    /// all of a small one or of a larger scale, the scaled share of a large one.
    pub(crate) fn runs_kept(self, runs: usize) -> usize {
        let share = self.of(runs as u64) as usize;
        share.max(Self::RUNS_WHOLE).min(runs)
    }
}

/// Settings of the in-memory server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawServer {
    /// Its memory, in bytes.
    pub memory_bytes: Option<Located<u64>>,
    /// Number of its threads.
    pub threads: Option<Located<u32>>,
    /// Whether written data is thrown away.
    pub discard: Option<Located<bool>>,
    /// Whether mode bits and owners decide what a caller may do.
    pub permissions: Option<Located<bool>>,
    /// Whether clients of v4.1 and later get delegations to read.
    pub delegations: Option<Located<bool>>,
    /// Versions of NFS that it offers.
    pub versions: Option<Vec<NfsVersion>>,
    /// The faults that it plans.
    pub faults: RawFaults,
}

/// Planned faults as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawFaults {
    /// Seed of random choices.
    pub seed: Option<u64>,
    /// The planned faults.
    pub planned: Vec<PlannedFault>,
}

/// A target and the backends it is to be used with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget {
    /// Name of the target in tables.
    pub name: Located<String>,
    /// The target itself.
    pub what: TargetArg,
    /// From which hosts.
    pub used_from: UsedFrom,
    /// How ops are executed; empty where flags ask for backends that don't fit.
    pub backends: Vec<BackendKind>,
}

/// A workload, its own settings, and what it is restricted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawWorkload {
    /// The kind of its work.
    pub kind: Located<Workload>,
    /// Names of targets; `None` is all.
    pub targets: Option<Vec<Located<String>>>,
    /// Backends; `None` is all that the targets name.
    pub backends: Option<Vec<Located<BackendKind>>>,
    /// Settings that win over the plan's factors.
    pub settings: Settings,
    /// The command that is run, for external tools.
    pub command: Command,
    /// Shares of a mix of the user's own; otherwise its default.
    pub mix: OpMix,
    /// The file that the shares of the mix come from, until it is read: see
    /// [`RawPlan::read_mixes`].
    pub mix_from: Option<Located<String>>,
    /// The file with the counters from before it.
    pub mix_since: Option<Located<String>>,
}

impl RawTarget {
    /// Takes a target with its usual name and backend.
    pub fn usual(what: TargetArg) -> Self {
        let name = Located::unwritten(what.row().usual_name.to_owned());
        let backends = what.backends()[..1].to_vec();
        Self { name, what, used_from: UsedFrom::One, backends }
    }
}

impl RawWorkload {
    /// Takes a workload as it is by default, on every target.
    pub fn usual(kind: Workload, place: Place) -> Self {
        Self {
            kind: Located { value: kind, place },
            targets: None,
            backends: None,
            settings: Settings::default(),
            command: Command::default(),
            mix: OpMix::default(),
            mix_from: None,
            mix_since: None,
        }
    }
}

impl RawPlan {
    /// Pairs each target of a workload with each backend.
    pub(crate) fn places(&self, workload: &RawWorkload) -> Vec<(&RawTarget, BackendKind)> {
        let mut places = Vec::new();
        let names: Option<HashSet<&str>> = workload
            .targets
            .as_ref()
            .map(|names| names.iter().map(|name| name.value.as_str()).collect());
        for target in &self.targets {
            // A list that is left out names all.
            if names.as_ref().is_some_and(|names| !names.contains(target.name.value.as_str())) {
                continue;
            }
            for backend in &target.backends {
                if is_named(*backend, workload.backends.as_deref()) {
                    places.push((target, *backend));
                }
            }
        }
        places
    }

    /// Plans every workload, as it is by default, on one target: what the command line starts
    /// from where no plan is named.
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
            targets: vec![RawTarget::usual(what)],
            factors: Settings::default(),
            workloads: kinds.map(|kind| RawWorkload::usual(kind, Place::Whole)).to_vec(),
            disturbances: Vec::new(),
            conclusions: Vec::new(),
            fair: None,
            quiet_ms: None,
            scale: None,
            large_ops: Vec::new(),
        }
    }
}

/// Says whether a list names a backend; a list that is left out names all.
fn is_named(one: BackendKind, list: Option<&[Located<BackendKind>]>) -> bool {
    let Some(list) = list else { return true };
    list.iter().any(|named| named.value == one)
}
