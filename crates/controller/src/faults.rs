//! Disturbs the hosts of a soak while a pass of it runs, and undoes it.
//!
//! A [`FaultSchedule`] is looked at whenever an agent reports its progress, ten times a second. The
//! server in this process gets its faults by [`Walk::inject_fault`]; a host gets orders as for all
//! that is done to it, so the undo log is on its disk first; one that works answers between its
//! looks at its workers, and is not waited for. What can't be done is noted and ends nothing: the
//! soak goes on without it.

use std::collections::VecDeque;

use fleet::{Order, request};
use model::soak::{Disturbance, FaultEvent, FaultKind};
use model::{Action, Fact, LabSpec, LabStep, Pass, RunSpec, action};

use crate::Walk;
use crate::applied_steps::on_host;
use crate::hosts::Disturbed;

/// The disturbances of one pass.
#[derive(Default)]
pub(crate) struct FaultSchedule {
    /// Those that have not begun, with their instants.
    due: VecDeque<(u64, Disturbance)>,
    /// Those that have begun and are not over.
    open: Vec<Open>,
    /// How the run's hosts are set up, where they are.
    lab: Option<Box<LabSpec>>,
    /// The hosts that work, which can't be waited for.
    working: Vec<String>,
    events: Vec<FaultEvent>,
    /// Facts that the hosts read back.
    seen: Vec<Fact>,
    started_ns: u64,
}

/// A disturbance that is not over.
struct Open {
    /// Its place among all.
    index: usize,
    /// When it ends, in nanoseconds from the start of the pass.
    end_ns: u64,
    how: How,
}

/// Who ends a disturbance, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    /// The server in this process, by itself.
    ByItself,
    /// A host that undoes it when it is told to.
    Undone(String),
    /// A host that works, has been told, and has not answered.
    Asked(String),
    /// A host that works and has done it.
    Begun(String),
    /// A host that works, has been told to undo it, and has not answered.
    Calming(String),
    /// The agent of a host, which is gone for good.
    Killed(String),
}

impl FaultSchedule {
    /// Returns the disturbances of a pass in one segment.
    pub(crate) fn of(spec: &RunSpec, pass: Pass, segment: u32) -> Self {
        let soak = spec.soak.as_deref().filter(|_| pass == Pass::Mix);
        let within = soak.into_iter().flat_map(|soak| soak.within(segment.into()));
        let mut due: Vec<(u64, Disturbance)> =
            within.map(|(at_ns, one)| (at_ns, one.clone())).collect();
        due.sort_by_key(|(at_ns, _)| *at_ns);
        Self { due: due.into(), lab: spec.lab.clone(), ..Self::default() }
    }

    /// Makes ready those hosts that work and are to be changed meanwhile; one that can't be says so
    /// when its time has come.
    pub(crate) fn make_ready<'h>(
        &mut self,
        walk: &mut Walk<'_>,
        working: impl Iterator<Item = &'h str>,
    ) {
        self.working = working.map(str::to_owned).collect();
        for (_, one) in &self.due {
            let host = one.host.as_ref().filter(|host| self.working.contains(host));
            if let Some(host) = host.filter(|_| one.fault == FaultKind::ClockStep) {
                let _ = walk.hosts.open_one(host);
            }
        }
    }

    /// Takes note of when the pass began, by this host's clock.
    pub(crate) const fn start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    /// Does what is due, and undoes what is over.
    pub(crate) fn look(&mut self, walk: &mut Walk<'_>) {
        let at_ns = self.now_ns(walk);
        self.hear(walk);
        self.end_those(walk, |end_ns| end_ns <= at_ns);
        while self.due.front().is_some_and(|(planned_ns, _)| *planned_ns <= at_ns) {
            let Some((planned_ns, one)) = self.due.pop_front() else { break };
            self.begin(walk, planned_ns, &one);
        }
    }

    /// Undoes what is not over yet, and tells of all, with what hosts read back. `all_ended` says
    /// whether no host works any more, so that each can be waited for.
    pub(crate) fn finish(
        mut self,
        walk: &mut Walk<'_>,
        all_ended: bool,
    ) -> (Vec<FaultEvent>, Vec<Fact>) {
        self.end_those(walk, |_| true);
        self.hear(walk);
        while all_ended && let Some(host) = self.open.iter().find_map(Open::awaited) {
            match walk.hosts.await_disturbed(&host) {
                Ok(answer) => self.note(answer),
                Err(why) => {
                    self.note(Disturbed { host, at_ns: self.started_ns, answer: Err(why) });
                }
            }
            // What had only been requested is undone at once.
            self.end_those(walk, |_| true);
        }
        for Open { index, how, .. } in std::mem::take(&mut self.open) {
            let event = &mut self.events[index];
            match how {
                How::Killed(host) => match walk.hosts.killed_at_ns(&host) {
                    Some(at_ns) => event.ended_ns = Some(at_ns.saturating_sub(self.started_ns)),
                    None => event.failed = Some("its work was over before".to_owned()),
                },
                _ => event.failed = Some("nobody knows whether it was undone".to_owned()),
            }
        }
        (self.events, self.seen)
    }

    fn begin(&mut self, walk: &mut Walk<'_>, planned_ns: u64, one: &Disturbance) {
        let done = self.make(walk, one);
        let begun_ns = self.now_ns(walk);
        let end_ns = begun_ns.saturating_add(one.lasts_ms.saturating_mul(1_000_000));
        let (host, failed) = match done {
            Ok(how) => {
                let host = how.host().cloned();
                self.open.push(Open { index: self.events.len(), end_ns, how });
                (host, None)
            }
            Err(why) => (one.host.clone(), Some(why)),
        };
        self.events.push(FaultEvent {
            fault: one.fault,
            host: host.unwrap_or_default(),
            planned_ns,
            begun_ns,
            ended_ns: None,
            failed,
        });
    }

    /// Does it, or has it done.
    fn make(&mut self, walk: &mut Walk<'_>, one: &Disturbance) -> Result<How, String> {
        match (one.fault, &one.host) {
            (FaultKind::ClientKill, Some(host)) => {
                return walk.hosts.kill_agent(host).map(|()| How::Killed(host.clone()));
            }
            (FaultKind::ClockStep, Some(host)) => {
                let action = Action::ClockStep(action::ClockStep {
                    by_ms: one.by_ms,
                    not_boot: lab::boot_id(),
                });
                if self.working.contains(host) {
                    walk.hosts.send(host, Order::Disturb(Box::new(action)))?;
                    return Ok(How::Asked(host.clone()));
                }
                return self.apply(walk, LabStep { host: host.clone(), action });
            }
            _ => {}
        }
        if let (Some(local), None, None) = (walk.inject_fault, &self.lab, &one.host) {
            return local(one.fault, one.lasts_ms).map(|()| How::ByItself);
        }
        let Some(lab) = &self.lab else {
            return Err(format!("there is no host to which {} can be done", one.fault));
        };
        let step = lab::disturbance(lab, one.fault)?;
        self.apply(walk, step)
    }

    /// Does something to a host that does not work.
    fn apply(&mut self, walk: &mut Walk<'_>, step: LabStep) -> Result<How, String> {
        let LabStep { host, action } = step;
        let effective = walk.hosts.ask(&host, request::apply(action))?;
        self.seen.extend(on_host(&host, effective.facts));
        Ok(How::Undone(host))
    }

    /// Takes what hosts answered that work.
    fn hear(&mut self, walk: &mut Walk<'_>) {
        while let Some(answer) = walk.hosts.take_disturbed() {
            self.note(answer);
        }
    }

    /// Takes note of an answer: it is that to what its host was told last.
    fn note(&mut self, Disturbed { host, at_ns, answer }: Disturbed) {
        let of_host = |open: &Open| open.awaited().as_ref() == Some(&host);
        let Some(at) = self.open.iter().position(of_host) else { return };
        let at_ns = at_ns.saturating_sub(self.started_ns);
        let Open { index, end_ns, how } = self.open.remove(at);
        let event = &mut self.events[index];
        match (how, answer) {
            (How::Asked(_), Ok(effective)) => {
                let lasts_ns = end_ns.saturating_sub(event.begun_ns);
                event.begun_ns = at_ns;
                self.seen.extend(on_host(&host, effective.facts));
                let end_ns = at_ns.saturating_add(lasts_ns);
                self.open.push(Open { index, end_ns, how: How::Begun(host) });
            }
            (How::Asked(_), Err(why)) => event.failed = Some(why),
            (_, Ok(_)) => event.ended_ns = Some(at_ns),
            (_, Err(why)) => event.failed = Some(format!("it could not be undone: {why}")),
        }
    }

    fn end_those(&mut self, walk: &mut Walk<'_>, is_over: impl Fn(u64) -> bool) {
        let open = std::mem::take(&mut self.open);
        let (over, open): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|one| one.can_end() && is_over(one.end_ns));
        self.open = open;
        // What was done last is undone first.
        for one in over.into_iter().rev() {
            let undone = match &one.how {
                How::Begun(host) => {
                    let told = walk.hosts.send(host, Order::EndDisturbance);
                    let how = How::Calming(host.clone());
                    if told.is_ok() {
                        self.open.push(Open { how, ..one });
                        continue;
                    }
                    told
                }
                How::Undone(host) => walk.hosts.ask(host, request::undo_last()),
                _ => Ok(()),
            };
            let now_ns = self.now_ns(walk);
            let event = &mut self.events[one.index];
            match undone {
                Ok(()) if one.how == How::ByItself => {
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

impl How {
    /// To whom it is done; nobody, where that is in this process.
    const fn host(&self) -> Option<&String> {
        match self {
            Self::ByItself => None,
            Self::Undone(host)
            | Self::Asked(host)
            | Self::Begun(host)
            | Self::Calming(host)
            | Self::Killed(host) => Some(host),
        }
    }
}

impl Open {
    /// The host that has yet to answer.
    fn awaited(&self) -> Option<String> {
        match &self.how {
            How::Asked(host) | How::Calming(host) => Some(host.clone()),
            _ => None,
        }
    }

    /// Says whether it can be ended now.
    const fn can_end(&self) -> bool {
        matches!(self.how, How::ByItself | How::Undone(_) | How::Begun(_))
    }
}

/// Does something to the server in this process, for so many milliseconds.
pub type FaultInjector<'a> = dyn Fn(FaultKind, u64) -> Result<(), String> + 'a;
