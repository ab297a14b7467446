//! Agents by the name of their host, started when a run first needs them.
//!
//! A host whose agent was lost costs the trial that needed it, and is reached again before the next
//! one: it may have been slow only. One that can't be reached then remains lost until the end of
//! the campaign: each run that wants it fails with the same sentence. What was applied there is
//! undone by the agent itself, or by `dfsbench clean`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleet::{
    Answer, ClockReading, Gone, LEFT_TO_AGENT, Opening, Order, Report, Request, Transport, Wakeup,
    request,
};
use model::{EffectiveSettings, Fact, Host, LabSpec, panicked};

use crate::applied_steps::{AppliedSteps, on_host};
use crate::clock::Drift;
use crate::shared_kernel;

mod clocks;

/// The agent of a host, or why it has none.
pub type Launched = Result<Box<dyn Transport>, Gone>;

/// A way to start the agents of some hosts, at one moment as far as that goes; one for each.
pub type Launch<'a> = dyn FnMut(&[&Host]) -> Vec<Launched> + 'a;

/// The agents of the hosts that a campaign sets up.
pub struct Hosts<'a> {
    launch: &'a mut Launch<'a>,
    read_clocks: &'a dyn Fn() -> ClockReading,
    opening: Opening,
    agents: BTreeMap<String, Result<Box<dyn Transport>, String>>,
    /// Those that are ready to change their host.
    opened: BTreeSet<String>,
    /// Those that have lost their power since they were set up.
    after_power_loss: BTreeSet<String>,
    /// Those whose agents were lost since they were last tried again.
    lost_at_work: BTreeSet<String>,
    clocks: BTreeMap<String, Drift>,
    /// The identity of each host's kernel.
    kernels: BTreeMap<String, String>,
    wakeup: Wakeup,
    /// The number by which each host notifies this process.
    numbers: BTreeMap<String, u32>,
    /// Settings of hosts that were reached since a trial last took note of them.
    new_facts: Vec<Fact>,
    /// Steps that are applied to them.
    applied_steps: AppliedSteps,
    /// Those whose agents are to be killed, and when they were seen to be.
    planned_kills: BTreeMap<String, Option<u64>>,
    /// Answers of hosts that were disturbed while they worked, with their instants.
    disturbed: VecDeque<Disturbed>,
}

/// The answer of a host that was disturbed.
pub(crate) struct Disturbed {
    /// Name of the host.
    pub(crate) host: String,
    /// When the answer was received, by this host's clock.
    pub(crate) at_ns: u64,
    /// Settings that are effective; or why it can't be done.
    pub(crate) answer: Result<EffectiveSettings, String>,
}

impl<'a> Hosts<'a> {
    /// No agent yet. `read_clocks` reads this host's clocks; `opening` is sent to an agent
    /// before its host is changed.
    pub fn new(
        launch: &'a mut Launch<'a>,
        read_clocks: &'a dyn Fn() -> ClockReading,
        opening: Opening,
    ) -> Self {
        Self {
            launch,
            read_clocks,
            opening,
            agents: BTreeMap::new(),
            opened: BTreeSet::new(),
            after_power_loss: BTreeSet::new(),
            lost_at_work: BTreeSet::new(),
            clocks: BTreeMap::new(),
            kernels: BTreeMap::new(),
            wakeup: Wakeup::default(),
            numbers: BTreeMap::new(),
            new_facts: Vec::new(),
            applied_steps: AppliedSteps::default(),
            planned_kills: BTreeMap::new(),
            disturbed: VecDeque::new(),
        }
    }

    /// Starts agents on the hosts that a run sets up, where they have none that can change them.
    ///
    /// # Errors
    /// When one can't be reached or used; in a sentence that names it.
    pub(crate) fn reach(&mut self, lab: &LabSpec) -> Result<(), String> {
        self.reach_all(lab.hosts())?;
        let mut closed = Vec::new();
        let mut requests = Vec::new();
        for host in lab.hosts() {
            if !self.opened.contains(&host.name) {
                closed.push(host.name.as_str());
                let after_power_loss = self.after_power_loss.contains(&host.name);
                let opening = Opening { after_power_loss, ..self.opening.clone() };
                requests.push((host.name.as_str(), request::open(opening)));
            }
        }
        let answers = self.ask_each(requests);
        let mut all = Ok(());
        for (host, opened) in closed.into_iter().zip(answers) {
            match opened {
                Ok(()) => _ = self.opened.insert(host.to_owned()),
                Err(why) => all = all.and(Err(self.mark_lost(host, &why))),
            }
        }
        all
    }

    /// Sees that some hosts have agents; those that have none get them at one moment.
    ///
    /// # Errors
    /// When one can't be reached; in a sentence that names it.
    pub(crate) fn reach_all<'h>(
        &mut self,
        hosts: impl IntoIterator<Item = &'h Host>,
    ) -> Result<(), String> {
        let mut new = Vec::new();
        for host in hosts {
            if self.agents.contains_key(&host.name) {
                self.check_alive(&host.name)?;
            } else {
                new.push(host);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let launched = (self.launch)(&new);
        for (host, agent) in new.iter().zip(launched) {
            let mut agent = agent.map_err(|gone| gone.to_string());
            let number = self.number_of(&host.name);
            if let Ok(agent) = &mut agent {
                agent.set_wakeup(&self.wakeup.numbered(number));
                self.new_facts.extend(agent.take_facts());
            }
            self.agents.insert(host.name.clone(), agent);
        }
        for host in &new {
            self.agent(&host.name)?;
            // What was known of its clock was that of another agent.
            self.clocks.remove(&host.name);
        }
        let mut requests = Vec::with_capacity(new.len());
        for host in &new {
            requests.push((host.name.as_str(), request::facts()));
        }
        let answers = self.ask_each(requests);
        for (host, facts) in new.iter().zip(answers) {
            let mut facts = facts?;
            if let Some(kernel) = shared_kernel::take_kernel(&mut facts) {
                self.kernels.insert(host.name.clone(), kernel);
            }
            self.new_facts.extend(on_host(&host.name, facts));
            self.new_facts.extend(host.label_facts());
        }
        Ok(())
    }

    /// Sees that a host has an agent.
    ///
    /// # Errors
    /// When it can't be reached; in a sentence that names it.
    pub(crate) fn reach_one(&mut self, host: &Host) -> Result<(), String> {
        self.reach_all([host])
    }

    /// The number under which a host rings; every host that is ever reached has one.
    pub(crate) fn number_of(&mut self, host: &str) -> u32 {
        // Without a number it is this process that rings.
        let next = self.numbers.len() as u32 + 1;
        match self.numbers.get(host) {
            Some(known) => *known,
            None => *self.numbers.entry(host.to_owned()).or_insert(next),
        }
    }

    /// The settings of the hosts that were reached since this was last requested.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.new_facts)
    }

    /// The identity of the kernel of each host, as far as it is known.
    pub(crate) const fn kernels(&self) -> &BTreeMap<String, String> {
        &self.kernels
    }

    /// Forgets that a host was lost, so that it may be reached again.
    pub(crate) fn retry_lost(&mut self, host: &str) {
        if self.lost(host).is_some() {
            self.leave_one(host);
        }
    }

    /// Says whether a host had an agent that was lost since this was last called for it.
    pub(crate) fn take_lost_at_work(&mut self, host: &str) -> bool {
        self.lost_at_work.remove(host)
    }

    /// Works on what is applied.
    pub(crate) fn with_applied_steps<T>(
        &mut self,
        work: impl FnOnce(&mut AppliedSteps, &mut Self) -> T,
    ) -> T {
        let mut applied_steps = std::mem::take(&mut self.applied_steps);
        let done = panicked::catch(|| work(&mut applied_steps, self));
        // What is applied is not forgotten, whatever became of the work.
        self.applied_steps = applied_steps;
        match done {
            Ok(done) => done,
            Err(panicked) => panicked::resume(panicked),
        }
    }

    /// Gives an order that has one answer; what the answer holds.
    ///
    /// # Errors
    /// When the host is lost, can't obey, or answers something else; in a sentence that names it.
    pub(crate) fn ask<T>(&mut self, host: &str, request: Request<T>) -> Result<T, String> {
        let (order, answer) = request.into_parts();
        self.send(host, order)?;
        self.receive_answer(host, &answer)
    }

    /// Gives each of several hosts an order that has one answer, and waits for all of them; returns
    /// the result of each, as [`Hosts::ask`] does.
    pub(crate) fn ask_each<T>(
        &mut self,
        requests: Vec<(&str, Request<T>)>,
    ) -> Vec<Result<T, String>> {
        let mut sent = Vec::with_capacity(requests.len());
        for (host, request) in requests {
            let (order, answer) = request.into_parts();
            sent.push((host, answer, self.send(host, order)));
        }
        // All have their orders before the first one is waited for.
        let mut answers = Vec::with_capacity(sent.len());
        for (host, answer, sending) in sent {
            answers.push(sending.and_then(|()| self.receive_answer(host, &answer)));
        }
        answers
    }

    fn receive_answer<T>(&mut self, host: &str, answer: &Answer<T>) -> Result<T, String> {
        loop {
            match self.receive(host)? {
                // The last sample of a pass may come late, and answers nothing.
                Report::Progress(_) => {}
                report => return self.read_answer(host, answer, report),
            }
        }
    }

    /// Reads what a host answered. One that answers something else is lost: whatever it says next
    /// may belong to any order; its agent undoes what it did when it is left.
    ///
    /// # Errors
    /// When it is no answer to the order; in a sentence that names the host.
    pub(crate) fn read_answer<T>(
        &mut self,
        host: &str,
        answer: &Answer<T>,
        report: Report,
    ) -> Result<T, String> {
        answer.read(report).map_err(|wrong| {
            self.opened.remove(host);
            self.applied_steps.forget_host(host);
            self.mark_lost(host, &format!("host {host} {wrong}"))
        })
    }

    /// Gives an order.
    ///
    /// # Errors
    /// When the host is lost.
    pub(crate) fn send(&mut self, host: &str, order: Order) -> Result<(), String> {
        let sent = self.agent(host)?.send(order);
        sent.map_err(|gone| self.mark_lost(host, &gone.to_string()))
    }

    /// Waits for a report.
    ///
    /// # Errors
    /// When the host is lost or could not obey.
    pub(crate) fn receive(&mut self, host: &str) -> Result<Report, String> {
        loop {
            match self.agent(host)?.receive() {
                Ok(Report::Disturbed(answer)) => self.note_disturbed(host, answer),
                Ok(Report::Failed(why)) => return Err(format!("host {host}: {why}")),
                Ok(report) => return Ok(report),
                Err(gone) => return Err(self.mark_lost(host, &gone.to_string())),
            }
        }
    }

    fn note_disturbed(&mut self, host: &str, answer: Result<EffectiveSettings, String>) {
        let (host, at_ns) = (host.to_owned(), self.now_ns());
        self.disturbed.push_back(Disturbed { host, at_ns, answer });
    }

    /// Takes the first answer of a disturbed host that has not been taken yet.
    pub(crate) fn take_disturbed(&mut self) -> Option<Disturbed> {
        self.disturbed.pop_front()
    }

    /// Waits until a host that does not work has answered to be disturbed.
    ///
    /// # Errors
    /// When it is lost.
    pub(crate) fn await_disturbed(&mut self, host: &str) -> Result<Disturbed, String> {
        loop {
            if let Some(at) = self.disturbed.iter().position(|one| one.host == host)
                && let Some(known) = self.disturbed.remove(at)
            {
                return Ok(known);
            }
            match self.agent(host)?.receive() {
                Ok(Report::Disturbed(answer)) => self.note_disturbed(host, answer),
                // The end of its progress may come late.
                Ok(_) => {}
                Err(gone) => return Err(self.mark_lost(host, &gone.to_string())),
            }
        }
    }

    /// Makes a host ready to be changed, one that nothing is set up on.
    ///
    /// # Errors
    /// When it is lost, or can't be changed.
    pub(crate) fn open_one(&mut self, host: &str) -> Result<(), String> {
        if !self.opened.contains(host) {
            self.ask(host, request::open(self.opening.clone()))?;
            self.opened.insert(host.to_owned());
        }
        Ok(())
    }

    /// Has the agent of a host killed; that it is gone is then no surprise.
    ///
    /// # Errors
    /// When it is lost already.
    pub(crate) fn kill_agent(&mut self, host: &str) -> Result<(), String> {
        self.send(host, Order::Crash)?;
        self.planned_kills.insert(host.to_owned(), None);
        Ok(())
    }

    /// Says whether the agent of a host was to be killed, and has not been replaced.
    pub(crate) fn is_kill_planned(&self, host: &str) -> bool {
        self.planned_kills.contains_key(host)
    }

    /// Takes note that an agent is gone; says whether it was to be.
    pub(crate) fn note_killed(&mut self, host: &str) -> bool {
        let now_ns = self.now_ns();
        let Some(seen) = self.planned_kills.get_mut(host) else { return false };
        seen.get_or_insert(now_ns);
        true
    }

    /// When an agent that was to be killed was seen to be gone.
    pub(crate) fn killed_at_ns(&self, host: &str) -> Option<u64> {
        *self.planned_kills.get(host)?
    }

    /// Sees that a host whose agent was killed has another one.
    ///
    /// # Errors
    /// When it can't be reached; in a sentence that names it.
    pub(crate) fn replace(&mut self, host: &Host) -> Result<(), String> {
        self.leave_one(&host.name);
        self.planned_kills.remove(&host.name);
        self.reach_one(host)
    }

    /// Takes a report that has come.
    ///
    /// # Errors
    /// When the host is lost or could not obey.
    pub(crate) fn try_receive(&mut self, host: &str) -> Result<Option<Report>, String> {
        loop {
            match self.agent(host)?.try_receive() {
                Ok(Some(Report::Disturbed(answer))) => self.note_disturbed(host, answer),
                Ok(Some(Report::Failed(why))) => return Err(format!("host {host}: {why}")),
                Ok(report) => return Ok(report),
                Err(gone) => return Err(self.mark_lost(host, &gone.to_string())),
            }
        }
    }

    /// Wants what is in flight on a host to end.
    pub(crate) fn cancel(&mut self, host: &str) {
        if let Ok(agent) = self.agent(host) {
            agent.cancel();
        }
    }

    /// Says why a host is lost; `None` for one that isn't, as far as is known.
    pub(crate) fn lost(&self, host: &str) -> Option<&str> {
        self.agents.get(host)?.as_ref().err().map(String::as_str)
    }

    /// Says whether a host has an agent that is there, as far as is known.
    pub(crate) fn is_there(&self, host: &str) -> bool {
        matches!(self.agents.get(host), Some(Ok(_)))
    }

    /// Leaves a host, whose agent then undoes what it holds; it may be reached again.
    pub(crate) fn leave_one(&mut self, host: &str) {
        self.leave_with(host, 0);
    }

    /// Leaves a host of which only the first so many steps stay applied.
    fn leave_with(&mut self, host: &str, left: usize) {
        self.agents.remove(host);
        self.opened.remove(host);
        self.applied_steps.keep_of_host(host, left);
    }

    /// Leaves a host that has lost its power; only so many of the steps that were applied to it are
    /// still there, and what else it had is not undone.
    pub(crate) fn note_power_loss(&mut self, host: &str, left: usize) {
        self.leave_with(host, left);
        self.after_power_loss.insert(host.to_owned());
    }

    /// Checks whether a host is there.
    ///
    /// # Errors
    /// When it isn't.
    pub(crate) fn check_alive(&mut self, host: &str) -> Result<(), String> {
        let there = self.agent(host)?.check_alive();
        there.map_err(|gone| self.mark_lost(host, &gone.to_string()))
    }

    /// Returns the wakeup that rings when an agent has sent something.
    pub(crate) const fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Leaves all agents and waits for their ends; returns the sentence of each that could not undo
    /// everything, or that was lost with changes before.
    pub(crate) fn leave_agents(&mut self) -> Vec<(String, String)> {
        // All get their order before the first one is waited for.
        for agent in self.agents.values_mut().flatten() {
            agent.leave();
        }
        let mut left = Vec::new();
        for (host, agent) in std::mem::take(&mut self.agents) {
            let why = match agent {
                Ok(mut agent) => agent.await_end(),
                // Only one that may still have changes is worth a word.
                Err(why) if why.contains(LEFT_TO_AGENT) => Some(why),
                Err(_) => None,
            };
            if let Some(why) = why {
                left.push((host, why));
            }
        }
        left
    }

    /// Says whether a host was made ready to be changed.
    pub(crate) fn may_be_changed(&self, host: &str) -> bool {
        self.opened.contains(host)
    }

    fn agent(&mut self, host: &str) -> Result<&mut dyn Transport, String> {
        match self.agents.get_mut(host) {
            Some(Ok(agent)) => Ok(agent.as_mut()),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("host {host}: it has no agent")),
        }
    }

    /// Leaves a host and keeps the reason.
    fn mark_lost(&mut self, host: &str, why: &str) -> String {
        let before = self.agents.insert(host.to_owned(), Err(why.to_owned()));
        if matches!(before, Some(Ok(_))) {
            self.lost_at_work.insert(host.to_owned());
        }
        why.to_owned()
    }
}
