//! The pace of a plan's runs, from a probe or from an earlier campaign on the same targets.
//!
//! [`probe_plan`] makes small trials of the plan's own runs, the way the campaign would, and
//! discards their results (`--probe`). Runs that do the same share a probe. [`from_campaign`] uses
//! the trials of a campaign (`--assume-pace`). There, a trial lasts until the next one begins, so
//! that its time includes the setup of hosts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use model::units::Nanos;
use model::{Campaign, RunSpec, Trial, TrialState};
use plan::{Pace, Plan, ProbeTrial, TimedRates, can_be_reduced, reduced, work_of};

use crate::{CampaignRunner, ControllerError};

/// Time for the probes of all runs together.
const ALL_NS: u64 = 10_000_000_000;

/// Maximum number of kinds of run to probe; the others use the probe of the most similar run.
const PROBES_MAX: usize = 10;

/// Work of the first trial of a probe: 1 MiB, or a few hundred files.
const FIRST_WORK: u64 = 1 << 20;

/// A trial that takes this long is sufficient.
const ENOUGH_NS: u64 = 1_000_000_000;

/// Minimum and maximum growth of the work from one trial of a probe to the next.
const GROWTH: (u64, u64) = (2, 64);

/// The result of a probe, or of looking at an earlier campaign.
pub struct ProbeResult {
    /// The pace of each run of the plan, if known.
    pub paces: Vec<Option<Pace>>,
    /// Measured values of each kind of run, one line each.
    pub lines: Vec<String>,
    /// Their source, such as `probed for 9 s`.
    pub basis: String,
}

/// Probes of the runs of a plan.
pub struct PlanProbe {
    /// The pace of each run of the plan, if known.
    pub paces: Vec<Option<Pace>>,
    /// One probe per kind of run.
    pub probes: Vec<RunProbe>,
    pub took_ns: u64,
}

pub struct RunProbe {
    /// Index of the run in the plan.
    pub run: usize,
    trials: Vec<ProbeTrial>,
    /// The last trial, which may have failed.
    pub last: Trial,
}

impl RunProbe {
    /// Returns the pace from the trials made so far.
    pub fn pace(&self) -> Option<Pace> {
        Pace::from_trials(&self.trials)
    }
}

/// Probes each kind of run of the plan, for about ten seconds. `now_ns` is the clock of this host.
///
/// # Errors
/// If no target can be used or the agent is gone.
pub fn probe_plan(
    runner: &mut CampaignRunner<'_>,
    now_ns: &dyn Fn() -> u64,
) -> Result<PlanProbe, ControllerError> {
    runner.preflight()?;
    let begun_ns = now_ns();
    let plan = runner.plan;
    let kinds = kinds_of(&plan.runs);
    let mut probes = Vec::with_capacity(kinds.len());
    for (number, run) in kinds.iter().enumerate() {
        // Time that one probe does not use is available to the next ones.
        let left_ns = ALL_NS.saturating_sub(now_ns() - begun_ns) / (kinds.len() - number) as u64;
        probes.push(probe_run(runner, *run, left_ns, now_ns)?);
    }
    let mut paces = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        let mut pace = None;
        let mut likeness_max = 0;
        for probe in &probes {
            let alike = count_common_settings(run, &plan.runs[probe.run]);
            if can_be_reduced(run) && alike > likeness_max {
                pace = probe.pace();
                likeness_max = alike;
            }
        }
        paces.push(pace);
    }
    Ok(PlanProbe { paces, probes, took_ns: now_ns() - begun_ns })
}

/// Makes trials of a run with growing work until one takes long enough.
fn probe_run(
    runner: &mut CampaignRunner<'_>,
    number: usize,
    time_ns: u64,
    now_ns: &dyn Fn() -> u64,
) -> Result<RunProbe, ControllerError> {
    let begun_ns = now_ns();
    let plan = runner.plan;
    let run = &plan.runs[number];
    let whole = work_of(run);
    let mut work = FIRST_WORK;
    let mut trials = Vec::new();
    loop {
        let small = reduced(run, work);
        let started_ns = now_ns();
        let last = runner.run_once(&small)?;
        let trial_ns = now_ns() - started_ns;
        if last.state != TrialState::Done {
            return Ok(RunProbe { run: number, trials, last });
        }
        let found = measured(&small, &last, trial_ns);
        let ProbeTrial { work: done, took_ns, .. } = found;
        trials.push(found);
        let left_ns = time_ns.saturating_sub(now_ns() - begun_ns);
        // The next trial should use part of the remaining time, but have at least twice the work;
        // otherwise it would add little information.
        let growth = (left_ns / 3 / took_ns.max(1)).min(GROWTH.1);
        let is_enough = done >= whole || took_ns >= ENOUGH_NS;
        if is_enough || growth < GROWTH.0 || runner.stop.load(Relaxed) {
            return Ok(RunProbe { run: number, trials, last });
        }
        work = done.max(work).saturating_mul(growth);
    }
}

/// Takes the pace of each run from the most similar run of an earlier campaign. A trial lasts until
/// the next one begins, including the setup of hosts in between.
///
/// # Errors
/// If the campaign has fewer than two trials, or none of a run similar to one of the plan.
pub fn from_campaign(plan: &Plan, earlier: &Campaign) -> Result<ProbeResult, ControllerError> {
    let took_ns = trial_times(earlier);
    let mut found: Vec<(&RunSpec, Pace)> = Vec::new();
    for run in &earlier.runs {
        let mut trials = Vec::new();
        for trial in &run.trials {
            if let Some(took_ns) = took_ns.get(&trial.position) {
                trials.push(measured(&run.spec, trial, *took_ns));
            }
        }
        if let Some(pace) = Pace::from_trials(&mean(&trials)) {
            found.push((&run.spec, pace));
        }
    }
    let mut paces = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        let mut pace = None;
        let mut likeness_max = 0;
        for (other, known) in &found {
            let alike = likeness_of_hosts(run, other);
            if run.impossible().is_none() && alike > likeness_max {
                pace = Some(*known);
                likeness_max = alike;
            }
        }
        paces.push(pace);
    }
    if paces.iter().all(Option::is_none) {
        return Err(ControllerError::Request(format!(
            "--assume-pace: campaign {} has fewer than two trials on targets of this plan (hint: \
             use a campaign of the same plan, such as one measured with --scale 0.01 --trials 1)",
            earlier.id
        )));
    }
    let all_ns: u64 = took_ns.values().sum();
    let basis = format!(
        "based on campaign {}: {} trials took {}",
        earlier.id,
        took_ns.len(),
        Nanos(all_ns)
    );
    Ok(ProbeResult { paces, lines: Vec::new(), basis })
}

/// Selects runs that differ: first in target, backend and workload, then in any setting that
/// counts.
fn kinds_of(runs: &[RunSpec]) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::new();
    for least in [likeness_of_kind(), likeness_of_kind() + MINOR] {
        for (number, run) in runs.iter().enumerate() {
            if kinds.len() >= PROBES_MAX || !can_be_reduced(run) {
                continue;
            }
            if !kinds.iter().any(|kind| count_common_settings(run, &runs[*kind]) >= least) {
                kinds.push(number);
            }
        }
    }
    kinds
}

/// Returns the time from the start of each trial to the start of the next one, in nanoseconds, by
/// position; the last trial has none.
fn trial_times(campaign: &Campaign) -> BTreeMap<u32, u64> {
    let mut begins: Vec<(u64, u32)> = Vec::new();
    for run in &campaign.runs {
        begins.extend(run.trials.iter().map(|trial| (trial.started_unix_ms, trial.position)));
    }
    begins.sort_unstable();
    let mut times = BTreeMap::new();
    for pair in begins.windows(2) {
        let took_ms = pair[1].0 - pair[0].0;
        times.insert(pair[0].1, took_ms.saturating_mul(1_000_000));
    }
    times
}

/// Returns the mean of several trials as one trial.
fn mean(trials: &[ProbeTrial]) -> Vec<ProbeTrial> {
    let Some(first) = trials.first() else { return Vec::new() };
    let count = trials.len() as u64;
    let mut sum = ProbeTrial { took_ns: 0, passes_ns: 0, timed: TimedRates::default(), ..*first };
    for trial in trials {
        sum.took_ns += trial.took_ns;
        sum.passes_ns += trial.passes_ns;
        sum.timed.ops_per_s += trial.timed.ops_per_s;
        sum.timed.bytes_per_s += trial.timed.bytes_per_s;
    }
    sum.took_ns /= count;
    sum.passes_ns /= count;
    sum.timed.ops_per_s /= count;
    sum.timed.bytes_per_s /= count;
    vec![sum]
}

/// Returns the work of a trial and its duration without passes that have a time limit.
fn measured(run: &RunSpec, trial: &Trial, all_ns: u64) -> ProbeTrial {
    let mut timed_ns = 0;
    let mut timed_ops = 0;
    let mut timed_bytes = 0;
    let mut passes_ns = 0;
    for pass in &trial.passes {
        if run.time_max_ns(pass.pass).is_some() {
            timed_ns += pass.window_ns;
            timed_ops += pass.ops();
            timed_bytes += pass.bytes();
        } else {
            passes_ns += pass.window_ns;
        }
    }
    let timed = TimedRates {
        ops_per_s: per_second(timed_ops, timed_ns),
        bytes_per_s: per_second(timed_bytes, timed_ns),
    };
    let took_ns = all_ns.saturating_sub(timed_ns);
    ProbeTrial { work: work_of(run), took_ns, passes_ns, timed }
}

/// Divides by a time, which may be 0.
fn per_second(amount: u64, time_ns: u64) -> u64 {
    match u128::from(amount) * 1_000_000_000 {
        product if time_ns > 0 => (product / u128::from(time_ns)) as u64,
        _ => 0,
    }
}

/// Number of settings, apart from target, backend and workload, that distinguish runs.
const MINOR: u32 = 6;

/// The similarity of two runs of one kind, whatever else differs.
const fn likeness_of_kind() -> u32 {
    3 * (MINOR + 1)
}

/// Counts what two runs have in common; target, workload and backend weigh more than all other
/// settings. Returns 0 if target or workload differ, since the pace of one run then means nothing
/// for the other.
fn count_common_settings(one: &RunSpec, other: &RunSpec) -> u32 {
    if one.target_name != other.target_name || one.workload != other.workload {
        return 0;
    }
    2 * (MINOR + 1) + settings_alike(one, other)
}

/// Like [`count_common_settings`], but also accepts a different target on hosts that are set up,
/// with a lower weight: the steps around its trials are similar.
fn likeness_of_hosts(one: &RunSpec, other: &RunSpec) -> u32 {
    match count_common_settings(one, other) {
        0 if one.workload != other.workload || one.lab.is_none() || other.lab.is_none() => 0,
        0 => settings_alike(one, other).max(1),
        alike => alike,
    }
}

/// Counts the settings that two runs have in common; the backend weighs more than all others.
fn settings_alike(one: &RunSpec, other: &RunSpec) -> u32 {
    let minor = [
        one.direct == other.direct,
        one.io_size_bytes == other.io_size_bytes,
        one.passes == other.passes,
        one.durability == other.durability,
        one.workers == other.workers && one.queue_depth == other.queue_depth,
        one.nfs() == other.nfs(),
    ];
    let mut alike = 0;
    if one.backend == other.backend {
        alike += MINOR + 1;
    }
    alike + minor.into_iter().map(u32::from).sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use model::{Host, LabSpec, Workload};
    use std::path::Path;

    #[test]
    fn estimates_less_for_other_targets() {
        let mut one = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        let mut other = one.clone();
        "other".clone_into(&mut other.target_name);
        assert_eq!(likeness_of_hosts(&one, &other), 0);
        let lab = LabSpec::new(Host::local("server"), Host::local("client"));
        one.lab = Some(Box::new(lab.clone()));
        other.lab = Some(Box::new(lab));
        let elsewhere = likeness_of_hosts(&one, &other);
        assert!(elsewhere > 0 && elsewhere < likeness_of_hosts(&one, &one), "{elsewhere}");
        other.workload = Workload::Metadata;
        assert_eq!(likeness_of_hosts(&one, &other), 0);
    }

    fn stream(io_size_bytes: u32, workers: u32) -> RunSpec {
        let mut run = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        run.io_size_bytes = io_size_bytes;
        run.workers = workers;
        run
    }

    #[test]
    fn probes_each_kind_of_run_once() {
        let names = RunBuilder::new(Workload::Metadata).on_directory(Path::new("/srv")).build();
        let null = RunBuilder::new(Workload::Mixed).build();
        let runs = [stream(4_096, 1), stream(4_096, 1), stream(1 << 20, 1), names, null];
        assert_eq!(kinds_of(&runs), [0, 3, 2]);
        assert!(
            count_common_settings(&runs[0], &runs[1]) > count_common_settings(&runs[0], &runs[2])
        );
        assert_eq!(count_common_settings(&runs[0], &runs[3]), 0);
    }

    #[test]
    fn probes_first_of_many_kinds() {
        let runs: Vec<RunSpec> = (1..40).map(|workers| stream(4_096, workers)).collect();
        assert_eq!(kinds_of(&runs).len(), PROBES_MAX);
    }
}
