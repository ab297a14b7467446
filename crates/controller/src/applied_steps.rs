//! The steps that are applied to the hosts of a campaign, as one applied_steps.
//!
//! Between two runs what [`lab::reusable_steps`] names is kept; the rest is undone from the top,
//! and what is new is applied. So only settings that changed, and what stands on them, are redone.
//! The same step on several hosts is taken on all of them at once. What lies on a lost host is
//! forgotten here: its agent undoes it by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::request;
use lab::reusable_steps;
use model::{Caveat, CaveatCode, Difference, EffectiveSettings, Fact, LabStep};

use crate::hosts::Hosts;

/// The applied steps, the oldest first, each with its outcome.
#[derive(Default)]
pub(crate) struct AppliedSteps {
    applied: Vec<Applied>,
}

type Applied = (LabStep, EffectiveSettings);

impl AppliedSteps {
    /// Brings the hosts to what is wanted.
    ///
    /// # Errors
    /// When a step can't be applied or undone, or `stop` is set; in a sentence. After a step that
    /// failed nothing is applied any more, as far as it could be undone.
    pub(crate) fn bring_to(
        &mut self,
        hosts: &mut Hosts<'_>,
        wanted: &[LabStep],
        stop: &AtomicBool,
    ) -> Result<(), String> {
        self.applied.retain(|(step, _)| hosts.lost(&step.host).is_none());
        let applied: Vec<LabStep> = self.applied.iter().map(|(step, _)| step.clone()).collect();
        let (stay, stand) = reusable_steps(&applied, wanted);
        // What goes is on top of its host, wherever it stands among the steps of others.
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.applied.drain(..).zip(stay).partition(|(_, stays)| *stays);
        let steps = |of: Vec<(Applied, bool)>| of.into_iter().map(|(applied, _)| applied);
        let kept_count = kept.len();
        self.applied.extend(steps(kept).chain(steps(gone)));
        self.undo_to(hosts, kept_count)?;
        let missing = wanted.iter().zip(stand).filter(|(_, stands)| !stands);
        let missing: Vec<&LabStep> = missing.map(|(step, _)| step).collect();
        let mut missing = missing.as_slice();
        while !missing.is_empty() {
            let (batch, rest) = missing.split_at(at_once(missing.iter().copied()));
            missing = rest;
            if stop.load(Relaxed) {
                return Err("interrupted".to_owned());
            }
            if let Err(why) = self.apply(hosts, batch) {
                let further = self.clear(hosts).into_iter().filter(|left| *left != why);
                let all: Vec<String> = [why.clone()].into_iter().chain(further).collect();
                return Err(all.join("; "));
            }
        }
        self.sort_as(wanted);
        Ok(())
    }

    /// Applies steps to as many hosts.
    fn apply(&mut self, hosts: &mut Hosts<'_>, batch: &[&LabStep]) -> Result<(), String> {
        let requests =
            batch.iter().map(|step| (step.host.as_str(), request::apply(step.action.clone())));
        let mut refused = Vec::new();
        for (step, answer) in batch.iter().zip(hosts.ask_each(requests.collect())) {
            match answer {
                Ok(effective) => self.applied.push(((*step).clone(), effective)),
                Err(why) => refused.push(why),
            }
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
    }

    /// Puts what is applied in the order of what was wanted, which is that of each host already.
    fn sort_as(&mut self, wanted: &[LabStep]) {
        let mut of_hosts: BTreeMap<String, VecDeque<Applied>> = BTreeMap::new();
        for applied in self.applied.drain(..) {
            of_hosts.entry(applied.0.host.clone()).or_default().push_back(applied);
        }
        let next = |step: &LabStep| of_hosts.get_mut(&step.host).and_then(VecDeque::pop_front);
        self.applied = wanted.iter().filter_map(next).collect();
    }

    /// Undoes from the top until so many are left.
    ///
    /// # Errors
    /// When one can't be undone, which then stays on top.
    pub(crate) fn undo_to(&mut self, hosts: &mut Hosts<'_>, kept: usize) -> Result<(), String> {
        while self.applied.len() > kept {
            let top = at_once(self.applied[kept..].iter().rev().map(|(step, _)| step));
            let batch = self.applied.split_off(self.applied.len() - top);
            let (there, _lost): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|(step, _)| hosts.lost(&step.host).is_none());
            let orders = there.iter().map(|(step, _)| (step.host.as_str(), request::undo_last()));
            let answers = hosts.ask_each(orders.collect());
            let mut refused = Vec::new();
            for (applied, answer) in there.into_iter().zip(answers) {
                if let Err(why) = answer {
                    self.applied.push(applied);
                    refused.push(why);
                }
            }
            if !refused.is_empty() {
                let refused = refused.join("; ");
                return Err(format!("what was done before can't be undone: {refused}"));
            }
        }
        Ok(())
    }

    /// Undoes everything, and goes on with the other hosts where one can't; says what is left.
    pub(crate) fn clear(&mut self, hosts: &mut Hosts<'_>) -> Vec<String> {
        let mut stuck = BTreeSet::new();
        let mut left = Vec::new();
        while !self.applied.is_empty() {
            let top = at_once(self.applied.iter().rev().map(|(step, _)| step));
            let batch = self.applied.split_off(self.applied.len() - top);
            let names = batch.into_iter().rev().map(|(step, _)| step.host);
            let there = |host: &String| hosts.lost(host).is_none() && !stuck.contains(host);
            let there: Vec<String> = names.filter(there).collect();
            let orders = there.iter().map(|host| (host.as_str(), request::undo_last()));
            let answers = hosts.ask_each(orders.collect());
            for (host, answer) in there.iter().zip(answers) {
                if answer.is_err() {
                    // Its agent goes on past what it can't undo, and tells of all of it.
                    left.extend(hosts.ask(host, request::undo_all()).err());
                    stuck.insert(host.clone());
                }
            }
        }
        left
    }

    /// Forgets what is applied to a host, since its agent undoes it.
    pub(crate) fn forget(&mut self, host: &str) {
        self.applied.retain(|(step, _)| step.host != host);
    }

    /// Returns the settings that are effective, under the names of the hosts.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let of = |(step, effective): &(LabStep, EffectiveSettings)| {
            on_host(&step.host, effective.facts.clone())
        };
        self.applied.iter().flat_map(of).collect()
    }

    /// Returns a sentence for each setting that is not as it was requested.
    pub(crate) fn differences(&self) -> Vec<String> {
        let all = self.applied.iter().flat_map(|(step, effective)| {
            effective
                .differences
                .iter()
                .map(|difference| describe_difference(&step.host, difference))
        });
        all.collect()
    }

    /// A caveat for each.
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        let caveat = |told: String| CaveatCode::OptionNotEffective.because(told);
        self.differences().into_iter().map(caveat).collect()
    }
}

/// How many of the first steps may be taken at one moment: of one kind, each on another host.
fn at_once<'a>(steps: impl Iterator<Item = &'a LabStep>) -> usize {
    let mut hosts: BTreeSet<&'a str> = BTreeSet::new();
    let mut kind = None;
    let steps = steps.map(|step| (step.host.as_str(), discriminant(&step.action)));
    steps
        .take_while(|(host, this)| *kind.get_or_insert(*this) == *this && hosts.insert(host))
        .count()
}

/// Facts that an agent told of its host.
pub(crate) fn on_host(host: &str, mut facts: Vec<Fact>) -> Vec<Fact> {
    for fact in &mut facts {
        host.clone_into(&mut fact.scope);
    }
    facts
}

fn describe_difference(host: &str, difference: &Difference) -> String {
    let Difference { name, requested, found, source } = difference;
    format!("{name} on host {host}: asked for {requested}, found {found} ({source})")
}
