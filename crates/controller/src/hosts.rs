//! Agents by the name of their host, started when a run first wants them.
//!
//! A host that can't be reached, or whose agent was lost, stays lost until the campaign's end:
//! each run that wants it fails with the same sentence. What was applied there is undone by the
//! agent itself, or by `dfsbench clean`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fleet::{Gone, Opening, Order, Reading, Report, Transport};
use model::{Host, LabSpec};

use crate::clock::{self, Drift};
use crate::stack::Stack;

/// A way to start an agent on a host.
pub type Launch<'a> = dyn FnMut(&Host) -> Result<Box<dyn Transport>, Gone> + 'a;

/// The agents of the hosts that a campaign sets up.
pub struct Hosts<'a> {
    launch: &'a mut Launch<'a>,
    read_clocks: &'a dyn Fn() -> Reading,
    opening: Opening,
    agents: BTreeMap<String, Result<Box<dyn Transport>, String>>,
    clocks: BTreeMap<String, Drift>,
    /// What is applied to them.
    stack: Stack,
}

impl<'a> Hosts<'a> {
    /// No agent yet. `read_clocks` reads this host's clocks; `campaign` names the campaign in the
    /// hosts' undo logs, and `allow_destroy` are the devices that may be formatted.
    pub fn new(
        launch: &'a mut Launch<'a>,
        read_clocks: &'a dyn Fn() -> Reading,
        campaign: String,
        allow_destroy: Vec<PathBuf>,
    ) -> Self {
        let opening = Opening { campaign, allow_destroy };
        let (agents, clocks) = (BTreeMap::new(), BTreeMap::new());
        Self { launch, read_clocks, opening, agents, clocks, stack: Stack::default() }
    }

    /// Sees that the hosts of a run have agents that are ready to change them.
    ///
    /// # Errors
    /// When one can't be reached or used; in a sentence that names it.
    pub(crate) fn reach(&mut self, lab: &LabSpec) -> Result<(), String> {
        lab.hosts().try_for_each(|host| self.reach_one(host))
    }

    fn reach_one(&mut self, host: &Host) -> Result<(), String> {
        if let Some(agent) = self.agents.get_mut(&host.name) {
            let there = agent.as_mut().map_err(|why| why.clone())?.look();
            return there.map_err(|gone| self.lose(&host.name, &gone.to_string()));
        }
        let agent = (self.launch)(host).map_err(|gone| gone.to_string());
        self.agents.insert(host.name.clone(), agent);
        let opened = self.ask(&host.name, Order::Open(self.opening.clone()));
        if let Err(why) = opened {
            return Err(self.lose(&host.name, &why));
        }
        let sample = self.sample(&host.name)?;
        self.clocks.insert(host.name.clone(), Drift::begin(sample));
        Ok(())
    }

    /// Works on what is applied.
    pub(crate) fn with_stack<T>(&mut self, work: impl FnOnce(&mut Stack, &mut Self) -> T) -> T {
        let mut stack = std::mem::take(&mut self.stack);
        let done = work(&mut stack, self);
        self.stack = stack;
        done
    }

    /// Gives an order that has one answer.
    ///
    /// # Errors
    /// When the host is lost or can't obey; in a sentence that names it.
    pub(crate) fn ask(&mut self, host: &str, order: Order) -> Result<Report, String> {
        self.send(host, order)?;
        self.receive(host)
    }

    /// Gives each of several hosts an order that has one answer, and waits for all of them: what
    /// came of each, as [`Hosts::ask`] has it.
    pub(crate) fn ask_each(&mut self, orders: Vec<(&str, Order)>) -> Vec<Result<Report, String>> {
        let given = orders.into_iter().map(|(host, order)| (host, self.send(host, order)));
        let given: Vec<_> = given.collect();
        given.into_iter().map(|(host, sent)| sent.and_then(|()| self.receive(host))).collect()
    }

    /// Gives an order.
    ///
    /// # Errors
    /// When the host is lost.
    pub(crate) fn send(&mut self, host: &str, order: Order) -> Result<(), String> {
        let sent = self.agent(host)?.send(order);
        sent.map_err(|gone| self.lose(host, &gone.to_string()))
    }

    /// Waits for a report.
    ///
    /// # Errors
    /// When the host is lost or could not obey.
    pub(crate) fn receive(&mut self, host: &str) -> Result<Report, String> {
        match self.agent(host)?.receive() {
            Ok(Report::Failed(why)) => Err(format!("host {host}: {why}")),
            Ok(report) => Ok(report),
            Err(gone) => Err(self.lose(host, &gone.to_string())),
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
        self.agents.remove(host);
        self.stack.forget(host);
    }

    /// Looks whether the hosts of a run are all there.
    ///
    /// # Errors
    /// When one isn't.
    pub(crate) fn look(&mut self, lab: &LabSpec) -> Result<(), String> {
        lab.hosts().try_for_each(|host| {
            let there = self.agent(&host.name)?.look();
            there.map_err(|gone| self.lose(&host.name, &gone.to_string()))
        })
    }

    /// Reads a host's clocks again and tells what that says of them.
    ///
    /// # Errors
    /// When the host is lost.
    pub(crate) fn drift(&mut self, host: &str) -> Result<Drift, String> {
        let sample = self.sample(host)?;
        let drift = self.clocks.entry(host.to_owned()).or_insert_with(|| Drift::begin(sample));
        drift.go_on(sample);
        Ok(*drift)
    }

    fn sample(&mut self, host: &str) -> Result<clock::Sample, String> {
        let mut best: Option<clock::Sample> = None;
        for _ in 0..clock::EXCHANGES {
            let sent = (self.read_clocks)();
            let Report::Clock(there) = self.ask(host, Order::Clock)? else {
                unreachable!("an agent answers Clock with Clock or Failed");
            };
            let sample = clock::Sample::of(sent, there, (self.read_clocks)());
            if best.is_none_or(|best| sample.error_ns < best.error_ns) {
                best = Some(sample);
            }
        }
        Ok(best.expect("there is at least one exchange"))
    }

    /// Undoes everything and leaves all agents; says what could not be undone.
    pub(crate) fn leave(&mut self) -> Vec<String> {
        let left = self.with_stack(Stack::clear);
        self.agents.clear();
        left
    }

    fn agent(&mut self, host: &str) -> Result<&mut dyn Transport, String> {
        match self.agents.get_mut(host) {
            Some(Ok(agent)) => Ok(agent.as_mut()),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("host {host}: it has no agent")),
        }
    }

    /// Leaves a host for good and keeps the reason.
    fn lose(&mut self, host: &str, why: &str) -> String {
        self.agents.insert(host.to_owned(), Err(why.to_owned()));
        why.to_owned()
    }
}
