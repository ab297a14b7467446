//! `dfsbench run --dry-run --probe`: what the targets of a plan really do, in about ten seconds.
//!
//! [`run`] makes small trials of the plan's own runs, as the campaign would make them, and
//! keeps none of their results. Runs that do the same share a probe. Hosts are not set up, so that
//! a plan that needs that is refused; for those there is [`paces::of_campaign`](crate::paces).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use controller::CampaignRunner;
use model::units::Nanos;
use model::{RunSpec, TrialState};
use plan::{Pace, Plan, ProbeTrial, can_be_reduced, reduced, work_of};

use crate::args::{MakingArgs, RunArgs};
use crate::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::paces::{MINOR, Probed, likeness, likeness_of_kind, measured};
use crate::progress::{Progress, Visibility, trial_figures, work_label};
use crate::{dry_run, embedded, output, plan_source, signals};

/// The time for the probes of all runs together.
const ALL: Duration = Duration::from_secs(10);

/// The most kinds of run that are probed; others share the probe of the run most like them.
const PROBES_MAX: usize = 10;

/// The work of the first trial of a probe: a MiB, or some hundred names.
const FIRST_WORK: u64 = 1 << 20;

/// A trial that takes so long tells enough.
const ENOUGH: Duration = Duration::from_secs(1);

/// How many times as much the next trial of a probe does, at least and at most.
const GROWTH: (u64, u64) = (2, 64);

/// Prints what a plan would do, and what that takes as a probe of its targets finds it.
///
/// # Errors
/// When the plan can't be used, hosts would have to be set up, or no target can be used.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let raw = plan_source::read(args)?;
    let around = plan_source::surroundings_of_job(&args.job)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    campaign::warn_of_idle_settings(&plan);
    let rates = dry_run::assumed_rates(args)?;
    let stop = signals::stop_flag()?;
    let probed = measure(&args.making, &mut plan, &stop)?;
    if stop.load(Relaxed) {
        return Ok(End::Invalid.into());
    }
    output::text(&dry_run::describe_probed(&plan, &rates, &probed))?;
    Ok(End::Ok.into())
}

/// Measures what the targets of a plan do.
///
/// # Errors
/// When hosts would have to be set up, or no target can be used.
fn measure(
    making: &MakingArgs,
    plan: &mut Plan,
    stop: &Arc<AtomicBool>,
) -> Result<Probed, Failure> {
    check_hosts(plan)?;
    embedded::raise_descriptor_limit();
    let server = embedded::start(plan)?;
    if let Some(server) = &server {
        server.set_addresses(plan);
    }
    let making = campaign::without_progress(making);
    let mut session = Session::silent(&making, Arc::clone(stop));
    let mut observer = session.observe(Progress::new(plan, Visibility::Hidden), 0)?;
    let probed = session.with_runner(plan, server.as_ref(), &mut observer, |runner| {
        runner.preflight()?;
        probe_all(runner, stop)
    });
    if let Some(server) = &server {
        server.warn_of_refused();
    }
    probed
}

/// Refuses runs whose hosts are to be set up, or that other hosts work for.
fn check_hosts(plan: &Plan) -> Result<(), Failure> {
    for (number, run) in plan.runs.iter().enumerate() {
        let why = match (&run.lab, run.placement.hosts.first()) {
            (Some(_), _) => "needs hosts that a dry run doesn't set up".to_owned(),
            (None, Some(host)) => format!("is measured from another host, {}", host.name),
            (None, None) => continue,
        };
        return Err(Failure::Usage(format!(
            "--probe: run {} ({}) {why} (hint: --assume-rates for an estimate, or a campaign with \
             --trials 1)",
            number + 1,
            work_label(run),
        )));
    }
    Ok(())
}

/// Probes each kind of run.
fn probe_all(runner: &mut CampaignRunner<'_>, stop: &AtomicBool) -> Result<Probed, Failure> {
    let begun = Instant::now();
    let plan = runner.plan;
    let kinds = kinds_of(&plan.runs);
    let mut lines = Vec::new();
    let mut found: Vec<(usize, Option<Pace>)> = Vec::new();
    for (number, run) in kinds.iter().enumerate() {
        // What a probe leaves of its time is for those that follow.
        let left = ALL.saturating_sub(begun.elapsed()) / (kinds.len() - number) as u32;
        let spec = &plan.runs[*run];
        let probe = probe_run(runner, spec, left, stop)?;
        lines.push(format!("{} (run {}): {}", work_label(spec), run + 1, probe.outcome));
        found.push((*run, Pace::of(&probe.trials)));
    }
    let mut paces = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        let mut pace = None;
        let mut likeness_max = 0;
        for (other, known) in &found {
            let alike = likeness(run, &plan.runs[*other]);
            if can_be_reduced(run) && alike > likeness_max {
                (pace, likeness_max) = (*known, alike);
            }
        }
        paces.push(pace);
    }
    let took = Nanos(begun.elapsed().as_nanos() as u64);
    Ok(Probed { paces, lines, basis: format!("probed for {took}") })
}

/// The trials of one probe.
struct Probe {
    trials: Vec<ProbeTrial>,
    /// The figures of the last one, or why there are none.
    outcome: String,
}

/// Makes trials of a run, each with more work, until one takes long enough to tell.
fn probe_run(
    runner: &mut CampaignRunner<'_>,
    run: &RunSpec,
    time: Duration,
    stop: &AtomicBool,
) -> Result<Probe, Failure> {
    let begun = Instant::now();
    let whole = work_of(run);
    let mut work = FIRST_WORK;
    let mut probe = Probe { trials: Vec::new(), outcome: String::new() };
    loop {
        let small = reduced(run, work);
        let started = Instant::now();
        let trial = runner.run_once(&small)?;
        let took = started.elapsed();
        if trial.state != TrialState::Done {
            probe.outcome = trial_figures(&trial);
            break;
        }
        let found = measured(&small, &trial, took.as_nanos() as u64);
        let ProbeTrial { work: done, took_ns, .. } = found;
        probe.trials.push(found);
        let pace = Pace::of(&probe.trials).expect("there is a trial");
        let around = Nanos(pace.base_ns);
        probe.outcome = format!("{}, {around} around each trial", trial_figures(&trial));
        let left_ns = time.saturating_sub(begun.elapsed()).as_nanos() as u64;
        // The next trial is to take a part of the time that is left; of twice the work at least,
        // or it would tell little more.
        let growth = (left_ns / 3 / took_ns.max(1)).min(GROWTH.1);
        let is_enough = done >= whole || took_ns >= ENOUGH.as_nanos() as u64;
        if is_enough || growth < GROWTH.0 || stop.load(Relaxed) {
            break;
        }
        work = done.max(work).saturating_mul(growth);
    }
    Ok(probe)
}

/// Chooses runs of which each does something else: first those that differ in target, backend and
/// workload, then those that differ in anything that counts.
fn kinds_of(runs: &[RunSpec]) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::new();
    for least in [likeness_of_kind(), likeness_of_kind() + MINOR] {
        for (number, run) in runs.iter().enumerate() {
            if kinds.len() >= PROBES_MAX || !can_be_reduced(run) {
                continue;
            }
            if !kinds.iter().any(|kind| likeness(run, &runs[*kind]) >= least) {
                kinds.push(number);
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;
    use std::path::Path;

    fn stream(io_size_bytes: u32, workers: u32) -> RunSpec {
        let mut run = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        (run.io_size_bytes, run.workers) = (io_size_bytes, workers);
        run
    }

    #[test]
    fn each_kind_of_run_is_probed_once_and_others_share_the_nearest() {
        let names = RunBuilder::new(Workload::Metadata).on_directory(Path::new("/srv")).build();
        let null = RunBuilder::new(Workload::Mixed).build();
        let runs = [stream(4_096, 1), stream(4_096, 1), stream(1 << 20, 1), names, null];
        assert_eq!(kinds_of(&runs), [0, 3, 2]);
        assert!(likeness(&runs[0], &runs[1]) > likeness(&runs[0], &runs[2]));
        assert_eq!(likeness(&runs[0], &runs[3]), 0);
    }

    #[test]
    fn of_many_kinds_the_first_are_probed() {
        let runs: Vec<RunSpec> = (1..40).map(|workers| stream(4_096, workers)).collect();
        assert_eq!(kinds_of(&runs).len(), PROBES_MAX);
    }
}
