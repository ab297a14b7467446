//! One pass of an agent group: prepare, arm, start, account, merge.
//!
//! All agents must finish one step before any of them begins the next. If there are several agents,
//! their clocks are compared with ours right before and after the pass, and the common start is far
//! enough in the future that every message arrives in time. A single agent starts at once and needs
//! no clock.

use std::sync::atomic::AtomicBool;

use fleet::clock::{FRESH_NS, Mapping, Sample};
use fleet::{KindTotals, Order, PassEnd, Report, request};
use model::{Caveat, CaveatCode, Fact, IntervalSample, Pass, RunSpec};

use crate::Event;
use crate::error::TrialError;
use crate::hosts::Hosts;
use crate::trial::agent_group::AgentGroup;
use crate::trial::faults::FaultSchedule;
use crate::trial::merge::{AgentPass, merge};
use crate::trial::system_counts::{self, Counts};
use crate::trial::{server_telemetry, setup, write_back};

/// Minimum time between the last message and the start, in nanoseconds. Longer than a busy host
/// takes to schedule a thread.
const LEAD_MIN_NS: u64 = 10_000_000;

/// Number of longest round trips before the start: one for the order itself, the others in case a
/// message is queued.
const LEAD_ROUND_TRIPS: u64 = 4;

/// A pass of a run that a group executes.
pub(crate) struct OnePass<'p, 's> {
    /// The run as in the plan.
    pub(crate) spec: &'s RunSpec,
    pub(crate) pass: Pass,
    pub(crate) group: &'p mut AgentGroup<'s>,
    /// Set by the caller to stop the campaign.
    pub(crate) stop: &'p AtomicBool,
    /// Gets the progress of the pass, unless it belongs to no campaign.
    pub(crate) observe: Option<&'p mut dyn FnMut(Event<'_>)>,
    /// Faults to inject during the pass.
    pub(crate) fault_schedule: FaultSchedule<'p>,
}

/// The common start by the local clock, and the samples from which it was computed.
pub(super) struct Start {
    at_ns: u64,
    /// One sample per agent; may be empty if there is only one agent.
    pub(super) clocks: Vec<Sample>,
    round_trip_ns: u64,
}

impl Start {
    /// Creates the start of a group whose clocks were just sampled, before its instant is known.
    pub(super) fn sampled(clocks: Vec<Sample>) -> Self {
        // A sample is wrong by at most half of its round trip.
        let error_ns = clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0);
        Self { at_ns: 0, clocks, round_trip_ns: error_ns.saturating_mul(2) }
    }

    /// Returns how far ahead the start must be for the order to reach the slowest agent.
    pub(super) fn lead_ns(&self) -> u64 {
        LEAD_MIN_NS.max(self.round_trip_ns.saturating_mul(LEAD_ROUND_TRIPS))
    }
}

/// The caveat of a system whose recipe its authors have never tried.
fn untried_recipe(spec: &RunSpec) -> Option<Caveat> {
    let recipe = &spec.lab.as_ref()?.system.as_ref()?.recipe;
    if recipe.not_tried.is_empty() {
        return None;
    }
    let evidence = format!("{}: {} (not_tried of the recipe)", recipe.name, recipe.not_tried);
    Some(CaveatCode::RecipeNotTried.because(evidence))
}

impl OnePass<'_, '_> {
    /// Runs the pass. Adds what hosts had cached to `facts`.
    ///
    /// # Errors
    /// If a host is lost or an agent could not carry out an order. The group must be settled
    /// afterwards.
    pub(crate) fn make(
        &mut self,
        hosts: &mut Hosts<'_>,
        facts: &mut Vec<Fact>,
    ) -> Result<PassEnd, TrialError> {
        let Self { spec, pass, .. } = *self;
        self.prepare(hosts)?;
        let mut caveats = Vec::new();
        if let Some(lab) = spec.lab.as_deref() {
            caveats.extend(write_back::settle(hosts, self.stop, lab)?);
            let (seen, not_evicted) = setup::before_pass(hosts, self.stop, spec, lab, pass)?;
            facts.extend(seen);
            caveats.extend(not_evicted);
        }
        let mut counted = Counts::new();
        if let Some(lab) = &spec.lab {
            let read = system_counts::read(hosts, lab);
            counted = read.map_err(|why| self.without_server(hosts, why))?;
            server_telemetry::begin(hosts, lab).map_err(|why| self.without_server(hosts, why))?;
        }
        self.fault_schedule.make_ready(hosts, &self.group.hosts());
        self.arm(hosts)?;
        let start = self.start(hosts)?;
        let started_ns = start.at_ns.saturating_add(spec.warmup_ns());
        let mut end = self.finish(hosts, facts, start)?;
        end.result.caveats.extend(caveats);
        if let Some(lab) = &spec.lab {
            let seen = server_telemetry::end(hosts, lab, &mut end.result);
            seen.map_err(|why| self.without_server(hosts, why))?;
            let read = system_counts::read(hosts, lab);
            let after = read.map_err(|why| self.without_server(hosts, why))?;
            system_counts::compare(spec, &counted, &after, &mut end.result);
            let ended_ns = started_ns.saturating_add(end.result.window_ns);
            let drained = write_back::drain(hosts, self.stop, lab, ended_ns, &mut end.result);
            drained.map_err(|why| self.without_server(hosts, why))?;
        }
        Ok(end)
    }

    /// Makes all agents create what the pass expects to find.
    pub(super) fn prepare(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        let pass = self.pass;
        self.group.ask_first(hosts, |_| request::prepare(pass))?;
        Ok(())
    }

    /// Waits until the workers have finished, and merges the reports of their agents.
    pub(super) fn finish(
        &mut self,
        hosts: &mut Hosts<'_>,
        facts: &mut Vec<Fact>,
        mut start: Start,
    ) -> Result<PassEnd, TrialError> {
        let worked = self.await_workers(hosts, start.at_ns);
        let gone = self.group.remove_killed(hosts);
        let mut fault_schedule = std::mem::take(&mut self.fault_schedule);
        if worked.is_ok() {
            // No workers are running anymore, so waiting for the hosts is safe.
            fault_schedule.await_ends(hosts);
        }
        let (events, seen) = fault_schedule.finish(hosts);
        facts.extend(seen);
        let mut done = worked?;
        for index in gone {
            // A killed agent's counts are lost; the pass consists of the remaining agents.
            done.remove(index);
            if index < start.clocks.len() {
                start.clocks.remove(index);
            }
        }
        if done.is_empty() {
            return Err(TrialError::Failed(
                "all agents are gone, so no work was reported".to_owned(),
            ));
        }
        let ends = self.account(hosts, done)?;
        let mut end = self.merge_ends(hosts, ends, &start)?;
        end.result.fault_events = events;
        end.result.caveats.extend(untried_recipe(self.spec));
        Ok(end)
    }

    /// Makes all workers open their files. In a pass that only reads, these may belong to a
    /// different agent.
    pub(super) fn arm(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        let pass = self.pass;
        // A pass that writes must write the files of its own share, because the next pass may read
        // them.
        let distance = if pass.writes() { 0 } else { self.spec.placement.neighbour };
        let shares: Vec<_> =
            (0..self.group.len()).map(|index| self.group.neighbour(index, distance)).collect();
        self.group.ask_all(hosts, |index| request::arm(pass, shares[index]))?;
        Ok(())
    }

    /// Tells all workers to start at the same instant.
    ///
    /// All of them are waiting by now, each for an instant of its own host's clock. This instant is
    /// far enough ahead for the order to reach the slowest agent, but close enough that clock drift
    /// doesn't matter. An agent that gets its order too late starts at once, which shows up as
    /// skew.
    fn start(&mut self, hosts: &mut Hosts<'_>) -> Result<Start, TrialError> {
        let start = Start::sampled(self.clocks(hosts)?);
        let at_ns = hosts.now_ns().saturating_add(start.lead_ns());
        self.start_at(hosts, start, at_ns)
    }

    /// Tells all workers to start at an instant of our clock.
    pub(super) fn start_at(
        &mut self,
        hosts: &mut Hosts<'_>,
        start: Start,
        at_ns: u64,
    ) -> Result<Start, TrialError> {
        for index in 0..self.group.len() {
            // A single agent gets an instant in the past and starts at once.
            let start_ns = start.clocks.get(index).map_or(0, |clock| clock.there_ns(at_ns));
            self.group.send(hosts, index, Order::Go { start_ns })?;
        }
        let at_ns = if start.clocks.is_empty() { hosts.now_ns() } else { at_ns };
        Ok(Start { at_ns, ..start })
    }

    /// Returns a fresh sample of each clock, or nothing if there is only one agent.
    fn clocks(&mut self, hosts: &mut Hosts<'_>) -> Result<Vec<Sample>, TrialError> {
        if self.group.is_alone() {
            return Ok(Vec::new());
        }
        let oldest_ns = hosts.now_ns().saturating_sub(FRESH_NS);
        let fresh: Vec<_> = self
            .group
            .hosts()
            .into_iter()
            .filter_map(|host| hosts.latest_clock(host))
            .filter(|sample| sample.taken_ns() > oldest_ns)
            .collect();
        // If one sample is too old, read all clocks again, which takes no longer than reading one.
        if fresh.len() < self.group.len() {
            return self.group.sample_clocks(hosts);
        }
        Ok(fresh)
    }

    /// Waits until the workers of all agents have finished. Returns the work of each agent, or
    /// `None` for those that were killed as planned.
    fn await_workers(
        &mut self,
        hosts: &mut Hosts<'_>,
        started_ns: u64,
    ) -> Result<Vec<Option<Vec<KindTotals>>>, TrialError> {
        let Self { group, observe, fault_schedule, .. } = self;
        fault_schedule.start(started_ns);
        let mut live = IntervalSample { at_ns: 0, ops: 0, bytes: 0 };
        let all = 0..group.len();
        let alone = group.is_alone();
        let names: Vec<String> = group.hosts().into_iter().map(str::to_owned).collect();
        let answers = group.answers_of_each(hosts, all, &mut |hosts, index, report| {
            let Report::Progress(sample) = report else { return Some(report) };
            // Agents report ten times a second, which is often enough to begin and end faults.
            fault_schedule.follow(hosts);
            let observe = observe.as_deref_mut()?;
            if let Some(host) = names.get(index)
                && !alone
            {
                observe(Event::HostProgress { host, sample });
            }
            live.ops = live.ops.saturating_add(sample.ops);
            live.bytes = live.bytes.saturating_add(sample.bytes);
            // The observer gets a combined sample whenever the first agent reports. The samples of
            // the others arrive at different times and have no particular order.
            if index == 0 {
                let so_far = IntervalSample { at_ns: sample.at_ns, ..live };
                observe(Event::Progress(so_far));
                live.ops = 0;
                live.bytes = 0;
            }
            None
        })?;
        let (_, go) = request::go(0).into_parts();
        let mut done = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            done.push(
                answer.map(|report| group.read_answer(hosts, index, &go, report)).transpose()?,
            );
        }
        Ok(done)
    }

    /// Makes each agent account for its ops and report the pass. Files that belong to no single
    /// agent are counted by the first agent, which therefore needs to know the work of the others.
    fn account(
        &mut self,
        hosts: &mut Hosts<'_>,
        done: Vec<Option<Vec<KindTotals>>>,
    ) -> Result<Vec<PassEnd>, TrialError> {
        let others: Vec<_> = done.into_iter().skip(1).flat_map(Option::unwrap_or_default).collect();
        self.group.ask_all(hosts, |index| {
            request::account(if index == 0 { others.clone() } else { Vec::new() })
        })
    }

    /// Merges the reports of all agents into one.
    fn merge_ends(
        &mut self,
        hosts: &mut Hosts<'_>,
        ends: Vec<PassEnd>,
        start: &Start,
    ) -> Result<PassEnd, TrialError> {
        self.check_all_reported(&ends)?;
        if self.group.is_alone() {
            return self.name_host(ends);
        }
        let after = self.group.sample_clocks(hosts)?;
        let mut parts = Vec::with_capacity(ends.len());
        for (index, end) in ends.into_iter().enumerate() {
            let share = self.group.neighbour(index, 0);
            let host = self.group.hosts().get(index).copied().unwrap_or_default().to_owned();
            let (Some(before), Some(after)) = (start.clocks.get(index), after.get(index)) else {
                return Err(TrialError::Failed(format!("the clock of host {host} is not known")));
            };
            // Interpolating between a sample before and one after the pass keeps clock drift from
            // looking like skew between hosts.
            let clock = Mapping { before: *before, after: *after };
            parts.push(AgentPass { host, workers: share.count, end, clock });
        }
        let planned_ns = start.at_ns.saturating_add(self.spec.warmup_ns());
        Ok(merge(self.spec, parts, planned_ns, start.round_trip_ns))
    }

    /// Checks that no agent was killed while accounting. It would have no answer, so the answers of
    /// later agents would be at the wrong index.
    fn check_all_reported(&self, ends: &[PassEnd]) -> Result<(), TrialError> {
        if ends.len() == self.group.len() {
            return Ok(());
        }
        Err(TrialError::Failed(format!(
            "only {} of {} agents reported their work (hint: choose a time within the pass for the \
             kill)",
            ends.len(),
            self.group.len()
        )))
    }

    /// Returns the only agent's pass, after adding its host name to the telemetry.
    fn name_host(&self, ends: Vec<PassEnd>) -> Result<PassEnd, TrialError> {
        let Some(mut end) = ends.into_iter().next() else {
            return Err(TrialError::Failed("the agent did not report its pass".to_owned()));
        };
        if let Some(host) = self.group.hosts().first() {
            for telemetry in &mut end.result.telemetry {
                (*host).clone_into(&mut telemetry.host);
            }
        }
        Ok(end)
    }

    /// Disconnects from the working hosts and returns the error. Their agents are waiting for a
    /// server that is gone and would not answer for a long time.
    fn without_server(&mut self, hosts: &mut Hosts<'_>, why: String) -> TrialError {
        self.group.leave(hosts);
        TrialError::Failed(why)
    }
}

#[cfg(test)]
mod tests {
    use model::{PassResult, Span, Workload};

    use super::*;

    fn one_pass<'p, 's>(
        spec: &'s RunSpec,
        stop: &'p AtomicBool,
        group: &'p mut AgentGroup<'s>,
    ) -> OnePass<'p, 's> {
        let fault_schedule = FaultSchedule::default();
        OnePass { spec, pass: Pass::Read, group, stop, observe: None, fault_schedule }
    }

    fn reported() -> PassEnd {
        PassEnd {
            result: PassResult::new(Pass::Read),
            facts: Vec::new(),
            broken: None,
            span: Span::default(),
            timeline: Vec::new(),
        }
    }

    fn reason<T>(done: Result<T, TrialError>) -> String {
        match done {
            Err(TrialError::Failed(why)) => why,
            _ => panic!("expected a failed trial"),
        }
    }

    #[test]
    fn fails_trial_without_answer() {
        let spec = RunSpec::null(Workload::Stream);
        let mut group = AgentGroup::new(&spec);
        let stop = AtomicBool::new(false);
        let pass = one_pass(&spec, &stop, &mut group);
        let silent = reason(pass.name_host(Vec::new()));
        let missing = reason(pass.check_all_reported(&[]));
        insta::assert_snapshot!([silent, missing].join("\n"), @"
        the agent did not report its pass
        only 0 of 1 agents reported their work (hint: choose a time within the pass for the kill)
        ");
        assert!(pass.check_all_reported(&[reported()]).is_ok());
        assert!(pass.name_host(vec![reported()]).is_ok());
    }
}
