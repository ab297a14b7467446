//! `dfsbench run --dry-run --probe`: measures how fast a plan's targets really are, in about ten
//! seconds.
//!
//! Hosts are not set up, so plans that need that are refused; for those there is
//! [`from_campaign`](controller::pace::from_campaign).

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use controller::pace::{PlanProbe, ProbeResult, probe_plan};
use engine::{Clock, SystemClock};
use model::TrialState;
use model::units::Nanos;
use plan::Plan;

use crate::args::{RunArgs, TrialArgs};
use crate::commands::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::plans::{dry_run, plan_source, surroundings};
use crate::server::embedded;
use crate::signals;
use crate::terminal::output;
use crate::terminal::progress::{Progress, Visibility, trial_figures, work_label};

/// Prints what a plan would do, with estimates based on a probe of its targets.
///
/// # Errors
/// If the plan is invalid, hosts would have to be set up, or no target can be used.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let raw = plan_source::read(args)?;
    let around = surroundings::for_job(&args.job)?;
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

/// Measures how fast the targets of a plan are.
///
/// # Errors
/// If hosts would have to be set up or no target can be used.
fn measure(
    making: &TrialArgs,
    plan: &mut Plan,
    stop: &Arc<AtomicBool>,
) -> Result<ProbeResult, Failure> {
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
        let clock = SystemClock::new();
        Ok(probe_plan(runner, &|| clock.now_ns())?)
    });
    if let Some(server) = &server {
        server.warn_of_refused();
    }
    Ok(describe_probes(plan, probed?))
}

/// Describes each probe in one line.
fn describe_probes(plan: &Plan, probed: PlanProbe) -> ProbeResult {
    let mut lines = Vec::with_capacity(probed.probes.len());
    for probe in &probed.probes {
        let label = work_label(&plan.runs[probe.run]);
        let mut line = format!("{label} (run {}): {}", probe.run + 1, trial_figures(&probe.last));
        if probe.last.state == TrialState::Done
            && let Some(pace) = probe.pace()
        {
            let _ = write!(line, ", {} around each trial", Nanos(pace.base_ns));
        }
        lines.push(line);
    }
    let basis = format!("probed for {}", Nanos(probed.took_ns));
    ProbeResult { paces: probed.paces, lines, basis }
}

/// Refuses runs whose hosts would have to be set up, and runs measured from other hosts.
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
