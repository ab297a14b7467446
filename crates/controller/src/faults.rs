//! Injects the faults of a soak while a pass of it runs, and reverts them.
//!
//! A [`FaultSchedule`] is looked at whenever an agent reports its progress, ten times a second. The
//! server in this process gets its faults by [`Walk::inject_fault`]; a host gets orders as for all
//! that is done to it, so the undo log is on its disk first. A host that works answers between its
//! looks at its workers, and is not waited for. A fault that can't be injected is noted and ends
//! nothing: the soak goes on without it.

use std::collections::VecDeque;

use fleet::{Order, request};
use model::soak::{Disturbance, FaultEvent, FaultKind};
use model::{Action, Fact, LabSpec, LabStep, Pass, RunSpec, action};

use crate::Walk;
use crate::applied_steps::on_host;
use crate::hosts::Disturbed;

/// A fault that has not begun.
struct Scheduled {
    /// When it is to begin, in nanoseconds from the start of the pass.
    at_ns: u64,
    disturbance: Disturbance,
}

/// The faults of one pass.
#[derive(Default)]
pub(crate) struct FaultSchedule {
    /// Those that have not begun, in the order of time.
    scheduled: VecDeque<Scheduled>,
    /// Those that have begun and are not over.
    open: Vec<Open>,
    /// How the run's hosts are set up, where they are.
    lab: Option<Box<LabSpec>>,
    /// The hosts that work, which can't be waited for.
    working: Vec<String>,
    events: Vec<FaultEvent>,
    /// Facts that the hosts read back.
    facts: Vec<Fact>,
    started_ns: u64,
}

/// A fault that is not over.
struct Open {
    /// Its place in [`FaultSchedule::events`].
    index: usize,
    /// When it ends, in nanoseconds from the start of the pass.
    end_ns: u64,
    phase: Phase,
}

/// The progress of a fault, and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The server in this process ends it by itself.
    EndsByItself,
    /// It is injected on a host without workers, and an order reverts it.
    Applied(String),
    /// It was sent to a host with workers, which has not answered.
    Sent(String),
    /// It is injected on a host with workers.
    Begun(String),
    /// The order to revert it was sent to a host with workers, which has not answered.
    Reverting(String),
    /// The agent of a host was killed, which ends with the pass.
    Killed(String),
}

impl FaultSchedule {
    /// Returns the faults of a pass in one segment.
    pub(crate) fn of(spec: &RunSpec, pass: Pass, segment: u32) -> Self {
        let mut scheduled = Vec::new();
        if let Some(soak) = spec.soak.as_deref()
            && pass == Pass::Mix
        {
            for (at_ns, one) in soak.within(segment.into()) {
                scheduled.push(Scheduled { at_ns, disturbance: one.clone() });
            }
        }
        scheduled.sort_by_key(|one| one.at_ns);
        Self { scheduled: scheduled.into(), lab: spec.lab.clone(), ..Self::default() }
    }

    /// Opens those hosts that work and whose clock is to be changed meanwhile: once they work, they
    /// could not be waited for. One that can't be opened says so when its fault is to begin.
    pub(crate) fn make_ready(&mut self, walk: &mut Walk<'_>, working: &[&str]) {
        for host in working {
            self.working.push((*host).to_owned());
        }
        for Scheduled { disturbance, .. } in &self.scheduled {
            if let Some(host) = &disturbance.host
                && disturbance.fault == FaultKind::ClockStep
                && self.working.contains(host)
            {
                let _ = walk.hosts.open_one(host);
            }
        }
    }

    /// Notes when the pass began, by this host's clock.
    pub(crate) const fn start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    /// Begins the faults whose time has come, and ends those that are over.
    pub(crate) fn follow(&mut self, walk: &mut Walk<'_>) {
        let now_ns = self.now_ns(walk);
        self.take_answers(walk);
        self.end_until(walk, now_ns);
        while let Some(next) = self.scheduled.front()
            && next.at_ns <= now_ns
            && let Some(next) = self.scheduled.pop_front()
        {
            self.begin(walk, next.at_ns, &next.disturbance);
        }
    }

    /// Ends the faults that are not over yet and waits for the hosts that were ordered to: for when
    /// none works any more.
    pub(crate) fn await_ends(&mut self, walk: &mut Walk<'_>) {
        self.end_until(walk, u64::MAX);
        self.take_answers(walk);
        while let Some(host) = self.first_awaited() {
            let answer = match walk.hosts.await_disturbed(&host) {
                Ok(answer) => answer,
                Err(why) => Disturbed { host, at_ns: self.started_ns, answer: Err(why) },
            };
            self.take_answer(answer);
            // A fault that had only been sent has begun by now, and is reverted at once.
            self.end_until(walk, u64::MAX);
        }
    }

    /// Ends the faults that are not over yet, and returns all of them, with what hosts read back;
    /// without an answer of those that still work.
    pub(crate) fn finish(mut self, walk: &mut Walk<'_>) -> (Vec<FaultEvent>, Vec<Fact>) {
        self.end_until(walk, u64::MAX);
        self.take_answers(walk);
        for Open { index, phase, .. } in std::mem::take(&mut self.open) {
            let event = &mut self.events[index];
            let Phase::Killed(host) = phase else {
                event.failed = Some("its host did not report whether it was undone".to_owned());
                continue;
            };
            match walk.hosts.killed_at_ns(&host) {
                Some(at_ns) => event.ended_ns = Some(at_ns.saturating_sub(self.started_ns)),
                None => event.failed = Some("its work was over before".to_owned()),
            }
        }
        (self.events, self.facts)
    }

    /// The host of the first fault that has yet to be answered.
    fn first_awaited(&self) -> Option<String> {
        for open in &self.open {
            if let Phase::Sent(host) | Phase::Reverting(host) = &open.phase {
                return Some(host.clone());
            }
        }
        None
    }

    fn begin(&mut self, walk: &mut Walk<'_>, planned_ns: u64, one: &Disturbance) {
        let injected = self.inject(walk, one);
        let begun_ns = self.now_ns(walk);
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

    /// Injects a fault, or sends it to the host that does.
    fn inject(&mut self, walk: &mut Walk<'_>, one: &Disturbance) -> Result<Phase, String> {
        match (one.fault, &one.host) {
            (FaultKind::ClientKill, Some(host)) => {
                walk.hosts.kill_agent(host)?;
                return Ok(Phase::Killed(host.clone()));
            }
            (FaultKind::ClockStep, Some(host)) => {
                let step = action::ClockStep { by_ms: one.by_ms, not_boot: lab::boot_id() };
                let action = Action::ClockStep(step);
                if self.working.contains(host) {
                    walk.hosts.send(host, Order::Disturb(Box::new(action)))?;
                    return Ok(Phase::Sent(host.clone()));
                }
                return self.apply(walk, LabStep { host: host.clone(), action });
            }
            _ => {}
        }
        if let (Some(inject), None, None) = (walk.inject_fault, &self.lab, &one.host) {
            inject(one.fault, one.lasts_ms)?;
            return Ok(Phase::EndsByItself);
        }
        let Some(lab) = &self.lab else {
            return Err(format!("there is no host to which {} can be done", one.fault));
        };
        let step = lab::disturbance(lab, one.fault)?;
        self.apply(walk, step)
    }

    /// Injects a fault on a host that does not work.
    fn apply(&mut self, walk: &mut Walk<'_>, step: LabStep) -> Result<Phase, String> {
        let LabStep { host, action } = step;
        let effective = walk.hosts.ask(&host, request::apply(action))?;
        self.facts.extend(on_host(&host, effective.facts));
        Ok(Phase::Applied(host))
    }

    /// Handles the answers that hosts with workers have sent.
    fn take_answers(&mut self, walk: &mut Walk<'_>) {
        while let Some(answer) = walk.hosts.take_disturbed() {
            self.take_answer(answer);
        }
    }

    /// Takes one answer: it is that to the order that its host was sent last, since a host has one
    /// at most. An answer that no order waits for is dropped.
    fn take_answer(&mut self, Disturbed { host, at_ns, answer }: Disturbed) {
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
                // It lasts as long as was planned from when it began, not from when it was sent.
                let lasts_ns = end_ns.saturating_sub(event.begun_ns);
                event.begun_ns = at_ns;
                self.facts.extend(on_host(&host, effective.facts));
                let end_ns = at_ns.saturating_add(lasts_ns);
                self.open.push(Open { index, end_ns, phase: Phase::Begun(host) });
            }
            (Phase::Sent(_), Err(why)) => event.failed = Some(why),
            (_, Ok(_)) => event.ended_ns = Some(at_ns),
            (_, Err(why)) => event.failed = Some(format!("it could not be undone: {why}")),
        }
    }

    /// Ends the faults that are over at an instant, those that began last first.
    fn end_until(&mut self, walk: &mut Walk<'_>, now_ns: u64) {
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
                Phase::Begun(host) => match walk.hosts.send(host, Order::EndDisturbance) {
                    Ok(()) => {
                        // Over once the host has answered.
                        let phase = Phase::Reverting(host.clone());
                        self.open.push(Open { phase, ..one });
                        continue;
                    }
                    Err(why) => Err(why),
                },
                Phase::Applied(host) => walk.hosts.ask(host, request::undo_last()),
                _ => Ok(()),
            };
            let now_ns = self.now_ns(walk);
            let event = &mut self.events[one.index];
            match reverted {
                Ok(()) if one.phase == Phase::EndsByItself => {
                    event.ended_ns = Some(one.end_ns.min(now_ns));
                }
                Ok(()) => event.ended_ns = Some(now_ns),
                Err(why) => event.failed = Some(format!("it could not be undone: {why}")),
            }
        }
    }

    fn now_ns(&self, walk: &Walk<'_>) -> u64 {
        walk.hosts.now_ns().saturating_sub(self.started_ns)
    }
}

impl Phase {
    /// The host that has the fault; `None` for this process.
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

    /// Says whether it can be ended now.
    const fn can_end(&self) -> bool {
        matches!(self, Self::EndsByItself | Self::Applied(_) | Self::Begun(_))
    }
}

/// Injects a fault into the server in this process, for so many milliseconds.
pub type FaultInjector<'a> = dyn Fn(FaultKind, u64) -> Result<(), String> + 'a;
