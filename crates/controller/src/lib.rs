//! Walks the matrix: one trial after the other, each stored before the next begins.
//!
//! [`preflight`] makes and removes a site at every target before anything is measured, so that a
//! plan that can't work fails at once and leaves nothing. [`walk`] then obeys the plan's order;
//! runs that contradict the protocols are stored and never tried.
//! A run that fails is a row of the table and not the end of the campaign.

mod agent_group;
mod applied_steps;
pub mod clock;
mod faults;
mod host_setup;
mod hosts;
mod merge;
mod one_directory;
mod pass;
pub mod quiet;
pub mod results_place;
pub mod search;
mod setting_up;
mod shared_kernel;
pub mod site;
mod system_counts;
mod trial;
mod trial_error;
pub mod watching;

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::{Gone, Transport, Wakeup};
use model::{
    Campaign, CampaignState, Ceiling, IntervalSample, Pass, PassResult, RunSpec, Trial, TrialState,
    Workload,
};
use plan::{Plan, Step};
use results::{Standing, Store, StoreError};
use stats::judge;

pub use faults::FaultInjector;
pub use hosts::{Hosts, Launch, Launched};

/// A run that failed this often in a row is not tried again: a dead server costs a timeout each.
pub const FAILURES_MAX: u32 = 2;

/// How long the tool's own ceiling is measured.
const CEILING_MS: u64 = 300;

/// Why a campaign could not be begun or finished.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// No target of the plan can be used; the reason of the first, a server or another host.
    #[error("{0}")]
    Unusable(String),
    /// The same, where the first is a directory of this host: the user named a wrong one.
    #[error("{0}")]
    UnusableHere(String),
    /// The campaign was stopped before its first trial.
    #[error("interrupted during set-up: nothing was measured")]
    Interrupted,
    /// The results can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An agent ended by itself.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// Everything that a campaign is walked with.
pub struct Walk<'a> {
    /// The plan to carry out.
    pub plan: &'a Plan,
    /// The way to the agent of this host, for runs that set up none.
    pub agent: &'a mut dyn Transport,
    /// The agents of the hosts that are set up.
    pub hosts: Hosts<'a>,
    /// Set by the caller to stop the campaign.
    pub stop: &'a AtomicBool,
    /// Waits until an agent may have sent something: until the wakeup notifies, a tenth of a second
    /// at most.
    pub wait: &'a dyn Fn(&Wakeup),
    /// Receives the events of the campaign.
    pub observe: &'a mut dyn FnMut(Event<'_>),
    /// Tells the calendar time in milliseconds since 1970 UTC.
    pub now_unix_ms: &'a dyn Fn() -> u64,
    /// Makes the names of working directories unique.
    pub token: u64,
    /// Leave working directories behind.
    pub keep: bool,
    /// Disturbs the server in this process, where there is one.
    pub inject_fault: Option<&'a FaultInjector<'a>>,
}

impl Walk<'_> {
    /// Name of one of the campaign's working directories.
    fn directory_name(&self, which: impl Display) -> String {
        model::work::directory_name(&campaign_name(self.token), which)
    }
}

/// Returns the campaign's name in undo logs and in the names of working directories.
pub fn campaign_name(token: u64) -> String {
    format!("{token:x}")
}

/// An event during a campaign.
#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins; positions count from 0.
    TrialBegun {
        /// Position in the order.
        position: usize,
        /// Specification of the run.
        spec: &'a RunSpec,
    },
    /// A working directory is about to be made.
    DirectoryBegun {
        /// Name of the directory.
        name: &'a str,
        /// For which run.
        spec: &'a RunSpec,
    },
    /// The working directory that was begun last is gone, or left for good.
    DirectoryEnded {
        /// It could not be removed, or not all of it.
        is_left: bool,
    },
    /// A pass begins.
    PassBegun(Pass),
    /// A pass runs.
    Progress(IntervalSample),
    /// One of several hosts works.
    HostProgress {
        /// Name of the host.
        host: &'a str,
        /// Its work since the last sample, by its own clock.
        sample: IntervalSample,
    },
    /// A pass has ended.
    PassEnded(&'a PassResult),
    /// A trial has ended and is stored.
    TrialEnded {
        /// Specification of the run.
        spec: &'a RunSpec,
        /// Results of the trial.
        trial: &'a Trial,
    },
    /// A run will not be tried again.
    RunGivenUp(&'a RunSpec),
    /// Something could not be restored; in a sentence.
    Left(&'a str),
}

/// Checks that at least one target of the plan can be used as its runs want to use it.
///
/// Metadata runs ask less of a target than those that move data, so they are tried only where
/// there are no others.
///
/// # Errors
/// When none can; with the reason of the first.
pub fn preflight(walk: &mut Walk<'_>) -> Result<(), ControllerError> {
    let mut reason = None;
    if reach_hosts(walk, &mut reason) {
        return Ok(());
    }
    let mut first = reason.map(ControllerError::Unusable);
    for (number, spec) in uses_from_here(walk.plan).into_iter().enumerate() {
        match trial::check(walk, spec, number + 1)? {
            None => return Ok(()),
            Some(why) => _ = first.get_or_insert(unusable(spec, why)),
        }
    }
    first.map_or(Ok(()), |error| Err(or_interrupted(walk, error)))
}

/// Returns why set-up failed: a request to stop makes it fail, and says nothing about the target.
fn or_interrupted(walk: &Walk<'_>, error: ControllerError) -> ControllerError {
    if walk.stop.load(Relaxed) { ControllerError::Interrupted } else { error }
}

/// Why a run's target can't be used, by where it is.
fn unusable(spec: &RunSpec, why: String) -> ControllerError {
    let is_here = spec.lab.is_none() && spec.placement.hosts.is_empty();
    if spec.target.is_local() && is_here {
        ControllerError::UnusableHere(why)
    } else {
        ControllerError::Unusable(why)
    }
}

/// Checks as [`preflight`] does, but requires that every target used from this host is usable: for
/// a question that can't be answered without one of them.
///
/// # Errors
/// When one can't be used; with its reason.
pub fn preflight_all(walk: &mut Walk<'_>) -> Result<(), ControllerError> {
    preflight(walk)?;
    for (number, spec) in uses_from_here(walk.plan).into_iter().enumerate() {
        if let Some(why) = trial::check(walk, spec, number + 1)? {
            return Err(or_interrupted(walk, unusable(spec, why)));
        }
    }
    Ok(())
}

/// A run for each way in which a target is used from this host.
fn uses_from_here(plan: &Plan) -> Vec<&RunSpec> {
    // Where some runs move data, the others are left out: they require less of a target.
    let any_moves_data = plan.runs.iter().any(|spec| moves_data(spec.workload));
    let mut uses: Vec<&RunSpec> = Vec::new();
    for spec in &plan.runs {
        if spec.impossible().is_some() || spec.lab.is_some() {
            continue;
        }
        if any_moves_data && !moves_data(spec.workload) {
            continue;
        }
        if !uses.iter().any(|other| has_same_use(other, spec)) {
            uses.push(spec);
        }
    }
    uses
}

fn moves_data(workload: Workload) -> bool {
    workload != Workload::Metadata
}

/// Says whether a run uses its target as another one does.
fn has_same_use(one: &RunSpec, other: &RunSpec) -> bool {
    one.target == other.target && one.backend == other.backend && one.direct == other.direct
}

/// Sees whether the hosts of some run can be used, and keeps the first reason why not.
fn reach_hosts(walk: &mut Walk<'_>, reason: &mut Option<String>) -> bool {
    let plan = walk.plan;
    for spec in &plan.runs {
        let Some(lab) = spec.lab.as_deref() else { continue };
        if spec.impossible().is_some() {
            continue;
        }
        match walk.hosts.reach(lab) {
            Ok(()) => return true,
            Err(why) => _ = reason.get_or_insert(why),
        }
    }
    false
}

/// Restores all hosts and leaves them. To be called at the end, whatever was tried.
pub fn leave(walk: &mut Walk<'_>) {
    for left in walk.hosts.leave() {
        (walk.observe)(Event::Left(&left));
    }
}

/// The trials that can be made, in the plan's order.
pub fn steps(plan: &Plan) -> Vec<Step> {
    let mut steps = plan.order();
    steps.retain(|step| plan.runs[step.run].impossible().is_none());
    steps
}

/// Measures the tool's own ceiling: the null backend, one worker, one op in flight.
///
/// # Errors
/// When the agent is gone.
pub fn ceiling(walk: &mut Walk<'_>) -> Result<Option<Ceiling>, ControllerError> {
    let spec = null_spec();
    let outcome = trial::unobserved(walk, &spec)?;
    let Some(pass) = outcome.passes.first() else { return Ok(None) };
    let service_time_p50_ns = pass.kinds.first().map_or(0, |kind| kind.service_time.quantile(0.5));
    // A rate of whole ops: 128 bits hold the product at any rate.
    let ops_per_s = u128::from(pass.ops()) * 1_000_000_000 / u128::from(pass.window_ns.max(1));
    Ok(Some(Ceiling { ops_per_s: ops_per_s as u64, service_time_p50_ns }))
}

/// Makes one trial of a run that belongs to no campaign: its events are dropped.
///
/// # Errors
/// When the agent is gone.
pub fn once(walk: &mut Walk<'_>, spec: &RunSpec) -> Result<Trial, ControllerError> {
    trial::unobserved(walk, spec)
}

/// Makes every trial of the plan and stores each; `campaign` is the header, without runs.
///
/// # Errors
/// When the results can't be kept or the agent is gone. What was stored until then is kept.
pub fn walk(
    walk: &mut Walk<'_>,
    store: &mut Store,
    campaign: &Campaign,
) -> Result<(i64, CampaignState), ControllerError> {
    let id = store.begin_campaign(campaign)?;
    let state = go_on_or_end(walk, store, id, Vec::new())?;
    Ok((id, state))
}

/// Makes the trials that a stored campaign of the same plan lacks, in the order in which they would
/// have been made. Trials that were stopped are made again, failed ones are not.
///
/// # Errors
/// As [`walk`].
pub fn resume(
    walk: &mut Walk<'_>,
    store: &mut Store,
    id: i64,
) -> Result<CampaignState, ControllerError> {
    let standing = store.reopen(id)?;
    go_on_or_end(walk, store, id, standing)
}

/// Makes what is missing of a campaign. One that ends with an error is interrupted.
fn go_on_or_end(
    walk: &mut Walk<'_>,
    store: &mut Store,
    id: i64,
    standing: Vec<Standing>,
) -> Result<CampaignState, ControllerError> {
    let made = go_on(walk, store, id, standing);
    if made.is_err() {
        // Where this can't be stored, the lost lock says it.
        let _ = store.finish(id, CampaignState::Interrupted);
    }
    made
}

/// Makes what is missing of a campaign.
fn go_on(
    walk: &mut Walk<'_>,
    store: &mut Store,
    id: i64,
    mut standing: Vec<Standing>,
) -> Result<CampaignState, ControllerError> {
    let specs = &walk.plan.runs;
    for (index, spec) in specs.iter().enumerate().skip(standing.len()) {
        let run_id = store.add_run(id, index as u32, spec)?;
        standing.push(Standing { run_id, trials: Vec::new() });
    }
    let mut failures: Vec<u32> = standing.iter().map(failures_in_a_row).collect();
    let mut so_far = store.load(id)?.runs;
    let begun_ms = (walk.now_unix_ms)();
    let planned = walk.plan.trials + walk.plan.repetition.warmup_trials;
    let mut steps = walk.plan.order_with_repeats();
    steps.retain(|step| specs[step.run].impossible().is_none());
    for (position, Step { run, trial: index }) in steps.into_iter().enumerate() {
        if walk.stop.load(Relaxed) {
            break;
        }
        let (budget_ms, needed) = (walk.plan.budget_ms, walk.plan.trials_needed());
        let worked_ms = (walk.now_unix_ms)().saturating_sub(begun_ms);
        // With a budget that is spent, runs get what an interval needs and no more.
        let is_spent = budget_ms > 0 && worked_ms >= budget_ms;
        let limit = if is_spent { needed.min(planned) } else { planned };
        // Of those that an interval needs, as many are repeated as of those that are planned.
        let repeats = judge::disturbed_trials(&so_far[run]).min(limit.div_ceil(2));
        if index >= limit + repeats {
            continue;
        }
        let made = standing[run].trials.iter().any(|(number, _)| *number == index);
        if made || failures[run] >= FAILURES_MAX || judge::is_settled(&so_far[run]) {
            continue;
        }
        let mut trial = Trial { index, ..trial::run(walk, &specs[run], position)? };
        results_place::note(store, &specs[run], &mut trial);
        store.add_trial(standing[run].run_id, &trial)?;
        let failed = matches!(trial.state, TrialState::Failed(_));
        failures[run] = if failed { failures[run] + 1 } else { 0 };
        (walk.observe)(Event::TrialEnded { spec: &specs[run], trial: &trial });
        if failures[run] == FAILURES_MAX {
            (walk.observe)(Event::RunGivenUp(&specs[run]));
        }
        let settles = specs[run].repetition.until_permille > 0;
        so_far[run].trials.push(if settles { trial } else { without_figures(trial) });
    }
    let stopped = walk.stop.load(Relaxed);
    let state = if stopped { CampaignState::Interrupted } else { CampaignState::Complete };
    store.finish(id, state)?;
    Ok(state)
}

/// Keeps of a trial only whether it counts: the figures of thousands would fill the memory.
fn without_figures(mut trial: Trial) -> Trial {
    for pass in &mut trial.passes {
        let (scope, caveats) = (std::mem::take(&mut pass.scope), std::mem::take(&mut pass.caveats));
        *pass = PassResult { scope, caveats, ..PassResult::new(pass.pass) };
    }
    trial.facts = Vec::new();
    trial
}

/// How often a run failed since it last went well.
fn failures_in_a_row(standing: &Standing) -> u32 {
    let mut failures = 0;
    for (_, failed) in &standing.trials {
        failures = if *failed { failures + 1 } else { 0 };
    }
    failures
}

fn null_spec() -> RunSpec {
    RunSpec {
        file_size_bytes: 1 << 30,
        read_percent: 100,
        duration_ms: CEILING_MS,
        ..RunSpec::null(Workload::Mixed)
    }
}
