//! Runs a campaign: all trials of a plan, one after the other, each stored before the next one
//! begins.
//!
//! [`preflight`] creates and removes a site at every target before anything is measured, so that a
//! plan that cannot work fails at once and leaves nothing behind. [`walk`] then follows the plan's
//! order. Runs that contradict the protocols are stored but never tried. A failed run becomes a row
//! in the results and doesn't end the campaign.

mod agent_group;
mod applied_steps;
pub mod clock;
mod faults;
mod host_setup;
mod hosts;
pub mod leftovers;
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

/// Number of failures in a row after which a run is given up. With a dead server, each costs a
/// timeout.
pub const FAILURES_MAX: u32 = 2;

/// How long to measure the tool's own upper limit, in milliseconds.
const CEILING_MS: u64 = 300;

/// Why a campaign could not start or finish.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// None of the plan's targets can be used. Contains the reason of the first, which is a server
    /// or on another host.
    #[error("{0}")]
    Unusable(String),
    /// Same as [`Self::Unusable`], if the first target is a directory on this host: the user
    /// probably named the wrong one.
    #[error("{0}")]
    UnusableHere(String),
    /// The campaign was stopped before its first trial.
    #[error("interrupted during set-up: nothing was measured")]
    Interrupted,
    /// The results can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent of this process is gone.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// Everything needed to run a campaign.
pub struct Walk<'a> {
    pub plan: &'a Plan,
    /// Connection to the agent of this host, for runs without other hosts.
    pub agent: &'a mut dyn Transport,
    /// The agents of the hosts that the plan uses.
    pub hosts: Hosts<'a>,
    /// Set by the caller to stop the campaign.
    pub stop: &'a AtomicBool,
    /// Waits until the wakeup signals that an agent may have sent something, for at most 100 ms.
    pub wait: &'a dyn Fn(&Wakeup),
    pub observe: &'a mut dyn FnMut(Event<'_>),
    /// Returns the wall-clock time in milliseconds since 1970 UTC.
    pub now_unix_ms: &'a dyn Fn() -> u64,
    /// Makes the names of working directories unique.
    pub token: u64,
    /// Keep working directories after trials.
    pub keep: bool,
    /// Injects faults into the server of this process, if there is one.
    pub inject_fault: Option<&'a FaultInjector<'a>>,
}

impl Walk<'_> {
    /// Returns the name of one of the campaign's working directories.
    fn directory_name(&self, which: impl Display) -> String {
        model::work::directory_name(&campaign_name(self.token), which)
    }
}

/// Returns the campaign's name as used in undo logs and in working directory names.
pub fn campaign_name(token: u64) -> String {
    format!("{token:x}")
}

#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins.
    TrialBegun {
        /// Position in the order, counted from 0.
        position: usize,
        spec: &'a RunSpec,
    },
    /// A working directory is about to be created.
    DirectoryBegun {
        name: &'a str,
        /// Run that the directory is for.
        spec: &'a RunSpec,
    },
    /// The working directory from the last [`Self::DirectoryBegun`] was removed or permanently left
    /// behind.
    DirectoryEnded {
        /// The directory could not be removed completely.
        is_left: bool,
    },
    /// A pass begins.
    PassBegun(Pass),
    /// Progress of a running pass.
    Progress(IntervalSample),
    /// Progress of one of several hosts.
    HostProgress {
        host: &'a str,
        /// Work since the last sample, by the host's own clock.
        sample: IntervalSample,
    },
    /// A pass has finished.
    PassEnded(&'a PassResult),
    /// A trial has finished and is stored.
    TrialEnded { spec: &'a RunSpec, trial: &'a Trial },
    /// A run will not be tried again.
    RunGivenUp(&'a RunSpec),
    /// Something could not be restored; contains a sentence.
    Left(&'a str),
}

/// Checks that at least one target of the plan can be used in the way its runs need.
///
/// Metadata runs need less of a target than runs that move data, so they are only tried if there
/// are no others.
///
/// # Errors
/// If no target can be used; contains the reason of the first.
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

/// Returns the error for an unusable target, which depends on where the target is.
fn unusable(spec: &RunSpec, why: String) -> ControllerError {
    let is_here = spec.lab.is_none() && spec.placement.hosts.is_empty();
    if spec.target.is_local() && is_here {
        ControllerError::UnusableHere(why)
    } else {
        ControllerError::Unusable(why)
    }
}

/// Like [`preflight`], but requires that every target used from this host is usable, for questions
/// that need all of them.
///
/// # Errors
/// If a target cannot be used; contains the reason.
pub fn preflight_all(walk: &mut Walk<'_>) -> Result<(), ControllerError> {
    preflight(walk)?;
    for (number, spec) in uses_from_here(walk.plan).into_iter().enumerate() {
        if let Some(why) = trial::check(walk, spec, number + 1)? {
            return Err(or_interrupted(walk, unusable(spec, why)));
        }
    }
    Ok(())
}

/// Returns one run for each distinct way in which a target is used from this host.
fn uses_from_here(plan: &Plan) -> Vec<&RunSpec> {
    // Runs without data transfer need less of a target, so skip them if others move data.
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

/// Returns true if both runs use the same target in the same way.
fn has_same_use(one: &RunSpec, other: &RunSpec) -> bool {
    one.target == other.target && one.backend == other.backend && one.direct == other.direct
}

/// Checks whether the hosts of any run can be used; records the first reason why not.
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

/// Restores all hosts and disconnects. Must be called at the end, even after errors.
pub fn leave(walk: &mut Walk<'_>) {
    for left in walk.hosts.leave() {
        (walk.observe)(Event::Left(&left));
    }
}

/// Returns the trials that can be run, in the plan's order.
pub fn steps(plan: &Plan) -> Vec<Step> {
    let mut steps = plan.order();
    steps.retain(|step| plan.runs[step.run].impossible().is_none());
    steps
}

/// Measures the tool's own upper limit: null backend, one worker, queue depth 1.
///
/// # Errors
/// If the agent is gone.
pub fn ceiling(walk: &mut Walk<'_>) -> Result<Option<Ceiling>, ControllerError> {
    let spec = null_spec();
    let outcome = trial::unobserved(walk, &spec)?;
    let Some(pass) = outcome.passes.first() else { return Ok(None) };
    let service_time_p50_ns = pass.kinds.first().map_or(0, |kind| kind.service_time.quantile(0.5));
    // Multiply in 128 bits, so that no rate overflows.
    let ops_per_s = u128::from(pass.ops()) * 1_000_000_000 / u128::from(pass.window_ns.max(1));
    Ok(Some(Ceiling { ops_per_s: ops_per_s as u64, service_time_p50_ns }))
}

/// Runs one trial that belongs to no campaign, without reporting events.
///
/// # Errors
/// If the agent is gone.
pub fn once(walk: &mut Walk<'_>, spec: &RunSpec) -> Result<Trial, ControllerError> {
    trial::unobserved(walk, spec)
}

/// Runs every trial of the plan and stores each. `campaign` is the header without runs.
///
/// # Errors
/// If the results cannot be stored or the agent is gone. Trials stored so far are kept.
pub fn walk(
    walk: &mut Walk<'_>,
    store: &mut Store,
    campaign: &Campaign,
) -> Result<(i64, CampaignState), ControllerError> {
    let id = store.begin_campaign(campaign)?;
    let state = go_on_or_end(walk, store, id, Vec::new())?;
    Ok((id, state))
}

/// Runs the trials that are missing from a stored campaign of the same plan, in their original
/// order. Interrupted trials are repeated, failed ones are not.
///
/// # Errors
/// Same as for [`walk`].
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

/// Runs the missing trials of a campaign.
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
