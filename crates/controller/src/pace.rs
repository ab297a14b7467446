//! The pace of a plan's runs: what a probe found, or an earlier campaign of the same targets.
//!
//! Principal type: [`Probed`]. [`of_campaign`] makes it of a campaign (`--assume-pace`), where a
//! trial lasts until the next one begins, so that the set-up of hosts is part of it.

use std::collections::BTreeMap;

use model::units::Nanos;
use model::{Campaign, RunSpec, Trial};
use plan::{Pace, Plan, ProbeTrial, TimedRates, work_of};

use crate::ControllerError;

/// Findings of a probe or of an earlier campaign.
pub struct Probed {
    /// The pace of each run of the plan, where one was found.
    pub paces: Vec<Option<Pace>>,
    /// The figures of each kind of run, a line each.
    pub lines: Vec<String>,
    /// Source of them, such as `probed for 9 s`.
    pub basis: String,
}

/// Finds the pace of a plan's runs in an earlier campaign: that of the run most like each. A trial
/// lasts until the next one begins, the set-up of hosts between them included.
///
/// # Errors
/// When the campaign has no two trials, or none of a run like one of the plan.
pub fn of_campaign(plan: &Plan, earlier: &Campaign) -> Result<Probed, ControllerError> {
    let took_ns = trial_times(earlier);
    let mut found: Vec<(&RunSpec, Pace)> = Vec::new();
    for run in &earlier.runs {
        let mut trials = Vec::new();
        for trial in &run.trials {
            if let Some(took_ns) = took_ns.get(&trial.position) {
                trials.push(measured(&run.spec, trial, *took_ns));
            }
        }
        if let Some(pace) = Pace::of(&mean(&trials)) {
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
                (pace, likeness_max) = (Some(*known), alike);
            }
        }
        paces.push(pace);
    }
    if paces.iter().all(Option::is_none) {
        return Err(ControllerError::Request(format!(
            "--assume-pace: campaign {} has no two trials on a target of this plan (hint: a \
             campaign of the same plan, such as one with --scale 0.01 --trials 1)",
            earlier.id
        )));
    }
    let all_ns: u64 = took_ns.values().sum();
    let basis = format!(
        "by campaign {}, where {} trials took {}",
        earlier.id,
        took_ns.len(),
        Nanos(all_ns)
    );
    Ok(Probed { paces, lines: Vec::new(), basis })
}

/// The time from the begin of each trial to that of the next one, in nanoseconds, by position; the
/// last trial has none.
fn trial_times(campaign: &Campaign) -> BTreeMap<u32, u64> {
    let mut begins: Vec<(u64, u32)> = Vec::new();
    for run in &campaign.runs {
        for trial in &run.trials {
            begins.push((trial.started_unix_ms, trial.position));
        }
    }
    begins.sort_unstable();
    let mut times = BTreeMap::new();
    for pair in begins.windows(2) {
        let took_ms = pair[1].0 - pair[0].0;
        times.insert(pair[0].1, took_ms.saturating_mul(1_000_000));
    }
    times
}

/// A trial of a campaign, or several as one: what they did and how long it took on average.
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

/// Says what a trial of a run did, and how long that took without the passes that end by time.
pub fn measured(run: &RunSpec, trial: &Trial, all_ns: u64) -> ProbeTrial {
    let (mut timed_ns, mut timed_ops, mut timed_bytes, mut passes_ns) = (0, 0, 0, 0);
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

/// Settings of a run beside target, backend and workload by which runs are distinguished.
pub const MINOR: u32 = 6;

/// How alike runs of one kind are, whatever else they do.
pub const fn likeness_of_kind() -> u32 {
    3 * (MINOR + 1)
}

/// Counts what two runs have in common; target, workload and backend weigh more than all others.
/// 0 where the targets or the workloads differ: a probe of one says nothing of the other.
pub fn likeness(one: &RunSpec, other: &RunSpec) -> u32 {
    if one.target_name != other.target_name || one.workload != other.workload {
        return 0;
    }
    2 * (MINOR + 1) + settings_alike(one, other)
}

/// The same where another target of hosts that are set up counts, too, and less than the same one:
/// what is around a trial is set up by like steps.
fn likeness_of_hosts(one: &RunSpec, other: &RunSpec) -> u32 {
    match likeness(one, other) {
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
    fn another_target_of_hosts_that_are_set_up_tells_less_and_not_nothing() {
        let mut one = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        let mut other = one.clone();
        "other".clone_into(&mut other.target_name);
        assert_eq!(likeness_of_hosts(&one, &other), 0);
        let lab = LabSpec::new(Host::here("server"), Host::here("client"));
        (one.lab, other.lab) = (Some(Box::new(lab.clone())), Some(Box::new(lab)));
        let elsewhere = likeness_of_hosts(&one, &other);
        assert!(elsewhere > 0 && elsewhere < likeness_of_hosts(&one, &one), "{elsewhere}");
        other.workload = Workload::Metadata;
        assert_eq!(likeness_of_hosts(&one, &other), 0);
    }
}
