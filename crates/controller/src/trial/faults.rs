//! Injects the faults of a soak while a pass is running, and reverts them.
//!
//! A [`FaultSchedule`] is checked whenever an agent reports progress, ten times a second. The
//! server in this process gets its faults through a [`FaultInjector`]. A host gets orders as for
//! any other change, so its undo log is written to disk first. A host with running workers answers
//! in between checking on them, so we don't wait for it. A fault that cannot be injected is
//! recorded, and the soak continues without it.

use std::collections::VecDeque;

use fleet::{Order, request};
use model::soak::{Disturbance, FaultEvent, FaultKind};
use model::{Action, Fact, LabSpec, LabStep, Pass, RunSpec, action};

use crate::hosts::applied_steps::on_host;
use crate::hosts::{DisturbanceAnswer, Hosts};

/// A fault that has not begun yet.
struct Scheduled {
    /// When to begin, in nanoseconds from the start of the pass.
    at_ns: u64,
    disturbance: Disturbance,
}

/// The faults of one pass.
#[derive(Default)]
pub(crate) struct FaultSchedule<'a> {
    /// Injects faults into the server in this process, if there is one.
    inject: Option<&'a FaultInjector<'a>>,
    /// Faults that have not begun, in order of time.
    scheduled: VecDeque<Scheduled>,
    /// Faults that have begun and are not over.
    open: Vec<Open>,
    /// How the run's hosts are set up, if they are.
    lab: Option<Box<LabSpec>>,
    /// Hosts with running workers, which we must not wait for.
    working: Vec<String>,
    events: Vec<FaultEvent>,
    /// Facts that the hosts reported about the faults.
    facts: Vec<Fact>,
    started_ns: u64,
}

/// A fault that is not over.
struct Open {
    /// Index in [`FaultSchedule::events`].
    index: usize,
    /// When the fault ends, in nanoseconds from the start of the pass.
    end_ns: u64,
    phase: Phase,
}

/// State of a fault, with its host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// In the server of this process, which ends the fault on its own.
    EndsByItself,
    /// Injected on a host without workers; an order reverts it.
    Applied(String),
    /// Sent to a host with workers, which has not answered yet.
    Sent(String),
    /// Injected on a host with workers.
    Begun(String),
    /// The order to revert it was sent to a host with workers, which has not answered yet.
    Reverting(String),
    /// The agent of a host was killed. This lasts until the end of the pass.
    Killed(String),
}

impl<'a> FaultSchedule<'a> {
    /// Returns the faults of a pass in one segment.
    pub(crate) fn new(
        spec: &RunSpec,
        pass: Pass,
        segment: u32,
        inject: Option<&'a FaultInjector<'a>>,
    ) -> Self {
        let mut scheduled = Vec::new();
        if let Some(soak) = spec.soak.as_deref()
            && pass == Pass::Mix
        {
            for (at_ns, one) in soak.within(segment.into()) {
                scheduled.push(Scheduled { at_ns, disturbance: one.clone() });
            }
        }
        scheduled.sort_by_key(|one| one.at_ns);
        Self { inject, scheduled: scheduled.into(), lab: spec.lab.clone(), ..Self::default() }
    }

    /// Opens the hosts with workers whose clock will be changed, because we cannot wait for them
    /// once their workers are running. If one cannot be opened, the error is reported when its
    /// fault begins.
    pub(crate) fn make_ready(&mut self, hosts: &mut Hosts<'_>, working: &[&str]) {
        for host in working {
            self.working.push((*host).to_owned());
        }
        for Scheduled { disturbance, .. } in &self.scheduled {
            if let Some(host) = &disturbance.host
                && disturbance.fault == FaultKind::ClockStep
                && self.working.contains(host)
            {
                let _ = hosts.open_one(host);
            }
        }
    }

    /// Records the start of the pass, by the local clock.
    pub(crate) const fn start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    /// Begins the faults that are due and ends those that are over.
    pub(crate) fn follow(&mut self, hosts: &mut Hosts<'_>) {
        let now_ns = self.now_ns(hosts);
        self.take_answers(hosts);
        self.end_until(hosts, now_ns);
        while let Some(next) = self.scheduled.front()
            && next.at_ns <= now_ns
            && let Some(next) = self.scheduled.pop_front()
        {
            self.begin(hosts, next.at_ns, &next.disturbance);
        }
    }

    /// Ends the remaining faults and waits for the answers of their hosts. Call this only when no
    /// workers are running anymore.
    pub(crate) fn await_ends(&mut self, hosts: &mut Hosts<'_>) {
        self.end_until(hosts, u64::MAX);
        self.take_answers(hosts);
        while let Some(host) = self.first_awaited() {
            let answer = match hosts.await_disturbed(&host) {
                Ok(answer) => answer,
                Err(why) => DisturbanceAnswer { host, at_ns: self.started_ns, answer: Err(why) },
            };
            self.take_answer(answer);
            // A fault that had only been sent has begun by now; revert it at once.
            self.end_until(hosts, u64::MAX);
        }
    }

    /// Ends the remaining faults and returns all of them, with the facts from the hosts. Doesn't
    /// wait for hosts whose workers are still running.
    pub(crate) fn finish(mut self, hosts: &mut Hosts<'_>) -> (Vec<FaultEvent>, Vec<Fact>) {
        self.end_until(hosts, u64::MAX);
        self.take_answers(hosts);
        for Open { index, phase, .. } in std::mem::take(&mut self.open) {
            let event = &mut self.events[index];
            let Phase::Killed(host) = phase else {
                event.failed =
                    Some("its host did not report whether the fault was undone".to_owned());
                continue;
            };
            match hosts.killed_at_ns(&host) {
                Some(at_ns) => event.ended_ns = Some(at_ns.saturating_sub(self.started_ns)),
                None => event.failed = Some("its workers had already finished".to_owned()),
            }
        }
        (self.events, self.facts)
    }

    /// Returns the host of the first fault that is waiting for an answer.
    fn first_awaited(&self) -> Option<String> {
        self.open.iter().find_map(|open| match &open.phase {
            Phase::Sent(host) | Phase::Reverting(host) => Some(host.clone()),
            _ => None,
        })
    }

    fn begin(&mut self, hosts: &mut Hosts<'_>, planned_ns: u64, one: &Disturbance) {
        let injected = self.inject(hosts, one);
        let begun_ns = self.now_ns(hosts);
        let mut event = FaultEvent {
            fault: one.fault,
            host: one.host.clone().unwrap_or_default(),
            planned_ns,
            begun_ns,
            ended_ns: None,
            failed: None,
        };
        match injected {
            Ok(phase) => {
                event.host = phase.host().cloned().unwrap_or_default();
                let lasts_ns = one.lasts_ms.saturating_mul(1_000_000);
                let end_ns = begun_ns.saturating_add(lasts_ns);
                self.open.push(Open { index: self.events.len(), end_ns, phase });
            }
            Err(why) => event.failed = Some(why),
        }
        self.events.push(event);
    }

    /// Injects a fault, or sends it to its host.
    fn inject(&mut self, hosts: &mut Hosts<'_>, one: &Disturbance) -> Result<Phase, String> {
        match (one.fault, &one.host) {
            (FaultKind::ClientKill, Some(host)) => {
                hosts.kill_agent(host)?;
                return Ok(Phase::Killed(host.clone()));
            }
            (FaultKind::ClockStep, Some(host)) => {
                let step = action::ClockStep { by_ms: one.by_ms, not_boot: lab::boot_id() };
                let action = Action::ClockStep(step);
                if self.working.contains(host) {
                    hosts.send(host, Order::Disturb(Box::new(action)))?;
                    return Ok(Phase::Sent(host.clone()));
                }
                return self.apply(hosts, LabStep { host: host.clone(), action });
            }
            _ => {}
        }
        if let (Some(inject), None, None) = (self.inject, &self.lab, &one.host) {
            inject(one.fault, one.lasts_ms)?;
            return Ok(Phase::EndsByItself);
        }
        let Some(lab) = &self.lab else {
            return Err(format!("no host is available for {}", one.fault));
        };
        let step = lab::disturbance(lab, one.fault)?;
        self.apply(hosts, step)
    }

    /// Injects a fault on a host without workers.
    fn apply(&mut self, hosts: &mut Hosts<'_>, step: LabStep) -> Result<Phase, String> {
        let LabStep { host, action } = step;
        let effective = hosts.ask(&host, request::apply(action))?;
        self.facts.extend(on_host(&host, effective.facts));
        Ok(Phase::Applied(host))
    }

    /// Handles answers that have arrived from hosts with workers.
    fn take_answers(&mut self, hosts: &mut Hosts<'_>) {
        while let Some(answer) = hosts.take_disturbed() {
            self.take_answer(answer);
        }
    }

    /// Handles one answer. It belongs to the last order sent to its host, since a host has at most
    /// one pending. An answer that nobody waits for is dropped.
    fn take_answer(&mut self, DisturbanceAnswer { host, at_ns, answer }: DisturbanceAnswer) {
        let mut awaited = None;
        for (at, open) in self.open.iter().enumerate() {
            if let Phase::Sent(other) | Phase::Reverting(other) = &open.phase
                && *other == host
            {
                awaited = Some(at);
                break;
            }
        }
        let Some(at) = awaited else { return };
        let at_ns = at_ns.saturating_sub(self.started_ns);
        let Open { index, end_ns, phase } = self.open.remove(at);
        let event = &mut self.events[index];
        match (phase, answer) {
            (Phase::Sent(_), Ok(effective)) => {
                // Count the planned duration from when the fault began, not from when it was sent.
                let lasts_ns = end_ns.saturating_sub(event.begun_ns);
                event.begun_ns = at_ns;
                self.facts.extend(on_host(&host, effective.facts));
                let end_ns = at_ns.saturating_add(lasts_ns);
                self.open.push(Open { index, end_ns, phase: Phase::Begun(host) });
            }
            (Phase::Sent(_), Err(why)) => event.failed = Some(why),
            (_, Ok(_)) => event.ended_ns = Some(at_ns),
            (_, Err(why)) => event.failed = Some(format!("the fault could not be undone: {why}")),
        }
    }

    /// Ends the faults that are over at `now_ns`, the latest first.
    fn end_until(&mut self, hosts: &mut Hosts<'_>, now_ns: u64) {
        let mut over = Vec::new();
        for open in std::mem::take(&mut self.open) {
            if open.phase.can_end() && open.end_ns <= now_ns {
                over.push(open);
            } else {
                self.open.push(open);
            }
        }
        for one in over.into_iter().rev() {
            let reverted = match &one.phase {
                Phase::Begun(host) => match hosts.send(host, Order::EndDisturbance) {
                    Ok(()) => {
                        // It is over once the host has answered.
                        let phase = Phase::Reverting(host.clone());
                        self.open.push(Open { phase, ..one });
                        continue;
                    }
                    Err(why) => Err(why),
                },
                Phase::Applied(host) => hosts.ask(host, request::undo_last()),
                _ => Ok(()),
            };
            let now_ns = self.now_ns(hosts);
            let event = &mut self.events[one.index];
            match reverted {
                Ok(()) if one.phase == Phase::EndsByItself => {
                    event.ended_ns = Some(one.end_ns.min(now_ns));
                }
                Ok(()) => event.ended_ns = Some(now_ns),
                Err(why) => event.failed = Some(format!("the fault could not be undone: {why}")),
            }
        }
    }

    fn now_ns(&self, hosts: &Hosts<'_>) -> u64 {
        hosts.now_ns().saturating_sub(self.started_ns)
    }
}

impl Phase {
    /// Returns the host of the fault, or `None` for this process.
    const fn host(&self) -> Option<&String> {
        match self {
            Self::EndsByItself => None,
            Self::Applied(host)
            | Self::Sent(host)
            | Self::Begun(host)
            | Self::Reverting(host)
            | Self::Killed(host) => Some(host),
        }
    }

    /// Returns true if the fault can be ended now.
    const fn can_end(&self) -> bool {
        matches!(self, Self::EndsByItself | Self::Applied(_) | Self::Begun(_))
    }
}

/// Injects a fault into the server in this process, for a duration in milliseconds.
pub type FaultInjector<'a> = dyn Fn(FaultKind, u64) -> Result<(), String> + 'a;
