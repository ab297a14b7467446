//! One pass of a group: prepared, armed, started at one instant, accounted for, and put together.
//!
//! Every agent has done one step before any begins the next. Where there are several, their clocks
//! are held against ours right before and after, and the instant at which all start lies as far
//! ahead as every message surely arrives by. One agent starts at once, and needs no clock.

use fleet::{Done, Order, PassEnd, Report, request};
use model::{Fact, IntervalSample, Pass, RunSpec};

use crate::agent_group::AgentGroup;
use crate::clock::{FRESH_NS, Mapping, Sample};
use crate::faults::FaultSchedule;
use crate::merge::{Part, merge};
use crate::trial_error::TrialError;
use crate::{Event, Walk, setting_up, watching};

/// The least that the start lies ahead of the last message before it, in nanoseconds: longer than a
/// host that does other things, too, keeps somebody waiting.
const LEAD_MIN_NS: u64 = 10_000_000;

/// So many of the largest round trips it lies ahead.
const LEAD_ROUND_TRIPS: u64 = 4;

/// One pass of a run that a group makes.
pub(crate) struct OnePass<'p, 's> {
    /// The run, as the plan has it.
    pub(crate) spec: &'s RunSpec,
    /// The pass that is made.
    pub(crate) pass: Pass,
    /// Who makes it.
    pub(crate) group: &'p mut AgentGroup<'s>,
    /// Somebody wants to hear of it.
    pub(crate) is_observed: bool,
    /// The disturbances meanwhile.
    pub(crate) fault_schedule: FaultSchedule,
}

/// When all start, by this host's clock, and what that was reckoned with.
struct Start {
    at_ns: u64,
    /// A sample of each clock; none where one agent works alone.
    clocks: Vec<Sample>,
    round_trip_ns: u64,
}

impl OnePass<'_, '_> {
    /// Makes it; `facts` are told what hosts had in memory.
    ///
    /// # Errors
    /// When a host is lost or an agent could not obey; the group is to be settled then.
    pub(crate) fn make(
        &mut self,
        walk: &mut Walk<'_>,
        facts: &mut Vec<Fact>,
    ) -> Result<PassEnd, TrialError> {
        let Self { spec, pass, .. } = *self;
        self.group.ask_first(walk, |_| request::prepare(pass))?;
        if let Some(lab) = spec.lab.as_deref().filter(|_| pass.reads()) {
            facts.extend(setting_up::before_reading(walk, spec, lab, pass)?);
        }
        if let Some(lab) = &spec.lab {
            watching::begin(walk, lab).map_err(|why| self.without_server(walk, why))?;
        }
        self.fault_schedule.make_ready(walk, self.group.hosts());
        self.arm(walk)?;
        let mut start = self.start(walk)?;
        let worked = self.worked(walk, start.at_ns);
        let gone = self.group.remove_killed(walk);
        let all_ended = worked.is_ok();
        let (events, seen) = std::mem::take(&mut self.fault_schedule).finish(walk, all_ended);
        facts.extend(seen);
        let mut done = worked?;
        for index in gone {
            // What one that was killed did itself nobody knows.
            done.remove(index);
            if index < start.clocks.len() {
                start.clocks.remove(index);
            }
        }
        if done.is_empty() {
            return Err(TrialError::Failed(
                "no agent is left that could tell of its work".to_owned(),
            ));
        }
        let done: Vec<Vec<Done>> = done.into_iter().flatten().collect();
        let ends = self.account(walk, &done)?;
        let mut end = self.put_together(walk, ends, &start)?;
        end.result.fault_events = events;
        if let Some(lab) = &spec.lab {
            let seen = watching::end(walk, lab, &mut end.result);
            seen.map_err(|why| self.without_server(walk, why))?;
        }
        Ok(end)
    }

    /// Has all workers open what they need; where they only read, it may be another's.
    fn arm(&mut self, walk: &mut Walk<'_>) -> Result<(), TrialError> {
        let pass = self.pass;
        let places = if pass.writes() { 0 } else { self.spec.placement.neighbour };
        let shares: Vec<_> =
            (0..self.group.len()).map(|index| self.group.neighbour(index, places)).collect();
        self.group.ask_all(walk, |index| request::arm(pass, shares[index]))?;
        Ok(())
    }

    /// Lets all workers start at one instant.
    fn start(&mut self, walk: &mut Walk<'_>) -> Result<Start, TrialError> {
        let clocks = self.clocks(walk)?;
        let round_trip_ns = 2 * clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0);
        let lead_ns = LEAD_MIN_NS.max(round_trip_ns.saturating_mul(LEAD_ROUND_TRIPS));
        let at_ns = walk.hosts.now_ns().saturating_add(lead_ns);
        for index in 0..self.group.len() {
            let start_ns = clocks.get(index).map_or(0, |clock| clock.there_ns(at_ns));
            self.group.send(walk, index, Order::Go { start_ns })?;
        }
        // One agent starts at once.
        let at_ns = if self.group.is_alone() { walk.hosts.now_ns() } else { at_ns };
        Ok(Start { at_ns, clocks, round_trip_ns })
    }

    /// A sample of each clock, no older than it may be; none where one agent works alone.
    fn clocks(&mut self, walk: &mut Walk<'_>) -> Result<Vec<Sample>, TrialError> {
        if self.group.is_alone() {
            return Ok(Vec::new());
        }
        let oldest_ns = walk.hosts.now_ns().saturating_sub(FRESH_NS);
        let known = self.group.hosts().map(|host| walk.hosts.clock(host));
        let known: Option<Vec<Sample>> =
            known.map(|sample| sample.filter(|sample| sample.taken_ns() > oldest_ns)).collect();
        match known {
            Some(fresh) => Ok(fresh),
            None => self.group.samples(walk),
        }
    }

    /// Waits until the workers of all agents have ended; what each agent did, but for those that
    /// were killed as was planned.
    fn worked(
        &mut self,
        walk: &mut Walk<'_>,
        started_ns: u64,
    ) -> Result<Vec<Option<Vec<Done>>>, TrialError> {
        let Self { is_observed, fault_schedule, .. } = self;
        let is_observed = *is_observed;
        fault_schedule.start(started_ns);
        let mut live = IntervalSample { at_ns: 0, ops: 0, bytes: 0 };
        let all = 0..self.group.len();
        let alone = self.group.is_alone();
        let hosts: Vec<String> = self.group.hosts().map(str::to_owned).collect();
        let answers = self.group.answers_of_each(walk, all, &mut |walk, index, report| {
            let Report::Progress(sample) = report else { return Some(report) };
            fault_schedule.look(walk);
            if let Some(host) = hosts.get(index).filter(|_| is_observed && !alone) {
                (walk.observe)(Event::HostProgress { host, sample });
            }
            live.ops += sample.ops;
            live.bytes += sample.bytes;
            // The pace is that of the first one.
            if index == 0 && is_observed {
                let so_far = IntervalSample { at_ns: sample.at_ns, ..live };
                (walk.observe)(Event::Progress(so_far));
                (live.ops, live.bytes) = (0, 0);
            }
            None
        })?;
        let (_, go) = request::go(0).into_parts();
        let mut done = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let read = |report| self.group.read_answer(walk, index, &go, report);
            done.push(answer.map(read).transpose()?);
        }
        Ok(done)
    }

    /// Has all agents count and tell; the first one, for all where only one can.
    fn account(
        &mut self,
        walk: &mut Walk<'_>,
        done: &[Vec<Done>],
    ) -> Result<Vec<PassEnd>, TrialError> {
        let others = |index| if index == 0 { done[1..].concat() } else { Vec::new() };
        self.group.ask_all(walk, |index| request::account(others(index)))
    }

    /// Makes one pass of what all agents told.
    fn put_together(
        &mut self,
        walk: &mut Walk<'_>,
        mut ends: Vec<PassEnd>,
        start: &Start,
    ) -> Result<PassEnd, TrialError> {
        if self.group.is_alone() {
            let mut end = ends.remove(0);
            if let Some(host) = self.group.hosts().next() {
                end.result.telemetry.iter_mut().for_each(|seen| host.clone_into(&mut seen.host));
            }
            return Ok(end);
        }
        let after = self.group.samples(walk)?;
        let parts = ends.into_iter().zip(self.group.hosts_and_shares()).enumerate();
        let parts = parts.map(|(index, (end, (host, share)))| Part {
            host: host.to_owned(),
            workers: share.count,
            end,
            // There is a sample of each agent that is left, before as after.
            clock: Mapping { before: start.clocks[index], after: after[index] },
        });
        let planned_ns = start.at_ns.saturating_add(self.spec.warmup_ns());
        Ok(merge(self.spec, parts.collect(), planned_ns, start.round_trip_ns))
    }

    /// Leaves the hosts that work: whoever waits for a server that is gone waits for long.
    fn without_server(&mut self, walk: &mut Walk<'_>, why: String) -> TrialError {
        self.group.leave(walk);
        TrialError::Failed(why)
    }
}
