//! A complete plan and its runs.
//!
//! Two plans made with the same arguments are equal. Once an in-memory server listens, its port is
//! entered in the runs that use it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::contender::Fairness;
use model::soak::Disturbance;
use model::{Conclusion, InterferenceRule, Order, Repetition, Requirement, RunSpec, Target};

use crate::resolve::server::ServerPlan;
use crate::syntax::cluster::ClusterPlan;
use crate::syntax::error::PlanError;
use crate::syntax::limits;

/// A plan with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the campaign.
    pub name: String,
    /// Number of trials of each run, not counting warm-up trials; the maximum if `until` is set.
    pub trials: u32,
    /// How each run is repeated; the runs contain the same value.
    pub repetition: Repetition,
    /// Time in milliseconds after which runs only get the trials that they need
    /// ([`Plan::trials_needed`]); 0 means no limit.
    pub budget_ms: u64,
    /// Order of the trials.
    pub order: Order,
    /// The rule for contenders that differ in more than the system.
    pub fair: Fairness,
    /// Maximum time to wait for idle hosts before a trial, in milliseconds.
    pub quiet_ms: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// The in-memory server.
    pub server: ServerPlan,
    /// The points of the matrix without duplicates, in the order of tables.
    pub runs: Vec<RunSpec>,
    /// A warning for each setting that was written and has no effect on any run; for flags, these
    /// are errors.
    pub without_effect: Vec<PlanError>,
    /// Number of runs that a scaled plan leaves out; the remaining ones still contain every pair of
    /// levels.
    pub thinned: usize,
    /// Sizes of ops, in bytes, that a scaled plan drops because its files are smaller.
    pub large_ops: Vec<u64>,
    /// Disturbances of hosts, if the campaign is a soak.
    pub disturbances: Vec<Disturbance>,
    /// The conclusions that the report tests.
    pub conclusions: Vec<Conclusion>,
    /// The limits that results must keep.
    pub requirements: Vec<Requirement>,
    /// Labels of the local host, if the plan names no host.
    pub labels: BTreeMap<String, String>,
}

impl Plan {
    /// Returns the number of trials that each run gets however long they take: the warm-up trials,
    /// and the minimum for an interval.
    pub fn trials_needed(&self) -> u32 {
        self.repetition.warmup_trials + self.trials.min(limits::UNTIL_TRIALS_MIN)
    }

    /// Returns the maximum number of trials that replace disturbed ones of a run: half of the
    /// planned trials, since none is set aside if most are disturbed. Zero if `trials` is a limit
    /// already.
    pub fn repeats_max(&self) -> u32 {
        let repeats = self.repetition.interference == InterferenceRule::Repeat
            && self.repetition.until_permille == 0
            && self.runs.iter().all(|run| run.soak.is_none());
        if repeats { self.trials.div_ceil(2) } else { 0 }
    }

    /// Returns the in-memory server that a run uses: with its levels of the cluster's factors, and
    /// without faults if it needs that; `None` if it uses another server or is impossible.
    pub fn server_of(&self, run: &RunSpec) -> Option<ServerPlan> {
        if run.impossible().is_some() {
            return None;
        }
        let (is_faultless, cluster) = match &run.target {
            Target::Nfs(nfs) if nfs.embedded => {
                let base = self.server.cluster.as_ref();
                (nfs.faultless, ClusterPlan::at_levels(base, &nfs.settings))
            }
            Target::Tcp(tcp) if tcp.embedded => (true, None),
            _ => return None,
        };
        let faults = if is_faultless { Vec::new() } else { self.server.faults.clone() };
        Some(ServerPlan { cluster, faults, ..self.server.clone() })
    }

    /// Enters the port of the in-memory server in every run that uses one, for NFS and MOUNT, and
    /// the certificate to trust if it uses TLS. `find` returns those of a server.
    pub fn set_embedded(&mut self, find: impl Fn(&ServerPlan) -> (u16, Option<PathBuf>)) {
        for number in 0..self.runs.len() {
            let Some(server) = self.server_of(&self.runs[number]) else { continue };
            let (port, tls_ca) = find(&server);
            match &mut self.runs[number].target {
                Target::Nfs(nfs) => {
                    nfs.port = Some(port);
                    nfs.mount_port = Some(port);
                    nfs.tls.ca = tls_ca;
                }
                Target::Tcp(tcp) => tcp.port = Some(port),
                _ => {}
            }
        }
    }

    /// Returns the settings that differ between runs, in the order of [`RunSpec::settings`].
    ///
    /// If some runs don't have a setting, only the others are compared.
    pub fn varying(&self) -> Vec<&'static str> {
        let mut seen: Vec<(&'static str, String, bool)> = Vec::new();
        for run in &self.runs {
            for (name, value) in run.settings() {
                match seen.iter_mut().find(|(known, ..)| *known == name) {
                    Some((_, first, varies)) => *varies |= *first != value,
                    None => seen.push((name, value, false)),
                }
            }
        }
        seen.retain(|(.., varies)| *varies);
        seen.into_iter().map(|(name, ..)| name).collect()
    }
}
