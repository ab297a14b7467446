//! A load point and the rules that it satisfies or violates.
//!
//! The rules for a [`LoadPoint`] are evaluated from counts, never from the request. If too little
//! was completed, the other rules are irrelevant.

use std::fmt;

use model::question::ResponseBound;
use model::{CaveatCode, Histogram, OpKind, PassResult, Run};

use super::{CLIENT_SHARE_MIN, FAILED_SHARE_MAX, MIX_OPS_MIN, MIX_POINTS_MAX, SUSTAINED_SHARE_MIN};
use crate::judge::Judged;

/// Caveats of a client without enough CPU time, whose results don't describe the server.
const CLIENT_LIMITED: [CaveatCode; 2] =
    [CaveatCode::ClientSaturated, CaveatCode::ProcessorContention];

/// Result of one offered load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPoint {
    /// Requested load in ops per second.
    pub requested_per_s: u64,
    /// Ops scheduled per second, which never exactly match the request with random arrivals.
    pub offered_per_s: f64,
    /// Ops completed per second.
    pub achieved_per_s: f64,
    /// Mean response time from schedule to completion, in nanoseconds.
    pub mean_ns: u64,
    pub response_time: Histogram,
    /// The rules that it violates.
    pub broken: Vec<RuleViolation>,
    /// The client had no CPU time left, which may be why the load was not sustained.
    pub client_saturated: bool,
    /// Why there is no result, if there is none.
    pub missing: Option<String>,
}

/// How a load point can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointStatus {
    /// The offered load was completed according to the rules.
    Sustained,
    /// Less was completed than offered.
    Short,
    /// A rule is violated.
    Invalid,
    /// There is no result.
    Missing,
}

impl PointStatus {
    /// Returns a name of one or two words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::Short => "not sustained",
            Self::Invalid => "invalid",
            Self::Missing => "no figure",
        }
    }
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleViolation {
    /// The share of a kind of op differs from the request.
    Mix {
        kind: OpKind,
        /// Requested share in percent.
        requested_percent: f64,
        /// Actual share in percent.
        done_percent: f64,
    },
    /// Too many ops failed; contains their share relative to the successful ones.
    Failed(f64),
    /// The slowest client completed too little; contains the completed share of its part.
    Client(f64),
}

impl RuleViolation {
    /// Returns the rule in one or two words.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Mix { .. } => "mix",
            Self::Failed(_) => "errors",
            Self::Client(_) => "a slow client",
        }
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix { kind, requested_percent, done_percent } => write!(
                f,
                "{kind} is {done_percent:.1} % of the mix instead of {requested_percent:.1} %"
            ),
            Self::Failed(share) => write!(f, "{:.2} % of the ops failed", share * 100.0),
            Self::Client(share) => {
                write!(f, "the slowest client did {:.0} % of its share", share * 100.0)
            }
        }
    }
}

impl LoadPoint {
    /// Creates the load point of a run from its only pass. `mix` contains the requested share of
    /// each kind of op in hundredths of a percent.
    pub fn from_run(run: &Run, judged: &Judged, mix: &[(OpKind, u32)]) -> Self {
        let requested_per_s = run.spec.load.rate_per_s;
        let Some(achieved) = judged.ops_per_s.filter(|_| judged.response_time.count() > 0) else {
            return Self::missing(
                requested_per_s,
                judged.reason().unwrap_or("no figure").to_owned(),
            );
        };
        let offered_per_s = judged.offered_per_s.unwrap_or(requested_per_s as f64);
        let results: Vec<&PassResult> = run.trials.iter().flat_map(|trial| &trial.passes).collect();
        let mut broken = Vec::new();
        broken.extend(check_mix(judged, mix));
        broken.extend(check_failed(&results));
        broken.extend(check_slowest(&results, judged, offered_per_s));
        Self {
            requested_per_s,
            offered_per_s,
            achieved_per_s: achieved.median,
            mean_ns: judged.response_time.mean(),
            response_time: judged.response_time.clone(),
            broken,
            client_saturated: judged
                .caveats
                .iter()
                .any(|known| CLIENT_LIMITED.contains(&known.code)),
            missing: None,
        }
    }

    /// Creates a load point without a result.
    pub fn missing(requested_per_s: u64, why: String) -> Self {
        Self {
            requested_per_s,
            offered_per_s: 0.0,
            achieved_per_s: 0.0,
            mean_ns: 0,
            response_time: Histogram::sparse(),
            broken: Vec::new(),
            client_saturated: false,
            missing: Some(why),
        }
    }

    #[cfg(test)]
    pub(super) fn with_figure(self) -> Self {
        Self { missing: None, ..self }
    }

    /// Returns the response time to which a bound applies, in nanoseconds.
    pub fn time_ns(&self, bound: &ResponseBound) -> u64 {
        match bound.quantile_permille {
            Some(permille) => self.response_time.quantile(f64::from(permille) / 1_000.0),
            None => self.mean_ns,
        }
    }

    /// Returns true if the load is sustained with response times within a bound.
    pub fn meets_bound(&self, bound: &ResponseBound) -> bool {
        self.status() == PointStatus::Sustained && self.time_ns(bound) <= bound.most_ns
    }

    /// Returns the completed share of the scheduled ops.
    pub fn share(&self) -> f64 {
        if self.offered_per_s > 0.0 { self.achieved_per_s / self.offered_per_s } else { 0.0 }
    }

    /// Returns how the point can be used. If too little was completed, violated rules are
    /// irrelevant.
    pub fn status(&self) -> PointStatus {
        match self {
            Self { missing: Some(_), .. } => PointStatus::Missing,
            point if point.share() < SUSTAINED_SHARE_MIN => PointStatus::Short,
            point if !point.broken.is_empty() => PointStatus::Invalid,
            _ => PointStatus::Sustained,
        }
    }
}

/// Returns the kind of op whose share deviates most from the request, if it is over the limit.
/// Returns `None` for a mix of one kind or with few ops.
fn check_mix(judged: &Judged, mix: &[(OpKind, u32)]) -> Option<RuleViolation> {
    if judged.kinds.is_empty() || judged.response_time.count() < MIX_OPS_MIN {
        return None;
    }
    let mut worst = None;
    let mut farthest = MIX_POINTS_MAX;
    for &(kind, requested) in mix {
        let requested_percent = f64::from(requested) / 100.0;
        let mut done_percent = 0.0;
        for share in &judged.kinds {
            if share.kind == kind {
                done_percent = share.percent;
            }
        }
        let distance = (done_percent - requested_percent).abs();
        if distance > MIX_POINTS_MAX && distance >= farthest {
            farthest = distance;
            worst = Some(RuleViolation::Mix { kind, requested_percent, done_percent });
        }
    }
    worst
}

fn check_failed(results: &[&PassResult]) -> Option<RuleViolation> {
    let mut failed = 0;
    let mut done = 0;
    for result in results {
        failed += result.errors();
        done += result.ops();
    }
    let share = failed as f64 / done.max(1) as f64;
    if share >= FAILED_SHARE_MAX { Some(RuleViolation::Failed(share)) } else { None }
}

/// Returns the slowest emulated client, or else the slowest host, if it completed too little.
fn check_slowest(
    results: &[&PassResult],
    judged: &Judged,
    offered_per_s: f64,
) -> Option<RuleViolation> {
    let share = match &judged.clients {
        Some(fairness) => {
            fairness.slowest.ops_per_s * fairness.clients as f64 / offered_per_s.max(1e-9)
        }
        None => slowest_host(results, offered_per_s)?,
    };
    if share < CLIENT_SHARE_MIN { Some(RuleViolation::Client(share)) } else { None }
}

/// Returns the lowest completed share of any host's part, or `None` if no pass had hosts.
///
/// The load is divided by workers, so a host's part is proportional to its number of workers.
fn slowest_host(results: &[&PassResult], offered_per_s: f64) -> Option<f64> {
    let mut slowest: Option<f64> = None;
    for result in results {
        let scheduled = offered_per_s * result.window_ns as f64 / 1e9;
        let mut workers = 0;
        for host in &result.hosts {
            workers += host.workers;
        }
        for host in &result.hosts {
            let part = scheduled * f64::from(host.workers) / f64::from(workers.max(1));
            let share = host.ops as f64 / part.max(1e-9);
            slowest = Some(slowest.map_or(share, |least| least.min(share)));
        }
    }
    slowest
}

#[cfg(test)]
mod tests {
    use model::{
        ClientResult, KindResult, Load, OfferedLoad, OpError, Pass, Scope, Trial, TrialState,
        Workload,
    };

    use super::*;
    use crate::judge;
    use model::testing::RunBuilder;

    /// Returns one second of reads and writes with the given number of offered ops.
    fn run(reads: u64, writes: u64, offered: u64) -> Run {
        let kind = |kind, done| {
            let mut time = Histogram::new();
            time.record_n(2_000_000, done);
            KindResult {
                kind,
                issued: done,
                done,
                bytes: 0,
                errors: Vec::new(),
                service_time: time.clone(),
                response_time: time,
            }
        };
        let scheduled = OfferedLoad {
            rate_per_s: offered,
            scheduled_ops: offered,
            span_ns: 1_000_000_000,
            ..OfferedLoad::default()
        };
        let pass = PassResult {
            window_ns: 1_000_000_000,
            kinds: vec![kind(OpKind::Read, reads), kind(OpKind::Write, writes)],
            scope: Scope { offered: Some(scheduled), ..Scope::default() },
            ..PassResult::new(Pass::Mix)
        };
        let trial = Trial {
            index: 0,
            position: 0,
            started_unix_ms: 0,
            state: TrialState::Done,
            passes: vec![pass],
            facts: Vec::new(),
        };
        let load = Load { rate_per_s: offered, ..Load::default() };
        let spec = RunBuilder::new(Workload::Mixed).load(load).build();
        Run { index: 0, spec, trials: vec![trial] }
    }

    const MIX: [(OpKind, u32); 2] = [(OpKind::Read, 7_000), (OpKind::Write, 3_000)];

    fn point(run: &Run) -> LoadPoint {
        LoadPoint::from_run(run, &judge::pass(run, Pass::Mix), &MIX)
    }

    #[test]
    fn sustains_load_from_95_percent() {
        let sustained = point(&run(13_300, 5_700, 20_000));
        assert_eq!((sustained.status(), sustained.mean_ns), (PointStatus::Sustained, 2_000_000));
        assert_eq!(point(&run(13_299, 5_700, 20_000)).status(), PointStatus::Short);
    }

    #[test]
    fn tolerates_mix_within_1_5_points() {
        assert_eq!(point(&run(14_299, 5_701, 20_000)).broken, []);
        let off = point(&run(14_320, 5_680, 20_000));
        assert_eq!(off.status(), PointStatus::Invalid);
        assert!(matches!(off.broken[..], [RuleViolation::Mix { .. }]), "{off:?}");
        // With few ops, chance alone may cause that.
        assert_eq!(point(&run(750, 250, 1_000)).broken, []);
    }

    #[test]
    fn breaks_rules_by_errors_and_starvation() {
        let mut failing = run(14_000, 6_000, 20_000);
        failing.trials[0].passes[0].kinds[0].errors = vec![(OpError(5), 200)];
        assert_eq!(point(&failing).broken, [RuleViolation::Failed(0.01)]);
        failing.trials[0].passes[0].kinds[0].errors = vec![(OpError(5), 199)];
        assert_eq!(point(&failing).broken, []);
        let mut uneven = run(14_000, 6_000, 20_000);
        let client = |client, ops| ClientResult { client, ops, ..ClientResult::default() };
        uneven.trials[0].passes[0].clients = vec![client(0, 12_600), client(1, 7_400)];
        assert_eq!(point(&uneven).broken, [RuleViolation::Client(0.74)]);
    }

    #[test]
    fn explains_failed_load_point() {
        let mut failed = run(1, 1, 10);
        failed.trials[0].passes.clear();
        failed.trials[0].state = TrialState::Failed("no answer".to_owned());
        let point = point(&failed);
        assert_eq!(
            (point.status(), point.missing),
            (PointStatus::Missing, Some("no answer".into()))
        );
    }
}
