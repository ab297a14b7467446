//! One trial: begin, run the passes in order, end. The target is cleaned up in any case.
//!
//! A trial is run by an `AgentGroup` of one or more agents. A failure, even the loss of a host,
//! ends the trial and is recorded in it. Only two things end the campaign: losing the agent of this
//! process, and results that cannot be stored.

mod agent_group;
pub mod delegations;
pub(crate) mod faults;
mod merge;
mod one_directory;
pub mod overlap;
mod pass;
pub mod quiet_hosts;
pub mod server_telemetry;
mod setup;
mod system_counts;
mod system_exits;
mod together;
pub mod write_back;

use std::sync::atomic::Ordering::Relaxed;

use fleet::{Assignment, JournalLocation, PassEnd, TrialAbort, request};
use model::random::draw;
use model::soak::{FaultKind, Soak};
use model::{Fact, Host, Panicked, RunSpec, Share, Trial, TrialState, panicked};

use crate::error::{ControllerError, TrialError};
use crate::hosts::applied_steps::on_host;
use crate::hosts::{Hosts, shared_kernel};
use crate::{CampaignRunner, Event};
use agent_group::AgentGroup;
use faults::FaultSchedule;
use pass::OnePass;

/// How long to retry a lost host before the next trial that needs it, in nanoseconds. A host that
/// was only slow to respond is back within seconds, once its agent has undone its setup.
const LOST_WAIT_MIN_NS: u64 = 30_000_000_000;

impl CampaignRunner<'_> {
    /// Runs the trial at `position` and reports its events.
    pub(crate) fn run_trial(
        &mut self,
        spec: &RunSpec,
        position: usize,
    ) -> Result<Trial, ControllerError> {
        (self.observe)(Event::TrialBegun { position, spec });
        self.make_trial(TrialOf { spec, is_observed: true }, position)
    }

    /// Runs one trial that belongs to no campaign, without reporting its progress.
    pub fn run_once(&mut self, spec: &RunSpec) -> Result<Trial, ControllerError> {
        self.make_trial(TrialOf { spec, is_observed: false }, 0)
    }

    /// Creates and removes a working directory as a run needs it. Returns why that is impossible.
    pub(crate) fn check_target(
        &mut self,
        spec: &RunSpec,
        number: usize,
    ) -> Result<Option<String>, ControllerError> {
        let mut group = AgentGroup::new(spec);
        let work_name = self.hosts.directory_name(format_args!("check-{number}"));
        let workplace = TrialDirectory { name: &work_name, keep: false, trial: 0 };
        let checked = panicked::catch(|| {
            let begun = self.begin(&mut group, spec, workplace);
            if begun.is_err() {
                group.settle(&mut self.hosts)?;
            }
            let ended = group.end(&mut self.hosts);
            (self.observe)(Event::DirectoryEnded { is_left: ended.is_err() });
            // Why the target cannot be used is more informative than why the cleanup failed.
            begun?;
            ended
        });
        match checked
            .unwrap_or_else(|panicked| Err(recover(&mut self.hosts, &mut group, &panicked)))
        {
            Ok(()) => Ok(None),
            Err(TrialError::Failed(why)) => Ok(Some(why)),
            Err(TrialError::CampaignOver(error)) => Err(error),
        }
    }

    fn make_trial(&mut self, run: TrialOf<'_>, position: usize) -> Result<Trial, ControllerError> {
        let mut trial = Trial {
            index: 0,
            position: position as u32,
            started_unix_ms: self.hosts.now_unix_ms(),
            state: TrialState::Done,
            passes: Vec::new(),
            facts: Vec::new(),
        };
        let mut group = AgentGroup::new(run.spec);
        let made = panicked::catch(|| self.begin_to_end(&mut group, run, &mut trial));
        match made.unwrap_or_else(|panicked| Err(recover(&mut self.hosts, &mut group, &panicked))) {
            Ok(()) => {}
            Err(TrialError::CampaignOver(error)) => return Err(error),
            Err(TrialError::Failed(why)) => {
                // Setup that was interrupted by a stop did not fail.
                let stopped = self.stop.load(Relaxed);
                trial.state =
                    if stopped { TrialState::Interrupted } else { TrialState::Failed(why) };
            }
        }
        Ok(trial)
    }

    fn begin_to_end<'s>(
        &mut self,
        group: &mut AgentGroup<'s>,
        run: TrialOf<'s>,
        trial: &mut Trial,
    ) -> Result<(), TrialError> {
        let TrialOf { spec, is_observed } = run;
        self.await_lost(spec);
        let caveats = match &spec.lab {
            Some(lab) => {
                let hosts = &mut self.hosts;
                let mut caveats = setup::before_trial(hosts, self.stop, spec, lab, trial)?;
                caveats.extend(quiet_hosts::await_quiet(hosts, self.plan.quiet_ms, lab, trial)?);
                caveats
            }
            None => Vec::new(),
        };
        let object = match &spec.lab {
            Some(lab) => {
                let hosts = &mut self.hosts;
                let folder = hosts.directory_name(format_args!("object-{}", trial.position));
                let seen = write_back::check_object(hosts, self.stop, spec, lab, &folder)?;
                trial.facts.extend(seen.0);
                seen.1
            }
            None => None,
        };
        let work_name = self.hosts.directory_name(trial.position);
        let keep = self.hosts.keeps_directories();
        let work = TrialDirectory { name: &work_name, keep, trial: trial.position };
        let begun = self.begin(group, spec, work);
        if is_observed {
            trial.facts.extend(self.hosts.take_facts());
        }
        match begun {
            Ok(facts) => {
                trial.facts.extend(facts);
                self.make_passes(group, run, work, trial)?;
            }
            Err(TrialError::Failed(why)) => {
                group.settle(&mut self.hosts)?;
                trial.state = self.not_made(why);
            }
            Err(over) => return Err(over),
        }
        system_exits::explain(&mut self.hosts, spec, trial);
        let shared = shared_kernel::check(spec, self.hosts.kernels());
        for pass in &mut trial.passes {
            pass.caveats.extend(caveats.iter().chain(&shared).cloned());
        }
        for pass in trial.passes.iter_mut().filter(|result| result.pass.writes()) {
            pass.caveats.extend(object.clone());
        }
        setup::after_trial(&mut self.hosts, spec, trial);
        let ended = group.end(&mut self.hosts);
        (self.observe)(Event::DirectoryEnded { is_left: ended.is_err() });
        if let Err(TrialError::Failed(reason)) = ended {
            if is_observed {
                // The results table shows what was measured, and the measurement succeeded, so
                // report this separately.
                let left = format!("the working directory `{work_name}` was not removed: {reason}");
                (self.observe)(Event::Left(&left));
            }
            trial.state = TrialState::Failed(match &trial.state {
                TrialState::Done => format!("cleanup: {reason}"),
                TrialState::Interrupted => format!("interrupted; cleanup: {reason}"),
                TrialState::Failed(first) => format!("{first}; cleanup: {reason}"),
            });
        }
        Ok(())
    }

    /// Runs the passes in order until the trial cannot continue.
    fn make_passes<'s>(
        &mut self,
        group: &mut AgentGroup<'s>,
        run: TrialOf<'s>,
        work: TrialDirectory<'_>,
        trial: &mut Trial,
    ) -> Result<(), ControllerError> {
        let TrialOf { spec, is_observed } = run;
        for &pass in spec.passes() {
            self.pause(spec.checkpoint.pause_ms);
            if self.stop.load(Relaxed) {
                trial.state = TrialState::Interrupted;
            }
            if trial.state != TrialState::Done {
                break;
            }
            if is_observed {
                (self.observe)(Event::PassBegun(pass));
            }
            let seed = self.plan.seed;
            let replaced = group.replace_killed(&mut self.hosts, spec.client_hosts(), |share| {
                // The replacement of a killed agent continues in its directory, and takes from its
                // journal which writes were acknowledged.
                let joins = true;
                let journal = JournalLocation::Inherited;
                let assignment = assignment(spec, seed, work);
                request::begin(Assignment { share, joins, journal, ..assignment })
            });
            let mut one = OnePass {
                spec,
                pass,
                group: &mut *group,
                stop: self.stop,
                observe: if is_observed { Some(&mut *self.observe) } else { None },
                fault_schedule: FaultSchedule::new(spec, pass, trial.position, self.inject_fault),
            };
            match replaced.and_then(|()| one.make(&mut self.hosts, &mut trial.facts)) {
                Ok(PassEnd { result, facts, broken, .. }) => {
                    if is_observed {
                        (self.observe)(Event::PassEnded(&result));
                    }
                    trial.passes.push(result);
                    trial.facts.extend(facts);
                    trial.state = match broken {
                        None => TrialState::Done,
                        Some(TrialAbort::Stopped) => TrialState::Interrupted,
                        Some(TrialAbort::Failed(reason)) => TrialState::Failed(reason),
                    };
                }
                Err(TrialError::Failed(why)) => {
                    group.settle(&mut self.hosts)?;
                    trial.state = self.not_made(format!("{}: {why}", pass.name()));
                }
                Err(TrialError::CampaignOver(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Leaves the hosts without work for a while, or until the campaign is stopped.
    fn pause(&mut self, pause_ms: u64) {
        let until_ns = self.hosts.now_ns().saturating_add(pause_ms.saturating_mul(1_000_000));
        while self.hosts.now_ns() < until_ns && !self.stop.load(Relaxed) {
            self.hosts.wait();
        }
    }

    /// Makes each agent create or join the working directory. Returns the effective settings.
    fn begin(
        &mut self,
        group: &mut AgentGroup<'_>,
        spec: &RunSpec,
        workplace: TrialDirectory<'_>,
    ) -> Result<Vec<Fact>, TrialError> {
        self.hosts.reach_all(spec.client_hosts())?;
        group.compare_new_clocks(&mut self.hosts)?;
        (self.observe)(Event::DirectoryBegun { name: workplace.name, spec });
        let seed = self.plan.seed;
        let shares: Vec<_> = (0..group.len()).map(|index| group.neighbour(index, 0)).collect();
        // Created once, because copying it for each agent would take quadratic time: a run contains
        // all of its hosts.
        let common = assignment(spec, seed, workplace);
        let begun = group.ask_first(&mut self.hosts, |index| {
            let journal = match spec.client_hosts().get(index) {
                Some(host) => ack_journal(spec.soak.as_deref(), &host.name),
                None => JournalLocation::InMemory,
            };
            request::begin(Assignment {
                share: shares[index],
                joins: index > 0,
                journal,
                ..common.clone()
            })
        })?;
        let hosts = group.hosts();
        if spec.placement.shared && !spec.target.paths().is_empty() {
            one_directory::check(&hosts, &begun).map_err(TrialError::Failed)?;
        }
        let mut facts = Vec::new();
        for (index, begun) in begun.into_iter().enumerate() {
            // Facts of a single agent belong to the trial and have no host.
            match hosts.get(index) {
                Some(host) if !group.is_alone() => facts.extend(on_host(host, begun.facts)),
                _ => facts.extend(begun.facts),
            }
        }
        Ok(facts)
    }

    /// Returns the state of a trial that could not be run. A trial that was stopped did not fail.
    fn not_made(&self, why: String) -> TrialState {
        if self.stop.load(Relaxed) { TrialState::Interrupted } else { TrialState::Failed(why) }
    }

    /// Waits for lost hosts: retries each for as long as the run wants, and once after each loss
    /// for [`LOST_WAIT_MIN_NS`].
    fn await_lost(&mut self, spec: &RunSpec) {
        let wait_ns = spec.placement.lost_wait_ms.unwrap_or(0).saturating_mul(1_000_000);
        let begun_ns = self.hosts.now_ns();
        let mut hosts: Vec<&Host> = Vec::new();
        if let Some(lab) = &spec.lab {
            hosts.extend(lab.hosts());
        }
        hosts.extend(spec.client_hosts());
        for host in hosts {
            let is_new = self.hosts.take_lost_at_work(&host.name);
            let wait_ns = if is_new { wait_ns.max(LOST_WAIT_MIN_NS) } else { wait_ns };
            let until_ns = begun_ns.saturating_add(wait_ns);
            while self.hosts.loss_reason(&host.name).is_some()
                && !self.stop.load(Relaxed)
                && self.hosts.now_ns() < until_ns
            {
                self.hosts.retry_lost(&host.name);
                if self.hosts.reach_one(host).is_err() {
                    self.hosts.wait();
                }
            }
            // An agent that was lost again while reconnecting is not another loss.
            if self.hosts.loss_reason(&host.name).is_some() {
                self.hosts.take_lost_at_work(&host.name);
            }
        }
    }
}

/// Cleans up after a panic of the controller during a trial: ends the agents' work, removes their
/// files and undoes changes to hosts, so that the next trial starts from a clean state. Every step
/// runs even if another one fails. If a stale answer shows up later as the answer to another order,
/// its host loses its agent, which then undoes its changes on its own.
fn recover(hosts: &mut Hosts<'_>, group: &mut AgentGroup<'_>, panicked: &Panicked) -> TrialError {
    let settled = panicked::catch(|| group.settle(hosts).map_err(TrialError::CampaignOver));
    let ended = panicked::catch(|| group.end(hosts));
    let left = panicked::catch(|| hosts.undo_all());
    let mut reasons = vec![panicked.to_string()];
    for done in [settled, ended] {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(TrialError::CampaignOver(error))) => return TrialError::CampaignOver(error),
            Ok(Err(TrialError::Failed(why))) => reasons.push(format!("cleanup: {why}")),
            Err(again) => reasons.push(format!("cleanup: {again}")),
        }
    }
    for why in left.unwrap_or_else(|again| vec![again.to_string()]) {
        reasons.push(format!("undo: {why}"));
    }
    TrialError::Failed(reasons.join("; "))
}

#[derive(Clone, Copy)]
struct TrialDirectory<'a> {
    name: &'a str,
    /// Keep the working directory after the trial.
    keep: bool,
    /// Trial number within the campaign.
    trial: u32,
}

/// Returns the assignment for an agent that works alone.
///
/// The schedule is drawn anew for each trial, so that trials are independent samples of the
/// requested arrival process instead of repetitions of one sample.
fn assignment(spec: &RunSpec, seed: u64, workplace: TrialDirectory<'_>) -> Assignment {
    Assignment {
        spec: spec.for_agents(),
        seed,
        schedule_seed: draw(seed, u64::from(workplace.trial)),
        work_name: workplace.name.to_owned(),
        keep: workplace.keep,
        share: Share::ALL,
        joins: false,
        journal: JournalLocation::InMemory,
    }
}

/// Returns where a host's agent keeps its journal: in a file if the agent will be killed.
fn ack_journal(soak: Option<&Soak>, host: &str) -> JournalLocation {
    let Some(soak) = soak else { return JournalLocation::InMemory };
    for one in &soak.disturbances {
        if one.fault == FaultKind::ClientKill && one.host.as_deref() == Some(host) {
            return JournalLocation::InFile;
        }
    }
    JournalLocation::InMemory
}

/// The run that a trial belongs to.
#[derive(Clone, Copy)]
struct TrialOf<'s> {
    spec: &'s RunSpec,
    /// Events are reported.
    is_observed: bool,
}
