//! A plan with nothing left open, and its runs.
//!
//! Two plans that were made with the same arguments are equal. Once an in-memory server listens,
//! the runs on it get its port.

use std::collections::BTreeMap;
use std::path::Path;

use model::contender::Fairness;
use model::soak::Disturbance;
use model::{Conclusion, InterferenceRule, Order, Repetition, RunSpec, Target};

use crate::resolve::server::ServerPlan;
use crate::syntax::error::PlanError;
use crate::syntax::limits;

/// A plan with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the campaign.
    pub name: String,
    /// How often each run is repeated, trials that warm up not counted; at most so often where
    /// `until` is set.
    pub trials: u32,
    /// How each run is repeated; the runs hold the same.
    pub repetition: Repetition,
    /// After how long, in milliseconds, no run is given more than the trials that it needs
    /// ([`Plan::trials_needed`]); 0 where time is no bound.
    pub budget_ms: u64,
    /// In which order trials are made.
    pub order: Order,
    /// The rule for contenders that differ in more than the system.
    pub fair: Fairness,
    /// How long a trial waits at most until its hosts are quiet, in milliseconds.
    pub quiet_ms: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// The in-memory server.
    pub server: ServerPlan,
    /// The points of the matrix, none twice, in the order of tables.
    pub runs: Vec<RunSpec>,
    /// A warning for each setting that was written and that no run depends on; those of flags are
    /// errors.
    pub without_effect: Vec<PlanError>,
    /// Runs of the matrix that a scaled plan leaves out; each pair of levels is in those it has.
    pub thinned: usize,
    /// Sizes of ops, in bytes, that a scaled plan leaves out: its files are smaller.
    pub large_ops: Vec<u64>,
    /// Disturbances of hosts meanwhile, where the campaign is a soak.
    pub disturbances: Vec<Disturbance>,
    /// The sentences that the report judges.
    pub conclusions: Vec<Conclusion>,
    /// Labels of this very host, where the plan names no host.
    pub labels: BTreeMap<String, String>,
}

impl Plan {
    /// Returns the trials that each run is given however long they take: those that warm up, and
    /// as many more as an interval needs.
    pub fn trials_needed(&self) -> u32 {
        self.repetition.warmup_trials + self.trials.min(limits::UNTIL_TRIALS_MIN)
    }

    /// Returns the most trials that each run is given in place of disturbed ones: half of those
    /// that are planned, since none is set aside if most are disturbed. None where `trials` is a
    /// limit already.
    pub fn repeats_max(&self) -> u32 {
        let repeats = self.repetition.interference == InterferenceRule::Repeat
            && self.repetition.until_permille == 0
            && self.runs.iter().all(|run| run.soak.is_none());
        if repeats { self.trials.div_ceil(2) } else { 0 }
    }

    /// Sets in every run on the in-memory server the port where it now listens, for NFS and MOUNT,
    /// and the certificate to trust where it speaks TLS.
    pub fn set_embedded(&mut self, port: u16, tls_ca: Option<&Path>) {
        self.set_server(false, port, tls_ca);
    }

    /// Sets the same for the in-memory server without faults, in runs that speak NFS or plain TCP
    /// with it.
    pub fn set_faultless(&mut self, port: u16, tls_ca: Option<&Path>) {
        self.set_server(true, port, tls_ca);
    }

    fn set_server(&mut self, faultless: bool, port: u16, tls_ca: Option<&Path>) {
        for run in &mut self.runs {
            match &mut run.target {
                Target::Nfs(nfs) if nfs.embedded && nfs.faultless == faultless => {
                    nfs.port = Some(port);
                    nfs.mount_port = Some(port);
                    nfs.tls.ca = tls_ca.map(Path::to_owned);
                }
                Target::Tcp(tcp) if tcp.embedded && faultless => tcp.port = Some(port),
                _ => {}
            }
        }
    }

    /// The runs that need the in-memory server.
    pub fn on_server(&self) -> impl Iterator<Item = &RunSpec> {
        self.runs.iter().filter(|run| match &run.target {
            Target::Nfs(nfs) => nfs.embedded && !nfs.faultless,
            _ => false,
        })
    }

    /// The runs that need the one without faults.
    pub fn on_faultless(&self) -> impl Iterator<Item = &RunSpec> {
        self.runs.iter().filter(|run| match &run.target {
            Target::Nfs(nfs) => nfs.embedded && nfs.faultless,
            Target::Tcp(tcp) => tcp.embedded,
            _ => false,
        })
    }

    /// Names the settings that differ between runs, in the order of [`RunSpec::settings`].
    ///
    /// A setting that some runs don't have differs only if it does among those that have it.
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
