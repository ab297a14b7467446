//! Agents by host name, started when a run first needs them.
//!
//! If an agent is lost, the trial that needed it fails, and its host is contacted again before the
//! next trial, since it may only have been slow. A host that still cannot be reached stays lost
//! until the end of the campaign, and each run that needs it fails with the same message. Whatever
//! was applied there is undone by the agent itself or by `dfsbench clean`.

pub(crate) mod applied_steps;
mod clocks;
pub(crate) mod setup;
pub(crate) mod shared_kernel;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;

use fleet::clock::Drift;
use fleet::{
    AnswerReader, HostPermissions, LEFT_TO_AGENT, Order, PeerGone, Report, Request, Transport,
    Wakeup, request,
};
use model::{EffectiveSettings, Fact, Host, LabSpec, panicked, work};

use applied_steps::{AppliedSteps, on_host};

pub use clocks::LocalClock;

/// The agent of a host, or the reason why it has none.
pub type LaunchedAgent = Result<Box<dyn Transport>, PeerGone>;

/// Starts the agents of some hosts, concurrently if possible. Returns one result per host.
pub type LaunchAgents<'a> = dyn FnMut(&[&Host]) -> Vec<LaunchedAgent> + 'a;

/// The agents of all hosts that a campaign uses.
pub struct Hosts<'a> {
    launch: &'a mut LaunchAgents<'a>,
    clock: &'a dyn LocalClock,
    opening: HostPermissions,
    /// The agent of this process, for runs that name no client hosts.
    local_agent: Option<&'a mut dyn Transport>,
    agents: BTreeMap<String, Result<Box<dyn Transport>, String>>,
    /// Hosts whose agents are ready to change them.
    opened: BTreeSet<String>,
    /// Hosts that have lost power since they were set up.
    after_power_loss: BTreeSet<String>,
    /// Hosts whose agents were lost since they were last retried.
    lost_at_work: BTreeSet<String>,
    clocks: BTreeMap<String, Drift>,
    /// Kernel identity of each host.
    kernels: BTreeMap<String, String>,
    wakeup: Wakeup,
    /// Number under which each host's agent signals the wakeup.
    numbers: BTreeMap<String, u32>,
    /// Settings of hosts reached since a trial last collected them.
    new_facts: Vec<Fact>,
    /// Steps applied to the hosts.
    applied_steps: AppliedSteps,
    /// Hosts with changes that could not be undone.
    not_restored: BTreeSet<String>,
    /// Hosts whose agents are to be killed, with the time at which they were seen dead.
    planned_kills: BTreeMap<String, Option<u64>>,
    /// Answers to disturbances from hosts with running workers.
    disturbed: VecDeque<DisturbanceAnswer>,
}

/// A host's answer to a disturbance.
pub(crate) struct DisturbanceAnswer {
    pub(crate) host: String,
    /// When the answer was received, by the local clock.
    pub(crate) at_ns: u64,
    /// Settings now in effect, or why the disturbance failed.
    pub(crate) answer: Result<EffectiveSettings, String>,
}

impl<'a> Hosts<'a> {
    /// Starts without any agents. `opening` is sent to an agent before its host is changed.
    pub fn new(
        launch: &'a mut LaunchAgents<'a>,
        clock: &'a dyn LocalClock,
        opening: HostPermissions,
    ) -> Self {
        Self {
            launch,
            clock,
            opening,
            local_agent: None,
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
            not_restored: BTreeSet::new(),
            planned_kills: BTreeMap::new(),
            disturbed: VecDeque::new(),
        }
    }

    /// Adds the agent of this process.
    #[must_use]
    pub fn with_local_agent(mut self, agent: &'a mut dyn Transport) -> Self {
        agent.set_wakeup(&self.wakeup);
        self.local_agent = Some(agent);
        self
    }

    /// Returns the agent of this process.
    pub(crate) fn local_agent(&mut self) -> Result<&mut dyn Transport, PeerGone> {
        match &mut self.local_agent {
            Some(agent) => Ok(&mut **agent),
            None => Err(PeerGone("this process has no agent".to_owned())),
        }
    }

    /// Returns the name of one of the campaign's working directories.
    pub(crate) fn directory_name(&self, which: impl Display) -> String {
        work::directory_name(&self.opening.campaign, which)
    }

    /// Returns true if working directories are kept after their trials.
    pub(crate) const fn keeps_directories(&self) -> bool {
        self.opening.keep
    }

    /// Waits until an agent may have sent something.
    pub(crate) fn wait(&self) {
        self.clock.wait(&self.wakeup);
    }

    /// Makes sure that every host of a setup has an agent that is ready to change it.
    ///
    /// # Errors
    /// If a host cannot be reached or used; the error is a sentence that names it.
    pub(crate) fn connect_hosts(&mut self, lab: &LabSpec) -> Result<(), String> {
        self.reach_all(lab.hosts())?;
        let mut closed = Vec::new();
        let mut requests = Vec::new();
        for host in lab.hosts() {
            if !self.opened.contains(&host.name) {
                closed.push(host.name.as_str());
                let after_power_loss = self.after_power_loss.contains(&host.name);
                let opening = HostPermissions { after_power_loss, ..self.opening.clone() };
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

    /// Makes sure that the given hosts have agents, starting the missing ones concurrently.
    ///
    /// # Errors
    /// If a host cannot be reached; the error is a sentence that names it.
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
            // The old clock samples belong to a different agent.
            self.clocks.remove(&host.name);
        }
        let requests: Vec<_> =
            new.iter().map(|host| (host.name.as_str(), request::facts())).collect();
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

    /// Makes sure that a host has an agent.
    ///
    /// # Errors
    /// If the host cannot be reached; the error is a sentence that names it.
    pub(crate) fn reach_one(&mut self, host: &Host) -> Result<(), String> {
        self.reach_all([host])
    }

    /// Returns the number under which a host signals, assigning one on first use.
    pub(crate) fn number_of(&mut self, host: &str) -> u32 {
        // 0 is reserved for this process.
        let next = self.numbers.len() as u32 + 1;
        match self.numbers.get(host) {
            Some(known) => *known,
            None => *self.numbers.entry(host.to_owned()).or_insert(next),
        }
    }

    /// Returns the settings of the hosts reached since the last call.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.new_facts)
    }

    /// Returns the known kernel identities of the hosts.
    pub(crate) const fn kernels(&self) -> &BTreeMap<String, String> {
        &self.kernels
    }

    /// Removes a lost host's record, so that it can be reached again.
    pub(crate) fn retry_lost(&mut self, host: &str) {
        if self.loss_reason(host).is_some() {
            self.leave_one(host);
        }
    }

    /// Returns true if the host's agent was lost since the last call for this host.
    pub(crate) fn take_lost_at_work(&mut self, host: &str) -> bool {
        self.lost_at_work.remove(host)
    }

    /// Runs `work` with access to the applied steps.
    pub(crate) fn with_applied_steps<T>(
        &mut self,
        work: impl FnOnce(&mut AppliedSteps, &mut Self) -> T,
    ) -> T {
        let mut applied_steps = std::mem::take(&mut self.applied_steps);
        let done = panicked::catch(|| work(&mut applied_steps, self));
        // Put the steps back even if `work` panicked.
        self.applied_steps = applied_steps;
        match done {
            Ok(done) => done,
            Err(panicked) => panicked::resume(panicked),
        }
    }

    /// Sends an order with one answer, and returns the contents of the answer.
    ///
    /// # Errors
    /// If the host is lost, cannot carry out the order, or gives a different answer; the error is a
    /// sentence that names the host.
    pub(crate) fn ask<T>(&mut self, host: &str, request: Request<T>) -> Result<T, String> {
        let (order, answer) = request.into_parts();
        self.send(host, order)?;
        self.receive_answer(host, &answer)
    }

    /// Sends an order to each of several hosts and waits for all answers. Each result is as for
    /// [`Hosts::ask`].
    pub(crate) fn ask_each<T>(
        &mut self,
        requests: Vec<(&str, Request<T>)>,
    ) -> Vec<Result<T, String>> {
        let mut sent = Vec::with_capacity(requests.len());
        for (host, request) in requests {
            let (order, answer) = request.into_parts();
            sent.push((host, answer, self.send(host, order)));
        }
        // All orders have been sent before we wait for the first answer.
        sent.into_iter()
            .map(|(host, answer, sending)| {
                sending.and_then(|()| self.receive_answer(host, &answer))
            })
            .collect()
    }

    fn receive_answer<T>(&mut self, host: &str, answer: &AnswerReader<T>) -> Result<T, String> {
        loop {
            match self.receive(host)? {
                // The final progress report of a pass may arrive late; skip it.
                Report::Progress(_) => {}
                report => return self.read_answer(host, answer, report),
            }
        }
    }

    /// Decodes a host's answer. A host that gives a wrong answer counts as lost, because its next
    /// reports could belong to any order. Its agent undoes its changes once disconnected.
    ///
    /// # Errors
    /// If the report doesn't answer the order; the error is a sentence that names the host.
    pub(crate) fn read_answer<T>(
        &mut self,
        host: &str,
        answer: &AnswerReader<T>,
        report: Report,
    ) -> Result<T, String> {
        answer.read(report).map_err(|wrong| {
            self.opened.remove(host);
            self.applied_steps.forget_host(host);
            self.mark_lost(host, &format!("host {host} {wrong}"))
        })
    }

    pub(crate) fn send(&mut self, host: &str, order: Order) -> Result<(), String> {
        let sent = self.agent(host)?.send(order);
        sent.map_err(|gone| self.mark_lost(host, &gone.to_string()))
    }

    /// Waits for a report.
    ///
    /// # Errors
    /// If the host is lost or could not carry out the order.
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
        let at_ns = self.now_ns();
        self.disturbed.push_back(DisturbanceAnswer { host: host.to_owned(), at_ns, answer });
    }

    /// Returns the oldest pending answer to a disturbance.
    pub(crate) fn take_disturbed(&mut self) -> Option<DisturbanceAnswer> {
        self.disturbed.pop_front()
    }

    /// Waits for the answer to a disturbance of a host without running workers.
    pub(crate) fn await_disturbed(&mut self, host: &str) -> Result<DisturbanceAnswer, String> {
        loop {
            if let Some(at) = self.disturbed.iter().position(|one| one.host == host)
                && let Some(known) = self.disturbed.remove(at)
            {
                return Ok(known);
            }
            match self.agent(host)?.receive() {
                Ok(Report::Disturbed(answer)) => self.note_disturbed(host, answer),
                // The last progress reports may arrive late; skip them.
                Ok(_) => {}
                Err(gone) => return Err(self.mark_lost(host, &gone.to_string())),
            }
        }
    }

    /// Gets a host ready to be changed even if nothing was set up on it.
    pub(crate) fn open_one(&mut self, host: &str) -> Result<(), String> {
        if !self.opened.contains(host) {
            self.ask(host, request::open(self.opening.clone()))?;
            self.opened.insert(host.to_owned());
        }
        Ok(())
    }

    /// Kills the agent of a host, and remembers that its loss is expected.
    pub(crate) fn kill_agent(&mut self, host: &str) -> Result<(), String> {
        self.send(host, Order::Crash)?;
        self.planned_kills.insert(host.to_owned(), None);
        Ok(())
    }

    /// Returns true if the agent of a host was to be killed and has not been replaced yet.
    pub(crate) fn is_kill_planned(&self, host: &str) -> bool {
        self.planned_kills.contains_key(host)
    }

    /// Records that an agent is gone. Returns true if that was planned.
    pub(crate) fn note_killed(&mut self, host: &str) -> bool {
        let now_ns = self.now_ns();
        let Some(seen) = self.planned_kills.get_mut(host) else { return false };
        seen.get_or_insert(now_ns);
        true
    }

    /// Returns when an agent that was to be killed was first seen dead.
    pub(crate) fn killed_at_ns(&self, host: &str) -> Option<u64> {
        *self.planned_kills.get(host)?
    }

    /// Starts a new agent on a host whose agent was killed.
    ///
    /// # Errors
    /// If the host cannot be reached; the error is a sentence that names it.
    pub(crate) fn replace(&mut self, host: &Host) -> Result<(), String> {
        self.leave_one(&host.name);
        self.planned_kills.remove(&host.name);
        self.reach_one(host)
    }

    /// Returns a report if one has arrived.
    ///
    /// # Errors
    /// If the host is lost or could not carry out the order.
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

    /// Asks a host's agent to cancel its current work.
    pub(crate) fn cancel(&mut self, host: &str) {
        if let Ok(agent) = self.agent(host) {
            agent.cancel();
        }
    }

    /// Returns why a host is lost, or `None` if it isn't as far as we know.
    pub(crate) fn loss_reason(&self, host: &str) -> Option<&str> {
        self.agents.get(host)?.as_ref().err().map(String::as_str)
    }

    /// Returns true if a host has an agent that is still connected as far as we know.
    pub(crate) fn is_there(&self, host: &str) -> bool {
        matches!(self.agents.get(host), Some(Ok(_)))
    }

    /// Disconnects from a host. Its agent then undoes its changes. The host can be reached again.
    pub(crate) fn leave_one(&mut self, host: &str) {
        self.disconnect_keeping(host, 0);
    }

    /// Disconnects from a host, keeping only the first `left` steps in the record.
    fn disconnect_keeping(&mut self, host: &str, left: usize) {
        self.agents.remove(host);
        self.opened.remove(host);
        self.applied_steps.keep_of_host(host, left);
    }

    /// Disconnects from a host that has lost power. Only `left` of its applied steps are still in
    /// effect; the others need not be undone.
    pub(crate) fn note_power_loss(&mut self, host: &str, left: usize) {
        self.disconnect_keeping(host, left);
        self.after_power_loss.insert(host.to_owned());
    }

    /// Checks that a host's agent is still there.
    pub(crate) fn check_alive(&mut self, host: &str) -> Result<(), String> {
        let there = self.agent(host)?.check_alive();
        there.map_err(|gone| self.mark_lost(host, &gone.to_string()))
    }

    /// Returns the wakeup that agents signal when they have sent something.
    pub(crate) const fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Disconnects from all agents and waits until they exit. Returns a sentence for each one that
    /// could not undo all of its changes, including agents that were lost earlier.
    pub(crate) fn leave_agents(&mut self) -> Vec<(String, String)> {
        // Tell all agents to leave before waiting for the first one.
        for agent in self.agents.values_mut().flatten() {
            agent.leave();
        }
        let mut left = Vec::new();
        for (host, agent) in std::mem::take(&mut self.agents) {
            let why = match agent {
                Ok(mut agent) => agent.await_end(),
                // A lost agent is only worth mentioning if its host may still be changed.
                Err(why) if why.contains(LEFT_TO_AGENT) => Some(why),
                Err(_) => None,
            };
            if let Some(why) = why {
                left.push((host, why));
            }
        }
        left
    }

    /// Returns true if a host was opened for changes.
    pub(crate) fn may_be_changed(&self, host: &str) -> bool {
        self.opened.contains(host)
    }

    fn agent(&mut self, host: &str) -> Result<&mut dyn Transport, String> {
        match self.agents.get_mut(host) {
            Some(Ok(agent)) => Ok(agent.as_mut()),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("host {host} has no agent")),
        }
    }

    /// Marks a host as lost and records the reason.
    fn mark_lost(&mut self, host: &str, why: &str) -> String {
        let before = self.agents.insert(host.to_owned(), Err(why.to_owned()));
        if matches!(before, Some(Ok(_))) {
            self.lost_at_work.insert(host.to_owned());
        }
        why.to_owned()
    }
}
